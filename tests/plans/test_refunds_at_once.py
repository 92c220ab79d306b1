"""The example's refunds at a gateway, where several plans are after the same money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from django_copilot.testing import Call, Text, ask, copilot_client, script
from example_project.store.ledger import Behaviour, Ledger, Paid
from example_project.store.models import Order, Payment, Refund
from example_project.store.people import create_people
from tests.example.gateways import TOKEN, serving

from .tools import at_once, decide, order_for, outcome, propose, stored

pytestmark = pytest.mark.django_db(transaction=True)

CENTS = 15_000  # of each payment


@pytest.fixture
def ledger(tmp_path: Path, settings: Any) -> Iterator[Ledger]:
    """Serve a gateway that took any payment, and return its books."""
    create_people()
    settings.COPILOT = {**settings.COPILOT, "TURNS_PER_MINUTE": 100_000}
    ledger = Ledger(
        tmp_path / "books.sqlite3", find=lambda _reference: Paid(amount_cents=CENTS, currency="EUR")
    )
    with serving(ledger) as gateway:
        settings.STORE_GATEWAY_URL = gateway.address
        settings.STORE_GATEWAY_TOKEN = TOKEN
        settings.STORE_GATEWAY_SECONDS = 10
        yield ledger


def account(username: str) -> Client:
    return copilot_client(User.objects.get(username=username))


def paid_order(number: int = 1, *, cents: int = CENTS, **fields: Any) -> Order:
    order = order_for(number=f"SO-{number:07}", **fields)
    Payment.objects.create(order=order, amount_cents=cents, gateway_reference=f"pay_{number}")
    return order


def refund(client: Client, order: Order, cents: int) -> dict[str, Any]:
    return propose(
        client, "refund_payment", {"order": order.number, "amount_cents": cents, "reason": "Arrived broken"}
    )


def test_of_two_plans_for_the_same_money_confirmed_at_once_one_is_carried_out(ledger: Ledger) -> None:
    rounds = 15 if connection.vendor == "postgresql" else 4
    support, manager = account("support"), account("manager")
    told = Counter[tuple[int, str]]()
    for number in range(1, rounds + 1):
        order = paid_order(number, cents=600)
        plans = [refund(each, order, 400) for each in (support, manager)]
        works = [
            partial(decide, account(who), plan, "confirm")
            for who, plan in zip(("support", "manager"), plans, strict=True)
        ]
        told.update(map(outcome, at_once(*works)))
        kept = Refund.objects.filter(payment__order=order)
        assert [(each.state, each.amount_cents) for each in kept] == [("succeeded", 400)]
        (made,) = ledger.refunds(f"pay_{number}")
        assert (made["key"], made["id"]) == (kept[0].idempotency_key, kept[0].gateway_reference)
        assert sorted(str(stored(each).state) for each in plans)[0] == "executed"
    assert told.pop((200, "executed")) == rounds
    assert set(told) <= {(409, "operation_open"), (409, "stale"), (409, "try_again")}
    assert told.total() == rounds


def test_what_is_pending_is_spent_until_it_is_known_to_have_failed(ledger: Ledger) -> None:
    """Not answered is spent; refused by the gateway is free again."""
    order, support = paid_order(cents=6_000), account("support")
    first = refund(support, order, 4_000)
    ledger.behave(Behaviour(mode="fail_before", times=1))
    assert outcome(decide(support, first, "confirm")) == (200, "uncertain")
    given = {"order": order.number, "amount_cents": 4_000, "reason": "Again"}
    with script(Call("refund_payment", given), Text("Only 20.00 are left.")) as model:
        assert ask(support, "Refund 4,000 once more").get("plan") is None
    assert "20.00" in model.requests[-1].messages[-1].text
    with script(Call("refund_payment", {**given, "amount_cents": 2_000}), Text("Wait.")) as model:
        assert ask(support, "Then 2,000").get("plan") is None
    assert "operation_open" in model.requests[-1].messages[-1].text
    ledger.behave(Behaviour(mode="fail", times=1))
    assert outcome(decide(support, first, "confirm")) == (200, "failed")
    assert ledger.refunds() == []
    assert outcome(decide(support, refund(support, order, 4_000), "confirm")) == (200, "executed")
    assert [each["amount_cents"] for each in ledger.refunds()] == [4_000]
