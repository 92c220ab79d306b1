"""What a person is shown of a plan: each viewer only what her own admin shows her, in her own language.

Texts come from the stored document and from templates of the server, never from a model; what is the model's
words is marked as such. Characters that hide or reorder others are made visible.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from ..access import Access, EntityAccess
from ..declaration import model_field
from ..display import display, field_label
from ..exceptions import CallError, ScopeUnavailable
from ..models import Plan, PlanState
from ..people import is_service_account
from ..reading import cut, run_record
from ..scope import enter_scope, page_url
from ..tools.document import untyped
from ..tools.write import all_tools
from ..values import made_visible
from .deciders import Decider
from .rights import sees_all, why_not_approver
from .states import OPEN, effective, now_of
from .texts import code_text
from .undoing import can_be_undone

logger = logging.getLogger("django_copilot")

NOW_CHARS = 400  # of a new value, towards the model


def as_json(plan: Plan, by: Decider) -> dict[str, Any]:
    """Return the plan as this person may see it. ``plan`` was loaded with the database's time."""
    try:
        with enter_scope(by.scope, by.user.pk) as request:
            return _Projection(plan, by, Access(by.site, request)).as_json()
    except ScopeUnavailable as error:
        logger.error("A plan can't be shown: %s", error)
        return _Projection(plan, by, None).as_json()


_PLACES = re.compile(r"%\((\w+)\)s|%%")


class _Projection:
    def __init__(self, plan: Plan, by: Decider, access: Access | None) -> None:
        self.plan, self.by, self.access = plan, by, access
        self.document: Mapping[str, Any] = plan.document
        self.is_own = plan.user_id is not None and plan.user_id == by.user.pk
        self.state = effective(plan)
        self.warned = False
        self.obj, self.entity = self._record(plan.model, plan.object_pk)
        # Whoever may approve in general finds that there is a plan, and no more unless she sees all of it.
        self.blind = not self.is_own and (access is None or not sees_all(plan, access))
        self.shown: frozenset[str] = frozenset()
        if self.obj is not None and self.entity is not None:
            try:
                with self.entity.at("change", self.obj):
                    self.shown = self.entity.shows(self.obj)
            except CallError:
                pass

    def as_json(self) -> dict[str, Any]:
        plan, tool = self.plan, all_tools().get(self.plan.tool)
        title = str(tool.title) if tool is not None else plan.tool
        ends = plan.approve_by if plan.state == PlanState.AWAITING_APPROVAL else plan.expires_at
        changes = [] if self.blind else [self._change(each) for each in self.document.get("changes", ())]
        body: dict[str, Any] = {
            "id": str(plan.pk),
            "tool": plan.tool,
            "category": plan.category,
            "state": str(self.state),
            "stateLabel": str(self.state.label),
            "title": self.clean(title),
            "summary": self.clean(self._summary(title)),
            "changes": changes,
            "effects": [self._effect(each) for each in self._effects()],
            "arguments": self._arguments(),
            "actingAs": "" if self.blind else self.clean(self.document.get("acting_as", "")),
            "touched": [self._field_label(name) for name in self.document.get("touched", ())],
            "reversible": bool(self.document.get("reversible"))
            and not plan.undo_of_id
            and self.state in (*OPEN, PlanState.EXECUTING, PlanState.EXECUTED),
            "needsApproval": plan.needs_approval,
            "expiresAt": ends.isoformat() if ends else None,
            "secondsLeft": max(0, int((ends - now_of(plan)).total_seconds())) if ends else 0,
            "digest": plan.digest,
            "result": self._result(),
            "resultRows": self._result_rows(),
            "reason": self.clean(plan.reason) or (code_text(plan.code) if plan.code else ""),
            "code": plan.code,
            "verb": self.clean(title),
            "requester": "" if self.is_own else self.clean(str(plan.user or "")),
            "isUndo": bool(plan.undo_of_id),
            "createdAt": plan.created_at.isoformat(),
            "recordUrl": self._record_url(),
        }
        body["can"] = self._can()
        body["canContinue"] = self._can_continue()
        body["warnings"] = (
            [_("Some of these values hold characters that can't be seen; they are written as their codes.")]
            if self.warned
            else []
        )
        return body | urls_of(plan)

    # -- parts ---------------------------------------------------------------------------------------

    @property
    def _model(self) -> Any:
        """Return the model, None when its app is not installed any more."""
        try:
            return apps.get_model(self.plan.model)
        except LookupError:
            return None

    def _field(self, name: str) -> Any:
        return model_field(self._model, name) if self._model is not None else None

    def _field_label(self, name: str) -> str:
        return field_label(self._model, name) if self._model is not None else name

    def clean(self, text: Any) -> str:
        """Return text with nothing hidden in it, and remember if there was something."""
        shown = made_visible(str(text))
        self.warned = self.warned or shown != str(text)
        return shown

    def _record(self, label: str, pk: str) -> tuple[Any, EntityAccess | None]:
        """Return a record that this viewer may see, and its entity, or (None, None)."""
        try:
            model = apps.get_model(label)
            entity = self.access.registered(model) if self.access is not None else None
            return (entity.record(pk), entity) if entity is not None else (None, None)
        except (CallError, LookupError):
            return None, None

    def _summary(self, title: str) -> str:
        name = str(self._model._meta.verbose_name) if self._model is not None else self.plan.model
        record = str(self.obj) if self.obj is not None else f"{name} {self.plan.object_pk}"
        own = self.document.get("summary", {})
        if own.get("text") and not self.blind:
            record = self._effect(own)
        if self.plan.undo_of_id:
            return _("Undo: %(tool)s, %(record)s") % {"tool": title, "record": record}
        return _("%(tool)s: %(record)s") % {"tool": title, "record": record}

    def _change(self, change: Mapping[str, str]) -> dict[str, Any]:
        """Return one change; the old value only where this viewer's admin shows her that field."""
        name = change["field"]
        field = self._field(name)
        hidden = name not in self.shown
        given = set(self._said())
        return {
            "field": name,
            "label": self.clean(self._field_label(name)),
            "old": None if hidden else self._value(field, change["old"]),
            # What an undo puts back is what the record held before.
            "new": None if hidden and self.plan.undo_of_id else self._value(field, change["new"]),
            "origin": "model" if change["new"] in given else "system",
            **({"oldHidden": True} if hidden else {}),
        }

    def _said(self) -> Sequence[str]:
        """Return the typed texts of the model's own arguments."""
        return list(self.document.get("arguments", {}).get("model", {}).values())

    def _value(self, field: Any, text: str) -> str:
        value = untyped(text)
        if field is not None and (field.many_to_many or field.remote_field is not None):
            pairs = value if isinstance(value, list) else [value] if value is not None else []
            return self.clean(", ".join(self._label(label, pk) for label, pk in pairs))
        return self.clean(display(field, value))

    def _label(self, label: str, pk: str) -> str:
        """Return a related record's label where the viewer may see that record, else its key."""
        obj, _entity = self._record(label, pk)
        return str(obj) if obj is not None else pk

    def _effects(self) -> list[Mapping[str, Any]]:
        if self.blind:
            return []
        return [*self.document.get("effects", ()), *self.document.get("dry_run", ())]

    def _effect(self, effect: Mapping[str, Any]) -> str:
        values = {name: self._plain(value) for name, value in effect["values"].items()}
        text = _(effect["text"]) if effect["text"] else ""
        # Only the names that were given: data in a text is no format.
        return self.clean(
            _PLACES.sub(lambda found: str(values.get(found[1], found[0])) if found[1] else "%", text)
            if values
            else text
        )

    def _plain(self, text: str) -> str:
        value = untyped(text)
        if isinstance(value, list):
            each = (self._label(*one) if isinstance(one, tuple) else display(None, one) for one in value)
            return ", ".join(each)
        return self._label(*value) if isinstance(value, tuple) else display(None, value)

    def _arguments(self) -> list[dict[str, str]]:
        told = []
        tool = all_tools().get(self.plan.tool)
        # In the order of their declaration; a database may keep them in another one.
        place = {name: number for number, name in enumerate(tool.arguments if tool is not None else ())}
        for origin in ("model", "system"):
            given = {} if self.blind else self.document.get("arguments", {}).get(origin, {})
            for name, text in sorted(
                given.items(), key=lambda each: (place.get(each[0], len(place)), each[0])
            ):
                told.append(
                    {
                        "name": name,
                        "label": self.clean(_(name.replace("_", " ")).capitalize()),
                        "value": self.clean(self._plain(text)),
                        "origin": origin,
                    }
                )
        return told

    def _result(self) -> dict[str, Any] | None:
        """Return what the operation gave, with nothing hidden in its texts."""
        if self.blind or not isinstance(self.plan.result, dict):
            return None
        return {
            name: self.clean(value) if isinstance(value, str) else value
            for name, value in self.plan.result.items()
        }

    def _result_rows(self) -> list[dict[str, str]]:
        if self.blind or not isinstance(self.plan.result, dict):
            return []
        return [
            {"label": self.clean(_(str(name).replace("_", " ")).capitalize()), "value": self.clean(value)}
            for name, value in self.plan.result.items()
            if isinstance(value, str | int | float | bool)
        ]

    def _record_url(self) -> str:
        if self.obj is None or self.entity is None:
            return ""
        try:
            return page_url(self.entity.model_admin, "change", quote(self.obj.pk))
        except NoReverseMatch:
            return ""

    # -- what can be done ----------------------------------------------------------------------------

    def _can(self) -> list[str]:
        plan, state = self.plan, self.state
        acts = not self.by.impersonated and not is_service_account(self.by.user)
        can: list[str] = []
        tool = all_tools().get(plan.tool)
        approver = state in (PlanState.AWAITING_APPROVAL, PlanState.UNCERTAIN) and (
            not self.is_own and acts and why_not_approver(plan, self.by) == ""
        )
        if self.is_own and acts:
            if state is PlanState.PROPOSED:
                can.append("confirm")
            if state is PlanState.UNCERTAIN:
                can.append("retry")
            if can_be_undone(plan):
                can.append("undo")
            if state in (PlanState.EXPIRED, PlanState.STALE) and not plan.undo_of_id:
                can.append("again")
        if approver and state is PlanState.AWAITING_APPROVAL:
            can.append("approve")
        if state in OPEN and (self.is_own or approver):
            can.append("reject")
        looks = tool is not None and tool.has_step("look_up") and (approver or (self.is_own and acts))
        if state is PlanState.UNCERTAIN and looks:
            can.append("look_up")
        if state is PlanState.UNCERTAIN and approver:
            can.append("settle")
        return can

    def _can_continue(self) -> bool:
        turn = self.plan.turn
        return bool(
            self.is_own
            and turn is not None
            and turn.stored
            and turn.stored.get("plan") == str(self.plan.pk)
            and self.state not in (*OPEN, PlanState.EXECUTING, PlanState.UNCERTAIN)
        )


def urls_of(plan: Plan) -> dict[str, str]:
    """Return the addresses of a plan's page and of everything that can be done with it."""
    names = {
        "url": "detail",
        "confirmUrl": "confirm",
        "rejectUrl": "reject",
        "approveUrl": "approve",
        "undoUrl": "undo",
        "againUrl": "again",
        "lookUpUrl": "look_up",
        "settleUrl": "settle",
    }
    return {
        key: reverse(f"admin:django_copilot_plan_{name}", args=[plan.pk], current_app=plan.site)
        for key, name in names.items()
    }


def for_model(plan: Plan, access: Access) -> dict[str, Any]:
    """Return what the model is told of a decision: the state, and no value that it may not read."""
    state = effective(plan)
    told: dict[str, Any] = {"plan": str(plan.pk), "status": str(state)}
    if state is PlanState.REJECTED:
        told["message"] = "NOT EXECUTED: declined by a person: " + (plan.reason or "no reason given")
    elif state is PlanState.EXECUTED:
        told["message"] = "EXECUTED. The person confirmed it."
        now = _now(plan, access)
        if now:
            told["now"] = now
    elif state is PlanState.UNDONE:
        told["message"] = "EXECUTED, and undone by the person since."
    elif state is PlanState.UNCERTAIN:
        told["message"] = "Nobody knows yet whether this was executed. Do not propose it again."
    elif state in (PlanState.AWAITING_APPROVAL, PlanState.EXECUTING):
        told["message"] = "NOT EXECUTED yet."
    else:
        told["message"] = f"NOT EXECUTED: {state}."
    return told


def _now(plan: Plan, access: Access) -> dict[str, Any]:
    """Return what the record holds in the changed fields, as far as the model may read them; no relations.

    Nothing where a handle stood in the call: one of them may be what it stands for.
    Together it stays short enough to be told at the end of the longest turn.
    """
    entity = access.labelled(plan.model)
    if entity is None or not entity.can_view or "handled" in plan.document:
        return {}
    try:
        values = run_record(entity, entity.record(plan.object_pk))
    except CallError:
        return {}
    told: dict[str, Any] = {}
    for name in (each["field"] for each in plan.document.get("changes", ())):
        field = model_field(entity.model, name)
        if name in values and field is not None and field.remote_field is None:
            more = {**told, name: cut(values[name], NOW_CHARS)}
            size = len(json.dumps(more, ensure_ascii=False).encode("utf-8", "replace"))
            told = more if size <= 5 * NOW_CHARS else told
    return told
