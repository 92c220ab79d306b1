"""Calls that can't be carried out: each is an error with a code and a text that says what may be used instead."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_copilot.testing import Call, Text, ask, script
from django_copilot.tools.base import Failed

from .asking import client_for, run_call

# name, account, tool, arguments, code, a part of the text
WRONG: list[tuple[str, str, str, Any, str, str]] = [
    # -- lookups ----------------------------------------------------------------------------------
    ("unknown lookup", "manager", "query_order", {"filters": {"status": {"regex": "^p"}}}, "unknown_lookup", "in"),
    ("lookup in the name", "manager", "query_order", {"filters": {"placed_at__gte": "today"}}, "unknown_field", "placed_at"),
    ("through a relation", "manager", "query_order", {"filters": {"customer__name": "X"}}, "unknown_field", "customer"),
    ("range of a text", "manager", "query_order", {"filters": {"number": {"gte": "SO"}}}, "invalid_value", "a plain value"),
    ("range of a choice", "manager", "query_order", {"filters": {"status": {"gt": "a"}}}, "unknown_lookup", "in"),
    ("several of a plain field", "manager", "query_product", {"filters": {"title": {"in": ["a"]}}}, "invalid_value", "a plain value only"),
    ("no lookup at all", "manager", "query_order", {"filters": {"placed_at": {}}}, "unknown_lookup", "gte"),
    ("two kinds at once", "manager", "query_product", {"filters": {"available_from": {"gte": "today", "isnull": False}}}, "invalid_value", "one kind of lookup"),
    ("two lower ends", "manager", "query_product", {"filters": {"price": {"gt": 1, "gte": 2}}}, "invalid_value", "at most one lower"),
    ("nested objects", "manager", "query_product", {"filters": {"price": {"gte": {"gte": 1}}}}, "invalid_value", "price"),
    ("a list as a value", "manager", "query_order", {"filters": {"status": ["paid"]}}, "invalid_value", "status"),
    ("isnull of a word", "manager", "query_product", {"filters": {"category": {"isnull": "yes"}}}, "invalid_value", "true or false"),
    ("isnull of a number", "manager", "query_product", {"filters": {"category": {"isnull": 1}}}, "invalid_value", "true or false"),
    # -- several values ---------------------------------------------------------------------------
    ("too many values", "manager", "query_order", {"filters": {"status": {"in": ["paid"] * 10_000}}}, "invalid_arguments", "too long"),
    ("too many ids", "manager", "query_order", {"filters": {"id": {"in": ["1"] * 10_000}}}, "invalid_value", "1 to 100"),
    ("many values", "manager", "query_order", {"filters": {"status": {"in": ["paid"] * 101}}}, "invalid_value", "1 to 100"),
    ("no values", "manager", "query_order", {"filters": {"status": {"in": []}}}, "invalid_value", "1 to 100"),
    ("one value and no list", "manager", "query_order", {"filters": {"status": {"in": "paid"}}}, "invalid_value", "a list"),
    ("null among values", "manager", "query_order", {"filters": {"status": {"in": ["paid", None]}}}, "invalid_value", "isnull"),
    ("an object among values", "manager", "query_order", {"filters": {"status": {"in": [{"a": 1}]}}}, "invalid_value", "status"),
    ("no such choice", "manager", "query_order", {"filters": {"status": "lost"}}, "invalid_value", "paid"),
    # -- ranges and dates -------------------------------------------------------------------------
    ("reversed range", "manager", "query_product", {"filters": {"price": {"gte": 100, "lte": 50}}}, "invalid_value", "reversed"),
    ("reversed dates", "manager", "query_order", {"filters": {"placed_at": {"gte": "2026-11-05", "lt": "2026-11-01"}}}, "invalid_value", "reversed"),
    ("reversed words", "manager", "query_order", {"filters": {"placed_at": {"gte": "today", "lt": "last month"}}}, "invalid_value", "reversed"),
    ("no such day", "manager", "query_order", {"filters": {"placed_at": {"gte": "2026-02-30"}}}, "invalid_value", "placed_at"),
    ("no such day, exactly", "manager", "query_order", {"filters": {"placed_at": "2026-11-31"}}, "invalid_value", "placed_at"),
    ("no such month", "manager", "query_order", {"filters": {"placed_at": {"gte": "2026-13"}}}, "invalid_value", "placed_at"),
    ("no date at all", "manager", "query_order", {"filters": {"placed_at": {"gte": "soon"}}}, "invalid_value", "placed_at"),
    ("before all calendars", "manager", "query_order", {"filters": {"placed_at": {"gte": "9999 years ago"}}}, "invalid_value", "does not exist"),
    ("too many days", "manager", "query_order", {"filters": {"placed_at": "last 99999 days"}}, "invalid_value", "does not exist"),
    ("a number as a date", "manager", "query_order", {"filters": {"placed_at": {"gte": 20261101}}}, "invalid_value", "placed_at"),
    ("a bool as a date", "manager", "query_order", {"filters": {"placed_at": True}}, "invalid_value", "placed_at"),
    ("nothing as an end", "manager", "query_product", {"filters": {"price": {"gte": None}}}, "invalid_value", "price"),
    ("a word as a number", "manager", "query_product", {"filters": {"price": {"gte": "cheap"}}}, "invalid_value", "price"),
    ("a bool as a number", "manager", "query_product", {"filters": {"price": {"gte": True}}}, "invalid_value", "price"),
    ("infinity", "manager", "query_product", {"filters": {"price": {"gte": "Infinity"}}}, "invalid_value", "price"),
    ("a number with thousands", "manager", "query_product", {"filters": {"price": {"gte": "1 000,50"}}}, "invalid_value", "price"),
    # -- search, order, pages ---------------------------------------------------------------------
    ("a long search", "manager", "query_order", {"search": "x" * 10_000}, "invalid_value", "200 characters"),
    ("many words", "manager", "query_order", {"search": "a b c d e f g h i"}, "invalid_value", "8 words"),
    ("a list to search for", "manager", "query_order", {"search": ["a"]}, "invalid_argument", "search"),
    ("search where there is none", "manager", "query_category", {"search": "Bath"}, "unknown_argument", "filters"),
    ("order by a relation", "manager", "query_order", {"order_by": ["customer"]}, "not_orderable", "placed_at"),
    ("order through a relation", "manager", "query_order", {"order_by": ["customer__name"]}, "not_orderable", "placed_at"),
    ("order by what is hidden", "support", "query_product", {"order_by": ["cost_price"]}, "not_orderable", "price"),
    ("order at random", "manager", "query_order", {"order_by": ["?"]}, "not_orderable", "placed_at"),
    ("order by a text", "manager", "query_order", {"order_by": "placed_at"}, "invalid_argument", "order_by"),
    ("order by too much", "manager", "query_order", {"order_by": ["number", "status", "region", "placed_at"]}, "invalid_value", "3"),
    ("order twice", "manager", "query_order", {"order_by": ["number", "-number"]}, "invalid_value", "different"),
    ("after nothing", "manager", "query_order", {"after": "999999"}, "invalid_value", "without it"),
    ("after another kind", "manager", "query_order", {"after": "r9.9"}, "invalid_value", "without it"),
    ("pages where there are none", "manager", "query_category", {"after": "1"}, "unknown_argument", "filters"),
    ("no rows", "manager", "query_order", {"limit": 0}, "invalid_value", "1 to 50"),
    ("a text as limit", "manager", "query_order", {"limit": "5"}, "invalid_argument", "limit"),
    ("a bool as limit", "manager", "query_order", {"limit": True}, "invalid_argument", "limit"),
    # -- counts and sums --------------------------------------------------------------------------
    ("sum of a text", "manager", "summarise_product", {"measures": [{"op": "sum", "field": "title"}]}, "invalid_value", "numbers"),
    ("average of a choice", "manager", "summarise_product", {"measures": [{"op": "avg", "field": "status"}]}, "invalid_value", "numbers"),
    ("sum of a relation", "manager", "summarise_product", {"measures": [{"op": "sum", "field": "category"}]}, "invalid_value", "numbers"),
    ("highest of a text", "manager", "summarise_product", {"measures": [{"op": "max", "field": "title"}]}, "invalid_value", "numbers, dates"),
    ("sum of nothing", "manager", "summarise_product", {"measures": [{"op": "sum"}]}, "invalid_value", "field"),
    ("unknown measure", "manager", "summarise_product", {"measures": [{"op": "median", "field": "price"}]}, "invalid_value", "count, sum"),
    ("a measure too many words", "manager", "summarise_product", {"measures": [{"op": "count", "as": "n"}]}, "invalid_value", "op"),
    ("a measure as text", "manager", "summarise_product", {"measures": ["count"]}, "invalid_value", "objects"),
    ("no measures", "manager", "summarise_product", {"measures": []}, "invalid_value", "1 to 5"),
    ("measures not given", "manager", "summarise_product", {}, "clarification_required", "missing"),
    ("six measures", "manager", "summarise_product", {"measures": [{"op": "count"}] * 6}, "invalid_value", "1 to 5"),
    ("sum of what is hidden", "support", "summarise_product", {"measures": [{"op": "sum", "field": "cost_price"}]}, "unknown_field", "price"),
    ("groups of what is hidden", "support", "summarise_customer", {"measures": [{"op": "count"}], "by": ["internal_note"]}, "unknown_field", "country"),
    ("groups of what is shown only", "support", "summarise_customer", {"measures": [{"op": "count"}], "by": ["email"]}, "unknown_field", "country"),
    ("three groups", "manager", "summarise_order", {"measures": [{"op": "count"}], "by": ["status", "region", "customer"]}, "invalid_value", "at most 2"),
    ("every without a date", "manager", "summarise_order", {"measures": [{"op": "count"}], "by": ["status"], "every": "month"}, "invalid_value", "dates"),
    ("a date without every", "manager", "summarise_order", {"measures": [{"op": "count"}], "by": ["placed_at"]}, "invalid_value", "month"),
    ("every decade", "manager", "summarise_order", {"measures": [{"op": "count"}], "by": ["placed_at"], "every": "decade"}, "invalid_value", "day, week, month"),
    ("rows of a count", "manager", "count_order", {"limit": 5}, "unknown_argument", "filters"),
    ("a count of no such field", "manager", "count_order", {"filters": {"total": 5}}, "unknown_field", "status"),
    # -- what she alone sees ----------------------------------------------------------------------
    ("a value of what is shown only", "support", "query_customer", {"filters": {"email": "a@b.example"}}, "needs_handle", "handle"),
    ("several of what is shown only", "support", "query_customer", {"filters": {"phone": {"in": ["1"]}}}, "needs_handle", "handle"),
    ("a handle of nothing", "support", "query_customer", {"filters": {"email": "‹email r9.9›"}}, "not_found", "may not see"),
    ("order by what is shown only", "support", "query_customer", {"order_by": ["email"]}, "not_orderable", "name"),
    # -- records, lists ---------------------------------------------------------------------------
    ("history of nothing", "manager", "history_order", {}, "clarification_required", "missing"),
    ("history of no record", "manager", "history_order", {"id": "999999"}, "not_found", "no such record"),
    ("history of a list", "manager", "history_order", {"id": ["1"]}, "invalid_id", "exactly as a query gave it"),
    ("a reference of no turn", "manager", "query_order", {"filters": {"id": "r1.1"}}, "unknown_reference", "in this conversation"),
    ("no such action", "manager", "open_order_list", {"action": "delete_selected"}, "invalid_argument", "mark_as_shipped"),
    ("ids and filters", "manager", "open_order_list", {"ids": ["1"], "filters": {"status": "paid"}}, "invalid_argument", "not both"),
    ("ids that are none", "manager", "open_order_list", {"ids": ["x"]}, "invalid_id", "exactly as a query gave it"),
    ("a list to count", "viewer", "count_order", {}, "unknown_tool", "tools"),
    ("a list to sum up", "viewer", "summarise_order", {"measures": [{"op": "count"}]}, "unknown_tool", "tools"),
    ("sums where there are none", "manager", "summarise_payment", {"measures": [{"op": "count"}]}, "unknown_tool", "tools"),
    ("filters as a text", "manager", "count_order", {"filters": "status=paid"}, "invalid_argument", "filters"),
    ("filters as a list", "manager", "query_order", {"filters": [{"status": "paid"}]}, "invalid_argument", "filters"),
    ("deep filters", "manager", "query_order", {"filters": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": {"k": {"l": {}}}}}}}}}}}}}}, "invalid_arguments", ""),
    ("a number that is too long", "manager", "query_product", {"filters": {"price": {"gte": "9" * 5_000}}}, "invalid_value", "price"),
    ("unseen characters", "manager", "query_order", {"search": "SO\u0000-1"}, "invalid_arguments", ""),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: each[0])
def test_it_is_an_error_that_can_be_mended(
    wrong: tuple[str, str, str, Any, str, str], day: Any, caplog: Any
) -> None:
    _name, who, tool, args, code, part = wrong
    with CaptureQueriesContext(connection) as captured:
        outcome = run_call(who, tool, args)
    assert isinstance(outcome, Failed), outcome
    error = outcome.content["error"]
    assert (error["code"], part in (error["message"] + " " + " ".join(error))) == (code, True), error
    assert len(str(error)) < 600
    assert "Traceback" not in str(error)
    assert not caplog.records
    assert len(captured) < 20


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 80
    assert len({each[0] for each in WRONG}) == len(WRONG)


def test_the_model_hears_of_it_and_can_mend_it(day: Any) -> None:
    wrong = {"measures": [{"op": "sum", "field": "title"}]}
    right = {"measures": [{"op": "sum", "field": "price"}]}
    with script(Call("summarise_product", wrong), Call("summarise_product", right), Text("There.")) as model:
        answer = ask(client_for(day, "viewer", "en"), "total of products")
    assert answer["reply"] == "There."
    assert len(answer["results"]) == 1
    assert "needs a field of numbers" in model.requests[1].messages[-1].text
