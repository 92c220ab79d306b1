"""The scripted backend and what ``django_copilot.testing`` offers to projects."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.http import HttpRequest, JsonResponse
from django.test import Client, override_settings
from django.urls import include, path

from django_copilot.backends import get_backend
from django_copilot.backends.base import ModelMessage, ModelReply, ModelRequest, ToolCall, ToolSpec
from django_copilot.backends.openai import OpenAIBackend
from django_copilot.backends.scripted import ScriptedBackend
from django_copilot.exceptions import BackendError
from django_copilot.testing import (
    Call,
    Calls,
    Fail,
    ModelCallBlocked,
    ScriptFailure,
    Text,
    ask,
    assert_not_sent,
    block_model_calls,
    copilot_client,
    offered_tools,
    script,
    sent_text,
)

TOOL = ToolSpec(name="query_order", description="Read orders.", parameters={"type": "object"}, kind="query")


def asked(text: str = "Hello", **more: Any) -> ModelRequest:
    return ModelRequest(
        **{
            "system": "Be calm.",
            "tools": (TOOL,),
            "messages": (ModelMessage(role="user", text=text),),
            **more,
        }
    )


def complete(request: ModelRequest | None = None) -> ModelReply:
    """Ask as the runtime does."""
    return get_backend().complete(request or asked())


def swallowed() -> str:
    """Ask as an endpoint does that turns whatever is raised into an answer."""
    try:
        complete()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def test_steps_are_given_in_their_order():
    with script(
        Text("One"),
        Call("query_order", {"city": "Łódź"}, text="Two"),
        Calls(Call("a"), Call("b", "{broken", id="mine"), text="Three"),
    ) as model:
        assert model.remaining == 3
        assert complete().text == "One"
        second, third = complete(asked("again")), complete()
        assert model.remaining == 0
    assert second.text == "Two"
    assert [(call.name, json.loads(call.arguments)) for call in second.calls] == [
        ("query_order", {"city": "Łódź"})
    ]
    assert [(call.name, call.arguments) for call in third.calls] == [("a", "{}"), ("b", "{broken")]
    assert third.calls[1].id == "mine"
    assert len({call.id for call in (*second.calls, *third.calls)}) == 3
    assert [request.messages[0].text for request in model.requests] == ["Hello", "again", "Hello"]
    assert model.request is model.requests[-1]


@pytest.mark.parametrize(
    "code", ["model_not_configured", "model_unavailable", "model_timeout", "model_protocol"]
)
def test_a_model_can_fail(code):
    with script(Fail(code)), pytest.raises(BackendError) as caught:
        complete()
    assert caught.value.code == code


def test_a_step_can_be_a_function_of_the_request():
    def answer(request: ModelRequest) -> Text:
        return Text(f"You said {request.messages[-1].text}")

    def reply(request: ModelRequest) -> ModelReply:
        return ModelReply(calls=(ToolCall(id="x", name="y", arguments="{}"),))

    def fail(request: ModelRequest) -> ModelReply:
        raise BackendError("model_timeout", "slow")

    with script(answer, reply, fail):
        assert complete().text == "You said Hello"
        assert complete().calls[0].name == "y"
        with pytest.raises(BackendError):
            complete()


def test_a_check_sees_the_request():
    seen: list[ModelRequest] = []
    with script(Text("One", check=seen.append), Calls(Call("a"), check=seen.append), Fail(check=seen.append)):
        complete()
        complete()
        swallowed()
    assert seen == [asked()] * 3


def test_steps_that_nobody_asked_for_fail():
    with (
        pytest.raises(ScriptFailure, match=r"not asked for 2 steps: Call\('a'\), Text\('Two'\)"),
        script(Text("One"), Call("a"), Text("Two")),
    ):
        complete()


def test_being_asked_too_often_fails_even_if_an_endpoint_swallows_it():
    with (
        pytest.raises(ScriptFailure, match=r"once more than the 1 steps: the last message is user: 'Hello'"),
        script(Text("One")),
    ):
        assert [swallowed(), swallowed()] == ["nothing", "ScriptFailure"]


def test_a_check_that_fails_is_raised_at_the_end_as_it_was():
    def check(request: ModelRequest) -> None:
        assert request.system == "Be wild."

    with (
        pytest.raises(AssertionError, match=r"Be wild") as caught,
        script(Text("One", check=check), Text("Two")),
    ):
        assert swallowed() == "AssertionError"
    assert "not asked for 1 steps" in caught.value.__notes__[0]


def test_a_function_that_breaks_is_raised_at_the_end():
    with (
        pytest.raises(ScriptFailure, match="Step 1 raised ZeroDivisionError"),
        script(lambda request: Text(str(1 / 0))),
    ):
        assert swallowed() == "ScriptFailure"


def test_a_test_that_fails_by_itself_is_told_what_the_script_says():
    with pytest.raises(ValueError, match="mine") as caught, script(Text("One")):
        raise ValueError("mine")
    assert "not asked for 1 steps" in caught.value.__notes__[0]


def test_without_a_script_the_backend_says_what_to_do():
    with pytest.raises(ScriptFailure, match=r"django_copilot\.testing\.script"):
        ScriptedBackend().complete(asked())


def test_asking_for_a_request_that_never_came_fails():
    with script() as model, pytest.raises(ScriptFailure, match="was not asked"):
        model.request  # noqa: B018


def test_a_script_switches_the_backend_and_puts_it_back():
    with override_settings(COPILOT={"BACKEND": "openai", "MAX_ROUNDS": 3}):
        before = get_backend()
        assert isinstance(before, OpenAIBackend)
        with script():
            assert isinstance(get_backend(), ScriptedBackend)
            assert django_settings.COPILOT == {"BACKEND": "scripted", "MAX_ROUNDS": 3}
        assert isinstance(get_backend(), OpenAIBackend)
        assert django_settings.COPILOT["BACKEND"] == "openai"


def test_a_script_needs_no_settings(settings):
    del settings.COPILOT
    with script(Text("One")):
        assert complete().text == "One"


def test_the_last_of_nested_scripts_answers():
    with script(Text("outer")):
        with script(Text("inner")):
            assert complete().text == "inner"
        assert complete().text == "outer"


def test_a_script_answers_every_thread():
    found: list[str] = []
    with script(*[Text(str(n)) for n in range(20)]):
        threads = [threading.Thread(target=lambda: found.append(complete().text)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found, key=int) == [str(n) for n in range(20)]


# Blocked calls


@override_settings(
    COPILOT={"BACKEND": "openai", "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:9"}
)
def test_a_blocked_call_fails_at_once_and_again_at_the_end():
    with pytest.raises(ModelCallBlocked, match=r"django_copilot\.testing\.script"), block_model_calls():
        assert swallowed() == "ModelCallBlocked"


@override_settings(COPILOT={"BACKEND": "openai", "OPENAI_API_KEY": ""})
def test_a_call_is_blocked_before_anything_else_is_looked_at():
    @block_model_calls()
    def blocked() -> None:
        assert swallowed() == "ModelCallBlocked"

    with pytest.raises(ModelCallBlocked):
        blocked()
    assert swallowed() == "BackendError"


def test_a_script_works_where_calls_are_blocked():
    with block_model_calls(), script(Text("One")):
        assert complete().text == "One"


# Asking through the endpoint


def chat(request: HttpRequest, site: str) -> JsonResponse:
    body = json.loads(request.body)
    if body["message"] == "fail":
        return JsonResponse({"code": "failed"}, status=500)
    return JsonResponse({"site": site, "type": request.content_type, **body})


def site_urls(name: str) -> Any:
    return include(
        ([path("chat/", chat, {"site": name}, name="django_copilot_chat")], "admin"), namespace=name
    )


urlpatterns = [path("admin/", site_urls("admin")), path("other/", site_urls("other"))]


@override_settings(ROOT_URLCONF=__name__)
def test_asking_a_site():
    answer = ask(Client(), "Żółw", page="/admin/", conversationId="7")
    assert answer == {
        "site": "admin",
        "type": "application/json",
        "message": "Żółw",
        "page": "/admin/",
        "conversationId": "7",
    }
    assert ask(Client(), "Hello", site="other")["site"] == "other"


@override_settings(ROOT_URLCONF=__name__)
def test_asking_expects_a_status():
    with pytest.raises(AssertionError, match="answered with 500, not 200"):
        ask(Client(), "fail")
    assert ask(Client(), "fail", status=500) == {"code": "failed"}
    assert ask(Client(), "fail", status=None) == {"code": "failed"}


def test_a_client_has_the_session_of_the_person(monkeypatch):
    logged_in: list[object] = []
    monkeypatch.setattr(Client, "force_login", lambda self, user: logged_in.append(user))
    user = SimpleNamespace()
    client = copilot_client(user, enforce_csrf_checks=True)
    assert logged_in == [user]
    assert client.handler.enforce_csrf_checks


# Looking at what was sent


def test_offered_tools():
    assert offered_tools(asked()) == ["query_order"]
    assert offered_tools(asked(tools=())) == []


def test_sent_text_holds_everything_that_leaves():
    call = ToolCall(id="c", name="the_call", arguments='{"the": "arguments"}')
    tool = ToolSpec(
        name="the_tool",
        description="the description",
        parameters={"the": "schema"},
        kind="query",
        model="ours.Only",
    )
    messages = (
        ModelMessage(role="user", text="the message"),
        ModelMessage(role="assistant", calls=(call,)),
        ModelMessage(role="tool", call_id="c", text="the result"),
    )
    text = sent_text(asked(system="the system", context="the context", tools=(tool,), messages=messages))
    for part in ("system", "context", "call", "tool", "description", "message", "result"):
        assert f"the {part}" in text or f"the_{part}" in text
    assert '{"the": "arguments"}' in text
    assert '{"the": "schema"}' in text
    assert "ours.Only" not in text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("value", ["secret", "Łódź", 'say "hi"', "two\nlines"])
def test_a_value_that_was_sent_is_found_however_it_was_written(value, ascii_only):
    result = ModelMessage(role="tool", call_id="c", text=json.dumps({"v": value}, ensure_ascii=ascii_only))
    with script(Text("a"), Text("b")) as model:
        complete()
        complete(asked(messages=(result,)))
    assert_not_sent(model, "something else")
    with pytest.raises(AssertionError, match="Request 2 to the model contains"):
        assert_not_sent(model, "something else", value)
