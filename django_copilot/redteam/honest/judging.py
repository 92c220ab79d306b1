"""Whether an honest request succeeded: tables, filled-in forms, saved records and delete pages against the yardstick."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db import models
from django.urls import reverse
from django.utils import translation
from django.utils.dateparse import parse_date, parse_datetime, parse_time

from ...declaration import model_field
from .. import tables
from ..rights import Rights
from .asking import Person, expect, undone
from .sentences import Said, form_of
from .submitting import as_posted, controls

FIRST = 20  # rows of a table without a limit
COUNTED = 1_000  # as far as is counted
PLAN = "_copilot_plan"


def path_of(site: AdminSite, model: Any, obj: Any, *, page: str = "change") -> str:
    """Return the admin's address of a record's page, or of the add page for None."""
    name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page if obj is not None else 'add'}"
    return reverse(name, args=[quote(obj.pk)] if obj is not None else [], current_app=site.name)


# -- tables ---------------------------------------------------------------------------------------------------


def rows(person: Person, model: Any, results: Sequence[Mapping[str, Any]], *, keys: Any = None) -> None:
    """Check a table: the first of her records, or of those with ``keys``, in the admin's order, cell by cell.

    Raises Problem.
    """
    expect(results, "there is no table")
    table = results[-1]
    with person.world.rights(person.actor, person.site) as rights, translation.override(person.language):
        held = rights.rows(model)
        wanted = [obj for pk, obj in held.items() if keys is None or pk in keys]
        by_url = {path_of(person.site, model, obj): obj for obj in wanted}
        given: list[Any] = [by_url.get(row["url"]) for row in table["rows"]]
        expect(None not in given, "the table holds a row that is not hers or not asked for")
        expect(len({obj.pk for obj in given}) == len(given), "the table holds a row twice")
        count = min(len(wanted), FIRST)
        expect(len(given) == count, f"the table holds {len(given)} rows, not {count}")
        expect(
            bool(table["hasMore"]) == (len(wanted) > FIRST), f"hasMore is {table['hasMore']} of {len(wanted)}"
        )
        terms = _ordered_by(rights, model, held)
        if terms:
            order = [[_term(obj, term) for term in terms] for obj in given]
            expect(order == [[_term(obj, term) for term in terms] for obj in wanted[:FIRST]], "another order")
        for row, obj in zip(table["rows"], given, strict=True):
            _cells(person, rights, model, obj, row["values"])


def number(person: Person, model: Any, results: Sequence[Mapping[str, Any]]) -> None:
    """Check a count: that of her records, up to where counting ends. Raises Problem."""
    expect(results, "there is no table")
    with person.world.rights(person.actor, person.site) as rights:
        wanted = min(len(rights.rows(model)), COUNTED)
    table = results[-1]
    given = [[*row["values"].values()] for row in table["rows"]]
    expect(table.get("kind") == "count" and given == [[wanted]], f"{given} were counted, not {wanted}")


def _ordered_by(rights: Rights, model: Any, held: Mapping[Any, Any]) -> list[str]:
    """Return the fields that the admin orders by, none where it orders by what she may not read."""
    each = rights.declared[model]
    terms = each.get_ordering(rights.request) or model._meta.ordering or ()
    names = [term.lstrip("-") for term in terms if isinstance(term, str)]
    plain = [
        name
        for name in names
        if name in ("pk", model._meta.pk.name)
        or (
            (field := model_field(model, name)) is not None
            and field.remote_field is None
            and all(name in rights.readable(model, pk) for pk in held)
        )
    ]
    return plain if len(plain) == len(terms) else []


def _term(obj: Any, name: str) -> Any:
    return obj.pk if name == "pk" else getattr(obj, name)


def _cells(person: Person, rights: Rights, model: Any, obj: Any, values: Mapping[str, Any]) -> None:
    wanted = {
        name
        for name in rights.readable(model, obj.pk) | rights.kept(model, obj.pk)
        if name != "id" and model_field(model, name) is not None
    }
    inlines = {
        name: values[name]
        for name in getattr(rights.declared[model], "harness_inlines", {})
        if name in values
    }
    got = set(values) - {"id"} - set(inlines) - set(rights.declared[model].harness_computed)
    expect(got == wanted, f"record {obj.pk} shows {sorted(got)}, not {sorted(wanted)}")
    for name, given in inlines.items():
        held = {str(pk) for pk in getattr(obj, name).values_list("pk", flat=True)}
        expect({row["id"] for row in given} == held, f"{name} of record {obj.pk} is {str(given)[:200]}")
    for name in got:
        field = model_field(model, name)
        value = values[name]
        if field.many_to_many:
            held = set(getattr(obj, name).values_list("pk", flat=True))
            expect(
                {each["id"] for each in value} == {str(pk) for pk in held}, f"{name} of {obj.pk} is {value!r}"
            )
        elif field.remote_field is not None:
            _relation(rights, field, obj, value)
        else:
            same = _is_same(value, getattr(obj, name), field)
            expect(same, f"{name} of record {obj.pk} is {str(value)[:80]!r}")


def _relation(rights: Rights, field: Any, obj: Any, value: Any) -> None:
    raw = getattr(obj, field.attname)
    if raw is None or value is None or not field.target_field.primary_key:
        expect((raw is None) == (value is None), f"{field.name} of record {obj.pk} is {value!r}")
        return
    expect(value["id"] == str(raw), f"{field.name} of record {obj.pk} is {value!r}")
    label = rights.labelled(field.remote_field.model, raw)
    shown = value.get("label", "")
    expect(bool(label) == bool(shown), f"{field.name} of record {obj.pk} is labelled {shown[:80]!r}")
    expect(shown[:100] == label[:100], f"{field.name} of record {obj.pk} is labelled {shown[:80]!r}")


def _is_same(value: Any, held: Any, field: Any) -> bool:
    if held is None or value is None or isinstance(held, bool):
        return value is held
    if isinstance(field, models.JSONField):
        return bool(value == held) or str(value)[:100] == json.dumps(held, ensure_ascii=False)[:100]
    if isinstance(field, models.DecimalField):
        return bool(Decimal(str(value)) == held)
    if isinstance(field, models.DateTimeField):
        return bool(parse_datetime(value) == held)
    if isinstance(field, models.DateField):
        return bool(parse_date(value) == held)
    if isinstance(field, models.TimeField):
        return bool(parse_time(value) == held)
    if isinstance(held, int | float):
        return bool(value == held)
    return str(value)[:1_000] == str(held)[:1_000]  # a long text is cut later


# -- forms ----------------------------------------------------------------------------------------------------


def filled(person: Person, model: Any, obj: Any, said: Said, *, html: str) -> dict[str, list[str]]:
    """Check that the form of a page holds a value, and return what it would send. Raises Problem."""
    sent = controls(html)
    expect(sent.get(PLAN), "the form carries no plan")
    with person.world.rights(person.actor, person.site) as rights, translation.override(person.language):
        cls = form_of(rights, model, obj)
        form = cls(as_posted(sent), instance=copy.copy(obj)) if obj is not None else cls(as_posted(sent))
        form.full_clean()
        value = form.cleaned_data.get(said.field)
        if isinstance(said.typed, list):
            value = [each.pk for each in value or ()]
        elif isinstance(value, models.Model):
            value = value.pk
    expect(value == said.typed, f"{said.field} in the form is {value!r}, not {said.typed!r}")
    return sent


def saved(person: Person, model: Any, obj: Any, said: Said, *, html: str) -> None:
    """Save the form of a page, and check that what changed is what the admin's own form changes. Raises Problem.

    The same inputs are sent once without the plan and once with it, and both are taken back.
    """
    sent = filled(person, model, obj, said, html=html)
    path = path_of(person.site, model, obj)
    by_hand = {name: values for name, values in sent.items() if name != PLAN}
    plain = _after(person, model, obj, path, by_hand)
    if plain["status"] != 302:
        return  # the admin itself refuses what the record holds
    person.world.report.count("forms saved honestly, and taken back")
    with_plan = _after(person, model, obj, path, sent)
    expect(
        with_plan["status"] == 302, f"saving was answered with {with_plan['status']}: {with_plan['errors']}"
    )
    expect(with_plan["changes"] == plain["changes"], f"saving changed {with_plan['changes']}")
    different = {name for name in plain["row"] if plain["row"][name] != with_plan["row"][name]}
    expect(not different, f"saving wrote something else into {sorted(different)}")
    value = with_plan["row"][said.field]
    if isinstance(said.typed, list):
        expect(set(said.typed) <= value, f"{said.field} is {value!r} after saving")
    else:
        expect(value == said.typed, f"{said.field} is {value!r} after saving, not {said.typed!r}")


def _after(person: Person, model: Any, obj: Any, path: str, sent: Mapping[str, list[str]]) -> dict[str, Any]:
    with undone():
        before = tables.snapshot()
        status, text = person.submit(path, {**sent, "_save": "1"})
        changes = tables.changes(before, tables.snapshot())
        now = model._base_manager.get(pk=obj.pk)
        row: dict[str, Any] = {
            field.name: getattr(now, field.attname)
            for field in model._meta.concrete_fields
            if not getattr(field, "auto_now", False)
        }
        row |= {
            field.name: set(getattr(now, field.name).values_list("pk", flat=True))
            for field in model._meta.many_to_many
        }
    errors = re.findall(r'class="error(?:list|note)[^>]*>(.*?)</', text, re.DOTALL)
    return {
        "status": status,
        "errors": " ".join(errors)[:300],
        # Rows that are new have another key each time.
        "changes": sorted(
            f"{each.label} {each.kind} {each.pk if each.kind != 'added' else ''}" for each in changes
        ),
        "row": row,
    }


def deleted(person: Person, model: Any, obj: Any, *, html: str) -> None:
    """Check a delete page: the readable values above, and where the admin offers it, deleting. Raises Problem."""
    world = person.world
    with world.rights(person.actor, person.site) as rights:
        readable = rights.readable(model, obj.pk)
    now = model._base_manager.get(pk=obj.pk)
    wanted = {
        cell
        for mark, cell in world.canaries.cells.items()
        if cell.model is model
        and cell.pk == obj.pk
        and cell.field in readable
        and mark in str(getattr(now, cell.field))
    }
    _start, found, preview = html.partition("copilot-preview")
    expect(found, "the delete page has no preview")
    missing = wanted - world.canaries.in_text(preview.partition("</section>")[0])
    expect(not missing, f"the preview lacks {', '.join(sorted(each.field for each in missing))}")
    sent = controls(html)
    if "post" not in sent:
        return  # other records protect it
    person.world.report.count("records deleted honestly, and taken back")
    with undone():
        status, _text = person.submit(path_of(person.site, model, obj, page="delete"), sent)
        gone = not model._base_manager.filter(pk=obj.pk).exists()
    expect(
        status == 302 and gone,
        f"deleting was answered with {status}, and it is {'gone' if gone else 'there'}",
    )
