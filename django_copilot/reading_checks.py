"""System checks of what a declaration lets be read beyond plain fields; docs/checks.md explains each id.

Nothing here touches the database. Where a hook of the project decides per request, a check can't know and is silent.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, SimpleNamespace
from typing import Any

from django.contrib.admin import ModelAdmin
from django.core import checks
from django.db import models

from .access.asking import RANGED, TEXT_LOOKUPS, UNCOMPARED, _is_text
from .access.inlines import relation_of, shows_relation
from .declaration import (
    LOOKUPS,
    PERSONAL,
    SECRET,
    Declaration,
    admin_of,
    is_declared,
    model_field,
    never_readable,
)
from .reading.computed import name_of, why_not

Found = tuple[str, checks.CheckMessage]  # what harness_silence would name, and the message

NAMES = ("harness_show", "harness_computed", "harness_actions")
FLAGS = ("harness_search", "harness_from_admin", "harness_history")
MAPS = ("harness_lookups", "harness_inlines")
KINDS = "'range' takes gte, gt, lte and lt; 'in' takes one of several values; 'isnull' is empty or not."
# What code names that asks the database.
ASKS = ("objects", "_default_manager", "filter", "aggregate", "annotate", "count", "exists", "get")


def reading_messages(model_admin: Any) -> Iterator[Found]:
    """Go through what is wrong or worth a thought with the declaration of further reading."""
    wrong = set()
    for attribute, problem in _malformed(model_admin):
        wrong.add(attribute)
        yield _error(model_admin, attribute, "copilot.E080", f"{attribute} must be {problem}.")
    if not is_declared(model_admin):
        given = [each for each in (*NAMES, *FLAGS, *MAPS) if getattr(model_admin, each)]
        if given:
            yield _warning(
                model_admin,
                given[0],
                "copilot.W097",
                f"{', '.join(given)}: no field is declared, so these declare nothing.",
                "Name fields in harness_list.",
            )
        return
    parts = {
        "harness_show": _show,
        "harness_search": _search,
        "harness_lookups": _lookups,
        "harness_from_admin": _from_admin,
        "harness_inlines": _inlines,
        "harness_computed": _computed,
        "harness_actions": _actions,
        "harness_history": _history,
    }
    for attribute, check in parts.items():
        if attribute not in wrong and getattr(model_admin, attribute):
            yield from check(model_admin)
    yield from _personal(model_admin)


def _malformed(model_admin: Any) -> Iterator[tuple[str, str]]:
    for attribute in FLAGS:
        if not isinstance(getattr(model_admin, attribute), bool):
            yield attribute, "True or False"
    for attribute in NAMES:
        if not _are_names(getattr(model_admin, attribute)):
            yield attribute, "a list or tuple of names"
    for attribute in MAPS:
        given = getattr(model_admin, attribute)
        if not isinstance(given, Mapping) or not all(
            isinstance(name, str) and _are_names(names) for name, names in given.items()
        ):
            yield attribute, "a dict of names with lists of names"


def _are_names(given: Any) -> bool:
    return (
        isinstance(given, Sequence)
        and not isinstance(given, str)
        and all(isinstance(each, str) for each in given)
    )


def _is_own(model_admin: Any, *hooks: str) -> bool:
    """Tell whether one of these hooks is the project's."""
    neutral = ("django.", "django_copilot.", "simple_history.")
    found = (getattr(type(model_admin), hook, None) for hook in hooks)
    return any(not str(getattr(each, "__module__", "django.")).startswith(neutral) for each in found)


def _listed(model_admin: Any) -> Sequence[str]:
    names = model_admin.harness_list
    return names if _are_names(names) else ()


def _shown(model_admin: Any) -> Sequence[str]:
    names = model_admin.harness_show
    return names if _are_names(names) else ()


def _error(model_admin: Any, name: str, ident: str, text: str, hint: str | None = None) -> Found:
    return name, checks.Error(text, hint=hint, obj=type(model_admin), id=ident)


def _warning(model_admin: Any, name: str, ident: str, text: str, hint: str | None = None) -> Found:
    return name, checks.Warning(text, hint=hint, obj=type(model_admin), id=ident)


# -- fields -----------------------------------------------------------------------------------------------


def _show(model_admin: Any) -> Iterator[Found]:
    from .checks import _is_shown, _not_shown  # it asks for the checks of this module

    for name in model_admin.harness_show:
        field = model_field(model_admin.model, name)
        if field is None:
            yield _error(
                model_admin,
                name,
                "copilot.E081",
                f"harness_show: {name!r} is no field of the model.",
                "Name the model's own fields. Lookups, methods and properties can't be declared.",
            )
            continue
        if field.remote_field is not None or field.primary_key or never_readable(model_admin.model, name):
            yield _error(
                model_admin,
                name,
                "copilot.E082",
                f"harness_show: {name!r} can't be shown so: it is the key, a relation, binary data or a password hash.",
            )
            continue
        if name in _listed(model_admin):
            yield _error(
                model_admin,
                name,
                "copilot.E083",
                f"harness_show: {name!r} stands in harness_list, too. It is kept from the model.",
                "Take it out of one of them.",
            )
        if not _is_shown(model_admin, name):
            yield name, _not_shown(type(model_admin), "harness_show", name)
        if SECRET.search(name):
            yield _warning(
                model_admin,
                name,
                "copilot.W085",
                f"harness_show: {name!r} looks like a secret. It would stand in a conversation's tables.",
                "Take it out, or name it in harness_silence if the name misleads.",
            )


def _personal(model_admin: Any) -> Iterator[Found]:
    for name in _listed(model_admin):
        field = model_field(model_admin.model, name)
        if field is None or not PERSONAL.search(name) or name in _shown(model_admin):
            continue
        hint = "Move it to harness_show: she sees it, and the model gets a handle. Or name it in harness_silence."
        if field.remote_field is not None:
            hint = "Take it out, or name it in harness_silence."
        yield _warning(
            model_admin,
            name,
            "copilot.W084",
            f"harness_list: {name!r} looks personal, and is sent to the model's provider.",
            hint,
        )


# -- asking -----------------------------------------------------------------------------------------------


def _search(model_admin: Any) -> Iterator[Found]:
    if type(model_admin).get_search_results is not ModelAdmin.get_search_results:
        yield _error(
            model_admin,
            "harness_search",
            "copilot.E086",
            "harness_search: this admin has its own get_search_results, which may look at anything.",
            "Leave harness_search out. Filters on readable fields can be declared in harness_lookups.",
        )
        return
    if _is_own(model_admin, "get_search_fields"):
        return
    if not model_admin.search_fields:
        yield _error(
            model_admin, "harness_search", "copilot.E086", "harness_search: this admin has no search_fields."
        )
        return
    yield from _search_paths(model_admin, "harness_search")


def _search_paths(model_admin: Any, attribute: str) -> Iterator[Found]:
    """Go through the search fields that nobody can search through the assistant."""
    problems = {name: _search_problem(model_admin, name) for name in model_admin.search_fields}
    for name, problem in problems.items():
        if problem == "never":
            yield _warning(
                model_admin,
                name,
                "copilot.W087",
                f"{attribute}: the search field {name!r} is left out.",
                "Only text fields and numbers of the model and of a related record are searched, "
                "not further relations and not many-to-many.",
            )
    if attribute == "harness_search" and all(problems.values()):
        yield _error(
            model_admin,
            attribute,
            "copilot.E086",
            "harness_search: none of the search_fields can be searched by the assistant.",
            "They have to be in harness_list, here or on the related model's admin.",
        )


def _search_problem(model_admin: Any, given: Any) -> str:
    """Return "" for a path that somebody may search, "undeclared", or "never"."""
    if not isinstance(given, str):
        return "never"
    first, *rest = given.lstrip("^=@").split("__")
    field = model_field(model_admin.model, first)
    if field is None:
        return "never"
    declared_in = model_admin
    if field.remote_field is not None:
        if field.many_to_many or not rest:
            return "never"
        declared_in = admin_of(model_admin.admin_site, field.remote_field.model)
        target = model_field(field.remote_field.model, rest.pop(0))
        if target is None:
            return "never"
        if not _may_be_listed(model_admin, first):
            return "undeclared"
        field = target
    if not _is_text(field) or field.remote_field is not None or len(rest) > 1:
        return "never"
    if rest and rest[0] not in TEXT_LOOKUPS:
        return "never"
    if declared_in is None or not isinstance(declared_in, Declaration):
        return "undeclared"
    return "" if _may_be_listed(declared_in, field.name) else "undeclared"


def _may_be_listed(model_admin: Any, name: str) -> bool:
    return name in _listed(model_admin) or _is_own(model_admin, "get_harness_list")


def _lookups(model_admin: Any) -> Iterator[Found]:
    for name, kinds in model_admin.harness_lookups.items():
        field = model_field(model_admin.model, name)
        unknown = [kind for kind in kinds if kind not in LOOKUPS]
        text, hint = "", None
        if field is None:
            text, hint = f"{name!r} is no field of the model.", "Name the model's own fields, no lookups."
        elif not _may_be_listed(model_admin, name):
            text = f"{name!r} is not in harness_list, so nobody can filter on it."
        elif isinstance(field, UNCOMPARED):
            text = f"{name!r} can be read and not filtered on: it is JSON, a file or binary data."
        elif unknown or not kinds:
            text = f"{name!r} has {', '.join(map(repr, unknown)) or 'nothing'}, and not a kind of lookup."
            hint = KINDS
        elif "range" in kinds and (
            not isinstance(field, RANGED) or field.remote_field is not None or field.choices
        ):
            text = f"{name!r} has no range: only numbers, dates, times and durations have one."
        if text:
            yield _error(model_admin, name, "copilot.E088", f"harness_lookups: {text}", hint)


def _from_admin(model_admin: Any) -> Iterator[Found]:
    own_search = type(model_admin).get_search_results is not ModelAdmin.get_search_results
    others = model_admin.list_filter or model_admin.date_hierarchy or _is_own(model_admin, "get_list_filter")
    searches = model_admin.search_fields or _is_own(model_admin, "get_search_fields")
    if own_search and searches:
        yield _warning(
            model_admin,
            "harness_from_admin",
            "copilot.W089",
            "harness_from_admin: the search is not taken over: get_search_results is this admin's own, "
            "and may look at anything.",
        )
    elif not others and not searches:
        yield _warning(
            model_admin,
            "harness_from_admin",
            "copilot.W089",
            "harness_from_admin: there is nothing to take over: no search_fields, list_filter or date_hierarchy.",
            "Add them, or use harness_lookups.",
        )
    elif searches and not _is_own(model_admin, "get_search_fields"):
        yield from _search_paths(model_admin, "harness_from_admin")


# -- more than fields -------------------------------------------------------------------------------------


def _inlines(model_admin: Any) -> Iterator[Found]:
    for accessor, names in model_admin.harness_inlines.items():
        relation = relation_of(model_admin.model, accessor)
        if relation is None:
            there = [
                each.get_accessor_name()
                for each in model_admin.opts.related_objects
                if not each.many_to_many and each.get_accessor_name()
            ]
            yield _error(
                model_admin,
                accessor,
                "copilot.E090",
                f"harness_inlines: a record has no rows named {accessor!r}.",
                f"It has {', '.join(map(str, there))}." if there else None,
            )
            continue
        static = not _is_own(model_admin, "get_inlines", "get_inline_instances", "get_formsets_with_inlines")
        shown = any(
            shows_relation(
                SimpleNamespace(model=each.model, parent_model=model_admin.model, fk_name=each.fk_name),
                relation,
            )
            for each in model_admin.inlines
        )
        if static and not shown:
            yield _error(
                model_admin,
                accessor,
                "copilot.E090",
                f"harness_inlines: no inline of this admin shows {accessor!r}.",
            )
            continue
        if not names:
            yield _error(
                model_admin,
                accessor,
                "copilot.E090",
                f"harness_inlines: {accessor!r} names no field to read.",
            )
        for name in names:
            yield from _inline_field(model_admin, accessor, relation, name)


def _inline_field(model_admin: Any, accessor: str, relation: Any, name: str) -> Iterator[Found]:
    child = relation.related_model
    own = admin_of(model_admin.admin_site, child)
    where = f"{accessor}.{name}"
    text = ""
    if model_field(child, name) is None:
        text = f"{where!r} is no field of {child._meta.label}."
    elif never_readable(child, name):
        text = f"{where!r} can't be read by the assistant."
    elif name == relation.field.name:
        text = f"{where!r} is the record itself."
    elif isinstance(own, Declaration) and name in _shown(own):
        text = f"{where!r} stands in the harness_show of {type(own).__name__}, which keeps it from the model."
    if text:
        yield _error(model_admin, where, "copilot.E090", f"harness_inlines: {text}")
    elif SECRET.search(name) or PERSONAL.search(name):
        like = "like a secret" if SECRET.search(name) else "personal"
        yield _warning(
            model_admin,
            where,
            "copilot.W091",
            f"harness_inlines: {where!r} looks {like}, and is sent to the model's provider.",
            "Take it out, or name it in harness_silence, so written.",
        )


def _computed(model_admin: Any) -> Iterator[Found]:
    listed = {name_of(each): each for each in model_admin.list_display}
    for name in model_admin.harness_computed:
        entry = listed.get(name, name)
        text, hint = "", None
        there = callable(entry) or hasattr(model_admin, name) or hasattr(model_admin.model, name)
        match why_not(model_admin, entry):
            case "field":
                text, hint = (
                    f"{name!r} is of the model itself and not computed.",
                    "Fields go into harness_list.",
                )
            case "missing":
                text = f"{name!r} is a lookup."
                hint = "Declare the related model, or write a method."
            case "does":
                text = f"{name!r} does something instead of saying something; it is never called."
            case _ if name not in listed and not _is_own(model_admin, "get_list_display"):
                text = f"{name!r} is not in list_display."
            case _ if not there and not _is_own(model_admin, "get_queryset"):
                text = f"there is no method or property {name!r}."
        if text:
            yield _error(model_admin, name, "copilot.E092", f"harness_computed: {text}", hint)
        else:
            yield _cost(model_admin, name, entry)


def _cost(model_admin: Any, name: str, entry: Any) -> Found:
    """Return the warning that a column runs for each row, with what its code looks at."""
    function = entry
    if not callable(entry):
        function = getattr(type(model_admin), name, None) or getattr(model_admin.model, name, None)
    meta = model_admin.opts
    one = {each.name for each in meta.concrete_fields if each.remote_field is not None}
    many = {each.name for each in meta.many_to_many}
    many |= {str(each.get_accessor_name()) for each in meta.related_objects}
    looked_at = _named_in(function)
    fetched = model_admin.list_select_related
    joined = one if fetched is True else {*(fetched or ())}
    asks = sorted(looked_at & ((one - joined) | many | {*ASKS}))
    text = f"harness_computed: {name!r} runs for each row that is read, at most 50 for a query; "
    text += (
        f"its code names {', '.join(asks)}, which may be a query each time."
        if asks
        else "how many queries that makes is not known."
    )
    hint = "Name relations in list_select_related, or compute it in get_queryset. "
    hint += "Name it in harness_silence when its cost is known."
    return _warning(model_admin, name, "copilot.W093", text, hint)


def _named_in(function: Any) -> set[str]:
    """Return the attributes and globals that a function's own code names, as far as it can be looked at."""
    while isinstance(function, functools.partialmethod | functools.partial):
        function = function.func
    function = getattr(function, "fget", None) or getattr(function, "func", None) or function
    waiting = [getattr(getattr(function, "__func__", function), "__code__", None)]
    names: set[str] = set()
    while waiting:
        code = waiting.pop()
        if isinstance(code, CodeType):
            names.update(code.co_names)
            waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return names


def _actions(model_admin: Any) -> Iterator[Found]:
    there = {name_of(each) for each in model_admin.actions or ()}
    there |= {name for name, _action in model_admin.admin_site.actions}
    for name in model_admin.harness_actions:
        if name not in there and not _is_own(model_admin, "get_actions", "_get_base_actions"):
            yield _error(
                model_admin,
                name,
                "copilot.E094",
                f"harness_actions: {name!r} is no action of this admin.",
                f"There are {', '.join(sorted(there))}.",
            )
        elif name == "delete_selected":
            yield _warning(
                model_admin,
                name,
                "copilot.W095",
                "harness_actions: 'delete_selected' deletes every ticked record after one more page.",
                "Take it out, or name it in harness_silence if that is meant.",
            )


def _history(model_admin: Any) -> Iterator[Found]:
    model: type[models.Model] = model_admin.model
    if not hasattr(model._meta, "simple_history_manager_attribute"):
        yield _error(
            model_admin,
            "harness_history",
            "copilot.E096",
            f"harness_history: no history of {model._meta.label} is kept.",
            "Give the model history = HistoricalRecords() of django-simple-history, or leave this out.",
        )
