"""What the store sends to its payment gateway, and what it makes of the answers.

Only an answer that is the gateway's last word on this very key counts: that the refund was made, or that it
was refused for good. After anything else (no answer, an answer that is cut off, one of a proxy in between, a
wrong token, a request that is still running) nobody knows, and the same key may be sent again.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_copilot import CallFailed

MAX_ANSWER = 65_536
_SENT = ("payment", "amount_cents", "currency")  # what an answer must repeat


class NoAnswer(Exception):
    """Nobody knows what the gateway did."""


def is_set_up() -> bool:
    """Tell whether the store knows a gateway."""
    return bool(settings.STORE_GATEWAY_URL)


def refund(payload: dict[str, Any], key: str) -> dict[str, Any]:
    """Ask the gateway for a refund and return what it made of it.

    Sent again under the same key, it gives the same refund. Raises CallFailed when the gateway refuses for
    good, and NoAnswer when nobody knows.
    """
    body = _ask("/refunds", data=json.dumps(payload).encode(), headers={"Idempotency-Key": key})
    return _outcome(body, payload, key)


def look_up(payload: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return what became of a key, as ``refund`` does; None if the gateway never got it."""
    body = _ask(f"/refunds/by-key/{quote(key, safe='')}")
    if body.get("error") == "unknown_key":
        return None
    return _outcome(body, payload, key)


def _outcome(body: dict[str, Any], payload: dict[str, Any], key: str) -> dict[str, Any]:
    status = body.get("status")
    if body.get("key") != key or status not in ("succeeded", "failed"):
        raise NoAnswer(f"The gateway says: {str(status or body.get('error') or 'nothing known')[:80]}.")
    if status == "failed":
        raise CallFailed(str(body.get("detail") or "The gateway refuses the refund.")[:200])
    reference = body.get("id")
    if not isinstance(reference, str) or not reference or len(reference) > 64:
        raise NoAnswer("The gateway names no refund.")
    if any(body.get(name) != payload[name] for name in _SENT):
        raise NoAnswer("The gateway speaks of another refund.")
    return {
        "gateway_reference": reference,
        "amount_cents": payload["amount_cents"],
        "currency": payload["currency"],
    }


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None  # a redirected POST would become a GET: let the answer stand as it is


def _ask(path: str, *, data: bytes | None = None, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the gateway's answer of any status. Raises NoAnswer."""
    address = settings.STORE_GATEWAY_URL
    if urlsplit(address).scheme not in ("http", "https"):
        raise ImproperlyConfigured("STORE_GATEWAY_URL must be an http or https address.")
    request = urllib.request.Request(  # noqa: S310  (the scheme is checked)
        address.rstrip("/") + path,
        data=data,
        headers={
            "Authorization": f"Bearer {settings.STORE_GATEWAY_TOKEN}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            **(headers or {}),
        },
    )
    seconds = settings.STORE_GATEWAY_SECONDS
    until = time.monotonic() + seconds
    # The machine's own proxy settings are for the internet, not for what holds the money.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    try:
        try:
            response = opener.open(request, timeout=seconds)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            content = _read(response, until=until)
        body = json.loads(content)
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise NoAnswer(f"No answer of the gateway that can be read: {type(error).__name__}.") from error
    if not isinstance(body, dict):
        raise NoAnswer("The gateway's answer is no object.")
    return body


def _read(response: Any, *, until: float) -> bytes:
    # The time-out of a socket begins anew with each byte; one that dribbles must end as well.
    content = b""
    while part := response.read1(MAX_ANSWER):
        content += part
        if len(content) > MAX_ANSWER:
            raise ValueError("too long")
        if time.monotonic() > until:
            raise TimeoutError
    return content
