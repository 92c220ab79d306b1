"""Chains to test with: a few entries with values of every kind, and ways to change rows behind their back."""

from __future__ import annotations

from typing import Any

from django.db import connection

from django_copilot import audit
from django_copilot.models import AuditEntry, AuditValue

SITE = "admin"
KEYS = {"1": "first key, of tests only, long enough", "2": "second key, of tests only, long enough"}


def record(number: int = 1, **changed: Any) -> audit.Record:
    """Return a record with a person's words and two values of a record."""
    given: dict[str, Any] = {
        "event": "proposed",
        "code": "stale",
        "actor": "7",
        "real_actor": "8",
        "conversation": "c",
        "turn": "t",
        "plan": f"plan {number}",
        "tool": "propose_refund",
        "about": {"rows": number, "share": 0.5, "names": ["a", "ż"]},
        "values": (
            audit.Value(name="words", value=f"Refund {number}", person="7"),
            audit.Value(name="old status", value="paid", label="store.order", object_pk="3", field="status"),
            audit.Value(
                name="new status", value=["a", 1, None], label="store.order", object_pk="3", field="status"
            ),
        ),
    }
    return audit.Record(**{**given, **changed})


def chain(length: int = 4, *, site: str = SITE, scope_key: str = "") -> None:
    """Append so many entries to a site's chain."""
    audit.append(site, scope_key, *(record(number) for number in range(1, length + 1)))


def entry(number: int, site: str = SITE) -> AuditEntry:
    """Return an entry of a chain."""
    return AuditEntry.objects.get(site=site, number=number)


def value(number: int, name: str, site: str = SITE) -> AuditValue:
    """Return a value of an entry."""
    return AuditValue.objects.get(entry__site=site, entry__number=number, name=name)


def edit(row: Any, **columns: Any) -> None:
    """Change columns of a row as somebody with a database client would."""
    assert type(row)._base_manager.filter(pk=row.pk).update(**columns) == 1


def remove(row: AuditEntry) -> None:
    """Remove an entry with its values."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_copilot_auditvalue WHERE entry_id = %s", [row.pk])
        cursor.execute("DELETE FROM django_copilot_auditentry WHERE id = %s", [row.pk])
