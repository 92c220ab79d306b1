"""The plans that wait for a person: her own, and those of others that wait for her approval."""

from __future__ import annotations

from itertools import islice

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from ..models import Plan, PlanKind, PlanState
from .deciders import Decider
from .rights import APPROVE, why_not_approver
from .states import clocked

LISTED = 100
LOOKED_AT = 1_000  # plans of others, of which not all may be hers to approve


def own_waiting(by: Decider) -> QuerySet[Plan]:
    """Return the person's own plans that she can confirm or that nobody knows the end of."""
    return _here(by).filter(
        Q(state=PlanState.PROPOSED, expires_at__gt=Now()) | _uncertain(), user_id=by.user.pk
    )


def to_approve(by: Decider) -> list[Plan]:
    """Return the plans of others that this person can approve or settle, the longest waiting first."""
    if not by.user.has_perm(APPROVE):
        return []
    waiting = _here(by).filter(Q(state=PlanState.AWAITING_APPROVAL, approve_by__gt=Now()) | _uncertain())
    others = waiting.exclude(user_id=by.user.pk).order_by("confirmed_at")[:LOOKED_AT]
    return list(islice((each for each in others if why_not_approver(each, by) == ""), LISTED))


def _here(by: Decider) -> QuerySet[Plan]:
    plans = Plan.objects.filter(site=by.scope.site, scope_key=by.scope.key, kind=PlanKind.TOOL)
    return clocked(plans.select_related("user", "turn", "undo_of"))


def _uncertain() -> Q:
    return Q(state=PlanState.UNCERTAIN) | Q(state=PlanState.EXECUTING, lease_until__lte=Now())
