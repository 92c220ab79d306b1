"""What a hostile model may write as a call: names, arguments, and JSON that is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_copilot.exceptions import CallError
from django_copilot.tools.base import Failed
from django_copilot.tools.shapes import parse_arguments

from .calls import raw, run, sent, verdict
from .conftest import Orders

# -- names of fields -----------------------------------------------------------------------------------

NO_FIELDS = [
    *("internal_note", "api_token", "customer__api_token", "customer__name", "shipping_citty", "Number", ""),
    *("pk", "customer_id", "customer__pk", "number__startswith", "number__exact", "payments", "history"),
    *("history", "_connector", "_negated", "__class__", "_meta", "objects", "has_view_permission"),
    *(
        "number ",
        "*",
        "1",
        "id__in",
        "ID",
        "\u202enumber",
        "x" * 300,
        'number" OR 1=1 --',
        "get_status_display",
    ),
]
READABLE = "number, customer, region, status, placed_at, shipping_city, shipping_country"


@pytest.mark.parametrize("who", ["support", "admin"])
def test_a_name_that_is_not_declared_is_an_error_and_nothing_else(orders: Orders, who: str) -> None:
    """Guards hazards 8 and 9."""
    pk = str(orders.own)
    for name in NO_FIELDS:
        for tool, args in (
            ("query_order", {"fields": [name]}),
            ("query_order", {"fields": ["number", name]}),
            ("query_order", {"filters": {name: "x"}}),
            ("query_order", {"filters": {name: None}}),
            ("open_order_form", {"id": pk, "fields": {name: "x"}}),
            ("open_order_form", {"id": pk, "fields": {"shipping_city": "X", name: "x"}}),
        ):
            outcome = run(who, tool, args)
            assert verdict(outcome) == "unknown_field", (name, tool, args)
            message = outcome.content["error"]["message"]
            assert len(message) < 400
            assert READABLE in message or tool == "open_order_form"
            assert message.isprintable()


@pytest.mark.parametrize(("who", "reads"), [("manager", True), ("support", False), ("viewer", False)])
def test_a_declared_field_that_a_person_may_not_read_is_left_out_and_no_filter(
    store: Any, who: str, reads: bool
) -> None:
    """Guards hazard 9."""
    rows = run(who, "query_product", {"fields": ["title", "cost_price"], "limit": 3}).content["rows"]
    assert [set(row) for row in rows] == [{"id", "title", "cost_price"} if reads else {"id", "title"}] * 3
    assert all(("cost_price" in row) is reads for row in run(who, "query_product").content["rows"])
    filtered = run(who, "query_product", {"filters": {"cost_price": "1.00"}})
    assert verdict(filtered) == ("0 rows" if reads else "unknown_field")
    if not reads:
        undeclared = run(who, "query_product", {"filters": {"attributes": "1.00"}})
        assert sent(undeclared).replace("attributes", "cost_price") == sent(filtered)
        rest = sent(filtered).replace("There is no field 'cost_price' here.", "")
        assert "cost_price" not in rest


def test_a_field_to_fill_in_is_no_field_to_read_or_to_filter_on(orders: Orders) -> None:
    rows = run("admin", "query_order", {"fields": ["number", "shipping_street"], "limit": 2}).content["rows"]
    assert [set(row) for row in rows] == [{"id", "number"}] * 2
    assert verdict(run("admin", "query_order", {"filters": {"shipping_street": "x"}})) == "unknown_field"


def test_what_can_not_be_filled_in_is_dropped_and_named_for_the_person(orders: Orders) -> None:
    args = {"id": str(orders.own), "fields": {"shipping_city": "Oslo", "status": "shipped"}}
    outcome = run("support", "open_order_form", args)
    assert (dict(outcome.values), outcome.dropped) == ({"shipping_city": "Oslo"}, ("Status",))
    assert "Status" in outcome.reply
    outcome = run("support", "open_order_form", {"id": str(orders.own), "fields": {"status": "shipped"}})
    assert verdict(outcome) == "not_fillable"


# -- arguments -----------------------------------------------------------------------------------------

GOOD = {
    "query_order": {},
    "open_order_form": {"fields": {"shipping_city": "X"}},
    "confirm_delete_order": {"id": "1"},
    "ask_user": {"text": "Which one?"},
    "find_entities": {"words": "orders"},
}
FORBIDDEN = [
    *("confirm", "confirmed", "confirmed_by", "approve", "approved_by", "approver", "actor", "user"),
    *(
        "user_id",
        "category",
        "idempotency_key",
        "key",
        "version",
        "digest",
        "plan",
        "site",
        "scope",
        "request",
    ),
    *(
        "site_id",
        "language",
        "ordering",
        "order",
        "offset",
        "search_fields",
        "raw",
        "sql",
        "save",
        "",
        "Limit",
        "self",
    ),
]


@pytest.mark.parametrize("tool", GOOD)
def test_an_argument_that_the_tool_has_not_is_refused(store: Any, tool: str) -> None:
    """Guards hazard 10."""
    for name in FORBIDDEN:
        for value in (True, "admin", 1, None, {}):
            outcome = run("manager", tool, {**GOOD[tool], name: value})
            assert verdict(outcome) == "unknown_argument", (name, value)
            assert outcome.content["error"]["arguments"] == [name]
    assert verdict(run("manager", tool, GOOD[tool])) != "unknown_argument"


def test_what_an_entity_does_not_opt_into_is_an_argument_that_it_has_not(store: Any) -> None:
    for name, value in (("search", "a"), ("order_by", ["name"]), ("after", "1")):
        outcome = run("manager", "query_category", {name: value})
        assert verdict(outcome) == "unknown_argument"
        assert verdict(run("manager", "query_order", {name: value})) != "unknown_argument"
    for tool in ("count_category", "summarise_category", "history_category", "open_category_list"):
        assert verdict(run("manager", tool, {})) == "unknown_tool"


WRONG_TYPES = [
    ("query_order", {"fields": "number"}),
    ("query_order", {"fields": {"number": True}}),
    ("query_order", {"fields": [1]}),
    ("query_order", {"fields": [["number"]]}),
    ("query_order", {"filters": [["number", "x"]]}),
    ("query_order", {"filters": "number=x"}),
    ("query_order", {"limit": "5"}),
    ("query_order", {"limit": 5.0}),
    ("query_order", {"limit": True}),
    ("query_order", {"limit": [5]}),
    ("open_order_form", {"fields": []}),
    ("open_order_form", {"fields": "city"}),
    ("ask_user", {"text": ["a"]}),
    ("ask_user", {"text": True}),
    ("ask_user", {"text": "x", "kind": "password"}),
    ("ask_user", {"text": "x", "kind": 1}),
    ("ask_user", {"text": "x", "kind": "single", "options": "ab"}),
    ("ask_user", {"text": "x", "kind": "single", "options": [1, 2]}),
    ("find_entities", {"words": 5}),
]


def test_an_argument_of_the_wrong_kind_is_refused(store: Any) -> None:
    wrong = {
        (tool, json.dumps(args)): got
        for tool, args in WRONG_TYPES
        if (got := verdict(run("manager", tool, args))) != "invalid_argument"
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"text": "Which?"}, "question"),
        ({"text": "Which?", "kind": "single", "options": ["a", "b"]}, "question"),
        ({"text": "Which?", "kind": "multiple", "options": ["a", "b", "a"]}, "question"),
        ({"text": "Which?", "kind": "single", "options": ["a", "a ", " "]}, "invalid_value"),
        ({"text": "Which?", "kind": "single"}, "invalid_value"),
        ({"text": "Which?", "kind": "single", "options": [str(n) for n in range(21)]}, "invalid_value"),
        ({"text": "  "}, "invalid_value"),
        ({"text": ""}, "clarification_required"),
        ({}, "clarification_required"),
    ],
)
def test_a_question_has_a_text_and_real_choices(store: Any, args: Any, expected: str) -> None:
    assert verdict(run("viewer", "ask_user", args)) == expected


@pytest.mark.parametrize(
    ("limit", "rows"),
    [(1, 1), (50, 50), (51, 50), (10**30, 50), (None, 20), (0, None), (-1, None), (-(10**30), None)],
)
def test_a_limit_over_the_most_is_cut_and_said(store: Any, limit: Any, rows: int | None) -> None:
    outcome = run("admin", "query_order", {"limit": limit, "fields": ["status"]})
    if rows is None:
        assert verdict(outcome) == "invalid_value"
        return
    assert len(outcome.content["rows"]) == rows
    assert outcome.content["has_more"] is True
    assert outcome.content.get("note") == ("limit was cut to 50." if limit and limit > 50 else None)


BAD_VALUES = [
    ("query_order", {"filters": {"status": "Paid"}}),
    ("query_order", {"filters": {"status": ["paid"]}}),
    ("query_order", {"filters": {"number": {"contains": "1"}}}),
    ("query_order", {"filters": {"number": 1}}),
    ("query_order", {"filters": {"placed_at": "the other day"}}),
    ("query_order", {"filters": {"placed_at": "2026-03-29T02:30:00"}}),
    ("query_customer", {"filters": {"vip": "false"}}),
    ("query_product", {"filters": {"price": "1,50"}}),
    ("query_product", {"filters": {"price": "1.234"}}),
    ("query_product", {"filters": {"price": "123456789012.00"}}),
    ("query_product", {"filters": {"price": True}}),
    ("query_payment", {"filters": {"amount_cents": "1.5"}}),
    ("open_product_form", {"fields": {"price": "12,50"}}),
    ("open_product_form", {"fields": {"title": "x" * 161}}),
    ("open_product_form", {"fields": {"title": ""}}),
    ("open_product_form", {"fields": {"status": "Draft"}}),
    ("open_product_form", {"fields": {"available_from": "2026-02-30"}}),
    ("open_product_form", {"fields": {"available_from": "2026-10-25T02:30:00"}}),
    ("open_product_form", {"fields": {"available_from": "9999-12-31T23:59:59-12:00"}}),
    ("open_product_form", {"fields": {"tags": "1"}}),
    ("open_product_form", {"fields": {"tags": ["999999"]}}),
    ("open_product_form", {"fields": {"category": "999999"}}),
    ("open_category_form", {"fields": {"slug": "no slug!"}}),
    ("open_customer_form", {"fields": {"email": "nobody"}}),
]


def test_a_value_that_the_field_does_not_take_goes_back_to_the_model(store: Any) -> None:
    """Guards hazard 5."""
    for tool, args in BAD_VALUES:
        outcome = run("manager", tool, args)
        assert verdict(outcome) == "invalid_value", (tool, args)
        assert outcome.content["error"]["field"] in sent(outcome)
    assert verdict(run("manager", "open_product_form", {"fields": {"tags": [True]}})) == "invalid_id"


def test_uniqueness_is_for_the_person_at_the_form(store: Any) -> None:
    """It would tell of rows that she may not see."""
    from example_project.store.models import Category

    taken = Category.objects.first().slug
    assert verdict(run("manager", "open_category_form", {"fields": {"slug": taken}})) == "form new"


# -- JSON that is none ---------------------------------------------------------------------------------

NO_OBJECTS = [
    *(
        "[]",
        "null",
        "true",
        "1",
        '"id"',
        "[{}]",
        "{",
        "{}{}",
        "{} x",
        "id=1",
        "{'id': 1}",
        '{"id": 1,}',
        "\x00",
    ),
    *(
        '{"limit": NaN}',
        '{"limit": Infinity}',
        '{"limit": -Infinity}',
        '{"limit": 1e400}',
        '{"limit": -1e999}',
    ),
    *(
        '{"limit": 1, "limit": 2}',
        '{"filters": {"status": "paid", "status": "x"}}',
        '{"a": [{"b": 1, "b": 1}]}',
    ),
    *('{"filters": {"number": "\\ud800"}}', '{"\\udfff": 1}', '{"filters": {"number": "a\\u0000b"}}'),
    *("\ud800", '{"a": "\ud800"}', '{"filters": {"x": "\x00"}}', "[" * 50_000, '{"a":' * 5_000),
    *(
        '{"filters": ' + '{"a": ' * 20 + "1" + "}" * 21,
        '{"a": ' + "[" * 30 + "]" * 30 + "}",
        '{"limit": 1' + "0" * 5_000 + "}",
    ),
    *(' {"a": "' + "x" * 3_000_000 + '"}', "\ufeff{}", '{"limit": 0x10}', '{"limit": 01}', '{"limit": +1}'),
]


@pytest.mark.parametrize("tool", ["query_order", "confirm_delete_order", "ask_user"])
def test_arguments_that_are_no_json_object_are_refused(store: Any, tool: str) -> None:
    """Guards hazard 11."""
    wrong = {
        text[:60]: got
        for text in NO_OBJECTS
        if (got := verdict(raw("manager", tool, text))) != "invalid_arguments"
    }
    assert wrong == {}


def test_no_arguments_at_all_are_an_empty_object(store: Any) -> None:
    assert verdict(raw("viewer", "query_tag", "")) == verdict(raw("viewer", "query_tag", "{}"))


@given(
    st.text(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(),
        lambda i: st.lists(i) | st.dictionaries(st.text(), i),
    ).map(json.dumps)
)
def test_whatever_a_model_writes_is_an_object_or_an_error(text: str) -> None:
    """Guards hazard 11."""
    try:
        args = parse_arguments(text)
    except CallError:
        return
    assert isinstance(args, dict)
    json.dumps(args, allow_nan=False, ensure_ascii=False).encode()


any_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["1", "paid", "number", "2026-01-01", "12.50"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "number", "price", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = ["fields", "filters", "limit", "id"]
FIELDS = [
    *(
        "id",
        "title",
        "status",
        "price",
        "category",
        "tags",
        "available_from",
        "attributes",
        "cost_price",
        "pk",
    ),
    *("name", "email", "vip", "number", "customer", "placed_at", "order", "amount_cents", "shipping_city"),
]


@pytest.fixture
def no_error_logged(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    st.sampled_from(["product", "order", "customer", "payment"]),
    st.sampled_from(["query_{}", "open_{}_form", "confirm_delete_{}"]),
    st.dictionaries(st.sampled_from(ARGUMENTS), any_json, max_size=3)
    | st.fixed_dictionaries({"filters": st.dictionaries(st.sampled_from(FIELDS), any_json, max_size=2)})
    | st.fixed_dictionaries({"fields": st.dictionaries(st.sampled_from(FIELDS), any_json, max_size=3)}),
)
def test_no_arguments_break_the_gate(
    store: Any, no_error_logged: None, entity: str, tool: str, args: Any
) -> None:
    """Whatever is asked, the answer is an outcome or an error with a reason; nothing "failed"."""
    outcome = run("manager", tool.format(entity), args)
    if isinstance(outcome, Failed):
        assert outcome.content["error"]["code"] != "failed", (tool, entity, args)
    json.dumps(sent(outcome), ensure_ascii=False).encode()
