"""The end of a chain: entries are appended here, one writer after the other, without a gap or a fork.

Who appends locks the last entry, so that nobody else gets past it. A database that made us wait may give the
entry that was last before: then the number is taken, and the second attempt looks until it stays the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, connections, router, transaction
from django.utils import timezone

from ..models import AuditEntry, AuditValue
from .records import Record, rows_of
from .sealing import moment

ATTEMPTS = 20  # to append, each after somebody else was faster
LOOKS = 200  # for the entry that is last, in one attempt


def append(site: str, scope_key: str, *records: Record) -> None:
    """Append records in order to a site's chain, all or none, within the caller's transaction if there is one.

    Raises whatever went wrong: the caller must not go on then. To be called last in a transaction, since
    everybody who appends to the same site waits for its end.
    """
    if records:
        append_at(site, scope_key, records, at=timezone.now())


def append_at(site: str, scope_key: str, records: Sequence[Record], *, at: datetime.datetime) -> None:
    """Append records as of a point in time."""
    using = router.db_for_write(AuditEntry)
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic(using=using):
                last = lock_end(site, using=using, certain=attempt > 0)
                _store(site, scope_key, records, at=at, last=last, using=using)
            return
        except IntegrityError:
            # The number is taken by somebody who committed while this one waited, or by the first entry.
            if attempt == ATTEMPTS - 1:
                raise


def lock_end(site: str, *, using: str, certain: bool) -> AuditEntry | None:
    """Return the site's last entry, locked, so that only this transaction may go past it."""
    connection: Any = connections[using]
    features = connection.features
    rows = AuditEntry.objects.using(using).filter(site=site).only("number", "digest").order_by("-number")
    if not features.has_select_for_update:
        _take_turn(using)
        return rows.first()
    rows = rows.select_for_update(no_key=features.has_select_for_no_key_update)
    if connection.vendor == "mysql":
        # There the end of an index is locked as well, under repeatable read by several at once, who then wait
        # for each other. The first entry has no such end: it lets in one after the other.
        list(rows.order_by().filter(number=1))
    last = rows.first()
    for _ in range(LOOKS if certain else 0):
        again = rows.first()
        if again is None or (last is not None and again.number == last.number):
            return again
        last = again
    return last


def _take_turn(using: str) -> None:
    """Take the lock of a database that locks as a whole, where the transaction does not begin with it.

    Only a statement that writes takes it, and once something was read without, it may not be had any more.
    """
    connection: Any = connections[using]
    if connection.vendor == "sqlite" and connection.transaction_mode not in ("IMMEDIATE", "EXCLUSIVE"):
        AuditEntry.objects.using(using).filter(pk=-1).update(number=0)


def _store(
    site: str,
    scope_key: str,
    records: Sequence[Record],
    *,
    at: datetime.datetime,
    last: AuditEntry | None,
    using: str,
) -> None:
    number, previous = (last.number, last.digest) if last is not None else (0, "")
    entries: list[AuditEntry] = []
    values: list[AuditValue] = []
    for record in records:
        number += 1
        entry, its_values = rows_of(
            record, site=site, scope_key=scope_key, number=number, previous=previous, at=at
        )
        previous = entry.digest
        entries.append(entry)
        for value in its_values:
            value.entry = entry
        values += its_values
    AuditEntry.objects.using(using).bulk_create(entries)
    if not values:
        return
    if entries[0].pk is None:  # this database does not tell the keys of several new rows
        known = AuditEntry.objects.using(using).filter(site=site, number__gte=entries[0].number)
        keys = dict(known.values_list("number", "pk"))
        for entry in entries:
            entry.pk = keys[entry.number]
    for value in values:
        value.entry_id = value.entry.pk
    AuditValue.objects.using(using).bulk_create(values)


def head(site: str) -> dict[str, Any]:
    """Return where a site's chain ends: site, number, digest and time, as JSON. Of no chain: number 0.

    Kept outside the database, it shows later that the end was cut off or the whole chain replaced.
    """
    using = router.db_for_read(AuditEntry)
    last = AuditEntry.objects.using(using).filter(site=site).order_by("-number").first()
    if last is None:
        return {"site": site, "number": 0, "digest": "", "at": ""}
    return {"site": site, "number": last.number, "digest": last.digest, "at": moment(last.at)}
