"""The payment gateway's own books: what it was asked for under which key, and what it did.

They are a SQLite file, apart from the store's database, and outlive the gateway. An operation is begun, which
takes its key, and then carried out: the refund and the answer are kept in one transaction, so it was done
with its answer kept, or not at all. What was begun by a gateway that is gone was not done, and is forgotten.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OK = "ok"
MODES = (OK, "fail", "fail_before", "late", "timeout", "drop")

_TABLES = """
CREATE TABLE IF NOT EXISTS payments (
    reference TEXT PRIMARY KEY, amount_cents INTEGER NOT NULL, currency TEXT NOT NULL,
    refunded_before INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS operations (
    key TEXT PRIMARY KEY, payload_hash TEXT NOT NULL, run TEXT NOT NULL, status INTEGER, answer TEXT
);
CREATE TABLE IF NOT EXISTS refunds (
    id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE REFERENCES operations, payment TEXT NOT NULL REFERENCES payments,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0), currency TEXT NOT NULL, reason TEXT NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS refunds_of_payment ON refunds (payment);
CREATE TABLE IF NOT EXISTS behaviour (
    id INTEGER PRIMARY KEY CHECK (id = 1), mode TEXT NOT NULL, times INTEGER NOT NULL, seconds REAL NOT NULL
);
"""


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A payment as the gateway has to know it; ``refunded_cents`` are what it gave back before it had books."""

    amount_cents: int
    currency: str
    refunded_cents: int = 0


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """How the next ``times`` requests for a refund are treated; ``seconds`` are for the modes that wait."""

    mode: str = OK
    times: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a request under a key gets. ``begun`` means that it is this request's to carry out."""

    status: int
    body: dict[str, Any]
    begun: bool = False


class Ledger:
    """The books in a file. Safe to be used by several threads, and by several gateways, at once."""

    def __init__(self, path: str | Path, *, find: Callable[[str], Paid | None]) -> None:
        self.path = Path(path)
        self._find = find  # a payment by its reference, of whoever took the money
        self._run = uuid.uuid4().hex
        with self._open() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_TABLES)
            db.execute("DELETE FROM operations WHERE status IS NULL")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=20, isolation_level=None)
        try:
            yield db
        finally:
            db.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    # -- refunds --------------------------------------------------------------------------------------

    def known(self, key: str, payload: Any) -> Answer | None:
        """Return what a request gets whose key was used before, or None for a new key."""
        with self._open() as db:
            return self._known(db, key, _hash(payload))

    def begin(self, key: str, payload: dict[str, Any]) -> Answer:
        """Take the key for a refund, or return what this key has got, or is about to get, already."""
        with self._writing() as db:
            known = self._known(db, key, _hash(payload))
            if known is not None:
                return known
            db.execute(
                "INSERT INTO operations (key, payload_hash, run) VALUES (?, ?, ?)",
                (key, _hash(payload), self._run),
            )
            return Answer(status=202, body=_in_flight(key), begun=True)

    def _known(self, db: sqlite3.Connection, key: str, payload_hash: str) -> Answer | None:
        row = db.execute(
            "SELECT payload_hash, status, answer FROM operations WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        if row[0] != payload_hash:
            return Answer(
                status=422,
                body={"error": "key_reused", "detail": "This key came with another payload before."},
            )
        if row[1] is None:
            return Answer(status=409, body=_in_flight(key))
        return Answer(status=row[1], body=json.loads(row[2]))

    def finish(self, key: str, payload: dict[str, Any], *, refuse: bool = False) -> Answer:
        """Carry out what was begun, and keep the answer. ``refuse`` answers that it is refused for good."""
        paid = self._find(payload["payment"])
        with self._writing() as db:
            mine = db.execute(
                "SELECT 1 FROM operations WHERE key = ? AND run = ? AND status IS NULL", (key, self._run)
            ).fetchone()
            if mine is None:
                # Another gateway started on these books meanwhile, and takes what was begun here as not done.
                return Answer(
                    status=503, body={"error": "unavailable", "detail": "The gateway was restarted."}
                )
            answer = self._refund(db, key, payload, paid, refuse=refuse)
            db.execute(
                "UPDATE operations SET status = ?, answer = ? WHERE key = ?",
                (answer.status, json.dumps(answer.body), key),
            )
        return answer

    def _refund(
        self,
        db: sqlite3.Connection,
        key: str,
        payload: dict[str, Any],
        paid: Paid | None,
        *,
        refuse: bool,
    ) -> Answer:
        reference, cents, currency = payload["payment"], payload["amount_cents"], payload["currency"]
        if refuse:
            return _failed(402, key, "refused", "The card's bank refuses the refund.")
        if paid is not None:
            db.execute(
                "INSERT OR IGNORE INTO payments VALUES (?, ?, ?, ?)",
                (reference, paid.amount_cents, paid.currency, paid.refunded_cents),
            )
        row = db.execute(
            "SELECT amount_cents - refunded_before - COALESCE("
            "(SELECT SUM(amount_cents) FROM refunds WHERE payment = reference), 0), currency"
            " FROM payments WHERE reference = ?",
            (reference,),
        ).fetchone()
        if row is None:
            return _failed(404, key, "unknown_payment", "There is no such payment.")
        if row[1] != currency:
            return _failed(402, key, "wrong_currency", "The payment is in another currency.")
        if cents > row[0]:
            return _failed(402, key, "amount_too_large", "Less than that is left of the payment.")
        refund = {
            "id": f"ref_{secrets.token_hex(10)}",
            "key": key,
            "payment": reference,
            "amount_cents": cents,
            "currency": currency,
            "reason": payload["reason"],
            "created_at": datetime.now(UTC).isoformat(),
        }
        db.execute(
            "INSERT INTO refunds (id, key, payment, amount_cents, currency, reason, created_at)"
            " VALUES (:id, :key, :payment, :amount_cents, :currency, :reason, :created_at)",
            refund,
        )
        return Answer(status=201, body={"status": "succeeded", **refund})

    def abandon(self, key: str) -> None:
        """Forget what was begun under a key and could not be carried out: nothing was done, the key is free."""
        with self._writing() as db:
            db.execute(
                "DELETE FROM operations WHERE key = ? AND run = ? AND status IS NULL", (key, self._run)
            )

    def by_key(self, key: str) -> dict[str, Any] | None:
        """Return what became of a key, None if it never came."""
        with self._open() as db:
            row = db.execute("SELECT answer FROM operations WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        return json.loads(row[0]) if row[0] is not None else _in_flight(key)

    def refunds(self, payment: str = "") -> list[dict[str, Any]]:
        """Return the refunds that were made, the oldest first; of one payment if it is named."""
        with self._open() as db:
            db.row_factory = sqlite3.Row
            rows = db.execute("SELECT * FROM refunds WHERE ? IN ('', payment) ORDER BY rowid", (payment,))
            return [dict(row) for row in rows]

    def clear(self) -> None:
        """Forget everything: for a store that is made anew with the same payments."""
        with self._writing() as db:
            for table in ("refunds", "operations", "payments", "behaviour"):
                db.execute(f"DELETE FROM {table}")  # noqa: S608

    # -- misbehaviour ---------------------------------------------------------------------------------

    def behave(self, behaviour: Behaviour) -> None:
        """Keep how the next requests for a refund are to be treated."""
        with self._writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO behaviour VALUES (1, ?, ?, ?)",
                (behaviour.mode, behaviour.times, behaviour.seconds),
            )

    def behaviour(self) -> Behaviour:
        """Return how the next request would be treated."""
        with self._open() as db:
            return _behaviour(db)

    def take_behaviour(self) -> Behaviour:
        """Return how this request is to be treated, and count it."""
        with self._writing() as db:
            found = _behaviour(db)
            db.execute("UPDATE behaviour SET times = times - 1 WHERE times > 0")
        return found


def _behaviour(db: sqlite3.Connection) -> Behaviour:
    row = db.execute("SELECT mode, times, seconds FROM behaviour WHERE times > 0").fetchone()
    return Behaviour(mode=row[0], times=row[1], seconds=row[2]) if row else Behaviour()


def _hash(payload: Any) -> str:
    return hashlib.sha256(json.dumps(payload, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _in_flight(key: str) -> dict[str, Any]:
    return {"status": "in_flight", "key": key}


def _failed(status: int, key: str, error: str, detail: str) -> Answer:
    return Answer(status=status, body={"status": "failed", "key": key, "error": error, "detail": detail})
