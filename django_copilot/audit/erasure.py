"""Erasing values of one person, or of one record, so that the chain still verifies.

What goes is the value and its salt; without the salt nobody can guess the value from what is left. An entry
says which values were erased, and nothing else makes their absence right.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.db import models, router, transaction
from django.utils import timezone

from ..models import AuditEntry, AuditValue
from .chain import append_at, lock_end
from .records import Record

EVENT = "erased"
BATCH = 500  # values that one entry tells of


def values_of(
    *, person: str = "", label: str = "", object_pk: str = "", site: str = ""
) -> models.QuerySet[AuditValue]:
    """Return the values not erased yet of one person, or of one record, on one site or on all.

    Raises ValueError unless exactly one of the two is named.
    """
    if bool(person) == bool(label and object_pk) or bool(label) != bool(object_pk):
        raise ValueError("Name a person, or a record by label and object_pk.")
    rows = AuditValue.objects.using(router.db_for_write(AuditValue)).filter(erased_at=None)
    # A long key is kept cut off; what is erased for another one is too much and never too little.
    longest = AuditValue._meta.get_field("object_pk").max_length
    of = {"person": person} if person else {"model": label.lower(), "object_pk": object_pk[:longest]}
    rows = rows.filter(**of)
    return rows.filter(entry__site=site) if site else rows


def erase(*, person: str = "", label: str = "", object_pk: str = "", site: str = "", by: str = "") -> int:
    """Erase the values of a person (by her key), or of a record, and return how many those were.

    ``site`` is the name of an AdminSite, "" for all; ``by`` is the key of who erases. Each batch and the
    entry that tells of it are one transaction. Raises ValueError unless one of the two is named.
    """
    rows = values_of(person=person, label=label, object_pk=object_pk, site=site)
    about = {"person": person} if person else {"model": label.lower()}
    erased = 0
    while (batch := _erase_batch(rows, about, by)) is not None:
        erased += batch
    return erased


def _erase_batch(rows: models.QuerySet[AuditValue], about: dict[str, Any], by: str) -> int | None:
    """Erase the values of one site and scope, at most so many, and append the entry. None: there are none."""
    using = rows.db
    first = rows.order_by("entry_id", "name").select_related("entry").first()
    if first is None:
        return None
    site, scope_key = first.entry.site, first.entry.scope_key
    with transaction.atomic(using=using):
        # First the end of the chain, as everybody who appends does, so that two can't wait for each other.
        lock_end(site, using=using, certain=True)
        chosen = list(
            rows.filter(entry__site=site, entry__scope_key=scope_key)
            .order_by("entry_id", "name")
            .values_list("pk", "entry__number", "name")[:BATCH]
        )
        if not chosen:
            return 0  # somebody else was faster
        at = timezone.now()
        erased = AuditValue.objects.using(using).filter(pk__in=[pk for pk, _, _ in chosen], erased_at=None)
        if erased.update(value=None, salt="", erased_at=at) != len(chosen):
            raise RuntimeError("Somebody else erased some of these values. Nothing was done here; try again.")
        names: dict[str, list[str]] = defaultdict(list)
        for _pk, number, name in chosen:
            names[str(number)].append(name)
        record = Record(event=EVENT, actor=by, about={**about, "values": names, "count": len(chosen)})
        append_at(site, scope_key, [record], at=at)
    return len(chosen)


def erased_in(entry: AuditEntry) -> list[tuple[int, str]]:
    """Return the values that an entry says were erased, by the number of their entry and their name."""
    told = entry.about.get("values") if isinstance(entry.about, dict) else None
    if entry.event != EVENT or not isinstance(told, dict):
        return []
    return [
        (int(number), str(name))
        for number, names in told.items()
        if number.isdecimal() and isinstance(names, list)
        for name in names
    ]
