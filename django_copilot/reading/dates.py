"""Words for dates, worked out by code: "today", "last month", "friday", "7 days ago", "2026-10".

Standard library only. A period is half open: its start belongs to it, its end does not. Weeks begin on
Monday, as the database's own truncation to weeks has it.
"""

from __future__ import annotations

import datetime
import re

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
EXPLAINED = "today, friday, last month, this quarter, 7 days ago, last 30 days, 2026-10"
MOST = 10_000  # days, weeks, … back

_UNITS = "day|week|month|quarter|year"
_NAMED = re.compile(rf"(this|last|next) ({_UNITS})")
_AGO = re.compile(rf"([0-9]{{1,5}}) ({_UNITS})s? ago")
_LATEST = re.compile(rf"(?:last|past) ([1-9][0-9]{{0,4}}) ({_UNITS})s?")
_WEEKDAY = re.compile(rf"(last )?({'|'.join(WEEKDAYS)})")
_MONTH = re.compile(rf"({'|'.join(MONTHS)})(?: ([1-9][0-9]{{3}}))?")
_ISO_PERIOD = re.compile(r"(\d{4})(?:-(?:(\d{2})|q([1-4])))?", re.ASCII)

_HOURS = re.compile(r"(?:(?:last|past) ([1-9][0-9]{0,4}) hours?|([0-9]{1,5}) hours? ago)")

Period = tuple[datetime.datetime, datetime.datetime]


def period(text: str, now: datetime.datetime) -> Period | None:
    """Return the start and the end that words mean at ``now``, a local time without a zone; None for other texts.

    Raises OverflowError beyond the calendar.
    """
    words = " ".join(text.lower().split())
    if found := _ISO_PERIOD.fullmatch(words):
        return _iso(found)
    today = datetime.datetime.combine(now.date(), datetime.time())
    day = datetime.timedelta(days=1)
    if words == "now":
        return now, now
    days = {"today": 0, "yesterday": -1, "tomorrow": 1}
    if words in days:
        start = today + days[words] * day
        return start, start + day
    if found := _WEEKDAY.fullmatch(words):
        back = (today.weekday() - WEEKDAYS.index(found[2])) % 7
        start = today - (back or (7 if found[1] else 0)) * day
        return start, start + day
    if found := _NAMED.fullmatch(words):
        start = _start_of(found[2], now)
        start = _moved(start, found[2], {"this": 0, "last": -1, "next": 1}[found[1]])
        return start, _moved(start, found[2], 1)
    if found := _AGO.fullmatch(words):
        moved = _moved(now, found[2], -_number(found[1]))
        start = datetime.datetime.combine(moved.date(), datetime.time())
        return start, start + day
    if found := _LATEST.fullmatch(words):
        return _moved(today + day, found[2], -_number(found[1])), today + day
    if found := _MONTH.fullmatch(words):
        month = MONTHS.index(found[1]) + 1
        year = int(found[2]) if found[2] else now.year - (month > now.month)
        start = _first_of(max(year, 1), month)
        return start, _moved(start, "month", 1)
    return None


def hours(text: str) -> tuple[int, bool] | None:
    """Return how many hours back words mean, and whether all since then; None for other texts.

    A day may have 23 or 25 hours, so they are counted from a point in time and not on a clock.
    """
    found = _HOURS.fullmatch(" ".join(text.lower().split()))
    if found is None:
        return None
    return _number(found[1] or found[2]), found[1] is not None


def _first_of(year: int, month: int) -> datetime.datetime:
    return datetime.datetime.combine(datetime.date(year, month, 1), datetime.time())


def _number(digits: str) -> int:
    if int(digits) > MOST:
        raise OverflowError
    return int(digits)


def _iso(found: re.Match[str]) -> Period | None:
    year, month = int(found[1]), int(found[2] or 0)
    if not year or month > 12 or (found[2] and not month):
        return None
    if found[3]:
        start, unit = _first_of(year, int(found[3]) * 3 - 2), "quarter"
    else:
        start, unit = _first_of(year, month or 1), "month" if month else "year"
    return start, _moved(start, unit, 1)


def _start_of(unit: str, now: datetime.datetime) -> datetime.datetime:
    day = datetime.datetime.combine(now.date(), datetime.time())
    match unit:
        case "week":
            return day - datetime.timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return day.replace(month=1, day=1)
    return day


def _moved(when: datetime.datetime, unit: str, number: int) -> datetime.datetime:
    """Return a time so many units later; the last day of a shorter month stands for one that it has not."""
    days = {"day": 1, "week": 7}
    if unit in days:
        return when + datetime.timedelta(days=days[unit] * number)
    months = when.year * 12 + when.month - 1 + {"month": 1, "quarter": 3, "year": 12}[unit] * number
    year, month = divmod(months, 12)
    if not datetime.MINYEAR <= year <= datetime.MAXYEAR:
        raise OverflowError
    first = datetime.date(year, month + 1, 1)
    # Day 0 of the month after: 28 days on is always in this month, 31 at most in the next.
    last = (first.replace(day=28) + datetime.timedelta(days=4)).replace(day=1) if year < 9999 else None
    length = (last - first).days if last is not None else 31
    return when.replace(year=year, month=month + 1, day=min(when.day, length))
