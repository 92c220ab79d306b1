"""Find what a sentence asks for beyond exact filters: ranges, several values, what is empty, order, sums.

Each reader takes the tokens that say what it knows and marks their places as used; what is left is read as
any other sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

from .lexicon import Entity, Field, field_at
from .periods import UNITS, date_of, day_number_at, period_at
from .tokens import Token, same_word, written
from .values import Context, choice_at, plain_decimal, unit_used
from .words import (
    ASCENDING,
    AT_LEAST,
    AT_LEAST_TOO,
    AT_MOST,
    BETWEEN,
    BETWEEN_AND,
    BY,
    CHEAPEST,
    COSTS,
    DATES_ONLY,
    DEAREST,
    DESCENDING,
    DURING,
    EITHER,
    EVERY,
    FILLERS,
    LESS,
    MORE,
    NEWEST,
    NOT,
    OLDEST,
    PLACED,
    SORT_BY,
    SORTED,
    SUMS,
    WITHOUT,
    fold_words,
    is_plain,
    said_at,
)

NUMBERS = ("decimal", "integer", "float")
DATES = ("datetime", "date")
GROUPED = ("choice", "one", "boolean", "text", *DATES)
_FAR = 5  # tokens from "average" to the field that it is of, at most
_LONG = 5  # letters of a word that tells of which date is spoken
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@dataclass(kw_only=True)
class Further:
    """What was found. ``used`` are the places of the words that said so, ``said`` the words of each filter."""

    filters: dict[str, Any] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    order_by: list[str] = field(default_factory=list)
    newest: bool = False
    measures: list[dict[str, str]] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    every: str = ""
    used: set[int] = field(default_factory=set)


def _other_end(one: Any, other: Any) -> bool:
    """Tell whether two conditions are the two ends of a range: "over 100 and under 200"."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    return {lookup[0] for lookup in one}.isdisjoint(lookup[0] for lookup in other)


def compares(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a word at a place leads to a value, and says nothing without one: "since", "over"."""
    words = (*MORE, *LESS, *AT_LEAST, *AT_MOST, *WITHOUT)
    return not is_plain(tokens[at]) and said_at(tokens, at, words) > 0


def read_further(
    tokens: Sequence[Token],
    noun: range,
    entity: Entity,
    context: Context,
    *,
    sums: bool,
    taken: Iterable[int],
) -> Further:
    """Return what a sentence asks for of an entity. ``taken`` are places that mean something else."""
    return _Reader(tokens, noun, entity, context, {*taken}).read(sums=sums)


class _Reader:
    def __init__(
        self, tokens: Sequence[Token], noun: range, entity: Entity, context: Context, taken: set[int]
    ) -> None:
        self.tokens, self.noun, self.context = tokens, noun, context
        self.taken = {*noun, *taken}
        self.fields = [one for one in entity.fields("query") if one.usable]
        loose = entity.loose()
        # Where it is told which fields take more than a plain value, the others are not tried.
        self.ranged = [one for one in self.fields if not loose or one.name in loose]
        self.is_wide = entity.is_wide
        self.names = _inside_names(tokens, self.fields)
        self.found = Further()

    def read(self, *, sums: bool) -> Further:
        self._sorted()
        self._ranges()
        self._without()
        self._choices()
        self._sums(counted=sums)
        if not self.found.measures and not sums:
            self._superlatives()
        return self.found

    def _free(self, at: int) -> bool:
        return 0 <= at < len(self.tokens) and at not in self.taken and at not in self.found.used

    def _leads(self, at: int) -> bool:
        """Tell whether a word at a place may lead to something, and is no part of a name: "last name"."""
        return self._free(at) and at not in self.names

    def _use(self, places: Iterable[int]) -> None:
        self.found.used |= {*places}

    def _first(self, fields: Sequence[Field], kinds: Sequence[str]) -> Field | None:
        return next((one for kind in kinds for one in fields if one.kind == kind), None)

    def _field_before(self, at: int, kinds: Sequence[str]) -> tuple[Field, int] | None:
        """Return the field that is named right before a place, small words between, and where its name starts."""
        end = at
        while end > 0 and end > at - 3 and self._free(end - 1) and is_plain(self.tokens[end - 1]):
            end -= 1
        for stop in dict.fromkeys((at, end)):
            for start in range(max(0, stop - 4), stop):
                here = field_at(self.tokens[:stop], start, [one for one in self.fields if one.kind in kinds])
                if here and start + here[1] == stop and all(map(self._free, range(start, stop))):
                    return here[0], start
        return None

    # -- ranges ------------------------------------------------------------------------------------

    def _ranges(self) -> None:
        at = 0
        while at < len(self.tokens):
            used = (self._between(at) or self._one_end(at) or self._during(at)) if self._leads(at) else 0
            at += used or 1

    def _between(self, at: int) -> int:
        length = said_at(self.tokens, at, BETWEEN)
        if not length:
            return 0
        first = self._value(at + length, led=True)
        if first is None:
            return 0
        joint = at + length + first[2]
        joined = said_at(self.tokens, joint, BETWEEN_AND)
        second = self._value(joint + joined, led=True) if joined else None
        if second is None:
            return 0
        low, high = first, second
        if low[0] != high[0]:
            day = day_number_at(self.tokens, at + length)
            if low[0] != "number" or day is None or not _ISO.fullmatch(high[1]):
                return 0
            year, month, _ = map(int, high[1].split("-"))  # "1 to 5 November": one month for both
            low = ("time", date_of(day, month, year, self.context.today), low[2])
        return self._range(at, joint + joined + second[2], low[0], {"gte": low[1], "lte": high[1]})

    def _one_end(self, at: int) -> int:
        for lookup, words in (
            ("gt", MORE),
            ("lt", LESS),
            ("gte", (*AT_LEAST, *AT_LEAST_TOO)),
            ("lte", AT_MOST),
        ):
            length = said_at(self.tokens, at, words)
            value = self._value(at + length, led=True) if length else None
            if value is None:
                continue
            said = self.tokens[at].folded
            if lookup == "lte" and said in fold_words(DATES_ONLY):
                continue  # "по 5 ноября" by itself is no end, only after a beginning
            if value[0] == "number" and said in fold_words(DATES_ONLY):
                continue
            return self._range(at, at + length + value[2], value[0], {lookup: value[1]})
        return 0

    def _during(self, at: int) -> int:
        """Read a period by itself: "last month", "in October 2026"."""
        led = self.tokens[at].folded in DURING
        start = at + led
        if led and start < len(self.tokens) and self.tokens[start].folded == "the":
            start += 1
        found = period_at(self.tokens, start, self.context, led=led or self._is_placed(at - 1))
        if found is None or not all(map(self._free, range(start, start + found[1]))):
            return 0
        named = self._field_before(at, DATES)
        if "T" in found[0] or (_ISO.fullmatch(found[0]) and named and not (led or self.is_wide)):
            return 0  # a value as any other
        return self._range(at, start + found[1], "time", found[0])

    def _value(self, at: int, *, led: bool) -> tuple[str, str, int] | None:
        """Return the kind of a value at a place, the value, and how many tokens it takes."""
        start = at
        while self._free(start) and self.tokens[start].folded in FILLERS and start < at + 2:
            start += 1
        period = period_at(self.tokens, start, self.context, led=led)
        if period is not None:
            found = "time", period[0], start - at + period[1]
        else:
            start += self._free(start) and self.tokens[start].text in "$€£₽"
            if not self._free(start) or self.tokens[start].kind != "number":
                return None
            number = plain_decimal(self.tokens[start].text, language=self.context.language, places=2)
            if number is None:
                return None
            found = "number", number, start - at + 1 + unit_used(self.tokens, start + 1)
        return found if all(map(self._free, range(at, at + found[2]))) else None

    def _is_placed(self, at: int) -> bool:
        """Tell whether a word says of what a date is: "placed", or the long word of such a field's name."""
        if not self._free(at) or self.tokens[at].kind != "word":
            return False
        names = (
            (word, phrase.language)
            for one in self.ranged
            if one.kind in DATES
            for phrase in one.phrases
            for word in phrase.words
        )
        said = self.tokens[at].folded
        return said in PLACED or any(
            len(word) >= _LONG and same_word(said, *name) for name in names for word in name[:1]
        )

    def _range(self, start: int, end: int, kind: str, given: Any) -> int:
        kinds = DATES if kind == "time" else NUMBERS
        named = self._field_before(start, kinds)
        one = named[0] if named else self._first(self.ranged, kinds)
        before = self.found.filters.get(one.name) if one is not None else None
        if one is None or (before is not None and not _other_end(before, given)):
            return 0
        if kind == "number" and one.kind == "integer" and isinstance(given, dict):
            given = {lookup: int(value) if value.isdecimal() else value for lookup, value in given.items()}
        begin = named[1] if named else start
        told = self._is_placed if kind == "time" else self._is_cost
        if not named and told(begin - 1):
            begin -= 1
        self._use(range(begin, end))
        said = written(self.tokens[start:end], self.context.source)
        self.found.filters[one.name] = {**before, **given} if before is not None else given
        self.found.said[one.name] = " ".join(each for each in (self.found.said.get(one.name), said) if each)
        return end - start

    def _is_cost(self, at: int) -> bool:
        return self._free(at) and self.tokens[at].folded in COSTS

    # -- what is empty, several values -------------------------------------------------------------

    def _without(self) -> None:
        for at in range(len(self.tokens)):
            length = said_at(self.tokens, at, WITHOUT) if self._free(at) else 0
            start = at + length
            while length and self._free(start) and is_plain(self.tokens[start]) and start < at + length + 2:
                start += 1
            here = field_at(self.tokens, start, self.fields) if length and self._free(start) else None
            if here and here[0].name not in self.found.filters:
                self._use(range(at, start + here[1]))
                self.found.filters[here[0].name] = {"isnull": True}
                self.found.said[here[0].name] = written(
                    self.tokens[at : start + here[1]], self.context.source
                )

    def _choices(self) -> None:
        """Read several choices of one field, and choices that are not meant."""
        for one in (each for each in self.fields if each.kind == "choice"):
            at = 0
            while at < len(self.tokens):
                values, end, negated = self._run_of(one, at)
                if values and (negated or len(values) > 1) and one.name not in self.found.filters:
                    named = self._field_before(at, ("choice",))
                    if named and named[0] is one:
                        self._use(range(named[1], at))
                    kept = [each.value for each in one.choices if (each.value in values) is not negated]
                    self.found.filters[one.name] = {"in": kept}
                    self.found.said[one.name] = written(self.tokens[at:end], self.context.source)
                    self._use(range(at, end))
                at = max(end, at + 1)

    def _run_of(self, one: Field, start: int) -> tuple[list[Any], int, bool]:
        values: list[Any] = []
        at = end = start
        negated = self._free(at) and self.tokens[at].folded in NOT
        at += negated
        while self._free(at):
            value, length = choice_at(one, self.tokens, at)
            if not length and not values:
                value, length = self._negated_at(one, at)
                negated = negated or bool(length)
            if not length or not all(map(self._free, range(at, at + length))):
                break
            values.append(value)
            at = end = at + length
            while self._free(at) and self.tokens[at].folded in EITHER:
                at += 1
        return values, end, negated

    def _negated_at(self, one: Field, at: int) -> tuple[Any, int]:
        """Read "nieopłacone" and "неоплаченные"."""
        token = self.tokens[at]
        prefix = next((each for each in ("nie", "не") if token.folded.startswith(each)), "")
        if not prefix or len(token.folded) < len(prefix) + 4:
            return None, 0
        return choice_at(one, [changed(token, folded=token.folded[len(prefix) :])], 0)

    # -- order ---------------------------------------------------------------------------------------

    def _sorted(self) -> None:
        for at in range(len(self.tokens)):
            length = said_at(self.tokens, at, SORTED) if self._free(at) else 0
            if not length:
                continue
            start, descending = at + length, False
            if self._free(start) and self.tokens[start].folded in DESCENDING:
                start, descending = start + 1, True
            if self._free(start) and self.tokens[start].folded in SORT_BY:
                start += 1
            here = field_at(self.tokens, start, self.fields) if self._free(start) else None
            if here is None:
                continue
            end = start + here[1]
            for near in range(end, min(end + 3, len(self.tokens))):
                if self.tokens[near].folded in DESCENDING or self.tokens[near].folded in ASCENDING:
                    descending = self.tokens[near].folded in DESCENDING
                    end = near + 1
            self._use(range(at, end))
            self.found.order_by = [("-" if descending else "") + here[0].name]
            return

    def _superlatives(self) -> None:
        for sign, words, kinds in (
            ("-", NEWEST, DATES),
            ("", OLDEST, DATES),
            ("-", DEAREST, NUMBERS),
            ("", CHEAPEST, NUMBERS),
        ):
            one = self._first(self.ranged, kinds)
            for at in range(len(self.tokens)):
                length = said_at(self.tokens, at, words) if self._leads(at) else 0
                if length and one is not None and not self.found.order_by:
                    self.found.order_by = [sign + one.name]
                    self.found.newest = words is NEWEST
                    self._use(range(at, at + length))

    # -- sums ----------------------------------------------------------------------------------------

    def _sums(self, *, counted: bool) -> None:
        numbers = [one for one in self.fields if one.kind in NUMBERS]
        named: set[int] = set()  # places of the fields: "average and highest price" names one for both
        for at in range(len(self.tokens)):
            op, length = self._op_at(at) if self._leads(at) else ("", 0)
            start = at + length
            while op and start < len(self.tokens) and start < at + length + _FAR:
                here = field_at(self.tokens, start, numbers)
                if here and (self._free(start) or start in named):
                    self.found.measures.append({"op": op, "field": here[0].name})
                    named |= {*range(start, start + here[1])}
                    self._use([*range(at, at + length), *named])
                    break
                between = is_plain(self.tokens[start]) or start in self.noun or self._op_at(start)[0]
                start = start + 1 if between else len(self.tokens)
        asked = counted or bool(self.found.measures)
        self._by(asked=asked)
        if self.found.by and not self.found.measures:
            self.found.measures = [{"op": "count"}]

    def _op_at(self, at: int) -> tuple[str, int]:
        found = ((op, said_at(self.tokens, at, words)) for op, words in SUMS.items())
        return next((each for each in found if each[1]), ("", 0))

    def _by(self, *, asked: bool) -> None:
        for at in range(len(self.tokens)):
            if not self._free(at):
                continue
            every = next((unit for unit, words in EVERY.items() if self.tokens[at].folded in words), "")
            length = 0 if every else said_at(self.tokens, at, BY)
            start = at + length
            if length and self._free(start):
                every = next((unit for unit in EVERY if self.tokens[start].folded in UNITS[unit]), "")
            if every:
                dated = self._first(self.ranged, DATES)
                if dated is not None and dated.name not in self.found.by:
                    self.found.by.append(dated.name)
                    self.found.every = every
                    self._use(range(at, start + 1))
                continue
            while length and self._grouped(at, start, asked=asked):
                at = start = max(self.found.used) + 1
                if not (self._free(start) and self.tokens[start].folded in EITHER):
                    break
                start += 1

    def _grouped(self, at: int, start: int, *, asked: bool) -> bool:
        groups = [one for one in self.fields if one.kind in GROUPED and one.kind not in DATES]
        here = field_at(self.tokens, start, groups) if self._free(start) else None
        if here is None or here[0].name in self.found.by:
            return False
        end = start + here[1]
        # "orders by customer Anna" is about one customer.
        follows = self.tokens[end] if end < len(self.tokens) else None
        if not asked and follows is not None and self._free(end) and not is_plain(follows):
            return False
        self.found.by.append(here[0].name)
        self._use(range(at, end))
        return True


def _inside_names(tokens: Sequence[Token], fields: Sequence[Field]) -> frozenset[int]:
    """Return the places of the words of fields' names that have several."""
    found: set[int] = set()
    for at in range(len(tokens)):
        here = field_at(tokens, at, fields)
        if here and here[1] > 1:
            found |= {*range(at, at + here[1])}
    return frozenset(found)
