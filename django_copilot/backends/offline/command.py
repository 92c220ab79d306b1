"""What a sentence can ask for, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .lexicon import Entity, Field
from .tokens import Token
from .values import Plain, Related, Unreadable
from .words import Intent, Language


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which record is meant: its id, or a text to find it by, in the order of ``fields``."""

    id: str = ""
    text: str = ""
    fields: tuple[str, ...] = ()
    place: bool = False  # of a town or a country, not of a record


@dataclass(frozen=True, kw_only=True)
class Command:
    """What a sentence asks for. Without an ``intent`` nothing of it is understood."""

    intent: Intent | None = None
    language: Language = "en"
    entity: Entity | None = None
    target: Target | None = None
    values: tuple[tuple[Field, Plain | Related], ...] = ()
    unreadable: tuple[tuple[Field, str], ...] = ()
    columns: tuple[str, ...] = ()
    limit: int | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)  # beyond exact values
    said: Mapping[str, str] = field(default_factory=dict)  # the words of each of them
    order_by: tuple[str, ...] = ()
    newest: bool = False  # the order is that of most lists by themselves
    measures: tuple[Mapping[str, str], ...] = ()
    by: tuple[str, ...] = ()
    every: str = ""
    action: tuple[str, ...] = ()  # what the words after "mark as" may mean
    after: str = ""  # the reference after which a further page begins
    unread: str = ""  # words that mean nothing here
    words: str = ""  # words that may be a noun nobody offered

    @property
    def is_wide(self) -> bool:
        """Tell whether it asks a query for more than exact values."""
        return bool(self.filters or self.order_by or self.after)

    @property
    def is_usual(self) -> bool:
        """Tell whether the plain query of an entity does nearly as well."""
        return self.intent == "query" and self.newest and not (self.filters or self.after)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The name of a field in a sentence and the tokens after it."""

    field: Field
    name: tuple[Token, ...]
    value: tuple[Token, ...]


@dataclass(kw_only=True)
class Draft:
    """What has been read of a sentence so far."""

    target: Target | None = None
    values: dict[str, tuple[Field, Plain | Related]] = field(default_factory=dict)
    unreadable: list[tuple[Field, str]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    empty: list[Token] = field(default_factory=list)  # names of fields with no value
    unread: list[Token] = field(default_factory=list)

    def put(self, one: Field, value: Plain | Related | Unreadable) -> None:
        """Keep the value of a field; the first one given stays."""
        if isinstance(value, Unreadable):
            self.unreadable.append((one, value.text))
        else:
            self.values.setdefault(one.name, (one, value))
