"""What decisions find under the lock: stale previews, other effects, windows, repeats, and what was deleted."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Sum
from django.db.models.functions import Now
from django.db.models.signals import post_save, pre_save
from django.test import Client
from django.utils import timezone

from django_copilot import Always, Effect, Preview, write_tool
from django_copilot.models import Conversation, Plan, PlanState, Turn, TurnState
from django_copilot.testing import Call, Calls, Text, ask, script
from example_project.store.models import Customer, Order, OrderLine, Product

from .tools import (
    JSON,
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
    told,
)

CHAT = "/admin/django_copilot/conversation/chat/"


class World:
    """An order, the tool ``relabel``, and support."""

    def __init__(self, login: Callable[[str], Client]) -> None:
        relabel()
        self.login = login
        self.client = login("support")
        self.order = order_for()

    def propose(self, name: str = "Kari", **extra: Any) -> dict[str, Any]:
        """Return a plan to ship the order to somebody."""
        return propose(self.client, "relabel", {"order": self.order.number, "name": name}, **extra)

    def fresh(self) -> Order:
        """Return the order as it is stored."""
        return Order.objects.get(pk=self.order.pk)


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


# -- stale --------------------------------------------------------------------------------------------------


def test_of_two_plans_on_one_record_the_first_makes_the_second_stale_with_the_fresh_diff(
    world: World,
) -> None:
    first, second = world.propose("Kari"), world.propose("Per")
    assert outcome(decide(world.client, first, "confirm")) == (200, "executed")
    status, answer = decide(world.client, second, "confirm")
    assert (status, answer["code"]) == (409, "stale")
    assert world.fresh().shipping_name == "Kari"
    fresh = answer["plan"]
    assert fresh["id"] not in (first["id"], second["id"])
    assert (fresh["state"], fresh["changes"][0]["old"], fresh["changes"][0]["new"]) == (
        "proposed",
        "Kari",
        "Per",
    )
    assert stored(second).state == PlanState.STALE
    assert outcome(decide(world.client, second, "confirm", digest=fresh["digest"])) == (409, "stale")
    assert outcome(decide(world.client, fresh, "confirm", digest=second["digest"])) == (
        409,
        "digest_mismatch",
    )
    assert outcome(decide(world.client, fresh, "confirm")) == (200, "executed")
    assert world.fresh().shipping_name == "Per"


def test_the_turn_that_waited_for_a_stale_plan_waits_for_the_fresh_one(world: World) -> None:
    plan = world.propose()
    Order.objects.filter(pk=world.order.pk).update(shipping_city="Bergen")
    fresh = decide(world.client, plan, "confirm")[1]["plan"]
    assert not fresh["canContinue"]
    conversation = str(stored(plan).conversation_id)
    body = {"conversationId": conversation, "continue": plan["id"]}
    assert send(world.client, CHAT, body).json()["code"] == "nothing_to_continue"
    assert look(world.client, plan)["can"] == ["again"]
    assert outcome(decide(world.client, plan, "again")) == (200, "proposed")
    assert decide(world.client, plan, "again")[1]["plan"]["id"] == fresh["id"]
    decide(world.client, fresh, "confirm")
    with script(Text("It is shipped to Kari now.")) as model:
        answer = send(world.client, CHAT, {**body, "continue": fresh["id"]}).json()
    assert answer["reply"] == "It is shipped to Kari now."
    assert "EXECUTED" in model.requests[0].messages[-1].text


def rating(ctx: Any, order: str) -> Preview:
    """Write how much an order is worth on its parcel."""
    found = ctx.get(Order, number=order)
    lines = ctx.unscoped(OrderLine).filter(order=found.pk).aggregate(sum=Sum("unit_price"))
    return Preview(found, shipping_name="Kari", effects=[Effect("Worth %(sum)s.", sum=lines["sum"] or 0)])


def allowed(ctx: Any, order: str) -> Preview:
    """Do it as the limit, a setting of ours, says."""
    from django.conf import settings

    return Preview(
        ctx.get(Order, number=order), shipping_name="Kari", effects=[f"Limit {settings.TEST_LIMIT}"]
    )


def listing(ctx: Any, order: str) -> Preview:
    """Do it for the customer with all her orders."""
    found = ctx.get(Order, number=order)
    others = ctx.list(Order, customer=found.customer_id)
    return Preview(found, shipping_name="Kari", effects=[f"{len(others)} orders"])


def another_line(order: Order, settings: Any) -> None:
    product = Product.objects.create(title="Lamp", price=9)
    OrderLine.objects.create(order=order, product=product, unit_price=decimal.Decimal(3))


def another_setting(order: Order, settings: Any) -> None:
    settings.TEST_LIMIT = 6


def another_order(order: Order, settings: Any) -> None:
    order_for(number="SO-9000002")


def other_customer_changed(order: Order, settings: Any) -> None:
    order_for_other = Order.objects.get(number="SO-9000003")
    order_for_other.shipping_city = "Oslo"
    order_for_other.save()


@pytest.mark.parametrize(
    ("preview", "change"),
    [
        (rating, another_line),
        (allowed, another_setting),
        (listing, another_order),
        (listing, other_customer_changed),
    ],
    ids=lambda each: each.__name__,
)
def test_a_sum_a_setting_or_a_row_that_the_preview_read_and_that_changed_makes_it_stale(
    store: Any, tool: Any, login: Any, settings: Any, preview: Any, change: Any
) -> None:
    settings.TEST_LIMIT = 5
    write_tool(Order)(preview)
    order = order_for()
    order_for(number="SO-9000003")
    plans = [propose(login("support"), preview.__name__, {"order": order.number}) for _ in range(2)]
    change(order, settings)
    status, answer = decide(login("support"), plans[0], "confirm")
    assert (status, answer["code"], answer["plan"]["state"]) == (409, "stale", "proposed")
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"
    assert outcome(decide(login("support"), answer["plan"], "confirm")) == (200, "executed")


def test_a_change_that_came_and_went_is_none(world: World) -> None:
    plan = world.propose()
    Order.objects.filter(pk=world.order.pk).update(shipping_city="Bergen")
    Order.objects.filter(pk=world.order.pk).update(shipping_city=world.order.shipping_city)
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")


def test_the_same_digest_in_another_language_and_time_zone(world: World) -> None:
    plan = world.propose()
    world.client.cookies["django_language"] = "pl"
    shown = look(world.client, plan)
    assert (shown["digest"], shown["stateLabel"]) != (plan["digest"], plan["stateLabel"])
    assert shown["digest"] == plan["digest"]
    with timezone.override("Asia/Tokyo"):
        assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")


# -- another effect than was shown --------------------------------------------------------------------------


def saves_another_value(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.shipping_name = obj.shipping_name.upper()
    obj.save()


def saves_another_field_too(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.shipping_city = "Somewhere"
    obj.save()


def saves_nothing(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    pass


def saves_and_fails(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.save()
    raise ValueError


def saves_by_a_statement(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.save()
    Order.objects.filter(pk=obj.pk).update(status="cancelled")


def deletes(model_admin: Any, request: Any, obj: Any, form: Any, change: Any) -> None:
    obj.delete()


@pytest.mark.parametrize(
    ("save_model", "code"),
    [
        (saves_another_value, "effect_differs"),
        (saves_another_field_too, "effect_differs"),
        (saves_nothing, "effect_differs"),
        (saves_by_a_statement, "effect_differs"),
        (saves_and_fails, "failed"),
        (deletes, "effect_differs"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_save_that_stores_something_else_than_was_shown_is_rolled_back(
    world: World, monkeypatch: pytest.MonkeyPatch, save_model: Any, code: str
) -> None:
    """Hazard 141."""
    plan, history = world.propose(), Order.history.count()
    monkeypatch.setattr(type(admin.site._registry[Order]), "save_model", save_model)
    assert outcome(decide(world.client, plan, "confirm")) == (409, code)
    held = world.fresh()
    assert (held.shipping_name, held.shipping_city, held.status) == ("Ola", "", "paid")
    assert Order.history.count() == history
    kept = stored(plan)
    assert (kept.state, kept.code, kept.confirmed_by) == ("failed", code, str(kept.user_id))
    assert audited(plan)[-2:] == [("confirmed", ""), ("failed", code)]
    assert outcome(decide(world.client, plan, "confirm")) == (409, "failed")


@pytest.mark.parametrize("signal", [pre_save, post_save], ids=["pre_save", "post_save"])
@pytest.mark.parametrize("field", ["shipping_city", "status"])
def test_a_signal_that_changes_another_field_is_rolled_back_unless_it_was_announced(
    world: World, signal: Any, field: str
) -> None:
    def preview(ctx: Any, order: str, name: str) -> Preview:
        """Change the name, and what saving changes besides."""
        return Preview(ctx.get(Order, number=order), shipping_name=name, touched=[field])

    write_tool(Order, name="announced")(preview)
    given = {"order": world.order.number, "name": "Kari"}
    plans = [world.propose(), propose(world.client, "announced", given)]

    def change(sender: Any, instance: Any, **kwargs: Any) -> None:
        setattr(instance, field, "cancelled")
        if signal is post_save:
            Order.objects.filter(pk=instance.pk).update(**{field: "cancelled"})

    signal.connect(change, sender=Order)
    try:
        assert outcome(decide(world.client, plans[0], "confirm")) == (409, "effect_differs")
        assert (world.fresh().shipping_name, getattr(world.fresh(), field)) != ("Kari", "cancelled")
        assert plans[1]["touched"]
        assert outcome(decide(world.client, plans[1], "confirm")) == (200, "executed")
    finally:
        signal.disconnect(change, sender=Order)
    assert (world.fresh().shipping_name, getattr(world.fresh(), field)) == ("Kari", "cancelled")


def test_no_audit_no_execution(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_copilot import audit

    plan = world.propose()

    def append(*args: Any) -> None:
        raise OSError("The disk is full.")

    monkeypatch.setattr(audit, "append", append)
    assert decide(world.client, plan, "confirm")[0] == 500
    assert (world.fresh().shipping_name, stored(plan).state) == ("Ola", "proposed")
    assert decide(world.client, plan, "reject", reason="No")[0] == 500
    assert stored(plan).state == "proposed"


# -- windows ------------------------------------------------------------------------------------------------


def test_windows_are_the_settings_or_the_tools_own(world: World, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "PLAN_SECONDS": 70, "APPROVE_SECONDS": 90}
    relabel(name="slow", confirm_within=datetime.timedelta(hours=3), approval=Always())
    given = {"order": world.order.number, "name": "Kari"}
    plan, slow = world.propose(), propose(world.client, "slow", given)
    assert 60 < plan["secondsLeft"] <= 70
    assert 3 * 3600 - 10 < slow["secondsLeft"] <= 3 * 3600
    decide(world.client, slow, "confirm")
    assert 80 < look(world.client, slow)["secondsLeft"] <= 90


@pytest.mark.parametrize("hours", [-30, 30])
def test_windows_are_measured_by_the_databases_clock(
    world: World, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    over, plan = world.propose("Per"), world.propose("Kari")
    let_pass(over, "expires_at")
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + datetime.timedelta(hours=hours))
    assert look(world.client, over)["state"] == "expired"
    assert look(world.client, plan)["state"] == "proposed"
    assert outcome(decide(world.client, over, "confirm")) == (409, "expired")
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert world.fresh().shipping_name == "Kari"


def test_the_window_is_asked_once_more_in_the_claiming_statement(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end while the preview is made again."""
    from django_copilot import gate

    plan, again = world.propose(), gate.look_again

    def slow(*args: Any) -> Any:
        found = again(*args)
        let_pass(plan, "expires_at")
        return found

    monkeypatch.setattr(gate, "look_again", slow)
    assert outcome(decide(world.client, plan, "confirm")) == (409, "expired")
    assert world.fresh().shipping_name == "Ola"
    assert stored(plan).state == "proposed"


@pytest.mark.parametrize("state", [PlanState.EXECUTING, PlanState.UNCERTAIN], ids=str)
def test_what_was_claimed_does_not_expire(world: World, state: PlanState) -> None:
    plan = world.propose()
    Plan.objects.filter(pk=plan["id"]).update(
        state=state, expires_at=Now(), approve_by=Now(), confirmed_at=Now()
    )
    assert look(world.client, plan)["state"] == state


def test_an_expired_plan_is_made_again_without_the_model_and_its_turn_waits_for_that(world: World) -> None:
    plan = world.propose()
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Per")
    let_pass(plan, "expires_at")
    assert look(world.client, plan)["can"] == ["again"]
    with script():  # the model is not asked
        status, answer = decide(world.client, plan, "again")
    fresh = answer["plan"]
    assert (status, fresh["state"], fresh["changes"][0]["old"]) == (200, "proposed", "Per")
    assert stored(plan).state == PlanState.EXPIRED
    assert stored(fresh).made_from_id == stored(plan).pk
    assert stored(fresh).key != stored(plan).key
    assert decide(world.client, plan, "again")[1]["plan"]["id"] == fresh["id"]
    body = {"conversationId": str(stored(plan).conversation_id), "continue": fresh["id"]}
    assert send(world.client, CHAT, body).json()["code"] == "not_decided"
    decide(world.client, fresh, "confirm")
    with script(Text("Done.")):
        assert send(world.client, CHAT, body).json()["reply"] == "Done."


def test_what_would_be_refused_now_is_not_made_again(world: World) -> None:
    plan = world.propose()
    let_pass(plan, "expires_at")
    Order.objects.filter(pk=world.order.pk).update(status="shipped")
    assert outcome(decide(world.client, plan, "again")) == (409, "not_editable")
    assert Plan.objects.count() == 1
    assert audited(plan)[-1] == ("refused", "not_editable")


@pytest.mark.parametrize(
    "state",
    [each for each in PlanState if each not in (PlanState.EXPIRED, PlanState.STALE)],
    ids=str,
)
def test_only_what_is_over_is_made_again(world: World, state: PlanState) -> None:
    plan = world.propose()
    Plan.objects.filter(pk=plan["id"]).update(state=state)
    assert outcome(decide(world.client, plan, "again")) == (409, "not_again")
    assert Plan.objects.count() == 1


# -- what was declined --------------------------------------------------------------------------------------


def test_what_was_declined_is_not_proposed_again_before_her_next_message(world: World) -> None:
    given = {"order": world.order.number, "name": "Kari"}
    plan = world.propose()
    decide(world.client, plan, "reject", reason="Wrong name")
    conversation = str(stored(plan).conversation_id)
    spaced = {"name": "  Kari ", "order": world.order.number}
    with script(Call("relabel", given), Call("relabel", spaced), Text("All right.")) as model:
        answer = send(world.client, CHAT, {"conversationId": conversation, "continue": plan["id"]}).json()
    assert answer["reply"] == "All right."
    assert "declined by a person: Wrong name" in model.requests[0].messages[-1].text
    for request in model.requests[1:]:
        assert "declined_before" in request.messages[-1].text
    assert Plan.objects.count() == 1
    assert "plan" not in answer
    again = world.propose(conversationId=conversation)
    assert again["state"] == "proposed"


def test_three_declined_plans_of_a_tool_are_enough_in_a_turn(world: World) -> None:
    names = iter(["B", "C", "D", "E"])
    relabel(name="another")
    plan = world.propose("A")
    conversation = str(stored(plan).conversation_id)
    for name in names:
        decide(world.client, plan, "reject")
        body = {"conversationId": conversation, "continue": plan["id"]}
        given = {"order": world.order.number, "name": name}
        if name == "D":
            with script(Call("relabel", given), Call("another", given)) as model:
                answer = send(world.client, CHAT, body).json()
            assert "declined_too_often" in model.requests[1].messages[-1].text
            assert answer["plan"]["tool"] == "another"  # of another tool it may
            break
        with script(Call("relabel", given)):
            plan = send(world.client, CHAT, body).json()["plan"]
    assert Plan.objects.filter(tool="relabel").count() == 3
    assert world.propose("F", conversationId=conversation)["state"] == "proposed"


def test_an_expired_call_may_be_proposed_again(world: World) -> None:
    plan = world.propose()
    let_pass(plan, "expires_at")
    body = {"conversationId": str(stored(plan).conversation_id), "continue": plan["id"]}
    with script(Call("relabel", {"order": world.order.number, "name": "Kari"})):
        assert send(world.client, CHAT, body).json()["plan"]["state"] == "proposed"


def test_a_refused_call_makes_no_plan(world: World) -> None:
    assert told(world.client, "relabel", {"order": "SO-0", "name": "Kari"})["error"]["code"] == "not_found"
    assert told(world.client, "relabel", {"name": "Kari"})["error"]["code"] == "clarification_required"
    assert told(world.client, "relabel", {"order": world.order.number, "name": "Ola"})["error"]["code"] == (
        "no_change"
    )
    assert Plan.objects.count() == 0


def test_a_turn_waits_for_one_plan_at_a_time(world: World) -> None:
    given = [{"order": world.order.number, "name": name} for name in ("Kari", "Per")]
    with script(Calls(*(Call("relabel", each) for each in given))):
        plan = ask(world.client, "Both please")["plan"]
    assert Plan.objects.count() == 1
    decide(world.client, plan, "confirm")
    body = {"conversationId": str(stored(plan).conversation_id), "continue": plan["id"]}
    with script(Text("One is done.")) as model:
        send(world.client, CHAT, body)
    assert "not_run" in model.requests[0].messages[-1].text


# -- what was deleted ---------------------------------------------------------------------------------------


def test_deleting_a_conversation_rejects_its_open_plans_and_leaves_what_was_claimed(world: World) -> None:
    relabel(name="approved", approval=Always())
    first = world.propose("A")
    conversation = str(stored(first).conversation_id)
    waiting = propose(
        world.client,
        "approved",
        {"order": world.order.number, "name": "B"},
        conversationId=conversation,
    )
    decide(world.client, waiting, "confirm")
    others = {}
    for state in (PlanState.EXECUTING, PlanState.UNCERTAIN, PlanState.EXECUTED, PlanState.EXPIRED):
        others[state] = world.propose(str(state), conversationId=conversation)
        Plan.objects.filter(pk=others[state]["id"]).update(state=state, confirmed_at=Now())
    elsewhere = world.propose("C")
    url = f"/admin/django_copilot/conversation/{conversation}/delete/"
    assert world.client.post(url, headers=JSON).status_code == 200
    assert not Conversation.objects.filter(pk=conversation).exists()
    for plan in (first, waiting):
        kept = stored(plan)
        assert (kept.state, kept.conversation_id, kept.ended_at is None) == ("rejected", None, False)
        assert audited(plan)[-1] == ("rejected", "")
        assert outcome(decide(world.client, plan, "confirm")) == (409, "rejected")
    assert outcome(decide(world.login("manager2"), waiting, "approve")) == (409, "rejected")
    for state, plan in others.items():
        assert stored(plan).state == state
        assert look(world.client, plan)["state"] == state
    assert stored(elsewhere).state == "proposed"


def test_going_on_with_the_conversation_leaves_a_plan_to_be_confirmed(world: World) -> None:
    plan = world.propose()
    conversation = str(stored(plan).conversation_id)
    with script(Text("Something else.")):
        ask(world.client, "What else?", conversationId=conversation)
    assert Turn.objects.get(pk=stored(plan).turn_id).state == TurnState.DONE
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    body = {"conversationId": conversation, "continue": plan["id"]}
    assert send(world.client, CHAT, body).json()["code"] == "nothing_to_continue"


def test_a_plan_outlives_its_requester_and_is_never_carried_out(world: World) -> None:
    relabel(name="approved", approval=Always())
    given = {"order": world.order.number, "name": "Kari"}
    waiting, proposed = propose(world.client, "approved", given), world.propose()
    decide(world.client, waiting, "confirm")
    User.objects.get(username="support").delete()
    assert [stored(each).user_id for each in (waiting, proposed)] == [None, None]
    manager = world.login("manager2")
    assert outcome(decide(manager, proposed, "approve")) == (404, "not_found")
    assert outcome(decide(manager, waiting, "approve"))[0] == 409
    assert manager.get(waiting["url"]).status_code == 200
    assert world.fresh().shipping_name == "Ola"
    assert audited(waiting)[0] == ("proposed", "")


def test_a_customer_who_is_gone_takes_no_plan_along(world: World) -> None:
    plan = world.propose()
    world.order.delete()
    Customer.objects.filter(pk=world.order.customer_id).delete()
    assert look(world.client, plan)["state"] == "proposed"
    assert outcome(decide(world.client, plan, "confirm")) == (409, "record_gone")
