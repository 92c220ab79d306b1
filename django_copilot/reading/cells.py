"""Cells: the stored values of a page of rows, each kept only where its field is readable on that very row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import models

from ..access import Access, EntityAccess, related_rows
from ..declaration import model_field
from ..display import display
from ..identity import key_is_data, key_text, refer
from ..values import clean_text, to_json

PERSON_CHARS = 2_000  # of one value in a person's table
LABEL_CHARS = 200  # of a related record's label
RELATED_LIMIT = 50  # related records in one cell
CUT = "… [cut]"


def cut(value: Any, limit: int) -> Any:
    """Return a JSON value as it is, or the beginning of its text with a mark when that is longer."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + CUT
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return value if len(text) <= limit else text[:limit] + CUT
    return value


class Cells:
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
                self.related[each.name], told = related_values(entity.access, each, objects)
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


def related_values(
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


def cell_text(field: Any, obj: Any, value: Any) -> str:
    """Return a readable JSON value of a record's field as plain text, no longer than a table's cell."""
    if field.remote_field is None:
        return str(cut(clean_text(display(field, field.value_from_object(obj))), PERSON_CHARS))
    related = value if isinstance(value, list) else [value] if value is not None else []
    return ", ".join(clean_text(str(each.get("label", each["id"]))) for each in related)


def merge(*told: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return what several things tell of together: fields by entity."""
    merged: dict[str, dict[str, None]] = {}
    for each in told:
        for label, names in each.items():
            merged.setdefault(label, {}).update(dict.fromkeys(names))
    return {label: tuple(names) for label, names in merged.items()}
