"""What a person is told of what left for the model: with the answer, and when she comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from django_copilot.models import Message, Turn
from django_copilot.testing import Call, Text, ask, script
from example_project.store.admin import CustomerAdmin
from example_project.store.models import Customer, Order
from tests.kept_store import Store

Login = Callable[[str], Client]


def asked(client: Client, *calls: Call) -> tuple[dict[str, Any], Any]:
    """Let the model make these calls; return the answer and what the model was asked with."""
    with script(*calls, Text("There.")) as model:
        return ask(client, "Show me"), model


def opened(client: Client, ident: str) -> list[dict[str, Any]]:
    answer = client.get(
        f"/admin/django_copilot/conversation/{ident}/", headers={"accept": "application/json"}
    )
    messages: list[dict[str, Any]] = answer.json()["messages"]
    return messages


def test_an_answer_says_how_many_rows_and_which_fields_were_sent(login: Login) -> None:
    client = login("manager")
    fields = ["number", "status", "region", "placed_at", "shipping_city"]
    answer, _model = asked(client, Call("query_order", {"fields": fields, "limit": 8}))
    assert answer["sent"] == {
        "text": "8 rows × 5 fields were sent",
        "reads": [
            {
                "label": "Orders",
                "rows": 8,
                "fields": ["Number", "Status", "Region", "Placed at", "Shipping city"],
            }
        ],
    }
    assert opened(client, answer["conversationId"])[-1]["sent"] == answer["sent"]
    page = client.get(f"/admin/django_copilot/conversation/{answer['conversationId']}/")
    assert "8 rows × 5 fields were sent" in page.content.decode()
    assert "Orders, rows: 8. Number, Status, Region, Placed at, Shipping city" in page.content.decode()


def test_what_is_only_shown_is_not_among_what_was_sent(login: Login) -> None:
    client = login("manager")
    answer, model = asked(client, Call("query_customer", {"fields": ["name", "email"], "limit": 1}))
    (table,) = answer["results"]
    assert [(each["name"], each.get("sent", True)) for each in table["columns"]] == [
        ("name", True),
        ("email", False),
    ]
    assert answer["sent"]["reads"] == [{"label": "Customers", "rows": 1, "fields": ["Name"]}]
    email = table["rows"][0]["values"]["email"]
    assert email in Customer.objects.values_list("email", flat=True)
    assert email not in model.requests[1].messages[-1].text
    page = client.get(f"/admin/django_copilot/conversation/{answer['conversationId']}/").content.decode()
    assert page.count('<small class="copilot-unsent">not sent to the model</small>') == 1


def test_what_is_said_to_be_sent_is_what_the_result_held(login: Login) -> None:
    """A result that was cut tells of the rows that were left in it."""
    client = login("manager")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CustomerAdmin, "harness_show", ["email", "phone"])
        answer, model = asked(client, Call("query_order", {"limit": 50}), Call("query_customer", {}))
    results = [json.loads(each.messages[-1].text) for each in model.requests[1:]]
    for told, result in zip(answer["sent"]["reads"], results, strict=True):
        assert told["rows"] == len(result["rows"])
        named = {
            name
            for row in result["rows"]
            for name, value in row.items()
            if name != "id" and "‹" not in str(value)
        }
        assert len(told["fields"]) == len(named)
    assert " rows × 7 fields, " in answer["sent"]["text"]


def test_counts_and_sums_are_rows_too(login: Login) -> None:
    client = login("manager")
    answer, _model = asked(
        client,
        Call("count_order", {}),
        Call("summarise_order", {"measures": [{"op": "count"}], "by": ["status"]}),
    )
    count, summary = answer["sent"]["reads"]
    assert count == {"label": "Orders", "rows": 1, "fields": ["Number"]}
    assert summary["fields"] == ["Status", "Number"]
    assert summary["rows"] == Order.objects.values("status").distinct().count()
    assert opened(client, answer["conversationId"])[-1]["sent"] == answer["sent"]


def test_an_answer_for_which_nothing_was_read_says_nothing(login: Login) -> None:
    client = login("manager")
    answer, _model = asked(client)
    assert "sent" not in answer
    assert all("sent" not in each for each in opened(client, answer["conversationId"]))


def test_no_value_is_kept_with_it(login: Login) -> None:
    client = login("manager")
    asked(client, Call("query_customer", {"fields": ["name", "email"], "limit": 1}))
    (read,) = Message.objects.get(role="assistant").reads
    assert read["sent"] == {"fields": ["name"], "rows": 1}
    assert Turn.objects.get().sent["rows"] == 1


def test_it_goes_with_the_answer_when_rights_are_gone(login: Login, store: Store) -> None:
    client = login("support")
    answer, _model = asked(client, Call("query_customer", {"fields": ["name"], "limit": 1}))
    user = store.user("support")
    gone = Permission.objects.get(codename="view_customer")
    for group in user.groups.all():
        group.permissions.remove(gone, Permission.objects.get(codename="change_customer"))
    last = opened(client, answer["conversationId"])[-1]
    assert last["withheld"]
    assert "sent" not in last
