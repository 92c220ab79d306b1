"""What a project uses to test its own harness: a model that says what the test wrote down.

    from django_copilot.testing import Call, Text, ask, copilot_client, offered_tools, script

    def test_support_sees_no_costs(support):
        client = copilot_client(support)
        with script(Call("query_product", {"limit": 3}), Text("Here are three.")) as model:
            answer = ask(client, "Show three products")
        assert answer["reply"] == "Here are three."
        assert "query_supplier" not in offered_tools(model.requests[0])
        assert_not_sent(model, "cost_price")

Nothing here needs pytest. A script fails the test when the model is asked otherwise than it says, even
though the chat endpoint answers every error with JSON. To keep a whole suite from asking a real model:

    @pytest.fixture(autouse=True)
    def no_model_calls():
        with block_model_calls():
            yield
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.conf import settings
from django.test import Client
from django.test.utils import override_settings
from django.urls import reverse

from .backends.base import ModelReply, ModelRequest
from .backends.openai import ModelCallBlocked, block_calls
from .backends.scripted import Call, Calls, Fail, Script, ScriptFailure, Step, Text, running

__all__ = [
    "Call",
    "Calls",
    "Fail",
    "ModelCallBlocked",
    "ModelReply",
    "ModelRequest",
    "Script",
    "ScriptFailure",
    "Text",
    "ask",
    "assert_not_sent",
    "block_model_calls",
    "copilot_client",
    "offered_tools",
    "script",
    "sent_text",
]


@contextmanager
def script(*steps: Step) -> Iterator[Script]:
    """Let the model answer with these steps, one for each time that it is asked.

    A step is ``Text``, ``Call``, ``Calls``, ``Fail``, or a function that gets the ``ModelRequest`` and
    returns one of those or a ``ModelReply``. Gives a ``Script``, whose ``requests`` are what the model was
    asked with. At the end it raises what a step or its check raised, and ScriptFailure if the model was
    asked more or less often than there are steps. The last of nested scripts answers.
    """
    made = Script(*steps)
    given = getattr(settings, "COPILOT", None) or {}
    with override_settings(COPILOT={**given, "BACKEND": "scripted"}):
        running.append(made)
        try:
            yield made
        except BaseException as error:
            for problem in made.problems():
                error.add_note(f"The script: {problem}")
            raise
        finally:
            running.remove(made)
    problems = made.problems()
    if problems:
        for problem in problems[1:]:
            problems[0].add_note(f"Then: {problem}")
        raise problems[0]


def block_model_calls() -> AbstractContextManager[None]:
    """Keep the openai backend from asking any model while this is open, wherever its address is.

    A call raises ModelCallBlocked at once, and again at the end, where no endpoint can swallow it. Also a
    decorator.
    """
    return block_calls()


def copilot_client(user: Any, **options: Any) -> Client:
    """Return a test client with a session of ``user``. ``options`` are those of ``django.test.Client``."""
    client = Client(**options)
    client.force_login(user)
    return client


def ask(
    client: Client, message: str, *, site: str = "admin", status: int | None = 200, **extra: Any
) -> dict[str, Any]:
    """Send a chat message and return the answer's JSON.

    ``site`` is the name of the AdminSite. ``extra`` are more keys of the body, such as ``conversationId``
    and ``page``; with ``continue``, the id of a decided plan, the waiting turn goes on and there is no message. Raises AssertionError if the answer has another status than ``status``; None takes any.
    """
    response = client.post(
        reverse("admin:django_copilot_chat", current_app=site),
        data=json.dumps(extra if "continue" in extra else {"message": message, **extra}),
        content_type="application/json",
    )
    if status is not None and response.status_code != status:
        raise AssertionError(
            f"Asking {message[:80]!r} was answered with {response.status_code}, not {status}: "
            f"{response.content[:500]!r}"
        )
    answer: dict[str, Any] = response.json()
    return answer


def offered_tools(request: ModelRequest) -> list[str]:
    """Return the names of the tools that the model was offered, in their order."""
    return [tool.name for tool in request.tools]


def sent_text(request: ModelRequest) -> str:
    """Return everything of a request that leaves for the model's provider, as one text."""
    parts = [request.system, request.context]
    for tool in request.tools:
        parts += [tool.name, tool.description, json.dumps(tool.parameters, ensure_ascii=False)]
    for message in request.messages:
        parts.append(message.text)
        for call in message.calls:
            parts += [call.name, call.arguments]
    return "\n".join(parts)


def assert_not_sent(model: Script, *values: str) -> None:
    """Raise AssertionError if one of the values left for the model in any request, escaped or not."""
    for number, request in enumerate(model.requests, 1):
        text = sent_text(request)
        for value in values:
            written = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
            if any(form in text for form in written):
                raise AssertionError(f"Request {number} to the model contains {value!r}.")
