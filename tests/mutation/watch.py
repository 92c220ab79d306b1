"""What a test run writes down of guards: how each test ended, and which guards it came upon."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from . import switch

OFF = "COPILOT_TEST_MUTATION"  # ids of guards, a line each


class Watch:
    """Run chosen tests in a chosen order, and write down how each ended and which guards it came upon."""

    def __init__(self, chosen: Sequence[str] = (), report: Path | None = None) -> None:
        self.place = {name: number for number, name in enumerate(chosen)}
        self.report = report
        self.outcomes: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.asked: dict[str, set[str]] = {}
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.place:
            others = [each for each in items if each.nodeid not in self.place]
            items[:] = sorted(
                (each for each in items if each.nodeid in self.place),
                key=lambda each: self.place[each.nodeid],
            )
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        switch.asked.clear()
        result = yield
        self.asked[item.nodeid] = set(switch.asked)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0.0) + report.duration
        if self.outcomes.get(name) != "failed":
            self.outcomes[name] = report.outcome
        if report.failed and not self.failed:
            self.failed = name

    def pytest_sessionfinish(self) -> None:
        if self.report is not None:
            came_upon: set[str] = set().union(*self.asked.values())
            places = {ident: place for place, ident in enumerate(sorted(came_upon))}
            told = {
                "outcomes": self.outcomes,
                "seconds": self.seconds,
                "failed": self.failed,
                "guards": list(places),
                "asked": {name: sorted(places[each] for each in asked) for name, asked in self.asked.items()},
            }
            self.report.write_text(json.dumps(told), "utf-8")
