"""One plan confirmed several times at the same moment: it is carried out once, whoever is first.

Threads are used where the database keeps their connections apart. On a SQLite database in memory, and inside a
test's transaction, the confirmations come one after the other, one of them from within the call to the other system.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.db import connection, connections

from ...models import AuditEntry, Plan
from ..executions import find_plan
from ..outside import opened, stand_in
from . import rows
from .endpoints import Endpoint
from .sender import Sender, Who
from .stage import Thing

THREADS = 4
JSON = {"Accept": "application/json"}


def runs_threads() -> str:
    """Return why confirmations can't be sent by threads here, or ""."""
    if connection.in_atomic_block:
        return "a transaction is open around it"
    if connection.vendor == "sqlite" and connection.is_in_memory_db():  # type: ignore[attr-defined]
        return "SQLite in memory"
    return ""


def confirm_at_once(sender: Sender, who: Who, site: AdminSite, endpoint: Endpoint, thing: Thing) -> None:
    """Send the same confirmation several times."""
    why = runs_threads()
    if why:
        sender.world.report.not_run["client: threads"] = (
            f"{why}: what comes at once was interleaved one by one"
        )
        _one_by_one(sender, who, site, endpoint, thing)
    else:
        _by_threads(sender, who, site, endpoint, thing)
    case = f"{sender.case}: {who}: confirmed at once"
    done = AuditEntry.objects.filter(plan=thing.ident, event="executed").count()
    if done > 1:
        sender.world.report.found(5, f"plan {thing.ident} was carried out {done} times", case=case)


def _one_by_one(sender: Sender, who: Who, site: AdminSite, endpoint: Endpoint, thing: Thing) -> None:
    def confirm(what: str) -> None:
        sender.decide(who, site, endpoint, thing.ident, {"digest": thing.digest}, what=what)

    with _within_the_call(lambda: confirm("the same again, while it is carried out")):
        confirm("confirmed, and again meanwhile")
    confirm("the same again")


@contextmanager
def _within_the_call(act: Callable[[], None]) -> Iterator[None]:
    """Let something happen while another system is asked, once."""
    outside = opened()
    if outside is None:
        yield
        return
    with stand_in(0, _Meanwhile(outside, act)):
        yield


@dataclass
class _Meanwhile:
    """Another system during whose first call something happens."""

    outside: Any
    act: Callable[[], None]
    acted: bool = False

    def call(self, payload: Any, key: str) -> Any:
        if not self.acted:
            self.acted = True
            self.act()
        return self.outside.call(payload, key)

    def look_up(self, payload: Any, key: str) -> Any:
        return self.outside.look_up(payload, key)


def _by_threads(sender: Sender, who: Who, site: AdminSite, endpoint: Endpoint, thing: Thing) -> None:
    before, ready = rows.rows_now(), threading.Barrier(THREADS)
    statuses: list[int] = []
    clients = [sender.world.client(who.actor) for _ in range(THREADS)]
    before = rows.rows_now()  # logging in says when

    def send(client: Any) -> None:
        try:
            ready.wait(30)
            answer = client.generic(
                "POST",
                endpoint.path(thing.ident),
                json.dumps({"digest": thing.digest}),
                "application/json",
                headers=JSON,
            )
            statuses.append(answer.status_code)
        finally:
            connections.close_all()

    case = f"{sender.case}: {who}: {THREADS} confirmations of {thing.ident} at once"
    noting = sender.ledger.deciding(
        sender.world,
        who.actor,
        site,
        verb="confirm",
        plan=thing.ident,
        sent=thing.digest,
        herself=not who.mark,
        case=case,
    )
    with noting as decision:
        threads = [threading.Thread(target=send, args=(each,)) for each in clients]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        decision.status = min(statuses, default=0)
    sender.sent += THREADS
    sender.world.report.count("requests", THREADS)
    for status in statuses:
        if status not in (200, 409, 403):
            sender.world.report.found(7, f"answered {status}", case=case)
    plan: Plan | None = find_plan(thing.ident)
    carried = [plan] if plan is not None and plan.confirmed_by else []
    for change in rows.unaccounted(rows.differences(before, rows.rows_now()), plans=carried):
        sender.world.report.found(1, str(change), case=case)
    sender.world.forget()
