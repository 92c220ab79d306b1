"""Whole turns of the offline backend: what it looks up, opens, asks and says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from django_copilot.backends import ModelMessage, ToolCall
from django_copilot.backends.offline import OfflineBackend

from . import offline_shop as shop
from .offline_desk import Desk, ask, check, complete

READ_ONLY = (shop.query("category"), shop.query("tag"), shop.query("product"), shop.ASK)


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Show the latest orders", "Here are 5 orders."),
        ("Show the latest order", "Here is 1 order."),
        ("Pokaż ostatnie zamówienia", "Zamówienia: 5 rekordów."),
        ("Pokaż klientów", "Klienci: 4 rekordy."),
        ("Покажи последние заказы", "Заказы: 5 записей."),
        ("Покажи клиентов", "Клиенты: 4 записи."),
        ("Show order 999", "I found nothing: orders. Searched for: id 999."),
        ("Show customers with city Paris", "I found nothing: customers. Searched for: city “Paris”."),
        ("Pokaż klientów z miasta Radom", "Nic nie ma: klienci. Szukano: miasto „Radom”."),
        ("Найди клиентов из города Томск", "Ничего нет: клиенты. Искали: город «Томск»."),
        ("Show orders of customer Nobody", "I found no “Nobody” for customer."),
    ],
)
def test_what_was_read_is_summed_up(sentence: str, text: str) -> None:
    assert Desk().say(sentence) == text


def test_more_rows_are_mentioned() -> None:
    assert Desk(has_more=True).say("Show orders") == "Here are 5 orders. There are more."
    assert Desk(has_more=True).say("Pokaż zamówienia") == "Zamówienia: 5 rekordów. Jest ich więcej."
    assert Desk(has_more=True).say("Покажи заказы") == "Заказы: 5 записей. Есть ещё."


def test_a_condition_on_a_relation_is_looked_up_first() -> None:
    desk = Desk()
    desk.say("Show orders of customer Anna Nowak with status paid")
    assert desk.reads == [
        ("query_customer", {"filters": {"name": "Anna Nowak"}}),
        ("query_order", {"filters": {"customer": "21", "status": "paid"}}),
    ]


def test_a_place_is_searched_as_a_city_and_then_as_a_country() -> None:
    desk = Desk()
    desk.say("List customers from poland")
    assert [arguments["filters"] for _, arguments in desk.reads] == [
        {"city": "poland"},
        {"country": "poland"},
        {"city": "Poland"},
    ]


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (
            "Change customer Anna Nowak's city to Łódź",
            ("open_customer_form", {"id": "21", "fields": {"city": "Łódź"}}),
        ),
        (
            "Zmień miasto klienta Anna Nowak na Łódź",
            ("open_customer_form", {"id": "21", "fields": {"city": "Łódź"}}),
        ),
        (
            "Измени город клиента Анна Новак на Томск",
            ("open_customer_form", {"id": "24", "fields": {"city": "Томск"}}),
        ),
        (
            "Change the category of product Blue mug to Mugs",
            ("open_product_form", {"id": "31", "fields": {"category": "1"}}),
        ),
        (
            "Zmień cenę produktu „Niebieski kubek” na 12,50 zł",
            ("open_product_form", {"id": "32", "fields": {"price": "12.50"}}),
        ),
        (
            "Change the price of the product with SKU BM-1 to 5",
            ("open_product_form", {"id": "31", "fields": {"price": "5"}}),
        ),
        ("Delete the product blue MUG", ("confirm_delete_product", {"id": "31"})),
        ("Delete product BM-1", ("confirm_delete_product", {"id": "31"})),
        ("Usuń zamówienie numer SO-0000041", ("confirm_delete_order", {"id": "41"})),
        ("Удали товар «Синяя кружка»", ("confirm_delete_product", {"id": "33"})),
        ("Create a product with category mugs", ("open_product_form", {"fields": {"category": "1"}})),
    ],
)
def test_records_are_found_by_what_they_are_called(sentence: str, call: Any) -> None:
    assert Desk().say(sentence) == call


def test_a_record_that_is_not_there_is_said() -> None:
    assert Desk().say("Delete product Teapot") == "I found no record called “Teapot” (products)."
    assert Desk().say("Usuń produkt Czajnik") == "Nie ma rekordu „Czajnik” (produkty)."
    assert Desk().say("Удали товар Чайник") == "Нет записи «Чайник» (товары)."


def test_several_records_of_one_name_are_asked_about_and_the_answer_is_understood() -> None:
    desk = Desk()
    name, arguments = desk.say("Zmień miasto klienta Jan Kowalski na Sopot")
    assert name == "ask_user"
    assert arguments["kind"] == "single"
    assert arguments["options"] == [
        "Jan Kowalski, jan@example.com, Łódź (id 22)",
        "Jan Kowalski, janek@example.com, Kraków (id 23)",
    ]
    assert desk.say(arguments["options"][1]) == (
        "open_customer_form",
        {"id": "23", "fields": {"city": "Sopot"}},
    )


def test_a_missing_record_is_asked_for_and_the_answer_is_understood() -> None:
    desk = Desk()
    assert desk.say("Delete product") == (
        "ask_user",
        {"text": "Which record is meant (products)? Give its id or its name.", "kind": "text", "options": []},
    )
    assert desk.say("Blue mug") == ("confirm_delete_product", {"id": "31"})
    desk = Desk()
    desk.say("Usuń produkt")
    assert desk.say("32") == ("confirm_delete_product", {"id": "32"})


@pytest.mark.parametrize(
    ("sentence", "options", "call"),
    [
        (
            "Show orders of customer Jan Kowalski with status paid",
            [
                "Jan Kowalski, jan@example.com, Łódź (id 22)",
                "Jan Kowalski, janek@example.com, Kraków (id 23)",
            ],
            ("query_order", {"filters": {"customer": "23", "status": "paid"}}),
        ),
        (
            "Pokaż zamówienia klienta Jan Kowalski",
            [
                "Jan Kowalski, jan@example.com, Łódź (id 22)",
                "Jan Kowalski, janek@example.com, Kraków (id 23)",
            ],
            ("query_order", {"filters": {"customer": "23"}}),
        ),
    ],
)
def test_several_related_records_of_one_name_are_asked_about(
    sentence: str, options: list[str], call: tuple[str, dict[str, Any]]
) -> None:
    desk = Desk()
    name, arguments = desk.say(sentence)
    assert (name, arguments["kind"], arguments["options"]) == ("ask_user", "single", options)
    desk.say(options[1])
    assert desk.reads == [call]


def test_one_of_several_tags_is_asked_about_and_the_others_stay() -> None:
    tags = [{"id": "11", "name": "new"}, {"id": "12", "name": "gift"}, {"id": "17", "name": "gift"}]
    desk = Desk(rows={"tag": tags})
    name, arguments = desk.say("Create a product with title X1, tags new, gift")
    assert (name, arguments["options"]) == ("ask_user", ["gift (id 12)", "gift (id 17)"])
    assert desk.say("gift (id 17)") == (
        "open_product_form",
        {"fields": {"title": "X1", "tags": ["11", "17"]}},
    )


def test_another_command_after_a_question_is_that_command() -> None:
    desk = Desk()
    desk.say("Delete product")
    assert desk.say("Show order 41") == "Here is 1 order."


def test_a_name_with_another_ending_is_offered_and_never_taken() -> None:
    desk = Desk()
    name, arguments = desk.say("Usuń klienta Anny Nowak")
    assert name == "ask_user"
    assert "Anna Nowak" in arguments["text"]
    assert desk.say("tak") == ("confirm_delete_customer", {"id": "21"})


def test_an_unknown_relation_that_is_the_only_value_is_asked_about() -> None:
    desk = Desk()
    name, arguments = desk.say("Change the category of product 31 to Cups")
    assert name == "ask_user"
    assert arguments["options"] == [
        "Mugs, mugs (id 1)",
        "Kubki, kubki (id 2)",
        "Кружки, kruzhki (id 3)",
        "Leave it out",
    ]
    assert desk.say(arguments["options"][0]) == (
        "open_product_form",
        {"id": "31", "fields": {"category": "1"}},
    )


@pytest.mark.parametrize(
    "greeting", ["Hello", "Cześć", "Привет", "What can you do?", "How many orders are there?"]
)
def test_anything_else_is_answered_with_what_can_be_done(greeting: str) -> None:
    text = ask(greeting, tools=READ_ONLY).text
    lines = {
        "Cześć": "- produkty: pokazać",
        "Привет": "- товары: показать",
    }
    assert lines.get(greeting, "- products: show") in text.splitlines()


def test_verbs_are_listed_as_offered() -> None:
    tools = (
        shop.query("product"),
        shop.form("product", change=False),
        shop.form("order", add=False),
        shop.delete("tag"),
    )
    assert ask("Hello", tools=tools).text.splitlines()[2:5] == [
        "- products: show, add",
        "- orders: change",
        "- tags: delete",
    ]
    assert "nothing that you may use" in ask("Hello", tools=()).text


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Add a product", "You may not do that here (add: products)."),
        ("Zmień cenę produktu 31 na 5", "Nie wolno ci tutaj tego zrobić (zmienić: produkty)."),
        ("Удали товар 31", "Здесь вам нельзя это делать (удалить: товары)."),
    ],
)
def test_what_a_person_may_not_do_is_said_plainly(sentence: str, text: str) -> None:
    reply = ask(sentence, tools=READ_ONLY)
    assert not reply.calls
    assert reply.text.splitlines()[0] == text


def test_form_tools_for_one_of_the_two_uses() -> None:
    adding = (shop.form("product", change=False),)
    assert not ask("Change the price of product 31 to 5", tools=adding).calls
    assert ask("Add a product", tools=adding).calls
    changing = (shop.form("product", add=False),)
    assert not ask("Add a product", tools=changing).calls
    assert ask("Change the price of product 31 to 5", tools=changing).calls


def test_a_noun_nobody_offered_is_searched_once_and_then_named() -> None:
    desk = Desk(tools=(shop.query("product"), shop.FIND))
    text = desk.say("Show the refunds")
    assert desk.reads == [("find_entities", {"words": "refunds"})]
    assert isinstance(text, str)
    assert text.startswith("I found nothing called “refunds”")
    assert not ask("Show the refunds", tools=READ_ONLY).calls


def test_tools_that_were_found_are_used() -> None:
    desk = Desk(tools=(shop.query("product"), shop.FIND), hidden=(shop.query("order"),))
    assert desk.say("Pokaż zamówienia") == "Zamówienia: 5 rekordów."
    desk = Desk(tools=(shop.form("product"), shop.FIND), hidden=(shop.query("category"),))
    assert desk.say("Add a product with category Mugs") == (
        "open_product_form",
        {"fields": {"category": "1"}},
    )
    assert desk.reads[0] == ("find_entities", {"words": "category"})


@pytest.mark.parametrize(
    ("sentence", "start"),
    [
        ("Show orders", "That did not work: No such record."),
        ("Pokaż zamówienia", "To się nie udało: No such record."),
        ("Удали заказ 41", "Не получилось: No such record."),
        ("Change the status of order 41 to paid", "That did not work: No such record."),
    ],
)
def test_errors_are_said(sentence: str, start: str) -> None:
    failing = frozenset({"query_order", "open_order_form", "confirm_delete_order"})
    assert Desk(failing=failing).say(sentence) == start


@pytest.mark.parametrize(
    ("code", "english", "polish"),
    [
        (
            "not_found",
            "There is no such record that you may see here.",
            "Nie ma tu takiego rekordu, który możesz zobaczyć.",
        ),
        ("not_allowed", "You may not do that with this record.", "Nie wolno ci tego zrobić z tym rekordem."),
        ("not_available", "That page can't be opened from here.", "Tej strony nie można stąd otworzyć."),
        (
            "not_fillable",
            "You can't fill that in on this record.",
            "Nie możesz tego wypełnić w tym rekordzie.",
        ),
    ],
)
def test_known_errors_are_said_in_the_persons_language(code: str, english: str, polish: str) -> None:
    failing = frozenset({"confirm_delete_order"})
    assert Desk(failing=failing, code=code).say("Delete order 999") == english
    assert Desk(failing=failing, code=code).say("Usuń zamówienie 999") == polish


def test_many_lookups_are_made_in_several_rounds() -> None:
    desk = Desk()
    name, arguments = desk.say(
        "Create a product with tags new, gift, nowość, prezent, новинка, подарок, t1, t2, t3, t4"
    )
    assert (name, arguments["kind"]) == ("ask_user", "multiple")
    assert "tags “t1”, tags “t2”, tags “t3”, tags “t4”" in arguments["text"]
    assert desk.say("Leave it out") == (
        "open_product_form",
        {"fields": {"tags": ["11", "12", "13", "14", "15", "16"]}},
    )


def test_the_answer_is_in_the_language_of_the_words_and_not_of_the_admin() -> None:
    with translation.override("ru"):
        assert Desk().say("Pokaż zamówienia") == "Zamówienia: 5 rekordów."
        assert Desk().say("Show customers with city Гданьск") == "Here is 1 customer."


def test_models_that_are_not_known_are_named_by_their_tools() -> None:
    request_tools = (shop.query("order_line"), shop.query("product"), shop.form("product"))

    def nothing(path: str) -> None:
        return None

    from django_copilot.backends import ModelRequest

    def first(text: str) -> list[tuple[str, Any]]:
        messages = (ModelMessage(role="user", text=text),)
        reply = OfflineBackend(find=nothing).complete(
            ModelRequest(system="", tools=request_tools, messages=messages)
        )
        check(reply, request_tools)
        return [(call.name, json.loads(call.arguments)) for call in reply.calls]

    assert first("Show order lines") == [("query_order_line", {})]
    assert first("show products with status draft, price 5") == [
        ("query_product", {"filters": {"status": "draft", "price": "5"}})
    ]
    assert first("Create product: title X, price 1,5, available from 2026-12-01, tags 1, attributes [1]") == [
        (
            "open_product_form",
            {
                "fields": {
                    "title": "X",
                    "price": "1.5",
                    "available_from": "2026-12-01T00:00:00",
                    "tags": ["1"],
                    "attributes": [1],
                }
            },
        )
    ]


def test_the_label_says_that_no_model_is_asked() -> None:
    with translation.override("en"):
        assert OfflineBackend().label == "Offline demonstration: no model is asked"


def test_no_message_at_all_is_answered() -> None:
    assert complete(()).text


_SAID = (
    "show pokaż покажи create dodaj добавь change zmień измени delete usuń удали orders zamówienie заказы "
    "product produkt товар customer klienta клиента category tags tagi теги title tytuł price cena цена "
    "status paid opłacone city miasto город vip available from attributes to na на with z с of 's and , ; : "
    '= . 12 1,5 1.234,50 2026-12-01 01.12.2026 02/03/2026 10:30 99:99 "Blue „Kubek” «Кружка» {"a":1} [1 '
    "{ ' # № id null NaN Mugs Anna Nowak (id 3) limit latest all 5 yes nie \ud800 \u202e 9999999999999999999"
)
_WORDS = st.sampled_from(_SAID.split())
_TEXTS = st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=25).map(" ".join))


@given(text=_TEXTS)
def test_any_text_is_answered_with_text_or_valid_calls(text: str) -> None:
    check(ask(text), shop.ALL)
    check(ask(text, tools=READ_ONLY), READ_ONLY)


@given(text=st.lists(_WORDS, max_size=25).map(" ".join))
def test_any_turn_ends(text: str) -> None:
    Desk().say(text)


@given(
    texts=st.lists(_TEXTS, min_size=1, max_size=3),
    name=st.sampled_from([spec.name for spec in shop.ALL] + ["unknown"]),
    arguments=st.sampled_from(["", "{}", "[]", "null", "{", '{"filters": 1}']),
    result=st.sampled_from(
        ["", "null", "[]", '{"rows": null}', '{"rows": [1, {}]}', '{"error": null}', '{"error": "x"}', "{"]
    ),
)
def test_odd_messages_are_answered(texts: list[str], name: str, arguments: str, result: str) -> None:
    messages = [ModelMessage(role="user", text=text) for text in texts]
    messages.append(ModelMessage(role="assistant", calls=(ToolCall(id="1", name=name, arguments=arguments),)))
    messages.append(ModelMessage(role="tool", text=result, call_id="1"))
    check(complete(messages), shop.ALL)


@pytest.mark.parametrize(
    "piece", ["order ", "[", "{", "„", "1-", "1 234 ", "a@", "'a ", '"', "price 5, ", "name "]
)
@pytest.mark.timeout(20)
def test_long_messages_are_answered(piece: str) -> None:
    check(ask("Show orders " + piece * (8_000 // len(piece))), shop.ALL)
    check(ask("Create product " + piece * (8_000 // len(piece))), shop.ALL)
