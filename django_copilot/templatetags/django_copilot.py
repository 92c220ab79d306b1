"""The one tag that hangs the panel into the admin's pages."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin import AdminSite, sites
from django.middleware.csrf import get_token
from django.template.context import RequestContext
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils import timezone, translation
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_copilot.access import may_do_anything
from django_copilot.backends import get_backend
from django_copilot.declaration import has_entities
from django_copilot.scope import PERMISSION

register = template.Library()


@register.simple_tag(takes_context=True)
def copilot_panel(context: RequestContext) -> SafeString:
    """Return the panel's link and script for a person who may use it on this page, else nothing.

    Costs no query where the admin has asked for the person's permissions already, as its own pages do.
    """
    request: Any = context.get("request")
    site = _site_of(request) if request is not None else None
    if site is None or not context.get("has_permission") or context.get("is_popup"):
        return SafeString("")
    user = getattr(request, "user", None)
    if (
        user is None
        or not user.is_active
        or not user.has_perm(PERMISSION)
        or not may_do_anything(site, request)
    ):
        return SafeString("")
    try:
        chat = reverse("admin:django_copilot_chat", current_app=site.name)
    except NoReverseMatch:
        return SafeString("")
    return render_to_string(
        "django_copilot/panel.html",
        {
            "chat": chat,
            "conversations": reverse("admin:django_copilot_conversation_changelist", current_app=site.name),
            "inbox": reverse("admin:django_copilot_plan_changelist", current_app=site.name),
            "root": reverse("admin:index", current_app=site.name),
            "csrf": get_token(request),
            "lang": translation.get_language() or "en",
            "zone": timezone.get_current_timezone_name(),
            "site": site.name,
            **_words_of_backend(),
            "draft": context.get("copilot_draft"),
            "nonce": context.get("csp_nonce") or getattr(request, "csp_nonce", ""),
        },
    )


def _site_of(request: Any) -> AdminSite | None:
    """Return the AdminSite whose page this is, from the view that answers, or from its address.

    A page of a project's own is known by its namespace alone. A site that was replaced may still be around
    under the same name; it has no entities.
    """
    match = getattr(request, "resolver_match", None)
    func = getattr(match, "func", None)
    owner = getattr(func, "model_admin", None) or func
    site = getattr(owner, "admin_site", None)
    if hasattr(site, "_registry"):
        return site
    names = getattr(match, "namespaces", ())
    return next((each for each in sites.all_sites if each.name in names and has_entities(each)), None)


def _words_of_backend() -> dict[str, str]:
    """Return what people are told of the backend before they write. One that can't be made has no words."""
    try:
        backend = get_backend()
        ready = getattr(backend, "is_configured", True)
        words = "" if ready else _("The assistant is not available: no model is set up on this site.")
        return {"label": str(backend.label), "unavailable": words}
    except Exception:  # the chat says and logs what is wrong; the admin's pages must not fail of it
        return {"label": "", "unavailable": ""}
