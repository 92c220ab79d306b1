"""``kill``: a server killed while it carries out refunds, again and again, and what became of the money.

A real server process on a real database, a real gateway process, and a client that confirms over HTTP. The
server gets SIGKILL at a random point before, during or after the gateway's work; then it is started again, and
the person confirms once more, as she would, until the plan has ended. After each round there must be one refund
at the gateway and one in the store.

``BENCH_KILLS`` sets how many rounds of each of the three phases are run (100). Of the database see
``bench.audit``.
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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from .report import ROOT, Bound, Effort, Figures, run_child, scratch, whole

PHASES = ("before", "during", "after")
KILLS = 100  # of each phase
TOKEN = "x" * 32  # of the CSRF cookie and header
PATIENCE = 60.0  # seconds until a server answers, or a plan has ended


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

    def has(self, key: str) -> bool:
        """Tell whether it has heard of a key."""
        return self.ask("GET", f"/refunds/by-key/{key}")[0] != 404

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


def kill_at_random(phase: str, server: Server, gateway: Gateway, key: str) -> None:
    """Kill the server at a random point of a phase of the request that was just sent."""
    if phase == "before":
        time.sleep(random.uniform(0, 0.12))
    else:
        until = time.monotonic() + PATIENCE
        while not gateway.has(key) and time.monotonic() < until:
            time.sleep(0.001)
        # During: the gateway works for 0.3 s before it pays. After: it has paid, its answer is on the way.
        time.sleep(random.uniform(0, 0.28) if phase == "during" else random.uniform(0, 0.05))
    server.kill()


def run_round(phase: str, server: Server, gateway: Gateway, person: Person, number: int) -> dict[str, Any]:
    """Propose a refund, confirm it, kill the server, and confirm until the plan has ended."""
    from django.db import connections

    from django_copilot.models import Plan
    from example_project.store.models import Refund

    words = f"Refund payment SO-0000001, amount cents {1 + number % 3}, reason round {number}"
    plan = person.post("/admin/django_copilot/conversation/chat/", {"message": words})["plan"]
    stored = Plan.objects.get(pk=plan["id"])
    key = str(stored.key)
    connections.close_all()
    gateway.ask("POST", "/behave", {"mode": "late", "times": 1 if phase == "during" else 0, "seconds": 0.3})
    with closing(person.send(plan["confirmUrl"], {"digest": plan["digest"]})):
        kill_at_random(phase, server, gateway, key)
    left = str(Plan.objects.get(pk=plan["id"]).state)
    known = gateway.has(key)
    connections.close_all()
    server.start()
    until, state = time.monotonic() + PATIENCE, ""
    while state != "executed" and time.monotonic() < until:
        answer = person.post(plan["confirmUrl"], {"digest": plan["digest"]})
        state = answer.get("plan", {}).get("state", "")
        if state != "executed":
            time.sleep(0.1)
    at_gateway = [
        each for each in gateway.refunds(json.loads(stored.payload)["payment"]) if each["key"] == key
    ]
    in_store = list(Refund.objects.filter(idempotency_key=key).values_list("state", flat=True))
    connections.close_all()
    return {
        "left": left,
        "known": known,
        "ended": state == "executed",
        "right": len(at_gateway) == 1 and in_store == ["succeeded"],
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
    told: dict[str, list[dict[str, Any]]] = {phase: [] for phase in PHASES}
    with gateway_running() as gateway:
        os.environ["STORE_GATEWAY_URL"] = gateway.address
        server = Server()
        person = Person(server, str(session.session_key))
        server.start()
        try:
            for number in range(kills * len(PHASES)):
                phase = PHASES[number % len(PHASES)]
                told[phase].append(run_round(phase, server, gateway, person, number))
        finally:
            server.kill()
    rounds = [each for phase in told.values() for each in phase]
    broken = audit.verify("admin")
    return {
        "database": vendor,
        "kills": len(rounds),
        "phases": {
            phase: {
                "kills": len(each),
                "plan_was_left": dict(Counter(one["left"] for one in each)),
                "gateway_had_the_key": sum(one["known"] for one in each),
            }
            for phase, each in told.items()
        },
        "wrong": sum(not each["right"] for each in rounds if each["ended"]),
        "endless": sum(not each["ended"] for each in rounds),
        "audit": "whole" if broken is None else str(broken),
    }


if __name__ == "__main__":
    main()
