"""How a conversation names what it has shown: references to rows, and handles for values the model never gets.

"r3.2" is the second row of the third thing that a conversation showed. What is kept is the entity and the
keys, never a value: a reference is read again, with the rights of that moment, each time. A handle such as
"‹email r3.2›" names one field of such a row; it is the same text whatever the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_ROW = re.compile(r"r([1-9][0-9]{0,4})\.([1-9][0-9]{0,2})", re.ASCII)
HANDLE = re.compile(rf"‹([A-Za-z_][A-Za-z0-9_]{{0,99}}) ({_ROW.pattern})›", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one answer showed of one entity: ``keys`` are the canonical texts of its rows' keys, in order."""

    number: int
    entity: str  # "app_label.modelname"
    keys: tuple[str, ...]

    def to_json(self) -> list[Any]:
        """Return the stored form."""
        return [self.number, self.entity, list(self.keys)]

    def line(self, name: str) -> str:
        """Return what the next turns' models are told, with the entity's name in tools."""
        first, last = f"r{self.number}.1", f"r{self.number}.{len(self.keys)}"
        rows = f"1 row, {first}" if len(self.keys) == 1 else f"{len(self.keys)} rows, {first} to {last}"
        return f"r{self.number}: {name}, {rows}"


@dataclass
class References:
    """What can be named in one conversation."""

    known: dict[int, Shown] = field(default_factory=dict)
    last: int = 0  # the highest number that was given, though it may not be known any more

    @classmethod
    def from_json(cls, stored: Iterable[Sequence[Any]]) -> References:
        """Read stored forms, of any number of messages."""
        found = cls()
        for number, entity, keys in stored:
            found.known[number] = Shown(number=number, entity=entity, keys=tuple(keys))
        return found

    @property
    def next(self) -> int:
        """Return the number of what is shown next."""
        return max(self.last, *self.known, 0) + 1

    def add(self, shown: Shown) -> None:
        """Remember what was shown."""
        self.known[shown.number] = shown

    def find(self, text: str) -> tuple[str, str] | None:
        """Return the entity's label and the key's text that a reference names here, or None."""
        found = _ROW.fullmatch(text)
        shown = self.known.get(int(found[1])) if found else None
        if found is None or shown is None or int(found[2]) > len(shown.keys):
            return None
        return shown.entity, shown.keys[int(found[2]) - 1]


def is_row(given: Any) -> bool:
    """Tell whether a value from a model has the form of a reference to a row."""
    return isinstance(given, str) and _ROW.fullmatch(given) is not None


def is_handle(given: Any) -> bool:
    """Tell whether a value from a model has the form of a handle."""
    return isinstance(given, str) and HANDLE.fullmatch(given) is not None


def handle(name: str, reference: str) -> str:
    """Return the handle of a field of a row."""
    return f"‹{name} {reference}›"


def parts_of(given: str) -> tuple[str, str]:
    """Return the field's name and the reference of a handle."""
    found = HANDLE.fullmatch(given)
    assert found is not None
    return found[1], found[2]
