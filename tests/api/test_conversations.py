"""Conversations: whose they are, what they show again later, and what is withheld when rights are gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from django_copilot.backends.offline import OfflineBackend
from django_copilot.models import Conversation, Message, Plan, PlanState, Turn
from django_copilot.testing import Call, Text, ask, assert_not_sent, script
from example_project.store.models import Customer, Order, Product

from .posting import CONVERSATIONS, detail, fingerprint, told

JSON = {"Accept": "application/json"}


def opened(client: Client, ident: str) -> dict[str, Any]:
    """Return a conversation as the panel reads it."""
    response = client.get(detail(ident), headers=JSON)
    assert told(response) == (200, "")
    body: dict[str, Any] = response.json()
    return body


def page(client: Client, ident: str) -> str:
    """Return a conversation's page."""
    response = client.get(detail(ident))
    assert response.status_code == 200
    return str(response.content.decode())


def take(store: Any, codename: str, group: str = "support") -> None:
    Group.objects.get(name=group).permissions.remove(Permission.objects.get(codename=codename))


@pytest.fixture
def told_of_customers(login: Any) -> tuple[Client, str]:
    """A client of support's and a conversation of his whose answer speaks of a customer's country."""
    client = login("support")
    Customer.objects.update(country="Canary Country", city="Canary City")
    with script(
        Call("query_customer", {"fields": ["name", "country"], "limit": 2}), Text("It is canary land.")
    ):
        answer = ask(client, "Which country?")
    assert answer["results"][0]["rows"]
    return client, answer["conversationId"]


# -- what is kept and shown again -------------------------------------------------------------------


def test_a_conversation_goes_on_and_is_shown_again(login):
    client = login("manager")
    with script(Text("First answer.")):
        ident = ask(client, "First question")["conversationId"]
    with script(Text("Second answer.")) as model:
        assert ask(client, "Second question", conversationId=ident)["conversationId"] == ident
    assert [(m.role, m.text) for m in model.request.messages] == [
        ("user", "First question"),
        ("assistant", "First answer."),
        ("user", "Second question"),
    ]
    body = opened(client, ident)
    assert body["title"] == "First question"
    assert body["turn"] is None
    assert [(m["role"], m["text"]) for m in body["messages"]] == [
        ("user", "First question"),
        ("assistant", "First answer."),
        ("user", "Second question"),
        ("assistant", "Second answer."),
    ]
    shown = page(client, ident)
    assert shown.index("First question") < shown.index("First answer.") < shown.index("Second answer.")


def test_tool_calls_and_results_never_return_to_a_later_request(login):
    """Hazard 75."""
    client = login("manager")
    product = Product.objects.first()
    with script(Call("query_product", {"filters": {"id": str(product.pk)}}), Text("I looked.")) as first:
        ident = ask(client, "Look")["conversationId"]
    assert product.sku in first.request.messages[-1].text
    with script(Text("Again.")) as second:
        ask(client, "And now?", conversationId=ident)
    assert {each.role for each in second.request.messages} == {"user", "assistant"}
    assert not any(each.calls for each in second.request.messages)
    assert_not_sent(second, product.sku)


def test_own_conversations_are_listed_latest_first_and_nobody_elses(login, store):
    """Hazard 70."""
    Conversation.objects.create(user=store.user("manager"), site="admin", title="Another person's")
    Conversation.objects.create(user=store.user("viewer"), site="other", title="Another site's")
    Conversation.objects.create(user=store.user("viewer"), site="admin", scope_key="f" * 64, title="Scope's")
    client = login("viewer")
    with script(Text("1"), Text("2"), Text("3")):
        first = ask(client, "Apples")["conversationId"]
        second = ask(client, "Pears")["conversationId"]
        ask(client, "More apples", conversationId=first)
    listed = client.get(CONVERSATIONS, headers=JSON).json()["conversations"]
    assert [each["conversationId"] for each in listed] == [first, second]
    assert [each["title"] for each in listed] == ["Apples", "Pears"]
    assert [each["url"] for each in listed] == [detail(first), detail(second)]
    shown = client.get(CONVERSATIONS).content.decode()
    assert "Apples" in shown
    assert detail(first) in shown
    assert f"{detail(second)}delete/" in shown
    for hidden in ("Another", "Scope"):
        assert hidden not in shown


def test_the_list_is_empty_and_says_so(login):
    client = login("viewer")
    assert client.get(CONVERSATIONS, headers=JSON).json()["conversations"] == []
    assert "You have no conversations yet" in client.get(CONVERSATIONS).content.decode()


def test_what_people_and_models_write_is_text_on_the_page(login):
    client = login("manager")
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    with script(Text(evil)):
        ident = ask(client, evil)["conversationId"]
    for shown in (page(client, ident), client.get(CONVERSATIONS).content.decode()):
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
    assert "&lt;script&gt;alert(1)" in page(client, ident)


def test_rows_are_read_again_when_a_conversation_is_opened(login):
    """Hazard 76."""
    client = login("manager")
    product = Product.objects.order_by("pk").first()
    with script(
        Call("query_product", {"fields": ["title", "price"], "filters": {"id": str(product.pk)}}),
        Text("Here."),
    ):
        answer = ask(client, "Show it")
    ident = answer["conversationId"]
    assert answer["results"][0]["rows"][0]["values"]["title"] == product.title
    stored = Message.objects.get(role="assistant")
    assert product.title not in json.dumps([stored.reads, stored.mentions])
    Product.objects.filter(pk=product.pk).update(title="Renamed since")
    result = opened(client, ident)["messages"][1]["results"][0]
    assert result["rows"][0]["values"]["title"] == "Renamed since"
    assert [each["name"] for each in result["columns"]] == ["title", "price"]
    assert "Renamed since" in page(client, ident)
    product.order_lines.all().delete()
    Product.objects.filter(pk=product.pk).delete()
    assert opened(client, ident)["messages"][1]["results"][0]["rows"] == []


def test_rows_that_went_out_of_sight_are_not_shown_again(login):
    """Hazard 76."""
    client = login("support")
    with script(Call("query_order", {"fields": ["number"], "limit": 5}), Text("Here.")):
        answer = ask(client, "Orders")
    numbers = [row["values"]["number"] for row in answer["results"][0]["rows"]]
    assert numbers
    Order.objects.filter(number__in=numbers).update(region="south")
    assert not {
        row["values"]["number"]
        for row in opened(client, answer["conversationId"])["messages"][1]["results"][0]["rows"]
    } & {*numbers}
    assert not [number for number in numbers if number in page(client, answer["conversationId"])]


def test_hidden_rows_and_fields_are_in_no_result(login):
    """Hazard 76."""
    Customer.objects.update(internal_note="canary-note", api_token="canary-token")
    Product.objects.update(cost_price="4321.09")
    client = login("support")
    with script(
        Call("query_order", {"limit": 50}),
        Call("query_customer", {"limit": 50}),
        Call("query_product", {"limit": 50}),
        Call("query_payment", {"limit": 50}),
        Text("Here."),
    ) as model:
        answer = ask(client, "Everything")
    assert [each["entity"] for each in answer["results"]] == ["order", "customer", "product", "payment"]
    seen = {row["values"]["number"] for row in answer["results"][0]["rows"]}
    assert seen
    allowed = {*Order.objects.filter(region="north", customer__vip=False).values_list("number", flat=True)}
    assert seen <= allowed
    again = opened(client, answer["conversationId"])
    for text in (json.dumps(answer), json.dumps(again), page(client, answer["conversationId"])):
        for canary in ("canary-note", "canary-token", "4321"):
            assert canary not in text
    assert_not_sent(model, "canary-note", "canary-token", "4321.09")


def test_a_question_is_part_of_the_answer_and_of_the_conversation(login):
    client = login("manager")
    asked = {"text": "Which one?", "kind": "single", "options": ["This", "That"]}
    with script(Call("ask_user", asked)):
        answer = ask(client, "Do it")
    assert answer["question"] == asked
    assert answer["reply"] == "Which one?"
    assert "action" not in answer
    last = opened(client, answer["conversationId"])["messages"][-1]
    assert last["question"] == asked
    with script(Text("That it is.")) as model:
        ask(client, "That", conversationId=answer["conversationId"])
    assert model.request.messages[-2].text == "Which one?"


# -- what is withheld -------------------------------------------------------------------------------


def test_an_answer_is_shown_and_sent_while_the_rights_are_there(told_of_customers):
    client, ident = told_of_customers
    assert "canary land" in page(client, ident)
    with script(Text("The same.")) as model:
        ask(client, "Again?", conversationId=ident)
    told = "It is canary land.\n[r1: customer, 2 rows, r1.1 to r1.2]"
    assert model.request.messages[1].text == told


@pytest.mark.parametrize("gone", ["permission", "field"])
def test_an_answer_is_withheld_once_its_entity_or_field_may_not_be_read(
    told_of_customers, store, monkeypatch, gone
):
    """Hazard 77."""
    client, ident = told_of_customers
    if gone == "permission":
        take(store, "view_customer")
        take(store, "change_customer")
    else:
        from example_project.store.admin import CustomerAdmin

        monkeypatch.setattr(CustomerAdmin, "harness_list", ["name", "city"])
    answer = opened(client, ident)["messages"][1]
    assert answer["withheld"] is True
    assert answer["results"] == []
    assert "canary" not in json.dumps(opened(client, ident))
    assert "canary" not in page(client, ident)
    with script(Text("I don't know.")) as model:
        ask(client, "What was it?", conversationId=ident)
    assert_not_sent(model, "canary land")
    assert [each.text for each in model.request.messages] == ["Which country?", "What was it?"]


def test_an_answer_that_only_repeats_an_earlier_one_is_withheld_as_well(told_of_customers, store):
    """Hazard 77."""
    client, ident = told_of_customers
    with script(Text("Once more: canary land.")):
        ask(client, "Say it again", conversationId=ident)
    asked = {"text": "canary land?", "kind": "text"}
    with script(Call("ask_user", asked)):
        ask(client, "Ask me about it", conversationId=ident)
    take(store, "view_customer")
    take(store, "change_customer")
    body = opened(client, ident)
    assert [each["withheld"] for each in body["messages"]] == [False, True] * 3
    assert "canary" not in json.dumps(body)
    assert "canary" not in page(client, ident)
    with script(Text("I don't know.")) as model:
        ask(client, "What was it?", conversationId=ident)
    assert_not_sent(model, "canary land")


def test_an_answer_after_a_withheld_one_is_not_bound_to_it(told_of_customers, store):
    client, ident = told_of_customers
    take(store, "view_customer")
    take(store, "change_customer")
    with script(Text("Something else.")):
        ask(client, "Something else?", conversationId=ident)
    assert opened(client, ident)["messages"][3]["text"] == "Something else."


def test_an_answer_comes_back_with_the_rights(told_of_customers, store):
    client, ident = told_of_customers
    take(store, "view_customer")
    take(store, "change_customer")
    assert opened(client, ident)["messages"][1]["withheld"]
    Group.objects.get(name="support").permissions.add(Permission.objects.get(codename="view_customer"))
    assert opened(client, ident)["messages"][1]["text"] == "It is canary land."


def test_a_filter_counts_as_what_was_spoken_of(login, monkeypatch):
    """Hazard 77."""
    from example_project.store.admin import CustomerAdmin

    client = login("manager")
    with script(
        Call("query_customer", {"fields": ["name"], "filters": {"vip": True}}), Text("These are VIPs.")
    ):
        ident = ask(client, "Who is a VIP?")["conversationId"]
    monkeypatch.setattr(CustomerAdmin, "harness_list", ["name"])
    assert opened(client, ident)["messages"][1]["withheld"]


# -- deleting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [JSON, {}], ids=["JSON", "page"])
def test_deleting_a_conversation_rejects_what_is_open_of_it_and_touches_no_record(login, headers):
    client = login("manager")
    with script(Call("open_tag_form", {"fields": {"name": "New"}}), Text("Kept.")):
        answer = ask(client, "A new tag")
        kept = ask(client, "Another conversation")["conversationId"]
    plan = answer["action"]["queryParams"]["aiPlan"]
    before = fingerprint()
    response = client.post(f"{detail(answer['conversationId'])}delete/", headers=headers)
    if headers:
        assert told(response) == (200, "")
        assert response.json() == {"deleted": True}
    else:
        assert response.status_code == 302
        assert response.headers["Location"] == CONVERSATIONS
    assert Plan.objects.get(pk=plan).state == PlanState.REJECTED
    assert [str(each.pk) for each in Conversation.objects.all()] == [kept]
    assert client.get(detail(answer["conversationId"]), headers=JSON).status_code == 404
    assert fingerprint() == before


def test_a_conversation_deleted_while_the_model_thinks_gets_no_answer_and_no_plan(login):
    client = login("manager")

    def delete(request: Any) -> Call:
        Conversation.objects.get().turns.update(open_for=None)
        Conversation.objects.get().delete()
        return Call("open_tag_form", {"fields": {"name": "New"}})

    with script(delete):
        assert ask(client, "A new tag", status=500)["code"] == "failed"
    assert not Plan.objects.exists()
    assert not Message.objects.exists()
    assert Turn.objects.get().state == "failed"


# -- damaged history --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        {"mentions": "text"},
        {"mentions": ["store.product"]},
        {"mentions": {"store.product": 5}},
        {"mentions": {"store.product": [5]}},
        {"mentions": {"store.product": {"a": 1}}},
        {"mentions": 0},
        {"reads": {"a": 1}},
    ],
    ids=str,
)
def test_a_history_that_cannot_be_read_is_said_and_logged(login, caplog, damage):
    client = login("manager")
    with script(Text("Hello.")):
        ident = ask(client, "Hello")["conversationId"]
    Message.objects.filter(role="assistant").update(**damage)
    with script():
        answer = ask(client, "Still there?", conversationId=ident, status=500)
    assert (answer["code"], answer["conversationId"]) == ("history_unreadable", ident)
    assert Message.objects.filter(role="user", text="Still there?").exists()
    assert Turn.objects.filter(state="failed", code="history_unreadable", open_for=None).count() == 1
    assert "can't be read" in caplog.text
    assert told(client.get(detail(ident), headers=JSON)) == (500, "history_unreadable")
    assert client.get(detail(ident)).status_code == 500
    with script(Text("A new one works.")):
        ask(client, "Hello")


def test_a_read_that_is_damaged_is_an_unreadable_history(login):
    client = login("manager")
    with script(Text("Hello.")):
        ident = ask(client, "Hello")["conversationId"]
    Message.objects.filter(role="assistant").update(reads=[{"entity": "store.product"}])
    assert told(client.get(detail(ident), headers=JSON)) == (500, "history_unreadable")


def test_a_conversation_that_failed_says_how_its_last_turn_stands(login):
    client = login("manager")
    from django_copilot.testing import Fail

    with script(Fail("model_timeout")):
        ident = ask(client, "Hello", status=500)["conversationId"]
    turn = opened(client, ident)["turn"]
    assert (turn["state"], turn["code"]) == ("failed", "model_timeout")
    assert turn["detail"]


def test_an_exception_behind_a_page_is_json_for_those_who_asked_for_json(login, monkeypatch, caplog):
    """Hazard 78."""

    def explode(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("words that must not leave")

    client = login("manager")
    monkeypatch.setattr("django_copilot.api.conversations.store.own_conversations", explode)
    response = client.get(CONVERSATIONS, headers=JSON)
    assert told(response) == (500, "failed")
    assert b"words that must not leave" not in response.content
    assert "words that must not leave" in caplog.text
    with pytest.raises(RuntimeError):  # a page is the project's to answer, with its own error page
        client.get(CONVERSATIONS)


@pytest.mark.parametrize("language", ["en", "pl", "ru"])
def test_the_sentences_to_begin_with_are_about_what_she_can_see_and_are_understood(login, language):
    client = login("viewer")
    accept = {"Accept": "application/json", "Accept-Language": language}
    examples = client.get("/admin/django_copilot/conversation/", headers=accept).json()["examples"]
    assert len(examples) == 3
    with script(*[lambda request: OfflineBackend().complete(request)] * 2) as model:
        client.post(
            "/admin/django_copilot/conversation/chat/",
            {"message": examples[0]},
            content_type="application/json",
            headers={"Accept-Language": language},
        )
    assert model.requests[1].messages[-2].calls[0].name == "query_product"
