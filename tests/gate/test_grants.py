"""A step with an effect runs only for a plan whose stored row bears the grant out; everything else is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from django_copilot import Above, Preview, gate, write_tool
from django_copilot.exceptions import NoGrant
from django_copilot.models import Plan, PlanState
from django_copilot.tools.write import WriteTool
from example_project.store.models import Order
from tests.tools.declared import context, own_tools, propose  # noqa: F401  # own_tools is a fixture

from .conftest import Orders

pytestmark = pytest.mark.usefixtures("own_tools")


class World:
    """A tool whose steps say that they ran, and a claimed plan of it."""

    def __init__(self, orders: Orders, login: Any) -> None:
        self.ran: list[str] = []
        self.orders = orders
        self.tool = self.declare("granted")
        other = self.declare("other")
        client = login("support")
        number = Order.objects.get(pk=orders.own).number
        plan = propose(client, "granted", {"number": number})
        self.plan = Plan.objects.get(pk=plan["id"])
        self.other = Plan.objects.get(pk=propose(client, "granted", {"number": number})["id"])
        self.foreign = Plan.objects.get(pk=propose(client, "other", {"number": number})["id"])
        assert other.name == "other"
        self.user = get_user_model().objects.get(username="support")
        for each in (self.plan, self.other, self.foreign):
            self.store(each, state=PlanState.EXECUTING, confirmed_by=str(self.user.pk))
        self.ran.clear()

    def declare(self, name: str) -> WriteTool:
        @write_tool(Order, name=name, approval=Above(10**9))
        def tool(ctx: Any, number: str) -> Preview:
            """Do it."""
            return Preview(ctx.get(Order, number=number), payload={"a": 1}, amount=1)

        tool.reserve(lambda ctx, preview, grant: self.ran.append("reserve"))
        tool.call(lambda payload, key: self.ran.append("call"))
        tool.look_up(lambda payload, key: self.ran.append("look_up"))
        tool.settle(lambda grant, succeeded, result: self.ran.append("settle"))
        return tool

    def store(self, plan: Plan, **values: Any) -> None:
        Plan.objects.filter(pk=plan.pk).update(**values)

    def grant(self, **changed: Any) -> gate.Grant:
        plan = Plan.objects.get(pk=self.plan.pk)
        return dataclasses.replace(
            gate.Grant(
                plan_id=plan.pk,
                tool="granted",
                key=str(plan.key),
                requester=str(self.user.pk),
                confirmed_by=str(self.user.pk),
            ),
            **changed,
        )

    def run(self, step: str, grant: Any) -> None:
        if step in ("apply", "reserve"):
            with context("support") as ctx, transaction.atomic():
                found = ctx.get(Order, pk=self.orders.own)
                preview = Preview(found, payload={"a": 1}, amount=1)
                looked = gate._looked(self.tool, {}, ctx, preview, own_way=True, dry_run=())
                if step == "reserve":
                    gate.reserve(looked, grant)
                else:
                    gate.perform(looked, grant)
        elif step == "call":
            gate.call_out(self.tool, "call", grant, json.dumps({"a": 1}))
        else:
            gate.settle(self.tool, grant, succeeded=True, result=None)


@pytest.fixture
def world(orders: Orders, login: Any) -> World:
    return World(orders, login)


STEPS = ("apply", "reserve", "call", "settle")


def _with_apply(world: World) -> None:
    world.tool.apply(lambda ctx, preview, grant: world.ran.append("apply"))


@pytest.mark.parametrize("step", STEPS)
def test_a_step_runs_for_the_plan_that_was_claimed(world: World, step: str) -> None:
    _with_apply(world)
    world.run(step, world.grant())
    assert world.ran == [step]


class Truth:
    """Stands for a grant and says yes to everything."""

    def __getattr__(self, name: str) -> Any:
        return ""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


FORGED: dict[str, Any] = {
    "none": lambda world: None,
    "true": lambda world: True,
    "a dict": lambda world: dataclasses.asdict(world.grant()),
    "something that agrees": lambda world: Truth(),
    "no plan": lambda world: world.grant(plan_id=None),
    "a plan that never was": lambda world: world.grant(plan_id="00000000-0000-0000-0000-000000000000"),
    "another plan of the tool": lambda world: world.grant(plan_id=world.other.pk),
    "a plan of another tool": lambda world: world.grant(
        plan_id=world.foreign.pk, key=str(world.foreign.key), tool="other"
    ),
    "a plan of another tool under this one's name": lambda world: world.grant(
        plan_id=world.foreign.pk, key=str(world.foreign.key)
    ),
    "another key": lambda world: world.grant(key=str(world.other.key)),
    "no key": lambda world: world.grant(key=""),
    "nobody confirmed": lambda world: world.grant(confirmed_by=""),
    "nobody at all": lambda world: world.grant(confirmed_by="", requester=""),
    "somebody else confirmed": lambda world: world.grant(confirmed_by="1"),
    "somebody else asked": lambda world: world.grant(requester="1"),
    "somebody approved": lambda world: world.grant(approved_by="1"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_grant_that_the_stored_plan_does_not_bear_out_runs_nothing(world: World, step: str) -> None:
    """Guards hazard 163."""
    _with_apply(world)
    let_through = []
    for name, forge in FORGED.items():
        try:
            world.run(step, forge(world))
            let_through.append(name)
        except NoGrant:
            pass
    assert (let_through, world.ran) == ([], [])


@pytest.mark.parametrize("step", STEPS)
def test_a_plan_that_was_not_claimed_runs_nothing(world: World, step: str) -> None:
    _with_apply(world)
    for state in PlanState:
        world.store(world.plan, state=state)
        world.ran.clear()
        if state is PlanState.EXECUTING or (
            step == "settle" and state in (PlanState.UNCERTAIN, PlanState.FAILED)
        ):
            world.run(step, world.grant())  # how it ended is written down, or that it was done after all
            assert world.ran == [step]
            continue
        with pytest.raises(NoGrant, match="No plan is being carried out"):
            world.run(step, world.grant())
        assert world.ran == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stored", ["", "1"])
def test_a_stored_confirmation_must_be_the_requesters_own(world: World, step: str, stored: str) -> None:
    _with_apply(world)
    world.store(world.plan, confirmed_by=stored)
    with pytest.raises(NoGrant):
        world.run(step, world.grant(confirmed_by=stored))
    with pytest.raises(NoGrant):
        world.run(step, world.grant())
    assert world.ran == []


@pytest.mark.parametrize("step", ["apply", "reserve", "call"])
def test_a_plan_that_changed_hands_runs_nothing(world: World, step: str) -> None:
    _with_apply(world)
    for user in (None, get_user_model().objects.get(username="manager").pk):
        world.store(world.plan, user_id=user)
        with pytest.raises(NoGrant):
            world.run(step, world.grant())
    assert world.ran == []


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("approver", ["", "requester", "proposer"])
def test_a_plan_that_needs_a_second_person_runs_only_with_one(world: World, step: str, approver: str) -> None:
    _with_apply(world)
    manager = str(get_user_model().objects.get(username="manager").pk)
    by = {"": "", "requester": str(world.user.pk), "proposer": manager}[approver]
    world.store(world.plan, needs_approval=True, approved_by=by, proposed_by=manager)
    with pytest.raises(NoGrant, match="second person"):
        world.run(step, world.grant(approved_by=by))
    assert world.ran == []
    second = str(get_user_model().objects.get(username="manager2").pk)
    world.store(world.plan, approved_by=second)
    world.run(step, world.grant(approved_by=second))
    assert world.ran == [step]


@pytest.mark.parametrize("step", ["apply", "reserve", "call"])
@pytest.mark.parametrize("whom", ["confirmed", "approved"])
def test_a_service_account_decides_nothing(world: World, step: str, whom: str, settings: Any) -> None:
    """Asked at the last moment, of superusers too."""
    _with_apply(world)
    second = get_user_model().objects.get(username="admin")
    world.store(world.plan, needs_approval=True, approved_by=str(second.pk))
    grant = world.grant(approved_by=str(second.pk))
    group = Group.objects.get(user__username="bot", name__icontains="service")
    (world.user if whom == "confirmed" else second).groups.add(group)
    with pytest.raises(NoGrant, match="service account"):
        world.run(step, grant)
    assert world.ran == []


@pytest.mark.parametrize("step", ["apply", "reserve", "call"])
def test_a_person_who_is_gone_or_deactivated_runs_nothing(world: World, step: str) -> None:
    from django_copilot.exceptions import ScopeUnavailable

    _with_apply(world)
    world.user.is_active = False
    world.user.save()
    with pytest.raises((NoGrant, ScopeUnavailable)):
        world.run(step, world.grant())
    assert world.ran == []


def test_how_a_call_ended_is_written_down_even_when_its_people_are_gone(world: World) -> None:
    world.user.is_active = False
    world.user.save()
    world.store(world.plan, user_id=None)
    world.run("settle", world.grant())
    assert world.ran == ["settle"]


@pytest.mark.django_db(transaction=True)
def test_another_system_is_never_asked_inside_a_transaction() -> None:
    from example_project.store.data import create_data
    from example_project.store.people import create_people

    create_people()
    create_data(products=2, orders=2)
    ran: list[Any] = []

    @write_tool(Order)
    def outside(ctx: Any) -> Preview:
        """Do it."""
        raise AssertionError

    outside.call(lambda payload, key: ran.append((payload, key)))
    outside.look_up(lambda payload, key: ran.append((payload, key)))
    user = get_user_model().objects.get(username="support")
    plan = Plan.objects.create(
        kind="tool",
        tool="outside",
        user=user,
        site="admin",
        model="store.order",
        state=PlanState.EXECUTING,
        key="6f1f8a9e-3b5c-4a0e-9a27-5d1e0c3b2a11",
        confirmed_by=str(user.pk),
        expires_at="2030-01-01T00:00Z",
        submit_by="2030-01-01T00:00Z",
    )
    grant = gate.Grant(
        plan_id=plan.pk,
        tool="outside",
        key=str(plan.key),
        requester=str(user.pk),
        confirmed_by=str(user.pk),
    )
    for step in ("call", "look_up"):
        with transaction.atomic(), pytest.raises(NoGrant, match="inside a transaction"):
            gate.call_out(outside, step, grant, '{"a": 1}')  # type: ignore[arg-type]
    assert ran == []
    gate.call_out(outside, "call", grant, '{"a": 1}')
    assert ran == [({"a": 1}, str(plan.key))]


def test_a_step_that_a_tool_has_not_is_a_refusal(world: World) -> None:
    world.tool._steps.pop("call")
    with pytest.raises(NoGrant, match="no call step"):
        world.run("call", world.grant())


def test_a_tool_can_not_be_called_as_a_function(world: World) -> None:
    with pytest.raises(TypeError, match="after a confirmation"):
        world.tool(None, number="x")
    assert world.ran == []
