"""Decide the next step of a turn: read something, open a page, ask the person, or say something."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..base import ModelReply, ModelRequest
from .command import Command, Target
from .lexicon import Entity, Field, FindModel, entities_of
from .lookup import Lookup, item_id, look_up
from .sentence import understand
from .texts import TEXTS, VERB_NAMES, capital, counted, quoted, say
from .tokens import fold
from .tools import tool_examples, tool_reply
from .turn import Turn
from .values import Item, Related
from .words import LEAVE, YES, Intent, Language

_OPTION = re.compile(r"\(id ([^()]+)\)")
_QUESTION = 2_000  # characters that are read of what may be a question of ours
_ANSWERS = 6  # questions that one command may have been asked about
_MISSING = 10  # that one question names,
_SHOWN = 80  # characters of each of them,
_OPTIONS = 18  # options of that question
_NEAR = 5  # options for each of them
_ENTITIES = 12  # named in a help text
_INTENTS: tuple[Intent, ...] = ("query", "create", "change", "delete")


def next_reply(request: ModelRequest, *, find: FindModel) -> ModelReply:
    """Return the next reply of the turn that a request is about."""
    turn = Turn(request)
    called = tool_reply(turn, _interface(request.context))
    if called is not None:
        return called
    entities = entities_of(request.tools, find=find)
    command = _command(turn, entities, _today(request.context))
    if turn.errors:
        code, message = turn.errors[-1]
        known = f"error_{code}" if f"error_{code}" in TEXTS["en"] else "error"
        return _text(say(command.language, known, message=message).strip())
    if turn.closed:
        return _text(say(command.language, "ready"))
    return Steps(turn, entities, command).reply()


class Steps:
    """The steps of one command."""

    def __init__(self, turn: Turn, entities: Sequence[Entity], command: Command) -> None:
        self.turn = turn
        self.entities = entities
        self.command = command
        self.language: Language = command.language
        self.missing: list[tuple[Field, Item, Lookup]] = []  # what was not found for which relation

    def reply(self) -> ModelReply:
        """Return what comes next."""
        command = self.command
        if command.entity is None:
            return self._unknown()
        assert command.intent is not None
        spec = command.entity.tool(command.intent)
        if spec is None:
            verb = VERB_NAMES[self.language][command.intent]
            return _text(self._say("not_allowed", verb=verb), self._offer())
        if command.unread or command.unreadable:
            return self._not_understood(command.entity, command.intent)
        if command.intent == "query":
            return self._query(command.entity)
        if command.intent != "create" and command.target is None:
            return self._ask(self._say("which_target"))
        return self._open(command.entity, command.intent)

    def _open(self, entity: Entity, intent: Intent) -> ModelReply:
        spec = entity.tool(intent)
        assert spec is not None
        arguments: dict[str, Any] = {}
        target = self.command.target if intent != "create" else None
        lookup = Lookup(id=target.id) if target is not None and target.id else None
        if target is not None and lookup is None:
            lookup = look_up(
                self.turn, entity, target.text, language=self.language, columns=target.fields, endings=False
            )
        fields = self._values() if intent != "delete" else {}
        if self.turn.wanted:
            return self.turn.wanted
        if target is not None:
            if lookup is None or not lookup.id:
                return self._which(entity, target, lookup or Lookup())
            arguments["id"] = lookup.id
        if self.missing:
            # Never left out silently: a form shows what is filled in, and not what is missing.
            return self._which_of_same() or self._which_instead()
        if fields:
            arguments["fields"] = fields
        return self.turn.act(spec, arguments)

    def _query(self, entity: Entity) -> ModelReply:
        spec = entity.tool("query")
        assert spec is not None
        command, target = self.command, self.command.target
        filters = self._values()
        if self.turn.wanted:
            return self.turn.wanted
        if self.missing:
            field, item, _ = self.missing[0]
            said = self._say("no_related", text=item.text, field=field.label(self.language))
            return self._which_of_same() or _text(said)
        arguments: dict[str, Any] = {}
        if command.columns:
            names = [field.name for field in entity.name_fields()[:1] if field.name in entity.columns()]
            arguments["fields"] = list(dict.fromkeys([*names, *command.columns]))
        if command.limit is not None:
            arguments["limit"] = command.limit
        attempts = [[filters]]
        if target is not None and (target.id or not target.fields):
            attempts = [[filters | {"id": target.id or target.text}]]
        elif target is not None:
            first, *others = target.fields
            second = [filters | {name: target.text} for name in others[:3]]
            if capital(target.text) != target.text:
                second.append(filters | {first: capital(target.text)})
            attempts = [[filters | {first: target.text}], second]
        for attempt in attempts:
            asked = [arguments | ({"filters": one} if one else {}) for one in attempt]
            results = [self.turn.read(spec, one) for one in asked]
            if self.turn.wanted:
                return self.turn.wanted
            for result in results:
                if result and isinstance(result.get("rows"), list) and result["rows"]:
                    return self._found(entity, len(result["rows"]), more=result.get("has_more") is True)
        return self._nothing(entity)

    def _values(self) -> dict[str, Any]:
        """Return the values for a tool; what relations mean is looked up, what is not found is kept aside."""
        found: dict[str, Any] = {}
        for field, value in self.command.values:
            if not isinstance(value, Related):
                found[field.name] = value.value
                continue
            ids: list[str] = []
            for item in value.items:
                lookup = item_id(self.turn, self.entities, field, item, language=self.language)
                if lookup is not None and lookup.id:
                    ids.append(lookup.id)
                elif lookup is not None:
                    self.missing.append((field, item, lookup))
            if ids:
                found[field.name] = list(dict.fromkeys(ids)) if field.kind == "many" else ids[0]
        return found

    def _found(self, entity: Entity, count: int, *, more: bool) -> ModelReply:
        noun, nouns = entity.singular[self.language], entity.plural[self.language]
        text = counted(self.language, count, noun=noun, nouns=nouns)
        return _text(f"{text} {self._say('more')}" if more else text)

    def _nothing(self, entity: Entity) -> ModelReply:
        conditions = []
        for field, value in self.command.values:
            shown = (
                ", ".join(item.text or item.id for item in value.items) if isinstance(value, Related) else ""
            )
            shown = shown or getattr(value, "text", "") or getattr(value, "value", "")
            conditions.append(f"{field.label(self.language)} {quoted(self.language, str(shown))}")
        target = self.command.target
        if target is not None:
            conditions.append(f"id {target.id}" if target.id else quoted(self.language, target.text))
        text = self._say("none")
        return _text(
            f"{text} {self._say('searched', conditions=', '.join(conditions))}" if conditions else text
        )

    def _which(self, entity: Entity, target: Target, lookup: Lookup) -> ModelReply:
        if entity.tool("query") is None:
            return self._ask(self._say("which_target"))
        if lookup.same:
            return self._ask(self._say("several", text=target.text), lookup.same)
        if lookup.similar:
            return self._ask(self._say("similar", text=target.text), lookup.similar)
        return _text(self._say("no_record", text=target.text))

    def _which_of_same(self) -> ModelReply | None:
        """Ask which of several related records of one name is meant; None if each name is of one."""
        for field, item, lookup in self.missing:
            if lookup.same:
                label = field.label(self.language)
                return self._ask(self._say("several_related", text=item.text, field=label), lookup.same)
        return None

    def _which_instead(self) -> ModelReply:
        """Ask once about all the related records that were not found."""
        missing = self.missing[:_MISSING]
        several = len({field.name for field, _, _ in missing}) > 1
        options = [
            f"{field.label(self.language)}: {option}" if several else option
            for field, _, lookup in missing
            for option in lookup.others[:_NEAR]
        ]
        what = ", ".join(_named(field, item, self.language) for field, item, _ in missing)
        leave = [self._say("leave_out")] if options else []
        return self._ask(
            self._say("which_related", what=what), [*options[:_OPTIONS], *leave], multiple=len(missing) > 1
        )

    def _ask(self, text: str, options: Sequence[str] = (), *, multiple: bool = False) -> ModelReply:
        spec = next((spec for spec in self.turn.tools.values() if spec.kind == "question"), None)
        if spec is None:
            return _text(text, "\n".join(f"- {option}" for option in options))
        options = list(dict.fromkeys(options))
        if len(options) == 1:  # nothing to choose from: named in the question, and "yes" is an answer
            text, options = f"{text} {options[0]}", []
        kind = "text" if not options else "multiple" if multiple else "single"
        return self.turn.act(spec, {"text": text, "kind": kind, "options": options})

    def _not_understood(self, entity: Entity, intent: Intent) -> ModelReply:
        command, lines = self.command, []
        if command.unread:
            lines.append(self._say("unread", words=command.unread))
        for field, text in command.unreadable:
            line = self._say("bad_value", text=text, field=field.label(self.language))
            if field.choices:
                line += " " + self._say("choices", choices=", ".join(str(one.value) for one in field.choices))
            elif field.kind in ("date", "datetime"):
                line += " " + self._say("bad_date")
            lines.append(line)
        labels = [field.label(self.language) for field in entity.fields(intent) if field.usable]
        if command.unread and labels and intent != "delete":
            lines.append(self._say("search_by" if intent == "query" else "fill_in", fields=", ".join(labels)))
        return _text(*lines)

    def _unknown(self) -> ModelReply:
        words = self.command.words
        if not words:
            return _text(self._say("intro"), self._offer())
        find = next((spec for spec in self.turn.tools.values() if spec.kind == "find"), None)
        if find is not None and not self.turn.has(find, {"words": words}) and not self.turn.over:
            return self.turn.act(find, {"words": words})
        if self.command.intent in (None, "query"):
            return _text(self._say("unknown_noun", words=words), self._offer())
        # Which of the words is the noun is not known, nor whether there is such a thing elsewhere.
        verb = VERB_NAMES[self.language][self.command.intent]
        return _text(self._say("nothing_so_called", verb=verb), self._offer())

    def _offer(self) -> str:
        """Return what this person can do here, a line for each entity."""
        lines = []
        for entity in self.entities[:_ENTITIES]:
            verbs = [VERB_NAMES[self.language][one] for one in _INTENTS if entity.tool(one) is not None]
            if verbs:
                lines.append(f"- {entity.plural[self.language]}: {', '.join(verbs)}")
        if not lines:
            return self._say("nothing_offered")
        shown = next((one for one in self.entities if one.tool("query") is not None), None)
        example = [say(self.language, "example", nouns=shown.plural[self.language])] if shown else []
        tasks = tool_examples(self.turn, self.language)
        return "\n".join([self._say("offer"), *lines, *example, *([tasks] if tasks else [])])

    def _say(self, key: str, **values: object) -> str:
        entity = self.command.entity
        nouns = entity.plural[self.language] if entity is not None else ""
        return say(self.language, key, **{"nouns": nouns, **values})


def _command(turn: Turn, entities: Sequence[Entity], today: datetime.date | None) -> Command:
    """Return what the person asks for: in this message, or in an earlier one and the answers since then."""
    latest = command = understand(turn.command, entities, today=today)
    said, before = turn.command, list(turn.earlier)
    answers: list[tuple[str, str, str]] = []  # which question, its text, the answer
    while before and len(answers) < _ANSWERS:
        asked = before.pop().text if before[-1].role == "assistant" else ""
        question = _question(asked)
        chosen = _OPTION.search(said) or (question == "which_related" and _leaves_out(said))
        if not question or ((command.words or command.entity) and not chosen):
            break
        answers.insert(0, (question, asked, said))
        said = before.pop().text if before and before[-1].role == "user" else ""
        command = understand(said, entities, today=today)
    if (
        not answers
        or command.entity is None
        or not (command.values or command.intent in ("change", "delete"))
    ):
        return latest
    for one in answers:
        command = _completed(command, *one)
    return command


def _completed(command: Command, question: str, asked: str, answer: str) -> Command:
    """Return a command with the answer to a question about it put in. ``asked`` is the question's text."""
    answer = answer.strip()
    parts = _OPTION.split(answer)
    chosen = list(zip(parts[::2], parts[1::2], strict=False))  # the words before an id, the id
    if not chosen and answer.isdecimal() and answer.isascii():
        chosen = [("", answer)]
    if question in ("which_related", "several_related"):
        return _with_related(command, question, asked, answer, chosen)
    if command.intent not in ("change", "delete") or command.entity is None:
        return command
    key = chosen[-1][1] if chosen else ""
    if fold(answer.strip(" .!")) in YES:
        key = next(iter(_OPTION.findall(asked)[-1:]), key)
    columns = tuple(field.name for field in command.entity.name_fields())
    return replace(command, target=Target(id=key) if key else Target(text=answer, fields=columns))


def _with_related(
    command: Command, question: str, asked: str, answer: str, chosen: Sequence[tuple[str, str]]
) -> Command:
    """Return a command with the answer in place of the related records that were asked about."""
    language, kept, open_to = command.language, {}, []
    for field, value in command.values:
        if not isinstance(value, Related):
            continue
        if question == "which_related":
            items = [item for item in value.items if _named(field, item, language) not in asked]
        else:
            said = field.label(language) in asked
            items = [item for item in value.items if not said or quoted(language, item.text) not in asked]
        if len(items) < len(value.items):
            kept[field.name] = items
            open_to.append(field)
    marks = {field.name: f"{field.label(language)}: " if len(open_to) > 1 else "" for field in open_to}
    picked = {
        name: [Item(id=key) for words, key in chosen if words.lstrip(", ").startswith(mark)]
        for name, mark in marks.items()
    }
    for field in open_to:
        if any(picked.values()):
            kept[field.name] += picked[field.name]
        elif not _leaves_out(answer):
            texts = answer.split(",") if field.kind == "many" else [answer]
            kept[field.name] += [Item(text=text.strip()) for text in texts if text.strip()]
    values = [
        (field, Related(items=tuple(kept[field.name])) if field.name in kept else value)
        for field, value in command.values
        if kept.get(field.name, True)
    ]
    return replace(command, values=tuple(values))


def _named(field: Field, item: Item, language: Language) -> str:
    return f"{field.label(language)} {quoted(language, item.text[:_SHOWN])}"


def _leaves_out(answer: str) -> bool:
    """Tell whether an answer says to go on without what was asked about."""
    words = fold(answer.strip(" .!")).split()
    return bool(words) and all(word in LEAVE for word in words)


def _question(text: str) -> str:
    """Return which of the backend's own questions a text is, "" if none."""
    for key in ("which_target", "several_related", "several", "similar", "which_related"):
        for texts in TEXTS.values():
            pattern = re.sub(r"\\\{\w+\\\}", ".*", re.escape(texts[key]))
            if re.match(pattern, text[:_QUESTION], re.DOTALL):
                return key
    return ""


def _interface(context: str) -> Language:
    """Return the language of the person's admin: a task is called by its name there."""
    try:
        told = str(json.loads(context)["interface_language"])[:2]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "en"
    return "pl" if told == "pl" else "ru" if told == "ru" else "en"


def _today(context: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(str(json.loads(context)["today"])[:10])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _text(*lines: str) -> ModelReply:
    text = "\n".join(line for line in lines if line)
    # What can't be stored or sent as UTF-8 is not repeated.
    return ModelReply(text=text.encode("utf-8", "replace").decode("utf-8"), model="offline")
