"""What is read with a record and is no field of its own: columns that are computed, and the rows of inlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..access import EntityAccess
from .query import Query


class Column(Protocol):
    """Something besides fields that a query gives for each record."""

    name: str
    told: Mapping[str, Sequence[str]]  # fields that it tells of, by entity's label

    def for_person(self) -> dict[str, Any]:
        """Return the column's head in the person's table."""

    def read(self, records: Sequence[Any]) -> None:
        """Read what is needed for these records."""

    def is_readable_on(self, record: Any) -> bool:
        """Tell whether this person may read it on this record."""

    def cell(self, record: Any) -> Any:
        """Return the JSON value for a record."""

    def text(self, value: Any) -> str:
        """Return such a value as text for a page."""


def columns_for(entity: EntityAccess, query: Query) -> list[Column]:
    """Return the columns that a query asks for, by name, or that come without being asked for."""
    return []
