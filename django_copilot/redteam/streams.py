"""Hostile streams: an answer of Chat Completions cut, shuffled and corrupted, and read by our own reader.

Owns the mutations and their judge. The judge reads a stream anew, with nothing of the reader that it judges.
No socket, no clock and no SDK: a stream is a list of pieces of bytes.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends import openai as backend
from ..backends.base import ModelReply
from ..exceptions import BackendError

DONE = b"data: [DONE]\n\n"
_HUGE = 300  # one stream in so many holds something huge: each costs as much as many others
_TRIES = 4  # chunks that are looked at for what a mutation changes
_CUT = 20  # one stream in so many ends with the connection's error

# What JSON can carry that Python's encoder does not write; in place of a text that stands for it.
_RAW = {"@1e400@": b"1e400", "@-1e400@": b"-1e400", "@digits@": b"9" * 5_000, "@bare@": b"undefined"}
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.9, 10**30, -(10**4_000), float("nan"), float("inf"), *_RAW,
    "", " ", "0", "\uff10", "1_0", "\0", "a\0b", "\ud800", "\udc00\ud800", "\u202e\u200b", "\r\n\r\ndata: [DONE]\n\n",
    "stop", "x" * 70, "confirm", [], {}, [[]], [None], [7], ["stop"], {"": {}}, {"index": 0}, {"text": "x", "type": "text"},
    [{"type": "text", "text": "\0"}, {"type": "text", "text": 7}, {"type": "image_url"}],
)  # fmt: skip
_INDEXES: tuple[Any, ...] = (
    0, 0, 1, 2, -1, -(2**63), 2**64, 10**30, 0.0, 1.0, True, "0", None, [], "@1e400@"
)  # fmt: skip
_IDS: tuple[Any, ...] = ("call_1", "call_1", "call_2", "", None, 7, "x" * 65, "a b", "\0", "\ud83d", [], {})
_FINISHES: tuple[Any, ...] = (
    None, None, "", "stop", "tool_calls", "length", "content_filter", "error", "STOP", "stop ", "function_call",
    "unknown", "\0stop", 0, True, [], ["stop"], {"reason": "stop"}, "@1e400@",
)  # fmt: skip
_TEXTS: tuple[Any, ...] = (
    "\0", "a\0b", "\ud83d", "\ude00", "\n\ndata: [DONE]\n\n", '"}}]}', "<img src=x onerror=alert(1)>", "\u202e\u2066", " ", "",
    [{"type": "text", "text": "a\0\ud800"}], [{"type": "thinking", "text": "x"}], {"type": "text", "text": "x"}, 7,
)  # fmt: skip
_ARGUMENTS: tuple[Any, ...] = (
    "", "{", "}", "null", "[1]", '{"id": NaN}', '{"id": 1e400}', '{"id":"1"}{"id":"2"}', '{"id":"1","id":"2"}', "[" * 3_000,
    '"\\ud800"', '{"\0": "\0"}', '{"confirm": true, "confirmed_by": 1}', {"id": "1"}, {"id": "@1e400@"}, [7], 7, "x" * 5_000,
)  # fmt: skip
_JUNK = (
    b"data: {\n\n", b"data: NaN\n\n", b"data: [1]\n\n", b"data: null\n\n", b"data: 7\n\n", b"data:\n\n", b"data\n\n",
    b"\n\n\n", b": ping\n\n", b"event: error\ndata: {}\n\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\r", b"\r\r\n", b"\xed\xa0\x80",
    b'data: {"error": {"message": "no"}}\n\n', b'data: {"choices": []}\n\n', b"data: " + b"[" * 20_000 + b"\n\n",
    b'data: {"choices": [{"delta": {"content": "\x00"}}]}\n\n', b"id: 1\nretry: 0\n\n", b"<html></html>\n\n",
)  # fmt: skip

# What an answer may end with that is its end. Written down anew: the reader's own list is what is judged.
_NATURAL = ("stop", "tool_calls", "eos", "eos_token", "end_turn", "stop_sequence")


@dataclass(frozen=True, kw_only=True)
class StreamReport:
    """What became of a number of streams. The examples name the stream's number and its first bytes."""

    streams: int
    replies: int
    calling: int  # of the replies, those that call tools
    refused: int
    crashed: tuple[str, ...]  # another exception than BackendError came out, or what can't be stored
    acted_without_finish: tuple[str, ...]  # a reply came out of a stream whose end was not marked


def run_streams(*, rng: random.Random, count: int) -> StreamReport:
    """Read ``count`` hostile streams with the reader of the ``openai`` backend, in memory, and judge each."""
    replies = calling = refused = 0
    crashed: list[str] = []
    unmarked: list[str] = []
    for number in range(count):
        pieces = mutate_stream(rng.choice(BASES), rng=rng)
        cut = not rng.randrange(_CUT)
        try:
            reply = backend._read_stream(_given(pieces, cut=cut))
        except (
            BackendError,
            _Cut,
        ):  # the backend names the client's own error when it comes out of the reader
            refused += 1
            continue
        except Exception as error:
            crashed.append(_case(number, pieces, f"{type(error).__name__}: {error}"))
            continue
        replies += 1
        calling += bool(reply.calls)
        problem = _unstorable(reply)
        if problem:
            crashed.append(_case(number, pieces, problem))
        if not is_marked(b"".join(pieces)):
            unmarked.append(_case(number, pieces, f"{len(reply.calls)} calls"))
    return StreamReport(
        streams=count,
        replies=replies,
        calling=calling,
        refused=refused,
        crashed=tuple(crashed),
        acted_without_finish=tuple(unmarked),
    )


class _Cut(ConnectionResetError):
    """The connection was reset."""


def _given(pieces: Sequence[bytes], *, cut: bool) -> Iterator[bytes]:
    yield from pieces
    if cut:
        raise _Cut


def _case(number: int, pieces: Sequence[bytes], what: str) -> str:
    return f"stream {number}: {what[:200]}: {b''.join(pieces)[:400]!r}"


# The judge


def is_marked(data: bytes) -> bool:
    """Say whether a stream told, before its [DONE], that the first choice came to a natural end."""
    for event in re.split(rb"\n(?:\r?\n)+", data.replace(b"\r\n", b"\n")):
        told = b"\n".join(line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
        if not told.strip():
            continue
        if told.strip() == b"[DONE]":
            return False
        try:
            choices = json.loads(told)["choices"]
            ends = [each.get("finish_reason") for each in choices if each.get("index") in (0, None)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
        for end in ends:
            if end:
                return isinstance(end, str) and end in _NATURAL
    return False


def _unstorable(reply: ModelReply) -> str:
    """Return why a reply can't be stored and sent back, or "". NUL in arguments is the gate's to refuse."""
    if not isinstance(reply, ModelReply):
        return f"{type(reply).__name__} came out"
    texts = [reply.text, reply.model, *(part for call in reply.calls for part in (call.id, call.name))]
    if not all(isinstance(each, str) and "\0" not in each for each in texts):
        return "NUL, or no text"
    try:
        for each in (*texts, *(call.arguments for call in reply.calls)):
            each.encode()
    except UnicodeEncodeError:
        return "no UTF-8"
    if not all(re.fullmatch("[!-~]{1,64}", call.id) for call in reply.calls):
        return "an id that servers refuse"
    if len({call.id for call in reply.calls}) < len(reply.calls):
        return "two calls with one id"
    if not reply.text.strip() and not reply.calls:
        return "nothing was said"
    if not all(type(each) is int and each >= 0 for each in reply.usage.values()):
        return "no count of tokens"
    return ""


# Answers as a well-made server streams them


def _event(said: dict[str, Any] | None, *, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if said is None else [{"index": 0, "delta": said, "finish_reason": finish}]
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices, **more}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _call(index: int, arguments: str, *, id: str = "", name: str = "") -> bytes:
    call: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if id:
        call |= {"id": id, "type": "function"}
        call["function"]["name"] = name
    return _event({"tool_calls": [call]})


_ROLE = _event({"role": "assistant", "content": ""})
_USAGE = _event(None, usage={"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13})
_TEXT = (
    _ROLE,
    *(_event({"content": word}) for word in ("Zażółć ", "gęślą ", "\N{GRINNING FACE}", " three.")),
)
_ONE = (
    _call(0, "", id="call_1", name="confirm_delete_order"),
    *(_call(0, piece) for piece in ('{"', "id", '":"', "1", '"}')),
)
_TWO = (
    _call(0, "", id="call_1", name="refund_payment"),
    _call(1, "", id="call_2", name="query_order"),
    _call(0, '{"order":'),
    _call(1, '{"limit"'),
    _call(0, ' "7", "amount_cents": 990}'),
    _call(1, ": 3}"),
)
_ENDS = (_event({}, finish="stop"), DONE)
_CALLED = (_event({}, finish="tool_calls"), DONE)
BASES: tuple[tuple[bytes, ...], ...] = (
    (*_TEXT, *_ENDS),
    (*_TEXT, _ENDS[0], _USAGE, DONE),
    (_ROLE, *_ONE, *_CALLED),
    (*_TEXT, *_ONE, *_CALLED),
    (_ROLE, *_TWO, _CALLED[0], _USAGE, DONE),
    (*_TEXT, *_TWO, *_CALLED),
    (_event({"content": "Yes."}, finish="stop"), DONE),
    (_event({"refusal": "No."}), *_ENDS),
)


# Mutations


def mutate_stream(chunks: Sequence[bytes], *, rng: random.Random) -> list[bytes]:
    """Return the events of a stream after one to four mutations, cut into pieces as a network may cut them.

    ``chunks`` are whole events, each ``data: …`` and an empty line.
    """
    events = list(chunks)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        rng.choice(_OF_EVENTS if rng.random() < 0.45 else _OF_CHUNKS)(events, rng)
    if not rng.randrange(_HUGE):
        _make_huge(events, rng)
    return _in_pieces(events, rng)


def _in_pieces(events: list[bytes], rng: random.Random) -> list[bytes]:
    way = rng.randrange(8)
    if way < 4:
        return events
    data = b"".join(events)
    if way == 4:
        return [data]
    if way == 5 and len(data) < 1_500:
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


Mutation = Callable[[list[bytes], random.Random], None]


def _place(events: list[bytes], rng: random.Random) -> int:
    return rng.randrange(len(events) + 1)


def _truncate(events: list[bytes], rng: random.Random) -> None:
    del events[_place(events, rng) :]


def _cut_inside(events: list[bytes], rng: random.Random) -> None:
    """End the stream in the middle of an event."""
    if events:
        at = rng.randrange(len(events))
        events[at:] = [events[at][: rng.randrange(len(events[at]) + 1)]]


def _drop(events: list[bytes], rng: random.Random) -> None:
    if events:
        del events[rng.randrange(len(events))]


def _duplicate(events: list[bytes], rng: random.Random) -> None:
    if events:
        again = rng.choice(events)
        at = _place(events, rng)
        events[at:at] = [again] * rng.choice((1, 1, 2, 30))


def _replay(events: list[bytes], rng: random.Random) -> None:
    """Send a stretch of the stream a second time."""
    start = _place(events, rng)
    events += events[start : start + rng.randrange(1, 8)]


def _swap(events: list[bytes], rng: random.Random) -> None:
    if events:
        one, other = rng.randrange(len(events)), rng.randrange(len(events))
        events[one], events[other] = events[other], events[one]


def _shuffle(events: list[bytes], rng: random.Random) -> None:
    rng.shuffle(events)


def _interleave(events: list[bytes], rng: random.Random) -> None:
    """Mix another answer in, each in its own order."""
    mine, others = iter(list(events)), iter(rng.choice(BASES))
    order = [mine] * len(events) + [others] * rng.randrange(1, 10)
    rng.shuffle(order)
    events[:] = [each for source in order if (each := next(source, None)) is not None]


def _without_done(events: list[bytes], rng: random.Random) -> None:
    events[:] = [each for each in events if each != DONE]


def _early_done(events: list[bytes], rng: random.Random) -> None:
    events.insert(
        _place(events, rng), rng.choice((DONE, b"data:[DONE]\n\n", b"data: [DONE] \r\n\r\n", b"data: [DONE]"))
    )


def _junk(events: list[bytes], rng: random.Random) -> None:
    events.insert(_place(events, rng), rng.choice(_JUNK))


def _corrupt(events: list[bytes], rng: random.Random) -> None:
    """Change, add or take bytes within an event."""
    if events:
        at = rng.randrange(len(events))
        data = bytearray(events[at])
        for _ in range(rng.choice((1, 1, 3))):
            place = rng.randrange(len(data) + 1)
            data[place : place + rng.choice((0, 1, 1, 5))] = rng.choice(
                (b"", b"\0", b"\n", b"\r", b'"', b"}", b"\xff", b"\\", b"9")
            )
        events[at] = bytes(data)


def _other_lines(events: list[bytes], rng: random.Random) -> None:
    """Write the same events with other ends of lines."""
    end = rng.choice((b"\r\n", b"\r", b"\n\n", b"\n: \n"))
    events[:] = [each.replace(b"\n", end) for each in events]


def _several_lines(events: list[bytes], rng: random.Random) -> None:
    """Spread an event's data over several lines, which is allowed between tokens only."""
    if events:
        at = rng.randrange(len(events))
        events[at] = events[at].replace(rng.choice((b", ", b": ", b'"')), b",\ndata: ")


_OF_EVENTS: tuple[Mutation, ...] = (
    _truncate, _truncate, _cut_inside, _drop, _drop, _duplicate, _replay, _swap, _shuffle, _interleave, _interleave,
    _without_done, _early_done, _junk, _corrupt, _other_lines, _several_lines,
)  # fmt: skip


def _changed(change: Callable[[dict[str, Any], random.Random], None]) -> Mutation:
    """Return the mutation that changes the JSON of one chunk in which there is what it changes."""

    @functools.wraps(change)
    def mutate(events: list[bytes], rng: random.Random) -> None:
        for at in rng.sample(range(len(events)), min(len(events), _TRIES)):
            try:
                chunk = json.loads(events[at][5:])
                change(chunk, rng)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
                continue  # it has nothing of the kind, or another mutation was here before
            data = json.dumps(chunk).encode()
            if b"@" in data:
                for name, raw in _RAW.items():
                    data = data.replace(b'"' + name.encode() + b'"', raw)
            events[at] = b"data: " + data + b"\n\n"
            return

    return mutate


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys, all the way down."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _slots(value[key])


def _set_any(chunk: dict[str, Any], rng: random.Random) -> None:
    container, key = rng.choice(list(_slots(chunk)))
    container[key] = rng.choice(_VALUES)


def _wrap_any(chunk: dict[str, Any], rng: random.Random) -> None:
    container, key = rng.choice(list(_slots(chunk)))
    container[key] = rng.choice(
        ([container[key]], {"x": container[key]}, [container[key]] * 3, str(container[key]))
    )


def _remove_any(chunk: dict[str, Any], rng: random.Random) -> None:
    container, key = rng.choice(list(_slots(chunk)))
    del container[key]


def _finish(chunk: dict[str, Any], rng: random.Random) -> None:
    chunk["choices"][0]["finish_reason"] = rng.choice(_FINISHES)


def _move(chunk: dict[str, Any], rng: random.Random) -> None:
    chunk["choices"][0]["index"] = rng.choice(_INDEXES)


def _add_choice(chunk: dict[str, Any], rng: random.Random) -> None:
    """Add a choice beside the first, or before it, that ends and calls on its own."""
    call = {
        "index": rng.choice(_INDEXES),
        "id": rng.choice(_IDS),
        "function": {"name": "other", "arguments": "{}"},
    }
    choice = {
        "index": rng.choice(_INDEXES),
        "delta": {"tool_calls": [call]},
        "finish_reason": rng.choice(_FINISHES),
    }
    chunk["choices"].insert(rng.randrange(2), choice)


def _change_text(chunk: dict[str, Any], rng: random.Random) -> None:
    said = chunk["choices"][0]["delta"]
    said[rng.choice(("content", "content", "refusal"))] = rng.choice(_TEXTS)


def _change_call(chunk: dict[str, Any], rng: random.Random) -> None:
    call = rng.choice(chunk["choices"][0]["delta"]["tool_calls"])
    match rng.randrange(4):
        case 0:
            call["index"] = rng.choice(_INDEXES)
        case 1:
            call["id"] = rng.choice(_IDS)
        case 2:
            call["function"]["arguments"] = rng.choice(_ARGUMENTS)
        case _:
            call.pop(rng.choice(("index", "id", "function", "type")), None)


def _change_name(chunk: dict[str, Any], rng: random.Random) -> None:
    function = rng.choice(chunk["choices"][0]["delta"]["tool_calls"])["function"]
    name: str = function["name"]
    function["name"] = rng.choice(
        ("confirm", name[:4], name + "\0", "\ud800" + name, "x" * 300, "\0", "", 7, None, [name])
    )


def _add_call(chunk: dict[str, Any], rng: random.Random) -> None:
    call = {"index": rng.choice(_INDEXES), "id": rng.choice(_IDS)}
    call["function"] = {
        "name": rng.choice(("confirm", "confirm_delete_order", "")),
        "arguments": rng.choice(_ARGUMENTS),
    }
    chunk["choices"][0]["delta"].setdefault("tool_calls", []).extend([call] * rng.choice((1, 1, 2, 129)))


_KEYS = (
    "error", "usage", "model", "choices", "delta", "message", "finish_reason", "content", "refusal", "tool_calls"
)  # fmt: skip


def _add_key(chunk: dict[str, Any], rng: random.Random) -> None:
    """Put a key where the format has one, or where it has none."""
    container, _ = rng.choice(list(_slots(chunk)))
    if isinstance(container, dict):
        container[rng.choice(_KEYS)] = rng.choice(_VALUES)


def _bad_usage(chunk: dict[str, Any], rng: random.Random) -> None:
    chunk["usage"] = {"prompt_tokens": rng.choice(_VALUES), "completion_tokens": rng.choice(_INDEXES)}
    chunk["model"] = rng.choice(_VALUES)


_OF_CHUNKS: tuple[Mutation, ...] = tuple(map(_changed, (
    _set_any, _set_any, _set_any, _wrap_any, _remove_any, _finish, _finish, _move, _add_choice, _change_text,
    _change_call, _change_call, _change_name, _add_call, _add_key, _bad_usage,
)))  # fmt: skip


def _make_huge(events: list[bytes], rng: random.Random) -> None:
    """Put something in that is over one of the reader's bounds, or just under."""
    match rng.randrange(5):
        case 0:
            many = [_event({"content": "x" * 60_000})] * rng.choice((3, 4))
        case 1:
            many = [_call(0, "9" * 90_000)] * rng.choice((4, 5))
        case 2:
            many = [b"data: " + b"x" * rng.choice((1_999_000, 2_000_001)) + b"\n\n"]
        case 3:
            many = [b"data: " + b" " * 150_000 + b"\n"] * 15
        case _:
            many = [
                _call(number, "{}", id=f"call_{number}", name="query_order")
                for number in range(rng.choice((128, 140)))
            ]
    at = _place(events, rng)
    events[at:at] = many
