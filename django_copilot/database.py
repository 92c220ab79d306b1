"""What this package asks of a database besides rows: to hold one for us, not to take too long, to let go of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from time import monotonic
from typing import Any

from django.db import DatabaseError, connections, models, router, transaction

from .conf import get_settings
from .exceptions import Refused


def lock_rows(rows: models.QuerySet[Any]) -> list[Any]:
    """Return rows locked for the running transaction, in the order of their keys, so that two can't cross.

    Where a database can't lock rows, a statement that writes takes the lock of the whole database first.
    """
    using = router.db_for_write(rows.model)
    rows = rows.using(using).select_related(None).order_by("pk")
    features = connections[using].features
    if features.has_select_for_update:
        return list(rows.select_for_update(no_key=features.has_select_for_no_key_update))
    pk = rows.model._meta.pk.attname
    rows.order_by().update(**{pk: models.F(pk)})
    return list(rows)


@contextmanager
def atomic_for(*kinds: type[models.Model]) -> Iterator[None]:
    """Open a transaction in the database of each of these models; that of the first commits last."""
    with ExitStack() as stack:
        for alias in dict.fromkeys(router.db_for_write(kind) for kind in kinds):
            stack.enter_context(transaction.atomic(using=alias))
        yield


def release_connections() -> None:
    """Give back every database connection that no surrounding block holds."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block and connection.get_autocommit():
            connection.close()


@contextmanager
def contained() -> Iterator[None]:
    """Put a savepoint around a project's code where a transaction is open, so that no error of its can break that."""
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block:
                stack.enter_context(transaction.atomic(using=connection.alias))
        yield


@contextmanager
def limited(rows: models.QuerySet[Any]) -> Iterator[None]:
    """Let no statement on the rows' database run longer than READ_SECONDS. Raises Refused for one that does.

    A search or a sum may have to look at a whole table, however big it is.
    """
    connection = connections[rows.db]
    seconds = get_settings().READ_SECONDS
    began = monotonic()
    try:
        with _LIMITS.get(connection.vendor, _unlimited)(connection, seconds):
            yield
    except DatabaseError as error:
        if monotonic() - began < seconds * 0.9:
            raise
        raise Refused(
            f"The database took longer than {seconds:g} seconds, so this was given up. Narrow it down with filters.",
            code="too_slow",
        ) from error


@contextmanager
def _unlimited(connection: Any, seconds: float) -> Iterator[None]:
    yield


@contextmanager
def _limited_postgresql(connection: Any, seconds: float) -> Iterator[None]:
    """In a transaction of its own, or a savepoint, so that the error of a statement that is ended breaks nothing."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        set_to = "SELECT current_setting('statement_timeout'), set_config('statement_timeout', %s, true)"
        cursor.execute(set_to, [str(max(1, int(seconds * 1000)))])
        before = cursor.fetchone()[0]
        yield
        cursor.execute(set_to, [before])


@contextmanager
def _limited_mysql(connection: Any, seconds: float) -> Iterator[None]:
    maria = connection.mysql_is_mariadb
    variable, most = ("max_statement_time", seconds) if maria else ("max_execution_time", int(seconds * 1000))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT @@{variable}")
        before = cursor.fetchone()[0]
        cursor.execute(f"SET SESSION {variable} = %s", [most])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {variable} = %s", [before])


@contextmanager
def _limited_sqlite(connection: Any, seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    until = monotonic() + seconds
    connection.connection.set_progress_handler(lambda: monotonic() > until, 10_000)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 0)


_LIMITS: dict[str, Callable[[Any, float], AbstractContextManager[None]]] = {
    "postgresql": _limited_postgresql,
    "mysql": _limited_mysql,
    "sqlite": _limited_sqlite,
}
