"""A payment gateway to try refunds with: a small HTTP service on this machine that behaves like a real one.

    POST /refunds                refund a payment; header Idempotency-Key, body {"payment", "amount_cents",
                                 "currency", "reason"}
    GET  /refunds/by-key/<key>   what became of a key: its answer, {"status": "in_flight"}, or 404
    GET  /refunds?payment=…      the refunds that were made
    GET  /health                 that it is there
    GET, POST /behave            how the next requests for a refund are treated: {"mode", "times", "seconds"}

A key is used once. The same key with the same payload gets the answer that was kept (201 succeeded; 402 and
404 failed for good), 409 while the first request is still being carried out, and 422 with another payload.
What was refused before it began (400, 401, 403, 503) is not kept, and may be asked again.

It listens on 127.0.0.1 only. Each request needs the token that the store has, and a Host, and an Origin if
there is one, of this very server, so that no page in a browser can drive it.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import math
import re
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .ledger import MODES, Answer, Behaviour, Ledger

HOST = "127.0.0.1"
MAX_BODY = 16_384
MAX_SECONDS = 600
_KEY = re.compile(r"[\x21-\x7e]{1,64}")
_FIELDS = {"payment": 64, "currency": 3, "reason": 200}  # texts, with their greatest length

logger = logging.getLogger("example_project.gateway")


class Gateway(ThreadingHTTPServer):
    """The service. ``port`` 0 takes a free one; ``address`` says which."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, ledger: Ledger, *, token: str, port: int = 0) -> None:
        self.ledger = ledger
        self.stopping = threading.Event()
        self._authorization = f"Bearer {token}".encode()
        super().__init__((HOST, port), _Request)

    @property
    def address(self) -> str:
        """Return where it listens, as a URL without a slash at its end."""
        return f"http://{HOST}:{self.server_address[1]}"

    @property
    def hosts(self) -> tuple[str, str]:
        """Return the names under which it may be asked."""
        port = self.server_address[1]
        return (f"{HOST}:{port}", f"localhost:{port}")

    def knows_token(self, authorization: str) -> bool:
        """Tell whether a header carries the token."""
        return hmac.compare_digest(authorization.encode("utf-8", "replace"), self._authorization)

    def shutdown(self) -> None:
        """Stop serving, and let go of those who are kept waiting."""
        self.stopping.set()
        super().shutdown()


class _Refused(Exception):
    """A request that is answered before anything began."""

    def __init__(self, status: int, error: str, detail: str) -> None:
        super().__init__(error)
        self.answer = Answer(status=status, body={"error": error, "detail": detail})


class _Request(BaseHTTPRequestHandler):
    server: Gateway
    protocol_version = "HTTP/1.1"
    server_version = "store-gateway"
    sys_version = ""
    timeout = 10.0  # for a client that sends half a request

    def do_GET(self) -> None:
        self._answer_with(self._get)

    def do_POST(self) -> None:
        self._answer_with(self._post)

    def _answer_with(self, find: Any) -> None:
        try:
            self._check_caller()
            answer = find(urlsplit(self.path))
        except _Refused as error:
            answer = error.answer
        except Exception:
            logger.exception("The gateway failed at %s %s.", self.command, self.path)
            answer = Answer(status=500, body={"error": "defect", "detail": "The gateway failed."})
        if answer is None:  # the caller gets no answer
            self.close_connection = True
            return
        with contextlib.suppress(ConnectionError):  # the caller did not wait for it
            self._send(answer)

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _check_caller(self) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            raise _Refused(403, "foreign_host", "Ask this server by its own address.")
        for origin in self.headers.get_all("Origin", []):
            if origin not in [f"http://{host}" for host in self.server.hosts]:
                raise _Refused(403, "foreign_origin", "A page of another site may not ask.")
        if not self.server.knows_token(self.headers.get("Authorization", "")):
            raise _Refused(401, "no_token", "The header Authorization must be: Bearer, and the token.")

    # -- reading --------------------------------------------------------------------------------------

    def _get(self, url: Any) -> Answer:
        ledger = self.server.ledger
        if url.path == "/health":
            return Answer(status=200, body={"status": "ok"})
        if url.path == "/behave":
            return Answer(status=200, body=_as_body(ledger.behaviour()))
        if url.path == "/refunds":
            payment = parse_qs(url.query).get("payment", [""])[0]
            return Answer(status=200, body={"refunds": ledger.refunds(payment)})
        if url.path.startswith("/refunds/by-key/"):
            found = ledger.by_key(unquote(url.path.removeprefix("/refunds/by-key/")))
            if found is None:
                raise _Refused(404, "unknown_key", "This key never came.")
            return Answer(status=200, body=found)
        raise _Refused(404, "no_such_address", "There is nothing at this address.")

    def _read_body(self) -> Any:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refused(411, "length_required", "The header Content-Length is missing.")
        if int(length) > MAX_BODY:
            raise _Refused(413, "too_large", f"A body may have {MAX_BODY} bytes.")
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise _Refused(400, "invalid", "The body is shorter than it says.")
        try:
            body = json.loads(
                content,
                parse_constant=_no_number,
                parse_float=_finite,
                object_pairs_hook=_without_doubles,
            )
        except (ValueError, RecursionError):
            raise _Refused(400, "invalid", "The body is no JSON.") from None
        if not isinstance(body, dict):
            raise _Refused(400, "invalid", "The body must be an object.")
        return body

    # -- doing ----------------------------------------------------------------------------------------

    def _post(self, url: Any) -> Answer | None:
        body = self._read_body()
        if url.path == "/behave":
            behaviour = _behaviour_of(body)
            self.server.ledger.behave(behaviour)
            return Answer(status=200, body=_as_body(behaviour))
        if url.path == "/refunds":
            return self._refund(body)
        raise _Refused(404, "no_such_address", "There is nothing at this address.")

    def _refund(self, payload: dict[str, Any]) -> Answer | None:
        ledger, key = self.server.ledger, self.headers.get("Idempotency-Key", "")
        if not _KEY.fullmatch(key):
            raise _Refused(
                400, "no_key", "The header Idempotency-Key is missing, or longer than 64 characters."
            )
        known = ledger.known(key, payload)
        if known is not None and known.status == 422:
            return known
        _check_payload(payload)
        behaviour = ledger.take_behaviour()
        if behaviour.mode == "fail_before":
            raise _Refused(503, "unavailable", "The gateway can't work just now; nothing was begun.")
        answer = ledger.begin(key, payload)
        if answer.begun:
            try:
                if behaviour.mode == "late":
                    self._wait(behaviour.seconds)
                answer = ledger.finish(key, payload, refuse=behaviour.mode == "fail")
            except BaseException:
                ledger.abandon(key)
                raise
        elif behaviour.mode == "late":
            self._wait(behaviour.seconds)
        if behaviour.mode == "timeout":
            self._wait(behaviour.seconds, for_caller=True)
        return None if behaviour.mode in ("timeout", "drop") else answer

    def _wait(self, seconds: float, *, for_caller: bool = False) -> None:
        """Wait; ``for_caller`` only as long as the other side keeps the connection open."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.server.stopping.wait(min(left, 0.05)):
            if for_caller and select.select([self.connection], [], [], 0)[0]:
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        return
                except OSError:
                    return

    def log_message(self, format: str, *args: Any) -> None:
        logger.info(format, *args)


def _check_payload(payload: dict[str, Any]) -> None:
    if set(payload) != {*_FIELDS, "amount_cents"}:
        raise _Refused(400, "invalid", f"The body must have {', '.join([*_FIELDS, 'amount_cents'])}.")
    for name, most in _FIELDS.items():
        if not isinstance(payload[name], str) or len(payload[name]) > most or not _is_unicode(payload[name]):
            raise _Refused(400, "invalid", f"{name} must be a text of at most {most} characters.")
    cents = payload["amount_cents"]
    if isinstance(cents, bool) or not isinstance(cents, int) or not 0 < cents < 2**53:
        raise _Refused(400, "invalid", "amount_cents must be a whole number above zero.")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text)  # half of a pair can't be stored


def _behaviour_of(body: dict[str, Any]) -> Behaviour:
    mode, times, seconds = body.get("mode"), body.get("times", 1), body.get("seconds")
    if mode not in MODES or set(body) - {"mode", "times", "seconds"}:
        raise _Refused(400, "invalid", f"mode must be one of {', '.join(MODES)}.")
    if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= 1_000_000:
        raise _Refused(400, "invalid", "times must be a whole number up to 1,000,000.")
    if seconds is None:
        seconds = 60 if mode == "timeout" else 3
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_SECONDS:
        raise _Refused(400, "invalid", f"seconds must be a number up to {MAX_SECONDS}.")
    return Behaviour(mode=mode, times=times, seconds=float(seconds))


def _as_body(behaviour: Behaviour) -> dict[str, Any]:
    return {"mode": behaviour.mode, "times": behaviour.times, "seconds": behaviour.seconds}


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _value in pairs}) < len(pairs):
        raise ValueError("A name stands twice.")
    return dict(pairs)
