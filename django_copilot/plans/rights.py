"""Whose plan it is: who sees that there is one, and who may be its second person."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.apps import apps

from ..access import Access
from ..exceptions import CallError, ScopeUnavailable
from ..models import Plan, PlanKind
from ..scope import enter_scope
from ..tools.write import all_tools
from .deciders import UNKNOWN, Decider
from .states import CLAIMED, clocked

logger = logging.getLogger("django_copilot")

APPROVE = "django_copilot.approve_plan"


def is_visible(plan: Plan, user: Any) -> bool:
    """Tell whether a plan of this site and scope is there for a person at all.

    Her own always; another's only for those who may approve, once it waits or has waited for approval, while
    nobody knows how it ended, or if she has settled that.
    """
    if plan.user_id is not None and plan.user_id == user.pk:
        return True
    waited = plan.needs_approval and plan.confirmed_at is not None
    stuck = plan.confirmed_at is not None and plan.state in CLAIMED
    settled = str(user.pk) in (plan.approved_by, plan.decided_by)
    return (waited or stuck or settled) and bool(user.has_perm(APPROVE))


def find(plan_id: Any, by: Decider) -> Plan | None:
    """Return a plan of a write tool by the text of its id as this person may see it, or None."""
    try:
        ident = plan_id if isinstance(plan_id, uuid.UUID) else uuid.UUID(plan_id)
    except (ValueError, TypeError, AttributeError):
        return None
    here = Plan.objects.filter(pk=ident, site=by.scope.site, scope_key=by.scope.key, kind=PlanKind.TOOL)
    plan = clocked(here.select_related("user", "turn", "undo_of")).first()
    return plan if plan is not None and is_visible(plan, by.user) else None


def why_not_approver(plan: Plan, by: Decider) -> str:
    """Return the code of what forbids this person to be the second one of a plan, or ""."""
    try:
        with enter_scope(by.scope, by.user.pk) as request:
            return why_not_with(Access(by.site, request), plan, by)
    except ScopeUnavailable as error:
        logger.error("An approver's rights can't be asked: %s", error)
        return "not_allowed"


def why_not_with(access: Access, plan: Plan, by: Decider) -> str:
    """Answer as ``why_not_approver`` does, with rights that are at hand: for several plans at once."""
    if by.key in (plan.confirmed_by, plan.proposed_by) or by.key == str(plan.user_id):
        return "own_plan"
    if plan.proposed_by == UNKNOWN:
        return "own_plan"  # it may be anybody's
    tool = all_tools().get(plan.tool)
    if tool is None or not by.user.has_perms((APPROVE, *tool.approve_permissions)):
        return "not_allowed"
    if not by.site.has_permission(access.request):
        return "not_allowed"
    return "" if sees_all(plan, access) else "approver_cannot_see"


def sees_all(plan: Plan, access: Access) -> bool:
    """Tell whether a person may view each record that a plan is bound to, and each field that it changes."""
    try:
        for each in plan.document["records"]:
            entity = access.registered(apps.get_model(each["model"]))
            if entity is None or not entity.can_view:
                return False
            try:
                obj = entity.record(each["pk"])
            except CallError:
                if entity.model._base_manager.filter(pk=each["pk"]).exists():
                    return False
                continue  # nobody sees it any more, and nothing can be done to it
            if (each["model"], each["pk"]) == (plan.model, plan.object_pk):
                with entity.at("change", obj):
                    if not {change["field"] for change in plan.document["changes"]} <= entity.shows(obj):
                        return False
    except (CallError, LookupError):
        return False
    return True
