"""The figures: what is counted, as what, over which plans, and how the percentiles are taken."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from django_copilot import metrics
from django_copilot.metrics import Figures, figures, percentile
from django_copilot.models import Plan, PlanKind, PlanState

from .plans import HOUR, S, plan


def all_of(**where: Any) -> list[Figures]:
    return figures(**{"site": "admin", "scope_key": "", "days": None, **where})


def only(**where: Any) -> Figures:
    (found,) = all_of(**where)
    return found


def ago(hours: float) -> datetime.datetime:
    return timezone.now() - hours * HOUR


# -- percentiles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "median", "p90"),
    [
        ([], None, None),
        ([7], 7, 7),
        ([1, 2], 1, 2),
        ([1, 2, 3], 2, 3),
        ([1, 2, 3, 4], 2, 4),
        (list(range(1, 11)), 5, 9),
        (list(range(1, 12)), 6, 10),
        (list(range(1, 101)), 50, 90),
        ([5] * 9 + [1_000], 5, 5),
        ([5] * 8 + [1_000] * 2, 5, 1_000),
    ],
)
def test_percentiles_are_by_nearest_rank(
    values: list[float], median: float | None, p90: float | None
) -> None:
    assert (percentile(values, 50), percentile(values, 90)) == (median, p90)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    values: list[int], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    assert found in values

    def within(limit: float) -> bool:
        return 100 * sum(each <= limit for each in values) >= percent * len(values)

    assert within(found)
    assert not any(within(each) for each in values if each < found)


# -- times -----------------------------------------------------------------------------------------------


def test_a_time_is_from_the_first_message_to_the_end(db: None) -> None:
    for seconds in (30, 60, 90, 3_600):
        plan(seconds=seconds)
    found = only()
    assert (found.plans, found.timed, found.median, found.p90) == (4, 4, 60, 3_600)


def test_a_message_long_before_the_plan_counts(db: None) -> None:
    made = ago(5)
    plan(created_at=made, asked_at=made - HOUR, ended_at=made + datetime.timedelta(seconds=10))
    assert only().median == 3_610


def test_without_a_message_it_is_from_the_making_and_without_an_end_from_the_decision(db: None) -> None:
    made = ago(5)
    plan(created_at=made, asked_at=None, ended_at=made + datetime.timedelta(seconds=10))
    assert only().median == 10
    Plan.objects.update(ended_at=None, decided_at=made + datetime.timedelta(seconds=20))
    assert only().median == 20
    Plan.objects.update(decided_at=None)
    assert (only().timed, only().median) == (0, None)
    Plan.objects.update(ended_at=made - HOUR)  # two clocks that differ
    assert only().median == 0


@pytest.mark.parametrize("state", list(PlanState))
def test_times_are_of_what_was_carried_out_failed_or_was_undone(db: None, state: PlanState) -> None:
    plan(state, seconds=60)
    carried_out = state in (S.EXECUTED, S.FAILED, S.UNDONE)
    assert (only().timed, only().median) == ((1, 60) if carried_out else (0, None))


def test_only_the_latest_times_are_read_and_it_is_said(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_DURATIONS", 6)
    monkeypatch.setattr(metrics, "FEWEST_DURATIONS", 3)
    for age, seconds in ((5, 1_000), (4, 10), (3, 20), (2, 30)):
        plan(age=age, seconds=seconds)
    assert (only().timed, only().is_cut) == (4, False)
    plan(tool="other", seconds=5)
    mine, other = all_of()
    assert (mine.plans, mine.timed, mine.is_cut, mine.p90) == (4, 3, True, 30)
    assert (other.timed, other.is_cut) == (1, False)
    for number in range(3):
        plan(tool=f"tool {number}", seconds=5)
    assert all_of()[0].timed == 3  # never fewer than the fewest


# -- fates -----------------------------------------------------------------------------------------------

FATES = [
    # state, other values, what it counts as besides a plan
    (S.PROPOSED, {}, set()),
    (S.PROPOSED, {"expires_at": ago(1)}, {"decided", "expired"}),
    (S.AWAITING_APPROVAL, {"approve_by": timezone.now() + 1_000 * HOUR}, set()),
    (S.AWAITING_APPROVAL, {"approve_by": timezone.now() + 1_000 * HOUR, "expires_at": ago(1)}, set()),
    (S.AWAITING_APPROVAL, {"approve_by": ago(1)}, {"decided", "expired"}),
    (S.EXECUTING, {"lease_until": timezone.now() + 1_000 * HOUR, "expires_at": ago(1)}, set()),
    (S.EXECUTING, {"lease_until": None}, set()),
    (S.EXECUTING, {"lease_until": ago(1)}, {"uncertain"}),
    (S.UNCERTAIN, {"expires_at": ago(1)}, {"uncertain"}),
    (S.EXECUTED, {"expires_at": ago(1)}, {"decided"}),
    (S.FAILED, {}, {"decided"}),
    (S.REJECTED, {}, {"decided", "rejected"}),
    (S.EXPIRED, {}, {"decided", "expired"}),
    (S.STALE, {}, {"decided", "stale"}),
    (S.UNDONE, {}, {"decided", "undone"}),
]


def test_every_state_is_in_the_table() -> None:
    assert {state for state, *_ in FATES} == set(PlanState)


@pytest.mark.parametrize(("state", "values", "counts"), FATES)
def test_what_a_plan_counts_as(db: None, state: PlanState, values: dict[str, Any], counts: set[str]) -> None:
    plan(state, **values)
    found = only()
    assert found.plans == 1
    assert {name for name in metrics.COUNTED if getattr(found, name)} == counts


def test_shares_are_of_the_decided(db: None) -> None:
    for state, number in ((S.EXECUTED, 4), (S.REJECTED, 2), (S.STALE, 1), (S.UNDONE, 1), (S.PROPOSED, 7)):
        for _ in range(number):
            plan(state)
    plan(S.UNCERTAIN)
    found = only()
    assert (found.plans, found.decided) == (16, 8)
    assert {name: found.share(name) for name in metrics.FATES} == {
        "rejected": 0.25,
        "expired": 0.0,
        "stale": 0.125,
        "undone": 0.125,
    }


def test_of_nothing_decided_there_is_no_share(db: None) -> None:
    plan(S.PROPOSED)
    assert only().share("rejected") is None


# -- which plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "number"), [(7, 1), (30, 2), (90, 3), (None, 4)])
def test_a_period_has_the_plans_made_in_it(db: None, days: int | None, number: int) -> None:
    for age in (6.9, 29.9, 89.9, 900):
        plan(age=age, seconds=60)
    found = only(days=days)
    assert (found.plans, found.timed) == (number, number)


def test_other_sites_and_scopes_are_not_counted(db: None) -> None:
    plan(site="other", seconds=1)
    plan(scope_key="tenant b", seconds=1)
    assert all_of() == []
    assert only(site="other").plans == only(scope_key="tenant b").plans == 1


def test_plans_that_undo_and_those_that_nobody_could_decide_on_are_not_counted(db: None) -> None:
    undone = plan(S.UNDONE, seconds=60)
    plan(S.EXECUTED, undo_of=undone, seconds=1)
    plan(S.REJECTED, code="headless", seconds=1)
    found = only()
    assert (found.plans, found.undone, found.rejected, found.timed) == (1, 1, 0, 1)


def test_forms_delete_pages_and_tools_are_each_for_themselves(db: None) -> None:
    for _ in range(3):
        plan(seconds=3)
    for kind in (PlanKind.FORM, PlanKind.FORM, PlanKind.DELETE):
        plan(kind=kind, tool="", seconds=1)
    plan(tool="form", seconds=2)
    assert [(each.kind, each.tool, each.plans, each.median) for each in all_of()] == [
        ("tool", "refund_payment", 3, 3),
        ("form", "", 2, 1),
        ("delete", "", 1, 1),
        ("tool", "form", 1, 2),
    ]


def test_the_work_does_not_grow_with_the_plans(db: None, django_assert_num_queries: Any) -> None:
    for number in range(30):
        plan(seconds=number)
    with django_assert_num_queries(2):
        all_of()
