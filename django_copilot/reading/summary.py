"""Counts and sums over the rows that one person may view, and over no others.

In the database where the hooks of the project let it know which rows and fields are hers; record by record,
within SCAN_ROWS, where they decide on single records; refused where neither can be done.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..access import EntityAccess
from ..database import limited
from ..declaration import model_field
from ..display import display, field_label
from ..exceptions import CallError, Refused
from ..values import clean_text, column_type, to_json
from .cells import merge, related_values
from .conditions import conditions, unknown_field
from .query import Query
from .scan import selected
from .sums import MAX_BY, NUMBERS, Groups, Measure, Summary, counted, in_database, one_by_one
from .wording import conditions_text


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
                {
                    "id": None,
                    "url": None,
                    "values": dict(zip(names, (*key, *self._shown(values)), strict=True)),
                }
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

    def _shown(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the numbers as the person sees them: of a count that was stopped, that it is more."""
        if self.summary.measures or not self.more:
            return values
        return tuple(_("over %(count)s") % {"count": display(None, each)} for each in values)

    def texts(self) -> list[list[str]]:
        """Return the cells of ``for_person`` as text, row by row, for a page."""
        fields = [model_field(self.entity.model, name) for name in self.summary.by]
        return [
            [
                *(_key_text(field, value) for field, value in zip(fields, key, strict=True)),
                *("" if value is None else display(None, value) for value in self._shown(values)),
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
    if value is None:
        return ""
    if isinstance(field, models.DateField):  # the first day of a period
        return display(None, datetime.date.fromisoformat(str(value)))
    return clean_text(display(field, value))


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
        rows, looked_at, told = selected(entity, wanted, summary.search)
        looked_at = list(dict.fromkeys([*looked_at, *used]))
        hidden = not set(looked_at) <= entity.readable_on_all | entity.showable_on_all
        if hidden or not entity.decides_in_database:
            groups, more = one_by_one(entity, rows, looked_at, summary)
        else:
            with limited(rows):
                groups, more = in_database(entity, rows, summary) if summary.measures else counted(rows)
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
