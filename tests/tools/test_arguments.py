"""Arguments of write tools: from a signature to a schema, and from any JSON to the declared type or an error."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import string
from typing import Annotated, Any, List, Literal, Optional  # noqa: UP035

import pytest
from django.contrib import admin
from hypothesis import given
from hypothesis import strategies as st

from django_copilot import Preview, write_tool
from django_copilot.exceptions import CallError, ConfigurationError
from django_copilot.tools.arguments import (
    MAX_ITEMS,
    MAX_TEXT,
    NEVER,
    Arg,
    arguments_of,
    clean_arguments,
    from_stored,
    schema_of,
    to_stored,
)
from django_copilot.tools.shapes import parse_arguments
from example_project.store.models import Order
from tests.gate.calls import raw, run, verdict


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


def everything(
    ctx: Any,
    text: str,
    number: Annotated[int, Arg(min=-5, max=10, description="how many")],
    flag: bool,
    money: Annotated[decimal.Decimal, Arg(min=0)],
    day: datetime.date,
    pick: Literal["a", "b"],
    size: Size,
    state: Order.Status,
    names: list[str],
    *,
    short: Annotated[str, Arg(max_length=3)] = "",
    maybe: int | None = None,
    days: Optional[list[datetime.date]] = None,  # noqa: UP045
    flags: list[bool] = [],  # noqa: B006
) -> None:
    """Take one argument of each kind."""


ARGUMENTS = arguments_of(everything)
REQUIRED = ["text", "number", "flag", "money", "day", "pick", "size", "state", "names"]
TYPES: dict[str, Any] = {
    "text": str,
    "number": int,
    "flag": bool,
    "money": decimal.Decimal,
    "day": datetime.date,
    "pick": str,
    "size": str,
    "state": str,
    "names": list,
    "short": str,
    "maybe": int,
    "days": list,
    "flags": list,
}
GOOD: dict[str, Any] = {
    "text": "x",
    "number": 1,
    "flag": False,
    "money": "1.50",
    "day": "2026-12-31",
    "pick": "a",
    "size": "l",
    "state": "paid",
    "names": ["x"],
}


def test_the_schema_comes_from_the_signature() -> None:
    assert schema_of(ARGUMENTS) == {
        "type": "object",
        "additionalProperties": False,
        "required": REQUIRED,
        "properties": {
            "text": {"type": "string"},
            "number": {"type": "integer", "minimum": -5, "maximum": 10, "description": "how many"},
            "flag": {"type": "boolean"},
            "money": {"type": "string", "minimum": 0},
            "day": {"type": "string", "format": "date"},
            "pick": {"type": "string", "enum": ["a", "b"]},
            "size": {"type": "string", "enum": ["s", "l"]},
            "state": {"type": "string", "enum": ["pending", "paid", "shipped", "cancelled"]},
            "names": {"type": "array", "items": {"type": "string"}},
            "short": {"type": "string"},
            "maybe": {"type": "integer"},
            "days": {"type": "array", "items": {"type": "string", "format": "date"}},
            "flags": {"type": "array", "items": {"type": "boolean"}},
        },
    }


def test_a_tool_that_takes_nothing_has_a_closed_schema_too() -> None:
    def nothing(ctx: Any) -> None: ...

    assert schema_of(arguments_of(nothing)) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {},
    }
    with pytest.raises(CallError, match="takes only: nothing"):
        clean_arguments({}, {"x": 1})


# -- signatures that are none ----------------------------------------------------------------------------


def no_context() -> None: ...
def no_annotation(ctx: Any, x) -> None: ...  # type: ignore[no-untyped-def]
def many(ctx: Any, *x: str) -> None: ...
def anything(ctx: Any, **x: str) -> None: ...
def by_position(ctx: Any, x: str, /) -> None: ...
def of_float(ctx: Any, x: float) -> None: ...
def of_dict(ctx: Any, x: dict[str, int]) -> None: ...
def of_any(ctx: Any, x: Any) -> None: ...
def of_union(ctx: Any, x: int | str) -> None: ...
def of_numbers(ctx: Any, x: Literal[1, 2]) -> None: ...
def of_numbered(ctx: Any, x: enum.IntEnum) -> None: ...
def of_lists(ctx: Any, x: list[list[str]]) -> None: ...
def of_bare_list(ctx: Any, x: list) -> None: ...  # type: ignore[type-arg]
def of_typing_list(ctx: Any, x: List) -> None: ...  # type: ignore[type-arg]  # noqa: UP006
def of_pair(ctx: Any, x: list[str, int]) -> None: ...  # type: ignore[type-arg]
def of_model(ctx: Any, x: Order) -> None: ...
def of_time(ctx: Any, x: datetime.datetime) -> None: ...
def of_nothing(ctx: Any, x: None) -> None: ...
def unknown(ctx: Any, x: NoSuchType) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def optional(ctx: Any, x: str | None) -> None: ...


def of_value(ctx: Any, x: str) -> None: ...


of_value.__annotations__["x"] = [int]

BAD = [
    no_context,
    no_annotation,
    many,
    anything,
    by_position,
    of_float,
    of_dict,
    of_any,
    of_union,
    of_numbers,
    of_numbered,
    of_lists,
    of_bare_list,
    of_typing_list,
    of_pair,
    of_model,
    of_time,
    of_nothing,
    unknown,
    optional,
    of_value,
]


@pytest.mark.parametrize("function", BAD, ids=lambda each: each.__name__)
def test_a_signature_that_can_not_be_asked_of_a_model_is_a_problem_of_the_tool(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=function.__name__):
        arguments_of(function)
    tool = write_tool(Order, name="odd")(function)
    (problem,) = tool.problems
    assert function.__name__ in problem


@pytest.mark.parametrize("name", sorted(NEVER))
def test_no_tool_can_ask_a_model_for_a_confirmation(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(ctx, {name}: str): ...", scope)
    with pytest.raises(ConfigurationError, match=f"{name} is never the model's to say"):
        arguments_of(scope["f"])


# -- any JSON ----------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
anything_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(
        ["a", "b", "s", "paid", "1.5", "2026-02-29", "2028-02-29", "2026-1-1", "١", "-0", "1e3"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(TYPES)), anything_json))
def test_any_json_becomes_the_declared_type_or_an_error(changed: dict[str, Any]) -> None:
    given_values = {**GOOD, **changed}
    try:
        cleaned = clean_arguments(ARGUMENTS, given_values)
    except CallError as error:
        assert error.code in ("invalid_argument", "clarification_required")  # noqa: PT017
        return
    assert set(cleaned) == {name for name, value in given_values.items() if value is not None}
    for name, value in cleaned.items():
        assert type(value) is TYPES[name]
    assert -5 <= cleaned["number"] <= 10
    assert cleaned["pick"] in ("a", "b")
    assert cleaned["size"] in ("s", "l")
    assert len(cleaned.get("short", "")) <= 3
    assert all(type(each) is str for each in cleaned["names"])
    assert all(type(each) is datetime.date for each in cleaned.get("days", ()))
    assert all(type(each) is bool for each in cleaned.get("flags", ()))
    assert cleaned["money"].is_finite()
    stored = json.loads(json.dumps(to_stored(cleaned), allow_nan=False))
    assert from_stored(ARGUMENTS, stored) == cleaned
    assert to_stored(from_stored(ARGUMENTS, stored)) == stored


@given(st.text(string.printable, max_size=40))
def test_what_is_no_json_object_is_an_error_and_nothing_else(text: str) -> None:
    try:
        assert isinstance(parse_arguments(text), dict)
    except CallError as error:
        assert error.code == "invalid_arguments"  # noqa: PT017


WRONG: list[tuple[str, Any]] = [
    *(("text", each) for each in (1, True, 1.5, ["x"], {"x": 1}, " ", "\t\n", "x" * (MAX_TEXT + 1))),
    *(("number", each) for each in (True, False, "1", 1.0, -6, 11, 2**63, 10**400, [1])),
    *(("flag", each) for each in (0, 1, "true", "yes", "on", [True])),
    *(
        ("money", each)
        for each in (1, 1.5, "1,5", "1e5", "NaN", "Infinity", "+1", " 1", "1 ", ".5", "5.", "01", "-1", "١")
    ),
    *(("money", each) for each in ("1" * 19, "0.0000001", "1_0", "0x1", "")),
    *(("day", each) for each in (20261231, "2026-13-01", "2026-02-29", "20261231", "2026-W01-1", "0000-01-01")),
    *(("day", each) for each in ("2026-12-31T00:00:00", "2026-1-1", "٢٠٢٦-12-31", "today", True)),
    *(("pick", each) for each in ("A", "a ", 1, ["a"], True, "c")),
    *(("size", each) for each in ("SMALL", "small", 0)),
    *(("state", each) for each in ("Paid", "PAID", "paid ")),
    *(("names", each) for each in ("x", {"x": 1}, ["x", 1], [None], [["x"]], ["x"] * (MAX_ITEMS + 1), [" "])),
    *(("short", each) for each in ("abcd", 1)),
    *(("days", each) for each in (["2026-13-01"], "2026-12-31")),
    *(("flags", each) for each in ([1], ["true"])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda each: repr(each)[:24])
def test_a_value_of_another_type_is_refused_and_named(name: str, value: Any) -> None:
    with pytest.raises(CallError) as caught:
        clean_arguments(ARGUMENTS, {**GOOD, name: value})
    asked_for = value in ("", [])
    assert caught.value.code == ("clarification_required" if asked_for else "invalid_argument")
    assert len(caught.value.message) < 700
    assert caught.value.details == ({"missing": [name]} if asked_for else {"argument": name})


def test_values_at_the_edge_are_taken() -> None:
    edge = {
        "text": "x" * MAX_TEXT,
        "number": -5,
        "money": "9" * 18 + ".999999",
        "day": "9999-12-31",
        "names": ["x"] * MAX_ITEMS,
        "short": " abc ",
    }
    cleaned = clean_arguments(ARGUMENTS, {**GOOD, **edge})
    assert cleaned["money"] == decimal.Decimal("999999999999999999.999999")
    assert cleaned["short"] == "abc"


@pytest.mark.parametrize("empty", [None, "", []])
@pytest.mark.parametrize("name", REQUIRED)
def test_what_is_missing_is_asked_for_and_never_guessed(name: str, empty: Any) -> None:
    for given_values in ({**GOOD, name: empty}, {n: v for n, v in GOOD.items() if n != name}):
        with pytest.raises(CallError) as caught:
            clean_arguments(ARGUMENTS, given_values)
        assert (caught.value.code, caught.value.details) == ("clarification_required", {"missing": [name]})


def test_what_may_be_left_out_is_left_out() -> None:
    assert clean_arguments(ARGUMENTS, {**GOOD, "maybe": None, "days": None}) == clean_arguments(
        ARGUMENTS, GOOD
    )


# -- through the gate ------------------------------------------------------------------------------------

FORBIDDEN = [
    *("confirm", "confirmed", "confirmed_by", "approve", "approved", "approved_by", "actor", "category"),
    *("key", "version", "idempotency_key", "grant", "user", "requester", "plan", "digest", "ctx", "self", ""),
    *("dry_run", "amount", "currency", "customer", "payment", "__class__", "Order", "order "),
]  # fmt: skip
CALLS = {
    "change_shipping_address": {"order": "X", "street": "S", "postal_code": "1", "city": "C"},
    "refund_payment": {"order": "X", "amount_cents": 5, "reason": "because"},
    "draft_customer_message": {"order": "X", "topic": "late"},
}


@pytest.mark.parametrize("tool", CALLS)
def test_an_argument_that_is_not_the_models_is_refused(store: Any, tool: str) -> None:
    for name in FORBIDDEN:
        for value in (True, "admin", 1, None, {}):
            outcome = run("manager", tool, {**CALLS[tool], name: value})
            assert verdict(outcome) == "unknown_argument", (name, value)
            assert outcome.content["error"]["arguments"] == [name]
    assert verdict(run("manager", tool, CALLS[tool])) in ("not_found", "refused")


@pytest.mark.parametrize("tool", CALLS)
def test_no_schema_has_a_place_for_a_decision(store: Any, tool: str) -> None:
    from django_copilot.tools.write import all_tools

    properties = set(all_tools()[tool].schema["properties"])
    assert properties == set(CALLS[tool])
    assert not properties & set(FORBIDDEN)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"order": "X", "amount_cents": 1e400, "reason": "r"}', "invalid_arguments"),
        ('{"order": "X", "amount_cents": NaN, "reason": "r"}', "invalid_arguments"),
        ('{"order": "X", "amount_cents": -Infinity, "reason": "r"}', "invalid_arguments"),
        ('{"order": "X", "amount_cents": %s, "reason": "r"}' % ("9" * 5000), "invalid_arguments"),
        ('{"order": "X", "amount_cents": %s, "reason": "r"}' % ("9" * 400), "invalid_argument"),
        ('{"order": "X", "amount_cents": true, "reason": "r"}', "invalid_argument"),
        ('{"order": "X", "amount_cents": 1e3, "reason": "r"}', "invalid_argument"),
        ('{"order": "X", "amount_cents": 0, "reason": "r"}', "invalid_argument"),
        ('{"order": "X", "amount_cents": -1, "reason": "r"}', "invalid_argument"),
        ('{"order": "X", "amount_cents": "100", "reason": "r"}', "invalid_argument"),
        ('{"order": "X", "amount_cents": [1], "reason": "r"}', "invalid_argument"),
        (r'{"order": "\ud800", "amount_cents": 1, "reason": "r"}', "invalid_arguments"),
        (r'{"order": "X\u0000", "amount_cents": 1, "reason": "r"}', "invalid_arguments"),
        ('{"order": "X", "order": "Y", "amount_cents": 1, "reason": "r"}', "invalid_arguments"),
        ('{"order": "X", "amount_cents": 1, "reason": "%s"}' % ("r" * 201), "invalid_argument"),
        ('["X"]', "invalid_arguments"),
        ("", "clarification_required"),
        ('{"order": "X"}', "clarification_required"),
    ],
    ids=lambda each: each[:60],
)  # fmt: skip
def test_odd_json_is_refused_before_the_tool_is_asked(
    store: Any, monkeypatch: pytest.MonkeyPatch, arguments: str, code: str
) -> None:
    from django_copilot.tools.write import all_tools

    asked: list[Any] = []
    monkeypatch.setitem(
        all_tools()["refund_payment"]._steps, "preview", lambda *args, **kwargs: asked.append(kwargs)
    )
    assert verdict(raw("manager", "refund_payment", arguments)) == code
    assert asked == []


def test_a_function_with_a_broken_signature_can_not_be_called_by_anybody(store: Any) -> None:
    @write_tool(Order)
    def broken(ctx: Any, x: float) -> Preview:
        """Do it."""
        raise AssertionError

    assert broken.problems
    assert verdict(run("admin", "broken", {"x": 1.5})) == "unknown_tool"
    assert admin.site.is_registered(Order)
