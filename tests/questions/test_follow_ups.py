"""What points back, in real turns of the offline backend: "the second one", "how many?", "more", "his phone"."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.conf import settings
from django.test.utils import override_settings

from django_copilot.testing import ask

from .asked import Seen
from .asking import calls_seen, client_for

NEWEST = {"en": "10 newest orders", "pl": "10 najnowszych zamówień", "ru": "10 последних заказов"}
FIRST = {"limit": 10, "order_by": ["-placed_at"]}


@dataclasses.dataclass
class Talk:
    """A conversation of one account."""

    client: Any
    calls: list[tuple[str, dict[str, Any]]]
    conversation: str = ""

    def say(self, text: str) -> dict[str, Any]:
        """Say something; ``calls`` holds the calls of this turn."""
        self.calls.clear()
        known = {"conversationId": self.conversation} if self.conversation else {}
        answer = ask(self.client, text, **known)
        self.conversation = answer["conversationId"]
        return answer


@pytest.fixture
def talk(day: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    with (
        override_settings(COPILOT={**settings.COPILOT, "BACKEND": "offline"}),
        calls_seen(monkeypatch) as calls,
    ):
        yield lambda who, language: Talk(client_for(day, who, language), calls)


def newest(who: str, place: int) -> int:
    """Return the key of the order at a place among the newest that an account may see; the first is 1."""
    return list(Seen(who).orders.values_list("pk", flat=True)[:10])[place - 1]


@pytest.mark.parametrize("who", ["manager", "support"])
@pytest.mark.parametrize(
    ("language", "text", "place"),
    [
        ("en", "the second one", 2),
        ("en", "show me the 7th one", 7),
        ("en", "show the third order", 3),
        ("pl", "pokaż drugie", 2),
        ("pl", "trzecie", 3),
        ("pl", "pokaż czwarte zamówienie", 4),
        ("ru", "покажи второй", 2),
        ("ru", "третий", 3),
        ("ru", "покажи пятый заказ", 5),
    ],
)
def test_a_row_of_the_answer_before_is_named_by_its_place(
    who: str, language: str, text: str, place: int, talk: Any
) -> None:
    said = talk(who, language)
    said.say(NEWEST[language])
    assert said.calls == [("query_order", FIRST)]
    answer = said.say(text)
    assert said.calls == [("query_order", {"filters": {"id": f"r1.{place}"}})]
    assert [row["id"] for row in answer["results"][-1]["rows"]] == [str(newest(who, place))]


@pytest.mark.parametrize(
    ("language", "opens", "deletes", "changes"),
    [
        (
            "en",
            "open the third",
            "delete the last one",
            "change the shipping city of the fourth one to Sopot",
        ),
        ("pl", "otwórz trzecie", "usuń ostatnie", "zmień miasto dostawy czwartego na Sopot"),
        ("ru", "открой третий", "удали последний", "измени город доставки четвёртого на Sopot"),
    ],
)
def test_its_page_is_opened(language: str, opens: str, deletes: str, changes: str, talk: Any) -> None:
    said = talk("manager", language)
    said.say(NEWEST[language])
    assert said.say(opens)["action"]["path"] == f"/admin/store/order/{newest('manager', 3)}/change/"
    assert said.say(deletes)["action"]["path"] == f"/admin/store/order/{newest('manager', 10)}/delete/"
    answer = said.say(changes)
    assert said.calls == [("open_order_form", {"id": "r1.4", "fields": {"shipping_city": "Sopot"}})]
    assert answer["action"]["path"] == f"/admin/store/order/{newest('manager', 4)}/change/"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "refund the second one, amount cents 900, reason damaged"),
        ("pl", "zwróć drugie, amount cents 900, reason damaged"),
        ("ru", "вернуть второй, amount cents 900, reason damaged"),
    ],
)
def test_a_write_tool_gets_the_number_that_is_read_first(language: str, text: str, talk: Any) -> None:
    said = talk("manager", language)
    said.say(NEWEST[language])
    said.say(text)
    number = Seen("manager").orders.get(pk=newest("manager", 2)).number
    assert said.calls == [
        ("query_order", {"filters": {"id": "r1.2"}, "fields": ["number"]}),
        ("refund_payment", {"order": number, "amount_cents": 900, "reason": "damaged"}),
    ]


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "who changed the second one?"), ("pl", "kto zmienił drugie?"), ("ru", "кто изменил второй?")],
)
def test_its_history_is_told(language: str, text: str, talk: Any) -> None:
    said = talk("manager", language)
    said.say(NEWEST[language])
    answer = said.say(text)
    assert said.calls == [("history_order", {"id": "r1.2"})]
    assert answer["results"][-1]["kind"] == "history"


@pytest.mark.parametrize(
    ("language", "text", "count", "more"),
    [
        ("en", "paid orders", "how many?", "more"),
        ("en", "show the paid orders", "how many are there?", "show me more"),
        ("pl", "opłacone zamówienia", "ile ich jest?", "dalej"),
        ("ru", "оплаченные заказы", "сколько их?", "ещё"),
    ],
)
def test_what_was_asked_is_counted_and_gone_on_with(
    language: str, text: str, count: str, more: str, talk: Any
) -> None:
    paid = [str(pk) for pk in Seen("manager").orders.filter(status="paid").values_list("pk", flat=True)]
    said = talk("manager", language)
    shown = said.say(text)["results"][-1]["rows"]
    answer = said.say(count)
    assert said.calls == [("count_order", {"filters": {"status": "paid"}})]
    assert answer["results"][-1]["rows"][0]["values"] == {"=0": len(paid)}
    shown += said.say(more)["results"][-1]["rows"]
    assert said.calls == [("query_order", {"filters": {"status": "paid"}, "after": "r1.20"})]
    assert [row["id"] for row in shown] == paid
    assert said.say(more)["results"][-1]["rows"] == []


@pytest.mark.parametrize(
    ("language", "find", "text", "name"),
    [
        ("en", "find the customer Erik Hägg", "what is his e-mail?", "email"),
        ("en", "find the customer Erik Hägg", "his phone", "phone"),
        ("pl", "znajdź klienta Erik Hägg", "jaki jest jego e-mail?", "email"),
        ("ru", "найди клиента Erik Hägg", "какая у него почта?", "email"),
    ],
)
def test_what_she_alone_sees_is_shown_for_the_one_who_was_found(
    language: str, find: str, text: str, name: str, talk: Any
) -> None:
    said = talk("support", language)
    said.say(find)
    answer = said.say(text)
    assert said.calls == [("query_customer", {"fields": ["name", name], "filters": {"id": "r1.1"}})]
    [row] = answer["results"][-1]["rows"]
    assert row["values"][name] == Seen("support").customers.values_list(name, flat=True).get(name="Erik Hägg")
    assert row["values"][name] not in answer["reply"]


@pytest.mark.parametrize(
    ("language", "find", "text", "said_back"),
    [
        ("en", "find the customer Lindqvist", "what is his e-mail?", "Which one?"),
        ("pl", "znajdź klienta Lindqvist", "otwórz go", "O który chodzi?"),
        ("ru", "найди клиента Lindqvist", "открой его", "Какая имеется в виду?"),
        ("en", "find the customer Lindqvist", "the fifth one", "Which one?"),
    ],
)
def test_which_of_several_is_asked(language: str, find: str, text: str, said_back: str, talk: Any) -> None:
    said = talk("support", language)
    said.say(find)
    assert said_back in said.say(text)["reply"]
    assert said.calls == []


def test_a_place_is_of_the_latest_list_that_has_it(talk: Any) -> None:
    said = talk("manager", "en")
    said.say("10 newest orders")
    said.say("the second one")
    said.say("the third one")
    assert said.calls == [("query_order", {"filters": {"id": "r1.3"}})]
    said.say("5 cheapest products")
    said.say("the third one")
    assert said.calls == [("query_product", {"filters": {"id": "r4.3"}})]
    said.say("show the third order")
    assert said.calls == [("query_order", {"filters": {"id": "r1.3"}})]


@pytest.mark.parametrize("text", ["how many?", "more", "dalej", "ещё"])
def test_what_is_not_clear_is_not_guessed(text: str, talk: Any) -> None:
    said = talk("manager", "en")
    said.say("10 newest orders")
    said.say("the second one")
    answer = said.say(text)
    assert said.calls == []
    assert answer["results"] == []


@pytest.mark.parametrize("text", ["the second one", "more", "how many?", "open it", "drugie", "ещё"])
def test_with_nothing_shown_they_point_at_nothing(text: str, talk: Any) -> None:
    said = talk("manager", "en")
    answer = said.say(text)
    assert {name for name, _ in said.calls} <= {"find_entities"}
    assert answer["results"] == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "paid orders of last month"),
        ("pl", "opłacone zamówienia z ostatniego miesiąca"),
        ("ru", "оплаченные заказы за последний месяц"),
    ],
)
def test_a_period_points_at_no_row(language: str, text: str, talk: Any) -> None:
    said = talk("manager", language)
    said.say(NEWEST[language])
    said.say(text)
    (call,) = said.calls
    assert call == ("query_order", {"filters": {"status": "paid", "placed_at": "last month"}})
