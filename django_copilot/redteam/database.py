"""A database that the run may spoil: a new one that the project fills, or a copy of the one that is set up.

Nothing leaves it: mails, caches and files stay in memory while it is open, and write tools that call other systems
call a stand-in (``outside``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.core.management import CommandError, call_command
from django.db import connections
from django.test.utils import override_settings

SUFFIX = "redteam"

_IN_MEMORY = {
    "EMAIL_BACKEND": "django.core.mail.backends.locmem.EmailBackend",
    "CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": SUFFIX}},
}


@contextmanager
def own_database(prepare: Any = None) -> Iterator[str]:
    """Open databases of our own under the configured aliases, and say in one line what they are.

    With ``prepare``, a function without arguments, they are new, migrated and filled by it; without, they are
    copies. Removed at the end. Raises CommandError where a copy can't be made.
    """
    with ExitStack() as stack:
        stack.enter_context(override_settings(**_IN_MEMORY))
        for alias in connections:
            stack.enter_context(_new(alias) if prepare is not None else _copied(alias))
        if prepare is not None:
            prepare()
        yield (
            "a new database that the project has filled" if prepare is not None else "a copy of the database"
        )


@contextmanager
def _new(alias: str) -> Iterator[None]:
    connection = connections[alias]
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


@contextmanager
def _copied(alias: str) -> Iterator[None]:
    connection = connections[alias]
    if connection.vendor == "sqlite":
        yield from _copied_in_memory(connection)
        return
    name = connection.settings_dict["NAME"]
    connection.close()
    try:
        connection.creation.clone_test_db(suffix=SUFFIX, verbosity=0, autoclobber=True)
    except BaseException as error:
        raise CommandError(
            f"The database {alias!r} can't be copied ({error}). PostgreSQL copies one that nobody is connected to; "
            "run on a restored dump with DATABASES pointing to it, or let the project fill a new one: "
            "COPILOT['REDTEAM']."
        ) from error
    connection.settings_dict["NAME"] = connection.creation.get_test_db_clone_settings(SUFFIX)["NAME"]
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name
        connection.creation.destroy_test_db(suffix=SUFFIX, verbosity=0)


def _copied_in_memory(connection: Any) -> Iterator[None]:
    name = connection.settings_dict["NAME"]
    if connection.is_in_memory_db():
        raise CommandError(
            "A database in memory can't be copied. Let the project fill one: COPILOT['REDTEAM']."
        )
    source = sqlite3.connect(f"file:{name}?mode=ro", uri=True)
    connection.close()
    memory = f"file:copilot_{SUFFIX}_{connection.alias}?mode=memory&cache=shared"
    kept = sqlite3.connect(memory, uri=True)  # it lives as long as somebody is connected
    try:
        source.backup(kept)
        source.close()
        connection.settings_dict["NAME"] = memory
        call_command("migrate", interactive=False, verbosity=0, database=connection.alias)
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name
        kept.close()
