"""The assistant turned off by somebody else: from the next request and the next step on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_copilot import Always, CallFailed, Preview, write_tool
from django_copilot.models import AuditEntry, Message, Plan, PlanState, Switch, Turn, TurnState
from django_copilot.testing import Call, Calls, Script, Text, ask, copilot_client, script
from example_project.store.admin import OrderAdmin
from example_project.store.models import Order
from tests.api.posting import post, told
from tests.forms import pages as forms
from tests.plans.tools import (
    JSON,
    at_once,
    audited,
    decide,
    let_pass,
    look,
    order_for,
    outcome,
    propose,
    relabel,
    send,
    stored,
    tool,
)

__all__ = ["tool"]

OFF = (403, "switched_off")


def turn_off(site: str = "admin") -> None:
    """Do what another worker does: it writes a row."""
    Switch.objects.update_or_create(site=site, defaults={"is_off": True})


def turn_on(site: str = "admin") -> None:
    Switch.objects.filter(site=site).update(is_off=False)


class World:
    """An order, its owner's client, and a tool of her own."""

    def __init__(self, store: Any, **options: Any) -> None:
        relabel(**options)
        self.store, self.order = store, order_for()
        self.owner: User = store.user("support")
        self.client = copilot_client(self.owner)

    def propose(self, name: str = "Kari") -> dict[str, Any]:
        return propose(self.client, "relabel", {"order": self.order.number, "name": name})

    @property
    def ship_to(self) -> str:
        return Order.objects.get(pk=self.order.pk).shipping_name


@pytest.fixture
def world(store: Any, tool: Any) -> World:
    return World(store)


# -- the next request ---------------------------------------------------------------------------------------


def test_no_message_is_taken_and_none_is_kept(world: World) -> None:
    turn_off()
    with script():
        assert told(post(world.client, {"message": "Hello"})) == OFF
        assert told(post(world.client, {"message": ""})) == OFF
    assert not Message.objects.exists()
    assert not Turn.objects.exists()
    turn_on()
    with script(Text("Hello.")):
        ask(world.client, "Hello")


def test_another_site_stays_on(world: World) -> None:
    turn_off("elsewhere")
    with script(Text("Hello.")):
        ask(world.client, "Hello")


@pytest.mark.parametrize("what", ["confirm", "undo", "again"])
def test_nothing_is_decided_and_the_decision_is_as_good_as_before_once_it_is_on(
    world: World, what: str
) -> None:
    plan = world.propose()
    if what == "undo":
        assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    if what == "again":
        let_pass(plan, "expires_at")
    before, states = world.ship_to, list(Plan.objects.values_list("state", flat=True))
    turn_off()
    status, body = decide(world.client, plan, what)
    assert (status, body["code"]) == OFF
    assert body["detail"] == "The assistant is turned off on this site."
    assert (world.ship_to, list(Plan.objects.values_list("state", flat=True))) == (before, states)
    assert audited(plan)[-1] == ("refused", "switched_off")
    turn_on()
    assert decide(world.client, plan, what)[0] == 200


def test_nothing_is_approved(store: Any, tool: Any, login: Any) -> None:
    world = World(store, approval=Always())
    plan = world.propose()
    decide(world.client, plan, "confirm")
    turn_off()
    assert outcome(decide(login("manager2"), plan, "approve")) == OFF
    assert (stored(plan).state, world.ship_to) == (PlanState.AWAITING_APPROVAL, "Ola")
    turn_on()
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


def test_a_waiting_turn_does_not_go_on_and_still_waits(world: World) -> None:
    plan = world.propose()
    decide(world.client, plan, "confirm")
    body = {"conversationId": str(stored(plan).conversation_id), "continue": plan["id"]}
    turn_off()
    with script():
        assert told(post(world.client, body)) == OFF
    assert Turn.objects.get().state == TurnState.WAITING
    turn_on()
    with script(Text("Done.")):
        assert told(post(world.client, body)) == (200, "")


def test_reading_and_declining_stay_possible(store: Any, tool: Any, login: Any) -> None:
    world = World(store, approval=Always())
    plans = [world.propose(name) for name in ("Kari", "Per")]
    decide(world.client, plans[1], "confirm")
    turn_off()
    assert look(world.client, plans[0])["changes"][0]["new"] == "Kari"
    page = world.client.get(plans[0]["url"])
    assert (page.status_code, "Kari" in page.content.decode()) == (200, True)
    inbox = world.client.get("/admin/django_copilot/plan/", headers=JSON).json()
    assert [each["id"] for each in inbox["plans"]] == [plans[0]["id"]]
    assert outcome(decide(world.client, plans[0], "reject")) == (200, "rejected")
    assert outcome(decide(login("manager2"), plans[1], "reject")) == (200, "rejected")
    own = world.client.get("/admin/django_copilot/conversation/", headers=JSON).json()
    assert len(own["conversations"]) == 2


@pytest.mark.django_db(transaction=True)
def test_it_holds_for_a_worker_that_never_heard_of_it(transactional_db: None, store: Any, tool: Any) -> None:
    """Nothing of the switch is kept in the memory of a process: two of them, one row."""
    world = World(store)
    plan = world.propose()
    at_once(turn_off)
    assert outcome(decide(world.client, plan, "confirm")) == OFF
    at_once(turn_on)
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")


# -- a running turn -----------------------------------------------------------------------------------------


def stopped(client: Client, *steps: Any) -> tuple[dict[str, Any], Script]:
    """Send a message whose turn must be stopped, and return the answer."""
    with script(*steps) as model:
        answer = ask(client, "Do it", status=403)
    assert answer["code"] == "switched_off"
    turn = Turn.objects.get(conversation=answer["conversationId"])
    assert (turn.state, turn.code, turn.open_for_id) == (TurnState.FAILED, "switched_off", None)
    assert not Message.objects.filter(conversation=answer["conversationId"], role="assistant").exists()
    return answer, model


def meanwhile(step: Any) -> Callable[[Any], Any]:
    """Return a step of the model during which somebody turns the assistant off."""

    def think(request: Any) -> Any:
        turn_off()
        return step

    return think


@pytest.mark.parametrize(
    "call",
    [
        Call("query_order", {"limit": 3}),
        Call("open_order_form", {"id": "%s", "fields": {"shipping_city": "Oslo"}}),
        Call("confirm_delete_order", {"id": "%s"}),
        Call("relabel", {"order": "SO-9000001", "name": "Kari"}),
        Call("find_entities", {"words": "orders"}),
        Call("ask_user", {"text": "Really?"}),
        Call("draft_customer_message", {"order": "SO-9000001", "topic": "x"}),
    ],
    ids=lambda call: call.name,
)
def test_turned_off_while_the_model_thinks_no_call_is_run(world: World, monkeypatch: Any, call: Call) -> None:
    asked: list[str] = []
    rows = OrderAdmin.get_queryset

    def get_queryset(self: Any, request: Any) -> Any:
        asked.append(request.path)
        return rows(self, request)

    monkeypatch.setattr(OrderAdmin, "get_queryset", get_queryset)
    arguments = {
        name: str(world.order.pk) if value == "%s" else value for name, value in call.arguments.items()
    }
    _answer, model = stopped(world.client, meanwhile(Call(call.name, arguments)))
    assert len(model.requests) == 1
    assert asked == []
    assert not Plan.objects.exists()


def test_nor_is_any_other_call_of_that_reply(world: World) -> None:
    calls = Calls(Call("query_order", {}), Call("relabel", {"order": world.order.number, "name": "Kari"}))
    _answer, model = stopped(world.client, meanwhile(calls))
    assert len(model.requests) == 1
    assert not Plan.objects.exists()


def test_turned_off_during_a_call_its_result_does_not_leave(world: World, monkeypatch: Any) -> None:
    rows = OrderAdmin.get_queryset

    def get_queryset(self: Any, request: Any) -> Any:
        turn_off()
        return rows(self, request)

    monkeypatch.setattr(OrderAdmin, "get_queryset", get_queryset)
    _answer, model = stopped(world.client, Call("query_order", {"limit": 3}))
    assert len(model.requests) == 1


def test_what_a_stopped_turn_did_is_in_the_audit(world: World) -> None:
    def then_off(request: Any) -> Call:
        turn_off()
        return Call("query_product", {})

    stopped(world.client, Call("query_order", {"limit": 3}), then_off)
    calls = AuditEntry.objects.filter(event="tool_call").order_by("number")
    assert list(calls.values_list("tool", "code")) == [("query_order", ""), ("query_product", "switched_off")]


def test_a_turn_that_goes_on_after_a_decision_is_stopped_as_well(world: World) -> None:
    plan = world.propose()
    decide(world.client, plan, "confirm")
    body = {"conversationId": str(stored(plan).conversation_id), "continue": plan["id"]}
    with script(meanwhile(Call("query_order", {}))) as model:
        assert told(post(world.client, body)) == OFF
    assert len(model.requests) == 1
    turn = Turn.objects.get()
    assert (turn.state, turn.code) == (TurnState.FAILED, "switched_off")
    assert look(world.client, plan)["state"] == "executed"


def test_after_it_the_message_can_be_sent_again(world: World) -> None:
    answer, _model = stopped(world.client, meanwhile(Call("query_order", {})))
    turn_on()
    with script(Text("Here I am.")):
        ask(world.client, "Do it", conversationId=answer["conversationId"])
    assert Message.objects.filter(role="user").count() == 1


# -- what was claimed ---------------------------------------------------------------------------------------


class Outside:
    """Another system, and the tool that asks it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ended: list[bool] = []
        self.answer: Callable[[], dict[str, Any]] = lambda: {"number": "1"}
        self.knows: Callable[[], dict[str, Any] | None] = lambda: {"number": "1"}

        def announce(ctx: Any, order: str) -> Preview:
            """Announce a parcel."""
            found = ctx.get(Order, number=order)
            return Preview(found, payload={"order": found.number})

        made = write_tool(Order)(announce)

        @made.call
        def call(payload: Any, key: str) -> dict[str, Any]:
            self.calls.append(key)
            return self.answer()

        @made.look_up
        def look_up(payload: Any, key: str) -> dict[str, Any] | None:
            return self.knows()

        @made.settle
        def settle(grant: Any, succeeded: bool, result: Any) -> None:
            self.ended.append(succeeded)


@pytest.fixture
def outside(world: World) -> Outside:
    return Outside()


def timed_out() -> dict[str, Any]:
    raise TimeoutError


def off_then(ends: Callable[[], Any]) -> Callable[[], Any]:
    def answer() -> Any:
        turn_off()
        return ends()

    return answer


def refuse() -> dict[str, Any]:
    raise CallFailed("No such street.")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (lambda: {"number": "1"}, PlanState.EXECUTED),
        (refuse, PlanState.FAILED),
        (timed_out, PlanState.UNCERTAIN),
    ],
    ids=["done", "refused", "no answer"],
)
def test_an_operation_outside_that_was_claimed_before_records_its_end(
    world: World, outside: Outside, ends: Callable[[], Any], expected: PlanState
) -> None:
    plan = propose(world.client, "announce", {"order": world.order.number})
    outside.answer = off_then(ends)
    assert decide(world.client, plan, "confirm")[0] == 200
    kept = stored(plan)
    assert (kept.state, kept.attempts) == (expected, 1)
    assert outside.ended == {"executed": [True], "failed": [False], "uncertain": []}[expected]
    assert audited(plan)[-1][0] == expected


def test_of_an_uncertain_one_people_can_still_find_out_but_not_try_it_again(
    world: World, outside: Outside, login: Any
) -> None:
    outside.answer = timed_out
    plans = [
        propose(world.client, "announce", {"order": order_for(number=f"SO-900001{n}").number}) for n in "12"
    ]
    for plan in plans:
        assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    turn_off()
    assert outcome(decide(world.client, plans[0], "confirm")) == OFF
    assert len(outside.calls) == 2
    assert outcome(decide(world.client, plans[0], "lookUp")) == (200, "executed")
    outside.knows = timed_out
    settled = decide(login("manager2"), plans[1], "settle", outcome="failed", reason="They say so.")
    assert outcome(settled) == (200, "failed")
    assert outside.ended == [True, False]


def test_a_lease_that_runs_out_meanwhile_still_reads_as_uncertain(world: World, outside: Outside) -> None:
    plan = propose(world.client, "announce", {"order": world.order.number})
    Plan.objects.filter(pk=plan["id"]).update(
        state=PlanState.EXECUTING, lease_until=stored(plan).created_at, confirmed_by=str(world.owner.pk)
    )
    turn_off()
    assert look(world.client, plan)["state"] == "uncertain"
    assert outcome(decide(world.client, plan, "lookUp")) == (200, "executed")


# -- the admin's own pages ----------------------------------------------------------------------------------


def proposed(world: World) -> dict[str, Any]:
    """Have a form proposed."""
    values = {"shipping_city": "Trondheim"}
    return forms.propose(world.client, "open_order_form", values, id=str(world.order.pk), site="admin")


def test_a_proposed_form_is_opened_empty_and_one_that_is_open_can_be_saved(world: World) -> None:
    action = proposed(world)
    page = forms.visit(world.client, action)
    assert page.value("shipping_city") == "Trondheim"
    turn_off()
    assert "Trondheim" not in forms.visit(world.client, action).html
    saved = page.save()
    assert saved.response.status_code == 302, saved.errors
    assert Order.objects.get(pk=world.order.pk).shipping_city == "Trondheim"
    assert forms.plan_of(action).state == PlanState.EXECUTED


def test_a_proposed_form_is_not_proposed_again(world: World) -> None:
    plan = proposed(world)["queryParams"]["aiPlan"]
    turn_off()
    answer = send(world.client, f"/admin/django_copilot/plan/{plan}/again/")
    assert (answer.status_code, answer.json()["code"]) == OFF
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_a_hand_made_link_fills_nothing_in(world: World) -> None:
    link = '/admin/store/tag/add/?aiPrefill={"name":"Trondheim"}'
    admin = copilot_client(world.store.user("admin"))
    assert "Trondheim" in admin.get(link).content.decode()
    turn_off()
    assert "Trondheim" not in admin.get(link).content.decode()


def test_the_delete_page_is_the_admins_own(world: World) -> None:
    url = f"/admin/store/order/{world.order.pk}/delete/"
    admin = copilot_client(world.store.user("admin"))
    assert admin.get(url).context["copilot_preview"]["fields"]
    turn_off()
    page = admin.get(url)
    assert page.status_code == 200
    assert page.context["copilot_preview"] is None
    assert admin.post(url, {"post": "yes"}).status_code == 302
    assert not Order.objects.filter(pk=world.order.pk).exists()
