"""A whole run: its parts in batches, one after the other, resumable, and added up into one report."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.test.utils import override_settings
from django.utils.module_loading import import_string

from ..conf import get_settings
from . import tables
from .canaries import hostile_labels, plant
from .database import own_database
from .outside import Outside, stand_in
from .people import find_actors
from .report import Report
from .watch import LOGGERS
from .world import NotRun, World


@dataclass(frozen=True)
class Part:
    """One way of attacking. ``share`` of the calls go to it in batches of ``batch``; without a share it runs once."""

    name: str
    run: str  # module and function in this package
    share: float = 0.0
    batch: int = 0
    least: int = 0  # calls, however few the run has
    own_labels: bool = False  # it asks as staff do, who know the labels as they are
    own_rows: bool = False  # it accounts itself for the rows that confirmed plans and saved forms change

    def function(self) -> Callable[..., None]:
        """Return what runs a batch."""
        module, name = self.run.split(":")
        found: Callable[..., None] = getattr(import_module(f"{__package__}.{module}"), name)
        return found


PARTS: tuple[Part, ...] = (
    Part("gate", "model:gate_calls", share=0.92, batch=2_000),
    Part("turns", "model:turns", share=0.04, batch=500),
    Part("interference", "interference:run", share=0.02, least=360, batch=600),
    Part("references", "references:run", share=0.004, least=400, batch=400),
    Part("client", "client.attack:run", share=0.02, least=600, batch=600, own_rows=True),
    Part("streams", "model:streams", batch=5_000),
    Part("machine", "machine.rules:run", share=0.002, least=300, batch=500, own_rows=True),
    Part("schema", "schema:run", batch=200),
    Part("browser", "browser.judging:run", batch=20),
    Part("honest", "honest.requests:run", own_rows=True, own_labels=True),
)


@dataclass(frozen=True)
class Batch:
    """Some calls of one part. Its name says it all, for resuming."""

    part: Part
    number: int
    calls: int

    @property
    def name(self) -> str:
        """Return "part:number:calls"."""
        return f"{self.part.name}:{self.number}:{self.calls}"


def batches(calls: int, parts: Iterable[str] = ()) -> list[Batch]:
    """Return the batches of a run of so many hostile calls. Raises CommandError for a part that there is not."""
    names = set(parts) or {part.name for part in PARTS}
    unknown = names - {part.name for part in PARTS}
    if unknown:
        raise CommandError(
            f"There is no part {', '.join(sorted(unknown))}. Parts: {', '.join(p.name for p in PARTS)}."
        )
    chosen = [part for part in PARTS if part.name in names]
    shares = sum(part.share for part in chosen) or 1.0
    made: list[Batch] = []
    for part in chosen:
        if not part.share:
            made.append(Batch(part, 0, part.batch))
            continue
        left, number = max(1, part.least, round(calls * part.share / shares)), 0
        while left > 0:
            made.append(Batch(part, number, min(left, part.batch)))
            left, number = left - part.batch, number + 1
    # Parts that change rows by what people may do run last, so that the others find the data as it was planted.
    return sorted(made, key=lambda each: (each.part.own_rows, each.number))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, and where."""

    seed: int
    batches: Sequence[Batch]
    texts: Sequence[str]
    actors: Sequence[str] = ()
    in_place: bool = False
    copy: bool = False
    host: str = "testserver"
    kept: Path | None = None  # where finished batches are kept, for resuming


def project_of() -> Any:
    """Return what COPILOT["REDTEAM"] names, or None. Raises CommandError."""
    named = get_settings().REDTEAM
    try:
        return import_string(named) if isinstance(named, str) and ":" not in named else named
    except ImportError:
        try:
            return import_module(named)
        except ImportError as error:
            raise CommandError(f"COPILOT['REDTEAM'] names nothing that can be imported: {error}.") from error


def run(plan: Plan, *, show: Callable[[str, int], None] = lambda name, calls: None) -> Report:
    """Run what is not done yet, and return the report of all. ``show`` hears of each batch that has ended.

    Raises CommandError where no database or no account can be had.
    """
    done = read_done(plan)
    left = [each for each in plan.batches if each.name not in done]
    for each in plan.batches:
        if each.name in done:
            show(each.name, each.calls)
    if left:
        with surroundings(plan) as (world, outside):
            for each in left:
                done[each.name] = _one(world, each, outside)
                keep_done(plan, done)
                show(each.name, each.calls)
    return total_of(done)


def total_of(done: Mapping[str, Report]) -> Report:
    """Return the reports of all batches as one."""
    total = Report()
    for each in done.values():
        total.add(each)
    return total


def _one(world: World, batch: Batch, outside: Outside) -> Report:
    report = world.report = Report()
    report.unmeasured |= {name: f"no mark: {why}" for name, why in world.canaries.skipped.items()}
    sent_before = len(outside.changed)
    before = tables.snapshot() if not batch.part.own_rows else {}
    started = time.monotonic()
    texts = [] if batch.part.own_labels else world.injections
    try:
        with hostile_labels(texts, seed=world.seed):
            batch.part.function()(world, number=batch.number, calls=batch.calls)
    except NotRun as why:
        report.not_run[batch.part.name] = str(why)
    except Exception as error:
        report.found(7, f"the part {batch.part.name} broke: {error!r}", case=batch.name)
    if report.counts["tool calls"]:  # what they a second are says nothing of a part that makes none
        report.seconds = time.monotonic() - started
    for key in outside.changed[sent_before:]:
        report.found(5, f"the key {key} was sent to another system with two payloads", case=batch.name)
    if not batch.part.own_rows:
        world.check_rows(before, case=batch.name)
    world.check_ended(case=batch.name)
    world.forget()
    return report


@contextmanager
def surroundings(plan: Plan) -> Iterator[tuple[World, Outside]]:
    """Open the database, plant the data, and give the world. Raises CommandError."""
    project = project_of()
    limits = {"TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}
    prepare = None if plan.copy else getattr(project, "prepare", None)
    with ExitStack() as stack:
        stack.enter_context(
            override_settings(
                COPILOT={**(getattr(settings, "COPILOT", None) or {}), **limits},
                ALLOWED_HOSTS=[*settings.ALLOWED_HOSTS, "testserver", plan.host.partition(":")[0]],
                SECURE_SSL_REDIRECT=False,
                DEBUG=False,
            )
        )
        for name in LOGGERS:  # once, and not for every call
            logging.getLogger(name).setLevel(logging.DEBUG)
        if not plan.in_place:
            stack.enter_context(own_database(prepare))
        outside = stack.enter_context(stand_in(plan.seed))
        try:
            actors = find_actors(plan.actors)
        except LookupError as error:
            raise CommandError(str(error)) from error
        if not actors:
            raise CommandError("There is no active staff account to act as.")
        canaries = plant(plan.texts, seed=plan.seed)
        world = World(
            seed=plan.seed,
            actors=actors,
            canaries=canaries,
            injections=plan.texts,
            project=project,
            host=plan.host,
        )
        yield world, outside


# -- resuming -----------------------------------------------------------------------------------------------


def read_done(plan: Plan) -> dict[str, Report]:
    """Return the reports of the batches that an earlier run with the same seed and texts has finished."""
    if plan.kept is None or not plan.kept.exists():
        return {}
    try:
        stored: Mapping[str, Any] = json.loads(plan.kept.read_text("utf-8"))
        same = stored["run"] == _identity(plan)
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{plan.kept} is no report of an earlier run ({error!r}). Name another --json."
        ) from error
    if not same:
        raise CommandError(f"{plan.kept} is of a run with other options. Name another --json, or remove it.")
    names = {each.name for each in plan.batches}
    return {name: Report.from_json(each) for name, each in stored["batches"].items() if name in names}


def keep_done(plan: Plan, done: Mapping[str, Report]) -> None:
    """Write the finished batches down, so that a run that is cut off loses one batch at most."""
    if plan.kept is None:
        return
    body = {
        "run": _identity(plan),
        **total_of(done).to_json(),
        "batches": {name: each.to_json() for name, each in done.items()},
    }
    temporary = plan.kept.with_name(plan.kept.name + ".part")
    temporary.write_text(json.dumps(body, ensure_ascii=False, indent=1), "utf-8")
    os.replace(temporary, plan.kept)


def _identity(plan: Plan) -> dict[str, Any]:
    """Return what must be the same for a finished batch to count again: also the code that was attacked."""
    return {
        "seed": plan.seed,
        "texts": hashlib.sha256(json.dumps(list(plan.texts)).encode()).hexdigest(),
        "actors": list(plan.actors),
        "on": "in place" if plan.in_place else "copy" if plan.copy else "",
        "host": plan.host,
        "code": _digest_of_code(),
    }


@cache
def _digest_of_code() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
