"""System checks of write tools: each id with a declaration that earns it, and silence for one that does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core import checks
from django.test import override_settings

import django_copilot.tools.checks as module
from django_copilot import Above, Preview, write_tool
from django_copilot.models import Plan
from django_copilot.tools.checks import check_tools
from example_project.store.models import Order, OrderLine

IDS = sorted(set(re.findall(r"copilot\.[EW]\d{3}", Path(module.__file__).read_text())))
SHIPPED = len(check_tools())


def _preview(ctx: Any, order: str) -> Preview:
    """Do it."""
    raise AssertionError


def _undocumented(ctx: Any, order: str) -> Preview:
    raise AssertionError


def _broken(ctx: Any, order: float) -> Preview:
    """Do it."""
    raise AssertionError


def _other(ctx: Any) -> Preview:
    """Do it."""
    raise AssertionError


def found(
    function: Any = _preview,
    model: Any = Order,
    steps: tuple[str, ...] = (),
    wrong: tuple[str, ...] = (),
    **declared: Any,
) -> Any:
    """Declare a tool, some of whose steps take something ``wrong``, and return the messages about it."""
    tool = write_tool(model, **{"name": "checked", **declared})(function)
    for step in steps:
        getattr(tool, step)(lambda *args: None)
    for step in wrong:
        getattr(tool, step)(lambda: None)
    return [each for each in check_tools() if tool.where in each.msg]


def test_the_examples_tools_have_nothing_to_complain_of() -> None:
    assert SHIPPED == 0
    assert check_tools() == []


EARNED: list[tuple[str, dict[str, Any]]] = [
    ("copilot.E050", {"function": _broken}),
    ("copilot.E050", {"category": "deadly"}),
    ("copilot.E051", {"name": "ask_user"}),
    ("copilot.E051", {"name": "find_entities"}),
    ("copilot.E051", {"name": "query_order"}),
    ("copilot.E051", {"name": "open_order_form"}),
    ("copilot.E051", {"name": "confirm_delete_order"}),
    ("copilot.E051", {"name": "with blank"}),
    ("copilot.E051", {"name": "ż"}),
    ("copilot.E051", {"name": "x" * 65}),
    ("copilot.E053", {"function": _undocumented}),
    ("copilot.E054", {"category": "destructive", "reversible": True}),
    ("copilot.E055", {"steps": ("apply",), "reversible": True}),
    ("copilot.E055", {"steps": ("call", "look_up"), "reversible": True}),
    *(("copilot.E056", {"category": "read_only", "steps": (each,)}) for each in ("apply", "reserve", "settle")),
    *(("copilot.E056", {"category": "read_only", "steps": (each,)}) for each in ("call", "look_up", "dry_run")),
    ("copilot.E056", {"category": "read_only", "reversible": True}),
    ("copilot.E057", {"steps": ("call", "look_up", "apply")}),
    *(("copilot.E057", {"steps": (each,)}) for each in ("reserve", "settle", "look_up")),
    ("copilot.E058", {"approval": 10_000}),
    ("copilot.E058", {"approval": Above}),
    ("copilot.E058", {"approval": lambda *args: True}),
    ("copilot.E059", {"permissions": ["change_order"]}),
    ("copilot.E059", {"permissions": "change_order"}),
    ("copilot.E059", {"permissions": [None]}),
    ("copilot.E059", {"approve_permissions": ["store"]}),
    ("copilot.E060", {"model": Plan}),
    ("copilot.W061", {"model": OrderLine}),
    ("copilot.W062", {"steps": ("call",)}),
    ("copilot.W063", {"permissions": ["store.chnge_order"]}),
    ("copilot.W063", {"approve_permissions": ["stor.change_order"]}),
    *(("copilot.E064", {"wrong": (each,)}) for each in ("apply", "dry_run")),
    *(("copilot.E064", {"wrong": ("call", each)}) for each in ("reserve", "call", "settle", "look_up")),
]  # fmt: skip
SILENT: list[dict[str, Any]] = [
    {},
    {"category": "read_only"},
    {"category": "destructive", "approval": Above(5)},
    {"reversible": True, "permissions": ["store.change_order"], "approve_permissions": ["auth.add_user"]},
    {"steps": ("apply",)},
    {"steps": ("dry_run",)},
    {"steps": ("dry_run", "reserve", "call", "settle", "look_up")},
    {"name": "x" * 64},
    {"name": "with-dash_1"},
]


def named(value: Any) -> str:
    """Return a test's name for a value: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))[:60]


@pytest.mark.parametrize(("expected", "declared"), EARNED, ids=named)
def test_a_declaration_that_can_not_be_meant_is_reported(expected: str, declared: dict[str, Any]) -> None:
    messages = found(**declared)
    assert expected in {each.id for each in messages}
    assert {each.id for each in messages} <= {expected, "copilot.W062"}
    level = checks.ERROR if expected.startswith("copilot.E") else checks.WARNING
    assert {each.level for each in messages if each.id == expected} == {level}


@pytest.mark.parametrize("declared", SILENT, ids=named)
def test_a_declaration_that_can_be_meant_is_not(declared: dict[str, Any]) -> None:
    assert found(**declared) == []


def test_two_tools_of_one_name_are_reported_and_the_first_one_stays() -> None:
    first = write_tool(Order, name="checked")(_preview)
    write_tool(Order, name="checked")(_other)
    messages = check_tools()
    assert [each.id for each in messages] == ["copilot.E052"]
    assert _other.__name__ in messages[0].msg
    from django_copilot.tools.write import all_tools

    assert all_tools()["checked"] is first


def test_a_module_that_is_imported_again_declares_nothing_twice() -> None:
    for _number in range(2):
        write_tool(Order, name="checked")(_preview)
    assert check_tools() == []


def test_each_id_is_earned_here() -> None:
    assert {expected for expected, _ in EARNED} | {"copilot.E052"} == set(IDS)


@override_settings(COPILOT={"MAX_WRITE_TOOLS": 0})
def test_the_checks_run_with_djangos(db: None) -> None:
    write_tool(Order, name="checked")(_undocumented)
    ids = [each.id for each in checks.run_checks() if str(each.id).startswith("copilot.")]
    assert "copilot.E053" in ids
    assert "copilot.E004" in ids
