"""Reading rows: the one path by which stored values reach a tool result or a person's table.

Rows come from the ModelAdmin's queryset in its own order, each is asked for by ``has_view_permission``, and
each cell is kept only where the field is readable on that very row. Counting and cutting come after that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.urls import NoReverseMatch
from django.utils.text import capfirst

from .access import Access, EntityAccess, ask_hook, related_rows
from .conf import get_settings
from .declaration import model_field
from .exceptions import CallError, Refused
from .identity import dereference, key_is_data, key_text, parse_key, refer
from .values import clean_text, column_type, json_to_python, to_json

MAX_LIMIT = 50
DEFAULT_LIMIT = 20
PERSON_CHARS = 2_000  # of one value in a person's table
LABEL_CHARS = 200  # of a related record's label
RELATED_LIMIT = 50  # related records in one cell
TABLES_BYTES = 1_000_000  # of all tables in one answer to a person
CUT = "… [cut]"


@dataclass(frozen=True, kw_only=True)
class Query:
    """A checked query, in the form in which it is stored and run again later."""

    entity: str  # "app_label.modelname"
    fields: tuple[str, ...]  # empty: all that are readable
    filters: Mapping[str, Any]
    limit: int = DEFAULT_LIMIT

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "entity": self.entity,
            "fields": list(self.fields),
            "filters": dict(self.filters),
            "limit": self.limit,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Query:
        """Read the stored form."""
        return cls(
            entity=stored["entity"],
            fields=tuple(stored["fields"]),
            filters=stored["filters"],
            limit=stored["limit"],
        )


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a query gave: rows of JSON values by field, each with its id and record."""

    entity: EntityAccess
    fields: tuple[str, ...]
    rows: tuple[tuple[str, Any, dict[str, Any]], ...]  # id, record, values
    has_more: bool
    may_miss: bool = False  # rows are checked one by one and not all may have been; says nothing of these
    told: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # fields told besides, by entity's label

    def for_person(self) -> dict[str, Any]:
        """Return the table that the person sees."""
        model = self.entity.model
        columns = []
        for name in self.fields:
            column_field = model_field(model, name)
            column: dict[str, Any] = {
                "name": name,
                "label": str(capfirst(column_field.verbose_name)),
                "type": column_type(column_field),
            }
            if column["type"] == "choice":
                column["choices"] = {str(raw): str(label) for raw, label in column_field.flatchoices}
            columns.append(column)
        return {
            "entity": self.entity.name,
            "label": str(capfirst(model._meta.verbose_name_plural)),
            "columns": columns,
            "rows": [
                {"id": ident, "url": _url(self.entity, obj), "values": self._for_person(values)}
                for ident, obj, values in self.rows
            ],
            "hasMore": self.has_more,
        }

    def _for_person(self, values: Mapping[str, Any]) -> dict[str, Any]:
        model = self.entity.model
        return {
            name: value if model_field(model, name).remote_field is not None else cut(value, PERSON_CHARS)
            for name, value in values.items()
        }

    def for_model(self) -> tuple[dict[str, Any], int]:
        """Return the tool result, cut at the stated sizes, and how many rows are in it."""
        settings = get_settings()
        result: dict[str, Any] = {"entity": self.entity.name, "rows": [], "has_more": self.has_more}
        if self.may_miss and not self.has_more:
            result["note"] = (
                f"Records are checked one by one, at most {settings.SCAN_ROWS}; there may be more."
            )
        size = len(json.dumps(result))
        for ident, _obj, values in self.rows:
            row = {"id": ident, **{name: cut(value, settings.CELL_CHARS) for name, value in values.items()}}
            size += len(json.dumps(row, ensure_ascii=False).encode()) + 2
            if size > settings.RESULT_BYTES:
                result["has_more"] = True
                result["cut"] = "The result was too long; the rows after these were left out."
                break
            result["rows"].append(row)
        return result, len(result["rows"])


def cut(value: Any, limit: int) -> Any:
    """Return a JSON value as it is, or the beginning of its text with a mark when that is longer."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + CUT
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return value if len(text) <= limit else text[:limit] + CUT
    return value


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
        readable = entity.readable()
        fields = _check_names(entity, query.fields, readable) if query.fields else readable
        condition, filtered = _conditions(entity, query.filters, readable)
        found, has_more = _scan(entity, condition, filtered, query.limit)
        cells = _Cells(entity, fields, [obj for obj, _ in found])
        idents = entity.ids([obj for obj, _ in found])
        rows = tuple((idents[obj.pk], obj, cells.of(obj, readable)) for obj, readable in found)
    may_miss = entity.asks_per_row or bool(filtered and entity.hides_fields_per_row)
    told = merge(cells.told, entity.told_by_ids)
    return Rows(entity=entity, fields=fields, rows=rows, has_more=has_more, may_miss=may_miss, told=told)


def run_record(entity: EntityAccess, obj: Any) -> dict[str, Any]:
    """Return the readable values of one record that the person may view."""
    readable = entity.readable(obj)
    return _Cells(entity, readable, [obj]).of(obj, readable)


def _check_names(entity: EntityAccess, names: Sequence[str], readable: Sequence[str]) -> tuple[str, ...]:
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


def _conditions(
    entity: EntityAccess, filters: Mapping[str, Any], readable: Sequence[str]
) -> tuple[models.Q, tuple[str, ...]]:
    condition = models.Q()
    names = []
    for name, given in filters.items():
        if name == "id":
            condition &= models.Q(("pk__in", entity.keys(given)))
            continue
        if name not in readable:
            raise unknown_field(name, ["id", *readable])
        field = model_field(entity.model, name)
        if isinstance(field, models.JSONField | models.FileField):
            raise CallError(
                f"{name}: this field can be read but not filtered on.", code="not_filterable", field=name
            )
        names.append(name)
        if given is None:
            condition &= models.Q((f"{field.name}__isnull", True))
        elif field.remote_field is not None:
            condition &= models.Q((f"{field.name}__pk__in", _related_keys(entity.access, field, name, given)))
        else:
            condition &= models.Q((field.name, json_to_python(field, name, given)))
    return condition, tuple(names)


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


def _scan(
    entity: EntityAccess, condition: models.Q, filtered: Sequence[str], limit: int
) -> tuple[list[tuple[Any, tuple[str, ...]]], bool]:
    """Read on until ``limit`` rows and one more are found that the person may see, within SCAN_ROWS.

    Whether it ended at SCAN_ROWS is not told: that would tell of rows that she may not see.
    """
    base = entity.queryset().filter(condition)
    ordered = base.order_by(*_ordering(entity, base))
    found: dict[Any, tuple[Any, tuple[str, ...]]] = {}
    offset, most = 0, get_settings().SCAN_ROWS
    step = (limit + 1) * (2 if entity.asks_per_row else 1)
    while offset < most:
        step = min(step, most - offset)
        page = list(ordered[offset : offset + step])
        for obj in page:
            if obj.pk in found or not entity.may_view(obj):
                continue
            readable = entity.readable(obj)
            if all(name in readable for name in filtered):
                found[obj.pk] = (obj, readable)
                if len(found) > limit:
                    return list(found.values())[:limit], True
        if len(page) < step:
            return list(found.values()), False
        offset += step
        step = max(step * 2, 100)
    return list(found.values()), False


def _ordering(entity: EntityAccess, qs: models.QuerySet[Any]) -> list[Any]:
    """Return the ModelAdmin's own ordering with each term not readable on every record replaced by the key."""
    terms: Sequence[Any] = qs.query.order_by
    if not terms and qs.query.default_ordering:
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


class _Cells:
    """Cell values of a page of rows, with one query for each relation among the columns."""

    def __init__(self, entity: EntityAccess, fields: Sequence[str], objects: Sequence[Any]) -> None:
        self.fields = [model_field(entity.model, name) for name in fields]
        self.related: dict[str, dict[Any, dict[str, str]]] = {}
        self.told: dict[str, tuple[str, ...]] = {}  # fields that labels and ids of related records tell of
        many = [_first_related(each) for each in self.fields if each.many_to_many]
        if many and objects:
            models.prefetch_related_objects(list(objects), *many)
        for each in self.fields:
            if each.remote_field is not None and objects:
                self.related[each.name], told = _related_values(entity.access, each, objects)
                self.told = merge(self.told, told)

    def of(self, obj: Any, readable: Sequence[str]) -> dict[str, Any]:
        """Return the JSON values of one row, with the fields that are readable on it."""
        return {each.name: self._value(each, obj) for each in self.fields if each.name in readable}

    def _value(self, field: Any, obj: Any) -> Any:
        if field.many_to_many:
            keys = [each.pk for each in getattr(obj, _FIRST + field.name)]
            shown = [self.related[field.name][pk] for pk in keys[:RELATED_LIMIT]]
            return shown if len(keys) <= RELATED_LIMIT else [*shown, {"id": "", "label": CUT}]
        if field.remote_field is not None:
            raw = getattr(obj, field.attname)
            return None if raw is None else self.related[field.name].get(raw)
        value = field.value_from_object(obj)
        return str(value) if isinstance(field, models.FileField) else to_json(value)


_FIRST = "_copilot_first_"  # beside the relation itself, which others may look at in full


def _first_related(field: Any) -> Any:
    """Return the prefetch of as many related records as are shown of each, and one more."""
    first = field.remote_field.model._default_manager.order_by("pk").only("pk")[: RELATED_LIMIT + 1]
    return models.Prefetch(field.name, queryset=first, to_attr=_FIRST + field.name)


def _related_values(
    access: Access, field: Any, objects: Sequence[Any]
) -> tuple[dict[Any, dict[str, str]], dict[str, tuple[str, ...]]]:
    """Return {"id", "label"?} of each related record, by what the row holds of it, and what they tell of.

    The label is there only where the related model is declared here and the person may view that record.
    """
    model = field.remote_field.model
    told: dict[str, tuple[str, ...]] = {}
    if field.many_to_many:
        shown = (getattr(obj, _FIRST + field.name)[:RELATED_LIMIT] for obj in objects)
        pks = {each.pk: each.pk for related in shown for each in related}
    else:
        raws = {getattr(obj, field.attname) for obj in objects} - {None}
        target = field.target_field
        if target.primary_key or target.name == "pk":
            pks = {raw: raw for raw in raws}
        else:
            held = model._base_manager.filter(models.Q((f"{target.name}__in", raws)))
            pks = dict(held.values_list(target.name, "pk"))
    related = access.of_model(model)
    rows = related_rows(access, model) if related is not None else None
    labelled = rows.visible(set(pks.values())) if rows is not None else {}
    if key_is_data(model):
        idents = related.ids(labelled.values()) if related is not None else {}
        idents |= refer(access.request, model, set(pks.values()) - set(idents))
    else:
        idents = {pk: key_text(model, pk) for pk in pks.values()}
    if related is not None and labelled:
        told = merge({related.entity.label: ()}, related.told_by_ids)
    values = {
        raw: {"id": idents[pk], **({"label": _label(labelled[pk])} if pk in labelled else {})}
        for raw, pk in pks.items()
    }
    return values, told


def _label(obj: Any) -> str:
    return str(cut(clean_text(str(obj)), LABEL_CHARS))


def merge(*told: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return what several things tell of together: fields by entity."""
    merged: dict[str, dict[str, None]] = {}
    for each in told:
        for label, names in each.items():
            merged.setdefault(label, {}).update(dict.fromkeys(names))
    return {label: tuple(names) for label, names in merged.items()}
