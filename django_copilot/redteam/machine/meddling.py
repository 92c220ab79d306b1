"""What else happens while plans wait: rights come and go, records change and vanish, stored plans are written to."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db import IntegrityError, models, router, transaction
from django.db.models.deletion import ProtectedError, RestrictedError

from ... import switch
from ...conf import get_settings
from ...models import Plan
from ...scope import PERMISSION
from ...tools.write import all_tools
from ..people import Actor
from .lives import Life
from .steps import Example
from .surroundings import APPROVE, models_by_label, rows_of

FLAGS = ("is_active", "is_staff", "is_superuser")
EDITS = ("payload", "arguments", "needs_approval", "document", "digest")


def permissions() -> list[str]:
    """Return the permissions that a plan can depend on: ours, the tools' own, and those on their models."""
    found = {PERMISSION, APPROVE}
    for tool in all_tools().values():
        found |= {*tool.permissions, *tool.approve_permissions}
        options = tool.model._meta
        found |= {f"{options.app_label}.{verb}_{options.model_name}" for verb in ("view", "change")}
    return sorted(found)


def take_permission(example: Example, who: Actor, name: str) -> None:
    """Take a permission from a person, and from the groups that she is in."""
    example.step(f"{who.name} loses {name}")
    app, _, codename = name.partition(".")
    user = who.user()
    found = Permission.objects.filter(content_type__app_label=app, codename=codename)
    user.user_permissions.remove(*found)
    for group in user.groups.all():
        group.permissions.remove(*found)
    _again(example)


def give_permission(example: Example, who: Actor, name: str) -> None:
    """Give a permission to a person."""
    example.step(f"{who.name} gets {name}")
    app, _, codename = name.partition(".")
    who.user().user_permissions.add(
        *Permission.objects.filter(content_type__app_label=app, codename=codename)
    )
    _again(example)


def turn_flag(example: Example, who: Actor, name: str) -> None:
    """Turn a flag of an account off, or on again if it is off; a superuser is nobody made here."""
    user = who.user()
    value = not getattr(user, name) and name != "is_superuser"
    example.step(f"{who.name}: {name} is {value}")
    get_user_model()._default_manager.filter(pk=who.pk).update(**{name: value})
    _again(example)


def turn_group(example: Example, who: Actor, which: int) -> None:
    """Put a person into a group, or out of it: the first one is that of service accounts."""
    Group.objects.get_or_create(name=get_settings().SERVICE_ACCOUNTS_GROUP)
    groups = list(Group.objects.order_by("pk"))
    groups.sort(key=lambda each: each.name != get_settings().SERVICE_ACCOUNTS_GROUP)
    group, held = groups[which % len(groups)], who.user().groups
    is_in = held.filter(pk=group.pk).exists()
    example.step(f"{who.name} is {'taken out of' if is_in else 'put into'} the group {group.name}")
    (held.remove if is_in else held.add)(group)
    _again(example)


def turn_switch(example: Example) -> None:
    """Turn the copilot off, or on again."""
    example.is_on = not example.is_on
    example.step(f"the copilot is turned {'on' if example.is_on else 'off'}")
    switch.turn(example.around.site.name, off=not example.is_on, by=None)


def change_record(example: Example, life: Life, which: int, column: int) -> None:
    """Change one value of a record that a plan is bound to: what it shows, what it read, or where it belongs."""
    keys = list(life.rows)
    label, pk = keys[which % len(keys)]
    model = apps.get_model(label)
    obj = model._base_manager.filter(pk=pk).first()
    fields = [each for each in model._meta.concrete_fields if not each.primary_key and not each.remote_field]
    if obj is None or not fields:
        return
    field = fields[column % len(fields)]
    value = _another(field, getattr(obj, field.attname))
    example.step(f"{label} {pk}: {field.name} becomes {value!r}")
    try:
        with transaction.atomic(using=router.db_for_write(model)):
            model._base_manager.filter(pk=pk).update(**{field.attname: value})
    except (IntegrityError, ValueError):
        example.step("which the database does not take")
    _again(example, label)


def _another(field: Any, value: Any) -> Any:
    if field.choices:
        known = [key for key, _label in field.flatchoices]
        return known[(known.index(value) + 1) % len(known)] if value in known else known[0]
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return value[:-1] if field.max_length and len(value) >= field.max_length else f"{value}x"
    if isinstance(value, int):
        return value + 1
    return value


def delete_record(example: Example, life: Life, which: int) -> None:
    """Delete a record that a plan is bound to, and before it what protects it."""
    keys = list(life.rows)
    label, pk = keys[which % len(keys)]
    model = apps.get_model(label)
    example.step(f"{label} {pk} is deleted")
    obj = model._base_manager.filter(pk=pk).first()
    if obj is not None:
        _delete(obj, 6)
    _again(example)


def _delete(obj: models.Model, depth: int) -> None:
    try:
        with transaction.atomic(using=router.db_for_write(type(obj))):
            obj.delete()
    except (ProtectedError, RestrictedError) as error:
        holding: Any = getattr(error, "protected_objects", None) or getattr(error, "restricted_objects", ())
        for each in list(holding) if depth else ():
            _delete(each, depth - 1)
        if depth:
            _delete(obj, depth - 1)


def edit_plan(example: Example, life: Life, what: str) -> None:
    """Write to a stored plan past everything, as whoever reaches the database could: nothing is done of it then."""
    plan = Plan.objects.get(pk=life.pk)
    value: Any = {
        "payload": f"{plan.payload} " if plan.payload else '{"amount_cents":1}',
        "arguments": {**plan.arguments, "reason": "another one"},
        "needs_approval": not plan.needs_approval,
        "document": {**plan.document, "acting_as": "somebody else"},
        "digest": "0" * 64,
    }[what]
    example.step(f"{what} of the stored plan {life.number} is written to")
    Plan.objects.filter(pk=life.pk).update(**{what: value})
    life.is_edited = True


def _again(example: Example, *labels: str) -> None:
    """Take the rows as they are now: this is no plan's doing."""
    for label, model in models_by_label().items():
        if not labels or label in labels:
            example.rows[label] = rows_of(model)
