"""Tables for the tests of the runner itself: one that ends green, one with a survivor, two that say nothing."""

from __future__ import annotations

import datetime

from django.utils import timezone

from .runner import Removal

STATES = "tests/plans/test_states.py"
MOVES = "plans/states.py:move:1:if to not in MOVES[before]"
OVER = "plans/states.py:effective:1:if state is S.PROPOSED and plan.expires_at <= now"

BLIND = "tests/mutation/samples.py::test_that_notices_nothing"
ELSEWHERE = f"{STATES}::test_a_plan_without_an_approval_window_or_a_lease_does_not_end_by_itself"
NOTICES = f"{STATES}::test_a_move_that_the_table_does_not_have_reaches_no_database[undone-executed]"

INVARIANTS = (
    Removal(number=7, guards=(MOVES,), tests=(NOTICES,)),
    Removal(number=7, guards=(OVER,), tests=(BLIND,)),
)


class Unreached:
    """A table whose tests do not come upon the guard."""

    INVARIANTS = (Removal(number=7, guards=(MOVES,), tests=(ELSEWHERE,)),)


class Unknown:
    """A table that names no guard."""

    INVARIANTS = (Removal(number=7, guards=("gate.py:run:1:if nothing",), tests=(NOTICES,)),)


def test_that_notices_nothing() -> None:
    """Come upon a guard where it makes a difference, and look away."""
    from django_copilot.models import Plan, PlanState
    from django_copilot.plans.states import effective

    effective(Plan(state=PlanState.PROPOSED, expires_at=timezone.now() - datetime.timedelta(seconds=1)))
