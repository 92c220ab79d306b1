"""``kill``: a server killed while it carries out refunds, again and again, and what became of the money.

A real server process on a real database, a real gateway process, and a client that confirms over HTTP. The
server gets SIGKILL at a random point before, during or after the gateway's work, or after the gateway has
refused; then it is started again, and the person confirms once more, as she would, until the plan has ended.
After each round there must be one refund at the gateway and one in the store; none at either where it refused.

A round counts for the phase that the gateway was in when the server was dead, wherever it was aimed at, and
rounds go on until each phase has its number: ``BENCH_KILLS`` (100). Of the database see ``bench.audit``.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .report import ROOT, Bound, Effort, Figures, run_child, scratch, whole

PHASES = ("before", "during", "after", "refused")
KILLS = 100  # of each phase
TOKEN = "x" * 32  # of the CSRF cookie and header
PATIENCE = 60.0  # seconds until a server answers, or a plan has ended
# What a plan and its refund in the store may be at any moment.
WHOLE = {("proposed", None), ("executing", "pending"), ("executed", "succeeded"), ("failed", "failed")}
WORK = 0.3  # seconds that the gateway works before it pays, where the kill is to fall into that


def measure(effort: Effort) -> Figures:
    """Run the rounds in a process of their own, with the server and the gateway as its children."""
    kills = 1 if effort.rounds == 1 else int(os.environ.get("BENCH_KILLS", KILLS))
    with scratch() as folder:
        told = run_child(
            "bench.kill",
            settings="bench.settings_kill",
            database=folder / "store.sqlite3",
            url=os.environ.get("COPILOT_TEST_DATABASE_URL", ""),
            kills=kills,
        )
    return Figures(
        name="kill",
        results=told,
        bounds=(
            Bound(what="rounds with two refunds, or with one on one side only", value=told["wrong"], limit=0),
            Bound(
                what="moments in which plan and refund in the store did not fit",
                value=told["halved"],
                limit=0,
            ),
            Bound(what="plans that did not end", value=told["endless"], limit=0),
        ),
    )


class Server:
    """The store's server as a child process, to be killed and started again."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "manage.py",
                "runserver",
                "--noreload",
                "--skip-checks",
                f"127.0.0.1:{self.port}",
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
                    connection.request("GET", "/admin/login/")
                    if connection.getresponse().status == 200:
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("The server does not answer.")

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Person:
    """A member of staff with a session, who speaks JSON."""

    def __init__(self, server: Server, session: str) -> None:
        self.server, self.session = server, session

    def send(self, path: str, body: dict[str, Any]) -> http.client.HTTPConnection:
        """Send a POST and do not wait for the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        connection.request(
            "POST",
            path,
            body=json.dumps(body),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Cookie": f"sessionid={self.session}; csrftoken={TOKEN}",
                "X-CSRFToken": TOKEN,
            },
        )
        return connection

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a POST and return the answer."""
        with closing(self.send(path, body)) as connection:
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer


class Gateway:
    """The payment gateway as a child process."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "gateway", "--port", "0", "--for-parent"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.address = str(json.loads(self.process.stdout.readline())["address"])

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        host = self.address.removeprefix("http://")
        headers = {"Authorization": f"Bearer {self.token}"}
        raw = json.dumps(body) if body is not None else None
        with closing(http.client.HTTPConnection(host, timeout=PATIENCE)) as connection:
            connection.request(method, path, body=raw, headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")

    def phase_of(self, key: str) -> str:
        """Return the phase that it is in with a key."""
        status, body = self.ask("GET", f"/refunds/by-key/{key}")
        if status == 404:
            return "before"
        return {"in_flight": "during", "succeeded": "after", "failed": "refused"}[body["status"]]

    def refunds(self, payment: str) -> list[dict[str, Any]]:
        """Return the refunds of a payment that it has made."""
        found: list[dict[str, Any]] = self.ask("GET", f"/refunds?payment={payment}")[1]["refunds"]
        return found


@contextmanager
def gateway_running() -> Iterator[Gateway]:
    """Give a gateway that ends with the block."""
    from django.conf import settings

    gateway = Gateway(settings.STORE_GATEWAY_TOKEN)
    try:
        yield gateway
    finally:
        gateway.process.communicate(timeout=10)  # it ends with its standard input


@dataclass
class Aim:
    """When to kill the server, so that it falls into a phase: ``ahead`` is how long the gateway's came lately."""

    gateway: Gateway
    ahead: float = 0.1

    def wait(self, phase: str, key: str) -> None:
        """Wait until a random point of a phase of the request that was just sent."""
        sent = time.monotonic()
        if phase == "before":
            time.sleep(random.uniform(0, self.ahead))
            return
        while self.gateway.phase_of(key) == "before" and time.monotonic() < sent + PATIENCE:
            time.sleep(0.001)
        self.ahead += (time.monotonic() - sent - self.ahead) / 4  # the mean of the last ones
        time.sleep(random.uniform(0, 0.9 * WORK if phase == "during" else 0.05))


def run_round(aim_at: str, server: Server, aim: Aim, person: Person, number: int) -> dict[str, Any]:
    """Propose a refund, confirm it, kill the server, and confirm until the plan has ended."""
    from django.db import connections
    from django.db.models import Subquery

    from django_copilot.models import Plan
    from example_project.store.models import Refund

    gateway = aim.gateway
    reason = f"round {number}"  # by which a refund is found, whatever key it was made under
    words = f"Refund payment SO-0000001, amount cents {1 + number % 3}, reason {reason}"
    plan = person.post("/admin/django_copilot/conversation/chat/", {"message": words})["plan"]
    stored = Plan.objects.get(pk=plan["id"])
    key, payment = str(stored.key), json.loads(stored.payload)["payment"]
    refunds = Refund.objects.filter(reason=reason)
    connections.close_all()
    mode, seconds = {"during": ("late", WORK), "refused": ("fail", 0)}.get(aim_at, ("ok", 0))
    gateway.ask("POST", "/behave", {"mode": mode, "times": 1, "seconds": seconds})
    with closing(person.send(plan["confirmUrl"], {"digest": plan["digest"]})):
        aim.wait(aim_at, key)
        server.kill()
    phase = gateway.phase_of(key)
    # In one statement: a database server may still be busy committing for the one that is dead.
    both = Plan.objects.annotate(refund=Subquery(refunds.values("state")[:1]))
    left, refund = both.values_list("state", "refund").get(pk=plan["id"])
    connections.close_all()
    server.start()
    until, state = time.monotonic() + PATIENCE, ""
    while state not in ("executed", "failed") and time.monotonic() < until:
        answer = person.post(plan["confirmUrl"], {"digest": plan["digest"]})
        state = answer.get("plan", {}).get("state", "")
        if state not in ("executed", "failed"):
            time.sleep(0.1)
    person.post(plan["confirmUrl"], {"digest": plan["digest"]})  # once more, as by a double click
    paid = [each["key"] for each in gateway.refunds(payment) if each["reason"] == reason]
    wanted = ("failed", [], ["failed"]) if aim_at == "refused" else ("executed", [key], ["succeeded"])
    right = (state, paid, list(refunds.values_list("state", flat=True))) == wanted
    connections.close_all()
    return {
        "phase": phase,
        "left": left,
        "whole": (left, refund) in WHOLE,
        "ended": state in ("executed", "failed"),
        "right": right,
    }


@contextmanager
def database() -> Iterator[None]:
    """Make a database of the benchmark's own on the server that is named, for the children, too."""
    from django.core.management import call_command
    from django.db import connection

    url, name = os.environ["BENCH_URL"], connection.settings_dict["NAME"]
    if not url:
        call_command("migrate", interactive=False, verbosity=0)
        yield
        return
    connection.settings_dict["TEST"]["NAME"] = own = f"copilot_kill_{os.getpid()}"
    connection.creation.create_test_db(verbosity=0, autoclobber=True)
    os.environ["BENCH_URL"] = urlunsplit(urlsplit(url)._replace(path=f"/{own}"))
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def main() -> None:
    """Fill a store, and run the rounds of each phase."""
    import django

    django.setup()
    with database():
        print(json.dumps(told_of(whole("kills"))))


def told_of(kills: int) -> dict[str, Any]:
    """Run so many rounds of each phase and return what became of them."""
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
    from django.contrib.sessions.backends.db import SessionStore
    from django.db import connections

    from django_copilot import audit
    from example_project.store.data import create_data
    from example_project.store.people import create_people

    create_people()
    create_data(products=5, orders=20)
    user = get_user_model().objects.get(username="support")
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    vendor = connections["default"].vendor
    connections.close_all()
    rounds: list[dict[str, Any]] = []
    with gateway_running() as gateway:
        os.environ["STORE_GATEWAY_URL"] = gateway.address
        server, aim = Server(), Aim(gateway)
        person = Person(server, str(session.session_key))
        server.start()
        try:
            while missing := [
                phase for phase in PHASES if sum(each["phase"] == phase for each in rounds) < kills
            ]:
                if len(rounds) >= 4 * kills * len(PHASES):
                    raise RuntimeError(f"The kills do not fall into the phases aimed at: {missing}")
                # Those aimed at "before" miss most, and the others show when the gateway is asked: take turns.
                phase = missing[len(rounds) % len(missing)]
                rounds.append(run_round(phase, server, aim, person, len(rounds)))
        finally:
            server.kill()
    broken = audit.verify("admin")
    return {
        "database": vendor,
        "kills": len(rounds),
        "phases": {phase: told_of_phase(rounds, phase) for phase in PHASES},
        "wrong": sum(not each["right"] for each in rounds if each["ended"]),
        "halved": sum(not each["whole"] for each in rounds),
        "endless": sum(not each["ended"] for each in rounds),
        "audit": "whole" if broken is None else str(broken),
    }


def told_of_phase(rounds: Sequence[dict[str, Any]], phase: str) -> dict[str, Any]:
    """Return how many servers were killed in a phase, and in which state that left the plan."""
    left = Counter(each["left"] for each in rounds if each["phase"] == phase)
    return {"kills": left.total(), "plan_was_left": dict(left)}


if __name__ == "__main__":
    main()
