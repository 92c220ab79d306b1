"""What every test gets: no way out to the network, and a small example store for those who ask.

Tests marked ``browser`` or ``postgres`` are skipped, with the reason, where that is missing. With
``COPILOT_TEST_REQUIRE=browser,postgres`` such a skip is a failure, and so is a run that had none of them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.test import Client
from django.utils import timezone, translation

from . import kept_store

hypothesis.settings.register_profile("suite", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("suite")

E2E = Path(__file__).parent / "e2e"
REQUIRED = {name for name in os.environ.get("COPILOT_TEST_REQUIRE", "").split(",") if name}
_passed: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from django.conf import settings

    on_postgres = settings.DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"
    for item in items:
        if E2E in item.path.parents:
            item.add_marker(pytest.mark.browser)
        if not on_postgres and item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.skip(reason="COPILOT_TEST_DATABASE_URL names no PostgreSQL server"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    wanted = sorted(name for name in REQUIRED if item.get_closest_marker(name))
    if report.skipped and wanted:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{' and '.join(wanted)} required (COPILOT_TEST_REQUIRE), but: {reason}"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # Where tests run in several processes, the one that counts hears of them only here.
    if report.when == "call" and report.passed:
        _passed.update(name for name in REQUIRED if name in report.keywords)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return
    missing = sorted(REQUIRED - _passed)
    if missing and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name in sorted(REQUIRED - _passed):
        terminalreporter.write_line(f"COPILOT_TEST_REQUIRE: no test marked {name} passed.", red=True)


class NetworkBlockedError(OSError):
    """Say that a test tried to leave this machine."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let sockets reach 127.0.0.1 only, and fail the test even if the code under test hid the error.

    Gives the list of the hosts that were tried.
    """
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo
    tried: list[str] = []

    def check(host: object) -> None:
        if host not in ("127.0.0.1", "::1", "localhost", "", None):
            tried.append(str(host))
            raise NetworkBlockedError(f"A test tried to reach {host}.")

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                check(address[0])
            return method(self, address)

        return call

    def look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        check(host.decode() if isinstance(host, bytes) else host)
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", checked(connect))
    monkeypatch.setattr(socket.socket, "connect_ex", checked(connect_ex))
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield tried
    assert not tried, f"The test tried to reach {', '.join(tried)}."


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
    """Leave no test the language and time zone in which the one before was answered: a request sets them to stay."""
    yield
    translation.deactivate()
    timezone.deactivate()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Make the test database as pytest-django does, and keep an example store beside it."""
    with django_db_blocker.unblock():
        kept_store.keep()


@pytest.fixture
def store(db: None) -> kept_store.Store:
    """Fill the database with the example store, small, and return it."""
    return kept_store.fill()


@pytest.fixture
def login(store: kept_store.Store) -> Callable[[str], Client]:
    """Return a function that gives a test client with that account logged in."""

    def login(username: str) -> Client:
        client = Client()
        client.force_login(store.user(username))
        return client

    return login
