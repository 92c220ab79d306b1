"""A backend whose answers are written down beforehand, for tests.

Owns the steps and the running script. Projects use it through ``django_copilot.testing``. A script that
was not followed fails loudly: whatever goes wrong inside the endpoint, which turns every exception into an
answer, is recorded here and raised at the script's end.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..exceptions import BackendCode, BackendError
from .base import ModelReply, ModelRequest, ToolCall

Check = Callable[[ModelRequest], object]


class ScriptFailure(AssertionError):
    """The model was asked otherwise than the script says."""


@dataclass(frozen=True)
class Text:
    """Answer with text. ``check`` is called with the request first and may assert."""

    text: str
    check: Check | None = None


@dataclass(frozen=True)
class Call:
    """Call one tool. ``arguments`` is a mapping, or text that is sent as it is; ``text`` comes with it."""

    name: str
    arguments: Mapping[str, object] | str | None = None
    check: Check | None = None
    id: str = ""
    text: str = ""


class Calls:
    """Call several tools in one answer."""

    def __init__(self, *calls: Call, text: str = "", check: Check | None = None) -> None:
        self.calls = calls
        self.text = text
        self.check = check


@dataclass(frozen=True)
class Fail:
    """Fail as a model can: with the code of a ``BackendError``."""

    code: BackendCode = "model_unavailable"
    check: Check | None = None


Step = Text | Call | Calls | Fail | Callable[[ModelRequest], "Step | ModelReply"]


class Script:
    """Steps in their order, and what the model was asked with. Safe to use from several threads."""

    def __init__(self, *steps: Step) -> None:
        self.requests: list[ModelRequest] = []
        self._steps = list(steps)
        self._given = 0
        self._failures: list[AssertionError] = []
        self._lock = threading.Lock()

    @property
    def request(self) -> ModelRequest:
        """The last request."""
        if not self.requests:
            raise ScriptFailure("The model was not asked.")
        return self.requests[-1]

    @property
    def remaining(self) -> int:
        """How many steps were not asked for yet."""
        return len(self._steps) - self._given

    def answer(self, request: ModelRequest) -> ModelReply:
        """Return the next step's answer. Raises BackendError for Fail, ScriptFailure, what a check raises."""
        with self._lock:
            self.requests.append(request)
            number = self._given + 1
            step = self._steps[self._given] if self.remaining else None
            self._given += step is not None
        try:
            if step is None:
                raise ScriptFailure(
                    f"The model was asked once more than the {len(self._steps)} steps: {_last(request)}"
                )
            return _reply(step, request, number=number)
        except BackendError:
            raise
        except AssertionError as failure:
            self._failures.append(failure)
            raise
        except Exception as error:
            wrapped = ScriptFailure(f"Step {number} raised {type(error).__name__}: {error}")
            self._failures.append(wrapped)
            raise wrapped from error

    def problems(self) -> list[AssertionError]:
        """Return what went wrong so far, steps that nobody asked for included."""
        problems = list(self._failures)
        if self.remaining:
            left = ", ".join(_named(step) for step in self._steps[self._given :])
            problems.append(ScriptFailure(f"The model was not asked for {self.remaining} steps: {left}."))
        return problems


class ScriptedBackend:
    """Answer from the script that is running. Raises ScriptFailure where none is."""

    label = ""

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next step's answer. Raises BackendError for Fail, ScriptFailure, what a check raises."""
        if not running:
            raise ScriptFailure("The model was asked, but no script runs: use django_copilot.testing.script.")
        return running[-1].answer(request)


running: list[Script] = []  # of the whole process: a test's server answers on threads of its own


def _reply(step: Step, request: ModelRequest, *, number: int) -> ModelReply:
    if isinstance(step, Text | Call | Calls | Fail):
        if step.check is not None:
            step.check(request)
        if isinstance(step, Text):
            return ModelReply(text=step.text, model="scripted")
        if isinstance(step, Fail):
            raise BackendError(step.code, "The script says that the model fails here.")
        calls = (step,) if isinstance(step, Call) else step.calls
        made = tuple(_tool_call(call, number=number, at=at) for at, call in enumerate(calls, 1))
        return ModelReply(text=step.text, calls=made, model="scripted")
    told = step(request)
    return told if isinstance(told, ModelReply) else _reply(told, request, number=number)


def _tool_call(call: Call, *, number: int, at: int) -> ToolCall:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments or {}))
    return ToolCall(id=call.id or f"call_{number}_{at}", name=call.name, arguments=arguments)


def _named(step: Step) -> str:
    if isinstance(step, Text):
        return f"Text({step.text[:40]!r})"
    if isinstance(step, Call):
        return f"Call({step.name!r})"
    if isinstance(step, Calls):
        return f"Calls({', '.join(repr(call.name) for call in step.calls)})"
    return repr(step)


def _last(request: ModelRequest) -> str:
    if not request.messages:
        return "no message"
    message = request.messages[-1]
    return f"the last message is {message.role}: {message.text[:200]!r}"
