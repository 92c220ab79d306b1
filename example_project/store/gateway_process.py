"""The gateway of the demo: found payments, the books' place, and the process of its own in which it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connections
from django.db.models import Sum

from .gateway import Gateway
from .ledger import Ledger, Paid
from .models import Payment, Refund

START_SECONDS = 60


def open_ledger() -> Ledger:
    """Open the gateway's books, which are made where there are none."""
    return Ledger(settings.STORE_GATEWAY_STATE, find=_find_and_close)


def _find_and_close(reference: str) -> Paid | None:
    try:
        return find_payment(reference)
    finally:
        connections.close_all()  # the gateway has a thread of its own for each request


def find_payment(reference: str) -> Paid | None:
    """Return a payment of the store's database, with what of it went back before the gateway heard of it.

    The gateway asks before it makes the first refund of a payment, so none of those was made by itself.
    """
    payment = (
        Payment.objects.filter(gateway_reference=reference).order_by("pk").first() if reference else None
    )
    if payment is None:
        return None
    before = Refund.objects.filter(payment=payment, state=Refund.State.SUCCEEDED)
    return Paid(
        amount_cents=payment.amount_cents,
        currency=payment.currency,
        refunded_cents=before.aggregate(sum=Sum("amount_cents"))["sum"] or 0,
    )


def misbehave_line(address: str) -> str:
    """Return a command for a shell that makes the gateway's next refund time out."""
    return (
        f'curl -H "Authorization: Bearer {settings.STORE_GATEWAY_TOKEN}" '
        f'-d \'{{"mode": "timeout"}}\' {address}/behave'
    )


def serve_for_parent(gateway: Gateway) -> None:
    """Say the address on standard output, and serve until standard input ends: with its parent, however it ends."""

    def wait_for_parent() -> None:
        while os.read(0, 1024):
            pass
        gateway.shutdown()

    print(json.dumps({"address": gateway.address}), flush=True)
    threading.Thread(target=wait_for_parent, daemon=True).start()
    gateway.serve_forever(poll_interval=0.1)


@contextmanager
def running_gateway() -> Iterator[str]:
    """Run the gateway in a process of its own, and give its address. It ends with this process, killed or not."""
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "gateway", "--port", "0", "--for-parent"],
        stdin=subprocess.PIPE,  # only held: that it is closed tells the child that we are gone
        stdout=subprocess.PIPE,
    )
    try:
        late = threading.Timer(START_SECONDS, child.kill)
        late.start()
        line = child.stdout.readline()
        late.cancel()
        if not line:
            raise RuntimeError("The payment gateway does not start.")
        yield json.loads(line)["address"]
    finally:
        child.stdin.close()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
