"""Decisions on one plan in the same instant: real threads with connections of their own, real transactions.

Every round has a plan of its own; the threads stay for all rounds and start together. 200 rounds of 8 threads
on PostgreSQL, fewer where one lock holds for the whole database.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.db.models.functions import Now

from django_copilot import Above, Always, Preview, audit, gate, write_tool
from django_copilot.backends.base import ToolCall
from django_copilot.exceptions import Denied
from django_copilot.models import AuditEntry, Plan, PlanState, Turn
from django_copilot.plans import decisions, proposals, undoing
from django_copilot.plans.deciders import Decider
from django_copilot.scope import Scope
from django_copilot.testing import Text, copilot_client, script
from django_copilot.tools.base import Planned
from django_copilot.tools.document import canonical
from example_project.store.models import Order

from .tools import at_once, order_for, propose, relabel, send

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 8
SCOPE = Scope(site="admin", host="testserver")


def rounds(on_postgres: int, elsewhere: int) -> int:
    """Return how often something is tried."""
    return on_postgres if connection.vendor == "postgresql" else elsewhere


def decider(username: str) -> Decider:
    """Return a person who acts for herself."""
    user = User.objects.get(username=username)
    return Decider(user=user, key=str(user.pk), real_key="", impersonated=False, site=admin.site, scope=SCOPE)


def plan_for(username: str, tool_name: str, /, **arguments: Any) -> Plan:
    """Return a plan as a model's call makes it."""
    user_pk = User.objects.get(username=username).pk
    call = ToolCall(id="1", name=tool_name, arguments=canonical(arguments))
    outcome = gate.run(admin.site, SCOPE, user_pk, call)
    assert isinstance(outcome, Planned), outcome
    with transaction.atomic():
        return proposals.store_plan(outcome.draft, scope=SCOPE, user_pk=user_pk, turn=None, conversation=None)


class Threads:
    """Threads that stay, each with its own connection, and start each round together."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def __call__(self, *works: Callable[[], Plan]) -> list[str]:
        """Run the works at once; return the state of the plan that each gave, or the code of its refusal."""
        gate = Barrier(len(works), timeout=30)

        def run(work: Callable[[], Plan]) -> str:
            gate.wait()
            try:
                return str(work().state)
            except Denied as denied:
                return denied.code

        return [each.result(60) for each in [self.pool.submit(run, work) for work in works]]


@pytest.fixture
def threads() -> Iterator[Threads]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield Threads(pool)
        closing = Barrier(THREADS)
        for each in [
            pool.submit(lambda: (closing.wait(30), connections.close_all())) for _ in range(THREADS)
        ]:
            each.result(30)


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for()


def done(order: Order) -> tuple[str, int, int]:
    """Return what is stored, and how often it was saved and logged."""
    held = Order.objects.get(pk=order.pk).shipping_name
    logged = LogEntry.objects.filter(object_id=str(order.pk)).count()
    return held, Order.history.filter(id=order.pk).count() - 1, logged


def test_eight_confirmations_at_once_carry_a_plan_out_once(order: Order, threads: Threads) -> None:
    relabel()
    by, answers, many = decider("support"), Counter[str](), rounds(200, 15)
    for number in range(1, many + 1):
        plan = plan_for("support", "relabel", order=order.number, name=f"N{number}")
        given = threads(*[lambda: decisions.confirm(plan.pk, plan.digest, by)] * THREADS)  # noqa: B023
        assert done(order) == (f"N{number}", number, number)
        assert set(given) <= {"executed", "in_flight", "try_again"}, given
        assert "executed" in given
        answers.update(given)
        events = AuditEntry.objects.filter(plan=str(plan.pk))
        assert [events.filter(event=each).count() for each in ("confirmed", "executed")] == [1, 1]
    assert answers["executed"] >= many * (THREADS - 1)  # the others are given what is stored
    assert audit.verify("admin") is None


def test_eight_requests_at_once_carry_a_plan_out_once(order: Order, store: Any) -> None:
    relabel()
    clients = [copilot_client(store.user("support")) for _ in range(THREADS)]
    for number in range(1, rounds(10, 3) + 1):
        plan = propose(clients[0], "relabel", {"order": order.number, "name": f"N{number}"})
        body = {"digest": plan["digest"]}
        answers = at_once(*[lambda c=each: send(c, plan["confirmUrl"], body) for each in clients])  # noqa: B023
        assert done(order) == (f"N{number}", number, number)
        told = [(each.status_code, each.json().get("code", "")) for each in answers]
        assert set(told) <= {(200, ""), (409, "in_flight"), (409, "try_again")}, told


def test_a_confirmation_and_a_rejection_at_once_are_one_of_them(order: Order, threads: Threads) -> None:
    relabel()
    by, saved, ends = decider("support"), 0, Counter[str]()
    for number in range(rounds(100, 15)):
        plan = plan_for("support", "relabel", order=order.number, name=f"N{number}")

        def confirm() -> Plan:
            return decisions.confirm(plan.pk, plan.digest, by)  # noqa: B023

        def reject() -> Plan:
            return decisions.reject(plan.pk, "No", by)  # noqa: B023

        works = [confirm, reject] if number % 2 else [reject, confirm]
        given = threads(*works, *works)
        end = Plan.objects.get(pk=plan.pk)
        saved += end.state == PlanState.EXECUTED
        assert end.state in (PlanState.EXECUTED, PlanState.REJECTED)
        assert set(given) <= {str(end.state), "try_again"}, given
        assert done(order)[1:] == (saved, saved)
        assert (done(order)[0] == f"N{number}") == (end.state == PlanState.EXECUTED)
        events = set(AuditEntry.objects.filter(plan=str(plan.pk)).values_list("event", flat=True))
        assert len(events & {"executed", "rejected"}) == 1
        ends[str(end.state)] += 1
    assert sum(ends.values()) == rounds(100, 15)


def test_an_outside_call_that_is_under_way_is_neither_made_again_nor_declined(
    order: Order, threads: Threads
) -> None:
    called: list[str] = []

    def notify(ctx: Any, order: str) -> Preview:
        """Tell another system."""
        return Preview(ctx.get(Order, number=order), payload={"order": order})

    declared = write_tool(Order, approval=None, category="mutating")(notify)

    @declared.call
    def call(payload: Any, key: str) -> dict[str, Any]:
        called.append(key)
        time.sleep(0.05)
        return {"said": "ok"}

    by = decider("support")
    for number in range(1, rounds(30, 5) + 1):
        plan = plan_for("support", "notify", order=order.number)

        def confirm() -> Plan:
            return decisions.confirm(plan.pk, plan.digest, by)  # noqa: B023

        def reject() -> Plan:
            return decisions.reject(plan.pk, "No", by)  # noqa: B023

        given = threads(*[confirm] * (THREADS - 1), reject)
        end = Plan.objects.get(pk=plan.pk)
        assert end.state in (PlanState.EXECUTED, PlanState.REJECTED)
        if end.state == PlanState.REJECTED:
            called.append("")
            assert set(given) <= {"rejected", "try_again"}
        else:
            assert called[-1] == str(end.key)
            assert given[-1] in ("in_flight", "executed", "try_again")
            assert set(given) <= {"executed", "in_flight", "try_again"}
        assert len(called) == number


def test_several_approvers_at_once_carry_a_plan_out_once(order: Order, threads: Threads) -> None:
    relabel(approval=Always())
    requester = decider("support")
    approvers = [decider(name) for name in ("manager", "manager2", "admin")]
    for number in range(1, rounds(40, 8) + 1):
        plan = plan_for("support", "relabel", order=order.number, name=f"N{number}")
        decisions.confirm(plan.pk, plan.digest, requester)
        works = [lambda by=each: decisions.approve(plan.pk, plan.digest, by) for each in approvers]  # noqa: B023
        given = threads(*works, lambda: decisions.confirm(plan.pk, plan.digest, requester))  # noqa: B023
        assert done(order) == (f"N{number}", number, number)
        end = Plan.objects.get(pk=plan.pk)
        assert (end.state, end.approved_by in [each.key for each in approvers]) == ("executed", True)
        assert given.count("no_approval_needed") == len(approvers) - 1, given


def test_of_two_plans_on_one_record_one_is_carried_out_and_the_other_is_stale(
    order: Order, threads: Threads
) -> None:
    relabel()
    people = [decider(name) for name in ("support", "manager")]
    for number in range(1, rounds(40, 8) + 1):
        plans = [
            plan_for(by.user.username, "relabel", order=order.number, name=f"{by.user.username} {number}")
            for by in people
        ]
        pairs = list(zip(plans, people, strict=True))
        given = threads(*[lambda p=p, by=by: decisions.confirm(p.pk, p.digest, by) for p, by in pairs])
        assert sorted(given) == ["executed", "stale"]
        assert done(order)[1:] == (number, number)
        assert done(order)[0] == f"{people[given.index('executed')].user.username} {number}"


def test_an_amount_can_not_be_split_under_the_limit_at_once(order: Order, threads: Threads) -> None:
    """Hazard 138."""

    def pay(ctx: Any, order: str, cents: int, name: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name=name, amount=cents)

    write_tool(Order, approval=Above(10_000))(pay)
    other, by = order_for(number="SO-9000002"), decider("support")
    for number in range(rounds(30, 8)):
        Plan.objects.all().delete()
        plans = [
            plan_for("support", "pay", order=each.number, cents=6_000, name=f"N{number}")
            for each in (order, other)
        ]
        given = threads(*[lambda p=p: decisions.confirm(p.pk, p.digest, by) for p in plans])
        assert sorted(given) == ["executed", "stale"]
        names = [Order.objects.get(pk=each.pk).shipping_name for each in (order, other)]
        assert names.count(f"N{number}") == 1


def test_undo_asked_for_eight_times_at_once_is_one_plan_and_done_once(order: Order, threads: Threads) -> None:
    relabel()
    by = decider("support")
    for number in range(rounds(20, 5)):
        plan = plan_for("support", "relabel", order=order.number, name=f"N{number}")
        plan = decisions.confirm(plan.pk, plan.digest, by)
        given = threads(*[lambda: undoing.undo(plan, by)] * THREADS)  # noqa: B023
        assert given == ["proposed"] * THREADS
        undo = Plan.objects.get(undo_of=plan)
        given = threads(*[lambda: decisions.confirm(undo.pk, undo.digest, by)] * THREADS)  # noqa: B023
        assert set(given) <= {"executed", "try_again"}, given
        assert done(order) == ("Ola", 2 * number + 2, 2 * number + 2)
        assert Plan.objects.get(pk=plan.pk).state == PlanState.UNDONE


@pytest.mark.parametrize("state", [PlanState.PROPOSED, PlanState.EXPIRED, PlanState.STALE], ids=str)
def test_made_again_eight_times_at_once_is_one_plan(order: Order, threads: Threads, state: PlanState) -> None:
    relabel()
    by = decider("support")
    for _ in range(rounds(20, 5)):
        plan = plan_for("support", "relabel", order=order.number, name="Kari")
        Plan.objects.filter(pk=plan.pk).update(state=state, expires_at=Now())
        plan = decisions.current(plan.pk)
        given = threads(*[lambda: undoing.again(decisions.current(plan.pk), by)] * THREADS)  # noqa: B023
        assert given == ["proposed"] * THREADS
        assert Plan.objects.get(made_from=plan).state == PlanState.PROPOSED


def test_a_decided_turn_goes_on_once(order: Order, store: Any) -> None:
    relabel()
    clients = [copilot_client(store.user("support")) for _ in range(4)]
    url = "/admin/django_copilot/conversation/chat/"
    for number in range(rounds(8, 3)):
        plan = propose(clients[0], "relabel", {"order": order.number, "name": f"N{number}"})
        send(clients[0], plan["confirmUrl"], {"digest": plan["digest"]})
        body = {
            "conversationId": str(Plan.objects.get(pk=plan["id"]).conversation_id),
            "continue": plan["id"],
        }
        with script(Text("Done.")):
            answers = at_once(*[lambda c=each: send(c, url, body) for each in clients])  # noqa: B023
        told = Counter((each.status_code, each.json().get("code", "")) for each in answers)
        assert told.pop((200, "")) == 1
        assert set(told) <= {(409, "nothing_to_continue"), (409, "turn_running")}, told
    assert not Turn.objects.filter(open_for__isnull=False).exists()


@pytest.mark.postgres
def test_a_decision_waits_for_the_plans_row_and_for_the_records(order: Order) -> None:
    relabel()
    by = decider("support")
    for rows in (Plan.objects.all(), Order.objects.filter(pk=order.pk)):
        plan = plan_for("support", "relabel", order=order.number, name=f"Kari {uuid.uuid4()}"[:40])
        ended, given = Event(), []

        def work() -> None:
            try:
                given.append(decisions.confirm(plan.pk, plan.digest, by).state)  # noqa: B023
            except Denied as denied:
                given.append(denied.code)  # noqa: B023
            finally:
                ended.set()  # noqa: B023
                connections.close_all()

        thread = Thread(target=work, daemon=True)
        with transaction.atomic():
            list(rows.select_for_update())
            if rows.model is Order:
                Order.objects.filter(pk=order.pk).update(shipping_city="Theirs")
            thread.start()
            assert not ended.wait(1)
        thread.join(30)
        assert given == ["executed" if rows.model is Plan else "stale"]
