"""The mutation run itself: what it names is there, what it takes away is away, and it fails when nothing notices."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from django_copilot import gate

from . import guards, runner, samples, switch
from .equivalent import EQUIVALENT
from .invariants import INVARIANTS
from .runner import Removal, judge, matches, verdict
from .warm import ROOT, Ended
from .watch import OFF

KNOWN = {each.id: each for each in guards.all_guards()}

# -- the tables ------------------------------------------------------------------------------------------


def test_each_invariant_is_held_by_guards_that_are_there() -> None:
    """A guard that was renamed or removed does not drop out silently."""
    assert [each for removal in INVARIANTS for each in removal.guards if each not in KNOWN] == []
    numbers = {removal.number for removal in INVARIANTS}
    assert numbers == set(range(1, 13))
    assert {int(n) for n in re.findall(r"^(\d+)\. ", gate.__doc__ or "", re.M)} < numbers
    assert all(removal.tests and removal.guards for removal in INVARIANTS)


def test_several_guards_at_once_have_a_reason_and_no_removal_stands_twice() -> None:
    assert [each.name for each in INVARIANTS if (len(each.guards) > 1) != bool(each.why)] == []
    assert len({each.name for each in INVARIANTS}) == len(INVARIANTS)


def test_the_tests_that_are_named_are_there() -> None:
    for removal in INVARIANTS:
        for test in removal.tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), test
            function = name.partition("[")[0]
            assert not function or f"def {function}(" in (ROOT / path).read_text("utf-8"), test


def test_what_counts_as_equivalent_is_there_has_a_reason_and_holds_no_invariant() -> None:
    assert [each for each in EQUIVALENT if each not in KNOWN] == []
    assert all(len(reason.split()) >= 4 for reason in EQUIVALENT.values())
    held_alone = {each for removal in INVARIANTS for each in removal.guards if len(removal.guards) == 1}
    assert held_alone & set(EQUIVALENT) == set()


def test_the_files_of_the_boundary_are_looked_at_and_each_id_is_of_one_guard() -> None:
    assert len(KNOWN) == sum(len(guards.guards_of(path)) for path in guards.FILES)
    package = guards.PACKAGE
    for folder in ("access", "plans"):
        found = {f"{folder}/{each.name}" for each in (package / folder).glob("*.py")}
        without = {f"{folder}/__init__.py", "plans/texts.py", "plans/trail.py"}  # which decide nothing
        assert found - without <= set(guards.FILES)
    assert {each.path for each in KNOWN.values()} == set(guards.FILES)
    assert {each.kind for each in KNOWN.values()} == set(guards.KINDS)


# -- finding and taking away -----------------------------------------------------------------------------

SAMPLE = """
from contextlib import contextmanager
log = []
class Refused(Exception): pass
@contextmanager
def only_reading():
    log.append("in"); yield
def check(x): log.append(x)
def refusing(x, y):
    if x or y:
        raise Refused
    return "done"
def member(x):
    if x in ("a", "b"):
        raise Refused
    return "done"
def pairs(a, b):
    if (a, b) != (1, 2):
        raise Refused
    return "done"
def negated(a, b):
    if not (a and b):
        return "no"
    return "done"
def answering(a, b) -> bool:
    return a and not b
def filtering(xs):
    return [x for x in xs if x > 0]
def codes(a) -> str:
    return "" if a else "forbidden"
def rows(plans, a):
    return plans.filter(pk=1, site=a)
def reading():
    with only_reading():
        return len(log)
def calling(x):
    check(x)
    return log
def catching(f):
    try:
        return f()
    except LookupError:
        return None
def meeting(a, b):
    return a & b
"""


class Plans:
    """Give back what it is filtered by."""

    def filter(self, **conditions: Any) -> dict[str, Any]:
        return conditions


def failing() -> None:
    raise LookupError


# function, arguments, and what is taken away → what comes of it
TAKEN: list[tuple[str, tuple[Any, ...], str, Any]] = [
    ("refusing", (1, 1), "", "Refused"),
    ("refusing", (1, 1), "if x or y", "done"),
    ("refusing", (1, 0), "operand x", "done"),
    ("refusing", (0, 1), "operand x", "Refused"),
    ("refusing", (0, 1), "operand y", "done"),
    ("member", ("a",), "operand 'a'", "done"),
    ("member", ("b",), "operand 'a'", "Refused"),
    ("pairs", (3, 2), "operand a != 1", "done"),
    ("pairs", (3, 4), "operand a != 1", "Refused"),
    ("pairs", (1, 4), "operand b != 2", "done"),
    ("negated", (0, 1), "", "no"),
    ("negated", (0, 1), "operand a", "done"),
    ("negated", (0, 0), "if not (a and b)", "done"),
    ("answering", (0, 0), "operand a", True),
    ("answering", (1, 1), "operand not b", 1),
    ("answering", (0, 1), "answer True for a and (not b)", True),
    ("answering", (1, 0), "answer False for a and (not b)", False),
    ("filtering", ([-1, 1],), "filter x > 0", [-1, 1]),
    ("codes", (0,), "", "forbidden"),
    ("codes", (0,), "if a", ""),
    ("rows", (Plans(), 2), "", {"pk": 1, "site": 2}),
    ("rows", (Plans(), 2), "keyword filter(site=a)", {"pk": 1}),
    ("reading", (), "", 1),
    ("reading", (), "with only_reading()", 0),
    ("calling", (5,), "", [5]),
    ("calling", (5,), "call check(x)", []),
    ("catching", (failing,), "", None),
    ("catching", (failing,), "except LookupError: return None", "LookupError"),
    ("meeting", ({1, 2}, {2}), "", {2}),
    ("meeting", ({1, 2}, {2}), "meet a & b", {1, 2}),
]


# Where an operand was no reason anyway, its absence makes no difference.
SAME = {("refusing", (0, 1), "operand x")}


@pytest.mark.parametrize(
    ("function", "args", "off", "expected"), TAKEN, ids=[f"{t[0]}-{t[2]}" for t in TAKEN]
)
def test_a_guard_that_is_taken_away_holds_nothing_and_the_others_still_do(
    monkeypatch: pytest.MonkeyPatch, function: str, args: tuple[Any, ...], off: str, expected: Any
) -> None:
    taken = f"sample.py:{function}:1:{off}"
    found = {each.id for each in guards._Instrument("sample.py", SAMPLE).guards}
    assert not off or taken in found
    monkeypatch.setattr(switch, "off", frozenset({taken}))
    monkeypatch.setattr(switch, "asked", set())
    world: dict[str, Any] = {
        guards.SWITCH: switch.removed,
        guards.HELD: switch.held,
        guards.NOTHING: switch._Nothing(),
    }
    exec(compile(guards.instrument("sample.py", SAMPLE), "sample.py", "exec"), world)
    try:
        got = world[function](*args)
    except Exception as error:
        got = type(error).__name__
    assert got == expected
    assert switch.asked <= found
    assert not off or (taken in switch.asked) is not any(each == (function, args, off) for each in SAME)


def test_with_nothing_taken_away_a_file_is_what_it_was() -> None:
    """Take every question out of an instrumented file again, and it is the source."""

    class Undo(ast.NodeTransformer):
        def visit_IfExp(self, node: ast.IfExp) -> Any:
            self.generic_visit(node)
            match node.test:
                case ast.Call(func=ast.Name(id=guards.SWITCH)):
                    return node.orelse
            return node

        def visit_Call(self, node: ast.Call) -> Any:
            self.generic_visit(node)
            if isinstance(node.func, ast.Name) and node.func.id == guards.HELD:
                return node.args[2]
            for each in node.keywords:
                match each:
                    case ast.keyword(arg=None, value=ast.Dict(keys=[ast.Constant(value=str() as name)])):
                        each.arg, each.value = name, each.value.values[0]
            return node

    for path in guards.FILES:
        source = (guards.PACKAGE / path).read_text("utf-8")
        undone = Undo().visit(guards.instrument(path, source))
        assert ast.unparse(undone) == ast.unparse(ast.parse(source)), path


def test_a_name_that_no_guard_has_takes_nothing_away() -> None:
    with pytest.raises(LookupError, match=r"gate\.py:nothing"):
        switch.turn_off("gate.py:nothing:1:if x")
    assert switch.off == frozenset()


# -- what a run says -------------------------------------------------------------------------------------

ONE = Removal(guards=("a",), tests=("t",))
BOTH = Removal(guards=("a", "b"), tests=("t",))


def ended(status: int | str, *asked: str, failed: str = "") -> Ended:
    return Ended(status=status, output="", told={"guards": list(asked), "failed": failed})


@pytest.mark.parametrize(
    ("removal", "end", "result"),
    [
        (ONE, ended(1, "a", failed="t"), "killed"),
        (ONE, ended("timeout"), "killed"),
        (ONE, ended(0, "a"), "survived"),
        (ONE, ended(1, failed="t"), "error"),  # red, and not for this
        (ONE, ended(1, "a"), "error"),  # red without a red test
        (ONE, ended(0), "unreached"),
        (BOTH, ended(0, "a"), "unreached"),
        (BOTH, ended(1, "a", failed="t"), "killed"),
        *((ONE, ended(status, "a", failed="t"), "error") for status in (2, 3, 4, 5, 70, -9)),
    ],
)
def test_red_counts_only_for_a_failing_test_that_came_upon_the_guard(
    removal: Removal, end: Ended, result: str
) -> None:
    assert judge(removal, end).result == result


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (["killed", "killed"], 0),
        (["killed", "survived"], 1),
        (["killed", "unreached"], 1),
        (["survived", "error"], 2),
        ([], 2),
    ],
)
def test_a_survivor_fails_the_run(results: list[str], status: int) -> None:
    assert verdict([runner.Result(what=each, result=each) for each in results]) == status


def test_tests_are_named_by_folder_file_function_and_case() -> None:
    node = "tests/a/test_b.py::test_c[d]"
    for name in ("tests/a", "tests/a/test_b.py", "tests/a/test_b.py::test_c", node):
        assert matches(node, [name])
    for name in ("tests/a/test_b", "tests/a/test_b.py::test_", "test_c", "tests/a/test_b.py::test_c[e]"):
        assert not matches(node, [name])


# -- in processes of their own ---------------------------------------------------------------------------


def started(*command: str, off: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    outer = ("PYTEST_", "COPILOT_", "DJANGO_SETTINGS_MODULE", "COV_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**env, **more, **({OFF: off} if off else {})},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.parametrize(
    ("off", "test", "status"),
    [
        ("", samples.NOTICES, 0),
        (samples.MOVES, samples.NOTICES, 1),
        (samples.MOVES, samples.ELSEWHERE, 4),  # which does not come upon it
        ("gate.py:run:1:if nothing", samples.NOTICES, 4),
    ],
    ids=["nothing off", "off", "not reached", "unknown"],
)
def test_a_run_by_hand_takes_away_what_the_environment_names(off: str, test: str, status: int) -> None:
    options = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "-p", "tests.mutation.plugin")
    done = started("pytest", *options, test, off=off)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("1 failed in " in done.stdout) is (status == 1)


def test_the_command_fails_with_a_survivor_and_names_file_line_and_source() -> None:
    # The options are those of whoever runs the rest in several processes: they don't hold for the forks.
    several = "--numprocesses=2 --dist=worksteal"
    done = started(
        "tests.mutation", "--table", "tests.mutation.samples", "--jobs", "2", PYTEST_ADDOPTS=several
    )
    line = KNOWN[samples.OVER].line
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 killed, 1 survived" in done.stdout
    assert (
        f"django_copilot/plans/states.py:{line}: if: state is S.PROPOSED and plan.expires_at" in done.stdout
    )


@pytest.mark.parametrize(
    ("table", "said"),
    [("Unreached", "no test comes upon it"), ("Unknown", "There is no such guard: gate.py:run:1:if nothing")],
)
def test_the_command_says_nothing_about_what_was_not_taken_away(table: str, said: str) -> None:
    done = started("tests.mutation", "--table", f"tests.mutation.samples:{table}")
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stdout
