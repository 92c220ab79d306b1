"""The example store at a fixed day, with what its data has none of: products of no category, a change."""

from __future__ import annotations

from typing import Any

import pytest

from django_copilot import prompt
from django_copilot.reading import conditions
from example_project.store.models import Order, Product

from .clock import Standing


@pytest.fixture
def day(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the store on the day of the questions."""
    for module in (conditions, prompt):
        monkeypatch.setattr(module, "timezone", Standing())
    Product.objects.filter(pk__in=[9, 29]).update(category=None)
    order = Order.objects.get(pk=12)
    for city, who in (("Ełk", "manager"), ("Gdynia", "support"), ("Łeba", "admin")):
        order.shipping_city = city
        order._history_user = store.user(who)
        order.save()
    return store
