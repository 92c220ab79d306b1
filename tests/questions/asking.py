"""Asking a question the way a test does, and comparing what came of it with what the store's rules give."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import Client

from django_copilot import gate
from django_copilot.runtime import sync
from django_copilot.testing import copilot_client
from tests.gate.calls import run as run_call

from .asked import Question, Seen
from .counting import COUNTING
from .reading import READING

QUESTIONS = [*READING, *COUNTING]
SAID = [
    pytest.param(each, language, id=f"{language} {each.name}") for each in QUESTIONS for language in each.said
]


def client_for(store: Any, who: str, language: str) -> Client:
    """Return a client of an account whose browser wants a language."""
    return copilot_client(store.user(who), headers={"accept-language": language})


@contextmanager
def calls_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Give the calls that reach the gate meanwhile, as name and arguments."""
    seen: list[tuple[str, dict[str, Any]]] = []
    real = gate.run

    def run(*args: Any, **options: Any) -> Any:
        call = args[3]
        seen.append((call.name, json.loads(call.arguments or "{}")))
        return real(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sync.gate, "run", run)
        yield seen


def assert_answers(question: Question, table: Mapping[str, Any]) -> None:
    """Assert that a person's table holds exactly what this person may see of what was asked for."""
    seen = Seen(question.who)
    if question.rows is not None:
        wanted = [str(pk) for pk in question.rows(seen).values_list("pk", flat=True)]
        assert [row["id"] for row in table["rows"]] == wanted[: question.limit]
        assert table["hasMore"] is (len(wanted) > question.limit)
    elif question.count is not None:
        assert table["kind"] == "count"
        assert [[*row["values"].values()] for row in table["rows"]] == [[question.count(seen)]]
    elif question.groups is not None:
        assert table["kind"] == "summary"
        made = [[_plain(value) for value in row["values"].values()] for row in table["rows"]]
        wanted_groups = [[*key, *values] for key, values in question.groups(seen)]
        if "every" in question.args:
            assert made == wanted_groups
        else:
            assert sorted(made, key=str) == sorted(wanted_groups, key=str)
            numbers = [row[len(question.args.get("by", ()))] for row in made]
            assert [float(each) for each in numbers] == sorted(
                (float(each) for each in numbers), reverse=True
            )


def _plain(value: Any) -> Any:
    return value["label"] if isinstance(value, dict) else value


__all__ = ["QUESTIONS", "SAID", "assert_answers", "calls_seen", "client_for", "run_call"]
