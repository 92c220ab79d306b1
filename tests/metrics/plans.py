"""Stored plans as the tests of the figures need them."""

from __future__ import annotations

import datetime
from typing import Any

from django.utils import timezone

from django_copilot.models import Plan, PlanKind, PlanState

HOUR = datetime.timedelta(hours=1)
S = PlanState


def plan(
    state: PlanState = S.EXECUTED, *, seconds: float | None = None, age: float = 1.0, **values: Any
) -> Plan:
    """Store a plan made so many days ago; with ``seconds`` it ended so long after the person's first message."""
    now = timezone.now()
    made = now - datetime.timedelta(days=age)
    given: dict[str, Any] = {
        "kind": PlanKind.TOOL,
        "tool": "refund_payment",
        "site": "admin",
        "model": "store.order",
        "expires_at": now + HOUR,
        "submit_by": now + HOUR,
        "asked_at": made,
        "ended_at": made + datetime.timedelta(seconds=seconds) if seconds is not None else None,
        **values,
    }
    created = Plan.objects.create(state=state, **given)
    Plan.objects.filter(pk=created.pk).update(created_at=values.get("created_at", made))
    return created
