"""What was declined and when it may be proposed again; what becomes of plans when other things are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from django_copilot import Always
from django_copilot.models import Conversation, Plan, PlanState, Turn, TurnState
from django_copilot.testing import Call, Calls, Text, ask, script
from example_project.store.models import Customer

from .tools import (
    JSON,
    World,
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


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


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
        other = order_for(
            number=f"SO-91{len(others):05d}"
        )  # while that is being done, no more of it on the same
        arguments = {"order": other.number, "name": str(state)}
        others[state] = propose(world.client, "relabel", arguments, conversationId=conversation)
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
