"""The switch that turns the assistant off for a whole site, from the next request or step on, on every worker."""

from __future__ import annotations

from typing import Any

from django.db import router, transaction
from django.db.models import Exists

from . import audit
from .models import AuditEntry, Switch
from .people import person_key
from .values import clean_text

REASON_LENGTH = 200  # characters, as long as the column


def is_off(site_name: str) -> bool:
    """Tell whether the assistant is turned off on a site, asked of the database each time."""
    return Switch.objects.filter(site=site_name, is_off=True).exists()


def off_annotation(site_name: str) -> Exists:
    """Return an expression that tells the same along with another query."""
    return Exists(Switch.objects.filter(site=site_name, is_off=True))


def state_of(site_name: str) -> Switch:
    """Return a site's switch; one that nobody ever touched is on, and not stored."""
    return Switch.objects.filter(site=site_name).first() or Switch(site=site_name)


def turn(site_name: str, *, off: bool, by: Any | None, reason: str = "") -> None:
    """Turn the assistant off or on and tell the audit, both or neither.

    ``by`` is an account, None stands for the command line; ``reason`` is cut to 200 characters. Raises
    whatever keeps the audit from being written.
    """
    reason = clean_text(reason.strip())[:REASON_LENGTH]
    actor = person_key(by)
    told = audit.Record(
        event="switched",
        code="off" if off else "on",
        actor=actor,
        about={"reason_given": bool(reason)},
        values=(audit.Value(name="reason", value=reason, person=actor),),
    )
    with (
        transaction.atomic(using=router.db_for_write(Switch)),
        transaction.atomic(using=router.db_for_write(AuditEntry)),
    ):
        Switch.objects.update_or_create(
            site=site_name, defaults={"is_off": off, "changed_by": actor, "reason": reason}
        )
        audit.append(site_name, "", told)
