"""A stand-in for the server in tests of the offline backend: runs its reads on rows in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_copilot.backends import ModelMessage, ModelReply, ModelRequest, ToolCall, ToolSpec
from django_copilot.backends.offline import OfflineBackend

from . import offline_shop as shop

MAX_ROUNDS = 5

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

ROWS: Rows = {
    "category": [
        {"id": "1", "name": "Mugs", "slug": "mugs"},
        {"id": "2", "name": "Kubki", "slug": "kubki"},
        {"id": "3", "name": "Кружки", "slug": "kruzhki"},
    ],
    "tag": [
        {"id": "11", "name": "new"},
        {"id": "12", "name": "gift"},
        {"id": "13", "name": "nowość"},
        {"id": "14", "name": "prezent"},
        {"id": "15", "name": "новинка"},
        {"id": "16", "name": "подарок"},
    ],
    "customer": [
        {"id": "21", "name": "Anna Nowak", "email": "anna@example.com", "city": "Gdańsk", "vip": False},
        {"id": "22", "name": "Jan Kowalski", "email": "jan@example.com", "city": "Łódź", "vip": False},
        {"id": "23", "name": "Jan Kowalski", "email": "janek@example.com", "city": "Kraków", "vip": True},
        {"id": "24", "name": "Анна Новак", "email": "anya@example.com", "city": "Гданьск", "vip": False},
    ],
    "product": [
        {"id": "31", "title": "Blue mug", "sku": "BM-1", "status": "active"},
        {"id": "32", "title": "Niebieski kubek", "sku": "NK-1", "status": "draft"},
        {"id": "33", "title": "Синяя кружка", "sku": "SK-1", "status": "draft"},
    ],
    "order": [
        {"id": str(n), "number": f"SO-{n:07d}", "customer": {"id": "21"}, "status": "paid"}
        for n in range(41, 46)
    ],
}


def ask(
    text: str, *, tools: Sequence[ToolSpec] = shop.ALL, history: Sequence[ModelMessage] = ()
) -> ModelReply:
    """Return the first reply to a message."""
    said = ModelMessage(role="user", text=text)
    return complete((*history, said), tools=tools)


def complete(messages: Sequence[ModelMessage], *, tools: Sequence[ToolSpec] = shop.ALL) -> ModelReply:
    """Return the next reply."""
    request = ModelRequest(
        system="", tools=tuple(tools), messages=tuple(messages), context='{"today": "2026-11-30"}'
    )
    return OfflineBackend(find=shop.find).complete(request)


@dataclass
class Desk:
    """Plays whole turns of one conversation."""

    rows: Rows = field(default_factory=lambda: ROWS)
    tools: tuple[ToolSpec, ...] = shop.ALL
    hidden: tuple[ToolSpec, ...] = ()  # appear after find_entities
    failing: frozenset[str] = frozenset()  # names of tools that answer with an error
    code: str = "invalid_value"  # of those errors
    has_more: bool = False
    history: list[ModelMessage] = field(default_factory=list)
    reads: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def say(self, text: str) -> str | tuple[str, dict[str, Any]]:
        """Return what ends the turn: a text, or the name and the arguments of an action."""
        self.history.append(ModelMessage(role="user", text=text))
        turn: list[ModelMessage] = []
        self.reads = []
        for round_number in range(MAX_ROUNDS + 1):
            reply = complete([*self.history, *turn], tools=self.tools)
            check(reply, self.tools)
            if not reply.calls:
                self.history.append(ModelMessage(role="assistant", text=reply.text))
                return reply.text
            assert round_number < MAX_ROUNDS, "too many rounds"
            turn.append(ModelMessage(role="assistant", calls=reply.calls))
            for call in reply.calls:
                arguments = json.loads(call.arguments)
                kind = next(spec.kind for spec in self.tools if spec.name == call.name)
                if kind in ("form", "delete", "list", "question") and call.name not in self.failing:
                    told = arguments["text"] if kind == "question" else "The page is open."
                    self.history.append(ModelMessage(role="assistant", text=told))
                    return call.name, arguments
                self.reads.append((call.name, arguments))
                result = json.dumps(self._result(call, arguments), ensure_ascii=False)
                turn.append(ModelMessage(role="tool", text=result, call_id=call.id))
        raise AssertionError("the turn did not end")

    def _result(self, call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
        if call.name in self.failing:
            return {"error": {"code": self.code, "message": "No such record."}}
        if call.name == "find_entities":
            self.tools, self.hidden = (*self.tools, *self.hidden), ()
            return {"entities": []}
        entity = call.name.removeprefix("query_")
        filters = arguments.get("filters", {})
        found = [
            row
            for row in self.rows.get(entity, ())
            if all(row.get(name) == value for name, value in filters.items())
        ]
        return {"entity": entity, "rows": found[: arguments.get("limit", 20)], "has_more": self.has_more}


def check(reply: ModelReply, tools: Sequence[ToolSpec]) -> None:
    """Assert that a reply is a text or calls that the tools' schemas allow."""
    assert bool(reply.text.strip()) != bool(reply.calls)
    reply.text.encode("utf-8")
    assert len(reply.calls) <= 8
    assert len({call.id for call in reply.calls}) == len(reply.calls)
    specs = {spec.name: spec for spec in tools}
    for call in reply.calls:
        _matches(json.loads(call.arguments, parse_constant=_refuse), specs[call.name].parameters, call.name)


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "number": (int, float),
    "array": list,
    "object": dict,
}


def _matches(value: Any, schema: Mapping[str, Any], where: str) -> None:
    if "type" in schema:
        assert isinstance(value, _TYPES[schema["type"]]), where
    if schema.get("type") in ("integer", "number"):
        assert not isinstance(value, bool), where
    if "enum" in schema:
        assert value in schema["enum"], where
    if schema.get("type") == "array":
        for each in value:
            _matches(each, schema.get("items", {}), where)
    if schema.get("type") == "object" and "properties" in schema:
        for name, each in value.items():
            assert name in schema["properties"], f"{where}: {name}"
            _matches(each, schema["properties"][name], f"{where}.{name}")
        assert set(schema.get("required", ())) <= set(value), where
