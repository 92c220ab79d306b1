"""The bodies of the built-in tools. Only ``gate.py`` may call them.

Each gets an entity of this person and arguments whose shape was checked; it checks names and values, reads
through ``reading`` and ``prefill`` and returns an outcome. None of them writes to a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import models
from django.utils.translation import gettext as _

from ..access import Access, EntityAccess
from ..display import field_label
from ..exceptions import CallError, Refused
from ..identity import key_text
from ..prefill import fill_from_tool, open_form
from ..reading import DEFAULT_LIMIT, MAX_LIMIT, Query, merge, run_query, run_record
from ..reading.history import run_history
from ..reading.summary import run_summary
from ..reading.sums import EVERY, MAX_MEASURES, OPS, Measure, Summary
from ..snapshots import snapshot
from .base import Asked, Found, Proposed, ReadDone
from .further import kinds_of
from .lists import open_entity_list as open_entity_list  # its body stands there, and is called with these
from .ranking import find
from .schema import specs_for, tool_names

DEPENDENT_LIMIT = 1_000


def query(entity: EntityAccess, args: Mapping[str, Any]) -> ReadDone:
    """Read rows of the entity."""
    asked = args.get("limit", DEFAULT_LIMIT)
    if asked < 1:
        raise CallError(
            f"limit: expected a whole number from 1 to {MAX_LIMIT}.", code="invalid_value", field="limit"
        )
    rows = run_query(
        entity,
        Query(
            entity=entity.entity.label,
            fields=tuple(args.get("fields", ())),
            filters=args.get("filters", {}),
            limit=min(asked, MAX_LIMIT),
            search=args.get("search", ""),
            order_by=tuple(args.get("order_by", ())),
            after=args.get("after", ""),
        ),
    )
    content, sent = rows.for_model()
    if asked > MAX_LIMIT:
        content["note"] = " ".join((f"limit was cut to {MAX_LIMIT}.", content.get("note", ""))).strip()
    return ReadDone(
        content=content,
        entity=entity.entity.label,
        read=rows.query.to_json(),
        table=rows.for_person(),
        fields=rows.fields,
        sent_rows=sent,
        told=rows.told,
        shown=rows.reference if rows.rows else None,
    )


def count(entity: EntityAccess, args: Mapping[str, Any]) -> ReadDone:
    """Count records of the entity, up to a cap."""
    return _summed(entity, Summary(entity=entity.entity.label, **_narrowed(args)))


def summarise(entity: EntityAccess, args: Mapping[str, Any]) -> ReadDone:
    """Count and sum records of the entity, in groups."""
    measures = args["measures"]
    if not 0 < len(measures) <= MAX_MEASURES or not all(isinstance(each, dict) for each in measures):
        raise CallError(
            f'measures: expected 1 to {MAX_MEASURES} objects like {{"op": "sum", "field": "…"}}.',
            code="invalid_value",
            field="measures",
        )
    every = args.get("every", "")
    if every and every not in EVERY:
        raise CallError(f"every: expected {', '.join(EVERY)}.", code="invalid_value", field="every")
    return _summed(
        entity,
        Summary(
            entity=entity.entity.label,
            measures=tuple(_measure(each) for each in measures),
            by=tuple(args.get("by", ())),
            every=every,
            **_narrowed(args),
        ),
    )


def _narrowed(args: Mapping[str, Any]) -> dict[str, Any]:
    return {"filters": args.get("filters", {}), "search": args.get("search", "")}


def _measure(given: Mapping[str, Any]) -> Measure:
    op, name = given.get("op"), given.get("field") or ""
    if op not in OPS or not isinstance(name, str) or {*given} - {"op", "field"}:
        raise CallError(
            f"measures: each has an op, one of {', '.join(OPS)}, and a field.",
            code="invalid_value",
            field="measures",
        )
    return Measure(op=op, field=name)


def _summed(entity: EntityAccess, summary: Summary) -> ReadDone:
    summed = run_summary(entity, summary)
    content, sent = summed.for_model()
    used = (*summary.by, *(each.field for each in summary.measures if each.field))
    return ReadDone(
        content=content,
        entity=entity.entity.label,
        read=summed.summary.to_json(),
        table=summed.for_person(),
        fields=tuple(dict.fromkeys(used)),
        sent_rows=sent,
        told=summed.told,
    )


def history(entity: EntityAccess, args: Mapping[str, Any]) -> ReadDone:
    """Tell who changed which fields of a record when."""
    told = run_history(entity, entity.find(args["id"]))
    content, sent = told.for_model()
    return ReadDone(
        content=content,
        entity=entity.entity.label,
        read=told.to_json(),
        table=told.for_person(),
        fields=told.fields,
        sent_rows=sent,
        told=told.told,
    )


def open_entity_form(entity: EntityAccess, args: Mapping[str, Any]) -> Proposed:
    """Check values for the add form, or for the change form of a record, and propose to open it."""
    given = args.get("fields", {})
    if "id" in args:
        obj = entity.find(args["id"])
        with entity.at("change", obj):
            if not entity.may_change(obj):
                raise Refused("This person may not change that record.", code="not_allowed")
            return _propose_form(entity, obj, given)
    with entity.at("add"):
        if not entity.can_add:
            raise Refused("This person may not add records of this kind.", code="not_allowed")
        return _propose_form(entity, None, given)


def _propose_form(entity: EntityAccess, obj: Any, given: Mapping[str, Any]) -> Proposed:
    filled = fill_from_tool(entity, obj, given)
    model = entity.model
    name = str(model._meta.verbose_name)
    base: dict[str, Any] = {}
    if obj is None:
        record_id, reply = (
            "",
            _("I filled in the form for a new %(name)s. Nothing is saved until you save it.")
            % {"name": name},
        )
    else:
        record_id = entity.ids([obj])[obj.pk]
        base = snapshot(entity.model_admin, entity.request, obj, open_form(entity, obj).fields)
        reply = _("I opened the form of %(name)s %(id)s. Nothing is saved until you save it.") % {
            "name": name,
            "id": record_id,
        }
    dropped = tuple(field_label(model, each) for each in filled.dropped)
    if dropped:
        reply += " " + _("Not filled in: %(names)s.") % {"names": ", ".join(dropped)}
    return Proposed(
        kind="form",
        entity=entity.name,
        label=entity.entity.label,
        record_id=record_id,
        object_pk=key_text(model, obj.pk) if obj is not None else "",
        path=entity.page_url("change" if obj is not None else "add", obj),
        prefill=filled.stored,
        values=filled.stored,
        base=base,
        dropped=dropped,
        reply=reply,
        told=entity.told_by_ids if obj is not None else {},
    )


def confirm_delete(entity: EntityAccess, args: Mapping[str, Any]) -> Proposed:
    """Propose to open the admin's delete page of a record."""
    obj = entity.find(args["id"])
    with entity.at("delete", obj):
        if not entity.may_delete(obj):
            raise Refused("This person may not delete that record.", code="not_allowed")
        record_id = entity.ids([obj])[obj.pk]
        reply = _(
            "This is the delete page of %(name)s %(id)s. Nothing is deleted until you confirm it there."
        ) % {
            "name": str(entity.model._meta.verbose_name),
            "id": record_id,
        }
        dependents, told = _dependents(entity, obj)
        if dependents:
            reply += " " + _("Other records depend on it: %(counts)s.") % {"counts": ", ".join(dependents)}
        return Proposed(
            kind="delete",
            entity=entity.name,
            label=entity.entity.label,
            record_id=record_id,
            object_pk=key_text(entity.model, obj.pk),
            path=entity.page_url("delete", obj),
            prefill=run_record(entity, obj),
            reply=reply,
            told=merge(told, entity.told_by_ids),
        )


def _dependents(entity: EntityAccess, obj: Any) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return counts of records that point at this one, and the relations that tell it, by entity.

    Only those that the person may read through the assistant: the admin's page lists everything, but this
    text becomes part of the conversation and goes to the model.
    """
    counts: list[str] = []
    told: dict[str, tuple[str, ...]] = {}
    for relation in entity.model._meta.related_objects:
        related, name = relation.related_model, relation.field.name
        rows = entity.access.of_model(related)
        if relation.many_to_many or rows is None or not rows.can_view or name not in rows.readable():
            continue
        pointing = rows.queryset().order_by().filter(models.Q((name, obj)))[: DEPENDENT_LIMIT + 1]
        number = sum(1 for each in pointing if rows.may_view(each) and name in rows.readable(each))
        if number:
            noun = _counted(related, number)
            counts.append(f"{DEPENDENT_LIMIT}+ {noun}" if number > DEPENDENT_LIMIT else f"{number} {noun}")
            label = rows.entity.label
            told[label] = (*told.get(label, ()), name)
    return counts, told


def _counted(model: type[models.Model], number: int) -> str:
    """Return a model's name for a number of records."""
    return str(model._meta.verbose_name if number == 1 else model._meta.verbose_name_plural)


def ask_user(args: Mapping[str, Any]) -> Asked:
    """Ask the person a question."""
    text, kind = args["text"].strip(), args.get("kind", "text")
    options = tuple(dict.fromkeys(each.strip()[:200] for each in args.get("options", ()) if each.strip()))
    if not text:
        raise CallError("text: a question is needed.", code="invalid_value", field="text")
    if kind != "text" and not 1 < len(options) <= 20:
        raise CallError(
            "options: two to twenty different answers are needed.", code="invalid_value", field="options"
        )
    return Asked(text=text[:2_000], kind=kind, options=options if kind != "text" else ())


def find_entities(access: Access, args: Mapping[str, Any]) -> Found:
    """Find entities that this person can use by words."""
    found = find(access, args["words"])
    return Found(
        content={
            "entities": [
                {
                    "entity": each.name,
                    "label": str(each.model._meta.verbose_name_plural),
                    "tools": [
                        *(spec.name for spec in specs_for(each)),
                        *(tool_names(each.name)[kind] for kind in kinds_of(each)),
                    ],
                }
                for each in found
            ]
        },
        names=tuple(each.name for each in found),
    )
