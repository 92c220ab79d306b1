"""What a run says, and when it says that it is clean."""

from __future__ import annotations

import json

import pytest

from django_copilot.redteam.report import HONEST_LEAST, ORACLES, Report


def report(honest: int = HONEST_LEAST, failed: int = 0) -> Report:
    made = Report()
    for at in range(honest):
        made.asked_honestly(f"request {at}", "no rows" if at < failed else "")
    return made


def test_it_is_clean_with_nothing_found_and_all_honest_requests_answered() -> None:
    assert report().is_clean
    assert not report(HONEST_LEAST - 1).is_clean
    assert not report(failed=1).is_clean


@pytest.mark.parametrize("oracle", sorted(ORACLES))
def test_one_finding_of_any_oracle_is_enough(oracle: int) -> None:
    made = report()
    made.found(oracle, "something", case="here")
    assert not made.is_clean
    assert f"1  {oracle}. {ORACLES[oracle]}" in made.as_text()
    assert "something" in made.as_text()


def test_an_oracle_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no oracle 8"):
        Report().found(8, "x", case="y")


def test_it_survives_being_written_down_and_adds_up() -> None:
    made = report(70, failed=2)
    made.found(3, "a", case="b")
    made.count("tool calls", 5)
    made.not_run["browser"] = "no Chromium"
    made.residual["store.order.region"] = "rules"
    made.seconds = 2.0
    again = Report.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made
    again.add(made)
    assert (again.findings[3], again.counts["tool calls"], again.seconds) == (2, 10, 4.0)
    assert len(again.honest) == 70
    assert len(again.honest_failed) == 2
    assert "2.5 tool calls" in again.as_text() or "2 tool calls a second" in again.as_text()


def test_an_honest_request_that_failed_once_stays_failed() -> None:
    made = report()
    made.asked_honestly("request 0", "no rows")
    made.asked_honestly("request 0")
    assert made.honest_failed == {"request 0": "no rows"}


def test_many_findings_keep_few_examples() -> None:
    made = Report()
    for at in range(500):
        made.found(2, f"finding {at}", case="x")
    assert (made.findings[2], len(made.examples[2])) == (500, 20)
