"""What has happened in the running turn, read from the messages of a request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import ModelMessage, ModelReply, ModelRequest, ToolCall, ToolSpec

_ROUNDS = 4  # of reading; the reply after them has to be an action or a text
_CALLS = 8  # in one reply
_READING = ("query", "find", "count", "summary", "history")  # a turn goes on after them

Arguments = Mapping[str, Any]


class Turn:
    """The calls of a turn and their results, and the calls that its next reply will make."""

    def __init__(self, request: ModelRequest) -> None:
        last = max((at for at, one in enumerate(request.messages) if one.role == "user"), default=-1)
        self.command = request.messages[last].text if last >= 0 else ""
        self.earlier: Sequence[ModelMessage] = request.messages[: max(last, 0)]
        self.tools = {spec.name: spec for spec in request.tools}
        self.rounds = 0
        self.errors: list[tuple[str, str]] = []  # code and message
        self.closed = False  # a call that ends the turn was answered without an error
        self._results: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._wanted: dict[tuple[str, str], None] = {}
        calls: dict[str, ToolCall] = {}
        for message in request.messages[last + 1 :]:
            self.rounds += bool(message.calls)
            calls |= {call.id: call for call in message.calls}
            if message.role == "tool" and message.call_id in calls:
                self._answered(calls[message.call_id], _object(message.text))

    def _answered(self, call: ToolCall, result: Mapping[str, Any]) -> None:
        error = result.get("error")
        if error is not None:
            told = error if isinstance(error, Mapping) else {"message": error}
            self.errors.append((str(told.get("code", "")), str(told.get("message", ""))))
        elif call.name in self.tools and self.tools[call.name].kind not in _READING:
            self.closed = True
        self._results[call.name, _canonical(_object(call.arguments))] = result

    def result_of(self, spec: ToolSpec) -> Mapping[str, Any] | None:
        """Return the last result of a tool in this turn, whatever it was called with, or None."""
        return next(
            (found for (name, _), found in reversed(self._results.items()) if name == spec.name), None
        )

    @property
    def over(self) -> bool:
        """Tell whether no more may be read in this turn."""
        return self.rounds >= _ROUNDS

    def read(self, spec: ToolSpec, arguments: Arguments) -> Mapping[str, Any] | None:
        """Return the result of a call; if it was not made yet, want it and return None."""
        key = spec.name, _canonical(arguments)
        if key in self._results:
            return self._results[key]
        if self.over:
            return {}
        self._wanted[key] = None
        return None

    def rows(self, spec: ToolSpec, arguments: Arguments) -> list[Mapping[str, Any]] | None:
        """Return the rows of a query; if it was not made yet, want it and return None."""
        result = self.read(spec, arguments)
        if result is None:
            return None
        rows = result.get("rows")
        return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []

    def has(self, spec: ToolSpec, arguments: Arguments) -> bool:
        """Tell whether a call was made in this turn."""
        return (spec.name, _canonical(arguments)) in self._results

    @property
    def wanted(self) -> ModelReply | None:
        """Return the reply that makes the calls that are wanted, None if there are none."""
        calls = [
            ToolCall(id=f"offline_{self.rounds + 1}_{n}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(list(self._wanted)[:_CALLS], 1)
        ]
        return ModelReply(calls=tuple(calls), model="offline") if calls else None

    def act(self, spec: ToolSpec, arguments: Arguments) -> ModelReply:
        """Return the reply that makes one call."""
        call = ToolCall(id=f"offline_{self.rounds + 1}_1", name=spec.name, arguments=json.dumps(arguments))
        return ModelReply(calls=(call,), model="offline")


def _canonical(arguments: Arguments) -> str:
    return json.dumps(arguments, sort_keys=True)


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, Mapping) else {}
