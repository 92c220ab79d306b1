"""Several messages at once: one conversation has one open turn, on every database."""

from __future__ import annotations

import datetime
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from django_copilot.models import Conversation, Message, Turn
from django_copilot.testing import Text, copilot_client, script
from tests.api.posting import post

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 6


def at_once(number: int, work: Callable[[int], Any]) -> list[Any]:
    """Run ``work`` in so many threads at the same moment and return what they gave."""
    start, given = threading.Barrier(number), [None] * number

    def run(at: int) -> None:
        try:
            start.wait(20)
            given[at] = work(at)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(at,)) for at in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not [thread for thread in threads if thread.is_alive()]
    return given


@pytest.mark.parametrize("dead", [False, True], ids=["free", "with a dead worker's turn"])
def test_of_several_messages_at_once_one_is_answered_and_the_others_are_told_to_wait(store: Any, dead: bool):
    """Hazard 81. The losers' messages are not stored: the answer says so by its code, and the panel has them."""
    user = store.user("manager")
    conversation = Conversation.objects.create(user=user, site="admin")
    if dead:
        Turn.objects.create(
            conversation=conversation,
            open_for=conversation,
            user=user,
            deadline=timezone.now() - datetime.timedelta(seconds=1),
        )
    clients = [copilot_client(user) for _ in range(MANY)]
    lost = threading.Semaphore(0)

    def think(request: Any) -> Text:
        for _ in range(MANY - 1):
            assert lost.acquire(timeout=30)  # the others are answered while this turn is open
        return Text("One answer.")

    def send(at: int) -> tuple[int, str]:
        response = post(clients[at], {"message": f"Message {at}", "conversationId": str(conversation.pk)})
        if response.status_code != 200:
            lost.release()
        return response.status_code, response.json().get("code", "")

    with script(think) as model:
        given = at_once(MANY, send)
    assert Counter(given) == {(200, ""): 1, (409, "turn_running"): MANY - 1}
    assert len(model.requests) == 1
    stored = Message.objects.filter(role="user").values_list("text", flat=True)
    assert list(stored) == [f"Message {given.index((200, ''))}"]
    assert not Turn.objects.filter(open_for__isnull=False).exists()


@pytest.mark.parametrize("setting", ["RUNNING_TURNS", "TURNS_PER_MINUTE"])
def test_limits_hold_though_several_conversations_are_begun_at_once(store: Any, settings: Any, setting: str):
    """Hazard 137."""
    settings.COPILOT = {"BACKEND": "scripted", setting: 2}
    clients = [copilot_client(store.user("manager")) for _ in range(MANY)]
    lost, all_lost = threading.Semaphore(MANY - 3), threading.Event()

    def think(request: Any) -> Text:
        assert all_lost.wait(30)  # the others are answered while these turns are open
        return Text("One of two answers.")

    def send(at: int) -> tuple[int, str]:
        response = post(clients[at], {"message": f"Message {at}"})
        if response.status_code != 200 and not lost.acquire(blocking=False):
            all_lost.set()
        return response.status_code, response.json().get("code", "")

    with script(think, think):
        given = at_once(MANY, send)
    assert Counter(given) == {(200, ""): 2, (429, "throttled"): MANY - 2}
    assert Conversation.objects.count() == Turn.objects.count() == 2


def test_several_conversations_at_once_are_all_answered(store: Any):
    clients: list[Client] = [copilot_client(store.user(name)) for name in ("manager", "viewer", "support")]

    def send(at: int) -> int:
        return int(post(clients[at], {"message": "Hello"}).status_code)

    with script(*[Text("Hello.")] * 3):
        assert at_once(3, send) == [200] * 3
    assert Conversation.objects.count() == 3


def test_deleting_a_conversation_while_it_is_answered_breaks_neither(store: Any):
    """Hazard 81."""
    user = store.user("manager")
    conversation = Conversation.objects.create(user=user, site="admin")
    clients = [copilot_client(user) for _ in range(2)]
    asked, deleted = threading.Event(), threading.Event()

    def think(request: Any) -> Text:
        asked.set()
        assert deleted.wait(30)
        return Text("Too late.")

    def work(at: int) -> int:
        if at == 0:
            return int(
                post(clients[0], {"message": "Hello", "conversationId": str(conversation.pk)}).status_code
            )
        assert asked.wait(30)
        status = clients[1].post(
            f"/admin/django_copilot/conversation/{conversation.pk}/delete/",
            headers={"Accept": "application/json"},
        )
        deleted.set()
        return int(status.status_code)

    with script(think):
        assert at_once(2, work) == [500, 200]
    assert not Conversation.objects.exists()
    assert not Message.objects.exists()
    assert Turn.objects.get().state == "failed"
