"""Decide the next step of a command that reads: a query, a count, a sum, a history, a list to open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import ModelReply, ToolSpec
from .command import Command, Target
from .figures import counted_records, grouped, handles_in, understood
from .lexicon import Entity, Field
from .lookup import Lookup, item_id, look_up
from .texts import VERB_NAMES, capital, counted, quoted, say, text_reply
from .tokens import fold
from .turn import Turn
from .values import Item, Related
from .words import MARK, PLACED, Intent, Language, is_plain_word

_TICKED = 50  # rows of a list that are named one by one
_ENDING: Mapping[Language, int] = {"pl": 3, "ru": 3, "en": 0}  # letters that an ending may have, at most


class Reads:
    """The steps of one command that reads, and what the steps of all commands need."""

    def __init__(self, turn: Turn, entities: Sequence[Entity], command: Command) -> None:
        self.turn = turn
        self.entities = entities
        self.command = command
        self.language: Language = command.language
        self.missing: list[tuple[Field, Item, Lookup]] = []  # what was not found for which relation

    def read(self, entity: Entity, intent: Intent) -> ModelReply:
        """Return what comes next for a command that reads."""
        if intent == "query" and not self.command.is_wide:
            return self._query(entity)
        found = self._further(entity, intent)
        if isinstance(found, ModelReply):
            return found if found.calls or not self.command.is_usual else self._query(entity)
        if intent == "query":
            return self._query(entity)
        if intent == "history":
            return self._history(entity, found)
        narrowed = self._narrowed(entity)
        if isinstance(narrowed, ModelReply):
            return narrowed
        if intent == "list":
            return self._list(entity, found, narrowed)
        arguments = dict(narrowed)
        if intent == "summary":
            arguments["measures"] = [dict(each) for each in self.command.measures]
            if self.command.by:
                arguments["by"] = list(self.command.by)
            if self.command.every:
                arguments["every"] = self.command.every
        result = self.turn.read(found, arguments)
        if result is None:
            assert self.turn.wanted is not None
            return self.turn.wanted
        if intent == "count" and result.get("count") == 0 and self._searched_for():
            return self._nothing(entity)  # what was looked for is said, in case it was not meant so
        told = (
            grouped(self.language, entity, self.command, result)
            if intent == "summary"
            else counted_records(self.language, entity, result)
        )
        return text_reply(told, understood(self.language, entity, self.command, result))

    def _further(self, entity: Entity, intent: Intent) -> ToolSpec | ModelReply:
        """Return the tool for what is asked; where it is not told of yet, look for the entity's tools once."""
        spec = entity.tool(intent)
        if spec is not None and (intent != "query" or entity.is_wide):
            return spec
        reply = self._look_for(entity)
        return reply if reply is not None else text_reply(self._say("not_here", verb=self._verb(intent)))

    def _look_for(self, entity: Entity) -> ModelReply | None:
        """Return the call that brings an entity's further tools, None if it was made or can't be."""
        find = next((spec for spec in self.turn.tools.values() if spec.kind == "find"), None)
        words = {"words": entity.name.replace("_", " ")}
        if find is None or self.turn.has(find, words) or self.turn.over:
            return None
        return self.turn.act(find, words)

    def _query(self, entity: Entity) -> ModelReply:
        spec = entity.tool("query")
        assert spec is not None
        command, target = self.command, self.command.target
        filters = self._conditions()
        if isinstance(filters, ModelReply):
            return filters
        arguments: dict[str, Any] = {}
        if command.columns:
            names = [field.name for field in entity.name_fields()[:1] if field.name in entity.columns()]
            arguments["fields"] = list(dict.fromkeys([*names, *command.columns]))
        if command.limit is not None:
            arguments["limit"] = command.limit
        if command.order_by and entity.is_wide:
            arguments["order_by"] = list(command.order_by)
        if command.after:
            arguments["after"] = command.after
        searching = target is not None and bool(target.fields) and not target.id and not target.place
        for attempt in self._attempts(entity, filters):
            results = [self.turn.read(spec, arguments | one) for one in attempt]
            if self.turn.wanted:
                return self.turn.wanted
            for result in results:
                if result and isinstance(result.get("rows"), list) and result["rows"]:
                    return self._found(entity, result)
        if searching and not entity.is_wide and (looking := self._look_for(entity)):
            return looking
        return self._nothing(entity)

    def _attempts(self, entity: Entity, filters: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        """Return the arguments to try, one group after the other; those of a group are tried together."""
        target = self.command.target
        plain = {"filters": dict(filters)} if filters else {}
        if target is None:
            return [[plain]]
        if target.id or not target.fields:
            return [[{"filters": {**filters, "id": target.id or target.text}}]]
        if entity.is_searched and not target.place:
            texts = [searched(target.text), searched(target.text, ending=_ENDING[self.language])]
            found = [[plain | {"search": text}] for text in dict.fromkeys(texts) if text]
            places = [field.name for field in entity.place_fields()[:2]]  # "the orders of Gdynia"
            return [*found, [{"filters": {**filters, name: texts[0]}} for name in places]]
        first, *others = target.fields
        second = [{"filters": {**filters, name: target.text}} for name in others[:3]]
        if capital(target.text) != target.text:
            second.append({"filters": {**filters, first: capital(target.text)}})
        attempts: list[list[dict[str, Any]]] = [[{"filters": {**filters, first: target.text}}], second]
        if target.place and entity.is_searched and _ENDING[self.language]:
            attempts.append([plain | {"search": searched(target.text, ending=_ENDING[self.language])}])
        return attempts

    def _narrowed(self, entity: Entity) -> dict[str, Any] | ModelReply:
        """Return the filters and the search of a command that reads no rows."""
        filters = self._conditions()
        if isinstance(filters, ModelReply):
            return filters
        target = self.command.target
        narrowed: dict[str, Any] = {}
        if target is not None and (target.id or not target.fields):
            filters["id"] = target.id or target.text
        elif target is not None and entity.is_searched and not target.place:
            narrowed["search"] = searched(target.text)
        elif target is not None:
            filters[target.fields[0]] = target.text
        return narrowed | ({"filters": filters} if filters else {})

    def _conditions(self) -> dict[str, Any] | ModelReply:
        filters = self._values()
        if self.turn.wanted:
            return self.turn.wanted
        if self.missing:
            field, item, _ = self.missing[0]
            said = self._say("no_related", text=item.text, field=field.label(self.language))
            return self._which_of_same() or text_reply(said)
        return filters | dict(self.command.filters)

    def _history(self, entity: Entity, spec: ToolSpec) -> ModelReply:
        target = self.command.target
        if target is None:
            return self._ask(self._say("which_target"))
        lookup = Lookup(id=target.id) if target.id else None
        if lookup is None:
            lookup = look_up(
                self.turn, entity, target.text, language=self.language, columns=target.fields, endings=True
            )
            if self.turn.wanted:
                return self.turn.wanted
        if lookup is None or not lookup.id:
            return self._which(entity, target, lookup or Lookup())
        result = self.turn.read(spec, {"id": lookup.id})
        if result is None:
            assert self.turn.wanted is not None
            return self.turn.wanted
        return text_reply(self._say("history"))

    def _list(self, entity: Entity, spec: ToolSpec, narrowed: Mapping[str, Any]) -> ModelReply:
        arguments: dict[str, Any] = dict(narrowed)
        if "search" in narrowed:  # a list is opened by filters or by ids
            rows = self._rows_named(entity, narrowed.get("filters", {}))
            if isinstance(rows, ModelReply):
                return rows
            arguments = {"ids": [str(row.get("id", "")) for row in rows]}
        if self.command.action:
            action = _action(entity.actions(), self.command.action)
            if not action:
                known = ", ".join(each.replace("_", " ") for each in entity.actions())
                return text_reply(
                    self._say("no_action"), self._say("choices", choices=known) if known else ""
                )
            arguments["action"] = action
        return self.turn.act(spec, arguments)

    def _rows_named(self, entity: Entity, filters: Mapping[str, Any]) -> list[Mapping[str, Any]] | ModelReply:
        """Return the records that a name in the sentence means, or the reply that reads them or says there are none."""
        query = entity.tool("query")
        assert query is not None
        for attempt in self._attempts(entity, filters):
            several = [self.turn.rows(query, each | {"limit": _TICKED}) for each in attempt]
            if self.turn.wanted:
                return self.turn.wanted
            rows = next((each for each in several if each), None)
            if rows:
                return rows
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

    def _found(self, entity: Entity, result: Mapping[str, Any]) -> ModelReply:
        noun, nouns = entity.singular[self.language], entity.plural[self.language]
        text = counted(self.language, len(result["rows"]), noun=noun, nouns=nouns)
        if result.get("has_more") is True:
            text = f"{text} {self._say('more')}"
        kept = [
            field.label(self.language)
            for name in handles_in(result["rows"])
            for field in entity.fields("query")
            if field.name == name and name in self.command.columns
        ]
        only = self._say("shown_only", fields=", ".join(kept)) if kept else ""
        return text_reply(text, understood(self.language, entity, self.command, result), only)

    def _nothing(self, entity: Entity) -> ModelReply:
        if self.command.after:
            return text_reply(self._say("no_more"))
        conditions = self._searched_for()
        said = self._say("searched", conditions=", ".join(conditions)) if conditions else ""
        return text_reply(f"{self._say('none')} {said}".strip())

    def _searched_for(self) -> list[str]:
        """Return the conditions of the command as they were said."""
        conditions = []
        for field, value in self.command.values:
            shown = (
                ", ".join(item.text or item.id for item in value.items) if isinstance(value, Related) else ""
            )
            shown = shown or getattr(value, "text", "") or getattr(value, "value", "")
            conditions.append(f"{field.label(self.language)} {quoted(self.language, str(shown))}")
        entity = self.command.entity
        labels = (
            {field.name: field.label(self.language) for field in entity.fields("query")} if entity else {}
        )
        for name, said in self.command.said.items():
            conditions.append(f"{labels.get(name, name)} {quoted(self.language, said)}")
        target = self.command.target
        if target is not None:
            conditions.append(f"id {target.id}" if target.id else quoted(self.language, target.text))
        return conditions

    def _which(self, entity: Entity, target: Target, lookup: Lookup) -> ModelReply:
        if entity.tool("query") is None:
            return self._ask(self._say("which_target"))
        if lookup.same:
            return self._ask(self._say("several", text=target.text), lookup.same)
        if lookup.similar:
            return self._ask(self._say("similar", text=target.text), lookup.similar)
        return text_reply(self._say("no_record", text=target.text))

    def _which_of_same(self) -> ModelReply | None:
        """Ask which of several related records of one name is meant; None if each name is of one."""
        for field, item, lookup in self.missing:
            if lookup.same:
                label = field.label(self.language)
                return self._ask(self._say("several_related", text=item.text, field=label), lookup.same)
        return None

    def _ask(self, text: str, options: Sequence[str] = (), *, multiple: bool = False) -> ModelReply:
        spec = next((spec for spec in self.turn.tools.values() if spec.kind == "question"), None)
        if spec is None:
            return text_reply(text, "\n".join(f"- {option}" for option in options))
        options = list(dict.fromkeys(options))
        if len(options) == 1:  # nothing to choose from: named in the question, and "yes" is an answer
            text, options = f"{text} {options[0]}", []
        kind = "text" if not options else "multiple" if multiple else "single"
        return self.turn.act(spec, {"text": text, "kind": kind, "options": options})

    def _verb(self, intent: Intent) -> str:
        return VERB_NAMES[self.language][intent]

    def _say(self, key: str, **values: object) -> str:
        entity = self.command.entity
        nouns = entity.plural[self.language] if entity is not None else ""
        return say(self.language, key, **{"nouns": nouns, **values})


def searched(text: str, *, ending: int = 0) -> str:
    """Return what to search for: without small words before it, and each word without its ending where asked."""
    words = text.replace("…", " ").replace("...", " ").split()
    while len(words) > 1 and is_plain_word(fold(words[0])):
        words = words[1:]
    while len(words) > 1 and fold(words[-1]) in PLACED:  # "how many orders did Anna place"
        words = words[:-1]
    if ending:
        words = [
            word[: max(3, len(word) - (ending if len(word) > 2 * ending else 1))] if word.isalpha() else word
            for word in words
        ]
    return " ".join(words)


def _action(known: Sequence[str], said: Sequence[str]) -> str:
    """Return the action whose name agrees with what was said after "as", "" if none or several do."""
    agree = []
    for name in known:
        words = [word for word in name.split("_") if not is_plain_word(word) and word not in MARK]
        if words and all(word in said for word in words):
            agree.append(name)
    return agree[0] if len(agree) == 1 else ""
