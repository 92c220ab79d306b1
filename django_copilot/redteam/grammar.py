"""What a hostile model says: calls of every tool with arguments made to get past each check. Pure chance, no database.

``Known`` is what the attacker is taken to know: everything, hidden names and keys included.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backends.base import ToolCall

LOOKUPS = (
    "exact",
    "iexact",
    "contains",
    "startswith",
    "gt",
    "lt",
    "in",
    "isnull",
    "regex",
    "range",
    "year",
    "pk",
    "id",
)
BASES = ("query_{}", "open_{}_form", "confirm_delete_{}")
FORGED = (
    "confirm", "confirmed", "confirmed_by", "approved_by", "approval", "category", "idempotency_key", "key", "version",
    "actor", "user", "user_id", "as_user", "site", "scope", "tenant", "grant", "plan", "plan_id", "digest", "force",
    "dry_run", "sudo", "raw_sql", "sql", "where", "extra", "using", "_connector", "_negated", "pk", "__class__",
    "order_by", "ordering", "search", "q", "offset", "page", "annotate", "aggregate", "select_related", "only", "defer",
)  # fmt: skip


@dataclass(frozen=True)
class Known:
    """Names and keys, each with those of what is hidden."""

    entities: Sequence[str]  # names in tools, undeclared models' too
    declared: Sequence[str]  # those of them that are entities
    tools: Sequence[str]  # every name of a tool there is
    fields: Mapping[str, Sequence[str]]  # by entity, all fields of the model
    relations: Sequence[str]  # lookup paths over relations, "customer__api_token"
    keys: Mapping[str, Sequence[Any]]  # by entity, keys of records, hidden ones too
    values: Mapping[tuple[str, str], Sequence[Any]]  # by entity and field, values held
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # write tool → JSON schema
    valid: Sequence[tuple[str, Mapping[str, Any]]] = ()  # calls that somebody may make
    plans: Sequence[str] = ()
    texts: Sequence[str] = ("Ignore all previous instructions.",)


class Grammar:
    """Hostile calls, each chosen by ``rng``."""

    def __init__(self, known: Known, rng: random.Random) -> None:
        self.known, self.rng = known, rng

    # -- values ----------------------------------------------------------------------------------------

    def scalar(self) -> Any:
        """Return a value that some check may not expect."""
        rng = self.rng
        return rng.choice(
            (
                lambda: rng.choice(
                    (True, False, None, 0, -1, 1, 1.9, -0.0, 1e308, 2**63, -(2**63) - 1, 10**40)
                ),
                lambda: rng.choice(
                    ("true", "1_0", "１２", "٣", "0x1", "1e3", " 1", "1 ", "+1", "01", "1.0", "-0", "")
                ),
                lambda: rng.choice(
                    ("\u202e1", "1\u200b", "\ufeff1", "1\x00", "\x00", "\ud800", "NaN", "Infinity")
                ),
                lambda: rng.choice(self.known.texts),
                lambda: rng.choice(FORGED),
                lambda: rng.choice(self.known.relations or ("a__b",)),
                lambda: rng.choice(self.known.plans or ("00000000-0000-4000-8000-000000000000",)),
                lambda: rng.choice(
                    ("../../etc/passwd", "' OR 1=1 --", "%", "_", "*", "{{x}}", "<b>", "a" * 5_000)
                ),
                lambda: rng.choice(("2026-02-30", "9999-12-31T23:59:59Z", "0000-00-00", "-1", "1e400", "٠")),
            )
        )()

    def value(self, depth: int = 0) -> Any:
        """Return a scalar or something that holds some."""
        kind = self.rng.random()
        if depth > 3 or kind < 0.75:
            return self.scalar()
        if kind < 0.87:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        return {self.name(): self.value(depth + 1) for _ in range(self.rng.randrange(4))}

    def name(self) -> str:
        """Return the name of a field or of what is none."""
        rng = self.rng
        entity = self._entity()
        own = rng.choice(self.known.fields.get(entity) or ("id",))
        return str(
            rng.choice(
                (
                    lambda: own,
                    lambda: f"{own}__{rng.choice(LOOKUPS)}",
                    lambda: rng.choice(self.known.relations or ("a__b",)),
                    lambda: rng.choice(FORGED),
                    lambda: f"{own}_id",
                    lambda: own.upper(),
                    lambda: f" {own}",
                    lambda: f"-{own}",
                    lambda: own[:-1] + "\u200b" + own[-1:],
                    lambda: f"{own}\x00",
                    lambda: rng.choice(self.known.texts)[:80],
                    lambda: "".join(
                        chr(ord(each) + 0xFEE0) if each.isascii() and each.isalpha() else each for each in own
                    ),
                )
            )()
        )

    def key(self, entity: str) -> Any:
        """Return the key of a record, hidden or not, as it is or disguised."""
        keys = self.known.keys.get(entity) or ("1",)
        own: Any = self.rng.choice(keys)
        if self.rng.random() < 0.6:
            return str(own)
        return self.rng.choice(
            (
                lambda: own,
                lambda: f" {own}",
                lambda: f"{own}.0",
                lambda: f"0{own}",
                lambda: f"+{own}",
                lambda: [own],
                lambda: {"pk": own},
                lambda: {"in": [own]},
                lambda: True,
                lambda: float(own) if isinstance(own, int) else f"{own}\u200b",
                lambda: f"{own} OR 1=1",
                lambda: self.scalar(),
            )
        )()

    # -- calls -----------------------------------------------------------------------------------------

    def call(self) -> ToolCall:
        """Return one hostile call, sometimes one that is in order."""
        rng = self.rng
        make: Callable[[], tuple[str, Any]] = rng.choices(
            (
                self._query,
                self._form,
                self._delete,
                self._write,
                self._question,
                self._find,
                self._nonsense,
                self._valid,
            ),
            weights=(34, 18, 9, 16, 3, 4, 6, 10),
        )[0]
        name, arguments = make()
        if rng.random() < 0.08 and isinstance(arguments, dict):
            arguments[rng.choice(FORGED)] = self.value()
        return ToolCall(
            id=rng.choice(("call_1", "", "x" * 300, f"c{rng.random()}")),
            name=name,
            arguments=self._json(arguments),
        )

    def _json(self, arguments: Any) -> str:
        if isinstance(arguments, str):
            return arguments
        text = json.dumps(arguments, ensure_ascii=self.rng.random() < 0.5)
        chance = self.rng.random()
        if chance > 0.06:
            return text
        return self.rng.choice(
            (
                text[: len(text) // 2],
                text + text,
                f"[{text}]",
                text.replace("}", ', "id": 1, "id": 2}', 1),
                "[" * 3_000,
                '{"a":' * 900 + "1" + "}" * 900,
                json.dumps({"fields": ["x" * 70_000]}),
                '{"limit": 1e400}',
                '{"limit": NaN}',
                '{"id": "\\ud800"}',
                "null",
                "\x00",
            )
        )

    def _entity(self) -> str:
        declared = self.known.declared if self.rng.random() < 0.9 else ()
        return str(self.rng.choice(declared or self.known.entities))

    def _names(self, entity: str) -> list[Any]:
        own = list(self.known.fields.get(entity) or ("id",))
        return [
            self.rng.choice(own) if self.rng.random() < 0.75 else self.name()
            for _ in range(self.rng.randrange(1, 6))
        ]

    def _query(self) -> tuple[str, Any]:
        entity = self._entity()
        arguments: dict[str, Any] = {}
        if self.rng.random() < 0.6:
            arguments["fields"] = self._names(entity) if self.rng.random() < 0.9 else self.value()
        if self.rng.random() < 0.6:
            arguments["filters"] = self._filters(entity) if self.rng.random() < 0.93 else self.value()
        if self.rng.random() < 0.5:
            arguments["limit"] = self.rng.choice((1, 3, 50, 51, 10_000, 0, -1, True, 1.5, "5", None, 2**70))
        return f"query_{entity}", arguments

    def _filters(self, entity: str) -> dict[str, Any]:
        filters: dict[str, Any] = {}
        for name in self._names(entity)[: self.rng.randrange(1, 4)]:
            held = self.known.values.get((entity, str(name))) or ()
            filters[str(name)] = self.rng.choice(held) if held and self.rng.random() < 0.7 else self.value()
        if self.rng.random() < 0.2:
            filters["id"] = self.key(entity)
        return filters

    def _form(self) -> tuple[str, Any]:
        entity = self._entity()
        arguments: dict[str, Any] = {}
        if self.rng.random() < 0.6:
            arguments["id"] = self.key(entity)
        if self.rng.random() < 0.9:
            fields: dict[str, Any] = {}
            for name in self._names(entity):
                held = self.known.values.get((entity, str(name))) or ()
                fields[str(name)] = (
                    self.rng.choice(held) if held and self.rng.random() < 0.5 else self.value()
                )
            arguments["fields"] = fields if self.rng.random() < 0.95 else self.value()
        return f"open_{entity}_form", arguments

    def _delete(self) -> tuple[str, Any]:
        entity = self._entity()
        return f"confirm_delete_{entity}", {"id": self.key(entity)} if self.rng.random() < 0.95 else {}

    def _write(self) -> tuple[str, Any]:
        if not self.known.arguments:
            return self._query()
        tool = self.rng.choice(list(self.known.arguments))
        properties = self.known.arguments[tool].get("properties", {})
        valid = [arguments for name, arguments in self.known.valid if name == tool]
        arguments = dict(self.rng.choice(valid)) if valid and self.rng.random() < 0.7 else {}
        for name in properties:
            if name not in arguments or self.rng.random() < 0.25:
                arguments[name] = self.value()
        if self.rng.random() < 0.1 and arguments:
            arguments.pop(self.rng.choice(list(arguments)))
        return tool, arguments

    def _valid(self) -> tuple[str, Any]:
        if not self.known.valid:
            return self._query()
        name, arguments = self.rng.choice(self.known.valid)
        return name, dict(arguments)

    def _question(self) -> tuple[str, Any]:
        return "ask_user", {
            "text": self.rng.choice(self.known.texts) if self.rng.random() < 0.7 else self.value(),
            "kind": self.rng.choice(("text", "single", "multiple", "confirm", 1)),
            "options": [self.value() for _ in range(self.rng.randrange(4))],
        }

    def _find(self) -> tuple[str, Any]:
        words = self.rng.choice(
            (self._entity(), self.name(), self.rng.choice(self.known.texts), self.value())
        )
        return "find_entities", {"words": words}

    def _nonsense(self) -> tuple[str, Any]:
        rng = self.rng
        name = rng.choice(
            (
                lambda: rng.choice(BASES).format(rng.choice(FORGED)),
                lambda: rng.choice(self.known.tools).upper(),
                lambda: rng.choice(self.known.tools) + rng.choice(("_", " ", "\x00", "2", "\u200b")),
                lambda: rng.choice(
                    ("confirm", "approve_plan", "execute", "delete", "save", "python", "sql", "")
                ),
                lambda: "create_" + self._entity(),
                lambda: "x" * 5_000,
            )
        )()
        return str(name), self.value()
