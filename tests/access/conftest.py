"""Entities of the example store as one person has them, and ways to bend an admin for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model

from django_copilot.access import Access, EntityAccess
from django_copilot.reading import Query, Rows, run_query
from django_copilot.scope import Scope, enter_scope
from tests.gate.calls import HERE


@pytest.fixture
def entity(store: Any) -> Iterator[Callable[..., EntityAccess]]:
    """Return a function that gives an entity for an account, on a request that stays entered."""
    with ExitStack() as stack:

        def entity(who: str, name: str, *, scope: Scope = HERE) -> EntityAccess:
            pk = get_user_model().objects.get(username=who).pk
            request = stack.enter_context(enter_scope(scope, pk))
            found = Access(admin.site, request).entity(name)
            assert found is not None
            return found

        yield entity


def read(entity: EntityAccess, *fields: str, limit: int = 20, **filters: Any) -> Rows:
    """Run a query."""
    query = Query(entity=entity.entity.label, fields=fields, filters=filters, limit=limit)
    return run_query(entity, query)


def pks(rows: Rows) -> list[Any]:
    """Return the keys of the rows, in their order."""
    return [row.record.pk for row in rows.rows]


@pytest.fixture
def bend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces attributes of a model's admin class."""

    def bend(model: Any, **attributes: Any) -> None:
        model_admin = admin.site.get_model_admin(model)
        for name, value in attributes.items():
            monkeypatch.setattr(type(model_admin), name, value, raising=False)

    return bend
