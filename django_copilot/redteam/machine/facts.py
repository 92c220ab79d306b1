"""What is true when a person begins to do something with a plan, asked of the project's admin and of the database.

Nothing of ``access`` and ``plans`` is asked: these are the answers that those are measured with.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model

from ...conf import get_settings
from ...exceptions import ScopeUnavailable
from ...models import Plan
from ...people import is_service_account
from ...scope import PERMISSION, enter_scope
from ...tools.write import Above, Always, WriteTool, all_tools
from ..people import Actor
from ..rights import Rights
from ..world import World
from . import lives
from .lives import Facts, Life
from .surroundings import APPROVE


@dataclass
class Place:
    """Where everything happens."""

    world: World
    site: AdminSite


def row_of(label: str, pk: str) -> dict[str, Any] | None:
    """Return the columns of a record, None when there is none."""
    model = apps.get_model(label)
    names = [each.attname for each in model._meta.concrete_fields]
    found: dict[str, Any] | None = model._base_manager.filter(pk=pk).values(*names).first()
    return found


def facts_of(
    life: Life,
    who: Actor,
    *,
    behind: bool,
    digest: Any,
    place: Place,
    all_lives: Mapping[Any, Life],
    now: float,
    is_on: bool,
) -> Facts:
    """Return what is true of a person and a plan. ``behind``: somebody else acts as her."""
    tool = all_tools()[life.tool]
    owner = next((each for each in place.world.actors if each.pk == life.owner), None)
    owner = owner or Actor(life.owner, "", "staff")
    decides = not behind and _is_person(who) and _may_be_here(place, who)
    return Facts(
        now=now,
        is_on=is_on,
        is_owner=who.pk == life.owner,
        decides=decides,
        approves=decides and _approves(place, who, life, tool),
        is_as_shown=isinstance(digest, str) and digest == life.digest and not life.is_edited,
        is_same=_is_same(life),
        owner_may=_owner_may(place, owner, life, tool),
        owner_uses=_owner_uses(place, owner, tool),
        is_alone=_is_alone(life, tool, all_lives, now),
        keys_kept=tool.keys_kept.total_seconds(),
        is_said=True,
    )


def _account(who: Actor) -> Any:
    return get_user_model()._default_manager.filter(pk=who.pk, is_active=True).first()


def _is_person(who: Actor) -> bool:
    user = _account(who)
    if user is None:
        return False
    settings = get_settings()
    if settings.IS_SERVICE_ACCOUNT is not None:
        return not is_service_account(user)
    return not user.groups.filter(name=settings.SERVICE_ACCOUNTS_GROUP).exists()


def _may_be_here(place: Place, who: Actor) -> bool:
    user = _account(who)
    return user is not None and user.is_staff and (user.has_perm(PERMISSION) or user.has_perm(APPROVE))


def _approves(place: Place, who: Actor, life: Life, tool: WriteTool) -> bool:
    """Tell whether she is somebody else than who asked, with the permissions, who sees all that it is about."""
    if str(who.pk) in (str(life.owner), str(life.real), str(life.confirmed_by)):
        return False
    user = _account(who)
    if user is None or not user.has_perms((APPROVE, *tool.approve_permissions)):
        return False
    return _sees(place, who, life, verb="", columns=set(life.changes))


def _owner_uses(place: Place, owner: Actor, tool: WriteTool) -> bool:
    user = _account(owner)
    if user is None or not user.is_staff or not user.has_perm(PERMISSION):
        return False
    return bool(user.has_perms(tool.permissions)) and _is_person(owner)


def _owner_may(place: Place, owner: Actor, life: Life, tool: WriteTool) -> bool:
    return _owner_uses(place, owner, tool) and _sees(place, owner, life, verb=tool.verb, columns=set())


def _sees(place: Place, who: Actor, life: Life, *, verb: str, columns: set[str]) -> bool:
    """Tell whether her admin lets her view each record that is there, and do the verb to the target."""
    scope = place.world.scope(who, place.site)
    with ExitStack() as stack:
        try:
            request = stack.enter_context(enter_scope(scope, who.pk))
        except ScopeUnavailable:
            return False
        for label, pk in life.rows:
            model = apps.get_model(label)
            admin = place.site._registry.get(model)
            if admin is None:
                return False
            obj = admin.get_queryset(request).filter(pk=pk).first()
            if obj is None:
                if verb or model._base_manager.filter(pk=pk).exists():
                    return False
                continue
            if not admin.has_view_or_change_permission(request, obj):
                return False
            if (label, pk) == life.target:
                if verb == "change" and not admin.has_change_permission(request, obj):
                    return False
                if verb == "delete" and not admin.has_delete_permission(request, obj):
                    return False
                if verb == "add" and not admin.has_add_permission(request):
                    return False
                if columns:
                    rights = Rights(place.site, request)
                    rights._rows[model] = {obj.pk: obj}
                    if not columns <= rights.shown(model, obj.pk):
                        return False
    return True


def _is_same(life: Life) -> bool:
    if any(row_of(*key) != row for key, row in life.rows.items()):
        return False
    busy = Plan.objects.filter(tool=life.tool, state__in=lives.CLAIMED).exclude(pk=life.pk)
    return not busy.filter(model=life.target[0], object_pk=life.target[1]).exists()


def _is_alone(life: Life, tool: WriteTool, all_lives: Mapping[Any, Life], now: float) -> bool:
    """Tell whether the tool's own limit lets one person do it, with what she and the target have already."""
    if isinstance(tool.approval, Always):
        return False
    if not isinstance(tool.approval, Above) or life.undo_of is not None:
        return True  # a rule of the project's own is not known here
    since = now - tool.approval.window.total_seconds() + lives.SLACK
    spent = 0.0
    for each in all_lives.values():
        counts = (
            each.tool == life.tool
            and each.undo_of is None
            and each.pk != life.pk
            and each.state in lives.SPENT
        )
        near = each.owner == life.owner or each.target == life.target
        recent = each.state in lives.CLAIMED or each.confirmed_at > since
        if counts and near and recent:
            spent += each.amount
    return bool(life.document["amount"]) and spent + life.amount <= float(tool.approval.limit)
