"""``audit``: what an entry of the audit costs, by one writer and by eight at once.

An entry has five values, as that of a proposed plan. What it is compared with are the same rows, stored in a
transaction of their own without a chain. On the server that ``COPILOT_TEST_DATABASE_URL`` names, in a
database made for it and removed at the end; on a SQLite file without it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .report import Bound, Effort, Figures, median, run_child, say, scratch, whole

THREADS = 8
MOST = 4.0  # times the CPU time of the bare rows
MOST_AT_ONCE = 4.0  # times the CPU time of one writer
STATEMENTS = {"mysql": 4}  # else 3


def measure(effort: Effort) -> Figures:
    """Append in fresh processes, one thread and eight taking turns."""
    rounds = (effort.rounds + 1) // 2
    told: list[dict[str, Any]] = []
    with scratch() as folder:
        for number in range(rounds):
            told.append(
                run_child(
                    "bench.audit",
                    settings="bench.settings_audit",
                    database=folder / f"{number}.sqlite3",
                    url=os.environ.get("COPILOT_TEST_DATABASE_URL", ""),
                    repeats=effort.repeats,
                )
            )
            say(f"  round {number + 1} of {rounds}")
    kinds = ("bare", "one", "at_once")
    figures = {
        clock: {kind: median([each[clock][kind] for each in told], 3) for kind in kinds}
        for clock in ("wall_ms", "cpu_ms")
    }
    ratio = median([each["cpu_ms"]["one"] / each["cpu_ms"]["bare"] for each in told])
    at_once = median([each["cpu_ms"]["at_once"] / each["cpu_ms"]["one"] for each in told])
    vendor = told[0]["vendor"]
    return Figures(
        name="audit",
        results={
            "database": vendor,
            "threads_at_once": THREADS,
            "per_entry": figures,
            "statements": told[0]["statements"],
            "entries_of_each": rounds * told[0]["entries"],
        },
        bounds=(
            Bound(
                what="statements of an append",
                value=max(each["statements"] for each in told),
                limit=STATEMENTS.get(vendor, 3),
            ),
            Bound(
                what=f"gaps and forks after {THREADS} threads at once",
                value=sum(each["broken"] for each in told),
                limit=0,
            ),
            Bound(what="CPU time of an entry, times that of the same rows bare", value=ratio, limit=MOST),
            Bound(
                what=f"CPU time of an entry with {THREADS} threads, times that with one",
                value=at_once,
                limit=MOST_AT_ONCE,
            ),
        ),
    )


def child() -> None:
    """Measure in this process and print the figures."""
    import django

    django.setup()
    from django.db import connection

    url = os.environ["BENCH_URL"]
    name = connection.settings_dict["NAME"]
    if url:
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
    else:
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
    try:
        print(json.dumps(_measured(whole("repeats"))))
    finally:
        if url:
            connection.creation.destroy_test_db(name, verbosity=0)


def _measured(repeats: int) -> dict[str, Any]:
    from django.db import connection, connections, transaction
    from django.test.utils import CaptureQueriesContext
    from django.utils import timezone

    from django_copilot import audit
    from django_copilot.audit.records import rows_of
    from django_copilot.models import AuditEntry, AuditValue

    values = (
        audit.Value(name="words", value="Refund order 1007 for Anna Nowak, 25.00", person="7"),
        audit.Value(name="argument order", value="1007", person="7"),
        audit.Value(name="argument amount", value="25.00", person="7"),
        audit.Value(name="old status", value="paid", label="store.order", object_pk="3", field="status"),
        audit.Value(name="new status", value="refunded", label="store.order", object_pk="3", field="status"),
    )
    record = audit.Record(
        event="proposed",
        actor="7",
        tool="propose_refund",
        plan="e22660ec-a42f-459b-9c23-33c0edd673be",
        about={"digest": "0" * 64, "version": "0" * 64, "rows": 1, "bytes": 400},
        values=values,
    )
    made = [0]
    at = timezone.now()

    def bare() -> None:
        """Store rows as an entry has them, made beforehand."""
        made[0] += 1
        entry, its = ready[made[0]]
        with transaction.atomic():
            AuditEntry.objects.bulk_create([entry])
            for each in its:
                each.entry = entry
            AuditValue.objects.bulk_create(its)

    def append() -> None:
        audit.append("admin", "", record)

    def timed(work: Callable[[], None], count: int) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            work()
        return (time.perf_counter() - wall) * 1000 / count, (time.process_time() - cpu) * 1000 / count

    def at_once(count: int) -> tuple[float, float]:
        gate = threading.Barrier(THREADS + 1)
        failed: list[Exception] = []

        def run() -> None:
            connection.ensure_connection()
            gate.wait()
            try:
                for _ in range(count):
                    append()
            except Exception as error:
                failed.append(error)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=run) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        gate.wait()
        wall, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.join()
        entries = count * THREADS
        if failed:
            raise failed[0]
        return (time.perf_counter() - wall) * 1000 / entries, (time.process_time() - cpu) * 1000 / entries

    entries = repeats * THREADS
    ready = [
        rows_of(record, site="bare", scope_key="", number=number + 1, previous="", at=at)
        for number in range(entries + 6)
    ]
    for work in (bare, append):
        timed(work, 5)  # the first ones compile statements and open files
    with CaptureQueriesContext(connection) as queries:
        append()
    words = [each["sql"].split(maxsplit=1)[0] for each in queries.captured_queries]
    found = {"bare": timed(bare, entries), "one": timed(append, entries), "at_once": at_once(repeats)}
    return {
        "vendor": connection.vendor,
        "statements": sum(word not in ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE") for word in words),
        "wall_ms": {kind: wall for kind, (wall, _cpu) in found.items()},
        "cpu_ms": {kind: cpu for kind, (_wall, cpu) in found.items()},
        "entries": entries,
        "broken": int(audit.verify("admin") is not None),
    }


if __name__ == "__main__":
    child()
