"""What is measured of plans: how long an operation takes for a person, and how many proposals were no use.

Counted by the database. Percentiles are by nearest rank, of the latest durations up to a number.
Plans that undo another one are not counted, nor those that nobody was there to decide on.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, DateTimeField, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from .models import Plan, PlanKind, PlanState
from .plans.states import ENDS

PERIODS: dict[str, int | None] = {"7": 7, "30": 30, "90": 90, "all": None}  # days, by name
MAX_DURATIONS = 10_000  # that are read for the percentiles, of all tools together
FEWEST_DURATIONS = 100  # that are read of one tool, however many there are

CARRIED_OUT = (PlanState.EXECUTED, PlanState.UNDONE, PlanState.FAILED)
OVER = Q(state=PlanState.PROPOSED, expires_at__lte=Now()) | Q(
    state=PlanState.AWAITING_APPROVAL, approve_by__lte=Now()
)
COUNTED = {
    "decided": Q(state__in=(PlanState.EXECUTED, *ENDS)) | OVER,
    "rejected": Q(state=PlanState.REJECTED),
    "expired": Q(state=PlanState.EXPIRED) | OVER,
    "stale": Q(state=PlanState.STALE),
    "undone": Q(state=PlanState.UNDONE),
    "uncertain": Q(state=PlanState.UNCERTAIN) | Q(state=PlanState.EXECUTING, lease_until__lte=Now()),
}
FATES = ("rejected", "expired", "stale", "undone")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one tool in one period. All but ``median`` and ``p90``, in seconds, are numbers of plans."""

    kind: str
    tool: str  # "" for forms and delete pages
    plans: int
    decided: int  # those whose fate is known, of which the shares are
    rejected: int
    expired: int
    stale: int
    undone: int
    uncertain: int
    timed: int  # whose duration went into the percentiles
    is_cut: bool  # there are more of them
    median: float | None
    p90: float | None

    def share(self, fate: str) -> float | None:
        """Return the share of a fate, from 0 to 1; None while nothing is decided."""
        return getattr(self, fate) / self.decided if self.decided else None


def figures(*, site: str, scope_key: str, days: int | None) -> list[Figures]:
    """Return the figures of each tool for the plans made in the last so many days, the most used first.

    Of forms and delete pages there is one each. Of lists there are none: nobody knows whether what they ticked
    was run. None days are all.
    """
    plans = Plan.objects.filter(site=site, scope_key=scope_key, undo_of=None).exclude(code="headless")
    plans = plans.exclude(kind=PlanKind.LIST)
    if days is not None:
        plans = plans.filter(created_at__gte=timezone.now() - datetime.timedelta(days=days))
    counts = {f"of_{name}": Count("pk", filter=condition) for name, condition in COUNTED.items()}
    # Ordering by nothing keeps a default one out of the groups.
    by_tool: Any = plans.order_by().values("kind", "tool")
    groups = list(by_tool.annotate(of_plans=Count("pk"), **counts))
    each_reads = max(FEWEST_DURATIONS, MAX_DURATIONS // len(groups)) if groups else 0
    found = []
    for group in groups:
        taken = _durations(plans.filter(kind=group["kind"], tool=group["tool"]), each_reads + 1)
        timed = sorted(taken[:each_reads])
        found.append(
            Figures(
                kind=group["kind"],
                tool=group["tool"] if group["kind"] == PlanKind.TOOL else "",
                timed=len(timed),
                is_cut=len(taken) > each_reads,
                plans=group["of_plans"],
                median=percentile(timed, 50),
                p90=percentile(timed, 90),
                **{name: group[f"of_{name}"] for name in COUNTED},
            )
        )
    return sorted(found, key=lambda each: (-each.plans, each.kind, each.tool))


def _durations(plans: QuerySet[Plan], most: int) -> list[float]:
    """Return how many seconds the latest operations took from the person's first message to their end."""
    ended = plans.filter(state__in=CARRIED_OUT).annotate(
        begun=Coalesce("asked_at", "created_at", output_field=DateTimeField()),
        finished=Coalesce("ended_at", "decided_at", output_field=DateTimeField()),
    )
    moments = (
        ended.filter(finished__isnull=False).order_by("-created_at").values_list("begun", "finished")[:most]
    )
    # Two clocks may have been read, of a process and of the database.
    return [max(0.0, (finished - begun).total_seconds()) for begun, finished in moments]


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that so many percent do not exceed; None of no values."""
    return ordered[math.ceil(percent * len(ordered) / 100) - 1] if ordered else None
