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
from .follow import Pointed, again, pointed, whole
from .lexicon import Entity, Field, FindModel, entities_of
from .lookup import Lookup, look_up
from .reads import Reads
from .sentence import understand
from .texts import TEXTS, VERB_NAMES, quoted, say, text_reply
from .tokens import fold, tokenise
from .tools import tool_examples, tool_reply
from .turn import Turn
from .values import Item, Related
from .words import FORMS, LEAVE, YES, Intent, Language, language_of

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
    entities = entities_of(request.tools, find=find)
    row = pointed(turn.command, entities, turn.earlier)
    called = tool_reply(turn, _interface(request.context), entities, row)
    if called is not None:
        return called
    today = _today(request.context)
    before = again(turn.command, entities, turn.earlier, today=today)
    if isinstance(before, str):
        return text_reply(say(_spoken(turn.command, request.context), before))
    command = before or _command(turn, entities, row, today)
    if turn.errors:
        code, message = turn.errors[-1]
        known = f"error_{code}" if f"error_{code}" in TEXTS["en"] else "error"
        return text_reply(say(command.language, known, message=message).strip())
    if turn.closed:
        return text_reply(say(command.language, "ready"))
    steps = Steps(turn, entities, command)
    if row is not None and not row.place:
        return text_reply(say(row.language, "which_row"))
    return steps.reply()


class Steps(Reads):
    """The steps of one command."""

    def reply(self) -> ModelReply:
        """Return what comes next."""
        command = self.command
        if command.entity is None:
            return self._unknown()
        assert command.intent is not None
        reads = command.intent not in FORMS
        # The further tools come with the query, when they are looked for.
        if command.entity.tool("query" if reads else command.intent) is None:
            verb = VERB_NAMES[self.language][command.intent]
            return text_reply(self._say("not_allowed", verb=verb), self._offer())
        if command.unread or command.unreadable:
            return self._not_understood(command.entity, command.intent)
        if reads:
            return self.read(command.entity, command.intent)
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
            lines.append(
                self._say("search_by" if intent not in FORMS else "fill_in", fields=", ".join(labels))
            )
        return text_reply(*lines)

    def _unknown(self) -> ModelReply:
        words = self.command.words
        if not words:
            return text_reply(self._say("intro"), self._offer())
        find = next((spec for spec in self.turn.tools.values() if spec.kind == "find"), None)
        if find is not None and not self.turn.has(find, {"words": words}) and not self.turn.over:
            return self.turn.act(find, {"words": words})
        if self.command.intent not in FORMS:
            return text_reply(self._say("unknown_noun", words=words), self._offer())
        # Which of the words is the noun is not known, nor whether there is such a thing elsewhere.
        verb = VERB_NAMES[self.language][self.command.intent]
        return text_reply(self._say("nothing_so_called", verb=verb), self._offer())

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


def _command(
    turn: Turn, entities: Sequence[Entity], row: Pointed | None, today: datetime.date | None
) -> Command:
    """Return what the person asks for: in this message, or in an earlier one and the answers since then."""
    if row is not None and row.place:
        entity = next((one for one in entities if one.name == row.shown.entity), None)
        if entity is not None:
            return understand(whole(row, entity), entities, today=today, fallback=row.language)
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


def _spoken(text: str, context: str) -> Language:
    """Return the language of a few words, that of the person's admin where they tell none."""
    return language_of(tokenise(text[:200]), fallback=_interface(context))


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
