"""How many SQL statements a turn costs: bounded, and the same whatever is stored."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_copilot import Always
from django_copilot.models import Conversation, Message, Turn
from django_copilot.testing import Call, Text, ask, copilot_client, script
from example_project.store.models import Product
from tests.api.posting import post
from tests.plans.tools import decide, order_for, propose, relabel, stored, tool

__all__ = ["tool"]

TEXT, QUERY = 20, 28
# What a write tool costs: to propose, then to decide, most of it what the rights and the saving need.
PROPOSE, CONFIRM, TO_APPROVE, APPROVE, REJECT, CONTINUE, UNDO = 42, 41, 27, 47, 19, 26, 27
FRAME = ("BEGIN", "SAVEPOINT", "RELEASE", "COMMIT", "ROLLBACK")


def statements(client: Client, *steps: Any, own: bool = False, **extra: Any) -> list[str]:
    """Run a turn and return its statements: ours, the session's and the user's included.

    What frames transactions is not counted, nor what the store's own access rules ask.
    """
    with script(*steps):
        return counted(lambda: ask(client, "Show me products", **extra))


def counted(work: Callable[[], Any]) -> list[str]:
    """Do some work and return its statements."""
    with CaptureQueriesContext(connection) as captured:
        work()
    return [
        each["sql"]
        for each in captured.captured_queries
        if not each["sql"].upper().startswith(FRAME)
        and "store_staffprofile" not in each["sql"]
        and "'managers'" not in each["sql"]
    ]


def long_conversation(user: Any, messages: int) -> str:
    """Store a conversation with so many messages and return its id."""
    conversation = Conversation.objects.create(user=user, site="admin")
    long_ago = timezone.now() - datetime.timedelta(days=9)
    made = [
        Turn(conversation=conversation, user=user, state="done", deadline=long_ago)
        for _ in range(messages // 2)
    ]
    Turn.objects.bulk_create(made)
    Turn.objects.update(started_at=long_ago)
    Message.objects.bulk_create(
        Message(
            conversation=conversation,
            turn=turn,
            role=role,
            text=f"{role} {number}",
            mentions={"store.product": ["title", "sku"]} if role == "assistant" else {},
        )
        for number, turn in enumerate(made)
        for role in ("user", "assistant")
    )
    return str(conversation.pk)


@pytest.mark.parametrize("username", ["manager", "support", "viewer", "admin"])
def test_a_text_turn_costs_at_most_20_statements(store, username):
    used = statements(copilot_client(store.user(username)), Text("Hello."))
    assert len(used) <= TEXT, "\n".join(used)


@pytest.mark.parametrize("entity", ["product", "order", "customer", "payment", "category", "tag"])
def test_a_turn_with_one_query_costs_at_most_28_statements(store, entity):
    used = statements(
        copilot_client(store.user("manager")), Call(f"query_{entity}", {"limit": 50}), Text("Here.")
    )
    assert len(used) <= QUERY, "\n".join(used)


@pytest.mark.parametrize(
    "steps",
    [(Text("Hello."),), (Call("query_product", {"limit": 50}), Text("Here."))],
    ids=["text", "query"],
)
def test_statements_do_not_grow_with_the_history(store, steps):
    user = store.user("support")
    used = []
    for messages in (2, 200):
        client, ident = copilot_client(user), long_conversation(user, messages)
        used.append(statements(client, *steps, conversationId=ident))
    assert len(used[0]) == len(used[1]), "\n".join(used[1])
    assert len(used[0]) <= (TEXT if len(steps) == 1 else QUERY), "\n".join(used[0])


@pytest.mark.parametrize("entity", ["product", "order", "customer", "payment"])
@pytest.mark.parametrize("username", ["manager", "support"])
def test_statements_do_not_grow_with_the_rows(store, username, entity):
    used = []
    for limit in (1, 50):
        client = copilot_client(store.user(username))
        used.append(statements(client, Call(f"query_{entity}", {"limit": limit}), Text("Here.")))
    assert len(used[0]) == len(used[1]), "\n".join(used[1])
    assert len(used[1]) <= QUERY, "\n".join(used[1])


def test_opening_a_conversation_does_not_grow_with_its_rows(store):
    used = []
    for limit in (1, 50):
        client = copilot_client(store.user("manager"))
        with script(Call("query_product", {"limit": limit}), Text("Here.")):
            ident = ask(client, "Products")["conversationId"]
        with CaptureQueriesContext(connection) as captured:
            page = client.get(f"/admin/django_copilot/conversation/{ident}/")
        assert page.status_code == 200
        used.append(len(captured))
    assert Product.objects.count() >= 40
    assert used[0] == used[1]


# -- write tools --------------------------------------------------------------------------------------------


def decided(client: Client, plan: dict[str, Any], what: str) -> list[str]:
    """Decide on a plan and return the statements."""
    answers: list[int] = []
    used = counted(lambda: answers.append(decide(client, plan, what)[0]))
    assert answers == [200]
    return used


@pytest.mark.parametrize("others", [0, 30], ids=["alone", "among 30 others"])
@pytest.mark.parametrize("username", ["support", "manager", "admin"])
def test_what_a_plan_costs_is_bounded_whatever_else_is_stored(
    store: Any, tool: Any, username: str, others: int
) -> None:
    relabel()
    relabel(approval=Always(), name="relabel_together")
    client, approver = copilot_client(store.user(username)), copilot_client(store.user("manager2"))
    order = order_for()
    for number in range(others):
        plan = propose(client, "relabel", {"order": order.number, "name": f"other {number}"})
        if number % 3 == 0:
            decide(client, plan, "reject")
        Turn.objects.update(started_at=timezone.now() - datetime.timedelta(days=1))

    def made(name: str, tool: str = "relabel") -> dict[str, Any]:
        return propose(client, tool, {"order": order.number, "name": name})

    used: dict[str, tuple[int, list[str]]] = {}
    with script(Call("relabel", {"order": order.number, "name": "Kari"})):
        used["propose"] = PROPOSE, counted(lambda: ask(client, "Do it"))
    plan = made("Per")
    used["confirm"] = CONFIRM, decided(client, plan, "confirm")
    body = {"conversationId": str(stored(plan).conversation_id), "continue": plan["id"]}
    with script(Text("Done.")):
        used["continue"] = CONTINUE, counted(lambda: post(client, body))
    used["undo"] = UNDO, decided(client, plan, "undo")
    used["reject"] = REJECT, decided(client, made("Ida"), "reject")
    plan = made("Ida", "relabel_together")
    used["to approve"] = TO_APPROVE, decided(client, plan, "confirm")
    used["approve"] = APPROVE, decided(approver, plan, "approve")
    over = {name: f"{len(sql)} > {most}" for name, (most, sql) in used.items() if len(sql) > most}
    assert not over, "\n".join(sql for name in over for sql in used[name][1])
    if username == "support":
        slack = {name: most - len(sql) for name, (most, sql) in used.items() if most - len(sql) > 4}
        assert not slack  # a bound that holds anything is none
