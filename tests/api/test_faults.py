"""What can go wrong with the model: each fault has its code, keeps the message and leaves the rest as it was."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client, override_settings
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Reply
from llmock.scenarios import ToolCall as Scripted

from django_copilot.models import Message, Plan, Turn
from django_copilot.testing import Call, Calls, Fail, ModelReply, Text, ask, script
from tests.backends.loopback import Loopback, delta, dripping, http, refused, stream, whole

from .posting import fingerprint, post, told

KEY = "sk-very-secret-0123456789"
LOOK = Call("query_product", {"limit": 1})


@pytest.fixture(autouse=True)
def log_everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The key is in no record of any test here."""
    caplog.set_level(logging.DEBUG)
    yield
    records = [record for when in ("setup", "call") for record in caplog.get_records(when)]
    assert not [record for record in records if KEY in logging.Formatter().format(record)]


def failed(client: Client, code: str, *, status: int = 500, message: str = "Hello") -> str:
    """Send a message that fails; return the conversation, after looking at what a failure leaves."""
    before, plans = fingerprint(), Plan.objects.count()
    response = post(client, {"message": message})
    assert told(response) == (status, code)
    body = response.json()
    assert set(body) == {"code", "detail", "conversationId"}
    assert KEY not in response.content.decode()
    turn = Turn.objects.get(conversation=body["conversationId"])
    assert (turn.state, turn.code, turn.open_for_id) == ("failed", code, None)
    assert turn.finished_at is not None
    kept = Message.objects.get(conversation=body["conversationId"])
    assert (kept.role, kept.text) == ("user", message)
    assert fingerprint() == before
    assert Plan.objects.count() == plans
    return str(body["conversationId"])


def works_again(client: Client, conversation: str) -> None:
    with script(Text("Here I am.")) as model:
        assert ask(client, "Again", conversationId=conversation)["reply"] == "Here I am."
    assert [each.text for each in model.request.messages] == ["Hello", "Again"]


# -- what a backend says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", ["model_not_configured", "model_unavailable", "model_timeout", "model_protocol"]
)
@pytest.mark.parametrize("after", [0, 1, 5], ids=lambda rounds: f"after {rounds} reads")
def test_a_failing_model_fails_the_turn_with_its_code(login, caplog, code, after):
    """Hazard 78."""
    client = login("manager")
    with script(*[LOOK] * after, Fail(code)):
        ident = failed(client, code)
    warned = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.name, record.levelname) for record in warned] == [("django_copilot", "WARNING")]
    assert warned[0].exc_info is None
    works_again(client, ident)


def test_six_rounds_of_reads_are_too_many(login):
    client = login("manager")
    with script(*[LOOK] * 6):
        ident = failed(client, "too_many_rounds")
    works_again(client, ident)


def test_five_rounds_of_reads_are_not(login):
    with script(*[LOOK] * 5, Text("Found.")):
        answer = ask(login("manager"), "Hello")
    assert answer["reply"] == "Found."
    assert len(answer["results"]) == 5


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (ModelReply(), "neither text nor calls"),
        (ModelReply(text=" \n"), "blank text"),
    ],
)
def test_an_empty_reply_is_no_answer(login, reply, why):
    client = login("manager")
    with script(lambda request: reply):
        ident = failed(client, "model_protocol")
    works_again(client, ident)


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '{"limit": NaN}', '{"limit": 1e400}', "\ud800"])
def test_malformed_arguments_go_back_to_the_model(login, arguments):
    before = fingerprint()
    with script(Call("open_product_form", arguments), Text("I could not.")) as model:
        answer = ask(login("manager"), "Hello")
    assert answer["reply"] == "I could not."
    assert "action" not in answer
    assert json.loads(model.request.messages[-1].text)["error"]["code"] == "invalid_arguments"
    assert fingerprint() == before


@pytest.mark.parametrize(
    "name", ["save_product", "query_supplier", "query_user", "query_conversation", "", "x" * 5_000, "\ud800"]
)
def test_an_unknown_tool_goes_back_to_the_model(login, name):
    with script(Call(name, {}), Text("I could not.")) as model:
        assert ask(login("manager"), "Hello")["reply"] == "I could not."
    assert json.loads(model.request.messages[-1].text)["error"]["code"] == "unknown_tool"


def test_forty_calls_at_once_are_eight_calls(login):
    with script(Calls(*[LOOK] * 40), Text("Done.")) as model:
        answer = ask(login("manager"), "Hello")
    assert len(answer["results"]) == 8
    contents = [each.text for each in model.request.messages if each.role == "tool"]
    assert len(contents) == 40
    assert sum("too_many_calls" in each for each in contents) == 32


def test_the_same_id_twice_is_one_call(login):
    twice = Calls(
        Call("query_product", {"limit": 1}, id="a"),
        Call("query_product", {"limit": 2}, id="a"),
        Call("query_tag", {"limit": 1}, id="b"),
    )
    with script(twice, Text("Done.")) as model:
        answer = ask(login("manager"), "Hello")
    assert [each["entity"] for each in answer["results"]] == ["product", "tag"]
    assert [each.call_id for each in model.request.messages if each.role == "tool"] == ["a", "b"]


def test_text_beside_an_action_is_neither_kept_nor_shown(login):
    call = Call("open_tag_form", {"fields": {"name": "New"}}, text="I have saved it for you!")
    with script(call):
        answer = ask(login("manager"), "Hello")
    assert "saved it for you" not in json.dumps(answer)
    assert not Message.objects.filter(text__contains="saved it for you").exists()
    assert answer["action"]["queryParams"]["aiAction"] == "create"


def test_of_two_actions_the_first_is_the_answer(login):
    both = Calls(
        Call("open_tag_form", {"fields": {"name": "One"}}), Call("open_tag_form", {"fields": {"name": "Two"}})
    )
    with script(both):
        answer = ask(login("manager"), "Hello")
    assert answer["action"]["prefill"] == {"name": "One"}
    assert [each.values for each in Plan.objects.all()] == [{"name": "One"}]


def test_a_lone_surrogate_and_a_nul_in_the_models_text_do_not_break_the_answer(login):
    client = login("manager")
    with script(Text("a \ud800 b \x00 c")):
        answer = ask(client, "Hello")
    assert answer["reply"].startswith("a ")
    assert not {"\ud800", "\x00"} & {*answer["reply"]}


# -- what is a defect of ours or of the project -----------------------------------------------------


class Broken:
    """A backend that fails in a way it must not."""

    label = ""

    def complete(self, request: Any) -> ModelReply:
        raise ZeroDivisionError(f"words that must not leave, {KEY[:9]}")


@override_settings(COPILOT={"BACKEND": f"{__name__}.Broken"})
def test_an_unexpected_exception_is_failed_and_logged_and_says_nothing(login, caplog):
    """Hazard 78."""
    client = login("manager")
    ident = failed(client, "failed")
    assert "ZeroDivisionError" in caplog.text
    works_again(client, ident)


@pytest.mark.parametrize(
    "copilot", [{"BACKEND": "no.such.Backend"}, {"BACKEND": "openai"}], ids=["unknown backend", "no key"]
)
def test_a_site_without_a_model_says_so(login, copilot):
    client = login("manager")
    with override_settings(COPILOT=copilot):
        ident = failed(client, "model_not_configured")
    works_again(client, ident)


@pytest.mark.parametrize(
    "broken",
    [
        "django_copilot.runtime.sync.store.history",
        "django_copilot.runtime.sync.store.add_answer",
        "django_copilot.runtime.request.ranking.choose",
        "django_copilot.runtime.sync.gate.run",
        "django_copilot.runtime.sync.machine.Turn.start",
        "django_copilot.runtime.sync.machine.Turn.send",
        "django_copilot.runtime.sync.prompt.context",
    ],
)
def test_an_exception_anywhere_in_a_turn_closes_it(login, monkeypatch, caplog, broken):
    """Hazard 78."""

    def explode(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("words that must not leave")

    client = login("manager")
    with monkeypatch.context() as patched, override_settings(COPILOT={"BACKEND": f"{__name__}.Looking"}):
        patched.setattr(broken, explode)
        ident = failed(client, "failed")
    assert "words that must not leave" in caplog.text
    works_again(client, ident)


class Looking:
    """A backend that looks once."""

    label = ""

    def complete(self, request: Any) -> ModelReply:
        if request.messages[-1].role == "tool":
            return ModelReply(text="Found.")
        from django_copilot.backends import ToolCall

        return ModelReply(calls=(ToolCall(id="a", name="query_product", arguments="{}"),))


def test_an_exception_before_a_turn_is_failed_too(login, monkeypatch, caplog):
    def explode(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("words that must not leave")

    monkeypatch.setattr("django_copilot.api.views.store.open_turn", explode)
    with script():
        assert told(post(login("manager"), {"message": "Hello"})) == (500, "failed")
    assert "words that must not leave" in caplog.text


# -- over real HTTP ---------------------------------------------------------------------------------


def configured(url: str, **more: Any) -> Any:
    return override_settings(
        COPILOT={
            "BACKEND": "openai",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": url,
            "MODEL_TIMEOUT": 5.0,
            "MODEL_RETRIES": 0,
            **more,
        }
    )


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


SERVER_FAULTS = [
    (
        "wrong key",
        lambda mock: mock.fail(401, times=None, message=f"Incorrect key {KEY}"),
        "model_unavailable",
    ),
    ("429", lambda mock: mock.rate_limit(times=None, retry_after=60), "model_unavailable"),
    ("500", lambda mock: mock.fail(500, times=None), "model_unavailable"),
    ("400", lambda mock: mock.fail(400, times=None), "model_unavailable"),
    ("prompt too long", lambda mock: mock.context_overflow(), "model_unavailable"),
    ("too slow", lambda mock: mock.delay(3, times=None), "model_timeout"),
]
STREAM_FAULTS = [
    ("stream cut", lambda mock: mock.reply("One two three four").truncate(after_chunks=2), "model_protocol"),
    (
        "stream cut within a call",
        lambda mock: mock.call_tool("open_tag_form", {"fields": {"name": "New"}}).truncate(after_chunks=2),
        "model_protocol",
    ),
    (
        "connection dropped",
        lambda mock: mock.reply("One two three four").disconnect(after_chunks=2),
        "model_unavailable",
    ),
    ("corrupt chunk", lambda mock: mock.reply("One two three").corrupt(after_chunks=1), "model_protocol"),
    (
        "stream stalls",
        lambda mock: mock.reply("One two three").stall(after_chunks=1, seconds=3),
        "model_timeout",
    ),
]


@pytest.mark.parametrize(("fault", "code"), [f[1:] for f in SERVER_FAULTS], ids=[f[0] for f in SERVER_FAULTS])
def test_a_fault_of_the_provider_is_a_failed_turn(login, llmock: LLMock, streamed, fault, code):
    """Hazard 78."""
    client = login("manager")
    fault(llmock)
    with configured(llmock.base_url(), OPENAI_STREAM=streamed, MODEL_TIMEOUT=1.0):
        ident = failed(client, code)
    works_again(client, ident)


@pytest.mark.parametrize(("fault", "code"), [f[1:] for f in STREAM_FAULTS], ids=[f[0] for f in STREAM_FAULTS])
def test_a_fault_in_the_providers_stream_is_a_failed_turn(login, llmock: LLMock, fault, code):
    """Hazard 78."""
    client = login("manager")
    fault(llmock)
    with configured(llmock.base_url(), MODEL_TIMEOUT=1.0):
        ident = failed(client, code)
    works_again(client, ident)


def test_a_refused_connection_is_a_failed_turn(login):
    client = login("manager")
    with Loopback(b"") as server:
        url = server.url
    with configured(url):
        ident = failed(client, "model_unavailable")
    works_again(client, ident)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refused(401, words=f"Incorrect API key provided: {KEY}"), "model_unavailable"),
        (http(b"<html>Not here</html>", kind="text/html"), "model_protocol"),
        (http(b"", status=204), "model_protocol"),
        (stream(delta({"content": "Half"}), done=False), "model_protocol"),
        (stream(delta({"content": "Half"}), delta(finish="length")), "model_protocol"),
        (whole({"content": None}), "model_protocol"),
        (
            dripping(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", b": ping\n\n"),
            "model_timeout",
        ),
    ],
    ids=["key in the words", "a web page", "nothing", "no end", "cut by length", "empty", "never ending"],
)
def test_an_answer_that_no_provider_should_give_is_a_failed_turn(login, answer, code):
    """Hazard 78."""
    client = login("manager")
    with Loopback(answer) as server, configured(server.url, MODEL_TIMEOUT=1.0):
        ident = failed(client, code)
    works_again(client, ident)


def test_a_whole_turn_over_http(login, llmock: LLMock, streamed):
    llmock.call_tool("query_product", {"limit": 2, "fields": ["title"]})
    llmock.reply("Here are two.")
    with configured(llmock.base_url(), OPENAI_STREAM=streamed):
        answer = ask(login("manager"), "Two products")
    assert answer["reply"] == "Here are two."
    assert len(answer["results"][0]["rows"]) == 2
    llmock.assert_resilient(strict=True)


def test_clumsy_calls_over_http_do_no_harm(login, llmock: LLMock, streamed):
    """A model that sends malformed arguments, an unknown tool, the same id twice and forty calls, in one turn."""
    client, before = login("manager"), fingerprint()
    llmock.call_tool("query_product", {"limit": 3}).break_tool_call("malformed_arguments")
    llmock.call_tool("query_product", {"limit": 3}).break_tool_call("unknown_tool")
    llmock.add(
        Reply(text="Text and calls", tool_calls=tuple(Scripted("query_tag", {"limit": 1}) for _ in range(40)))
    )
    llmock.reply("I gave up.")
    with configured(llmock.base_url(), OPENAI_STREAM=streamed):
        answer = ask(client, "Hello")
    assert answer["reply"] == "I gave up."
    assert fingerprint() == before
    assert not Plan.objects.exists()


def test_six_rounds_over_http(login, llmock: LLMock, streamed):
    client = login("manager")
    for _ in range(6):
        llmock.call_tool("query_product", {"limit": 1})
    with configured(llmock.base_url(), OPENAI_STREAM=streamed):
        ident = failed(client, "too_many_rounds")
    works_again(client, ident)


def test_the_person_is_told_to_the_provider_as_a_keyed_hash_only(login, llmock: LLMock, store):
    """Hazard 79."""
    llmock.reply("Hello.")
    with configured(llmock.base_url()):
        ask(login("manager"), "Hello")
    sent = json.dumps(llmock.last_request.body)
    user = store.user("manager")
    for word in (user.username, user.first_name, user.last_name, user.email):
        assert word not in sent
    people = []
    for username in ("manager", "manager", "viewer"):
        with script(Text("Hello.")) as model:
            ask(login(username), "Hello")
        people.append(model.request.person)
    assert all(re.fullmatch("[0-9a-f]{32}", person) for person in people)
    assert people[0] == people[1] != people[2]
    with override_settings(SECRET_KEY="another"), script(Text("Hello.")) as model:
        ask(login("manager"), "Hello")
    assert model.request.person not in people


def test_a_message_that_is_sent_again_after_a_failure_stands_once(login):
    client = login("manager")
    with script(Fail("model_unavailable")):
        ident = failed(client, "model_unavailable")
    with script(Fail("model_timeout"), Text("Here I am.")) as model:
        post(client, {"message": "Hello", "conversationId": ident})
        ask(client, "Hello", conversationId=ident)
        assert [each.text for each in model.request.messages] == ["Hello"]
    stored = Message.objects.filter(conversation=ident).values_list("role", "text")
    assert list(stored) == [("user", "Hello"), ("assistant", "Here I am.")]
    with script(Text("Again.")):
        ask(client, "Hello", conversationId=ident)
    assert Message.objects.filter(conversation=ident).count() == 4
