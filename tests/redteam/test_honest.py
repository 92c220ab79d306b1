"""Honest requests succeed among hostile data, leave nothing behind, and are told as failed when something is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.test.utils import override_settings

from django_copilot.exceptions import Denied, Refused
from django_copilot.mixin import HarnessMixin
from django_copilot.models import Plan
from django_copilot.plans import decisions
from django_copilot.reading import Rows
from django_copilot.reading.scan import Found
from django_copilot.redteam import tables
from django_copilot.redteam.canaries import plant
from django_copilot.redteam.corpus import OWN
from django_copilot.redteam.honest import plans as plan_requests
from django_copilot.redteam.honest import requests as honest
from django_copilot.redteam.honest.asking import Person, Problem, final
from django_copilot.redteam.honest.sentences import Said, sentence
from django_copilot.redteam.honest.submitting import controls
from django_copilot.redteam.outside import Outside, stand_in
from django_copilot.redteam.people import find_actors
from django_copilot.redteam.world import World
from example_project.store import redteam as project
from example_project.store.models import Customer, Order, Product, Refund

Desk = Callable[[str, str], Any]


@pytest.fixture
def world(store: Any, settings: Any) -> World:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"  # a stand-in answers for it
    canaries = plant(OWN, seed=7)
    names = ("viewer", "support", "bot", "manager", "admin")
    return World(seed=7, actors=find_actors(names), canaries=canaries, injections=OWN, project=project)


@pytest.fixture
def desk(world: World, settings: Any) -> Any:
    """Return a function that gives what a person can ask in a language."""

    def desk(username: str, language: str = "en") -> Any:
        actor = next(each for each in world.actors if each.name == username)
        return honest._Desk(Person(world, actor, admin.site, language), 0, prefix="")

    with override_settings(COPILOT={**settings.COPILOT, "BACKEND": "offline"}), stand_in(7) as outside:
        outside.honest = True
        world.outside = outside  # type: ignore[attr-defined]
        yield desk


def changed(field: str, text: str) -> Said:
    return Said(field, f'"{text}"', text, text)


# -- they succeed ---------------------------------------------------------------------------------------------


def test_everybody_is_answered_in_every_language_and_nothing_is_left_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(honest, "LEAST", 0)
    world.project = None
    world.actors = [each for each in world.actors if each.name in ("viewer", "bot", "manager")]
    before = tables.snapshot()
    honest.run(world, number=0, calls=75)
    assert not world.report.honest_failed
    assert not world.report.findings
    assert world.report.counts["honest requests that took a scripted model"] == 0
    assert world.report.counts["forms saved honestly, and taken back"] > 3
    assert world.report.counts["records deleted honestly, and taken back"] > 0
    assert tables.snapshot() == before
    assert len(world.report.honest) == 75
    people, languages, kinds, _entities = (
        set(each) for each in zip(*(n.split("/") for n in world.report.honest), strict=True)
    )
    assert people == {"viewer", "bot", "manager"}
    assert languages == {"en", "pl", "ru"}
    assert kinds == {
        "list", "record", "filter", "headless", "second", "count", "add", "change", "save", "follow-up", "delete",
        "which",
    }  # fmt: skip


def test_plans_are_carried_out_approved_and_undone(world: World, desk: Any) -> None:
    before = tables.snapshot()
    outside: Outside = world.outside  # type: ignore[attr-defined]
    asked = list(plan_requests.ask_all(world, outside, in_each_language=False))
    assert not [problem for _name, _person, problem in asked if problem]
    people = {
        tuple(part for part in name.split("/") if part not in ("en", "pl", "ru")) for name, _, _ in asked
    }
    deciding = {"admin", "manager", "support"}
    assert people == {
        *((who, "told", "draft_customer_message") for who in (*deciding, "bot")),
        *((who, "plan", "change_shipping_address") for who in deciding),
        *((who, kind, "refund_payment") for who in deciding for kind in ("plan", "approved")),
        *(("bot", "proposed", tool) for tool in ("change_shipping_address", "refund_payment")),
    }
    assert outside.done
    assert not outside.changed
    assert not Plan.objects.exists()
    assert tables.snapshot() == before


@pytest.mark.parametrize("language", ["en", "pl", "ru"])
def test_what_the_stores_staff_ask_is_answered(world: World, desk: Any, language: str) -> None:
    world.actors = ()
    honest_questions = [each for each in project.honest() if f"/{language}/" in each[0]][::3]
    world.project = type("Project", (), {"honest": lambda: honest_questions})
    honest.run(world, number=0, calls=0)
    assert not world.report.honest_failed
    assert len(world.report.honest) == len(honest_questions) > 20
    assert {name.split("/")[1] for name in world.report.honest} == {
        "admin",
        "manager",
        "support",
        "bot",
        "viewer",
    }


def test_what_the_offline_backend_does_not_get_is_asked_with_the_call_that_answers_it(world: World) -> None:
    def check(answer: dict[str, Any]) -> str:
        return "" if answer["results"] and answer["results"][-1]["kind"] == "count" else "it counts nothing"

    questions = [
        ("with", "viewer", "Blue elephants?", check, ("count_product", {})),
        ("without", "viewer", "Blue elephants?", check),
    ]
    world.actors = ()
    world.project = type("Project", (), {"honest": lambda: questions})
    honest.run(world, number=0, calls=0)
    assert world.report.honest == {"project/with": "", "project/without": "it counts nothing"}
    assert world.report.counts["honest requests that took a scripted model"] == 1


# -- and they can fail ----------------------------------------------------------------------------------------


def test_a_product_that_refuses_everything_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise Refused("No.", code="not_allowed")

    monkeypatch.setattr("django_copilot.gate.run", refuse)
    monkeypatch.setattr(honest, "LEAST", 0)
    world.actors = [each for each in world.actors if each.name == "viewer"]
    world.project = None
    honest.run(world, number=0, calls=12)
    assert len(world.report.honest) == 12
    assert world.report.honest_failed.keys() == world.report.honest.keys()


def test_a_problem_of_the_project_is_told(world: World) -> None:
    questions = [
        ("good", "viewer", "Show products", lambda answer: ""),
        ("bad", "viewer", "Show products", lambda answer: "it is no good"),
        ("broken", "viewer", "Show products", lambda answer: answer["nothing"]),
    ]
    world.actors = ()
    world.project = type("Project", (), {"honest": lambda: questions})
    honest.run(world, number=0, calls=0)
    assert world.report.honest_failed == {
        "project/bad": "it is no good",
        "project/broken": "KeyError: 'nothing'",
    }


def broken_table(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[dict[str, Any]], None]) -> None:
    own = Rows.for_person

    def for_person(self: Rows) -> dict[str, Any]:
        table = own(self)
        spoil(table)
        return table

    monkeypatch.setattr(Rows, "for_person", for_person)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda table: table["rows"].pop(), "19 rows, not 20"),
        (lambda table: table["rows"].reverse(), "another order"),
        (lambda table: table.update(hasMore=False), "hasMore"),
        (lambda table: table["rows"].__setitem__(0, table["rows"][1]), "a row twice"),
        (lambda table: table["rows"][3]["values"].pop("city"), "shows"),
        (lambda table: table["rows"][3]["values"].update(city="elsewhere"), "city of record"),
        (lambda table: table["rows"][3]["values"].update(vip=None), "vip of record"),
        (lambda table: table["rows"][3].update(url="/admin/store/customer/0/change/"), "not hers"),
    ],
    ids=["row", "order", "more", "twice", "missing", "text", "flag", "address"],
)
def test_a_wrong_table_is_noticed(
    desk: Any, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[dict[str, Any]], None], told: str
) -> None:
    asked = desk("manager")
    asked.list(Customer)
    broken_table(monkeypatch, spoil)
    with pytest.raises(Problem, match=told):
        asked.list(Customer)


def test_a_wrong_label_is_noticed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = desk("support", "pl")
    asked.list(Order)
    broken_table(monkeypatch, lambda table: table["rows"][0]["values"]["customer"].pop("label"))
    with pytest.raises(Problem, match=r"customer of record .* is labelled ''"):
        asked.list(Order)


def test_rows_that_a_filter_should_have_left_out_are_noticed(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = desk("support", "ru")
    paid = Said("status", "paid", "paid", "paid")
    asked.filter(Order, paid)
    monkeypatch.setattr("django_copilot.reading.rows.scan", lambda *args: Found(records=(), has_more=False))
    with pytest.raises(Problem, match="0 rows"):
        asked.filter(Order, paid)


def test_a_form_that_does_not_hold_the_value_is_noticed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, customer = desk("manager"), Customer.objects.earliest("pk")
    asked.form(Customer, customer, changed("city", "Gdynia"))
    monkeypatch.setattr("django_copilot.draft.Draft.form_class", lambda self, form: form)
    with pytest.raises(Problem, match=r"carries no plan|city in the form is"):
        asked.form(Customer, customer, changed("city", "Gdynia"))


def test_saving_that_writes_more_is_noticed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, customer = desk("manager"), Customer.objects.earliest("pk")
    asked.save(Customer, customer, changed("city", "Gdynia"))
    own = HarnessMixin.save_model

    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        if "_copilot_plan" in request.POST:
            obj.vip = not obj.vip
        own(self, request, obj, form, change)

    monkeypatch.setattr(HarnessMixin, "save_model", save_model)
    with pytest.raises(Problem, match=r"something else into .*vip"):
        asked.save(Customer, customer, changed("city", "Gdynia"))


def test_saving_that_saves_nothing_is_noticed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, customer = desk("manager"), Customer.objects.earliest("pk")
    monkeypatch.setattr("django_copilot.plans.claim", lambda plan: False)
    with pytest.raises(Problem, match="saving was answered with 200"):
        asked.save(Customer, customer, changed("city", "Gdynia"))


def test_a_delete_page_without_its_preview_is_noticed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, product = desk("manager"), Product.objects.filter(order_lines=None).earliest("pk")
    asked.delete(Product, product)
    monkeypatch.setattr("django_copilot.mixin.preview_record", lambda entity, obj: [])
    with pytest.raises(Problem, match="the preview lacks title"):
        asked.delete(Product, product)
    monkeypatch.setattr(HarnessMixin, "_delete_preview", lambda *args, **kwargs: None)
    with pytest.raises(Problem, match="has no preview"):
        asked.delete(Product, product)


def plan_problems(world: World, tool: str) -> list[str]:
    manager = next(each for each in world.actors if each.name == "manager")
    person = Person(world, manager, admin.site, "en")
    calls = [arguments for name, arguments in project.calls() if name == tool]
    found = plan_requests._of_tool(person, world.outside, tool, calls)  # type: ignore[attr-defined]
    return [problem for _kind, problem in found if problem]


def test_a_plan_that_is_not_carried_out_is_noticed(
    world: World, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*args: Any) -> Any:
        raise Denied("stale")

    monkeypatch.setattr(decisions, "confirm", deny)
    assert "409" in plan_problems(world, "change_shipping_address")[0]


def test_a_plan_that_does_something_else_is_noticed(
    world: World, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = decisions.confirm

    def confirm(*args: Any) -> Any:
        plan = own(*args)
        Order.objects.filter(pk=plan.object_pk).update(shipping_name="Eve")
        return plan

    monkeypatch.setattr(decisions, "confirm", confirm)
    assert plan_problems(world, "change_shipping_address") == ["shipping_name has changed, and was not shown"]


def test_a_refund_that_nobody_can_approve_is_noticed(world: World, desk: Any) -> None:
    world.actors = [each for each in world.actors if each.name not in ("admin",)]
    assert plan_problems(world, "refund_payment") == ["nobody could approve it: there is nobody"]


def test_a_refund_that_never_leaves_is_noticed(
    world: World, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_copilot.gate.call_out", lambda *args: {"reference": "made up"})
    assert "0 operations outside" in plan_problems(world, "refund_payment")[0]
    assert not Refund.objects.filter(gateway_reference="made up").exists()


def test_a_tool_that_nobody_can_use_is_noticed(
    world: World, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.actors = [each for each in world.actors if each.name == "viewer"]
    asked = list(plan_requests.ask_all(world, world.outside, in_each_language=False))  # type: ignore[attr-defined]
    assert {name for name, _person, problem in asked if problem} == {
        "anybody/draft_customer_message",
        "anybody/change_shipping_address",
        "anybody/refund_payment",
    }


# -- parts ----------------------------------------------------------------------------------------------------


def test_a_form_is_sent_as_a_browser_sends_it() -> None:
    html = """
        <form id="logout-form" method="post"><input name="a" value="1"></form>
        <form method="get"><input name="b" value="1"></form>
        <form id="thing_form" method="post">
          <input name="text" value="two&#10;lines &lt;b&gt;"><input type="hidden" name="hidden" value="two&#10;lines">
          <input type="checkbox" name="on" checked><input type="checkbox" name="off">
          <input type="file" name="file"><input type="submit" name="_save" value="Save"><input name="fixed" disabled>
          <textarea name="long">\n\nfirst\nsecond</textarea>
          <select name="one"><option value="">-</option><option value="x">x</option></select>
          <select name="many" multiple><option value="1" selected><option value="2"><option value="3" selected></select>
        </form>"""
    assert controls(html) == {
        "text": ["twolines <b>"],
        "hidden": ["two\nlines"],
        "on": ["on"],
        "long": ["\r\nfirst\r\nsecond"],
        "one": [""],
        "many": ["1", "3"],
    }


def test_a_stream_ends_well_or_is_a_problem() -> None:
    done = 'event: text\ndata: "a"\n\nevent: done\ndata: {"reply": "a",\ndata:  "x": 1}\n\n'
    assert final(": hello\n\n" + done) == {"reply": "a", "x": 1}
    for cut in ("", 'event: text\ndata: "a"\n\n', 'event: error\ndata: {"code": "failed"}\n\n'):
        with pytest.raises(Problem, match="the stream ended"):
            final(cut)


def test_sentences_name_fields_in_the_language() -> None:
    said = Said("city", '"Gdynia"', "Gdynia", "Gdynia")
    assert sentence("change", Customer, "pl", ident="3", said=said) == 'Zmień klient 3: miasto "Gdynia"'
    assert sentence("list", Order, "ru") == "Покажи заказы"
