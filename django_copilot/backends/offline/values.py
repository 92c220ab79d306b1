"""Read what stands after the name of a field as a value of that field's type."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from .lexicon import Field, longest_at
from .tokens import Token, read_json, written
from .words import (
    AND,
    BECOMES,
    CHANGES_TO,
    CONDITION,
    FROM,
    IS,
    JOINS,
    LATEST,
    MONTHS,
    NO,
    POLITE,
    TODAY,
    TOMORROW,
    YES,
    Intent,
    Language,
    is_plain,
    small_number,
)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A value as the tool takes it."""

    value: Any
    text: str  # as it was typed


@dataclass(frozen=True, kw_only=True)
class Item:
    """One related record: by its id, or by a name that has to be looked up."""

    id: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Related:
    """The related records of a relation."""

    items: tuple[Item, ...]


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """Words that are no value of the field."""

    text: str


Value = Plain | Related | Unreadable


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A value, and the tokens after it that are not part of it."""

    value: Value
    rest: tuple[Token, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a value's reading depends on besides its words."""

    source: str
    language: Language
    condition: bool = False  # a search's condition: text ends where the next condition begins
    today: datetime.date | None = None


def read_value(field: Field, tokens: Sequence[Token], context: Context) -> Reading:
    """Read the tokens as a value of the field. There is at least one token."""
    reader = _READERS.get(field.kind)
    if reader is None:
        return _relation(field, tokens, context) if field.kind in ("one", "many") else _text(tokens, context)
    found = reader(field, tokens, context)
    if found is None:
        return Reading(value=Unreadable(text=written(tokens, context.source)))
    value, used = found
    return Reading(
        value=Plain(value=value, text=written(tokens[:used], context.source)), rest=tuple(tokens[used:])
    )


def is_typed(field: Field) -> bool:
    """Tell whether words can fail to be a value of the field, so that a value tells the field."""
    return field.kind in _READERS


def choice_at(field: Field, tokens: Sequence[Token], at: int) -> tuple[Any, int]:
    """Return the choice that stands at a place and its length in tokens, 0 if none does."""
    best: tuple[Any, int, bool] = (None, 0, False)
    for choice in field.choices:
        length, exact = longest_at(tokens, at, choice.phrases)
        if (length, exact) > best[1:]:
            best = (choice.value, length, exact)
    return best[0], best[1]


def text_end(tokens: Sequence[Token], *, condition: bool) -> int:
    """Return how many tokens unquoted text takes: quoted text is one token and ends there."""
    if tokens and tokens[0].kind in ("quoted", "json"):
        return 1
    if condition:
        for at, token in enumerate(tokens):
            if at and (token.folded in CONDITION or token.text in ",;"):
                return at
    return len(tokens)


def _text(tokens: Sequence[Token], context: Context) -> Reading:
    end = text_end(tokens, condition=context.condition)
    text = written(tokens[:end], context.source)
    return Reading(value=Plain(value=text, text=text), rest=tuple(tokens[end:]))


def _relation(field: Field, tokens: Sequence[Token], context: Context) -> Reading:
    if field.kind == "one":
        end = text_end(tokens, condition=context.condition)
        return Reading(value=Related(items=(_item(tokens[:end], context),)), rest=tuple(tokens[end:]))
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind in ("word", "mark") and token.folded in AND:
            parts.append([])
        else:
            parts[-1].append(token)
    return Reading(value=Related(items=tuple(_item(part, context) for part in parts if part)))


def _item(tokens: Sequence[Token], context: Context) -> Item:
    if len(tokens) > 1 and tokens[0].folded in ("id", "#", "№"):
        tokens = tokens[1:]
        if len(tokens) == 1 and tokens[0].kind != "quoted":
            return Item(id=tokens[0].text)
    if len(tokens) == 1 and tokens[0].kind == "number" and tokens[0].text.isdecimal():
        return Item(id=tokens[0].text)
    return Item(text=written(tokens, context.source))


Found = tuple[Any, int] | None


def _choice(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    value, used = choice_at(field, tokens, 0)
    if used:
        return value, used
    said = tokens[0].text
    found = next((choice.value for choice in field.choices if str(choice.value) == said), None)
    return None if found is None else (found, 1)


def _boolean(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    if tokens[0].folded in YES:
        return True, 1
    return (False, 1) if tokens[0].folded in NO else None


def _integer(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    plain = re.sub(r"[ \u00a0\u202f']", "", tokens[0].text)
    if tokens[0].kind in ("number", "quoted") and re.fullmatch(r"[-+]?[0-9]{1,18}", plain):
        return int(plain), 1
    number = small_number(tokens[0])
    return None if number is None else (number, 1)


def plain_decimal(text: str, *, language: Language, places: int | None = None) -> str | None:
    """Return a number in any of the languages' notations as plain digits with a point, None if it is none.

    The last of comma and point is the decimal one. A single comma before three digits separates thousands
    in English; a single point does in Polish and Russian, where the field has fewer than three places.
    """
    digits = re.sub(r"[ \u00a0\u202f']", "", text)
    if not re.fullmatch(r"[-+]?[0-9]+(?:[.,][0-9]+)*", digits):
        return None
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        thousands, decimal = (",", ".") if point > comma else (".", ",")
        if digits.count(decimal) > 1:
            return None
        digits = digits.replace(thousands, "").replace(decimal, ".")
    else:
        mark = "," if comma >= 0 else "."
        grouped = re.fullmatch(rf"[-+]?[0-9]{{1,3}}(?:\{mark}[0-9]{{3}})+", digits) is not None
        usual = mark == "," if language == "en" else mark == "." and (places or 0) < 3
        if digits.count(mark) > 1 and not grouped:
            return None
        digits = digits.replace(mark, "" if grouped and (usual or digits.count(mark) > 1) else ".")
    try:
        return format(Decimal(digits), "f")
    except InvalidOperation:  # the pattern leaves nothing that is no number
        return None


def _decimal(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    at = 0
    if tokens[0].text in "$€£₽" and len(tokens) > 1:
        at = 1
    if tokens[at].kind not in ("number", "quoted"):
        return None
    number = plain_decimal(tokens[at].text, language=context.language, places=field.places)
    if number is None:
        return None
    used = at + 1
    if used < len(tokens) and _is_unit(tokens[used]):
        used += 1
    return number, used


def unit_used(tokens: Sequence[Token], at: int) -> int:
    """Return 1 where a currency or a percent sign stands at a place, else 0."""
    return int(at < len(tokens) and _is_unit(tokens[at]))


def _is_unit(token: Token) -> bool:
    if token.text in ("$", "€", "£", "₽", "%"):
        return True
    known = ("zl", "zlotych", "pln", "eur", "euro", "usd", "dollars", "руб", "рублеи", "gbp")
    return token.kind == "word" and token.folded in known


def _float(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    found = _decimal(field, tokens, context)
    if found is None or not math.isfinite(float(found[0])):
        return None
    return float(found[0]), found[1]


def _json(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    if tokens[0].kind == "json":
        text = context.source[tokens[0].start : tokens[0].end]
    elif tokens[0].kind == "quoted":
        return tokens[0].text, 1
    else:
        text = tokens[0].text
    try:
        return read_json(text), 1
    except ValueError:
        return None


def _date_at(tokens: Sequence[Token], context: Context) -> tuple[datetime.date, int] | None:
    first = tokens[0]
    if first.kind == "date":
        day = written_date(first.text, context.language)
        return None if day is None else (day, 1)
    if context.today is not None and first.folded in TODAY:
        return context.today, 1
    if context.today is not None and first.folded in TOMORROW:
        return context.today + datetime.timedelta(days=1), 1
    words = [token for token in tokens[:4] if token.text != ","][:3]
    if len(words) < 3 or any(token.kind not in ("word", "number") for token in words):
        return None
    day_token, month_token = words[:2] if words[0].kind == "number" else (words[1], words[0])
    month = next((n for n, names in enumerate(MONTHS, 1) if month_token.folded in names), 0)
    try:
        found = datetime.date(int(words[2].text), month, int(day_token.text))
    except (ValueError, OverflowError):
        return None
    return found, next(n for n, token in enumerate(tokens, 1) if token is words[2])


def written_date(text: str, language: Language) -> datetime.date | None:
    """Return the day of a date in digits; None for one that does not exist or could be two days."""
    try:
        if "-" in text:
            return datetime.date.fromisoformat(text)
        first, second, year = (int(part) for part in re.split(r"[./]", text))
        if "." in text or language != "en" or first > 12 or first == second:
            return datetime.date(year, second, first)
        # 02/03/2026 is a day in February for some and in March for others: not guessed.
        return datetime.date(year, first, second) if second > 12 else None
    except ValueError:
        return None


def time_at(tokens: Sequence[Token]) -> tuple[datetime.time, int] | None:
    """Return the time of day that tokens begin with, and how many of them say so."""
    at = 0
    while (
        at < len(tokens)
        and (tokens[at].folded in ("at", "o", "godz", "в") or tokens[at].text in ",.")
        and at < 3
    ):
        at += 1
    if at >= len(tokens) or tokens[at].kind != "time":
        return None
    parts = [int(part) for part in tokens[at].text.split(":")]
    used = at + 1
    half = tokens[used].folded if used < len(tokens) else ""
    if half in ("am", "pm") and 1 <= parts[0] <= 12:
        parts[0] = parts[0] % 12 + (12 if half == "pm" else 0)
        used += 1
    try:
        return datetime.time(parts[0], parts[1], parts[2] if len(parts) > 2 else 0), used
    except ValueError:
        return None


def _date(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    found = _date_at(tokens, context)
    return None if found is None else (found[0].isoformat(), found[1])


def _time(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    found = time_at(tokens)
    return None if found is None else (found[0].isoformat(), found[1])


def _datetime(field: Field, tokens: Sequence[Token], context: Context) -> Found:
    day = _date_at(tokens, context)
    if day is None:
        return None
    clock = time_at(tokens[day[1] :])
    if clock is None:
        if any(token.kind == "time" for token in tokens[day[1] :]):
            return None
        return datetime.datetime.combine(day[0], datetime.time()).isoformat(), day[1]
    return datetime.datetime.combine(day[0], clock[0]).isoformat(), day[1] + clock[1]


_READERS: dict[str, Callable[[Field, Sequence[Token], Context], Found]] = {
    "choice": _choice,
    "boolean": _boolean,
    "integer": _integer,
    "decimal": _decimal,
    "float": _float,
    "json": _json,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
}


def value_tokens(tokens: Sequence[Token], *, intent: Intent, last: int) -> list[Token]:
    """Return the tokens of a value without what leads to it and without what only ends it.

    ``last`` is the index of the sentence's last token: a small word there may belong to the value, one
    before something else only joins the two.
    """
    found = list(tokens)
    if intent == "query":
        while found and (is_plain(found[0]) or found[0].folded in BECOMES) and found[0].kind != "quoted":
            found.pop(0)
    else:
        # "city of [customer 12] to Gdańsk": the words before what was taken out only lead there.
        gap = next((at for at in range(1, len(found)) if found[at].index != found[at - 1].index + 1), 0)
        if all(is_plain(token) for token in found[:gap]):
            found = found[gap:]
        if intent == "change":
            found = _after_from(found)
        while found and (found[0].kind == "mark" or found[0].folded in BECOMES) and _leads(found, intent):
            word = found.pop(0).kind == "word"
            if word:
                break
    while found and found[-1].kind in ("word", "mark", "possessive"):
        end = found[-1]
        joins = end.index != last and (end.folded in JOINS or end.kind == "possessive")
        if not (joins or end.folded in POLITE or (end.kind == "mark" and end.text in ".,;:!?&")):
            break
        found.pop()
    # "The city and the country": nothing but small words before the next field is no value.
    return [] if found and found[-1].index != last and all(is_plain(token) for token in found) else found


def _leads(tokens: Sequence[Token], intent: Intent) -> bool:
    if tokens[0].kind == "mark":
        return tokens[0].text in ":=,;–—-" or tokens[0].text == "->"
    return intent == "change" or tokens[0].folded in IS


def _after_from(tokens: list[Token]) -> list[Token]:
    if tokens and tokens[0].kind == "word" and tokens[0].folded in FROM:
        for at in range(len(tokens) - 1, 1, -1):
            if tokens[at].kind == "word" and tokens[at].folded in CHANGES_TO:
                return tokens[at:]
    return tokens


def is_empty(tokens: Sequence[Token]) -> bool:
    """Tell whether tokens say nothing that could be a value or a condition."""
    return all(is_plain(token) or (token.kind == "word" and token.folded in LATEST) for token in tokens)
