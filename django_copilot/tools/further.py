"""What a model is told of the tools beyond the three of every entity: wider queries, counts, sums, history, lists.

They are opted into by a declaration, and a request tells of them only where the message, the page or the
conversation points at the entity, within so many bytes; ``find_entities`` brings the rest. What is not told
of can be called all the same: the gate asks the declaration.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..access import Access, EntityAccess
from ..access.history import may_see_history
from ..backends.base import ToolSpec
from ..exceptions import CallError
from ..reading import dates
from ..reading.sums import EVERY, OPS
from .ranking import said_of
from .schema import query_parameters, tool_names

logger = logging.getLogger("django_copilot")

WRAPPED = 60  # bytes around a tool's own
FURTHER_BYTES = 900  # of schemas and descriptions in a request, besides the tools of every entity
# Beginnings of the words, in three languages, that ask for a kind of tool; accents are left out.
WORDS = {
    "count": (
        "how many",
        "count",
        "number of",
        "ile",
        "liczb",
        "policz",
        "сколько",
        "количеств",
        "посчит",
        "число",
    ),
    "summary": (
        *(
            "sum",
            "total",
            "averag",
            "mean",
            "highest",
            "lowest",
            "most",
            "least",
            "revenue",
            "chart",
            "per ",
            "by ",
        ),
        *(
            "suma",
            "łącz",
            "lacz",
            "średni",
            "sredni",
            "najw",
            "najm",
            "wykres",
            "według",
            "wedlug",
            "razem",
            "obrot",
        ),
        *("сумм", "итог", "средн", "больше всего", "меньше всего", "график", "выручк", "всего", " по "),
    ),
    "history": ("histor", "who chang", "changed", "edited", "zmieni", "zmian", "истори", "измен", "менял"),
    "list": (
        *("list", "mark", "tick", "select", "all ", "every", "oznacz", "zaznacz", "list", "wszystk"),
        *("отмет", "отмеч", "выдел", "спис", "все "),
    ),
}


def kinds_of(entity: EntityAccess) -> tuple[str, ...]:
    """Return the kinds of further tool that the declaration gives an entity, and that this person could use."""
    if not entity.can_view:
        return ()
    kinds = ["count", "summary"] if entity.asks_more and entity.readable() else []
    kinds += ["history"] if entity.tells_history and may_see_history(entity, None) else []
    kinds += ["list"] if entity.opens_list else []
    return tuple(kinds)


def further_specs(
    access: Access,
    chosen: Sequence[EntityAccess],
    plain: Mapping[str, ToolSpec],
    message: str,
    *,
    page: str = "",
    recent: Collection[str] = (),
    found: Collection[str] = (),
) -> tuple[dict[str, ToolSpec], bool]:
    """Return the tools to tell of besides, by name (a wider query stands for the plain one), and whether some are left.

    ``plain`` are those told of anyway, by name. ``found`` are the entities that the model has looked for: theirs are told of whatever they take.
    """
    entities = [each for each in chosen if tool_names(each.name)["query"] in plain]
    said = said_of([each.entity for each in entities], message)
    asked = {kind: _asks(message, words) for kind, words in WORDS.items()}
    wanted: list[tuple[float, int, EntityAccess, str]] = []
    left = False
    for place, entity in enumerate(entities):
        kinds = _wanted(entity)
        points = 2.0 * said[entity.name]
        points += (1.5 if entity.name == page else 0.0) + (0.5 if entity.entity.label in recent else 0.0)
        if points or entity.name in found:
            wanted += [
                (points + (1 if kind == "query" else 2 * asked[kind]), place, entity, kind) for kind in kinds
            ]
        else:
            left = left or bool(kinds)
    specs: dict[str, ToolSpec] = {}
    room = FURTHER_BYTES
    for _points, _place, entity, kind in sorted(wanted, key=lambda each: (-each[0], each[1])):
        spec = _spec(entity, kind)
        if spec is None:
            continue
        if entity.name not in found:
            size = _size(spec, plain.get(spec.name))
            if size > room:
                left = True
                continue
            room -= size
        specs[spec.name] = spec
    return specs, left


def _wanted(entity: EntityAccess) -> tuple[str, ...]:
    """Return the kinds of tool to tell of; none of an entity whose code fails, which is logged."""
    try:
        return (*(["query"] if entity.asks_more else []), *kinds_of(entity))
    except Exception:
        logger.exception("%s can't be offered by the copilot.", type(entity.model_admin).__name__)
        return ()


def _asks(message: str, words: Collection[str]) -> bool:
    text = f" {message.casefold()} "
    return any(word in text if " " in word else f" {word}" in text for word in words)


def _size(spec: ToolSpec, instead_of: ToolSpec | None) -> int:
    """Return the bytes that a spec adds to a request, in the shape that most providers want."""
    told = json.dumps([spec.name, spec.description, spec.parameters], ensure_ascii=False)
    return len(told.encode()) + WRAPPED - (_size(instead_of, None) if instead_of is not None else 0)


def _spec(entity: EntityAccess, kind: str) -> ToolSpec | None:
    builders = {"query": _query, "count": _count, "summary": _summary, "history": _history, "list": _list}
    try:
        description, parameters = builders[kind](entity)
    except CallError:
        return None
    except Exception:
        logger.exception("%s can't be offered by the copilot.", type(entity.model_admin).__name__)
        return None
    return ToolSpec(
        name=tool_names(entity.name)[kind],
        kind=kind,  # type: ignore[arg-type]
        description=description,
        parameters={"type": "object", "additionalProperties": False, **parameters},
        model=entity.model._meta.label,
    )


def _query(entity: EntityAccess) -> tuple[str, dict[str, Any]]:
    lookups: dict[str, list[str]] = {}
    for name, kinds in entity.lookups.items():
        for kind in kinds:
            if kind != "range" or entity.can_range(name):
                lookups.setdefault(kind, []).append(name)
    shapes = {"range": "{gte,gt,lte,lt}", "in": "{in:[]}", "isnull": "{isnull}"}
    by_names: dict[str, list[str]] = {}
    for kind in (kind for kind in shapes if kind in lookups):
        by_names.setdefault(", ".join(lookups[kind]), []).append(shapes[kind])
    says = [f"{' or '.join(kinds)} on {names}" for names, kinds in by_names.items()]
    text = f"Read {entity.model._meta.verbose_name_plural}."
    if says:
        text += f" Filters also take {'; '.join(says)}."
    if any(entity.can_range(name) and "range" in kinds for name, kinds in entity.lookups.items()):
        text += f" Dates may be words: {dates.EXPLAINED}."
    parameters = query_parameters(entity, loose={*entity.lookups})
    more: dict[str, Any] = {}
    if entity.search_paths:
        more["search"] = {"type": "string", "description": _searched(entity)}
    if entity.orderable:
        more["order_by"] = {"type": "array", "items": {"type": "string"}}
    more["after"] = {"type": "string"}
    return text, {"properties": {**parameters["properties"], **more}}


def _searched(entity: EntityAccess) -> str:
    return "in " + ", ".join(dict.fromkeys(path.relation or path.field for path in entity.search_paths))


def _narrowing(entity: EntityAccess) -> dict[str, Any]:
    return {"filters": {"type": "object"}, **({"search": {"type": "string"}} if entity.search_paths else {})}


def _count(entity: EntityAccess) -> tuple[str, dict[str, Any]]:
    return f"Count {entity.model._meta.verbose_name_plural}, filtered as in a query.", {
        "properties": _narrowing(entity)
    }


def _summary(entity: EntityAccess) -> tuple[str, dict[str, Any]]:
    measure = {
        "type": "object",
        "required": ["op"],
        "properties": {"op": {"enum": [*OPS]}, "field": {"type": "string"}},
    }
    return (
        f"Count and sum {entity.model._meta.verbose_name_plural} by one or two fields; every for dates.",
        {
            "required": ["measures"],
            "properties": {
                "measures": {"type": "array", "items": measure},
                "by": {"type": "array", "items": {"type": "string"}},
                "every": {"enum": [*EVERY]},
                **_narrowing(entity),
            },
        },
    )


def _history(entity: EntityAccess) -> tuple[str, dict[str, Any]]:
    return (
        f"Who changed one {entity.model._meta.verbose_name}, and when.",
        {"required": ["id"], "properties": {"id": {"type": "string"}}},
    )


def _list(entity: EntityAccess) -> tuple[str, dict[str, Any]]:
    actions = list(entity.actions)
    chosen = {"action": {"enum": actions}} if actions else {}
    what = f"Open the admin's list of {entity.model._meta.verbose_name_plural}, filtered"
    return (
        f"{what}, rows ticked, an action chosen; she runs it." if actions else f"{what}.",
        {
            "properties": {
                "filters": _narrowing(entity)["filters"],
                "ids": {"type": "array", "items": {"type": "string"}},
                **chosen,
            }
        },
    )
