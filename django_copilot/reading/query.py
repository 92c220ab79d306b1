"""A checked query, and the bounds of what one may ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_LIMIT = 50
DEFAULT_LIMIT = 20
MAX_IN = 100  # values of one "in"
MAX_SEARCH = 200  # characters of a search
MAX_WORDS = 8  # of a search: each is looked for in each field
MAX_ORDER = 3  # fields to order by


@dataclass(frozen=True, kw_only=True)
class Query:
    """A checked query, in the form in which it is stored and run again later.

    Words for dates are worked out in it; references and handles stand as they were given, never their values.
    """

    entity: str  # "app_label.modelname"
    fields: tuple[str, ...] = ()  # empty: all that are readable
    filters: Mapping[str, Any] = field(default_factory=dict)
    limit: int = DEFAULT_LIMIT
    search: str = ""
    order_by: tuple[str, ...] = ()
    after: str = ""  # the id of the record after which the rows begin

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        stored: dict[str, Any] = {
            "entity": self.entity,
            "fields": list(self.fields),
            "filters": dict(self.filters),
            "limit": self.limit,
        }
        more = {"search": self.search, "order_by": list(self.order_by), "after": self.after}
        return stored | {name: value for name, value in more.items() if value}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Query:
        """Read the stored form."""
        return cls(
            entity=stored["entity"],
            fields=tuple(stored["fields"]),
            filters=stored["filters"],
            limit=stored["limit"],
            search=stored.get("search", ""),
            order_by=tuple(stored.get("order_by", ())),
            after=stored.get("after", ""),
        )
