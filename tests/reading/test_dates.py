"""Words for dates: what each means on a given day, and that nothing else is taken for one."""

from __future__ import annotations

import datetime
from datetime import datetime as at

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_copilot.reading.dates import EXPLAINED, MOST, hours, period

NOW = at(2026, 11, 30, 13, 5)  # a Monday  # noqa: DTZ001
DAY = datetime.timedelta(days=1)


def days(start: str, end: str) -> tuple[at, at]:
    return at.fromisoformat(start), at.fromisoformat(end)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("today", "2026-11-30", "2026-12-01"),
        ("Yesterday", "2026-11-29", "2026-11-30"),
        ("tomorrow", "2026-12-01", "2026-12-02"),
        ("friday", "2026-11-27", "2026-11-28"),
        ("monday", "2026-11-30", "2026-12-01"),
        ("last monday", "2026-11-23", "2026-11-24"),
        ("last sunday", "2026-11-29", "2026-11-30"),
        ("this week", "2026-11-30", "2026-12-07"),
        ("last  week", "2026-11-23", "2026-11-30"),
        ("last month", "2026-10-01", "2026-11-01"),
        ("this quarter", "2026-10-01", "2027-01-01"),
        ("last quarter", "2026-07-01", "2026-10-01"),
        ("next year", "2027-01-01", "2028-01-01"),
        ("7 days ago", "2026-11-23", "2026-11-24"),
        ("1 week ago", "2026-11-23", "2026-11-24"),
        ("9 months ago", "2026-02-28", "2026-03-01"),
        ("last 7 days", "2026-11-24", "2026-12-01"),
        ("past 2 weeks", "2026-11-17", "2026-12-01"),
        ("november", "2026-11-01", "2026-12-01"),
        ("december", "2025-12-01", "2026-01-01"),
        ("february 2024", "2024-02-01", "2024-03-01"),
        ("2026-10", "2026-10-01", "2026-11-01"),
        ("2026-Q3", "2026-07-01", "2026-10-01"),
        ("2026", "2026-01-01", "2027-01-01"),
    ],
)
def test_what_words_mean(words: str, start: str, end: str) -> None:
    assert period(words, NOW) == days(start, end)


@pytest.mark.parametrize(
    "text", ["", "someday", "2026-13", "2026-00", "0000", "2026-q5", "last", "-3 days ago", "last 5 fridays"]
)
def test_other_texts_mean_nothing(text: str) -> None:
    assert period(text, NOW) is None


@pytest.mark.parametrize("text", ["99999 years ago", "last 10001 days", "last 9000 years", "9999"])
def test_beyond_the_calendar_is_an_overflow(text: str) -> None:
    with pytest.raises((OverflowError, ValueError)):
        period(text, NOW)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("last 24 hours", (24, True)),
        ("Past 1 hour", (1, True)),
        ("3 hours ago", (3, False)),
        ("last 3 days", None),
        ("3 hours", None),
    ],
)
def test_hours_are_counted_and_not_read_off_a_clock(text: str, wanted: tuple[int, bool] | None) -> None:
    assert hours(text) == wanted


def test_what_a_model_is_told_of_is_understood() -> None:
    for words in EXPLAINED.split(", "):
        assert period(words, NOW) is not None, words


@given(st.text(max_size=40), st.datetimes(min_value=at(1, 1, 1), max_value=at(9999, 12, 31)))  # noqa: DTZ001
def test_no_text_fails_in_another_way(text: str, now: at) -> None:
    try:
        found = period(text, now)
        hours(text)
    except (OverflowError, ValueError):
        return
    assert found is None or found[0] <= found[1]


@given(
    st.integers(min_value=0, max_value=MOST),
    st.sampled_from(["day", "week", "month", "quarter", "year"]),
    st.datetimes(min_value=at(1900, 1, 1), max_value=at(2100, 12, 31)),  # noqa: DTZ001
)
def test_so_many_ago_is_a_day_and_no_later_than_now(number: int, unit: str, now: at) -> None:
    try:
        found = period(f"{number} {unit}s ago", now)
    except OverflowError:
        return
    assert found is not None
    start, end = found
    assert end - start == DAY
    assert start <= now
    if unit in ("day", "week"):
        assert (now.date() - start.date()).days == number * (7 if unit == "week" else 1)
