"""The plans that wait for a person: her own, and those of others that wait for her approval."""

from __future__ import annotations

import logging
from itertools import islice

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from ..access import Access
from ..exceptions import ScopeUnavailable
from ..models import Plan, PlanKind, PlanState
from ..scope import enter_scope
from .deciders import Decider
from .rights import APPROVE, why_not_with
from .states import clocked

logger = logging.getLogger("django_copilot")

LISTED = 100
LATEST = 20
TOLD = 20  # with everything on them, in JSON
LOOKED_AT = 500  # plans of others, of which not all may be hers to approve


def own_waiting(by: Decider) -> QuerySet[Plan]:
    """Return the person's own plans that she can confirm or that nobody knows the end of."""
    waiting = Q(state=PlanState.PROPOSED, expires_at__gt=Now()) | _uncertain()
    return _here(by).filter(waiting, user_id=by.user.pk).order_by("-created_at")


def own_latest(by: Decider) -> list[Plan]:
    """Return the person's latest plans that do not wait for her: with others, over, or done."""
    waiting = set(own_waiting(by).values_list("pk", flat=True)[:LISTED])
    own = _here(by).filter(user_id=by.user.pk).order_by("-created_at")
    return [each for each in own[: LATEST + len(waiting)] if each.pk not in waiting][:LATEST]


def to_approve(by: Decider) -> list[Plan]:
    """Return the plans of others that this person can approve or settle, the longest waiting first."""
    if not by.user.has_perm(APPROVE):
        return []
    waiting = _here(by).filter(Q(state=PlanState.AWAITING_APPROVAL, approve_by__gt=Now()) | _uncertain())
    others = waiting.exclude(user_id=by.user.pk).order_by("confirmed_at")[:LOOKED_AT]
    try:
        with enter_scope(by.scope, by.user.pk) as request:
            access = Access(by.site, request)  # one for all of them: her rights in general are asked once
            return list(islice((each for each in others if not why_not_with(access, each, by)), LISTED))
    except ScopeUnavailable as error:
        logger.error("What waits for an approver can't be listed: %s", error)
        return []


def _here(by: Decider) -> QuerySet[Plan]:
    plans = Plan.objects.filter(site=by.scope.site, scope_key=by.scope.key, kind=PlanKind.TOOL)
    return clocked(plans.select_related("user", "turn", "undo_of"))


def _uncertain() -> Q:
    return Q(state=PlanState.UNCERTAIN) | Q(state=PlanState.EXECUTING, lease_until__lte=Now())
