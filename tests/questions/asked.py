"""What staff of the example store ask, each thing in three languages, with the call it is and what it gives.

The answers are worked out here with the ORM, from what the store's rules say this person may see, and never
through the copilot. Today is Monday, 30 November 2026, noon in Warsaw (``clock.py``).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from example_project.store.models import Category, Customer, Order, Payment, Product

WARSAW = ZoneInfo("Europe/Warsaw")
LANGUAGES = ("en", "pl", "ru")
LIMIT = 20  # rows that a query gives when it says nothing


def at(year: int, month: int, day: int) -> datetime.datetime:
    """Return the beginning of a day in Warsaw."""
    return datetime.datetime(year, month, day, tzinfo=WARSAW)


@dataclass(frozen=True)
class Seen:
    """What one account may see, by the store's rules and not by its admin's code."""

    who: str

    @property
    def is_manager(self) -> bool:
        return self.who in ("admin", "manager")

    @property
    def orders(self) -> QuerySet[Order]:
        if self.is_manager:
            return Order.objects.order_by("-placed_at", "-id")
        if self.who == "support":
            return Order.objects.filter(region="north", customer__vip=False).order_by("-placed_at", "-id")
        return Order.objects.none()

    @property
    def customers(self) -> QuerySet[Customer]:
        everyone = Customer.objects.order_by("name", "id")
        return everyone if self.who != "viewer" else everyone.none()

    @property
    def products(self) -> QuerySet[Product]:
        return Product.objects.order_by("title", "id")

    @property
    def payments(self) -> QuerySet[Payment]:
        return Payment.objects.filter(order__in=self.orders.order_by()).order_by("-id")


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to ask. One of ``rows``, ``count``, ``groups`` says what it gives; none: ``opens`` a page."""

    name: str
    who: str
    tool: str
    args: dict[str, Any]
    said: dict[str, str]
    rows: Callable[[Seen], QuerySet[Any]] | None = None
    limit: int = LIMIT
    count: Callable[[Seen], int] | None = None
    groups: Callable[[Seen], list[tuple[list[Any], list[Any]]]] | None = None
    changes: int | None = None  # key of the record whose history it is
    opens: Callable[[Seen], QuerySet[Any]] | None = None  # the rows that the list shows
    offline: dict[str, str] = field(default_factory=dict)  # languages in which it is beyond it, and why


def ask(
    name: str,
    who: str,
    tool: str,
    args: dict[str, Any],
    en: str,
    pl: str,
    ru: str,
    **gives: Any,
) -> Question:
    """Return a question; each language has its sentence."""
    return Question(name=name, who=who, tool=tool, args=args, said={"en": en, "pl": pl, "ru": ru}, **gives)


def money(value: Any, places: int = 2) -> str:
    """Return a number as a tool gives it."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-places)))


def average(rows: QuerySet[Product]) -> str:
    """Return the average price of products, worked out here and not by a database."""
    prices = list(rows.values_list("price", flat=True))
    return money(sum(prices) / len(prices), 4)


def by_category(rows: QuerySet[Product], **measure: Any) -> list[tuple[Any, Any]]:
    """Return a measure for each category of products, None for those without."""
    names = dict(Category.objects.values_list("pk", "name"))
    made = rows.order_by().values("category").annotate(**measure).values_list("category", *measure)
    return [(names.get(key), value) for key, value in made]


def by_period(moments: Sequence[datetime.datetime], every: str) -> list[tuple[list[Any], list[Any]]]:
    """Return how many moments are in each day, week or month in Warsaw, in their order."""
    found: dict[datetime.date, int] = {}
    for moment in moments:
        day = moment.astimezone(WARSAW).date()
        if every == "week":
            day -= datetime.timedelta(days=day.weekday())
        if every == "month":
            day = day.replace(day=1)
        found[day] = found.get(day, 0) + 1
    return [([day.isoformat()], [found[day]]) for day in sorted(found)]


FRIDAY = Q(placed_at__gte=at(2026, 11, 27))
OCTOBER = Q(placed_at__gte=at(2026, 10, 1), placed_at__lt=at(2026, 11, 1))
NOVEMBER = Q(placed_at__gte=at(2026, 11, 1), placed_at__lt=at(2026, 12, 1))
