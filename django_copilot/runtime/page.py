"""The page a person is on, checked: an address is worth no more than what she may see at it."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import unquote as unquote_url
from urllib.parse import urlsplit

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import unquote
from django.urls import Resolver404, resolve

from ..access import Access
from ..exceptions import CallError
from ..scope import Scope, enter_scope

logger = logging.getLogger("django_copilot")


def page_context(site: AdminSite, scope: Scope, user: Any, page: str | None) -> dict[str, Any] | None:
    """Return {"entity", "id"?} of an admin page of this site, or None for anything else.

    It is help and nothing more: whatever goes wrong is logged, and there is no page then.
    """
    if not page:
        return None
    try:
        return _page_context(site, scope, user, page)
    except Exception:
        logger.exception("The page that a person is on could not be looked at.")
        return None


def _page_context(site: AdminSite, scope: Scope, user: Any, page: str) -> dict[str, Any] | None:
    try:
        match = resolve(unquote_url(urlsplit(page).path).removeprefix(scope.script))
    except (Resolver404, ValueError):
        return None
    model_admin: Any = getattr(match.func, "model_admin", None)
    if model_admin is None or site.name not in match.namespaces:
        return None
    if not any(each is model_admin for each in site._registry.values()):
        return None
    with enter_scope(scope, user.pk, just_loaded=user) as request:
        entity = Access(site, request).of_model(model_admin.model)
        if entity is None:
            return None
        told: dict[str, Any] = {"entity": entity.name}
        object_id = match.kwargs.get("object_id")
        if object_id is not None:
            try:
                obj = entity.record(unquote(object_id))
            except CallError:
                return told
            told["id"] = entity.ids([obj])[obj.pk]
        return told
