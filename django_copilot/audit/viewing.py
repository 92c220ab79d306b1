"""What one person may see of an entry's values: what she could see elsewhere, and nothing on top.

Her own words are hers alone. A value of a record is shown where her own admin shows that field of that record
to her today. Everything else is hidden: a value that belongs to nobody, an error in a project's hook, a
session that is somebody else's.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.translation import gettext as _

from ..access import Access
from ..declaration import never_readable
from ..exceptions import CallError, ConfigurationError, ScopeUnavailable
from ..identity import key_is_data
from ..models import AuditEntry, AuditValue
from ..people import person_key, real_actor
from ..scope import capture_scope, enter_scope
from ..values import made_visible

logger = logging.getLogger("django_copilot")


@dataclass(frozen=True, kw_only=True)
class SeenValue:
    """One value as one person sees it."""

    name: str
    text: str
    is_shown: bool  # else the text says why not
    of: str  # whose or what it is


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one person may see of an entry beyond its plain columns."""

    values: list[SeenValue]
    about: Any


def see(request: HttpRequest, site: AdminSite, entry: AuditEntry) -> Seen:
    """Return what the person of a page's own request may see of an entry."""
    with ExitStack() as stack:
        access: Access | None = None
        try:
            own = stack.enter_context(enter_scope(capture_scope(request, site), request.user.pk))
            access = Access(site, own)
        except (ConfigurationError, ScopeUnavailable) as error:
            logger.error("Values of records in the audit can't be shown: %s", error)
        viewer = _Viewer(request, access)
        values = [viewer.show(each) for each in entry.values.order_by("name")]
        return Seen(values=values, about=viewer.without_keys(entry.about))


class _Viewer:
    def __init__(self, request: HttpRequest, access: Access | None) -> None:
        self.access = access
        # Who acts as somebody else is not the one whose words these are.
        self.key = person_key(request.user) if _acts_herself(request) else ""
        self.records: dict[tuple[str, str], tuple[bool, frozenset[str]]] = {}

    def show(self, value: AuditValue) -> SeenValue:
        """Return a value, or why it is not shown."""
        text, is_shown = _("hidden"), False
        if value.erased_at is not None:
            text = _("erased")
        elif self.may_see(value):
            text, is_shown = as_text(value.value), True
        return SeenValue(
            name=made_visible(value.name), text=text, is_shown=is_shown, of=made_visible(self.of(value))
        )

    def may_see(self, value: AuditValue) -> bool:
        """Tell whether the viewer could see the value elsewhere."""
        if not value.person and not value.model:
            return False
        if value.person and (not self.key or value.person != self.key):
            return False
        return not value.model or value.field in self._shown_fields(value.model, value.object_pk)

    def of(self, value: AuditValue) -> str:
        """Return whose a value is, or of which record and field."""
        if not value.model:
            return value.person
        return f"{value.model} {self.key_of(value.model, value.object_pk)} {value.field}".strip()

    def key_of(self, label: str, object_pk: str) -> str:
        """Return a record's key, unless it may tell something of a record that the viewer may not see."""
        model = _model(label)
        if object_pk and (model is None or key_is_data(model)) and not self._record(label, object_pk)[0]:
            return _("hidden")
        return object_pk

    def without_keys(self, about: Any) -> Any:
        """Return JSON in which keys of records are hidden as ``key_of`` hides them."""
        match about:
            case {"model": str(label), "pk": pk, **rest} if pk is not None:
                return {"model": label, "pk": self.key_of(label, str(pk)), **self.without_keys(rest)}
            case dict():
                return {name: self.without_keys(each) for name, each in about.items()}
            case list():
                return [self.without_keys(each) for each in about]
        return about

    def _shown_fields(self, label: str, object_pk: str) -> frozenset[str]:
        return self._record(label, object_pk)[1]

    def _record(self, label: str, object_pk: str) -> tuple[bool, frozenset[str]]:
        """Return whether the viewer may see a record, and the fields of it that her own admin shows."""
        if (label, object_pk) not in self.records:
            self.records[label, object_pk] = self._ask(label, object_pk)
        return self.records[label, object_pk]

    def _ask(self, label: str, object_pk: str) -> tuple[bool, frozenset[str]]:
        model = _model(label)
        if self.access is None or not object_pk or model is None:
            return False, frozenset()
        entity = self.access.registered(model)
        if entity is None:
            return False, frozenset()
        try:
            obj = entity.record(object_pk)
            with entity.at("change", obj):
                shown = entity.shows(obj)
        except CallError:
            return False, frozenset()
        return True, frozenset(name for name in shown if not never_readable(model, name))


def _model(label: str) -> Any:
    try:
        return apps.get_model(label)
    except (LookupError, ValueError):
        return None


def _acts_herself(request: HttpRequest) -> bool:
    try:
        return real_actor(request) is None
    except Exception:
        logger.exception(
            "Whether somebody is impersonated can't be told, so no words are shown in the audit."
        )
        return False


def as_text(value: Any) -> str:
    """Return a JSON value as text in which every character can be seen."""
    if isinstance(value, str):
        return made_visible(value)
    return made_visible(json.dumps(value, ensure_ascii=False, indent=2))
