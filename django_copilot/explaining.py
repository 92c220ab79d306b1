"""What the assistant may do for one person, and which rule says each no.

Every yes and no is the answer of the code that decides (``access``, the tools that are offered); the rule is looked
for among that code's own questions, in its order. What is true of single records only is not in it: a record's own
rules are asked when it is read or changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from django.contrib.admin import AdminSite
from django.forms import PasswordInput

from .access import Access, EntityAccess
from .access.history import may_see_history
from .access.person import may_use
from .declaration import Declaration, admin_of, model_field, never_fillable, never_readable
from .exceptions import CallError, ScopeUnavailable
from .people import is_service_account
from .reading.columns import column_names, columns_seen
from .scope import Scope, enter_scope
from .switch import is_off
from .tools.further import kinds_of
from .tools.offered import may_use_tool
from .tools.schema import specs_for, tool_names
from .tools.write import WriteTool, all_tools
from .values import FILLABLE

Answer = dict[str, Any]  # {"may": True}, or {"may": False, "why": the rule}
YES: Answer = {"may": True}
SEE_LOG = "its code failed: the log says how"
PERSON = {
    "not_staff": "not staff of this site: its has_permission said no",
    "not_allowed": "use_copilot is missing",
}
NO_VIEW = "has_view_permission and has_change_permission said no"
ASKS_NO_MORE = "without harness_search, harness_lookups and harness_from_admin"
NOT_DECLARED = {
    "count": ASKS_NO_MORE,
    "summary": ASKS_NO_MORE,
    "history": "without harness_history",
    "list": "without harness_actions, harness_search, harness_lookups and harness_from_admin",
}


def explain(site: AdminSite, scope: Scope, user: Any, *, only: Collection[str] = ()) -> dict[str, Any]:
    """Return what the assistant may do for a person, as JSON holds it.

    ``only`` names entities, as tools do or as "app.model". Raises ConfigurationError.
    """
    report: dict[str, Any] = {
        "user": user.get_username(),
        "site": site.name,
        "allowed": YES,
        "decides": _no("a service account decides nothing") if is_service_account(user) else YES,
        "entities": [],
        "tools": {},
    }
    try:
        with enter_scope(scope, user.pk) as request:
            access = Access(site, request)
            code = may_use(site, request.user, request)
            if is_off(site.name):
                report["allowed"] = _no("the assistant is switched off on this site")
            elif code:
                report["allowed"] = _no(PERSON[code])
            elif next(access.usable(), None) is None:
                report["allowed"] = _no("there is no entity that this person can use")
            for entity in access.all():
                if not only or {entity.name, entity.entity.label} & set(only):
                    report["entities"].append(_entity(entity))
            if not only:
                report["tools"] = {
                    tool.name: _answer(
                        may_use_tool(access, tool), lambda tool=tool: _why_no_tool(access, tool)
                    )
                    for tool in all_tools().values()
                }
    except ScopeUnavailable as error:
        report["allowed"] = _no(str(error))
    return report


def _no(why: str) -> Answer:
    return {"may": False, "why": why}


def _answer(may: bool, why: Any) -> Answer:
    return YES if may else _no(why())


def _entity(entity: EntityAccess) -> dict[str, Any]:
    ma = entity.model_admin
    offered: set[str] = set()
    if entity.is_usable:
        offered = {*(spec.kind for spec in specs_for(entity)), *kinds_of(entity)}
    declared = [*ma.harness_list, *ma.harness_show, *ma.harness_persist, *sorted(entity.declared())]
    return {
        "entity": entity.name,
        "model": entity.model._meta.label,
        "usable": _answer(entity.is_usable, lambda: _why_unusable(entity)),
        "tools": {
            name: _answer(kind in offered, lambda kind=kind: _why_not_offered(entity, kind))
            for kind, name in tool_names(entity.name).items()
        },
        "fields": {
            name: _field(entity, name)
            for name in dict.fromkeys(each for each in declared if isinstance(each, str))
        },
        "asking": _asking(entity) if entity.is_usable and entity.can_view else {},
    }


# -- what may be asked of it -------------------------------------------------------------------------------


def _asking(entity: EntityAccess) -> dict[str, Any]:
    """Return which search fields, filters, orders, columns and actions are this person's, where there are any."""
    ma = entity.model_admin
    searched = {path.given for path in entity.search_paths}
    unsearched = (
        "the admin searches in its own way"
        if entity.searches_its_own_way
        else "not readable on every record, or of records that are not all this person's"
    )
    columns = columns_seen(entity)
    made: dict[str, Any] = {
        "search": {name: _answer(name in searched, lambda: unsearched) for name in entity.search_fields},
        "filters": {name: sorted(kinds) for name, kinds in entity.lookups.items()},
        "order_by": list(entity.orderable),
        "columns": {
            name: _answer(name in columns, lambda: "the admin does not show it to this person")
            for name in column_names(entity)
        },
        "actions": {
            name: _answer(name in entity.actions, lambda: "get_actions does not give it to this person")
            for name in ma.harness_actions
        },
    }
    return {name: value for name, value in made.items() if value}


# -- entities and their tools ------------------------------------------------------------------------------


def _why_unusable(entity: EntityAccess) -> str:
    if entity.can_view or entity.can_add or entity.can_delete:
        return "has_module_permission said no"
    return "no permission to view, change, add or delete"


def _why_not_offered(entity: EntityAccess, kind: str) -> str:
    if not entity.is_usable:
        return _why_unusable(entity)
    if kind == "form":
        if not (entity.can_add or entity.can_change):
            return "has_add_permission and has_change_permission said no"
        if not entity.can_add and not entity.can_view:
            return NO_VIEW
        return "no field can be filled in" if not any(_fillable(entity)) else SEE_LOG
    if not entity.can_view:
        return NO_VIEW
    if kind == "delete" and not entity.can_delete:
        return "has_delete_permission said no"
    if kind in NOT_DECLARED and not _is_declared_for(entity, kind):
        return NOT_DECLARED[kind]
    if kind == "history" and not entity.tells_history:
        return "django-simple-history does not track this model"
    if kind == "history" and not may_see_history(entity, None):
        return "no permission to look at the history"
    if kind in ("query", "count", "summary") and not entity.readable():
        return "no field can be read"
    return SEE_LOG


def _is_declared_for(entity: EntityAccess, kind: str) -> bool:
    if kind == "history":
        return bool(entity.model_admin.harness_history)
    return entity.opens_list if kind == "list" else entity.asks_more


def _fillable(entity: EntityAccess) -> Iterator[str]:
    for change in (False, True):
        try:
            yield from entity.fillable(change=change)
        except CallError:
            continue  # that form can't be made, and is not offered


# -- fields ------------------------------------------------------------------------------------------------


def _field(entity: EntityAccess, name: str) -> dict[str, Answer]:
    readable, showable = (entity.readable(), entity.showable()) if entity.can_view else ((), ())
    return {
        "read": _answer(name in readable, lambda: _why_unread(entity, name)),
        "show": _answer(name in showable, lambda: _why_unshown(entity, name)),
        **{
            page: _answer(
                name in _fillable_on(entity, change=change),
                lambda change=change: _why_unfilled(entity, name, change=change),
            )
            for page, change in (("add", False), ("change", True))
        },
    }


def _fillable_on(entity: EntityAccess, *, change: bool) -> tuple[str, ...]:
    if change and not entity.can_view:
        return ()
    try:
        return entity.fillable(change=change)
    except CallError:
        return ()


def _why_unread(entity: EntityAccess, name: str) -> str:
    ma = entity.model_admin
    if not entity.can_view:
        return NO_VIEW
    if name in ma.harness_show:
        return "in harness_show, so it is not sent"
    if name not in ma.harness_list and type(ma).get_harness_list is Declaration.get_harness_list:
        return "not in harness_list"
    if never_readable(entity.model, name):
        return "never read by the assistant"
    if name not in entity.shows():
        return "the admin does not show it"
    return "not named by this admin's own method of harness_list"


def _why_unshown(entity: EntityAccess, name: str) -> str:
    ma = entity.model_admin
    if not entity.can_view:
        return NO_VIEW
    if name not in ma.harness_show and type(ma).get_harness_show is Declaration.get_harness_show:
        return "not in harness_show"
    if never_readable(entity.model, name):
        return "never read by the assistant"
    if model_field(entity.model, name).remote_field is not None:
        return "a relation"
    if name not in entity.shows():
        return "the admin does not show it"
    return "not named by this admin's own method of harness_show"


def _why_unfilled(entity: EntityAccess, name: str, *, change: bool) -> str:
    ma = entity.model_admin
    if change and not entity.can_change:
        return "has_change_permission said no"
    if change and not entity.can_view:
        return NO_VIEW
    if not change and not entity.can_add:
        return "has_add_permission said no"
    if name not in ma.harness_persist and type(ma).get_harness_persist is Declaration.get_harness_persist:
        return "not in harness_persist"
    try:
        fields = entity.form_class(None, change=change).base_fields
    except CallError:
        return SEE_LOG
    if name not in fields:
        return "not on the form, or read-only there"
    if fields[name].disabled:
        return "disabled on the form"
    if isinstance(fields[name].widget, PasswordInput):
        return "a password input"
    if never_fillable(entity.model, name):
        return "a file, binary or password field"
    field = model_field(entity.model, name)
    if field is not None and field.remote_field is not None:
        if admin_of(entity.access.site, field.remote_field.model) is None:
            return f"{field.remote_field.model._meta.label} is not registered on this site"
    elif field is not None and not isinstance(field, FILLABLE):
        return "fields of its kind can't be filled in"
    return "not named by this admin's own method of harness_persist"


# -- write tools -------------------------------------------------------------------------------------------


def _why_no_tool(access: Access, tool: WriteTool) -> str:
    if tool.problems:
        return "its declaration is wrong: manage.py check says how"
    missing = [each for each in tool.permissions if not access.request.user.has_perm(each)]
    if missing:
        return (
            f"{', '.join(missing)} is missing" if len(missing) == 1 else f"{', '.join(missing)} are missing"
        )
    if admin_of(access.site, tool.model) is None:
        return f"{tool.model._meta.label} is not registered on this site"
    entity = access.registered(tool.model)
    if entity is None:
        return f"{tool.model._meta.label} can't be used by this person"
    if not entity.can_view:
        return NO_VIEW
    may = {"add": entity.can_add, "change": entity.can_change, "delete": entity.can_delete}
    return f"has_{tool.verb}_permission said no" if not may.get(tool.verb, True) else SEE_LOG
