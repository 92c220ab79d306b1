"""What is read with a record and is no field of its own: columns that are computed, and the rows of inlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..access import EntityAccess
from .computed import Computed, computed_names
from .inlines import InlineRows, inline_names
from .query import Query


class Column(Protocol):
    """Something besides fields that a query gives for each record. None can be filtered or ordered by."""

    @property
    def name(self) -> str:
        """Return the name by which a query asks for it."""

    @property
    def told(self) -> Mapping[str, tuple[str, ...]]:
        """Return the fields that it tells of, by entity's label."""

    def read(self, records: Sequence[Any]) -> None:
        """Read what is needed for these records. Comes before everything below."""

    def for_person(self) -> dict[str, Any]:
        """Return the column's head in the person's table."""

    def is_readable_on(self, record: Any) -> bool:
        """Tell whether this person may read it on this record."""

    def cell(self, record: Any) -> Any:
        """Return the JSON value for a record, cut to what a person's table holds."""

    def sent(self, value: Any) -> Any:
        """Return such a value cut to what a model gets."""

    def text(self, record: Any) -> str:
        """Return the value for a record as text for a page."""


def column_names(entity: EntityAccess) -> tuple[str, ...]:
    """Return the names by which a query may ask for columns, whether or not this person sees them."""
    return (*computed_names(entity), *inline_names(entity))


def columns_for(entity: EntityAccess, query: Query) -> list[Column]:
    """Return the columns that a query asks for by name, or that come without being asked for.

    Computed ones come as the list shows them; rows of inlines with one record, asked for by its id.
    """
    computed, inlines = computed_names(entity), inline_names(entity)
    if query.fields:
        computed = tuple(name for name in computed if name in query.fields)
        inlines = tuple(name for name in inlines if name in query.fields)
    elif query.filters.get("id") is None or isinstance(query.filters["id"], Mapping):
        inlines = ()
    return [*Computed.all(entity, computed), *InlineRows.all(entity, inlines)]


def columns_seen(entity: EntityAccess) -> set[str]:
    """Return the columns that this person may read today of records in general."""
    computed = {each.name for each in Computed.all(entity, computed_names(entity))}
    return computed | {each.name for each in InlineRows.all(entity, inline_names(entity)) if each.is_seen}
