"""Understand what points back: "the second one", "how many?", "more".

What earlier answers showed is named in lines at the end of their texts, "[r3: order, 8 rows, r3.1 to r3.8]":
which kind of records and how many, no values. What was asked for then is read again in the person's own words.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..base import ModelMessage
from .command import Command
from .lexicon import Entity, field_at, longest_at
from .periods import is_period_at
from .sentence import understand
from .tokens import Token, tokenise
from .words import (
    COUNT,
    LAST_ONE,
    MORE_ROWS,
    ONE,
    ORDINALS,
    POLITE,
    THEM,
    THIS_ONE,
    Language,
    Words,
    is_plain,
    said_at,
    verb_at,
)

_LINE = re.compile(
    r"^\[r(\d{1,5}): (\w{1,100}), (\d{1,3}) rows?, r\d+\.\d+(?: to r\d+\.\d+)?\]$", re.MULTILINE
)
_ENGLISH = Words(
    "first second third fourth fifth sixth seventh eighth ninth tenth last one its him his her hers it"
)
_NTH = re.compile(r"([1-9]\d?)(?:st|nd|rd|th)", re.ASCII)
_EARLIER = 6  # messages of the person that are looked at, going back


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What an earlier answer showed: so many rows of an entity, under a number."""

    number: int
    entity: str
    rows: int

    def row(self, place: int) -> str:
        """Return the reference to a row; the first is 1."""
        return f"r{self.number}.{place}"


@dataclass(frozen=True, kw_only=True)
class Pointed:
    """A sentence with what it points at in the middle: the words before, the row, the words after."""

    before: str
    shown: Shown
    place: int  # 0: which row is not said
    after: str
    language: Language


def all_shown(earlier: Sequence[ModelMessage]) -> list[Shown]:
    """Return what the earlier answers have shown, the latest last."""
    return [
        Shown(number=int(number), entity=name, rows=int(rows))
        for message in earlier
        if message.role == "assistant"
        for number, name, rows in _LINE.findall(message.text)
    ]


def pointed(text: str, entities: Sequence[Entity], earlier: Sequence[ModelMessage]) -> Pointed | None:
    """Return a sentence that points at a row of what was shown last, None for any other."""
    shown = all_shown(earlier)
    tokens = tokenise(text) if shown else []
    if any((verb_at(token) or ("",))[0] == "create" for token in tokens[:3]):
        return None
    for at, token in enumerate(tokens):
        place = _place(token)
        last = not place and token.folded in LAST_ONE
        if not (place or last) or is_period_at(tokens, at) or _in_a_name(tokens, at, entities):
            continue
        end = at + 1
        one = end < len(tokens) and tokens[end].folded in ONE
        end += one
        noun = _noun_at(tokens, end, entities)
        if noun and (place == 1 or last):
            continue  # "the first orders", "the last order": no row of what was shown
        if (place == 1 or last) and not (one or _ends(tokens, end) or any(map(verb_at, tokens))):
            continue
        of_kind = [each for each in shown if not noun or each.entity == noun[0].name]
        if not of_kind:
            continue
        # "The third" is of the latest list that has one, though a single record was looked at since then.
        long = [each for each in of_kind if each.rows >= max(place, 2)]
        chosen = (long or of_kind)[-1]
        end += noun[1] if noun else 0
        start = at - (at > 0 and tokens[at - 1].folded == "the")
        row = chosen.rows if last else place if place <= chosen.rows else 0
        return _pointed(text, tokens, start, end, chosen, row)
    return _pronoun(text, tokens, entities, shown)


def _place(token: Token) -> int:
    """Return which place an ordinal names, 0 if a word is none."""
    if token.kind != "word":
        return 0
    digits = _NTH.fullmatch(token.folded)
    return (
        int(digits[1])
        if digits
        else next((n for n, words in enumerate(ORDINALS, 1) if token.folded in words), 0)
    )


def _pronoun(
    text: str, tokens: Sequence[Token], entities: Sequence[Entity], shown: Sequence[Shown]
) -> Pointed | None:
    """Return what "his", "it" or "go" points at: the row that was shown, if nothing else is named."""
    if not shown or any(_noun_at(tokens, at, entities) for at in range(len(tokens))):
        return None
    entity = next((each for each in entities if each.name == shown[-1].entity), None)
    if entity is None or len(tokens) > 12:
        return None
    fields = entity.fields("query")
    about = any(field_at(tokens, at, fields) for at in range(len(tokens))) or any(map(verb_at, tokens))
    for at, token in enumerate(tokens):
        one = at + 1 < len(tokens) and tokens[at + 1].folded in ONE
        if about and (token.folded in THIS_ONE or (one and token.folded in ("this", "that"))):
            place = 1 if shown[-1].rows == 1 else 0
            return _pointed(text, tokens, at, at + 1 + one, shown[-1], place)
    return None


def _pointed(text: str, tokens: Sequence[Token], start: int, end: int, shown: Shown, place: int) -> Pointed:
    said = tokens[start:end]
    cyrillic = any("\u0400" <= letter <= "\u04ff" for token in said for letter in token.text)
    english = any(token.folded in _ENGLISH or _NTH.fullmatch(token.folded) for token in said)
    return Pointed(
        before=text[: said[0].start],
        shown=shown,
        place=place,
        after=text[said[-1].end :],
        language="ru" if cyrillic else "en" if english else "pl",
    )


def whole(given: Pointed, entity: Entity) -> str:
    """Return the sentence with the row's name in place of the words that point at it."""
    noun = entity.singular[given.language]
    return f'{given.before} {noun} id "{given.shown.row(given.place)}" {given.after}'.strip()


def again(
    text: str, entities: Sequence[Entity], earlier: Sequence[ModelMessage], *, today: datetime.date | None
) -> Command | str | None:
    """Return the command before, counted or gone on with, for "how many?" and "more"; None for other sentences.

    A key of a text where it is one of them, and what it goes on with is not clear.
    """
    tokens = [token for token in tokenise(text[:200]) if token.kind != "mark" and token.folded not in POLITE]
    more = bool(tokens) and said_at(tokens, 0, MORE_ROWS) == len(tokens)
    if not (more or _only_counts(tokens)):
        return None
    shown = all_shown(earlier)
    if not shown:
        return None
    for message in [each for each in reversed(earlier) if each.role == "user"][:_EARLIER]:
        command = understand(message.text, entities, today=today)
        if command.entity is None:
            said = [token for token in tokenise(message.text[:200]) if token.kind != "mark"]
            if said_at(said, 0, MORE_ROWS) == len(said) or _only_counts(said):
                continue  # and what that went on with
            break
        clear = not (command.unread or command.unreadable) and command.entity.name == shown[-1].entity
        if command.intent not in ("query", "count") or not clear:
            break
        if not more:
            return replace(command, intent="count", limit=None, order_by=(), columns=())
        return replace(command, intent="query", after=shown[-1].row(shown[-1].rows))
    return "unclear_before"


def _only_counts(tokens: Sequence[Token]) -> bool:
    length = said_at(tokens, 0, COUNT) if tokens else 0
    rest = tokens[length:]
    return bool(length) and all(
        is_plain(token) or token.folded in THIS_ONE or token.folded in THEM for token in rest
    )


def _in_a_name(tokens: Sequence[Token], at: int, entities: Sequence[Entity]) -> bool:
    """Tell whether a word begins the name of a field: "first name"."""
    named = (field_at(tokens, at, entity.fields("query")) for entity in entities)
    return any(here is not None and here[1] > 1 for here in named)


def _noun_at(tokens: Sequence[Token], at: int, entities: Sequence[Entity]) -> tuple[Entity, int] | None:
    found = [(longest_at(tokens, at, entity.phrases)[0], entity) for entity in entities]
    length, entity = max(found, key=lambda each: each[0], default=(0, None))
    return (entity, length) if entity is not None and length else None


def _ends(tokens: Sequence[Token], at: int) -> bool:
    return all(token.kind == "mark" or token.folded in POLITE for token in tokens[at:])
