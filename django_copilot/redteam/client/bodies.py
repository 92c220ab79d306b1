"""What a hostile client sends: bodies, headers, ids and digests. Pure chance, without a database."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**63, -(2**63) - 1, 10**400, 1.5, 1e308, -0.0, "", " ", "0", "1", "true", "null",
    "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\u202e\u2066txt", "\u200b", "\ufeff", "１２", "1_0", "ı", "😀" * 50,
    "A" * 9_000, "%00", "../../etc/passwd", "<script>alert(1)</script>", "' OR 1=1 --", "${7*7}{{7*7}}%(name)s", [], {},
)  # fmt: skip
KEYS = (
    "digest", "reason", "outcome", "message", "conversationId", "continue", "page", "off", "period", "confirm",
    "confirmed", "confirmed_by", "confirmedBy", "approved_by", "approvedBy", "category", "idempotency_key", "key",
    "actor", "user", "user_id", "site", "scope", "version", "state", "needsApproval", "plan", "id", "turn", "tool",
    "arguments", "payload", "csrfmiddlewaretoken", "_method", "_copilot_plan", "__proto__", "constructor", "",
)  # fmt: skip
HOSTILE_EXTRAS: Mapping[str, Any] = {
    "confirm": True,
    "confirmed": True,
    "confirmed_by": "1",
    "approved_by": "1",
    "category": "read_only",
    "needsApproval": False,
    "idempotency_key": "00000000-0000-0000-0000-000000000000",
    "key": "00000000-0000-0000-0000-000000000000",
    "state": "executed",
    "user": 1,
    "actor": "1",
    "site": "admin",
    "version": 0,
    "payload": {"amount_cents": 1},
    "arguments": {},
}
TYPES = (
    "application/json", "application/json; charset=utf-16", "text/plain", "text/html", "application/xml", "",
    "application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=x",
    "multipart/form-data; boundary=" + "b" * 200, "application/octet-stream", "application/vnd.api+json", "*/*", "json",
    "application/json\t;;=", "a" * 300,
)  # fmt: skip
ACCEPTS = (
    "application/json", "text/html", "*/*", "", "text/event-stream", "application/json;q=0.1,text/html;q=0.9",
    "application/xml", "image/png", "application/json; version=7", "text/html, application/json", "\x7f", "a/b/c;;q=x",
)  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
IDENTS: tuple[str, ...] = (
    "0", "1", "-1", "chat", "jsi18n", "add", "delete", "None", "null", "undefined", "%", "%00", "..", "a b", "\u202e", "é",
    "00000000-0000-0000-0000-000000000000", "{00000000-0000-0000-0000-000000000000}", "urn:uuid:", "1;DROP", "x" * 500,
    "ffffffff-ffff-ffff-ffff-fffffffffffg", "1e5", "１", "\x7f", "_", "~", "'", '"', "<b>", "?x=1", "#x",
)  # fmt: skip


def random_json(rng: random.Random, depth: int = 3) -> Any:
    """Return a random JSON value."""
    chance = rng.random()
    if depth <= 0 or chance < 0.5:
        return rng.choice(SCALARS)
    if chance < 0.75:
        return {rng.choice(KEYS): random_json(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    return [random_json(rng, depth - 1) for _ in range(rng.randint(0, 4))]


def nested(rng: random.Random) -> str:
    """Return JSON text nested far deeper than anybody needs."""
    depth = rng.choice((50, 990, 5_000, 100_000))
    if rng.random() < 0.5:
        return "[" * depth + "]" * depth
    return '{"message":' * depth + "1" + "}" * depth


@dataclass(frozen=True)
class Body:
    """The bytes of a request with their declared type."""

    content: bytes
    type: str
    is_broken: bool = False  # whether an answer of 400 is as good as any other


def as_json(given: Any) -> Body:
    """Return an honest JSON body; a lone surrogate is sent as its escape."""
    return Body(json.dumps(given).encode(), "application/json")


def as_form(given: Mapping[str, Any]) -> Body:
    """Return an honest form."""
    from urllib.parse import urlencode

    text = urlencode({name: str(value).encode("utf-8", "replace") for name, value in given.items()})
    return Body(text.encode(), "application/x-www-form-urlencoded")


def random_body(rng: random.Random, near: Mapping[str, Any]) -> Body:
    """Return a hostile body. ``near`` are the fields of one that would be taken, of which some stay."""
    kind = rng.randrange(12)
    kept = {name: value for name, value in near.items() if rng.random() < 0.7}
    if kind == 0:
        return Body(b"", rng.choice(TYPES), True)
    if kind == 1:
        return Body(rng.randbytes(rng.choice((1, 40, 3_000))), rng.choice(TYPES), True)
    if kind == 2:
        return Body(nested(rng).encode(), "application/json", True)
    if kind == 3:
        return _multipart(rng, kept)
    if kind == 4:
        size = rng.choice((19_000, 30_000, 2_000_000))
        return Body(json.dumps({**kept, "pad": "x" * size}).encode(), "application/json", True)
    if kind == 5:
        text = json.dumps(kept)[:-1] + rng.choice(
            (', "digest": NaN}', ', "a": 1e9999}', "", ',"message":}', "}}")
        )
        return Body(text.encode(), "application/json", True)
    if kind == 6:
        return Body(json.dumps(random_json(rng)).encode(), rng.choice(TYPES), True)
    if kind == 7:
        return Body(json.dumps(kept).encode("utf-16"), "application/json", True)
    if kind == 8:
        name = rng.choice((*near, *KEYS))
        return Body(json.dumps({**kept, name: rng.choice(SCALARS)}).encode(), "application/json", True)
    if kind == 9:
        return Body(json.dumps({**near, **HOSTILE_EXTRAS}).encode(), rng.choice(TYPES[:1] * 3 + TYPES), True)
    if kind == 10:
        return Body(as_form({**kept, rng.choice(KEYS): rng.choice(SCALARS)}).content, rng.choice(TYPES), True)
    doubled = json.dumps(dict(near))[:-1] + (", " if near else "") + '"digest": "0", "digest": null}'
    return Body(doubled.encode(), "application/json", True)


def _multipart(rng: random.Random, fields: Mapping[str, Any]) -> Body:
    lines = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    lines.append(
        '--x\r\nContent-Disposition: form-data; name="f"; filename="../../x.svg"\r\n\r\n<svg onload=alert(1)>\r\n'
    )
    whole = "".join(lines) + "--x--\r\n"
    cut = whole[: rng.randrange(len(whole))] if rng.random() < 0.5 else whole
    if rng.random() < 0.3:
        cut = cut.replace("\r\n", "\n").replace("--x", "--y", 1)
    kind = rng.choice(
        ("multipart/form-data; boundary=x", "multipart/form-data", 'multipart/form-data; boundary="')
    )
    return Body(cut.encode("utf-8", "replace"), kind, True)


def random_ident(rng: random.Random) -> str:
    """Return text that names nothing."""
    return str(uuid.UUID(int=rng.getrandbits(128), version=4)) if rng.random() < 0.4 else rng.choice(IDENTS)


def edited(rng: random.Random, digest: str) -> Any:
    """Return a digest that is none: cut, changed, in other letters, of another type."""
    at = rng.randrange(len(digest)) if digest else 0
    other = "0" if digest[at : at + 1] != "0" else "1"
    return rng.choice(
        (
            "", None, True, 0, [digest], {"digest": digest}, digest[:-1], digest + "0", digest.upper() + " ",
            digest[:at] + other + digest[at + 1 :], " " + digest, digest + "\x00", "\ud800", "０" * 64, "*", "%",
        )
    )  # fmt: skip


def random_headers(rng: random.Random, accept: str) -> dict[str, str]:
    """Return headers that try to be somebody, or something, else."""
    headers = {"Accept": accept}
    for name, values in _HEADERS.items():
        if rng.random() < 0.15:
            headers[name] = rng.choice(values)
    return headers


_HEADERS: Mapping[str, Sequence[str]] = {
    "Authorization": ("Token 0123456789", "Bearer x", "Basic YWRtaW46Y29waWxvdA==", "Session", "\x7f"),
    "X-Requested-With": ("XMLHttpRequest", "x"),
    "X-HTTP-Method-Override": ("POST", "DELETE"),
    "X-Forwarded-User": ("admin",),
    "Remote-User": ("admin",),
    "Accept-Language": ("pl", "ru", "xx-YY", "*", "en;q=1e999", "a" * 600),
    "Accept-Encoding": ("gzip", "br;q=0", "*"),
    "Range": ("bytes=0-5", "bytes=99-1"),
    "If-None-Match": ("*", '"x"'),
    "If-Modified-Since": ("Sat, 01 Jan 2099 00:00:00 GMT", "yesterday"),
    "X-Redteam-Scope": ("b", "a", ""),
}

FOREIGN: Sequence[Mapping[str, str]] = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://testserver.evil.example"},
    {"Referer": "https://evil.example/admin/"},
    {"Referer": "https://testserver.evil.example/"},
    {"X-CSRFToken": "0" * 64},
    {"X-CSRFToken": "a" * 32},
    {"X-CSRFToken": "\x7f"},
    {},
)
