"""The table of a plan's states, every pair of them; no database but for the statement that moves."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pytest
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from django_copilot.models import Plan, PlanKind, PlanState
from django_copilot.plans.states import CLAIMED, ENDS, MOVES, OPEN, IllegalMove, clocked, effective, move

S = PlanState
ALLOWED = {
    S.PROPOSED: "awaiting_approval executing executed failed rejected expired stale",
    S.AWAITING_APPROVAL: "executing executed failed rejected expired stale",
    S.EXECUTING: "executed failed uncertain",
    S.UNCERTAIN: "executing executed failed",
    S.EXECUTED: "undone",
}
PAIRS = list(itertools.product(S, S))


def make(state: PlanState, **values: Any) -> Plan:
    """Return an unsaved plan."""
    given = {"kind": PlanKind.TOOL, "site": "admin", "state": state}
    soon = timezone.now() + datetime.timedelta(hours=1)
    return Plan(**{**given, "expires_at": soon, "submit_by": soon, **values})


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda state: str(state))
def test_the_table_has_these_moves_and_no_others(before: PlanState, after: PlanState) -> None:
    assert (after in MOVES[before]) == (str(after) in ALLOWED.get(before, "").split())


@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a, b in PAIRS if b not in MOVES[a]], ids=lambda state: str(state)
)
def test_a_move_that_the_table_does_not_have_reaches_no_database(before: PlanState, after: PlanState) -> None:
    with pytest.raises(IllegalMove):  # without the mark, a statement would be an error
        move(make(before), after)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("before", "after"), [(a, b) for a, b in PAIRS if b in MOVES[a]], ids=lambda state: str(state)
)
def test_a_plan_is_moved_from_the_state_it_was_loaded_in_and_once(
    before: PlanState, after: PlanState
) -> None:
    plan = make(before)
    plan.save()
    also = Plan.objects.get(pk=plan.pk)
    assert not move(plan, after, where=Q(expires_at__lt=Now()))
    assert plan.state == before
    assert move(plan, after, where=Q(expires_at__gt=Now()), code="why")
    assert plan.state == after
    assert not move(also, after)
    kept = Plan.objects.get(pk=plan.pk)
    assert (kept.state, kept.code) == (after, "why")
    assert (kept.ended_at is not None) == (after in (S.EXECUTED, *ENDS) and after is not S.UNDONE)


def test_no_state_goes_back_to_proposed_and_nothing_claimed_opens_again() -> None:
    assert set(MOVES) == set(S)
    assert all(S.PROPOSED not in following for following in MOVES.values())
    reached, new = set(CLAIMED), set(CLAIMED)
    while new:
        new = set().union(*(MOVES[each] for each in new)) - reached
        reached |= new
    assert reached.isdisjoint(OPEN)
    assert set(ENDS) == {S.FAILED, S.REJECTED, S.EXPIRED, S.STALE, S.UNDONE}


@pytest.mark.parametrize("ago", [-1, 0, 1], ids=["later", "now", "before"])
@pytest.mark.parametrize("state", list(S), ids=str)
def test_what_is_over_by_the_clock_reads_as_over(state: PlanState, ago: int) -> None:
    now = timezone.now()
    over = now - datetime.timedelta(seconds=ago)
    plan = make(state, expires_at=over, approve_by=over, lease_until=over)
    plan.db_now = now  # type: ignore[attr-defined]
    reads = {S.PROPOSED: S.EXPIRED, S.AWAITING_APPROVAL: S.EXPIRED, S.EXECUTING: S.UNCERTAIN}
    assert effective(plan) is (reads.get(state, state) if ago >= 0 else state)


def test_a_plan_without_an_approval_window_or_a_lease_does_not_end_by_itself() -> None:
    assert effective(make(S.AWAITING_APPROVAL)) is S.AWAITING_APPROVAL
    assert effective(make(S.EXECUTING)) is S.EXECUTING


@pytest.mark.django_db
def test_a_clocked_plan_is_read_by_the_databases_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make(S.PROPOSED)
    plan.save()
    loaded = clocked(Plan.objects.all()).get(pk=plan.pk)
    later = timezone.now() + datetime.timedelta(days=2)
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert effective(loaded) is S.PROPOSED
    Plan.objects.filter(pk=plan.pk).update(expires_at=Now())
    monkeypatch.setattr(timezone, "now", lambda: later - datetime.timedelta(days=4))
    assert effective(clocked(Plan.objects.all()).get(pk=plan.pk)) is S.EXPIRED
