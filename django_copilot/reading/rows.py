"""Reading rows: the one path by which stored values reach a tool result or a person's table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import NoReverseMatch
from django.utils.text import capfirst

from ..access import EntityAccess
from ..conf import get_settings
from ..declaration import model_field
from ..exceptions import Refused
from ..identity import key_text
from ..references import Shown, handle
from ..values import column_type
from .cells import PERSON_CHARS, Cells, cell_text, cut, merge
from .columns import Column, column_names, columns_for
from .conditions import check_names, conditions
from .query import Query
from .scan import scan, selected
from .wording import conditions_text

TABLES_BYTES = 1_000_000  # of all tables in one answer to a person


@dataclass(frozen=True, kw_only=True)
class Row:
    """One record. ``values`` go to the model and to the person, ``kept`` to the person only."""

    ident: str
    record: Any
    values: Mapping[str, Any]
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a query gave: rows of JSON values by field, each with its id and record."""

    entity: EntityAccess
    query: Query  # with words for dates worked out
    fields: tuple[str, ...]
    shown: tuple[str, ...] = ()  # fields that the person sees and the model gets handles for
    columns: tuple[Column, ...] = ()  # what is read and is no field
    rows: tuple[Row, ...]
    number: int  # of the reference
    has_more: bool
    after: str = ""  # what ``after`` takes for the next page
    may_miss: bool = False  # rows are checked one by one and not all may have been; says nothing of these
    worked_out: bool = False  # whether filters stand there otherwise than they were given
    asked: tuple[str, ...] = ()  # what was asked for, in words for the person
    # Fields told besides, by entity's label.
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def reference(self) -> Shown:
        """Return what later calls may name: the entity and the keys."""
        keys = tuple(key_text(self.entity.model, each.record.pk) for each in self.rows)
        return Shown(number=self.number, entity=self.entity.entity.label, keys=keys)

    def for_person(self) -> dict[str, Any]:
        """Return the table that the person sees."""
        model = self.entity.model
        columns = []
        for name in (*self.fields, *self.shown):
            column_field = model_field(model, name)
            column: dict[str, Any] = {
                "name": name,
                "label": str(capfirst(column_field.verbose_name)),
                "type": column_type(column_field),
            }
            if column["type"] == "choice":
                column["choices"] = {str(raw): str(label) for raw, label in column_field.flatchoices}
            if name in self.shown:
                column["sent"] = False
            columns.append(column)
        columns += [each.for_person() for each in self.columns]
        return {
            "entity": self.entity.name,
            "label": str(capfirst(model._meta.verbose_name_plural)),
            "columns": columns,
            "rows": [
                {
                    "id": each.ident,
                    "url": _url(self.entity, each.record),
                    "values": self._for_person({**each.values, **each.kept}),
                }
                for each in self.rows
            ],
            "hasMore": self.has_more,
            **({"asked": list(self.asked)} if self.asked else {}),
        }

    def texts(self) -> list[list[str]]:
        """Return the cells of ``for_person`` as text, row by row, for a page."""
        model = self.entity.model
        lines = []
        for row in self.rows:
            values = {**row.values, **row.kept}
            cells = [
                cell_text(model_field(model, name), row.record, values[name]) if name in values else ""
                for name in (*self.fields, *self.shown)
            ]
            cells += [each.text(row.record) if each.name in values else "" for each in self.columns]
            lines.append(cells)
        return lines

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was found."""
        return not self.rows

    def _for_person(self, values: Mapping[str, Any]) -> dict[str, Any]:
        whole = {each.name for each in self.columns}
        return {
            name: value
            if name in whole or model_field(self.entity.model, name).remote_field is not None
            else cut(value, PERSON_CHARS)
            for name, value in values.items()
        }

    def for_model(self) -> tuple[dict[str, Any], int]:
        """Return the tool result, cut at the stated sizes, and how many rows are in it."""
        settings = get_settings()
        result: dict[str, Any] = {"entity": self.entity.name, "rows": [], "has_more": self.has_more}
        if self.rows:
            result["ref"] = f"r{self.number}"
        if self.after:
            result["after"] = self.after
        if self.worked_out:
            result["filters"] = dict(self.query.filters)
        if self.may_miss and not self.has_more:
            result["note"] = (
                f"Records are checked one by one, at most {settings.SCAN_ROWS}; there may be more."
            )
        columns = {each.name: each for each in self.columns}
        size = len(json.dumps(result))
        for place, each in enumerate(self.rows, 1):
            row = {"id": each.ident}
            row |= {
                name: columns[name].sent(value) if name in columns else cut(value, settings.CELL_CHARS)
                for name, value in each.values.items()
            }
            row |= {name: handle(name, f"r{self.number}.{place}") for name in each.kept}
            size += len(json.dumps(row, ensure_ascii=False).encode()) + 2
            if size > settings.RESULT_BYTES:
                result["has_more"] = True
                result["cut"] = "The result was too long; the rows after these were left out."
                break
            result["rows"].append(row)
        return result, len(result["rows"])


def fit_table(table: dict[str, Any], most: int) -> tuple[dict[str, Any], int]:
    """Return a person's table with as many rows as fit into so many bytes, at least one, and its bytes."""
    size, kept = len(json.dumps({**table, "rows": []})), list[Any]()
    for row in table["rows"]:
        size += len(json.dumps(row))
        if kept and size > most:
            return {**table, "rows": kept, "hasMore": True}, size
        kept.append(row)
    return table, size


def _url(entity: EntityAccess, obj: Any) -> str | None:
    try:
        return entity.page_url("change", obj)
    except NoReverseMatch:  # an admin may have no such page
        return None


def run_query(entity: EntityAccess, query: Query) -> Rows:
    """Run a query as this person may. Raises CallError for names and values she or the model must mend."""
    with entity.at("changelist"):
        if not entity.can_view:
            raise Refused("This person may not see records of this kind.", code="not_allowed")
        readable, showable = entity.readable(), entity.showable()
        columns = columns_for(entity, query)
        besides = column_names(entity)
        names = [name for name in query.fields if name not in besides]
        fields = check_names(entity, names, (*readable, *besides)) if query.fields else readable
        shown = tuple(name for name in showable if name in query.fields or not query.fields)
        wanted = conditions(entity, query.filters, readable)
        rows, looked_at, told = selected(entity, wanted, query.search)
        resolved = Query(**{**vars(query), "filters": wanted.filters})
        found = scan(entity, rows, looked_at, resolved)
        records = [obj for obj, _ in found.records]
        cells = Cells(entity, fields, records)
        kept = Cells(entity, shown, records)
        for each in columns:
            each.read(records)
        columns = [each for each in columns if any(map(each.is_readable_on, records))]
        idents = entity.ids(records)
        made = tuple(
            Row(
                ident=idents[obj.pk],
                record=obj,
                values=cells.of(obj, readable_here)
                | {each.name: each.cell(obj) for each in columns if each.is_readable_on(obj)},
                kept=kept.of(obj, entity.showable(obj)) if shown else {},
            )
            for obj, readable_here in found.records
        )
    more_may_be = entity.asks_per_row and not entity.narrows_rows
    return Rows(
        entity=entity,
        query=resolved,
        fields=fields,
        shown=shown,
        columns=tuple(columns),
        rows=made,
        number=entity.access.references.next,
        has_more=found.has_more,
        after=idents[found.after.pk] if found.after is not None else "",
        may_miss=more_may_be or bool(looked_at and entity.hides_fields_per_row),
        worked_out=wanted.filters != query.filters,
        asked=conditions_text(entity, wanted.filters, query),
        told=merge(
            cells.told,
            entity.told_by_ids,
            told,
            {entity.entity.label: looked_at} if looked_at else {},
            *(each.told for each in columns),
        ),
    )


def run_record(entity: EntityAccess, obj: Any, *, for_person: bool = False) -> dict[str, Any]:
    """Return the readable values of one record that the person may view; for her eyes also those only shown."""
    names = (*entity.readable(obj), *(entity.showable(obj) if for_person else ()))
    return Cells(entity, names, [obj]).of(obj, names)
