"""The offline backend and the questions of staff: which call it makes of which sentence, and what it says."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test.utils import override_settings

from django_copilot.testing import ask

from .asked import LANGUAGES, Question, Seen
from .asking import QUESTIONS, SAID, assert_answers, calls_seen, client_for

UNDERSTOOD = 219  # sentences of those below
BEYOND = 18


@pytest.fixture
def offline() -> Any:
    with override_settings(COPILOT={**settings.COPILOT, "BACKEND": "offline"}):
        yield


def test_how_many_it_understands() -> None:
    beyond = [(each.name, language) for each in QUESTIONS for language in each.offline]
    assert (len(SAID) - len(beyond), len(beyond)) == (UNDERSTOOD, BEYOND)
    assert 0.9 * len(SAID) <= UNDERSTOOD
    assert all(reason for each in QUESTIONS for reason in each.offline.values())


@pytest.mark.parametrize(("question", "language"), SAID)
def test_the_sentence_becomes_that_call(
    question: Question, language: str, day: Any, offline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calls_seen(monkeypatch) as calls:
        answer = ask(client_for(day, question.who, language), question.said[language])
    made = (question.tool, question.args) in calls
    assert made is (language not in question.offline), (calls, answer["reply"])
    if not made:
        return
    if question.opens is not None:
        opened = client_for(day, question.who, language).get(
            answer["action"]["path"], answer["action"]["queryParams"]
        )
        shown = {each.pk for each in opened.context["cl"].result_list}
        assert shown == {*question.opens(Seen(question.who)).values_list("pk", flat=True)}
        return
    assert_answers(question, answer["results"][-1])


@pytest.mark.parametrize(
    ("question", "language"),
    [
        pytest.param(each, language, id=f"{language} {each.name}")
        for each in QUESTIONS
        for language in ("pl", "ru")
        if language not in each.offline and each.opens is None
    ][::4],
)
def test_in_an_english_admin_it_looks_for_the_tools_and_shows_the_same(
    question: Question, language: str, day: Any, offline: Any
) -> None:
    answer = ask(client_for(day, question.who, "en"), question.said[language])
    assert_answers(question, answer["results"][-1])


def test_a_count_and_a_sum_are_told_with_their_numbers_and_dates(day: Any, offline: Any) -> None:
    seen = Seen("manager")
    paid = seen.orders.filter(status="paid").count()
    told = {
        "en": f"There are {paid} orders.",
        "pl": f"Znaleziono (zamówienia): {paid}.",
        "ru": f"Найдено (заказы): {paid}.",
    }
    questions = {each.name: each for each in QUESTIONS}
    for language in LANGUAGES:
        client = client_for(day, "manager", language)
        assert ask(client, questions["paid orders"].said[language])["reply"] == told[language]
    client = client_for(day, "manager", "en")
    assert ask(client, "orders between 1 and 5 November")["reply"].splitlines() == [
        "Here are 7 orders.",
        "Placed at: from 2026-11-01, before 2026-11-06.",
    ]
    months = ask(client, "orders per month")["reply"].splitlines()
    assert months == ["Count: orders:", "- 2026-09: 40", "- 2026-10: 42", "- 2026-11: 38"]
    client = client_for(day, "manager", "pl")
    regions = ask(client, "liczba zamówień według regionu")["reply"].splitlines()
    assert regions[0] == "Liczba: zamówienia:"
    assert {*regions[1:]} == {
        f"- {label}: {seen.orders.filter(region=region).count()}"
        for region, label in (("north", "Północ"), ("south", "Południe"))
    }


@pytest.mark.parametrize(
    ("language", "text", "said"),
    [
        ("en", "what is the e-mail of customer Erik Hägg?", "it was not sent to me: e-mail."),
        ("pl", "pokaż telefon klienta Erik Hägg", "do mnie nie zostało wysłane: telefon."),
        ("ru", "покажи телефон клиента Erik Hägg", "мне это не отправлено: телефон."),
    ],
)
def test_what_was_not_sent_is_said_to_be_in_her_table_only(
    language: str, text: str, said: str, day: Any, offline: Any
) -> None:
    answer = ask(client_for(day, "support", language), text)
    assert answer["reply"].endswith(said)
    assert "erik.hagg" not in answer["reply"]
    [row] = answer["results"][-1]["rows"]
    assert row["values"].get("email", row["values"].get("phone"))


@pytest.mark.parametrize(
    "text",
    ["how many orders are paid?", "orders per month", "who changed order SO-0000012?", "orders since Friday"],
)
def test_a_viewer_hears_that_there_are_none_here(
    text: str, day: Any, offline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calls_seen(monkeypatch) as calls:
        answer = ask(client_for(day, "viewer", "en"), text)
    assert {name for name, _ in calls} <= {"find_entities"}
    assert answer["results"] == []
    assert "- products: show" in answer["reply"].splitlines()


def test_two_conditions_that_do_not_agree_are_not_guessed_at(day: Any, offline: Any) -> None:
    answer = ask(client_for(day, "manager", "en"), "show shipped orders that are not shipped")
    assert answer["results"] == []
    assert answer["reply"].startswith("I can't read")
