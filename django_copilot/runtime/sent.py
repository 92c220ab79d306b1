"""What of a read left for the model: kept beside the read as names and a number, told to the person in her language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..display import field_label
from ..tools.base import ReadDone


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What left of one read. ``table`` is what the person sees of it, None where it is not shown again."""

    entity: str  # "app_label.modelname"
    fields: tuple[str, ...]
    rows: int
    table: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, outcome: ReadDone) -> Sent:
        """Return what left of a read that was just made."""
        return cls(
            entity=outcome.entity, fields=outcome.sent_fields, rows=outcome.sent_rows, table=outcome.table
        )

    @classmethod
    def from_json(cls, read: Mapping[str, Any], table: Mapping[str, Any] | None) -> Sent | None:
        """Return what is kept beside a stored read, None where nothing is."""
        kept = read.get("sent")
        if kept is None:
            return None
        return cls(entity=read["entity"], fields=tuple(kept["fields"]), rows=kept["rows"], table=table)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form, which is kept beside the read: names and a number, and no value."""
        return {"fields": list(self.fields), "rows": self.rows}

    def told(self) -> dict[str, Any]:
        """Return which rows and fields of which records, for the person."""
        model = apps.get_model(self.entity)
        heads = {each["name"]: each["label"] for each in (self.table or {}).get("columns", ())}
        return {
            "label": str(capfirst(model._meta.verbose_name_plural)),
            "rows": self.rows,
            "fields": [heads.get(name) or field_label(model, name) for name in self.fields],
        }

    def counts(self) -> str:
        """Return how much it was, in words."""
        rows = ngettext("%(count)d row", "%(count)d rows", self.rows) % {"count": self.rows}
        number = len(self.fields)
        fields = ngettext("%(count)d field", "%(count)d fields", number) % {"count": number}
        return _("%(rows)s × %(fields)s") % {"rows": rows, "fields": fields}


def told_of_sent(reads: Iterable[Sent]) -> dict[str, Any]:
    """Return ``sent`` of an answer: a sentence, and what it counts; nothing where nothing was read."""
    all_of_it = list(reads)
    if not all_of_it:
        return {}
    counts = ", ".join(each.counts() for each in all_of_it)
    return {
        "sent": {
            "text": _("%(counts)s were sent") % {"counts": counts},
            "reads": [each.told() for each in all_of_it],
        }
    }
