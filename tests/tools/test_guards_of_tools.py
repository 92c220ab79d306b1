"""What stands around a write tool, rule by rule: its context, its document, its approval rule, its reading."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_copilot import Approval, Preview, gate, write_tool
from django_copilot.access import Access
from django_copilot.models import Plan, PlanKind, PlanState
from django_copilot.plans import proposals
from django_copilot.scope import enter_scope
from django_copilot.tools import write
from django_copilot.tools.document import digest_of, is_intact
from django_copilot.tools.guard import NotAPreview, _Guard, _running, only_reading, through_context
from django_copilot.tools.offered import may_use_tool
from example_project.store.models import Order
from tests.plans.tools import World, propose, staff, stored
from tests.plans.tools import tool as tool  # a fixture

from .declared import HERE, context, draft_for


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


# -- the document -----------------------------------------------------------------------------------------

SAYS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "plan": lambda d: d.update(plan="another"),
    "payload": lambda d: d.update(payload="{}"),
    "approval": lambda d: d["approval"].update(needed=True),
    "target": lambda d: d["target"].update(pk="0"),
    "tool": lambda d: d["tool"].update(name="another"),
    "version": lambda d: d["tool"].update(version="another"),
    "undoes": lambda d: d.update(undoes="another"),
    "arguments": lambda d: d["arguments"]["model"].update(name="text:Nils"),
}


@pytest.mark.parametrize("part", ["", *SAYS])
def test_a_document_and_its_row_say_the_same_even_where_the_digest_is_its_own(
    world: World, part: str
) -> None:
    plan = stored(world.propose())
    SAYS.get(part, lambda document: None)(plan.document)
    plan.digest = digest_of(plan.document)
    assert is_intact(plan) is (part == "")


@pytest.mark.parametrize("part", ["plan", "payload", "approval", "target", "tool", "undoes", "arguments"])
def test_a_document_without_a_part_is_not_intact(world: World, part: str) -> None:
    plan = stored(world.propose())
    del plan.document[part]
    plan.digest = digest_of(plan.document)
    assert not is_intact(plan)


@pytest.mark.parametrize("document", [None, [], "x", {"plan": float("nan")}], ids=str)
def test_what_is_no_document_is_not_intact(world: World, document: Any) -> None:
    plan = stored(world.propose())
    plan.document = document
    assert not is_intact(plan)


def test_numbers_in_a_list_are_the_same_at_every_scale() -> None:
    one, other = ([decimal.Decimal(text), "x", [decimal.Decimal(text)]] for text in ("5.5", "5.500"))
    assert proposals._plain(one) == proposals._plain(other)
    assert proposals._plain([1, 2]) != proposals._plain([2, 1])


# -- the context ------------------------------------------------------------------------------------------


def test_a_relation_that_came_along_is_not_handed_out_with_the_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever follows it asks for it, and for the right to see it."""
    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), "list_select_related", ["customer"])
    with context("support") as ctx:
        found = ctx.get(Order, pk=world.order.pk)
        assert "customer" not in found._state.fields_cache


def test_what_is_unscoped_is_counted_as_it_is(world: World) -> None:
    with context("support") as ctx:
        rows = ctx.unscoped(Order)
        assert rows.filter(pk=world.order.pk).exists() is True
        assert rows.filter(pk=0).exists() is False
        assert (rows.filter(pk=0).count(), len(rows.filter(pk=world.order.pk))) == (0, 1)


# -- the approval rule ------------------------------------------------------------------------------------

WINDOW = datetime.timedelta(hours=1)
NOW = timezone.now()
LONG_AGO = NOW - datetime.timedelta(days=9)


class Counts(Approval):
    """Keeps what was before; asks for nobody."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, decimal.Decimal]] = []

    def is_needed(self, ctx: Any, preview: Preview, usage: Any) -> bool:
        told = usage(WINDOW)
        self.seen.append((told.count, told.amount))
        return False


# What another plan is → whether it counts. As it stands it is support's, on the same order, executed just now.
COUNTED: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"user": None}, True),  # of the same target
    ({"object_pk": "0"}, True),  # of the same requester
    ({"user": None, "object_pk": "0"}, False),
    ({"user": None, "model": "store.product"}, False),
    ({"tool": "another"}, False),
    ({"kind": PlanKind.FORM}, False),
    ({"state": PlanState.PROPOSED}, False),
    ({"state": PlanState.REJECTED}, False),
    ({"confirmed_at": LONG_AGO}, True),  # it ended just now
    ({"ended_at": LONG_AGO}, True),
    ({"confirmed_at": LONG_AGO, "ended_at": LONG_AGO}, False),
    ({"confirmed_at": LONG_AGO, "ended_at": None, "state": PlanState.UNCERTAIN}, True),
    ({"confirmed_at": LONG_AGO, "ended_at": None, "state": PlanState.EXECUTING}, True),
    ({"confirmed_at": LONG_AGO, "ended_at": None, "state": PlanState.AWAITING_APPROVAL}, False),
    ({"amount": None}, True),
    ({"amount": -7}, True),
]


@pytest.mark.parametrize(("values", "counts"), COUNTED, ids=[str(n) for n in range(len(COUNTED))])
def test_what_was_before_counts_by_whose_it_is_and_when_it_was(
    world: World, values: dict[str, Any], counts: bool
) -> None:
    rule = Counts()

    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid", amount=7)

    write_tool(Order, approval=rule)(pay)
    plan = stored(world.propose())
    given = {"tool": "pay", "state": PlanState.EXECUTED, "confirmed_at": NOW, "ended_at": NOW, "amount": 7}
    Plan.objects.filter(pk=plan.pk).update(**{**given, **values})
    draft_for("support", "pay", {"order": world.order.number})
    amount = 0 if not counts or values.get("amount", 0) is None else 7
    assert rule.seen == [(int(counts), decimal.Decimal(amount))]


def test_an_undo_and_the_plan_itself_do_not_count(world: World) -> None:
    rule = Counts()

    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid", amount=7)

    write_tool(Order, approval=rule)(pay)
    plan, other = stored(world.propose()), stored(world.propose("Nils"))
    given = {"tool": "pay", "state": PlanState.EXECUTED, "confirmed_at": NOW, "ended_at": NOW, "amount": 7}
    Plan.objects.filter(pk=plan.pk).update(**given, undo_of=other)
    draft_for("support", "pay", {"order": world.order.number})
    assert rule.seen == [(0, 0)]


def test_a_plan_that_is_looked_at_again_does_not_count_itself(world: World) -> None:
    rule = Counts()

    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid", amount=7)

    write_tool(Order, approval=rule)(pay)
    plan = stored(propose(world.client, "pay", {"order": world.order.number}))
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.EXECUTING, confirmed_at=NOW)
    with enter_scope(HERE, plan.user_id) as request:
        access = Access(admin.site, request)
        gate.look_again(access, plan)
        gate.look_afresh(access, plan)
    assert rule.seen == [(0, 0), (0, 0), (1, 7)]


class Writes(Approval):
    def is_needed(self, ctx: Any, preview: Preview, usage: Any) -> bool:
        Order.objects.update(number=F("number"))
        return False


class Breaks(Approval):
    def is_needed(self, ctx: Any, preview: Preview, usage: Any) -> bool:
        with transaction.atomic(savepoint=False):
            raise LookupError("zqx")


@pytest.mark.parametrize("rule", [Writes, Breaks])
def test_a_rule_that_writes_or_breaks_its_transaction_is_a_yes_and_no_more(world: World, rule: Any) -> None:
    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid")

    write_tool(Order, approval=rule())(pay)
    assert draft_for("support", "pay", {"order": world.order.number}).needs_approval
    plan = stored(propose(world.client, "pay", {"order": world.order.number}))
    with enter_scope(HERE, plan.user_id) as request:
        assert gate.look_afresh(Access(admin.site, request), plan).needs_approval
    assert not transaction.get_connection().needs_rollback
    assert Order.objects.filter(pk=world.order.pk).exists()


# -- who may use a tool -----------------------------------------------------------------------------------


def may_use(user: Any, tool: Any) -> bool:
    with enter_scope(HERE, user.pk) as request:
        return may_use_tool(Access(admin.site, request), tool)


def test_a_tool_is_for_who_sees_its_records_and_has_its_verb(world: World) -> None:
    def made(verb: str, **options: Any) -> Any:
        def tool(ctx: Any, order: str) -> Preview:
            """Do it."""
            return Preview(ctx.get(Order, number=order), shipping_name="x")

        return write_tool(Order, name=f"{verb}_{len(options)}", verb=verb, permissions=[], **options)(tool)

    verbs = ("view", "add", "change", "delete")
    tools = {verb: made(verb) for verb in verbs}
    nobody = staff("anna")
    assert {verb: may_use(nobody, each) for verb, each in tools.items()} == dict.fromkeys(verbs, False)
    only_adds = staff("bert", "store.add_order")
    assert not may_use(only_adds, tools["add"])
    for verb in verbs:
        person = staff(f"has_{verb}", "store.view_order", f"store.{verb}_order")
        assert {each: may_use(person, tool) for each, tool in tools.items()} == {
            each: each in ("view", verb) for each in verbs
        }


def test_a_tool_needs_its_permissions_and_no_problem(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    support = User.objects.get(username="support")
    tool = write._registry["relabel"]
    assert may_use(support, tool)
    with monkeypatch.context() as patch:
        patch.setattr(tool, "permissions", ("store.change_payment",))
        assert not may_use(support, tool)
    with monkeypatch.context() as patch:
        patch.setattr(tool, "problems", ("It is not as it should be.",))
        assert not may_use(support, tool)
    with monkeypatch.context() as patch:
        patch.setattr(tool, "verb", "something else")
        assert not may_use(support, tool)  # what fails is a no
    assert may_use(support, tool)


def test_after_a_preview_everything_is_as_it_was(world: World) -> None:
    with only_reading():
        assert _running.get() is not None
        with through_context():
            assert Order.objects.count()
    assert _running.get() is None
    Order.objects.update(number=F("number"))


def test_what_was_done_first_is_what_is_said(world: World) -> None:
    """Whatever comes after it, in the preview or at its end."""
    guard = _Guard(may_call=False)
    for what in ("one", "another"):
        with pytest.raises(NotAPreview, match="one"):
            guard.refuse(what)

    def does_both() -> None:
        with only_reading():
            with suppress(NotAPreview), transaction.atomic():
                Order.objects.update(number=F("number"))
            transaction.on_commit(lambda: None)

    with pytest.raises(NotAPreview, match="write"):
        does_both()


def test_the_contexts_own_work_may_leave_the_process() -> None:
    guard = _Guard(may_call=False)
    assert guard.keeps_in
    guard.depth = 1
    assert not guard.keeps_in
    assert not _Guard(may_call=True).keeps_in


def test_a_plan_that_sends_nothing_has_no_payload(world: World) -> None:
    assert draft_for("support", "relabel", {"order": world.order.number, "name": "Kari"}).payload == ""
