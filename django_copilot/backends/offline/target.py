"""Find which record a sentence means: the words after the noun."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .command import Target
from .lexicon import Entity, Field, field_at
from .tokens import Token, written
from .values import choice_at, is_empty, value_tokens
from .words import BEFORE_MARKS, CHANGES_TO, CONDITION, ID_MARKS, LIMIT, NAMING, Intent

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32}")
_ENDS = ",;:.?!"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A target and the places of the words that say so."""

    target: Target | None = None
    used: range = range(0)


def read_target(
    intent: Intent,
    tokens: Sequence[Token],
    first: int,
    entity: Entity,
    fields: Sequence[Field],
    source: str,
) -> Found:
    """Return which record the words from ``first`` on mean."""
    at, named, by_id = _lead(intent, tokens, first, entity, fields)
    field: tuple[Field, int] | None = None
    if at < len(tokens) and intent in ("change", "delete"):
        field = _by_field(intent, tokens, at, entity)
        if field is not None:
            at, named = at + field[1], True
    if at >= len(tokens) or (at > first and not named and tokens[at - 1].text != ":"):
        return Found()
    token, used = tokens[at], range(first, at + 1)
    if intent == "query" and token.folded in LIMIT:
        return Found()
    if field is None and token.kind == "number" and token.text.isdecimal():
        return Found(target=Target(id=token.text), used=used)
    if token.kind == "word" and _UUID.fullmatch(token.folded):
        return Found(target=Target(id=token.text), used=used)
    columns = (field[0].name,) if field else tuple(one.name for one in entity.name_fields())
    if token.kind == "quoted" and token.text:
        by_name = Target(text=token.text, fields=columns)
        return Found(target=Target(id=token.text) if by_id else by_name, used=used)
    if token.kind in ("mark", "possessive", "json", "quoted"):
        return Found()
    if by_id:
        end = at + 1
        while (
            end < len(tokens) and tokens[end].start == tokens[end - 1].end and tokens[end].text not in _ENDS
        ):
            end += 1
        return Found(target=Target(id=source[token.start : tokens[end - 1].end]), used=range(first, end))
    end = _name_end(intent, tokens, at, fields)
    name = value_tokens(tokens[at:end], intent="create", last=len(tokens) - 1)
    if not name or is_empty(name):
        return Found()
    text = written(name, source)
    if "@" in text and "email" in columns:
        columns = ("email", *(column for column in columns if column != "email"))
    return Found(target=Target(text=text, fields=columns), used=range(first, end))


def _lead(
    intent: Intent, tokens: Sequence[Token], at: int, entity: Entity, fields: Sequence[Field]
) -> tuple[int, bool, bool]:
    """Skip "with id", "called", "nr"; return where the record is named, and whether such words were there."""
    first, named, by_id = at, False, False
    usable, naming = (
        {word for field in some if field.usable for p in field.phrases for word in p.words[:1]}
        for some in (fields, entity.name_fields())
    )
    while at < min(len(tokens), first + 4) and tokens[at].kind in ("word", "mark"):
        folded = tokens[at].folded
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if intent == "query" and folded in usable:
            break  # "orders with number X" is a condition
        if folded in ID_MARKS and following is not None and not (folded in naming and _is_name(following)):
            named = by_id = True
        elif folded in NAMING and not (intent == "change" and following and following.folded in CHANGES_TO):
            named = True
        elif folded in BEFORE_MARKS and following is not None and _names(following):
            pass
        elif not (folded == ":" and at == first and intent == "delete"):
            break
        at += 1
    return at, named, by_id


def _by_field(intent: Intent, tokens: Sequence[Token], at: int, entity: Entity) -> tuple[Field, int] | None:
    """Return the field that a record is named by ("with e-mail X"), and the length of the words for it."""
    joined = tokens[at].folded in BEFORE_MARKS
    if not joined and intent == "change" and tokens[at].folded not in ID_MARKS:
        return None  # "customer city to X": that field is to be changed
    found = field_at(tokens, at + joined, entity.name_fields())
    return None if found is None else (found[0], found[1] + joined)


def _is_name(token: Token) -> bool:
    return not (token.kind == "number" and token.text.isdecimal())


def _names(token: Token) -> bool:
    return token.folded in ID_MARKS or token.folded in NAMING


def _name_end(intent: Intent, tokens: Sequence[Token], at: int, fields: Sequence[Field]) -> int:
    """Return where an unquoted name that starts at a place ends."""
    if intent == "delete":
        return len(tokens)
    for end in range(at, len(tokens)):
        token = tokens[end]
        if token.kind in ("possessive", "json", "quoted") or token.text in (",", ";", ":"):
            return end
        if token.folded in (CONDITION if intent == "query" else CHANGES_TO):
            return end
        if field_at(tokens, end, fields):
            return end
        if intent == "query" and any(choice_at(field, tokens, end)[1] for field in fields if field.usable):
            return end
    return len(tokens)
