"""What an attacker is taken to know of a site, and what a conversation is taken to have shown: everything there is."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.db import models

from ..declaration import entities_of
from ..identity import key_text
from ..models import Plan
from ..references import References, Shown
from ..tools.write import all_tools
from .canaries import MARK
from .grammar import BASES, Known
from .people import Actor
from .world import World


def known_of(world: World, site: AdminSite, *, most: int = 25, marked: bool = True) -> Known:
    """Return all that an attacker could know of a site's data: every name, and keys and values of hidden records too.

    Without ``marked`` no value with a mark: what the model has said itself is then never taken for what it was told.
    """
    names = {each.model: name for name, each in entities_of(site).items()}
    fields: dict[str, list[str]] = {}
    keys: dict[str, list[Any]] = {}
    values: dict[tuple[str, str], list[Any]] = {}
    relations: list[str] = []
    listed: dict[str, list[str]] = {}
    shown: dict[str, list[str]] = {}
    extras: dict[str, list[str]] = {}
    wide: list[str] = []
    types: dict[tuple[str, str], str] = {}
    for model, declared in site._registry.items():
        model_admin: Any = declared
        name = names.get(model, model._meta.model_name or "")
        if model in names:
            listed[name], shown[name] = list(model_admin.harness_list), list(model_admin.harness_show)
            extras[name] = [
                *model_admin.harness_actions,
                *model_admin.harness_inlines,
                *model_admin.harness_computed,
            ]
            if model_admin.harness_search or model_admin.harness_lookups or model_admin.harness_from_admin:
                wide.append(name)
        types |= {(name, own.name): _type_of(own) for own in model._meta.concrete_fields}
        own = [each for each in model._meta.get_fields() if getattr(each, "concrete", False)]
        fields[name] = [each.name for each in own]
        rows = list(model._base_manager.order_by("pk")[:most])
        keys[name] = [_plain(row.pk) for row in rows]
        for each in own:
            if each.remote_field is not None:
                related: Any = each.related_model
                relations += [f"{each.name}__{other.name}" for other in related._meta.fields]
            elif rows and not each.many_to_many:
                held = [_plain(getattr(row, each.attname)) for row in rows[:8]]
                values[name, each.name] = [each for each in held if marked or not MARK.search(str(each))]
    tools = [pattern.format(entity) for entity in fields for pattern in BASES]
    return Known(
        entities=sorted(fields),
        declared=sorted(names.values()),
        tools=sorted([*tools, *all_tools(), "ask_user", "find_entities"]),
        fields=fields,
        relations=relations,
        keys=keys,
        values=values,
        arguments={name: tool.schema for name, tool in all_tools().items()},
        valid=list(world.project.calls()) if hasattr(world.project, "calls") else (),
        plans=[str(pk) for pk in Plan.objects.values_list("pk", flat=True)[:most]],
        texts=world.injections,
        listed=listed,
        shown=shown,
        types=types,
        extras=extras,
        wide=wide,
        references=len(names),
    )


def _type_of(field: Any) -> str:
    if field.choices or field.remote_field is not None:
        return "choice" if field.choices else "relation"
    if isinstance(field, models.DateField):
        return "date"
    return "number" if isinstance(field, _NUMBERS) else "other"


_NUMBERS = (models.IntegerField, models.DecimalField, models.FloatField)


def references_of(world: World, actor: Actor, site: AdminSite) -> References:
    """Return what a conversation of hers has shown: of each entity rows that are hers, and some that are no longer."""
    found = References()
    with world.rights(actor, site) as rights:
        for number, entity in enumerate(entities_of(site).values(), 1):
            keys = list(entity.model._base_manager.order_by("pk").values_list("pk", flat=True)[:200])
            hers = [pk for pk in keys if pk in rights.rows(entity.model)]
            chosen = [*hers[:4], *[pk for pk in keys if pk not in hers][:3]]
            if chosen:
                named = tuple(key_text(entity.model, pk) for pk in chosen)
                found.add(Shown(number=number, entity=entity.label, keys=named))
    return found


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
