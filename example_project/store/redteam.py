"""What ``manage.py copilot_redteam`` needs to know of the store: how to fill a new one, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings

from .data import create_data
from .models import Order, Payment
from .people import create_people

PRODUCTS = 40
ORDERS = 120


def prepare() -> None:
    """Fill a new database with a small store and the demo's people."""
    create_people()
    create_data(products=PRODUCTS, orders=ORDERS)
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"  # never called: a stand-in answers for it


def calls() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give calls of the store's write tools that somebody's rights allow, one for each order."""
    for order in Order.objects.order_by("pk"):
        yield "draft_customer_message", {"order": order.number, "topic": "your parcel"}
        yield (
            "change_shipping_address",
            {"order": order.number, "street": "Long Street 1", "postal_code": "00-001", "city": "Warsaw"},
        )
        for payment in Payment.objects.filter(order=order)[:1]:
            cents = min(payment.amount_cents, 12_000 if order.pk % 3 else 900)
            yield "refund_payment", {"order": order.number, "amount_cents": cents, "reason": "damaged"}
