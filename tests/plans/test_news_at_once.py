"""Two who are at one uncertain operation at once: what one of them learned says nothing about the other's attempt.

Threads with connections of their own, since each waits in the middle of what it does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from django_copilot import CallFailed
from django_copilot.plans import execution

from .outside import World, nothing, raised, said, timed_out
from .tools import at_once, audited, decide, outcome, stored

pytestmark = pytest.mark.django_db(transaction=True)

DONE = {"parcel": "P1"}


@pytest.fixture
def world(tool: Any, login: Any) -> World:
    return World(login)


def uncertain(world: World) -> dict[str, Any]:
    """Return a confirmed plan whose call had no answer."""
    plan = world.propose()
    world.outside.answers = [timed_out, said(DONE)]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    return plan


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


@pytest.mark.parametrize("end", ["executed", "failed"])
def test_what_a_person_says_is_no_news_of_an_attempt_that_began_meanwhile(
    world: World, login: Any, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    attempt, outside = SecondAttempt(world, said(DONE)), world.outside
    outside.knows = nothing
    asked = execution.why_not_approver

    def while_her_rights_are_asked(*args: Any) -> str:
        attempt.begin()
        return asked(*args)

    monkeypatch.setattr(execution, "why_not_approver", while_her_rights_are_asked)
    answer = decide(login("manager2"), attempt.plan, "settle", outcome=end, reason="They told me so.")
    assert outcome(answer) == (409, "not_uncertain")
    assert (stored(attempt.plan).state, outside.reserved) == ("executing", ["pending"])
    assert attempt.end() == (200, "executed")
    assert (outside.reserved, outside.ended, stored(attempt.plan).reason) == (["spent"], [(True, DONE)], "")
    assert ("settled", "") not in audited(attempt.plan)


def test_who_settles_it_the_other_way_in_the_same_moment_is_told_so(
    world: World, login: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, outside = uncertain(world), world.outside
    asked = execution.why_not_approver

    def while_her_rights_are_asked(*args: Any) -> str:
        monkeypatch.undo()
        other = decide(login("manager2"), plan, "settle", outcome="executed", reason="I saw it.")
        assert outcome(other) == (200, "executed")
        return asked(*args)

    monkeypatch.setattr(execution, "why_not_approver", while_her_rights_are_asked)
    answer = decide(login("manager"), plan, "settle", outcome="failed", reason="I saw nothing.")
    assert outcome(answer) == (409, "not_uncertain")
    assert (outside.reserved, outside.ended, stored(plan).reason) == (["spent"], [(True, None)], "I saw it.")


def test_an_end_that_was_found_and_could_not_be_recorded_is_not_told_as_unknown_there(world: World) -> None:
    plan, outside = uncertain(world), world.outside
    outside.settling = raised(ValueError())
    status, answer = decide(world.client, plan, "lookUp")
    assert (status, answer["plan"]["state"]) == (200, "uncertain")
    assert "never got it" not in answer["reply"]


def test_of_trying_again_and_settling_at_once_one_holds(world: World) -> None:
    """Whoever comes second is refused: nothing is sent after it was settled, and nothing settled once sent."""
    outside, seen = world.outside, Counter[str]()
    outside.knows = nothing
    for _round in range(60 if connection.vendor == "postgresql" else 12):
        plan = uncertain(world)
        sent = len(outside.sent)
        again = partial(decide, world.login("support"), plan, "confirm")
        given = {"outcome": "failed", "reason": "They told me so."}
        settle = partial(decide, world.login("manager2"), plan, "settle", **given)
        tried, settled = map(outcome, at_once(again, settle))
        state = str(stored(plan).state)
        seen[state] += 1
        if state == "executed":
            assert (tried, len(outside.sent) - sent) == ((200, "executed"), 1)
            # Whoever comes when all is over does not find it: it waits for no second person any more.
            assert settled in ((409, "not_uncertain"), (409, "try_again"), (404, "not_found"))
            assert ("settled", "") not in audited(plan)
        else:
            assert (state, settled, len(outside.sent) - sent) == ("failed", (200, "failed"), 0)
            assert tried in ((409, "failed"), (409, "try_again"))
        assert [event for event, _code in audited(plan)].count("done_after_all") == 0
    assert set(seen) <= {"executed", "failed"}
    assert outside.reserved.count("spent") == seen["executed"]
    assert outside.reserved.count("released") == seen["failed"]
