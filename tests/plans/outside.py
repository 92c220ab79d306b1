"""Another system, and a tool that asks it: what it is sent, and what it answers, as a test wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from django_copilot import CallFailed, Preview, write_tool
from django_copilot.models import AuditEntry, Plan
from example_project.store.models import Order
from tests.formapp.models import Memo

from .tools import order_for, propose

Answer = Callable[[], Any]


def nothing() -> None:
    """Do nothing."""


def said(answer: Any) -> Answer:
    """Return what gives this answer."""
    return lambda: answer


def raised(error: BaseException) -> Answer:
    """Return what raises this."""

    def fail() -> Any:
        raise error

    return fail


timed_out = raised(TimeoutError("no answer"))
refused = raised(CallFailed("No such street."))


class Outside:
    """A carrier. ``announce(order)`` tells it of a parcel; a ``Memo`` of the key is what the tool reserves.

    ``answers`` are given one by one, the last one for ever. ``reserving``, ``settling`` run within their steps.
    """

    def __init__(self, **options: Any) -> None:
        self.sent: list[tuple[str, str]] = []  # key and payload as JSON, as each call got it
        self.asked: list[tuple[str, str]] = []  # the same of each look-up
        self.ended: list[tuple[bool, Any]] = []
        self.answers: list[Answer] = [said({"parcel": "P1"})]
        self.knows: Answer = said({"parcel": "P1"})
        self.reserving: Answer = nothing
        self.settling: Answer = nothing

        def announce(ctx: Any, order: str) -> Preview:
            """Announce a parcel."""
            found = ctx.get(Order, number=order)
            payload = {
                "to": found.shipping_name,
                "order": found.number,
                "Ærlig": [1, None, {"b": 1, "a": "1.50"}],
            }
            return Preview(found, payload=payload, amount=7)

        made = self.tool = write_tool(Order, **options)(announce)

        @made.reserve
        def reserve(ctx: Any, preview: Preview, grant: Any) -> None:
            Memo.objects.create(title=grant.key, text="pending")
            self.reserving()

        @made.call
        def call(payload: Any, key: str) -> Any:
            self.sent.append((key, json.dumps(payload, separators=(",", ":"))))
            answers = self.answers
            return (answers.pop(0) if len(answers) > 1 else answers[0])()

        @made.look_up
        def look_up(payload: Any, key: str) -> Any:
            self.asked.append((key, json.dumps(payload, separators=(",", ":"))))
            return self.knows()

        @made.settle
        def settle(grant: Any, succeeded: bool, result: Any) -> None:
            Memo.objects.filter(title=grant.key).update(text="spent" if succeeded else "released")
            self.ended.append((succeeded, result))
            self.settling()

    @property
    def reserved(self) -> list[str]:
        """Return what became of each reservation, oldest first."""
        return list(Memo.objects.order_by("pk").values_list("text", flat=True))


class World:
    """An order of support's, a carrier, and the tool that asks it."""

    def __init__(self, login: Callable[[str], Client], **options: Any) -> None:
        self.login = login
        self.client = login("support")
        self.order = order_for()
        self.outside = Outside(**options)

    def propose(self, **extra: Any) -> dict[str, Any]:
        """Return a plan to announce the order's parcel."""
        return propose(self.client, "announce", {"order": self.order.number}, **extra)


def let_lease_end(plan: Mapping[str, Any]) -> None:
    """Let the lease of a plan's call run out, by the database's clock."""
    Plan.objects.filter(pk=plan["id"]).update(lease_until=Now())


def let_be_called_ago(plan: Mapping[str, Any], ago: Any) -> None:
    """Let a plan's first call have been so long ago."""
    Plan.objects.filter(pk=plan["id"]).update(called_at=F("called_at") - ago)


def entries(plan: Mapping[str, Any], event: str) -> list[AuditEntry]:
    """Return the entries of one kind on a plan, oldest first."""
    return list(AuditEntry.objects.filter(plan=str(plan["id"]), event=event).order_by("number"))
