"""A gateway in a thread of the test, and asking it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from example_project.store.gateway import Gateway
from example_project.store.ledger import Ledger, Paid

TOKEN = "token-of-this-test"
PAID = {
    "pay_1": Paid(amount_cents=15_000, currency="EUR"),
    "pay_2": Paid(amount_cents=5_000, currency="EUR", refunded_cents=2_000),
}


def payload(cents: Any = 1_000, **more: Any) -> dict[str, Any]:
    return {
        "payment": "pay_1",
        "amount_cents": cents,
        "currency": "EUR",
        "reason": "Arrived broken",
    } | more


@contextmanager
def serving(ledger: Ledger) -> Iterator[Gateway]:
    with Gateway(ledger, token=TOKEN) as gateway:
        thread = threading.Thread(target=gateway.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gateway
        finally:
            gateway.shutdown()
            thread.join()


def ask(
    gateway: Gateway,
    method: str,
    path: str,
    body: Any = None,
    *,
    key: str = "",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.server_address[1], timeout=10)
    sent = {"Authorization": f"Bearer {TOKEN}"} | ({"Idempotency-Key": key} if key else {}) | (headers or {})
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        connection.request(
            method, path, content, {name: value for name, value in sent.items() if value != "-"}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def refund(gateway: Gateway, key: str, body: Any = None, **more: Any) -> tuple[int, dict[str, Any]]:
    return ask(gateway, "POST", "/refunds", payload() if body is None else body, key=key, **more)


def misbehave(gateway: Gateway, mode: str, **more: Any) -> None:
    status, _body = ask(gateway, "POST", "/behave", {"mode": mode, **more})
    assert status == 200


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end, "It does not become so."
        time.sleep(0.01)
