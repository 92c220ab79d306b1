"""What the store makes of a gateway's answers, over real HTTP on this machine."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_copilot import CallFailed
from example_project.store import payments
from example_project.store.gateway import Gateway

from .gateways import payload


class _Liar(BaseHTTPRequestHandler):
    """Answers whatever the test says."""

    answer = b""

    def do_POST(self) -> None:
        self.wfile.write(self.answer)

    do_GET = do_POST

    def log_message(self, *args: Any) -> None:
        pass


def whole(status: int, body: Any, *headers: str) -> bytes:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.0 {status} x", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


GOOD = {
    "status": "succeeded",
    "id": "ref_1",
    "key": "k1",
    "payment": "pay_1",
    "amount_cents": 1_000,
    "currency": "EUR",
}


def asked_of_liar(settings: Any, answer: bytes) -> Any:
    class Handler(_Liar):
        pass

    Handler.answer = answer
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        settings.STORE_GATEWAY_URL = f"http://127.0.0.1:{server.server_address[1]}"
        settings.STORE_GATEWAY_SECONDS = 5
        try:
            return payments.refund(payload(), "k1")
        finally:
            thread.join()


def test_an_answer_about_this_key_counts(settings: Any) -> None:
    assert asked_of_liar(settings, whole(201, GOOD))["gateway_reference"] == "ref_1"
    with pytest.raises(CallFailed, match="Never"):
        asked_of_liar(settings, whole(402, {"status": "failed", "key": "k1", "detail": "Never"}))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.0 201 x\r\nContent-Length: 500\r\n\r\n" + json.dumps(GOOD).encode()[:40],
        b"garbage\r\n\r\n",
        whole(200, b"<html>Welcome to the hotel</html>"),
        whole(200, []),
        whole(200, GOOD | {"key": "k2"}),
        whole(200, GOOD | {"amount_cents": 999}),
        whole(200, GOOD | {"payment": "pay_2"}),
        whole(200, GOOD | {"currency": "USD"}),
        whole(200, GOOD | {"id": ""}),
        whole(200, GOOD | {"id": 5}),
        whole(200, GOOD | {"status": "in_flight"}),
        whole(404, b"Not found"),
        whole(404, {"error": "unknown_key"}),
        whole(402, {"status": "failed", "key": "k2"}),
        whole(401, {"error": "no_token"}),
        whole(403, {"error": "foreign_host"}),
        whole(422, {"error": "key_reused"}),
        whole(500, {"error": "defect"}),
        whole(503, {"error": "unavailable"}),
        whole(200, b"[" * 60_000),
        whole(200, GOOD | {"more": "x" * 70_000}),
    ],
)
def test_after_any_other_answer_nobody_knows(settings: Any, answer: bytes) -> None:
    with pytest.raises(payments.NoAnswer):
        asked_of_liar(settings, answer)


def test_nothing_is_asked_elsewhere_because_an_answer_says_so(settings: Any) -> None:
    class Redirect(_Liar):
        def do_POST(self) -> None:
            self.wfile.write(whole(302, b"", "Location: /elsewhere"))

        def do_GET(self) -> None:
            self.wfile.write(whole(200, GOOD))

    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        settings.STORE_GATEWAY_URL = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with pytest.raises(payments.NoAnswer):
                payments.refund(payload(), "k1")
        finally:
            server.shutdown()
            thread.join()


def test_nobody_there_is_no_answer(settings: Any) -> None:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"
    with pytest.raises(payments.NoAnswer):
        payments.refund(payload(), "k1")
    with pytest.raises(payments.NoAnswer):
        payments.look_up(payload(), "k1")


def test_a_wrong_token_leaves_an_earlier_refund_unknown(gateway: Gateway, settings: Any) -> None:
    payments.refund(payload(), "k1")
    settings.STORE_GATEWAY_TOKEN = "changed"
    with pytest.raises(payments.NoAnswer):
        payments.refund(payload(), "k1")
    with pytest.raises(payments.NoAnswer):
        payments.look_up(payload(), "k1")


def test_the_client_asks_past_the_machines_proxy(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert payments.refund(payload(), "k1")["amount_cents"] == 1_000


def test_an_answer_that_dribbles_ends(settings: Any) -> None:
    class Dribble(_Liar):
        def do_POST(self) -> None:
            self.wfile.write(b"HTTP/1.0 200 x\r\nContent-Length: 1000\r\n\r\n")
            try:
                for _count in range(200):
                    self.wfile.write(b" ")
                    time.sleep(0.05)
            except ConnectionError:
                pass

    with HTTPServer(("127.0.0.1", 0), Dribble) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        settings.STORE_GATEWAY_URL = f"http://127.0.0.1:{server.server_address[1]}"
        settings.STORE_GATEWAY_SECONDS = 0.5
        started = time.monotonic()
        with pytest.raises(payments.NoAnswer):
            payments.refund(payload(), "k1")
        assert time.monotonic() - started < 5
        thread.join()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/", "127.0.0.1:80"])
def test_only_http_is_asked(settings: Any, address: str) -> None:
    settings.STORE_GATEWAY_URL = address
    with pytest.raises(ImproperlyConfigured, match="STORE_GATEWAY_URL"):
        payments.refund(payload(), "k1")
