"""Going on with a turn that waited for a decision: whose it is, when, and once."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_copilot import Always
from django_copilot.models import Conversation, Message, Plan, PlanState, Turn, TurnState
from django_copilot.runtime import store as turns
from django_copilot.testing import Call, Fail, Text, ask, copilot_client, script
from example_project.store.models import Order
from tests.plans.tools import (
    at_once,
    decide,
    grant,
    let_pass,
    look,
    order_for,
    outcome,
    relabel,
    revoke,
    staff,
    stored,
    tool,
)

from .posting import post, told

__all__ = ["tool"]


class World:
    """A turn of support's that waits for a plan of ``relabel``: Ola → Kari."""

    def __init__(self, store: Any, **options: Any) -> None:
        relabel(**options)
        self.store, self.order = store, order_for()
        self.owner: User = store.user("support")
        self.client = copilot_client(self.owner)
        self.plan = self.propose()

    def propose(self, **extra: Any) -> dict[str, Any]:
        """Have a plan made, and remember its conversation."""
        with script(Call("relabel", {"order": self.order.number, "name": "Kari"})):
            answer = ask(self.client, "Rename it", **extra)
        self.conversation: str = answer["conversationId"]
        plan: dict[str, Any] = answer["plan"]
        return plan

    def go_on(self, client: Client | None = None, **body: Any) -> tuple[int, str]:
        """Ask to go on, and return status and code."""
        given = {"conversationId": self.conversation, "continue": self.plan["id"], **body}
        return told(post(client or self.client, given))

    def not_asked(self, client: Client | None = None, **body: Any) -> tuple[int, str]:
        """Ask to go on where the model must not be asked for that."""
        with script():
            return self.go_on(client, **body)

    @property
    def turn(self) -> Turn:
        """Return the turn as it is stored."""
        return Turn.objects.get(pk=stored(self.plan).turn_id)


@pytest.fixture
def world(store: Any, tool: Any) -> World:
    return World(store)


def confirm(world: World) -> None:
    assert outcome(decide(world.client, world.plan, "confirm")) == (200, "executed")


def reject(world: World) -> None:
    assert outcome(decide(world.client, world.plan, "reject", reason="No.")) == (200, "rejected")


def expire(world: World) -> None:
    let_pass(world.plan, "expires_at")


def go_stale(world: World) -> None:
    world.order.delete()
    assert outcome(decide(world.client, world.plan, "confirm")) == (409, "record_gone")


DECIDED: list[Callable[[World], None]] = [confirm, reject, expire, go_stale]


@pytest.mark.parametrize("what", DECIDED)
def test_a_decided_turn_goes_on_once(world: World, what: Callable[[World], None]) -> None:
    assert (world.turn.state, world.turn.open_for) == (TurnState.WAITING, None)
    what(world)
    with script(Text("So it is.")) as model:
        response = post(world.client, {"conversationId": world.conversation, "continue": world.plan["id"]})
    assert told(response) == (200, "")
    body = response.json()
    assert body == {"conversationId": world.conversation, "reply": "So it is.", "results": []}
    assert len(model.requests) == 1
    assert (world.turn.state, world.turn.stored) == (TurnState.DONE, None)
    assert world.not_asked() == (409, "nothing_to_continue")
    messages = Message.objects.order_by("id").values_list("role", "text")
    assert [role for role, _text in messages] == ["user", "assistant", "assistant"]
    assert messages[2] == ("assistant", "So it is.")
    assert Turn.objects.count() == 1


def test_what_is_not_decided_does_not_go_on_and_still_waits(world: World) -> None:
    assert world.not_asked() == (409, "not_decided")
    assert world.turn.state == TurnState.WAITING
    confirm(world)
    with script(Text("Done.")):
        assert world.go_on() == (200, "")


@pytest.mark.parametrize(
    "state", [PlanState.AWAITING_APPROVAL, PlanState.EXECUTING, PlanState.UNCERTAIN], ids=str
)
def test_nor_what_waits_for_a_second_person_or_for_another_system(world: World, state: PlanState) -> None:
    Plan.objects.filter(pk=world.plan["id"]).update(state=state)
    assert world.not_asked() == (409, "not_decided")
    assert world.turn.state == TurnState.WAITING


def test_it_goes_on_once_the_second_person_has_approved_and_only_for_who_asked(
    store: Any, tool: Any, login: Any
) -> None:
    world = World(store, approval=Always())
    assert outcome(decide(world.client, world.plan, "confirm")) == (200, "awaiting_approval")
    assert outcome(decide(login("manager2"), world.plan, "approve")) == (200, "executed")
    # She may see the plan, and neither the conversation nor its end.
    assert look(login("manager2"), world.plan)["canContinue"] is False
    assert world.not_asked(login("manager2")) == (404, "not_found")
    assert look(world.client, world.plan)["canContinue"] is True
    with script(Text("It is approved.")):
        assert world.go_on() == (200, "")


# -- whose it is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["manager", "admin"])
def test_another_persons_turn_is_not_there(world: World, login: Any, who: str) -> None:
    confirm(world)
    other = login(who)
    with script(Text("Hello.")):
        own = ask(other, "Hello")["conversationId"]
    assert world.not_asked(other) == (404, "not_found")
    assert world.not_asked(other, conversationId=own) == (404, "not_found")
    assert world.turn.state == TurnState.WAITING


def test_a_plan_that_is_another_persons_is_not_there_in_her_own_conversation_either(
    world: World, store: Any
) -> None:
    confirm(world)
    grant(world.owner, "django_copilot.approve_plan")
    Plan.objects.filter(pk=world.plan["id"]).update(user=store.user("manager"), needs_approval=True)
    assert look(world.client, world.plan)["state"] == "executed"  # she sees it, as who could approve
    assert world.not_asked() == (404, "not_found")


@pytest.mark.parametrize(
    "given",
    [
        {"continue": str(uuid.UUID(int=0))},
        {"continue": "x"},
        {"continue": "\x00"},
        {"conversationId": str(uuid.UUID(int=0))},
        {"conversationId": "x"},
        {"conversationId": None},
    ],
    ids=repr,
)
def test_what_names_no_own_plan_and_conversation_is_not_there(world: World, given: dict[str, Any]) -> None:
    confirm(world)
    assert world.not_asked(**given) == (404, "not_found")
    assert world.turn.state == TurnState.WAITING


def test_nor_is_a_plan_in_another_conversation_of_hers(world: World) -> None:
    confirm(world)
    with script(Text("Hello.")):
        other = ask(world.client, "Hello")["conversationId"]
    assert world.not_asked(conversationId=other) == (404, "not_found")


@pytest.mark.parametrize("given", [True, 5, "", ["x"], {"id": "x"}], ids=repr)
def test_what_can_not_be_an_id_is_invalid(world: World, given: Any) -> None:
    assert world.not_asked(**{"continue": given}) == (400, "invalid")


def test_a_message_and_a_plan_to_continue_are_not_taken_together(world: World) -> None:
    assert world.not_asked(message="And now?") == (400, "invalid")


def test_going_on_asks_for_session_token_and_rights_as_a_message_does(world: World) -> None:
    confirm(world)
    assert world.not_asked(Client()) == (401, "not_authenticated")
    strict = copilot_client(world.owner, enforce_csrf_checks=True)
    assert world.not_asked(strict) == (403, "csrf_failed")
    revoke(world.owner, "django_copilot.use_copilot")
    assert world.not_asked() == (403, "not_allowed")
    User.objects.filter(pk=world.owner.pk).update(is_staff=False)
    assert world.not_asked() == (403, "not_staff")
    # Nothing of that has used up the turn.
    assert world.turn.state == TurnState.WAITING
    User.objects.filter(pk=world.owner.pk).update(is_staff=True)
    grant(world.owner, "django_copilot.use_copilot")
    with script(Text("Done.")):
        assert world.go_on() == (200, "")


# -- a new message ------------------------------------------------------------------------------------------


def test_a_new_message_closes_the_waiting_turn_and_leaves_the_plan_to_be_decided(world: World) -> None:
    turn = world.turn
    with script(Text("Something else.")):
        ask(world.client, "What else is there?", conversationId=world.conversation)
    turn.refresh_from_db()
    assert (turn.state, turn.code, turn.stored) == (TurnState.DONE, "", None)
    assert look(world.client, world.plan)["state"] == "proposed"
    confirm(world)
    assert Order.objects.get(pk=world.order.pk).shipping_name == "Kari"
    assert look(world.client, world.plan)["canContinue"] is False
    assert world.not_asked() == (409, "nothing_to_continue")


def test_a_message_in_another_conversation_closes_nothing(world: World) -> None:
    with script(Text("Hello.")):
        ask(world.client, "Hello")
    assert world.turn.state == TurnState.WAITING


@pytest.mark.parametrize("text", ["yes", "confirm", "I approve", "tak", "Подтверждаю", "確認"])
def test_a_yes_in_the_chat_decides_nothing(world: World, text: str) -> None:
    with script(Text("Use the button.")) as model:
        ask(world.client, text, conversationId=world.conversation)
    assert all("confirm" not in tool.name for tool in model.requests[0].tools if tool.kind == "write")
    assert look(world.client, world.plan)["state"] == "proposed"
    assert Order.objects.get(pk=world.order.pk).shipping_name == "Ola"


def test_while_another_turn_of_the_conversation_is_open_it_does_not_go_on(world: World) -> None:
    """As when a message and the decision come from two windows at once."""
    confirm(world)
    conversation = Conversation.objects.get(pk=world.conversation)
    deadline = Turn.objects.get(pk=world.turn.pk).deadline
    open_turn = Turn.objects.create(
        conversation=conversation, open_for=conversation, user=world.owner, deadline=deadline
    )
    assert world.not_asked() == (409, "turn_running")
    assert world.turn.state == TurnState.WAITING
    # A turn whose worker died holds nothing up.
    Turn.objects.filter(pk=open_turn.pk).update(deadline=open_turn.started_at)
    with script(Text("Done.")):
        assert world.go_on() == (200, "")
    open_turn.refresh_from_db()
    assert (open_turn.state, open_turn.code) == (TurnState.FAILED, "failed")


def test_a_message_while_it_goes_on_is_told_to_wait(world: World) -> None:
    confirm(world)
    seen: list[tuple[int, str]] = []

    def think(request: Any) -> Text:
        body = {"message": "And now?", "conversationId": world.conversation}
        seen.append(told(post(copilot_client(world.owner), body)))
        seen.append(world.go_on(copilot_client(world.owner)))
        return Text("Done.")

    with script(think):
        assert world.go_on() == (200, "")
    assert seen == [(409, "turn_running"), (409, "nothing_to_continue")]


# -- what fails ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["model_unavailable", "model_timeout", "model_protocol"])
def test_a_turn_that_fails_afterwards_changes_nothing_of_the_decision(world: World, code: Any) -> None:
    confirm(world)
    before = look(world.client, world.plan)
    with script(Fail(code)):
        assert world.go_on() == (500, code)
    assert (world.turn.state, world.turn.code) == (TurnState.FAILED, code)
    after = look(world.client, world.plan)
    assert (after["state"], after["result"]) == ("executed", before["result"])
    assert Order.objects.get(pk=world.order.pk).shipping_name == "Kari"
    assert outcome(decide(world.client, world.plan, "confirm")) == (200, "executed")
    assert world.not_asked() == (409, "nothing_to_continue")
    with script(Text("Here I am again.")):
        ask(world.client, "Are you there?", conversationId=world.conversation)


def test_a_scope_or_history_that_can_not_be_read_fails_the_turn_and_nothing_else(world: World) -> None:
    with script(Text("Hello.")):
        first = ask(world.client, "Hello")["conversationId"]
    world.plan = world.propose(conversationId=first)
    confirm(world)
    Message.objects.filter(conversation=first, role="assistant", plan=None).update(mentions=[])
    assert world.not_asked() == (500, "history_unreadable")
    assert world.turn.state == TurnState.FAILED
    assert look(world.client, world.plan)["state"] == "executed"


@pytest.mark.parametrize("stored", [{}, {"machine": {}}, {"machine": {"rounds": 1}, "offered": []}], ids=repr)
def test_a_stored_turn_that_can_not_be_read_fails_and_the_plan_stays_decided(
    world: World, stored: dict[str, Any]
) -> None:
    confirm(world)
    Turn.objects.filter(pk=world.turn.pk).update(stored={"plan": world.plan["id"], **stored})
    assert world.not_asked() == (500, "failed")
    assert (world.turn.state, world.turn.open_for) == (TurnState.FAILED, None)
    assert look(world.client, world.plan)["state"] == "executed"


def test_a_conversation_that_is_deleted_takes_the_waiting_turn_and_all_it_holds(world: World) -> None:
    """hazard 170"""
    turn = world.turn.pk
    deleted = world.client.post(f"/admin/django_copilot/conversation/{world.conversation}/delete/")
    assert deleted.status_code == 302
    kept = Turn.objects.get(pk=turn)  # for the limits
    assert (kept.state, kept.stored, kept.conversation) == (TurnState.DONE, None, None)
    assert look(world.client, world.plan)["state"] == "rejected"
    assert look(world.client, world.plan)["canContinue"] is False
    assert world.not_asked() == (404, "not_found")


def test_a_conversation_that_is_deleted_while_it_goes_on_breaks_nothing(world: World) -> None:
    confirm(world)

    def think(request: Any) -> Text:
        copilot_client(world.owner).post(f"/admin/django_copilot/conversation/{world.conversation}/delete/")
        return Text("Too late.")

    with script(think):
        assert world.go_on() == (500, "failed")
    assert not Conversation.objects.exists()
    assert Plan.objects.get().state == PlanState.EXECUTED


def test_a_plan_that_no_turn_waits_for_has_nothing_to_continue(world: World) -> None:
    confirm(world)
    _status, answer = decide(world.client, world.plan, "undo")
    undo = answer["plan"]
    assert outcome(decide(world.client, undo, "confirm")) == (200, "executed")
    assert world.not_asked(**{"continue": undo["id"]}) == (409, "nothing_to_continue")
    assert world.turn.state == TurnState.WAITING
    with script(Text("It was undone.")):
        assert world.go_on() == (200, "")


def test_of_a_stale_plan_and_the_fresh_one_in_its_place_the_turn_waits_for_the_fresh_one(
    world: World,
) -> None:
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Per")
    status, answer = decide(world.client, world.plan, "confirm")
    assert (status, answer["code"]) == (409, "stale")
    fresh = answer["plan"]
    assert world.not_asked() == (409, "nothing_to_continue")
    assert world.not_asked(**{"continue": fresh["id"]}) == (409, "not_decided")
    assert outcome(decide(world.client, fresh, "confirm")) == (200, "executed")
    with script(Text("Done.")):
        assert world.go_on(**{"continue": fresh["id"]}) == (200, "")


def test_a_plan_of_the_admins_pages_is_no_plan_to_continue(world: World) -> None:
    with script(Call("open_order_form", {"id": str(world.order.pk), "fields": {"shipping_city": "Oslo"}})):
        answer = ask(world.client, "Open it", conversationId=world.conversation)
    ident = answer["action"]["queryParams"]["aiPlan"]
    assert world.not_asked(**{"continue": ident}) == (404, "not_found")


# -- at once ------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_of_several_who_go_on_at_once_one_is_answered_and_the_others_are_not(
    transactional_db: None, store: Any, tool: Any
) -> None:
    world = World(store)
    confirm(world)
    number = 6
    clients = [copilot_client(world.owner) for _ in range(number)]
    lost = threading.Semaphore(0)

    def think(request: Any) -> Text:
        for _ in range(number - 1):
            assert lost.acquire(timeout=30)  # the others are answered while this one is open
        return Text("Once.")

    def go_on(client: Client) -> tuple[int, str]:
        given = world.go_on(client)
        if given[0] != 200:
            lost.release()
        return given

    with script(think) as model:
        given = at_once(*[lambda each=each: go_on(each) for each in clients])
    assert given.count((200, "")) == 1
    assert set(given) <= {(200, ""), (409, "nothing_to_continue"), (409, "turn_running")}
    assert len(model.requests) == 1
    assert Message.objects.filter(text="Once.").count() == 1


class Crossing:
    """A clock at which two requests meet, after both have looked and before either has claimed."""

    def __init__(self, real: Any) -> None:
        self.real, self.gate = real, threading.Barrier(2)

    def now(self) -> Any:
        with suppress(threading.BrokenBarrierError):
            self.gate.wait(5)
        return self.real.now()


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_that_have_both_found_it_waiting_do_not_both_claim_it(
    transactional_db: None, store: Any, tool: Any, monkeypatch: Any
) -> None:
    world = World(store)
    confirm(world)
    conversation, plan = Conversation.objects.get(pk=world.conversation), stored(world.plan)
    monkeypatch.setattr(turns, "timezone", Crossing(turns.timezone))
    taken = at_once(*[lambda: turns.take_up(conversation, plan)] * 2)
    assert [each.pk for each in taken if each is not None] == [plan.turn_id]


@pytest.mark.django_db(transaction=True)
def test_a_message_and_going_on_at_once_leave_one_open_turn(
    transactional_db: None, store: Any, tool: Any
) -> None:
    world = World(store)
    confirm(world)
    clients = [copilot_client(world.owner) for _ in range(2)]
    lost = threading.Event()

    def think(request: Any) -> Text:
        assert lost.wait(30)
        return Text("One of the two.")

    def send(work: Callable[[], tuple[int, str]]) -> tuple[int, str]:
        given = work()
        if given[0] != 200:
            lost.set()
        return given

    body = {"message": "And?", "conversationId": world.conversation}
    with script(think):
        given = at_once(
            lambda: send(lambda: told(post(clients[0], body))),
            lambda: send(lambda: world.go_on(clients[1])),
        )
    assert Counter(given) in (
        Counter({(200, ""): 1, (409, "nothing_to_continue"): 1}),  # the message came first
        Counter({(409, "turn_running"): 1, (200, ""): 1}),
    )
    assert not Turn.objects.exclude(state=TurnState.DONE).exists()


def test_a_plan_of_another_site_is_not_there(world: World, tool: Any) -> None:
    confirm(world)
    Plan.objects.filter(pk=world.plan["id"]).update(site="elsewhere")
    assert world.not_asked() == (404, "not_found")


def test_going_on_is_no_new_turn_for_the_limit_of_messages(world: World, settings: Any) -> None:
    confirm(world)
    settings.COPILOT = {**settings.COPILOT, "TURNS_PER_MINUTE": 1}
    assert told(post(world.client, {"message": "More"})) == (429, "throttled")
    with script(Text("Done.")):
        assert world.go_on() == (200, "")


def test_a_stranger_to_the_store_finds_nothing(world: World) -> None:
    confirm(world)
    stranger = staff("stranger", "django_copilot.use_copilot")
    assert world.not_asked(copilot_client(stranger)) == (403, "no_entities")


def test_no_call_can_be_answered_by_the_model_itself(world: World) -> None:
    """A step of the model's, not of a person's: it has no tool that decides."""
    with script(
        Call("confirm", {"plan": world.plan["id"]}),
        Call("relabel", {"order": world.order.number, "name": "Kari", "confirm": True}),
        Call("relabel", {"order": world.order.number, "name": "Kari", "confirmed_by": "1"}),
        Text("I can't."),
    ) as model:
        ask(world.client, "Confirm it yourself", conversationId=world.conversation)
    results = [each.text for each in model.requests[-1].messages if each.role == "tool"]
    assert [
        part in text
        for part, text in zip(["unknown_tool", "unknown_argument", "unknown_argument"], results, strict=True)
    ] == [True] * 3
    assert Order.objects.get(pk=world.order.pk).shipping_name == "Ola"
