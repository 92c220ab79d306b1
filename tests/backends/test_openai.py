"""The openai backend over real HTTP: against llmock, and against exact bytes where llmock is too well-made."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Reply
from llmock.scenarios import ToolCall as Scripted

from django_copilot.backends import get_backend
from django_copilot.backends.base import ModelMessage, ModelReply, ModelRequest, ToolCall, ToolSpec
from django_copilot.backends.openai import OpenAIBackend, retry_after, sendable_key
from django_copilot.exceptions import BackendError

from .loopback import STREAM_HEAD, Loopback, delta, dripping, events, http, refused, stream, whole

KEY = "sk-very-secret-0123456789"
TOOL = ToolSpec(
    name="query_order",
    description="Read orders.",
    parameters={
        "type": "object",
        "properties": {"limit": {"type": "integer"}},
        "additionalProperties": False,
    },
    kind="query",
)
ASKED = ModelRequest(
    system="Be calm.", tools=(TOOL,), messages=(ModelMessage(role="user", text="Show orders"),), person="hash"
)
HELLO = stream(delta({"content": "Hello"}), delta(finish="stop"))


@pytest.fixture(autouse=True)
def log_everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Look at every record of every test of this file: the key is in none of them."""
    caplog.set_level(logging.DEBUG)
    yield
    for when in ("setup", "call"):
        assert not [r for r in caplog.get_records(when) if KEY in logging.Formatter().format(r)]


@pytest.fixture
def configure(settings: Any) -> Iterator[Any]:
    """Return a function that sets ``COPILOT`` for a server's address, with short times."""

    def configured(url: str, **more: Any) -> OpenAIBackend:
        settings.COPILOT = {
            "BACKEND": "openai",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": url,
            "OPENAI_MODEL": "test-model",
            "MODEL_TIMEOUT": 10.0,
            "MODEL_RETRIES": 0,
            **more,
        }
        backend = get_backend()
        assert isinstance(backend, OpenAIBackend)
        return backend

    yield configured
    settings.COPILOT = {"BACKEND": "scripted"}  # closes the client


def failed(backend: OpenAIBackend, request: ModelRequest = ASKED) -> BackendError:
    """Ask, and return the error, which is looked at for words that it must not hold."""
    with pytest.raises(BackendError) as caught:
        backend.complete(request)
    error = caught.value
    assert "COPILOT[" in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    told = "".join(traceback.format_exception(error)) + repr(vars(error)) + repr(error)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals["__name__"].startswith("django_copilot"):
            told += repr(frame.f_locals)
    assert KEY not in told
    assert "words of the provider" not in told
    return error


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def mocked(llmock: LLMock, configure: Any, streamed: bool) -> OpenAIBackend:
    backend: OpenAIBackend = configure(llmock.base_url(), OPENAI_STREAM=streamed)
    return backend


@pytest.fixture
def streaming(llmock: LLMock, configure: Any) -> OpenAIBackend:
    backend: OpenAIBackend = configure(llmock.base_url())
    return backend


# Against llmock


def test_text(llmock, mocked, streamed):
    llmock.reply("Zażółć gęślą jaźń \N{GRINNING FACE}")
    assert mocked.complete(ASKED).text == "Zażółć gęślą jaźń \N{GRINNING FACE}"
    sent = llmock.last_request.body
    assert sent["stream"] is streamed
    assert sent["model"] == "test-model"
    assert sent["messages"] == [
        {"role": "system", "content": "Be calm."},
        {"role": "user", "content": "Show orders"},
    ]
    assert sent["tools"][0]["function"]["name"] == "query_order"
    assert not {"safety_identifier", "prompt_cache_key", "stream_options"} & set(sent)
    llmock.assert_resilient(strict=True)


def test_a_call(llmock, mocked):
    llmock.call_tool("query_order", {"limit": 3, "filters": {"city": "Łódź"}}, text="One moment.")
    reply = mocked.complete(ASKED)
    assert reply.text == "One moment."
    assert reply.model == "test-model"
    (call,) = reply.calls
    assert call.name == "query_order"
    assert json.loads(call.arguments) == {"limit": 3, "filters": {"city": "Łódź"}}


def test_several_calls_with_one_answer(llmock, mocked):
    scripted = tuple(Scripted("query_order", {"limit": n}) for n in range(40))
    llmock.add(Reply(text=None, tool_calls=scripted))
    calls = mocked.complete(ASKED).calls
    assert [json.loads(call.arguments)["limit"] for call in calls] == list(range(40))
    assert len({call.id for call in calls}) == 40


def test_a_turn_goes_on_with_the_result(llmock, mocked):
    llmock.call_tool("query_order", {"limit": 3})
    first = mocked.complete(ASKED)
    assistant = ModelMessage(role="assistant", calls=first.calls)
    result = ModelMessage(role="tool", call_id=first.calls[0].id, text='{"rows":[]}')
    more = ModelRequest(system=ASKED.system, tools=ASKED.tools, messages=(*ASKED.messages, assistant, result))
    llmock.reply("There are none.")
    assert mocked.complete(more).text == "There are none."
    earlier, later = (record.body["messages"] for record in llmock.requests)
    assert later[: len(earlier)] == earlier
    assert later[-1]["tool_call_id"] == later[-2]["tool_calls"][0]["id"] == first.calls[0].id


def test_usage_where_it_is_asked_for(llmock, configure, streamed):
    options = {"stream_options": {"include_usage": True}} if streamed else {}
    backend = configure(llmock.base_url(), OPENAI_STREAM=streamed, OPENAI_OPTIONS=options)
    llmock.reply("Two words")
    assert set(backend.complete(ASKED).usage) == {"input", "output"}


def test_malformed_arguments_are_handed_on(llmock, mocked):
    llmock.call_tool("query_order", {"limit": 3}).break_tool_call("malformed_arguments")
    (call,) = mocked.complete(ASKED).calls
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)


def test_an_unknown_tool_is_handed_on(llmock, mocked):
    llmock.call_tool("query_order", {"limit": 3}).break_tool_call("unknown_tool")
    (call,) = mocked.complete(ASKED).calls
    assert call.name != "query_order"


@pytest.mark.parametrize(
    ("status", "code", "names"),
    [
        (400, "model_unavailable", "OPENAI_OPTIONS"),
        (401, "model_unavailable", "OPENAI_API_KEY"),
        (403, "model_unavailable", "OPENAI_API_KEY"),
        (404, "model_unavailable", "OPENAI_MODEL"),
        (408, "model_timeout", "OPENAI_MODEL"),
        (409, "model_unavailable", "OPENAI_MODEL"),
        (422, "model_unavailable", "OPENAI_OPTIONS"),
        (429, "model_unavailable", "OPENAI_API_KEY"),
        (500, "model_unavailable", "OPENAI_BASE_URL"),
        (503, "model_unavailable", "OPENAI_BASE_URL"),
        (529, "model_unavailable", "OPENAI_BASE_URL"),
    ],
)
def test_a_status_names_the_setting_to_look_at(llmock, mocked, status, code, names):
    llmock.fail(status, times=None, message=f"words of the provider about {KEY}")
    error = failed(mocked)
    assert error.code == code
    assert str(status) in str(error)
    assert names in str(error)
    assert len(llmock.requests) == 1


def test_retry_after_is_obeyed(llmock, configure):
    backend = configure(llmock.base_url(), MODEL_RETRIES=1)
    llmock.rate_limit(retry_after=0.3).reply("At last")
    assert backend.complete(ASKED).text == "At last"
    first, second = llmock.requests
    assert second.started_at - first.started_at >= 0.3
    llmock.assert_resilient(strict=True)


def test_what_is_over_soon_is_tried_again(llmock, configure):
    backend = configure(llmock.base_url(), MODEL_RETRIES=1)
    llmock.fail(500, retry_after=0.05).reply("At last")
    assert backend.complete(ASKED).text == "At last"


def test_what_will_not_change_is_not_tried_again(llmock, configure):
    backend = configure(llmock.base_url(), MODEL_RETRIES=3)
    llmock.fail(401, times=None)
    assert failed(backend).code == "model_unavailable"
    assert len(llmock.requests) == 1


def test_retries_come_to_an_end(llmock, configure):
    backend = configure(llmock.base_url(), MODEL_RETRIES=2)
    llmock.fail(503, times=None, retry_after=0.01)
    assert failed(backend).code == "model_unavailable"
    assert len(llmock.requests) == 3


def test_a_retry_that_would_come_too_late_is_not_waited_for(llmock, configure):
    backend = configure(llmock.base_url(), MODEL_RETRIES=1, MODEL_TIMEOUT=5.0)
    llmock.rate_limit(times=None, retry_after=60)
    started = time.monotonic()
    assert failed(backend).code == "model_unavailable"
    assert time.monotonic() - started < 3
    assert len(llmock.requests) == 1


def test_a_prompt_that_is_too_long(llmock, mocked):
    llmock.context_overflow()
    assert failed(mocked).code == "model_unavailable"


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_truncated_stream_is_never_acted_on(llmock, streaming, after):
    llmock.call_tool("query_order", {"limit": 3}).truncate(after_chunks=after)
    assert failed(streaming).code == "model_protocol"


def test_a_stream_cut_just_before_its_end_is_never_acted_on(llmock, streaming):
    llmock.call_tool("query_order", {}).truncate(after_chunks=3)  # the call is complete, its end unmarked
    assert failed(streaming).code == "model_protocol"


@pytest.mark.parametrize("after", [0, 2])
def test_a_dropped_connection(llmock, streaming, after):
    llmock.reply("One two three four five").disconnect(after_chunks=after)
    assert failed(streaming).code == "model_unavailable"


@pytest.mark.parametrize("after", [0, 2])
def test_a_corrupt_chunk(llmock, streaming, after):
    llmock.reply("One two three four five").corrupt(after_chunks=after)
    assert failed(streaming).code == "model_protocol"


@pytest.mark.parametrize("after", [0, 2])
def test_a_stalled_stream(llmock, configure, after):
    backend = configure(llmock.base_url(), MODEL_TIMEOUT=0.5)
    llmock.reply("One two three four five").stall(after_chunks=after, seconds=5)
    started = time.monotonic()
    assert failed(backend).code == "model_timeout"
    assert time.monotonic() - started < 2


def test_a_slow_answer(llmock, configure, streamed):
    backend = configure(llmock.base_url(), MODEL_TIMEOUT=0.5, OPENAI_STREAM=streamed, MODEL_RETRIES=2)
    llmock.delay(5, times=None)
    started = time.monotonic()
    assert failed(backend).code == "model_timeout"
    assert time.monotonic() - started < 2


def test_a_slow_first_token_within_the_time_is_no_error(llmock, streaming):
    llmock.reply("Hello").slow_first_token(0.3)
    assert streaming.complete(ASKED).text == "Hello"


def test_a_paced_stream_within_the_time_is_no_error(llmock, streaming):
    llmock.pace(20).reply("One two three")
    assert streaming.complete(ASKED).text == "One two three"


def test_several_threads_share_one_client(llmock, streaming):
    llmock.tool_mode("off")
    found: list[ModelReply] = []
    threads = [threading.Thread(target=lambda: found.append(streaming.complete(ASKED))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == 8
    assert len({reply.text for reply in found}) == 1


# Against exact bytes


def test_no_key(configure):
    for key in ("", "  ", "\n"):
        error = failed(configure("http://127.0.0.1:9/v1", OPENAI_API_KEY=key))
        assert error.code == "model_not_configured"
        assert "OPENAI_API_KEY" in str(error)


@pytest.mark.parametrize("key", [f"{KEY}\nX: y", f"{KEY} {KEY}", f"{KEY}ż", f"{KEY}\0"])
def test_a_key_that_can_not_be_sent_is_never_given_to_the_http_library(configure, key):
    with Loopback(HELLO) as server:
        assert failed(configure(server.url, OPENAI_API_KEY=key)).code == "model_not_configured"
    assert server.asked == []


def test_space_around_a_key_is_no_part_of_it(configure):
    with Loopback(HELLO) as server:
        configure(server.url, OPENAI_API_KEY=f" {KEY}\n").complete(ASKED)
    assert f"authorization: bearer {KEY}\r\n".lower() in server.asked[0].head.lower() + "\r\n"


@pytest.mark.parametrize("key", [None, 7, lambda: "x"])
def test_a_key_is_text(key):
    assert not sendable_key(key)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("127.0.0.1:9/v1", "model_unavailable"),
        ("ftp://127.0.0.1/v1", "model_unavailable"),
        ("http://127.0.0.1:port/v1", "model_not_configured"),
    ],
)
def test_an_address_that_can_not_be_right(configure, url, code):
    error = failed(configure(url))
    assert error.code == code
    assert "OPENAI_BASE_URL" in str(error)


def test_a_refused_connection(configure):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert failed(configure(f"http://127.0.0.1:{port}/v1")).code == "model_unavailable"


def test_a_refused_connection_is_tried_again(configure, caplog):
    with Loopback(lambda connection: None, HELLO) as server:
        assert configure(server.url, MODEL_RETRIES=1).complete(ASKED).text == "Hello"
    assert len(server.asked) == 2


def test_a_server_that_repeats_the_key_does_not_get_it_into_a_log(configure, caplog):
    with Loopback(refused(401, words=KEY, x_key=KEY), http(b"{}", x_key=KEY)) as server:
        failed(configure(server.url))
        failed(configure(server.url))
    assert [r for r in caplog.records if r.name.startswith("httpcore") and "[API key]" in r.getMessage()]


def test_the_reasoning_effort_is_given_up_once_and_remembered(configure):
    with Loopback(refused(400, param="reasoning_effort"), HELLO) as server:
        backend = configure(server.url)
        assert backend.complete(ASKED).text == "Hello"
        assert backend.complete(ASKED).text == "Hello"
    assert [asked.body.get("reasoning_effort") for asked in server.asked] == [None, "none", "none"]


def test_the_reasoning_effort_is_given_up_only_once(configure):
    with Loopback(refused(400, param="reasoning_effort")) as server:
        options = {"reasoning_effort": "high"}
        assert failed(configure(server.url, OPENAI_OPTIONS=options)).code == "model_unavailable"
    assert [asked.body["reasoning_effort"] for asked in server.asked] == ["high", "none"]


def test_another_bad_parameter_is_an_error(configure):
    with Loopback(refused(400, param="temperature")) as server:
        assert failed(configure(server.url)).code == "model_unavailable"
    assert len(server.asked) == 1


def test_options_headers_and_query(configure):
    options = {"temperature": 0, "extra_headers": {"X-Team": "store"}, "extra_query": {"v": "1"}}
    with Loopback(HELLO) as server:
        configure(server.url, OPENAI_OPTIONS=options).complete(ASKED)
    (asked,) = server.asked
    assert asked.body["temperature"] == 0
    assert not {"extra_headers", "extra_query", "extra_body"} & set(asked.body)
    assert asked.head.startswith("POST /v1/chat/completions?v=1 ")
    assert "x-team: store" in asked.head.lower()


def test_lone_surrogates_do_not_stop_a_request(configure):
    message = ModelMessage(role="user", text="a\ud800b")
    with Loopback(HELLO) as server:
        configure(server.url).complete(ModelRequest(system="s", tools=(), messages=(message,)))
    assert server.asked[0].body["messages"][1]["content"] == "a\ufffdb"


def test_a_server_that_does_not_stream_though_asked_to(configure):
    with Loopback(whole({"content": "Hello"})) as server:
        assert configure(server.url, OPENAI_STREAM=True).complete(ASKED).text == "Hello"


def test_a_server_that_streams_though_not_asked_to(configure):
    with Loopback(HELLO) as server:
        assert configure(server.url, OPENAI_STREAM=False).complete(ASKED).text == "Hello"


@pytest.mark.parametrize(
    "answer",
    [
        http(b"<html>Log in</html>", kind="text/html"),
        http(b""),
        http(b"[]"),
        http(b'{"choices": []}'),
        http(b"\xff\xfe"),
        http(b"{}", content_encoding="gzip"),
        whole({"content": "Hello"}, finish=None),
        whole({"content": "Hello"}, finish="length"),
        stream(),
        stream(delta({"content": "Hello"})),
        stream(delta({"content": "Hello"}), delta(finish="content_filter")),
        http(b"data: \xff\xff\n\n", kind="text/event-stream"),
    ],
)
def test_an_answer_that_can_not_be_used(configure, answer):
    with Loopback(answer) as server:
        assert failed(configure(server.url)).code == "model_protocol"


def test_an_answer_that_is_not_http(configure):
    with Loopback(b"SSH-2.0-OpenSSH_9.2\r\n") as server:
        assert failed(configure(server.url)).code == "model_unavailable"


def test_a_stream_need_not_say_done(configure):
    body = events(delta({"content": "Hello"}), delta(finish="stop"), done=False)
    with Loopback(STREAM_HEAD + body.rstrip()) as server:
        assert configure(server.url).complete(ASKED).text == "Hello"


def test_a_connection_cut_after_the_end_was_marked_loses_nothing(configure):
    body = events(delta({"content": "Hello"}), delta(finish="stop"), done=False)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
    with Loopback(head + body) as server:
        assert configure(server.url).complete(ASKED).text == "Hello"


@pytest.mark.parametrize(
    "answer",
    [
        dripping(STREAM_HEAD, events(delta({"content": "x"}), done=False)),
        dripping(STREAM_HEAD, b": keep-alive\n\n"),
        dripping(STREAM_HEAD, b"x"),
        dripping(b"HTTP/1.1 200 OK\r\n", b"x-drop: x\r\n"),
        dripping(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", b" "),
        dripping(b"HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\n\r\n", b" "),
    ],
    ids=["chunks", "comments", "line", "headers", "json", "error"],
)
def test_an_answer_that_drips_ends_in_time(configure, answer):
    with Loopback(answer) as server:
        started = time.monotonic()
        assert failed(configure(server.url, MODEL_TIMEOUT=0.6, MODEL_RETRIES=2)).code == "model_timeout"
        assert time.monotonic() - started < 2


def test_what_is_given_up_does_not_read_on(configure):
    def reading() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "copilot-model-call"]

    before = set(reading())  # those of other tests, whose server still drips
    with Loopback(dripping(STREAM_HEAD, b": keep-alive\n\n", seconds=30)) as server:
        assert failed(configure(server.url, MODEL_TIMEOUT=0.3)).code == "model_timeout"
        for thread in set(reading()) - before:
            thread.join(2)
        assert set(reading()) <= before


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (STREAM_HEAD, events(delta({"content": "x" * 60_000}), done=False)),
        (STREAM_HEAD, b"x" * 500_000),
        (STREAM_HEAD, b": " + b"x" * 500_000 + b"\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", b" " * 500_000),
    ],
    ids=["text", "line", "comments", "json"],
)
def test_an_endless_answer_is_cut(configure, first, drop):
    with Loopback(dripping(first, drop, every=0)) as server:
        assert failed(configure(server.url)).code == "model_protocol"


def test_a_defect_of_ours_is_named_without_its_words(configure, monkeypatch):
    monkeypatch.setattr(
        "django_copilot.backends.openai.request_body", lambda *args, **kwargs: {}["words of the provider"]
    )
    error = failed(configure("http://127.0.0.1:9/v1"))
    assert error.code == "model_protocol"
    assert "KeyError in <lambda>" in str(error)


# The client


def test_there_is_one_client_for_the_settings(configure):
    with Loopback(HELLO) as server:
        backend = configure(server.url)
        backend.complete(ASKED)
        first = backend._client
        backend.complete(ASKED)
        assert backend._client is first
        assert configure(server.url, OPENAI_MODEL="other") is not backend
        assert first.is_closed()
        assert backend._client is None


def test_a_closed_backend_opens_again(configure):
    with Loopback(HELLO) as server:
        backend = configure(server.url)
        backend.complete(ASKED)
        backend.close()
        backend.close()
        assert backend.complete(ASKED).text == "Hello"


def test_a_forked_process_does_not_use_its_parents_client(configure, monkeypatch):
    with Loopback(HELLO) as server:
        backend = configure(server.url)
        backend.complete(ASKED)
        parents = backend._client
        monkeypatch.setattr("django_copilot.backends.openai.os.getpid", lambda: -1)
        backend.complete(ASKED)
        assert backend._client is not parents
        parents.close()


def test_parameters_of_openais_own_go_to_its_own_address(configure, monkeypatch):
    with Loopback(HELLO) as server:
        monkeypatch.setattr("django_copilot.backends.openai._OFFICIAL", server.url)
        configure(server.url).complete(ASKED)
    body = server.asked[0].body
    assert body["safety_identifier"] == body["prompt_cache_key"] == "hash"
    assert body["stream_options"] == {"include_usage": True}


def test_the_sdks_own_address_is_the_official_one(monkeypatch):
    import openai

    from django_copilot.backends.openai import _OFFICIAL

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with openai.OpenAI(api_key="x") as client:
        assert str(client.base_url).rstrip("/") == _OFFICIAL


def test_the_sdk_is_not_imported_before_a_model_is_asked():
    program = (
        "import sys\n"
        "import django_copilot.backends.openai as module\n"
        "module.OpenAIBackend()\n"
        "print(sorted({'openai', 'httpx', 'httpx2', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_tool_call_of_a_stream_goes_back_as_it_came(configure):
    piece = {"index": 0, "id": "c1", "function": {"name": "no such tool", "arguments": "{broken"}}
    with Loopback(stream(delta({"tool_calls": [piece]}), delta(finish="tool_calls")), HELLO) as server:
        backend = configure(server.url)
        (call,) = backend.complete(ASKED).calls
        assert call == ToolCall(id="c1", name="no such tool", arguments="{broken")
        again = ModelMessage(role="assistant", calls=(call,))
        backend.complete(ModelRequest(system="s", tools=(), messages=(*ASKED.messages, again)))
    (sent,) = server.asked[1].body["messages"][2]["tool_calls"]
    assert sent == {"id": "c1", "type": "function", "function": {"name": "no_such_tool", "arguments": "{}"}}
