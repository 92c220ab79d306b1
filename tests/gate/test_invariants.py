"""One test for each numbered line of ``gate.py``'s docstring, and for who may call what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

import django_copilot
from django_copilot import gate
from django_copilot.access import Access
from django_copilot.admin import HarnessMixin
from django_copilot.backends.base import ToolCall
from django_copilot.declaration import entities_of
from django_copilot.exceptions import ScopeUnavailable
from django_copilot.models import Conversation, Plan
from django_copilot.scope import Scope, enter_scope
from django_copilot.tools import shapes
from django_copilot.tools.base import Failed
from example_project.store.data import create_data
from example_project.store.models import Order, Product
from example_project.store.people import create_people

from .calls import ENTITIES, HERE, judge, run, sent, shape, verdict
from .conftest import Orders

PACKAGE = Path(django_copilot.__file__).parent
NUMBERS = {int(n) for n in re.findall(r"^(\d+)\. ", gate.__doc__ or "", re.M)}


def test_each_numbered_line_has_a_test() -> None:
    tested = {int(match[1]) for name in globals() if (match := re.match(r"test_invariant_(\d+)_", name))}
    assert tested == NUMBERS
    assert NUMBERS


# -- 1 -------------------------------------------------------------------------------------------------


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8"))


def absolute(node: ast.ImportFrom, name: str) -> str:
    """Return the absolute module that an import of a file of the package names."""
    package = ("django_copilot", *Path(name).parts[:-1])
    base = package[: len(package) - node.level + 1] if node.level else ()
    return ".".join([*base, *([node.module] if node.module else [])])


def test_invariant_1_only_the_gate_reaches_a_tool_body() -> None:
    bodies = "django_copilot.tools.entity"
    found = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = absolute(node, name)
                if module == bodies or (
                    f"{module}.{'entity'}" == bodies
                    and any(alias.name in ("entity", "*") for alias in node.names)
                ):
                    found.add(name)
            elif (isinstance(node, ast.Import) and any(alias.name == bodies for alias in node.names)) or (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and "tools.entity" in node.value
            ):
                found.add(name)
    assert found == {"gate.py"}
    reaching = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("bodies", "_BODIES", "_dispatch")
    }
    assert reaching == set()


WRITES = re.compile(r"^\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|MERGE|TRUNCATE)\b", re.I)


def test_invariant_1_no_tool_writes_to_anything(orders: Orders) -> None:
    with CaptureQueriesContext(connection) as captured:
        for entity in ENTITIES:
            pk = str(orders.own) if entity == "order" else "1"
            run("admin", f"query_{entity}")
            run("admin", f"open_{entity}_form", {"id": pk})
            run("admin", f"open_{entity}_form", {"fields": {"name": "X"}})
            run("admin", f"confirm_delete_{entity}", {"id": pk})
        run("admin", "open_order_form", {"id": str(orders.own), "fields": {"shipping_city": "X"}})
        run("admin", "ask_user", {"text": "Which?"})
        run("admin", "find_entities", {"words": "orders"})
    assert len(captured) > 50
    assert [each["sql"] for each in captured if WRITES.match(each["sql"])] == []


HOOKS = {
    name
    for name in (*dir(admin.ModelAdmin), *dir(HarnessMixin))
    if re.match(r"(get_|has_|lookup_allowed|formfield_|save_|delete_model|delete_queryset|log_)", name)
} - {"get_urls"}
ACCESS = {
    f"access/{name}.py" for name in ("person", "entity", "fields", "asking", "inlines", "history", "rows")
}
MAY_ASK = {
    *ACCESS,
    "scope.py",
    "reading/scan.py",
    "reading/conditions.py",
    "reading/computed.py",
    "prefill.py",
    "snapshots.py",
    "draft.py",
    "mixin.py",
}
MAY_ASK |= {
    "tools/through_form.py",
    "tools/lists.py",
    "audit/admin.py",
    "admin.py",
}  # the last two are admins themselves
SAVING = {name for name in HOOKS if re.match(r"(save_|delete_model|delete_queryset|log_)", name)}


def test_invariant_1_only_these_modules_ask_a_model_admin() -> None:
    """Guards hazard 14: each of them asks on the right request, and takes a failure as a no."""
    asking = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in HOOKS
        and not (isinstance(node.func.value, ast.Attribute) and node.func.value.attr in ("_meta", "opts"))
        and name != "api/serializers.py"  # whose base class has a hook of the same name
        and not name.startswith(
            "redteam/"
        )  # judges outputs by asking anew; the product imports nothing of it
    }
    assert {"access/fields.py", "access/rows.py", "reading/scan.py"} <= asking <= MAY_ASK
    by_name = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in HOOKS and not name.startswith("redteam/")
    }
    assert by_name <= MAY_ASK | {"checks.py", "reading_checks.py"}  # which compare classes and ask nothing


def calling(attribute: str) -> set[str]:
    """Return the files that call something of this name, or take it to call it later, by any way of naming it."""
    found = set()
    for name, tree in trees():
        for node in ast.walk(tree):
            by_attribute = isinstance(node, ast.Attribute) and node.attr == attribute
            by_name = isinstance(node, ast.Name) and node.id == attribute
            imported = isinstance(node, ast.alias) and attribute in (node.name, node.asname)
            by_text = isinstance(node, ast.Constant) and node.value == attribute
            if by_attribute or by_name or imported or by_text:
                found.add(name)
    return found


def test_invariant_1_only_the_gate_takes_a_step_out_of_a_tool() -> None:
    """Guards hazard 163."""
    taking = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "step"
        and not name.startswith("redteam/")  # whose steps are others; of a tool's it takes none: see below
    }
    assert taking == {"gate.py"}
    assert calling("_steps") == {"tools/write.py", "backends/scripted.py"}  # the latter are steps of a script
    assert calling("_step") == {
        "gate.py",
        "redteam/outside.py",
    }  # which puts a stand-in for other systems there
    assert calling("_register") == {"tools/write.py"}


def test_invariant_1_only_plans_make_grants_and_move_plans() -> None:
    assert calling("Grant") == {"gate.py", "plans/execution.py"}
    assert {name.split("/")[0] for name in calling("grant_of")} == {"plans"}
    assert {name.split("/")[0] for name in calling("move")} == {"plans"}
    gate_callers = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("perform", "reserve", "call_out", "settle")
        and isinstance(node.value, ast.Name)
        and node.value.id == "gate"
    }
    assert gate_callers == {"plans/decisions.py", "plans/execution.py"}
    for name in ("perform", "call_out"):
        assert calling(name) <= {"gate.py", *gate_callers}
    imported = {
        f"{name}: {alias.name}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and absolute(node, name) == "django_copilot.gate"
        for alias in node.names
    }
    assert imported == set()  # it is called by its name, so that the calls above are all


def test_invariant_1_only_a_plan_saves_through_an_admin() -> None:
    saving = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in SAVING
        and not (isinstance(node.func.value, ast.Call) and ast.unparse(node.func.value) == "super()")
    }
    assert saving == {"tools/through_form.py"}
    assert calling("save_changes") == {"gate.py"}


def test_invariant_1_a_preview_is_asked_only_while_nothing_but_reading_is_allowed() -> None:
    """Each call of a preview or dry run in the gate stands in a block that only reads."""
    tree = ast.parse((PACKAGE / "gate.py").read_text("utf-8"))
    guarded = set()
    for block in ast.walk(tree):
        if isinstance(block, ast.With) and any("only_reading" in ast.unparse(each) for each in block.items):
            guarded |= {id(each) for each in ast.walk(block)}
    looked = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "_step"
        and ast.unparse(node.args[1]) in ("'preview'", "'dry_run'")
    ]
    assert len(looked) == 3
    assert all(id(node) in guarded for node in looked)


# -- 2 -------------------------------------------------------------------------------------------------


def test_invariant_2_no_schema_has_a_place_for_a_person_or_a_decision(store: Any) -> None:
    from django_copilot.tools.arguments import NEVER
    from django_copilot.tools.schema import ASK_USER, FIND_ENTITIES, specs_for
    from django_copilot.tools.write import all_tools

    schemas = [tool.schema for tool in all_tools().values()] + [ASK_USER.parameters, FIND_ENTITIES.parameters]
    with enter_scope(HERE, store.user("admin").pk) as request:
        for entity in Access(admin.site, request).usable():
            schemas += [spec.parameters for spec in specs_for(entity)]
    assert len(schemas) > 10
    names = {name for schema in schemas for name in schema["properties"]}
    assert not names & {*NEVER, "user", "requester", "category", "key", "version", "plan", "digest"}
    assert all(schema["additionalProperties"] is False for schema in schemas)


def test_invariant_2_nobody_and_a_service_account_confirm_nothing(orders: Orders, login: Any) -> None:
    """Guards hazard 10: asked of the tool's plan at the moment of its execution, whoever calls."""
    from django_copilot.exceptions import Denied
    from django_copilot.plans import decisions
    from django_copilot.plans.deciders import Decider
    from tests.tools.declared import propose

    args = {
        "order": Order.objects.get(pk=orders.own).number,
        "street": "S",
        "postal_code": "1",
        "city": "Oslo",
    }
    for who, key in (("bot", None), ("support", "")):
        plan = propose(login(who), "change_shipping_address", args)
        user = get_user_model().objects.get(username=who)
        by = Decider(
            user=user,
            key=str(user.pk) if key is None else key,
            real_key="",
            impersonated=False,
            site=admin.site,
            scope=HERE,
        )
        with pytest.raises(Denied) as caught:
            decisions.confirm(plan["id"], plan["digest"], by)
        assert caught.value.code == "service_account"
        assert Plan.objects.get(pk=plan["id"]).state == "proposed"
        assert Order.objects.get(pk=orders.own).shipping_city != "Oslo"


def test_invariant_2_the_actor_is_the_stored_one_whatever_a_call_says(orders: Orders) -> None:
    """Guards hazard 10."""
    for name in ("user", "actor", "user_id", "confirmed_by", "scope", "site"):
        for value in ("admin", 1, {"pk": 1}):
            assert judge("support", "query_order", {name: value}) == "unknown_argument"
            args = {"filters": {"id": str(orders.south)}, name: value}
            assert judge("support", "query_order", args) == "unknown_argument"
    # Every kind of tool has its closed list of arguments, and none of them names a person or a decision.
    allowed = {name for arguments in shapes.ARGUMENTS.values() for name in arguments}
    assert allowed == {
        *("fields", "filters", "limit", "search", "order_by", "after", "id", "ids", "action"),
        *("measures", "by", "every", "text", "kind", "options", "words"),
    }
    assert set(shapes.ARGUMENTS) == {*gate._BODIES, "wide query", "question", "find"}


def test_invariant_2_the_actor_is_loaded_anew_for_each_call(orders: Orders) -> None:
    """Guards hazard 13."""
    users = 'FROM "auth_user"'
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            assert verdict(run("support", "query_tag", {"limit": 1})) == "1 rows"
        assert sum(users in each["sql"] for each in captured) == 2  # the test's own, and the gate's


# -- 3 -------------------------------------------------------------------------------------------------


def test_invariant_3_rows_come_from_the_admin_and_each_is_asked_for(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards hazards 3 and 15."""
    allowed = set(Order.objects.filter(region="north", customer__vip=False).values_list("pk", flat=True))
    for _each in range(2):
        rows = run("support", "query_order", {"limit": 50}).content["rows"]
        seen = {int(row["id"]) for row in rows}
        assert seen
        assert seen <= allowed
        assert orders.vip not in seen
        # And where a project says of all rows what is not so of each.
        model_admin = type(admin.site.get_model_admin(Order))
        monkeypatch.setattr(model_admin, "get_harness_rows", lambda self, request, rows: rows)
    assert judge("support", "open_order_form", {"id": str(orders.south)}) == "not_found"


def test_invariant_3_a_hook_sees_the_request_of_the_scope_and_nothing_else(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    model_admin = type(admin.site.get_model_admin(Order))
    real = model_admin.get_queryset

    def look(self: Any, request: Any) -> Any:
        seen.append((request.method, request.get_host(), request.user.username, dict(request.GET)))
        return real(self, request)

    monkeypatch.setattr(model_admin, "get_queryset", look)
    run("support", "query_order")
    assert set(map(repr, seen)) == {repr(("GET", "testserver", "support", {}))}


@contextmanager
def _broken(values: Any, request: Any) -> Iterator[None]:
    raise LookupError("no such tenant")
    yield


@pytest.mark.parametrize(
    ("setting", "scope"),
    [
        (None, Scope(site="admin", keys={"tenant": "acme"})),
        ({"capture": lambda request: {}, "enter": _broken}, HERE),
    ],
    ids=["not set", "failing"],
)
def test_invariant_3_a_scope_that_can_not_be_entered_is_a_refusal(
    store: Any, settings: Any, setting: Any, scope: Scope
) -> None:
    """Guards hazard 16."""
    settings.COPILOT = {"SCOPE": setting}
    with CaptureQueriesContext(connection) as captured, pytest.raises(ScopeUnavailable, match="SCOPE"):
        run("admin", "query_order", scope=scope)
    assert not [each for each in captured if "store_order" in each["sql"]]


# -- 4 -------------------------------------------------------------------------------------------------

INJECTIONS = ["x' OR '1'='1", "1; DROP TABLE store_order", "%", "_%", "\\", '"', "😀" * 50, "x" * 5000]


def test_invariant_4_values_are_parameters_and_names_are_from_the_registry(orders: Orders) -> None:
    """Guards hazard 8."""
    for value in INJECTIONS:
        with CaptureQueriesContext(connection) as captured:
            assert judge("admin", "query_customer", {"filters": {"name": value}}) == "0 rows"
        assert len({shape(each["sql"]) for each in captured}) == len(captured)
        assert judge("admin", "query_customer", {"fields": [value]}) == "unknown_field"
        assert judge("admin", f"query_{value}", {}) == "unknown_tool"
    for path in ("customer__name", "customer__api_token", "customer__pk", "lines__product__title", "pk__in"):
        for args in ({"filters": {path: "x"}}, {"fields": [path]}):
            with CaptureQueriesContext(connection) as captured:
                assert judge("admin", "query_order", args) == "unknown_field"
            assert not [each for each in captured if "store_order" in each["sql"]]


# -- 5 -------------------------------------------------------------------------------------------------


def test_invariant_5_only_readable_and_declared_fields_reach_an_outcome(orders: Orders) -> None:
    """Guards hazard 9."""
    for who in ("support", "manager", "admin"):
        for entity in entities_of(admin.site).values():
            declared = {"id", *entity.model_admin.harness_list}
            kept = {*entity.model_admin.harness_show}
            for row in run(who, f"query_{entity.name}", {"limit": 3}).content["rows"]:
                hidden = set() if who != "support" else {"cost_price"}
                assert set(row) == (declared - hidden) | kept
                assert all(row[name].startswith(f"‹{name} r1.") for name in kept)


def test_invariant_5_an_error_names_only_what_may_be_read(orders: Orders) -> None:
    for tool, args in (
        ("query_product", {"fields": ["nope"]}),
        ("query_product", {"filters": {"nope": 1}}),
        ("query_product", {"filters": {"price": "x"}}),
        ("query_product", {"filters": {"id": "x"}}),
    ):
        outcome = run("support", tool, args)
        assert isinstance(outcome, Failed)
        for name in ("cost_price", "supplier", "attributes", "photo", "tags", "api_token"):
            assert name not in sent(outcome)


# -- 8 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "code"),
    [
        ("plain", "not_allowed"),
        ("outsider", "not_staff"),
        ("root_outsider", "not_staff"),
        ("gone", "no scope"),
    ],
)
def test_invariant_8_rights_are_asked_on_every_call(people: None, who: str, code: str) -> None:
    """Guards hazard 13."""
    for tool, args in (
        ("query_order", {}),
        ("open_order_form", {"id": "1"}),
        ("confirm_delete_order", {"id": "1"}),
        ("ask_user", {"text": "Which?"}),
        ("find_entities", {"words": "orders"}),
        ("no_such_tool", {}),
    ):
        assert judge(who, tool, args) == code


# -- 9 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["check_person", "all"], ids=["of the person", "of the entities"])
def test_invariant_9_a_failing_check_is_a_refusal(
    store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, check: str
) -> None:
    """Guards hazard 14."""

    def broken(self: Any) -> Any:
        raise RuntimeError("zqx")

    monkeypatch.setattr(gate.Access, check, broken)
    outcome = run("admin", "query_order")
    assert verdict(outcome) == "failed"
    assert "zqx" not in sent(outcome)
    assert [record.levelname for record in caplog.records if record.name == "django_copilot"] == ["ERROR"]


def test_invariant_9_a_failing_permission_backend_is_a_refusal(
    store: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.AUTHENTICATION_BACKENDS = ["tests.gate.test_invariants.BrokenBackend"]
    assert judge("support", "query_order") == "failed"


class BrokenBackend:
    """An authentication backend whose permissions can't be asked."""

    def has_perm(self, user: Any, perm: str, obj: Any = None) -> bool:
        raise RuntimeError(perm)

    def has_module_perms(self, user: Any, label: str) -> bool:
        raise RuntimeError(label)


def test_invariant_9_a_site_that_is_turned_off_runs_no_call(orders: Orders) -> None:
    """Asked of the database for each call, so that another worker's word holds at once."""
    from django_copilot.models import Switch

    args = {"order": Order.objects.get(pk=orders.own).number, "topic": "late"}
    calls = (
        ("query_order", {}),
        ("draft_customer_message", args),
        ("ask_user", {"text": "Which?"}),
        ("nope", {}),
    )
    assert judge("support", "draft_customer_message", args) == "told"
    switch = Switch.objects.create(site="admin", is_off=True)
    assert [judge("support", tool, args) for tool, args in calls] == ["switched_off"] * 4
    switch.delete()
    Switch.objects.create(site="other", is_off=True)
    assert judge("support", "draft_customer_message", args) == "told"


# -- 10 ------------------------------------------------------------------------------------------------


def test_invariant_10_the_copilots_own_models_are_no_entities(store: Any) -> None:
    """Guards hazard 17."""
    for model in apps.get_app_config("django_copilot").get_models():
        site = admin.AdminSite("own")
        own = type(
            "Own", (HarnessMixin, admin.ModelAdmin), {"harness_list": ["id"], "harness_persist": ["id"]}
        )
        site.register(model, own)
        assert entities_of(site) == {}
    for model in (Conversation, Plan):
        for tool in (f"query_{model._meta.model_name}", f"open_{model._meta.model_name}_form"):
            assert judge("admin", tool) == "unknown_tool"


# -- 11 ------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_invariant_11_no_transaction_outlives_a_call() -> None:
    create_people()
    create_data(products=2, orders=6)
    for tool, args in (
        ("query_order", {}),
        ("open_order_form", {"id": "1", "fields": {"shipping_city": "X"}}),
        ("confirm_delete_order", {"id": "1"}),
        ("query_order", {"filters": {"nope": 1}}),
    ):
        run("admin", tool, args)
        assert not connection.in_atomic_block
        assert connection.get_autocommit()


@pytest.mark.parametrize("name", ["get_queryset", "has_view_permission"])
def test_invariant_11_a_database_error_does_not_poison_a_surrounding_transaction(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Guards hazard 18."""
    from django.db import DatabaseError

    def broken(self: Any, request: Any, obj: Any = None) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column FROM store_order")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), name, broken)
    try:
        assert judge("admin", "query_order") in ("not_found", "not_allowed", "failed")
    except DatabaseError:
        pytest.fail("the error got out")
    assert Product.objects.count() == 40
    assert judge("admin", "query_product", {"limit": 1}) == "1 rows"


def test_a_call_of_the_gate_needs_only_plain_values(store: Any) -> None:
    outcome = gate.run(
        admin.site, HERE, store.user("viewer").pk, ToolCall(id="", name="query_tag", arguments="")
    )
    assert verdict(outcome).endswith("rows")
