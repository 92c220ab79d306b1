"""Columns that a list computes: what is shown of them, when, and what their code can't do."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib import admin
from django.core import mail
from django.core.exceptions import ObjectDoesNotExist
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from django_copilot.access import EntityAccess
from django_copilot.conf import get_settings
from django_copilot.reading import Rows
from django_copilot.reading.columns import column_names
from example_project.store.models import Order, OrderLine, Product
from tests.access.conftest import read
from tests.gate.calls import run

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


@pytest.fixture
def column(bend: Bend, entity: GetEntity) -> Callable[..., Rows]:
    """Return a function that gives orders the column "total" on their admin and reads one of them."""

    def column(total: Any, *, who: str = "manager", limit: int = 1, on: str = "admin", **more: Any) -> Rows:
        listed = {"list_display": ["number", "total"], "harness_computed": ["total"], **more}
        bend(Order, **({"total": total} if on == "admin" else {}), **listed)
        return read(entity(who, "order"), limit=limit)

    return column


def cell(rows: Rows) -> Any:
    """Return the one cell, which is the same for the model and for the person."""
    (row,) = rows.rows
    value = rows.for_model()[0]["rows"][0]["total"]
    assert rows.for_person()["rows"][0]["values"]["total"] == value == row.values["total"]
    return value


# -- what is shown -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ready", "ready"),
        (7, "7"),
        (Decimal("12.50"), "12.50"),
        (datetime.date(2026, 5, 1), "May 1, 2026"),
        (True, "True"),
        ([1, 2], "1, 2"),
        ("", None),
        (None, None),
        ("  ", None),
        ("a < b & c > d", "a < b & c > d"),  # plain text, which a list shows as it is
        ("<b>x</b>", "<b>x</b>"),
        (mark_safe("<b>x</b>"), "x"),
        (mark_safe("&lt;b&gt;x&lt;/b&gt; &amp; y"), "<b>x</b> & y"),
        (mark_safe("&amp;lt;"), "&lt;"),
        (mark_safe("<a href='/secret/7/'>Order</a>"), "Order"),
        (mark_safe("<ul><li>one</li><li>two</li></ul>"), "one two"),
        (mark_safe("one<br>two"), "one two"),
        (mark_safe("<script>alert(1)</script>x<style>p{}</style>"), "x"),
        (mark_safe("<scr<script>ipt>alert(1)</script>"), "<scr"),
        (mark_safe("<img src='x'>"), None),
        ("a\x00b\ud800", "a\ufffdb?"),
    ],
    ids=[str(number) for number in range(21)],
)
def test_a_value_is_shown_as_text_without_markup(column: Any, value: Any, shown: str | None) -> None:
    assert cell(column(lambda self, obj: value)) == shown


def test_markup_that_is_made_of_data_is_text(column: Any) -> None:
    assert cell(column(lambda self, obj: format_html("<b>{}</b>", "<i>7</i>"))) == "<i>7</i>"


def test_a_long_text_is_cut(column: Any) -> None:
    most = get_settings().CELL_CHARS
    assert cell(column(lambda self, obj: "x" * 100_000)) == "x" * most + "… [cut]"
    assert cell(column(lambda self, obj: mark_safe("<b>" + "y" * 2_000_000))) == "y" * most + "… [cut]"


@pytest.mark.parametrize(
    ("value", "shown"), [(True, True), (False, False), (None, None), (1, True), ("", False)]
)
def test_a_column_that_is_yes_or_no(column: Any, value: Any, shown: bool | None) -> None:
    @admin.display(boolean=True)
    def total(self: Any, obj: Any) -> Any:
        return value

    rows = column(total)
    assert cell(rows) is shown
    assert rows.for_person()["columns"][-1]["type"] == "boolean"
    assert rows.texts()[0][-1] == {True: "Yes", False: "No", None: ""}[shown]


def test_what_an_empty_value_is_shown_as(column: Any) -> None:
    @admin.display(empty_value="nothing yet")
    def total(self: Any, obj: Any) -> Any:
        return ""

    assert cell(column(total)) == "nothing yet"
    assert cell(column(lambda self, obj: None, empty_value_display="???")) == "???"


def test_what_is_not_there_is_empty(column: Any, caplog: pytest.LogCaptureFixture) -> None:
    def total(self: Any, obj: Any) -> Any:
        raise ObjectDoesNotExist

    assert cell(column(total)) is None
    assert "total" not in caplog.text


def test_the_column_has_the_label_of_the_list(column: Any) -> None:
    @admin.display(description="sum of all lines")
    def total(self: Any, obj: Any) -> Any:
        return 1

    rows = column(total)
    assert rows.for_person()["columns"][-1] == {"name": "total", "label": "Sum of all lines", "type": "text"}
    assert rows.texts()[0][-1] == "1"


def test_a_property_a_method_of_the_model_a_function_and_an_annotation(
    column: Any, bend: Bend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Order, "total", property(lambda self: f"p {self.number}"), raising=False)
    assert cell(column(None, on="model")).startswith("p SO-")
    monkeypatch.setattr(Order, "total", lambda self: f"m {self.number}", raising=False)
    assert cell(column(None, on="model")).startswith("m SO-")
    monkeypatch.delattr(Order, "total")

    def total(obj: Order) -> str:
        return f"f {obj.number}"

    assert cell(column(None, on="list", list_display=["number", total])).startswith("f SO-")

    from django.db.models import Value

    bend(Order, get_queryset=lambda self, request: Order.objects.annotate(total=Value("annotated")))
    assert cell(column(None, on="records")) == "annotated"


# -- when it is shown ----------------------------------------------------------------------------------


def test_it_comes_with_every_query_unless_left_out(column: Any, entity: GetEntity) -> None:
    rows = column(lambda self, obj: 1, limit=5)
    assert [row.values["total"] for row in rows.rows] == ["1"] * 5
    asked = entity("manager", "order")
    assert set(read(asked, "number").rows[0].values) == {"number"}
    assert set(read(asked, "total").rows[0].values) == {"total"}
    assert set(read(asked, "number", "total").rows[0].values) == {"number", "total"}


def test_only_what_this_persons_list_shows(column: Any, bend: Bend, entity: GetEntity) -> None:
    column(lambda self, obj: "secret")
    bend(
        Order,
        get_list_display=lambda self, request: (
            ["number", "total"] if request.user.username == "manager" else ["number"]
        ),
    )
    assert "total" in read(entity("manager", "order")).rows[0].values
    for fields in ((), ("total",)):
        rows = read(entity("support", "order"), *fields)
        assert "total" not in rows.rows[0].values
        assert "secret" not in json.dumps([rows.for_model(), rows.for_person(), rows.texts()])


def test_a_list_that_fails_shows_none(column: Any, bend: Bend, entity: GetEntity) -> None:
    column(lambda self, obj: 1)
    bend(Order, get_list_display=lambda self, request: 1 / 0)
    assert "total" not in read(entity("manager", "order")).rows[0].values


@pytest.mark.parametrize("given", ["total", None, 7, {"total": 1}, [7], []])
def test_a_malformed_declaration_is_none(column: Any, given: Any) -> None:
    assert "total" not in column(lambda self, obj: 1, harness_computed=given).rows[0].values


@pytest.mark.parametrize(
    "args",
    [
        {"filters": {"total": "1"}},
        {"filters": {"total": {"gte": 1}}},
        {"order_by": ["total"]},
        {"order_by": ["-total"]},
    ],
    ids=json.dumps,
)
def test_it_is_neither_filtered_nor_ordered_by(column: Any, args: dict[str, Any]) -> None:
    column(admin.display(ordering="number")(lambda self, obj: 1))
    error = run("admin", "query_order", args).content["error"]  # type: ignore[union-attr]
    assert error["code"] in ("unknown_field", "not_orderable")


def test_it_takes_no_part_in_sums(column: Any) -> None:
    column(lambda self, obj: 1)
    args = {"measures": [{"op": "sum", "field": "total"}]}
    assert run("admin", "summarise_order", args).content["error"]["code"] == "unknown_field"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "name",
    [
        *("shipping_name", "customer_id", "id", "pk", "lines", "payments", "objects"),  # not computed at all
        *("customer__email", "__str__", "__class__"),
        *("delete", "save", "full_clean", "get_queryset", "delete_model", "has_view_permission"),
    ],
)
def test_a_name_of_something_else_is_not_computed(column: Any, entity: GetEntity, name: str) -> None:
    """Guards hazard 66."""
    rows = column(None, on="list", list_display=["number", name], harness_computed=[name])
    assert name not in rows.rows[0].values
    assert column_names(entity("manager", "order")) == ("lines",)
    assert Order.objects.count() == 120


# -- what its code can't do ----------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["admin", "model", "list", "property"])
def test_what_alters_data_is_never_called(column: Any, monkeypatch: pytest.MonkeyPatch, on: str) -> None:
    """Guards hazard 66."""
    called: list[Any] = []

    def total(*args: Any) -> str:
        called.append(args)
        return "called"

    total.alters_data = True  # type: ignore[attr-defined]
    if on in ("model", "property"):
        monkeypatch.setattr(Order, "total", property(total) if on == "property" else total, raising=False)
    more = {"list_display": ["number", total]} if on == "list" else {}
    rows = column(total, on=on, **more)
    assert "total" not in rows.rows[0].values
    assert called == []
    del total.alters_data  # type: ignore[attr-defined]
    assert cell(column(total, on=on, **more)) == "called"


def test_a_write_is_refused_and_the_rest_goes_on(column: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Guards hazard 66."""

    def total(self: Any, obj: Any) -> str:
        if obj.pk % 2:
            Order.objects.filter(pk=obj.pk).update(shipping_city="written")
        return f"{obj.lines.count()} lines"

    rows = column(total, limit=10)
    for row in rows.rows:
        shown = None if row.record.pk % 2 else f"{row.record.lines.count()} lines"
        assert row.values["total"] == shown
    assert not Order.objects.filter(shipping_city="written").exists()
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "OrderAdmin.total" in caplog.records[0].getMessage()


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_write_that_is_swallowed_is_refused_too(column: Any, swallowed: bool) -> None:
    def total(self: Any, obj: Any) -> str:
        try:
            OrderLine.objects.create(order=obj, product=Product.objects.first(), quantity=5, unit_price=1)
        except Exception:
            if not swallowed:
                raise
        return "done"

    before = OrderLine.objects.count()
    assert cell(column(total)) is None
    assert OrderLine.objects.count() == before


def test_a_mail_is_refused(column: Any) -> None:
    def total(self: Any, obj: Any) -> str:
        mail.send_mail("a", "b", "c@example.org", ["d@example.org"])
        return "sent"

    assert cell(column(total)) is None
    assert mail.outbox == []


def test_a_statement_that_fails_breaks_nothing_else(column: Any) -> None:
    def total(self: Any, obj: Any) -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        return "read"

    rows = column(total, limit=3)
    assert [row.values["total"] for row in rows.rows] == [None] * 3
    assert rows.rows[0].values["customer"]["label"]  # was read after it


def test_what_it_does_to_its_record_stays_with_it(column: Any) -> None:
    def total(self: Any, obj: Any) -> str:
        obj.number = obj.customer_id = "changed"
        obj.pk = 7
        return "done"

    rows = column(total, limit=3)
    assert cell_numbers(rows) == [row.values["number"] for row in rows.rows]
    assert all(each.startswith("SO-") for each in cell_numbers(rows))


def cell_numbers(rows: Rows) -> list[str]:
    return list(
        Order.objects.filter(pk__in=[row.record.pk for row in rows.rows])
        .order_by("-placed_at", "-id")
        .values_list("number", flat=True)
    )


def test_an_exception_is_logged_once_with_the_name(column: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        rows = column(lambda self, obj: 1 / 0, limit=10)
    assert [row.values["total"] for row in rows.rows] == [None] * 10
    assert [each.getMessage() for each in caplog.records if each.name == "django_copilot"] == [
        "OrderAdmin.total failed for the copilot, as a column of harness_computed; its cells are empty."
    ]
    assert caplog.records[-1].exc_info is not None


def test_nothing_declared_costs_nothing(column: Any, entity: GetEntity) -> None:
    with CaptureQueriesContext(connection) as without:
        read(entity("admin", "order"), limit=20)
    rows = column(lambda self, obj: f"{obj.number}!", limit=20, who="admin")
    with CaptureQueriesContext(connection) as captured:
        read(entity("admin", "order"), limit=20)
    assert rows.rows[0].values["total"].endswith("!")
    saved = [each["sql"] for each in captured if "SAVEPOINT" not in each["sql"]]
    assert len(saved) == len([each["sql"] for each in without if "SAVEPOINT" not in each["sql"]])
