"""What a person is shown of a record before she acts on it: its fields, as text in her language."""

from __future__ import annotations

from typing import Any

from .access import EntityAccess
from .declaration import model_field
from .display import field_label
from .reading import cell_text, run_record


def preview_record(entity: EntityAccess, obj: Any) -> list[dict[str, str]]:
    """Return label and text of each field of a record that she may see, for a person's own page."""
    return [
        {
            "label": field_label(entity.model, name),
            "value": cell_text(model_field(entity.model, name), obj, value),
        }
        for name, value in run_record(entity, obj, for_person=True).items()
    ]
