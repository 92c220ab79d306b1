"""The shapes of the built-in tools' arguments: what each takes, checked before anything else looks at it."""

from __future__ import annotations

import json
from typing import Any

from ..backends.base import ToolCall
from ..exceptions import CallError
from ..values import is_clean

MAX_ARGUMENT_CHARS = 60_000
MAX_DEPTH = 12

# What each kind of tool takes: name → (type, required). The schema a model saw is advice; this is the rule.
ARGUMENTS: dict[str, dict[str, tuple[type, bool]]] = {
    "query": {"fields": (list, False), "filters": (dict, False), "limit": (int, False)},
    "wide query": {  # of an entity whose declaration opts into more
        "fields": (list, False),
        "filters": (dict, False),
        "limit": (int, False),
        "search": (str, False),
        "order_by": (list, False),
        "after": (str, False),
    },
    "form": {"id": (object, False), "fields": (dict, False)},
    "delete": {"id": (object, True)},
    "count": {"filters": (dict, False), "search": (str, False)},
    "summary": {
        "measures": (list, True),
        "by": (list, False),
        "every": (str, False),
        "filters": (dict, False),
        "search": (str, False),
    },
    "history": {"id": (object, True)},
    "list": {"filters": (dict, False), "ids": (list, False), "action": (str, False)},
    "question": {"text": (str, True), "kind": (str, False), "options": (list, False)},
    "find": {"words": (str, True)},
}


def arguments_of(kind: str, call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments when their shape is right. Raises CallError.

    Required ones that are missing make the error ``clarification_required``, which names them.
    """
    args = parse_arguments(call.arguments)
    expected = ARGUMENTS[kind]
    unknown = [name for name in args if name not in expected]
    if unknown:
        raise CallError(
            f"This tool takes only: {', '.join(expected)}.",
            code="unknown_argument",
            arguments=[n[:60] for n in unknown[:5]],
        )
    missing = [name for name, (_, required) in expected.items() if required and args.get(name) in (None, "")]
    if missing:
        raise CallError(
            "Required values are missing. Ask the person for them; do not guess.",
            code="clarification_required",
            missing=missing,
        )
    checked: dict[str, Any] = {}
    for name, value in args.items():
        wanted, required = expected[name]
        if value is None and not required:
            continue
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is int):
            raise CallError(f"{name}: wrong type.", code="invalid_argument", argument=name)
        checked[name] = value
    for name in ("fields", "options", "order_by", "by"):
        value = checked.get(name)
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            raise CallError(f"{name}: expected a list of texts.", code="invalid_argument", argument=name)
    if checked.get("kind", "text") not in ("text", "single", "multiple"):
        raise CallError("kind: expected text, single or multiple.", code="invalid_argument", argument="kind")
    return checked


def parse_arguments(raw: str) -> dict[str, Any]:
    """Return the JSON object that a model wrote as arguments. Raises CallError for anything else."""
    problem = CallError(
        "The arguments must be one JSON object that fits the tool's schema.", code="invalid_arguments"
    )
    if len(raw) > MAX_ARGUMENT_CHARS:
        raise CallError("The arguments are too long.", code="invalid_arguments")
    try:
        args = json.loads(raw or "{}", object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError):
        raise problem from None
    if not isinstance(args, dict) or not _is_shallow(args, MAX_DEPTH) or not is_clean(args):
        raise problem
    return args


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _is_shallow(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(each, depth - 1) for each in value)
    return True
