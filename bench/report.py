"""What every benchmark shares: figures with bounds, processes of their own, and medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROFILE = "BENCH_PROFILE"  # set: a child prints where its time went, on stderr


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One promise: ``value`` is at most ``limit``."""

    what: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        """Tell whether the promise is kept."""
        return self.value <= self.limit

    def to_json(self) -> dict[str, Any]:
        """Return what is printed of it."""
        return {"what": self.what, "value": self.value, "limit": self.limit, "holds": self.holds}


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one benchmark found."""

    name: str
    results: dict[str, Any]
    bounds: Sequence[Bound] = field(default_factory=tuple)

    @property
    def holds(self) -> bool:
        """Tell whether every bound holds."""
        return all(bound.holds for bound in self.bounds)

    def to_line(self) -> str:
        """Return the one line of JSON that is printed."""
        bounds = [bound.to_json() for bound in self.bounds]
        return json.dumps({"name": self.name, "results": self.results, "bounds": bounds}, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured. The figures of a tiny effort show that a benchmark works, and no more."""

    rounds: int  # fresh processes of each kind, taking turns
    repeats: int  # of one piece of work in a process
    entities: tuple[int, int]  # declared models: few and many


FULL = Effort(rounds=9, repeats=20, entities=(3, 300))
TINY = Effort(rounds=1, repeats=2, entities=(3, 30))

Benchmark = Callable[[Effort], Figures]


def say(text: str) -> None:
    """Tell whoever waits how far it is."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="django-copilot-bench-") as folder:
        yield Path(folder)


def environment_for(*, settings: str, database: Path, **values: object) -> dict[str, str]:
    """Return the variables of a child: ``values`` as BENCH_*, and nothing of the caller's own project.

    Left out are settings, keys, models, databases, and proxies.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COPILOT_", "BENCH_", "DJANGO_", "PYTHON", "DATABASE_URL"))
        and not name.lower().endswith("_proxy")
    }
    if os.environ.get(PROFILE):
        environment[PROFILE] = os.environ[PROFILE]
    return environment | {
        "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": settings,
        "DATABASE_URL": f"sqlite:///{database}",
        **{f"BENCH_{name.upper()}": str(value) for name, value in values.items()},
    }


def run_child(module: str, *, settings: str, database: Path, **values: object) -> Any:
    """Run ``python -m module`` in a fresh process and return the JSON of its last line.

    Raises RuntimeError, with what the process wrote, when it fails.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", module],
        cwd=database.parent,
        env=environment_for(settings=settings, database=database, **values),
        capture_output=True,
        text=True,
    )
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(f"python -m {module} ended with {done.returncode}.\n{done.stdout}{done.stderr}")
    if done.stderr:
        say(done.stderr.rstrip())
    return json.loads(done.stdout.splitlines()[-1])


def median(values: Sequence[float], digits: int = 2) -> float:
    """Return the median, rounded."""
    return round(statistics.median(values), digits)


def whole(name: str) -> int:
    """Return a BENCH_* variable of this child."""
    return int(os.environ[f"BENCH_{name.upper()}"])
