"""Counts and sums over the rows that one person may view, and over no others.

In the database where the hooks of the project let it know which rows and fields are hers; record by record,
within SCAN_ROWS, where they decide on single records; refused where neither can be done.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from django.db import DatabaseError, models
from django.db.models import functions
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..access import EntityAccess
from ..conf import get_settings
from ..database import limited
from ..declaration import model_field
from ..display import display, field_label
from ..exceptions import CallError, Refused
from ..values import clean_text, column_type, to_json
from .cells import merge, related_values
from .conditions import conditions, unknown_field
from .query import Query
from .scan import is_readable_on, selected
from .wording import conditions_text

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


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What a summary gave: groups of JSON values, each with its key, and what they tell of."""

    entity: EntityAccess
    summary: Summary  # with words for dates worked out
    groups: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    more: bool = False  # there are more groups, or more records than were counted
    worked_out: bool = False  # whether filters stand there otherwise than they were given
    asked: tuple[str, ...] = ()
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def for_model(self) -> tuple[dict[str, Any], int]:
        """Return the tool result, and how many groups are in it."""
        content: dict[str, Any] = {"entity": self.entity.name}
        if not self.summary.measures:
            content |= {"count": self.groups[0][1][0], "capped": self.more}
            if self.more:
                content["note"] = f"There are more than {content['count']}; they were not counted further."
        else:
            content["groups"] = [{"key": list(key), "values": list(values)} for key, values in self.groups]
            content["more"] = self.more
        if self.worked_out:
            content["filters"] = dict(self.summary.filters)
        return content, len(self.groups)

    def for_person(self) -> dict[str, Any]:
        """Return the table that the person sees, with how it would be drawn."""
        model, summary = self.entity.model, self.summary
        measures = summary.measures or (Measure(op="count"),)
        columns = []
        for name in summary.by:
            column_field = model_field(model, name)
            kind = column_type(column_field)
            column: dict[str, Any] = {
                "name": name,
                "label": field_label(model, name),
                "type": "date" if isinstance(column_field, models.DateField) else kind,
            }
            if kind == "choice":
                column["choices"] = {str(raw): str(label) for raw, label in column_field.flatchoices}
            columns.append(column)
        for place, each in enumerate(measures):
            of = model_field(model, each.field) if each.field else None
            numeric = of is None or each.op in ("count", "sum", "avg")
            columns.append(
                {
                    "name": f"={place}",
                    "label": _measure_label(model, each),
                    "type": "number" if numeric else column_type(of),
                }
            )
        names = [each["name"] for each in columns]
        table: dict[str, Any] = {
            "kind": "summary" if summary.measures else "count",
            "entity": self.entity.name,
            "label": str(capfirst(model._meta.verbose_name_plural)),
            "columns": columns,
            "rows": [
                {"id": None, "url": None, "values": dict(zip(names, (*key, *values), strict=True))}
                for key, values in self.groups
            ],
            "hasMore": self.more,
            **({"asked": list(self.asked)} if self.asked else {}),
        }
        if summary.by:
            table["chart"] = {
                "type": "line" if summary.every else "bar",
                "x": summary.by[0],
                **({"series": summary.by[1]} if len(summary.by) > 1 else {}),
                "y": [f"={place}" for place in range(len(measures))],
            }
        return table

    def texts(self) -> list[list[str]]:
        """Return the cells of ``for_person`` as text, row by row, for a page."""
        fields = [model_field(self.entity.model, name) for name in self.summary.by]
        return [
            [
                *(_key_text(field, value) for field, value in zip(fields, key, strict=True)),
                *("" if value is None else display(None, value) for value in values),
            ]
            for key, values in self.groups
        ]

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was found."""
        return not self.groups


def _key_text(field: Any, value: Any) -> str:
    if isinstance(value, dict):
        return clean_text(str(value.get("label", value["id"])))
    return (
        ""
        if value is None
        else clean_text(display(None if isinstance(field, models.DateField) else field, value))
    )


def _measure_label(model: type[models.Model], measure: Measure) -> str:
    if not measure.field:
        return _("Number")
    label = field_label(model, measure.field)
    words = {
        "count": _("%(field)s: how many"),
        "sum": _("%(field)s: sum"),
        "avg": _("%(field)s: average"),
        "min": _("%(field)s: lowest"),
        "max": _("%(field)s: highest"),
    }
    return words[measure.op] % {"field": label}


def run_summary(entity: EntityAccess, summary: Summary) -> Summed:
    """Count or sum as this person may. Raises CallError for what she or the model must mend, or can't be done."""
    with entity.at("changelist"):
        if not entity.can_view:
            raise Refused("This person may not see records of this kind.", code="not_allowed")
        if not entity.asks_more:
            raise Refused("Records of this kind can't be counted here.", code="not_available")
        readable = entity.readable()
        _check(entity, summary, readable)
        wanted = conditions(entity, summary.filters, readable)
        used = [*summary.by, *(each.field for each in summary.measures if each.field)]
        with limited(entity.model):
            rows, looked_at, told = selected(entity, wanted, summary.search)
            looked_at = list(dict.fromkeys([*looked_at, *used]))
            hidden = not set(looked_at) <= entity.readable_on_all | entity.showable_on_all
            if hidden or not entity.decides_in_database:
                groups, more = _one_by_one(entity, rows, looked_at, summary)
            elif not summary.measures:
                number = each_once(rows).values("pk")[: COUNT_CAP + 1].count()
                groups, more = [((), (min(number, COUNT_CAP),))], number > COUNT_CAP
            else:
                groups, more = _in_database(entity, each_once(rows), summary)
        labelled, related_told = _labelled(entity, summary, groups)
    return Summed(
        entity=entity,
        summary=Summary(**{**vars(summary), "filters": wanted.filters}),
        groups=tuple((tuple(map(_json, key)), tuple(map(_json, values))) for key, values in labelled),
        more=more,
        worked_out=wanted.filters != summary.filters,
        asked=conditions_text(entity, wanted.filters, Query(entity=summary.entity, search=summary.search)),
        told=merge(told, related_told, {entity.entity.label: looked_at}),
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


def _check(entity: EntityAccess, summary: Summary, readable: Sequence[str]) -> None:
    """Raise CallError unless each field may be read and takes part in the way that is asked."""
    if len(summary.by) > MAX_BY or len({*summary.by}) < len(summary.by):
        raise CallError(f"by: at most {MAX_BY} different fields.", code="invalid_value", field="by")
    for name in (*summary.by, *(each.field for each in summary.measures if each.field)):
        if name not in readable:
            raise unknown_field(name, readable)
    for each in summary.measures:
        source = model_field(entity.model, each.field) if each.field else None
        if source is None and each.op != "count":
            raise CallError(f"measures: {each.op} needs a field.", code="invalid_value", field="measures")
        numeric = isinstance(source, NUMBERS) and source.remote_field is None and not source.choices
        if each.op in ("sum", "avg") and not numeric:
            raise CallError(
                f"measures: {each.op} needs a field of numbers, and {each.field} is none.",
                code="invalid_value",
                field="measures",
            )
        if each.op in ("min", "max") and not entity.can_range(each.field):
            raise CallError(
                f"measures: {each.op} needs a field of numbers, dates or times, and {each.field} is none.",
                code="invalid_value",
                field="measures",
            )
        if source is not None and (source.many_to_many or not entity.can_compare(each.field)):
            raise CallError(
                f"measures: {each.field} can't be counted.", code="invalid_value", field="measures"
            )
    dated = 0
    for name in summary.by:
        source = model_field(entity.model, name)
        if source.many_to_many or not entity.can_compare(name):
            raise CallError(f"by: {name} can't make groups.", code="invalid_value", field="by")
        dated += isinstance(source, models.DateField)
    if bool(dated) != bool(summary.every) or dated > 1:
        raise CallError(
            "every: one field of dates in by, and day, week or month, go together.",
            code="invalid_value",
            field="every",
        )


# -- in the database --------------------------------------------------------------------------------------

Groups = list[tuple[tuple[Any, ...], tuple[Any, ...]]]


def _in_database(entity: EntityAccess, rows: models.QuerySet[Any], summary: Summary) -> tuple[Groups, bool]:
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
            found = [rows.aggregate(**parts)]
            return [((), _measured(entity, summary, found[0]))], False
        grouped = rows.annotate(**keys).values(*key_names).annotate(**parts)
        if summary.measures[0].op == "avg":  # its value here is a sum, and the greatest average comes first
            grouped = grouped.annotate(copilot_first=models.Avg(summary.measures[0].field))
        first = "copilot_first" if summary.measures[0].op == "avg" else "copilot_0_value"
        order = (
            [f"-{key_names[_dated(entity, summary)]}"]
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


def _one_by_one(
    entity: EntityAccess, rows: models.QuerySet[Any], looked_at: Sequence[str], summary: Summary
) -> tuple[Groups, bool]:
    """Return the same, over records that were asked for one by one. Raises Refused when there are too many."""
    most = get_settings().SCAN_ROWS
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


# -- labels -----------------------------------------------------------------------------------------------


def _labelled(
    entity: EntityAccess, summary: Summary, groups: Groups
) -> tuple[Groups, dict[str, tuple[str, ...]]]:
    """Return the groups with related records as a query gives them: an id, and a label where it may be seen."""
    told: dict[str, tuple[str, ...]] = {}
    shown: dict[int, Mapping[Any, Any]] = {}
    for place, name in enumerate(summary.by):
        source = model_field(entity.model, name)
        if source.remote_field is not None and groups:
            holders = [SimpleNamespace(**{source.attname: key[place]}) for key, _values in groups]
            shown[place], more = related_values(entity.access, source, holders)
            told = merge(told, more)
    if not shown:
        return groups, told
    return [
        (
            tuple(shown[place].get(part) if place in shown else part for place, part in enumerate(key)),
            values,
        )
        for key, values in groups
    ], told


def _json(value: Any) -> Any:
    return value if isinstance(value, dict) else to_json(value)
