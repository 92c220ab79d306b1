"""Counts and sums: over the person's rows and no others, in the database and record by record alike."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib import admin
from django.db import OperationalError, connection
from django.db.models import Count, Sum
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_copilot.access import EntityAccess
from django_copilot.exceptions import CallError
from django_copilot.reading.summary import Summed, run_summary
from django_copilot.reading.sums import MAX_GROUPS, Measure, Summary
from example_project.store.models import Customer, Order, Product, Tag
from tests.gate.calls import run, verdict

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


def ask(entity: EntityAccess, *measures: str, **asked: Any) -> Summed:
    made = tuple(Measure(op=op, field=name) for op, _, name in (each.partition(" ") for each in measures))
    return run_summary(entity, Summary(entity=entity.entity.label, measures=made, **asked))


def groups(summed: Summed) -> dict[Any, Any]:
    content, _ = summed.for_model()
    return {tuple(map(str, each["key"])): each["values"] for each in content["groups"]}


# -- counting -------------------------------------------------------------------------------------------


def test_a_count_is_of_the_persons_rows(entity: GetEntity) -> None:
    hers = Order.objects.filter(region="north", customer__vip=False)
    assert 0 < hers.count() < Order.objects.count()
    for who, rows in (("support", hers), ("manager", Order.objects.all())):
        content, sent = ask(entity(who, "order")).for_model()
        assert content == {"entity": "order", "count": rows.count(), "capped": False}
        assert sent == 1
        paid = ask(entity(who, "order"), filters={"status": "paid"}).for_model()[0]["count"]
        assert paid == rows.filter(status="paid").count()


def test_a_count_is_of_what_a_search_finds(entity: GetEntity) -> None:
    name = Customer.objects.order_by("pk")[0].name
    assert ask(entity("admin", "customer"), search=name).for_model()[0]["count"] == (
        Customer.objects.filter(name=name).count()
    )


def test_counting_stops_at_a_cap(entity: GetEntity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_copilot.reading.sums.COUNT_CAP", 10)
    content, _ = ask(entity("admin", "product")).for_model()
    assert (content["count"], content["capped"]) == (10, True)
    assert "more than 10" in content["note"]
    with CaptureQueriesContext(connection) as captured:
        ask(entity("admin", "product"))
    (count,) = [each["sql"] for each in captured if "COUNT(" in each["sql"]]
    assert "LIMIT 11" in count


def test_a_count_costs_one_query(entity: GetEntity) -> None:
    for who, name in (("manager", "product"), ("support", "order"), ("manager", "customer")):
        of = entity(who, name)
        ask(of)  # what is asked of the person's own rights is kept
        with CaptureQueriesContext(connection) as captured:
            ask(of, filters={"id": {"in": ["1", "2"]}})
        assert len([each for each in captured if "COUNT" in each["sql"]]) == 1
        assert len([each for each in captured if "statement_timeout" not in each["sql"]]) <= 3


# -- sums -----------------------------------------------------------------------------------------------


def test_sums_are_exact_and_money_keeps_its_places(entity: GetEntity) -> None:
    found = ask(entity("manager", "product"), "count", "sum price", "avg price", "min price", "max price")
    (values,) = groups(found).values()
    rows = Product.objects.aggregate(n=Count("pk"), s=Sum("price"))
    prices = sorted(Product.objects.values_list("price", flat=True))
    assert values[0] == rows["n"] == 40
    assert Decimal(values[1]) == sum(prices)
    assert values[1] == f"{sum(prices):.2f}"
    assert values[2] == format((sum(prices) / 40).quantize(Decimal("1.0000")), "f")
    assert [Decimal(values[3]), Decimal(values[4])] == [prices[0], prices[-1]]


def test_groups_by_a_choice_and_by_a_relation(entity: GetEntity) -> None:
    by_status = groups(ask(entity("manager", "product"), "count", "sum price", by=("status",)))
    for status, number, total in Product.objects.values_list("status").annotate(Count("pk"), Sum("price")):
        assert by_status.pop((status,)) == [number, f"{total:.2f}"]
    assert by_status == {}
    content, _ = ask(entity("manager", "product"), "count", by=("category",)).for_model()
    numbers = {each["key"][0]["label"]: each["values"][0] for each in content["groups"]}
    wanted = Product.objects.order_by().values_list("category__name").annotate(Count("pk"))
    assert numbers == dict(wanted)
    assert [each["values"][0] for each in content["groups"]] == sorted(numbers.values(), reverse=True)


def test_two_fields_make_groups_together(entity: GetEntity) -> None:
    found = ask(entity("manager", "order"), "count", by=("status", "region"))
    assert groups(found) == {
        (status, region): [number]
        for status, region, number in Order.objects.order_by()
        .values_list("status", "region")
        .annotate(Count("pk"))
    }


@pytest.mark.parametrize("every", ["day", "week", "month"])
def test_periods_are_in_the_persons_time_zone(entity: GetEntity, every: str) -> None:
    late = datetime.datetime(2026, 4, 30, 22, 30, tzinfo=datetime.UTC)  # which is May in Warsaw
    chosen = list(Order.objects.order_by("pk").values_list("pk", flat=True)[:2])
    Order.objects.filter(pk__in=chosen).update(placed_at=late)
    found = ask(
        entity("manager", "order"),
        "count",
        by=("placed_at",),
        every=every,
        filters={"id": {"in": [str(each) for each in chosen]}},
    )
    first = {"day": "2026-05-01", "week": "2026-04-27", "month": "2026-05-01"}[every]
    assert groups(found) == {(first,): [2]}
    table = found.for_person()
    assert table["chart"] == {"type": "line", "x": "placed_at", "y": ["=0"]}
    assert table["rows"] == [{"id": None, "url": None, "values": {"placed_at": first, "=0": 2}}]


def test_periods_come_in_their_order_and_the_latest_stay(entity: GetEntity) -> None:
    start = timezone.now()
    for place, pk in enumerate(Order.objects.order_by("pk").values_list("pk", flat=True)):
        Order.objects.filter(pk=pk).update(placed_at=start - datetime.timedelta(days=place))
    found = ask(entity("manager", "order"), "count", by=("placed_at",), every="day")
    keys = [key for (key,), _values in found.groups]
    assert keys == sorted(keys)
    assert (len(keys), found.more) == (MAX_GROUPS, True)
    assert keys[-1] == timezone.localdate(start).isoformat()


# -- the same, record by record ---------------------------------------------------------------------------

ASKED: list[dict[str, Any]] = [
    {},
    {"by": ("status",)},
    {"by": ("region", "status")},
    {"by": ("customer",)},
    {"by": ("placed_at",), "every": "month"},
    {"by": ("status", "placed_at"), "every": "week"},
    {"filters": {"status": {"in": ["paid", "shipped"]}}, "by": ("region",)},
]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: "-".join(map(str, asked.get("by", "-"))))
def test_both_ways_give_the_same(entity: GetEntity, bend: Bend, asked: dict[str, Any]) -> None:
    measures = ("count", "count customer", "min placed_at", "max placed_at")
    in_database = ask(entity("support", "order"), *measures, **asked)
    assert entity("support", "order").decides_in_database
    bend(Order, get_harness_rows=_not_given())
    one_by_one = entity("support", "order")
    assert not one_by_one.decides_in_database
    again = ask(one_by_one, *measures, **asked)

    def told(summed: Summed) -> list[str]:
        return sorted(json.dumps(each) for each in summed.for_model()[0]["groups"])

    assert told(again) == told(in_database)


@pytest.mark.parametrize("by", [(), ("status",), ("category",)], ids=str)
def test_both_ways_add_money_alike(entity: GetEntity, bend: Bend, by: tuple[str, ...]) -> None:
    measures = ("sum price", "avg price", "min price", "max cost_price", "count available_from")
    in_database = ask(entity("manager", "product"), *measures, by=by)
    allowed = lambda self, request, obj=None: True  # noqa: E731
    bend(Product, has_view_permission=allowed, has_change_permission=allowed)
    assert not entity("admin", "product").decides_in_database
    again = ask(entity("admin", "product"), *measures, by=by)
    assert sorted(map(str, again.groups)) == sorted(map(str, in_database.groups))


def _not_given() -> Any:
    from django_copilot.declaration import Declaration

    return Declaration.get_harness_rows


def test_records_that_may_not_be_seen_are_not_in_it(entity: GetEntity, bend: Bend) -> None:
    def may(self: Any, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.status != "draft"

    bend(Product, has_view_permission=may, has_change_permission=may)
    assert (
        ask(entity("admin", "product")).for_model()[0]["count"]
        == Product.objects.exclude(status="draft").count()
    )
    assert ("draft",) not in groups(ask(entity("admin", "product"), "count", by=("status",)))


def test_a_field_that_is_hidden_on_a_record_leaves_it_out(entity: GetEntity, bend: Bend) -> None:
    def fields(self: Any, request: Any, obj: Any = None) -> list[str]:
        hidden = obj is not None and obj.status == "archived"
        return [name for name in self.fields if not (hidden and name == "price")]

    bend(Product, get_fields=fields, list_display=["title", "status"])
    found = groups(ask(entity("admin", "product"), "sum price"))
    rest = Product.objects.exclude(status="archived").aggregate(total=Sum("price"))["total"]
    assert found == {(): [f"{rest:.2f}"]}
    counted = ask(entity("admin", "product"), filters={"price": {"gte": "0"}}).for_model()[0]["count"]
    assert counted == Product.objects.exclude(status="archived").count()


@override_settings(COPILOT={"SCAN_ROWS": 20})
def test_too_many_records_to_ask_for_are_refused_and_counts_are_capped(entity: GetEntity, bend: Bend) -> None:
    allowed = lambda self, request, obj=None: True  # noqa: E731
    bend(Product, has_view_permission=allowed, has_change_permission=allowed)
    with pytest.raises(CallError) as caught:
        ask(entity("admin", "product"), "sum price")
    assert caught.value.code == "too_many_records"
    content, _ = ask(entity("admin", "product")).for_model()
    assert (content["count"], content["capped"]) == (20, True)
    assert groups(ask(entity("admin", "product"), "count", filters={"id": "1"})) == {(): [1]}


def _joined(rows: Any) -> Any:
    return rows.filter(tags__pk__gte=0)


SHAPES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda rows: rows,
    "joined": _joined,
    "distinct": lambda rows: _joined(rows).distinct(),
    "annotated": lambda rows: rows.annotate(number=Count("tags")),
    "ordered": lambda rows: rows.order_by("tags__name"),
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["in the database", "one by one"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_counts_once_however_the_admin_joins(
    entity: GetEntity, bend: Bend, shape: str, one_by_one: bool
) -> None:
    tags = Tag.objects.order_by("pk")[:3]
    for product in Product.objects.all():
        product.tags.set(tags)
    model_admin = type(admin.site.get_model_admin(Product))
    plain = model_admin.get_queryset
    bend(
        Product,
        get_queryset=lambda self, request: SHAPES[shape](plain(self, request)),
        harness_list=["title", "status", "price", "tags"],
        harness_lookups={"tags": ["in"]},
    )
    if one_by_one:
        allowed = lambda self, request, obj=None: True  # noqa: E731
        bend(Product, has_view_permission=allowed, has_change_permission=allowed)
    of = entity("admin", "product")
    assert of.decides_in_database is not one_by_one
    for filters in ({}, {"tags": {"in": [str(each.pk) for each in tags]}}, {"tags": str(tags[0].pk)}):
        assert ask(of, filters=filters).for_model()[0]["count"] == 40
        total = Product.objects.aggregate(total=Sum("price"))["total"]
        assert groups(ask(of, "count", "sum price", filters=filters)) == {(): [40, f"{total:.2f}"]}
        by_status = groups(ask(of, "count", "sum price", by=("status",), filters=filters))
        assert by_status == {
            (status,): [number, f"{total:.2f}"]
            for status, number, total in Product.objects.order_by()
            .values_list("status")
            .annotate(Count("pk"), Sum("price"))
        }


@pytest.mark.django_db
def test_numbers_that_are_too_large_to_add_are_refused(
    entity: GetEntity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **kwargs: Any) -> Any:
        raise OperationalError("integer overflow")

    monkeypatch.setattr("django.db.models.query.QuerySet.aggregate", fails)
    with pytest.raises(CallError) as caught:
        ask(entity("admin", "product"), "sum price")
    assert caught.value.code == "not_available"


def test_rows_that_the_project_says_are_hers_are_taken_at_its_word_and_a_failure_is_none(
    entity: GetEntity, bend: Bend
) -> None:
    def fails(self: Any, request: Any, rows: Any) -> Any:
        raise LookupError

    bend(Order, get_harness_rows=fails)
    assert ask(entity("support", "order")).for_model()[0]["count"] == 0


# -- what can't be asked ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"measures": []}, "invalid_value"),
        ({"measures": [{"op": "sum"}]}, "invalid_value"),
        ({"measures": [{"op": "sum", "field": "title"}]}, "invalid_value"),
        ({"measures": [{"op": "sum", "field": "status"}]}, "invalid_value"),
        ({"measures": [{"op": "sum", "field": "category"}]}, "invalid_value"),
        ({"measures": [{"op": "avg", "field": "available_from"}]}, "invalid_value"),
        ({"measures": [{"op": "max", "field": "title"}]}, "invalid_value"),
        ({"measures": [{"op": "median", "field": "price"}]}, "invalid_value"),
        ({"measures": [{"op": "sum", "field": "price", "where": 1}]}, "invalid_value"),
        ({"measures": ["count"]}, "invalid_value"),
        ({"measures": [{"op": "count"}] * 6}, "invalid_value"),
        ({"measures": [{"op": "sum", "field": "attributes"}]}, "unknown_field"),
        ({"measures": [{"op": "sum", "field": "supplier"}]}, "unknown_field"),
        ({"measures": [{"op": ["count"]}]}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": ["nope"]}, "unknown_field"),
        ({"measures": [{"op": "count"}], "by": ["tags"]}, "unknown_field"),
        ({"measures": [{"op": "count"}], "by": ["category__name"]}, "unknown_field"),
        ({"measures": [{"op": "count"}], "by": ["status", "status"]}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": ["status", "category", "sku"]}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": ["available_from"]}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": ["status"], "every": "day"}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": ["available_from"], "every": "hour"}, "invalid_value"),
        ({"measures": [{"op": "count"}], "by": [1]}, "invalid_argument"),
        ({"measures": {"op": "count"}}, "invalid_argument"),
    ],
    ids=lambda given: str(given)[:70],
)
def test_what_can_not_be_summed_goes_back_to_the_model(store: Any, args: dict[str, Any], code: str) -> None:
    assert verdict(run("admin", "summarise_product", args)) == code


def test_a_hidden_field_is_an_unknown_one(store: Any) -> None:
    args = {"measures": [{"op": "sum", "field": "cost_price"}]}
    assert verdict(run("support", "summarise_product", args)) == "unknown_field"
    assert "groups" in str(run("manager", "summarise_product", args))
    for name in ("email", "phone"):  # shown to her, and not to be counted by the model
        args = {"measures": [{"op": "count", "field": name}], "by": [name]}
        assert verdict(run("admin", "summarise_customer", args)) == "unknown_field"


def test_the_table_of_a_summary_has_labels_and_a_chart(entity: GetEntity) -> None:
    found = ask(
        entity("manager", "product"), "count", "sum price", by=("status",), filters={"price": {"gte": "1"}}
    )
    table = found.for_person()
    assert [each["label"] for each in table["columns"]] == ["Status", "Number", "Price: sum"]
    assert table["columns"][0]["choices"]["active"] == "Active"
    assert table["chart"] == {"type": "bar", "x": "status", "y": ["=0", "=1"]}
    assert table["asked"] == ["Price: at least 1"]
    assert {each[0] for each in found.texts()} == {"Active", "Draft", "Archived"}
    again = run_summary(
        entity("manager", "product"), Summary.from_json(json.loads(json.dumps(found.summary.to_json())))
    )
    assert again.groups == found.groups


def test_a_count_that_was_stopped_says_so_to_the_person(
    entity: GetEntity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_copilot.reading.sums.COUNT_CAP", 10)
    stopped = ask(entity("admin", "product"))
    assert stopped.for_person()["rows"][0]["values"] == {"=0": "over 10"}
    assert stopped.texts() == [["over 10"]]
    assert stopped.for_model()[0]["count"] == 10


def test_periods_without_a_date_come_first_in_every_database(entity: GetEntity) -> None:
    """They are the oldest, so they are the first to be left out."""
    some = list(Product.objects.order_by("pk").values_list("pk", flat=True)[:3])
    Product.objects.exclude(pk__in=some).update(available_from=timezone.now())
    Product.objects.filter(pk__in=some).update(available_from=None)
    found = ask(entity("manager", "product"), "count", by=("available_from",), every="month")
    assert found.groups[0] == ((None,), (3,))
    assert found.texts()[0] == ["", "3"]
    assert found.texts()[1][0].startswith(f"{timezone.localdate():%b}"[:3])
