"""What decisions find under the lock: a preview that changed, and another effect than was shown."""

from __future__ import annotations

import decimal
from typing import Any

import pytest
from django.contrib import admin
from django.db.models import Sum
from django.db.models.signals import post_save, pre_save
from django.utils import timezone

from django_copilot import Effect, Preview, write_tool
from django_copilot.models import PlanState
from django_copilot.testing import Text, script
from example_project.store.models import Order, OrderLine, Product

from .tools import (
    World,
    audited,
    decide,
    look,
    order_for,
    outcome,
    propose,
    send,
    stored,
)

CHAT = "/admin/django_copilot/conversation/chat/"


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
