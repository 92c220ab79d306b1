"""Let a hostile model, a hostile client and hostile data loose on this project's admin, on a database of its own."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from django_copilot.redteam import corpus
from django_copilot.redteam.report import Report
from django_copilot.redteam.run import PARTS, Batch, Plan, batches, keep_done, read_done, run, total_of

CALLS = 20_000


class Command(BaseCommand):
    """Run the red team. Exit status 1 unless every oracle is zero and every honest request succeeded."""

    help = (
        "Attack this project's admin with a hostile model, a hostile client and hostile data, on a new database or a "
        "copy, and report what they got. Exit status 1 unless that is nothing."
    )
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what to run, as whom, and where the report goes."""
        parser.add_argument(
            "--corpus", action="append", default=[], metavar="FILE", help='JSONL with a "text" a line'
        )
        parser.add_argument(
            "--seed", type=int, help="number that everything is chosen by (default: by chance, printed)"
        )
        parser.add_argument("--calls", type=int, default=CALLS, help=f"hostile calls (default {CALLS:,})")
        parser.add_argument(
            "--as",
            action="append",
            default=[],
            dest="actors",
            metavar="USER",
            help="act as these accounts only",
        )
        parser.add_argument(
            "--host",
            default="testserver",
            help="host name that people ask for, where the project's rows depend on it (default: testserver)",
        )
        parser.add_argument(
            "--part",
            action="append",
            default=[],
            metavar="NAME",
            help=f"only these: {', '.join(part.name for part in PARTS)}",
        )
        parser.add_argument(
            "--json",
            type=Path,
            metavar="FILE",
            help="keep the report here; a run that was cut off goes on from it",
        )
        parser.add_argument(
            "--jobs", type=int, default=1, help="processes, each with a database of its own (default 1)"
        )
        parser.add_argument(
            "--copy",
            action="store_true",
            help="on a copy of the database, though COPILOT['REDTEAM'] could fill a new one",
        )
        parser.add_argument(
            "--in-place",
            action="store_true",
            help="ON THE DATABASE ITSELF, which is filled with hostile texts and changed: only for one that is thrown away",
        )
        parser.add_argument(
            "--share", default="", help="N/M: only every M-th batch from the N-th; what --jobs starts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run and print the report."""
        seed = options["seed"] if options["seed"] is not None else random.randrange(10**6)
        if options["calls"] < 1 or options["jobs"] < 1:
            raise CommandError("--calls and --jobs must be at least 1.")
        if options["copy"] and options["in_place"]:
            raise CommandError("Either --copy or --in-place.")
        if options["in_place"] and options["jobs"] > 1:
            raise CommandError("--in-place has one database, so one process.")
        chosen = batches(options["calls"], options["part"])
        plan = Plan(
            seed=seed,
            batches=_shared(chosen, options["share"]),
            texts=corpus.load(options["corpus"]),
            actors=options["actors"],
            in_place=options["in_place"],
            copy=options["copy"],
            host=options["host"],
            kept=options["json"],
        )
        if options["share"]:
            _own_names(options["share"])
        say = self.stdout.write if options["verbosity"] else lambda text: None
        say(f"Seed {seed}: {options['calls']:,} hostile calls, {len(plan.texts):,} hostile texts.")
        if options["in_place"]:
            say(self.style.WARNING("On the database as it is set up: it will be spoiled."))
        kept = len(read_done(plan))
        if kept:
            say(
                f"{kept} of {len(plan.batches)} batches are taken from {plan.kept}: same seed, texts, people and code."
            )
        if options["jobs"] > 1:
            report = self._in_processes(plan, options, seed)
        else:
            with _Progress(plan.batches, shown=options["verbosity"] > 0 and not options["share"]) as show:
                report = run(plan, show=show)
        if options["share"]:
            return  # its report is in the file
        say("\n" + report.as_text())
        missing = [name for name in options["part"] if name in report.not_run]
        whole = not options["part"] or "honest" in options["part"]
        clean = report.is_clean if whole else not report.findings.total()
        if not clean or missing:
            say(self.style.ERROR(f"\nNot clean. Again with: --seed {seed} --calls {options['calls']}"))
            sys.exit(1)
        told = (
            "Clean."
            if whole
            else "Nothing was found by these parts. It says less than a whole run: nothing was asked honestly."
        )
        say(self.style.SUCCESS(f"\n{told}"))

    def _in_processes(self, plan: Plan, options: dict[str, Any], seed: int) -> Report:
        """Share the batches among processes, each with a file of its own beside the report's, and add them up."""
        with ExitStack() as stack:
            folder = (
                plan.kept.parent if plan.kept else Path(stack.enter_context(tempfile.TemporaryDirectory()))
            )
            stem = plan.kept.name if plan.kept else "report"
            files = [folder / f"{stem}.{at}" for at in range(options["jobs"])]
            common = [
                sys.executable,
                sys.argv[0],
                "copilot_redteam",
                "--seed",
                str(seed),
                "--calls",
                str(options["calls"]),
            ]
            for flag, values in (
                ("--corpus", options["corpus"]),
                ("--as", plan.actors),
                ("--part", options["part"]),
            ):
                common += [word for value in values for word in (flag, str(value))]
            common += ["--host", plan.host, *(["--copy"] if plan.copy else [])]
            started = [
                subprocess.Popen(
                    [*common, "--share", f"{at}/{options['jobs']}", "--json", str(file), "--verbosity", "0"]
                )
                for at, file in enumerate(files)
            ]
            try:
                ended = [each.wait() for each in started]
            finally:
                for each in started:
                    if each.poll() is None:
                        each.terminate()
            if any(ended):
                raise CommandError("A process of the run has failed; what it said is above.")
            done: dict[str, Report] = {}
            for at, file in enumerate(files):
                share = _shared(plan.batches, f"{at}/{options['jobs']}")
                done |= read_done(replace(plan, kept=file, batches=share))
            keep_done(plan, done)
            return total_of(done)


def _shared(chosen: Sequence[Batch], share: str) -> list[Batch]:
    if not share:
        return list(chosen)
    at, of = map(int, share.split("/"))
    return list(chosen)[at::of]


def _own_names(share: str) -> None:
    """Give this process's new databases names of their own."""
    for connection in connections.all():
        if connection.vendor != "sqlite":
            name = connection.settings_dict["NAME"]
            connection.settings_dict["TEST"]["NAME"] = f"test_{name}_redteam_{share.split('/')[0]}"


class _Progress:
    """Shows how far a run is: with tqdm where it is installed, else a line each tenth."""

    def __init__(self, chosen: Sequence[Batch], *, shown: bool) -> None:
        self.total, self.done, self.told, self.shown = sum(each.calls for each in chosen), 0, 0, shown

    def __enter__(self) -> Callable[[str, int], None]:
        self.bar: Any = None
        try:
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, unit=" calls", disable=not self.shown)
        except ImportError:
            pass
        return self.show

    def show(self, name: str, calls: int) -> None:
        self.done += calls
        if self.bar is not None:
            self.bar.set_postfix_str(name.split(":")[0])
            self.bar.update(calls)
        elif self.shown and self.done * 10 // max(self.total, 1) > self.told:
            self.told = self.done * 10 // self.total
            sys.stderr.write(f"{self.done:,} of {self.total:,} calls\n")

    def __exit__(self, *exc: object) -> None:
        if self.bar is not None:
            self.bar.close()
