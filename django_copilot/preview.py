"""What a person is shown of a record before she acts on it: its readable fields, as text in her language."""

from __future__ import annotations

from typing import Any

from django.utils.text import capfirst

from .access import EntityAccess
from .declaration import model_field
from .prefill import display
from .rows import PERSON_CHARS, cut, run_record
from .values import clean_text


def preview_record(entity: EntityAccess, obj: Any) -> list[dict[str, str]]:
    """Return label and text of each readable field of a record, for a person's own page."""
    fields = []
    for name, value in run_record(entity, obj).items():
        field = model_field(entity.model, name)
        fields.append({"label": str(capfirst(field.verbose_name)), "value": cell_text(field, obj, value)})
    return fields


def cell_text(field: Any, obj: Any, value: Any) -> str:
    """Return a readable JSON value of a record's field as plain text, no longer than a table's cell."""
    if field.remote_field is None:
        return str(cut(clean_text(display(field, field.value_from_object(obj))), PERSON_CHARS))
    related = value if isinstance(value, list) else [value] if value is not None else []
    return ", ".join(clean_text(str(each.get("label", each["id"]))) for each in related)
