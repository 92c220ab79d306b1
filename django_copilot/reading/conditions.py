"""From the filters and the search of a call to a condition, with every name and every value checked.

Names come from what this person may read; values travel as parameters. What a condition looks at is kept,
since a row counts only where all of it is readable on that very row.
"""

from __future__ import annotations

import copy
import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.exceptions import FieldDoesNotExist, FieldError, ValidationError
from django.db import models
from django.utils import timezone

from ..access import Access, EntityAccess
from ..declaration import LOOKUPS, model_field
from ..exceptions import CallError
from ..identity import dereference, key_is_data, parse_key
from ..references import is_handle
from ..values import json_to_python, to_json, wrong_value
from . import dates
from .query import MAX_IN, MAX_SEARCH, MAX_WORDS

KIND_OF = {lookup: kind for kind, lookups in LOOKUPS.items() for lookup in lookups}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(kw_only=True)
class Conditions:
    """What rows must meet. ``filters`` are as they are stored: words for dates are worked out."""

    q: models.Q = field(default_factory=models.Q)
    names: list[str] = field(default_factory=list)  # fields that were looked at
    filters: dict[str, Any] = field(default_factory=dict)
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)  # fields of other entities looked at


def check_names(entity: EntityAccess, names: Sequence[str], readable: Sequence[str]) -> tuple[str, ...]:
    """Return those names that may be read. Raises CallError for one that is in neither list."""
    declared = entity.declared()
    for name in names:
        if name != "id" and name not in declared:
            raise unknown_field(name, readable)
    return tuple(dict.fromkeys(name for name in names if name in readable))


def unknown_field(name: str, allowed: Sequence[str]) -> CallError:
    """Return the error for a name that can't be used, which names only what can."""
    shown = name[:60] if name.isprintable() else "?"
    return CallError(
        f"There is no field {shown!r} here. Fields: {', '.join(allowed) or 'none'}.", code="unknown_field"
    )


def conditions(entity: EntityAccess, filters: Mapping[str, Any], readable: Sequence[str]) -> Conditions:
    """Return what the filters ask for. Raises CallError for names and values that can't be used."""
    made = Conditions()
    for name, given in filters.items():
        if name == "id":
            made.q &= models.Q(("pk__in", _own_keys(entity, given)))
            made.filters[name] = given
            continue
        if name in entity.showable() and name not in readable:
            made.q &= _by_handle(entity, name, given)
            made.filters[name] = given
            made.names.append(name)
            continue
        if name not in readable:
            raise unknown_field(name, ["id", *readable])
        field = model_field(entity.model, name)
        if not entity.can_compare(name):
            raise CallError(
                f"{name}: this field can be read but not filtered on.", code="not_filterable", field=name
            )
        made.names.append(name)
        q, made.filters[name] = _condition(entity, field, name, given)
        made.q &= q
    return made


def _own_keys(entity: EntityAccess, given: Any) -> list[Any]:
    if not isinstance(given, dict):
        return entity.keys(given)
    if not entity.asks_more or [*given] != ["in"]:
        raise _wrong_lookup("id", given, ("in",) if entity.asks_more else (), names_record=True)
    return [key for each in _several("id", given["in"]) for key in entity.keys(each)]


def _by_handle(entity: EntityAccess, name: str, given: Any) -> models.Q:
    """Return the condition on a field that the model may not read: only a handle can stand for its value."""
    if not is_handle(given):
        raise CallError(
            f"{name}: only a handle that a result gave can be used here, like ‹{name} r1.1›.",
            code="needs_handle",
            field=name,
        )
    return _equals(entity, model_field(entity.model, name), given)


def _equals(entity: EntityAccess, field: Any, handle: str) -> models.Q:
    """Return the condition that a field holds what a handle stands for; an empty value is nothing to look for."""
    value = entity.access.handled(handle, field)
    return models.Q((field.name, value)) if value not in (None, "") else models.Q(("pk__in", []))


def _condition(entity: EntityAccess, field: Any, name: str, given: Any) -> tuple[models.Q, Any]:
    kinds = entity.lookups.get(name, frozenset())
    if isinstance(given, dict):
        if any(
            is_handle(each)
            for value in given.values()
            for each in (value if isinstance(value, list) else [value])
        ):
            raise CallError(
                f"{name}: a handle stands alone, in no lookup.", code="invalid_handle", field=name
            )
        return _lookups(entity, field, name, given, kinds)
    if given is None:
        return models.Q((f"{field.name}__isnull", True)), None
    if is_handle(given):
        return _equals(entity, field, given), given
    if field.remote_field is not None:
        return _related_to(entity, field, _related_keys(entity.access, field, name, given)), given
    if "range" in kinds and isinstance(given, str):
        meant = _period(field, name, given)
        if meant is not None:
            return _lookups(entity, field, name, {"gte": meant[0], "lt": meant[1]}, kinds)
    return models.Q((field.name, json_to_python(field, name, given))), given


def _lookups(
    entity: EntityAccess, field: Any, name: str, given: Mapping[str, Any], kinds: frozenset[str]
) -> tuple[models.Q, dict[str, Any]]:
    allowed = tuple(
        lookup
        for lookup, kind in KIND_OF.items()
        if kind in kinds and (kind != "range" or entity.can_range(name))
    )
    unknown = [lookup for lookup in given if lookup not in allowed]
    if unknown or not given:
        raise _wrong_lookup(name, given, allowed, names_record=field.remote_field is not None)
    used = {KIND_OF[lookup] for lookup in given}
    if len(used) > 1 or {"gte", "gt"} <= {*given} or {"lte", "lt"} <= {*given}:
        raise wrong_value(name, "give one kind of lookup, with at most one lower and one upper end.")
    if "isnull" in given:
        if not isinstance(given["isnull"], bool):
            raise wrong_value(name, "isnull: expected true or false.")
        empty = models.Q((f"{field.name}__isnull", True))
        if field.empty_strings_allowed and isinstance(field, models.CharField | models.TextField):
            empty |= models.Q((field.name, ""))
        return (empty if given["isnull"] else ~empty), dict(given)
    if "in" in given:
        return _one_of(entity, field, name, given["in"]), dict(given)
    q, begins, stored = models.Q(), {}, {}
    for asked, value in given.items():
        lookup, end, begins[asked[0]] = _end(field, name, asked, value)
        q &= models.Q((f"{field.name}__{lookup}", end))
        stored[lookup] = to_json(end)
    if len(begins) == 2 and not begins["g"] <= begins["l"]:
        raise wrong_value(name, "the range is reversed: its lower end lies after its upper end.")
    return q, stored


def _one_of(entity: EntityAccess, field: Any, name: str, given: Any) -> models.Q:
    several = _several(name, given)
    if field.remote_field is not None:
        keys = [key for each in several for key in _related_keys(entity.access, field, name, each)]
        return _related_to(entity, field, keys)
    values = [json_to_python(field, name, each) for each in several]
    if None in values:
        raise wrong_value(name, "null can't be one of several; use isnull.")
    days = [each for each in several if isinstance(each, str) and _DAY.fullmatch(each)]
    if not days or not isinstance(field, models.DateTimeField):
        return models.Q((f"{field.name}__in", values))
    q = models.Q(
        (
            f"{field.name}__in",
            [value for value, each in zip(values, several, strict=True) if each not in days],
        )
    )
    for day in days:  # which is the whole day, as everywhere else
        for_day = {"gte": day, "lte": day}
        q |= _lookups(entity, field, name, for_day, frozenset({"range"}))[0]
    return q


def _several(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list) or not 0 < len(given) <= MAX_IN:
        raise wrong_value(name, f"in: expected a list of 1 to {MAX_IN} values.")
    return given


def _wrong_lookup(
    name: str, given: Mapping[str, Any], allowed: Sequence[str], *, names_record: bool
) -> CallError:
    asked = ", ".join(each[:30] if each.isprintable() else "?" for each in [*given][:5]) or "nothing"
    can = f"a plain value, or {', '.join(allowed)}" if allowed else "a plain value only"
    message = f"{name}: {asked} can't be used here, but {can}."
    if names_record:
        return CallError(message, code="invalid_id", field=name)
    if allowed:
        return CallError(message, code="unknown_lookup", field=name)
    return CallError(message, code="invalid_value", field=name)


# -- dates ------------------------------------------------------------------------------------------------


def _end(field: Any, name: str, lookup: str, given: Any) -> tuple[str, Any, Any]:
    """Return the lookup and the value of one end of a range, and where that begins.

    A day or a word stands for a whole period.
    """
    meant = _period(field, name, given) if isinstance(given, str) else None
    if meant is None:
        value = json_to_python(field, name, given)
        if value is None:
            raise wrong_value(name, f"{lookup}: a value is needed.")
        return lookup, value, value
    start, end = (json_to_python(field, name, each) for each in meant)
    ends = {"gte": ("gte", start), "gt": ("gte", end), "lte": ("lt", end), "lt": ("lt", start)}
    return *ends[lookup], start


def _period(field: Any, name: str, given: str) -> tuple[str, str] | None:
    """Return the start and the end, as text, that a day or words for dates mean for this field.

    None where the value stands for itself, as a point in time does, and a day of a field of days.
    """
    if not isinstance(field, models.DateField):
        return None
    in_time = isinstance(field, models.DateTimeField)
    try:
        back = dates.hours(given) if in_time else None
    except OverflowError:
        raise wrong_value(name, "that date does not exist.") from None
    if back is not None:
        end = timezone.now()
        start = end - datetime.timedelta(hours=back[0])
        return start.isoformat(), (end if back[1] else start).isoformat()
    now = timezone.localtime() if timezone.is_aware(timezone.now()) else timezone.now()
    try:
        day = datetime.date.fromisoformat(given) if _DAY.fullmatch(given) else None
        if day is not None:
            if not in_time:
                return None
            start = datetime.datetime.combine(day, datetime.time())
            meant: dates.Period | None = (start, start + datetime.timedelta(days=1))
        else:
            meant = dates.period(given, now.replace(tzinfo=None))
        if meant is None:
            return None
        if in_time:
            return tuple(_aware(each).isoformat() for each in meant)  # type: ignore[return-value]
    except (ValueError, OverflowError):
        raise wrong_value(name, "that date does not exist.") from None
    return meant[0].date().isoformat(), _day_after(meant).isoformat()


def _day_after(meant: dates.Period) -> datetime.date:
    """Return the first day that is not in the period: one that ends within a day takes that day in."""
    end = meant[1]
    whole = end.time() == datetime.time() and end != meant[0]
    return end.date() if whole else end.date() + datetime.timedelta(days=1)


def _aware(local: datetime.datetime) -> datetime.datetime:
    """Return a local time as a point in time. One that a clock skips or repeats is the earlier one meant."""
    made = timezone.make_aware(local) if timezone.is_aware(timezone.now()) else local
    made.astimezone(datetime.UTC)
    return made


# -- relations --------------------------------------------------------------------------------------------


def _related_to(entity: EntityAccess, field: Any, keys: Sequence[Any]) -> models.Q:
    """Return the condition that a record is related to one of these; a record counts once, however many it is."""
    related = models.Q((f"{field.name}__pk__in", keys))
    if not field.many_to_many:
        return related
    return models.Q(("pk__in", entity.model._base_manager.filter(related).values("pk")))


def _related_keys(access: Access, field: Any, name: str, given: Any) -> list[Any]:
    model = field.remote_field.model
    try:
        related = access.of_model(model)
        if related is not None:
            return related.keys(given)
        if key_is_data(model):
            return [dereference(access.request, model, given)]
        return [parse_key(model, given)]
    except CallError as error:
        raise CallError(f"{name}: {error.message}", code=error.code, field=name) from None


# -- search -----------------------------------------------------------------------------------------------


def searched(
    entity: EntityAccess, rows: models.QuerySet[Any], text: str
) -> tuple[models.QuerySet[Any], Conditions]:
    """Return the rows that the admin's own search finds, over the fields this person may read. Raises CallError."""
    paths = entity.search_paths
    if not paths:
        raise CallError("There is no search here; use filters.", code="not_searchable")
    if len(text) > MAX_SEARCH or len(text.split()) > MAX_WORDS:
        raise CallError(
            f"search: at most {MAX_SEARCH} characters and {MAX_WORDS} words.",
            code="invalid_value",
            field="search",
        )
    # The admin's own search with fewer fields: it asks itself for them.
    searching = copy.copy(entity.model_admin)
    searching.get_search_fields = lambda request: tuple(path.given for path in paths)
    try:
        found, duplicates = ModelAdmin.get_search_results(searching, entity.request, rows, text)
    except (FieldError, FieldDoesNotExist, ValidationError, ValueError):
        raise CallError(
            "search: this text can't be looked for.", code="invalid_value", field="search"
        ) from None
    made = Conditions(names=[path.relation or path.field for path in paths])
    for path in paths:
        if path.relation:
            label = model_field(entity.model, path.relation).remote_field.model._meta.label_lower
            made.told[label] = (*made.told.get(label, ()), path.field)
    return (found.distinct() if duplicates else found), made
