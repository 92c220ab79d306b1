"""What decisions refuse, asked of them directly: the pages in front of them look at much of it before."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, User
from django.db import OperationalError, transaction
from django.utils import timezone

from django_copilot import Above, Always, Never, Preview, write_tool
from django_copilot.exceptions import Denied
from django_copilot.models import Plan, PlanKind, PlanState
from django_copilot.plans import decisions, rights
from django_copilot.plans.deciders import Decider
from django_copilot.scope import Scope
from example_project.store.models import Order

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


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


def decider(plan: Plan, user: Any, **changed: Any) -> Decider:
    """Return somebody who decides in the plan's own place."""
    made = Decider(
        user=user,
        key=str(user.pk or ""),
        real_key="",
        impersonated=False,
        site=admin.site,
        scope=Scope.from_json(plan.scope),
    )
    return dataclasses.replace(made, **changed)


def owner(plan: Plan, **changed: Any) -> Decider:
    return decider(plan, plan.user, **changed)


Decide = Callable[[Plan, Decider], Plan]
DECIDING: dict[str, Decide] = {
    "confirm": lambda plan, by: decisions.confirm(plan.pk, plan.digest, by),
    "approve": lambda plan, by: decisions.approve(plan.pk, plan.digest, by),
    "reject": lambda plan, by: decisions.reject(plan.pk, "no", by),
}


def code_of(what: str, plan: Plan, by: Decider) -> tuple[int, str]:
    """Return status and code with which a decision is refused."""
    before = Plan.objects.values_list("state", flat=True).get(pk=plan.pk)
    with pytest.raises(Denied) as caught:
        DECIDING[what](plan, by)
    assert Plan.objects.values_list("state", flat=True).get(pk=plan.pk) == before
    return caught.value.status, caught.value.code


NOWHERE = (404, "not_found")


# -- whose plan it is, and where --------------------------------------------------------------------------


@pytest.mark.parametrize("what", DECIDING)
def test_a_plan_is_there_for_its_owner_on_its_site_and_in_its_scope(world: World, what: str) -> None:
    plan = stored(world.propose())
    here = Scope.from_json(plan.scope)
    elsewhere = {
        "another site": owner(plan, scope=dataclasses.replace(here, site="other")),
        "another scope": owner(plan, scope=dataclasses.replace(here, keys={"tenant": "acme"})),
        "somebody else": decider(plan, User.objects.get(username="viewer")),
        "nobody": decider(plan, AnonymousUser()),
    }
    assert {name: code_of(what, plan, by) for name, by in elsewhere.items()} == dict.fromkeys(
        elsewhere, NOWHERE
    )
    gone = Plan(pk=uuid.uuid4(), digest=plan.digest)
    with pytest.raises(Denied) as caught:
        DECIDING[what](gone, owner(plan))
    assert (caught.value.status, caught.value.code) == NOWHERE


@pytest.mark.parametrize("what", DECIDING)
def test_a_form_that_was_proposed_is_not_decided_like_a_plan_of_a_tool(world: World, what: str) -> None:
    plan = stored(world.propose())
    Plan.objects.filter(pk=plan.pk).update(kind=PlanKind.FORM)
    assert code_of(what, plan, owner(plan)) == NOWHERE


@pytest.mark.parametrize("what", DECIDING)
def test_a_plan_without_an_owner_is_nobodys(world: World, what: str) -> None:
    """Whose account is gone has no key, and neither has who is not logged in."""
    plan = stored(world.propose())
    Plan.objects.filter(pk=plan.pk).update(user=None)
    assert code_of(what, plan, decider(plan, AnonymousUser())) == NOWHERE


# -- who sees that there is one ---------------------------------------------------------------------------

AT = timezone.now()
# needs approval, confirmed at, state, approved by, decided by: seen by who may approve
SEEN = [
    (False, None, "proposed", "", "", False),
    (True, None, "proposed", "", "", False),
    (True, AT, "awaiting_approval", "", "", True),
    (True, AT, "executed", "", "", True),
    (False, AT, "executed", "", "", False),
    (False, AT, "executing", "", "", True),
    (False, None, "executing", "", "", False),
    (False, AT, "uncertain", "", "", True),
    (False, AT, "failed", "", "her", True),
    (False, AT, "executed", "her", "", True),
    (False, AT, "failed", "", "other", False),
]


@pytest.mark.parametrize(("needs", "at", "state", "approved", "decided", "seen"), SEEN)
def test_another_persons_plan_is_seen_by_who_may_approve_while_it_concerns_her(
    db: None, needs: bool, at: Any, state: str, approved: str, decided: str, seen: bool
) -> None:
    her, other = staff("anna", "django_copilot.approve_plan"), staff("bert")
    keys = {"her": str(her.pk), "other": "0", "": ""}
    plan = Plan(
        user_id=other.pk,
        needs_approval=needs,
        confirmed_at=at,
        state=PlanState(state),
        approved_by=keys[approved],
        decided_by=keys[decided],
    )
    assert rights.is_visible(plan, her) is seen
    assert rights.is_visible(plan, other) is True
    assert rights.is_visible(plan, staff("carl")) is False
    plan.user_id = None
    assert rights.is_visible(plan, AnonymousUser()) is False


# -- what was noticed is kept -----------------------------------------------------------------------------


def test_a_refused_decision_is_in_the_audit(world: World) -> None:
    plan = world.propose()
    assert outcome(decide(world.client, plan, "confirm", digest="0" * 64)) == (409, "digest_mismatch")
    assert audited(plan)[-1] == ("refused", "digest_mismatch")


@pytest.mark.parametrize("what", ["confirm", "reject"])
def test_that_its_time_is_over_is_stored_by_who_notices_it_first(world: World, what: str) -> None:
    plan = world.propose()
    let_pass(plan, "expires_at")
    assert outcome(decide(world.client, plan, what)) == (409, "expired")
    assert stored(plan).state == "expired"
    assert ("expired", "") in audited(plan)


def test_that_the_time_to_approve_is_over_is_stored_too(store: Any, tool: Any, login: Any) -> None:
    world = World(login)
    relabel(approval=Always(), name="strictly")
    plan = stored(world.propose())
    Plan.objects.filter(pk=plan.pk).update(
        state=PlanState.AWAITING_APPROVAL,
        needs_approval=True,
        confirmed_by=str(plan.user_id),
        confirmed_at=timezone.now(),
        approve_by=timezone.now() - datetime.timedelta(seconds=1),
    )
    approver = decider(plan, User.objects.get(username="manager2"))
    grant(approver.user, "django_copilot.approve_plan")
    with pytest.raises(Denied) as caught:
        decisions.approve(plan.pk, plan.digest, approver)
    assert caught.value.code == "expired"
    assert Plan.objects.get(pk=plan.pk).state == "expired"


def test_a_plan_that_was_declined_is_declined_once(world: World) -> None:
    plan = world.propose()
    assert [outcome(decide(world.client, plan, "reject")) for _ in range(2)] == [(200, "rejected")] * 2
    assert [event for event, _code in audited(plan)].count("rejected") == 1


def test_a_plan_that_was_carried_out_gives_itself_again(world: World) -> None:
    plan = world.propose()
    assert [outcome(decide(world.client, plan, "confirm")) for _ in range(2)] == [(200, "executed")] * 2
    assert [event for event, _code in audited(plan)].count("executed") == 1
    assert decisions.confirm(plan["id"], plan["digest"], owner(stored(plan))).state == "executed"
    assert "refused" not in [event for event, _code in audited(plan)]


def test_an_ordinary_person_has_nobody_behind_her(rf: Any, world: World) -> None:
    request = rf.get("/")
    request.user, request.session = User.objects.get(username="support"), {}
    by = Decider.of(request, admin.site, Scope(site="admin"))
    assert (by.real_key, by.impersonated, by.key) == ("", False, str(request.user.pk))


# -- who decides, and what goes wrong meanwhile -----------------------------------------------------------


def approver_of(plan: Plan, **changed: Any) -> Decider:
    """Return a second person who could approve the plan."""
    return decider(plan, User.objects.get(username="manager2"), **changed)


def waiting(world: World) -> Plan:
    """Return a plan that its owner has confirmed and that waits for a second person."""
    relabel(approval=Always())
    plan = world.propose()
    assert outcome(decide(world.client, plan, "confirm")) == (200, "awaiting_approval")
    return stored(plan)


@pytest.mark.parametrize("what", DECIDING)
def test_who_acts_as_somebody_else_or_is_no_person_decides_nothing(world: World, what: str) -> None:
    plan = waiting(world) if what != "confirm" else stored(world.propose())
    who = owner if what == "confirm" else approver_of
    for changed, code in (({"impersonated": True}, "impersonated"), ({"key": ""}, "service_account")):
        assert code_of(what, plan, who(plan, **changed)) == (403, code)
        assert audited({"id": plan.pk})[-1] == ("refused", code)
    DECIDING[what](plan, who(plan))  # and else she may


def test_her_own_she_declines_whoever_she_is(world: World) -> None:
    plan = stored(world.propose())
    assert decisions.reject(plan.pk, "no", owner(plan, impersonated=True)).state == "rejected"


@pytest.mark.parametrize(
    "where", ["lock_rows", "lock_record", "gate.look_again", "gate.perform", "audit.append"]
)
def test_a_database_that_is_locked_leaves_the_plan_to_be_decided_again(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    plan = stored(world.propose())

    def locked(*args: Any, **kwargs: Any) -> Any:
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(f"django_copilot.plans.decisions.{where}", locked)
        assert code_of("confirm", plan, owner(plan)) == (409, "try_again")
    assert world.fresh().shipping_name == "Ola"
    assert decisions.confirm(plan.pk, plan.digest, owner(plan)).state == "executed"


def test_a_preview_that_breaks_the_transaction_breaks_only_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block without a savepoint of its own that fails leaves the surrounding one unusable."""
    plan = world.propose()

    def broken(self: Any, request: Any) -> Any:
        with transaction.atomic(savepoint=False):
            raise LookupError("zqx")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), "get_queryset", broken)
    with pytest.raises(Denied) as caught:
        decisions.confirm(plan["id"], plan["digest"], owner(stored(plan)))
    assert caught.value.code == "stale"
    assert (stored(plan).state, audited(plan)[-1]) == ("stale", ("refused", "stale"))


# -- what is locked and compared --------------------------------------------------------------------------


def both(ctx: Any, order: str, other: str) -> Preview:
    """Change the name on a parcel to that of another one."""
    found = ctx.get(Order, number=order)
    return Preview(found, shipping_name=f"{ctx.look_up(Order, number=other).shipping_name}!")


@pytest.mark.parametrize("moved", [0, 1])
def test_a_record_that_is_found_changed_under_the_lock_makes_it_stale_whatever_the_preview_says(
    world: World, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """A preview may see an older state of the database than the lock does."""
    write_tool(Order)(both)
    others = [world.order, order_for(number="SO-9000002")]
    plan = propose(world.client, "both", {"order": others[0].number, "other": others[1].number})
    real = decisions.record_version

    def found(obj: Any) -> str:
        return "another" if obj.pk == others[moved].pk else real(obj)

    monkeypatch.setattr(decisions, "record_version", found)
    with pytest.raises(Denied) as caught:
        decisions.confirm(plan["id"], plan["digest"], owner(stored(plan)))
    assert caught.value.code == "stale"
    assert stored(plan).state == "stale"
    assert ("stale", "stale") in audited(plan)


@pytest.mark.parametrize(
    ("approval", "locked"),
    [(Never(), False), (Always(), False), (Above(10**9), True)],
    ids=["never", "always", "above"],
)
def test_the_account_is_locked_where_other_plans_of_hers_count(
    world: World, monkeypatch: pytest.MonkeyPatch, approval: Any, locked: bool
) -> None:
    def pay(ctx: Any, order: str) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name="Paid", amount=1)

    write_tool(Order, approval=approval)(pay)
    plan = stored(propose(world.client, "pay", {"order": world.order.number}))
    real, held = decisions.lock_rows, list[Any]()

    def lock(rows: Any) -> Any:
        found = real(rows)
        held.extend(found)
        return found

    monkeypatch.setattr(decisions, "lock_rows", lock)
    decisions.confirm(plan.pk, plan.digest, owner(plan))
    assert [each for each in held if isinstance(each, User)] == ([plan.user] if locked else [])
    assert [each for each in held if isinstance(each, Plan)] == [plan]


@pytest.mark.parametrize("lost", ["copilot", "staff"])
def test_who_may_not_use_the_assistant_any_more_has_nothing_done(world: World, lost: str) -> None:
    """Neither by herself, nor by the approval of another person."""
    plans = [stored(world.propose()), waiting(world)]
    if lost == "staff":
        User.objects.filter(username="support").update(is_staff=False)
    else:
        revoke(User.objects.get(username="support"), "django_copilot.use_copilot")
    assert code_of("confirm", plans[0], owner(stored({"id": plans[0].pk}))) == (403, "not_allowed")
    assert code_of("approve", plans[1], approver_of(plans[1])) == (403, "not_allowed")
    assert world.fresh().shipping_name == "Ola"


@pytest.mark.parametrize("state", [PlanState.EXECUTING, PlanState.UNCERTAIN, PlanState.EXECUTED], ids=str)
def test_a_target_is_busy_with_what_the_same_tool_does_to_it(world: World, state: PlanState) -> None:
    mine, other = (stored(world.propose(name)) for name in ("Kari", "Nils"))
    assert not decisions._is_busy(mine)
    Plan.objects.update(state=state)
    busy = state != PlanState.EXECUTED
    assert decisions._is_busy(mine) is busy
    for name, another in (("tool", "another"), ("model", "store.product"), ("object_pk", "0")):
        held = getattr(other, name)
        Plan.objects.filter(pk=other.pk).update(**{name: another})
        assert not decisions._is_busy(mine), name
        Plan.objects.filter(pk=other.pk).update(**{name: held})
    Plan.objects.filter(pk=other.pk).update(site="other")
    assert decisions._is_busy(mine) is busy


def test_a_confirmation_is_stored_only_within_its_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked once more in the statement that stores it: what was looked at before takes time."""
    relabel(approval=Always())
    plan = world.propose()
    let_pass(plan, "expires_at")
    monkeypatch.setattr(decisions, "_why_not", lambda plan, by, digest: "")
    with pytest.raises(Denied) as caught:
        decisions.confirm(plan["id"], plan["digest"], owner(stored(plan)))
    assert caught.value.code == "expired"
    assert stored(plan).state == "proposed"
    assert stored(plan).confirmed_by == ""
