"""Run benchmarks by name: one JSON object per line, exit status 1 when a bound does not hold."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import audit, kill, page, request, start, turn
from .report import FULL, TINY, Benchmark, say

BENCHMARKS: dict[str, tuple[str, Benchmark]] = {
    "import": ("CPU time to start the example, with the app and without it", start.measure),
    "page": ("what the panel adds to an admin page", page.measure),
    "turn": ("SQL statements and server CPU of a turn", turn.measure),
    "request": ("size of what the model is asked with", request.measure),
    "audit": ("what an entry of the audit costs, by one writer and by eight at once", audit.measure),
    "kill": ("refunds of a server that is killed, and what became of the money", kill.measure),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the arguments name. Returns the exit status: 2 for a wrong name, 1 for a broken bound."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure what the package promises, against its bounds."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure; see --list")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")
    parser.add_argument("--tiny", action="store_true", help="only show that they work; figures mean nothing")
    given = parser.parse_args(argv)
    if given.list:
        for name, (what, _measure) in BENCHMARKS.items():
            print(f"{name:8} {what}")
        return 0
    if not given.names:
        parser.error(f"name one or more of {', '.join(BENCHMARKS)}, or use --list")
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    held = True
    for name in given.names:
        say(f"{name}: {BENCHMARKS[name][0]}")
        figures = BENCHMARKS[name][1](TINY if given.tiny else FULL)
        print(figures.to_line(), flush=True)
        for bound in figures.bounds:
            say(f"  {'holds' if bound.holds else 'BROKEN'}: {bound.what}: {bound.value} of {bound.limit}")
        held = held and figures.holds
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
