"""What reading costs: a bounded number of statements, and a bounded time for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models.expressions import RawSQL
from django.db.utils import DatabaseError
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_copilot.access import EntityAccess
from django_copilot.database import limited
from django_copilot.exceptions import Refused
from django_copilot.reading import Query, run_query
from django_copilot.reading.summary import run_summary
from django_copilot.reading.sums import Measure, Summary
from example_project.store.models import Customer, Order, Product
from tests.gate.calls import run, verdict

GetEntity = Callable[..., EntityAccess]


def statements(question: Callable[[], Any], table: str) -> list[str]:
    """Return the statements that read the table itself, the second time that it is asked."""
    question()
    with CaptureQueriesContext(connection) as captured:
        question()
    return [each["sql"] for each in captured if f'FROM "{table}"' in each["sql"]]


@pytest.mark.parametrize(
    ("who", "name", "table", "asked"),
    [
        ("support", "order", "store_order", {"search": "SO-"}),
        ("manager", "order", "store_order", {"filters": {"placed_at": {"gte": "2020"}}}),
        ("manager", "product", "store_product", {"order_by": ("-price",)}),
        ("manager", "product", "store_product", {"filters": {"status": {"in": ["active"]}}, "limit": 50}),
        ("manager", "customer", "store_customer", {"search": "a", "order_by": ("name",)}),
    ],
    ids=["search", "range", "order", "in", "search and order"],
)
def test_a_query_is_one_statement_over_its_table(
    entity: GetEntity, who: str, name: str, table: str, asked: dict[str, Any]
) -> None:
    of = entity(who, name)
    query = Query(entity=of.entity.label, **asked)
    (only,) = statements(lambda: run_query(of, query), table)
    assert "LIMIT" in only


def test_a_further_page_looks_its_beginning_up_once(entity: GetEntity) -> None:
    of = entity("manager", "product")
    after = run_query(of, Query(entity=of.entity.label, limit=5)).after
    query = Query(entity=of.entity.label, limit=5, after=after)
    found = statements(lambda: run_query(of, query), "store_product")
    assert len(found) == 2
    assert not any("OFFSET" in each for each in found)


@pytest.mark.parametrize(
    ("who", "name", "table", "asked"),
    [
        ("support", "order", "store_order", {}),
        ("manager", "product", "store_product", {"measures": (Measure(op="sum", field="price"),)}),
        ("manager", "product", "store_product", {"measures": (Measure(op="count"),), "by": ("status",)}),
        (
            "manager",
            "order",
            "store_order",
            {"measures": (Measure(op="count"),), "by": ("placed_at",), "every": "day"},
        ),
    ],
    ids=["count", "sum", "groups", "periods"],
)
def test_a_summary_is_one_statement(
    entity: GetEntity, who: str, name: str, table: str, asked: dict[str, Any]
) -> None:
    of = entity(who, name)
    found = statements(lambda: run_summary(of, Summary(entity=of.entity.label, **asked)), table)
    count = [each for each in found if "COUNT(" in each or "SUM(" in each]
    assert len(count) == 1
    assert len(found) == 1


def test_as_many_statements_for_many_rows_as_for_one(entity: GetEntity) -> None:
    of = entity("manager", "product")

    def asked(limit: int) -> int:
        query = Query(entity=of.entity.label, limit=limit, search="a", order_by=("price",))
        run_query(of, query)
        with CaptureQueriesContext(connection) as captured:
            run_query(of, query)
        return len(captured)

    assert asked(1) == asked(50) <= 7  # the limit of its time, the rows, and the labels of the categories


# -- time -----------------------------------------------------------------------------------------------

SLOW = {
    "postgresql": "SELECT pg_sleep(20)",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000)"
    " SELECT count(*) FROM n",
}


@override_settings(COPILOT={"READ_SECONDS": 0.2})
def test_a_statement_that_takes_too_long_is_ended(store: Any) -> None:
    began = time.monotonic()
    with pytest.raises(Refused) as caught, limited(Order.objects.all()), connection.cursor() as cursor:
        cursor.execute(SLOW[connection.vendor])
    assert caught.value.code == "too_slow"
    assert "0.2 seconds" in caught.value.message
    assert time.monotonic() - began < 10
    assert Order.objects.exists()  # and the connection goes on


@override_settings(COPILOT={"READ_SECONDS": 0.2})
def test_the_limit_ends_with_the_read(store: Any) -> None:
    with limited(Order.objects.all()):
        assert Order.objects.exists()
    with limited(Order.objects.all()), limited(Customer.objects.all()):
        assert Order.objects.exists()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT current_setting('statement_timeout')")
            assert cursor.fetchone()[0] == "0"
            cursor.execute("SELECT pg_sleep(0.4)")
        else:
            cursor.execute(SLOW["sqlite"].replace("2000000000", "2000000"))
            time.sleep(0.25)
            assert cursor.fetchone()[0] == 2_000_000


@pytest.mark.django_db(transaction=True)
def test_a_statement_that_fails_in_a_hook_leaves_out_its_record_only(entity: GetEntity, bend: Any) -> None:
    """On PostgreSQL it would break a transaction that the read stands in."""

    def may(self: Any, request: Any, obj: Any = None) -> bool:
        if obj is not None and obj.pk % 2:
            Order.objects.raw("SELECT nothing FROM nowhere")[0]
        return True

    bend(Product, has_view_permission=may, has_change_permission=may)
    of = entity("admin", "product")
    wanted = {pk for pk in Product.objects.values_list("pk", flat=True) if pk % 2 == 0}
    rows = run_query(of, Query(entity=of.entity.label, limit=50))
    assert {each.record.pk for each in rows.rows} == wanted
    counted = run_summary(of, Summary(entity=of.entity.label)).for_model()[0]["count"]
    assert counted == len(wanted)


def test_another_error_of_the_database_stays_what_it_is(store: Any) -> None:
    with pytest.raises(DatabaseError), limited(Order.objects.all()), connection.cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")


SLOW_NUMBER = {
    "postgresql": "(SELECT length(pg_sleep(20)::text) * 0)",
    "sqlite": f"(({SLOW['sqlite']}) * 0)",
}


@override_settings(COPILOT={"READ_SECONDS": 0.2})
@pytest.mark.parametrize("tool", ["query_product", "count_product", "summarise_product"])
def test_the_model_is_told_why(store: Any, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    from example_project.store.admin import ProductAdmin

    def rows(self: Any, request: Any) -> Any:
        return Product.objects.filter(pk__gte=RawSQL(SLOW_NUMBER[connection.vendor], []))

    monkeypatch.setattr(ProductAdmin, "get_queryset", rows)
    args = {"measures": [{"op": "count"}]} if tool == "summarise_product" else {}
    outcome = run("manager", tool, {**args, "filters": {"status": {"in": ["active"]}}})
    assert verdict(outcome) == "too_slow"
    assert "filters" in outcome.content["error"]["message"]
