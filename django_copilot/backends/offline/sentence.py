"""Understand one sentence as a command about one of the entities offered.

No grammar: the first verb tells what is wanted, a noun tells of what, what stands after the noun tells
which record, and names of fields cut the rest into values. Words that mean nothing here are kept as
``unread``, so that nothing is done on half a sentence.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from .command import Command, Draft, Mark
from .conditions import read_conditions
from .further import Further, compares, read_further
from .lexicon import Entity, Field, field_at, longest_at
from .target import read_target
from .tokens import Token, fold, tokenise, written
from .values import Context, Plain, Unreadable, choice_at, is_empty, is_typed, read_value, value_tokens
from .words import (
    A_LIST,
    ALL,
    AS,
    COUNT,
    FORMS,
    HISTORY,
    INTO,
    LANGUAGES,
    LATEST,
    LIMIT,
    MARK,
    NAME_FIELDS,
    NAMING,
    OPEN,
    RENAME,
    Intent,
    Language,
    is_plain,
    language_of,
    said_at,
    small_number,
    verb_at,
)

_NOUNS = 6  # places in a sentence that are tried as its noun
_MOST = 50  # records that a query gives at most

Noun = tuple[int, int, Entity]  # start, length, entity


def understand(
    text: str, entities: Sequence[Entity], *, today: datetime.date | None = None, fallback: Language = "en"
) -> Command:
    """Return what a sentence asks for. ``fallback`` is the language of a sentence that tells none."""
    tokens = tokenise(text)
    nouns = _nouns(tokens, entities)
    spoken = _languages(tokens, nouns[0]) if nouns else []
    language = language_of(tokens, fallback=fallback, nouns=spoken)
    verb = next(((at, found[0]) for at, token in enumerate(tokens) if (found := verb_at(token))), None)
    first = nouns[0][0] if nouns else len(tokens)
    asked, asking = _asked(tokens[:first], verb)
    if asked is not None:
        verb = (verb[0] if verb is not None else asking.start), asked
    context = Context(source=text, language=language, today=today)
    if not nouns:
        if verb is None:
            return Command(language=language)
        known = {verb[0], *asking}
        meant = [token for at, token in enumerate(tokens) if at not in known and not is_empty([token])]
        return Command(intent=verb[1], language=language, words=written(meant, text)[:80])
    if verb is None:
        command = _command("query", tokens, (), nouns[0], context)
        return Command(language=language) if command.unread or command.unreadable else command
    # The noun of a new or a deleted record comes first; elsewhere a field may be called like an entity.
    tried = [noun for noun in nouns if noun[0] == nouns[0][0]] if verb[1] in ("create", "delete") else nouns
    places = (verb[0], *asking)
    # "Mark order 12 as shipped" may be a form to fill in, or an action of the list.
    intents: tuple[Intent, ...] = ("change", "list") if verb[1] == "list" else (verb[1],)
    commands = (_command(intent, tokens, places, noun, context) for noun in tried for intent in intents)
    return min(commands, key=_doubt)


def _asked(tokens: Sequence[Token], verb: tuple[int, Intent] | None) -> tuple[Intent | None, range]:
    """Return what the words before the noun ask for besides a plain reading, and their places."""
    # "Change the number of order 12" counts nothing.
    barred = verb[0] if verb is not None and verb[1] in FORMS else len(tokens)
    kinds: tuple[tuple[Intent, tuple[str, ...]], ...] = (("history", HISTORY), ("count", COUNT))
    for at, token in enumerate(tokens):
        if token.kind != "word":
            continue
        for intent, words in kinds:
            length = said_at(tokens, at, words)
            if length and at < barred:
                return intent, range(at, at + length)
        listed = any(following.folded in A_LIST for following in tokens[at + 1 : at + 3])
        if token.folded in MARK or (token.folded in OPEN and listed):
            return "list", range(at, at + 1)
    return None, range(0)


def _doubt(command: Command) -> tuple[int, bool]:
    entity, intent = command.entity, command.intent
    missing = intent == "change" and not command.values
    lost = intent in ("change", "delete") and command.target is None
    reads = "query" if intent not in FORMS else intent  # the further tools come with the query
    barred = entity is None or intent is None or reads is None or entity.tool(reads) is None
    return bool(command.unread) + bool(command.unreadable) + missing + lost, barred


def _nouns(tokens: Sequence[Token], entities: Sequence[Entity]) -> list[Noun]:
    """Return where entities are named; the longest name at each place."""
    found: list[Noun] = []
    places = at = 0
    while at < len(tokens) and places < _NOUNS:
        here = [(longest_at(tokens, at, entity.phrases), entity) for entity in entities]
        best = max((match for match, _ in here), default=(0, False))
        if best[0]:
            found += [(at, best[0], entity) for match, entity in here if match == best]
            places += 1
        at += best[0] or 1
    return found


def _languages(tokens: Sequence[Token], noun: Noun) -> list[Language]:
    """Return the languages in which a noun is called so."""
    start, length, entity = noun
    return [
        language
        for language in LANGUAGES
        if any(
            phrase.length_at(tokens, start) == length
            for phrase in entity.phrases
            if phrase.language == language
        )
    ]


def _command(
    intent: Intent, tokens: Sequence[Token], verb: Sequence[int], noun: Noun, context: Context
) -> Command:
    start, length, entity = noun
    if intent == "list" and entity.tool("query") is None:
        intent = "change"
    reads = intent not in FORMS
    reading: Intent = "query" if reads else intent
    fields = entity.fields(intent)
    context = replace(context, condition=reads)
    taken = {*range(start, start + length), *verb}
    draft = Draft()
    limit: int | None = None
    further, action = Further(), list[Token]()
    if intent == "list":
        action = _action(tokens)
        taken |= {token.index for token in action}
    if reads and intent != "history":
        further = read_further(
            tokens,
            range(start, start + length),
            entity,
            context,
            sums=intent == "count",
            taken=taken - {*range(start, start + length)},
        )
        taken |= further.used
        if further.measures:
            intent = "summary"
    if intent == "query":
        limit, used = _limit(tokens, noun, further.used)
        if limit is None and further.order_by and _is_one(tokens, noun):
            limit = 1
        taken |= used
    if intent != "create":
        # What is named comes right after the noun, up to what was read already.
        end = min((at for at in taken if at >= start + length), default=len(tokens))
        found = read_target(reading, tokens[:end], start + length, entity, fields, context.source)
        if reads and found.used and compares(tokens, found.used.start):
            draft.unread += tokens[found.used.start : found.used.stop]  # "since forever" is no name
        else:
            draft.target = found.target
        taken |= {*found.used}
    rest = [token for token in tokens if token.index not in taken]
    marks, before = _marks(rest, fields, reading, context)
    loose: list[Token] = list(before)
    for mark in marks:
        loose += _read_mark(mark, entity, reading, len(tokens) - 1, context, draft)
    if reads or draft.values:
        draft.unread += draft.empty  # "change the city and the country to Paris" is not about one of them
    if reads:
        read_conditions(loose, entity, fields, draft, context.source)
        _agree(further, draft)
    elif intent == "delete":
        # "All" and "the last one" name no record: she is asked which, for there is no deleting of many.
        loose = [token for token in loose if token.folded not in ALL]
        draft.unread += [] if is_empty(loose) else loose
    else:
        named = intent == "create" or any(tokens[at].folded in RENAME for at in verb)
        _read_loose(loose, fields, draft, named=named, source=context.source)
    return Command(
        intent=intent,
        language=context.language,
        entity=entity,
        target=draft.target,
        values=tuple(draft.values.values()),
        unreadable=tuple(draft.unreadable),
        columns=tuple(dict.fromkeys(draft.columns)),
        limit=limit,
        filters=further.filters,
        said=further.said,
        order_by=tuple(further.order_by),
        newest=further.newest,
        measures=tuple(further.measures),
        by=tuple(further.by),
        every=further.every,
        action=_meanings(action, fields),
        unread=written([token for token in draft.unread if not is_plain(token)], context.source),
    )


def _agree(further: Further, draft: Draft) -> None:
    """Keep one condition of each field: "paid but not shipped" is paid, and where two don't agree neither is read."""
    for name in {*further.filters} & {*draft.values}:
        value, among = draft.values[name][1], further.filters[name]
        if isinstance(value, Plain) and isinstance(among, dict) and value.value in among.get("in", ()):
            del further.filters[name], further.said[name]
        else:
            draft.unreadable.append((draft.values[name][0], further.said[name]))


def _action(tokens: Sequence[Token]) -> list[Token]:
    """Return the words after "as" of "mark the paid orders as shipped", with it."""
    at = next((token.index for token in tokens if token.folded in AS), len(tokens))
    return [token for token in tokens[at:] if token.kind != "mark"]


def _meanings(said: Sequence[Token], fields: Sequence[Field]) -> tuple[str, ...]:
    """Return words that may be in the name of an action: those that were said, and the choices they name."""
    found = [token.folded for token in said]
    for field in fields:
        for at in range(len(said)):
            value, length = choice_at(field, said, at)
            if length:
                found += fold(str(value)).replace("-", "_").split("_")
    return tuple(dict.fromkeys(found))


def _limit(tokens: Sequence[Token], noun: Noun, used: set[int]) -> tuple[int | None, set[int]]:
    """Return how many records are wanted and the places of the words that say so; ``used`` say something else."""
    start = noun[0]
    before = [at for at in range(max(0, start - 4), start) if at not in used]
    latest = {at for at in before if tokens[at].folded in LATEST}
    for at in before:
        if (number := small_number(tokens[at])) is not None:
            return number, latest | {at}
    for at in range(len(tokens) - 1):
        if at not in used and tokens[at].folded in LIMIT and (number := small_number(tokens[at + 1])):
            return number, latest | {at, at + 1}
    everything = {at for at in before if tokens[at].folded in ALL}
    if everything:
        return _MOST, latest | everything
    return (1 if latest and _is_one(tokens, noun) else None), latest


def _is_one(tokens: Sequence[Token], noun: Noun) -> bool:
    """Tell whether the noun stands for one record."""
    start, length, entity = noun
    said = " ".join(token.folded for token in tokens[start : start + length])
    return said in map(fold, entity.singular.values()) and said not in map(fold, entity.plural.values())


def _marks(
    rest: Sequence[Token], fields: Sequence[Field], intent: Intent, context: Context
) -> tuple[list[Mark], list[Token]]:
    """Return the names of fields with the tokens after each, and the tokens before the first."""
    found: list[tuple[int, int, Field]] = []
    at = 0
    while at < len(rest):
        here = field_at(rest, at, fields)
        if here:
            found.append((at, here[1], here[0]))
        at += here[1] if here else 1
    commas = any(token.text in (",", ";") for token in rest)
    kept: list[tuple[int, int, Field]] = []
    for n, (start, length, field) in enumerate(found):
        end = found[n + 1][0] if n + 1 < len(found) else len(rest)
        if not kept or _begins(rest, start) or intent == "query" or not commas:
            kept.append((start, length, field))
        elif is_typed(field):  # in the middle of a text: only if a value of that type follows
            said = value_tokens(rest[start + length : end], intent=intent, last=-1)
            if said and not isinstance(read_value(field, said, context).value, Unreadable):
                kept.append((start, length, field))
    marks = []
    for n, (start, length, field) in enumerate(kept):
        end = kept[n + 1][0] if n + 1 < len(kept) else len(rest)
        name, value = rest[start : start + length], rest[start + length : end]
        marks.append(Mark(field=field, name=tuple(name), value=tuple(value)))
    return marks, list(rest[: kept[0][0]] if kept else rest)


def _begins(rest: Sequence[Token], at: int) -> bool:
    """Tell whether a new part of the sentence may begin at a place."""
    before = rest[at - 1]
    gap = rest[at].index != before.index + 1
    return gap or is_plain(before) or before.kind in ("quoted", "json", "date", "time")


def _read_mark(
    mark: Mark, entity: Entity, intent: Intent, last: int, context: Context, draft: Draft
) -> Sequence[Token]:
    """Read one field's value into the draft; return the tokens after it that are not part of it."""
    field = mark.field
    value = value_tokens(mark.value, intent=intent, last=last)
    flag = Plain(value=True, text="")
    if not value and field.usable and field.kind == "boolean":
        draft.put(field, flag)  # "VIP customers"
    elif not value and intent == "query" and field.name in entity.columns():
        draft.columns.append(field.name)  # "the price of product 12"
    elif not field.usable:
        draft.unread += [*mark.name, *value]
    elif not value:
        draft.empty += mark.name
    else:
        reading = read_value(field, value, context)
        if intent != "query":
            complete = is_empty(reading.rest)
            draft.put(field, reading.value if complete else Unreadable(text=written(value, context.source)))
        elif isinstance(reading.value, Unreadable) and field.kind == "boolean":
            draft.put(field, flag)
            return value
        else:
            draft.put(field, reading.value)
            return reading.rest
    return ()


def _read_loose(
    loose: Sequence[Token], fields: Sequence[Field], draft: Draft, *, named: bool, source: str
) -> None:
    """Read what stands before the first field: the name of a new record, or a choice to change to."""
    value: Sequence[Token] = value_tokens(loose, intent="change", last=-1)
    while value and value[0].kind != "quoted" and (is_empty(value[:1]) or value[0].folded in NAMING):
        value = value[1:]
    if is_empty(value):
        return
    fields = [field for field in fields if field.usable]
    if named:
        texts = {field.name: field for field in fields if field.kind == "text"}
        main = next((texts[name] for name in NAME_FIELDS if name in texts), None)
        end = 1 if value[0].kind == "quoted" else len(value)
        # "Add tag gift to product 12" is no name: it is about something else.
        other = any(token.kind == "word" and token.folded in INTO for token in value[:end])
        if main is not None and main.name not in draft.values and not other and is_empty(value[end:]):
            text = written(value[:end], source)
            draft.put(main, Plain(value=text, text=text))
            return
    else:
        for field in fields:
            choice, used = choice_at(field, value, 0)
            if used and used == len(value) and field.name not in draft.values:
                draft.put(field, Plain(value=choice, text=written(value, source)))
                return
    draft.unread += value
