"""The mutation run: each guard is taken away in turn, and the tests must go red."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import guards
from .guards import Guard, guards_of
from .warm import ROOT, Ended, NotReady, Warm

LONGEST = 200.0  # seconds of one run in which a guard is off, of the table
# Where the tests of the files with guards are; what needs a browser is left out.
FOLDERS = (
    *("tests/access", "tests/gate", "tests/plans", "tests/tools", "tests/projects"),
    *("tests/forms", "tests/audit", "tests/api", "tests/runtime", "tests/switch", "tests/example"),
    *("tests/test_people.py", "tests/test_scope.py", "tests/test_checks.py", "tests/test_headless.py"),
    *("tests/test_identity.py",),
)


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Guards that are taken away at once, and the tests that must notice. ``number`` is of an invariant."""

    number: int = 0
    guards: tuple[str, ...]
    tests: tuple[str, ...] = ()
    why: str = ""  # several guards hold one rule

    @property
    def name(self) -> str:
        """Return what the removal is called in what is printed."""
        return " + ".join(self.guards)


@dataclass
class Result:
    """What became of one removal: killed, survived, unreached (no test comes upon it), or error."""

    what: str
    result: str
    by: str = ""
    source: str = ""
    seconds: float = 0.0
    detail: str = ""


@dataclass
class State:
    """What is kept between runs of ``--all``: which test comes upon which guard, and what was found."""

    files: dict[str, str] = field(default_factory=dict)  # test file → digest of its text
    asked: dict[str, list[str]] = field(default_factory=dict)  # test → guards
    seconds: dict[str, float] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> State:
        """Read what an earlier run has left, if it has."""
        state = cls()
        if path is not None and path.is_file():
            state.results = json.loads(path.read_text("utf-8"))
        reach = _reach(path)
        if reach is not None and reach.is_file():
            kept = json.loads(reach.read_text("utf-8"))
            state.files, state.seconds, names = kept["files"], kept["seconds"], kept["guards"]
            state.asked = {name: [names[each] for each in asked] for name, asked in kept["asked"].items()}
        return state

    def save_results(self, path: Path | None) -> None:
        """Write down what was found."""
        if path is not None:
            _write(path, self.results)

    def save_reach(self, path: Path | None) -> None:
        """Write down which tests come upon which guards, beside the results: it is long, and changes seldom."""
        reach = _reach(path)
        if reach is not None:
            names = sorted({each for asked in self.asked.values() for each in asked})
            places = {name: place for place, name in enumerate(names)}
            asked = {name: [places[each] for each in asked] for name, asked in self.asked.items()}
            _write(reach, {"files": self.files, "seconds": self.seconds, "guards": names, "asked": asked})


def _reach(path: Path | None) -> Path | None:
    return path.with_name(f"{path.stem}-reach.json") if path is not None else None


def _write(path: Path, value: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value), "utf-8")
    new.replace(path)


def say(text: str) -> None:
    print(text, flush=True)


def judge(removal: Removal, ended: Ended) -> Result:
    """Tell what a run says about what was taken away. Red is only a failing test that came upon it."""
    made = Result(what=removal.name, result="error", source=_sources(removal))
    came_upon = set(removal.guards) & ended.asked
    if ended.status == "timeout":
        # Without an end there is no report; that it hangs is noticed by whoever waits for the tests.
        made.result, made.by = "killed", "it did not end"
    elif ended.status == 1 and ended.told.get("failed"):
        made.result, made.by = ("killed", ended.told["failed"]) if came_upon else ("error", "")
        made.detail = "" if came_upon else f"red, but no test came upon it: {ended.told['failed']}"
    elif ended.status == 0 and came_upon == set(removal.guards):
        made.result = "survived"
    elif ended.status == 0:
        made.result, made.detail = "unreached", "no test came upon it where it makes a difference"
    else:
        made.detail = f"exit status {ended.status}\n{ended.output[-2000:]}"
    return made


def _sources(removal: Removal) -> str:
    known = {each.id: each for path in guards.FILES for each in guards_of(path)}
    found = [known[each] for each in removal.guards if each in known]
    return "\n".join(f"django_copilot/{each.path}:{each.line}: {each.kind}: {each.source}" for each in found)


class Run:
    """Removals under way, at most so many at once."""

    def __init__(self, warm: Warm, jobs: int) -> None:
        self.warm, self.jobs = warm, jobs
        self.results: list[Result] = []

    def all(self, work: Iterator[tuple[Removal, Sequence[str], float]]) -> Iterator[Result]:
        """Take each away in turn and give what became of it, as it ends."""
        for removal, tests, seconds in work:
            if not tests:
                yield Result(
                    removal.name,
                    "unreached",
                    source=_sources(removal),
                    detail="no test comes upon it where it makes a difference",
                )
                continue
            while self.warm.busy >= self.jobs:
                yield self._next()
            given = removal, time.monotonic()
            self.warm.start(tests, off=removal.guards, seconds=seconds, given=given)
        while self.warm.busy:
            yield self._next()

    def _next(self) -> Result:
        running, ended = self.warm.next()
        removal, began = running.given
        made = judge(removal, ended)
        made.seconds = round(time.monotonic() - began, 1)
        return made


def show(result: Result, number: int, of: int) -> None:
    """Print one result: a killed one on one line, another with its source."""
    end = f"  by {result.by.removeprefix('tests/')}" if result.by else ""
    say(f"{number:4}/{of} {result.seconds:5.1f}s {result.result:9} {result.what}{end}")
    if result.result != "killed":
        for line in (result.source + ("\n" + result.detail if result.detail else "")).splitlines():
            say(f"           {line}")


def matches(node: str, wanted: Sequence[str]) -> bool:
    """Tell whether a test is one of the named tests, files and folders."""
    return any(node == each or node.startswith((f"{each}::", f"{each}/", f"{each}[")) for each in wanted)


def run_table(table: Sequence[Removal], args: argparse.Namespace) -> int:
    """Run the removals of the table, each against the tests that it names."""
    chosen = [each for each in table if not args.only or _is_chosen(each, args.only)]
    if not chosen:
        say("Nothing is called that.")
        return 2
    known = {each.id for path in guards.FILES for each in guards_of(path)}
    gone = [each for removal in chosen for each in removal.guards if each not in known]
    if gone:
        say("There is no such guard: " + "\n".join(gone))
        return 2
    wanted = list(dict.fromkeys(test for each in chosen for test in each.tests))
    warm = Warm(wanted)
    try:
        say(f"{len(warm.tests)} tests without a change …")
        state = State()
        if _record(warm, state, warm.tests, args.jobs):
            return 2
        run, results = Run(warm, args.jobs), []
        for result in run.all(_of_table(chosen, state)):
            if result.result == "unreached":
                result.result = "error"  # the tests that are named do not even come upon it
            results.append(result)
            show(result, len(results), len(chosen))
    finally:
        warm.close()
    if args.json:
        args.json.write_text(json.dumps([asdict(each) for each in results], indent=1), "utf-8")
    return verdict(results)


def _of_table(chosen: Sequence[Removal], state: State) -> Iterator[tuple[Removal, Sequence[str], float]]:
    for removal in chosen:
        off = set(removal.guards)
        tests = [
            name for name, asked in state.asked.items() if off & set(asked) and matches(name, removal.tests)
        ]
        yield removal, sorted(tests, key=lambda each: state.seconds.get(each, 0.0)), LONGEST


def _is_chosen(removal: Removal, only: Sequence[str]) -> bool:
    return any(each in (str(removal.number), *removal.guards) or each in removal.name for each in only)


def _record(warm: Warm, state: State, tests: Sequence[str], jobs: int, keep: Path | None = None) -> set[str]:
    """Run tests with every guard in its place, file by file, and keep which guards each comes upon.

    Returns the files that are red.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for each in tests:
        files[each.partition("::")[0]].append(each)
    waiting, red = list(files), set()
    while waiting or warm.busy:
        while waiting and warm.busy < jobs:
            name = waiting.pop()
            warm.start(files[name], stop=False, seconds=1_800, given=name)
        running, ended = warm.next()
        names = list(ended.told.get("guards", ()))
        for name, asked in ended.told.get("asked", {}).items():
            if ended.told["outcomes"][name] == "failed":
                say(f"red without a change: {name}")
            elif ended.told["outcomes"][name] == "passed":
                state.asked[name] = [names[each] for each in asked]
                state.seconds[name] = ended.told["seconds"][name]
        if ended.status:
            red.add(running.given)
            say(ended.output[-3_000:])
        else:
            state.files[running.given] = _digest(running.given)
            state.save_reach(keep)
    return red


# -- all of them ------------------------------------------------------------------------------------------


def run_all(args: argparse.Namespace) -> int:
    """Take every guard away in turn, each against the tests that come upon it, the likeliest first."""
    from .equivalent import EQUIVALENT

    folders = args.tests or [each for each in FOLDERS if (ROOT / each).exists()]
    state = State.load(args.json)
    warm = Warm(folders)
    try:
        now = {name: _digest(name) for name in {each.partition("::")[0] for each in warm.tests}}
        for name in [each for each in state.asked if each not in warm.tests or _is_old(each, state, now)]:
            del state.asked[name]
        missing = [each for each in warm.tests if _is_old(each, state, now)]
        red = set()
        if missing:
            say(f"{len(missing)} of {len(warm.tests)} tests without a change …")
            red = _record(warm, state, missing, args.jobs, args.json)
        chosen = [
            each
            for path in (guards.FILES if args.wide else guards.CORE)
            for each in guards_of(path)
            if not args.only or any(part in each.id for part in args.only)
        ]
        todo = [
            each for each in chosen if not _is_done(each, state, args.again) and each.id not in EQUIVALENT
        ]
        say(f"{len(chosen)} guards, {len(todo)} to take away")
        run = Run(warm, args.jobs)
        for number, result in enumerate(run.all(_of_all(todo, state, args.seconds)), 1):
            show(result, number, len(todo))
            state.results[result.what] = asdict(result)
            state.save_results(args.json)
    finally:
        warm.close()
    results = [
        Result(**state.results[each.id])
        for each in chosen
        if each.id in state.results and each.id not in EQUIVALENT
    ]
    ends = verdict(results)
    return 2 if red else ends


def _is_old(test: str, state: State, now: dict[str, str]) -> bool:
    name = test.partition("::")[0]
    return state.files.get(name) != now.get(name)


def _digest(name: str) -> str:
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()[:16]


def _is_done(guard: Guard, state: State, again: bool) -> bool:
    found = state.results.get(guard.id, {}).get("result")
    return found == "killed" or (found in ("survived", "unreached") and not again)


def _within(tests: Sequence[str], state: State, most: float) -> tuple[Sequence[str], float]:
    """Return the first tests that take no longer together, at least one, and what they take."""
    takes = 0.0
    for number, each in enumerate(tests):
        takes += state.seconds.get(each, 0.0)
        if takes > most and number:
            return tests[:number], takes
    return tests, takes


def _of_all(
    todo: Sequence[Guard], state: State, most: float
) -> Iterator[tuple[Removal, Sequence[str], float]]:
    coming: dict[str, list[str]] = defaultdict(list)
    for name, asked in state.asked.items():
        for ident in asked:
            coming[ident].append(name)
    breadth = {name: len(asked) for name, asked in state.asked.items()}
    for guard in todo:
        # First who has noticed one in the same function or of the same text, then the tests that are of this
        # file by their name or of guards alone, then those of its folder, then who comes upon little.
        folder, stem = Path(guard.path).parts[0].removesuffix(".py"), Path(guard.path).stem
        path, function, _number, text = guard.id.split(":", 3)
        noticed = {
            made["by"]
            for ident, made in state.results.items()
            if made["by"] and (ident.startswith(f"{path}:{function}:") or ident.endswith(f":{text}"))
        }

        def order(
            name: str, folder: str = folder, stem: str = stem, noticed: set[str] = noticed
        ) -> tuple[Any, ...]:
            file = name.partition("::")[0]
            return (
                name not in noticed,
                ("test_guards" not in file) + (stem not in file),
                folder not in file,
                breadth[name] // 50,
                state.seconds.get(name, 0.0),
            )

        tests = sorted(coming[guard.id], key=order)
        tests, takes = _within(tests, state, most)
        yield Removal(guards=(guard.id,)), tests, 60 + 3 * takes


def verdict(results: Sequence[Result]) -> int:
    """Print the sum. Return 0 when everything was noticed, 1 when something was not, 2 when that is not known."""
    counts: dict[str, int] = defaultdict(int)
    for each in results:
        counts[each.result] += 1
    left = [each for each in results if each.result != "killed"]
    if left:
        say("")
        for each in left:
            say(f"{each.result}: {each.what}")
    say(", ".join(f"{number} {name}" for name, number in sorted(counts.items())) or "nothing was run")
    if counts["error"] or not results:
        return 2
    return 1 if left else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Return the exit status: 1 for a survivor, 2 for a run that says nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every guard that is found, not only the table's")
    parser.add_argument("--only", action="append", metavar="ID", help="an id or part of one, or an invariant")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write results; --all goes on from there")
    parser.add_argument(
        "--seconds",
        type=float,
        default=3_600,
        metavar="N",
        help="of tests for one guard, the likeliest first",
    )
    parser.add_argument("--wide", action="store_true", help="with --all: the files beyond the boundary too")
    parser.add_argument("--again", action="store_true", help="what survived before is tried once more")
    parser.add_argument("--list", action="store_true", help="print the ids of all guards, and run nothing")
    parser.add_argument("--tests", action="append", metavar="PATH", help="tests for --all")
    parser.add_argument("--table", default="tests.mutation.invariants", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.list:
        for each in guards.all_guards():
            if not args.only or any(part in each.id for part in args.only):
                say(each.id)
        return 0
    if args.json:
        args.json = args.json.resolve()
    began = time.monotonic()
    try:
        if args.all:
            return run_all(args)
        module, _, name = args.table.partition(":")
        table = importlib.import_module(module)
        return run_table((getattr(table, name) if name else table).INVARIANTS, args)
    except NotReady as error:
        say(str(error))
        return 2
    finally:
        say(f"{time.monotonic() - began:.0f} s")
