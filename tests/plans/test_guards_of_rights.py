"""Who may be a plan's second person, what can be undone or made again, and how much may wait: rule by rule."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from django_copilot import Above, Always, Preview, write_tool
from django_copilot.access import Access
from django_copilot.exceptions import CallError, Denied
from django_copilot.models import Plan, PlanKind, PlanState, Turn
from django_copilot.plans import proposals, rights, undoing
from django_copilot.scope import Scope, enter_scope
from django_copilot.tools import write
from django_copilot.tools.document import PlanDraft
from example_project.store.models import Order
from tests.tools.declared import draft_for

from .test_guards_of_plans import approver_of, decider, owner
from .tools import (
    World,
    audited,
    decide,
    grant,
    let_pass,
    order_for,
    outcome,
    propose,
    relabel,
    revoke,
    staff,
    stored,
)

APPROVES = ("django_copilot.use_copilot", "django_copilot.approve_plan")


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


@pytest.fixture
def plan(world: World) -> Plan:
    """Give a confirmed plan that waits for a second person."""
    relabel(approval=Always(), approve_permissions="store.change_payment")
    made = world.propose()
    assert outcome(decide(world.client, made, "confirm")) == (200, "awaiting_approval")
    return stored(made)


def second(plan: Plan, *more: str, **fields: Any) -> Any:
    """Return a member of staff who may do what an approver needs, and nothing else."""
    needs = (*APPROVES, "store.view_order", "store.change_payment", *more)
    return decider(plan, staff(f"anna{User.objects.count()}", *needs, **fields))


# -- the second person ------------------------------------------------------------------------------------


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everybody see orders of every region."""
    model_admin = type(admin.site.get_model_admin(Order))
    monkeypatch.setattr(model_admin, "get_queryset", lambda self, request: Order.objects.all())


@pytest.mark.usefixtures("everywhere")
def test_the_second_person_is_another_one_with_the_rights(plan: Plan) -> None:
    assert rights.why_not_approver(plan, second(plan)) == ""


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("name", ["confirmed_by", "proposed_by"])
def test_whoever_had_to_do_with_it_is_no_second_person(plan: Plan, name: str) -> None:
    by = second(plan)
    setattr(plan, name, by.key)
    assert rights.why_not_approver(plan, by) == "own_plan"


@pytest.mark.usefixtures("everywhere")
def test_whose_plan_it_is_and_who_can_not_be_named_approve_nothing(plan: Plan) -> None:
    by = second(plan)
    plan.user_id = by.user.pk
    assert rights.why_not_approver(plan, by) == "own_plan"
    plan.user_id, plan.proposed_by = None, "?"
    assert rights.why_not_approver(plan, by) == "own_plan"


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("without", ["django_copilot.approve_plan", "store.change_payment"])
def test_the_second_person_needs_the_right_to_approve_and_the_tools_own(plan: Plan, without: str) -> None:
    names = {*APPROVES, "store.view_order", "store.change_payment"} - {without}
    assert rights.why_not_approver(plan, decider(plan, staff("anna", *names))) == "not_allowed"


@pytest.mark.usefixtures("everywhere")
def test_the_second_person_is_of_the_staff_and_in_the_scope(plan: Plan) -> None:
    by = second(plan)
    User.objects.filter(pk=by.user.pk).update(is_staff=False)
    assert rights.why_not_approver(plan, by) == "not_allowed"
    User.objects.filter(pk=by.user.pk).update(is_staff=True)
    lost = dataclasses.replace(by, scope=dataclasses.replace(by.scope, keys={"tenant": "acme"}))
    assert rights.why_not_approver(plan, lost) == "not_allowed"
    write._registry.clear()
    assert rights.why_not_approver(plan, by) == "not_allowed"


# -- whether she sees all of it ---------------------------------------------------------------------------


def sees(plan: Plan, user: Any) -> bool:
    with enter_scope(Scope.from_json(plan.scope), user.pk) as request:
        return rights.sees_all(plan, Access(admin.site, request))


def test_who_sees_each_record_and_field_sees_all(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = User.objects.get(username="manager")
    assert sees(plan, manager)
    assert not sees(plan, staff("anna"))  # who may do nothing with orders
    assert not sees(plan, staff("bert", "store.add_order"))  # or not see them
    Order.objects.filter(pk=plan.object_pk).update(region="south")
    assert not sees(plan, plan.user)
    assert sees(plan, manager)
    model_admin = type(admin.site.get_model_admin(Order))
    with monkeypatch.context() as patch:
        patch.setattr(model_admin, "get_fieldsets", lambda *args: [(None, {"fields": ["number"]})])
        patch.setattr(model_admin, "list_display", ["number"])
        assert not sees(plan, manager)
    Order.objects.filter(pk=plan.object_pk).delete()
    assert sees(plan, manager)  # nothing can be done to it any more
    plan.document["records"][0]["model"] = "store.nothing"
    assert not sees(plan, manager)


# -- finding one ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, True),
        ({"site": "other"}, False),
        ({"scope_key": "other"}, False),
        ({"kind": PlanKind.FORM}, False),
        ({"user": None}, False),
    ],
    ids=str,
)
def test_a_plan_is_found_here_and_by_its_own(world: World, values: Any, found: bool) -> None:
    plan, other = stored(world.propose()), stored(world.propose("Nils"))
    by = owner(plan)
    Plan.objects.filter(pk=plan.pk).update(**values)
    for ident in (plan.pk, str(plan.pk)):
        assert (rights.find(ident, by) == plan) is found
    assert rights.find(str(other.pk), by) == other
    for ident in (uuid.uuid4(), "x", None, 7):
        assert rights.find(ident, by) is None


# -- what can be undone -----------------------------------------------------------------------------------

UNDOABLE: dict[str, Callable[[Plan], Any]] = {
    "not carried out": lambda plan: setattr(plan, "state", "failed"),
    "not said to be reversible": lambda plan: plan.document.update(reversible=False),
    "without changes": lambda plan: plan.document.update(changes=[]),
    "an undo itself": lambda plan: setattr(plan, "undo_of_id", plan.pk),
    "the tool is gone": lambda plan: write._registry.clear(),
    "the tool is not reversible any more": lambda plan: setattr(
        write._registry["relabel"], "reversible", False
    ),
    "the tool has a way of its own": lambda plan: write._registry["relabel"].apply(lambda c, p, g: None),
    "the tool asks another system": lambda plan: write._registry["relabel"].call(lambda p, k: {}),
}


@pytest.mark.parametrize("why", ["", *UNDOABLE])
def test_a_plan_can_be_undone_unless_something_is_against_it(world: World, why: str) -> None:
    made = world.propose()
    decide(world.client, made, "confirm")
    plan = stored(made)
    UNDOABLE.get(why, lambda plan: None)(plan)
    assert undoing.can_be_undone(plan) is (why == "")


def code_of(act: Callable[..., Any], *args: Any) -> tuple[int, str]:
    with pytest.raises(Denied) as caught:
        act(*args)
    return caught.value.status, caught.value.code


@pytest.mark.parametrize("act", [undoing.undo, undoing.again], ids=lambda act: act.__name__)
def test_a_new_plan_is_made_by_its_owner_who_acts_for_herself(world: World, act: Any) -> None:
    made = world.propose()
    if act is undoing.undo:
        decide(world.client, made, "confirm")
    else:
        let_pass(made, "expires_at")
    plan = stored(made)
    assert code_of(act, plan, approver_of(plan)) == (404, "not_found")
    assert code_of(act, plan, owner(plan, impersonated=True)) == (403, "impersonated")
    assert code_of(act, plan, owner(plan, key="")) == (403, "service_account")
    revoke(User.objects.get(username="support"), "django_copilot.use_copilot")
    assert code_of(act, plan, owner(plan)) == (403, "not_allowed")
    grant(User.objects.get(username="support"), "django_copilot.use_copilot")
    lost = stored(made)
    lost.scope = {**lost.scope, "keys": {"tenant": "acme"}}
    assert code_of(act, lost, owner(plan)) == (409, "scope_unavailable")
    assert act(plan, owner(plan)).state == "proposed"
    plan.user_id = None
    assert code_of(act, plan, decider(plan, User(pk=None))) == (404, "not_found")


def test_an_undo_that_is_open_is_given_again_and_one_that_is_over_is_not(world: World) -> None:
    made = world.propose()
    decide(world.client, made, "confirm")
    plan = stored(made)
    first = undoing.undo(plan, owner(plan))
    assert undoing.undo(plan, owner(plan)) == first
    let_pass({"id": first.pk}, "expires_at")
    other = undoing.undo(plan, owner(plan))
    assert other != first
    assert Plan.objects.get(pk=first.pk).state == "expired"
    assert ("expired", "") in audited({"id": first.pk})


def test_of_two_undos_made_at_once_there_is_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world.propose()
    decide(world.client, made, "confirm")
    plan = stored(made)
    real = undoing._store

    def second_comes_first(plan: Plan, draft: Any, by: Any, **more: Any) -> Any:
        real(plan, draft, by, **more)
        raise IntegrityError

    monkeypatch.setattr(undoing, "_store", second_comes_first)
    assert undoing.undo(plan, owner(plan)).undo_of == plan
    assert Plan.objects.filter(undo_of=plan).count() == 1


def test_what_is_over_is_made_again_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world.propose()
    let_pass(made, "expires_at")
    plan = stored(made)
    fresh = undoing.again(plan, owner(plan))
    assert (fresh.made_from, Plan.objects.get(pk=plan.pk).state) == (plan, "expired")
    assert ("expired", "") in audited(made)
    assert undoing.again(stored(made), owner(plan)) == fresh
    Plan.objects.filter(pk=fresh.pk).update(state=PlanState.REJECTED)
    older, fresh = fresh, undoing.again(stored(made), owner(plan))
    assert fresh != older  # which can't be decided on any more
    # Somebody was faster: it is found under the lock.
    found = iter([None, fresh])
    monkeypatch.setattr(undoing, "_made_from", lambda plan: next(found))
    assert undoing.again(stored(made), owner(plan)) == fresh
    assert Plan.objects.filter(made_from=plan).count() == 2


def test_a_second_click_gives_the_new_plan_though_it_could_not_be_made_any_more(world: World) -> None:
    made = world.propose()
    let_pass(made, "expires_at")
    plan = stored(made)
    fresh = undoing.again(plan, owner(plan))
    write._registry.clear()
    assert undoing.again(stored(made), owner(plan)) == fresh


def test_a_plan_that_is_decided_while_it_is_made_again_stays_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.propose()
    let_pass(made, "expires_at")
    plan, real, held = stored(made), undoing.lock_rows, list[Any]()
    world.propose("Nils")

    def lock(rows: Any) -> Any:
        held.extend(real(rows))
        Plan.objects.filter(pk=plan.pk).update(state=PlanState.REJECTED)

    monkeypatch.setattr(undoing, "lock_rows", lock)
    assert code_of(undoing.again, plan, owner(plan)) == (409, "try_again")
    assert held == [plan]
    assert not Plan.objects.filter(made_from=plan).exists()


@pytest.mark.parametrize("what", ["undo", "again", "store"])
def test_without_the_audit_nothing_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    made = world.propose()
    if what == "again":
        let_pass(made, "expires_at")
    else:
        decide(world.client, made, "confirm")
    plan = stored(made)
    if what == "undo":
        let_pass({"id": undoing.undo(plan, owner(plan)).pk}, "expires_at")
    before = list(Plan.objects.order_by("pk").values_list("pk", "state"))

    def fail(*args: Any, **kwargs: Any) -> None:
        raise LookupError("zqx")

    monkeypatch.setattr("django_copilot.audit.append", fail)
    with pytest.raises(LookupError):
        (undoing.again if what == "again" else undoing.undo)(plan, owner(plan))
    assert list(Plan.objects.order_by("pk").values_list("pk", "state")) == before


def test_what_is_open_or_was_done_and_an_undo_are_not_made_again(world: World) -> None:
    plan = stored(world.propose())
    for state in PlanState:
        Plan.objects.filter(pk=plan.pk).update(state=state)
        if state not in (PlanState.EXPIRED, PlanState.STALE):
            assert code_of(undoing.again, stored({"id": plan.pk}), owner(plan)) == (409, "not_again")
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.STALE, undo_of=plan)
    assert code_of(undoing.again, stored({"id": plan.pk}), owner(plan)) == (409, "not_again")


# -- how much may wait ------------------------------------------------------------------------------------


@pytest.fixture
def draft(world: World) -> PlanDraft:
    return draft_for("support", "relabel", {"order": world.order.number, "name": "Kari"})


def refused(check: Callable[[], None]) -> str:
    try:
        check()
    except CallError as error:
        return error.code
    return ""


@pytest.mark.parametrize("state", PlanState, ids=str)
@pytest.mark.parametrize("other", ["", "tool", "model", "object_pk"])
def test_a_record_is_busy_with_the_same_tool_only(
    world: World, draft: PlanDraft, state: PlanState, other: str
) -> None:
    values = {"": {}, "tool": {"tool": "x"}, "model": {"model": "x.y"}, "object_pk": {"object_pk": "0"}}[
        other
    ]
    plan = stored(world.propose("Nils"))
    Plan.objects.filter(pk=plan.pk).update(state=state, user=None, **values)
    busy = not other and state in (PlanState.EXECUTING, PlanState.UNCERTAIN)
    assert refused(lambda: proposals.check_room(plan.user_id, draft)) == ("operation_open" if busy else "")


SOON, AGO = (timezone.now() + datetime.timedelta(hours=n) for n in (1, -1))


@pytest.mark.parametrize(
    ("values", "waits"),
    [
        ({}, True),
        ({"expires_at": AGO}, False),
        ({"state": PlanState.REJECTED}, False),
        ({"kind": PlanKind.FORM}, False),
        ({"user": None}, False),
        ({"state": PlanState.AWAITING_APPROVAL, "approve_by": SOON, "expires_at": AGO}, True),
        ({"state": PlanState.AWAITING_APPROVAL, "approve_by": AGO}, False),
        ({"state": PlanState.EXECUTED, "approve_by": SOON}, False),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)
def test_only_so_many_of_her_plans_wait(
    world: World, draft: PlanDraft, monkeypatch: pytest.MonkeyPatch, values: Any, waits: bool
) -> None:
    monkeypatch.setattr(proposals, "MAX_WAITING", 1)
    plan = stored(world.propose("Nils"))
    Plan.objects.filter(pk=plan.pk).update(**values)
    assert refused(lambda: proposals.check_room(plan.user_id, draft)) == ("too_many_waiting" if waits else "")


@pytest.mark.parametrize(
    ("values", "declined"),
    [({}, True), ({"tool": "x"}, False), ({"state": PlanState.EXPIRED}, False), ({"turn": None}, False)],
    ids=str,
)
def test_what_she_has_declined_in_this_turn_is_not_proposed_again(
    world: World, draft: PlanDraft, values: Any, declined: bool
) -> None:
    plan = stored(world.propose())
    turn = Turn.objects.get(pk=plan.turn_id)
    Plan.objects.filter(pk=plan.pk).update(**{"state": PlanState.REJECTED, **values})
    assert refused(lambda: proposals.check_repeat(turn, draft)) == ("declined_before" if declined else "")
    Plan.objects.filter(pk=plan.pk).update(arguments_key="another")
    assert refused(lambda: proposals.check_repeat(turn, draft)) == ""


def test_three_that_she_has_declined_are_enough(world: World, draft: PlanDraft) -> None:
    plan = stored(world.propose())
    turn = Turn.objects.get(pk=plan.turn_id)
    for number in range(3):
        assert refused(lambda: proposals.check_repeat(turn, draft)) == ""
        made = stored(world.propose(f"Nils {number}"))
        Plan.objects.filter(pk=made.pk).update(turn=turn, state=PlanState.REJECTED)
    assert refused(lambda: proposals.check_repeat(turn, draft)) == "declined_too_often"


def test_a_turn_waits_for_the_plan_in_place_of_its_own(world: World, draft: PlanDraft) -> None:
    plan = stored(world.propose())
    first = uuid.UUID(int=0)  # before every other one, in the order of keys
    Turn.objects.create(pk=first, user=plan.user, state="waiting", stored={"plan": "x"}, deadline=SOON)
    turn = Turn.objects.get(pk=plan.turn_id)
    assert (turn.state, turn.stored["plan"]) == ("waiting", str(plan.pk))
    by = owner(plan)
    fresh = proposals.remake(plan, draft, by=by)
    assert Turn.objects.get(pk=turn.pk).stored["plan"] == str(fresh.pk)
    proposals.remake(plan, draft, by=by)  # it waits for another one by now
    assert Turn.objects.get(pk=turn.pk).stored["plan"] == str(fresh.pk)
    Turn.objects.filter(pk=turn.pk).update(state="done")
    proposals.remake(fresh, draft, by=by)
    assert Turn.objects.get(pk=turn.pk).stored["plan"] == str(fresh.pk)
    fresh.turn = None
    assert proposals.remake(fresh, draft, by=by).turn is None


def test_a_plan_that_nobody_can_decide_on_has_ended(world: World, draft: PlanDraft) -> None:
    plan = stored(world.propose())
    given = {
        "scope": Scope.from_json(plan.scope),
        "user_pk": plan.user_id,
        "turn": None,
        "conversation": None,
    }
    assert proposals.store_plan(draft, **given).ended_at is None
    assert proposals.store_plan(draft, **given, state=PlanState.REJECTED).ended_at is not None
    assert [audited({"id": each.pk}) for each in Plan.objects.filter(turn=None)] == [[("proposed", "")]] * 2


def test_amounts_and_windows_are_the_tools_own(world: World) -> None:
    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid", amount=1)

    write_tool(Order, approval=Above(10**9), confirm_within=datetime.timedelta(days=3))(pay)
    client = world.client
    long = stored(propose(client, "pay", {"order": order_for(number="SO-9000002").number}))
    short = stored(world.propose())
    assert long.expires_at - short.expires_at > datetime.timedelta(days=2)
