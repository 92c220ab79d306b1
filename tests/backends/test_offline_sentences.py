"""Sentences in three languages and the calls they become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_copilot.backends.offline.texts import TEXTS, counted
from django_copilot.backends.offline.values import plain_decimal

from .offline_desk import Desk, ask

NAME_ONLY = [
    # -- read ---------------------------------------------------------------------------------------
    ("Show the latest orders", "query_order", {}),
    ("Could you please show me the newest orders?", "query_order", {}),
    ("orders", "query_order", {}),
    ("Pokaż ostatnie zamówienia", "query_order", {}),
    ("pokaz zamowienia", "query_order", {}),
    ("klienci", "query_customer", {}),
    ("Покажи последние заказы", "query_order", {}),
    ("товары", "query_product", {}),
    ("Show order lines", "query_order_line", {}),
    ("Pokaż pozycje zamówień", "query_order_line", {}),
    ("Покажи позиции заказа", "query_order_line", {}),
    ("Show the latest order", "query_order", {"limit": 1}),
    ("Pokaż ostatnie zamówienie", "query_order", {"limit": 1}),
    ("show orders limit 5", "query_order", {"limit": 5}),
    ("Show five orders", "query_order", {"limit": 5}),
    ("Pokaż pięć ostatnich zamówień", "query_order", {"limit": 5}),
    ("Покажи 5 последних заказов", "query_order", {"limit": 5}),
    ("Show me all customers please", "query_customer", {"limit": 50}),
    ("show 5 orders with status paid", "query_order", {"limit": 5, "filters": {"status": "paid"}}),
    ("paid orders", "query_order", {"filters": {"status": "paid"}}),
    ("Pokaż opłacone zamówienia", "query_order", {"filters": {"status": "paid"}}),
    ("Покажи оплаченные заказы", "query_order", {"filters": {"status": "paid"}}),
    (
        "Pokaż wysłane zamówienia z północy",
        "query_order",
        {"filters": {"status": "shipped", "region": "north"}},
    ),
    ("list products with status draft", "query_product", {"filters": {"status": "draft"}}),
    ("Покажи товары со статусом черновик", "query_product", {"filters": {"status": "draft"}}),
    ("find customers with city Gdańsk", "query_customer", {"filters": {"city": "Gdańsk"}}),
    ("orders from Kraków", "query_order", {"filters": {"shipping_city": "Kraków"}}),
    ("Znajdź klientów z miasta Gdańsk", "query_customer", {"filters": {"city": "Gdańsk"}}),
    ("Найди клиентов из города Гданьск", "query_customer", {"filters": {"city": "Гданьск"}}),
    ("VIP customers", "query_customer", {"filters": {"vip": True}}),
    ("Pokaż klientów VIP", "query_customer", {"filters": {"vip": True}}),
    ("customers with vip no", "query_customer", {"filters": {"vip": False}}),
    ("show products with price 19.90", "query_product", {"filters": {"price": "19.90"}}),
    ("show order 12", "query_order", {"filters": {"id": "12"}}),
    ("Pokaż zamówienie nr 12", "query_order", {"filters": {"id": "12"}}),
    ("Покажи товар 12", "query_product", {"filters": {"id": "12"}}),
    ("Show order SO-0000012", "query_order", {"filters": {"number": "SO-0000012"}}),
    ("Znajdź zamówienia z numerem SO-0000012", "query_order", {"filters": {"number": "SO-0000012"}}),
    ("show order true", "query_order", {"filters": {"number": "true"}}),
    ("show customer Anna Nowak", "query_customer", {"filters": {"name": "Anna Nowak"}}),
    (
        "show the price of product 12",
        "query_product",
        {"fields": ["title", "price"], "filters": {"id": "12"}},
    ),
    ("Pokaż cenę produktu 12", "query_product", {"fields": ["title", "price"], "filters": {"id": "12"}}),
    ("show products of category 3", "query_product", {"filters": {"category": "3"}}),
    # -- create -------------------------------------------------------------------------------------
    ("Add a product", "open_product_form", {}),
    ("Create a category Mugs", "open_category_form", {"fields": {"name": "Mugs"}}),
    ("Dodaj kategorię: Kubki", "open_category_form", {"fields": {"name": "Kubki"}}),
    ("Dodaj tag o nazwie prezent", "open_tag_form", {"fields": {"name": "prezent"}}),
    ("Создай категорию «Кружки»", "open_category_form", {"fields": {"name": "Кружки"}}),
    (
        "Create a new product called Blue mug, price 12",
        "open_product_form",
        {"fields": {"title": "Blue mug", "price": "12"}},
    ),
    (
        "create product title Blue mug price 19.90 status draft",
        "open_product_form",
        {"fields": {"title": "Blue mug", "price": "19.90", "status": "draft"}},
    ),
    (
        "Create a product with title Best price ever, status draft",
        "open_product_form",
        {"fields": {"title": "Best price ever", "status": "draft"}},
    ),
    (
        "Create a product with price 1,234.50 and title Blue mug",
        "open_product_form",
        {"fields": {"price": "1234.50", "title": "Blue mug"}},
    ),
    (
        "Create a product with tags 1, 2 and category 3",
        "open_product_form",
        {"fields": {"tags": ["1", "2"], "category": "3"}},
    ),
    (
        "Create customer: name Anna Nowak, e-mail anna@example.com, vip yes",
        "open_customer_form",
        {"fields": {"name": "Anna Nowak", "email": "anna@example.com", "vip": True}},
    ),
    (
        "Dodaj klienta Anna Nowak, miasto Łódź, kraj Polska",
        "open_customer_form",
        {"fields": {"name": "Anna Nowak", "city": "Łódź", "country": "Polska"}},
    ),
    ("Add order line with quantity 5", "open_order_line_form", {"fields": {"quantity": 5}}),
    # -- change -------------------------------------------------------------------------------------
    ("edit order 12", "open_order_form", {"id": "12"}),
    (
        "Change the city of customer 12 to Gdańsk",
        "open_customer_form",
        {"id": "12", "fields": {"city": "Gdańsk"}},
    ),
    (
        "Change the city of the customer with id 12 to Gdańsk",
        "open_customer_form",
        {"id": "12", "fields": {"city": "Gdańsk"}},
    ),
    (
        "Set the city to Gdańsk for customer 12",
        "open_customer_form",
        {"id": "12", "fields": {"city": "Gdańsk"}},
    ),
    ("Zmień miasto klienta 12 na Gdańsk", "open_customer_form", {"id": "12", "fields": {"city": "Gdańsk"}}),
    ("Zmień klientowi 12 miasto na Gdańsk", "open_customer_form", {"id": "12", "fields": {"city": "Gdańsk"}}),
    ("Измени город клиента 12 на Гданьск", "open_customer_form", {"id": "12", "fields": {"city": "Гданьск"}}),
    (
        "Change the city of order 12 to Gdańsk",
        "open_order_form",
        {"id": "12", "fields": {"shipping_city": "Gdańsk"}},
    ),
    (
        "Zmień kraj zamówienia 12 na Polska",
        "open_order_form",
        {"id": "12", "fields": {"shipping_country": "Polska"}},
    ),
    (
        "Измени город заказа 12 на Гданьск",
        "open_order_form",
        {"id": "12", "fields": {"shipping_city": "Гданьск"}},
    ),
    (
        "Change product 12: price 20, status active",
        "open_product_form",
        {"id": "12", "fields": {"price": "20", "status": "active"}},
    ),
    (
        "Set the price to 20 and the status to active for product 12",
        "open_product_form",
        {"id": "12", "fields": {"price": "20", "status": "active"}},
    ),
    (
        "Change the price of product 12 to $19.99",
        "open_product_form",
        {"id": "12", "fields": {"price": "19.99"}},
    ),
    ("Mark order 12 as shipped", "open_order_form", {"id": "12", "fields": {"status": "shipped"}}),
    ("Ustaw zamówienie 12 na wysłane", "open_order_form", {"id": "12", "fields": {"status": "shipped"}}),
    (
        "Измени статус заказа 12 на отправлен",
        "open_order_form",
        {"id": "12", "fields": {"status": "shipped"}},
    ),
    (
        "Change status of product 12 from draft to active",
        "open_product_form",
        {"id": "12", "fields": {"status": "active"}},
    ),
    ("Rename product 12 to Big mug", "open_product_form", {"id": "12", "fields": {"title": "Big mug"}}),
    (
        "Change the available from of product 3 to December 1, 2026 at 10:30 pm",
        "open_product_form",
        {"id": "3", "fields": {"available_from": "2026-12-01T22:30:00"}},
    ),
    (
        "Ustaw dostępny od produktu 3 na 1 grudnia 2026 o 10:30",
        "open_product_form",
        {"id": "3", "fields": {"available_from": "2026-12-01T10:30:00"}},
    ),
    (
        "Измени доступен с товара 3 на 1 декабря 2026",
        "open_product_form",
        {"id": "3", "fields": {"available_from": "2026-12-01T00:00:00"}},
    ),
    (
        "Set the available from of product 3 to tomorrow at 8:00",
        "open_product_form",
        {"id": "3", "fields": {"available_from": "2026-12-01T08:00:00"}},
    ),
    (
        "Change the quantity of order line 7 to 3",
        "open_order_line_form",
        {"id": "7", "fields": {"quantity": 3}},
    ),
    # -- delete -------------------------------------------------------------------------------------
    ("Delete product 12", "confirm_delete_product", {"id": "12"}),
    ("Delete product #12", "confirm_delete_product", {"id": "12"}),
    ("I want to delete product 12", "confirm_delete_product", {"id": "12"}),
    ("Usuń produkt 12", "confirm_delete_product", {"id": "12"}),
    ("Chcę skasować zamówienie nr 12", "confirm_delete_order", {"id": "12"}),
    ("Удали товар 12", "confirm_delete_product", {"id": "12"}),
    ("Delete category id a/b_5F.", "confirm_delete_category", {"id": "a/b_5F"}),
    (
        "Delete order 3f2b0c1e-1111-2222-3333-444455556666",
        "confirm_delete_order",
        {"id": "3f2b0c1e-1111-2222-3333-444455556666"},
    ),
    ("Delete the product Blue mug", "query_product", {"filters": {"title": "Blue mug"}}),
    ("Usuń produkt „Niebieski kubek”", "query_product", {"filters": {"title": "Niebieski kubek"}}),
    ("Удали товар «Синяя кружка».", "query_product", {"filters": {"title": "Синяя кружка"}}),
    (
        "Delete customer with e-mail anna@example.com",
        "query_customer",
        {"filters": {"email": "anna@example.com"}},
    ),
    ("Delete order 1.9", "query_order", {"filters": {"number": "1.9"}}),
    ('Delete order "1_0"', "query_order", {"filters": {"number": "1_0"}}),
]


@pytest.mark.parametrize(("sentence", "name", "arguments"), NAME_ONLY, ids=[row[0] for row in NAME_ONLY])
def test_first_call(sentence: str, name: str, arguments: dict[str, Any]) -> None:
    reply = ask(sentence)
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [(name, arguments)], (
        reply.text
    )


FULL = [
    (
        'Create a product with title "Blue mug", price 19.90, category Mugs, tags new, gift, '
        'available from 2026-12-01 10:30, status active, attributes {"color": "blue"}',
        {
            "title": "Blue mug",
            "price": "19.90",
            "category": "1",
            "tags": ["11", "12"],
            "available_from": "2026-12-01T10:30:00",
            "status": "active",
            "attributes": {"color": "blue"},
        },
    ),
    (
        'Dodaj produkt: tytuł „Niebieski kubek", cena 1 234,50 zł, kategoria Kubki, tagi nowość, prezent, '
        'dostępny od 01.12.2026 10:30, status aktywny, atrybuty {"kolor": "niebieski"}',
        {
            "title": "Niebieski kubek",
            "price": "1234.50",
            "category": "2",
            "tags": ["13", "14"],
            "available_from": "2026-12-01T10:30:00",
            "status": "active",
            "attributes": {"kolor": "niebieski"},
        },
    ),
    (
        "Добавь товар: название «Синяя кружка», цена 1 234,50 руб, категория Кружки, теги новинка и подарок, "
        'доступен с 01.12.2026 10:30, статус активный, атрибуты {"цвет": "синий"}',
        {
            "title": "Синяя кружка",
            "price": "1234.50",
            "category": "3",
            "tags": ["15", "16"],
            "available_from": "2026-12-01T10:30:00",
            "status": "active",
            "attributes": {"цвет": "синий"},
        },
    ),
]


@pytest.mark.parametrize(("sentence", "fields"), FULL, ids=["en", "pl", "ru"])
def test_a_new_product_with_everything(sentence: str, fields: dict[str, Any]) -> None:
    desk = Desk()
    assert desk.say(sentence) == ("open_product_form", {"fields": fields})
    assert [name for name, _ in desk.reads] == ["query_category", "query_tag", "query_tag"]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("show customers with internal note secret", "internal note secret"),
        ("show customers with internal_note secret", "internal_note secret"),
        ("show customers with nonsense secret", "nonsense secret"),
        ("show customers where customer__api_token is x", "customer__api_token x"),
        ("Change the cost price of product 12 to 5", "cost price 5"),
        ("Change the city and the country of customer 12 to Paris", "city"),
        ("Add tag gift to product 12", "gift product 12"),
    ],
)
def test_nothing_is_done_on_half_a_sentence(sentence: str, words: str) -> None:
    reply = ask(sentence)
    assert not reply.calls
    assert f"“{words}”" in reply.text


def test_a_field_that_is_not_offered_and_one_that_does_not_exist_are_answered_alike() -> None:
    hidden = ask("show customers with internal_note x").text
    missing = ask("show customers with outernal_note x").text
    assert hidden.replace("internal_note", "…") == missing.replace("outernal_note", "…")


@pytest.mark.parametrize(
    ("sentence", "part"),
    [
        ("Add a product with price abc", "“abc” as price"),
        ("Dodaj produkt z ceną abc", "„abc” jako wartości pola cena"),
        ("Создай товар с ценой абв", "«абв» как значение поля цена"),
        ("Create a product with available from 02/03/2026", "year-month-day"),
        ("Create a product with available from 2026-02-31", "year-month-day"),
        ("Create a product with available from 2026-02-01 25:61", "year-month-day"),
        ("Change the status of product 12 to sold", "draft, active, archived"),
        ("Change the attributes of product 12 to blue", "“blue” as attributes"),
    ],
)
def test_a_value_that_can_not_be_read_is_named(sentence: str, part: str) -> None:
    reply = ask(sentence)
    assert not reply.calls
    assert part in reply.text


@pytest.mark.parametrize(
    ("text", "language", "places", "plain"),
    [
        ("19.90", "en", 2, "19.90"),
        ("19,90", "en", 2, "19.90"),
        ("1,234", "en", 2, "1234"),
        ("1,234.50", "en", 2, "1234.50"),
        ("1,234,567", "en", 2, "1234567"),
        ("1 234,50", "pl", 2, "1234.50"),
        ("1\u00a0234,50", "pl", 2, "1234.50"),
        ("1.234,50", "pl", 2, "1234.50"),
        ("1.234", "pl", 2, "1234"),
        ("1.234", "pl", 3, "1.234"),
        ("1,234", "ru", 3, "1.234"),
        ("-5", "en", 2, "-5"),
        ("1.2.3", "en", 2, None),
        ("1,2,3", "pl", 2, None),
        ("1.2,3.4", "pl", 2, None),
        ("1e5", "en", 2, None),
    ],
)
def test_decimals(text: str, language: Any, places: int, plain: str | None) -> None:
    assert plain_decimal(text, language=language, places=places) == plain


@pytest.mark.parametrize(
    ("language", "count", "text"),
    [
        ("en", 1, "Here is 1 order."),
        ("en", 5, "Here are 5 orders."),
        ("pl", 1, "Orders: 1 rekord."),
        ("pl", 2, "Orders: 2 rekordy."),
        ("pl", 5, "Orders: 5 rekordów."),
        ("pl", 12, "Orders: 12 rekordów."),
        ("pl", 21, "Orders: 21 rekordów."),
        ("pl", 22, "Orders: 22 rekordy."),
        ("ru", 1, "Orders: 1 запись."),
        ("ru", 3, "Orders: 3 записи."),
        ("ru", 11, "Orders: 11 записей."),
        ("ru", 14, "Orders: 14 записей."),
        ("ru", 21, "Orders: 21 запись."),
    ],
)
def test_plural_forms(language: Any, count: int, text: str) -> None:
    assert counted(language, count, noun="order", nouns="orders") == text


def test_every_text_is_there_in_every_language_with_the_same_blanks() -> None:
    def blanks(text: str) -> set[str]:
        return {part.partition("}")[0] for part in text.split("{")[1:]}

    for texts in TEXTS.values():
        assert {key: blanks(text) for key, text in texts.items()} == {
            key: blanks(text) for key, text in TEXTS["en"].items()
        }
