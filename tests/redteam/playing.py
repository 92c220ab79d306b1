"""What the tests of the hostile client share: a client that has nothing to play with yet, and plans made for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_copilot.redteam.client.attack import Client, opened
from django_copilot.redteam.client.stage import Thing
from django_copilot.redteam.executions import find_outside
from django_copilot.redteam.people import Actor
from django_copilot.redteam.world import World
from example_project.store.models import Payment


@contextmanager
def playing(world: World, settings: Any) -> Iterator[Client]:
    """Give a hostile client; the other system does whatever it is asked for."""
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"  # never called: a stand-in answers for it
    with opened(world, number=0) as client:
        outside = find_outside()
        assert outside is not None
        outside.honest = True
        yield client


def actor(client: Client, name: str) -> Actor:
    """Return a person of the run by her name."""
    return next(each for each in client.world.actors if each.name == name)


def plan_of(client: Client, owner: str, *, amount: int = 0, scope: str = "a") -> Thing:
    """Return a plan to change an address, or to give money back."""
    payment = Payment.objects.filter(
        order__region="north", order__customer__vip=False, amount_cents__gte=max(amount, 1)
    ).exclude(order__status="shipped")
    order = payment.first().order  # type: ignore[union-attr]
    if amount:
        call = ("refund_payment", {"order": order.number, "amount_cents": amount, "reason": "damaged"})
    else:
        call = (
            "change_shipping_address",
            {"order": order.number, "street": "Long 1", "postal_code": "00-001", "city": "Oslo"},
        )
    made = client.stage.make_plan(actor(client, owner), client.sites[0], calls=[call], scope=scope)
    assert made is not None
    return made


def findings(client: Client) -> dict[int, str]:
    """Return what each oracle found, as one text."""
    report = client.world.report
    return {
        number: " / ".join(each["what"] for each in report.examples[number])
        for number in sorted(report.findings)
        if report.findings[number]
    }
