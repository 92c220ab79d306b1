"""What an attacker, a careless tool and a changed row can't do with plans."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from django_copilot import Above, Always, Effect, Preview, write_tool
from django_copilot.models import AuditEntry, AuditValue, Plan, PlanState
from django_copilot.plans import proposals
from django_copilot.testing import Call, Text, ask, copilot_client, script
from example_project.store.models import Customer, Order

from . import outside
from .tools import (
    JSON,
    World,
    audited,
    decide,
    impersonated,
    look,
    order_for,
    outcome,
    propose,
    relabel,
    send,
    staff,
    stored,
    told,
)

CHAT = "/admin/django_copilot/conversation/chat/"


@pytest.fixture
def world(store: Any, tool: Any, login: Callable[[str], Client]) -> World:
    return World(login)


# -- what a tool may show --------------------------------------------------------------------------------------


def test_a_secret_is_in_no_preview_no_plan_and_no_audit(store: Any, tool: Any, login: Any) -> None:
    """A field that the admin does not show and whose name says what it is; it may be touched, unshown."""
    customer = Customer.objects.create(name="Ola", email="o@mail.example", api_token="tok-hidden-9")

    def renew(ctx: Any, email: str, how: str) -> Preview:
        """Renew a token."""
        found = ctx.get(Customer, email=email)
        if how == "shown":
            return Preview(found, api_token="tok-new-7")
        return Preview(found, effects="A new token is made.", touched="api_token")

    made = write_tool(Customer)(renew)

    @made.apply
    def apply(ctx: Any, preview: Preview, grant: Any) -> None:
        Customer.objects.filter(pk=preview.record.pk).update(api_token="tok-new-7")

    client = login("manager")
    error = told(client, "renew", {"email": customer.email, "how": "shown"})
    assert error["error"]["code"] == "failed"
    plan = propose(client, "renew", {"email": customer.email, "how": "touched"})
    assert plan["effects"] == ["A new token is made."]  # one sentence, not its letters
    assert outcome(decide(client, plan, "confirm")) == (200, "executed")
    kept = (
        str([*Plan.objects.values()])
        + str([*AuditValue.objects.values()])
        + str([*AuditEntry.objects.values()])
    )
    assert "tok-hidden" not in kept
    assert "tok-new" not in kept


def test_data_in_the_text_of_an_effect_is_no_format(store: Any, tool: Any, login: Any) -> None:
    def note(ctx: Any, order: str) -> Preview:
        """Say what happens."""
        found = ctx.get(Order, number=order)
        text = f"{found.shipping_city}: %(n)s of 100%% for %(who)s, %(missing)s, %s"
        return Preview(found, effects=[Effect(text, n=3, who="Ola")], shipping_name="Kari")

    write_tool(Order)(note)
    order = order_for(shipping_city="%(n)3000000s %d")
    plan = propose(login("support"), "note", {"order": order.number})
    assert plan["effects"] == ["%(n)3000000s %d: 3 of 100% for Ola, %(missing)s, %s"]


@pytest.mark.parametrize(
    "declared", [lambda ctx: None, "store.Order", None], ids=["no parentheses", "text", "none"]
)
def test_a_tool_needs_a_model(tool: Any, declared: Any) -> None:
    with pytest.raises(TypeError, match="write_tool needs a model"):
        write_tool(declared)


def test_a_tool_without_its_context_is_reported(tool: Any) -> None:
    def send_to(parcel: str) -> Preview:
        """Send a parcel."""
        raise NotImplementedError

    made = write_tool(Order, permissions="store.change_order")(send_to)
    assert "takes no context" in made.problems[0]
    assert made.permissions == ("store.change_order",)


# -- proposals --------------------------------------------------------------------------------------------------


def test_a_declined_call_is_the_same_with_its_default_and_with_another_scale(
    store: Any, tool: Any, login: Any
) -> None:
    def price(ctx: Any, order: str, cost: decimal.Decimal, name: str = "Kari") -> Preview:
        """Name a parcel."""
        return Preview(ctx.get(Order, number=order), effects=[f"It costs {cost}."], shipping_name=name)

    write_tool(Order)(price)
    order, client = order_for(), login("support")
    first = {"order": order.number, "cost": "5.5"}
    with script(Call("price", first)):
        answer = ask(client, "Name it")
    assert outcome(decide(client, answer["plan"], "reject")) == (200, "rejected")
    again: list[Any] = [
        {**first, "cost": "5.50"},
        {**first, "name": "Kari"},
        {**first, "cost": "5.500", "name": "Kari"},
    ]
    with script(*(Call("price", each) for each in again), Text("Then not.")) as model:
        body = {"conversationId": answer["conversationId"], "continue": answer["plan"]["id"]}
        assert send(client, CHAT, body).status_code == 200
    results = [each.text for each in model.requests[-1].messages if each.role == "tool"]
    assert sum("declined_before" in each for each in results) == len(again)
    assert Plan.objects.count() == 1


def test_while_the_same_is_being_done_no_more_of_it_is_proposed(store: Any, tool: Any, login: Any) -> None:
    world = outside.World(login)
    world.outside.answers = [outside.timed_out]
    plan = world.propose()
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    assert told(world.client, "announce", {"order": world.order.number})["error"]["code"] == "operation_open"
    assert Plan.objects.count() == 1


def test_not_more_than_so_many_plans_of_a_person_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "MAX_WAITING", 2)
    plans = [world.propose(name) for name in ("A", "B")]
    arguments = {"order": world.order.number, "name": "C"}
    assert told(world.client, "relabel", arguments)["error"]["code"] == "too_many_waiting"
    decide(world.client, plans[0], "reject")
    assert world.propose("C")["state"] == "proposed"
    assert (
        propose(world.login("manager"), "relabel", arguments)["state"] == "proposed"
    )  # hers are counted apart


# -- who sees what ----------------------------------------------------------------------------------------------


def test_who_may_approve_and_not_see_finds_that_there_is_a_plan_and_no_more(
    store: Any, tool: Any, login: Any
) -> None:
    def tell(ctx: Any, order: str, name: str) -> Preview:
        """Change a name."""
        found = ctx.get(Order, number=order)
        return Preview(
            found,
            summary=f"about zqx-{name}",
            effects=[f"zqx-{name} gets it"],
            acting_as=f"zqx-{name}",
            system={"customer": "zqx-system"},
            shipping_name=f"zqx-{name}",
        )

    write_tool(Order, approval=Always())(tell)
    client = login("support")
    plan = propose(client, "tell", {"order": order_for().number, "name": "Kari"})
    assert outcome(decide(client, plan, "confirm")) == (200, "awaiting_approval")
    Plan.objects.filter(pk=plan["id"]).update(result={"said": "zqx-result"})
    blind = copilot_client(staff("blind", "django_copilot.approve_plan"))
    for answer in (
        blind.get(plan["url"], headers=JSON),
        blind.get(plan["url"]),
        send(blind, plan["approveUrl"], {"digest": plan["digest"]}),
    ):
        assert "zqx" not in answer.content.decode()
    assert "zqx-Kari" in login("manager2").get(plan["url"]).content.decode()


def test_an_account_without_a_session_decides_nothing(world: World) -> None:
    """As where a middleware of the project lets in whoever sends a token."""
    plan = world.propose()
    with override_settings(MIDDLEWARE=[*_middleware(), "tests.plans.tools.lets_support_in"]):
        client = Client()
        answer = send(client, plan["confirmUrl"], {"digest": plan["digest"]})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert world.fresh().shipping_name == "Ola"


def _middleware() -> list[str]:
    from django.conf import settings

    return list(settings.MIDDLEWARE)


def test_who_asked_as_somebody_else_approves_nothing_of_that_turn(store: Any, tool: Any, login: Any) -> None:
    """Neither the first plan nor the one after it, though she goes on by herself in between."""
    relabel(approval=Always())
    order, boss = order_for(), User.objects.get(username="admin")
    client = impersonated(login("support"), boss)
    with script(Call("relabel", {"order": order.number, "name": "A"})):
        answer = ask(client, "Do it")
    entry = AuditEntry.objects.get(event="tool_call")
    assert (entry.actor, entry.real_actor) == (str(User.objects.get(username="support").pk), str(boss.pk))
    herself = login("support")
    decide(herself, answer["plan"], "reject")
    body = {"conversationId": answer["conversationId"], "continue": answer["plan"]["id"]}
    with script(Call("relabel", {"order": order.number, "name": "B"})):
        second = send(herself, CHAT, body).json()["plan"]
    assert outcome(decide(herself, second, "confirm")) == (200, "awaiting_approval")
    assert outcome(decide(login("admin"), second, "approve")) == (403, "own_plan")
    assert outcome(decide(login("manager2"), second, "approve")) == (200, "executed")


# -- rows that were changed behind our back ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"payload": '{"to":"EVIL"}'},
        {"needs_approval": False},
        {"arguments": {"order": "SO-0000009"}},
        {"object_pk": "1"},
        {"version": "0" * 64},
        {"tool": "refund_payment"},
    ],
    ids=lambda each: next(iter(each)),
)
def test_a_row_that_says_something_else_than_its_document_is_refused(
    store: Any, tool: Any, login: Any, changed: dict[str, Any]
) -> None:
    world = outside.World(login, approval=Always())
    plan = world.propose()
    Plan.objects.filter(pk=plan["id"]).update(**changed)
    assert outcome(decide(world.client, plan, "confirm")) == (409, "digest_mismatch")
    assert world.outside.sent == []
    assert audited(plan)[-1] == ("refused", "digest_mismatch")


def test_a_plan_whose_model_is_gone_is_still_shown_and_breaks_no_inbox(world: World) -> None:
    plan = world.propose()
    Plan.objects.filter(pk=plan["id"]).update(model="gone.thing")
    assert look(world.client, plan)["changes"][0]["label"] == "shipping_name"
    assert world.client.get("/admin/django_copilot/plan/").status_code == 200


def test_a_conversation_shows_the_last_of_several_plans_made_in_place_of_one(world: World) -> None:
    plan = first = world.propose()
    for city in ("Oslo", "Bergen", "Tromsø"):
        Order.objects.filter(pk=world.order.pk).update(shipping_city=city)
        status, answer = decide(world.client, plan, "confirm")
        assert (status, answer["code"]) == (409, "stale")
        plan = answer["plan"]
    conversation = stored(first).conversation_id
    shown = world.client.get(f"/admin/django_copilot/conversation/{conversation}/", headers=JSON).json()
    assert [each["plan"]["id"] for each in shown["messages"] if "plan" in each] == [plan["id"]]


# -- operations outside -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [False, {}, [], 0, "no", "yes", 1])
def test_an_answer_that_says_nothing_is_none(store: Any, tool: Any, login: Any, answer: Any) -> None:
    world = outside.World(login)
    world.outside.answers, world.outside.knows = [outside.timed_out], outside.said(answer)
    plan = world.propose()
    decide(world.client, plan, "confirm")
    assert outcome(decide(world.client, plan, "lookUp")) == (409, "no_answer")
    assert stored(plan).state == PlanState.UNCERTAIN


def test_a_retry_needs_the_approver_too(store: Any, tool: Any, login: Any) -> None:
    world = outside.World(login, approval=Always())
    world.outside.answers = [outside.timed_out, outside.said({"parcel": "P1"})]
    plan = world.propose()
    decide(world.client, plan, "confirm")
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "uncertain")
    User.objects.filter(username="manager2").update(is_active=False)
    assert outcome(decide(world.client, plan, "confirm")) == (403, "not_allowed")
    assert (stored(plan).attempts, len(world.outside.sent)) == (1, 1)


def test_who_could_not_approve_does_not_ask_the_other_system(store: Any, tool: Any, login: Any) -> None:
    world = outside.World(login)
    world.outside.answers = [outside.timed_out]
    plan = world.propose()
    decide(world.client, plan, "confirm")
    blind = copilot_client(staff("blind", "django_copilot.approve_plan"))
    assert outcome(decide(blind, plan, "lookUp")) == (403, "approver_cannot_see")
    assert world.outside.asked == []


def test_what_is_still_uncertain_counts_however_long_ago_and_amounts_below_zero_do_not_make_room(
    store: Any, tool: Any, login: Any
) -> None:
    world = outside.World(login, approval=Above(10))
    world.outside.answers = [outside.timed_out, outside.said({"parcel": "P1"})]
    plan = world.propose()
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    Plan.objects.filter(pk=plan["id"]).update(confirmed_at="2020-01-01T00:00Z", amount=-7)
    other = propose(world.client, "announce", {"order": order_for(number="SO-9000007").number})
    assert other["needsApproval"] is True


# -- bodies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("[1]", "application/json"),
        ("{", "application/json"),
        ('{"digest": "' + "x" * 30_000 + '"}', "application/json"),
        ("no boundary", "multipart/form-data; boundary=x"),
    ],
    ids=["no object", "cut", "long", "multipart"],
)
def test_a_body_that_can_not_be_read_is_the_callers_fault(world: World, body: str, kind: str) -> None:
    plan = world.propose()
    answer = world.client.post(plan["confirmUrl"], body, content_type=kind, headers=JSON)
    assert answer.status_code in (400, 409)
    assert answer.json()["code"] in ("invalid", "digest_mismatch")
    assert world.fresh().shipping_name == "Ola"


@pytest.mark.parametrize("reason", ["\ud800 no", "no\x00"])
def test_a_reason_with_characters_that_no_database_takes_is_kept_without_them(
    world: World, reason: str
) -> None:
    plan = world.propose()
    assert outcome(decide(world.client, plan, "reject", reason=reason)) == (200, "rejected")
    assert "no" in stored(plan).reason
