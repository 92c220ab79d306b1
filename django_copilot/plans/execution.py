"""Carrying out, and what comes after: the claim of an operation outside, its call, its end, and trying again.

An external operation has three steps. The claim, with key, payload, reservation and the audit's intent, is
committed first; then the other system is asked, with no transaction and no lock; then the end is recorded.
Whoever dies in between leaves a claimed plan whose lease runs out and which then reads as uncertain: the same
bytes under the same key can be sent again, as long as the other side keeps the key.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from typing import Any

from django.db import OperationalError, models, router, transaction
from django.db.models.functions import Now

from .. import audit, gate
from ..access import Access
from ..conf import get_settings
from ..database import atomic_for, lock_rows
from ..exceptions import CallError, CallFailed, Denied, ScopeUnavailable
from ..models import Plan, PlanState
from ..people import is_service_account
from ..scope import Scope, enter_place, enter_scope, load_person
from ..snapshots import record_version
from ..tools.document import Looked
from ..tools.offered import may_use_tool
from ..tools.write import WriteTool, all_tools
from ..values import clean_text, to_json
from . import trail
from .deciders import Decider
from .rights import why_not_approver
from .states import CLAIMED, clocked, effective, move, now_of

logger = logging.getLogger("django_copilot")

Deny = Callable[..., None]


def grant_of(plan: Plan) -> gate.Grant:
    """Return the grant that names a claimed plan."""
    return gate.Grant(
        plan_id=plan.pk,
        tool=plan.tool,
        key=str(plan.key),
        requester=plan.confirmed_by,
        confirmed_by=plan.confirmed_by,
        approved_by=plan.approved_by,
    )


def versions_after(looked: Looked) -> list[dict[str, str]]:
    """Return the versions of the bound records as they are now, for the audit."""
    after = []
    for bound in looked.ctx.bound.values():
        obj = type(bound.before)._base_manager.filter(pk=bound.before.pk).first()
        version = record_version(obj) if obj is not None else ""
        after.append({"model": bound.model, "pk": bound.pk, "version": version})
    return after


def result_values(plan: Plan, result: Any) -> tuple[audit.Value, ...]:
    """Return what an operation gave, as a value of the audit."""
    if result is None:
        return ()
    return (audit.Value(name="result", value=result, person=plan.confirmed_by),)


def mark_undone(plan: Plan, records: list[audit.Record], by: Decider) -> None:
    """Close the plan that was undone, in the transaction of the undo."""
    original = plan.undo_of
    assert original is not None
    if not move(original, PlanState.UNDONE):
        raise gate.EffectDiffers("the plan to undo is not as it was")
    records.append(trail.entry(original, "undone", by=by, about={"undone_by": str(plan.pk)}))


# -- an operation outside -----------------------------------------------------------------------------------


def claim(
    plan: Plan,
    looked: Looked,
    records: list[audit.Record],
    deny: Deny,
    by: Decider,
    *,
    event: str,
    window: str,
    **decided: Any,
) -> Callable[[], None] | None:
    """Claim an operation outside, in the running transaction. Returns its call, for after the commit."""
    lease = datetime.timedelta(seconds=get_settings().LEASE_SECONDS)
    before = plan.state
    try:
        with atomic_for(Plan, looked.tool.model):
            claimed = move(
                plan,
                PlanState.EXECUTING,
                where=models.Q((f"{window}__gt", Now())),
                attempts=1,
                called_at=Now(),
                lease_until=Now() + lease,
                **decided,
            )
            if claimed:
                plan.refresh_from_db()
                gate.reserve(looked, grant_of(plan))
    except OperationalError:
        raise
    except Exception as error:
        logger.warning("Plan %s could not be reserved: %r", plan.pk, error, exc_info=True)
        plan.state = before
        told = error.message[:500] if isinstance(error, CallError) else ""
        move(plan, PlanState.FAILED, code="reservation_failed", reason=told, decided_at=Now(), **decided)
        deny("reservation_failed", by=by)
        return None
    if not claimed:
        deny("expired", by=by)
        return None
    records.append(trail.entry(plan, event, by=by))
    records.append(trail.entry(plan, "executing", by=by, about={"attempt": 1, "key": str(plan.key)}))
    return _call_of(plan)


def try_again(plan: Plan, records: list[audit.Record], deny: Deny, by: Decider) -> Callable[[], None] | None:
    """Claim an uncertain operation once more, to send what was stored. Returns its call."""
    tool = all_tools().get(plan.tool)
    if tool is None or not tool.is_external:
        deny("tool_changed", by=by)
        return None
    lease = datetime.timedelta(seconds=get_settings().LEASE_SECONDS)
    if plan.called_at is not None and plan.called_at + tool.keys_kept <= now_of(plan) + lease:
        deny("key_expired", by=by)
        return None
    if not _may_still(plan, tool, by):
        deny("not_allowed", by=by, status=403)
        return None
    _note_uncertain(plan, records)
    move(
        plan,
        PlanState.EXECUTING,
        attempts=models.F("attempts") + 1,
        lease_until=Now() + lease,
        code="",
    )
    plan.refresh_from_db()
    about = {"attempt": plan.attempts, "key": str(plan.key)}
    records.append(trail.entry(plan, "executing", by=by, about=about))
    return _call_of(plan)


def _may_still(plan: Plan, tool: WriteTool, by: Decider) -> bool:
    """Tell whether the requester may use the tool at all today; the plan itself was claimed already."""
    try:
        if plan.approved_by and is_service_account(load_person(plan.approved_by)):
            return False
        with enter_scope(Scope.from_json(plan.scope), plan.user_id) as request:
            access = Access(by.site, request)
            access.check_person()
            return may_use_tool(access, tool)
    except (CallError, ScopeUnavailable):
        return False


def _note_uncertain(plan: Plan, records: list[audit.Record]) -> None:
    """Store that a lease ran out, once somebody has noticed."""
    over = plan.state == PlanState.EXECUTING and effective(plan) is PlanState.UNCERTAIN
    if over and move(plan, PlanState.UNCERTAIN, code="lease_over"):
        records.append(trail.entry(plan, "uncertain", code="lease_over"))


def _call_of(plan: Plan) -> Callable[[], None]:
    return lambda: _call(plan)


def _call(plan: Plan) -> None:
    """Ask the other system with what was stored, and record the end. Never raises for what happens there."""
    tool, grant, attempt = all_tools()[plan.tool], grant_of(plan), plan.attempts
    result: Any = None
    try:
        with enter_place(Scope.from_json(plan.scope)):
            result = gate.call_out(tool, "call", grant, plan.payload)
        ended, told = PlanState.EXECUTED, ""
    except CallFailed as error:
        ended, told = PlanState.FAILED, str(error)
    except Exception as error:
        logger.warning("Nobody knows whether plan %s was carried out: %r", plan.pk, error)
        ended, told = PlanState.UNCERTAIN, ""
    finish(plan.pk, tool, ended, result=result, reason=told, attempt=attempt)


_CODES = {PlanState.EXECUTED: "", PlanState.FAILED: "call_failed", PlanState.UNCERTAIN: "no_answer"}


def finish(
    plan_id: Any,
    tool: WriteTool,
    ended: PlanState,
    *,
    result: Any = None,
    reason: str = "",
    attempt: int,
    by: Decider | None = None,
    event: str = "",
) -> bool:
    """Record how an operation outside ended, and run the tool's settling step with it, in one transaction.

    False when somebody else has recorded an end meanwhile. ``attempt`` is whose news it is: unless the other
    system says that it was done, it is no news about a later attempt, which may be under way. A settling step
    that fails leaves the plan uncertain.
    """
    try:
        # As every database keeps it: what an answer holds must not be why its end is not recorded.
        result, reason = to_json(result) if isinstance(result, dict) else None, clean_text(reason)
        with atomic_for(Plan, tool.model):
            lock_rows(Plan.objects.filter(pk=plan_id))
            plan = clocked(Plan.objects.all()).get(pk=plan_id)
            done = ended is PlanState.EXECUTED and event != "settled"
            if done and plan.state == PlanState.FAILED:
                _note_done_after_all(plan, tool, result)
            if plan.state not in CLAIMED or (ended is PlanState.UNCERTAIN and plan.state == ended):
                return False
            if attempt != plan.attempts and not done:
                return False
            decided: dict[str, Any] = {"decided_by": by.key} if by is not None else {}
            code = "" if event == "settled" else _CODES[ended]  # a person says so, not the other system
            if ended is PlanState.UNCERTAIN:
                move(plan, ended, code=code)
            else:
                with enter_place(Scope.from_json(plan.scope)):
                    gate.settle(tool, grant_of(plan), succeeded=ended is PlanState.EXECUTED, result=result)
                move(plan, ended, result=result, reason=reason[:500], code=code, decided_at=Now(), **decided)
            entries = [trail.entry(plan, str(ended), by=by, code=code, values=result_values(plan, result))]
            if event:  # how it came to be known stands before what it is
                said = trail.reason(reason, by) if by is not None else ()
                entries.insert(0, trail.entry(plan, event, by=by, code=code, values=said))
            audit.append(plan.site, plan.scope_key, *entries)
            return True
    except Exception:
        if ended is PlanState.UNCERTAIN:
            raise
        logger.exception("The end of plan %s could not be recorded; it is uncertain until it is.", plan_id)
        finish(plan_id, tool, PlanState.UNCERTAIN, attempt=attempt)
        return False


def _note_done_after_all(plan: Plan, tool: WriteTool, result: Any) -> None:
    """Keep it when a plan is closed as failed, and a late answer says that it was done: a person has to look.

    The tool's settling step hears of it, so that what was spent counts as spent.
    """
    with enter_place(Scope.from_json(plan.scope)):
        gate.settle(tool, grant_of(plan), succeeded=True, result=result)
    logger.error("Plan %s was done after all; it was closed as failed before that was known.", plan.pk)
    values = result_values(plan, result)
    audit.append(plan.site, plan.scope_key, trail.entry(plan, "done_after_all", values=values))


# -- by a person, when nobody knows -------------------------------------------------------------------------


def look_up(plan: Plan, by: Decider) -> bool:
    """Ask the other system what became of an uncertain operation. Tell whether it knew. Raises Denied."""
    tool = _uncertain(plan, by)
    code = "" if plan.user_id == by.user.pk else why_not_approver(plan, by)
    if code:
        raise trail.refused(plan, by, code, status=403)
    if not tool.has_step("look_up"):
        raise trail.refused(plan, by, "no_look_up")
    try:
        ended, result, told = _ask_what_became(plan, tool)
    except _NoAnswer as error:
        raise trail.refused(plan, by, "no_answer") from error
    if ended is None:
        audit.append(plan.site, plan.scope_key, trail.entry(plan, "looked_up", by=by, code="unknown_there"))
        return False
    recorded = finish(
        plan.pk, tool, ended, result=result, reason=told, attempt=plan.attempts, by=by, event="looked_up"
    )
    if not recorded and _state_now(plan) is PlanState.EXECUTING:
        raise trail.refused(plan, by, "in_flight")  # it is tried again meanwhile, which may do it yet
    return True


class _NoAnswer(Exception):
    """The other system could not be asked, or gave what says nothing."""


def _ask_what_became(plan: Plan, tool: WriteTool) -> tuple[PlanState | None, dict[str, Any] | None, str]:
    """Return how an operation ended as the other system knows it: the end or None, its result, its reason."""
    try:
        with enter_place(Scope.from_json(plan.scope)):
            result = gate.call_out(tool, "look_up", grant_of(plan), plan.payload)
    except CallFailed as error:
        return PlanState.FAILED, None, str(error)
    except Exception as error:
        logger.warning("The other system could not be asked about plan %s: %r", plan.pk, error)
        raise _NoAnswer from error
    if result is None:
        return None, None, ""
    if not (isinstance(result, dict) and result):
        logger.error("%s: look_up must return a dict that says what was done, or None.", tool.where)
        raise _NoAnswer
    return PlanState.EXECUTED, result, ""


def settle(plan: Plan, by: Decider, *, outcome: str, reason: str) -> None:
    """Let a second person say how an uncertain operation ended, with the reason. Raises Denied.

    That it failed frees what was reserved, so the other system is asked first where it can be: what it knows
    to be done is recorded as done, whatever she says.
    """
    tool = _uncertain(plan, by)
    ends = {"executed": PlanState.EXECUTED, "failed": PlanState.FAILED}
    if outcome not in ends or not reason.strip():
        raise trail.refused(plan, by, "reason_needed", status=400)
    code = why_not_approver(plan, by)
    if code:
        raise trail.refused(plan, by, code, status=403)
    if ends[outcome] is PlanState.FAILED and tool.has_step("look_up"):
        _check_not_done(plan, tool, by)
    recorded = finish(
        plan.pk, tool, ends[outcome], reason=reason.strip(), attempt=plan.attempts, by=by, event="settled"
    )
    if not recorded and _state_now(plan) is not PlanState.UNCERTAIN:
        raise trail.refused(plan, by, "not_uncertain")  # it goes on, or has ended, without her


def _check_not_done(plan: Plan, tool: WriteTool, by: Decider) -> None:
    """Record what the other system knows to be done, and raise Denied then. One that is silent says nothing."""
    try:
        ended, result, _ = _ask_what_became(plan, tool)
    except _NoAnswer:
        return
    if ended is not PlanState.EXECUTED:
        return
    recorded = finish(plan.pk, tool, ended, result=result, attempt=plan.attempts, by=by, event="looked_up")
    code = "done_there" if recorded else "not_uncertain"
    if not recorded and _state_now(plan) is PlanState.UNCERTAIN:
        code = "no_answer"  # the end could not be recorded
    raise trail.refused(plan, by, code)


def _state_now(plan: Plan) -> PlanState:
    return effective(clocked(Plan.objects.all()).get(pk=plan.pk))


def _uncertain(plan: Plan, by: Decider) -> WriteTool:
    """Return the tool of an uncertain plan, noted as such. Raises Denied.

    A site that is turned off does not stop this: what was claimed has to come to an end.
    """
    try:
        by.check()
    except Denied as denied:
        raise trail.refused(plan, by, denied.code, status=denied.status) from None
    tool = all_tools().get(plan.tool)
    if tool is None:
        raise trail.refused(plan, by, "tool_changed")
    if effective(plan) is not PlanState.UNCERTAIN:
        raise trail.refused(plan, by, "not_uncertain")
    records: list[audit.Record] = []
    with transaction.atomic(using=router.db_for_write(Plan)):
        _note_uncertain(plan, records)
        if records:
            audit.append(plan.site, plan.scope_key, *records)
    return tool
