"""What a person is shown of a record before she acts on it: its readable fields, as text in her language."""

from __future__ import annotations

from typing import Any

from django.utils.text import capfirst

from .access import EntityAccess
from .declaration import model_field
from .prefill import display
from .rows import run_record


def preview_record(entity: EntityAccess, obj: Any) -> list[dict[str, str]]:
    """Return label and text of each readable field of a record, for a person's own page."""
    fields = []
    for name, value in run_record(entity, obj).items():
        field = model_field(entity.model, name)
        if isinstance(value, dict) and set(value) <= {"id", "label"} and field.remote_field is not None:
            text = str(value.get("label", value["id"]))
        elif isinstance(value, list) and field.remote_field is not None:
            text = ", ".join(each.get("label", each["id"]) for each in value)
        else:
            text = display(field, field.value_from_object(obj))
        fields.append({"label": str(capfirst(field.verbose_name)), "value": text})
    return fields
