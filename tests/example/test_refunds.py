"""A refund from the sentence to the money: the chat, the plan's buttons, and a gateway that misbehaves."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from django_copilot.testing import Call, ask, copilot_client, script
from example_project.store.gateway import Gateway
from example_project.store.ledger import Behaviour, Ledger
from example_project.store.models import Customer, Order, Payment, Refund
from example_project.store.people import create_people

pytestmark = pytest.mark.django_db(transaction=True)

Account = Callable[[str], Client]


@pytest.fixture
def account(gateway: Gateway) -> Account:
    """Make the people and an order of region north, and return what gives a client of one of them."""
    create_people()
    customer = Customer.objects.create(name="Ola Nordmann", email="ola@mail.example")
    order = Order.objects.create(number="SO-0000001", customer=customer, region="north", status="paid")
    Payment.objects.create(order=order, amount_cents=15_000, gateway_reference="pay_1")
    return lambda username: copilot_client(get_user_model().objects.get(username=username))


def propose(client: Client, cents: int) -> dict[str, Any]:
    arguments = {"order": "SO-0000001", "amount_cents": cents, "reason": "Arrived broken"}
    with script(Call("refund_payment", arguments)):
        answer = ask(client, "Refund it")
    plan: dict[str, Any] = answer["plan"]
    return plan


def decide(client: Client, plan: dict[str, Any], what: str, **given: Any) -> tuple[int, dict[str, Any]]:
    if what in ("confirm", "approve"):
        given = {"digest": plan["digest"], **given}
    response = client.post(
        plan[f"{what}Url"],
        json.dumps(given),
        content_type="application/json",
        headers={"accept": "application/json"},
    )
    return response.status_code, response.json()


def states() -> list[tuple[str, int, str]]:
    return list(Refund.objects.order_by("pk").values_list("state", "amount_cents", "gateway_reference"))


def test_a_confirmed_refund_is_paid_once(account: Account, ledger: Ledger) -> None:
    support = account("support")
    plan = propose(support, 2_000)
    assert (plan["state"], plan["needsApproval"], states(), ledger.refunds()) == ("proposed", False, [], [])
    status, answer = decide(support, plan, "confirm")
    assert (status, answer["plan"]["state"]) == (200, "executed")
    assert decide(support, plan, "confirm")[1]["plan"]["result"] == answer["plan"]["result"]
    (paid,) = ledger.refunds()
    assert states() == [("succeeded", 2_000, paid["id"])]
    assert paid["key"] == Refund.objects.get().idempotency_key
    assert paid["reason"] == "Arrived broken"


@pytest.mark.parametrize("mode", ["timeout", "drop"])
def test_a_lost_answer_is_asked_for_again_and_paid_once(
    account: Account, ledger: Ledger, settings: Any, mode: str
) -> None:
    settings.STORE_GATEWAY_SECONDS = 0.3 if mode == "timeout" else 10
    support = account("support")
    plan = propose(support, 2_000)
    ledger.behave(Behaviour(mode=mode, times=1, seconds=60))
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "uncertain"
    (paid,) = ledger.refunds()
    assert states() == [("pending", 2_000, "")]
    settings.STORE_GATEWAY_SECONDS = 10
    status, answer = decide(support, plan, "confirm")
    assert (status, answer["plan"]["state"]) == (200, "executed")
    assert states() == [("succeeded", 2_000, paid["id"])]
    assert ledger.refunds() == [paid]
    again = propose(support, 2_000)  # the same amount later is another operation
    assert decide(support, again, "confirm")[1]["plan"]["state"] == "executed"
    assert len({each["key"] for each in ledger.refunds()}) == 2


def test_a_lost_answer_can_be_looked_up(account: Account, ledger: Ledger) -> None:
    support = account("support")
    plan = propose(support, 2_000)
    ledger.behave(Behaviour(mode="drop", times=1))
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "uncertain"
    assert decide(support, plan, "lookUp")[1]["plan"]["state"] == "executed"
    assert states() == [("succeeded", 2_000, ledger.refunds()[0]["id"])]


def test_a_refusal_for_good_gives_the_money_free(account: Account, ledger: Ledger) -> None:
    support = account("support")
    plan = propose(support, 9_000)
    ledger.behave(Behaviour(mode="fail", times=1))
    answer = decide(support, plan, "confirm")[1]
    assert answer["plan"]["state"] == "failed"
    assert "bank refuses" in json.dumps(answer["plan"])
    assert (states(), ledger.refunds()) == ([("failed", 9_000, "")], [])
    assert decide(support, propose(support, 9_000), "confirm")[1]["plan"]["state"] == "executed"


def test_what_was_not_even_begun_can_be_sent_again(account: Account, ledger: Ledger) -> None:
    support = account("support")
    plan = propose(support, 2_000)
    ledger.behave(Behaviour(mode="fail_before", times=1))
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "uncertain"
    assert ledger.refunds() == []
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "executed"
    assert len(ledger.refunds()) == 1


def test_over_a_hundred_euro_in_two_parts_waits_for_a_second_person(account: Account, ledger: Ledger) -> None:
    support, second = account("support"), account("manager2")
    assert decide(support, propose(support, 6_000), "confirm")[1]["plan"]["state"] == "executed"
    plan = propose(support, 4_001)
    assert plan["needsApproval"]
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "awaiting_approval"
    assert len(ledger.refunds()) == 1
    for who in ("support", "bot"):
        assert decide(account(who), plan, "approve")[0] in (403, 404, 409)
    assert len(ledger.refunds()) == 1
    status, answer = decide(second, plan, "approve")
    assert (status, answer["plan"]["state"]) == (200, "executed")
    assert [each["amount_cents"] for each in ledger.refunds()] == [6_000, 4_001]
    assert [state for state, _cents, _reference in states()] == ["succeeded", "succeeded"]


def test_the_sentence_of_the_readme_is_understood_without_a_model(
    account: Account, ledger: Ledger, settings: Any
) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    (sentence,) = re.findall(r"`(Refund payment [^`]+)`", readme)
    settings.COPILOT = {**settings.COPILOT, "BACKEND": "offline"}
    support = account("support")
    plan = ask(support, sentence)["plan"]
    assert (plan["tool"], plan["state"]) == ("refund_payment", "proposed")
    assert decide(support, plan, "confirm")[1]["plan"]["state"] == "executed"
    (paid,) = ledger.refunds()
    assert (paid["amount_cents"], paid["reason"]) == (2_000, "arrived broken")


def test_nothing_else_is_refunded_while_nobody_knows(account: Account, ledger: Ledger) -> None:
    support = account("support")
    first, second = propose(support, 2_000), propose(support, 3_000)
    ledger.behave(Behaviour(mode="drop", times=1))
    assert decide(support, first, "confirm")[1]["plan"]["state"] == "uncertain"
    assert decide(support, second, "confirm")[0] == 409
    assert [each["amount_cents"] for each in ledger.refunds()] == [2_000]
