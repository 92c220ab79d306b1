"""The hostile model gets nothing, and each judge of it sees a guard that is gone."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.utils.crypto import get_random_string

from django_copilot import gate, prompt
from django_copilot.access import entity as access_entity
from django_copilot.access import fields as access_fields
from django_copilot.access import rows as access_rows
from django_copilot.backends.base import ToolCall
from django_copilot.declaration import entities_of
from django_copilot.exceptions import Refused
from django_copilot.reading import Rows, rows, scan
from django_copilot.redteam import interference, model, watch
from django_copilot.redteam.grammar import Grammar
from django_copilot.redteam.knowledge import known_of
from django_copilot.redteam.people import Actor
from django_copilot.redteam.statements import Judge
from django_copilot.redteam.world import World
from example_project.store.models import Customer, Order, Payment, Product, Refund

SITE = admin.site


def found(world: World) -> dict[int, int]:
    return {oracle: number for oracle, number in world.report.findings.items() if number}


def actor(world: World, name: str) -> Actor:
    return next(each for each in world.actors if each.name == name)


def send(world: World, who: str, name: str, arguments: dict[str, Any]) -> Any:
    person = actor(world, who)
    call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
    outcome, _ = model.one_call(world, person, SITE, call, Judge(world, person, SITE), case="a test")
    return outcome


def test_one_of_each_kind_of_person_acts(world: World) -> None:
    kinds = {each.name: each.kind for each in world.actors}
    assert kinds == {
        "manager": "staff",
        "support": "staff",
        "viewer": "staff",
        "bot": "service account",
        "admin": "superuser",
        "auditor": "staff without the permission",
    }


def test_hostile_calls_get_nothing_and_are_of_every_kind(world: World) -> None:
    model.gate_calls(world, number=0, calls=600)
    assert world.report.examples == {}
    counts = world.report.counts
    assert counts["tool calls"] == 600
    for what in ("Found", "Planned", "Proposed", "ReadDone", "Told"):
        assert counts[f"calls that ended as {what}"] >= 3, what
    for code in ("unknown_tool", "invalid_arguments", "unknown_field", "not_found", "unknown_argument"):
        assert counts[f"calls refused as {code}"] >= 5, code


def test_the_same_seed_makes_the_same_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[list[ToolCall]] = []
    for number in (0, 0, 1):
        sent: list[ToolCall] = []
        monkeypatch.setattr(gate, "run", lambda *args, sent=sent, **kw: sent.append(args[-1]))
        model.gate_calls(world, number=number, calls=50)
        made.append(sent)
    assert made[0] == made[1] != made[2]


def test_hostile_turns_get_nothing(world: World) -> None:
    model.turns(world, number=0, calls=250)
    assert world.report.examples == {}
    assert world.report.counts["turns"] >= 8


def test_answers_do_not_depend_on_hidden_values(world: World) -> None:
    interference.run(world, number=0, calls=120)
    assert world.report.examples == {}
    assert "store.order.region" in world.report.residual  # by which the store's rules choose rows


def test_what_a_tool_reads_past_its_person_is_a_residual_channel_and_no_finding(
    world: World, settings: Any
) -> None:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"
    support = actor(world, "support")
    payment = Payment.objects.filter(order__number=ordered(world)).first()
    assert payment is not None
    Refund.objects.create(
        payment=payment, amount_cents=payment.amount_cents - 1, reason="x", idempotency_key="k"
    )
    arguments = {"order": payment.order.number, "amount_cents": 100, "reason": "damaged"}
    calls = [ToolCall(id="c", name="refund_payment", arguments=json.dumps(arguments))]
    hidden = {(Refund, "amount_cents"): list(Refund.objects.values_list("pk", flat=True))}
    change = partial(interference.changed, hidden)
    interference.compare(world, support, SITE, calls, change, level="model", number=0)
    assert found(world) == {}
    assert "refund_payment" in world.report.residual


def ordered(world: World) -> str:
    """Return the number of an order that support sees and that has a payment to refund."""
    with world.rights(actor(world, "support"), SITE) as rights:
        seen = rights.rows(Payment).values()
        return next(each.order.number for each in seen if each.gateway_reference)


# -- each judge can find something -------------------------------------------------------------------------


def test_a_hidden_field_in_a_result_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own = access_fields.FieldAccess._readable_for
    monkeypatch.setattr(
        access_fields.FieldAccess,
        "_readable_for",
        lambda self, obj: (*own(self, obj), *(["api_token"] if self.model is Customer else [])),
    )
    send(world, "support", "query_customer", {})
    assert found(world)[3] > 1
    assert "store.customer.api_token" in world.report.examples[3][0]["what"]


def test_a_row_out_of_reach_is_found_in_the_result_and_in_the_statement(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_rows.RowAccess, "queryset", lambda self: self.model._default_manager.all())
    send(world, "support", "query_order", {"limit": 50})
    assert set(found(world)) == {2, 3}
    assert "rows of store_order that are not among support's" in world.report.examples[2][0]["what"]


def test_a_comparison_with_a_hidden_column_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own = rows.conditions

    def with_hidden(entity: Any, filters: Any, readable: Any) -> Any:
        return own(entity, filters, [*readable, "cost_price"])

    monkeypatch.setattr(rows, "conditions", with_hidden)
    send(world, "support", "query_product", {"filters": {"cost_price": "1.00"}})
    assert found(world)[2] >= 1
    assert "compares store_product.cost_price" in world.report.examples[2][0]["what"]


def test_an_order_by_a_hidden_column_is_found_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_ordering", lambda entity, qs, asked: ["cost_price", "pk"])
    send(world, "support", "query_product", {"limit": 3})
    assert "compares store_product.cost_price" in world.report.examples[2][0]["what"]
    support = actor(world, "support")
    hidden = interference.hidden_cells(world, support, SITE, level="person")
    assert (Product, "cost_price") in hidden
    for at, pk in enumerate(hidden[Product, "cost_price"]):  # other values, in another order
        Product.objects.filter(pk=pk).update(cost_price=at % 2 * 10 + at)
    calls = [ToolCall(id="c", name="query_product", arguments='{"limit": 3}')]
    monkeypatch.setattr(
        interference, "other_value", lambda field, value, key: -value if field.name == "cost_price" else value
    )
    change = partial(interference.changed, hidden)
    interference.compare(world, support, SITE, calls, change, level="person", number=0)
    assert found(world)[4] == 1
    assert world.report.examples[4][0]["what"].startswith("the model is told")


def test_a_change_is_found_by_its_statement_and_by_the_row(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_copilot.redteam import tables

    def writing(entity: Any, args: Any) -> Any:
        Order.objects.filter(pk=1).update(shipping_city="Elsewhere")
        return Rows  # anything

    before = tables.snapshot()
    monkeypatch.setitem(gate._BODIES, "delete", writing)
    send(world, "admin", "confirm_delete_order", {"id": "1"})
    assert found(world)[1] == 1
    world.check_rows(before, case="a test")
    assert world.report.examples[1][1]["what"] == "store.order 1 changed"


def failing(*args: Any) -> Any:
    raise RuntimeError("a body broke")


def test_an_exception_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gate._BODIES, "query", failing)
    send(world, "admin", "query_order", {})
    assert "a body broke" in world.report.examples[7][0]["what"]


def test_a_hidden_value_in_the_log_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Customer.objects.values_list("api_token", flat=True)[0]

    def telling(entity: Any, args: Any) -> Any:
        gate.logger.info("Looked at %s", token)
        return gate.Failed(content={"error": {"code": "x", "message": ""}})

    monkeypatch.setitem(gate._BODIES, "query", telling)
    send(world, "admin", "query_order", {})
    assert "in the log" in world.report.examples[3][0]["what"]


def test_a_hidden_value_in_a_model_request_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Customer.objects.values_list("api_token", flat=True)[0]
    monkeypatch.setattr(prompt, "context", lambda **given: json.dumps({"secret": token}))
    model.turns(world, number=0, calls=1)
    assert any("in a model request" in each["what"] for each in world.report.examples[3])


@pytest.mark.parametrize("what", ["turn", "plan"])
def test_what_is_left_running_is_found(world: World, what: str) -> None:
    from django_copilot.models import Plan, PlanState, Turn

    model.turns(world, number=0, calls=60)
    world.check_ended(case="a test")
    assert world.report.examples == {}
    if what == "turn":
        Turn.objects.filter(pk=Turn.objects.first().pk).update(state="running")  # type: ignore[union-attr]
    else:
        plan = Plan.objects.first()
        assert plan is not None
        Plan.objects.filter(pk=plan.pk).update(state=PlanState.EXECUTING)
    world.check_ended(case="a test")
    assert found(world) == {7: 1}


def test_a_value_the_model_had_sent_itself_is_no_leak(world: World) -> None:
    token = Customer.objects.values_list("api_token", flat=True)[0]
    send(world, "support", "query_customer", {"filters": {token: 1}})
    assert found(world) == {}


@pytest.mark.parametrize("name", ["query", "form", "delete"])
def test_every_kind_of_entity_tool_is_called_on_every_entity(world: World, name: str) -> None:
    known = known_of(world, SITE)
    grammar = Grammar(known, world.rng("test", 0))
    called = Counter(grammar.call().name for _ in range(6_000))
    form: Callable[[str], str] = {
        "query": "query_{}".format,
        "form": "open_{}_form".format,
        "delete": "confirm_delete_{}".format,
    }[name]
    assert all(called[form(each)] for each in entities_of(SITE))
    assert not called[get_random_string(12)]


def compared(world: World, level: interference.Level, *calls: tuple[str, dict[str, Any]]) -> None:
    """Send calls of support's to the store as it is and to the one that differs in what is hidden."""
    support = actor(world, "support")
    if level == "rows":
        change = partial(interference.without, interference.hidden_rows(world, support, SITE))
    else:
        change = partial(interference.changed, interference.hidden_cells(world, support, SITE, level=level))
    made = [ToolCall(id="c", name=name, arguments=json.dumps(arguments)) for name, arguments in calls]
    interference.compare(world, support, SITE, made, change, level=level, number=0)


def hidden_order(world: World) -> Order:
    with world.rights(actor(world, "support"), SITE) as rights:
        seen = rights.rows(Order)
    return next(each for each in Order.objects.order_by("pk") if each.pk not in seen)


def test_an_error_that_tells_a_hidden_record_from_none_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = access_entity.EntityAccess._record

    def telling(self: Any, pk: Any) -> Any:
        try:
            return own(self, pk)
        except Refused:
            there = self.model._base_manager.filter(pk=pk).exists()
            raise Refused("You may not see it." if there else "There is none.", code="not_found") from None

    call = ("confirm_delete_order", {"id": str(hidden_order(world).pk)})
    compared(world, "rows", call)
    assert found(world) == {}
    monkeypatch.setattr(access_entity.EntityAccess, "_record", telling)
    compared(world, "rows", call)
    assert "You may not see it" in world.report.examples[4][0]["what"]


def test_a_count_of_hidden_records_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Rows.for_model

    def telling(self: Any) -> Any:
        result, number = own(self)
        return {**result, "total": self.entity.model._base_manager.count()}, number

    monkeypatch.setattr(Rows, "for_model", telling)
    compared(world, "rows", ("query_order", {"limit": 2}))
    assert "total" in world.report.examples[4][0]["what"]


@pytest.mark.parametrize(
    "leak", [(Product, "supplier"), (Customer, "street"), (Order, "shipping_name")], ids=lambda leak: leak[1]
)
def test_a_hidden_field_of_any_kind_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, leak: tuple[Any, str]
) -> None:
    leaking, name = leak
    own = access_fields.FieldAccess._readable_for
    monkeypatch.setattr(
        access_fields.FieldAccess,
        "_readable_for",
        lambda self, obj: (*own(self, obj), *([name] if self.model is leaking else [])),
    )
    compared(world, "model", (f"query_{leaking._meta.model_name}", {}))
    assert found(world)[4] == 1


def test_what_the_projects_own_code_logs_is_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Customer.objects.values_list("api_token", flat=True)[0]
    own = gate._BODIES["query"]

    def logging_too(entity: Any, args: Any) -> Any:
        logging.getLogger("shop.access").warning("Asked for %s", token)
        return own(entity, args)

    monkeypatch.setitem(gate._BODIES, "query", logging_too)
    send(world, "support", "query_order", {"limit": 1})
    assert "in the log" in world.report.examples[3][0]["what"]


def test_who_gets_no_answer_at_all_is_a_finding(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.host = "nowhere.example"
    world.scope(actor(world, "support"), SITE)
    assert "--host" in world.report.examples[7][0]["what"]


def test_a_single_value_that_is_read_without_its_record_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reading(entity: Any, args: Any) -> Any:
        list(Product.objects.values_list("cost_price", flat=True)[:3])
        return gate.Failed(content={"error": {"code": "x", "message": ""}})

    monkeypatch.setattr(watch, "sent_by_project", lambda: "")  # as if it were our code that reads
    monkeypatch.setitem(gate._BODIES, "query", reading)
    send(world, "support", "query_product", {})
    assert "reads store_product.cost_price" in world.report.examples[2][0]["what"]
