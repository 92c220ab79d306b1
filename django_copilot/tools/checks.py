"""System checks of write tools; docs/checks.md explains each id. Nothing here touches the database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.admin import sites
from django.contrib.auth import get_permission_codename
from django.core import checks

from ..declaration import admin_of, entities_of
from .schema import ASK_USER, FIND_ENTITIES, tool_names
from .write import Approval, Category, Step, WriteTool, all_tools, declared_twice

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PERMISSION = re.compile(r"[a-z0-9_]+\.[a-z0-9_]+", re.IGNORECASE)


def check_tools(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Run the checks of every declared write tool."""
    found: list[checks.CheckMessage] = [
        checks.Error(
            f"{tool.where}: there is a write tool named {tool.name!r} already ({all_tools()[tool.name].where}).",
            hint="Give one of them another name=.",
            id="copilot.E052",
        )
        for tool in declared_twice()
    ]
    for tool in all_tools().values():
        found.extend(_check_tool(tool))
    return found


def _check_tool(tool: WriteTool) -> Iterator[checks.CheckMessage]:
    for problem in tool.problems:
        yield checks.Error(
            problem if tool.where in problem else f"{tool.where}: {problem}", id="copilot.E050"
        )
    if not _NAME.fullmatch(tool.name) or tool.name in _taken():
        yield checks.Error(
            f"{tool.where}: {tool.name!r} can't be a tool's name, or is one of an entity's tools.",
            hint="Use letters, digits, _ and -, at most 64, and none of the entity tools' names.",
            id="copilot.E051",
        )
    if not tool.description:
        yield checks.Error(
            f"{tool.where} has no docstring.",
            hint="The docstring tells the model what the tool is for.",
            id="copilot.E053",
        )
    if tool.reversible and tool.category is Category.DESTRUCTIVE:
        yield checks.Error(
            f"{tool.where} is destructive and reversible; it can't be both.",
            hint="Leave reversible out, or make it a mutating tool.",
            id="copilot.E054",
        )
    if tool.reversible and (tool.has_step("apply") or tool.is_external):
        yield checks.Error(
            f"{tool.where} is reversible and has a step of its own, so its write can't be put back in full.",
            hint="Only a change through the admin's form can be undone. Leave reversible or the step out.",
            id="copilot.E055",
        )
    yield from _check_steps(tool)
    if not isinstance(tool.approval, Approval):
        yield checks.Error(
            f"{tool.where}: approval must be an Approval, such as Above(10_000).", id="copilot.E058"
        )
    for permission in (*tool.permissions, *tool.approve_permissions):
        if not isinstance(permission, str) or not _PERMISSION.fullmatch(permission):
            yield checks.Error(
                f"{tool.where}: {permission!r} is no permission. Write it as 'app_label.codename'.",
                id="copilot.E059",
            )
        elif permission not in _permissions():
            yield checks.Warning(
                f"{tool.where}: no installed model has the permission {permission!r}.",
                hint="Is it misspelt? Nobody but superusers would be offered the tool.",
                id="copilot.W063",
            )
    if tool.model._meta.app_label == "django_copilot":
        yield checks.Error(
            f"{tool.where} acts on a model of the copilot's own, which nothing may.", id="copilot.E060"
        )
    elif not any(admin_of(site, tool.model) is not None for site in sites.all_sites):
        yield checks.Warning(
            f"{tool.where}: {tool.model._meta.label} is registered on no AdminSite, so nobody can use the tool.",
            hint="Register a ModelAdmin for it: its rows and permissions decide who may use the tool.",
            id="copilot.W061",
        )


def _permissions() -> set[str]:
    """Return the permissions of all installed models, without the database."""
    return {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(get_permission_codename(action, model._meta) for action in model._meta.default_permissions),
            *(own[0] for own in model._meta.permissions),
        )
    }


# What each step is called with.
_TAKES: dict[Step, tuple[str, ...]] = {
    "dry_run": ("preview",),
    "apply": ("ctx", "preview", "grant"),
    "reserve": ("ctx", "preview", "grant"),
    "call": ("payload", "key"),
    "look_up": ("payload", "key"),
    "settle": ("grant", "succeeded", "result"),
}


def _check_steps(tool: WriteTool) -> Iterator[checks.CheckMessage]:
    for name, takes in _TAKES.items():
        if not tool.accepts(name, len(takes)):
            yield checks.Error(
                f"{tool.where}: the step {name} is called as {name}({', '.join(takes)}) and does not take that.",
                id="copilot.E064",
            )
    outside = [name for name in ("reserve", "settle", "look_up") if tool.has_step(name)]
    if tool.category is Category.READ_ONLY and (
        outside or tool.has_step("apply") or tool.is_external or tool.has_step("dry_run") or tool.reversible
    ):
        yield checks.Error(
            f"{tool.where} is read-only and has steps, or is reversible: it runs at once and has no plan.",
            id="copilot.E056",
        )
    elif (tool.is_external and tool.has_step("apply")) or (outside and not tool.is_external):
        yield checks.Error(
            f"{tool.where}: the steps reserve, settle and look_up belong to a call step, and apply does not.",
            hint="An external tool has call (and reserve, settle, look_up); any other one may have apply.",
            id="copilot.E057",
        )
    elif tool.is_external and not tool.has_step("look_up"):
        yield checks.Warning(
            f"{tool.where} has no look_up step: once the other system has forgotten a key, a lost answer can "
            "only be settled by a second person.",
            id="copilot.W062",
        )


def _taken() -> set[str]:
    names = {ASK_USER.name, FIND_ENTITIES.name}
    for site in sites.all_sites:
        for entity in entities_of(site):
            names.update(tool_names(entity).values())
    return names
