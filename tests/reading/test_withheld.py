"""An answer that told of rows of an inline, or of a computed column, is hidden when they are not hers to see any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client

from django_copilot.admin import HarnessMixin
from django_copilot.models import Conversation, Message
from django_copilot.testing import Call, Text, ask, copilot_client, script
from example_project.store.models import Order, OrderLine
from tests.gate.calls import run

Bend = Callable[..., None]
JSON = {"Accept": "application/json"}


def answer(client: Client) -> dict[str, Any]:
    """Return the last answer as its owner may see it now."""
    conversation = Conversation.objects.get()
    address = f"/admin/django_copilot/conversation/{conversation.pk}/"
    shown: dict[str, Any] = client.get(address, headers=JSON).json()["messages"][-1]
    return shown


def say(client: Client, *steps: Any) -> None:
    with script(*steps, Text("Told.")):
        ask(client, "Tell me.")


def test_rows_of_an_inline(store: Any) -> None:
    client = copilot_client(store.user("support"))
    order = Order.objects.filter(region="north", customer__vip=False).first()
    say(client, Call("query_order", {"fields": ["number", "lines"], "filters": {"id": str(order.pk)}}))
    assert answer(client)["withheld"] is False
    assert answer(client)["results"][0]["columns"][-1]["type"] == "rows"
    group = store.user("support").groups.get()
    group.permissions.remove(*Permission.objects.filter(codename__endswith="_orderline"))
    assert answer(client)["withheld"] is True
    assert "Told." not in str(answer(client))


def test_a_computed_column(store: Any, bend: Bend) -> None:
    listed = {"list_display": ["number", "total"], "total": lambda self, obj: "7"}
    bend(Order, harness_computed=["total"], **listed)
    client = copilot_client(store.user("support"))
    say(client, Call("query_order", {"fields": ["total"]}))
    assert answer(client)["withheld"] is False
    bend(Order, list_display=["number"])
    assert answer(client)["withheld"] is True


def test_a_filter_by_a_handle(store: Any) -> None:
    client = copilot_client(store.user("support"))
    say(
        client,
        Call("query_customer", {"limit": 1}),
        Call("query_customer", {"filters": {"email": "‹email r1.1›"}}),
    )
    assert Message.objects.order_by("created_at").last().mentions
    assert answer(client)["withheld"] is False


def test_the_past_of_a_record(store: Any, bend: Bend) -> None:
    client = copilot_client(store.user("manager"))
    say(client, Call("history_order", {"id": str(Order.objects.first().pk)}))
    assert answer(client)["withheld"] is False
    bend(Order, has_view_history_permission=lambda self, request, obj=None: False)
    bend(Order, has_change_history_permission=lambda self, request, obj=None: False)
    assert answer(client)["withheld"] is True


def test_an_inline_tells_nothing_that_its_own_entity_keeps(store: Any, bend: Bend) -> None:
    """Also where a hook of that entity says so, and where it fails."""
    order = Order.objects.filter(region="north", customer__vip=False).first()
    asked = {"fields": ["lines"], "filters": {"id": str(order.pk)}}

    answers: list[Any] = []

    class Lines(HarnessMixin, admin.ModelAdmin):
        harness_list = ("quantity",)

        def get_harness_show(self, request: Any, obj: Any = None) -> Any:
            return answers[-1]()

    admin.site.register(OrderLine, Lines)
    try:
        for says, told in ((lambda: (), True), (lambda: ("unit_price",), False), (lambda: 1 / 0, False)):
            answers.append(says)
            rows = run("manager", "query_order", asked).content["rows"][0].get("lines", [])
            assert any("unit_price" in row for row in rows) is told
    finally:
        admin.site.unregister(OrderLine)
