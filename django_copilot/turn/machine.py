"""The rules of one turn, with no database, no network and no clock: events in, effects out.

    state      event           → what happens
    new        start           → ask the model
    asking     ModelReplied    → text only: finish | calls: run the first, or finish when the rounds are used up
    asking     ModelFailed     → finish as failed
    running    ToolReturned    → final: finish | waits: wait | else: run the next call, or ask the model again
    waiting    Decided         → ask the model again
    all three  Interrupted     → finish as failed
    done       (nothing)

1. A round is one model reply with calls. After ``max_rounds`` of them, another one ends the turn.
2. At most one final outcome (a page to open, a question) in a turn. The first valid one ends it: the calls
   after it in the same reply are not run, and the text that came with it is neither kept nor shown.
3. Calls of one reply are a set: a repeated id counts once. Those over ``max_calls`` are answered, not run.
4. Results of a turn are limited together by ``max_bytes``; what does not fit is said, not sent.
5. A reply with neither text nor calls is no answer.
6. A plan makes the turn wait for a person. As with a final outcome, the calls after it are not run. Once she has
   decided the same turn goes on, with the rounds and bytes that it had used; what she decided is the result of
   that call.

A driver asks for the next effect, does it, and hands the event back; it decides nothing. The whole state is
in the fields of ``Turn``: plain values, which ``to_json`` and ``from_json`` store while a turn waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ..backends.base import ModelMessage, ModelReply, ToolCall

DECISION_BYTES = 4_000  # of what a person decided, at most


class State(Enum):
    """Where the turn is."""

    NEW = "new"
    ASKING = "asking"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What bounds a turn."""

    max_rounds: int = 5
    max_calls: int = 8
    max_bytes: int = 96_000


# -- events in ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ModelReplied:
    """The model answered."""

    reply: ModelReply


@dataclass(frozen=True, kw_only=True)
class ModelFailed:
    """The model could not be asked or its answer not be read."""

    code: str


@dataclass(frozen=True, kw_only=True)
class ToolReturned:
    """A call was run or refused. ``final`` is what ends the turn, ``waits`` what it waits for, if it does."""

    content: Any  # JSON for the model
    final: Any = None
    waits: Any = None


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A person has decided what the turn waited for. ``content`` is the result of the call."""

    content: Any


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """The turn can't go on: out of time, or something unexpected."""

    code: str


Event = ModelReplied | ModelFailed | ToolReturned | Decided | Interrupted

# -- effects out --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CallModel:
    """Ask the model with the history and these messages of the running turn."""

    messages: tuple[ModelMessage, ...]


@dataclass(frozen=True, kw_only=True)
class RunTool:
    """Run this call through the gate."""

    call: ToolCall


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The turn ended with the model's text."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The turn ended with a final outcome of a call."""

    final: Any


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Store the turn and hand over to a person; nothing is held meanwhile."""

    waits: Any


@dataclass(frozen=True, kw_only=True)
class FailedTurn:
    """The turn ended without an answer."""

    code: str


Effect = CallModel | RunTool | Answered | Ended | Wait | FailedTurn


class IllegalEvent(Exception):
    """A driver handed in an event that can't come in this state: a defect of the driver."""


@dataclass
class Turn:
    """One turn. Start it, then hand in an event for each effect until it has ended."""

    limits: Limits
    state: State = State.NEW
    rounds: int = 0
    used_bytes: int = 0
    messages: list[ModelMessage] = field(default_factory=list)  # of this turn only
    pending: list[ToolCall] = field(default_factory=list)

    def start(self) -> Effect:
        """Return the first effect."""
        if self.state is not State.NEW:
            raise IllegalEvent("a turn starts once")
        return self._ask()

    def send(self, event: Event) -> Effect:
        """Take an event and return the next effect. Raises IllegalEvent."""
        match (self.state, event):
            case (State.ASKING | State.RUNNING | State.WAITING, Interrupted(code=code)):
                return self._end(FailedTurn(code=code))
            case (State.ASKING, ModelFailed(code=code)):
                return self._end(FailedTurn(code=code))
            case (State.ASKING, ModelReplied(reply=reply)):
                return self._replied(reply)
            case (State.RUNNING, ToolReturned(content=content, final=final, waits=waits)):
                if final is None and waits is not None:
                    self.state = State.WAITING
                    return Wait(waits=waits)
                return self._returned(content, final)
            case (State.WAITING, Decided(content=content)):
                return self._decided(content)
            case _:
                raise IllegalEvent(f"{type(event).__name__} in state {self.state.value}")

    def _ask(self) -> Effect:
        self.state = State.ASKING
        return CallModel(messages=tuple(self.messages))

    def _end(self, effect: Answered | Ended | FailedTurn) -> Effect:
        self.state = State.DONE
        self.pending.clear()
        return effect

    def _replied(self, reply: ModelReply) -> Effect:
        calls = _distinct(reply.calls)
        if not calls:
            if not reply.text.strip():
                return self._end(FailedTurn(code="model_protocol"))
            return self._end(Answered(text=reply.text))
        if self.rounds == self.limits.max_rounds:
            return self._end(FailedTurn(code="too_many_rounds"))
        self.rounds += 1
        self.messages.append(ModelMessage(role="assistant", text=reply.text, calls=calls))
        self.pending = list(calls)
        self.state = State.RUNNING
        return self._next()

    def _next(self) -> Effect:
        """Run the next call of the reply; those over the limit are answered at once; then ask again."""
        if not self.pending:
            return self._ask()
        if self._calls_in_round() - len(self.pending) < self.limits.max_calls:
            return RunTool(call=self.pending[0])
        for call in self.pending:
            self._answer(
                call, _error("too_many_calls", f"Not run: at most {self.limits.max_calls} calls at once.")
            )
        self.pending.clear()
        return self._ask()

    def _calls_in_round(self) -> int:
        return next(len(each.calls) for each in reversed(self.messages) if each.role == "assistant")

    def _returned(self, content: Any, final: Any) -> Effect:
        call = self.pending.pop(0)
        if final is not None:
            return self._end(Ended(final=final))
        self._answer(call, content)
        return self._next()

    def _decided(self, content: Any) -> Effect:
        """Answer the call that waited, and those after it, which were not run."""
        waited, *others = self.pending
        self.pending.clear()
        self.used_bytes = min(self.used_bytes, self.limits.max_bytes - DECISION_BYTES)  # it is always told
        self._answer(waited, content)
        for call in others:
            self._answer(call, _error("not_run", "Not run: a person had to decide on another call first."))
        return self._ask()

    def to_json(self) -> dict[str, Any]:
        """Return the state of a waiting turn as plain JSON."""
        return {
            "rounds": self.rounds,
            "used_bytes": self.used_bytes,
            "messages": [
                {"role": each.role, "text": each.text, "call_id": each.call_id, "calls": _calls(each.calls)}
                for each in self.messages
            ],
            "pending": _calls(self.pending),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], *, limits: Limits) -> Turn:
        """Return the waiting turn that was stored. Raises KeyError or TypeError when it is none."""
        return cls(
            limits=limits,
            state=State.WAITING,
            rounds=stored["rounds"],
            used_bytes=stored["used_bytes"],
            messages=[
                ModelMessage(
                    role=each["role"],
                    text=each["text"],
                    call_id=each["call_id"],
                    calls=tuple(ToolCall(**call) for call in each["calls"]),
                )
                for each in stored["messages"]
            ],
            pending=[ToolCall(**call) for call in stored["pending"]],
        )

    def _answer(self, call: ToolCall, content: Any) -> None:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        size = len(text.encode("utf-8", "replace"))
        if self.used_bytes + size > self.limits.max_bytes:
            text = json.dumps(
                _error("too_much", "Left out: the results of this answer are too long together.")
            )
        else:
            self.used_bytes += size
        self.messages.append(ModelMessage(role="tool", text=text, call_id=call.id))


def _calls(calls: Iterable[ToolCall]) -> list[dict[str, str]]:
    return [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in calls]


def _error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _distinct(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with each id once, the first; a call without an id gets one that is free."""
    given = {call.id for call in calls}
    taken: dict[str, ToolCall] = {}
    for number, call in enumerate(calls):
        ident = call.id or f"call_{number}"
        if call.id and ident in taken:
            continue
        while ident in taken or (not call.id and ident in given):
            ident += "_"
        taken[ident] = call if ident == call.id else replace(call, id=ident)
    return tuple(taken.values())
