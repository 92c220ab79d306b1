"""``import``: the CPU time of starting the example, against the same project without the package.

A start is ``django.setup()`` and every address: the root URLconf, and with it the admins of all apps.
"""

from __future__ import annotations

import json
import sys
import time
import types

from .report import Bound, Effort, Figures, median, run_child, say, scratch

LATE = ("openai", "httpx", "httpx2", "pydantic", "rest_framework.views")  # nothing of a start imports them


def measure(effort: Effort) -> Figures:
    """Start the example with and without the package, taking turns."""
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    early: set[str] = set()
    with scratch() as folder:
        for number in range(effort.rounds + 1):
            for kind, settings in (("with", "bench.settings"), ("without", "bench.settings_without")):
                told = run_child("bench.start", settings=settings, database=folder / "db.sqlite3")
                if number:  # the first ones compile the modules
                    seconds[kind].append(told["cpu_seconds"])
                if kind == "with":
                    early.update(told["early"])
            say(f"  start {number} of {effort.rounds}")
    ratio = median([a / b for a, b in zip(seconds["with"], seconds["without"], strict=True)], 3)
    return Figures(
        name="import",
        results={
            "with_ms": median([each * 1000 for each in seconds["with"]], 1),
            "without_ms": median([each * 1000 for each in seconds["without"]], 1),
            "ratio": ratio,
            "imported_at_start": sorted(early),
            "starts": effort.rounds,
        },
        bounds=(
            Bound(what="CPU time of a start, times that without the app", value=ratio, limit=1.3),
            Bound(what=f"modules imported at start of {', '.join(LATE)}", value=len(early), limit=0),
        ),
    )


def _stand_in() -> None:
    """Let the store's admin import a mixin that does nothing, where the package is not to be loaded."""
    package, admin = types.ModuleType("django_copilot"), types.ModuleType("django_copilot.admin")
    package.__path__ = []
    admin.HarnessMixin = type("HarnessMixin", (), {})  # type: ignore[attr-defined]
    sys.modules |= {"django_copilot": package, "django_copilot.admin": admin}


def child() -> None:
    """Start once and print the CPU time."""
    import os

    if os.environ["DJANGO_SETTINGS_MODULE"].endswith("_without"):
        _stand_in()
    begun = time.process_time()
    import django

    django.setup()
    from django.urls import get_resolver

    get_resolver()._populate()
    spent = time.process_time() - begun
    print(json.dumps({"cpu_seconds": spent, "early": [name for name in LATE if name in sys.modules]}))


if __name__ == "__main__":
    child()
