"""What this package asks of a database besides rows: to hold one for us, and to let go of a connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import connections, models, router, transaction


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
