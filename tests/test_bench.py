"""The benchmarks: that each one runs, says what it found in one line, and fails when a bound is broken.

Figures of CPU time are not judged here, on a machine that does other things too; those that are the same on
every run are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets

from bench import __main__ as command
from bench import report, start
from django_copilot.access import Access
from django_copilot.scope import Scope, enter_scope
from django_copilot.tools.schema import specs_for
from example_project.store.models import Category, Order, Payment, Product

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "bench", *arguments],
        cwd=ROOT,
        env=os.environ | {"COPILOT_OPENAI_API_KEY": "never used", "DATABASE_URL": "sqlite:////nowhere/db"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", list(command.BENCHMARKS))
def test_a_benchmark_prints_one_line_and_its_exit_status_says_whether_all_bounds_hold(name):
    done = run("--tiny", name)
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert set(figures) == {"name", "results", "bounds"}
    assert (figures["name"], bool(figures["results"]), bool(figures["bounds"])) == (name, True, True)
    for bound in figures["bounds"]:
        assert set(bound) == {"what", "value", "limit", "holds"}
        assert bound["holds"] is (bound["value"] <= bound["limit"])
        assert bound["holds"] or "CPU" in bound["what"], bound
    broken = [bound for bound in figures["bounds"] if not bound["holds"]]
    assert done.returncode == (1 if broken else 0), done.stderr
    assert done.stderr.startswith(f"{name}: ")


@pytest.mark.parametrize(("value", "status"), [(3, 0), (4, 1), (3.001, 1)])
def test_a_broken_bound_is_exit_status_1_and_the_line_is_printed_all_the_same(
    monkeypatch, capsys, value, status
):
    bounds = [report.Bound(what="apples", value=value, limit=3), report.Bound(what="pears", value=1, limit=1)]
    fake = report.Figures(name="fake", results={"apples": value}, bounds=bounds)
    holding = report.Figures(name="holding", results={})
    monkeypatch.setattr(
        command,
        "BENCHMARKS",
        {"fake": ("apples", lambda effort: fake), "holding": ("nothing", lambda effort: holding)},
    )
    assert command.main(["fake", "holding"]) == status
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["name"] for each in printed] == ["fake", "holding"]
    assert printed[0]["bounds"] == [
        {"what": "apples", "value": value, "limit": 3, "holds": status == 0},
        {"what": "pears", "value": 1, "limit": 1, "holds": True},
    ]


def test_the_benchmarks_are_listed():
    done = run("--list")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "import",
        "page",
        "turn",
        "request",
        "audit",
        "kill",
    ]
    assert done.returncode == 0


@pytest.mark.parametrize("arguments", [(), ("imports",)], ids=["no name", "unknown name"])
def test_without_a_known_name_the_command_says_how(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: python -m bench" in done.stderr
    assert all(name in done.stderr for name in command.BENCHMARKS)


def test_a_child_gets_nothing_of_the_callers_project(monkeypatch, tmp_path):
    for name in ("COPILOT_BACKEND", "DJANGO_SETTINGS_MODULE", "PYTHONPATH", "https_proxy", "BENCH_ROUNDS"):
        monkeypatch.setenv(name, "of the caller")
    environment = report.environment_for(settings="some", database=tmp_path / "db", entities=3)
    assert "of the caller" not in environment.values()
    assert (environment["DJANGO_SETTINGS_MODULE"], environment["BENCH_ENTITIES"]) == ("some", "3")


def test_a_child_that_fails_is_an_error_that_shows_what_it_wrote(tmp_path):
    with pytest.raises(RuntimeError, match="No module named 'not_there'"):
        report.run_child("bench.start", settings="not_there", database=tmp_path / "db.sqlite3")


def test_a_start_imports_no_model_sdk_and_no_views(tmp_path):
    assert {"openai", "httpx2", "rest_framework.views"} <= set(start.LATE)
    told = report.run_child("bench.start", settings="bench.settings", database=tmp_path / "db.sqlite3")
    assert told["early"] == []


def access_of(user: Any) -> Any:
    return enter_scope(Scope(site="admin"), user.pk)


@pytest.mark.parametrize("model", [Category, Product, Order])
def test_the_form_that_schemas_are_made_of_has_the_fields_of_the_admins_own(store, model):
    """It is made without asking for the fields first where Django alone decides on them (Category)."""
    model_admin = admin.site._registry[model]
    with access_of(store.user("manager")) as request:
        entity = Access(admin.site, request).of_model(model)
        assert entity._form_is_plain is (model is Category)
        for change in (False, True):
            theirs = model_admin.get_form(
                request,
                None,
                change=change,
                fields=flatten_fieldsets(model_admin.get_fieldsets(request, None)),
            )
            ours = entity.form_class(change=change)
            assert list(ours.base_fields) == list(theirs.base_fields)
            assert [type(each) for each in ours.base_fields.values()] == [
                type(each) for each in theirs.base_fields.values()
            ]


@pytest.mark.parametrize("model", [Category, Product, Order])
def test_the_schemas_of_an_entity_cost_one_form_class(store, monkeypatch, model):
    model_admin = admin.site._registry[model]
    made: list[Any] = []
    original = type(model_admin).get_form

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        made.append(kwargs)
        return original(self, *args, **kwargs)

    counted.copilot_neutral = True
    monkeypatch.setattr(type(model_admin), "get_form", counted)
    with access_of(store.user("manager")) as request:
        entity = Access(admin.site, request).of_model(model)
        assert specs_for(entity)
    assert len(made) <= 1


def test_ranking_makes_nothing_for_entities_that_are_not_chosen(store, settings, monkeypatch):
    from django_copilot.tools import ranking

    settings.COPILOT = {**settings.COPILOT, "MAX_ENTITIES": 1}
    with access_of(store.user("manager")) as request:
        access = Access(admin.site, request)
        asked: list[str] = []
        of = access.of
        monkeypatch.setattr(access, "of", lambda entity: asked.append(entity.name) or of(entity))
        (chosen,) = ranking.choose(access, "Show the latest payments")
    assert chosen.name == "payment"
    assert set(asked) == {"payment"}


def test_names_of_entities_are_kept_only_as_long_as_the_declarations_are_the_same(monkeypatch):
    from django_copilot.declaration import entities_of

    before = entities_of(admin.site)
    assert entities_of(admin.site) is before
    assert "payment" in before
    monkeypatch.setattr(type(admin.site._registry[Payment]), "harness_list", [])
    assert set(before) - set(entities_of(admin.site)) == {"payment"}
