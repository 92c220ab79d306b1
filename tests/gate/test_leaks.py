"""Nothing hidden in anything that may reach a model, and no right that outlives its revocation."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.test import Client

from django_copilot import gate
from django_copilot.backends.base import ToolCall
from django_copilot.exceptions import ScopeUnavailable
from django_copilot.models import Message
from django_copilot.testing import Call, Calls, Text, ask, assert_not_sent, script, sent_text
from django_copilot.tools.base import Proposed, ReadDone
from example_project.store.models import (
    Category,
    Customer,
    Order,
    OrderLine,
    Payment,
    Product,
    Refund,
    StaffProfile,
    Supplier,
)

from .calls import ENTITIES, HERE, judge, run, sent
from .conftest import MISSING, Orders

SECRET = "zqxcanary"
SHOWN = "xshowncanary"  # for the person's eyes, and not for the model's


@pytest.fixture
def canaries(orders: Orders) -> Orders:
    """Put a word into everything that the model may not get for support, and a number into the prices."""
    Customer.objects.update(
        api_token=SECRET, internal_note=SECRET, phone=SHOWN, street=SECRET, postal_code=SECRET
    )
    Product.objects.update(cost_price="76543.21", attributes={"a": SECRET}, photo=f"{SECRET}.png")
    Supplier.objects.update(name=SECRET, contact_email=f"{SECRET}@x.example")
    Refund.objects.update(reason=SECRET)
    Payment.objects.update(gateway_reference=SECRET)
    Order.objects.update(shipping_name=SECRET, shipping_street=SECRET, shipping_postal_code=SECRET)
    hidden = Order.objects.exclude(region="north", customer__vip=False)
    hidden.update(shipping_city=SECRET, shipping_country=SECRET)
    for order in hidden:
        Order.objects.filter(pk=order.pk).update(number=f"zq{order.pk}"[:10])
    Payment.objects.filter(order__in=hidden).update(currency="ZQX")
    return orders


def assert_nothing_hidden(text: str) -> None:
    assert SECRET not in text
    assert "76543.21" not in text
    assert "ZQX" not in text
    assert '"zq' not in text
    assert "zq1" not in text


def everything(orders: Orders) -> list[tuple[str, Any]]:
    """Return calls of every tool: what is allowed, what is not, and what names hidden things."""
    calls: list[tuple[str, Any]] = []
    for entity in ENTITIES:
        calls += [
            (f"query_{entity}", {"limit": 50}),
            (f"query_{entity}", {"fields": ["id", "api_token"]}),
            (f"query_{entity}", {"fields": ["id", "cost_price", "phone", "shipping_name", "attributes"]}),
            (f"query_{entity}", {"filters": {"internal_note": SECRET}}),
            (f"query_{entity}", {"filters": {"cost_price": "76543.21"}}),
            (f"query_{entity}", {"filters": {"customer__api_token": SECRET}}),
        ]
        for pk in ("1", "2", "3", str(MISSING)):
            calls += [
                (f"query_{entity}", {"filters": {"id": pk}}),
                (f"open_{entity}_form", {"id": pk}),
                (f"open_{entity}_form", {"id": pk, "fields": {"city": "X", "shipping_city": "X"}}),
                (f"open_{entity}_form", {"id": pk, "fields": {"shipping_city": "x" * 200, "name": ""}}),
                (f"confirm_delete_{entity}", {"id": pk}),
            ]
    for which in ("own", "shipped", "south", "vip", "missing"):
        pk = str(orders.pk(which))
        calls += [
            ("query_order", {"filters": {"id": pk}}),
            ("query_payment", {"filters": {"order": pk}}),
            ("open_order_form", {"id": pk, "fields": {"shipping_city": "Oslo"}}),
            ("open_order_form", {"id": pk, "fields": {"shipping_city": 5}}),
            ("confirm_delete_order", {"id": pk}),
        ]
    calls += [
        ("query_order", {"filters": {"region": "south"}, "limit": 50}),
        ("query_order", {"filters": {"shipping_city": SECRET}}),
        ("find_entities", {"words": "supplier refund customers internal note secret"}),
    ]
    return calls


@pytest.mark.parametrize("who", ["support", "bot", "viewer"])
def test_nothing_hidden_is_in_what_goes_to_the_model(canaries: Orders, who: str) -> None:
    """Guards hazards 3, 9 and 12."""
    for tool, args in everything(canaries):
        outcome = run(who, tool, args)
        text = sent(outcome)
        for written in json.dumps(args), tool:  # what the model itself wrote may be said back to it
            text = text.replace(written, "")
        if isinstance(outcome, ReadDone):
            table = {**outcome.table, "asked": []}  # what the call itself named
            assert_nothing_hidden(json.dumps(table, ensure_ascii=False))
            assert SHOWN not in json.dumps(outcome.content)
        if not any(SECRET in str(value) or "76543.21" in str(value) for value in args.values()):
            assert_nothing_hidden(text)
        else:
            assert text.count(SECRET) <= 1 or '"rows"' not in text


def test_a_manager_gets_what_support_does_not_and_no_more_than_was_declared(canaries: Orders) -> None:
    """The canaries sing where they may: else the test above would prove nothing."""
    together = "".join(sent(run("manager", f"query_{entity}", {"limit": 50})) for entity in ENTITIES)
    assert "76543.21" in together
    assert "ZQX" in together
    assert SECRET in together  # cities of the other region
    for model, names in (
        (Customer, ["api_token", "internal_note", "street"]),
        (Order, ["shipping_name", "shipping_street"]),
        (Payment, ["gateway_reference"]),
    ):
        for name in names:
            assert f'"{name}"' not in sent(run("manager", f"query_{model._meta.model_name}", {"limit": 50}))
    customers = run("manager", "query_customer", {})
    assert isinstance(customers, ReadDone)
    assert customers.content["rows"][1]["phone"] == "‹phone r1.2›"
    assert (SHOWN in json.dumps(customers.table), SHOWN in sent(customers)) == (True, False)


@pytest.mark.parametrize("who", ["support", "viewer"])
def test_nothing_hidden_leaves_in_a_whole_turn(
    canaries: Orders, login: Callable[[str], Client], who: str
) -> None:
    client = login(who)
    reads = [Call(f"query_{entity}", {"limit": 50}) for entity in ENTITIES]
    with script(
        Calls(*reads),
        Call("open_customer_form", {"id": "1", "fields": {"api_token": "x"}}),
        Call("confirm_delete_order", {"id": str(canaries.vip)}),
        Text("Done."),
    ) as model:
        answer = ask(client, "Show me everything", page="/admin/store/order/")
    assert_not_sent(model, SECRET, SHOWN, "76543.21", "ZQX", '"zq')
    assert_nothing_hidden(json.dumps(answer, ensure_ascii=False))
    own = Order.objects.get(pk=canaries.own).number
    assert (own in sent_text(model.requests[1])) is (who == "support")


def test_a_reply_of_the_server_names_no_record_by_its_text(canaries: Orders) -> None:
    """Guards hazard 12: the text becomes history, and so goes to a model."""
    Product.objects.update(title=SECRET)
    Category.objects.update(name=SECRET)
    Customer.objects.update(name=SECRET)
    for tool, args in (
        ("open_product_form", {"id": "1", "fields": {"price": "1"}}),
        ("open_customer_form", {"id": "1", "fields": {"city": "X"}}),
        ("confirm_delete_product", {"id": "1"}),
        ("confirm_delete_customer", {"id": "1"}),
        ("confirm_delete_category", {"id": "1"}),
    ):
        outcome = run("manager", tool, args)
        assert isinstance(outcome, Proposed)
        assert SECRET not in outcome.reply


def test_a_delete_reply_counts_only_what_the_person_may_read(orders: Orders) -> None:
    """Guards hazard 12."""
    order = Order.objects.filter(payments__isnull=False, region="north").first()
    Permission.objects.get(codename="delete_order").user_set.add(*_users("support"))
    order.customer.vip = False
    order.customer.save()
    OrderLine.objects.create(order=order, product=Product.objects.first(), quantity=1, unit_price=1)
    outcome = run("support", "confirm_delete_order", {"id": str(order.pk)})
    assert "1 payment" in outcome.reply
    assert "line" not in outcome.reply
    assert outcome.told == {"store.payment": ("order",)}
    customer = run("manager", "confirm_delete_customer", {"id": str(order.customer_id)})
    assert f"{order.customer.orders.count()} order" in customer.reply
    _group("support").permissions.remove(Permission.objects.get(codename="view_payment"))
    outcome = run("support", "confirm_delete_order", {"id": str(order.pk)})
    assert "payment" not in outcome.reply
    assert outcome.told == {}


@pytest.mark.parametrize("why", ["not the relation", "not this record", "not her row", "not declared"])
def test_what_may_not_be_read_is_not_counted(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Guards hazard 12."""
    order = Order.objects.filter(payments__isnull=False).first()
    model_admin = type(admin.site.get_model_admin(Payment))
    assert "1 payment" in run("manager", "confirm_delete_order", {"id": str(order.pk)}).reply
    no = {
        "not the relation": {"harness_list": ["amount_cents"]},
        "not this record": {
            "has_view_permission": lambda self, request, obj=None: obj is None,
            "has_change_permission": lambda self, request, obj=None: obj is None,
        },
        "not her row": {"get_queryset": lambda self, request: Payment.objects.none()},
        "not declared": {"harness_list": [], "harness_persist": []},
    }[why]
    for name, value in no.items():
        monkeypatch.setattr(model_admin, name, value)
    assert "payment" not in run("manager", "confirm_delete_order", {"id": str(order.pk)}).reply


def test_an_answer_that_counts_is_bound_to_what_it_counted(
    orders: Orders, login: Callable[[str], Client]
) -> None:
    """Guards hazard 12: it is withheld when that may not be read any more."""
    order = Order.objects.filter(payments__isnull=False).first()
    with script(Call("confirm_delete_order", {"id": str(order.pk)})):
        ask(login("manager"), "Delete that order")
    answer = Message.objects.get(role=Message.Role.ASSISTANT)
    assert answer.mentions == {"store.order": [], "store.payment": ["order"]}


# -- rights are those of the moment --------------------------------------------------------------------


def _users(username: str) -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.filter(username=username)


def _group(name: str) -> Group:
    return Group.objects.get(name=name)


def _without(codename: str) -> Callable[[], None]:
    def remove() -> None:
        for group in Group.objects.all():
            group.permissions.remove(Permission.objects.get(codename=codename))

    return remove


REVOKED = [
    ("use_copilot", _without("use_copilot"), "not_allowed"),
    ("the model", _without("change_order"), "not_allowed"),
    ("the group", lambda: _group("support").user_set.clear(), "not_allowed"),
    ("staff", lambda: _users("support").update(is_staff=False), "not_staff"),
    ("the account", lambda: _users("support").update(is_active=False), "no scope"),
    ("the person", lambda: _users("support").delete(), None),
    ("the region", lambda: StaffProfile.objects.update(region="south"), "not_found"),
    ("the record", lambda: Order.objects.update(region="south"), "not_found"),
    ("the record too", lambda: Customer.objects.update(vip=True), "not_found"),
    ("the fields", lambda: Order.objects.update(status="shipped"), "not_fillable"),
]


@pytest.mark.parametrize(("what", "revoke", "expected"), REVOKED, ids=[each[0] for each in REVOKED])
def test_a_right_that_is_gone_is_gone_for_the_next_call(
    orders: Orders, what: str, revoke: Callable[[], Any], expected: str | None
) -> None:
    """Guards hazard 13."""
    args = {"id": str(orders.own), "fields": {"shipping_city": "Oslo"}}
    assert judge("support", "open_order_form", args) == f"form {orders.own}"
    pk = _users("support").get().pk
    revoke()
    if expected is not None:
        assert judge("support", "open_order_form", args) == expected
        return
    with pytest.raises(ScopeUnavailable):
        gate.run(admin.site, HERE, pk, ToolCall(id="1", name="query_order", arguments="{}"))


def test_rights_that_go_within_a_turn_stop_its_next_call(
    canaries: Orders, login: Callable[[str], Client]
) -> None:
    """Guards hazard 13."""
    client = login("support")

    def then(request: Any) -> Any:
        _without("view_customer")()
        _without("change_customer")()
        return Call("query_customer")

    with script(Call("query_customer", {"limit": 1}), then, Text("That was not possible.")) as model:
        ask(client, "Show customers")
    first, second = (m.text for m in model.requests[2].messages if m.role == "tool")
    assert json.loads(first)["rows"]
    assert json.loads(second)["error"]["code"] == "unknown_tool"


# -- hooks that fail -----------------------------------------------------------------------------------

BROKEN = {
    # hook: (query by id, change form of an own order, delete page), for the manager
    "has_module_permission": ("unknown_tool", "unknown_tool", "unknown_tool"),
    "has_view_permission": ("not_allowed", "not_found", "not_found"),
    "has_change_permission": ("1 rows", "not_allowed", "delete {pk}"),
    "has_delete_permission": ("1 rows", "form {pk}", "not_allowed"),
    "has_add_permission": ("1 rows", "form {pk}", "delete {pk}"),
    "get_queryset": ("not_found", "not_found", "not_found"),
    "get_list_select_related": ("1 rows", "form {pk}", "delete {pk}"),
    "get_readonly_fields": ("unknown_field", "not_available", "delete {pk}"),
    "get_fieldsets": ("unknown_field", "not_available", "delete {pk}"),
    "get_list_display": ("unknown_field", "form {pk}", "delete {pk}"),
    "get_harness_list": ("unknown_field", "form {pk}", "delete {pk}"),
    "get_harness_persist": ("1 rows", "not_fillable", "delete {pk}"),
    "get_form": ("unknown_field", "not_available", "delete {pk}"),
    "get_ordering": ("not_found", "not_found", "not_found"),
    "get_inline_instances": ("1 rows", "form {pk}", "delete {pk}"),
}


@pytest.mark.parametrize("hook", BROKEN)
def test_a_hook_that_fails_is_a_no_and_is_logged(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hook: str
) -> None:
    """Guards hazard 14."""

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise LookupError(f"broken {hook}")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), hook, broken)
    pk = str(orders.own)
    with caplog.at_level(logging.ERROR, "django_copilot"):
        got = (
            judge("manager", "query_order", {"filters": {"id": pk, "region": "north"}}),
            judge("manager", "open_order_form", {"id": pk, "fields": {"shipping_city": "X"}}),
            judge("manager", "confirm_delete_order", {"id": pk}),
        )
    assert got == tuple(each.format(pk=pk) for each in BROKEN[hook])
    assert f"broken {hook}" not in "".join(
        sent(run("manager", tool, {"id": pk})) for tool in ("open_order_form", "confirm_delete_order")
    )
    logged = [record for record in caplog.records if record.name == "django_copilot"]
    assert all(record.exc_info for record in logged)
    if got != ("1 rows", f"form {pk}", f"delete {pk}"):
        assert any(isinstance(record.exc_info[1], LookupError) for record in logged)


def test_a_failing_body_is_a_refusal_and_is_logged(
    store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 14."""
    monkeypatch.setattr(Category, "__str__", lambda self: 1 / 0)
    with caplog.at_level(logging.ERROR, "django_copilot"):
        outcome = run("manager", "query_product")
    assert outcome.content == {"error": {"code": "failed", "message": "The call could not be carried out."}}
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]
