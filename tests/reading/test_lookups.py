"""Filters beyond exact ones: what each gives, on which fields, and the errors that a model can mend."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from django_copilot.access import EntityAccess
from django_copilot.exceptions import CallError
from django_copilot.reading import Query, run_query
from example_project.store.models import Category, Customer, Order, Product
from tests.access.conftest import pks, read
from tests.gate.calls import run, verdict

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


def keys(entity: EntityAccess, **filters: Any) -> set[Any]:
    return set(pks(read(entity, limit=50, **filters)))


def local(day: int, *clock: int) -> datetime.datetime:
    return timezone.make_aware(datetime.datetime(2026, 5, day, *(clock or (0,))))  # noqa: DTZ001


@pytest.fixture
def may(store: Any) -> list[int]:
    """Put four orders around the first days of May, all others long before. Returns their keys, in time."""
    Order.objects.update(placed_at=timezone.make_aware(datetime.datetime(2020, 1, 1)))  # noqa: DTZ001
    chosen = list(Order.objects.order_by("pk")[:4])
    moments = (local(1), local(1, 23, 59), local(2), local(3, 12))
    for order, moment in zip(chosen, moments, strict=True):
        Order.objects.filter(pk=order.pk).update(placed_at=moment)
    return [order.pk for order in chosen]


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"gte": "2026-05-01"}, [0, 1, 2, 3]),
        ({"gt": "2026-05-01"}, [2, 3]),  # after that day
        ({"lte": "2026-05-01", "gte": "2026-01-01"}, [0, 1]),  # that day included
        ({"lt": "2026-05-02", "gte": "2026-01-01"}, [0, 1]),
        ({"gte": "2026-05-01T12:00:00"}, [1, 2, 3]),
        ({"gt": "2026-05-02T00:00:00"}, [3]),
        ({"gte": "2026-05-02", "lte": "2026-05-03"}, [2, 3]),
        ("2026-05-01", [0, 1]),  # a day, where ranges are allowed, is the whole day
        ("2026-05", [0, 1, 2, 3]),
        ("may 2026", [0, 1, 2, 3]),
        ("2026-05-02T00:00:00", [2]),
    ],
)
def test_a_day_in_a_range_is_the_whole_day(
    entity: GetEntity, may: list[int], given: Any, places: list[int]
) -> None:
    assert keys(entity("admin", "order"), placed_at=given) == {may[place] for place in places}


@pytest.mark.parametrize("place", [0, 1])
def test_hours_are_hours_where_a_clock_jumps(
    entity: GetEntity, monkeypatch: pytest.MonkeyPatch, store: Any, place: int
) -> None:
    """In Warsaw the clock jumps at 01:00 UTC on the last Sundays of March and of October."""
    now = (
        datetime.datetime(2026, 3, 29, 1, 30, tzinfo=datetime.UTC),
        datetime.datetime(2026, 10, 25, 1, 30, tzinfo=datetime.UTC),
    )[place]
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    first, second = Order.objects.order_by("pk")[:2]
    Order.objects.update(placed_at=now - datetime.timedelta(days=9))
    Order.objects.filter(pk=first.pk).update(placed_at=now - datetime.timedelta(minutes=59))
    Order.objects.filter(pk=second.pk).update(placed_at=now - datetime.timedelta(minutes=61))
    assert keys(entity("admin", "order"), placed_at="last 1 hours") == {first.pk}
    assert keys(entity("admin", "order"), placed_at={"gte": "1 hour ago"}) == {first.pk}
    assert keys(entity("admin", "order"), placed_at="last 2 hours") == {first.pk, second.pk}


def test_a_day_is_the_whole_day_among_several_too(entity: GetEntity, may: list[int], bend: Bend) -> None:
    bend(Order, harness_lookups={"placed_at": ["in"]})
    found = keys(entity("admin", "order"), placed_at={"in": ["2026-05-01", "2026-05-02T00:00:00"]})
    assert found == {may[0], may[1], may[2]}


def test_words_are_worked_out_in_the_persons_time_zone_and_told(entity: GetEntity, store: Any) -> None:
    now = timezone.localtime()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first, second = Order.objects.order_by("pk")[:2]
    Order.objects.exclude(pk__in=[first.pk, second.pk]).update(placed_at=today - datetime.timedelta(days=400))
    Order.objects.filter(pk=first.pk).update(placed_at=today)
    Order.objects.filter(pk=second.pk).update(placed_at=today - datetime.timedelta(seconds=1))
    rows = read(entity("admin", "order"), placed_at="today")
    assert pks(rows) == [first.pk]
    tomorrow = (today + datetime.timedelta(days=1)).replace(tzinfo=None)
    tomorrow = timezone.make_aware(tomorrow)
    worked_out = {"placed_at": {"gte": today.isoformat(), "lt": tomorrow.isoformat()}}
    assert rows.for_model()[0]["filters"] == rows.query.filters == worked_out
    (asked,) = rows.asked
    assert asked.startswith("Placed at: ")
    # What is stored stays what it was, on any later day.
    again = run_query(entity("admin", "order"), Query.from_json(rows.query.to_json()))
    assert pks(again) == [first.pk]
    assert pks(read(entity("admin", "order"), placed_at={"lt": "today", "gte": "yesterday"})) == [second.pk]


def test_plain_filters_are_not_said_again(entity: GetEntity) -> None:
    rows = read(entity("admin", "order"), status="paid")
    assert "filters" not in rows.for_model()[0]
    assert rows.asked == ("Status: Paid",)


def test_one_of_several_values(entity: GetEntity) -> None:
    wanted = Order.objects.filter(status__in=["paid", "shipped"])
    found = keys(entity("admin", "order"), status={"in": ["paid", "shipped"]})
    assert len(found) == min(50, wanted.count())
    assert found <= set(wanted.values_list("pk", flat=True))
    category, other = Category.objects.order_by("pk")[:2]
    products = Product.objects.filter(category__in=[category, other])
    assert keys(entity("admin", "product"), category={"in": [str(category.pk), str(other.pk)]}) == set(
        products.values_list("pk", flat=True)[:50]
    )
    some = [str(pk) for pk in Product.objects.values_list("pk", flat=True)[:3]]
    assert keys(entity("admin", "product"), id={"in": some}) == {int(each) for each in some}


def test_empty_and_not_empty(entity: GetEntity, bend: Bend) -> None:
    first = Product.objects.order_by("pk")[0]
    Product.objects.filter(pk=first.pk).update(category=None)
    assert keys(entity("admin", "product"), category={"isnull": True}) == {first.pk}
    assert first.pk not in keys(entity("admin", "product"), category={"isnull": False})
    bend(Customer, harness_lookups={"city": ["isnull"]})
    empty = Customer.objects.order_by("pk")[0]
    Customer.objects.filter(pk=empty.pk).update(city="")
    assert keys(entity("admin", "customer"), city={"isnull": True}) == {empty.pk}
    assert empty.pk not in keys(entity("admin", "customer"), city={"isnull": False})


def test_numbers_have_ranges(entity: GetEntity) -> None:
    wanted = Product.objects.filter(price__gte="20", price__lt="100")
    assert wanted.exists()
    assert keys(entity("admin", "product"), price={"gte": "20", "lt": "100"}) == set(
        wanted.values_list("pk", flat=True)
    )


@pytest.mark.parametrize(
    ("tool", "filters", "code"),
    [
        ("order", {"placed_at": {"contains": "2026"}}, "unknown_lookup"),
        ("order", {"placed_at": {}}, "unknown_lookup"),
        ("order", {"placed_at": {"in": ["2026-01-01"]}}, "unknown_lookup"),
        ("order", {"placed_at": {"gte": "2026-05-02", "lt": "2026-05-01"}}, "invalid_value"),
        ("order", {"placed_at": {"gte": "2026-05-02", "lte": "2026-05-01"}}, "invalid_value"),
        ("order", {"placed_at": {"gte": "today", "lte": "yesterday"}}, "invalid_value"),
        ("order", {"placed_at": {"gte": "2026-02-30"}}, "invalid_value"),
        ("order", {"placed_at": "2026-02-30"}, "invalid_value"),
        ("order", {"placed_at": {"gte": "9999"}}, "invalid_value"),
        ("order", {"placed_at": {"gte": "last 99999 years"}}, "invalid_value"),
        ("order", {"placed_at": {"gte": None}}, "invalid_value"),
        ("order", {"placed_at": {"gte": ["2026-01-01"]}}, "invalid_value"),
        ("order", {"placed_at": {"gte": "2026-01-01", "gt": "2026-01-01"}}, "invalid_value"),
        ("order", {"status": {"gte": "paid"}}, "unknown_lookup"),
        ("order", {"status": {"in": []}}, "invalid_value"),
        ("order", {"status": {"in": "paid"}}, "invalid_value"),
        ("order", {"status": {"in": ["Paid"]}}, "invalid_value"),
        ("order", {"status": {"in": [None]}}, "invalid_value"),
        ("order", {"status": {"in": ["paid"] * 101}}, "invalid_value"),
        ("order", {"status": {"in": ["paid"] * 10_000}}, "invalid_arguments"),
        ("order", {"status": {"in": [{"in": ["paid"]}]}}, "invalid_value"),
        ("order", {"status": {"isnull": "yes"}}, "invalid_value"),
        ("order", {"status": {"in": ["paid"], "isnull": True}}, "invalid_value"),
        ("order", {"number": {"in": ["SO-0000001"]}}, "invalid_value"),
        ("order", {"customer": {"in": ["1"]}}, "invalid_id"),
        ("order", {"id": {"gte": "1"}}, "invalid_id"),
        ("order", {"id": {"in": ["x"]}}, "invalid_id"),
        ("order", {"status__in": ["paid"]}, "unknown_field"),
        ("order", {"customer__name": "x"}, "unknown_field"),
        ("product", {"price": {"gte": "a lot"}}, "invalid_value"),
        ("product", {"price": {"gte": True}}, "invalid_value"),
        ("product", {"title": {"gte": "a"}}, "invalid_value"),
        ("customer", {"email": "a@b.example"}, "needs_handle"),
        ("customer", {"email": {"in": ["a@b.example"]}}, "needs_handle"),
        ("customer", {"phone": None}, "needs_handle"),
        ("category", {"id": {"in": ["1"]}}, "invalid_id"),
        ("category", {"name": {"in": ["a"]}}, "invalid_value"),
    ],
    ids=lambda given: str(given)[:60],
)
def test_what_can_not_be_asked_goes_back_to_the_model(
    store: Any, tool: str, filters: dict[str, Any], code: str
) -> None:
    for name in (f"query_{tool}", *([f"count_{tool}"] if tool != "category" else [])):
        outcome = run("admin", name, {"filters": filters})
        assert verdict(outcome) == code, outcome


def test_lookups_are_those_of_the_declaration(entity: GetEntity, bend: Bend) -> None:
    of = entity("admin", "order")
    assert of.lookups == {
        "status": {"in", "isnull"},
        "region": {"in", "isnull"},
        "placed_at": {"range"},
    }
    bend(
        Order,
        harness_from_admin=False,
        harness_lookups={"placed_at": ["range", "nope"], "shipping_name": ["in"]},
    )
    # Not readable, or no lookup that there is: not there.
    assert entity("manager", "order").lookups == {"placed_at": {"range"}}
    bend(Product, harness_lookups={"cost_price": ["range"], "attributes": ["in"], "photo": ["in"]})
    assert entity("manager", "product").lookups == {"cost_price": {"range"}}
    assert entity("support", "product").lookups == {}


def test_a_filter_on_what_is_hidden_on_a_row_drops_the_row(entity: GetEntity, bend: Bend) -> None:
    def fields(self: Any, request: Any, obj: Any = None) -> list[str]:
        hidden = obj is not None and obj.status == "archived"
        return [name for name in self.fields if not (hidden and name == "price")]

    bend(Product, get_fields=fields, list_display=["title"])
    archived = Product.objects.filter(status="archived")
    assert archived.exists()
    found = keys(entity("admin", "product"), price={"gte": "0"})
    assert found
    assert not found & set(archived.values_list("pk", flat=True))


def test_an_error_names_only_what_may_be_read(store: Any) -> None:
    for args in (
        {"filters": {"nope": {"in": ["x"]}}},
        {"filters": {"cost_price": {"gte": "1"}}},
        {"order_by": ["cost_price"]},
        {"order_by": ["nope"]},
    ):
        outcome = run("support", "query_product", args)
        text = str(outcome)
        assert verdict(outcome) in ("unknown_field", "not_orderable")
        for name in ("supplier", "attributes", "photo", "tags"):
            assert name not in text
        assert ("cost_price" in text) is ("cost_price" in str(args))


def test_a_wrong_filter_is_an_exception_of_one_kind(entity: GetEntity) -> None:
    with pytest.raises(CallError):
        read(entity("admin", "order"), placed_at={"gte": object()})


def test_what_was_asked_is_said_in_words(entity: GetEntity) -> None:
    def said(name: str, **filters: Any) -> tuple[str, ...]:
        return read(entity("admin", name), **filters).asked

    assert said("order", placed_at="2026-05") == ("Placed at: May 1, 2026 to May 31, 2026",)
    assert said("order", placed_at="2026-05-03") == ("Placed at: May 3, 2026",)
    assert said("order", placed_at={"gte": "2026-05-03"}) == ("Placed at: from May 3, 2026",)
    assert said("order", placed_at={"lt": "2026-05-03T12:30:00"}) == (
        "Placed at: before May 3, 2026, 12:30 p.m.",
    )
    assert said("order", status={"in": ["paid", "shipped"]}) == ("Status: Paid, Shipped",)
    assert said("order", customer="1", id="2") == ("Customer: 1", "ID: 2")
    assert said("product", price={"gte": "10", "lt": "20.50"}) == ("Price: at least 10, less than 20.50",)
    assert said("product", category={"isnull": True}) == ("Category: is empty",)
    assert said("product", category=None, available_from={"isnull": False}) == (
        "Category: is empty",
        "Available from: is not empty",
    )
