"""News of an operation outside that come late: after another attempt of it, or after somebody has closed it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from .outside import World, entries, let_lease_end, nothing, refused, said, timed_out
from .tools import audited, decide, outcome, stored

DONE, LATE = {"parcel": "P1"}, {"parcel": "late"}
SETTLED = {"outcome": "executed", "reason": "They told me so."}


@pytest.fixture
def world(tool: Any, login: Any) -> World:
    return World(login)


def meanwhile(work: Callable[[], Any], late: Callable[[], Any]) -> Callable[[], Any]:
    """Return an answer that is given only after something else was done."""

    def answer() -> Any:
        work()
        return late()

    return answer


@pytest.mark.parametrize(
    ("second", "late", "state", "ended"),
    [
        (timed_out, timed_out, "uncertain", []),
        (timed_out, refused, "uncertain", []),  # of the second one nobody knows all the same
        (timed_out, said(LATE), "executed", [(True, LATE)]),
        (said(DONE), timed_out, "executed", [(True, DONE)]),
        (said(DONE), refused, "executed", [(True, DONE)]),
        (said(DONE), said(LATE), "executed", [(True, DONE)]),
        (refused, timed_out, "failed", [(False, None)]),
        (refused, refused, "failed", [(False, None)]),
    ],
)
def test_late_news_of_an_older_attempt_count_only_if_it_was_done(
    world: World, login: Any, second: Any, late: Any, state: str, ended: list[Any]
) -> None:
    plan, outside = world.propose(), world.outside

    def try_again() -> None:
        let_lease_end(plan)
        decide(login("support"), plan, "confirm")

    outside.answers = [meanwhile(try_again, late), second]
    decide(world.client, plan, "confirm")
    kept = stored(plan)
    assert (kept.state, kept.attempts, outside.ended) == (state, 2, ended)
    assert kept.result == (ended[0][1] if ended else None)
    assert len(set(outside.sent)) == 1
    assert outside.reserved == [{"uncertain": "pending", "executed": "spent", "failed": "released"}[state]]
    assert audited(plan)[-1][0] == state
    assert [event for event, code in audited(plan) if code != "lease_over"].count(state) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("late", "state"), [(refused, "executing"), (timed_out, "executing"), (said(LATE), "executed")]
)
def test_late_news_do_not_end_a_later_attempt_that_is_under_way(
    world: World, login: Any, late: Any, state: str
) -> None:
    plan, outside = world.propose(), world.outside
    asked, go, seen = threading.Event(), threading.Event(), []

    def first() -> Any:
        asked.set()
        assert go.wait(20)
        return late()

    def confirm() -> None:
        try:
            decide(login("support"), plan, "confirm")
        finally:
            connections.close_all()

    def second() -> Any:
        go.set()
        thread.join(20)
        seen.append((thread.is_alive(), stored(plan).state, outside.reserved))
        raise TimeoutError

    outside.answers = [first, second]
    thread = threading.Thread(target=confirm, daemon=True)
    thread.start()
    assert asked.wait(20)
    let_lease_end(plan)
    assert decide(world.client, plan, "confirm")[0] == 200
    assert seen == [(False, state, ["spent" if state == "executed" else "pending"])]
    assert stored(plan).state == ("executed" if state == "executed" else "uncertain")


def settled_as_failed(world: World, plan: dict[str, Any]) -> None:
    let_lease_end(plan)
    world.outside.knows = nothing
    given = {"outcome": "failed", "reason": "They know of nothing."}
    assert outcome(decide(world.login("manager2"), plan, "settle", **given)) == (200, "failed")


def refused_when_tried_again(world: World, plan: dict[str, Any]) -> None:
    let_lease_end(plan)
    assert outcome(decide(world.login("support"), plan, "confirm")) == (200, "failed")


@pytest.mark.parametrize("closed", [settled_as_failed, refused_when_tried_again])
def test_what_was_done_after_it_was_closed_as_failed_stays_closed_and_is_not_hushed_up(
    world: World, closed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers = [meanwhile(lambda: closed(world, plan), said(LATE)), refused]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "failed")
    # The tool hears of it, so that what was spent counts as spent.
    assert (outside.reserved, outside.ended) == (["spent"], [(False, None), (True, LATE)])
    (entry,) = entries(plan, "done_after_all")
    assert (entry.values.get().value, audited(plan)[-1]) == (LATE, ("done_after_all", ""))
    assert "done after all" in caplog.text


def test_what_a_person_has_settled_is_not_settled_again_by_a_late_answer(world: World, login: Any) -> None:
    plan, outside = world.propose(), world.outside

    def settle() -> None:
        let_lease_end(plan)
        assert outcome(decide(login("manager2"), plan, "settle", **SETTLED)) == (200, "executed")

    outside.answers = [meanwhile(settle, refused)]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert (outside.reserved, outside.ended, stored(plan).reason) == (
        *(["spent"], [(True, None)], SETTLED["reason"]),
    )
