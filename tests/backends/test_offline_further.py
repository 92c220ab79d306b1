"""What the offline backend makes of questions beyond exact filters, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_copilot.backends import ModelMessage, ToolCall

from . import offline_shop as shop
from .offline_desk import Desk, ask, check, complete

PLACED, PRICE, STATUS = "placed_at", "price", "status"


def filtered(**filters: Any) -> dict[str, Any]:
    return {"filters": filters}


# -- words for dates --------------------------------------------------------------------------------------

DATES: list[tuple[str, Any]] = [
    # a point in time, and a day
    ("orders with placed at 2026-11-05 10:30", "2026-11-05T10:30:00"),
    ("orders with placed at 2026-11-05", "2026-11-05"),
    ("orders since 2026-11-05 10:30", {"gte": "2026-11-05T10:30:00"}),
    # since, until
    ("orders since Friday", {"gte": "friday"}),
    ("orders since 2026-11-01", {"gte": "2026-11-01"}),
    ("orders since last month", {"gte": "last month"}),
    ("orders since 3 days ago", {"gte": "3 days ago"}),
    ("orders since a week ago", {"gte": "1 week ago"}),
    ("orders since November 5", {"gte": "2026-11-05"}),
    ("orders since December 5", {"gte": "2025-12-05"}),
    ("orders after the 5 October 2026", {"gt": "2026-10-05"}),
    ("orders before yesterday", {"lt": "yesterday"}),
    ("orders until 2026-10-31", {"lte": "2026-10-31"}),
    ("orders since May", {"gte": "may"}),
    ("zamówienia od wczoraj", {"gte": "yesterday"}),
    ("zamówienia od 3 dni temu", {"gte": "3 days ago"}),
    ("zamówienia od tygodnia temu", {"gte": "1 week ago"}),
    ("zamówienia do 5 listopada", {"lte": "2026-11-05"}),
    ("zamówienia po 5 listopada", {"gt": "2026-11-05"}),
    ("zamówienia przed zeszłym tygodniem", {"lt": "last week"}),
    ("show orders since forever", None),
    ("pokaż zamówienia przed potopem", None),
    ("заказы с прошлой недели", {"gte": "last week"}),
    ("заказы после 5 ноября", {"gt": "2026-11-05"}),
    ("заказы до вчера", {"lte": "yesterday"}),
    ("заказы с 1 октября 2026 года", {"gte": "2026-10-01"}),
    # within
    ("today's orders", "today"),
    ("orders from last month", "last month"),
    ("orders of this week", "this week"),
    ("orders placed last Friday", "last friday"),
    ("orders in the last 30 days", "last 30 days"),
    ("orders in 2026", "2026"),
    ("orders in 2026-10", "2026-10"),
    ("orders placed in September", "september"),
    ("zamówienia z tego miesiąca", "this month"),
    ("zamówienia z piątku", "friday"),
    ("zamówienia w zeszłym roku", "last year"),
    ("zamówienia z ostatnich 30 dni", "last 30 days"),
    ("zamówienia z 2026 roku", "2026"),
    ("заказы за вчера", "yesterday"),
    ("заказы за этот месяц", "this month"),
    ("заказы в прошлом году", "last year"),
    ("заказы за октябрь 2026", "2026-10"),
    ("заказы за последние 2 недели", "last 2 weeks"),
    # between
    ("orders between 1 and 5 November", {"gte": "2026-11-01", "lte": "2026-11-05"}),
    ("orders between 5 October and 2 November", {"gte": "2026-10-05", "lte": "2026-11-02"}),
    ("orders from Monday to Friday", {"gte": "monday", "lte": "friday"}),
    ("zamówienia między 1 a 5 października 2026", {"gte": "2026-10-01", "lte": "2026-10-05"}),
    ("zamówienia od 1.10.2026 do 5.10.2026", {"gte": "2026-10-01", "lte": "2026-10-05"}),
    ("заказы между 1 и 5 ноября", {"gte": "2026-11-01", "lte": "2026-11-05"}),
    ("заказы с понедельника по пятницу", {"gte": "monday", "lte": "friday"}),
]


@pytest.mark.parametrize(("sentence", "meant"), DATES, ids=[row[0] for row in DATES])
def test_words_for_dates_are_passed_on_as_the_tools_take_them(sentence: str, meant: Any) -> None:
    reply = ask(sentence, tools=shop.FURTHER)
    if meant is None:  # no words for a date: nothing is guessed, and nobody is called so
        assert not reply.calls
        return
    [call] = reply.calls
    assert (call.name, json.loads(call.arguments)) == ("query_order", filtered(placed_at=meant))


# -- everything else --------------------------------------------------------------------------------------

FIRST: list[tuple[str, str, dict[str, Any]]] = [
    ("products over 100", "query_product", filtered(price={"gt": "100"})),
    ("products under 19.90", "query_product", filtered(price={"lt": "19.90"})),
    ("products with price at least $20", "query_product", filtered(price={"gte": "20"})),
    ("products up to 20 EUR", "query_product", filtered(price={"lte": "20"})),
    ("produkty poniżej 1 000,50 zł", "query_product", filtered(price={"lt": "1000.50"})),
    ("produkty do 20 zł", "query_product", filtered(price={"lte": "20"})),
    ("produkty od 10 do 20 zł", "query_product", filtered(price={"gte": "10", "lte": "20"})),
    ("produkty droższe od 20", "query_product", filtered(price={"gt": "20"})),
    ("товары дешевле 50 руб", "query_product", filtered(price={"lt": "50"})),
    ("товары от 10 до 20", "query_product", filtered(price={"gte": "10", "lte": "20"})),
    ("товары с ценой больше 5", "query_product", filtered(price={"gt": "5"})),
    ("products over 100 and under 200", "query_product", filtered(price={"gt": "100", "lt": "200"})),
    ("which products cost more than 20?", "query_product", filtered(price={"gt": "20"})),
    ("ile kosztujących ponad 5 zł produktów mamy?", "count_product", filtered(price={"gt": "5"})),
    ("how many orders did Anna Nowak place?", "count_order", {"search": "Anna Nowak"}),
    ("draft products over 5", "query_product", filtered(status="draft", price={"gt": "5"})),
    ("paid or shipped orders", "query_order", filtered(status={"in": ["paid", "shipped"]})),
    ("paid, pending or shipped orders", "query_order", filtered(status={"in": ["pending", "paid", "shipped"]})),
    ("orders that are not paid", "query_order", filtered(status={"in": ["pending", "shipped"]})),
    ("nieopłacone zamówienia", "query_order", filtered(status={"in": ["pending", "shipped"]})),
    ("неоплаченные заказы", "query_order", filtered(status={"in": ["pending", "shipped"]})),
    ("paid but not shipped orders", "query_order", filtered(status="paid")),
    ("orders with status paid or shipped", "query_order", filtered(status={"in": ["paid", "shipped"]})),
    ("products without category", "query_product", filtered(category={"isnull": True})),
    ("produkty bez kategorii", "query_product", filtered(category={"isnull": True})),
    ("товары без категории", "query_product", filtered(category={"isnull": True})),
    ("find the customer Kowal…", "query_customer", {"search": "Kowal"}),
    ("search orders for SO-00012", "query_order", {"search": "SO-00012"}),
    ("paid orders of Kowalska", "query_order", {"search": "Kowalska", **filtered(status="paid")}),
    ("znajdź klienta Kowal", "query_customer", {"search": "Kowal"}),
    ("найди клиента Иван…", "query_customer", {"search": "Иван"}),
    ("customers from Gdańsk", "query_customer", filtered(city="Gdańsk")),
    ("the newest orders", "query_order", {"order_by": ["-placed_at"]}),
    ("10 newest paid orders", "query_order", {"limit": 10, "order_by": ["-placed_at"], **filtered(status="paid")}),
    ("cheapest product", "query_product", {"limit": 1, "order_by": ["price"]}),
    ("najdroższe produkty", "query_product", {"order_by": ["-price"]}),
    ("3 самых дорогих товара", "query_product", {"limit": 3, "order_by": ["-price"]}),
    ("orders sorted by number", "query_order", {"order_by": ["number"]}),
    ("pokaż produkty posortowane malejąco po cenie", "query_product", {"order_by": ["-price"]}),
    ("how many orders?", "count_order", {}),
    ("how many products are there in category 3?", "count_product", filtered(category="3")),
    ("ile jest opłaconych zamówień z północy?", "count_order", filtered(status="paid", region="north")),
    ("сколько заказов за вчера?", "count_order", filtered(placed_at="yesterday")),
    ("total price of products", "summarise_product", {"measures": [{"op": "sum", "field": "price"}]}),
    (
        "average and highest price of products by category",
        "summarise_product",
        {
            "measures": [{"op": "avg", "field": "price"}, {"op": "max", "field": "price"}],
            "by": ["category"],
        },
    ),
    (
        "orders per day this month",
        "summarise_order",
        {
            "measures": [{"op": "count"}],
            "by": ["placed_at"],
            "every": "day",
            **filtered(placed_at="this month"),
        },
    ),
    (
        "monthly orders by status",
        "summarise_order",
        {"measures": [{"op": "count"}], "by": ["placed_at", "status"], "every": "month"},
    ),
    (
        "How many orders were paid last month, by region?",
        "summarise_order",
        {
            "measures": [{"op": "count"}],
            "by": ["region"],
            **filtered(status="paid", placed_at="last month"),
        },
    ),
    ("kto zmienił zamówienie 41?", "history_order", {"id": "41"}),
    ("history of order 41", "history_order", {"id": "41"}),
    ("mark the pending orders as shipped", "open_order_list", {"action": "mark_as_shipped", **filtered(status="pending")}),
    ("open the list of products over 5", "open_product_list", filtered(price={"gt": "5"})),
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "name", "arguments"), FIRST, ids=[row[0] for row in FIRST])
def test_first_call(sentence: str, name: str, arguments: dict[str, Any]) -> None:
    reply = ask(sentence, tools=shop.FURTHER)
    calls = [(call.name, json.loads(call.arguments)) for call in reply.calls]
    assert calls == [(name, arguments)], reply.text


@pytest.mark.parametrize(
    "sentence",
    [
        "Change the number of order 41 to 5",
        "Create a product with title History, price 5",
        "Delete order 41",
        "Mark order 41 as paid",
        "open order 41",
    ],
)
def test_forms_stay_forms(sentence: str) -> None:
    [call] = ask(sentence, tools=shop.FURTHER).calls or ask("Delete order 41", tools=shop.FURTHER).calls
    assert not call.name.startswith(("query_", "count_", "history_", "summarise_"))
    assert not call.name.endswith("_list")


@pytest.mark.parametrize(
    ("sentence", "hidden", "name"),
    [
        ("orders since Friday", (shop.wide("order"),), "query_order"),
        ("how many paid orders?", shop.counting("order"), "count_order"),
        ("zamówienia według statusu", shop.counting("order"), "summarise_order"),
        ("открой список оплаченных заказов", shop.counting("order"), "open_order_list"),
    ],
)
def test_what_is_not_told_of_is_looked_for_by_the_entitys_own_name(
    sentence: str, hidden: Any, name: str
) -> None:
    tools = (shop.query("order"), shop.FIND)
    [call] = ask(sentence, tools=tools).calls
    assert (call.name, json.loads(call.arguments)) == ("find_entities", {"words": "order"})
    found = (*(spec for spec in tools if spec.kind == "find" or name != "query_order"), *hidden)
    messages = [
        ModelMessage(role="user", text=sentence),
        ModelMessage(role="assistant", calls=(call,)),
        ModelMessage(role="tool", text='{"entities": []}', call_id=call.id),
    ]
    [made] = complete(messages, tools=found).calls
    assert made.name == name
    # Found or not, it is looked for once.
    reply = complete(messages, tools=tools)
    assert not reply.calls
    assert "can't be asked here" in reply.text or "nie można" in reply.text or "нельзя" in reply.text


def test_a_name_that_nothing_is_called_exactly_is_searched_for_in_the_end() -> None:
    tools = (shop.query("customer"), shop.FIND)
    desk = Desk(tools=tools, hidden=())
    desk.say("pokaż klienta Kowal")
    assert [name for name, _ in desk.reads][-1] == "find_entities"


def test_a_list_of_somebodys_rows_is_opened_by_their_ids() -> None:
    order = {"id": "41", "number": "SO-0000041", "shipping_city": "Sopot", "status": "paid"}
    desk = Desk(tools=shop.FURTHER, rows={"order": [order]})
    assert desk.say("mark the paid orders of Sopot as shipped") == (
        "open_order_list",
        {"ids": ["41"], "action": "mark_as_shipped"},
    )
    assert desk.reads[0] == ("query_order", {"filters": {"status": "paid"}, "search": "Sopot", "limit": 50})


@pytest.mark.parametrize(
    ("sentence", "answer"),
    [
        ("mark the paid orders as lost", "There is no such action for orders here.\nPossible values: mark as shipped, cancel."),
        ("oznacz opłacone zamówienia jako zgubione", "Nie ma tu takiej akcji (zamówienia).\nMożliwe wartości: mark as shipped, cancel."),
        ("show shipped orders that are not shipped", "I can't read “not shipped” as status. Possible values: pending, paid, shipped."),
    ],
)  # fmt: skip
def test_what_can_not_be_done_is_said(sentence: str, answer: str) -> None:
    reply = ask(sentence, tools=shop.FURTHER)
    assert not reply.calls
    assert reply.text == answer


def answered(sentence: str, result: dict[str, Any]) -> str:
    """Return what is said when the first call of a sentence gave this result."""
    [call] = ask(sentence, tools=shop.FURTHER).calls
    return complete(
        [
            ModelMessage(role="user", text=sentence),
            ModelMessage(
                role="assistant", calls=(ToolCall(id="1", name=call.name, arguments=call.arguments),)
            ),
            ModelMessage(role="tool", text=json.dumps(result), call_id="1"),
        ],
        tools=shop.FURTHER,
    ).text


@pytest.mark.parametrize(
    ("sentence", "result", "text"),
    [
        ("how many orders?", {"count": 1, "capped": False}, "There is 1 order."),
        ("how many orders?", {"count": 1000, "capped": True}, "There are more than 1000 orders."),
        ("ile zamówień?", {"count": 5, "capped": False}, "Znaleziono (zamówienia): 5."),
        ("сколько заказов?", {"count": 0, "capped": False}, "Найдено (заказы): 0."),
        (
            "how many orders since Friday?",
            {"count": 2, "capped": False, "filters": {"placed_at": {"gte": "2026-11-27T00:00:00+01:00"}}},
            "There are 2 orders.\nPlaced at: from 2026-11-27.",
        ),
        (
            "orders from 8 hours ago",
            {"rows": [{"id": "1"}], "filters": {"placed_at": {"gte": "2026-11-30T04:30:00+01:00"}}},
            "Here is 1 order.\nPlaced at: from 2026-11-30 04:30.",
        ),
        (
            "average price of products",
            {"groups": [{"key": [], "values": ["2.5000"]}]},
            "Average: price: 2.5000.",
        ),
        ("total price of products", {"groups": [{"key": [], "values": [None]}]}, "Sum: price: none."),
        ("products by category", {"groups": []}, "There is nothing to add up: products."),
        (
            "liczba zamówień według statusu",
            {"groups": [{"key": ["paid"], "values": [3]}, {"key": [None], "values": [1]}], "more": True},
            "Liczba: zamówienia:\n- Opłacone: 3\n- brak: 1\nGrup jest więcej; te są pierwsze.",
        ),
        (
            "товары по категориям",
            {"groups": [{"key": [{"id": "1", "label": "Кружки"}], "values": [3]}], "more": False},
            "Количество: товары:\n- Кружки: 3",
        ),
        ("history of order 41", {"changes": []}, "The history is in the table: who changed what, and when."),
        (
            "how many orders did Anna Nowak place?",
            {"count": 0, "capped": False},
            "I found nothing: orders. Searched for: “did Anna Nowak place”.",
        ),
        ("how many orders?", {"error": {"code": "x", "message": "No."}}, "That did not work: No."),
    ],
    ids=str,
)
def test_numbers_are_told(sentence: str, result: dict[str, Any], text: str) -> None:
    assert answered(sentence, result) == text


@pytest.mark.parametrize(
    "result", [{}, {"groups": "x"}, {"groups": [None, 1]}, {"count": "many"}, {"filters": 5}]
)
@pytest.mark.parametrize(
    "sentence", ["how many orders since Friday?", "orders by status", "orders since Friday"]
)
def test_an_odd_result_breaks_nothing(sentence: str, result: dict[str, Any]) -> None:
    assert answered(sentence, result)


PERSON = shop._spec(
    "query_person",
    "query",
    "",
    {
        "properties": {
            "filters": {
                "type": "object",
                "properties": {
                    "first_name": {"type": "string"},
                    "last_name": {"type": "string"},
                    "born": {"type": "string", "format": "date"},
                },
            }
        }
    },
)


@pytest.mark.parametrize(
    ("sentence", "filters"),
    [
        ("show person with last name Smith", {"last_name": "Smith"}),
        ("show person with first name Ann", {"first_name": "Ann"}),
        ("show person with born 2026-11-05", {"born": "2026-11-05"}),
    ],
)
def test_words_of_a_fields_name_lead_to_nothing_else(sentence: str, filters: dict[str, Any]) -> None:
    shown = [ModelMessage(role="assistant", text="Here.\n[r1: person, 3 rows, r1.1 to r1.3]")]
    for history in ([], shown):
        [call] = ask(sentence, tools=(PERSON,), history=history).calls
        assert (call.name, json.loads(call.arguments)) == ("query_person", {"filters": filters})


def test_where_there_is_no_wider_tool_it_says_so() -> None:
    reply = ask("show person with born before 2026-11-05", tools=(PERSON,))
    assert (reply.calls, reply.text) == ((), "That can't be asked here (show: person).")


_SAID = (
    "orders zamówienia заказы products by per sum average price status paid or not without category since friday "
    "od do с по between 1 5 and november 100 over newest cheapest sorted how many ile сколько more dalej ещё the "
    "second one drugie второй last his jego его open list mark as shipped who changed кто изменил refund , . ? 7th "
    "month week last ago days"
)
_WORDS = st.sampled_from(_SAID.split())
_SHOWN = st.sampled_from(
    ["", "\n[r1: order, 8 rows, r1.1 to r1.8]", "\n[r2: gone, 1 row, r2.1]", "\n[r0: x, y]"]
)
_RESULTS = st.sampled_from(
    [
        *(
            "",
            "null",
            "[]",
            "{",
            '{"rows": null}',
            '{"rows": [1, {}]}',
            '{"rows": [{"id": "1", "number": null}]}',
        ),
        *(
            '{"count": null}',
            '{"groups": [{"key": 1, "values": [[]]}]}',
            '{"groups": [{}]}',
            '{"error": "x"}',
        ),
        '{"rows": [{"id": "1"}], "filters": {"placed_at": {"gte": [], "lt": "x"}}}',
    ]
)
_SENTENCES = st.lists(_WORDS, max_size=12).map(" ".join)


@given(said=_SENTENCES, before=_SENTENCES, shown=_SHOWN, result=_RESULTS)
@example(said="the second one", before="orders", shown="\n[r1: order, 8 rows, r1.1 to r1.8]", result="")
@example(said="orders by status", before="", shown="", result='{"groups": [{"key": 1, "values": [[]]}]}')
def test_any_words_are_answered_with_text_or_valid_calls(
    said: str, before: str, shown: str, result: str
) -> None:
    history = [ModelMessage(role="user", text=before), ModelMessage(role="assistant", text=f"Here.{shown}")]
    reply = ask(said, tools=shop.FURTHER, history=history)
    check(reply, shop.FURTHER)
    if reply.calls:
        messages = [
            *history,
            ModelMessage(role="user", text=said),
            ModelMessage(role="assistant", calls=reply.calls),
        ]
        messages += [ModelMessage(role="tool", text=result, call_id=call.id) for call in reply.calls]
        check(complete(messages, tools=shop.FURTHER), shop.FURTHER)
