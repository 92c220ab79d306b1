"""What the audit is told, and the rows that become of it."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..models import AuditEntry, AuditValue
from ..values import clean_text, to_json
from .sealing import commitment, seal


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value that an entry commits to, and that can be erased without breaking the chain."""

    name: str  # unique within its record
    value: Any  # JSON
    person: str = ""  # key text of whose words it is
    label: str = ""  # "app_label.modelname" of the record it belongs to
    object_pk: str = ""
    field: str = ""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One thing that happened. ``about`` is JSON that can't be erased: names, counts, versions, hashes."""

    event: str
    code: str = ""
    actor: str = ""
    real_actor: str = ""
    conversation: str = ""
    turn: str = ""
    plan: str = ""
    tool: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[Value, ...] = ()


def _text(row: type[Any], column: str, given: str) -> str:
    """Return text that every database keeps as it is. Raises ValueError when the column can't hold it."""
    text = clean_text(given)
    longest = row._meta.get_field(column).max_length
    if len(text) > longest:
        # One database would refuse it, another cut it, the third keep it.
        raise ValueError(f"The audit keeps at most {longest} characters of {column!r}.")
    return text


def rows_of(
    record: Record,
    *,
    site: str,
    scope_key: str,
    number: int,
    previous: str,
    at: datetime.datetime,
) -> tuple[AuditEntry, list[AuditValue]]:
    """Return the rows of a record, sealed. Raises ValueError for what can't be kept."""
    values = list(_values(record))
    entry = AuditEntry(
        site=_text(AuditEntry, "site", site),
        number=number,
        at=at,
        scope_key=_text(AuditEntry, "scope_key", scope_key),
        about=to_json(dict(record.about)),
        commitments={each.name: commitment(each) for each in values},
        previous=previous,
        **{
            name: _text(AuditEntry, name, getattr(record, name))
            for name in ("event", "code", "actor", "real_actor", "conversation", "turn", "plan", "tool")
        },
    )
    if len(entry.commitments) != len(values):
        raise ValueError(f"Two values of one audit entry ({record.event!r}) have the same name.")
    seal(entry)
    return entry, values


def _values(record: Record) -> Iterator[AuditValue]:
    for each in record.values:
        yield AuditValue(
            name=_text(AuditValue, "name", each.name),
            value=to_json(each.value),
            salt=secrets.token_hex(32),
            person=_text(AuditValue, "person", each.person),
            model=_text(AuditValue, "model", each.label),
            object_pk=_text(AuditValue, "object_pk", each.object_pk),
            field=_text(AuditValue, "field", each.field),
        )
