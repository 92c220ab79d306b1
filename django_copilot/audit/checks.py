"""System checks of the audit's keys; docs/checks.md explains each id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings as django_settings
from django.core import checks

from ..conf import get_settings
from ..exceptions import ConfigurationError
from ..models import AuditEntry

SHORTEST = 32  # characters of a key


def check_audit(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check the keys that sign the audit. No message repeats any of them."""
    try:
        keys = get_settings().AUDIT_KEYS
    except ConfigurationError:
        return []  # copilot.E001
    if not isinstance(keys, Mapping):
        return []  # copilot.E004
    if not keys:
        return [
            checks.Warning(
                "The audit has no key: who can write to the database can write a chain that verifies.",
                hint=(
                    "Give one in COPILOT['AUDIT_KEYS'], kept outside the database, before the first entry: "
                    'python -c "import secrets; print(secrets.token_urlsafe(48))".'
                ),
                id="copilot.W042",
            )
        ]
    return [
        checks.Error(f"COPILOT['AUDIT_KEYS']: {problem}.", id="copilot.E042") for problem in _problems(keys)
    ]


def _problems(keys: Mapping[Any, Any]) -> Iterator[str]:
    longest = AuditEntry._meta.get_field("key_version").max_length or 0
    fallbacks = getattr(django_settings, "SECRET_KEY_FALLBACKS", [])
    for version, key in keys.items():
        if not isinstance(version, str) or not 0 < len(version) <= longest or not version.isprintable():
            yield f"a version must be text of 1 to {longest} characters, not {version!r}"
        elif not isinstance(key, str) or len(key) < SHORTEST:
            yield f"the key of version {version!r} must be text of at least {SHORTEST} characters"
        elif key == getattr(django_settings, "SECRET_KEY", "") or key in fallbacks:
            yield f"the key of version {version!r} must not be SECRET_KEY"
    texts = [each for each in keys.values() if isinstance(each, str)]
    if len(set(texts)) < len(texts):
        yield "two versions have the same key"
