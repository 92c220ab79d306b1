"""What is told, shown and counted keeps within its bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_copilot.models import Conversation, Message
from django_copilot.reading import CUT, PERSON_CHARS, RELATED_LIMIT, TABLES_BYTES
from django_copilot.testing import Call, Calls, Text

from .depot import models as depot
from .sites import Project, declared, say, shown

JSON = {"Accept": "application/json"}


# -- sizes -----------------------------------------------------------------------------------------


@pytest.fixture
def deeds(project: Project) -> Client:
    """A client of somebody who reads deeds and vaults."""
    project.site(
        {
            depot.Deed: declared(read=["title", "vault", "vaults"]),
            depot.Vault: declared(read=["title", "pin"]),
        }
    )
    return project.boss()


def test_cells_and_tables_for_a_person_are_cut(project: Project) -> None:
    """Guards hazard 134."""
    project.site({depot.Diary: declared(read=["title", "text"])})
    depot.Diary.objects.bulk_create(depot.Diary(title="t", text="x" * 300_000) for _ in range(50))
    read, boss = Call("query_diary", {"limit": 50}), project.boss()
    chat = say(boss, *[Calls(*[read] * 8)] * 3, Text("ok"))
    rows = chat.answer["results"][0]["rows"]
    assert len(rows) == 50
    assert rows[0]["values"]["text"] == "x" * PERSON_CHARS + CUT
    sizes = [len(each["rows"]) for each in chat.answer["results"]]
    assert len(sizes) == 24
    assert sizes[-1] == 1  # of each something is shown
    assert chat.answer["results"][-1]["hasMore"] is True
    assert len(json.dumps(chat.answer)) < TABLES_BYTES + 200_000
    address = f"/admin/django_copilot/conversation/{chat.answer['conversationId']}/"
    for headers in (JSON, {}):
        assert len(boss.get(address, headers=headers).content) < TABLES_BYTES + 400_000


@pytest.mark.parametrize("number", [RELATED_LIMIT, RELATED_LIMIT + 1, 400])
def test_a_cell_holds_so_many_related_records_and_a_mark(deeds: Client, number: int) -> None:
    """Guards hazard 134."""
    depot.Vault.objects.bulk_create(depot.Vault(title=f"v{at:03}", pin="1") for at in range(number))
    for title in ("a", "b"):
        depot.Deed.objects.create(title=title).vaults.set(depot.Vault.objects.all())
    for row in say(deeds, Call("query_deed")).answer["results"][0]["rows"]:
        cell = row["values"]["vaults"]
        labels = [f"v{at:03} PIN 1" for at in range(RELATED_LIMIT)]
        assert [each["label"] for each in cell] == labels + [CUT] * (number > RELATED_LIMIT)


def test_related_records_are_read_no_more_than_are_shown(deeds: Client) -> None:
    """Guards hazard 134."""
    depot.Vault.objects.bulk_create(depot.Vault(title=str(at), pin="1") for at in range(400))
    depot.Deed.objects.create(title="a").vaults.set(depot.Vault.objects.all())
    made: list[Any] = []

    def note(instance: Any, **kwargs: Any) -> None:
        made.append(instance)

    models.signals.post_init.connect(note, sender=depot.Vault)
    try:
        say(deeds, Call("query_deed"))
    finally:
        models.signals.post_init.disconnect(note, sender=depot.Vault)
    assert 0 < len(made) <= 3 * (RELATED_LIMIT + 1)


def test_opening_a_conversation_does_not_grow_with_its_answers(deeds: Client) -> None:
    """Guards hazard 135."""
    vault = depot.Vault.objects.create(title="a", pin="1")
    depot.Deed.objects.create(title="x", vault=vault)
    calls = [Call("query_deed", {"filters": {"title": f"t{at}"}}) for at in range(6)]
    chat = say(deeds, Calls(Call("query_deed"), *calls), Text("x"))
    conversation = Conversation.objects.get(pk=chat.answer["conversationId"])
    first = conversation.messages.get(role="assistant")
    used: list[int] = []
    for answers in (3, 30):
        conversation.messages.exclude(pk__lte=first.pk).delete()
        Message.objects.bulk_create(
            Message(
                conversation=conversation,
                turn=first.turn,
                role="assistant",
                text="x",
                # One that all have in common, and four of its own.
                reads=[first.reads[0]]
                + [{**first.reads[1], "filters": {"title": f"{at}-{own}"}} for own in range(4)],
                mentions=first.mentions,
            )
            for at in range(answers)
        )
        with CaptureQueriesContext(connection) as captured:
            messages = shown(deeds, str(conversation.pk))
        used.append(len(captured))
    assert used[1] <= used[0] + 12
    newest, oldest = messages[-1], messages[2]
    assert [len(each["rows"]) for each in newest["results"]] == [1, 0, 0, 0, 0]
    assert "older" not in newest
    assert oldest["older"] is True
    assert [len(each["rows"]) for each in oldest["results"]] == [1]  # what was read anyhow
    page = deeds.get(f"/admin/django_copilot/conversation/{conversation.pk}/").content.decode()
    assert "Older tables are not read again" in page
