"""How often and how much at once: limits are counted over what is stored, and a dead worker holds nothing up."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.core.cache import cache
from django.test import override_settings
from django.utils import timezone

from django_copilot.models import Conversation, Message, Turn, TurnState
from django_copilot.testing import Text, ask, script

from .posting import detail, post, told

HELLO = {"message": "Hello"}


def limited(**more: Any) -> Any:
    return override_settings(COPILOT={"BACKEND": "scripted", **more})


def running_turn(user: Any, *, seconds: float = 60, site: str = "admin") -> Turn:
    """Store a turn that another worker is busy with; its worker is taken for dead after ``seconds``."""
    conversation = Conversation.objects.create(user=user, site=site)
    turn = Turn.objects.create(
        conversation=conversation,
        open_for=conversation,
        user=user,
        deadline=timezone.now() + datetime.timedelta(seconds=seconds),
    )
    Message.objects.create(conversation=conversation, turn=turn, role="user", text="Earlier")
    return turn


def test_turns_per_minute_are_limited_and_the_answer_says_how_long_to_wait(login):
    """Hazard 80."""
    client = login("manager")
    with limited(TURNS_PER_MINUTE=2):
        with script(Text("1"), Text("2")):
            ask(client, "Hello")
            ident = ask(client, "Hello")["conversationId"]
        cache.clear()  # it is not counted there
        with script():
            for body in (HELLO, {**HELLO, "conversationId": ident}):
                response = post(client, body)
                assert told(response) == (429, "throttled")
                assert 1 <= int(response.headers["Retry-After"]) <= 60
        assert Turn.objects.count() == 2
        assert Message.objects.filter(role="user").count() == 2
        with script(Text("Somebody else")):
            ask(login("viewer"), "Hello")
        Turn.objects.update(started_at=timezone.now() - datetime.timedelta(seconds=61))
        with script(Text("3")):
            ask(client, "Hello")


def test_failed_turns_count_and_invalid_messages_do_not(login):
    client = login("manager")
    from django_copilot.testing import Fail

    with limited(TURNS_PER_MINUTE=1), script(Fail()):
        for body in ({"message": ""}, "{", {**HELLO, "conversationId": "x"}):
            post(client, body)
        assert told(post(client, HELLO)) == (500, "model_unavailable")
        assert told(post(client, HELLO)) == (429, "throttled")


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "deleted"])
def test_deleting_conversations_resets_no_limit(login, store, deleted):
    """Hazard 80."""
    client = login("manager")
    turn = running_turn(store.user("manager"))
    if deleted:
        assert client.post(f"{detail(turn.conversation_id)}delete/").status_code == 302
    with limited(RUNNING_TURNS=1), script():
        response = post(client, HELLO)
    assert told(response) == (429, "throttled")
    assert int(response.headers["Retry-After"]) > 0


def test_turns_at_once_are_limited_for_each_person(login, store):
    client = login("manager")
    for _ in range(4):
        running_turn(store.user("manager"))
    with script():
        assert told(post(client, HELLO)) == (429, "throttled")
    with script(Text("Hello.")):
        ask(login("viewer"), "Hello")
    Turn.objects.update(deadline=timezone.now() - datetime.timedelta(seconds=1))
    with script(Text("Hello.")):
        ask(client, "Hello")


def test_a_conversation_has_one_open_turn(login, store):
    """Hazard 81."""
    client, turn = login("manager"), running_turn(store.user("manager"))
    with script():
        response = post(client, {**HELLO, "conversationId": str(turn.conversation_id)})
    assert told(response) == (409, "turn_running")
    assert [each.text for each in Message.objects.all()] == ["Earlier"]
    turn.refresh_from_db()
    assert turn.state == TurnState.RUNNING
    with script(Text("Another conversation is free.")):
        ask(client, "Hello")


def test_a_turn_whose_worker_died_reads_as_failed_and_the_next_message_works(login, store):
    """Hazard 82."""
    client, turn = login("manager"), running_turn(store.user("manager"), seconds=-1)
    ident = str(turn.conversation_id)
    shown = client.get(detail(ident), headers={"Accept": "application/json"}).json()
    assert (shown["turn"]["state"], shown["turn"]["code"]) == ("failed", "failed")
    with script(Text("Here I am.")) as model:
        ask(client, "Hello", conversationId=ident)
    assert [each.text for each in model.request.messages] == ["Earlier", "Hello"]
    assert [(each.state, each.open_for_id) for each in Turn.objects.order_by("started_at")] == [
        ("failed", None),
        ("done", None),
    ]


def test_a_message_over_a_dead_workers_turn_needs_no_look_at_the_page_first(login, store):
    """Hazard 82."""
    client, turn = login("manager"), running_turn(store.user("manager"), seconds=-1)
    with script(Text("Here I am.")):
        ask(client, "Hello", conversationId=str(turn.conversation_id))
    turn.refresh_from_db()
    assert (turn.state, turn.code) == ("failed", "failed")


def test_a_worker_that_was_taken_for_dead_stores_no_answer(login, store):
    """Hazard 82."""
    client = login("manager")

    def overtaken(request: Any) -> Text:
        Turn.objects.update(open_for=None, state="failed", code="failed")
        return Text("Too late.")

    with script(overtaken):
        assert ask(client, "Hello", status=500)["code"] == "failed"
    assert not Message.objects.filter(role="assistant").exists()


def test_a_turn_has_an_end_by_the_clock(login):
    """Hazard 82."""
    client = login("manager")
    with limited(TURN_SECONDS=-1.0), script():
        assert ask(client, "Hello", status=500)["code"] == "model_timeout"


def test_a_running_turn_reads_as_running(login, store):
    client, turn = login("manager"), running_turn(store.user("manager"))
    shown = client.get(detail(turn.conversation_id), headers={"Accept": "application/json"}).json()
    assert (shown["turn"]["state"], shown["turn"]["code"]) == ("running", "turn_running")


@pytest.mark.parametrize(
    ("setting", "texts"),
    [({"HISTORY_MESSAGES": 3}, ["4", "a4", "now"]), ({"HISTORY_CHARS": 5}, ["4", "a4", "now"])],
)
def test_the_history_that_is_sent_is_bounded(login, setting, texts):
    """Hazard 83."""
    client = login("manager")
    ident = None
    for number in range(5):
        with script(Text(f"a{number}")):
            ident = ask(client, str(number), conversationId=ident)["conversationId"]
    with limited(**setting), script(Text("Hello.")) as model:
        ask(client, "now", conversationId=ident)
    assert [each.text for each in model.request.messages][-3:] == texts
    assert len(model.request.messages) == 4
