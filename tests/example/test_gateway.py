"""The payment gateway and its misbehaviour, over real HTTP on this machine."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from django_copilot import CallFailed
from example_project.store import payments
from example_project.store.gateway import Gateway
from example_project.store.gateway_process import find_payment, open_ledger
from example_project.store.ledger import Behaviour, Ledger, Paid
from example_project.store.models import Payment, Refund

from .gateways import PAID, TOKEN, ask, misbehave, payload, refund, serving, until

# -- keys -------------------------------------------------------------------------------------------------


def test_a_refund_is_made_once_and_its_answer_is_kept(gateway: Gateway) -> None:
    status, first = refund(gateway, "k1")
    assert status == 201
    assert first["status"] == "succeeded"
    assert first["key"] == "k1"
    assert refund(gateway, "k1") == (201, first)
    reordered = json.dumps(dict(reversed(payload().items()))).encode()
    assert refund(gateway, "k1", reordered) == (201, first)
    assert ask(gateway, "GET", "/refunds/by-key/k1") == (200, first)
    kept = {name: value for name, value in first.items() if name != "status"}
    assert ask(gateway, "GET", "/refunds?payment=pay_1") == (200, {"refunds": [kept]})
    assert ask(gateway, "GET", "/refunds?payment=pay_2") == (200, {"refunds": []})


def test_another_key_is_another_refund(gateway: Gateway) -> None:
    first, second = refund(gateway, "k1")[1], refund(gateway, "k2")[1]
    assert first["id"] != second["id"]
    assert len(ask(gateway, "GET", "/refunds")[1]["refunds"]) == 2


def test_a_key_with_another_payload_is_refused(gateway: Gateway, ledger: Ledger) -> None:
    refund(gateway, "k1")
    for other in (payload(1_001), payload(reason="x"), {"what": 1}):
        status, body = refund(gateway, "k1", other)
        assert (status, body["error"]) == (422, "key_reused")
    assert [each["amount_cents"] for each in ledger.refunds()] == [1_000]


def test_eight_at_once_with_one_key_make_one_refund(gateway: Gateway, ledger: Ledger) -> None:
    start = threading.Barrier(8)

    def one(_number: int) -> tuple[int, dict[str, Any]]:
        start.wait()
        return refund(gateway, "k1")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert len(ledger.refunds()) == 1
    made = [body for status, body in answers if status == 201]
    assert made
    assert all(body == made[0] for body in made)
    assert {status for status, _body in answers} <= {201, 409}


def test_eight_keys_at_once_can_not_take_more_than_is_left(gateway: Gateway, ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: refund(gateway, f"k{number}", payload(4_000)), range(8)))
    assert sorted(status for status, _body in answers) == [201] * 3 + [402] * 5
    assert sum(each["amount_cents"] for each in ledger.refunds()) == 12_000


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (payload(15_001), 402, "amount_too_large"),
        (payload(3_001, payment="pay_2"), 402, "amount_too_large"),
        (payload(currency="USD"), 402, "wrong_currency"),
        (payload(payment="pay_3"), 404, "unknown_payment"),
        (payload(payment=""), 404, "unknown_payment"),
    ],
)
def test_a_refusal_for_good_is_kept_too(
    gateway: Gateway, ledger: Ledger, body: dict[str, Any], status: int, error: str
) -> None:
    first = refund(gateway, "k1", body)
    assert first[0] == status
    assert (first[1]["status"], first[1]["key"], first[1]["error"]) == ("failed", "k1", error)
    assert refund(gateway, "k1", body) == first
    assert ask(gateway, "GET", "/refunds/by-key/k1") == (200, first[1])
    assert ledger.refunds() == []


@pytest.mark.parametrize(
    "body",
    [
        payload(0),
        payload(-1),
        payload(True),
        payload("100"),
        payload(1.5),
        payload(None),
        payload(2**53),
        b'{"payment": "pay_1", "amount_cents": 1e400, "currency": "EUR", "reason": ""}',
        b'{"payment": "pay_1", "amount_cents": NaN, "currency": "EUR", "reason": ""}',
        b'{"payment": "pay_1", "amount_cents": 1, "amount_cents": 2, "currency": "EUR", "reason": ""}',
        payload(reason=1),
        payload(reason="x" * 201),
        payload(reason="\ud800"),
        payload(more=1),
        {name: value for name, value in payload().items() if name != "reason"},
        [payload()],
        b"{",
        b"",
        b"\xff",
    ],
)
def test_what_is_no_refund_is_refused_before_it_began(gateway: Gateway, ledger: Ledger, body: Any) -> None:
    status, answer = refund(gateway, "k1", body)
    assert (status, answer["error"]) == (400, "invalid")
    assert ledger.by_key("k1") is None
    assert refund(gateway, "k1")[0] == 201  # the key is free


@pytest.mark.parametrize("key", ["", "x" * 65, "with space", "ключ".encode().decode("latin-1")])
def test_a_refund_needs_a_key(gateway: Gateway, ledger: Ledger, key: str) -> None:
    status, body = refund(gateway, key)
    assert (status, body["error"]) == (400, "no_key")
    assert ledger.refunds() == []


def test_a_body_that_is_too_long_is_not_read(gateway: Gateway) -> None:
    assert refund(gateway, "k1", headers={"Content-Length": "16385"})[0] == 413
    assert refund(gateway, "k1", headers={"Content-Length": "-1"})[0] == 411


def test_what_fails_within_leaves_the_key_free(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(reference: str) -> Paid:
        raise ZeroDivisionError

    ledger = Ledger(tmp_path / "books.sqlite3", find=broken)
    with serving(ledger) as gateway:
        assert refund(gateway, "k1")[0] == 500
        assert ledger.by_key("k1") is None
        assert "The gateway failed at POST /refunds." in caplog.text
        ledger._find = PAID.get
        assert refund(gateway, "k1")[0] == 201


# -- who may ask ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "-"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"bearer{TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": "Bearer \xff"}, 401),
        ({"Host": "store.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Origin": "https://store.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_only_the_store_may_ask(
    gateway: Gateway, ledger: Ledger, headers: dict[str, str], status: int
) -> None:
    for method, path in [
        ("POST", "/refunds"),
        ("POST", "/behave"),
        ("GET", "/refunds"),
        ("GET", "/refunds/by-key/k1"),
        ("GET", "/health"),
        ("GET", "/behave"),
    ]:
        body = {"mode": "fail"} if path == "/behave" else payload()
        assert ask(gateway, method, path, body, key="k1", headers=headers)[0] == status, path
    assert ledger.refunds() == []
    assert ledger.behaviour() == Behaviour()


def test_its_own_address_may_be_the_origin(gateway: Gateway) -> None:
    assert ask(gateway, "GET", "/health", headers={"Origin": gateway.address}) == (200, {"status": "ok"})
    localhost = f"localhost:{gateway.server_address[1]}"
    assert ask(gateway, "GET", "/health", headers={"Host": localhost})[0] == 200


def test_it_listens_on_this_machine_only(gateway: Gateway) -> None:
    assert gateway.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("GET", "/refund"), ("POST", "/refunds/")])
def test_there_is_nothing_elsewhere(gateway: Gateway, method: str, path: str) -> None:
    assert ask(gateway, method, path, payload(), key="k1")[0] == 404


# -- misbehaviour -----------------------------------------------------------------------------------------


def test_fail_refuses_for_good(gateway: Gateway, ledger: Ledger) -> None:
    misbehave(gateway, "fail")
    with pytest.raises(CallFailed, match="bank refuses"):
        payments.refund(payload(), "k1")
    with pytest.raises(CallFailed, match="bank refuses"):  # although it behaves again
        payments.refund(payload(), "k1")
    with pytest.raises(CallFailed, match="bank refuses"):
        payments.look_up(payload(), "k1")
    assert ledger.refunds() == []
    assert payments.refund(payload(), "k2")["amount_cents"] == 1_000


def test_fail_before_keeps_nothing(gateway: Gateway, ledger: Ledger) -> None:
    misbehave(gateway, "fail_before", times=2)
    for _attempt in range(2):
        with pytest.raises(payments.NoAnswer, match="unavailable"):
            payments.refund(payload(), "k1")
        assert payments.look_up(payload(), "k1") is None
    made = payments.refund(payload(), "k1")
    assert [each["id"] for each in ledger.refunds()] == [made["gateway_reference"]]


@pytest.mark.parametrize("mode", ["timeout", "drop"])
def test_what_was_done_without_an_answer_is_done_once(
    gateway: Gateway, ledger: Ledger, settings: Any, mode: str
) -> None:
    settings.STORE_GATEWAY_SECONDS = 0.3 if mode == "timeout" else 10
    misbehave(gateway, mode, times=2)
    for _attempt in range(2):
        with pytest.raises(payments.NoAnswer, match="No answer"):
            payments.refund(payload(), "k1")
    (made,) = ledger.refunds()
    settings.STORE_GATEWAY_SECONDS = 10
    found = {"gateway_reference": made["id"], "amount_cents": 1_000, "currency": "EUR"}
    assert payments.look_up(payload(), "k1") == found
    assert payments.refund(payload(), "k1") == found
    assert len(ledger.refunds()) == 1


def test_time_out_ends_by_itself(gateway: Gateway) -> None:
    misbehave(gateway, "timeout", seconds=0.2)
    with pytest.raises(payments.NoAnswer):
        payments.refund(payload(), "k1")


def test_late_is_in_flight_until_it_is_done(gateway: Gateway, ledger: Ledger) -> None:
    misbehave(gateway, "late", seconds=1.5)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(refund, gateway, "k1")
        until(lambda: ledger.by_key("k1"))
        assert refund(gateway, "k1") == (409, {"status": "in_flight", "key": "k1"})
        assert refund(gateway, "k1", payload(5))[0] == 422
        for asked in (payments.refund, payments.look_up):
            with pytest.raises(payments.NoAnswer, match="in_flight"):
                asked(payload(), "k1")
        assert ledger.refunds() == []
        status, made = first.result()
    assert status == 201
    assert payments.refund(payload(), "k1")["gateway_reference"] == made["id"]


def test_late_after_the_caller_has_gone_is_done_nevertheless(
    gateway: Gateway, ledger: Ledger, settings: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    settings.STORE_GATEWAY_SECONDS = 0.2
    misbehave(gateway, "late", seconds=0.8)
    with pytest.raises(payments.NoAnswer):
        payments.refund(payload(), "k1")
    until(ledger.refunds)
    assert payments.look_up(payload(), "k1")["gateway_reference"] == ledger.refunds()[0]["id"]
    assert capfd.readouterr().err == ""


def test_how_it_behaves_can_be_read_and_taken_back(gateway: Gateway) -> None:
    misbehave(gateway, "late", times=5, seconds=7)
    told = {"mode": "late", "times": 5, "seconds": 7.0}
    assert ask(gateway, "GET", "/behave") == (200, told)
    misbehave(gateway, "ok")
    refund(gateway, "k1")
    assert ask(gateway, "GET", "/behave")[1]["mode"] == "ok"


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "rude"},
        {"times": 1},
        {"mode": ["fail"]},
        {"mode": "fail", "times": -1},
        {"mode": "fail", "times": True},
        {"mode": "late", "seconds": -1},
        {"mode": "late", "seconds": "2"},
        {"mode": "late", "seconds": 601},
        {"mode": "late", "how": "much"},
        b'{"mode": "late", "seconds": 1e999}',
    ],
)
def test_it_takes_no_other_misbehaviour(gateway: Gateway, ledger: Ledger, body: Any) -> None:
    status, answer = ask(gateway, "POST", "/behave", body)
    assert (status, answer["error"]) == (400, "invalid")
    assert ledger.behaviour() == Behaviour()


# -- the books --------------------------------------------------------------------------------------------


def test_the_books_outlive_the_gateway(ledger: Ledger) -> None:
    with serving(ledger) as gateway:
        made = refund(gateway, "k1")
        misbehave(gateway, "fail", times=3)
    again = Ledger(ledger.path, find={}.get)
    with serving(again) as gateway:
        assert refund(gateway, "k1") == made
        assert ask(gateway, "GET", "/behave")[1]["mode"] == "fail"
    assert len(again.refunds()) == 1


def test_what_was_begun_by_a_gateway_that_is_gone_was_not_done(ledger: Ledger) -> None:
    assert ledger.begin("k1", payload()).begun
    assert not ledger.begin("k1", payload()).begun
    again = Ledger(ledger.path, find=PAID.get)
    assert again.by_key("k1") is None
    late = ledger.finish("k1", payload())  # the first one was not gone after all
    assert late.status == 503
    assert again.begin("k1", payload()).begun
    assert ledger.finish("k1", payload()).status == 503
    assert again.finish("k1", payload()).status == 201
    assert len(again.refunds()) == 1


def test_books_can_be_cleared(ledger: Ledger) -> None:
    ledger.begin("k1", payload())
    ledger.finish("k1", payload())
    ledger.behave(Behaviour(mode="fail", times=2))
    ledger.clear()
    assert (ledger.refunds(), ledger.by_key("k1"), ledger.behaviour()) == ([], None, Behaviour())


def test_the_payments_are_those_of_the_store(store: None, tmp_path: Path, settings: Any) -> None:
    settings.STORE_GATEWAY_STATE = str(tmp_path / "books.sqlite3")
    payment = Payment.objects.filter(refunds__state=Refund.State.SUCCEEDED).first()
    before = sum(each.amount_cents for each in payment.refunds.filter(state=Refund.State.SUCCEEDED))
    Refund.objects.create(payment=payment, amount_cents=1, state=Refund.State.PENDING, idempotency_key="p")
    Refund.objects.create(payment=payment, amount_cents=1, state=Refund.State.FAILED, idempotency_key="f")
    found = find_payment(payment.gateway_reference)
    assert found == Paid(amount_cents=payment.amount_cents, currency="EUR", refunded_cents=before)
    assert before
    Payment.objects.filter(pk=payment.pk).update(gateway_reference="")
    assert find_payment("") is None
    assert find_payment("pay_nobody") is None
    open_ledger()
    assert Path(settings.STORE_GATEWAY_STATE).exists()
