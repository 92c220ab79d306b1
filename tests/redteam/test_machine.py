"""The state machine finds nothing in the product, and finds what is broken on purpose."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test.utils import override_settings

from django_copilot import audit, gate
from django_copilot.access import Access
from django_copilot.api import decisions as pages
from django_copilot.models import AuditEntry, Conversation, Plan, PlanState
from django_copilot.plans import decisions, execution, rights, states
from django_copilot.plans.deciders import Decider
from django_copilot.redteam.canaries import Canaries
from django_copilot.redteam.machine import lives, meddling
from django_copilot.redteam.machine import rules as machine
from django_copilot.redteam.machine.following import Broken
from django_copilot.redteam.machine.lives import Facts, Life, allowed, leads
from django_copilot.redteam.machine.steps import Example
from django_copilot.redteam.machine.surroundings import Surroundings, surroundings, undone
from django_copilot.redteam.people import Actor, find_actors
from django_copilot.redteam.report import Report
from django_copilot.redteam.world import NotRun, World
from example_project.store import redteam
from example_project.store.models import Order, Refund


@pytest.fixture
def world(store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(machine, "SHRINKING", 0.0)
    monkeypatch.setattr(settings, "STORE_GATEWAY_URL", "http://127.0.0.1:9")
    with override_settings(COPILOT={**settings.COPILOT, "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}):
        yield World(seed=1, actors=find_actors(), canaries=Canaries(), injections=["x"], project=redteam)


def test_nothing_is_found_and_plans_are_carried_out_and_all_is_as_before(world: World) -> None:
    before = [each.objects.count() for each in (Plan, AuditEntry, Refund)]
    machine.run(world, number=1, calls=200)
    report = world.report
    assert not report.findings, report.as_text()
    assert report.counts["steps of the machine"] >= 150
    assert sum(count for what, count in report.counts.items() if what.startswith("plans carried out")) >= 3
    assert [each.objects.count() for each in (Plan, AuditEntry, Refund)] == before


def test_the_same_seed_plays_the_same(world: World) -> None:
    world.project = FewCalls
    played = []
    for _each in range(2):
        world.report = Report()
        machine.run(world, number=3, calls=60)
        played.append(dict(world.report.counts))
    assert played[0] == played[1]


def test_it_is_not_run_without_hypothesis_or_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.project = None
    with pytest.raises(NotRun, match="calls"):
        machine.run(world, number=0, calls=25)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(NotRun, match="redteam"):
        machine.run(world, number=0, calls=25)


# -- each check can fail: one guard taken away, one short way through it ---------------------------------------


class FewCalls:
    """Two calls of tools on one order of the north, one of them for the second person."""

    @staticmethod
    def calls() -> Iterator[tuple[str, dict[str, Any]]]:
        payment = (
            Order.objects.filter(
                region="north",
                customer__vip=False,
                status="paid",
                payments__amount_cents__gt=12_000,
                payments__gateway_reference__gt="",
            )
            .order_by("pk")
            .values_list("number", flat=True)
        )[0]
        yield "refund_payment", {"order": payment, "amount_cents": 900, "reason": "damaged"}
        yield "refund_payment", {"order": payment, "amount_cents": 12_000, "reason": "damaged"}
        yield (
            "change_shipping_address",
            {"order": payment, "street": "Long Street 1", "postal_code": "00-001", "city": "Warsaw"},
        )


class Play:
    """One example, played by hand."""

    def __init__(self, around: Surroundings) -> None:
        self.around, self.example = around, Example(around)

    def who(self, name: str) -> Actor:
        return next(each for each in self.around.people if each.name == name)

    def offer(self, tool: str, needs_approval: bool = False) -> Any:
        return next(
            each for each in self.around.offers if (each.tool, each.needs_approval) == (tool, needs_approval)
        )

    def plan(self, tool: str, name: str = "support", needs_approval: bool = False) -> Life:
        """Have somebody ask, and return the plan."""
        known = len(self.example.lives)
        self.example.ask(
            self.who(name), self.offer(tool, needs_approval), how=0, extra={}, again=False, behind=False
        )
        self.example.check()
        assert len(self.example.lives) == known + 1
        return list(self.example.lives.values())[-1]

    def decide(self, name: str, life: Life, what: str, **given: Any) -> None:
        """Decide, and look at what came of it. Raises Broken."""
        self.example.decide(self.who(name), life, what, **{"digest": life.digest, **given})
        self.example.check()

    def found(self, oracle: int, name: str, life: Life, what: str, **given: Any) -> str:
        """Return what is found of a decision."""
        with pytest.raises(Broken) as caught:
            self.decide(name, life, what, **given)
        assert caught.value.oracle == oracle
        return caught.value.what


@pytest.fixture
def play(world: World) -> Iterator[Play]:
    world.project = FewCalls
    with surroundings(world, world.rng("machine", 0)) as around, undone():
        yield Play(around)


def without(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, instead: Callable[..., Any]) -> None:
    """Put something in the place of a check."""
    monkeypatch.setattr(place, name, instead)


def raw_move(plan: Plan, to: PlanState, *, where: Any = None, **values: Any) -> bool:
    """Move a plan whatever stands against it."""
    Plan.objects.filter(pk=plan.pk).update(state=to, **values)
    plan.state = to
    return True


def no_grant_check(grant: Any, tool: Any, **given: Any) -> Plan:
    return Plan.objects.get(pk=grant.plan_id)


def test_the_whole_way_of_a_plan_is_allowed(play: Play) -> None:
    life = play.plan("change_shipping_address")
    play.decide("support", life, "confirm")
    assert life.state == lives.EXECUTED
    play.decide("support", life, "undo")
    undo = list(play.example.lives.values())[-1]
    play.decide("support", undo, "confirm")
    assert (life.state, undo.state) == (lives.UNDONE, lives.EXECUTED)

    refund = play.plan("refund_payment", needs_approval=True)
    play.decide("support", refund, "confirm")
    assert refund.state == lives.AWAITING
    play.example.outside.how = "silent after"
    play.decide("manager2", refund, "approve")
    assert refund.state == lives.UNCERTAIN
    play.example.outside.how = "done"
    play.decide("support", refund, "confirm")
    assert (refund.state, refund.calls) == (lives.EXECUTED, 2)
    play.example.end()


def test_a_late_answer_and_a_process_that_is_gone_are_allowed(play: Play) -> None:
    late = play.plan("refund_payment")
    play.example.outside.how, play.example.meanwhile = "late", "confirm"
    play.decide("support", late, "confirm")
    assert (late.state, late.calls) == (lives.EXECUTED, 2)
    gone = play.plan("refund_payment", "manager")
    play.example.outside.how = "dies"
    play.decide("manager", gone, "confirm")
    assert gone.state == lives.EXECUTING
    play.example.pass_time(130)
    play.example.outside.how = "silent"
    play.decide("manager2", gone, "settle")
    assert gone.state == lives.FAILED
    play.example.end()


def test_another_digest_that_is_taken_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    own = decisions._why_not
    without(monkeypatch, decisions, "_why_not", lambda plan, by, digest: own(plan, by, plan.digest))
    life = play.plan("change_shipping_address")
    assert "from proposed to executed" in play.found(5, "support", life, "confirm", digest="0" * 64)


def test_a_plan_that_is_over_and_carried_out_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, decisions, "effective", lambda plan: PlanState(plan.state))
    without(monkeypatch, decisions, "move", lambda plan, to, where=None, **v: states.move(plan, to, **v))
    life = play.plan("change_shipping_address")
    play.example.pass_time(610)
    assert "from proposed to executed" in play.found(5, "support", life, "confirm")


def test_somebody_elses_confirmation_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, decisions, "_is_own", lambda plan, by: True)
    without(monkeypatch, rights, "is_visible", lambda plan, user: True)
    life = play.plan("change_shipping_address")
    assert "from proposed to failed" in play.found(5, "manager2", life, "confirm")  # the gate holds
    play.example.problems.clear()
    without(monkeypatch, gate, "_check_grant", no_grant_check)
    life = play.plan("change_shipping_address")
    assert "could confirm" in play.found(5, "manager2", life, "confirm")
    assert life.state == lives.EXECUTED


def test_the_approval_of_who_asked_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, decisions, "why_not_approver", lambda plan, by: "")
    without(monkeypatch, gate, "_check_grant", no_grant_check)
    life = play.plan("refund_payment", "manager", needs_approval=True)
    play.decide("manager", life, "confirm")
    assert life.state == lives.AWAITING
    assert play.found(5, "manager", life, "approve") != ""
    assert life.state == lives.EXECUTED


def test_a_second_person_left_out_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    life = play.plan("refund_payment", needs_approval=True)
    without(
        monkeypatch, decisions, "_await_approval", lambda work, by: raw_move(work.plan, PlanState.EXECUTED)
    )
    assert "from proposed to executed" in play.found(5, "support", life, "confirm")


def test_a_limit_that_is_not_kept_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, gate, "needs_approval", lambda *args, **given: False)
    life = play.plan("refund_payment", needs_approval=True)
    assert not life.needs_approval
    assert "from proposed to executing" in play.found(5, "support", life, "confirm")


@pytest.mark.parametrize(
    ("tool", "right"),
    [("change_shipping_address", "django_copilot.use_copilot"), ("refund_payment", "store.propose_refund")],
)
def test_rights_that_are_gone_and_not_asked_for_are_found(
    play: Play, monkeypatch: pytest.MonkeyPatch, tool: str, right: str
) -> None:
    life = play.plan(tool)
    meddling.take_permission(play.example, play.who("support"), right)
    without(monkeypatch, gate, "may_use_tool", lambda access, tool: True)
    without(monkeypatch, Access, "check_person", lambda self: None)
    without(monkeypatch, pages, "admit", lambda request, site, user: pages.scope_of(request, site))
    assert play.found(5, "support", life, "confirm") != ""


def test_a_second_call_of_another_system_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    life = play.plan("refund_payment")
    play.decide("support", life, "confirm")
    assert (life.state, life.calls) == (lives.EXECUTED, 1)
    without(monkeypatch, decisions, "_why_not", lambda plan, by, digest: "")
    without(monkeypatch, decisions, "effective", lambda plan: PlanState.UNCERTAIN)
    without(monkeypatch, execution, "move", raw_move)
    assert "went from executed to executing" in play.found(5, "support", life, "confirm")
    assert any("asked 2 times" in each.what for each in play.example.problems)


def test_a_record_that_changed_since_it_was_shown_is_found(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = play.plan("change_shipping_address")
    Order.objects.filter(pk=life.target[1]).update(shipping_name="Somebody else")
    without(monkeypatch, decisions, "_is_still_there", lambda work, by: True)
    without(
        monkeypatch, decisions, "digest_of", lambda document: Plan.objects.get(pk=document["plan"]).digest
    )
    assert "from proposed to executed" in play.found(5, "support", life, "confirm")


def test_a_service_account_that_decides_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, Decider, "check", lambda self: None)
    without(monkeypatch, gate, "_check_grant", no_grant_check)
    life = play.plan("change_shipping_address", "bot")
    assert "from proposed to executed" in play.found(5, "bot", life, "confirm")


def test_an_impersonation_that_decides_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, Decider, "check", lambda self: None)
    life = play.plan("change_shipping_address")
    assert "from proposed to executed" in play.found(5, "support", life, "confirm", behind=True)


def test_a_confirmation_while_it_is_turned_off_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    life = play.plan("change_shipping_address")
    meddling.turn_switch(play.example)
    without(monkeypatch, decisions, "is_off", lambda site: False)
    assert "from proposed to executed" in play.found(5, "support", life, "confirm")


def test_a_declined_plan_that_is_carried_out_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    life = play.plan("change_shipping_address")
    play.decide("support", life, "reject")
    without(monkeypatch, decisions, "_why_not", lambda plan, by, digest: "")
    without(monkeypatch, decisions, "effective", lambda plan: PlanState.PROPOSED)
    without(monkeypatch, decisions, "move", raw_move)
    assert "from rejected to executed" in play.found(5, "support", life, "confirm")


def test_a_plan_that_writes_something_else_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    life = play.plan("change_shipping_address")
    own = gate.perform

    def more(looked: Any, grant: Any) -> Any:
        Order.objects.exclude(pk=life.target[1]).order_by("pk")[:1].get()
        Order.objects.filter(pk=life.target[1]).update(shipping_name="Mallory")
        return own(looked, grant)

    without(monkeypatch, gate, "perform", more)
    without(monkeypatch, gate, "_check_effect", lambda looked: None)
    assert "store.order" in play.found(1, "support", life, "confirm")


def test_a_proposal_that_writes_is_found(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    own = gate.run

    def writing(*args: Any, **given: Any) -> Any:
        Order.objects.filter(region="south").update(shipping_name="Mallory")
        return own(*args, **given)

    without(monkeypatch, gate, "run", writing)
    with pytest.raises(Broken) as caught:
        play.plan("change_shipping_address")
    assert caught.value.oracle == 1


def test_a_stored_plan_that_was_written_to_and_is_carried_out_is_found(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = play.plan("refund_payment")
    meddling.edit_plan(play.example, life, "payload")
    without(monkeypatch, decisions, "is_intact", lambda plan: True)
    play.found(5, "support", life, "confirm")


def test_an_execution_that_the_audit_does_not_know_is_found(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = play.plan("change_shipping_address")
    own = audit.append

    def forgetful(site: str, scope_key: str, *records: Any) -> None:
        own(site, scope_key, *[each for each in records if each.event != "confirmed"])

    without(monkeypatch, audit, "append", forgetful)
    play.decide("support", life, "confirm")
    with pytest.raises(Broken, match="no confirmation"):
        play.example.end()


def test_another_digest_that_is_shown_is_found_unless_the_stored_one_was_written_to(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    life, other = play.plan("change_shipping_address"), play.plan("refund_payment")
    meddling.edit_plan(play.example, other, "digest")
    play.example.look(play.who("support"), other, behind=False)
    play.example.check()
    own = pages.PlanPage.dispatch
    told = life.digest.encode()

    def lying(self: Any, request: Any, *args: Any, **given: Any) -> Any:
        answer = own(self, request, *args, **given)
        answer.content = answer.content.replace(told, b"0" * 64)
        return answer

    without(monkeypatch, pages.PlanPage, "dispatch", lying)
    play.example.look(play.who("support"), life, behind=False)
    with pytest.raises(Broken, match="another digest"):
        play.example.check()


def test_an_edited_audit_is_found(play: Play) -> None:
    play.plan("change_shipping_address")
    AuditEntry.objects.filter(event="proposed").update(actor="1000")
    with pytest.raises(Broken, match="verify"):
        play.example.end()


def test_a_deleted_conversation_closes_its_plans_only(play: Play) -> None:
    life = play.plan("change_shipping_address")
    play.example.drop(play.who("manager"), life)
    play.example.check()
    assert life.state == lives.PROPOSED
    play.example.drop(play.who("support"), life)
    play.example.check()
    assert life.state == lives.REJECTED
    assert not Conversation.objects.filter(plans=life.pk).exists()


def test_hypothesis_finds_a_missing_check_and_tells_the_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project = FewCalls
    own = decisions._why_not
    without(monkeypatch, decisions, "_why_not", lambda plan, by, digest: own(plan, by, plan.digest))
    machine.run(world, number=4, calls=500)
    assert world.report.findings[5] == 1
    (example,) = world.report.examples[5]
    assert "confirm plan" in example["case"]
    assert "digest" in example["case"]


# -- the small model ---------------------------------------------------------------------------------------------


def test_nothing_leads_on_from_an_end() -> None:
    assert leads({("proposed", "executing"), ("executing", "executed")}, "proposed", "executed")
    assert not leads({("rejected", "executing"), ("executing", "executed")}, "rejected", "executed")
    assert not leads(set(), "proposed", "executed")
    for end in lives.ENDS:
        assert not any(leads({(end, to)}, end, to) for to in ("executing", "executed", "proposed"))


def a_life(**given: Any) -> Life:
    document = {"target": {"model": "a.b", "pk": "1"}, "amount": "", "changes": []}
    return Life(
        **{
            **{
                "number": 1,
                "pk": 1,
                "owner": 1,
                "real": "1",
                "tool": "t",
                "is_external": False,
                "is_plain": True,
            },
            **{"needs_approval": False, "key": "k", "digest": "d", "stored": {}, "document": document},
            **{"undo_of": None, "confirm_by": 100.0, "approve_by": 200.0, "rows": {}},
            **given,
        }
    )


READY = Facts(
    now=50.0,
    is_owner=True,
    decides=True,
    is_as_shown=True,
    is_same=True,
    owner_may=True,
    owner_uses=True,
    is_alone=True,
    keys_kept=1_000.0,
    is_said=True,
)


@pytest.mark.parametrize(
    "missing",
    ["is_on", "is_owner", "decides", "is_as_shown", "is_same", "owner_may", "is_alone"],
)
def test_a_confirmation_needs_everything(missing: str) -> None:
    done = ("proposed", "executed")
    assert done in allowed(a_life(), "confirm", READY)
    assert done not in allowed(a_life(), "confirm", Facts(**{**vars(READY), missing: False}))
    assert done not in allowed(a_life(), "confirm", Facts(**{**vars(READY), "now": 103.0}))
    assert done not in allowed(a_life(needs_approval=True), "confirm", READY)
    assert done not in allowed(a_life(), "approve", READY)
