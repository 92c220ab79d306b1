"""What a model is told of the tools: names, descriptions and JSON schemas for one person.

Schemas hold the fields that this person may read or fill in, never more. The texts are English product
text: they are for a model, and golden-tested.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from django.db import models

from ..access import Access, EntityAccess
from ..backends.base import ToolSpec
from ..declaration import admin_of, model_field
from ..exceptions import CallError
from ..reading.columns import column_names
from ..values import field_schema

logger = logging.getLogger("django_copilot")

ASK_USER = ToolSpec(
    name="ask_user",
    kind="question",
    description="Ask the person one question, when something required is missing. Ends your answer.",
    parameters={
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {
            "text": {"type": "string"},
            "kind": {"type": "string", "enum": ["text", "single", "multiple"]},
            "options": {"type": "array", "items": {"type": "string"}},
        },
    },
)

FIND_ENTITIES = ToolSpec(
    name="find_entities",
    kind="find",
    description="Find kinds of records, and all tools for them (counts, sums, history …), by words.",
    parameters={
        "type": "object",
        "additionalProperties": False,
        "required": ["words"],
        "properties": {"words": {"type": "string"}},
    },
)


PLAIN = ("query", "form", "delete")  # the kinds that every entity has


def tool_names(name: str) -> dict[str, str]:
    """Return the names of an entity's tools by kind."""
    return {
        "query": f"query_{name}",
        "form": f"open_{name}_form",
        "delete": f"confirm_delete_{name}",
        "count": f"count_{name}",
        "summary": f"summarise_{name}",
        "history": f"history_{name}",
        "list": f"open_{name}_list",
    }


def specs_for(entity: EntityAccess) -> list[ToolSpec]:
    """Return the tools of one entity that this person could use: none of one whose code fails, which is logged."""
    names = tool_names(entity.name)
    builders = {"query": _query, "form": _form, "delete": _delete}
    specs = []
    for kind, build in builders.items():
        try:
            made = build(entity)
        except CallError:
            continue
        except Exception:
            logger.exception("%s can't be offered by the copilot.", type(entity.model_admin).__name__)
            return []
        if made is not None:
            description, parameters = made
            specs.append(
                ToolSpec(
                    name=names[kind],
                    kind=kind,  # type: ignore[arg-type]
                    description=description,
                    parameters={"type": "object", "additionalProperties": False, **parameters},
                    model=entity.model._meta.label,
                )
            )
    return specs


def _query(entity: EntityAccess) -> tuple[str, dict[str, Any]] | None:
    if not entity.can_view or not (entity.readable() or entity.showable()):
        return None
    plural = entity.model._meta.verbose_name_plural
    return f"Read {plural}.", query_parameters(entity)


def query_parameters(entity: EntityAccess, *, loose: Collection[str] = ()) -> dict[str, Any]:
    """Return the schema of a query's fields, filters and limit; ``loose`` filters take more than a plain value."""
    readable = entity.readable()
    filters: dict[str, Any] = {"id": {"type": "string"}}
    for name in readable:
        schema = _value_schema(entity.access, entity.model, name)
        if schema is not None:
            filters[name] = _loosened(schema) if name in loose else schema
    names = [*readable, *entity.showable()]
    told: dict[str, Any] = {"type": "string"}  # the filters tell the names
    besides = column_names(entity)
    if not {*names} <= {*filters}:
        told = {"enum": [*names, *besides]}
    elif besides:
        told["description"] = f"or {', '.join(besides)}"
    return {
        "properties": {
            "fields": {"type": "array", "items": told},
            "filters": {"type": "object", "additionalProperties": False, "properties": filters},
            "limit": {"type": "integer"},
        }
    }


def _loosened(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value that may be an object of lookups as well: what it says of a plain one, as text."""
    if "enum" in schema:
        return {"description": "|".join(map(str, schema["enum"]))}
    return {key: value for key, value in schema.items() if key == "description"}


def _form(entity: EntityAccess) -> tuple[str, dict[str, Any]] | None:
    adding = entity.fillable(change=False)
    changing = entity.fillable(change=True) if entity.can_view else ()
    names = tuple(dict.fromkeys((*adding, *changing)))
    if not names:
        return None
    fields = {name: _value_schema(entity.access, entity.model, name, writing=True) or {} for name in names}
    plural = entity.model._meta.verbose_name_plural
    which = "" if adding and changing else f" for {'a new' if adding else 'an existing'} record"
    description = f"Fill in a form of {plural}{which}."
    parameters: dict[str, Any] = {
        "properties": {
            **({"id": {"type": "string"}} if changing else {}),
            "fields": {"type": "object", "additionalProperties": False, "properties": fields},
        }
    }
    if not adding:
        parameters["required"] = ["id"]
    return description, parameters


def _delete(entity: EntityAccess) -> tuple[str, dict[str, Any]] | None:
    if not (entity.can_view and entity.can_delete):
        return None
    return (
        f"Open the delete page of one {entity.model._meta.verbose_name}.",
        {"required": ["id"], "properties": {"id": {"type": "string"}}},
    )


def _value_schema(access: Access, model: Any, name: str, *, writing: bool = False) -> dict[str, Any] | None:
    field = model_field(model, name)
    if field is None:
        return {"type": "string"}
    if not writing and isinstance(field, models.FileField | models.JSONField):
        return None
    if field.remote_field is not None:
        related = field.remote_field.model
        entity = access.entity_of(related)
        of = entity.name if entity is not None else str(related._meta.verbose_name)
        if writing and admin_of(access.site, related) is None:
            return None
        if field.many_to_many and writing:
            return {"type": "array", "items": {"type": "string"}, "description": f"ids of {of}"}
        return {"type": "string", "description": f"id of {of}"}
    return field_schema(field)
