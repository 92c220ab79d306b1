"""The example data: the same everywhere, never doubled, and good for what it is needed for."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import timedelta
from itertools import pairwise

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Count, F, Sum
from django.test import override_settings

from example_project.store import data, progress
from example_project.store.models import (
    Category,
    Customer,
    Order,
    OrderLine,
    Payment,
    Product,
    Refund,
    Region,
    Supplier,
    Tag,
)

MODELS = (Category, Tag, Supplier, Product, Customer, Order, OrderLine, Payment, Refund)


def digest(*, but: tuple[str, ...] = ()) -> str:
    rows = []
    for model in MODELS:
        names = [field.name for field in model._meta.fields if field.name not in but]
        rows.append(list(model.objects.order_by("pk").values_list(*names)))
    rows.append(sorted(Product.tags.through.objects.values_list("product_id", "tag_id")))
    return hashlib.sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()


def empty() -> None:
    for model in reversed(MODELS):
        model.objects.all().delete()


@pytest.mark.django_db
def test_two_runs_on_an_empty_database_give_the_same_data() -> None:
    data.create_data(products=25, orders=120)
    first = digest(but=("id", "order", "payment"))
    keys = digest()
    empty()
    data.create_data(products=25, orders=120)
    assert digest(but=("id", "order", "payment")) == first
    # Everything but the lines gets its key from the generator, so on a new database keys are equal too.
    assert {order.pk for order in Order.objects.all()} == set(range(1, 121))
    empty()
    data.create_data(products=25, orders=120, seed=7)
    assert digest() != keys


@pytest.mark.django_db
def test_a_second_run_adds_nothing_and_a_greater_one_what_is_missing() -> None:
    assert data.create_data(products=12, orders=60) == data.Made(products=12, customers=20, orders=60)
    before = digest()
    assert data.create_data(products=12, orders=60) == data.Made(products=0, customers=0, orders=0)
    assert digest() == before
    assert data.create_data(products=15, orders=150) == data.Made(products=3, customers=10, orders=90)
    assert (Product.objects.count(), Customer.objects.count(), Order.objects.count()) == (15, 30, 150)
    assert Tag.objects.count() == len(data.TAGS)


@pytest.mark.django_db
def test_a_run_that_was_broken_off_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_BATCH", 25)
    create_orders, batches = data._create_orders, []

    def break_off(numbers: range, **given: object) -> None:
        if len(batches) == 2:
            raise KeyboardInterrupt
        batches.append(numbers)
        create_orders(numbers, **given)

    monkeypatch.setattr(data, "_create_orders", break_off)
    with pytest.raises(KeyboardInterrupt):
        data.create_data(products=12, orders=80)
    assert Order.objects.count() == 50
    monkeypatch.setattr(data, "_create_orders", create_orders)
    data.create_data(products=12, orders=80)
    broken_off = digest(but=("id", "order", "payment"))
    empty()
    monkeypatch.setattr(data, "_BATCH", 2_000)
    data.create_data(products=12, orders=80)
    assert digest(but=("id", "order", "payment")) == broken_off


@pytest.mark.django_db
def test_what_a_person_added_or_deleted_is_left_alone() -> None:
    data.create_data(products=12, orders=30)
    customer = Customer.objects.get(pk=3)
    own = Order.objects.create(customer=customer, region=Region.SOUTH)
    assert own.number == "SO-0000031"
    Order.objects.filter(pk=30).first().lines.all().delete()
    data.create_data(products=12, orders=35)
    assert Order.objects.count() == 35
    own.refresh_from_db()
    assert own.region == Region.SOUTH
    assert Product.objects.create(title="Own", price=1).sku.startswith("P-")


@pytest.mark.django_db
def test_the_default_store_has_what_the_demo_shows() -> None:
    data.create_data()
    assert (Product.objects.count(), Order.objects.count()) == (200, 2_000)
    assert set(Order.objects.values_list("region", flat=True)) == {"north", "south"}
    assert set(Order.objects.values_list("status", flat=True)) == set(Order.Status.values)
    assert Order.objects.filter(region="north", customer__vip=True).exists()
    for_refund = (
        Payment.objects.filter(order__region="north", order__customer__vip=False, amount_cents__gt=12_000)
        .annotate(payments=Count("order__payments"), refunds_made=Count("refunds"))
        .filter(payments=1, refunds_made=0)
    )
    assert for_refund.filter(order__number="SO-0000001").exists()
    assert Product.objects.filter(order_lines=None).exists()
    assert Product.objects.exclude(order_lines=None).exists()
    assert not Product.objects.filter(status="draft").exclude(order_lines=None).exists()
    assert Customer.objects.filter(city="Gdańsk").exists()
    assert not Customer.objects.filter(api_token="").exists()
    assert Customer.objects.exclude(internal_note="").exists()
    assert not Product.objects.filter(cost_price__gte=F("price")).exists()
    assert Product.objects.values("sku").distinct().count() == 200


@pytest.mark.django_db
def test_orders_follow_each_other_and_payments_their_lines() -> None:
    data.create_data(products=20, orders=200)
    placed = list(Order.objects.order_by("number").values_list("placed_at", flat=True))
    assert all(earlier <= later for earlier, later in pairwise(placed))
    assert data.NEWEST - timedelta(days=data.DAYS) <= placed[0] < placed[-1] <= data.NEWEST
    assert [order.number for order in Order.objects.all()[:2]] == ["SO-0000200", "SO-0000199"]
    for payment in Payment.objects.select_related("order").prefetch_related("order__lines", "refunds"):
        cents = sum(line.unit_price * 100 * line.quantity for line in payment.order.lines.all())
        assert payment.amount_cents == cents
        assert sum(refund.amount_cents for refund in payment.refunds.all()) <= payment.amount_cents
    assert not Payment.objects.filter(order__status="pending").exists()
    assert Refund.objects.aggregate(total=Sum("amount_cents"))["total"] > 0


@pytest.mark.django_db
def test_batches_hold_a_constant_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_BATCH", 10)
    sizes: list[int] = []
    create_orders = data._create_orders
    monkeypatch.setattr(
        data,
        "_create_orders",
        lambda numbers, **given: (sizes.append(len(numbers)), create_orders(numbers, **given)),
    )
    data.create_data(products=10, orders=45)
    assert sizes == [10, 10, 10, 10, 5]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_bar_moves_and_ends_its_line() -> None:
    terminal = Terminal()
    bar = progress.Progress("orders", 4, stream=terminal, width=4)
    for _step in range(4):
        bar.advance(1)
    shown = terminal.getvalue()
    assert "[#...] 1/4" in shown
    assert shown.count("\r") == 4
    assert "[####] 4/4" in shown
    assert shown.endswith("\n")

    pipe = io.StringIO()
    bar = progress.Progress("orders", 1_000, stream=pipe)
    for _step in range(1_000):
        bar.advance(1)
    assert len(pipe.getvalue().splitlines()) == 11
    assert "\r" not in pipe.getvalue()


@pytest.mark.django_db
def test_the_demo_command_fills_tells_and_doubles_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    call_command("demo", setup_only=True, products=10, orders=20, port=8123, stdout=out)
    text = out.getvalue()
    assert "http://127.0.0.1:8123/admin/" in text
    assert "7 accounts, 10 products, 20 customers and 20 orders" in text
    for username in ("admin", "manager", "manager2", "support", "viewer", "auditor", "bot"):
        assert f"\n  {username} " in text
    assert "Password:  copilot" in text
    assert "orders" in capfd.readouterr().err
    before = digest()
    out = io.StringIO()
    call_command("demo", setup_only=True, products=10, orders=20, stdout=out)
    assert "Nothing was added" in out.getvalue()
    assert digest() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 0}, "--port"),
        ({"port": 70_000}, "--port"),
        ({"orders": -1}, "--orders"),
        ({"orders": 10_000_000}, "--orders"),
        ({"products": 0}, "Orders need products"),
    ],
)
def test_the_demo_command_refuses_options_that_make_no_sense(options: dict[str, int], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("demo", setup_only=True, **options)
    assert not Order.objects.exists()


@pytest.mark.django_db
@override_settings(STORE_DEMO=False)
def test_the_demo_command_makes_no_public_accounts_in_production() -> None:
    with pytest.raises(CommandError, match="public password"):
        call_command("demo", setup_only=True)


@pytest.mark.django_db
def test_the_demo_command_says_that_a_port_is_taken() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CommandError, match="Choose another one"):
            call_command("demo", port=taken.getsockname()[1])


@pytest.mark.django_db
def test_keys_go_on_after_the_generated_ones() -> None:
    data.create_data(products=10, orders=20)
    last = Product.objects.order_by("-pk").first().pk
    assert Product.objects.create(title="Next", price=2).pk > last
    assert connection.vendor  # on PostgreSQL this is what moving the sequences on is for
