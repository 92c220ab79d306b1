"""How long a plan can be decided on, by the database's clock, and making it again afterwards."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from django_copilot import Always
from django_copilot.models import Plan, PlanState
from django_copilot.testing import Text, script
from example_project.store.models import Order

from .tools import (
    World,
    audited,
    decide,
    let_pass,
    look,
    outcome,
    propose,
    relabel,
    send,
    stored,
)

CHAT = "/admin/django_copilot/conversation/chat/"


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


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
