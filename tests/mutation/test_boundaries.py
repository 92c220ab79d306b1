"""Boundaries on the syntax tree, also for who goes around an import: by a text, by a computed name, by a table.

``tests/test_frame.py`` and ``tests/gate/test_invariants.py`` hold the plain ones: who imports what, who calls
a tool's step, who makes a grant. Here stands what would let somebody slip past those.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import django_copilot

PACKAGE = Path(django_copilot.__file__).parent
# The hostile program stands outside of the boundary: it pokes at everything, and nothing uses it.
OUTSIDE = ("redteam/", "management/commands/copilot_redteam.py", "migrations/")


def is_product(name: str) -> bool:
    return not name.startswith(OUTSIDE)


TREES = {
    name: ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
    if is_product(name := path.relative_to(PACKAGE).as_posix())
}


def where(wanted: Callable[[ast.AST], bool], trees: dict[str, ast.Module] | None = None) -> set[str]:
    """Return the files in which a node is wanted."""
    return {
        name
        for name, tree in (TREES if trees is None else trees).items()
        if any(wanted(node) for node in ast.walk(tree))
    }


def name_of(node: ast.AST) -> str:
    """Return the last part of a name, of an attribute, or of an import."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            return name.rpartition(".")[2]
    return ""


def named(*names: str) -> Callable[[ast.AST], bool]:
    return lambda node: name_of(node) in names


def said(pattern: str) -> Callable[[ast.AST], bool]:
    """Tell of a text in the code that matches, docstrings aside: they are looked at by hand."""
    compiled = re.compile(pattern)
    return lambda node: (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(compiled.search(node.value))
    )


def test_what_is_looked_at_is_the_product() -> None:
    assert len(TREES) > 80
    assert {"gate.py", "plans/decisions.py", "turn/machine.py", "backends/openai.py"} <= set(TREES)


# -- importing by a text -----------------------------------------------------------------------------------

IMPORTING = (
    "import_module",
    "__import__",
    "import_string",
    "find_spec",
    "exec_module",
    "run_module",
    "run_path",
)


def test_only_these_import_by_a_text() -> None:
    """Of each it is known what it can import: the public names, the project's own functions, backends, views."""
    assert where(named(*IMPORTING)) == {
        "__init__.py",  # from a table of its own
        "api/lazy.py",  # views, by the dotted names in the URLs
        "backends/__init__.py",  # the backend that a setting names
        "people.py",  # functions that settings name
        "scope.py",  # likewise
    }
    texts = [
        node
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and name_of(node.func) in IMPORTING
        and isinstance(node.args[0], ast.Constant)
    ]
    assert texts == []  # one with a fixed text would be an import


def is_lazy(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) == "LazyView"


def test_what_the_package_imports_by_a_text_of_its_own_is_not_behind_a_boundary() -> None:
    from django_copilot import _HOMES
    from django_copilot.backends import _BUILT_IN

    assert set(_HOMES.values()) == {"declaring", "mixin", "tools.arguments", "exceptions", "tools.write"}
    assert {each.rpartition(".")[0] for each in _BUILT_IN.values()} == {
        f"django_copilot.backends.{name}" for name in ("openai", "offline", "scripted")
    }
    dotted = {
        node.value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"django_copilot(\.\w+)*\.[A-Z]\w*", node.value)
    }
    assert {each for each in dotted if not each.startswith("django_copilot.api.")} == set(_BUILT_IN.values())
    lazy = [ast.unparse(node.args[0]) for node in ast.walk(TREES["admin.py"]) if is_lazy(node)]
    assert lazy == ["f'django_copilot.api.{name}'"]


def test_no_code_is_made_from_a_text_and_no_loaded_module_is_picked() -> None:
    def makes_code(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and (
            isinstance(node.func, ast.Name)
            and node.func.id in ("eval", "exec", "compile", "globals", "locals")
        )

    assert where(makes_code) == set()
    unwanted = ("pickle", "marshal", "shelve", "ctypes", "gc", "code", "attrgetter", "methodcaller")
    assert where(lambda node: isinstance(node, ast.alias) and name_of(node) in unwanted) == set()
    assert where(lambda node: isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules") == set()
    hidden = (
        "__subclasses__",
        "__globals__",
        "__closure__",
        "__code__",
        "__getattribute__",
        "_current_frames",
    )
    assert where(named(*hidden)) == set()
    # A check reads the names that a function of the project uses, and makes nothing of them.
    assert where(said("^(" + "|".join(hidden) + ")$")) == {"reading_checks.py"}


# -- openai -----------------------------------------------------------------------------------------------


def test_openai_is_named_as_a_module_in_one_file_only() -> None:
    """Not by a text either: that is how it would be imported where the plain check does not look."""
    texts = where(said(r"^(openai|httpx2?|httpcore|anthropic|aiohttp|urllib3)([.]\w+)*$"))
    assert texts <= {"backends/openai.py", "backends/__init__.py", "conf.py"}
    clients = ("socket", "ssl", "http.client", "urllib.request", "ftplib", "smtplib", "asyncio", "subprocess")
    asking = {
        f"{name}: {alias.name}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        for full in [f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name]
        if any(full == each or full.startswith(f"{each}.") for each in clients)
    }
    # The product asks nobody but the model, and that through the SDK; an operator's command asks her own server.
    assert asking == {"management/commands/copilot_doctor.py: urllib.request"}


# -- the turn ---------------------------------------------------------------------------------------------

PURE = {"__future__", "collections", "dataclasses", "enum", "json", "typing"}


def in_the_turn(*names: str) -> dict[str, ast.Module]:
    return {name: tree for name, tree in TREES.items() if name.startswith(("turn/", *names))}


def test_the_turn_does_no_work_outside_of_itself() -> None:
    """The standard library alone would let it read files, clocks and sockets."""
    trees = in_the_turn("backends/base.py")
    imported = {
        (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).partition(".")[0]
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for alias in node.names
    }
    assert "json" in imported
    assert imported <= PURE <= sys.stdlib_module_names
    outside = (
        "open",
        "print",
        "input",
        "eval",
        "exec",
        "compile",
        "__import__",
        "getattr",
        "setattr",
        "globals",
    )
    assert where(named(*outside), trees) == set()
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith, ast.AsyncFor, ast.Global)
    assert where(lambda node: isinstance(node, waiting), trees) == set()


def test_the_turn_keeps_nothing_between_two_turns() -> None:
    for name, tree in in_the_turn().items():
        for statement in tree.body:
            value = getattr(statement, "value", None)
            assert not isinstance(value, ast.List | ast.Dict | ast.Set | ast.Call), (
                f"{name}:{statement.lineno}"
            )


# -- the gate ---------------------------------------------------------------------------------------------


def test_the_gate_is_called_from_a_turn_and_from_plans_and_from_nowhere_else() -> None:
    def imports_it(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.ImportFrom)
            and (
                (node.module or "").rpartition(".")[2] == "gate" or any(a.name == "gate" for a in node.names)
            )
        ) or (isinstance(node, ast.Import) and any(a.name.endswith(".gate") for a in node.names))

    assert where(imports_it) == {
        "runtime/sync.py",
        "plans/decisions.py",
        "plans/execution.py",
        "plans/undoing.py",
    }
    used = {
        f"{name}: {node.attr}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gate"
    }
    assert used == {
        "runtime/sync.py: run",
        *(f"plans/decisions.py: {each}" for each in ("look_again", "perform", "EffectDiffers")),
        *(
            f"plans/execution.py: {each}"
            for each in ("Grant", "EffectDiffers", "reserve", "call_out", "settle")
        ),
        *(f"plans/undoing.py: {each}" for each in ("look_at_undo", "look_afresh")),
    }


# The names behind which the bodies, steps and effects are.
BEHIND = (
    *("_BODIES", "_step", "_steps", "step", "perform", "reserve", "call_out", "save_changes", "Grant"),
    *("grant_of", "_check_grant", "_dispatch", "bodies", "confirm_delete", "open_entity_form"),
)


def test_nobody_names_what_is_behind_the_gate_in_a_text() -> None:
    """``getattr(gate, "per" + "form")`` is for the next test; this one is for ``getattr(gate, "perform")``."""
    texts = where(said("^(" + "|".join(BEHIND) + ")$"))
    assert texts == {
        "gate.py",
        "tools/write.py",
        "tools/checks.py",
    }  # the last asks whether a tool has the step
    dotted = where(said(r"(^|\.)(gate|plans\.execution|tools\.entity|tools\.through_form)(\.\w+)*$"))
    assert dotted == set()


COMPUTED = {
    "__init__.py": 1,  # a public name from its module
    "access/fields.py": 7,  # hooks of a ModelAdmin, by name
    "access/history.py": 2,  # hooks, and the manager of a model's past
    "access/inlines.py": 4,  # hooks
    "access/person.py": 1,
    "access/rows.py": 1,
    "api/metrics.py": 1,  # columns
    "api/plans.py": 2,  # fields of a record
    "audit/records.py": 1,
    "audit/sealing.py": 2,
    "checks.py": 3,  # settings and declarations
    "contrib/simple_history.py": 1,
    "management/commands/copilot_audit.py": 1,  # an action of its own command line
    "metrics.py": 1,
    "people.py": 1,  # a setting
    "reading/cells.py": 4,  # fields of a record
    "reading/inlines.py": 4,  # keys of rows
    "reading/sums.py": 2,
    "reading_checks.py": 8,  # declarations
    "snapshots.py": 3,
    "tools/context.py": 1,
    "tools/guard.py": 2,  # a method of Django that a preview must not call
    "tools/through_form.py": 2,
}


def is_computed(node: ast.AST) -> bool:
    """Tell of ``getattr`` and the like with a name that is not in the code as such."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "delattr")
        and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
    )


def test_a_computed_name_is_of_a_field_a_hook_or_a_setting() -> None:
    """A new one has to be looked at by somebody: it could name anything."""
    counted = {
        name: found for name, tree in TREES.items() if (found := sum(map(is_computed, ast.walk(tree))))
    }
    changing = where(
        lambda node: is_computed(node) and isinstance(node, ast.Call) and name_of(node.func) != "getattr"
    )
    assert changing == {"tools/guard.py"}
    assert not {
        "gate.py",
        *(name for name in TREES if name.startswith(("plans/", "turn/", "runtime/"))),
    } & set(counted)
    assert counted == COMPUTED


# -- the tables -------------------------------------------------------------------------------------------

WRITING = {
    "create",
    "bulk_create",
    "update",
    "bulk_update",
    "update_or_create",
    "get_or_create",
    "delete",
    "save",
}


def writes_to(model: str) -> set[str]:
    """Return the files in which a statement that writes begins at that model, however it goes on from there."""

    def begins(node: ast.AST) -> bool:
        while isinstance(node, ast.Call | ast.Attribute):
            node = node.func if isinstance(node, ast.Call) else node.value
        return isinstance(node, ast.Name) and node.id == model

    return where(
        lambda node: (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in WRITING
            and begins(node.func.value)
        )
    )


def test_only_plans_write_plans_and_only_the_audit_writes_the_audit() -> None:
    assert writes_to("Plan") == {"plans/pages.py", "plans/proposals.py", "plans/states.py"}
    assert writes_to("AuditEntry") == {"audit/chain.py"}
    assert {name.split("/")[0] for name in writes_to("AuditValue") | writes_to("AuditChain")} <= {"audit"}
    assert writes_to("Switch") <= {"switch.py"}
    assert {name.split("/")[0] for name in writes_to("Turn")} == {"runtime"}


def test_a_plans_state_is_set_nowhere_but_where_it_is_moved() -> None:
    """On an instance: what is stored moves by one statement in ``plans/states.py``."""

    def sets_state(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else []
        return any(
            isinstance(t, ast.Attribute) and t.attr == "state" and ast.unparse(t.value) == "plan"
            for t in targets
        )

    assert where(sets_state) == {"plans/states.py", "plans/decisions.py", "plans/execution.py"}
    deciding = {"state", "confirmed_by", "approved_by", "digest", "document", "key", "payload", "attempts"}

    def sets_a_decision(node: ast.AST) -> bool:
        targets = node.targets if isinstance(node, ast.Assign) else []
        return any(
            isinstance(t, ast.Attribute) and t.attr in deciding - {"state"} and ast.unparse(t.value) == "plan"
            for t in targets
        )

    assert where(sets_a_decision) == set()


def test_values_travel_as_parameters_and_no_sql_is_written_by_hand() -> None:
    by_hand = ("RawSQL", "raw", "extra", "cursor", "executescript", "execute", "executemany")
    called = where(
        lambda node: isinstance(node, ast.Call) and name_of(node.func) in (*by_hand, "CursorWrapper")
    )
    # The first two pass on what they have looked at, the third sets a limit of time in words of its own.
    assert called == {"tools/guard.py", "diagnosis.py", "database.py"}
    assert where(lambda node: isinstance(node, ast.alias) and name_of(node) in by_hand) == set()


def test_no_text_is_trusted_as_html() -> None:
    """Only ``format_html``, whose first argument stands in the code, makes HTML."""
    assert where(named("mark_safe", "SafeText", "html_safe", "__html__")) == set()
    with_text = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (name_of(node.func) == "format_html" and not isinstance(node.args[0], ast.Constant))
            or (name_of(node.func) == "SafeString" and [ast.unparse(each) for each in node.args] != ["''"])
        )
    ]
    assert with_text == []
    pages = [*PACKAGE.rglob("*.html"), *PACKAGE.rglob("*.txt")]
    assert pages
    unsafe = re.compile(r"\|\s*safe(seq)?\b|autoescape\s+off|\|\s*striptags")
    assert [str(page) for page in pages if unsafe.search(page.read_text("utf-8"))] == []
    scripts = [each for each in PACKAGE.rglob("*.js") if "vendor" not in each.parts]
    assert scripts
    html = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    assert [str(each) for each in scripts if html.search(_code(each.read_text("utf-8")))] == []


def _code(script: str) -> str:
    """Return a script without its comments."""
    return re.sub(r"/\*.*?\*/|^\s*//.*$", "", script, flags=re.S | re.M)


# -- the hostile program ----------------------------------------------------------------------------------


def test_nothing_of_the_product_uses_the_hostile_program() -> None:
    assert where(lambda node: isinstance(node, ast.alias) and "redteam" in node.name) == set()
    assert where(lambda node: isinstance(node, ast.ImportFrom) and "redteam" in (node.module or "")) == set()
    assert where(said(r"redteam\b.*\.\w+|\.redteam")) == set()


# -- these checks can fail --------------------------------------------------------------------------------


def found_in(source: str, wanted: Callable[[ast.AST], bool]) -> bool:
    return bool(where(wanted, {"sample.py": ast.parse(source)}))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from importlib import import_module as load", named(*IMPORTING)),
        ("import importlib\nimportlib.import_module('x')", named(*IMPORTING)),
        ("m = __import__('x')", named(*IMPORTING)),
        ("getattr(gate, 'per' + 'form')(x)", is_computed),
        ("getattr(gate, f'{a}')", is_computed),
        ("setattr(plan, name, 1)", is_computed),
        ("getattr(gate, 'perform')", said("^(" + "|".join(BEHIND) + ")$")),
    ],
)
def test_a_way_around_is_seen(source: str, wanted: Callable[[ast.AST], bool]) -> None:
    assert found_in(source, wanted)
    assert not found_in("x = getattr(request, 'user', None)\nimport json", wanted)


def test_every_file_is_read_as_it_is() -> None:
    def files() -> Iterator[Path]:
        yield from (path for path in PACKAGE.rglob("*.py*") if path.suffix in (".py", ".pyx", ".pyd", ".pth"))

    known = {path.relative_to(PACKAGE).as_posix() for path in files()}
    assert {each for each in known if is_product(each)} == set(TREES)
