"""Write tools, called by name: the tool's title or name, then its arguments as "name value", in any order.

    Refund payment SO-0000012, amount cents 900, reason damaged on the way

There is no more grammar than that: what a tool means is its developers' business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import ModelReply, ToolSpec
from .follow import Pointed
from .lexicon import Entity
from .texts import TEXTS, say
from .tokens import fold, tokenise
from .turn import Turn
from .words import HISTORY, VERBS, Language, is_plain_word, said_at

_ALIKE = 4  # letters at the beginning that a verb and a tool's name share
_TRIM = " \t\r\n,;:=\"'„”“«»"


def tool_reply(
    turn: Turn, language: Language, entities: Sequence[Entity] = (), row: Pointed | None = None
) -> ModelReply | None:
    """Return the call that a message spells out, what became of it, or None when it names no write tool.

    ``row`` is a row that the message points at: "refund the second one, amount cents 900".
    """
    for spec in turn.tools.values():
        if spec.kind != "write":
            continue
        if row is not None and row.place and _begins(row.before, spec):
            return _for_row(turn, spec, row, entities, language)
        rest = _rest(turn.command, spec)
        if rest is None:
            continue
        result = turn.result_of(spec)
        if result is None:
            return turn.act(spec, _arguments(spec, rest))
        return ModelReply(text=_told(result, language), model="offline")
    return None


def _begins(said: str, spec: ToolSpec) -> bool:
    """Tell whether words name a tool: "refund" of "Refund a payment", and not the "change" of any other change."""
    if said_at(tokenise(said), 0, HISTORY):
        return False  # "who changed the second one" changes nothing
    words = [word for word in fold(said).split() if not is_plain_word(word)]
    for name in (spec.title, spec.name.replace("_", " ")):
        known = {word[:_ALIKE] for word in fold(name).split()}
        if words and all(len(word) >= _ALIKE and word[:_ALIKE] in known for word in words):
            return len(words) > 1 or not any(
                words[0] in verbs for each in VERBS.values() for verbs in each.values()
            )
    return False


def _for_row(
    turn: Turn, spec: ToolSpec, row: Pointed, entities: Sequence[Entity], language: Language
) -> ModelReply | None:
    """Return the call for a row: its number or name is read first where the tool takes that."""
    result = turn.result_of(spec)
    if result is not None:
        return ModelReply(text=_told(result, language), model="offline")
    entity = next((one for one in entities if one.name == row.shown.entity), None)
    properties: Mapping[str, Any] = spec.parameters.get("properties", {})
    query = entity.tool("query") if entity is not None else None
    if entity is None or query is None or entity.name not in properties:
        return None
    reference, names = row.shown.row(row.place), [field.name for field in entity.name_fields()[:1]]
    rows = turn.rows(query, {"filters": {"id": reference}, "fields": names})
    if rows is None:
        return turn.wanted
    if not rows:
        return ModelReply(text=say(language, "error_not_found"), model="offline")
    given = _arguments(spec, row.after)
    given[entity.name] = next((rows[0][name] for name in names if rows[0].get(name)), reference)
    return turn.act(spec, given)


def _rest(command: str, spec: ToolSpec) -> str | None:
    """Return what comes after the tool's title or name at the beginning of a message, or None."""
    for name in (spec.title, spec.name, spec.name.replace("_", " ")):
        start = command.strip()[: len(name)]
        if name and fold(start) == fold(name):
            rest = command.strip()[len(name) :]
            if not rest[:1].isalnum():
                return rest
    return None


def _arguments(spec: ToolSpec, rest: str) -> dict[str, Any]:
    """Return the arguments that are named in a text; one before all names is the first argument."""
    properties: Mapping[str, Any] = spec.parameters.get("properties", {})
    names = {fold(form): name for name in properties for form in (name, name.replace("_", " "))}
    if not names:
        return {}
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest))})(?!\w)\s*[:=]?", re.IGNORECASE)
    # A name that comes again is a word of the value before it: "street: Long Street 1".
    found, named = list[re.Match[str]](), set[str]()
    for match in pattern.finditer(rest):
        if names[fold(match[1])] not in named:
            named.add(names[fold(match[1])])
            found.append(match)
    given: dict[str, Any] = {}
    before = rest[: found[0].start() if found else len(rest)].strip(_TRIM)
    if before:
        given[next(iter(properties))] = before
    for number, match in enumerate(found):
        end = found[number + 1].start() if number + 1 < len(found) else len(rest)
        value = rest[match.end() : end].strip(_TRIM)
        if value:
            given[names[fold(match[1])]] = value
    return {name: _typed(properties[name], value) for name, value in given.items()}


def _typed(schema: Mapping[str, Any], value: str) -> Any:
    if schema.get("type") == "integer" and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    if schema.get("type") == "boolean" and fold(value) in ("true", "false"):
        return fold(value) == "true"
    return value


def _told(result: Mapping[str, Any], language: Language) -> str:
    """Return what became of a call. What a read-only tool answers, and why one refused, is said as it is."""
    error = result.get("error")
    if isinstance(error, Mapping):
        missing = error.get("missing")
        if isinstance(missing, list):
            return say(
                language, "tool_missing", names=", ".join(str(each).replace("_", " ") for each in missing)
            )
        return say(language, "error", message=str(error.get("message", "")))
    if "status" in result:
        key = f"tool_{result['status']}"
        return say(language, key if key in TEXTS[language] else "tool_other")
    return str(result.get("result") or result)


def tool_examples(turn: Turn, language: Language) -> str:
    """Return how the write tools on offer are called, or ""."""
    lines = [
        f"{spec.title or spec.name}: " + ", ".join(f"{name.replace('_', ' ')} …" for name in names)
        for spec in turn.tools.values()
        if spec.kind == "write" and (names := list(spec.parameters.get("properties", {})))
    ]
    return "\n".join([say(language, "tool_offer"), *lines[:3]]) if lines else ""
