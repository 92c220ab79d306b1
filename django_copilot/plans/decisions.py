"""A person decides: confirm, reject, approve. The only way in which a plan of a write tool is carried out.

Each function is one short transaction that begins by locking the plan and ends with the audit. What it finds
under the lock decides: whoever was first has won. What is refused is told by ``Denied`` with a code, after
what was noticed (expired, out of date) has been committed.
"""

from __future__ import annotations

import datetime
import hmac
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import OperationalError, connections, models, router, transaction
from django.db.models.functions import Now

from .. import audit, gate
from ..access import Access
from ..conf import get_settings
from ..database import contained, lock_rows
from ..exceptions import CallError, Denied, ScopeUnavailable
from ..models import Plan, PlanKind, PlanState
from ..scope import Scope, enter_scope
from ..signals import plan_awaits_approval
from ..snapshots import lock_record, record_version
from ..switch import is_off
from ..tools.document import Looked, PlanDraft, digest_of, is_intact
from ..tools.write import Always, Never, all_tools
from ..values import clean_text
from . import execution, proposals, trail
from .deciders import Decider
from .rights import is_visible, why_not_approver
from .states import CLAIMED, OPEN, clocked, effective, move

logger = logging.getLogger("django_copilot")


@dataclass
class _Work:
    """One decision under way: the locked plan, what the audit will be told, and how it ends."""

    plan: Plan
    records: list[audit.Record] = field(default_factory=list)
    denied: Denied | None = None
    moved: bool = False  # whether a locked record holds something else than what was shown

    def deny(self, code: str, *, by: Decider, status: int = 409, plan: Plan | None = None) -> None:
        """End the decision as refused; what was noticed on the way is kept."""
        self.denied = Denied(code, status=status, plan=plan or self.plan)
        self.records.append(trail.entry(self.plan, "refused", by=by, code=code))


def confirm(plan_id: Any, digest: Any, by: Decider) -> Plan:
    """Confirm a plan on exactly what its owner was shown, and carry it out unless a second person must approve.

    An executed plan gives itself again; an uncertain one is tried again, the same bytes under the same key.
    Raises Denied.
    """
    call: Callable[[], None] | None = None
    with _deciding(plan_id, by, _is_own) as work:
        plan = work.plan
        code = _why_not(plan, by, digest)
        state = effective(plan)
        if code == "executed":
            return plan
        if code:
            _close_if_over(work)
            work.deny(code, by=by, status=403 if code in _FORBIDDEN else 409)
        elif state is PlanState.UNCERTAIN:
            call = execution.try_again(plan, work.records, work.deny, by)
        elif state is PlanState.AWAITING_APPROVAL:
            return plan  # confirmed already, and not to be confirmed twice
        else:
            with _same_again(work, by) as looked:
                if looked is not None and plan.needs_approval:
                    _await_approval(work, by)
                elif looked is not None:
                    call = _carry_out(work, looked, by, confirmed_by=by.key, confirmed_at=Now())
    if call is not None:
        call()
    return current(plan_id)


def approve(plan_id: Any, digest: Any, by: Decider) -> Plan:
    """Approve another person's confirmed plan, and carry it out. Raises Denied."""
    call: Callable[[], None] | None = None
    with _deciding(plan_id, by, _is_to_approve) as work:
        plan = work.plan
        state = effective(plan)
        code = _why_not(plan, by, digest)
        if code == "executed" and plan.approved_by == by.key:
            return plan
        if plan.state != PlanState.AWAITING_APPROVAL and state is not PlanState.EXPIRED:
            code = code if code and code not in ("digest_mismatch", "executed") else "no_approval_needed"
        elif not code:
            code = why_not_approver(plan, by)
        if code:
            _close_if_over(work)
            work.deny(code, by=by, status=403 if code in _FORBIDDEN else 409)
        else:
            with _same_again(work, by) as looked:
                if looked is not None:
                    call = _carry_out(work, looked, by, approved_by=by.key, approved_at=Now())
    if call is not None:
        call()
    return current(plan_id)


def reject(plan_id: Any, reason: str, by: Decider) -> Plan:
    """Decline a plan: its owner, or who could approve it. Raises Denied."""
    with _deciding(plan_id, by, _is_visible) as work:
        plan, reason = work.plan, clean_text(reason).strip()[:500]
        state = effective(plan)
        if plan.state == PlanState.REJECTED:
            return plan
        _close_if_over(work)
        code = _CLOSED[state] if state not in OPEN else _why_not_reject(plan, by)
        if code:
            work.deny(code, by=by, status=403 if code in _FORBIDDEN else 409)
        else:
            move(
                plan,
                PlanState.REJECTED,
                decided_at=Now(),
                decided_by=by.key,
                reason=reason,
                open_undo_of=None,
            )
            work.records.append(trail.entry(plan, "rejected", by=by, values=trail.reason(reason, by)))
    return current(plan_id)


def current(plan_id: Any) -> Plan:
    """Return a plan as it is now, with the database's time."""
    return clocked(Plan.objects.select_related("user", "turn", "undo_of")).get(pk=plan_id)


# -- whose plan it is ---------------------------------------------------------------------------------------


def _is_own(plan: Plan, by: Decider) -> bool:
    return plan.user_id is not None and plan.user_id == by.user.pk


def _is_visible(plan: Plan, by: Decider) -> bool:
    return is_visible(plan, by.user)


def _is_to_approve(plan: Plan, by: Decider) -> bool:
    return _is_own(plan, by) or is_visible(plan, by.user)


@contextmanager
def _deciding(plan_id: Any, by: Decider, theirs: Callable[[Plan, Decider], bool]) -> Iterator[_Work]:
    """Lock a plan for one decision, keep what was noticed, append the audit last, then raise what was denied."""
    try:
        with ExitStack() as stack:
            # The audit is appended before any of them commits, and the plan's own commits last.
            for alias in _databases():
                stack.enter_context(transaction.atomic(using=alias))
            found = lock_rows(
                Plan.objects.filter(
                    pk=plan_id, site=by.scope.site, scope_key=by.scope.key, kind=PlanKind.TOOL
                )
            )
            if not found or not theirs(found[0], by):
                raise Denied("not_found", status=404)
            work = _Work(plan=current(plan_id))
            yield work
            if work.records:
                audit.append(work.plan.site, work.plan.scope_key, *work.records)
    except OperationalError as error:  # a deadlock, or a database that is locked: nothing was done
        logger.warning("A decision on plan %s could not be made: %s", plan_id, error)
        raise Denied("try_again") from error
    if work.denied is not None:
        raise work.denied


def _databases() -> list[str]:
    """Return the database of plans, then those of the models that tools act on."""
    return list(
        dict.fromkeys(
            [router.db_for_write(Plan), *(router.db_for_write(tool.model) for tool in all_tools().values())]
        )
    )


# -- what stands against it ---------------------------------------------------------------------------------

_CLOSED = {
    PlanState.EXECUTING: "in_flight",
    PlanState.UNCERTAIN: "uncertain",
    PlanState.EXECUTED: "executed",
    PlanState.FAILED: "failed",
    PlanState.REJECTED: "rejected",
    PlanState.EXPIRED: "expired",
    PlanState.STALE: "stale",
    PlanState.UNDONE: "undone",
    PlanState.AWAITING_APPROVAL: "awaiting_approval",
}
_FORBIDDEN = (
    "impersonated",
    "service_account",
    "not_allowed",
    "own_plan",
    "approver_cannot_see",
    "switched_off",
)


def _why_not(plan: Plan, by: Decider, digest: Any) -> str:
    """Return the code of what forbids a decision before anything is looked at again, or ""."""
    try:
        by.check()
    except Denied as denied:
        return denied.code
    if is_off(plan.site):
        return "switched_off"
    state = effective(plan)
    if state not in (*OPEN, PlanState.UNCERTAIN):
        return _CLOSED[state]
    if not isinstance(digest, str) or not hmac.compare_digest(
        digest.encode("utf-8", "replace"), plan.digest.encode()
    ):
        return "digest_mismatch"
    if not is_intact(plan):
        return "digest_mismatch"  # the stored row was tampered with
    return ""


def _why_not_reject(plan: Plan, by: Decider) -> str:
    """Return the code of what forbids a person to decline an open plan, or "". Its owner always may."""
    if _is_own(plan, by):
        return ""
    try:
        by.check()
    except Denied as denied:
        return denied.code
    return why_not_approver(plan, by)


def _close_if_over(work: _Work) -> None:
    """Store that a plan's time is over, once somebody has noticed."""
    plan = work.plan
    if plan.state in OPEN and effective(plan) is PlanState.EXPIRED:
        move(plan, PlanState.EXPIRED, decided_at=Now(), open_undo_of=None)
        work.records.append(trail.entry(plan, "expired"))


# -- looking again under the lock ---------------------------------------------------------------------------


@contextmanager
def _same_again(work: _Work, by: Decider) -> Iterator[Looked | None]:
    """Lock what the plan is bound to, make the preview again as the requester, and compare the documents.

    Gives what was looked at when it is the same, in the requester's scope. Else gives None: the work is
    denied, and the plan closed as stale, with a fresh one beside it where one can be made.
    """
    plan = work.plan
    if not _is_still_there(work, by):
        yield None
        return
    with ExitStack() as stack:
        looked: Looked | None = None
        try:
            access = stack.enter_context(_requester(plan, by))
            with contained():
                looked, draft = gate.look_again(access, plan)
        except ScopeUnavailable as error:
            logger.error("A plan could not be looked at again: %s", error)
            work.deny("scope_unavailable", by=by)
        except CallError as error:
            if error.code in ("not_allowed", "not_staff"):
                work.deny("not_allowed", by=by, status=403)
            else:
                code = error.code if error.code in ("tool_changed", "changed_since") else "stale"
                _close_stale(work, by, code, told=error.message)
        except OperationalError:
            raise
        except Exception:
            logger.exception("The preview of %s failed.", plan.tool)
            work.deny("failed", by=by)
        else:
            if work.moved or digest_of(draft.document(plan.pk)) != plan.digest:
                looked = None
                _close_stale(work, by, "stale", draft=draft)
        yield looked


def _is_still_there(work: _Work, by: Decider) -> bool:
    """Lock the person's account where her other plans count, and the records; deny when something is missing."""
    plan = work.plan
    tool = all_tools().get(plan.tool)
    if plan.user is None or not plan.user.is_active:
        work.deny("requester_inactive", by=by)
    elif tool is None or tool.version != plan.version:
        _close_stale(work, by, "tool_changed")
    else:
        if not isinstance(tool.approval, Always | Never):
            lock_rows(get_user_model()._base_manager.filter(pk=plan.user.pk))
        versions = {(each["model"], each["pk"]): each["version"] for each in plan.document["records"]}
        for label, pk in sorted(versions):
            held = lock_record(apps.get_model(label), pk)
            if held is None:
                _close_stale(work, by, "record_gone")
                return False
            work.moved = work.moved or record_version(held) != versions[label, pk]
        if not _is_busy(plan):
            return True
        work.deny("operation_open", by=by)
    return False


@contextmanager
def _requester(plan: Plan, by: Decider) -> Iterator[Access]:
    """Give the rights of the person who asked, in the scope that the plan was made in."""
    with enter_scope(Scope.from_json(plan.scope), plan.user_id) as request:
        access = Access(by.site, request)
        access.check_person()
        yield access


def _is_busy(plan: Plan) -> bool:
    """Tell whether the same tool is doing something to the same target, as far as anybody knows."""
    return (
        Plan.objects.filter(
            tool=plan.tool,
            model=plan.model,
            object_pk=plan.object_pk,
            state__in=CLAIMED,  # on whatever site
        )
        .exclude(pk=plan.pk)
        .exists()
    )


def _close_stale(
    work: _Work, by: Decider, code: str, *, draft: PlanDraft | None = None, told: str = ""
) -> None:
    plan = work.plan
    move(plan, PlanState.STALE, code=code, decided_at=Now(), reason=told[:500], open_undo_of=None)
    work.records.append(trail.entry(plan, "stale", code=code))
    fresh = None
    if draft is not None:
        fresh = proposals.remake(plan, draft, by=by)
    work.deny(code, by=by, plan=fresh)


# -- going on -----------------------------------------------------------------------------------------------


def _await_approval(work: _Work, by: Decider) -> None:
    plan, tool = work.plan, all_tools()[work.plan.tool]
    within = tool.approve_within or datetime.timedelta(seconds=get_settings().APPROVE_SECONDS)
    moved = move(
        plan,
        PlanState.AWAITING_APPROVAL,
        where=models.Q(expires_at__gt=Now()),
        confirmed_by=by.key,
        confirmed_at=Now(),
        approve_by=Now() + within,
    )
    if not moved:
        work.deny("expired", by=by)
        return
    work.records.append(trail.entry(plan, "confirmed", by=by))
    transaction.on_commit(
        lambda: plan_awaits_approval.send_robust(sender=Plan, plan=current(plan.pk), site=plan.site),
        using=router.db_for_write(Plan),
        robust=True,  # she has confirmed, whatever goes wrong here
    )


def _carry_out(work: _Work, looked: Looked, by: Decider, **decided: Any) -> Callable[[], None] | None:
    """Claim the plan, inside its window by the database's clock, and do what it shows.

    Returns what must still be called once the claim is committed, for a tool that asks another system.
    """
    plan, tool = work.plan, looked.tool
    window = "approve_by" if plan.state == PlanState.AWAITING_APPROVAL else "expires_at"
    event = "approved" if "approved_by" in decided else "confirmed"
    if tool.is_external and not plan.undo_of_id:
        return execution.claim(
            plan, looked, work.records, work.deny, by, event=event, window=window, **decided
        )
    before = plan.state
    databases = dict.fromkeys((router.db_for_write(Plan), router.db_for_write(tool.model)))
    try:
        with ExitStack() as stack:
            for alias in databases:
                stack.enter_context(transaction.atomic(using=alias))
            if not move(
                plan, PlanState.EXECUTING, where=models.Q((f"{window}__gt", Now())), attempts=1, **decided
            ):
                work.deny("expired", by=by)
                return None
            plan.refresh_from_db()
            result = gate.perform(looked, execution.grant_of(plan))
            for alias in databases:
                if connections[alias].features.can_defer_constraint_checks:
                    connections[alias].check_constraints()  # what is put off would fail the commit instead
            after = execution.versions_after(looked)
            move(plan, PlanState.EXECUTED, result=result, decided_at=Now(), open_undo_of=None)
            if plan.undo_of is not None:
                execution.mark_undone(plan, work.records, by)
    except OperationalError:
        raise
    except Exception as error:
        plan.state = before
        code = "effect_differs" if isinstance(error, gate.EffectDiffers) else "failed"
        logger.warning("Plan %s was rolled back (%s): %s", plan.pk, code, error, exc_info=code == "failed")
        move(plan, PlanState.FAILED, code=code, decided_at=Now(), open_undo_of=None, **decided)
        work.records.append(trail.entry(plan, event, by=by))
        work.records.append(trail.entry(plan, "failed", by=by, code=code))
        work.denied = Denied(code, plan=plan)
        return None
    work.records.append(trail.entry(plan, event, by=by))
    work.records.append(
        trail.entry(
            plan,
            "executed",
            by=by,
            about={"records_after": after},
            values=execution.result_values(plan, result),
        )
    )
    return None
