"""What a hostile model says: calls of every tool with arguments made to get past each check. Pure chance, no database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..backends.base import ToolCall
from .questions import READS, Questions
from .words import FORGED, Known

__all__ = ["BASES", "FORGED", "Grammar", "Known"]

BASES = (*READS, "open_{}_form", "confirm_delete_{}")


class Grammar(Questions):
    """Hostile calls, each chosen by ``rng``."""

    def call(self) -> ToolCall:
        """Return one hostile call, sometimes one that is in order."""
        rng = self.rng
        make: Callable[[], tuple[str, Any]] = rng.choices(
            (
                self.query,
                self.count,
                self.summary,
                self.history,
                self.opened_list,
                self.probe,
                self._form,
                self._delete,
                self._write,
                self._question,
                self._find,
                self._nonsense,
                self._valid,
            ),
            weights=(24, 5, 7, 4, 5, 9, 13, 6, 12, 3, 3, 4, 5),
        )[0]
        name, arguments = make()
        if rng.random() < 0.08 and isinstance(arguments, dict):
            arguments[rng.choice(FORGED)] = self.value()
        return ToolCall(
            id=rng.choice(("call_1", "", "x" * 300, f"c{rng.random()}")),
            name=name,
            arguments=self._json(arguments),
        )

    def probing_call(self) -> ToolCall:
        """Return a call that is in order, of a tool that reads."""
        name, arguments = self.probe()
        return ToolCall(id="call_1", name=name, arguments=json.dumps(arguments, ensure_ascii=False))

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
            return self.query()
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
            return self.query()
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
