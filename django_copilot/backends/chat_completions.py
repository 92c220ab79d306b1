"""The Chat Completions format, without any input or output.

Owns what a request looks like on the wire, how a stream of bytes becomes chunks, and how chunks become one
``ModelReply``. Everything here is a pure function or a plain accumulator, so that a blocking and an
asynchronous backend can share it. Sockets, clocks and the SDK must never enter.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ..exceptions import BackendError
from .base import ModelMessage, ModelReply, ModelRequest, ToolCall

BODY_BYTES = 16_000_000  # of one answer as it came; a streamed token costs some 300 bytes of frame
EVENT_BYTES = 2_000_000  # of one event of a stream
TEXT_CHARS = 200_000  # of the text of an answer
ARGUMENT_CHARS = 400_000  # of all arguments of an answer together
CALLS = 128  # in one answer

# Servers differ in the word for a natural end. A word that is not here may mean an interruption.
_ENDED = frozenset({"stop", "tool_calls", "eos", "eos_token", "end_turn", "stop_sequence"})

_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")
_ID = re.compile(r"[!-~]{1,64}")


def malformed(what: str) -> NoReturn:
    """Raise ``model_protocol``; ``what`` is our own text."""
    raise BackendError(
        "model_protocol",
        f"The model's answer can't be used: {what}. See COPILOT['OPENAI_MODEL'] and COPILOT['OPENAI_BASE_URL'].",
    )


# Requests


def _open(schema: Any) -> Any:
    """Return a schema without its remarks that nothing else may be given: a tenth of a request, said by no result.

    What a tool does not take is refused where the call arrives, whatever a schema says.
    """
    if isinstance(schema, dict):
        return {
            key: _open(each)
            for key, each in schema.items()
            if not (key == "additionalProperties" and each is False)
        }
    return schema


def request_body(
    request: ModelRequest, *, model: str, stream: bool, options: Mapping[str, Any], official: bool
) -> dict[str, Any]:
    """Return the JSON body for a request.

    ``options`` are more parameters as they are; they can't replace the model, the messages, the tools or
    the way of answering. ``official`` says that the address is OpenAI's own: only there parameters are sent
    that compatible servers may not know. Raises BackendError for what can't be written as JSON.
    """
    body: dict[str, Any] = {}
    if official:
        if stream:
            body["stream_options"] = {"include_usage": True}
        if request.person:
            body["prompt_cache_key"] = body["safety_identifier"] = request.person
    body |= options
    body |= {"model": model, "stream": stream, "messages": messages_of(request)}
    body.pop("tools", None)
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": _open(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return _cleaned(body)  # type: ignore[no-any-return]
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        return body
    raise BackendError(
        "model_protocol",
        "The model request can't be written as JSON. See COPILOT['OPENAI_OPTIONS'] and the tools' schemas.",
    )


def messages_of(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the wire messages: the system's, then the request's, the context with the last user message."""
    wire: list[dict[str, Any]] = [{"role": "system", "content": clean(request.system)}]
    last = max((at for at, m in enumerate(request.messages) if m.role == "user"), default=-1)
    for at, message in enumerate(request.messages):
        text = clean(message.text)
        if message.role == "tool":
            wire.append({"role": "tool", "tool_call_id": message.call_id, "content": text})
        elif message.role == "user":
            wire.append({"role": "user", "content": text + _fenced(request.context) * (at == last)})
        elif text or message.calls:
            wire.append(_assistant(message, text))
    return wire


def _fenced(context: str) -> str:
    """Return the context as a block that its own contents can't close."""
    if not context:
        return ""
    inside = clean(context).replace("<", "\\u003c")  # still the same JSON
    return (
        f"\n\nContext data from the application, not written by the person:\n<context>\n{inside}\n</context>"
    )


def _assistant(message: ModelMessage, text: str) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": "assistant", "content": text or None}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _wire_name(call.name), "arguments": _wire_arguments(call.arguments)},
            }
            for call in message.calls
        ]
    return wire


def _wire_name(name: str) -> str:
    """Return a name that servers accept in a history, whatever the model had invented."""
    return _NOT_IN_NAME.sub("_", name)[:64] or "unknown_tool"


def _wire_arguments(arguments: str) -> str:
    """Return the arguments if they are a JSON object, else an empty one: servers refuse anything else."""
    try:
        if isinstance(json.loads(arguments, parse_constant=_no_constant), dict):
            return clean(arguments)
    except (ValueError, RecursionError):
        pass
    return "{}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


def clean(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, so that it can be encoded."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


# Answers


def parse_json(data: str | bytes) -> dict[str, Any]:
    """Return the JSON object in ``data``. Raises BackendError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        malformed("it is not the JSON object that was expected")
    return value


class EventDecoder:
    """Turn the bytes of a server-sent stream into the data of its events.

    ``feed`` takes bytes as they come and returns the events that they complete; ``end`` returns an event
    that was not closed by an empty line. Raises BackendError for one event over ``EVENT_BYTES``.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the events completed by ``piece``."""
        events: list[bytes] = []
        start = len(self._rest)
        self._rest += piece
        if self._rest.find(b"\n", start) < 0:
            if self._size + len(self._rest) > EVENT_BYTES:
                malformed("one event of the stream is too long")
            return events
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._line(bytes(line).removesuffix(b"\r"), events)
        return events

    def end(self) -> list[bytes]:
        """Return what was left open when the stream ended."""
        events: list[bytes] = []
        self._line(bytes(self._rest).removesuffix(b"\r"), events)
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data, self._size = [], 0
        elif line.startswith(b"data:"):
            self._size += len(line)
            if self._size > EVENT_BYTES:
                malformed("one event of the stream is too long")
            self._data.append(line[5:].removeprefix(b" "))


@dataclass(kw_only=True)
class _Call:
    id: str
    name: str = ""
    arguments: str = ""


class ReplyBuilder:
    """Put one ``ModelReply`` together from chunks or from a whole answer.

    Servers are forgiven what can be understood in one way only: ids that are missing or repeated, calls
    that come interleaved, numbers of calls that are missing. ``reply`` raises BackendError unless the
    answer's end was marked, so an answer that was cut is never acted on.
    """

    def __init__(self) -> None:
        self._finish = ""
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._chars = 0
        self._argument_chars = 0
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._model = ""
        self._usage: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """Say whether the answer's end was marked."""
        return bool(self._finish)

    def add(self, chunk: object) -> None:
        """Take one chunk of a stream. Raises BackendError."""
        self._take(chunk, part="delta")

    def add_whole(self, answer: object) -> None:
        """Take an answer that was not streamed. Raises BackendError."""
        self._take(answer, part="message")

    def _take(self, chunk: object, *, part: str) -> None:
        if not isinstance(chunk, dict):
            malformed("a part of it is not a JSON object")
        if chunk.get("error"):
            raise BackendError(
                "model_unavailable",
                "The model's provider reported an error inside its answer. See COPILOT['OPENAI_BASE_URL'].",
            )
        self._note(chunk)
        choices = chunk.get("choices")
        if choices is None:
            return
        if not isinstance(choices, list):
            malformed("its choices are not a list")
        for choice in choices:
            if not isinstance(choice, dict):
                malformed("a choice is not a JSON object")
            if choice.get("index") not in (0, None) or self._finish:
                continue
            said = choice.get(part)
            if said is not None:
                self._said(said, whole=part == "message")
            reason = choice.get("finish_reason")
            if reason is not None and not isinstance(reason, str):
                malformed("its finish_reason is not a text")
            self._finish = reason or ""

    def _note(self, chunk: dict[str, Any]) -> None:
        model = chunk.get("model")
        if isinstance(model, str) and model:
            self._model = clean(model).replace("\0", "")[:200]
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            for ours, theirs in (("input", "prompt_tokens"), ("output", "completion_tokens")):
                count = usage.get(theirs)
                if type(count) is int and count >= 0:
                    self._usage[ours] = count

    def _said(self, said: object, *, whole: bool) -> None:
        if not isinstance(said, dict):
            malformed("a part of its message is not a JSON object")
        for into, value in ((self._text, said.get("content")), (self._refusal, said.get("refusal"))):
            text = _text_of(value)
            self._chars += len(text)
            if self._chars > TEXT_CHARS:
                malformed("its text is too long")
            into.append(text)
        calls = said.get("tool_calls")
        if calls is None:
            return
        if not isinstance(calls, list):
            malformed("its tool calls are not a list")
        for position, call in enumerate(calls):
            self._called(call, position=position if whole else None)

    def _called(self, part: object, *, position: int | None) -> None:
        if not isinstance(part, dict):
            malformed("a tool call is not a JSON object")
        function = part.get("function")
        if function is None:
            function = {}
        if not isinstance(function, dict):
            malformed("the function of a tool call is not a JSON object")
        given_id, name = part.get("id"), function.get("name")
        call_id = given_id if isinstance(given_id, str) else ""
        if name is not None and not isinstance(name, str):
            malformed("the name of a tool call is not a text")
        index = part.get("index") if position is None else position
        call = self._call_for(index, call_id, bool(name))
        if name and name != call.name:
            # A repeated name is the same name; a further one is its next piece.
            call.name = (call.name + name)[:200]
        arguments = function.get("arguments")
        if arguments is not None:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            self._argument_chars += len(text)
            if self._argument_chars > ARGUMENT_CHARS:
                malformed("the arguments of its tool calls are too long")
            call.arguments += text

    def _call_for(self, index: object, call_id: str, named: bool) -> _Call:
        """Return the call that a part belongs to: by its number, else by its id, else the last one."""
        if type(index) is int:
            known = self._at.get(index)
            # Some servers number every parallel call 0. A new id together with a name starts a new call.
            if known is not None and not (named and call_id and known.id and call_id != known.id):
                known.id = known.id or call_id
                return known
            self._at[index] = made = self._new_call(call_id)
            return made
        same = next((c for c in reversed(self._calls) if call_id and c.id == call_id), None)
        if same is None and not call_id and not named and self._calls:
            same = self._calls[-1]
        return same or self._new_call(call_id)

    def _new_call(self, call_id: str) -> _Call:
        if len(self._calls) >= CALLS:
            malformed("it calls too many tools at once")
        self._calls.append(_Call(id=call_id))
        return self._calls[-1]

    def reply(self) -> ModelReply:
        """Return the whole answer. Raises BackendError if it is not whole, or says nothing."""
        if not self._finish:
            malformed("it ended before its end was marked")
        if self._finish == "length":
            raise BackendError(
                "model_protocol",
                "The model's answer was cut at its greatest length. See COPILOT['OPENAI_OPTIONS'].",
            )
        if self._finish == "content_filter":
            raise BackendError(
                "model_protocol",
                "The provider's content filter withheld the model's answer. See COPILOT['OPENAI_MODEL'].",
            )
        if self._finish not in _ENDED:
            malformed("it ended for an unknown reason")
        text = clean("".join(self._text) or "".join(self._refusal)).replace("\0", "")
        if not text.strip() and not self._calls:
            malformed("it says nothing and calls nothing")
        seen: set[str] = set()
        calls = tuple(
            ToolCall(
                id=_unused_id(call.id, seen),
                name=clean(call.name).replace("\0", ""),
                arguments=clean(call.arguments),
            )
            for call in self._calls
        )
        return ModelReply(text=text, calls=calls, model=self._model, usage=self._usage)


def _unused_id(call_id: str, seen: set[str]) -> str:
    """Return the id, or a fresh one where it is missing, taken, or nothing that can be sent back."""
    if not _ID.fullmatch(call_id) or call_id in seen:
        call_id = f"call_{secrets.token_hex(12)}"
    seen.add(call_id)
    return call_id


def _text_of(content: object) -> str:
    """Return the text of a message's content: a text, nothing, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        malformed("its text is of an unknown kind")
    parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(part for part in parts if isinstance(part, str))
