"""What staff ask, as calls: the gate gives exactly the rows and numbers that this person may see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_copilot.testing import Call, Text, ask, script
from django_copilot.tools.base import Proposed, ReadDone

from .asked import Question, Seen
from .asking import QUESTIONS, SAID, assert_answers, client_for, run_call

by_name = pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.name)


def test_there_are_enough_of_them_in_each_language_for_each_kind_of_person() -> None:
    assert len({(language, text) for each in QUESTIONS for language, text in each.said.items()}) >= 200
    for language in ("en", "pl", "ru"):
        assert len({each.said[language] for each in QUESTIONS}) == len(QUESTIONS) >= 70
    assert {each.who for each in QUESTIONS} == {"admin", "manager", "support", "viewer"}
    kinds = {each.tool.split("_")[0] for each in QUESTIONS}
    assert kinds == {"query", "count", "summarise", "history", "open"}


@by_name
def test_the_call_gives_exactly_what_the_stores_rules_let_her_see(question: Question, day: Any) -> None:
    outcome = run_call(question.who, question.tool, question.args)
    if question.opens is not None:
        assert isinstance(outcome, Proposed), outcome
        wanted = {str(pk) for pk in question.opens(Seen(question.who)).values_list("pk", flat=True)}
        assert {*outcome.ticked} == (wanted if "action" in question.args else set())
        assert outcome.action == question.args.get("action", "")
        return
    assert isinstance(outcome, ReadDone), outcome
    assert_answers(question, outcome.table)
    if question.rows is not None:
        assert [row["id"] for row in outcome.content["rows"]] == [row["id"] for row in outcome.table["rows"]]
    if question.count is not None:
        assert outcome.content["count"] == question.count(Seen(question.who))
        assert outcome.content["capped"] is False
    if question.changes is not None:
        told = [(row["values"]["by"], row["values"]["new"]) for row in outcome.table["rows"]]
        assert told == [("admin", "Łeba"), ("support", "Gdynia")]


@pytest.mark.parametrize(("question", "language"), SAID)
def test_the_turn_shows_her_those_rows(question: Question, language: str, day: Any) -> None:
    client = client_for(day, question.who, language)
    steps = [Call(question.tool, question.args)]
    with script(*steps, *([] if question.opens else [Text("Here it is.")])) as model:
        answer = ask(client, question.said[language])
    if question.opens is not None:
        opened = client.get(answer["action"]["path"], answer["action"]["queryParams"])
        shown = {each.pk for each in opened.context["cl"].result_list}
        assert shown == {*question.opens(Seen(question.who)).values_list("pk", flat=True)}
        return
    assert answer["reply"] == "Here it is."
    assert_answers(question, answer["results"][-1])
    told = json.loads(model.requests[-1].messages[-1].text)
    assert "error" not in told
