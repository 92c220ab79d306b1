"""Plans: what the assistant proposed, claimed at most once and only by a person's own request.

A plan of kind form is claimed inside the transaction that saves the admin's form. One of kind delete changes
nothing by itself; it is closed when its record is deleted on the admin's own page. One of kind list only says
what the admin's list ticks when it is opened, as often as that is before it expires. Whether a window is over
is asked of the database's clock, in the claiming statement.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from .. import audit
from ..conf import get_settings
from ..database import lock_rows
from ..models import Conversation, Message, Plan, PlanKind, PlanState, Turn
from ..scope import Scope
from ..tools.base import Proposed
from . import trail
from .states import OPEN


def propose(
    proposed: Proposed, *, scope: Scope, user_pk: Any, conversation: Conversation, turn: Turn
) -> Plan:
    """Store what a tool proposed, for its owner alone."""
    return _store(
        scope,
        user_id=user_pk,
        kind=PlanKind(proposed.kind),
        conversation=conversation,
        turn=turn,
        asked_at=asked_at(conversation, turn),
        model=proposed.label,
        object_pk=proposed.object_pk,
        values=dict(proposed.values),
        base=dict(proposed.base),
        document={"query": dict(proposed.query), "ids": list(proposed.ticked), "action": proposed.action}
        if proposed.kind == "list"
        else {},
    )


@transaction.atomic
def renew(plan: Plan, *, scope: Scope, base: dict[str, Any]) -> Plan | None:
    """Propose the same values again on what the record holds now. The old plan can't be used any more.

    A plan is renewed once: asked again, the newer one is returned if it is still open, else None.
    """
    if not reject(plan):
        newer = Plan.objects.filter(
            user=plan.user,
            turn=plan.turn,
            kind=plan.kind,
            model=plan.model,
            object_pk=plan.object_pk,
            state=PlanState.PROPOSED,
        )
        return newer.order_by("-created_at").first()
    return _store(
        scope,
        user_id=plan.user_id,
        kind=plan.kind,
        conversation_id=plan.conversation_id,
        turn_id=plan.turn_id,
        asked_at=plan.asked_at,
        model=plan.model,
        object_pk=plan.object_pk,
        values=plan.values,
        base=base,
        document=plan.document,
    )


def _store(scope: Scope, **fields: Any) -> Plan:
    settings, now = get_settings(), timezone.now()
    return Plan.objects.create(
        site=scope.site,
        scope_key=scope.key,
        scope=scope.to_json(),
        expires_at=now + datetime.timedelta(seconds=settings.PLAN_SECONDS),
        submit_by=now + datetime.timedelta(seconds=settings.FORM_SECONDS),
        **fields,
    )


def asked_at(conversation: Conversation | None, turn: Turn | None) -> Any:
    """Return when the person began with this operation: her first message since the last one ended."""
    if conversation is None:
        return turn.started_at if turn is not None else None
    ended = Plan.objects.filter(conversation=conversation).aggregate(last=Max("ended_at"))["last"]
    messages = Message.objects.filter(conversation=conversation, role=Message.Role.USER)
    if ended is not None:
        messages = messages.filter(created_at__gt=ended)
    first = messages.order_by("id").values_list("created_at", flat=True).first()
    return first or (turn.started_at if turn is not None else None)


def reject(plan: Plan) -> bool:
    """Close an open plan without doing anything. Tell whether it was open."""
    proposed = Plan.objects.filter(pk=plan.pk, state=PlanState.PROPOSED)
    return proposed.update(state=PlanState.REJECTED, decided_at=Now(), ended_at=Now()) == 1


def action_of(plan: Plan, proposed: Proposed) -> dict[str, Any]:
    """Return the browser action of the chat's answer."""
    of_list = {"aiAction": "list", "fragment": fragment(plan)} if plan.kind == PlanKind.LIST else {}
    return {
        **of_list,
        "path": proposed.path,
        "queryParams": query_params(plan),
        "prefill": dict(proposed.prefill),
        "dropped": list(proposed.dropped),
    }


def query_params(plan: Plan) -> dict[str, str]:
    """Return the parameters with which a page opens a plan.

    The admin's list reads a parameter it does not know as a filter: there are none of ours in its address.
    """
    if plan.kind == PlanKind.LIST:
        return dict(plan.document["query"])
    if plan.kind == PlanKind.DELETE:
        return {"aiAction": "delete", "aiId": plan.object_pk, "aiPlan": str(plan.pk)}
    if plan.object_pk:
        return {"aiAction": "edit", "aiId": plan.object_pk, "aiPlan": str(plan.pk)}
    return {"aiAction": "create", "aiPlan": str(plan.pk)}


def fragment(plan: Plan) -> str:
    """Return what names a plan behind the address of the admin's list, "" where nothing is to be ticked."""
    return f"copilot-plan={plan.pk}" if plan.kind == PlanKind.LIST and plan.document["ids"] else ""


def own_plans(user: Any, scope: Scope) -> QuerySet[Plan]:
    """Return the plans that belong to this person, on this site, in this scope."""
    return Plan.objects.filter(user_id=user.pk, site=scope.site, scope_key=scope.key)


def find_plan(user: Any, scope: Scope, given: Any, **conditions: Any) -> Plan | None:
    """Return one of the person's own plans by the text of its id, or None for everything else."""
    try:
        ident = uuid.UUID(given)
    except (ValueError, TypeError, AttributeError):
        return None
    return own_plans(user, scope).filter(pk=ident, **conditions).first()


def is_openable(plan: Plan) -> bool:
    """Tell whether the plan's page may still be opened with its values, by the database's clock."""
    return Plan.objects.filter(pk=plan.pk, state=PlanState.PROPOSED, expires_at__gt=Now()).exists()


def claim(plan: Plan) -> bool:
    """Claim the plan for the save that is under way; True for exactly one request.

    Called inside the saving transaction: if that fails, the claim goes with it.
    """
    return (
        Plan.objects.filter(pk=plan.pk, state=PlanState.PROPOSED, submit_by__gt=Now()).update(
            state=PlanState.EXECUTED, decided_at=Now()
        )
        == 1
    )


def withdraw_claim(plan: Plan) -> None:
    """Take an uncommitted claim back, because the form was not saved. Same transaction as the claim."""
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.PROPOSED, decided_at=None)


def record_result(plan: Plan, pk_text: str) -> None:
    """Remember which record the claimed plan was saved as, and tell the audit, in the saving transaction."""
    Plan.objects.filter(pk=plan.pk).update(result_pk=pk_text, ended_at=Now())
    audit.append(plan.site, plan.scope_key, trail.page_ended(plan, "executed"))


def close_deleted(user: Any, scope: Scope, label: str, object_pk: str) -> int:
    """Close the person's open delete plans of a record that she has just deleted."""
    closed = list(
        own_plans(user, scope).filter(
            kind=PlanKind.DELETE, model=label, object_pk=object_pk, state=PlanState.PROPOSED
        )
    )
    if closed:
        Plan.objects.filter(pk__in=[each.pk for each in closed], state=PlanState.PROPOSED).update(
            state=PlanState.EXECUTED, decided_at=Now(), ended_at=Now(), result_pk=object_pk
        )
        audit.append(scope.site, scope.key, *(trail.page_ended(each, "executed") for each in closed))
    return len(closed)


def reject_open(conversation: Conversation) -> list[audit.Record]:
    """Reject what can still be decided of a conversation that is being deleted; what was claimed goes on.

    Returns what the audit is to be told, last in the caller's transaction.
    """
    told: list[audit.Record] = []
    # Whoever held one of them may have made a fresh one in its place while this waited.
    while plans := lock_rows(Plan.objects.filter(conversation=conversation, state__in=OPEN)):
        Plan.objects.filter(pk__in=[each.pk for each in plans], state__in=OPEN).update(
            state=PlanState.REJECTED,
            decided_at=Now(),
            decided_by=str(conversation.user_id),
            ended_at=Now(),
            open_undo_of=None,
        )
        told += [trail.page_ended(each, "rejected") for each in plans]
    return told
