"""The pages on write tools and plans against the code: their examples run, their tables are the code's."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from django.contrib.auth import get_user_model
from django.core import mail
from django.test import Client

from django_copilot.models import Plan, PlanState
from django_copilot.plans import states, texts
from django_copilot.testing import Call, Text, ask, copilot_client, script
from django_copilot.tools import guard, write
from django_copilot.tools.arguments import Arg
from django_copilot.tools.write import Preview, write_tool
from example_project.store.models import Customer, Order

from .test_docs import ROOT, block_with, blocks, sources, text_of

TOOLS, PLANS = "docs/write-tools.md", "docs/plans.md"
PACKAGE = {"__name__": "example_project.store.shown", "__package__": "example_project.store"}


@pytest.fixture
def declared() -> Iterator[dict[str, write.WriteTool]]:
    """Give the registry and take out of it afterwards what a test has declared."""
    before, twice = dict(write._registry), list(write._twice)
    yield write._registry
    write._registry.clear()
    write._registry.update(before)
    write._twice[:] = twice


@pytest.fixture
def boss(db: None) -> Client:
    return copilot_client(get_user_model().objects.create_superuser("boss"))


@pytest.fixture
def order(db: None) -> Order:
    ann = Customer.objects.create(name="Ann", email="ann@example.com")
    return Order.objects.create(
        number="SO-7", customer=ann, region="north", status="pending", shipping_city="Gdynia"
    )


def run(page: str, words: str) -> dict[str, Any]:
    """Run the one block of a page that contains these words, as a module of the store."""
    names: dict[str, Any] = dict(PACKAGE)
    exec(compile(block_with(page, words), page, "exec"), names)
    return names


def decide(client: Client, url: str, **sent: Any) -> Any:
    return client.post(url, sent, "application/json", headers={"accept": "application/json"})


def table(page: str, heading: str) -> list[list[str]]:
    """Give the cells of the first table below a heading."""
    section = text_of(page).partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|[-| ]+\|\n((?:\|.*\n)+)", section, re.M)
    assert rows is not None, heading
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[1].splitlines()]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


# -- the page on tools ----------------------------------------------------------------------------------


def test_the_shortest_example_is_a_tool(declared: Any, boss: Client, order: Order) -> None:
    run(TOOLS, "def change_shipping_city")
    arguments = {"order": "SO-7", "city": "Sopot"}
    with script(Call("change_shipping_city", arguments)):
        plan = ask(boss, "Send it to Sopot")["plan"]
    (change,) = plan["changes"]
    assert (change["field"], change["old"], change["new"]) == ("shipping_city", "Gdynia", "Sopot")
    answer = decide(boss, plan["confirmUrl"], digest=plan["digest"])
    assert (answer.status_code, answer.json()["plan"]["state"]) == (200, "executed")
    order.refresh_from_db()
    assert order.shipping_city == "Sopot"
    undo = decide(boss, plan["undoUrl"]).json()["plan"]
    assert decide(boss, undo["confirmUrl"], digest=undo["digest"]).status_code == 200
    order.refresh_from_db()
    assert order.shipping_city == "Gdynia"

    Order.objects.update(status=Order.Status.SHIPPED)
    with script(Call("change_shipping_city", arguments), Text("No.")) as model:
        assert "plan" not in ask(boss, "Send it to Sopot")
    assert "This order has shipped" in model.request.messages[-1].text


def test_the_example_with_arguments_has_the_schema_that_the_page_tells(declared: Any) -> None:
    schema = run(TOOLS, "def discontinue")["discontinue"].schema
    assert schema["required"] == ["product"]
    assert schema["properties"]["status"]["enum"] == ["draft", "archived"]
    assert not declared["discontinue"].problems


def test_the_example_with_a_step_of_its_own_runs(declared: Any, boss: Client, order: Order) -> None:
    run(TOOLS, "def cancel_order")
    with script(Call("cancel_order", {"order": "SO-7"})):
        plan = ask(boss, "Cancel it")["plan"]
    assert plan["effects"] == ["It has 0 payments; they are not refunded."]
    done = decide(boss, plan["confirmUrl"], digest=plan["digest"]).json()["plan"]
    assert (done["state"], done["result"]) == ("executed", {"cancelled": "SO-7"})
    order.refresh_from_db()
    assert order.status == Order.Status.CANCELLED


def test_the_rules_of_the_page_are_rules(declared: Any) -> None:
    rules = run(TOOLS, "class NewCustomers")["rules"]
    assert all(isinstance(rule, write.Approval) and rule.describe() for rule in rules)


def test_every_parameter_of_a_declaration_is_on_the_page() -> None:
    told = {name for row in table(TOOLS, "## The declaration") for name in named(row[0])}
    assert told == set(inspect.signature(write_tool).parameters) - {"model"}
    told = {name for row in table(TOOLS, "## What it returns: Preview") for name in named(row[0])}
    assert told == set(inspect.signature(Preview.__init__).parameters) - {"self", "record", "fields"}
    page = text_of(TOOLS)
    assert all(f"`{name}`" in page for name in Arg.__dataclass_fields__)
    steps = set(get_args(write.Step)) - {"preview"}  # the decorated function itself
    assert {step for step in steps if f"`{step}" not in page and f".{step}" not in page} == set()


def test_the_refusals_of_the_guard_are_those_of_the_code() -> None:
    code = Path(guard.__file__).read_text("utf-8").replace('"\n                f"', "")
    for row in table(TOOLS, "## What a preview may not do"):
        (text,) = re.findall(r"`([A-Z].*?)`", row[1])
        for part in re.split(r"…|socket\.connect|UPDATE|SELECT", text):
            assert part.strip(" :;()") in code, part


def test_a_refused_preview_tells_the_model_what_the_page_says(
    declared: Any, boss: Client, order: Order, caplog: pytest.LogCaptureFixture
) -> None:
    def past(ctx: Any, order: str) -> Preview:
        """Read past the context."""
        return Preview(ctx.get(Order, number=order), shipping_name=Customer.objects.get().name)

    write_tool(Order)(past)
    with script(Call("past", {"order": "SO-7"}), Text("No.")) as model:
        ask(boss, "Read")
    shown = [json.loads(block) for block in blocks(ROOT / TOOLS, "json")]
    assert json.loads(model.request.messages[-1].text) in shown
    assert "reads through its context only" in caplog.text


# -- the page on plans ----------------------------------------------------------------------------------


def test_the_table_of_states_is_the_one_that_runs() -> None:
    told = {}
    for state, _, following in table(PLANS, "## States"):
        (name,) = named(state)
        told[PlanState(name)] = {PlanState(each) for each in named(following)}
    assert told == states.MOVES


def test_every_reason_code_is_on_the_page_with_what_to_do() -> None:
    tree = ast.parse(inspect.getsource(texts.code_text))
    known = next(node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    real = {key.value for key in known.keys if isinstance(key, ast.Constant)}
    rows = table(PLANS, "## Reason codes")
    told = [name for row in rows for name in named(row[1])]
    assert sorted(told) == sorted(real)
    assert all(len(row) == 4 and all(row) for row in rows)
    forbidden = {next(iter(named(row[1]))) for row in rows if row[0] == "403"}
    from django_copilot.plans.decisions import _FORBIDDEN

    assert forbidden == set(_FORBIDDEN)


def test_every_code_that_is_denied_with_has_a_text() -> None:
    """``code_text`` has a last resort, which says nothing: no code of ours may need it."""
    denied = set(re.findall(r"(?:Denied|deny|_refused)\((?:plan, by, )?\"(\w+)\"", sources()))
    assert denied
    assert {code for code in denied if texts.code_text(code) == texts.code_text("?")} == set()


def test_the_json_of_a_plan_has_the_keys_of_the_page(boss: Client, order: Order) -> None:
    arguments = {"order": "SO-7", "street": "Long 1", "postal_code": "00-001", "city": "Sopot"}
    with script(Call("change_shipping_address", arguments)):
        plan = ask(boss, "Move it")["plan"]
    (shown,) = [json.loads(block) for block in blocks(ROOT / PLANS, "json") if '"confirmUrl"' in block]
    assert set(shown) == set(plan)
    assert {key for each in shown["changes"] for key in each} == {
        key for each in plan["changes"] for key in each
    }
    rows = table(PLANS, "## A plan as JSON")
    assert {name for row in rows for name in named(row[0])} == set(plan)


def test_the_receiver_of_the_page_writes_to_who_can_approve(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.contrib.auth.models import Group, Permission
    from django.dispatch import Signal

    from django_copilot import signals

    approvers = Group.objects.create(name="approvers")
    approvers.permissions.add(Permission.objects.get(codename="approve_plan"))
    eve = get_user_model().objects.create_user("eve", "eve@example.com", is_staff=True)
    eve.groups.add(approvers)
    signal, sent = Signal(), []
    monkeypatch.setattr(signals, "plan_awaits_approval", signal)
    monkeypatch.setattr(
        mail, "send_mail", lambda *given: sent.append(given)
    )  # 6.1 wants a mailer named first
    run_names = run(PLANS, "plan_awaits_approval")
    plan = Plan(user=eve, site="admin", kind="tool", tool="refund_payment")
    signal.send(sender=Plan, plan=plan, site="admin")
    assert run_names["tell_approvers"]
    ((_subject, text, _sender, people),) = sent
    assert people == ["eve@example.com"]
    assert str(plan.pk) in text


# The tests of the page are collected with this file: they run as they are.
exec(compile(block_with(TOOLS, "class ShippingAddress"), "write-tools.md", "exec"), globals())
