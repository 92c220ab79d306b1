"""What is hashed, and how: the canonical text of a row, commitments to values, and the digest of an entry.

The canonical text is the same for what was written and for what any of the databases gives back: one of
them keeps 1e+16 as 10000000000000000, another forgets the sign of -0.0 or the order of keys.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import hmac
import json
from typing import Any

from django.utils import timezone

from ..conf import get_settings
from ..models import AuditEntry, AuditValue

FORMAT = 1  # counted up when the canonical text of a row changes
SEALED = (  # every column but the row's own key, the digest, and the time, which is written as text
    "site",
    "number",
    "event",
    "code",
    "actor",
    "real_actor",
    "scope_key",
    "conversation",
    "turn",
    "plan",
    "tool",
    "about",
    "commitments",
    "key_version",
    "previous",
)
ORIGIN = ("name", "person", "model", "object_pk", "field")


def canonical(value: Any) -> str:
    """Return the one text of a JSON value: sorted keys, no blanks, ASCII, numbers by what they amount to."""
    match value:
        case None | bool() | str():
            return json.dumps(value)
        case int():
            return _number(decimal.Decimal(value))
        case float():
            return _number(decimal.Decimal(repr(value)))
        case list() | tuple():
            return f"[{','.join(map(canonical, value))}]"
        case dict():
            pairs = (f"{json.dumps(name)}:{canonical(value[name])}" for name in sorted(value))
            return f"{{{','.join(pairs)}}}"
    raise TypeError(f"{type(value).__name__} is no JSON.")


def _number(value: decimal.Decimal) -> str:
    if not value.is_finite():
        raise ValueError("JSON has no such number.")
    _sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).lstrip("0")
    short = figures.rstrip("0")
    exponent += len(figures) - len(short)
    if not short:
        return "0"
    return f"{'-' if value < 0 else ''}{short}e{exponent}"


def moment(at: datetime.datetime) -> str:
    """Return the text of a point in time, in UTC with microseconds.

    Without ``USE_TZ`` it is the local time as it is: a database gives no more of it back.
    """
    if timezone.is_naive(at):
        return at.isoformat(timespec="microseconds")
    return at.astimezone(datetime.UTC).isoformat(timespec="microseconds")


def commitment(value: AuditValue) -> dict[str, str]:
    """Return what an entry keeps of a value: a salted hash of it, and a hash of whose and what it is.

    The second one outlives the value, so that an erased row can't be given to somebody else.
    """
    origin = canonical([FORMAT, *(getattr(value, name) for name in ORIGIN)])
    told = canonical([FORMAT, value.salt, value.name, value.value])
    return {
        "value": hashlib.sha256(told.encode()).hexdigest(),
        "origin": hashlib.sha256(origin.encode()).hexdigest(),
    }


def sealed_text(entry: AuditEntry) -> bytes:
    """Return what the digest covers: every column but the row's own key and the digest."""
    columns = {name: getattr(entry, name) for name in SEALED} | {"at": moment(entry.at)}
    return canonical([FORMAT, columns]).encode()


def digest_of(entry: AuditEntry) -> str | None:
    """Return the digest that an entry should have, or None when settings have no key of its version."""
    text = sealed_text(entry)
    if not entry.key_version:
        return hashlib.sha256(text).hexdigest()
    key = get_settings().AUDIT_KEYS.get(entry.key_version)
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest() if key else None


def seal(entry: AuditEntry) -> None:
    """Give an entry its digest, with the last of the keys in settings; without any, a plain hash."""
    keys = get_settings().AUDIT_KEYS
    entry.key_version = list(keys)[-1] if keys else ""
    digest = digest_of(entry)
    if not digest:
        raise ValueError(f"COPILOT['AUDIT_KEYS'][{entry.key_version!r}] is empty.")
    entry.digest = digest
