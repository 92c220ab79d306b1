"""What a backend is: something that answers a list of messages with text or tool calls.

A backend knows nothing of people, permissions or the database. It gets a ``ModelRequest`` and returns a
``ModelReply``, or raises ``BackendError``. Nothing it returns is trusted: names and arguments are checked
by the gate. The dataclasses here are plain values and import nothing of Django.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """What a model is told of one tool."""

    name: str  # [A-Za-z0-9_-]{1,64}, unique in a request
    description: str  # English, goes to the model
    parameters: dict[str, Any]  # JSON schema of the arguments; an object, additionalProperties false
    # Stays on our side.
    kind: Literal[
        "query", "form", "delete", "count", "summary", "history", "list", "question", "find", "write"
    ]
    model: str = ""  # "app_label.ModelName" of the entity, "" if none; stays on our side
    title: str = ""  # what people call a write tool, in the person's language; stays on our side


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call as the model wrote it. ``arguments`` is the raw JSON text, unchecked."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class ModelMessage:
    """One message of a model request.

    ``user`` and ``assistant`` carry text; an assistant message of the running turn may carry ``calls``;
    ``tool`` carries the result of the call ``call_id`` as JSON text.
    """

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Everything a model is asked with. The order is the order of sending: what changes comes last."""

    system: str
    tools: tuple[ToolSpec, ...]
    messages: tuple[ModelMessage, ...]  # history, the person's message (the last "user"), then this turn's
    context: str = ""  # JSON of what is true only now (today, page); sent with the person's message
    person: str = ""  # keyed hash of the person and scope, for the provider's abuse checks

    @property
    def size(self) -> int:
        """Return how many bytes of it are ours, before a backend puts them into its provider's shape."""
        texts = [self.system, self.context]
        for message in self.messages:
            texts += [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
        for tool in self.tools:
            parameters = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
            texts += [tool.name, tool.description, parameters]
        return sum(len(each.encode("utf-8", "replace")) for each in texts)


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What a model said: text, tool calls, or both."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""  # the name the provider gave for what answered
    usage: dict[str, int] = field(default_factory=dict)  # "input" and "output" tokens where told


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """What a request looks like on its way out, byte for byte, without what identifies the account."""

    body: bytes
    method: str = ""  # "" where a backend sends nothing anywhere
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Backend(Protocol):
    """A thing that can be asked. Made once per process from the settings."""

    label: str  # shown to people where it matters that no real model answers, else ""
    # A backend may have ``is_configured``; where it is false, people are told so before they write.
    # It may have ``outgoing(request)``, which returns an ``Outgoing`` and sends nothing.

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask once and wait. Raises BackendError."""
        ...
