"""Find records by what a person calls them, with the query tools of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .lexicon import Entity, Field, Model
from .texts import capital
from .tokens import fold, same_text
from .turn import Turn
from .values import Item

_MOST = 50  # records that a query gives at most
_OPTIONS = 10  # that a question offers
_ALIKE = 3  # letters

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """What a lookup gave: one id, or records to choose from, or nothing."""

    id: str = ""
    same: tuple[str, ...] = ()  # options, all called so
    similar: tuple[str, ...] = ()  # options, called nearly so
    others: tuple[str, ...] = ()  # options, what there is instead: what starts alike, else the first ones


def look_up(
    turn: Turn, entity: Entity, text: str, *, language: str, columns: Sequence[str] = (), endings: bool
) -> Lookup | None:
    """Find one record by a text; None while the turn has to read first.

    First what is called exactly so, in one read; then everything else in a second one: other columns,
    another first letter, and the first records of all to compare without case and diacritics. ``endings``:
    a single record whose name differs only in its ending is taken, else it is offered.
    """
    spec = entity.tool("query")
    names = list(columns) or [field.name for field in entity.name_fields()]
    if spec is None:
        return Lookup()
    if not names:
        rows = turn.rows(spec, {"filters": {"id": text}})
        return None if rows is None else _chosen(entity, rows)
    rows = turn.rows(spec, {"filters": {names[0]: text}})
    if rows is None or rows:
        return None if rows is None else _chosen(entity, rows)
    filters = [{name: text} for name in names[1:4]]
    if capital(text) != text:
        filters.append({names[0]: capital(text)})
    second = [turn.rows(spec, {"filters": one}) for one in filters]
    some = turn.rows(spec, {"limit": _MOST})
    if some is None or any(rows is None for rows in second):
        return None
    for rows in second:
        if rows:
            return _chosen(entity, rows)
    for ending in (False, True):
        alike = [row for row in some if _is_called(row, names, text, language=language, endings=ending)]
        if alike and (endings or not ending):
            return _chosen(entity, alike)
        if alike:
            return Lookup(similar=options(entity, alike))
    near = [row for row in some if any(_starts_alike(text, row.get(name)) for name in names)]
    return Lookup(others=options(entity, near or some))


def related_entity(turn: Turn, entities: Sequence[Entity], field: Field) -> Entity | None:
    """Return the entity of a relation's model; where it is not offered yet, ask for it by name once."""
    for entity in entities:
        if entity.model is not None and _same_model(entity.model, field.related):
            return entity
    find = next((spec for spec in turn.tools.values() if spec.kind == "find"), None)
    if find is not None and field.related is not None:
        turn.read(find, {"words": str(field.related._meta.verbose_name)})
    return None


def item_id(
    turn: Turn, entities: Sequence[Entity], field: Field, item: Item, *, language: str
) -> Lookup | None:
    """Return what a relation's item means; None while the turn has to read first."""
    if item.id or field.related is None:
        return Lookup(id=item.id or item.text)
    entity = related_entity(turn, entities, field)
    if entity is None:
        return None if turn.wanted else Lookup()
    return look_up(turn, entity, item.text, language=language, endings=True)


def options(entity: Entity, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what tells records apart, one text each, with their ids."""
    return tuple(_described(entity, row) for row in rows[:_OPTIONS])


def _described(entity: Entity, row: Row) -> str:
    names = [field.name for field in entity.name_fields()]
    ordered = [*names, *(name for name in row if name not in names and name != "id")]
    texts = [str(row[name]) for name in ordered if isinstance(row.get(name), str) and row[name]]
    # An option of a question is cut at 200 characters, and the id is at its end.
    return f"{', '.join(texts[:3])[:120]} (id {row.get('id')})".strip()


def _chosen(entity: Entity, rows: Sequence[Row]) -> Lookup:
    if len(rows) == 1:
        return Lookup(id=str(rows[0].get("id", "")))
    return Lookup(same=options(entity, rows))


def _is_called(row: Row, names: Sequence[str], text: str, *, language: str, endings: bool) -> bool:
    return any(
        isinstance(row.get(name), str) and same_text(text, row[name], language=language, endings=endings)
        for name in names
    )


def _starts_alike(text: str, known: object) -> bool:
    """Tell whether a word of one text and a word of the other start alike."""
    if not isinstance(known, str):
        return False
    one, other = (
        {word[:_ALIKE] for word in fold(each).split() if len(word) >= _ALIKE} for each in (text, known)
    )
    return not one.isdisjoint(other)


def _same_model(one: Model, other: Model | None) -> bool:
    return other is not None and (one is other or one._meta.label_lower == other._meta.label_lower)
