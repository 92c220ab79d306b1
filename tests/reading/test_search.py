"""The admin's own search over what a person may read, the order she asks for, and the next pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, models

from django_copilot.access import EntityAccess
from django_copilot.exceptions import CallError
from django_copilot.reading import Query, Rows, run_query
from example_project.store.models import Customer, Order, Product
from tests.access.conftest import pks
from tests.gate.calls import run, verdict

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


def ask(entity: EntityAccess, **asked: Any) -> Rows:
    return run_query(entity, Query(**{"entity": entity.entity.label, "limit": 50, **asked}))


# -- search ---------------------------------------------------------------------------------------------


def test_it_finds_what_the_admins_search_finds(entity: GetEntity, rf: Any) -> None:
    order = Order.objects.select_related("customer").order_by("pk")[5]
    model_admin = admin.site.get_model_admin(Order)
    for text in (
        order.number,
        order.number[-4:],
        order.customer.name,
        order.customer.name.split()[0].lower(),
    ):
        wanted, _ = model_admin.get_search_results(rf.get("/"), Order.objects.all(), text)
        assert order.pk in pks(ask(entity("admin", "order"), search=text))
        assert set(pks(ask(entity("admin", "order"), search=text))) == set(
            wanted.values_list("pk", flat=True)
        )


def test_every_word_is_looked_for_in_every_field(entity: GetEntity) -> None:
    order = Order.objects.select_related("customer").order_by("pk")[5]
    text = f"{order.customer.name.split()[0]} {order.number}"
    assert pks(ask(entity("admin", "order"), search=text)) == [order.pk]
    assert pks(ask(entity("admin", "order"), search=f"{text} nobody")) == []


def test_it_looks_only_where_the_person_may_read(entity: GetEntity, bend: Bend) -> None:
    customer = Customer.objects.order_by("pk")[0]
    Customer.objects.filter(pk=customer.pk).update(
        email="needle@x.example", internal_note="needle", phone="needle"
    )
    bend(Customer, search_fields=["name", "email", "phone", "internal_note", "api_token", "pk"])
    assert [path.given for path in entity("admin", "customer").search_paths] == ["name"]
    assert pks(ask(entity("admin", "customer"), search="needle")) == []
    bend(Product, search_fields=["title", "cost_price", "=supplier__name", "category__name", "tags__name"])
    assert [path.given for path in entity("manager", "product").search_paths] == ["title", "category__name"]


@pytest.mark.parametrize(
    "bent",
    [
        {"get_queryset": lambda self, request: Customer.objects.filter(vip=False)},
        {"has_view_permission": lambda self, request, obj=None: obj is None or not obj.vip},
        {"get_fields": lambda self, request, obj=None: ["city"], "list_display": ["city"]},
        {"harness_list": ["city"]},
        {"get_harness_list": lambda self, request, obj=None: ["name"]},
    ],
    ids=["rows", "records", "not shown", "not declared", "by record"],
)
def test_a_related_record_that_may_be_hidden_is_not_searched(
    entity: GetEntity, bend: Bend, bent: dict[str, Any]
) -> None:
    """A match would tell of it, even where the order itself may be seen."""
    assert [path.given for path in entity("admin", "order").search_paths] == ["number", "customer__name"]
    bend(Customer, **bent)
    assert [path.given for path in entity("manager", "order").search_paths] == ["number"]


def test_a_search_of_the_projects_own_is_not_used(entity: GetEntity, bend: Bend) -> None:
    def search(self: Any, request: Any, rows: Any, text: str) -> Any:
        return rows.filter(models.Q(cost_price=text)), False

    bend(Product, get_search_results=search)
    assert entity("admin", "product").search_paths == ()
    with pytest.raises(CallError) as caught:
        ask(entity("admin", "product"), search="1")
    assert caught.value.code == "not_searchable"


def test_wildcards_are_text(entity: GetEntity) -> None:
    for text in ("%", "_", "\\", "a%b", "*", "<script>"):
        assert pks(ask(entity("admin", "product"), search=text)) == []


@pytest.mark.parametrize("text", ["x" * 201, "a b c d e f g h i", "x" * 10_000])
def test_a_long_search_is_refused(store: Any, text: str) -> None:
    assert verdict(run("admin", "query_product", {"search": text})) == "invalid_value"
    assert verdict(run("admin", "count_product", {"search": text})) == "invalid_value"


def test_an_empty_search_is_none(entity: GetEntity) -> None:
    assert pks(ask(entity("admin", "product"), search="  ")) == pks(ask(entity("admin", "product")))


def test_support_finds_only_orders_that_are_hers(entity: GetEntity, store: Any) -> None:
    found = pks(ask(entity("support", "order"), search="SO-"))
    assert found
    hers = Order.objects.filter(pk__in=found, region="north", customer__vip=False)
    assert hers.count() == len(found)


# -- order ----------------------------------------------------------------------------------------------


def test_rows_are_ordered_as_asked(entity: GetEntity) -> None:
    of = entity("admin", "product")
    assert pks(ask(of, order_by=("price",))) == list(
        Product.objects.order_by("price", "-pk").values_list("pk", flat=True)
    )
    assert pks(ask(of, order_by=("status", "-price"))) == list(
        Product.objects.order_by("status", "-price", "-pk").values_list("pk", flat=True)
    )
    assert pks(ask(of, order_by=("id",))) == list(Product.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.parametrize(
    "names",
    [["customer"], ["nope"], ["customer__name"], ["?"], ["pk"], [""], ["-"], ["--number"], ["shipping_name"]],
)
def test_what_can_not_order_is_refused(store: Any, names: list[str]) -> None:
    assert verdict(run("admin", "query_order", {"order_by": names})) == "not_orderable"


def test_only_what_is_readable_on_every_record_orders(entity: GetEntity, bend: Bend) -> None:
    assert "cost_price" in entity("manager", "product").orderable
    assert "cost_price" not in entity("support", "product").orderable
    assert {"attributes", "photo", "category", "tags"}.isdisjoint(entity("manager", "product").orderable)
    bend(Product, get_fields=lambda self, request, obj=None: ["title"], list_display=["title"])
    assert entity("admin", "product").orderable == ("title",)

    def fields(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["title", *([] if obj is not None and obj.status == "archived" else ["price"])]

    bend(Product, get_fields=fields)
    assert "price" in entity("manager", "product").readable()
    assert entity("manager", "product").orderable == ("title",)
    assert entity("admin", "category").orderable == ()  # not opted into


def test_what_a_database_rounds_orders_nothing(entity: GetEntity, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages would not know where they ended."""
    price = Product._meta.get_field("price")
    assert "price" in entity("manager", "product").orderable
    monkeypatch.setattr(price, "max_digits", 16)
    assert ("price" in entity("admin", "product").orderable) is (connection.vendor != "sqlite")


def test_too_many_or_the_same_twice_is_refused(store: Any) -> None:
    for names in (["title", "title"], ["title", "-title"], ["title", "sku", "price", "status"]):
        assert verdict(run("admin", "query_product", {"order_by": names})) == "invalid_value"


# -- pages ----------------------------------------------------------------------------------------------


def all_pages(entity: EntityAccess, *, limit: int, **asked: Any) -> list[Any]:
    found: list[Any] = []
    after = ""
    for _page in range(100):
        rows = ask(entity, limit=limit, after=after, **asked)
        found += pks(rows)
        after = rows.after
        assert rows.has_more is bool(after)
        if not after:
            return found
    raise AssertionError("The pages have no end.")


@pytest.mark.parametrize("order_by", [(), ("price",), ("status", "-price"), ("-id",)])
def test_pages_together_are_all_rows_once(entity: GetEntity, order_by: tuple[str, ...]) -> None:
    of = entity("admin", "product")
    wanted = pks(ask(of, order_by=order_by))
    assert len(wanted) == 40
    assert all_pages(of, limit=7, order_by=order_by) == wanted


@pytest.mark.parametrize("order_by", ["available_from", "-available_from"])
def test_pages_go_over_what_is_empty(entity: GetEntity, bend: Bend, order_by: str) -> None:
    """Databases order what is empty first or last."""
    bend(Product, list_display=["title", "available_from"])
    some = Product.objects.order_by("pk").values_list("pk", flat=True)[:15]
    Product.objects.filter(pk__in=list(some)).update(available_from=None)
    of = entity("admin", "product")
    found = all_pages(of, limit=4, order_by=(order_by,))
    assert found == pks(ask(of, order_by=(order_by,)))
    assert len({*found}) == 40


def test_pages_of_rows_that_are_hidden_one_by_one(entity: GetEntity, bend: Bend) -> None:
    def may(self: Any, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.pk % 3 != 0

    bend(Order, has_view_permission=may, has_change_permission=may)
    found = all_pages(entity("admin", "order"), limit=9)
    assert found == [pk for pk in Order.objects.values_list("pk", flat=True) if pk % 3]


def test_a_page_begins_only_after_a_record_that_may_be_seen(entity: GetEntity, store: Any) -> None:
    south = Order.objects.filter(region="south")[0]
    answers = {
        str(run("support", "query_order", {"after": after})).replace(after, "…")
        for after in (str(south.pk), "999999", "r7.1", "ref_x")
    }
    assert len(answers) == 1
    assert verdict(run("support", "query_order", {"after": str(south.pk)})) == "invalid_value"
    assert verdict(run("admin", "query_order", {"after": str(south.pk)})).endswith("rows")


def test_there_are_no_pages_in_an_order_that_is_not_known(entity: GetEntity, bend: Bend) -> None:
    bend(Product, ordering=[models.F("price").desc(nulls_last=True)])
    rows = ask(entity("admin", "product"), limit=5)
    assert (rows.has_more, rows.after) == (True, "")
    assert verdict(run("admin", "query_product", {"after": str(pks(rows)[-1])})) == "not_pageable"
