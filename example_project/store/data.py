"""The store's example data: drawn, but the same on every machine.

Each row is drawn with a random source of its own, made of the seed, the kind of row and its number. So the
same numbers on an empty database always give the same data, a run that was broken off goes on where it
stopped, and a later run with greater numbers adds what is missing.

Orders are placed within the ``DAYS`` days before ``NEWEST``, in the order of their numbers. Keys are given
here and not by the database, so that they are the same everywhere. Rows are made in batches, each in a
transaction of its own, so memory does not grow with their number.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.models import Max, Model

from .models import Category, Customer, Order, OrderLine, Payment, Product, Refund, Region, Supplier, Tag
from .progress import Progress
from .vocabulary import (
    CATEGORIES,
    COLOURS,
    COUNTRIES,
    MATERIALS,
    NORTHERN_CITIES,
    NOTES,
    REFUND_REASONS,
    SUPPLIERS,
    TAGS,
    Country,
)

SEED = 2026
NEWEST = datetime(2026, 11, 29, 20, tzinfo=UTC)  # no order is placed later
DAYS = 90
PRODUCTS = 200
ORDERS = 2_000

_BATCH = 2_000
_DRAFT_EVERY = 10  # every tenth product is a draft, and drafts are never ordered
_PER_CUSTOMER = 5  # orders
_STATUSES = (
    (Order.Status.PENDING, 15),
    (Order.Status.PAID, 30),
    (Order.Status.SHIPPED, 45),
)  # rest cancelled


@dataclass(frozen=True, kw_only=True)
class Made:
    """How many rows a run made."""

    products: int
    customers: int
    orders: int


def create_data(
    *, products: int = PRODUCTS, orders: int = ORDERS, seed: int = SEED, show: bool = False
) -> Made:
    """Fill the store up to that many products and orders, and return what was missing and made.

    Rows that are there are left alone. With ``show`` a progress bar goes to stderr.
    """
    with transaction.atomic():
        _create_words()
        _reset_sequences(Category, Tag, Supplier)
    made = Made(
        products=_fill(Product, products, lambda numbers: _create_products(numbers, seed), show=show),
        customers=_fill(
            Customer, _customers_for(orders), lambda numbers: _create_customers(numbers, seed), show=show
        ),
        orders=_fill(Order, orders, _orders_writer(orders, seed), show=show),
    )
    _reset_sequences(Product, Customer, Order, OrderLine, Payment, Refund)
    return made


def _customers_for(orders: int) -> int:
    return max(20, orders // _PER_CUSTOMER) if orders else 0


def _fill(model: type[Model], wanted: int, create: Callable[[range], None], *, show: bool) -> int:
    first = _last_number(model, wanted) + 1
    missing = max(0, wanted - first + 1)
    progress = Progress(model._meta.db_table.removeprefix("store_") + "s", missing) if show else None
    for start in range(first, wanted + 1, _BATCH):
        numbers = range(start, min(start + _BATCH, wanted + 1))
        with transaction.atomic():
            create(numbers)
        if progress:
            progress.advance(len(numbers))
    return missing


def _last_number(model: type[Model], wanted: int) -> int:
    last = model._default_manager.aggregate(last=Max("pk"))["last"] or 0
    if model is Order:
        # A person's own orders may have taken numbers that are ahead of the keys.
        taken = Order.objects.filter(number__lte=_order_number(wanted)).aggregate(last=Max("number"))["last"]
        last = max(last, int(taken[3:]) if taken else 0)
    return last


def _order_number(number: int) -> str:
    return f"SO-{number:07d}"


def _next_key(model: type[Model]) -> int:
    return (model._default_manager.aggregate(last=Max("pk"))["last"] or 0) + 1


def _reset_sequences(*models: type[Model]) -> None:
    # Keys given by hand don't move the sequence of a PostgreSQL table on.
    with connection.cursor() as cursor:
        for sql in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(sql)


def _insert(rows: Sequence[Model]) -> None:
    """Write rows as bulk_create would, in half its time: it is what a million orders wait for."""
    if not rows:
        return
    meta, quote = rows[0]._meta, connection.ops.quote_name
    fields = [field for field in meta.concrete_fields if getattr(rows[0], field.attname) is not None]
    columns = ", ".join(quote(field.column) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {quote(meta.db_table)} ({columns}) VALUES ({marks})",  # noqa: S608
            [
                [
                    # Numbers and texts go as they are; times and decimals as this database wants them.
                    value
                    if type(value := getattr(row, field.attname)) in (int, str)
                    else field.get_db_prep_save(value, connection)
                    for field in fields
                ]
                for row in rows
            ],
        )


def _draw(seed: int, kind: str, number: int) -> random.Random:
    return random.Random(f"{seed}/{kind}/{number}")


def _digits(rng: random.Random, pattern: str) -> str:
    return "".join(str(rng.randrange(10)) if sign == "#" else sign for sign in pattern)


def _plain(text: str) -> str:
    text = text.lower().translate(str.maketrans({"ł": "l", "ß": "ss", "đ": "d", " ": "-"}))
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _create_words() -> None:
    if not Category.objects.exists():
        Category.objects.bulk_create(
            Category(pk=number, name=each.category, slug=_plain(each.category))
            for number, each in enumerate(CATEGORIES, 1)
        )
    if not Tag.objects.exists():
        Tag.objects.bulk_create(
            Tag(pk=number, name=name, slug=_plain(name)) for number, name in enumerate(TAGS, 1)
        )
    if not Supplier.objects.exists():
        Supplier.objects.bulk_create(
            Supplier(pk=number, name=name, country=country, contact_email=f"sales@{_plain(name)}.example")
            for number, (name, country) in enumerate(SUPPLIERS, 1)
        )


def _create_products(numbers: range, seed: int) -> None:
    categories = dict(Category.objects.values_list("slug", "pk"))
    suppliers = list(Supplier.objects.order_by("pk").values_list("pk", flat=True))
    tags = list(Tag.objects.order_by("pk").values_list("pk", flat=True))
    products: list[Product] = []
    links: list[Any] = []
    for number in numbers:
        rng = _draw(seed, "product", number)
        things = CATEGORIES[number % len(CATEGORIES)]
        material, colour = rng.choice(MATERIALS), rng.choice(COLOURS)
        noun = rng.choice(things.nouns)
        title = f"{material} {noun}, {colour}"
        if rng.random() < 0.3:
            title += f", no. {number}"
        price = Decimal(rng.randint(things.lowest * 100, things.highest * 100) // 10 * 10 + 9) / 100
        if number % _DRAFT_EVERY == 0:
            status = Product.Status.DRAFT
            available = NEWEST.replace(hour=8) + timedelta(days=rng.randint(5, 60))
        else:
            archived = number > 1 and rng.random() < 0.08
            status = Product.Status.ARCHIVED if archived else Product.Status.ACTIVE
            available = NEWEST.replace(hour=8) - timedelta(days=rng.randint(DAYS, 900))
        attributes: dict[str, Any] = {"material": material.lower(), "colour": colour}
        if rng.random() < 0.6:
            attributes["weight_kg"] = rng.randint(2, 240) / 10
        products.append(
            Product(
                pk=number,
                title=title,
                sku=f"{things.code}-{number:05d}",
                status=status,
                price=price,
                cost_price=(price * rng.randint(38, 71) / 100).quantize(Decimal("0.01")),
                category_id=categories.get(_plain(things.category)),
                supplier_id=rng.choice(suppliers) if suppliers else None,
                available_from=available if rng.random() < 0.8 else None,
                attributes=attributes,
            )
        )
        links += [
            Product.tags.through(product_id=number, tag_id=tag)
            for tag in rng.sample(tags, min(len(tags), rng.randrange(4)))
        ]
    Product.objects.bulk_create(products)
    Product.tags.through.objects.bulk_create(links)


def _create_customers(numbers: Iterable[int], seed: int) -> None:
    Customer.objects.bulk_create(_customer(number, seed) for number in numbers)


def _customer(number: int, seed: int) -> Customer:
    rng = _draw(seed, "customer", number)
    # The first one lives in the north and is no VIP, so that the first order is one for support staff.
    country: Country = (
        COUNTRIES[0] if number == 1 else rng.choices(COUNTRIES, weights=[each.share for each in COUNTRIES])[0]
    )
    woman = rng.random() < 0.5
    first = rng.choice(country.women if woman else country.men)
    last = rng.choice(country.women_surnames if woman else country.men_surnames)
    city = country.cities[0] if number == 1 else rng.choice(country.cities)
    return Customer(
        pk=number,
        name=f"{first} {last}",
        email=f"{_plain(first)}.{_plain(last)}{number}@mail.example",
        phone=_digits(rng, country.phone),
        street=rng.choice(country.streets).format(rng.randint(1, 140)),
        postal_code=_digits(rng, city.postal),
        city=city.name,
        country=country.name,
        vip=number > 1 and rng.random() < 0.08,
        internal_note=rng.choice(NOTES) + "." if rng.random() < 0.25 else "",
        api_token=f"tok_{rng.getrandbits(128):032x}",
    )


def _orders_writer(total: int, seed: int) -> Callable[[range], None]:
    """Return what makes a batch of orders, with their lines, payments and refunds."""
    customers: list[int] = []
    goods: list[tuple[int, Decimal]] = []

    def create(numbers: range) -> None:
        if not customers:
            customers.extend(Customer.objects.order_by("pk").values_list("pk", flat=True))
            sold = Product.objects.exclude(status=Product.Status.DRAFT).order_by("pk")
            goods.extend(sold.values_list("pk", "price"))
        _create_orders(numbers, total=total, seed=seed, customers=customers, goods=goods)

    return create


def _create_orders(
    numbers: range, *, total: int, seed: int, customers: list[int], goods: list[tuple[int, Decimal]]
) -> None:
    sources = {number: _draw(seed, "order", number) for number in numbers}
    # Some customers order far more often than others.
    chosen = {
        number: customers[0 if number == 1 else int(len(customers) * rng.random() ** 1.6)]
        for number, rng in sources.items()
    }
    known = Customer.objects.in_bulk(list(set(chosen.values())))
    orders: list[Order] = []
    lines: list[OrderLine] = []
    payments: list[Payment] = []
    refunds: list[Refund] = []
    payment_key, refund_key = _next_key(Payment), _next_key(Refund)
    for number, rng in sources.items():
        customer = known[chosen[number]]
        order = _order(number, rng, customer=customer, total=total)
        orders.append(order)
        bought = _lines(rng, order, goods=goods)
        lines += bought
        paid = order.status in (Order.Status.PAID, Order.Status.SHIPPED)
        given_back = order.status == Order.Status.CANCELLED and rng.random() < 0.4
        if not (paid or given_back):
            continue
        cents = sum(int(line.unit_price * 100) * line.quantity for line in bought)
        payment = Payment(
            pk=payment_key,
            order_id=number,
            amount_cents=cents,
            currency="EUR",
            gateway_reference=f"pay_{rng.getrandbits(80):020x}",
        )
        payments.append(payment)
        payment_key += 1
        if given_back or (number > 1 and rng.random() < 0.06):
            part = cents if given_back else max(1, cents * rng.randint(10, 60) // 100)
            refunds.append(_refund(rng, refund_key, payment=payment.pk, cents=part))
            refund_key += 1
    for rows in (orders, lines, payments, refunds):
        _insert(rows)


def _order(number: int, rng: random.Random, *, customer: Customer, total: int) -> Order:
    status: str = Order.Status.CANCELLED
    drawn = rng.randrange(100)
    for each, share in _STATUSES:
        if drawn < share:
            status = each
            break
        drawn -= share
    between = timedelta(days=DAYS) / total
    age = between * (total - number + rng.random())
    if age < timedelta(days=3) and status == Order.Status.SHIPPED:
        status = Order.Status.PAID  # so fast is no store
    if number == 1:
        status = Order.Status.PAID
    return Order(
        pk=number,
        number=_order_number(number),
        customer_id=customer.pk,
        region=Region.NORTH if customer.city in NORTHERN_CITIES else Region.SOUTH,
        status=status,
        placed_at=(NEWEST - age).replace(microsecond=0),
        shipping_name=customer.name,
        shipping_street=customer.street,
        shipping_postal_code=customer.postal_code,
        shipping_city=customer.city,
        shipping_country=customer.country,
    )


def _lines(rng: random.Random, order: Order, *, goods: list[tuple[int, Decimal]]) -> list[OrderLine]:
    bought = rng.sample(goods, min(len(goods), rng.choice((1, 1, 1, 2, 2, 3, 4))))
    lines = [
        OrderLine(
            order_id=order.pk,
            product_id=product,
            quantity=rng.choice((1, 1, 1, 2, 2, 3, 6)),
            unit_price=price,
        )
        for product, price in bought
    ]
    if order.pk == 1:
        # Whatever was drawn, its payment is over 120 euro, and nothing of it was given back.
        lines = lines[:1]
        lines[0].quantity = int(Decimal(150) // lines[0].unit_price) + 1
    return lines


def _refund(rng: random.Random, key: int, *, payment: int, cents: int) -> Refund:
    state = rng.choices([Refund.State.SUCCEEDED, Refund.State.FAILED], weights=[95, 5])[0]
    return Refund(
        pk=key,
        payment_id=payment,
        amount_cents=cents,
        reason=rng.choice(REFUND_REASONS),
        state=state,
        idempotency_key=f"seed-{key:08d}-{rng.getrandbits(64):016x}",
        gateway_reference=f"ref_{rng.getrandbits(80):020x}" if state == Refund.State.SUCCEEDED else "",
    )
