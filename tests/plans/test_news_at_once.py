"""Two who are at one uncertain operation at once: what one of them learned says nothing about the other's attempt.

Threads with connections of their own, since each waits in the middle of what it does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from django_copilot import CallFailed

from .outside import World, said, timed_out
from .tools import decide, outcome, stored

pytestmark = pytest.mark.django_db(transaction=True)

DONE = {"parcel": "P1"}


@pytest.fixture
def world(tool: Any, login: Any) -> World:
    return World(login)


class SecondAttempt:
    """The requester tries an uncertain plan again, in a thread, and the other system takes its time."""

    def __init__(self, world: World, ends: Callable[[], Any]) -> None:
        self.asked, self.may_end = threading.Event(), threading.Event()
        self.ends = ends
        self.world, self.plan = world, world.propose()
        world.outside.answers = [timed_out, self.answer]
        assert outcome(decide(world.client, self.plan, "confirm")) == (200, "uncertain")
        self.told: list[tuple[int, str]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def answer(self) -> Any:
        self.asked.set()
        assert self.may_end.wait(30)
        return self.ends()

    def run(self) -> None:
        try:
            self.told.append(outcome(decide(self.world.login("support"), self.plan, "confirm")))
        finally:
            connections.close_all()

    def begin(self) -> None:
        """Return once the other system is being asked."""
        self.thread.start()
        assert self.asked.wait(30)

    def end(self) -> tuple[int, str]:
        """Let the other system answer, and return what the requester was told."""
        self.may_end.set()
        self.thread.join(30)
        return self.told[0]


def test_a_no_to_a_question_is_no_news_of_an_attempt_that_began_meanwhile(world: World, login: Any) -> None:
    attempt, outside = SecondAttempt(world, said(DONE)), world.outside

    def knows() -> Any:
        attempt.begin()
        raise CallFailed("It came to nothing.")

    outside.knows = knows
    assert outcome(decide(login("manager2"), attempt.plan, "lookUp")) == (409, "in_flight")
    assert (stored(attempt.plan).state, outside.reserved) == ("executing", ["pending"])
    assert attempt.end() == (200, "executed")
    assert (outside.reserved, outside.ended) == (["spent"], [(True, DONE)])
