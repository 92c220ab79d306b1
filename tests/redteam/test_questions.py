"""The tools that read more: they give a hostile model nothing, and each judge sees a check of theirs that is gone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.contrib import admin

from django_copilot.access import EntityAccess
from django_copilot.access.asking import SearchPath
from django_copilot.backends.base import ToolCall
from django_copilot.reading import Rows, history, scan, summary
from django_copilot.redteam import interference, model, report
from django_copilot.redteam.grammar import BASES, Grammar
from django_copilot.redteam.knowledge import known_of, references_of
from django_copilot.redteam.people import Actor
from django_copilot.redteam.questions import READS
from django_copilot.redteam.rights import Rights
from django_copilot.redteam.statements import Judge, _inner, _split
from django_copilot.redteam.world import World
from django_copilot.tools import lists
from example_project.store.models import Customer, Order, OrderLine, Product

SITE = admin.site


@pytest.fixture(autouse=True)
def every_example_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EXAMPLES", 10_000)


def actor(world: World, name: str) -> Actor:
    return next(each for each in world.actors if each.name == name)


def found(world: World) -> dict[int, str]:
    """Return what each oracle found, as one text."""
    examples = world.report.examples
    return {oracle: " / ".join(each["what"] for each in examples[oracle]) for oracle in sorted(examples)}


def send(world: World, who: str, name: str, **arguments: Any) -> Any:
    person = actor(world, who)
    call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
    judge, shown = Judge(world, person, SITE), references_of(world, person, SITE)
    return model.one_call(world, person, SITE, call, judge, case="a test", references=shown)[0]


def small_run(world: World, who: str, entity: str, kind: str, *, calls: int = 150) -> dict[int, str]:
    """Send so many calls of one kind, on one entity, as one person, chosen by chance; return what was found."""
    known = replace(known_of(world, SITE), declared=[entity], entities=[entity])
    grammar, person = Grammar(known, world.rng(f"test {kind}", 0)), actor(world, who)
    judge, shown = Judge(world, person, SITE), references_of(world, person, SITE)
    for _ in range(calls):
        name, arguments = getattr(grammar, kind)()
        call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
        model.one_call(world, person, SITE, call, judge, case="a test", references=shown)
    return found(world)


def compared(
    world: World, level: interference.Level, name: str, who: str = "support", **arguments: Any
) -> dict[int, str]:
    """Send a person's call to the store and to the one that differs in what is hidden from her."""
    person = actor(world, who)
    if level == "rows":
        change = partial(interference.without, interference.hidden_rows(world, person, SITE))
    else:
        change = partial(interference.changed, interference.hidden_cells(world, person, SITE, level=level))
    call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
    interference.compare(world, person, SITE, [call], change, level=level, number=0)
    return found(world)


def with_past() -> Product:
    """Return a product whose price and cost were changed, and once its cost only."""
    product = Product.objects.latest("pk")
    for price, cost in ((5, 2), (7, 3), (7, 4)):
        product.price, product.cost_price = price, cost
        product.save()
    return product


# -- nothing is found -----------------------------------------------------------------------------------------


def test_each_tool_that_reads_is_carried_out_and_is_refused(world: World) -> None:
    with_past()
    model.gate_calls(world, number=0, calls=1_200)
    assert world.report.examples == {}
    for pattern in READS:
        kind = pattern.format("…")
        assert world.report.counts[f"{kind}: done"] >= 1, kind
        assert world.report.counts[f"{kind}: refused"] >= 10, kind


@pytest.mark.parametrize("kind", ["query", "count", "summary", "history", "opened_list"])
def test_a_small_run_of_each_kind_finds_nothing(world: World, kind: str) -> None:
    for entity in ("order", "customer", "product"):
        assert small_run(world, "support", entity, kind, calls=60) == {}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("count_order", {}),
        ("count_order", {"search": "a"}),
        ("summarise_order", {"measures": [{"op": "count"}], "by": ["customer"]}),
        ("summarise_product", {"measures": [{"op": "sum", "field": "price"}], "by": ["status"]}),
        ("query_order", {"order_by": ["-placed_at"], "limit": 3, "search": "SO"}),
        ("history_product", {"id": "1"}),
        ("open_order_list", {"ids": ["r1.1", "r4.1"]}),
        ("query_customer", {"filters": {"email": "‹email r4.1›"}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
@pytest.mark.parametrize("level", ["person", "rows"])
def test_they_tell_nothing_of_what_is_hidden(
    world: World, level: interference.Level, name: str, arguments: dict[str, Any]
) -> None:
    with_past()
    assert compared(world, level, name, **arguments) == {}


def test_what_only_a_person_sees_changes_nothing_but_the_rows_that_a_handle_selects(world: World) -> None:
    assert compared(world, "model", "query_customer", limit=50) == {}
    number = next(
        number
        for number, shown in references_of(world, actor(world, "support"), SITE).known.items()
        if shown.entity == "store.customer"
    )
    other = {"email": f"‹email r{number}.1›", "phone": f"‹phone r{number}.2›"}
    assert compared(world, "model", "query_customer", filters=other) == {}
    assert send(world, "support", "query_customer", filters=other).content["rows"] == []
    assert found(world) == {}


# -- each judge can find something ----------------------------------------------------------------------------


def test_a_search_over_a_hidden_field_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = (SearchPath(given="name", field="name"), SearchPath(given="email", field="email"))
    monkeypatch.setattr(EntityAccess, "search_paths", property(lambda self: paths))
    assert "compares store_customer.email" in small_run(world, "support", "customer", "query")[2]
    email = Customer.objects.values_list("email", flat=True)[0]
    assert "the model is told" in compared(world, "model", "query_customer", search=email)[4]


def test_an_order_by_a_hidden_field_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {each.name for each in Product._meta.concrete_fields}
    monkeypatch.setattr(scan, "_asked", lambda entity, asked: [n for n in asked if n.lstrip("-") in names])
    told = small_run(world, "support", "product", "query", calls=400)[2]
    assert "compares store_product." in told
    send(world, "support", "query_product", order_by=["cost_price"])
    assert "compares store_product.cost_price" in found(world)[2]


@pytest.mark.parametrize("kind", ["count", "summary"])
def test_a_count_over_rows_out_of_sight_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(EntityAccess, "viewable", EntityAccess.queryset)
    assert (
        "rows of store_order that are not support's to view" in small_run(world, "support", "order", kind)[2]
    )
    assert "the model is told" in compared(world, "rows", "count_order")[4]


def test_a_sum_over_a_hidden_field_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_check", lambda entity, asked, readable: None)
    own = EntityAccess.readable_on_all.func  # type: ignore[attr-defined]
    monkeypatch.setattr(EntityAccess, "readable_on_all", property(lambda self: own(self) | {"cost_price"}))
    told = small_run(world, "support", "product", "summary", calls=300)
    assert "counts or sums store_product.cost_price" in told[2]
    measures = [{"op": "sum", "field": "cost_price"}]
    assert "the model is told" in compared(world, "person", "summarise_product", measures=measures)[4]


def test_a_handle_that_gives_its_value_away_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Rows.for_model

    def with_values(self: Rows) -> tuple[dict[str, Any], int]:
        content, sent = own(self)
        for row, given in zip(self.rows, content["rows"], strict=False):
            given.update(row.kept)
        return content, sent

    monkeypatch.setattr(Rows, "for_model", with_values)
    assert "store.customer.email" in small_run(world, "support", "customer", "query")[3]
    assert "the model is told" in compared(world, "model", "query_customer", limit=3)[4]


def test_a_handle_that_is_put_into_what_was_asked_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Rows.for_model

    def repeating(self: Rows) -> tuple[dict[str, Any], int]:
        content, sent = own(self)
        return {**content, "asked": [str(each.record.email) for each in self.rows]}, sent

    monkeypatch.setattr(Rows, "for_model", repeating)
    send(world, "support", "query_customer", filters={"email": "‹email r4.1›"}, limit=50)
    send(world, "support", "query_customer", limit=1)
    assert "store.customer.email" in found(world)[3]


def test_the_history_of_a_hidden_field_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    order, own = Order.objects.latest("pk"), history._entries
    for at in range(2):
        order.shipping_street = (
            f"{Order.objects.values_list('shipping_street', flat=True)[at]}"  # with its mark
        )
        order.save()

    def with_streets(versions: Any, readable: Any, showable: Any) -> Any:
        return own(versions, (*readable, "shipping_street"), showable)

    monkeypatch.setattr(history, "_entries", with_streets)
    send(world, "manager", "history_order", id=str(order.pk))
    assert "reads store_historicalorder.shipping_street, which manager may not read" in found(world)[2]
    assert "store.order.shipping_street" in found(world)[3]


def test_a_version_that_differs_in_what_is_hidden_is_as_if_it_were_not_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order.objects.latest("pk")
    for street, city in (("a", "Oslo"), ("b", "Oslo"), ("b", "Bergen")):
        order.shipping_street, order.shipping_city = street, city
        order.save()
    ask = partial(compared, world, "model", "history_order", "manager", id=str(order.pk))
    assert ask() == {}
    own = history._entries

    def with_all(versions: Any, readable: Any, showable: Any) -> Any:
        told = [each for each in own(versions, (*readable, "shipping_street"), showable)[1] if each.changes]
        kept = [
            replace(each, changes=tuple(one for one in each.changes if one.field in readable))
            for each in told
        ]
        return kept, kept

    monkeypatch.setattr(history, "_entries", with_all)
    assert "the model is told" in ask()[4]


def test_the_history_of_a_record_out_of_sight_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.rights(actor(world, "support"), SITE) as rights:
        hidden = next(each for each in Order.objects.order_by("pk") if each.pk not in rights.rows(Order))
    hidden.shipping_city = "Elsewhere"
    hidden.save()
    send(world, "support", "history_order", id=str(hidden.pk))
    assert found(world) == {}
    monkeypatch.setattr(EntityAccess, "find", lambda self, given: self.model._base_manager.get(pk=given))
    for module in ("reading.history", "tools.further"):
        monkeypatch.setattr(f"django_copilot.{module}.may_see_history", lambda entity, record: True)
    send(world, "support", "history_order", id=str(hidden.pk))
    assert "reads the past of 1 records in store_historicalorder" in found(world)[2]


def test_a_list_that_ticks_what_is_hidden_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.rights(actor(world, "support"), SITE) as rights:
        hidden = next(each.pk for each in Order.objects.order_by("pk") if each.pk not in rights.rows(Order))
    assert compared(world, "rows", "open_order_list", ids=[str(hidden)]) == {}
    monkeypatch.setattr(
        lists, "_named", lambda entity, ids: list(entity.model._base_manager.filter(pk__in=ids))
    )
    assert 4 in compared(world, "rows", "open_order_list", ids=[str(hidden)])


# -- the yardstick --------------------------------------------------------------------------------------------


@pytest.fixture
def rights(world: World) -> Any:
    with world.rights(actor(world, "support"), SITE) as rights:
        yield rights


def test_what_is_shown_only_is_for_people(rights: Rights) -> None:
    pk = next(iter(rights.rows(Customer)))
    assert rights.kept(Customer, pk) == {"email", "phone"}
    assert not rights.readable(Customer, pk) & {"email", "phone", "internal_note", "api_token"}
    assert rights.shown(Customer, pk) >= {"email", "phone", "name"}


def test_rows_of_inlines_are_shown_with_their_record(rights: Rights) -> None:
    seen = set(rights.rows(Order))
    assert {*OrderLine.objects.values_list("order_id", flat=True)} - seen
    for line in OrderLine.objects.all():
        declared = {"product", "quantity", "unit_price"} if line.order_id in seen else set()
        assert rights.readable(OrderLine, line.pk) == declared
        assert rights.shown(OrderLine, line.pk) >= declared


def test_earlier_versions_tell_what_is_readable_today(rights: Rights, world: World) -> None:
    product = with_past()
    versions = Product.history.model  # type: ignore[attr-defined]
    version = versions.objects.filter(id=product.pk).first()
    assert not rights.readable(versions, version.pk)  # her admin opens no history
    with world.rights(actor(world, "manager"), SITE) as others:
        told = others.readable(versions, version.pk)
    assert {"price", "title", "cost_price"} <= told
    assert not {"attributes", "supplier", "history_change_reason"} & told


def test_what_a_column_of_the_list_says_may_be_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    customer_admin: Any = SITE._registry[Customer]
    token = Customer.objects.values_list("api_token", flat=True)[0]
    world.check_output(actor(world, "support"), SITE, token, what="a result", case="a test", to_model=True)
    assert 3 in found(world)
    world.report.examples.clear()
    world.forget()
    monkeypatch.setattr(customer_admin, "token_of", lambda obj: f"<b>{obj.api_token}</b>", raising=False)
    monkeypatch.setattr(customer_admin, "harness_computed", ["token_of"])
    monkeypatch.setattr(customer_admin, "list_display", [*customer_admin.list_display, "token_of"])
    world.check_output(actor(world, "support"), SITE, token, what="a result", case="a test", to_model=True)
    assert found(world) == {}


# -- the grammar, and how statements are read -----------------------------------------------------------------


def test_the_grammar_makes_every_kind_of_hostile_argument(world: World) -> None:
    grammar = Grammar(known_of(world, SITE), world.rng("test", 0))
    calls = [grammar.call() for _ in range(6_000)]
    text = "\n".join(json.dumps(each.arguments) for each in calls)
    for needle in (
        "r99999.999",
        "‹",
        "99999",
        "9999-12",
        "regex",
        "delete_selected",
        "isnull",
        " ago",
        '"?',
    ):
        written = json.dumps(json.dumps(needle)[1:-1])[1:-1]
        assert needle in text or written in text or json.dumps(needle)[1:-1] in text, needle
    named = Counter(each.name for each in calls)
    for pattern in BASES:
        assert named[pattern.format("order")] > 5, pattern


@pytest.mark.parametrize(
    ("sql", "inner"),
    [
        ('SELECT "a"."x" FROM "a" WHERE (1=1)', 'SELECT "a"."x" FROM "a" WHERE (1=1)'),
        ('SELECT COUNT(*) FROM (SELECT "a"."x" FROM "a" LIMIT 3) q', 'SELECT "a"."x" FROM "a" LIMIT 3'),
        (
            'SELECT "c" FROM ( SELECT * FROM ( SELECT f("a"."x") AS "c" FROM "a" ) "q" ) "r" WHERE "c" < 3',
            'SELECT f("a"."x") AS "c" FROM "a"',
        ),
    ],
    ids=["plain", "counted", "a page of each"],
)
def test_what_a_statement_is_made_of(sql: str, inner: str) -> None:
    assert _inner(sql) == inner
    assert _split(inner)[1].startswith(' FROM "a"')


def test_a_plain_value_of_a_field_only_shown_is_never_compared(world: World) -> None:
    told: Callable[..., Any] = partial(send, world, "support", "query_customer")
    email = Customer.objects.values_list("email", flat=True)[0]
    assert told(filters={"email": email}).content["error"]["code"] == "needs_handle"
    assert found(world) == {}
