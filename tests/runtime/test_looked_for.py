"""Entities that a model looks for: the latest are told of with all their tools, and all together stay few."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from django_copilot.runtime import request
from django_copilot.runtime.request import Briefing
from tests.gate.calls import HERE


def test_the_latest_are_whole_and_the_oldest_give_way(
    store: Any, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.COPILOT = {**settings.COPILOT, "MAX_ENTITIES": 1}
    monkeypatch.setattr(request, "MOST_FOUND", 2)
    briefing = Briefing(admin.site, HERE, store.user("manager").pk, "categories", None)
    briefing.prepare(None)
    assert briefing.offered == ["category"]

    def told() -> set[str]:
        return {each.name for each in briefing.tools if each.name.startswith(("query_", "summarise_"))}

    briefing.offer(["order"])
    assert told() == {"query_category", "query_order", "summarise_order"}
    briefing.offer(["product", "category"])
    assert briefing.offered == ["category", "order", "product"]
    assert told() == {"query_category", "query_order", "query_product", "summarise_product"}
    briefing.offer(["customer"])
    assert told() == {"query_category", "query_product", "query_customer", "summarise_customer"}
    briefing.offer(["order"])
    assert told() == {"query_category", "query_customer", "query_order", "summarise_order"}
