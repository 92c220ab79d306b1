"""Whether a plan needs a second person: the tool's rule, asked with what was before."""

from __future__ import annotations

import datetime
import decimal
import logging
from typing import Any

from django.db.models import Count, Q, Sum
from django.db.models.functions import Abs, Now

from ..database import contained
from ..models import Plan, PlanKind, PlanState
from .document import Looked
from .guard import only_reading, through_context
from .write import Usage

logger = logging.getLogger("django_copilot")

# Confirmed at least, and not known to have come to nothing.
CLAIMED = (PlanState.EXECUTING, PlanState.UNCERTAIN)
COUNTED = (PlanState.AWAITING_APPROVAL, PlanState.EXECUTING, PlanState.UNCERTAIN, PlanState.EXECUTED)


def needs_approval(looked: Looked, *, requester: Any, plan_id: Any = None) -> bool:
    """Ask the tool's rule. An exception in it is a yes. The plan with ``plan_id`` is not counted itself."""

    def usage(window: datetime.timedelta) -> Usage:
        with through_context():
            plans = Plan.objects.filter(
                Q(user_id=requester) | Q(model=looked.target.model, object_pk=looked.target.pk),
                # What may still happen counts however old it is, and what happened from when it did.
                Q(state__in=CLAIMED) | Q(confirmed_at__gt=Now() - window) | Q(ended_at__gt=Now() - window),
                state__in=COUNTED,
                kind=PlanKind.TOOL,
                tool=looked.tool.name,
                undo_of=None,
            ).exclude(pk=plan_id)
            told = plans.aggregate(count=Count("pk"), amount=Sum(Abs("amount")))
            return Usage(count=told["count"], amount=told["amount"] or decimal.Decimal(0))

    try:
        with contained(), only_reading():
            return bool(looked.tool.approval.is_needed(looked.ctx, looked.preview, usage))
    except Exception:
        logger.exception("The approval rule of %s failed; a second person is needed.", looked.tool.name)
        return True
