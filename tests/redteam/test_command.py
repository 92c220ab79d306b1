"""The command: a database of its own, one report, going on where it was cut off, and an exit status that means it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_copilot.redteam import run as running
from django_copilot.redteam.corpus import OWN, load
from django_copilot.redteam.outside import opened
from django_copilot.redteam.report import Report
from django_copilot.redteam.run import PARTS, Batch, Plan, batches
from django_copilot.redteam.world import NotRun

ROOT = Path(__file__).parents[2]


def manage(*args: str, database: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "manage.py", *args],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"sqlite:///{database}", "DJANGO_SETTINGS_MODULE": "example_project.settings", **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small filled store on disk."""
    path = tmp_path_factory.mktemp("shop") / "shop.sqlite3"
    made = manage("demo", "--setup-only", "--products", "12", "--orders", "20", database=path)
    assert made.returncode == 0, made.stderr
    return path


def content(path: Path) -> str:
    with sqlite3.connect(path) as database:
        return hashlib.sha256("\n".join(database.iterdump()).encode()).hexdigest()


@pytest.mark.parametrize("way", [(), ("--copy",)], ids=["new", "copy"])
def test_the_database_that_is_set_up_is_left_alone(shop: Path, tmp_path: Path, way: tuple[str, ...]) -> None:
    before, file = content(shop), tmp_path / "report.json"
    args = ("--seed", "5", "--calls", "60", "--part", "gate", "--part", "turns", "--json", str(file))
    ended = manage("copilot_redteam", *args, *way, database=shop)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Nothing was found by these parts." in ended.stdout
    assert content(shop) == before
    report = json.loads(file.read_text())
    assert report["counts"]["tool calls"] >= 60
    assert sum(each["findings"] for each in report["oracles"].values()) == 0
    again = manage("copilot_redteam", *args, *way, database=shop)
    assert again.returncode == 0
    assert "2 of 2 batches are taken from" in again.stdout
    assert json.loads(file.read_text()) == report
    other = manage("copilot_redteam", *args, "--seed", "6", *way, database=shop)
    assert other.returncode == 1
    assert "of a run with other options" in other.stderr


def test_processes_share_the_calls_and_their_reports_add_up(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    args = ("--seed", "5", "--calls", "2060", "--part", "gate", "--jobs", "2", "--json", str(file))
    ended = manage("copilot_redteam", *args, database=shop)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shares = [json.loads(Path(f"{file}.{at}").read_text()) for at in range(2)]
    assert [list(each["batches"]) for each in shares] == [["gate:0:2000"], ["gate:1:60"]]
    assert [each["counts"]["tool calls"] for each in shares] == [2000, 60]
    assert json.loads(file.read_text())["counts"]["tool calls"] == 2060


def test_in_place_the_database_itself_is_filled_with_hostile_texts(shop: Path, tmp_path: Path) -> None:
    copy = tmp_path / "thrown-away.sqlite3"
    copy.write_bytes(shop.read_bytes())
    before = content(copy)
    args = ("--seed", "5", "--calls", "10", "--part", "gate", "--in-place")
    ended = manage("copilot_redteam", *args, database=copy)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "it will be spoiled" in ended.stdout
    assert content(copy) != before


def found(world: Any, *, number: int, calls: int) -> None:
    world.report.found(3, "a hidden value", case="here")


def broken(world: Any, *, number: int, calls: int) -> None:
    raise RuntimeError("the part itself")


def missing(world: Any, *, number: int, calls: int) -> None:
    raise NotRun("no Chromium")


def cut_off(world: Any, *, number: int, calls: int) -> None:
    world.report.count("tool calls", calls)
    if number == 1:
        raise KeyboardInterrupt


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, store: Any) -> Any:
    """Let the command run parts of a test's own, on the test's database."""

    def put(function: Any, *, share: float = 1.0, batch: int = 10) -> None:
        part = running.Part("gate", "model:gate_calls", share=share, batch=batch)
        monkeypatch.setattr(running, "PARTS", (part,))
        monkeypatch.setattr(running.Part, "function", lambda self: function)

    return put


def redteam(*args: str) -> None:
    call_command("copilot_redteam", "--seed", "1", "--calls", "30", "--part", "gate", "--in-place", *args)


def test_a_finding_is_an_exit_status(parts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    parts(found)
    with pytest.raises(SystemExit) as ended:
        redteam()
    assert ended.value.code == 1
    told = capsys.readouterr().out
    assert "3. hidden values" in told
    assert "Again with: --seed 1 --calls 30" in told


def test_a_part_that_was_named_and_could_not_run_is_no_success(
    parts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    parts(missing)
    with pytest.raises(SystemExit) as ended:
        redteam()
    assert ended.value.code == 1
    assert "no Chromium" in capsys.readouterr().out


def test_what_another_system_was_asked_twice_is_kept_with_its_batch(parts: Any, tmp_path: Path) -> None:
    def asking(world: Any, *, number: int, calls: int) -> None:
        opened().changed.append(f"key {number}")  # type: ignore[union-attr]

    parts(asking, batch=15)
    file = tmp_path / "report.json"
    with pytest.raises(SystemExit):
        redteam("--json", str(file))
    report = json.loads(file.read_text())
    assert report["oracles"]["5"]["findings"] == 2
    assert [each["oracles"]["5"]["findings"] for each in report["batches"].values()] == [1, 1]


def test_other_texts_or_other_code_are_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(seed=1, batches=[], texts=["a"])
    same = running._identity(plan)
    assert running._identity(Plan(seed=1, batches=[], texts=["a"])) == same
    for other in ({"texts": ["b"]}, {"seed": 2}, {"copy": True}, {"host": "x.example"}, {"actors": ["ola"]}):
        assert running._identity(replace(plan, **other)) != same, other
    monkeypatch.setattr(running, "_digest_of_code", lambda: "another")
    assert running._identity(plan) != same


def test_a_part_that_breaks_is_a_finding(parts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    parts(broken)
    with pytest.raises(SystemExit):
        redteam()
    assert "the part gate broke" in capsys.readouterr().out


def test_without_enough_honest_requests_a_whole_run_is_not_clean(
    parts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    parts(missing)
    with pytest.raises(SystemExit):
        call_command("copilot_redteam", "--seed", "1", "--calls", "30", "--in-place")
    told = capsys.readouterr().out
    assert "no Chromium" in told
    assert "0 of 0 honest requests" in told


def test_a_run_that_was_cut_off_goes_on(parts: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    parts(cut_off)
    with pytest.raises(KeyboardInterrupt):
        redteam("--json", str(file))
    assert list(json.loads(file.read_text())["batches"]) == ["gate:0:10"]
    done: list[int] = []

    def goes_on(world: Any, *, number: int, calls: int) -> None:
        done.append(number)

    parts(goes_on)
    redteam("--json", str(file))
    assert done == [1, 2]
    assert json.loads(file.read_text())["counts"] == {"tool calls": 10}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--part", "nothing"), "There is no part nothing"),
        (("--corpus", "no-such-file.jsonl"), "no-such-file.jsonl"),
        (("--as", "nobody"), "There is no account 'nobody'"),
        (("--copy",), "Either --copy or --in-place"),
        (("--jobs", "2"), "--in-place has one database"),
        (("--jobs", "0"), "at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value).strip("-"),
)
def test_what_it_can_not_do_it_says(store: Any, args: tuple[str, ...], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        redteam(*args)


def test_batches_add_up_to_the_calls_and_a_million_is_many() -> None:
    for calls in (1, 999, 20_000, 1_000_000):
        shared = [each for each in batches(calls) if each.part.share]
        least = sum(part.least for part in PARTS)
        assert calls <= sum(each.calls for each in shared) + len(PARTS) <= calls + least + 2 * len(PARTS)
    names = [each.name for each in batches(1_000_000)]
    assert len(set(names)) == len(names) > 500
    assert {each.part.name for each in batches(10)} == {part.name for part in PARTS}
    assert [each.part.own_rows for each in batches(5_000)] == sorted(
        each.part.own_rows for each in batches(5_000)
    )


def test_every_part_can_be_imported() -> None:
    for part in PARTS:
        assert callable(part.function()), part.name


def test_a_file_that_is_no_report_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text("[]")
    with pytest.raises(CommandError, match="no report of an earlier run"):
        running.read_done(Plan(seed=1, batches=[Batch(PARTS[0], 0, 1)], texts=(), kept=file))
    assert file.read_text() == "[]"


def test_texts_of_files_are_added_once(tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text('{"text": "one"}\n\n{"text": "one", "kind": "x"}\n{"text": "two"}\n')
    assert load([file]) == [*OWN, "one", "two"]
    file.write_text("not json\n")
    with pytest.raises(CommandError, match="one JSON object"):
        load([file])


def test_an_empty_report_is_not_clean() -> None:
    assert not Report().is_clean
