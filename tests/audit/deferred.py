"""Eight threads that append to an SQLite file whose transactions begin without a lock; run by a test."""

from __future__ import annotations

import sys

from django.conf import settings


def main(database: str, mode: str) -> None:
    """Migrate the file, append, and fail unless the chains are whole."""
    settings.DATABASES["default"] |= {
        "NAME": database,
        "OPTIONS": {"timeout": 60, "init_command": f"PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF"},
    }
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from .test_at_once import append_rounds, at_once, check_all_there

    call_command("migrate", "django_copilot", verbosity=0)
    assert connection.transaction_mode is None
    errors = at_once(append_rounds)
    assert errors == [], errors
    check_all_there()
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
