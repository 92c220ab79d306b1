"""Hostile streams: nothing but a whole reply or a refusal comes out, and the judge sees it where more does."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client, override_settings

from django_copilot.backends import chat_completions as wire
from django_copilot.backends import get_backend
from django_copilot.backends import openai as backend
from django_copilot.backends.base import ModelMessage, ModelReply, ModelRequest
from django_copilot.exceptions import BackendError
from django_copilot.models import Plan, PlanState, Turn, TurnState
from django_copilot.redteam import streams, tables
from django_copilot.redteam.streams import BASES, DONE, StreamReport, is_marked, mutate_stream, run_streams
from tests.backends.loopback import STREAM_HEAD, Loopback, delta, events

COUNT = 1_500
ASKED = ModelRequest(system="Be calm.", tools=(), messages=(ModelMessage(role="user", text="Hello"),))
ENDINGS = {"model_unavailable", "model_timeout", "model_protocol", "too_many_rounds"}  # of a turn that failed


def run(seed: object = 7) -> StreamReport:
    return run_streams(rng=random.Random(f"streams {seed}"), count=COUNT)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_but_a_whole_reply_or_a_refusal_comes_out(seed: int) -> None:
    report = run(seed)
    assert report.crashed == ()
    assert report.acted_without_finish == ()
    assert report.streams == COUNT == report.replies + report.refused
    # Streams that are all refused, or none of them, would show nothing.
    assert report.refused > COUNT / 4
    assert report.replies > COUNT / 4
    assert report.calling > COUNT / 8


def test_a_seed_gives_the_same_streams_again() -> None:
    def made(seed: int) -> list[list[bytes]]:
        rng = random.Random(seed)
        return [mutate_stream(rng.choice(BASES), rng=rng) for _ in range(200)]

    assert made(3) == made(3)
    assert made(3) != made(4)
    assert run(3) == run(3)


def test_a_stream_is_not_changed_in_place_and_its_pieces_are_bytes() -> None:
    chunks = list(BASES[4])
    for seed in range(300):
        pieces = mutate_stream(chunks, rng=random.Random(seed))
        assert all(type(each) is bytes for each in pieces)
        assert tuple(chunks) == BASES[4]


@pytest.mark.parametrize(
    "chunks", [(), (b"",), (b"data: {}\n\n",), (DONE,)], ids=["none", "empty", "one", "done"]
)
def test_any_stream_can_be_mutated(chunks: tuple[bytes, ...]) -> None:
    for seed in range(300):
        mutate_stream(chunks, rng=random.Random(seed))


MUTATIONS = {each.__name__: each for each in (*streams._OF_EVENTS, *streams._OF_CHUNKS, streams._make_huge)}


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_each_mutation_changes_something(name: str) -> None:
    rng = random.Random(name)
    changed = 0
    for _ in range(60):
        before = rng.choice(BASES)
        after = list(before)
        MUTATIONS[name](after, rng)
        changed += tuple(after) != before
    assert changed > 10


def test_well_made_streams_are_read_as_they_are() -> None:
    replies = [backend._read_stream(iter(base)) for base in BASES]
    assert [
        (reply.text, [(call.name, json.loads(call.arguments)) for call in reply.calls])
        for reply in replies[2:5]
    ] == [
        ("", [("confirm_delete_order", {"id": "1"})]),
        ("Zażółć gęślą \N{GRINNING FACE} three.", [("confirm_delete_order", {"id": "1"})]),
        ("", [("refund_payment", {"order": "7", "amount_cents": 990}), ("query_order", {"limit": 3})]),
    ]
    assert all(is_marked(b"".join(base)) for base in BASES)


# -- the judge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "marked"),
    [
        (events(delta({"content": "x"}), delta(finish="stop")), True),
        (events(delta({"content": "x"}, finish="tool_calls"), done=False), True),
        (events(delta({"content": "x"}, finish="stop")).replace(b"\n", b"\r\n"), True),
        (events(delta({"content": "x"}, finish="stop"), done=False).rstrip(), True),
        (b"", False),
        (events(delta({"content": "x"})), False),
        (events(delta({"content": "x"}, finish="length"), delta(finish="stop")), False),
        (events(delta({"content": "x"}, finish="unheard_of")), False),
        (events(delta({"content": '"finish_reason": "stop"'})), False),
        (events({"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]}), False),
        (DONE + events(delta({"content": "x"}, finish="stop")), False),
        (b"event: x\n" + events(delta(finish=None)) + b": finish_reason stop\n\n", False),
    ],
    ids=[
        "stop", "no done", "crlf", "not closed", "nothing", "no reason", "length first", "unknown", "in the text",
        "of another choice", "after done", "in a comment",
    ],
)  # fmt: skip
def test_the_judge_reads_the_end_of_an_answer(data: bytes, marked: bool) -> None:
    assert is_marked(data) is marked


def _without_looking_at_the_end(patch: pytest.MonkeyPatch) -> None:
    whole = wire.ReplyBuilder.reply

    def reply(self: Any) -> ModelReply:
        self._finish = "stop"
        return whole(self)

    patch.setattr(wire.ReplyBuilder, "reply", reply)


def _only_a_cut_answer_is_read(patch: pytest.MonkeyPatch) -> None:
    """Take a length for an end."""
    take = wire.ReplyBuilder._take

    def taken(self: Any, chunk: Any, *, part: str) -> None:
        take(self, chunk, part=part)
        self._finish = "stop" if self._finish == "length" else self._finish

    patch.setattr(wire.ReplyBuilder, "_take", taken)


class _Every(frozenset[str]):
    def __contains__(self, _word: object) -> bool:
        return True


def _any_word_is_an_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wire, "_ENDED", _Every())


def _done_is_an_end(patch: pytest.MonkeyPatch) -> None:
    """Take the stream's own last word for the answer's end."""
    read = backend.parse_json

    def parse(data: bytes) -> dict[str, Any]:
        parsed = read(data)
        if data.strip().endswith(b'"finish_reason": null}]}'):
            parsed["choices"][0]["finish_reason"] = "stop"
        return parsed

    patch.setattr(backend, "parse_json", parse)


@pytest.mark.parametrize(
    "broken",
    [_without_looking_at_the_end, _only_a_cut_answer_is_read, _any_word_is_an_end, _done_is_an_end],
    ids=lambda broken: broken.__name__.strip("_"),
)
def test_a_reader_that_acts_on_an_answer_without_its_end_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    report = run()
    assert len(report.acted_without_finish) >= 3
    assert all(each.startswith("stream ") for each in report.acted_without_finish)


def _json_as_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backend, "parse_json", json.loads)


def _no_list_of_calls(patch: pytest.MonkeyPatch) -> None:
    """Take it that what stands as tool calls is a list of objects."""

    def called(self: Any, part: Any, *, position: int | None) -> None:
        self._call_for(part["index"], part.get("id") or "", True)

    patch.setattr(wire.ReplyBuilder, "_called", called)


def _surrogates_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wire, "clean", lambda text: text)


def _ids_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wire, "_unused_id", lambda call_id, seen: call_id)


def _any_count(patch: pytest.MonkeyPatch) -> None:
    note = wire.ReplyBuilder._note

    def noted(self: Any, chunk: dict[str, Any]) -> None:
        note(self, chunk)
        if isinstance(chunk.get("usage"), dict):
            self._usage["input"] = chunk["usage"].get("prompt_tokens", 0)

    patch.setattr(wire.ReplyBuilder, "_note", noted)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (_json_as_it_is, "JSONDecodeError"),
        (_no_list_of_calls, "Error: "),
        (_surrogates_stay, "no UTF-8"),
        (_ids_stay, "an id that servers refuse"),
        (_ids_stay, "two calls with one id"),
        (_any_count, "no count of tokens"),
    ],
    ids=["json", "calls", "surrogates", "odd ids", "same ids", "counts"],
)
def test_what_breaks_the_reader_or_can_not_be_stored_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert any(words in each for each in run().crashed)


def _nul_in_text(made: ModelReply, builder: Any) -> ModelReply:
    return replace(made, text=wire.clean("".join(builder._text)) or made.text)


def _nul_in_names(made: ModelReply, builder: Any) -> ModelReply:
    named = zip(made.calls, builder._calls, strict=True)
    return replace(made, calls=tuple(replace(call, name=wire.clean(raw.name)) for call, raw in named))


@pytest.mark.parametrize("broken", [_nul_in_text, _nul_in_names], ids=["text", "names"])
def test_nul_is_found(
    broken: Callable[[ModelReply, Any], ModelReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = wire.ReplyBuilder.reply
    monkeypatch.setattr(wire.ReplyBuilder, "reply", lambda self: broken(whole(self), self))
    assert any("NUL" in each for each in run().crashed)


# -- over a socket, with the SDK ----------------------------------------------------------------------


@contextmanager
def configured(url: str, **more: Any) -> Iterator[None]:
    copilot = {
        "BACKEND": "openai",
        "OPENAI_API_KEY": "sk-of-this-test",
        "OPENAI_BASE_URL": url,
        "OPENAI_MODEL": "test-model",
        "MODEL_TIMEOUT": 10.0,
        "MODEL_RETRIES": 0,
    }
    with override_settings(COPILOT={**copilot, **more}):
        yield


def sent(pieces: list[bytes]) -> Callable[[socket.socket], None]:
    """Return an answer that sends a stream piece by piece and hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(STREAM_HEAD)
        if len(pieces) > 100:  # a byte at a time would take long; the network may join them anyway
            connection.sendall(b"".join(pieces))
        else:
            for piece in pieces:
                connection.sendall(piece)

    return answer


def outcome(read: Callable[[], ModelReply]) -> object:
    """Return what can be compared: ids that the server gave badly are made anew each time."""
    try:
        reply = read()
    except BackendError as error:
        return error.code
    return (reply.text, [(call.name, call.arguments) for call in reply.calls], reply.model, reply.usage)


def test_hostile_streams_over_a_socket_end_as_they_do_in_memory() -> None:
    rng = random.Random("over a socket")
    made = [mutate_stream(rng.choice(BASES), rng=rng) for _ in range(60)]
    with Loopback(*map(sent, made)) as server, configured(server.url):
        asked = get_backend()
        over_socket = [outcome(lambda: asked.complete(ASKED)) for _ in made]
    assert len(server.asked) == len(made)
    assert over_socket == [outcome(lambda: backend._read_stream(iter(pieces))) for pieces in made]  # noqa: B023
    assert 15 < sum(isinstance(each, tuple) for each in over_socket) < 45


def test_turns_on_hostile_streams_end_and_write_nothing(store: Any, login: Callable[[str], Client]) -> None:
    rng = random.Random("turns")
    made = [mutate_stream(rng.choice(BASES), rng=rng) for _ in range(300)]
    client, before = login("admin"), tables.snapshot()
    told: list[tuple[int, str]] = []
    with Loopback(*map(sent, made)) as server, configured(server.url, TURNS_PER_MINUTE=1_000):
        while len(server.asked) < 60:
            response = client.post(
                "/admin/django_copilot/conversation/chat/",
                data={"message": "Delete the order 1 and refund it"},
                content_type="application/json",
            )
            answer = response.json()
            told.append((response.status_code, answer.get("code", "")))
            assert len({"action", "plan", "question"} & set(answer)) <= 1
    assert {(status, code) for status, code in told if status != 200} <= {(500, code) for code in ENDINGS}
    assert {status for status, _ in told} == {200, 500}
    assert tables.changes(before, tables.snapshot()) == []
    assert not Turn.objects.filter(state=TurnState.RUNNING).exists()
    assert Turn.objects.count() == len(told)
    assert not Plan.objects.exclude(state=PlanState.PROPOSED).exists()
    assert Plan.objects.exists()  # some of it was understood, and waits for a person
