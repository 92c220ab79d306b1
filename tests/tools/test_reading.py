"""What a tool reads it reads through its context: no relation lazily, and all rows only for sums and rules."""

from __future__ import annotations

from typing import Any

import pytest

from django_copilot import write_tool
from example_project.store.models import Order, Payment
from tests.gate.conftest import Orders

from .declared import call, why_not

# -- lazily ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        lambda payment: payment.order.customer.name,
        lambda payment: payment.order.lines.count(),
        lambda payment: str(payment.refunds.first()),
        lambda payment: payment.refresh_from_db(),
    ],
    ids=["foreign key", "reverse", "reverse first", "refresh"],
)
def test_a_relation_is_not_followed_past_the_context(
    orders: Orders, caplog: pytest.LogCaptureFixture, deed: Any
) -> None:
    """Guards hazard 152: nobody would have asked whether the related record is hers."""

    @write_tool(Payment, category="read_only")
    def lazy(ctx: Any, pk: int) -> str:
        """Look."""
        deed(ctx.get(Payment, pk=pk))
        return ""

    pk = Payment.objects.filter(order__region="north", order__customer__vip=False).first().pk
    assert why_not("support", "lazy", {"pk": pk})["code"] == "failed"
    assert "ctx.related" in caplog.text


def test_a_relation_that_the_admins_joins_have_loaded_is_not_followed_either(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 152."""

    @write_tool(Order, category="read_only")
    def joined(ctx: Any, way: str) -> str:
        """Look."""
        found = ctx.list(Order, pk=orders.own)[0] if way == "list" else ctx.get(Order, pk=orders.own)
        return str(found.customer.name)

    for way in ("list", "get"):
        assert why_not("support", "joined", {"way": way})["code"] == "failed"
        assert "read past it" in caplog.text


@pytest.mark.parametrize(
    "deed",
    [
        lambda rows: list(rows),
        lambda rows: rows.filter(region="north").count(),
        lambda rows: rows.exists(),
        lambda rows: rows.aggregate(n=__import__("django").db.models.Count("pk"))["n"],
        lambda rows: rows.first().pk,
        lambda rows: rows.get(pk=rows.last().pk),
        lambda rows: list(rows.values_list("region", flat=True).distinct()),
        lambda rows: list(rows.iterator()),
        lambda rows: list(rows.none() | rows),
        lambda rows: len(rows.in_bulk()),
        lambda rows: rows.order_by("pk")[1:3][0],
        lambda rows: [each.customer.name for each in rows.select_related("customer")],
        lambda rows: [list(each.lines.all()) for each in rows.prefetch_related("lines")],
        lambda rows: list(rows.filter(customer__in=rows.values("customer"))),
    ],
)  # fmt: skip
def test_all_rows_are_read_for_sums_and_rules_in_every_ordinary_way(orders: Orders, deed: Any) -> None:
    @write_tool(Order, category="read_only")
    def summing(ctx: Any) -> str:
        """Look."""
        assert deed(ctx.unscoped(Order))
        return "ok"

    outcome = call("support", "summing")
    assert outcome.content == {"result": "ok"}


@pytest.mark.parametrize(
    "deed",
    [
        lambda rows: rows.update(shipping_city="zqx"),
        lambda rows: rows.delete(),
        lambda rows: rows.create(),
        lambda rows: rows.first().save(),
        lambda rows: rows.first().customer.name,
        lambda rows: rows.first().lines.first(),
        lambda rows: next(iter(rows.iterator())).customer,
    ],
)
def test_all_rows_are_read_and_nothing_else(
    orders: Orders, caplog: pytest.LogCaptureFixture, deed: Any
) -> None:
    @write_tool(Order, category="read_only")
    def summing(ctx: Any) -> str:
        """Look."""
        deed(ctx.unscoped(Order))
        return "ok"

    before = list(Order.objects.order_by("pk").values())
    assert why_not("support", "summing")["code"] == "failed"
    assert list(Order.objects.order_by("pk").values()) == before
