"""System checks of what is read beyond plain fields: each id with a declaration that earns it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin, sites
from django.contrib.auth.models import User
from django.core import checks
from simple_history.admin import SimpleHistoryAdmin

from django_copilot.admin import HarnessMixin
from django_copilot.checks import check_all
from example_project.store.models import Category, Customer, Order, OrderLine, Product
from tests.test_checks import named


@pytest.fixture
def site() -> Iterator[AdminSite]:
    """A site of its own, forgotten at the end."""
    made = AdminSite(name="checked")
    yield made
    sites.all_sites.discard(made)


def found(site: AdminSite, model: Any, **body: Any) -> list[checks.CheckMessage]:
    """Register a ModelAdmin with this body and return the checks' messages about it."""
    cls = type("CheckedAdmin", (HarnessMixin, ModelAdmin), {"__module__": __name__, **body})
    site.register(model, cls)
    return [each for each in check_all() if each.obj is cls]


def ids(messages: Any) -> list[str]:
    return [str(each.id) for each in messages]


class Lines(admin.TabularInline):  # type: ignore[type-arg]
    model = OrderLine


def own(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand for a hook of the project's own."""
    return ()


def altering(self: Any, obj: Any) -> str:
    """Stand for a method that is marked as altering data."""
    return ""


altering.alters_data = True  # type: ignore[attr-defined]


def total(self: Any, obj: Any) -> str:
    """Stand for an innocent column."""
    return str(obj.number)


READ = {"harness_list": ["number", "status"]}
SHOWN = {"list_display": ["number", "total"], "total": total}


@pytest.mark.parametrize(
    ("model", "body", "expected"),
    [
        # types
        (Order, {**READ, "harness_show": "shipping_name"}, ["E080"]),
        (Order, {**READ, "harness_show": [Order.number]}, ["E080"]),
        (Order, {**READ, "harness_search": "number"}, ["E080"]),
        (Order, {**READ, "harness_search": 1}, ["E080"]),
        (Order, {**READ, "harness_lookups": ["status"]}, ["E080"]),
        (Order, {**READ, "harness_lookups": {"status": "in"}}, ["E080"]),
        (Order, {**READ, "harness_from_admin": None}, ["E080"]),
        (Order, {**READ, "harness_inlines": ["lines"]}, ["E080"]),
        (Order, {**READ, "harness_inlines": {"lines": "product"}}, ["E080"]),
        (Order, {**READ, "harness_computed": "total"}, ["E080"]),
        (Order, {**READ, "harness_actions": {"mark"}}, ["E080"]),
        (Order, {**READ, "harness_history": "yes"}, ["E080"]),
        (Order, {**READ, "harness_show": None}, ["E080"]),
        # shown, not sent
        (Customer, {"harness_show": ["mail"]}, ["E081"]),
        (Customer, {"harness_show": ["orders"]}, ["E081"]),
        (Order, {"harness_show": ["customer__email"]}, ["E081"]),
        (Order, {"harness_show": ["customer"]}, ["E082"]),
        (Product, {"harness_show": ["tags"]}, ["E082"]),
        (User, {"harness_show": ["password"]}, ["E082"]),
        (Customer, {"harness_list": ["name"], "harness_show": ["name"]}, ["E083"]),
        (Customer, {"harness_list": ["email"]}, ["W084"]),
        (Customer, {"harness_list": ["street", "city", "phone"]}, ["W084", "W084"]),
        (Customer, {"harness_list": ["email"], "harness_show": ["email"]}, ["E083"]),
        (Customer, {"harness_show": ["api_token"]}, ["W085"]),
        (Customer, {"harness_show": ["email"], "fields": ["name"], "list_display": ["name"]}, ["W023"]),
        # search
        (Order, {**READ, "harness_search": True}, ["E086"]),
        (Order, {**READ, "harness_search": True, "search_fields": ["shipping_name"]}, ["E086"]),
        (Order, {**READ, "harness_search": True, "search_fields": ["customer__name"]}, ["E086"]),
        (
            Order,
            {**READ, "harness_search": True, "search_fields": ["number"], "get_search_results": own},
            ["E086"],
        ),
        (
            Order,
            {**READ, "harness_search": True, "search_fields": ["number", "lines__product__title"]},
            ["W087"],
        ),
        (Order, {**READ, "harness_search": True, "search_fields": ["number", "placed_at"]}, ["W087"]),
        (Order, {**READ, "harness_search": True, "search_fields": ["number", "pk"]}, ["W087"]),
        (Order, {**READ, "harness_search": True, "search_fields": ["number", "customer"]}, ["W087"]),
        (
            Order,
            {**READ, "harness_from_admin": True, "search_fields": ["customer__orders__number"]},
            ["W087"],
        ),
        (
            Product,
            {"harness_list": ["title"], "harness_search": True, "search_fields": ["title", "tags__name"]},
            ["W087"],
        ),
        (Order, {**READ, "harness_search": True, "search_fields": ["number__regex"]}, ["W087", "E086"]),
        # lookups
        (Order, {**READ, "harness_lookups": {"state": ["in"]}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"customer__name": ["in"]}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"region": ["in"]}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"status": ["gte"]}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"status": []}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"status": ["range"]}}, ["E088"]),
        (Order, {**READ, "harness_lookups": {"number": ["range"]}}, ["E088"]),
        (Customer, {"harness_list": ["vip"], "harness_lookups": {"vip": ["range"]}}, ["E088"]),
        (Order, {"harness_list": ["customer"], "harness_lookups": {"customer": ["range"]}}, ["E088"]),
        (Product, {"harness_list": ["attributes"], "harness_lookups": {"attributes": ["in"]}}, ["E088"]),
        (Product, {"harness_list": ["photo"], "harness_lookups": {"photo": ["isnull"]}}, ["E088"]),
        # from the admin
        (Order, {**READ, "harness_from_admin": True}, ["W089"]),
        (
            Order,
            {**READ, "harness_from_admin": True, "search_fields": ["number"], "get_search_results": own},
            ["W089"],
        ),
        # inlines
        (Order, {**READ, "harness_inlines": {"line": ["product"]}, "inlines": [Lines]}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"orderline_set": ["product"]}, "inlines": [Lines]}, ["E090"]),
        (Product, {"harness_list": ["title"], "harness_inlines": {"tags": ["name"]}}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"lines": ["product"]}}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"payments": ["currency"]}, "inlines": [Lines]}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"lines": []}, "inlines": [Lines]}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"lines": ["produkt"]}, "inlines": [Lines]}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"lines": ["product__title"]}, "inlines": [Lines]}, ["E090"]),
        (Order, {**READ, "harness_inlines": {"lines": ["order"]}, "inlines": [Lines]}, ["E090"]),
        # computed columns
        (Order, {**READ, **SHOWN, "harness_computed": ["total"]}, ["W093"]),
        (Order, {**READ, "total": total, "harness_computed": ["total"]}, ["E092"]),
        (Order, {**READ, "list_display": ["status"], "harness_computed": ["status"]}, ["E092"]),
        (Order, {**READ, "list_display": ["customer_id"], "harness_computed": ["customer_id"]}, ["E092"]),
        (Order, {**READ, "list_display": ["lines"], "harness_computed": ["lines"]}, ["E092"]),
        (
            Order,
            {**READ, "list_display": ["customer__email"], "harness_computed": ["customer__email"]},
            ["E092"],
        ),
        (Order, {**READ, "list_display": ["delete"], "harness_computed": ["delete"]}, ["E092"]),
        (Order, {**READ, "list_display": ["delete_model"], "harness_computed": ["delete_model"]}, ["E092"]),
        (Order, {**READ, "list_display": ["purge"], "purge": total, "harness_computed": ["purge"]}, ["E092"]),
        (
            Order,
            {**READ, "list_display": ["altering"], "altering": altering, "harness_computed": ["altering"]},
            ["E092"],
        ),
        (Order, {**READ, "list_display": ["nothing"], "harness_computed": ["nothing"]}, ["E092"]),
        # actions
        (Order, {**READ, "harness_actions": ["mark"]}, ["E094"]),
        (Order, {**READ, "harness_actions": ["mark"], "actions": None}, ["E094"]),
        (Order, {**READ, "harness_actions": ["delete_selected"]}, ["W095"]),
        # history
        (Category, {"harness_list": ["name"], "harness_history": True}, ["E096"]),
        # nothing at all
        (Order, {"harness_search": True, "harness_history": True}, ["W097"]),
        (Order, {"harness_lookups": {"status": ["in"]}, "harness_persist": []}, ["W097"]),
    ],
    ids=named,
)
def test_a_bad_declaration_is_named(
    site: AdminSite, model: Any, body: dict[str, Any], expected: list[str]
) -> None:
    messages = found(site, model, **body)
    assert ids(messages) == [f"copilot.{each}" for each in expected]
    for message in messages:
        assert message.is_serious() == str(message.id).startswith("copilot.E")


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (Customer, {"harness_list": ["name"], "harness_show": ("email", "phone")}),
        (Customer, {"harness_show": ["email"], "get_list_display": own, "fields": ["name"]}),
        (
            Order,
            {**READ, "harness_search": True, "search_fields": ["^number", "status__icontains", "region"]},
        ),
        (Order, {**READ, "harness_search": True, "get_search_fields": own}),
        (Order, {"harness_search": True, "search_fields": ["region"], "get_harness_list": own}),
        (Order, {**READ, "harness_lookups": {"status": ["in", "isnull"]}}),
        (Order, {"harness_list": ["placed_at"], "harness_lookups": {"placed_at": ("range", "isnull")}}),
        (Order, {"harness_list": ["customer"], "harness_lookups": {"customer": ["in", "isnull"]}}),
        (
            Product,
            {"harness_list": ["tags", "price"], "harness_lookups": {"tags": ["in"], "price": ["range"]}},
        ),
        (Order, {**READ, "harness_from_admin": True, "list_filter": ["status"]}),
        (Order, {**READ, "harness_from_admin": True, "date_hierarchy": "placed_at"}),
        (Order, {**READ, "harness_from_admin": True, "get_list_filter": own}),
        (Order, {**READ, "harness_inlines": {"lines": ["product", "quantity"]}, "inlines": [Lines]}),
        (Order, {**READ, "harness_inlines": {"lines": ["product"]}, "get_inlines": own}),
        (Order, {**READ, "harness_actions": ["mark"], "mark": own, "actions": ["mark"]}),
        (Order, {**READ, "harness_actions": ["own"], "actions": [own]}),
        (Order, {**READ, "harness_actions": ["mark"], "get_actions": own}),
        (Order, {**READ, "harness_history": True}),
    ],
    ids=named,
)
def test_a_good_declaration_is_not(site: AdminSite, model: Any, body: dict[str, Any]) -> None:
    assert found(site, model, **body) == []


@pytest.mark.parametrize(
    ("model", "body", "silence"),
    [
        (Customer, {"harness_list": ["email"]}, {"copilot.W084": ["email"]}),
        (Customer, {"harness_show": ["api_token"]}, {"copilot.W085": ["api_token"]}),
        (
            Order,
            {**READ, "harness_search": True, "search_fields": ["number", "lines__product"]},
            {"copilot.W087": ["lines__product"]},
        ),
        (Order, {**READ, **SHOWN, "harness_computed": ["total"]}, {"copilot.W093": ["total"]}),
        (Order, {**READ, "harness_actions": ["delete_selected"]}, {"copilot.W095": ["delete_selected"]}),
        (
            Customer,
            {"harness_show": ["email"], "fields": ["name"], "list_display": ["name"]},
            {"copilot.W023": ["email"]},
        ),
    ],
    ids=named,
)
def test_a_warning_is_silenced_for_one_name(site: AdminSite, model: Any, body: Any, silence: Any) -> None:
    assert found(site, model, harness_silence=silence, **body) == []
    site.unregister(model)
    assert len(found(site, model, **body)) == 1
    site.unregister(model)
    plain = {"harness_list": ["id"], "list_display": ["id"]}
    assert ids(found(site, model, harness_silence=silence, **plain)) == ["copilot.W016"]


def test_a_personal_field_of_an_inline(site: AdminSite) -> None:
    class Customers(admin.TabularInline):  # type: ignore[type-arg]
        model = Order

    body = {"harness_list": ["name"], "inlines": [Customers]}
    inlines = {"orders": ["number", "shipping_name", "shipping_street"]}
    messages = found(site, Customer, harness_inlines=inlines, **body)
    assert ids(messages) == ["copilot.W091"]
    assert "orders.shipping_street" in messages[0].msg
    site.unregister(Customer)
    silence = {"copilot.W091": ["orders.shipping_street"]}
    assert found(site, Customer, harness_inlines=inlines, harness_silence=silence, **body) == []


def test_a_field_of_an_inline_that_its_own_declaration_keeps(site: AdminSite) -> None:
    own_admin = type("OwnAdmin", (HarnessMixin, ModelAdmin), {"harness_show": ["quantity"]})
    site.register(OrderLine, own_admin)
    messages = found(site, Order, harness_inlines={"lines": ["quantity"]}, inlines=[Lines], **READ)
    assert ids(messages) == ["copilot.E090"]
    assert "OwnAdmin" in messages[0].msg


def test_the_warning_names_the_remedy(site: AdminSite) -> None:
    (personal,) = found(site, Customer, harness_list=["email"])
    assert "provider" in personal.msg
    assert "harness_show" in str(personal.hint)


def joined(self: Any, obj: Any) -> str:
    """Look at a related record and at rows of another model."""
    return f"{obj.customer.name} {sum(line.quantity for line in obj.lines.all())}"


def test_the_cost_of_a_computed_column_is_told_as_far_as_its_code_tells_it(site: AdminSite) -> None:
    body = {**READ, "list_display": ["number", "total"], "harness_computed": ["total"]}
    (message,) = found(site, Order, total=total, **body)
    assert "how many queries that makes is not known" in message.msg
    assert "list_select_related" in str(message.hint)
    site.unregister(Order)
    (message,) = found(site, Order, total=joined, **body)
    assert "names customer, lines, which may be a query each time" in message.msg
    site.unregister(Order)
    (message,) = found(site, Order, total=joined, list_select_related=["customer"], **body)
    assert "names lines, which" in message.msg


def test_a_column_of_the_model_is_looked_at_too(site: AdminSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Order, "total", property(lambda self: self.payments.count()), raising=False)
    body = {**READ, "list_display": ["number", "total"], "harness_computed": ["total"]}
    (message,) = found(site, Order, **body)
    assert "names count, payments, which" in message.msg


def test_a_library_that_hands_on_is_no_hook_of_the_project(site: AdminSite) -> None:
    cls = type(
        "CheckedAdmin",
        (HarnessMixin, SimpleHistoryAdmin),
        {**READ, "harness_history": True, "harness_actions": ["x"]},
    )
    site.register(Order, cls)
    assert ids(each for each in check_all() if each.obj is cls) == ["copilot.E094"]


def test_an_inherited_declaration_of_more_is_pointed_out(site: AdminSite) -> None:
    class Parent(HarnessMixin, ModelAdmin):  # type: ignore[type-arg]
        harness_list = ["number"]
        harness_inlines = {"lines": ["quantity"]}
        inlines = [Lines]

    class Child(Parent):
        harness_list = ["number", "status"]

    site.register(Order, Child)
    messages = [each for each in check_all() if each.obj is Child]
    assert ids(messages) == ["copilot.W014"]
    assert "harness_inlines" in messages[0].msg


def test_the_example_store_is_clean() -> None:
    about = [
        each
        for each in check_all()
        if each.obj is not None and each.obj.__module__.startswith("example_project")
    ]
    assert about == []
