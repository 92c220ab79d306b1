"""What the execution of plans refuses, keeps and tells, asked of it directly."""

from __future__ import annotations

import dataclasses
import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from django_copilot import Always, Preview, write_tool
from django_copilot.exceptions import Denied
from django_copilot.gate import EffectDiffers
from django_copilot.models import Plan, PlanKind, PlanState
from django_copilot.plans import decisions, execution, inbox
from django_copilot.snapshots import record_version
from django_copilot.tools import write
from example_project.store.models import Order, Payment
from tests.formapp.models import Memo

from . import tools
from .outside import World, let_lease_end, raised, said, timed_out
from .test_guards_of_plans import approver_of, decider, owner
from .tools import audited, decide, grant, let_pass, outcome, propose, relabel, revoke, stored


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


@pytest.fixture
def inside(store: Any, tool: Any, login: Any) -> tools.World:
    return tools.World(login)


def uncertain(world: World) -> Plan:
    """Return a plan whose call had no answer."""
    plan = world.propose()
    world.outside.answers = [timed_out, said({"parcel": "P1"})]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    return stored(plan)


def under_way(world: World) -> Plan:
    """Return a plan whose call was not heard of for longer than its lease."""
    plan = uncertain(world)
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.EXECUTING, code="", ended_at=None)
    let_lease_end({"id": plan.pk})
    return decisions.current(plan.pk)


# -- undone ------------------------------------------------------------------------------------------------


def test_what_is_not_executed_any_more_is_not_marked_as_undone(inside: tools.World) -> None:
    plan = inside.propose()
    decide(inside.client, plan, "confirm")
    undo = stored(decide(inside.client, plan, "undo")[1]["plan"])
    assert undo.undo_of.state == "executed"  # as it is loaded
    Plan.objects.filter(pk=plan["id"]).update(state=PlanState.UNDONE)
    records: list[Any] = []
    with pytest.raises(EffectDiffers):
        execution.mark_undone(undo, records, owner(undo))
    assert records == []


def test_that_a_plan_was_undone_is_in_its_audit(inside: tools.World) -> None:
    plan = inside.propose()
    decide(inside.client, plan, "confirm")
    undo = decide(inside.client, plan, "undo")[1]["plan"]
    assert outcome(decide(inside.client, undo, "confirm")) == (200, "executed")
    assert audited(plan)[-1] == ("undone", "")
    assert stored(plan).state == "undone"


def test_an_operation_that_gives_nothing_has_no_result_in_the_audit(inside: tools.World) -> None:
    plan = stored(inside.propose())
    assert execution.result_values(plan, None) == ()
    assert [each.value for each in execution.result_values(plan, {"a": 1})] == [{"a": 1}]


def test_the_audit_holds_the_versions_of_the_records_that_were_bound(inside: tools.World) -> None:
    orders = [inside.order, tools.order_for(number="SO-9000002"), tools.order_for(number="SO-9000003")]
    bound = {
        number: SimpleNamespace(before=each, model="store.order", pk=str(each.pk))
        for number, each in enumerate(orders[1:])
    }
    Order.objects.filter(pk=orders[2].pk).delete()
    looked: Any = SimpleNamespace(ctx=SimpleNamespace(bound=bound))
    assert execution.versions_after(looked) == [
        {"model": "store.order", "pk": str(orders[1].pk), "version": record_version(orders[1])},
        {"model": "store.order", "pk": str(orders[2].pk), "version": ""},
    ]


def test_what_would_fail_the_commit_fails_the_plan(inside: tools.World) -> None:
    """A database may put off looking at foreign keys until then."""

    def pay(ctx: Any, order: str) -> Preview:
        """Pay for an order that is not there."""
        return Preview(ctx.get(Order, number=order))

    write_tool(Order)(pay).apply(
        lambda ctx, preview, grant: Payment.objects.create(order_id=999_999, amount_cents=1) and None
    )
    plan = propose(inside.client, "pay", {"order": inside.order.number})
    assert outcome(decide(inside.client, plan, "confirm")) == (409, "failed")
    assert not Payment.objects.filter(order_id=999_999).exists()


# -- the claim ---------------------------------------------------------------------------------------------


def test_an_operation_outside_is_claimed_only_within_its_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once more in the statement that claims it: what was looked at before takes time."""
    plan = world.propose()
    let_pass(plan, "expires_at")
    monkeypatch.setattr(decisions, "_why_not", lambda plan, by, digest: "")
    with pytest.raises(Denied) as caught:
        decisions.confirm(plan["id"], plan["digest"], owner(stored(plan)))
    assert caught.value.code == "expired"
    assert (stored(plan).state, world.outside.sent, world.outside.reserved) == ("proposed", [], [])


def test_the_claim_the_call_and_each_attempt_are_in_the_audit(world: World) -> None:
    plan = uncertain(world)
    told = [("proposed", ""), ("confirmed", ""), ("executing", ""), ("uncertain", "no_answer")]
    assert audited({"id": plan.pk}) == told
    decisions.confirm(plan.pk, plan.digest, owner(plan))
    assert audited({"id": plan.pk}) == [*told, ("executing", ""), ("executed", "")]


def test_that_a_lease_ran_out_is_stored_before_the_next_attempt(world: World) -> None:
    plan = under_way(world)
    decisions.confirm(plan.pk, plan.digest, owner(plan))
    assert audited({"id": plan.pk})[-3:] == [("uncertain", "lease_over"), ("executing", ""), ("executed", "")]


# -- the next attempt --------------------------------------------------------------------------------------


def lose_copilot(plan: Plan) -> None:
    revoke(plan.user, "django_copilot.use_copilot")


def lose_staff(plan: Plan) -> None:
    User.objects.filter(pk=plan.user_id).update(is_staff=False)


def lose_account(plan: Plan) -> None:
    User.objects.filter(pk=plan.user_id).update(is_active=False)


def lose_tool(plan: Plan) -> None:
    revoke(plan.user, "store.change_order")


def approved_by_a_program(plan: Plan) -> None:
    bot = User.objects.get(username="manager2")
    bot.groups.add(Group.objects.get(user__username="bot", name__icontains="service"))
    plan.approved_by = str(bot.pk)


def approved_by_who_is_gone(plan: Plan) -> None:
    plan.approved_by = "999999"


@pytest.mark.parametrize(
    "happens",
    [None, lose_copilot, lose_staff, lose_account, lose_tool, approved_by_a_program, approved_by_who_is_gone],
    ids=lambda each: getattr(each, "__name__", "nothing"),
)
def test_an_attempt_needs_everybody_still(world: World, happens: Any) -> None:
    plan = uncertain(world)
    if happens is not None:
        happens(plan)
    assert execution._may_still(plan, world.outside.tool, owner(plan)) is (happens is None)


def test_a_call_that_is_under_way_is_not_noted_as_uncertain(world: World) -> None:
    plan = under_way(world)
    later = timezone.now() + datetime.timedelta(hours=1)
    records: list[Any] = []
    for state, lease in ((PlanState.EXECUTING, later), (PlanState.EXECUTED, plan.lease_until)):
        Plan.objects.filter(pk=plan.pk).update(state=state, lease_until=lease)
        execution._note_uncertain(decisions.current(plan.pk), records)
        assert (Plan.objects.get(pk=plan.pk).state, records) == (state, [])


# -- the end -----------------------------------------------------------------------------------------------


def test_an_end_is_recorded_under_the_plans_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, held = execution.lock_rows, list[Any]()
    other = world.propose()
    plan = uncertain(world)

    def lock(rows: Any) -> Any:
        held.extend(real(rows))
        return rows

    monkeypatch.setattr(execution, "lock_rows", lock)
    assert execution.finish(plan.pk, world.outside.tool, PlanState.EXECUTED, attempt=plan.attempts)
    assert held == [plan] != [stored(other)]


def test_a_settling_step_that_fails_leaves_nothing_of_itself(world: World) -> None:
    plan = uncertain(world)
    world.outside.settling = raised(LookupError("zqx"))
    assert not execution.finish(plan.pk, world.outside.tool, PlanState.EXECUTED, attempt=plan.attempts)
    assert (stored({"id": plan.pk}).state, world.outside.reserved) == ("uncertain", ["pending"])
    assert Memo.objects.count() == 1


def test_an_end_that_can_not_even_be_recorded_as_unknown_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = under_way(world)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise LookupError("zqx")

    monkeypatch.setattr("django_copilot.audit.append", fail)
    with pytest.raises(LookupError, match="zqx"):
        execution.finish(plan.pk, world.outside.tool, PlanState.UNCERTAIN, attempt=plan.attempts)
    assert stored({"id": plan.pk}).state == "executing"


# -- by a person -------------------------------------------------------------------------------------------


def settle(plan: Plan, by: Any) -> Any:
    return execution.settle(plan, by, outcome="failed", reason="They told me so.")


FINDING_OUT = {"look up": execution.look_up, "settle": settle}


def refusal(what: str, plan: Plan, by: Any) -> tuple[int, str]:
    with pytest.raises(Denied) as caught:
        FINDING_OUT[what](decisions.current(plan.pk), by)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("what", FINDING_OUT)
def test_finding_out_is_for_a_person_who_acts_for_herself(world: World, what: str) -> None:
    plan = uncertain(world)
    by = approver_of(plan)
    assert refusal(what, plan, dataclasses.replace(by, impersonated=True)) == (403, "impersonated")
    assert refusal(what, plan, dataclasses.replace(by, key="")) == (403, "service_account")
    assert (world.outside.asked, stored({"id": plan.pk}).state) == ([], "uncertain")


@pytest.mark.parametrize("what", FINDING_OUT)
def test_of_a_tool_that_is_gone_nothing_can_be_found_out(world: World, what: str) -> None:
    plan = uncertain(world)
    write._registry.clear()
    assert refusal(what, plan, approver_of(plan)) == (409, "tool_changed")


@pytest.mark.parametrize("what", FINDING_OUT)
def test_of_what_is_under_way_or_over_nothing_has_to_be_found_out(world: World, what: str) -> None:
    plan = under_way(world)
    later = timezone.now() + datetime.timedelta(hours=1)
    for state in (PlanState.EXECUTING, PlanState.EXECUTED, PlanState.FAILED, PlanState.PROPOSED):
        Plan.objects.filter(pk=plan.pk).update(state=state, lease_until=later, expires_at=later)
        assert refusal(what, plan, approver_of(plan)) == (409, "not_uncertain")


def test_that_nobody_heard_of_it_is_stored_by_who_asks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = under_way(world)
    world.outside.knows = said(None)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise LookupError("zqx")

    with monkeypatch.context() as patch:
        patch.setattr("django_copilot.audit.append", fail)
        with pytest.raises(LookupError):
            execution.look_up(plan, owner(plan))
    assert stored({"id": plan.pk}).state == "executing"  # without the audit it is not
    assert execution.look_up(decisions.current(plan.pk), owner(plan)) is False
    assert (stored({"id": plan.pk}).state, stored({"id": plan.pk}).code) == ("uncertain", "lease_over")
    assert ("uncertain", "lease_over") in audited({"id": plan.pk})


def test_what_the_other_system_did_and_could_not_be_recorded_is_not_settled_as_failed(world: World) -> None:
    plan = uncertain(world)
    world.outside.settling = raised(LookupError("zqx"))
    assert refusal("settle", plan, approver_of(plan)) == (409, "no_answer")
    assert (stored({"id": plan.pk}).state, world.outside.reserved) == ("uncertain", ["pending"])


# -- the inbox ---------------------------------------------------------------------------------------------


def test_an_inbox_holds_what_is_hers_and_what_waits_for_her(inside: tools.World, login: Any) -> None:
    relabel(approval=Always())
    open_one, over = (stored(inside.propose(name)) for name in ("Kari", "Nils"))
    waiting = stored(inside.propose("Siri"))
    decide(inside.client, {**waiting_urls(inside, waiting), "digest": waiting.digest}, "confirm")
    Plan.objects.filter(pk=over.pk).update(state=PlanState.REJECTED)
    mine = owner(open_one)
    grant(mine.user, "django_copilot.approve_plan")
    mine = decider(open_one, User.objects.get(pk=mine.user.pk))
    assert list(inbox.own_waiting(mine)) == [open_one]
    assert inbox.own_latest(mine) == [waiting, over]
    assert inbox.to_approve(mine) == []  # they are her own
    approver = approver_of(waiting)
    assert [list(inbox.own_waiting(approver)), inbox.own_latest(approver)] == [[], []]
    assert inbox.to_approve(approver) == [waiting]
    assert inbox.to_approve(decider(waiting, User.objects.get(username="viewer"))) == []
    lost = dataclasses.replace(approver, scope=dataclasses.replace(approver.scope, keys={"tenant": "acme"}))
    assert inbox.to_approve(lost) == []
    Plan.objects.filter(pk=waiting.pk).update(state=PlanState.EXECUTED)
    assert inbox.to_approve(approver) == []


def test_what_is_claimed_is_in_the_inbox_once_its_lease_is_over(world: World) -> None:
    plan, later = under_way(world), timezone.now() + datetime.timedelta(hours=1)
    by = owner(plan)
    assert list(inbox.own_waiting(by)) == [plan]
    for state, lease in ((PlanState.EXECUTING, later), (PlanState.EXECUTED, plan.lease_until)):
        Plan.objects.filter(pk=plan.pk).update(state=state, lease_until=lease)
        assert list(inbox.own_waiting(by)) == []
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.UNCERTAIN)
    assert list(inbox.own_waiting(by)) == [plan]
    Plan.objects.filter(pk=plan.pk).update(kind=PlanKind.FORM)
    assert list(inbox.own_waiting(by)) == []


def test_an_inbox_is_of_one_site_and_one_scope(inside: tools.World) -> None:
    plan = stored(inside.propose())
    by = owner(plan)
    assert list(inbox.own_waiting(by)) == [plan]
    for elsewhere in ({"site": "other"}, {"keys": {"tenant": "acme"}}):
        there = dataclasses.replace(by, scope=dataclasses.replace(by.scope, **elsewhere))
        assert list(inbox.own_waiting(there)) == []
        assert inbox.own_latest(there) == []


def waiting_urls(world: tools.World, plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = world.client.get(
        f"/admin/django_copilot/plan/{plan.pk}/", headers=tools.JSON
    ).json()
    return found


def test_who_may_not_approve_is_asked_of_no_plan(
    inside: tools.World, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    relabel(approval=Always())
    plan = propose(inside.client, "relabel", {"order": inside.order.number, "name": "Kari"})
    assert outcome(decide(inside.client, plan, "confirm")) == (200, "awaiting_approval")
    viewer = decider(stored(plan), User.objects.get(username="viewer"))
    viewer.user.has_perm("django_copilot.approve_plan")  # what is asked of her is asked now
    with django_assert_num_queries(0):
        assert inbox.to_approve(viewer) == []
