"""The page on which the assistant of a site is turned off and on.

It asks for a right of its own and not for the one to use the assistant, and works while that is turned off.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from .. import switch
from ..access import may_use
from ..declaration import has_entities
from ..exceptions import Denied
from ..models import Switch
from ..people import who_decides
from ..plans.texts import code_text
from ..scope import Scope
from ..values import made_visible
from .base import ApiError, OwnPage, json_answer, sent_fields, wants_json


class OperatorPage(OwnPage):
    """A page for those who look after the assistant; they need not use it."""

    permission = ""

    def admit_person(self, request: HttpRequest) -> Scope:
        """Admit staff of the site with the page's permission."""
        if not has_entities(self.site):
            raise Http404
        if may_use(self.site, request.user, request) == "not_staff":
            raise ApiError(403, "not_staff")
        if not request.user.has_perm(self.permission):
            raise ApiError(403, "not_allowed")
        return self.scope_here(request)

    def scope_here(self, request: HttpRequest) -> Scope:
        """Return the scope of an admitted person."""
        return Scope(site=self.site.name)

    def _refuse(self, request: HttpRequest, error: ApiError) -> HttpResponse:
        code = str(error.code)
        if error.status_code != 403 or code in ("not_staff", "csrf_failed"):
            return super()._refuse(request, error)
        text = code_text(code)  # what stands against deciding, and not against using the assistant
        if wants_json(request):
            return json_answer({"code": code, "detail": text}, error.status_code)
        page = self.page(request, "refused.html", title=text)
        page.status_code = error.status_code
        return page


class SwitchView(OperatorPage):
    """How the switch stands, who turned it when and why, and the button that turns it."""

    http_method_names = ["get", "head", "post"]
    permission = "django_copilot.use_switch"

    def admit_person(self, request: HttpRequest) -> Scope:
        """Admit who may turn it, as herself, and is no service account.

        The project's own scope is not asked for: the switch is the site's, and has to work when that is broken.
        """
        scope = super().admit_person(request)
        try:
            who_decides(request)
        except Denied as denied:
            raise ApiError(denied.status, denied.code) from None
        return scope

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the state as a page or as JSON."""
        now = switch.state_of(self.site.name)
        if wants_json(request):
            return json_answer(_as_json(now))
        return self.page(
            request,
            "switch.html",
            title=_("Turn the assistant off and on"),
            off=now.is_off,
            changed_at=now.changed_at,
            changed_by=_name_of(now),
            reason=made_visible(now.reason),
            reason_length=switch.REASON_LENGTH,
        )

    def post(self, request: HttpRequest) -> HttpResponse:
        """Turn it as ``off`` says, "on" or "" (as JSON also true or false), and answer with the state."""
        given = sent_fields(request)
        off, reason = given.get("off"), given.get("reason", "")
        if (off not in ("on", "") and not isinstance(off, bool)) or not isinstance(reason, str):
            raise ApiError(400, "invalid")
        switch.turn(self.site.name, off=bool(off), by=request.user, reason=reason)
        now = switch.state_of(self.site.name)
        if wants_json(request):
            return json_answer(_as_json(now))
        text = _("The assistant is turned off now.") if now.is_off else _("The assistant is turned on now.")
        messages.success(request, text, fail_silently=True)
        answer = self.go("django_copilot_switch")
        answer.status_code = 303
        return answer


def _as_json(now: Switch) -> dict[str, Any]:
    return {
        "off": now.is_off,
        "changedAt": now.changed_at.isoformat() if now.changed_at is not None else None,
        "changedBy": _name_of(now),
        "reason": now.reason,
    }


def _name_of(now: Switch) -> str:
    """Return what people call who turned it last, "" when nobody did."""
    if now.changed_at is None:
        return ""
    if not now.changed_by:
        return _("the command line")
    user_model = get_user_model()
    try:
        user = user_model._base_manager.filter(pk=now.changed_by).first()
    except (ValueError, ValidationError):
        user = None
    return made_visible(user.get_username()) if user is not None else _("an account that is gone")
