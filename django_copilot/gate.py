"""THE SECURITY BOUNDARY: the only caller of tool bodies.

A call arrives as a name and a raw JSON text from a model that may be hostile. It leaves as an outcome, or as
an error that the model may read. What holds here, each with a test named after its number:

1. Only this module calls a tool body. No body writes to a record; whatever changes data is handed to a
   person as a form, a delete page or a plan.
2. The actor comes from the stored owner of the turn, loaded freshly for every call. Nothing in a call can
   name an actor, an approver, a confirmation, a category, a key or a version: unknown arguments are refused.
3. Objects come from ``ModelAdmin.get_queryset(request)`` and pass ``has_*_permission(request, obj)``, on a
   request built from the stored scope; a scope that can't be entered is a refusal.
4. Tool, entity and field names come from the registry and the declaration; values travel as parameters;
   a name with a lookup separator is just an unknown name.
5. Nothing outside readable ∩ declared reaches an outcome, and an error names only what may be read.
8. Rights are asked on every call: site access, ``use_copilot``, model and object permissions.
9. An exception anywhere in a check or a body is a refusal, never a pass.
10. The copilot's own models are no entities (``declaration.is_declared``).
11. No transaction or lock outlives a call.

(Numbers 6, 7 and 12 belong to plans and to what a person is told; see ``plans.py`` and ``runtime``.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.contrib.admin import AdminSite
from django.db import connection, transaction

from .access import Access, EntityAccess
from .backends.base import ToolCall
from .exceptions import CallError, Refused, ScopeUnavailable
from .scope import Scope, enter_scope
from .tools import entity as bodies
from .tools.base import Failed, Outcome
from .tools.schema import ASK_USER, FIND_ENTITIES, tool_names
from .values import is_clean

logger = logging.getLogger("django_copilot")

MAX_ARGUMENT_CHARS = 60_000
MAX_DEPTH = 12

Body = Callable[[EntityAccess, Mapping[str, Any]], Outcome]
_BODIES: dict[str, Body] = {
    "query": bodies.query,
    "form": bodies.open_entity_form,
    "delete": bodies.confirm_delete,
}
# What each kind of tool takes: name → (type, required). The schema a model saw is advice; this is the rule.
_ARGUMENTS: dict[str, dict[str, tuple[type, bool]]] = {
    "query": {"fields": (list, False), "filters": (dict, False), "limit": (int, False)},
    "form": {"id": (object, False), "fields": (dict, False)},
    "delete": {"id": (object, True)},
    "question": {"text": (str, True), "kind": (str, False), "options": (list, False)},
    "find": {"words": (str, True)},
}


def run(site: AdminSite, scope: Scope, user_pk: Any, call: ToolCall) -> Outcome:
    """Run one tool call for one person and return its outcome. Raises ScopeUnavailable, and nothing else.

    There is an outcome even where the project's own scope swallows what happens in it.
    """
    try:
        with enter_scope(scope, user_pk) as request, _contained():
            access = Access(site, request)
            access.check_person()
            return _dispatch(access, call)
    except CallError as error:
        return Failed(content={"error": {"code": error.code, "message": error.message, **error.details}})
    except ScopeUnavailable:
        raise
    except Exception:
        logger.exception("A tool call failed and was refused: %s", call.name[:64])
        return Failed(content={"error": {"code": "failed", "message": "The call could not be carried out."}})


def _contained() -> AbstractContextManager[object]:
    """Return a savepoint where a surrounding block is open, so that a database error can't poison it."""
    return transaction.atomic() if connection.in_atomic_block else nullcontext()


def _dispatch(access: Access, call: ToolCall) -> Outcome:
    if call.name == ASK_USER.name:
        return bodies.ask_user(_arguments("question", call))
    if call.name == FIND_ENTITIES.name:
        return bodies.find_entities(access, _arguments("find", call))
    kind, entity = _target(access, call.name)
    return _BODIES[kind](entity, _arguments(kind, call))


def _target(access: Access, name: str) -> tuple[str, EntityAccess]:
    """Return the kind of tool and the entity that a name stands for among those this person can use."""
    for entity in access.all():
        for kind, tool in tool_names(entity.name).items():
            if tool == name and entity.is_usable:
                return kind, entity
    raise Refused("There is no such tool. Use only the tools that were given.", code="unknown_tool")


def _arguments(kind: str, call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments when their shape is right. Raises CallError.

    Required ones that are missing make the error ``clarification_required``, which names them.
    """
    args = parse_arguments(call.arguments)
    expected = _ARGUMENTS[kind]
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
    for name in ("fields", "options"):
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
