"""What was read once, read again: with the rights and the rows of this moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..access import EntityAccess
from .history import run_history
from .query import Query
from .rows import run_query
from .summary import run_summary
from .sums import Summary


class Reading(Protocol):
    """Something that was read for a person."""

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was found."""

    def for_person(self) -> dict[str, Any]:
        """Return the table that the person sees."""

    def texts(self) -> list[list[str]]:
        """Return the cells of that table as text, row by row, for a page."""


def read_again(entity: EntityAccess, stored: Mapping[str, Any]) -> Reading:
    """Run what is stored of a read again. Raises CallError."""
    if stored.get("kind") == "summary":
        return run_summary(entity, Summary.from_json(stored))
    if stored.get("kind") == "history":
        return run_history(entity, entity.record(stored["id"]))
    return run_query(entity, Query.from_json(stored))
