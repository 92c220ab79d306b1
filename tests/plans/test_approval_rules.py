"""When a plan needs a second person: always, above an amount in a window, or by a rule in code."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from django_copilot import Above, Never, Preview, Refused, write_tool
from django_copilot.models import Plan, PlanState
from django_copilot.tools.write import Approval
from example_project.store.models import Customer, Order

from .tools import decide, order_for, outcome, propose, relabel


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for()


def ship_to(order: Order) -> str:
    """Return what is stored."""
    return Order.objects.get(pk=order.pk).shipping_name


@pytest.mark.parametrize("category", ["mutating", None, "destructive"])
def test_unless_the_tool_says_otherwise_its_category_decides(order: Order, login: Any, category: Any) -> None:
    relabel(category=category, reversible=False)
    plan = propose(login("support"), "relabel", {"order": order.number, "name": "Kari"})
    assert plan["needsApproval"] is (category == "destructive")
    state = "awaiting_approval" if category == "destructive" else "executed"
    assert outcome(decide(login("support"), plan, "confirm")) == (200, state)


def paying(*, approval: Approval, name: str = "pay") -> Any:
    """Declare a tool with an amount, whose effect is the order's shipping name."""

    def pay(ctx: Any, order: str, cents: int) -> Preview:
        """Pay."""
        found = ctx.get(Order, number=order)
        return Preview(found, shipping_name=f"paid {cents}", amount=None if cents < 0 else cents)

    return write_tool(Order, approval=approval, name=name)(pay)


@pytest.mark.parametrize(
    ("cents", "needed"), [(1, False), (10_000, False), (10_001, True), (-1, True)], ids=str
)
def test_an_amount_above_the_limit_needs_a_second_person(
    order: Order, login: Any, cents: int, needed: bool
) -> None:
    paying(approval=Above(10_000))
    plan = propose(login("support"), "pay", {"order": order.number, "cents": cents})
    assert plan["needsApproval"] is needed
    state = "awaiting_approval" if needed else "executed"
    assert outcome(decide(login("support"), plan, "confirm")) == (200, state)


def test_an_amount_can_not_be_split_under_the_limit(order: Order, login: Any) -> None:
    paying(approval=Above(10_000))
    support = login("support")
    assert outcome(
        decide(support, propose(support, "pay", {"order": order.number, "cents": 6_000}), "confirm")
    ) == (
        200,
        "executed",
    )
    second = propose(support, "pay", {"order": order.number, "cents": 6_000 - 1_999})
    assert second["needsApproval"]
    assert not propose(support, "pay", {"order": order.number, "cents": 4_000})["needsApproval"]


def test_two_parts_proposed_before_either_is_confirmed_are_counted_when_they_are(
    order: Order, login: Any
) -> None:
    """Hazard 138."""
    paying(approval=Above(10_000))
    support, other = login("support"), order_for(number="SO-9000002")
    plans = [propose(support, "pay", {"order": each.number, "cents": 6_000}) for each in (order, other)]
    assert [each["needsApproval"] for each in plans] == [False, False]
    assert outcome(decide(support, plans[0], "confirm")) == (200, "executed")
    status, answer = decide(support, plans[1], "confirm")
    assert (status, answer["code"]) == (409, "stale")
    assert ship_to(other) == "Ola"
    assert (answer["plan"]["needsApproval"], answer["plan"]["state"]) == (True, "proposed")
    assert outcome(decide(support, answer["plan"], "confirm")) == (200, "awaiting_approval")


@pytest.mark.parametrize(
    ("state", "counted"),
    [
        (PlanState.AWAITING_APPROVAL, True),
        (PlanState.EXECUTING, True),
        (PlanState.UNCERTAIN, True),
        (PlanState.EXECUTED, True),
        (PlanState.PROPOSED, False),
        (PlanState.REJECTED, False),
        (PlanState.FAILED, False),
        (PlanState.EXPIRED, False),
        (PlanState.STALE, False),
    ],
    ids=str,
)
def test_what_is_pending_or_uncertain_counts_and_what_came_to_nothing_does_not(
    order: Order, login: Any, state: PlanState, counted: bool
) -> None:
    paying(approval=Above(10_000))
    first = propose(login("support"), "pay", {"order": order_for(number="SO-9000002").number, "cents": 9_000})
    confirmed_at = None if state == PlanState.PROPOSED else Now()
    Plan.objects.filter(pk=first["id"]).update(state=state, confirmed_at=confirmed_at)
    plan = propose(login("support"), "pay", {"order": order.number, "cents": 2_000})
    assert plan["needsApproval"] is counted


@pytest.mark.parametrize(
    ("who", "which", "name", "ago", "counted"),
    [
        ("support", "same", "pay", 0, True),
        ("support", "other", "pay", 0, True),
        ("manager", "same", "pay", 0, True),
        ("manager", "other", "pay", 0, False),
        ("support", "same", "pay_too", 0, False),
        ("support", "same", "pay", 23, True),
        ("support", "same", "pay", 25, False),
    ],
)
def test_the_same_requester_or_the_same_target_in_the_window_counts(
    order: Order, login: Any, who: str, which: str, name: str, ago: int, counted: bool
) -> None:
    paying(approval=Above(10_000))
    paying(approval=Never(), name="pay_too")
    before = order if which == "same" else order_for(number="SO-9000002")
    first = propose(login(who), name, {"order": before.number, "cents": 9_000})
    assert outcome(decide(login(who), first, "confirm")) == (200, "executed")
    back = datetime.timedelta(hours=ago)
    Plan.objects.filter(pk=first["id"]).update(
        confirmed_at=F("confirmed_at") - back, ended_at=F("ended_at") - back
    )
    plan = propose(login("support"), "pay", {"order": order.number, "cents": 2_000})
    assert plan["needsApproval"] is counted


class Second(Approval):
    """A rule in code: the second one of an hour needs approval."""

    def is_needed(self, ctx: Any, preview: Any, usage: Any) -> bool:
        return bool(usage(datetime.timedelta(hours=1)).count >= 1)


class FromNorway(Approval):
    """A rule that reads, through the context."""

    def is_needed(self, ctx: Any, preview: Any, usage: Any) -> bool:
        return bool(ctx.related(preview.record, "customer").country == "Norway")


class Raises(Approval):
    def is_needed(self, ctx: Any, preview: Any, usage: Any) -> bool:
        raise ZeroDivisionError


class Refuses(Approval):
    def is_needed(self, ctx: Any, preview: Any, usage: Any) -> bool:
        raise Refused("No")


class Writes(Approval):
    def is_needed(self, ctx: Any, preview: Any, usage: Any) -> bool:
        try:
            Order.objects.update(shipping_name="Written by a rule")
        except Exception:  # even if it swallows that it may not
            return False
        return False


def test_a_rule_in_code_counts_what_was_before(order: Order, login: Any) -> None:
    relabel(approval=Second())
    support = login("support")
    first = propose(support, "relabel", {"order": order.number, "name": "Kari"})
    assert not first["needsApproval"]
    decide(support, first, "confirm")
    assert propose(support, "relabel", {"order": order.number, "name": "Per"})["needsApproval"]


def test_a_rule_in_code_reads_through_the_context(order: Order, login: Any) -> None:
    relabel(approval=FromNorway())
    given = {"order": order.number, "name": "Kari"}
    assert not propose(login("support"), "relabel", given)["needsApproval"]
    Customer.objects.filter(pk=order.customer_id).update(country="Norway")
    assert propose(login("support"), "relabel", given)["needsApproval"]


@pytest.mark.parametrize("rule", [Raises(), Refuses(), Writes()], ids=lambda rule: type(rule).__name__)
def test_a_rule_that_fails_means_that_a_second_person_is_needed(
    order: Order, login: Any, rule: Approval
) -> None:
    relabel(approval=rule)
    plan = propose(login("support"), "relabel", {"order": order.number, "name": "Kari"})
    assert plan["needsApproval"]
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    assert ship_to(order) == "Ola"
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")
    assert ship_to(order) == "Kari"
