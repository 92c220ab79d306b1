"""One person at her admin who asks what she may ask: messages, pages and decisions as her browser sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db import connections, transaction
from django.test.utils import override_settings
from django.urls import reverse

from ...backends.scripted import Call, Calls, Script, Text, running
from ...testing import sent_text
from ..people import Actor
from ..world import World

_ROUNDS = 8  # that a scripted model goes on talking
_AT_ONCE = 8  # calls of one round, at most

Asked = tuple[str, Mapping[str, Any]] | Sequence[tuple[str, Mapping[str, Any]]] | None


class Problem(Exception):
    """What should have succeeded did not, and how."""


def expect(holds: Any, problem: str) -> None:
    """Raise Problem unless something holds."""
    if not holds:
        raise Problem(problem)


@contextmanager
def undone() -> Iterator[None]:
    """Take back whatever is written to any database inside the block, as Django's ``TestCase`` does."""
    with ExitStack() as stack:
        for alias in connections:
            block: Any = transaction.atomic(using=alias)
            block._from_testcase = True  # what follows is told to run as if no transaction were open
            stack.enter_context(block)
        try:
            yield
        finally:
            for alias in connections:
                transaction.set_rollback(True, using=alias)


class Person:
    """Somebody with a session, on one site and in one language. What comes back is judged as everything else is."""

    def __init__(self, world: World, actor: Actor, site: AdminSite, language: str) -> None:
        self.world, self.actor, self.site, self.language = world, actor, site, language
        self.client = world.client(actor, accept_language=language)
        self.client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
        self.case = ""  # what is being asked, for findings
        self.scripted = False  # whether a scripted model answers in place of the offline one
        self.told_to_model: list[dict[str, Any]] = []  # the results of the tools that it called last
        self.sent: list[str] = []  # what it was last asked with, of each round everything

    def say(
        self,
        message: str,
        call: Asked = None,
        *,
        stream: bool = False,
        **more: Any,
    ) -> dict[str, Any]:
        """Send a message and return the answer. ``call`` is what a model should do, where a scripted one answers.

        ``more`` are further keys of the body. Raises Problem for any answer but a good one.
        """
        body = {**({"message": message} if message else {}), **more}
        with self.model(call), self.world.watched(self.actor, self.site, case=self.case):
            response = self.client.post(
                reverse("admin:django_copilot_chat", current_app=self.site.name),
                data=json.dumps(body),
                content_type="application/json",
                headers={"accept": "text/event-stream" if stream else "application/json"},
            )
            text = _text(response)
        self.judge(text, "an answer")
        expect(
            response.status_code == 200, f"{message!r} was answered with {response.status_code}: {text[:300]}"
        )
        answer = (
            final(text) if "event-stream" in response.headers.get("Content-Type", "") else json.loads(text)
        )
        expect("conversationId" in answer, f"{message!r} was answered with {text[:300]}")
        return answer

    @contextmanager
    def model(self, call: Asked) -> Iterator[None]:
        """Let the scripted model make a call, or one round of calls after the other, where it is the one that answers."""
        if not self.scripted:
            yield
            return
        calls = [Call(name, dict(arguments)) for name, arguments in _several(call)]
        first = [Calls(*calls[at : at + _AT_ONCE]) for at in range(0, len(calls), _AT_ONCE)]
        script = Script(*first, *[Text("All right.")] * _ROUNDS)
        with override_settings(COPILOT={**settings.COPILOT, "BACKEND": "scripted"}):
            running.append(script)
            try:
                yield
            finally:
                running.remove(script)
                messages = script.requests[-1].messages if script.requests else ()
                self.sent = [sent_text(each) for each in script.requests]
                self.told_to_model = [json.loads(each.text) for each in messages if each.role == "tool"]

    def open(self, path: str, query: Mapping[str, Any] | None = None) -> str:
        """Open a page and return its HTML. Raises Problem unless it is there."""
        with self.world.watched(self.actor, self.site, case=self.case):
            response = self.client.get(path, dict(query or {}))
            text = _text(response)
        self.judge(text, "a page")
        expect(response.status_code == 200, f"{path} was answered with {response.status_code}")
        return text

    def submit(self, path: str, sent: Mapping[str, Any]) -> tuple[int, str]:
        """Send a form and return the status and the body."""
        with self.world.watched(self.actor, self.site, case=self.case, may_write=True):
            response = self.client.post(path, dict(sent))
            text = _text(response)
        self.judge(text, "a page")
        return response.status_code, text

    def decide(self, path: str, sent: Mapping[str, Any]) -> dict[str, Any]:
        """Send a decision on a plan and return the answer. Raises Problem unless it is taken."""
        with self.world.watched(self.actor, self.site, case=self.case, may_write=True):
            response = self.client.post(
                path,
                json.dumps(sent),
                content_type="application/json",
                headers={"accept": "application/json"},
            )
            text = _text(response)
        self.judge(text, "an answer")
        expect(response.status_code == 200, f"{path} was answered with {response.status_code}: {text[:300]}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def look(self, path: str) -> dict[str, Any]:
        """Look at a plan as it is shown to her. Raises Problem unless it is."""
        with self.world.watched(self.actor, self.site, case=self.case):
            response = self.client.get(path, headers={"accept": "application/json"})
            text = _text(response)
        self.judge(text, "a plan")
        expect(response.status_code == 200, f"{path} was answered with {response.status_code}: {text[:300]}")
        plan: dict[str, Any] = json.loads(text)
        return plan

    def judge(self, text: str, what: str) -> None:
        """Look for hidden values in what came out."""
        self.world.check_output(self.actor, self.site, text, what=what, case=self.case)


def _several(call: Asked) -> Sequence[Any]:
    """Return one call, or several, or none, as a sequence."""
    return [call] if isinstance(call, tuple) else call or ()


def _text(response: Any) -> str:
    raw = b"".join(response.streaming_content) if response.streaming else response.content
    return str(raw.decode("utf-8", "replace"))


def final(stream: str) -> dict[str, Any]:
    """Return the data of the last event of a stream. Raises Problem unless it is a good end."""
    events = []
    for part in stream.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":")[::2] for line in part.split("\n") if line and not line.startswith(":")]
        if lines:
            name = next((value.strip() for key, value in lines if key == "event"), "message")
            events.append((name, "\n".join(value.removeprefix(" ") for key, value in lines if key == "data")))
    expect(events and events[-1][0] == "done", f"the stream ended with {events[-1:] or 'nothing'}")
    answer: dict[str, Any] = json.loads(events[-1][1])
    return answer
