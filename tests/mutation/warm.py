"""A process in which everything is imported and instrumented once; each test run is a fork of it.

What takes most of a short run is starting: importing, collecting, migrating. Here it is done once. A fork has
a copy of the migrated database, its own guards off, and ends by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header", "--tb=short", "-rN")


class NotReady(Exception):
    """The tests can't even be collected."""


@dataclass
class Ended:
    """How a test run ended: pytest's exit status, "timeout" where it took too long, and what was written down."""

    status: int | str
    output: str
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> set[str]:
        """Return the ids of the guards that the run came upon."""
        return set(self.told.get("guards", ()))


@dataclass
class Running:
    """A run under way."""

    pid: int
    folder: Path
    until: float
    given: Any = None


class Warm:
    """Forks of this process run tests. Only one per process, and before anything of the package is imported."""

    def __init__(self, tests: Sequence[str]) -> None:
        from . import switch

        os.chdir(ROOT)
        os.environ.pop("COPILOT_TEST_DATABASE_URL", None)  # a database is a file that can be copied
        os.environ.pop(
            "PYTEST_ADDOPTS", None
        )  # a fork runs its tests itself: no worker would see what is off
        switch.install()
        self.folder = Path(tempfile.mkdtemp(prefix="copilot-mutation-"))
        self.tests: list[str] = []
        self._running: list[Running] = []
        self._collect(tests)
        self._template = self.folder / "template.sqlite3"
        ended = self.wait(self._fork(self._make_database, seconds=300))
        if ended.status or not self._template.is_file():
            raise NotReady(f"The test database can't be made:\n{ended.output}")

    def close(self) -> None:
        """End what still runs, and remove what was written."""
        for each in self._running:
            os.kill(each.pid, signal.SIGKILL)
            os.waitpid(each.pid, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(
        self,
        tests: Sequence[str],
        *,
        off: Sequence[str] = (),
        stop: bool = True,
        seconds: float,
        given: Any = None,
    ) -> Running:
        """Start a run of these tests, in this order, with these guards off. ``stop`` ends it at the first red one."""
        return self._fork(lambda folder: self._test(folder, tests, off, stop), seconds=seconds, given=given)

    def wait(self, running: Running | None = None) -> Ended:
        """Wait for a run and return how it ended."""
        assert running is not None
        while (ended := self._look(running)) is None:
            time.sleep(0.02)
        return ended

    def next(self) -> tuple[Running, Ended]:
        """Wait for whichever run ends first."""
        while True:
            for each in self._running:
                ended = self._look(each)
                if ended is not None:
                    return each, ended
            time.sleep(0.02)

    @property
    def busy(self) -> int:
        """Return how many runs are under way."""
        return len(self._running)

    # -- in this process ---------------------------------------------------------------------------------

    def _collect(self, tests: Sequence[str]) -> None:
        found = self.tests

        class Collected:
            @pytest.hookimpl(trylast=True)
            def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
                found.extend(each.nodeid for each in items if not each.get_closest_marker("browser"))

        log = self.folder / "collect.txt"
        with log.open("w+") as out:
            kept = os.dup(1), os.dup(2)
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            try:
                status = pytest.main([*OPTIONS, "--collect-only", *tests], plugins=[Collected()])
            finally:
                for number, each in zip((1, 2), kept, strict=True):
                    os.dup2(each, number)
                    os.close(each)
        if status != pytest.ExitCode.OK:
            raise NotReady(f"The tests can't be collected:\n{log.read_text('utf-8')[-4000:]}")

    def _fork(self, work: Callable[[Path], int], *, seconds: float, given: Any = None) -> Running:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        pid = os.fork()
        if not pid:
            status = 70
            try:
                out = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
                os.dup2(out, 1)
                os.dup2(out, 2)
                os.setsid()
                status = work(folder)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(status)
        running = Running(pid=pid, folder=folder, until=time.monotonic() + seconds, given=given)
        self._running.append(running)
        return running

    def _look(self, running: Running) -> Ended | None:
        pid, raw = os.waitpid(running.pid, os.WNOHANG)
        status: int | str = os.waitstatus_to_exitcode(raw) if pid else 0
        if not pid:
            if time.monotonic() < running.until:
                return None
            os.killpg(running.pid, signal.SIGKILL)
            os.waitpid(running.pid, 0)
            status = "timeout"
        self._running.remove(running)
        output = (running.folder / "output.txt").read_text("utf-8", "replace")
        report = running.folder / "report.json"
        told = json.loads(report.read_text("utf-8")) if report.is_file() else {}
        shutil.rmtree(running.folder, ignore_errors=True)
        return Ended(status=status, output=output, told=told)

    # -- in a fork ---------------------------------------------------------------------------------------

    def _use(self, path: Path) -> None:
        """Make this process's database that file."""
        from django.conf import settings
        from django.db import connections

        own = settings.DATABASES["default"]
        for each in (own, connections["default"].settings_dict):
            each["NAME"] = str(path)
            each["TEST"]["NAME"] = str(path)

    def _make_database(self, folder: Path) -> int:
        from django.db import connections
        from django.test.utils import setup_databases
        from pytest_django.plugin import DjangoDbBlocker

        from tests import kept_store

        path = folder / "made.sqlite3"
        self._use(path)
        with DjangoDbBlocker(_ispytest=True).unblock():
            setup_databases(verbosity=0, interactive=False)
            kept_store.keep()
            connections.close_all()
        shutil.copyfile(path, self._template)
        return 0

    def _test(self, folder: Path, tests: Sequence[str], off: Sequence[str], stop: bool) -> int:
        import django.test.utils

        from tests import kept_store

        from . import switch
        from .watch import Watch

        path = folder / "copy.sqlite3"
        shutil.copyfile(self._template, path)
        self._use(path)
        # The copy is what setting up would have made.
        django.test.utils.setup_databases = lambda *args, **kwargs: []
        django.test.utils.teardown_databases = lambda *args, **kwargs: None
        kept_store.keep = lambda: None
        switch.turn_off(*off)
        watch = Watch(tests, folder / "report.json")
        files = list(dict.fromkeys(each.partition("::")[0] for each in tests))
        options = [*OPTIONS, "--timeout=120", *(["-x"] if stop else []), f"--basetemp={folder / 'tmp'}"]
        status = int(pytest.main([*options, *files], plugins=[watch]))
        return status
