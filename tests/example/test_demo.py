"""``manage.py demo`` and ``manage.py gateway`` as processes of their own: what they start, say, and end with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "token-of-this-test"
KEPT = ("PATH", "HOME", "PYTHONPATH", "LANG", "VIRTUAL_ENV")


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "DATABASE_URL": f"sqlite:///{folder / 'shop.sqlite3'}",
        "STORE_GATEWAY_TOKEN": TOKEN,
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def manage(folder: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Running:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log

    def says(self, pattern: str) -> re.Match[str]:
        end = time.monotonic() + 90
        while not (found := re.search(pattern, self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)
        return found


@contextmanager
def started(folder: Path, *arguments: str, **more: str) -> Iterator[Running]:
    log = folder / "log.txt"
    # Where tests run in the background of a shell, Ctrl-C is ignored, and a child would ignore it, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment(folder, **more),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            text=True,
        )
    signal.signal(signal.SIGINT, before)
    try:
        yield Running(process, log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=30)


def ask(address: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(
        address + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {TOKEN}", **headers},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        found: dict[str, Any] = json.loads(response.read())
        return found


def is_up(address: str) -> bool:
    try:
        return ask(address, "/health") == {"status": "ok"}
    except OSError:
        return False


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "It does not become so."
        time.sleep(0.05)


def first_payment(folder: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(folder / "shop.sqlite3")) as db:
        reference, cents, currency = db.execute(
            "SELECT gateway_reference, amount_cents, currency FROM store_payment WHERE order_id = 1"
        ).fetchone()
    assert cents > 12_000
    return {"payment": reference, "amount_cents": cents, "currency": currency, "reason": ""}


DEMO = ("demo", "--products", "10", "--orders", "5")


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_demo_starts_a_gateway_that_ends_with_it(tmp_path: Path, ending: signal.Signals) -> None:
    port = str(free_port())
    with started(tmp_path, *DEMO, "--port", port) as demo:
        address = demo.says(r"the gateway at (http://127\.0\.0\.1:\d+);")[1]
        line = demo.says(r"curl .*/behave")[0]
        assert f"Bearer {TOKEN}" in line
        assert line.endswith(f"{address}/behave")
        assert is_up(address)
        payment = first_payment(tmp_path)
        made = ask(address, "/refunds", payment, **{"Idempotency-Key": "k1"})
        assert made["status"] == "succeeded"
        subprocess.run(line, shell=True, check=True, capture_output=True, timeout=20)
        assert ask(address, "/behave")["mode"] == "timeout"
        demo.process.send_signal(ending)
        demo.process.wait(timeout=30)
        until(lambda: not is_up(address))
        assert "Traceback" not in demo.log.read_text()
    with started(tmp_path, *DEMO, "--port", port) as demo:  # its books are still there
        again = demo.says(r"the gateway at (http://127\.0\.0\.1:\d+);")[1]
        assert ask(again, "/refunds/by-key/k1") == made


def test_the_web_server_of_the_demo_knows_the_gateway(tmp_path: Path) -> None:
    code = (
        "import sys, django; django.setup()\n"
        "from django.conf import settings\n"
        "from django.core import management\n"
        "from example_project.store.management.commands import demo\n"
        "def call(name, *args, **options):\n"
        "    if name == 'runserver':\n"
        "        from example_project.store import payments\n"
        "        print('up', payments.look_up({}, 'nobody'), settings.STORE_GATEWAY_URL)\n"
        "    else:\n"
        "        management.call_command(name, *args, **options)\n"
        "demo.call_command = call\n"
        f"management.call_command('demo', products=10, orders=5, port={free_port()}, verbosity=0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"up None (http://127\.0\.0\.1:\d+)", done.stdout)
    assert found, done.stdout
    assert not is_up(found[1])


def test_a_gateway_that_is_named_is_used_and_none_is_started(tmp_path: Path) -> None:
    named = f"http://127.0.0.1:{free_port()}"
    with started(tmp_path, *DEMO, "--port", str(free_port()), STORE_GATEWAY_URL=named) as demo:
        assert demo.says(r"the gateway at (\S+);")[1] == named
        demo.says(r"Starting .*server at")
    assert not (tmp_path / "shop-gateway.sqlite3").exists()


def test_setup_only_starts_no_gateway(tmp_path: Path) -> None:
    assert "gateway" not in manage(tmp_path, *DEMO, "--setup-only")
    assert not (tmp_path / "shop-gateway.sqlite3").exists()


def test_a_store_that_is_made_anew_has_new_books(tmp_path: Path) -> None:
    state = tmp_path / "somewhere.sqlite3"
    manage(tmp_path, *DEMO, "--setup-only")
    more = {"STORE_GATEWAY_STATE": str(state)}
    with started(tmp_path, "gateway", "--port", "0", **more) as gateway:
        address = gateway.says(r"Address:\s+(\S+)")[1]
        gateway.says(f"Books:.*{re.escape(str(state))}")
        payment = first_payment(tmp_path)
        made = ask(address, "/refunds", payment, **{"Idempotency-Key": "k1"})
    manage(tmp_path, *DEMO, "--setup-only", **more)
    with contextlib.closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT id FROM refunds").fetchall() == [(made["id"],)]
    for file in tmp_path.glob("shop.sqlite3*"):
        file.unlink()
    manage(tmp_path, *DEMO, "--setup-only", **more)
    with contextlib.closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT id FROM refunds").fetchall() == []


def test_a_gateway_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = subprocess.run(
            [sys.executable, "manage.py", "gateway", "--port", str(taken.getsockname()[1])],
            cwd=ROOT,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "can't be used" in done.stderr
    assert "Traceback" not in done.stderr
