"""Guards of the gate and of what it stands on, each alone: where another one holds the same rule, it is out of the way."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, transaction

from example_project.store.models import Order, Product

from .calls import judge
from .conftest import Orders


def test_what_a_failing_hook_does_to_a_transaction_is_taken_back_with_the_call(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block without a savepoint of its own that fails leaves the surrounding one unusable, on every database."""

    def broken(self: Any, request: Any) -> Any:
        with transaction.atomic(savepoint=False):
            raise LookupError("zqx")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), "get_queryset", broken)
    assert judge("admin", "query_order") == "not_found"
    assert not connection.needs_rollback
    assert Product.objects.count() == 40
