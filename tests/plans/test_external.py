"""An operation outside: claimed and committed, then asked for with nothing held, then its end recorded."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from django.db import OperationalError, connections

from django_copilot import Refused, audit
from django_copilot.exceptions import CallError, Denied, NoGrant
from django_copilot.models import Plan
from example_project.store.models import Order
from tests.formapp.models import Memo

from .outside import World, entries, let_lease_end, raised, refused, said
from .tools import at_once, audited, decide, look, outcome, stored


@pytest.fixture
def world(tool: Any, login: Any) -> World:
    return World(login)


def test_an_operation_is_reserved_asked_for_and_recorded_once(world: World) -> None:
    plan, outside = world.propose(), world.outside
    assert (outside.sent, outside.reserved) == ([], [])
    status, answer = decide(world.client, plan, "confirm")
    assert (status, answer["plan"]["state"], answer["plan"]["result"]) == (200, "executed", {"parcel": "P1"})
    kept = stored(plan)
    assert [key for key, _payload in outside.sent] == [str(kept.key)]
    assert (outside.reserved, outside.ended) == (["spent"], [(True, {"parcel": "P1"})])
    assert (kept.attempts, kept.result) == (1, {"parcel": "P1"})
    assert None not in (kept.called_at, kept.lease_until, kept.ended_at, kept.decided_at)
    assert decide(world.client, plan, "confirm") == (status, answer)  # a double click
    assert len(outside.sent) == 1
    assert [event for event, _code in audited(plan)] == ["proposed", "confirmed", "executing", "executed"]
    (intent,) = entries(plan, "executing")
    assert (intent.about["attempt"], intent.about["key"]) == (1, str(kept.key))
    (end,) = entries(plan, "executed")
    assert end.values.get().value == {"parcel": "P1"}


def test_equal_arguments_later_are_another_operation_with_a_key_of_its_own(world: World) -> None:
    first = world.propose()
    assert outcome(decide(world.client, first, "confirm")) == (200, "executed")
    second = world.propose()
    assert outcome(decide(world.client, second, "confirm")) == (200, "executed")
    keys = [key for key, _payload in world.outside.sent]
    assert keys == [str(stored(each).key) for each in (first, second)]
    assert len(set(keys)) == 2


def test_a_no_for_good_is_a_failure_and_releases_the_reservation(world: World) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers = [refused]
    status, answer = decide(world.client, plan, "confirm")
    assert (status, answer["plan"]["state"]) == (200, "failed")
    assert (outside.reserved, outside.ended) == (["released"], [(False, None)])
    assert (stored(plan).code, stored(plan).reason) == ("call_failed", "No such street.")
    assert audited(plan)[-2:] == [("executing", ""), ("failed", "call_failed")]
    for what in ("confirm", "reject"):
        assert outcome(decide(world.client, plan, what)) == (409, "failed")
    assert outcome(decide(world.client, plan, "lookUp")) == (409, "not_uncertain")
    assert len(outside.sent) == 1


@pytest.mark.parametrize(
    "error",
    [
        each("words for the log")
        for each in (
            TimeoutError,
            ValueError,
            KeyError,
            OperationalError,
            Refused,
            CallError,
            Denied,
            NoGrant,
        )
    ],
    ids=lambda error: type(error).__name__,
)
def test_of_any_other_exception_nobody_knows_what_was_done(world: World, error: Exception) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers = [raised(error)]
    status, answer = decide(world.client, plan, "confirm")
    assert (status, answer["plan"]["state"]) == (200, "uncertain")
    assert (len(outside.sent), outside.reserved, outside.ended) == (1, ["pending"], [])
    assert audited(plan)[-2:] == [("executing", ""), ("uncertain", "no_answer")]
    assert "words for the log" not in str(look(world.client, plan))
    assert outcome(decide(world.client, plan, "reject")) == (409, "uncertain")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_who_is_stopped_while_asking_leaves_a_plan_that_reads_as_uncertain(
    world: World, error: type[BaseException]
) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers = [raised(error()), said({"parcel": "P1"})]
    with pytest.raises(error):
        decide(world.client, plan, "confirm")
    assert (look(world.client, plan)["state"], outside.reserved) == ("executing", ["pending"])
    assert outcome(decide(world.client, plan, "confirm")) == (409, "in_flight")
    let_lease_end(plan)
    assert look(world.client, plan)["state"] == "uncertain"
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert outside.sent[0] == outside.sent[1]
    assert [each for each in audited(plan) if each[0] == "uncertain"] == [("uncertain", "lease_over")]


@pytest.mark.parametrize("answer", [None, "P1", ["P1"], True])
def test_an_answer_that_is_no_dict_is_done_without_a_result(world: World, answer: Any) -> None:
    plan = world.propose()
    world.outside.answers = [said(answer)]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert (stored(plan).result, world.outside.ended) == (None, [(True, None)])


@pytest.mark.parametrize("answer", [{"at": datetime.date(2026, 1, 1)}, {"cents": decimal.Decimal(1)}])
def test_an_answer_that_can_not_be_kept_is_uncertain_and_not_lost(world: World, answer: Any) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers = [said(answer), said({"parcel": "P1"})]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    assert outside.reserved == ["pending"]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert outside.reserved == ["spent"]


# -- while it is asked --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_nothing_is_held_while_the_other_system_is_asked_and_all_is_committed(world: World) -> None:
    plan, outside = world.propose(), world.outside
    seen: dict[str, Any] = {}

    def from_elsewhere() -> None:
        found = stored(plan)
        seen["plan"] = (found.state, found.attempts, bool(found.payload), found.called_at is not None)
        seen["reserved"], seen["audit"] = outside.reserved, audited(plan)[-1]
        # Each of these waits for ever, or fails, if whoever asks holds a lock.
        Plan.objects.filter(pk=plan["id"]).update(reason="seen")
        Order.objects.filter(pk=world.order.pk).update(shipping_name="Per")
        Memo.objects.filter(title=str(found.key)).update(text="looked at")
        audit.append(found.site, found.scope_key, audit.Record(event="test"))

    def ask() -> dict[str, str]:
        seen["open"] = [each.alias for each in connections.all(initialized_only=True) if each.connection]
        at_once(from_elsewhere)
        return {"parcel": "P1"}

    outside.answers = [ask]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert seen == {
        "open": [],
        "plan": ("executing", 1, True, True),
        "reserved": ["pending"],
        "audit": ("executing", ""),
    }
    assert outside.reserved == ["spent"]


def test_meanwhile_nobody_can_decide_on_it(world: World, login: Any) -> None:
    plan, outside = world.propose(), world.outside
    tried: dict[str, tuple[int, str]] = {}

    def ask() -> dict[str, str]:
        mine, second = login("support"), login("manager2")
        for what in ("confirm", "reject", "undo", "again", "lookUp"):
            tried[what] = outcome(decide(mine, plan, what))
        given = {"outcome": "failed", "reason": "They say so."}
        tried["settle"] = outcome(decide(second, plan, "settle", **given))
        tried["approve"] = outcome(decide(second, plan, "approve"))
        return {"parcel": "P1"}

    outside.answers = [ask]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert tried == {
        "confirm": (409, "in_flight"),
        "reject": (409, "in_flight"),
        "undo": (409, "not_undoable"),
        "again": (409, "not_again"),
        "lookUp": (409, "not_uncertain"),
        "settle": (409, "not_uncertain"),
        "approve": (409, "in_flight"),
    }
    assert (len(outside.sent), outside.ended) == (1, [(True, {"parcel": "P1"})])
