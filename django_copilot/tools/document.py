"""The document that a person confirms, its digest, and the typed texts that it is made of.

Every scalar is a text that carries its type, in one form whatever the language: quantised decimals, UTC with
microseconds, keys as text. The server computes the document and computes it again; nobody else's copy counts.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.utils import timezone, translation
from django.utils.dateparse import parse_datetime, parse_duration
from django.utils.duration import duration_iso_string
from django.utils.functional import Promise

from ..identity import key_text
from ..scope import Scope
from ..values import clean_text
from .context import Bound, Context
from .through_form import Change
from .write import Effect, Preview, WriteTool

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a tool's preview said, for the person for whom it was asked and in the scope it was asked in."""

    tool: WriteTool
    arguments: Mapping[str, Any]  # as stored
    preview: Preview
    ctx: Context
    target: Bound
    changes: Sequence[Change]
    dry_run: Sequence[Mapping[str, Any]]  # stored effects
    unchanged: Mapping[str, str]  # many-to-many fields of the target that stay as they are


@dataclass(frozen=True, kw_only=True)
class PlanDraft:
    """Everything that a plan will hold, as plain values. ``body`` is its document without the plan's id."""

    tool: str
    version: str
    category: str
    arguments: Mapping[str, Any]
    body: Mapping[str, Any]
    model: str
    object_pk: str
    amount: decimal.Decimal | None
    payload: str
    needs_approval: bool

    def document(self, plan_id: Any) -> dict[str, Any]:
        """Return the document of the plan with this id."""
        return {**self.body, "plan": str(plan_id)}


def is_intact(plan: Any) -> bool:
    """Tell whether a stored plan's columns are still what its document and digest say."""
    document = plan.document
    try:
        return bool(
            digest_of(document) == plan.digest
            and document["plan"] == str(plan.pk)
            and document["payload"] == plan.payload
            and document["approval"]["needed"] == plan.needs_approval
            and document["target"] == {"model": plan.model, "pk": plan.object_pk}
            and document["tool"]["name"] == plan.tool
            and document["tool"]["version"] == plan.version
            and document["undoes"] == str(plan.undo_of_id or "")
            and document["arguments"]["model"]
            == {name: typed(value) for name, value in plan.arguments.items()}
        )
    except (KeyError, TypeError, ValueError):
        return False


def draft_of(
    looked: Looked, *, needs_approval: bool, scope: Scope, requester: Any, undoes: Any, handled: bool = False
) -> PlanDraft:
    """Return the draft of a plan from what was looked at. Raises TypeError or ValueError for odd values.

    ``handled``: a value in it is one that the model may not get.
    """
    tool, preview = looked.tool, looked.preview
    payload = canonical(preview.payload) if preview.payload is not None else ""
    body = {
        "v": VERSION,
        "scope": {"site": scope.site, "key": scope.key},
        "requester": str(requester),
        "tool": {
            "name": tool.name,
            "version": tool.version,
            "schema": digest_of(tool.schema),
            "category": str(tool.category),
        },
        "arguments": {
            "model": {name: typed(value) for name, value in looked.arguments.items()},
            "system": {name: typed(value) for name, value in preview.system.items()},
        },
        "undoes": str(undoes) if undoes else "",
        "target": {"model": looked.target.model, "pk": looked.target.pk},
        "changes": [
            {
                "field": each.field.name,
                "old": typed(each.old, each.field),
                "new": typed(each.new, each.field),
            }
            for each in looked.changes
        ],
        "summary": effects_document([preview.summary])[0],
        "effects": effects_document(preview.effects),
        "dry_run": [dict(each) for each in looked.dry_run],
        "records": [
            {"model": each.model, "pk": each.pk, "version": each.version, "label": each.label}
            for each in looked.ctx.bound.values()
        ],
        "acting_as": clean_text(str(preview.acting_as)),
        "amount": "" if preview.amount is None else typed(preview.amount.normalize()),
        "payload": payload,
        "touched": sorted(preview.touched),
        "reversible": tool.reversible,
        "approval": {"rule": tool.approval.describe(), "needed": needs_approval},
        **({"handled": True} if handled else {}),
    }
    return PlanDraft(
        tool=tool.name,
        version=tool.version,
        category=str(tool.category),
        arguments=looked.arguments,
        body=body,
        model=looked.target.model,
        object_pk=looked.target.pk,
        amount=preview.amount,
        payload=payload,
        needs_approval=needs_approval,
    )


def canonical(value: Any) -> str:
    """Return the one JSON text of a value. Raises ValueError for numbers that are not finite."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document, in hex."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def typed(value: Any, field: Any = None) -> str:
    """Return a value as typed text; ``field`` is the model field that it belongs to, if any.

    Raises TypeError for a value that has no such text.
    """
    if isinstance(value, enum.Enum):
        value = value.value
    if field is not None and isinstance(field, models.JSONField):
        return "json:" + canonical(json.loads(json.dumps(value, cls=field.encoder)))
    match value:
        case None:
            return "null:"
        case bool():
            return f"bool:{str(value).lower()}"
        case int():
            return f"int:{value}"
        case decimal.Decimal():
            if isinstance(field, models.DecimalField):
                value = value.quantize(decimal.Decimal(1).scaleb(-field.decimal_places))
            return f"decimal:{value:f}"
        case float():
            return f"float:{value!r}"
        case datetime.datetime():
            if timezone.is_aware(value):
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
                return f"datetime:{value.isoformat(timespec='microseconds')}Z"
            return f"datetime:{value.isoformat(timespec='microseconds')}"
        case datetime.date():
            return f"date:{value.isoformat()}"
        case datetime.time():
            return f"time:{value.isoformat(timespec='microseconds')}"
        case datetime.timedelta():
            return f"duration:{duration_iso_string(value)}"
        case uuid.UUID():
            return f"uuid:{value}"
        case str() | Promise():
            return f"text:{clean_text(str(value))}"
        case models.Model():
            return f"record:{value._meta.label_lower}:{key_text(type(value), value.pk)}"
        case models.QuerySet() | list() | tuple() | set() | frozenset():
            texts = [typed(each) for each in value]
            if isinstance(value, set | frozenset) or all(each.startswith("record:") for each in texts):
                texts.sort()
            return "list:" + canonical(texts)
        case dict():
            return "json:" + canonical(value)
        case bytes() | bytearray() | memoryview():
            return f"bytes:{hashlib.sha256(value).hexdigest()}"
        case _:
            return f"text:{clean_text(str(value))}"


def untyped(text: str) -> Any:
    """Return the value of a typed text; records stay (label, key text) pairs."""
    kind, _, rest = text.partition(":")
    match kind:
        case "null":
            return None
        case "bool":
            return rest == "true"
        case "int":
            return int(rest)
        case "decimal":
            return decimal.Decimal(rest)
        case "float":
            return float(rest)
        case "datetime":
            return parse_datetime(rest)
        case "date":
            return datetime.date.fromisoformat(rest)
        case "time":
            return datetime.time.fromisoformat(rest)
        case "duration":
            return parse_duration(rest)
        case "uuid":
            return uuid.UUID(rest)
        case "record":
            label, _, pk = rest.partition(":")
            return label, pk
        case "list":
            return [untyped(each) for each in json.loads(rest)]
        case "json":
            return json.loads(rest)
        case _:
            return rest


def neutral(text: str | Promise) -> str:
    """Return a text in the language of the source: a lazy one untranslated, so that it can be translated again."""
    with translation.override(None):
        return clean_text(str(text))


def effects_document(effects: Sequence[Effect]) -> list[dict[str, Any]]:
    """Return effects in the stored form: the untranslated text and its typed values."""
    return [
        {"text": neutral(each.text), "values": {name: typed(value) for name, value in each.values.items()}}
        for each in effects
    ]


def restored(ctx: Context, field: Any, text: str) -> Any:
    """Return the value of a field from its typed text, with records looked up as hers. Raises Refused."""
    value = untyped(text)
    if field.many_to_many:
        return [ctx.look_up(field.remote_field.model, pk=pk) for _label, pk in value or ()]
    if field.remote_field is not None and value is not None:
        return ctx.look_up(field.remote_field.model, pk=value[1])
    return value
