"""Read words for dates in three languages as the words that the tools take: "zeszły miesiąc" is "last month".

What such words mean on which day is worked out by the tools and not here; only a day that is named by its
number and month becomes a date.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from .tokens import Token
from .values import Context, time_at, written_date
from .words import Words, small_number

UNITS: dict[str, Words] = {
    "hour": Words("hour hours godzin* час часа часов часы"),
    "day": Words("day days dzień dnia dni dniu dniach день дня дней дни дню дням"),
    "week": Words("week weeks tydzień tygodnia tygodniu tygodniem tygodni tygodnie tygodniach недел*"),
    "month": Words("month months miesiąc* miesięc* месяц*"),
    "quarter": Words("quarter quarters kwarta* квартал*"),
    "year": Words("year years rok roku lat lata год года году лет годы годам"),
}
_DAYS = {
    "today": Words("today dziś dzisiaj dzisiejsz* сегодня сегодняшн*"),
    "yesterday": Words("yesterday wczoraj wczorajsz* вчера вчерашн*"),
    "tomorrow": Words("tomorrow jutro jutrzejsz* завтра завтрашн*"),
}
_WEEKDAYS = {
    "monday": Words("monday mondays poniedział* понедельник*"),
    "tuesday": Words("tuesday tuesdays wtorek wtorku wtorkiem вторник*"),
    "wednesday": Words("wednesday wednesdays środa środę środy środzie среда среду среды среде"),
    "thursday": Words("thursday thursdays czwartek czwartku czwartkiem четверг*"),
    "friday": Words("friday fridays piątek piątku piątkiem пятниц*"),
    "saturday": Words("saturday saturdays sobot* суббот*"),
    "sunday": Words("sunday sundays niedziel* воскресен*"),
}
_WHICH = {
    "last": Words(
        "last previous past zeszł* ubiegł* poprzedni* ostatni* miniony minion* прошл* минувш* предыдущ* последн*"
    ),
    "this": Words("this current tym tego tę bieżąc* этот этого этом эту эта этой это текущ*"),
    "next": Words("next coming następn* przyszł* следующ* будущ*"),
}
_LATEST = Words("last past ostatni* последн*")
_AGO = Words("ago temu назад тому")
_ONE = Words("a an one")
_MONTHS: tuple[Words, ...] = (
    Words("january styczeń stycznia styczniu январь января январе"),
    Words("february luty lutego lutym февраль февраля феврале"),
    Words("march marzec marca marcu март марта марте"),
    Words("april kwiecień kwietnia kwietniu апрель апреля апреле"),
    Words("may maj maja maju май мая мае"),
    Words("june czerwiec czerwca czerwcu июнь июня июне"),
    Words("july lipiec lipca lipcu июль июля июле"),
    Words("august sierpień sierpnia sierpniu август августа августе"),
    Words("september wrzesień września wrześniu сентябрь сентября сентябре"),
    Words("october październik października październiku октябрь октября октябре"),
    Words("november listopad listopada listopadzie ноябрь ноября ноябре"),
    Words("december grudzień grudnia grudniu декабрь декабря декабре"),
)
_ENGLISH = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SHORT = {name[:3]: number for number, name in enumerate(_ENGLISH, 1)}
_YEAR = re.compile(r"(?:19|20)\d\d", re.ASCII)
_ISO_MONTH = re.compile(r"(?:19|20)\d\d-(?:0[1-9]|1[0-2]|q[1-4])", re.ASCII)

Found = tuple[str, int]  # the words of the tools, and how many tokens said so


def period_at(tokens: Sequence[Token], at: int, context: Context, *, led: bool) -> Found | None:
    """Return the period that is named at a place. ``led``: a word before it says that a time follows."""
    if at >= len(tokens):
        return None
    token = tokens[at]
    if token.kind == "date":
        day = written_date(token.text, context.language)
        clock = time_at(tokens[at + 1 :])
        if day is None or clock is None:
            return (day.isoformat(), 1) if day is not None else None
        return datetime.datetime.combine(day, clock[0]).isoformat(), 1 + clock[1]
    for name, words in (*_DAYS.items(), *_WEEKDAYS.items()):
        if token.kind == "word" and token.folded in words:
            return name, 1
    return (
        _day_at(tokens, at, context)
        or _counted_at(tokens, at)
        or _named_at(tokens, at)
        or (_month_at(tokens, at) if led or _is_long(tokens, at) else None)
        or (_year_at(tokens, at) if led else None)
    )


def is_period_at(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether "last" or an ordinal at a place begins the name of a period: "last month"."""
    return bool(_counted_at(tokens, at) or _named_at(tokens, at))


def day_number_at(tokens: Sequence[Token], at: int) -> int | None:
    """Return the day of a month that is only a number: "1" of "1 to 5 November"."""
    if at < len(tokens) and tokens[at].kind == "number" and tokens[at].text.isdecimal():
        number = int(tokens[at].text[:3])
        return number if 1 <= number <= 31 else None
    return None


def month_number(token: Token, *, short: bool = False) -> int:
    """Return which month a word names, 0 if none. ``short``: also by its first three letters in English."""
    if token.kind != "word":
        return 0
    found = next((number for number, words in enumerate(_MONTHS, 1) if token.folded in words), 0)
    return found or (_SHORT.get(token.folded, 0) if short else 0)


def _day_at(tokens: Sequence[Token], at: int, context: Context) -> Found | None:
    """Read a day with its month, and the year after it: "5 November 2026", "November 5"."""
    if at + 1 >= len(tokens):
        return None
    first, second = tokens[at], tokens[at + 1]
    day, month = day_number_at(tokens, at), month_number(second, short=True)
    if day is None:
        day, month = day_number_at(tokens, at + 1), month_number(first, short=True)
    if day is None or not month:
        return None
    used = 2
    after = tokens[at + 2] if at + 2 < len(tokens) else None
    if after is not None and after.text == "," and at + 3 < len(tokens):
        after = tokens[at + 3]
    year = 0
    if after is not None and _YEAR.fullmatch(after.text):
        year, used = int(after.text), after.index - first.index + 1
        used += _year_word(tokens, at + used)
    made = date_of(day, month, year, context.today)
    return (made, used) if made else None


def date_of(day: int, month: int, year: int, today: datetime.date | None) -> str:
    """Return a day as a date; without a year the latest such month. A day that does not exist stays as it is said."""
    if not year:
        if today is None:
            return ""
        year = today.year - (month > today.month)
    return f"{year:04}-{month:02}-{day:02}"


def _counted_at(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "7 days ago", "a week ago" and "last 30 days"."""
    token = tokens[at]
    if token.folded in _LATEST and at + 2 < len(tokens):
        number, unit = small_number(tokens[at + 1]), unit_of(tokens[at + 2])
        if number and unit:
            return f"last {number} {unit}s", 3
    if token.folded in _AGO:
        return None
    number = 1 if token.folded in _ONE else small_number(token)
    start = at + 1
    if number is None and unit_of(token):  # "tydzień temu"
        number, start = 1, at
    if number and start + 1 < len(tokens) and tokens[start + 1].folded in _AGO:
        unit = unit_of(tokens[start])
        if unit:
            return f"{number} {unit}{'s' if number > 1 else ''} ago", start + 2 - at
    return None


def _named_at(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "last month", "this week" and "last Friday"."""
    if at + 1 >= len(tokens) or tokens[at].kind != "word":
        return None
    which = next((name for name, words in _WHICH.items() if tokens[at].folded in words), "")
    if not which:
        return None
    unit = unit_of(tokens[at + 1])
    if unit:
        return f"{which} {unit}", 2
    day = next((name for name, words in _WEEKDAYS.items() if tokens[at + 1].folded in words), "")
    if not day or which == "next":
        return None
    return (f"last {day}" if which == "last" else day), 2


def _month_at(tokens: Sequence[Token], at: int) -> Found | None:
    month = month_number(tokens[at])
    if _ISO_MONTH.fullmatch(tokens[at].folded):
        return tokens[at].folded, 1
    if not month:
        return None
    if _is_long(tokens, at):
        return f"{tokens[at + 1].text}-{month:02}", 2 + _year_word(tokens, at + 2)
    return _ENGLISH[month - 1], 1


def _is_long(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a month and its year stand at a place."""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return bool(month_number(tokens[at]) and following is not None and _YEAR.fullmatch(following.text))


def _year_at(tokens: Sequence[Token], at: int) -> Found | None:
    if tokens[at].kind == "number" and _YEAR.fullmatch(tokens[at].text):
        return tokens[at].text, 1 + _year_word(tokens, at + 1)
    return None


def _year_word(tokens: Sequence[Token], at: int) -> int:
    """Return 1 where only the word "year" follows a year's number: "2026 roku", "2026 года"."""
    return int(at < len(tokens) and tokens[at].folded in UNITS["year"])


def unit_of(token: Token) -> str:
    """Return the English name of a unit of time, "" if a word names none."""
    return next((unit for unit, words in UNITS.items() if token.folded in words), "")
