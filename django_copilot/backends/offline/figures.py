"""Say what a count, a sum or a range of dates gave, in the person's language."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .command import Command
from .lexicon import Entity, Field
from .texts import capital, say
from .words import Language

_GROUPS = 12  # that an answer names; the table shows all
_HANDLE = re.compile(r"‹\w+ r\d+\.\d+›", re.ASCII)
_ENDS = (("gte", "from"), ("gt", "after"), ("lt", "before"), ("lte", "up_to"))


def counted_records(language: Language, entity: Entity, result: Mapping[str, Any]) -> str:
    """Return how many records a count found."""
    count = result.get("count", 0)
    key = "more_than" if result.get("capped") is True else "there_is" if count == 1 else "there_are"
    return say(language, key, count=count, noun=entity.singular[language], nouns=entity.plural[language])


def grouped(language: Language, entity: Entity, command: Command, result: Mapping[str, Any]) -> str:
    """Return the numbers of a summary, a line for each group."""
    groups = [each for each in _list(result.get("groups")) if isinstance(each, Mapping)]
    fields = {field.name: field for field in entity.fields("query")}
    heads = []
    for measure in command.measures:
        one = fields.get(measure.get("field", ""))
        what = one.label(language) if one is not None else entity.plural[language]
        heads.append(f"{say(language, 'op_' + measure['op'])}: {what}")
    head = capital("; ".join(heads))
    if not groups:
        return say(language, "no_groups", nouns=entity.plural[language])
    if not command.by:
        return f"{head}: {_numbers(language, groups[0])}."
    lines = [
        f"- {', '.join(_key(language, fields.get(name), part, every=command.every) for name, part in _pairs(command.by, each))}: "
        f"{_numbers(language, each)}"
        for each in groups[:_GROUPS]
    ]
    more = len(groups) > _GROUPS or result.get("more") is True
    return "\n".join([f"{head}:", *lines, *([say(language, "more_groups")] if more else [])])


def _pairs(by: Sequence[str], group: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(zip(by, _list(group.get("key")), strict=False))


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _numbers(language: Language, group: Mapping[str, Any]) -> str:
    values = _list(group.get("values"))
    return ", ".join(say(language, "nothing_named") if each is None else str(each) for each in values)


def _key(language: Language, field: Field | None, part: Any, *, every: str) -> str:
    if part in (None, ""):
        return say(language, "nothing_named")
    if isinstance(part, Mapping):
        return str(part.get("label") or part.get("id"))
    if every == "month" and field is not None and field.kind in ("datetime", "date"):
        return str(part)[:7]
    choice = next((each for each in field.choices if each.value == part), None) if field else None
    return choice.labels.get(language, str(part)) if choice is not None else str(part)


def understood(language: Language, entity: Entity, command: Command, result: Mapping[str, Any]) -> str:
    """Return how the dates of a command were understood, as the result tells it."""
    filters = result.get("filters")
    dated = {field.name: field for field in entity.fields("query") if field.kind in ("datetime", "date")}
    lines = []
    for name in command.filters:
        given = filters.get(name) if isinstance(filters, Mapping) else None
        if name in dated and isinstance(given, Mapping):
            ends = [
                say(language, key, value=_moment(given[lookup])) for lookup, key in _ENDS if lookup in given
            ]
            if ends:
                label = capital(dated[name].label(language))
                lines.append(say(language, "period", field=label, ends=", ".join(ends)))
    return "\n".join(lines)


def _moment(given: Any) -> str:
    """Return a point in time for reading: only its day where it is a day's beginning."""
    try:
        moment = datetime.datetime.fromisoformat(str(given))
    except ValueError:
        return str(given)
    return f"{moment:%Y-%m-%d}" if moment.time() == datetime.time() else f"{moment:%Y-%m-%d %H:%M}"


def handles_in(rows: Sequence[Any]) -> list[str]:
    """Return the names of the fields whose values stayed with the person, in the order of a row."""
    return [
        name
        for name, value in (rows[0].items() if rows and isinstance(rows[0], Mapping) else ())
        if isinstance(value, str) and _HANDLE.fullmatch(value) is not None
    ]
