"""The rows of a record's inline, as one column: one query for all records of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

from django.core.exceptions import EmptyResultSet
from django.db import models
from django.utils.text import capfirst

from ..access import EntityAccess
from ..access.inlines import InlineAccess, InlineOnRecord, declared_inlines, relation_of
from ..conf import get_settings
from ..declaration import model_field
from ..display import field_label
from ..identity import key_is_data, key_text
from ..values import column_type
from .cells import CUT, PERSON_CHARS, Cells, cell_text, cut, merge

INLINE_ROWS = 50  # of one record
_FIRST = "_copilot_inline_"  # beside the rows themselves, which others may look at in full


def inline_names(entity: EntityAccess) -> tuple[str, ...]:
    """Return the accessors that the declaration names and the model has."""
    if not entity.model_admin.harness_inlines:
        return ()
    return tuple(
        accessor
        for accessor in declared_inlines(entity.model_admin)
        if relation_of(entity.model, accessor) is not None
    )


class InlineRows:
    """The rows of one inline. What the inline does not show this person on a record is left out there."""

    def __init__(self, inline: InlineAccess) -> None:
        self.name = inline.accessor
        self.told: dict[str, tuple[str, ...]] = {}
        self._inline = inline
        self._model = inline.model
        self._label = str(inline.model._meta.verbose_name_plural)
        self._fields: dict[Any, tuple[str, ...]] = {}  # by the record's key
        self._rows: dict[Any, list[Any]] = {}
        self._cells: Cells | None = None

    @classmethod
    def all(cls, entity: EntityAccess, names: Sequence[str]) -> Iterator[InlineRows]:
        """Go through the columns of these accessors."""
        declared = declared_inlines(entity.model_admin) if names else {}
        for name in names:
            yield cls(InlineAccess(entity, name, relation_of(entity.model, name), declared[name]))

    @property
    def is_seen(self) -> bool:
        """Tell whether the inline shows this person rows of records in general."""
        return self._inline.is_seen

    def read(self, records: Sequence[Any]) -> None:
        """Read at most INLINE_ROWS rows of each record, and one more."""
        alike: dict[Any, tuple[InlineOnRecord, list[Any]]] = {}
        for record in records:
            shown = self._inline.on(record)
            if shown is None:
                continue
            self._label = shown.label
            self._fields[record.pk], self._rows[record.pk] = shown.fields, []
            key = record.pk if shown.own else _statement(shown.rows)
            if key is not None:
                alike.setdefault((shown.own, shown.fields, key), (shown, []))[1].append(record)
        for shown, group in alike.values():
            self._rows |= self._read(shown, group)
        fields = [
            name for name in self._inline.declared if any(name in each for each in self._fields.values())
        ]
        rows = [row for each in self._rows.values() for row in each[:INLINE_ROWS]]
        # Cells ask for no more than a model, and the access for labels.
        self._cells = Cells(cast(EntityAccess, self._inline), list(dict.fromkeys(fields)), rows)
        self.told = merge(self._cells.told, {self._inline.entity.entity.label: (self.name,)})

    def _read(self, shown: InlineOnRecord, records: list[Any]) -> dict[Any, list[Any]]:
        rows = shown.rows
        if shown.own and not isinstance(rows, models.QuerySet):
            return {records[0].pk: list(rows)[: INLINE_ROWS + 1]}
        if not rows.query.is_sliced:
            rows = rows.order_by(*_ordering(self._model, shown))
        if shown.own:
            return {records[0].pk: list(rows[: INLINE_ROWS + 1])}
        relation = self._inline.relation
        if relation.one_to_one:
            name, target = relation.field.attname, relation.field.target_field.attname
            found = {getattr(row, name): row for row in rows.filter((f"{relation.field.name}__in", records))}
            return {
                each.pk: [found[getattr(each, target)]] for each in records if getattr(each, target) in found
            }
        if rows.query.distinct:  # which a slice of each record's own rows would undo
            rows = self._model._base_manager.using(rows.db).filter(pk__in=rows.order_by().values("pk"))
            rows = rows.order_by(*_ordering(self._model, shown))
        first = models.Prefetch(self.name, rows[: INLINE_ROWS + 1], to_attr=_FIRST + self.name)
        models.prefetch_related_objects(records, first)
        return {each.pk: getattr(each, _FIRST + self.name) for each in records}

    def for_person(self) -> dict[str, Any]:
        """Return the column's head, with those of the fields in its rows."""
        heads = []
        for name in self._cells.fields if self._cells is not None else ():
            head = {
                "name": name.name,
                "label": field_label(self._model, name.name),
                "type": column_type(name),
            }
            if head["type"] == "choice":
                head["choices"] = {str(raw): str(label) for raw, label in name.flatchoices}
            heads.append(head)
        return {"name": self.name, "label": str(capfirst(self._label)), "type": "rows", "columns": heads}

    def is_readable_on(self, record: Any) -> bool:
        """Tell whether the inline shows this person anything of this record, be it that there are no rows."""
        return record.pk in self._fields

    def cell(self, record: Any) -> list[dict[str, Any]]:
        """Return the rows, each with an id unless that is data."""
        assert self._cells is not None
        named = not key_is_data(self._model)
        made: list[dict[str, Any]] = []
        for row in self._rows[record.pk][:INLINE_ROWS]:
            values = self._cells.of(row, self._fields[record.pk])
            made.append(
                ({"id": key_text(self._model, row.pk)} if named else {})
                | {name: _cut(self._model, name, value, PERSON_CHARS) for name, value in values.items()}
            )
        return [*made, {"more": True}] if len(self._rows[record.pk]) > INLINE_ROWS else made

    def sent(self, value: Any) -> Any:
        """Return as many rows as fit into a quarter of a result."""
        settings = get_settings()
        kept: list[dict[str, Any]] = []
        size = 0
        for row in value:
            row = {name: _cut(self._model, name, each, settings.CELL_CHARS) for name, each in row.items()}
            size += len(json.dumps(row, ensure_ascii=False).encode()) + 2
            if size > settings.RESULT_BYTES // 4:
                return [*kept, {"more": True}]
            kept.append(row)
        return kept

    def text(self, record: Any) -> str:
        """Return the rows one after another, each value with its label."""
        values = self.cell(record)
        lines = []
        for row, given in zip(self._rows[record.pk], values, strict=False):
            if "more" in given and len(given) == 1:
                break
            cells = (
                (field_label(self._model, name), cell_text(model_field(self._model, name), row, given[name]))
                for name in self._fields[record.pk]
            )
            lines.append(", ".join(f"{label}: {text}" for label, text in cells if text))
        more = [CUT] if len(self._rows[record.pk]) > INLINE_ROWS else []
        return str(cut("; ".join([*lines, *more]), PERSON_CHARS))


def _cut(model: type[models.Model], name: str, value: Any, limit: int) -> Any:
    field = model_field(model, name)
    return value if field is None or field.remote_field is not None else cut(value, limit)


def _statement(rows: models.QuerySet[Any]) -> Any:
    """Return what two querysets have alike that give the same rows, or None for one that gives none."""
    try:
        # Which rows, and in which order: the columns are the model's in any case.
        chosen = rows.order_by().values("pk").query.sql_with_params()
        return rows.db, repr(chosen), repr(rows.query.order_by), rows.query.default_ordering
    except EmptyResultSet:
        return None


def _ordering(model: type[models.Model], shown: InlineOnRecord) -> list[str]:
    """Return the inline's own order, with each term that it does not show replaced by the key."""
    query = shown.rows.query
    terms = query.order_by or (shown.ordering or model._meta.ordering or () if query.default_ordering else ())
    key = model._meta.pk.name if model._meta.pk is not None else "pk"
    kept = []
    for term in terms:
        name = term.lstrip("-+") if isinstance(term, str) else ""
        field = model_field(model, name)
        readable = name in ("pk", key) or (name in shown.fields and field is not None)
        own = field is None or field.remote_field is None
        descending = (
            term.startswith("-") if isinstance(term, str) else bool(getattr(term, "descending", False))
        )
        kept.append(str(term) if readable and own else "-pk" if descending else "pk")
    return kept if kept and kept[-1] in ("pk", "-pk") else [*kept, "pk"]
