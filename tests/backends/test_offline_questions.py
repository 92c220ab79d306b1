"""What the offline backend asks and says where it could not find what a sentence names."""

from __future__ import annotations

from typing import Any

import pytest

from . import offline_shop as shop
from .offline_desk import ROWS, Desk, ask

READ_ONLY = (shop.query("category"), shop.query("tag"), shop.query("product"), shop.ASK)
TAGS = [{"id": "17", "name": "Gift idea"}, {"id": "18", "name": "Sale"}, {"id": "19", "name": "Bulky"}]


def sale() -> Desk:
    return Desk(rows={**ROWS, "tag": TAGS})


@pytest.mark.parametrize(
    ("sentence", "question", "options", "fields"),
    [
        (
            'Create a product with title "A", category Nonsense',
            "I found no category “Nonsense”. What is meant? You can also leave it out.",
            ["Mugs, mugs (id 1)", "Kubki, kubki (id 2)", "Кружки, kruzhki (id 3)", "Leave it out"],
            {"title": "A"},
        ),
        (
            'Create a product with title "A", tags Gift, Sale',
            "I found no tags “Gift”. What is meant? You can also leave it out.",
            ["Gift idea (id 17)", "Leave it out"],
            {"title": "A", "tags": ["18"]},
        ),
        (
            "Dodaj produkt: tytuł „A”, tagi Nonsens",
            "Nie ma tu: tagi „Nonsens”. Co wpisać? Można to też pominąć.",
            ["Gift idea (id 17)", "Sale (id 18)", "Bulky (id 19)", "Pomiń to"],
            {"title": "A"},
        ),
        (
            "Создай товар: название «А», теги Gift",
            "Здесь нет: теги «Gift». Что указать? Это можно и пропустить.",
            ["Gift idea (id 17)", "Пропустить это"],
            {"title": "А"},
        ),
    ],
)
def test_a_related_record_that_is_not_found_is_asked_about_before_the_form(
    sentence: str, question: str, options: list[str], fields: dict[str, Any]
) -> None:
    desk = sale()
    assert desk.say(sentence) == ("ask_user", {"text": question, "kind": "single", "options": options})
    assert desk.say(options[-1]) == ("open_product_form", {"fields": fields})


def test_a_change_never_gets_fewer_tags_than_were_named() -> None:
    sentence = "Change the tags of product 31 to Gift, Sale"
    for answer in ("Gift idea (id 17)", "Gift idea", "gift IDEA", "17"):
        desk = sale()
        name, arguments = desk.say(sentence)
        assert (name, arguments["options"]) == ("ask_user", ["Gift idea (id 17)", "Leave it out"])
        assert desk.say(answer) == (
            "open_product_form",
            {"id": "31", "fields": {"tags": ["18", "17"]}},
        )
    desk = sale()
    desk.say(sentence)
    assert desk.say("Gift idea, Bulky") == (
        "open_product_form",
        {"id": "31", "fields": {"tags": ["18", "17", "19"]}},
    )


def test_an_answer_that_is_not_found_either_is_asked_about_again() -> None:
    desk = sale()
    assert desk.say('Change the title of product 31 to "B", category Nonsense')[0] == "ask_user"
    name, arguments = desk.say("Skip hire")
    assert name == "ask_user"
    assert arguments["text"].startswith("I found no category “Skip hire”.")
    assert desk.say("Mugs") == ("open_product_form", {"id": "31", "fields": {"title": "B", "category": "1"}})


def test_all_that_was_not_found_is_one_question() -> None:
    sentence = 'Create a product with title "A", category Mug, tags Gift, Sale, Sale off'
    options = [
        "category: Mugs and more, cups (id 1)",
        "tags: Gift idea (id 17)",
        "tags: Sale (id 18)",
        "Leave it out",
    ]
    mugs = [{"id": "1", "name": "Mugs and more", "slug": "cups"}]

    def asked() -> Desk:
        desk = Desk(rows={"tag": TAGS, "category": mugs})
        assert desk.say(sentence) == (
            "ask_user",
            {
                "text": "I found no category “Mug”, tags “Gift”, tags “Sale off”. What is meant? "
                "You can also leave it out.",
                "kind": "multiple",
                "options": options,
            },
        )
        return desk

    for answer, fields in (
        (", ".join(options[:2]), {"title": "A", "category": "1", "tags": ["18", "17"]}),
        (options[0], {"title": "A", "category": "1", "tags": ["18"]}),
        (f"{options[1]}, {options[3]}", {"title": "A", "tags": ["18", "17"]}),
        ("leave them out.", {"title": "A", "tags": ["18"]}),
    ):
        assert asked().say(answer) == ("open_product_form", {"fields": fields})
    # Ids of which kind is not told: nothing is guessed, and nothing is lost.
    for answer in ("1", "Mugs and more, cups (id 1)"):
        assert asked().say(answer)[0] == "ask_user"


def test_answers_to_several_questions_in_a_row_all_count() -> None:
    tags = [{"id": "12", "name": "gift"}, {"id": "17", "name": "gift"}, {"id": "18", "name": "Sale"}]
    mugs = [{"id": "31", "title": "Mug"}, {"id": "32", "title": "Mug"}]
    desk = Desk(rows={"tag": tags, "product": mugs})
    assert desk.say("Change the tags of product Mug to gift, Nonsense")[0] == "ask_user"
    assert desk.say("Mug (id 32)")[1]["options"] == ["gift (id 12)", "gift (id 17)"]
    assert "tags “Nonsense”" in desk.say("gift (id 17)")[1]["text"]
    assert desk.say("Sale (id 18)") == (
        "open_product_form",
        {"id": "32", "fields": {"tags": ["17", "18"]}},
    )


def test_where_nothing_can_be_looked_up_the_question_is_an_open_one() -> None:
    desk = Desk(tools=(shop.form("product"), shop.ASK))
    name, arguments = desk.say('Create a product with title "A", category Mugs')
    assert (name, arguments["kind"], arguments["options"]) == ("ask_user", "text", [])
    assert arguments["text"] == "I found no category “Mugs”. What is meant? You can also leave it out."
    assert desk.say("leave it out") == ("open_product_form", {"fields": {"title": "A"}})


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        (
            "Change the city of customer 5 to Gdynia",
            "There is nothing of that name here that you may change.",
        ),
        ("Add a customer", "There is nothing of that name here that you may add."),
        ("Zmień miasto klienta 5 na Gdynia", "Nie ma tu niczego o takiej nazwie, co możesz zmienić."),
        ("Удали клиента 5", "Здесь нет ничего с таким названием, что вам можно удалить."),
    ],
)
def test_a_kind_that_nobody_offered_is_answered_with_the_verb_and_what_there_is(
    sentence: str, text: str
) -> None:
    answer = ask(sentence, tools=READ_ONLY).text
    assert answer.splitlines()[0] == text
    assert answer.splitlines()[2].startswith("- ")
    assert "ustomer" not in answer
    # A kind that does not exist is answered alike.
    unknown = (
        sentence.replace("customer", "wombat").replace("klienta", "wombata").replace("клиента", "вомбата")
    )
    assert ask(unknown, tools=READ_ONLY).text == answer
