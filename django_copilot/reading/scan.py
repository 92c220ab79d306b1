"""Which rows a query gives, in which order, and where the next page begins.

Rows come from the ModelAdmin's queryset in its own order, each is asked for by ``has_view_permission``, and
counts only where all that was looked at is readable on it. Counting and cutting come after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from django.db import connections, models

from ..access import EntityAccess, ask_hook
from ..conf import get_settings
from ..database import limited
from ..declaration import model_field
from ..exceptions import CallError
from ..identity import key_is_data
from .conditions import Conditions, searched
from .query import MAX_ORDER, Query


@dataclass(frozen=True, kw_only=True)
class Found:
    """Records that this person may view, each with the fields readable on it, and where to go on."""

    records: tuple[tuple[Any, tuple[str, ...]], ...]
    has_more: bool
    after: Any = None  # the key of the record to go on after, where that is possible


def selected(
    entity: EntityAccess, conditions: Conditions, search: str
) -> tuple[models.QuerySet[Any], list[str], dict[str, tuple[str, ...]]]:
    """Return the person's rows that meet the conditions, the fields looked at, and those of other entities."""
    rows = entity.viewable().filter(conditions.q)
    names, told = list(conditions.names), conditions.told
    if search.strip():
        rows, more = searched(entity, rows, search)
        names += more.names
        told = more.told
    return rows, names, told


def scan(entity: EntityAccess, rows: models.QuerySet[Any], names: Sequence[str], query: Query) -> Found:
    """Read on until ``limit`` rows and one more are found that the person may see, within SCAN_ROWS.

    Whether it ended at SCAN_ROWS is not told: that would tell of rows that she may not see.
    """
    terms = _ordering(entity, rows, query.order_by)
    if query.after:
        rows = rows.filter(_after(entity, rows, terms, query.after))
    ordered = rows.order_by(*terms)
    # Where the next page would begin can be said only of terms that are plain names.
    pages = entity.asks_more and all(isinstance(term, str) for term in terms)
    found: dict[Any, tuple[Any, tuple[str, ...]]] = {}
    offset, most, limit = 0, get_settings().SCAN_ROWS, query.limit
    step = (limit + 1) * (1 if entity.decides_in_database else 2)
    while offset < most:
        step = min(step, most - offset)
        with limited(rows) if _is_wide(query) else nullcontext():
            page = list(ordered[offset : offset + step])
        for obj in page:  # whose hooks are asked outside: their statements are their own
            if obj.pk in found or not entity.may_view(obj):
                continue
            readable = entity.readable(obj)
            if is_readable_on(entity, obj, names, readable):
                found[obj.pk] = (obj, readable)
                if len(found) > limit:
                    kept = tuple(found.values())[:limit]
                    return Found(records=kept, has_more=True, after=kept[-1][0] if pages else None)
        if len(page) < step:
            return Found(records=tuple(found.values()), has_more=False)
        offset += step
        step = max(step * 2, 100)
    return Found(records=tuple(found.values()), has_more=False)


def _is_wide(query: Query) -> bool:
    """Tell whether a query asks for what no index need serve: more than exact filters in the admin's own order."""
    ranged = any(isinstance(each, Mapping) for each in query.filters.values())
    return bool(query.search.strip() or query.order_by or ranged)


def is_readable_on(entity: EntityAccess, obj: Any, names: Sequence[str], readable: Sequence[str]) -> bool:
    """Tell whether all that was looked at may be known of this record: read by the model, or by a handle."""
    hidden = [name for name in names if name not in readable]
    return not hidden or all(name in entity.showable(obj) for name in hidden)


# -- order ------------------------------------------------------------------------------------------------


def _ordering(entity: EntityAccess, rows: models.QuerySet[Any], asked: Sequence[str]) -> list[Any]:
    """Return the order asked for, or the ModelAdmin's own with each term not readable everywhere replaced by the key."""
    if asked:
        return [*_asked(entity, asked), "-pk"]
    terms: Sequence[Any] = rows.query.order_by
    if not terms and rows.query.default_ordering:
        terms = ask_hook(
            entity.model_admin, "get_ordering", (), lambda: entity.model_admin.get_ordering(entity.request)
        ) or (entity.model._meta.ordering or ())
    readable = {*entity.readable_on_all, "pk"}
    if entity.model._meta.pk is not None:
        readable.add(entity.model._meta.pk.name)
    kept: list[Any] = []
    for term in terms:
        name, descending = _term(term)
        if name in readable and _orders_by_itself(entity.model, name):
            kept.append(term)
        else:
            kept.append("-pk" if descending else "pk")
    if not kept or kept[-1] not in ("pk", "-pk"):
        kept.append("-pk")
    return kept


def _asked(entity: EntityAccess, asked: Sequence[str]) -> list[str]:
    names = [name.removeprefix("-") for name in asked]
    # A key that is data orders only where it may be read, and then under its own name.
    by_key = ["id"] if entity.asks_more and not key_is_data(entity.model) else []
    for name in names:
        if name not in (*entity.orderable, *by_key):
            shown = name[:60] if name.isprintable() else "?"
            raise CallError(
                f"order_by: {shown!r} can't order rows here. Fields: {', '.join(entity.orderable) or 'none'}.",
                code="not_orderable",
                field="order_by",
            )
    if len(names) > MAX_ORDER or len({*names}) < len(names):
        raise CallError(
            f"order_by: at most {MAX_ORDER} different fields.", code="invalid_value", field="order_by"
        )
    return [
        ("-" if each.startswith("-") else "") + ("pk" if name == "id" else name)
        for each, name in zip(asked, names, strict=True)
    ]


def _term(term: Any) -> tuple[str, bool]:
    if isinstance(term, str):
        return term.lstrip("-+"), term.startswith("-")
    descending = bool(getattr(term, "descending", False))
    expression = getattr(term, "expression", term)
    return (str(getattr(expression, "name", "")) if isinstance(expression, models.F) else ""), descending


def _orders_by_itself(model: type[models.Model], name: str) -> bool:
    """Tell whether ordering by the name orders by the field's own value, not by a related model's ordering."""
    if name == "pk":
        return True
    field = model_field(model, name)
    return field is not None and field.remote_field is None


# -- the next page ----------------------------------------------------------------------------------------


def _after(entity: EntityAccess, rows: models.QuerySet[Any], terms: Sequence[Any], given: str) -> models.Q:
    """Return the condition for rows that come after a record in the order, by its values and not by counting.

    The record is read again: only somebody who may view it can go on after it. Raises CallError.
    """
    if not entity.asks_more or not all(isinstance(term, str) for term in terms):
        raise CallError("after: this list has no further pages; use filters.", code="not_pageable")
    try:
        last = entity.find(given)
    except CallError:
        raise CallError(
            "after: that is no place in this list; ask without it.", code="invalid_value", field="after"
        ) from None
    nulls_largest = connections[rows.db].features.nulls_order_largest
    condition, same = models.Q(("pk__in", [])), models.Q()
    for term in terms:
        name, descending = term.lstrip("-+"), term.startswith("-")
        value = last.pk if name == "pk" else model_field(entity.model, name).value_from_object(last)
        condition |= same & _beyond(name, value, descending=descending, nulls_largest=nulls_largest)
        same &= models.Q((f"{name}__isnull", True)) if value is None else models.Q((name, value))
    return condition & _from(entity, terms[0], last, nulls_largest=nulls_largest)


def _from(entity: EntityAccess, term: str, last: Any, *, nulls_largest: bool) -> models.Q:
    """Return what the condition says anyway of the first term alone, so that an index can begin there."""
    name, descending = term.lstrip("-+"), term.startswith("-")
    field = entity.model._meta.pk if name == "pk" else model_field(entity.model, name)
    value = field.value_from_object(last) if name != "pk" else last.pk
    if value is None or (field.null and nulls_largest is not descending):
        return models.Q()
    return models.Q((f"{name}__{'lte' if descending else 'gte'}", value))


def _beyond(name: str, value: Any, *, descending: bool, nulls_largest: bool) -> models.Q:
    """Return what is beyond a value in one term's order, as the database orders what is empty."""
    empty_last = nulls_largest is not descending
    if value is None:
        return models.Q(("pk__in", [])) if empty_last else models.Q((f"{name}__isnull", False))
    beyond = models.Q((f"{name}__{'lt' if descending else 'gt'}", value))
    return beyond | models.Q((f"{name}__isnull", True)) if empty_last and name != "pk" else beyond
