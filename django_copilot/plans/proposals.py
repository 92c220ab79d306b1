"""Plans of write tools are made here: from a model's call, from one that went stale or too old, to undo one."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any

from django.db.models import Count, Q
from django.db.models.functions import Now

from .. import audit
from ..conf import get_settings
from ..exceptions import CallError
from ..models import Conversation, Plan, PlanKind, PlanState, Turn, TurnState
from ..scope import Scope
from ..tools.arguments import from_stored
from ..tools.document import PlanDraft, canonical, digest_of, typed
from ..tools.write import all_tools
from . import trail
from .deciders import Decider
from .pages import asked_at
from .states import CLAIMED, clocked

MAX_REJECTED = 3  # plans of one tool in a turn
MAX_WAITING = 50  # plans of one person that can still be decided


def arguments_key(draft: PlanDraft) -> str:
    """Return what is the same for two calls of a tool that mean the same: with defaults, and 5.5 as 5.50."""
    declared = all_tools()[draft.tool].arguments
    if draft.body["undoes"]:
        return digest_of({"tool": draft.tool, "undoes": draft.body["undoes"]})
    given = {each.name: each.default for each in declared.values()} | from_stored(declared, draft.arguments)
    return digest_of(
        {"tool": draft.tool, "arguments": {name: _plain(value) for name, value in given.items()}}
    )


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return canonical([_plain(each) for each in value])
    return typed(value.normalize() if isinstance(value, decimal.Decimal) else value)


def check_room(user_pk: Any, draft: PlanDraft) -> None:
    """Raise CallError while the same is being done to that record, or when too many plans wait for the person."""
    busy = Q(tool=draft.tool, model=draft.model, object_pk=draft.object_pk, state__in=CLAIMED)
    waiting = Q(user_id=user_pk, kind=PlanKind.TOOL) & (
        Q(state=PlanState.PROPOSED, expires_at__gt=Now())
        | Q(state=PlanState.AWAITING_APPROVAL, approve_by__gt=Now())
    )
    told = Plan.objects.filter(busy | waiting).aggregate(
        busy=Count("pk", filter=busy), waiting=Count("pk", filter=waiting)
    )
    if told["busy"]:
        raise CallError(
            "NOT EXECUTED. The same is being done to that record already, and its end is not known yet. "
            "The person finds it among the plans that wait.",
            code="operation_open",
        )
    if told["waiting"] >= MAX_WAITING:
        raise CallError(
            f"NOT EXECUTED. {MAX_WAITING} plans of this person wait already. She has to decide on some first.",
            code="too_many_waiting",
        )


def check_repeat(turn: Turn, draft: PlanDraft) -> None:
    """Raise CallError for a call that the person has declined since her last message."""
    rejected = Plan.objects.filter(turn=turn, tool=draft.tool, state=PlanState.REJECTED)
    keys = list(rejected.values_list("arguments_key", flat=True))
    if arguments_key(draft) in keys:
        raise CallError(
            "NOT EXECUTED. The person has declined exactly this. Propose something else, or ask her.",
            code="declined_before",
        )
    if len(keys) >= MAX_REJECTED:
        raise CallError(
            "NOT EXECUTED. The person has declined several of these. Ask her what she wants.",
            code="declined_too_often",
        )


def store_plan(
    draft: PlanDraft,
    *,
    scope: Scope,
    user_pk: Any,
    turn: Turn | None,
    conversation: Conversation | None,
    asked: Mapping[str, Any] | None = None,
    proposed_by: str = "",
    made_from: Plan | None = None,
    undo_of: Plan | None = None,
    by: Decider | None = None,
    state: PlanState = PlanState.PROPOSED,
    code: str = "",
    reason: str = "",
) -> Plan:
    """Store a plan with one key for its operation, and tell the audit. Inside the caller's transaction.

    ``asked`` names the model and the prompt behind it; ``state`` is another one only for a plan that nobody
    can decide on.
    """
    settings, tool = get_settings(), all_tools()[draft.tool]
    within = tool.confirm_within or datetime.timedelta(seconds=settings.PLAN_SECONDS)
    plan_id = uuid.uuid4()
    document = draft.document(plan_id)
    Plan.objects.create(
        pk=plan_id,
        kind=PlanKind.TOOL,
        user_id=user_pk,
        site=scope.site,
        scope_key=scope.key,
        scope=scope.to_json(),
        conversation=conversation,
        turn=turn,
        model=draft.model,
        object_pk=draft.object_pk,
        tool=draft.tool,
        version=draft.version,
        category=draft.category,
        arguments=dict(draft.arguments),
        arguments_key=arguments_key(draft),
        document=document,
        digest=digest_of(document),
        amount=draft.amount,
        needs_approval=draft.needs_approval,
        payload=draft.payload,
        key=uuid.uuid4(),
        state=state,
        code=code,
        reason=reason,
        expires_at=Now() + within,  # the clock that will be asked whether it is over
        submit_by=Now() + within,
        asked_at=made_from.asked_at if made_from is not None else asked_at(conversation, turn),
        ended_at=Now() if state is not PlanState.PROPOSED else None,
        proposed_by=proposed_by,
        made_from=made_from,
        undo_of=undo_of,
        open_undo_of=undo_of,
    )
    plan = clocked(Plan.objects.select_related("user", "turn", "undo_of")).get(pk=plan_id)
    audit.append(scope.site, scope.key, trail.proposed(plan, asked=asked or {}, by=by))
    return plan


def remake(plan: Plan, draft: PlanDraft, *, by: Decider) -> Plan:
    """Store a fresh plan in place of one that is over; a turn that waited for that one waits for it."""
    fresh = store_plan(
        draft,
        scope=Scope.from_json(plan.scope),
        user_pk=plan.user_id,
        turn=plan.turn,
        conversation=plan.conversation,
        proposed_by=plan.proposed_by,
        made_from=plan,
        undo_of=plan.undo_of,
        by=by,
    )
    turn = Turn.objects.filter(pk=plan.turn_id, state=TurnState.WAITING).first() if plan.turn_id else None
    if turn is not None and turn.stored and turn.stored.get("plan") == str(plan.pk):
        turn.stored["plan"] = str(fresh.pk)
        turn.save(update_fields=["stored"])
    return fresh
