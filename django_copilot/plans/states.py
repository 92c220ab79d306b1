"""Where a plan can go from where it is, in one table, and the one statement that moves it.

    proposed           → awaiting_approval, executing, executed, failed, rejected, expired, stale
    awaiting_approval  → executing, executed, failed, rejected, expired, stale
    executing          → executed, failed, uncertain
    uncertain          → executing (the same payload under the same key), executed, failed
    executed           → undone
    failed, rejected, expired, stale, undone: ends

Nothing goes back to proposed. An effect inside our database goes through ``executing`` within one
transaction; one outside it stays there for as long as the call takes.
"""

from __future__ import annotations

import datetime
from typing import Any

from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from ..models import Plan, PlanState

S = PlanState
MOVES: dict[PlanState, frozenset[PlanState]] = {
    S.PROPOSED: frozenset(
        {S.AWAITING_APPROVAL, S.EXECUTING, S.EXECUTED, S.FAILED, S.REJECTED, S.EXPIRED, S.STALE}
    ),
    S.AWAITING_APPROVAL: frozenset({S.EXECUTING, S.EXECUTED, S.FAILED, S.REJECTED, S.EXPIRED, S.STALE}),
    S.EXECUTING: frozenset({S.EXECUTED, S.FAILED, S.UNCERTAIN}),
    S.UNCERTAIN: frozenset({S.EXECUTING, S.EXECUTED, S.FAILED}),
    S.EXECUTED: frozenset({S.UNDONE}),
    S.FAILED: frozenset(),
    S.REJECTED: frozenset(),
    S.EXPIRED: frozenset(),
    S.STALE: frozenset(),
    S.UNDONE: frozenset(),
}
OPEN = (S.PROPOSED, S.AWAITING_APPROVAL)  # a person can still decide
CLAIMED = (S.EXECUTING, S.UNCERTAIN)  # something may have happened, nobody knows yet
ENDS = tuple(state for state, following in MOVES.items() if not following)


class IllegalMove(Exception):
    """A move that the table does not have: a defect."""


def move(plan: Plan, to: PlanState, *, where: models.Q | None = None, **values: Any) -> bool:
    """Move a plan from the state that it was loaded in; False when it is not in that state any more.

    ``where`` is a further condition of the same statement, ``values`` are stored with it. The end of an
    operation is stamped by the database's clock. Raises IllegalMove.
    """
    before = PlanState(plan.state)
    if to not in MOVES[before]:
        raise IllegalMove(f"{before} → {to}")
    if to in (S.EXECUTED, *ENDS) and to is not S.UNDONE:
        values.setdefault("ended_at", Now())
    moved = Plan.objects.filter(where or models.Q(), pk=plan.pk, state=before).update(state=to, **values)
    if moved:
        plan.state = to
    return moved == 1


def clocked(plans: models.QuerySet[Plan]) -> models.QuerySet[Plan]:
    """Return plans that carry the database's time as ``db_now``, for ``effective`` and the seconds left."""
    return plans.annotate(db_now=Now())


def now_of(plan: Plan) -> datetime.datetime:
    """Return the database's time when a clocked plan was loaded, else the process's."""
    now: datetime.datetime = getattr(plan, "db_now", None) or timezone.now()
    return now


def effective(plan: Plan) -> PlanState:
    """Return the state as people should read it: what is over by the clock counts as expired or uncertain."""
    state, now = PlanState(plan.state), now_of(plan)
    if state is S.PROPOSED and plan.expires_at <= now:
        return S.EXPIRED
    if state is S.AWAITING_APPROVAL and plan.approve_by is not None and plan.approve_by <= now:
        return S.EXPIRED
    if state is S.EXECUTING and plan.lease_until is not None and plan.lease_until <= now:
        return S.UNCERTAIN
    return state
