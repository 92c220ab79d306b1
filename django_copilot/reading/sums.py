"""Adding up: in the database where it knows which rows and fields are hers, else record by record.

Both ways give the same. What is added is over records, however the admin's queryset joins.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, models
from django.db.models import functions
from django.utils import timezone

from ..access import EntityAccess
from ..conf import get_settings
from ..database import limited
from ..declaration import model_field
from ..exceptions import Refused
from .scan import is_readable_on

COUNT_CAP = 1_000
MAX_GROUPS = 50
MAX_MEASURES = 5
MAX_BY = 2
OPS = ("count", "sum", "avg", "min", "max")
NUMBERS = (models.IntegerField, models.DecimalField, models.FloatField)
EVERY: dict[str, Callable[..., Any]] = {
    "day": functions.TruncDay,
    "week": functions.TruncWeek,
    "month": functions.TruncMonth,
}


Groups = list[tuple[tuple[Any, ...], tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One number of each group. ``field`` is "" for the count of records."""

    op: str
    field: str = ""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A checked request for a summary, in the form in which it is stored. Without measures it is a plain count."""

    entity: str  # "app_label.modelname"
    measures: tuple[Measure, ...] = ()
    by: tuple[str, ...] = ()
    every: str = ""
    filters: Mapping[str, Any] = field(default_factory=dict)
    search: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "kind": "summary",
            "entity": self.entity,
            "measures": [[each.op, each.field] for each in self.measures],
            "by": list(self.by),
            "every": self.every,
            "filters": dict(self.filters),
            "search": self.search,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Summary:
        """Read the stored form."""
        return cls(
            entity=stored["entity"],
            measures=tuple(Measure(op=op, field=name) for op, name in stored["measures"]),
            by=tuple(stored["by"]),
            every=stored["every"],
            filters=stored["filters"],
            search=stored["search"],
        )


def each_once(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Return the same records, unordered, from a query in which each is one row.

    An admin's queryset may join many rows to a record, group, or leave out what is double: sums would be
    over rows, not records.
    """
    query = rows.query
    joins = [getattr(join, "join_field", None) for join in query.alias_map.values()]
    plain = all(field is None or field.many_to_one or field.one_to_one for field in joins)
    rows = rows.order_by()
    everything: models.QuerySet[Any] = rows.model._base_manager.using(rows.db)
    if plain and not (query.distinct or query.group_by is not None or query.combinator or query.annotations):
        return rows
    return everything.filter(models.Q(("pk__in", rows.values("pk"))))


def counted(rows: models.QuerySet[Any]) -> tuple[Groups, bool]:
    """Return the number of records as the only group, counted no further than COUNT_CAP."""
    number = each_once(rows).values("pk")[: COUNT_CAP + 1].count()
    return [((), (min(number, COUNT_CAP),))], number > COUNT_CAP


# -- in the database --------------------------------------------------------------------------------------


def in_database(entity: EntityAccess, rows: models.QuerySet[Any], summary: Summary) -> tuple[Groups, bool]:
    """Return the groups, at most MAX_GROUPS: the latest periods, or those with most of the first measure."""
    keys, key_names = {}, []
    for place, name in enumerate(summary.by):
        source = model_field(entity.model, name)
        key_names.append(f"copilot_key_{place}")
        keys[key_names[-1]] = (
            _truncated(source, summary.every)
            if isinstance(source, models.DateField)
            else models.F(source.attname)
        )
    parts: dict[str, Any] = {}
    for place, each in enumerate(summary.measures):
        parts |= {f"copilot_{place}_{part}": made for part, made in _aggregates(each).items()}
    try:
        if not summary.by:
            found = [each_once(rows).aggregate(**parts)]
            return [((), _measured(entity, summary, found[0]))], False
        grouped = each_once(rows).annotate(**keys).values(*key_names).annotate(**parts)
        if summary.measures[0].op == "avg":  # its value here is a sum, and the greatest average comes first
            grouped = grouped.annotate(copilot_first=models.Avg(summary.measures[0].field))
        first = "copilot_first" if summary.measures[0].op == "avg" else "copilot_0_value"
        order = (
            [models.F(key_names[_dated(entity, summary)]).desc(nulls_last=True)]
            if summary.every
            else [models.F(first).desc(nulls_last=True), *key_names]
        )
        found = list(grouped.order_by(*order, *key_names)[: MAX_GROUPS + 1])
    except ValueError:
        raise Refused("This database can't group by time in this time zone.", code="not_available") from None
    except (OverflowError, DatabaseError) as error:
        if isinstance(error, DatabaseError) and "overflow" not in str(error):
            raise
        raise Refused("These numbers are too large for the database to add.", code="not_available") from None
    more = len(found) > MAX_GROUPS
    found = found[:MAX_GROUPS]
    if summary.every:
        found.reverse()
    return [(tuple(each[key] for key in key_names), _measured(entity, summary, each)) for each in found], more


def _dated(entity: EntityAccess, summary: Summary) -> int:
    """Return the place, in ``by``, of the field of dates."""
    fields = [model_field(entity.model, name) for name in summary.by]
    return next(place for place, each in enumerate(fields) if isinstance(each, models.DateField))


def _truncated(source: Any, every: str) -> Any:
    in_time = isinstance(source, models.DateTimeField)
    zone = timezone.get_current_timezone() if in_time and timezone.is_aware(timezone.now()) else None
    return EVERY[every](source.name, output_field=models.DateField(), **({"tzinfo": zone} if zone else {}))


def _aggregates(measure: Measure) -> dict[str, Any]:
    """Return what a measure is made of: an average is a sum and a number, which every database adds alike."""
    match measure.op:
        case "count":
            return {"value": models.Count(measure.field or "pk")}
        case "sum":
            return {"value": models.Sum(measure.field)}
        case "avg":
            return {"value": models.Sum(measure.field), "number": models.Count(measure.field)}
        case "min":
            return {"value": models.Min(measure.field)}
    return {"value": models.Max(measure.field)}


def _measured(entity: EntityAccess, summary: Summary, found: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        _number(entity, each, found[f"copilot_{place}_value"], found.get(f"copilot_{place}_number"))
        for place, each in enumerate(summary.measures)
    )


def _number(entity: EntityAccess, measure: Measure, value: Any, number: Any) -> Any:
    """Return a measure's value: money with its own places, an average with two more, None for nothing."""
    if measure.op == "count":
        return value
    source = model_field(entity.model, measure.field)
    if value is None or (measure.op == "avg" and not number):
        return None
    if isinstance(source, models.FloatField):
        return float(value) / number if measure.op == "avg" else value
    if measure.op == "avg":
        places = source.decimal_places if isinstance(source, models.DecimalField) else 0
        with decimal.localcontext(prec=60):
            mean = decimal.Decimal(value) / number
            return mean.quantize(decimal.Decimal(1).scaleb(-(places + 2)), rounding=decimal.ROUND_HALF_EVEN)
    if isinstance(source, models.DecimalField):
        with decimal.localcontext(prec=60):
            return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-source.decimal_places))
    return value


# -- record by record -------------------------------------------------------------------------------------


def one_by_one(
    entity: EntityAccess, rows: models.QuerySet[Any], looked_at: Sequence[str], summary: Summary
) -> tuple[Groups, bool]:
    """Return the same, over records that were asked for one by one. Raises Refused when there are too many."""
    most = get_settings().SCAN_ROWS
    with limited(rows):
        found = list({obj.pk: obj for obj in rows.order_by("-pk")[: most + 1]}.values())
    if len(found) > most and summary.measures:
        raise Refused(
            f"Whether a record may be seen is decided one by one here, for at most {most} of them. "
            "Narrow it down with filters.",
            code="too_many_records",
        )
    seen = [
        obj
        for obj in found[:most]
        if entity.may_view(obj) and is_readable_on(entity, obj, looked_at, entity.readable(obj))
    ]
    if not summary.measures:
        return [((), (min(len(seen), COUNT_CAP),))], len(found) > most or len(seen) > COUNT_CAP
    groups: dict[tuple[Any, ...], list[Any]] = {} if summary.by else {(): []}
    for obj in seen:
        groups.setdefault(_key(entity, summary, obj), []).append(obj)
    made = [
        (key, tuple(_of(entity, each, records) for each in summary.measures))
        for key, records in groups.items()
    ]
    empty_first = sorted(made, key=lambda each: [_sortable(part) for part in each[0]])
    if summary.every:
        place = _dated(entity, summary)
        empty_first.sort(key=lambda each: _sortable(each[0][place]))
        return empty_first[-MAX_GROUPS:], len(made) > MAX_GROUPS
    empty_first.sort(key=lambda each: _sortable(each[1][0]), reverse=True)
    return empty_first[:MAX_GROUPS], len(made) > MAX_GROUPS


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)


def _key(entity: EntityAccess, summary: Summary, obj: Any) -> tuple[Any, ...]:
    key = []
    for name in summary.by:
        source = model_field(entity.model, name)
        value = getattr(obj, source.attname)
        if isinstance(source, models.DateField) and value is not None:
            value = _first_day(value, summary.every)
        key.append(value)
    return tuple(key)


def _first_day(value: datetime.date, every: str) -> datetime.date:
    if isinstance(value, datetime.datetime):
        value = (timezone.localtime(value) if timezone.is_aware(value) else value).date()
    if every == "week":
        return value - datetime.timedelta(days=value.weekday())
    return value.replace(day=1) if every == "month" else value


def _of(entity: EntityAccess, measure: Measure, records: Sequence[Any]) -> Any:
    if not measure.field:
        return len(records)
    source = model_field(entity.model, measure.field)
    values = [value for value in (getattr(obj, source.attname) for obj in records) if value is not None]
    if measure.op == "count":
        return len(values)
    if not values:
        return None
    if measure.op in ("min", "max"):
        return _number(entity, measure, (min if measure.op == "min" else max)(values), None)
    with decimal.localcontext(prec=60):
        return _number(entity, measure, sum(values), len(values))
