"""Rows: the admin's own order and rights, what is cut, and what a page of rows costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import F
from django.db.models.functions import Lower
from django.test.utils import CaptureQueriesContext

from django_copilot.access import EntityAccess
from django_copilot.exceptions import CallError, Refused
from django_copilot.reading import Query
from example_project.store.models import Category, Customer, Order, Payment, Product, Tag
from tests.gate.calls import run

from .conftest import pks, read

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


# -- order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "ours"),
    [
        ([], ["title", "-pk"]),  # the model's ordering, with its last term, the key
        (["title"], ["title", "-pk"]),
        (["-price", "title"], ["-price", "title", "-pk"]),
        (["cost_price"], ["pk"]),  # hidden from support
        (["-cost_price", "title"], ["-pk", "title", "-pk"]),
        (["category__name", "title"], ["pk", "title", "-pk"]),
        (["category"], ["pk"]),  # would be the category's own ordering
        (["attributes"], ["pk"]),
        (["?"], ["pk"]),
        (["pk"], ["pk"]),
        (["-id"], ["-id", "-pk"]),
        ([F("cost_price").desc(nulls_last=True)], ["-pk"]),
        ([F("supplier__name")], ["pk"]),
        ([Lower("title")], ["pk"]),
    ],
    ids=str,
)
def test_ordering_by_what_is_not_readable_is_by_the_key(
    entity: GetEntity, bend: Bend, own: list[Any], ours: list[str]
) -> None:
    """Guards hazard 19."""
    bend(Product, ordering=own)
    if not own:
        ours = ["title", "id", "-pk"]
    got = pks(read(entity("support", "product"), limit=50))
    assert got == list(Product.objects.order_by(*ours).values_list("pk", flat=True))


def test_the_order_is_the_admins_own(entity: GetEntity, bend: Bend) -> None:
    bend(Order, get_ordering=lambda self, request: [F("shipping_city").asc(), "-placed_at"])
    got = pks(read(entity("admin", "order"), limit=50))
    assert got == list(
        Order.objects.order_by("shipping_city", "-placed_at", "-pk").values_list("pk", flat=True)[:50]
    )


def test_an_order_made_in_get_queryset_is_looked_at_too(entity: GetEntity, bend: Bend) -> None:
    """Guards hazard 19."""
    for order, ours in ((["-cost_price"], "-pk"), (["-price"], "-price")):
        bend(
            Product,
            get_queryset=lambda self, request, order=order: Product.objects.order_by(*order),
        )
        got = pks(read(entity("support", "product"), limit=50))
        assert got == list(Product.objects.order_by(ours, "-pk").values_list("pk", flat=True))


# -- how many ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("denied", [0, 3, 60, 119])
def test_has_more_is_exact_though_rows_are_denied_one_by_one(
    entity: GetEntity, bend: Bend, denied: int
) -> None:
    """Guards hazard 15."""
    real = admin.ModelAdmin.has_view_permission
    bend(
        Order,
        get_queryset=lambda self, request: Order.objects.order_by("pk"),
        ordering=["pk"],
        has_view_permission=lambda self, request, obj=None: (
            real(self, request, obj) and (obj is None or obj.pk > denied)
        ),
        has_change_permission=lambda self, request, obj=None: False,
    )
    left = 120 - denied
    for limit in {1, min(left, 50), min(left + 1, 50)}:
        rows = read(entity("admin", "order"), limit=limit)
        assert len(rows.rows) == min(limit, left)
        assert rows.has_more is (left > limit)
        assert all(obj.pk > denied for obj in (row.record for row in rows.rows))


@pytest.mark.parametrize("most", [1, 10, 25, 1000])
def test_no_more_rows_are_read_than_stated(entity: GetEntity, bend: Bend, settings: Any, most: int) -> None:
    """Guards hazard 15."""
    settings.COPILOT = {"SCAN_ROWS": most}
    asked: list[int] = []

    def never(self: Any, request: Any, obj: Any = None) -> bool:
        if obj is not None:
            asked.append(obj.pk)
        return obj is None

    bend(Order, has_view_permission=never, has_change_permission=lambda self, request, obj=None: False)
    rows = read(entity("admin", "order"), limit=5)
    assert rows.rows == ()
    assert rows.has_more is False  # that there are hidden ones is not told
    assert len(set(asked)) == min(most, 120)


def test_duplicates_of_a_join_are_one_row(entity: GetEntity, bend: Bend) -> None:
    """Guards hazard 20."""
    tags = list(Tag.objects.all()[:3])
    for product in Product.objects.all():
        product.tags.set(tags)
    bend(Product, get_queryset=lambda self, request: Product.objects.filter(tags__in=tags).order_by("title"))
    rows = read(entity("admin", "product"), limit=30)
    assert len(pks(rows)) == len(set(pks(rows))) == 30
    assert rows.has_more
    everything = read(entity("admin", "product"), limit=50)
    assert len(pks(everything)) == Product.objects.count() == 40
    assert not everything.has_more
    one = pks(rows)[0]
    assert entity("admin", "product").find(str(one)).pk == one


def test_a_sliced_queryset_is_refused(entity: GetEntity, bend: Bend) -> None:
    """Guards hazard 20: nothing can be filtered after it, so nothing can be checked."""
    bend(Product, get_queryset=lambda self, request: Product.objects.all()[:5])
    with pytest.raises(Refused):
        read(entity("admin", "product"))
    with pytest.raises(Refused):
        entity("admin", "product").find("1")


@pytest.mark.parametrize("what", [lambda: Product.objects.values("pk"), lambda: None, lambda: []])
def test_what_is_no_queryset_of_records_gives_nothing(store: Any, bend: Bend, what: Any) -> None:
    bend(Product, get_queryset=lambda self, request: what())
    for tool, args in (("query_product", {}), ("confirm_delete_product", {"id": "1"})):
        assert run("admin", tool, args).content["error"]["code"] in ("failed", "not_found")


# -- fields that depend on the record ------------------------------------------------------------------


def _hide_city_of(*statuses: str) -> Callable[..., Any]:
    def get_fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        names = ["number", "customer", "region", "status", "placed_at", "shipping_city"]
        if obj is not None and obj.status in statuses:
            names.remove("shipping_city")
        return [(None, {"fields": names})]

    return get_fieldsets


def test_a_cell_is_there_only_where_the_field_is_readable_on_that_row(entity: GetEntity, bend: Bend) -> None:
    bend(Order, get_fieldsets=_hide_city_of("paid"), list_display=["number"])
    rows = read(entity("admin", "order"), "status", "shipping_city", limit=50)
    seen = {row.values["status"]: "shipping_city" in row.values for row in rows.rows}
    assert seen["paid"] is False
    assert {readable for status, readable in seen.items() if status != "paid"} == {True}


def test_a_row_on_which_a_filtered_field_is_not_readable_is_dropped(entity: GetEntity, bend: Bend) -> None:
    """Guards hazard 9: that it came would tell what it holds."""
    bend(Order, get_fieldsets=_hide_city_of("paid"), list_display=["number"])
    city = Order.objects.filter(status="paid").first().shipping_city
    assert Order.objects.filter(status="paid", shipping_city=city).exists()
    rows = read(entity("admin", "order"), "number", limit=50, shipping_city=city)
    assert {obj.status for obj in (row.record for row in rows.rows)} & {"paid"} == set()
    expected = Order.objects.filter(shipping_city=city).exclude(status="paid").count()
    assert len(rows.rows) == min(expected, 50)


def test_filters_need_every_field_to_be_readable(entity: GetEntity) -> None:
    support = entity("support", "product")
    with pytest.raises(CallError) as caught:
        read(support, title="x", cost_price="1.00")
    assert caught.value.code == "unknown_field"


@pytest.mark.parametrize("name", ["attributes", "photo"])
def test_json_and_files_are_read_and_not_filtered_on(entity: GetEntity, bend: Bend, name: str) -> None:
    bend(Product, harness_list=["title", name])
    with pytest.raises(CallError) as caught:
        read(entity("admin", "product"), **{name: "x"})
    assert caught.value.code == "not_filterable"
    Product.objects.update(photo="products/a.png", attributes={"a": [1]})
    values = read(entity("admin", "product"), limit=1).rows[0].values
    assert values[name] == {"attributes": {"a": [1]}, "photo": "products/a.png"}[name]


# -- filters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("order", "status", "paid"),
        ("order", "customer", "1"),
        ("order", "region", "south"),
        ("customer", "vip", False),
        ("payment", "currency", "EUR"),
        ("product", "category", None),
        ("product", "available_from", None),
    ],
)
def test_a_filter_is_an_exact_match(entity: GetEntity, name: str, field: str, value: Any) -> None:
    Product.objects.filter(pk__lte=3).update(category=None, available_from=None)
    of = entity("admin", name)
    got = set(pks(read(of, limit=50, **{field: value})))
    expected = of.model.objects.filter(**{f"{field}__isnull": True} if value is None else {field: value})
    assert got
    assert len(got) == min(50, expected.count())
    assert got <= set(expected.values_list("pk", flat=True))


def test_what_a_row_gives_finds_that_row_again(entity: GetEntity) -> None:
    """Guards hazard 7."""
    for name in ("product", "order", "customer", "payment", "category", "tag"):
        of = entity("admin", name)
        for row in read(of, limit=5).rows:
            filters = {
                field: value["id"] if isinstance(value, dict) else value
                for field, value in row.values.items()
            }
            wire = json.loads(json.dumps({**filters, "id": row.ident}))
            assert pks(read(of, **wire)) == [row.record.pk]


# -- labels --------------------------------------------------------------------------------------------


def first_cell(entity: EntityAccess, field: str, **filters: Any) -> Any:
    return read(entity, field, limit=1, **filters).rows[0].values[field]


def test_a_label_is_there_where_the_related_record_may_be_seen(entity: GetEntity) -> None:
    order = Order.objects.filter(region="north", customer__vip=False).order_by("-placed_at", "-pk").first()
    assert first_cell(entity("support", "order"), "customer") == {
        "id": str(order.customer_id),
        "label": order.customer.name,
    }


@pytest.mark.parametrize("why", ["not declared", "not viewable", "not her row", "not this record"])
def test_elsewhere_there_is_only_its_id(entity: GetEntity, bend: Bend, why: str) -> None:
    """Guards hazard 12."""
    match why:
        case "not declared":
            bend(Category, harness_list=[], harness_persist=[])
        case "not viewable":
            bend(
                Category,
                has_view_permission=lambda self, request, obj=None: False,
                has_change_permission=lambda self, request, obj=None: False,
            )
        case "not her row":
            bend(Category, get_queryset=lambda self, request: Category.objects.none())
        case _:
            bend(
                Category,
                has_view_permission=lambda self, request, obj=None: obj is None,
                has_change_permission=lambda self, request, obj=None: False,
            )
    product = Product.objects.exclude(category=None).first()
    assert first_cell(entity("manager", "product"), "category", id=str(product.pk)) == {
        "id": str(product.category_id)
    }


def test_relations_to_many_carry_ids_and_labels(entity: GetEntity, bend: Bend) -> None:
    bend(Product, harness_list=["title", "tags"])
    product = Product.objects.order_by("pk").first()
    tags = list(Tag.objects.all()[:2])
    product.tags.set(tags)
    cell = first_cell(entity("manager", "product"), "tags", id=str(product.pk))
    assert sorted(cell, key=str) == sorted(({"id": str(t.pk), "label": t.name} for t in tags), key=str)


# -- cut -----------------------------------------------------------------------------------------------


def test_a_long_cell_is_cut_with_a_marker_and_only_for_the_model(store: Any, settings: Any) -> None:
    settings.COPILOT = {"CELL_CHARS": 10}
    Customer.objects.filter(pk=1).update(city="ż" * 80, country="x" * 10)
    outcome = run("manager", "query_customer", {"filters": {"id": "1"}, "fields": ["city", "country"]})
    row = outcome.content["rows"][0]
    assert (row["city"], row["country"]) == ("ż" * 10 + "… [cut]", "x" * 10)
    assert outcome.table["rows"][0]["values"]["city"] == "ż" * 80


def test_a_long_cell_of_json_is_cut_too(store: Any, settings: Any, bend: Bend) -> None:
    settings.COPILOT = {"CELL_CHARS": 30}
    bend(Product, harness_list=["attributes"])
    Product.objects.filter(pk=1).update(attributes={"a": ["x" * 100]})
    Product.objects.filter(pk=2).update(attributes={"a": [1]})
    rows = {
        pk: run("manager", "query_product", {"filters": {"id": pk}}).content["rows"][0]["attributes"]
        for pk in ("1", "2")
    }
    assert rows["1"].endswith("… [cut]")
    assert len(rows["1"]) < 45
    assert rows["2"] == {"a": [1]}


def test_a_long_result_is_cut_with_a_marker(store: Any, settings: Any) -> None:
    settings.COPILOT = {"RESULT_BYTES": 1_000}
    Customer.objects.update(city="Łódź" * 10)
    outcome = run("manager", "query_customer", {"limit": 20})
    content = outcome.content
    assert 0 < len(content["rows"]) < 20
    assert content["has_more"] is True
    assert "left out" in content["cut"]
    assert outcome.sent_rows == len(content["rows"])
    assert len(json.dumps(content["rows"], ensure_ascii=False).encode()) <= 1_000
    assert len(outcome.table["rows"]) == 20


# -- what it costs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["support", "manager"])
@pytest.mark.parametrize("name", ["category", "customer", "product", "order", "payment"])
def test_the_number_of_statements_does_not_grow_with_the_rows(entity: GetEntity, who: str, name: str) -> None:
    """Guards hazard 21."""
    Customer.objects.update(vip=False)
    Order.objects.update(region="north")
    run(who, f"query_{name}", {"limit": 1})

    def cost(limit: int) -> tuple[int, int]:
        of = entity(who, name)
        with CaptureQueriesContext(connection) as captured:
            rows = read(of, limit=limit)
        return len(captured), len(rows.rows)

    (few, one), (many, several) = cost(1), cost(50)
    assert one == 1
    assert several > 5
    assert many == few


def test_relations_to_many_cost_a_statement_each_and_not_one_for_each_row(
    entity: GetEntity, bend: Bend
) -> None:
    """Guards hazard 21."""
    bend(Product, harness_list=["title", "tags", "category"])
    for product in Product.objects.all():
        product.tags.set(Tag.objects.all()[:3])
    counts = []
    for limit in (1, 40):
        of = entity("manager", "product")
        with CaptureQueriesContext(connection) as captured:
            read(of, limit=limit)
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_nothing_is_counted(entity: GetEntity) -> None:
    of = entity("support", "payment")
    with CaptureQueriesContext(connection) as captured:
        read(of, limit=50)
    assert not [each for each in captured if "COUNT(" in each["sql"]]
    assert all(" LIMIT " in each["sql"] for each in captured if 'FROM "store_payment"' in each["sql"])


def test_a_query_is_stored_and_read_again() -> None:
    query = Query(entity="store.order", fields=("number",), filters={"status": "paid"}, limit=3)
    assert Query.from_json(json.loads(json.dumps(query.to_json()))) == query
    assert Payment._meta.label_lower == "store.payment"
