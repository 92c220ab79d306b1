"""The project's rows before and after: what changed, row by row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connections, router

from .canaries import business_models

Snapshot = Mapping[tuple[str, str], str]  # (label of the model, key as text) → hash of the row


@dataclass(frozen=True)
class RowChange:
    """A row that is not as it was."""

    label: str  # "app.model"
    pk: str
    kind: str  # "added", "changed", "deleted"

    def __str__(self) -> str:
        return f"{self.label} {self.pk} {self.kind}"


def key_text(field: Any, raw: Any) -> str:
    """Return a key as it came from the driver as the text by which the record is known everywhere else."""
    return str(field.to_python(raw)) if raw is not None else ""


def snapshot() -> Snapshot:
    """Return a hash of each business row."""
    return {
        (model._meta.label_lower, key): row for model in business_models() for key, row in _rows_of(model)
    }


def _rows_of(model: Any) -> Iterator[tuple[str, str]]:
    connection = connections[router.db_for_read(model)]
    quote = connection.ops.quote_name
    # When somebody was last seen is no record of the project's: every login writes it.
    seen = "last_login" if issubclass(model, AbstractBaseUser) else ""
    columns = [field.column for field in model._meta.local_concrete_fields if field.name != seen]
    at = columns.index(model._meta.pk.column)
    listed = ", ".join(map(quote, columns))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {listed} FROM {quote(model._meta.db_table)}")  # noqa: S608  # names of the models
        for row in cursor.fetchall():
            yield (
                key_text(model._meta.pk, row[at]),
                hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest(),
            )


def changes(before: Snapshot, after: Snapshot) -> list[RowChange]:
    """Return what differs, in the order of labels and keys."""
    found = [
        RowChange(*key, "deleted" if key not in after else "added" if key not in before else "changed")
        for key in {*before, *after}
        if before.get(key) != after.get(key)
    ]
    return sorted(found, key=str)
