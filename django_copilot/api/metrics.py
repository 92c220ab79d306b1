"""The page with the figures: how long operations take, and how many plans came to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import formats
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..metrics import FATES, PERIODS, Figures, figures
from ..models import PlanKind
from ..scope import Scope
from ..tools.write import all_tools
from .base import json_answer, scope_of, wants_json
from .switch import OperatorPage

DEFAULT = "30"
CHARTED = 10  # tools in a chart
LINE, GAP = 18, 10  # pixels, of a line of a chart and between two tools


class MetricsView(OperatorPage):
    """The figures of one period, as a table and charts, or as JSON."""

    http_method_names = ["get", "head"]
    permission = "django_copilot.view_metrics"

    def scope_here(self, request: HttpRequest) -> Scope:
        """Return the scope whose plans are counted."""
        return scope_of(request, self.site)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the figures of the period that is asked for, of 30 days otherwise."""
        period = request.GET.get("period", DEFAULT)
        period = period if period in PERIODS else DEFAULT
        found = figures(site=self.site.name, scope_key=self.scope.key, days=PERIODS[period])
        if wants_json(request):
            return json_answer({"period": period, "tools": [_as_json(each) for each in found]})
        return self.page(
            request,
            "metrics.html",
            title=_("Figures of the assistant"),
            periods=[(name, _period_text(name), name == period) for name in PERIODS],
            rows=[_row(each) for each in found],
            is_cut=any(each.is_cut for each in found),
            charts=[chart for chart in (_times(found), _shares(found)) if chart.lines],
            charted=CHARTED if len(found) > CHARTED else 0,
        )


def _as_json(each: Figures) -> dict[str, Any]:
    return {
        "kind": each.kind,
        "tool": each.tool,
        "label": tool_label(each),
        "plans": each.plans,
        "decided": each.decided,
        "uncertain": each.uncertain,
        **{name: getattr(each, name) for name in FATES},
        "shares": {name: each.share(name) for name in FATES},
        "seconds": {"median": each.median, "p90": each.p90, "of": each.timed, "cut": each.is_cut},
    }


def _row(each: Figures) -> dict[str, Any]:
    return {
        "label": tool_label(each),
        "plans": each.plans,
        "decided": each.decided,
        "uncertain": each.uncertain,
        "median": _time_text(each.median),
        "p90": _time_text(each.p90),
        "shares": [_share_text(each.share(name)) for name in FATES],
    }


# -- words -----------------------------------------------------------------------------------------------


def tool_label(each: Figures) -> str:
    """Return what people call a tool; one that is not declared any more has its name only."""
    if each.kind != PlanKind.TOOL:
        return str(capfirst(PlanKind(each.kind).label))
    tool = all_tools().get(each.tool)
    return str(tool.title) if tool is not None else each.tool


def duration_text(seconds: float) -> str:
    """Return a duration in the two largest units that it has, in the active language."""
    if seconds < 10:
        return _("%(seconds)s s") % {"seconds": formats.number_format(round(seconds, 1), 1)}
    whole = round(seconds)
    if whole < 60:
        return _("%(seconds)s s") % {"seconds": whole}
    if whole < 3_600:
        return _("%(minutes)s min %(seconds)s s") % {"minutes": whole // 60, "seconds": whole % 60}
    if whole < 86_400:
        return _("%(hours)s h %(minutes)s min") % {"hours": whole // 3_600, "minutes": whole % 3_600 // 60}
    days = formats.number_format(whole // 86_400, force_grouping=True)
    return _("%(days)s d %(hours)s h") % {"days": days, "hours": whole % 86_400 // 3_600}


def _time_text(seconds: float | None) -> str:
    return duration_text(seconds) if seconds is not None else "–"


def _share_text(share: float | None) -> str:
    if share is None:
        return "–"
    return _("%(number)s%%") % {"number": formats.number_format(round(share * 100, 1), 1)}


def _period_text(name: str) -> str:
    days = PERIODS[name]
    return _("the last %(days)s days") % {"days": days} if days is not None else _("all the time")


# -- charts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart: the name of a tool, or a bar with its name and its value."""

    text: str
    baseline: int  # pixels from the top
    width: str = ""  # of the bar; "" for none
    value: str = ""

    @property
    def top(self) -> int:
        """Return where the bar begins, in pixels from the top."""
        return self.baseline - 10


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Horizontal bars, drawn by the server; widths are shares of the page's width."""

    ident: str
    title: str
    lines: list[Line]

    @property
    def height(self) -> int:
        """Return the height in pixels."""
        return self.lines[-1].baseline + GAP


BARS = 34  # percent of the width that the longest bar takes


def _chart(ident: str, title: str, tools: list[tuple[str, list[tuple[str, float, str]]]]) -> Chart:
    """Lay out for each tool its name and its bars: name, length from 0 to 1, and value as text."""
    lines: list[Line] = []
    baseline = 4
    for label, bars in tools[:CHARTED]:
        baseline += LINE
        lines.append(Line(text=label, baseline=baseline))
        for text, length, value in bars:
            baseline += LINE
            width = f"{length * BARS:.2f}%"  # with a point in every language
            lines.append(Line(text=text, baseline=baseline, width=width, value=value))
        baseline += GAP
    return Chart(ident=ident, title=title, lines=lines)


def _times(found: list[Figures]) -> Chart:
    longest = max((each.p90 for each in found[:CHARTED] if each.p90 is not None), default=0) or 1
    tools = [
        (
            tool_label(each),
            [
                (_("median"), each.median / longest, duration_text(each.median)),
                (_("90th percentile"), each.p90 / longest, duration_text(each.p90)),
            ],
        )
        for each in found
        if each.median is not None and each.p90 is not None
    ]
    return _chart("copilot-chart-time", _("Time from the first message to the end"), tools)


def _shares(found: list[Figures]) -> Chart:
    names = {
        "rejected": _("rejected"),
        "expired": _("expired"),
        "stale": _("out of date"),
        "undone": _("undone"),
    }
    tools = [
        (
            tool_label(each),
            [(names[fate], each.share(fate) or 0.0, _share_text(each.share(fate))) for fate in FATES],
        )
        for each in found
        if each.decided
    ]
    return _chart("copilot-chart-shares", _("Plans that came to nothing, or were undone"), tools)
