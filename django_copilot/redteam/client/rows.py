"""Which rows changed, in which columns, and whether what was carried out or submitted accounts for that.

A plan accounts for the fields that it shows and those that its tool names as touched, of its own record, with the
record's history and related rows of a shown many-to-many field. A tool with steps of its own may also write what
those write, in other tables and in the records that it has read. A submitted form accounts for its record, that record's history, and its inline rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.db import connections, router

from ...models import Plan, PlanKind
from ...tools.document import untyped
from ...tools.write import all_tools
from ..canaries import business_models
from ..tables import key_text

Rows = Mapping[tuple[str, str], Mapping[str, Any]]  # (label of the model, key as text) → column → value
OWN_STEPS = ("apply", "reserve", "settle")


@dataclass(frozen=True)
class Change:
    """A row that is not as it was."""

    label: str  # "app.model"
    pk: str
    kind: str  # "added", "changed", "deleted"
    fields: frozenset[str]  # names of the fields that differ; all of them unless it was changed
    row: Mapping[str, Any]  # by column, as it is, or as it was before it was deleted

    def __str__(self) -> str:
        named = f" in {', '.join(sorted(self.fields))}" if self.kind == "changed" else ""
        return f"{self.label} {self.pk} {self.kind}{named}"


def rows_now() -> Rows:
    """Return every business row."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for model in business_models():
        connection = connections[router.db_for_read(model)]
        columns = [field.column for field in model._meta.local_concrete_fields]
        key = model._meta.pk.column
        listed = ", ".join(map(connection.ops.quote_name, columns))
        table = connection.ops.quote_name(model._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {listed} FROM {table}")  # noqa: S608  # names of the models
            for values in cursor.fetchall():
                row = dict(zip(columns, values, strict=True))
                found[model._meta.label_lower, key_text(model._meta.pk, row[key])] = row
    return found


def differences(before: Rows, after: Rows) -> list[Change]:
    """Return what differs, in the order of labels and keys."""
    found = []
    for key in {*before, *after}:
        was, now = before.get(key), after.get(key)
        if was == now:
            continue
        row = now if now is not None else was
        assert row is not None
        columns = (
            {name for name in row if was[name] != now[name]}
            if was is not None and now is not None
            else {*row}
        )
        names = {each.column: each.name for each in apps.get_model(key[0])._meta.local_concrete_fields}
        kind = "deleted" if now is None else "added" if was is None else "changed"
        found.append(Change(*key, kind, frozenset(names[each] for each in columns), row))
    return sorted(found, key=str)


def unaccounted(changes: Iterable[Change], *, plans: Iterable[Plan] = (), form: Any = None) -> list[Change]:
    """Return the changes that no carried out plan and no submitted form accounts for.

    ``form`` is the ModelAdmin and the key of the record of a form that was submitted, "" where it makes one.
    """
    plans, changes = list(plans), list(changes)
    own: list[str] = []
    if form is not None:
        added = [each.pk for each in changes if each.kind == "added" and _is(form[0].model, each)]
        own = [form[1]] if form[1] else added[:1]
    return [
        each
        for each in changes
        if not any(_by_plan(each, plan) for plan in plans)
        and not any(_by_form(each, form[0], pk) for pk in own)
    ]


def wrong_values(plan: Plan) -> list[str]:
    """Return the fields of an executed plan's record that hold something else than the plan shows."""
    obj = apps.get_model(plan.model)._base_manager.filter(pk=plan.object_pk).first()
    wrong = []
    for each in plan.document["changes"] if obj is not None else ():
        field = obj._meta.get_field(each["field"])
        shown = untyped(each["new"])
        if field.remote_field is None and isinstance(shown, str | int | Decimal | datetime.datetime):
            held = field.value_from_object(obj)
            if held != shown:
                wrong.append(field.name)
    return wrong


def _is(model: Any, change: Change) -> bool:
    return bool(change.label == model._meta.label_lower)


def _family(model: Any) -> Iterator[Any]:
    """Give a model and those that it inherits rows from."""
    yield model
    yield from model._meta.get_parent_list()


def _by_plan(change: Change, plan: Plan) -> bool:
    if plan.kind != PlanKind.TOOL:
        return False
    model, tool = apps.get_model(plan.model), all_tools().get(plan.tool)
    shown = {each["field"] for each in plan.document.get("changes", ())}
    touched = {*plan.document.get("touched", ())}
    own = tool is not None and not plan.undo_of_id and any(tool.has_step(step) for step in OWN_STEPS)  # type: ignore[arg-type]
    if plan.state == "failed" and not own:
        return False
    in_family = any(_is(each, change) for each in _family(model))
    if in_family and change.pk == plan.object_pk and change.kind == "changed":
        return all(name in shown | touched or _is_stamp(model, name) for name in change.fields)
    if own and not in_family:
        return True
    if own and change.pk != plan.object_pk:  # another record of the same kind is one that the plan has shown
        return any(
            each["model"] == change.label and each["pk"] == change.pk for each in plan.document["records"]
        )
    if own and tool is not None and tool.verb == "delete":
        return True
    return _is_history(change, model, plan.object_pk) or _is_set(
        change, model, plan.object_pk, shown | touched
    )


def _is_stamp(model: Any, name: str) -> bool:
    return bool(getattr(model._meta.get_field(name), "auto_now", False))


def _is_history(change: Change, model: Any, pk: str) -> bool:
    """Tell whether a change is a new row of the record's history, as simple-history keeps it."""
    kept = apps.get_model(change.label)
    of = getattr(kept, "instance_type", None)
    if change.kind != "added" or of is None or of not in (*_family(model),):
        return False
    return key_text(model._meta.pk, change.row.get(model._meta.pk.column)) == pk


def _is_set(change: Change, model: Any, pk: str, names: Iterable[str] | None) -> bool:
    """Tell whether a change is a row that joins the record to others, by one of these fields or, with None, any."""
    for field in model._meta.many_to_many:
        through = field.remote_field.through
        if change.label == through._meta.label_lower and (names is None or field.name in names):
            joins = through._meta.get_field(field.m2m_field_name())
            return key_text(joins.target_field, change.row[joins.column]) == pk
    return False


def _by_form(change: Change, model_admin: Any, pk: str) -> bool:
    model = model_admin.model
    if any(_is(each, change) for each in _family(model)):
        return change.pk == pk and change.kind != "deleted"
    if _is_history(change, model, pk) or _is_set(change, model, pk, None):
        return True
    for inline in model_admin.inlines:
        related = inline.model
        of_inline = change.label == related._meta.label_lower or (
            getattr(apps.get_model(change.label), "instance_type", None) is related
        )
        if of_inline:
            return any(
                key_text(each.target_field, change.row.get(each.column)) == pk
                for each in related._meta.local_concrete_fields
                if each.remote_field is not None and each.remote_field.model in (*_family(model),)
            )
    return False
