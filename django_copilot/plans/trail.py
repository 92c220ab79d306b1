"""What the audit is told of plans. Every function returns an entry; who changes a plan appends it, last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .. import audit
from ..backends.base import ToolCall
from ..exceptions import Denied
from ..models import Message, Plan, PlanKind, Turn
from ..reading import merge
from ..tools.base import Failed, Outcome, ReadDone, Told
from ..values import clean_text
from .deciders import Decider


def entry(
    plan: Plan,
    event: str,
    *,
    by: Decider | None = None,
    code: str = "",
    about: Mapping[str, Any] | None = None,
    values: tuple[audit.Value, ...] = (),
) -> audit.Record:
    """Return an entry about a plan: who did what, to which digest, and why it did not go on."""
    return audit.Record(
        event=event,
        code=code[:40],
        actor=by.key if by is not None else "",
        real_actor=by.real_key if by is not None else "",
        conversation=str(plan.conversation_id or ""),
        turn=str(plan.turn_id or ""),
        plan=str(plan.pk),
        tool=plan.tool,
        about={"digest": plan.digest, "version": plan.version, "state": str(plan.state), **(about or {})},
        values=values,
    )


def person_of(plan: Plan) -> str:
    """Return the key of the person who asked for a plan, "" once her account is gone and nobody confirmed it."""
    return str(plan.user_id or plan.confirmed_by)[:64]


def proposed(plan: Plan, *, asked: Mapping[str, Any], by: Decider | None = None) -> audit.Record:
    """Return the entry of a new plan: the person's words, the whole document, and the versions behind it."""
    requester = person_of(plan)
    values = [*_words(plan, requester)]
    for name, value in plan.arguments.items():
        values.append(audit.Value(name=f"argument {name}"[:100], value=value, person=requester))
    document = plan.document
    values += [
        audit.Value(
            name=f"{side} {each['field']}"[:100],
            value=each[side],
            label=plan.model,
            object_pk=plan.object_pk[:200],
            field=each["field"][:100],
        )
        for each in document.get("changes", ())
        for side in ("old", "new")
    ]
    values += [
        audit.Value(name=name, value=document[name], person=requester)
        for name in ("summary", "effects", "dry_run", "acting_as", "payload")
        if document.get(name)
    ]
    if document.get("arguments", {}).get("system"):
        values.append(
            audit.Value(name="system arguments", value=document["arguments"]["system"], person=requester)
        )
    about = {
        **asked,
        "category": plan.category,
        "needs_approval": plan.needs_approval,
        "target": document.get("target"),
        "records": [
            {name: each[name] for name in ("model", "pk", "version")} for each in document.get("records", ())
        ],
        "undo_of": str(plan.undo_of_id or ""),
        "made_from": str(plan.made_from_id or ""),
    }
    record = entry(plan, "proposed", by=by, about=about, values=tuple(values))
    if by is not None:
        return record
    return audit.Record(**{**vars(record), "actor": requester, "real_actor": plan.proposed_by})


def _words(plan: Plan, requester: str) -> list[audit.Value]:
    if plan.turn_id is None:
        return []
    said = Message.objects.filter(turn_id=plan.turn_id, role=Message.Role.USER).order_by("-id").first()
    return [audit.Value(name="words", value=said.text, person=requester)] if said is not None else []


def refused(plan: Plan, by: Decider, code: str, *, status: int = 409, text: str = "") -> Denied:
    """Append that something was not done with a plan, and return what the caller raises."""
    audit.append(plan.site, plan.scope_key, entry(plan, "refused", by=by, code=code))
    return Denied(code, status=status, plan=plan, text=text)


def reason(text: str, by: Decider) -> tuple[audit.Value, ...]:
    """Return a person's reason as a value of an entry."""
    return (audit.Value(name="reason", value=text, person=by.key),) if text else ()


def tool_call(
    turn: Turn, call: ToolCall, outcome: Outcome, *, words: str, model: str, prompt: str, real_actor: str = ""
) -> audit.Record:
    """Return the entry of a tool call: what was asked for, how it ended, and what goes to the provider of it."""
    sent: dict[str, Any] = {}
    code = ""
    match outcome:
        case ReadDone():
            size = len(json.dumps(outcome.content))
            told = merge({outcome.entity: outcome.sent_fields}, outcome.told)
            sent = {
                "entities": {label: list(fields) for label, fields in told.items()},
                "rows": outcome.sent_rows,
                "bytes": size,
            }
        case Told():
            sent = {"entities": list(outcome.told), "bytes": len(json.dumps(outcome.content))}
        case Failed():
            code = str(outcome.content["error"]["code"])
        case _:
            pass
    return audit.Record(
        event="tool_call",
        code=code[:40],
        actor=str(turn.user_id),
        real_actor=real_actor,
        conversation=str(turn.conversation_id or ""),
        turn=str(turn.pk),
        tool=call.name[:64] if call.name.isprintable() else "?",
        about={"outcome": type(outcome).__name__.lower(), "sent": sent, "model": model, "prompt": prompt},
        values=(
            audit.Value(name="words", value=clean_text(words), person=str(turn.user_id)),
            audit.Value(name="arguments", value=clean_text(call.arguments[:4_000]), person=str(turn.user_id)),
        ),
    )


def page_proposed(plan: Plan, *, words: str, real_actor: str = "") -> audit.Record:
    """Return the entry of a form, a delete page or a list that was proposed."""
    values = tuple(
        audit.Value(
            name=f"new {name}"[:100],
            value=value,
            label=plan.model,
            object_pk=plan.object_pk[:200],
            field=name[:100],
        )
        for name, value in plan.values.items()
    )
    said = audit.Value(name="words", value=clean_text(words), person=person_of(plan))
    return _page(plan, "proposed", (said, *values), real_actor=real_actor)


def page_ended(plan: Plan, event: str) -> audit.Record:
    """Return the entry of a form that was saved, a record that was deleted, or a proposal that was dropped."""
    return _page(plan, event, ())


def _page(plan: Plan, event: str, values: tuple[audit.Value, ...], *, real_actor: str = "") -> audit.Record:
    about: dict[str, Any] = {
        "kind": plan.kind,
        "digest": plan.digest,
        "target": {"model": plan.model, "pk": plan.object_pk},
    }
    if plan.kind == PlanKind.LIST:
        about |= {"rows": len(plan.document["ids"]), "action": plan.document["action"]}
    return audit.Record(
        event=event,
        actor=str(plan.user_id or ""),
        real_actor=real_actor,
        conversation=str(plan.conversation_id or ""),
        turn=str(plan.turn_id or ""),
        plan=str(plan.pk),
        tool=plan.tool,
        about=about,
        values=values,
    )
