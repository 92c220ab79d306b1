"""What running a tool can end in. A closed union: whoever matches on it uses ``assert_never``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..references import Shown


@dataclass(frozen=True, kw_only=True)
class ReadDone:
    """A read tool gave rows, counts or sums."""

    content: dict[str, Any]
    entity: str  # "app_label.modelname"
    read: Mapping[str, Any]  # what was asked, as it is stored to be read again
    table: dict[str, Any]  # what the person sees of it
    fields: tuple[str, ...]  # of the entity, in the content
    sent_rows: int
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all fields it tells of, by label
    shown: Shown | None = None  # the rows that can be named from now on

    @property
    def sent_fields(self) -> tuple[str, ...]:
        """Return the fields and columns whose values are in the content."""
        if self.table.get("kind") == "history":  # whose columns are of changes
            return self.fields
        return tuple(each["name"] for each in self.table["columns"] if each.get("sent", True))


@dataclass(frozen=True, kw_only=True)
class Found:
    """More entities whose tools the next round may use, by name."""

    content: dict[str, Any]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Proposed:
    """A page to open in the browser, for the person to act on. Nothing was run."""

    kind: Literal["form", "delete", "list"]
    entity: str  # name in tools
    label: str  # "app_label.modelname"
    record_id: str  # as the model knows it; "" for a new record
    object_pk: str  # canonical text of the key; "" for a new record
    path: str
    prefill: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)  # of a list: the admin's own parameters
    ticked: tuple[str, ...] = ()  # of a list: canonical texts of the keys of the rows to tick
    action: str = ""  # of a list: the name of the admin's own action to choose
    dropped: tuple[str, ...] = ()  # labels for the person
    reply: str = ""  # the server's fixed text, in the person's language
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # other fields it tells of, by label


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question to the person, which ends the turn."""

    text: str
    kind: Literal["text", "single", "multiple"]
    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Told:
    """A project's read-only tool answered. ``told`` are the fields that went into it, by entity's label."""

    tool: str
    content: dict[str, Any]
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a write tool would do, looked at and not done. ``draft`` holds it; only ``plans`` opens it."""

    tool: str
    draft: Any  # document.PlanDraft
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # entities that the answer tells of


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A call that was not run. ``content`` tells the model why."""

    content: dict[str, Any]


Outcome = ReadDone | Found | Told | Proposed | Planned | Asked | Failed
