"""Find conditions of a search in the words that stand by no field's name: "paid orders from Kraków"."""

from __future__ import annotations

from collections.abc import Sequence

from .command import Draft, Target
from .lexicon import Entity, Field
from .tokens import Token, written
from .values import Plain, choice_at
from .words import ALL, CONDITION, LATEST, PLACE, is_plain


def read_conditions(
    loose: Sequence[Token], entity: Entity, fields: Sequence[Field], draft: Draft, source: str
) -> None:
    """Put the conditions that the words say into the draft, and the other words into what was not read."""
    usable = [field for field in fields if field.usable and field.kind == "choice"]
    at = 0
    while at < len(loose):
        token = loose[at]
        choice = _choice(usable, loose, at)
        if choice is not None:
            field, value, length = choice
            draft.put(field, Plain(value=value, text=written(loose[at : at + length], source)))
            at += length
        elif (
            token.folded in PLACE
            and draft.target is None
            and (end := _place_end(usable, loose, at + 1)) > at + 1
        ):
            columns = tuple(field.name for field in entity.place_fields())
            if columns:
                draft.target = Target(text=written(loose[at + 1 : end], source), fields=columns, place=True)
            else:
                draft.unread += loose[at + 1 : end]
            at = end
        else:
            if not (is_plain(token) or token.folded in LATEST or token.folded in ALL):
                draft.unread.append(token)
            at += 1


def _choice(fields: Sequence[Field], tokens: Sequence[Token], at: int) -> tuple[Field, object, int] | None:
    best: tuple[Field, object, int] | None = None
    for field in fields:
        value, length = choice_at(field, tokens, at)
        if length and (best is None or length > best[2]):
            best = field, value, length
    return best


def _place_end(choices: Sequence[Field], tokens: Sequence[Token], at: int) -> int:
    """Return where the name of a place that starts at a place in the sentence ends."""
    for end in range(at, len(tokens)):
        token = tokens[end]
        if token.kind == "quoted":
            return end + 1 if end == at else end
        gap = end > at and token.index != tokens[end - 1].index + 1
        if gap or token.kind != "word" or token.folded in CONDITION or _choice(choices, tokens, end):
            return end
        if is_plain(token) or token.folded in LATEST or token.folded in ALL:
            return end
    return len(tokens)
