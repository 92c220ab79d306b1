"""Many who append at once: real threads, real transactions, no gap and no fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections, transaction

from django_copilot import audit
from django_copilot.audit import chain as appending
from django_copilot.models import AuditEntry, AuditValue

from .chains import SITE, chain, record

THREADS = 8
ROUNDS = 25

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Exception]:
    """Run the work in threads that start together, and return what went wrong."""
    gate = threading.Barrier(threads, timeout=30)
    errors: list[Exception] = []

    def run(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    started = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(120)
        assert not thread.is_alive()
    return errors


def numbers(site: str = SITE) -> list[int]:
    return list(AuditEntry.objects.filter(site=site).order_by("number").values_list("number", flat=True))


def append_rounds(number: int) -> None:
    """Append in autocommit, within a transaction, to two sites, and within one that fails."""
    for turn in range(ROUNDS):
        audit.append(SITE, "", record(number), record(number, values=()))
        with transaction.atomic():
            audit.append("other", "", record(number))
        if turn % 5 == 0:
            with transaction.atomic():
                audit.append(SITE, "", record(number))
                transaction.set_rollback(True)


def check_all_there() -> None:
    assert numbers() == list(range(1, 2 * THREADS * ROUNDS + 1))
    assert numbers("other") == list(range(1, THREADS * ROUNDS + 1))
    assert AuditValue.objects.count() == 3 * 2 * THREADS * ROUNDS
    for site in (SITE, "other"):
        assert audit.verify(site) is None


def test_eight_threads_leave_no_gap_and_no_fork() -> None:
    assert at_once(append_rounds) == []
    check_all_there()


@pytest.mark.postgres
def test_eight_threads_leave_no_gap_and_no_fork_on_postgresql() -> None:
    assert connection.vendor == "postgresql"
    assert at_once(append_rounds) == []
    check_all_there()


@pytest.mark.postgres
def test_more_threads_than_attempts_find_their_place() -> None:
    """Where a lock that was waited for gives what was last before, each waits once and then looks."""
    assert at_once(lambda number: [chain(1) for _ in range(10)], threads=2 * appending.ATTEMPTS) == []
    assert numbers() == list(range(1, 20 * appending.ATTEMPTS + 1))
    assert audit.verify(SITE) is None


@pytest.mark.parametrize("turn", range(10))
def test_the_first_entry_of_a_site_may_be_written_by_all_at_once(turn: int) -> None:
    assert at_once(lambda number: audit.append(SITE, "", record(number))) == []
    assert numbers() == list(range(1, THREADS + 1))
    assert audit.verify(SITE) is None


def test_appending_and_erasing_at_once() -> None:
    chain(10)

    def work(number: int) -> None:
        for turn in range(10):
            if number == 0:
                audit.erase(person="7")
            elif number == 1:
                assert audit.verify(SITE) is None
            else:
                audit.append(SITE, "", record(turn))

    assert at_once(work) == []
    assert audit.verify(SITE) is None


def test_sqlite_that_locks_late_has_no_gap_and_no_fork_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Django's default, where a transaction that has read first may not write any more."""
    if connection.vendor != "sqlite":
        pytest.skip("this is about SQLite")
    for mode in ("wal", "delete"):
        _run_in_child(tmp_path / f"{mode}.sqlite3", mode)


def _run_in_child(database: Path, mode: str) -> None:
    import os
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.audit.deferred", str(database), mode],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_waited_for_the_last_entry_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a lock that was waited for gives the entry that was last before."""
    chain(3)
    seen: list[bool] = []
    last = appending.lock_end

    def stale(site: str, *, using: str, certain: bool) -> Any:
        seen.append(certain)
        return last(site, using=using, certain=certain) if certain else AuditEntry.objects.get(number=2)

    monkeypatch.setattr(appending, "lock_end", stale)
    with transaction.atomic():
        audit.append(SITE, "", record(4))
        AuditEntry.objects.update(scope_key="")  # the transaction is of use still
    assert seen == [False, True]
    assert numbers() == [1, 2, 3, 4]
    assert audit.verify(SITE) is None


def test_it_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    chain(3)
    seen: list[bool] = []

    def stale(site: str, *, using: str, certain: bool) -> Any:
        seen.append(certain)
        return AuditEntry.objects.get(number=2)

    monkeypatch.setattr(appending, "lock_end", stale)
    from django.db import IntegrityError

    with pytest.raises(IntegrityError):
        audit.append(SITE, "", record(4))
    assert len(seen) == appending.ATTEMPTS
    assert numbers() == [1, 2, 3]
