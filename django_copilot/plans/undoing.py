"""Plans made without a model: to undo what was carried out, and to look again at what went out of date."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.db import IntegrityError, OperationalError, router, transaction
from django.db.models.functions import Now

from .. import audit, gate
from ..access import Access
from ..database import contained, lock_rows
from ..exceptions import CallError, Denied, ScopeUnavailable
from ..models import Plan, PlanState
from ..scope import Scope, enter_scope
from ..switch import is_off
from ..tools.document import PlanDraft
from ..tools.write import all_tools
from . import proposals, trail
from .deciders import Decider
from .states import OPEN, clocked, effective, move

logger = logging.getLogger("django_copilot")


def can_be_undone(plan: Plan) -> bool:
    """Tell whether a plan's write can be put back in full, as far as the plan itself tells."""
    tool = all_tools().get(plan.tool)
    return bool(
        plan.state == PlanState.EXECUTED
        and plan.document.get("reversible")
        and plan.document.get("changes")
        and not plan.undo_of_id
        and tool is not None
        and tool.reversible
        and not tool.has_step("apply")
        and not tool.is_external
    )


def undo(plan: Plan, by: Decider) -> Plan:
    """Return a new plan that puts the old values back, to be confirmed like any other. Raises Denied.

    While one is open, that one is returned.
    """
    _may_make(plan, by)
    if not can_be_undone(plan):
        raise trail.refused(plan, by, "not_undoable")
    open_undo = clocked(Plan.objects.filter(open_undo_of=plan)).first()
    if open_undo is not None:
        if effective(open_undo) is not PlanState.EXPIRED:
            return open_undo
        with transaction.atomic(using=router.db_for_write(Plan)):
            if move(open_undo, PlanState.EXPIRED, decided_at=Now(), open_undo_of=None):
                audit.append(plan.site, plan.scope_key, trail.entry(open_undo, "expired"))
    draft = _look(plan, by, gate.look_at_undo)
    try:
        return _store(plan, draft, by, undo_of=plan)
    except IntegrityError:  # somebody was faster: the open one is as good
        return clocked(Plan.objects.all()).get(open_undo_of=plan)


def again(plan: Plan, by: Decider) -> Plan:
    """Return a new plan for the same call with what is true now, without the model. Raises Denied."""
    _may_make(plan, by)
    state, newer = effective(plan), _made_from(plan)
    if newer is not None:
        return newer
    if state not in (PlanState.EXPIRED, PlanState.STALE) or plan.undo_of_id:
        raise trail.refused(plan, by, "not_again")
    draft = _look(plan, by, gate.look_afresh)
    with transaction.atomic(using=router.db_for_write(Plan)):
        lock_rows(Plan.objects.filter(pk=plan.pk))
        newer = _made_from(plan)
        if newer is not None:  # somebody was faster
            return newer
        if plan.state in OPEN:
            if not move(plan, PlanState.EXPIRED, decided_at=Now(), open_undo_of=None):
                raise Denied("try_again", plan=plan)
            audit.append(plan.site, plan.scope_key, trail.entry(plan, "expired"))
        return proposals.remake(plan, draft, by=by)


def _made_from(plan: Plan) -> Plan | None:
    """Return the plan that was made in place of this one and that a person can still decide on."""
    return clocked(Plan.objects.filter(made_from=plan, state__in=OPEN)).first()


def _look(plan: Plan, by: Decider, look: Callable[[Access, Plan], PlanDraft]) -> PlanDraft:
    """Return what a new plan would do, as its requester and in its scope. Raises Denied."""
    try:
        with enter_scope(Scope.from_json(plan.scope), plan.user_id) as request, contained():
            access = Access(by.site, request)
            access.check_person()
            return look(access, plan)
    except CallError as error:
        status = 403 if error.code in ("not_allowed", "not_staff") else 409
        raise trail.refused(plan, by, error.code, status=status, text=error.message) from None
    except ScopeUnavailable as error:
        logger.error("The preview of a plan can't be made: %s", error)
        raise trail.refused(plan, by, "scope_unavailable") from None
    except OperationalError:
        raise
    except Exception:
        logger.exception("The preview of %s failed.", plan.tool)
        raise trail.refused(plan, by, "failed") from None


def _may_make(plan: Plan, by: Decider) -> None:
    if plan.user_id is None or plan.user_id != by.user.pk:
        raise Denied("not_found", status=404)
    try:
        by.check()
    except Denied as denied:
        raise trail.refused(plan, by, denied.code, status=denied.status) from None
    if is_off(plan.site):
        raise trail.refused(plan, by, "switched_off", status=403)


def _store(plan: Plan, draft: PlanDraft, by: Decider, **more: Any) -> Plan:
    with transaction.atomic(using=router.db_for_write(Plan)):
        return proposals.store_plan(
            draft,
            scope=Scope.from_json(plan.scope),
            user_pk=plan.user_id,
            turn=None,
            conversation=plan.conversation,
            by=by,
            **more,
        )
