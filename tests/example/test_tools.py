"""The store's own tools, asked as a model asks: what they would do, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils.translation import override

from django_copilot import gate
from django_copilot.backends.base import ToolCall
from django_copilot.scope import Scope
from django_copilot.tools.base import Failed, Planned, Told
from django_copilot.tools.write import all_tools
from example_project.store import copilot_tools
from example_project.store.models import Customer, Order, Payment, Refund

HERE = Scope(site="admin", host="testserver", language="en", time_zone="Europe/Warsaw")
FIRST = "SO-0000001"

Make = Callable[..., Order]


@pytest.fixture(autouse=True)
def gateway_address(settings: Any) -> None:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"  # a preview asks nobody


@pytest.fixture
def make(people: None) -> Make:
    """Return what makes an order of region north, with payments of so many cents."""
    customer = Customer.objects.create(name="Ola Nordmann", email="ola@mail.example", city="Oslo")

    def make(*cents: int, number: str = FIRST, **fields: Any) -> Order:
        order = Order.objects.create(
            **{"number": number, "customer": customer, "region": "north", "status": "paid", **fields}
        )
        for each in cents:
            Payment.objects.create(
                order=order, amount_cents=each, gateway_reference=f"pay_{Payment.objects.count() + 1}"
            )
        return order

    return make


def call(who: str, tool: str, **arguments: Any) -> Any:
    return raw(who, tool, json.dumps(arguments))


def raw(who: str, tool: str, arguments: str) -> Any:
    user = get_user_model().objects.get(username=who)
    before = (Refund.objects.count(), list(Order.objects.values()))
    outcome = gate.run(admin.site, HERE, user.pk, ToolCall(id="1", name=tool, arguments=arguments))
    assert (Refund.objects.count(), list(Order.objects.values())) == before  # whatever comes of it
    return outcome


def refund(who: str, cents: Any, *, order: str = FIRST, **more: Any) -> Any:
    return call(who, "refund_payment", order=order, amount_cents=cents, reason="Arrived broken", **more)


def address(who: str, *, order: str = FIRST, **more: Any) -> Any:
    given = {"street": "Karl Johans gate 1", "postal_code": "0154", "city": "Oslo"} | more
    return call(who, "change_shipping_address", order=order, **given)


def planned(outcome: Any) -> dict[str, Any]:
    assert isinstance(outcome, Planned), outcome
    return dict(outcome.draft.body)


def refused(outcome: Any) -> tuple[str, str]:
    assert isinstance(outcome, Failed), outcome
    error = outcome.content["error"]
    return error["code"], error["message"]


def effects(body: dict[str, Any]) -> list[dict[str, str]]:
    return [each["values"] for each in body["effects"]]


def take_away(username: str, codename: str) -> None:
    permission = Permission.objects.get(content_type__app_label="store", codename=codename)
    for group in get_user_model().objects.get(username=username).groups.all():
        group.permissions.remove(permission)


# -- a refund ---------------------------------------------------------------------------------------------


def test_a_refund_says_all_that_would_happen(make: Make) -> None:
    order = make(15_000)
    payment = order.payments.get()
    body = planned(refund("support", 2_050))
    assert body["target"] == {"model": "store.payment", "pk": str(payment.pk)}
    assert body["arguments"]["model"] == {
        "order": f"text:{FIRST}",
        "amount_cents": "int:2050",
        "reason": "text:Arrived broken",
    }
    assert body["arguments"]["system"] == {
        "payment": f"record:store.payment:{payment.pk}",
        "currency": "text:EUR",
        "customer": f"record:store.customer:{order.customer_id}",
    }
    assert effects(body) == [
        {"amount": "decimal:20.50", "currency": "text:EUR"},
        {"left": "decimal:129.50", "currency": "text:EUR"},
    ]
    assert {each["model"] for each in body["records"]} == {"store.order", "store.payment", "store.customer"}
    assert json.loads(body["payload"]) == {
        "payment": "pay_1",
        "amount_cents": 2_050,
        "currency": "EUR",
        "reason": "Arrived broken",
    }
    assert body["changes"] == []
    assert body["reversible"] is False
    assert body["approval"]["needed"] is False


@pytest.mark.parametrize(("cents", "needed"), [(10_000, False), (10_001, True)])
def test_above_a_hundred_euro_a_second_person_is_needed(make: Make, cents: int, needed: bool) -> None:
    make(15_000)
    assert planned(refund("support", cents))["approval"]["needed"] is needed


def test_pending_and_past_refunds_are_spent_and_failed_ones_are_not(make: Make) -> None:
    payment = make(15_000).payments.get()
    for state, cents in [("succeeded", 4_000), ("pending", 3_000), ("failed", 8_000)]:
        Refund.objects.create(payment=payment, amount_cents=cents, state=state, idempotency_key=state)
    assert effects(planned(refund("support", 8_000)))[1]["left"] == "decimal:0.00"
    code, message = refused(refund("support", 8_001))
    assert code == "refused"
    assert "at most 80.00 EUR" in message


def test_what_another_refund_left_is_part_of_what_is_confirmed(make: Make) -> None:
    payment = make(15_000).payments.get()
    before = planned(refund("support", 1_000))
    Refund.objects.create(payment=payment, amount_cents=1, idempotency_key="k")
    assert planned(refund("support", 1_000))["effects"] != before["effects"]


def test_of_several_payments_the_one_with_enough_left_is_taken(make: Make) -> None:
    order = make(2_000, 9_000, 6_000)
    Refund.objects.create(
        payment=order.payments.get(amount_cents=9_000), amount_cents=4_500, idempotency_key="k"
    )
    target = order.payments.get(amount_cents=6_000)
    assert planned(refund("support", 5_000))["target"]["pk"] == str(target.pk)
    assert "at most 60.00 EUR" in refused(refund("support", 6_001))[1]  # not from two payments at once


def test_payments_of_other_orders_do_not_count(make: Make) -> None:
    make(1_000)
    make(15_000, number="SO-0000002")
    assert "at most 10.00 EUR" in refused(refund("support", 1_001))[1]


@pytest.mark.parametrize("cents", [0, -5, "100", 1.5, True, 10**400, None])
def test_an_amount_is_a_whole_number_above_zero(make: Make, cents: Any) -> None:
    make(15_000)
    code, _message = refused(refund("support", cents))
    assert code in ("invalid_argument", "clarification_required")


def test_a_number_beyond_all_numbers_is_refused(make: Make) -> None:
    make(15_000)
    for cents in ("1e400", "NaN", "1e3"):
        arguments = f'{{"order": "{FIRST}", "amount_cents": {cents}, "reason": "x"}}'
        code, _message = refused(raw("support", "refund_payment", arguments))
        assert code in ("invalid_arguments", "invalid_argument")


@pytest.mark.parametrize(
    "more",
    [
        {"payment": 1},
        {"currency": "USD"},
        {"customer": 1},
        {"confirm": True},
        {"confirmed_by": "admin"},
        {"approved": True},
        {"idempotency_key": "k"},
    ],
)
def test_the_systems_arguments_are_not_the_models(make: Make, more: dict[str, Any]) -> None:
    make(15_000)
    assert refused(refund("support", 100, **more))[0] == "unknown_argument"
    assert not set(more) & set(all_tools()["refund_payment"].schema["properties"])


def test_orders_that_are_not_hers_are_refused_with_one_text(make: Make) -> None:
    vip = Customer.objects.create(name="Vera Important", email="v@mail.example", vip=True)
    make(15_000, number="SO-0000002", region="south")
    make(15_000, number="SO-0000003", customer=vip)
    for who in ("support", "bot"):
        told = {refused(refund(who, 100, order=f"SO-000000{each}")) for each in (2, 3, 4)}
        assert len(told) == 1
        assert told.pop()[0] == "not_found"
    for number in (2, 3):
        planned(refund("manager", 100, order=f"SO-000000{number}"))


def test_without_the_right_to_propose_there_is_no_such_tool(make: Make) -> None:
    make(15_000)
    take_away("support", "propose_refund")
    assert refused(refund("support", 100))[0] == "unknown_tool"
    assert refused(refund("viewer", 100))[0] == "unknown_tool"


def test_who_may_not_view_payments_or_customers_refunds_nothing(make: Make) -> None:
    make(15_000)
    planned(refund("support", 100))
    take_away("support", "change_customer")
    take_away("support", "view_customer")
    assert refused(refund("support", 100))[0] == "not_found"


def test_a_payment_that_did_not_come_through_the_gateway_stays(make: Make) -> None:
    make(15_000)
    Payment.objects.update(gateway_reference="")
    assert "no payment that came through the payment gateway" in refused(refund("support", 100))[1]
    make(number="SO-0000002")
    assert "no payment that came through" in refused(refund("support", 100, order="SO-0000002"))[1]


def test_a_store_without_a_gateway_says_which_setting_it_lacks(make: Make, settings: Any) -> None:
    settings.STORE_GATEWAY_URL = ""
    make(15_000)
    assert "STORE_GATEWAY_URL" in refused(refund("support", 100))[1]


def test_settling_keeps_what_went_back_as_spent(make: Make) -> None:
    from types import SimpleNamespace

    payment = make(15_000).payments.get()
    made = Refund.objects.create(payment=payment, amount_cents=1, idempotency_key="k")
    other = Refund.objects.create(payment=payment, amount_cents=1, idempotency_key="other")
    settle, grant = copilot_tools.settle, SimpleNamespace(key="k")

    def state() -> tuple[str, str]:
        made.refresh_from_db()
        return made.state, made.gateway_reference

    settle(grant, False, None)
    assert state() == ("failed", "")
    settle(grant, False, None)
    assert state() == ("failed", "")
    settle(grant, True, {"gateway_reference": "ref_1"})  # it was paid after all
    assert state() == ("succeeded", "ref_1")
    settle(grant, True, None)
    assert state() == ("succeeded", "ref_1")
    settle(grant, False, None)
    assert state() == ("succeeded", "ref_1")
    other.refresh_from_db()
    assert other.state == "pending"


# -- an address -------------------------------------------------------------------------------------------


def test_an_address_shows_old_and_new(make: Make) -> None:
    order = make(shipping_street="Old street 2", shipping_postal_code="0001", shipping_city="Bergen")
    body = planned(address("support"))
    assert body["target"] == {"model": "store.order", "pk": str(order.pk)}
    assert [(each["field"], each["old"], each["new"]) for each in body["changes"]] == [
        ("shipping_street", "text:Old street 2", "text:Karl Johans gate 1"),
        ("shipping_postal_code", "text:0001", "text:0154"),
        ("shipping_city", "text:Bergen", "text:Oslo"),
    ]
    assert body["reversible"] is True
    assert body["approval"]["needed"] is False


def test_an_order_that_has_shipped_keeps_its_address(make: Make) -> None:
    make(status="shipped")
    for who in ("support", "manager", "admin"):
        assert "has shipped" in refused(address(who))[1]


def test_an_address_needs_the_right_to_change_orders(make: Make) -> None:
    make()
    make(number="SO-0000002", region="south")
    assert refused(address("support", order="SO-0000002"))[0] == "not_found"
    assert refused(address("viewer"))[0] == "unknown_tool"
    take_away("support", "change_order")
    assert refused(address("support"))[0] == "unknown_tool"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"street": ""}, "clarification_required"),
        ({"street": "x" * 121}, "invalid_argument"),
        ({"postal_code": "1" * 21}, "invalid_argument"),
        ({"city": 5}, "invalid_argument"),
        ({"country": "Norway"}, "unknown_argument"),
    ],
)
def test_an_address_is_whole_and_fits(make: Make, more: dict[str, Any], code: str) -> None:
    make()
    assert refused(address("support", **more))[0] == code


# -- a message --------------------------------------------------------------------------------------------


def draft(who: str, topic: str = "it will be late", order: str = FIRST) -> Any:
    return call(who, "draft_customer_message", order=order, topic=topic)


def text_of(outcome: Any) -> str:
    assert isinstance(outcome, Told), outcome
    return str(outcome.content["result"])


def test_a_message_is_drafted_and_not_sent(make: Make, mailoutbox: list[Any]) -> None:
    order = make()
    text = text_of(draft("support", topic="it will be late."))
    assert text.startswith("Dear Ola Nordmann,\n")
    assert f"order {order.number} of " in text
    assert ": it will be late.\n" in text
    assert mailoutbox == []


def test_the_customer_is_named_only_to_who_may_see_her(make: Make) -> None:
    make()
    take_away("support", "change_customer")
    take_away("support", "view_customer")
    text = text_of(draft("support"))
    assert text.startswith("Dear customer,")
    assert "Nordmann" not in text


def test_a_message_about_an_order_that_is_not_hers_is_refused(make: Make) -> None:
    make(region="south")
    assert refused(draft("support")) == refused(draft("support", order="SO-0000009"))
    assert refused(draft("viewer"))[0] == "unknown_tool"
    text_of(draft("manager"))


# -- as declared ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["pl", "ru"])
def test_what_people_read_of_the_tools_is_translated(language: str) -> None:
    tools = [copilot_tools.draft_customer_message, copilot_tools.change_shipping_address]
    for tool in [*tools, copilot_tools.refund_payment]:
        with override("en"):
            english = str(tool.title)
        with override(language):
            assert str(tool.title) != english


def test_each_tool_is_declared_as_what_it_is() -> None:
    declared = {
        name: (str(tool.category), tool.model, tool.permissions, tool.verb, tool.reversible)
        for name, tool in all_tools().items()
        if tool.where.startswith("example_project.")
    }
    assert declared == {
        "draft_customer_message": ("read_only", Order, ("store.view_order",), "view", False),
        "change_shipping_address": ("mutating", Order, ("store.change_order",), "change", True),
        "refund_payment": ("destructive", Payment, ("store.propose_refund",), "view", False),
    }
    assert all(tool.problems == () for tool in all_tools().values())
    assert {
        name: sorted(tool.schema["required"]) for name, tool in all_tools().items() if name in declared
    } == {
        "draft_customer_message": ["order", "topic"],
        "change_shipping_address": ["city", "order", "postal_code", "street"],
        "refund_payment": ["amount_cents", "order", "reason"],
    }
