"""Every guard of the files that hold the invariants, found on the syntax tree, and how it is taken away.

A guard is a condition, a filter or a statement whose absence lets more happen. Each has an id that does not
depend on lines: ``path:function:number:kind text``, where the number tells equal ones in a function apart.
``instrument`` puts a question at each of them, so that one compiled module holds all mutations and a run chooses
which of them is on: ``__held__(id, instead, condition)`` gives the condition, or what it is without the guard;
``__removed__(id)`` chooses between two pieces of code. Kinds:

    if       the condition of a refusing ``if`` becomes False (or that of an ``x if y else z``)
    operand  an operand of such a condition is dropped, a member of ``in (...)``, a pair of ``(...) != (...)``
    answer   what a question returns becomes True, or False
    filter   the condition of a comprehension becomes True
    keyword  a keyword of a ``filter``, ``exclude``, ``get`` or ``Q`` is dropped
    with     a block is entered without its guard: reading only, a savepoint, a transaction
    call     a statement that checks, locks or tells the audit is left out
    except   an exception is not caught, and so not turned into a refusal
    meet     of ``a & b`` only ``a`` is left
    entry    an entry of the document that is confirmed is left out
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import django_copilot

# The package's folder without importing what is in it: it is not to be loaded before it is instrumented.
PACKAGE = Path(django_copilot.__file__).parent

CORE = (
    "gate.py",
    "access/asking.py",
    "access/entity.py",
    "access/fields.py",
    "access/history.py",
    "access/inlines.py",
    "access/person.py",
    "access/rows.py",
    "plans/deciders.py",
    "plans/decisions.py",
    "plans/execution.py",
    "plans/inbox.py",
    "plans/pages.py",
    "plans/projection.py",
    "plans/proposals.py",
    "plans/rights.py",
    "plans/states.py",
    "plans/undoing.py",
    "tools/approval.py",
    "tools/context.py",
    "tools/document.py",
    "tools/guard.py",
    "tools/offered.py",
    "database.py",
    "declaration.py",
    "people.py",
    "scope.py",
)
# Where the gate, the plans and the drivers of a turn keep the rest of a rule.
MORE = (
    "draft.py",
    "identity.py",
    "marks.py",
    "prefill.py",
    "reading/cells.py",
    "reading/columns.py",
    "reading/computed.py",
    "reading/conditions.py",
    "reading/history.py",
    "reading/inlines.py",
    "reading/rows.py",
    "reading/scan.py",
    "reading/summary.py",
    "reading/sums.py",
    "runtime/request.py",
    "runtime/store.py",
    "runtime/sync.py",
    "snapshots.py",
    "switch.py",
    "tools/arguments.py",
    "tools/entity.py",
    "tools/lists.py",
    "tools/shapes.py",
    "tools/through_form.py",
    "tools/write.py",
    "values.py",
    "audit/sealing.py",
    "audit/viewing.py",
    "audit/chain.py",
    "api/base.py",
    "api/decisions.py",
    "api/plans.py",
    "mixin.py",
)
FILES = CORE + MORE

KINDS = ("if", "operand", "answer", "filter", "keyword", "with", "call", "except", "meet", "entry")
SWITCH = "__removed__"
HELD = "__held__"
NOTHING = "__nothing__"  # what equals nothing but itself

_WITH = {"only_reading", "contained", "atomic", "atomic_for", "through_context", "override", "suppress"}
_CALLS = {
    *("check", "check_person", "_check_grant", "_check_effect", "check_constraints", "_may_make"),
    *("lock_rows", "append", "release_connections", "clear", "deny", "refuse", "enter_context", "move"),
    *("_close_if_over", "_close_stale", "_note_uncertain", "settle", "finish", "reset", "enter_place"),
}
_REFUSING_CALLS = {"deny", "refuse", "_close_stale"}
_FILTERS = {"filter", "exclude", "get", "Q", "update"}
_DOCUMENTS = {("tools/document.py", "draft_of"), ("tools/document.py", "PlanDraft.document")}


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One guard: its id, where it stands below the package, and what its source is."""

    id: str
    path: str
    line: int
    kind: str
    source: str


@cache
def guards_of(path: str) -> tuple[Guard, ...]:
    """Return the guards of a file of the package, in the order of its source."""
    return _Instrument(path, (PACKAGE / path).read_text("utf-8")).guards


def all_guards() -> Iterator[Guard]:
    """Go through the guards of all files."""
    for path in FILES:
        yield from guards_of(path)


def instrument(path: str, source: str) -> ast.Module:
    """Return the tree of a file with a question at each of its guards."""
    return ast.fix_missing_locations(_Instrument(path, source).tree)


def _name_of(node: ast.expr) -> str:
    """Return the last part of what a call calls."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_nothing(node: ast.expr | None) -> bool:
    """Tell whether an expression is an answer that refuses: None, False, "", an empty collection."""
    match node:
        case None | ast.Constant(value=None | False | "" | 0):
            return True
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "Unknown"), args=[]):
            return True
    return False


def _refuses(body: list[ast.stmt]) -> bool:
    """Tell whether a branch ends what was asked for, or says why it is refused."""
    if isinstance(body[-1], ast.Raise | ast.Return | ast.Continue | ast.Break):
        return True
    for statement in body:
        match statement:
            case ast.Expr(value=ast.Call(func=function)) if _name_of(function) in _REFUSING_CALLS:
                return True
            case ast.Assign(targets=[ast.Name(id="code")]):
                return True
    return False


class _Instrument(ast.NodeTransformer):
    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.found: list[Guard] = []
        self._counted: Counter[tuple[str, str]] = Counter()
        self._within: list[str] = []
        self._returns: list[str] = []
        self._depth = 0
        self._made: set[int] = set()  # ids of the choices that were put in, which are no guards themselves
        self._keep: list[ast.expr] = []
        self.tree: ast.Module = self.visit(ast.parse(source, path))

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(sorted(self.found, key=lambda each: each.line))

    # -- one mutation ------------------------------------------------------------------------------------

    def _guard(self, kind: str, node: ast.AST, text: str = "") -> ast.Call:
        """Note a guard and return the question whether it is removed."""
        source = text or " ".join(ast.unparse(node).split())
        short = source if len(source) <= 70 else f"{source[:67]}..."
        where = ".".join(self._within)
        self._counted[where, f"{kind} {short}"] += 1
        ident = f"{self.path}:{where}:{self._counted[where, f'{kind} {short}']}:{kind} {short}"
        line = getattr(node, "lineno", 0)
        self.found.append(Guard(id=ident, path=self.path, line=line, kind=kind, source=source))
        return ast.Call(func=ast.Name(id=SWITCH, ctx=ast.Load()), args=[ast.Constant(ident)], keywords=[])

    def _either(self, question: ast.expr, instead: ast.expr, node: ast.expr) -> ast.expr:
        made = ast.copy_location(ast.IfExp(test=question, body=instead, orelse=node), node)
        self._made.add(id(made))
        self._keep.append(made)
        return made

    def _held(self, question: ast.Call, instead: bool, node: ast.expr) -> ast.expr:
        """Let a condition be something else. It is asked all the same: a check that acts is not left undone."""
        ident = question.args[0]
        call = ast.Call(
            func=ast.Name(id=HELD, ctx=ast.Load()), args=[ident, ast.Constant(instead), node], keywords=[]
        )
        return ast.copy_location(call, node)

    # -- conditions --------------------------------------------------------------------------------------

    def _condition(self, node: ast.expr, *, refuses: bool) -> ast.expr:
        """Return a condition that can be told to refuse nothing, as a whole and operand by operand."""
        question = self._guard("if", node)
        return self._held(question, not refuses, self._operands(node, refuses))

    def _operands(self, node: ast.expr, refuses: bool) -> ast.expr:
        """Let each operand be dropped whose absence makes the condition weaker."""
        match node:
            case ast.BoolOp(op=op, values=values):
                weakens = isinstance(op, ast.Or) if refuses else isinstance(op, ast.And)
                made = []
                for each in values:
                    question = self._guard("operand", each) if weakens else None
                    inner = self._operands(each, refuses)
                    made.append(self._held(question, not refuses, inner) if question else inner)
                return ast.copy_location(ast.BoolOp(op=op, values=made), node)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._operands(operand, not refuses)
                return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=inner), node)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if isinstance(op, ast.In if refuses else ast.NotIn) and isinstance(
                    right, ast.Tuple | ast.List | ast.Set
                ):
                    right.elts = [self._member(each) for each in right.elts]
                elif (
                    isinstance(op, ast.NotEq if refuses else ast.Eq)
                    and isinstance(left, ast.Tuple)
                    and isinstance(right, ast.Tuple)
                ):
                    self._pairs(left, right)
                self.generic_visit(node)
                return node
            case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp() as each]):
                each.elt = self._operands(each.elt, refuses)
                each.generators = [self.visit(one) for one in each.generators]
                return node
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                node.args = [self._operands(inner, refuses)]
                return node
        return self.visit(node)  # type: ignore[no-any-return]

    def _member(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Starred):
            return node
        return self._either(self._guard("operand", node), ast.Name(id=NOTHING, ctx=ast.Load()), node)

    def _pairs(self, left: ast.Tuple, right: ast.Tuple) -> None:
        for number, (one, other) in enumerate(zip(left.elts, right.elts, strict=True)):
            text = f"{ast.unparse(one)} != {ast.unparse(other)}"
            question = self._guard("operand", one, text)
            nothing = ast.Name(id=NOTHING, ctx=ast.Load())
            left.elts[number] = self._either(question, nothing, one)
            right.elts[number] = self._either(copy.deepcopy(question), nothing, other)

    def _drops(self, node: ast.expr) -> ast.expr:
        """Let each operand of an answer be dropped, whatever it is an answer to."""
        match node:
            case ast.BoolOp(op=op, values=values):
                neutral = isinstance(op, ast.And)
                made = []
                for each in values:
                    question = self._guard("operand", each)
                    made.append(self._held(question, neutral, self._drops(each)))
                return ast.copy_location(ast.BoolOp(op=op, values=made), node)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=self._drops(operand)), node)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                node.args = [self._drops(inner)]
                return node
            case ast.Call(func=ast.Name(id="any" | "all"), args=[ast.GeneratorExp() as each]):
                each.elt = self._drops(each.elt)
                each.generators = [self.visit(one) for one in each.generators]
                return node
        return self.visit(node)  # type: ignore[no-any-return]

    # -- where they stand --------------------------------------------------------------------------------

    def _visit_function(self, node: Any) -> Any:
        self._within.append(node.name)
        self._returns.append(ast.unparse(node.returns) if node.returns is not None else "")
        self._depth += 1
        node.body = [self.visit(each) for each in node.body]
        self._depth -= 1
        self._returns.pop()
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._within.append(node.name)
        node.body = [
            self.visit(each) if isinstance(each, ast.FunctionDef | ast.ClassDef) else each
            for each in node.body
        ]
        self._within.pop()
        return node

    def visit_If(self, node: ast.If) -> Any:
        if not self._depth:
            return node
        if _refuses(node.body) or node.orelse:
            node.test = self._condition(node.test, refuses=True)
        else:
            node.test = self.visit(node.test)
        node.body = [self.visit(each) for each in node.body]
        node.orelse = [self.visit(each) for each in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        """Force the branch that refuses nothing: of two texts that is the empty one, else what is something."""
        is_code = bool(self._returns) and self._returns[-1] == "str"
        body, orelse = _is_nothing(node.body), _is_nothing(node.orelse)
        if not self._depth or body == orelse or id(node) in self._made:
            return self.generic_visit(node)
        if is_code and isinstance(node.body if orelse else node.orelse, ast.Constant | ast.Call):
            body = not body  # "" is the answer that lets pass
        node.test = self._condition(node.test, refuses=body)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is None or isinstance(node.value, ast.Constant):
            return node
        if self._returns and self._returns[-1] == "bool":
            text = " ".join(ast.unparse(node.value).split())
            true = self._guard("answer", node.value, f"True for {text}")
            false = self._guard("answer", node.value, f"False for {text}")
            inner = self._held(false, False, self._drops(node.value))
            node.value = self._held(true, True, inner)
        else:
            node.value = self.visit(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        if self._depth and isinstance(node.value, ast.BoolOp | ast.UnaryOp):
            node.value = self._drops(node.value)
        elif self._depth:
            node.value = self.visit(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.op, ast.BitAnd | ast.Sub) and isinstance(node.target, ast.Name):
            question = self._guard("meet", node)
            same = ast.Name(id=node.target.id, ctx=ast.Load())
            node.value = self._either(question, same, self.visit(node.value))
            return node
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        is_set = isinstance(node.op, ast.Sub) and self.path.startswith("access/")
        if self._depth and (isinstance(node.op, ast.BitAnd) or is_set):
            question = self._guard("meet", node)
            left = copy.deepcopy(node.left)
            self.generic_visit(node)
            return self._either(question, left, node)
        return self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        node.iter = self.visit(node.iter)
        if self._depth:
            made = []
            for each in node.ifs:
                question = self._guard("filter", each)
                made.append(self._held(question, True, self._operands(each, False)))
            node.ifs = made
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        name = _name_of(node.func)
        may_drop = self._depth and name in _FILTERS and (name == "Q" or isinstance(node.func, ast.Attribute))
        if may_drop and (name != "get" or len(node.keywords)):
            made = []
            for each in node.keywords:
                if each.arg is None or (name == "update" and each.arg not in ("state", "open_undo_of")):
                    each.value = self.visit(each.value)
                    made.append(each)
                    continue
                text = f"{name}({each.arg}={' '.join(ast.unparse(each.value).split())})"
                question = self._guard("keyword", each, text)
                kept = ast.Dict(keys=[ast.Constant(each.arg)], values=[self.visit(each.value)])
                empty = ast.Dict(keys=[], values=[])
                made.append(ast.keyword(arg=None, value=self._either(question, empty, kept)))
            node.func, node.keywords = self.visit(node.func), made
            node.args = [self.visit(each) for each in node.args]
            return node
        return self.generic_visit(node)

    def visit_With(self, node: ast.With) -> Any:
        for item in node.items:
            call = item.context_expr
            if (
                self._depth
                and item.optional_vars is None
                and isinstance(call, ast.Call)
                and _name_of(call.func) in _WITH
            ):
                question = self._guard("with", call)
                nothing = ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id=NOTHING, ctx=ast.Load()), attr="block", ctx=ast.Load()
                    ),
                    args=[],
                    keywords=[],
                )
                item.context_expr = self._either(question, nothing, self.visit(call))
            else:
                item.context_expr = self.visit(call)
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        call = node.value
        if self._depth and isinstance(call, ast.Call):
            name = _name_of(call.func)
            is_list = (  # of what the audit is told, at the end of a decision
                name == "append"
                and isinstance(call.func, ast.Attribute)
                and not ast.unparse(call.func.value).endswith(("audit", "records"))
            )
            if name in _CALLS and not is_list:
                question = self._guard("call", call)
                node.value = self._either(question, ast.Constant(None), self.visit(call))
                return node
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> Any:
        if self._depth and node.type is not None:
            name = ast.unparse(node.type)
            question = self._guard("except", node, f"{name}: {' '.join(ast.unparse(node.body[-1]).split())}")
            node.type = self._either(question, ast.Tuple(elts=[], ctx=ast.Load()), node.type)
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        if (self.path, ".".join(self._within)) not in _DOCUMENTS:
            return self.generic_visit(node)
        for number, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if isinstance(key, ast.Constant):
                question = self._guard("entry", value, f"{key.value}: {' '.join(ast.unparse(value).split())}")
                made = self._either(question, ast.Constant(None), self.visit(value))
            else:
                made = self.visit(value)
            node.values[number] = made
        return node
