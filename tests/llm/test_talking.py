"""The run with a real model can fail: with a model made up, and harm done behind its answers."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_copilot import gate
from django_copilot.backends.base import ModelReply, ModelRequest, ToolCall
from django_copilot.backends.openai import OpenAIBackend
from django_copilot.exceptions import BackendError
from django_copilot.models import AuditEntry, Plan, PlanState, Turn
from example_project.store.models import Order, Payment

from . import talking
from .talking import REQUESTS, talk


def says(name: str = "", *, text: str = "", **arguments: Any) -> ModelReply:
    calls = (ToolCall(id="c1", name=name, arguments=json.dumps(arguments)),) if name else ()
    return ModelReply(text=text, calls=calls)


@pytest.fixture
def converse(
    poisoned: None, login: Callable[[str], Client], gateway: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Counter[str]]:
    """Return a function that talks to a model that answers with what ``reply`` returns, and then with text."""

    def converse(reply: Callable[[], ModelReply]) -> Counter[str]:
        def complete(_self: Any, request: ModelRequest) -> ModelReply:
            return says(text="Here they are.") if request.messages[-1].role == "tool" else reply()

        monkeypatch.setattr(OpenAIBackend, "complete", complete)
        figures: Counter[str] = Counter()
        talk(login("admin"), "", language=0, gateway=gateway, figures=figures, requests=REQUESTS[:2])
        return figures

    return converse


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        (says(text="Hello."), {"tool calls": 0}),
        (says("query_order", limit=1), {"tool calls that read": 2, "requests for which a right tool was called": 1}),
        (says("query_order", nothing=1), {"tool calls refused": 2}),
        (says("drop_table"), {"tool calls refused": 2}),
        (says("confirm_delete_order", id="1"), {"turns that ended with one action": 2}),
        (says("refund_payment", order="SO-0000007", amount_cents=1, reason="x"), {"turns that ended with one plan": 2}),
    ],
    ids=["text", "read", "misspelt", "unknown", "page", "plan"],
)  # fmt: skip
def test_a_model_alone_does_no_harm(converse: Any, reply: ModelReply, seen: dict[str, int]) -> None:
    figures = converse(lambda: reply)
    assert {name: figures[name] for name in seen} == seen


def test_a_model_that_fails_is_no_harm(converse: Any) -> None:
    def fail() -> ModelReply:
        raise BackendError("model_protocol", "It was cut.")

    assert converse(fail)["turns that ended with model_protocol"] == 2


def _a_row_changes() -> ModelReply:
    Order.objects.filter(pk=Order.objects.order_by("pk").values("pk")[:1]).update(shipping_city="Elsewhere")
    return says(text="Done.")


def _a_row_comes() -> ModelReply:
    customer = Order.objects.values_list("customer_id", flat=True)[0]
    number = f"SO-9{Order.objects.count():06d}"
    Order.objects.create(number=number, customer_id=customer, region="north", status="paid")
    return says(text="Done.")


def _a_row_goes() -> ModelReply:
    Payment.objects.filter(refunds=None)[0].delete()
    return says(text="Done.")


def _a_plan_is_executed() -> ModelReply:
    Plan.objects.update(state=PlanState.EXECUTED)
    return says("refund_payment", order="SO-0000007", amount_cents=1, reason="x")


def _another_turn_is_left() -> ModelReply:
    Turn.objects.update(state="running")
    return says(text="Done.")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_a_row_changes, "changed"),
        (_a_row_comes, "added"),
        (_a_row_goes, "deleted"),
        (_a_plan_is_executed, "decided on"),
        (_another_turn_is_left, "left running"),
    ],
    ids=["change", "add", "delete", "execute", "run"],
)
def test_harm_is_seen(converse: Any, harm: Callable[[], ModelReply], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        converse(harm)


def test_a_call_of_the_gateway_is_seen(converse: Any, settings: Any) -> None:
    def call() -> ModelReply:
        port = int(settings.STORE_GATEWAY_URL.rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port)).close()
        return says(text="Done.")

    with pytest.raises(AssertionError, match="the gateway was called"):
        converse(call)


def test_a_call_that_nobody_checked_is_seen(converse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = gate.run

    def unchecked(site: Any, scope: Any, user_pk: Any, call: ToolCall, **known: Any) -> Any:
        return run(site, scope, user_pk, ToolCall(id=call.id, name="query_order", arguments='{"limit": 1}'))

    monkeypatch.setattr(gate, "run", unchecked)
    with pytest.raises(AssertionError, match="was run"):
        converse(lambda: says("query_order", nothing=1))


def test_a_call_without_an_entry_is_seen(converse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = AuditEntry.objects.exclude(event="tool_call")
    monkeypatch.setattr(talking, "entries_of", lambda turn: entries.filter(turn=str(turn.pk)))
    with pytest.raises(AssertionError, match="neither run nor refused"):
        converse(lambda: says("query_order", limit=1))
