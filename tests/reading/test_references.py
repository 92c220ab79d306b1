"""What a turn showed stays nameable, by nobody else and never past today's rights; and values the model never gets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from django_copilot import gate
from django_copilot.access import Access
from django_copilot.backends.base import ToolCall
from django_copilot.models import Conversation, Message, Plan
from django_copilot.references import References, Shown, handle, is_handle, is_row
from django_copilot.scope import enter_scope
from django_copilot.testing import Call, Text, ask, assert_not_sent, script, sent_text
from django_copilot.tools.base import Outcome, Planned, Proposed, ReadDone
from example_project.store.models import Customer, Order
from tests.gate.calls import HERE, verdict

Login = Callable[[str], Client]


def known(*shown: tuple[str, list[int]]) -> References:
    found = References()
    for number, (entity, keys) in enumerate(shown, 1):
        found.add(Shown(number=number, entity=entity, keys=tuple(map(str, keys))))
    return found


def call(store: Any, who: str, tool: str, args: Any, references: References | None = None) -> Outcome:
    from django.contrib import admin

    made = ToolCall(id="1", name=tool, arguments=json.dumps(args))
    return gate.run(admin.site, HERE, store.user(who).pk, made, references=references)


# -- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["r1.1", "r99999.999"])
def test_what_a_reference_looks_like(text: str) -> None:
    assert is_row(text)
    assert is_handle(handle("email", text))


@pytest.mark.parametrize(
    "text",
    [
        "r0.1",
        "r1.0",
        "r1",
        "r1.1 ",
        " r1.1",
        "R1.1",
        "r1.1.1",
        "r１.１",
        "r123456.1",
        "r1.1234",
        "1.1",
        "",
        None,
        11,
        ["r1.1"],
    ],
)
def test_what_none_looks_like(text: Any) -> None:
    assert not is_row(text)
    assert not is_handle(f"‹email {text}›")


@given(st.text(max_size=30))
def test_no_text_fails(text: str) -> None:
    is_row(text), is_handle(text)
    References().find(text)
    assert handle("email", "r1.1") == "‹email r1.1›"


def test_the_line_that_a_model_is_told() -> None:
    assert (
        Shown(number=3, entity="store.order", keys=("7", "9")).line("order")
        == "r3: order, 2 rows, r3.1 to r3.2"
    )
    assert Shown(number=1, entity="store.order", keys=("7",)).line("order") == "r1: order, 1 row, r1.1"


# -- references -------------------------------------------------------------------------------------------


def test_a_reference_stands_wherever_an_id_does(store: Any) -> None:
    order = Order.objects.filter(region="north", customer__vip=False, status="paid").order_by("pk")[0]
    names = known(("store.order", [order.pk]), ("store.customer", [order.customer_id]))
    for tool, args, wanted in (
        ("query_order", {"filters": {"id": "r1.1"}}, "1 rows"),
        ("query_order", {"filters": {"id": {"in": ["r1.1"]}}}, "1 rows"),
        ("open_order_form", {"id": "r1.1", "fields": {"shipping_city": "Oslo"}}, f"form {order.pk}"),
        ("query_order", {"after": "r1.1", "order_by": ["id"], "limit": 1}, "1 rows"),
    ):
        assert verdict(call(store, "support", tool, args, names)) == wanted
    by_customer = call(store, "support", "query_order", {"filters": {"customer": "r2.1"}}, names)
    assert str(order.pk) in [row["id"] for row in by_customer.content["rows"]]
    assert (
        verdict(call(store, "admin", "confirm_delete_order", {"id": "r1.1"}, names)) == f"delete {order.pk}"
    )


def test_a_reference_of_another_kind_or_of_nothing_is_told_as_such(store: Any) -> None:
    names = known(("store.customer", [1]))
    for reference in ("r1.1", "r1.2", "r2.1", "r9.9"):
        for tool, args in (
            ("query_order", {"filters": {"id": reference}}),
            ("open_order_form", {"id": reference}),
            ("confirm_delete_order", {"id": reference}),
            ("query_payment", {"filters": {"order": reference}}),
        ):
            assert verdict(call(store, "admin", tool, args, names)) == "unknown_reference"


def test_it_is_read_again_with_todays_rights(store: Any) -> None:
    """As a record that she never could see: the row is gone, the form is not there."""
    hidden = Order.objects.filter(region="south").order_by("pk")[0]
    names = known(("store.order", [hidden.pk, 999_999]))
    for reference in ("r1.1", "r1.2"):
        assert (
            verdict(call(store, "support", "query_order", {"filters": {"id": reference}}, names)) == "0 rows"
        )
        assert verdict(call(store, "support", "open_order_form", {"id": reference}, names)) == "not_found"


def test_an_answer_keeps_names_and_no_values(login: Login) -> None:
    client = login("support")
    with script(
        Call("query_order", {"limit": 3, "fields": ["number"]}),
        Call("query_customer", {"limit": 2}),
        Text("Here."),
    ):
        answer = ask(client, "Orders and customers?")
    message = Message.objects.get(role="assistant")
    keys = [[row["id"] for row in table["rows"]] for table in answer["results"]]
    assert message.references == [[1, "store.order", keys[0]], [2, "store.customer", keys[1]]]
    assert Conversation.objects.get().shown == 2
    number = answer["results"][0]["rows"][1]["values"]["number"]
    with script(
        Call("query_order", {"filters": {"id": "r1.2"}, "fields": ["number"]}), Text("That one.")
    ) as model:
        second = ask(client, "The second one?", conversationId=answer["conversationId"])
    told = model.requests[0].messages[1].text
    assert told == "Here.\n[r1: order, 3 rows, r1.1 to r1.3]\n[r2: customer, 2 rows, r2.1 to r2.2]"
    assert number not in sent_text(model.requests[0])
    assert second["results"][0]["rows"][0]["values"]["number"] == number
    assert '"ref": "r3"' in model.requests[1].messages[-1].text


def test_numbers_go_on_when_what_they_named_is_long_past(login: Login, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "HISTORY_MESSAGES": 2}
    client = login("manager")
    ident = {}
    for _turn in range(3):
        with script(Call("query_tag", {"limit": 1}), Text("One.")):
            ident = {"conversationId": ask(client, "A tag?", **ident)["conversationId"]}
    assert [message.references[0][0] for message in Message.objects.filter(role="assistant")] == [1, 2, 3]
    with script(Call("query_tag", {"filters": {"id": "r1.1"}}), Text("No.")) as model:
        ask(client, "The first?", **ident)
    assert "unknown_reference" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("whose", ["another conversation", "another person"])
def test_nobody_elses_references_are_known(login: Login, whose: str) -> None:
    owner = login("manager")
    with script(Call("query_customer", {"limit": 3}), Text("Three.")):
        ask(owner, "Customers?")
    client = owner if whose == "another conversation" else login("manager2")
    answers = set()
    for reference in ("r1.1", "r5.5"):
        with script(Call("query_customer", {"filters": {"id": reference}}), Text("No.")) as model:
            ask(client, "And the first?")
        answers.add(model.requests[1].messages[-1].text.replace(reference, "…"))
    (answer,) = answers
    assert "unknown_reference" in answer


def test_a_withheld_answer_names_nothing_any_more(login: Login, store: Any) -> None:
    client = login("support")
    with script(Call("query_customer", {"limit": 3}), Text("Three.")):
        answer = ask(client, "Customers?")
    for codename in ("view_customer", "change_customer"):
        store.user("support").groups.get().permissions.remove(Permission.objects.get(codename=codename))
    with script(Call("query_customer", {"filters": {"id": "r1.1"}}), Text("No.")) as model:
        ask(client, "The first?", conversationId=answer["conversationId"])
    assert "r1" not in sent_text(model.requests[0]).replace("r1.1 to", "")
    assert "unknown_tool" in model.requests[1].messages[-1].text


def test_what_was_shown_while_a_turn_waited_is_still_named(login: Login) -> None:
    client = login("support")
    order = Order.objects.filter(region="north", customer__vip=False, status="paid").order_by("pk")[0]
    arguments = {"order": order.number, "street": "Main 1", "postal_code": "00-001", "city": "Oslo"}
    steps = [
        Call("query_order", {"filters": {"number": order.number}}),
        Call("change_shipping_address", arguments),
        Call("query_order", {"filters": {"id": "r1.1"}, "fields": ["shipping_city"]}),
        Text("Done."),
    ]
    with script(*steps) as model:
        answer = ask(client, "Send it to Oslo")
        plan = answer["plan"]
        client.post(plan["confirmUrl"], {"digest": plan["digest"]}, content_type="application/json")
        answer = ask(client, None, conversationId=answer["conversationId"], **{"continue": plan["id"]})
    assert answer["reply"] == "Done."
    assert '"shipping_city": "Oslo"' in model.requests[3].messages[-1].text


# -- shown, not sent --------------------------------------------------------------------------------------


def test_the_person_sees_the_values_and_the_model_gets_handles(login: Login) -> None:
    Customer.objects.update(email="only@her.example", phone="+48 600 100 200")
    client = login("support")
    with script(
        Call("query_customer", {"fields": ["name", "email", "phone"], "limit": 2}), Text("You see it.")
    ) as model:
        answer = ask(client, "His e-mail address?")
    (table,) = answer["results"]
    assert [(each["name"], each.get("sent", True)) for each in table["columns"]] == [
        ("name", True),
        ("email", False),
        ("phone", False),
    ]
    assert table["rows"][0]["values"]["email"] == "only@her.example"
    result = json.loads(model.requests[1].messages[-1].text)
    assert [row["email"] for row in result["rows"]] == ["‹email r1.1›", "‹email r1.2›"]
    assert_not_sent(model, "only@her", "600 100")


def test_a_handle_in_an_answer_is_read_out_to_the_person_only(login: Login, store: Any) -> None:
    Customer.objects.update(email="only@her.example")
    client = login("support")
    said = "Write to ‹email r1.1›, not to ‹api_token r1.1› or ‹email r9.9›."
    with script(Call("query_customer", {"fields": ["name", "email"], "limit": 1}), Text(said)):
        answer = ask(client, "His e-mail address?")
    read = "Write to only@her.example, not to ‹api_token r1.1› or ‹email r9.9›."
    assert answer["reply"] == read
    assert Message.objects.get(role="assistant").text == said
    with script(Text("Yes.")) as model:
        ask(client, "Sure?", conversationId=answer["conversationId"])
    assert said in sent_text(model.requests[0])
    assert_not_sent(model, "only@her")
    url = f"/admin/django_copilot/conversation/{answer['conversationId']}/"
    shown = client.get(url, headers={"accept": "application/json"}).json()
    assert shown["messages"][1]["text"] == read
    for codename in ("view_customer", "change_customer"):
        store.user("support").groups.get().permissions.remove(Permission.objects.get(codename=codename))
    assert "only@her" not in client.get(url, headers={"accept": "application/json"}).content.decode()


def test_reading_out_has_a_bound(store: Any) -> None:
    from django.contrib import admin

    keys = list(Customer.objects.values_list("pk", flat=True))
    with enter_scope(HERE, store.user("admin").pk) as request:
        access = Access(admin.site, request, known(("store.customer", keys * 9)))
        many = " ".join(handle("email", f"r1.{place}") for place in range(1, 200))
        with CaptureQueriesContext(connection) as captured:
            said = access.read_out(many * 3 + many)
        assert said.count("@") >= 50
        assert said.count("‹email") > 500
        assert len([each for each in captured if 'FROM "store_customer"' in each["sql"]]) == 50


def test_what_the_model_gets_does_not_depend_on_what_is_shown(store: Any) -> None:
    calls = [
        ("query_customer", {"limit": 50}),
        ("query_customer", {"search": "a"}),
        ("query_customer", {"order_by": ["name"], "limit": 5}),
        ("query_customer", {"order_by": ["email"]}),
        ("query_customer", {"filters": {"email": "x"}}),
        ("count_customer", {}),
        ("count_customer", {"filters": {"phone": None}}),
        ("summarise_customer", {"measures": [{"op": "count"}], "by": ["country"]}),
        ("confirm_delete_customer", {"id": "1"}),
        ("open_customer_form", {"id": "1", "fields": {"city": "‹email r1.1›", "phone": "‹phone r1.1›"}}),
        ("open_customer_form", {"fields": {"email": "‹phone r1.1›"}}),
    ]

    def told() -> list[str]:
        names = known(("store.customer", [1, 2]))
        outcomes = [call(store, "admin", tool, args, names) for tool, args in calls]
        return [
            str(each.content)
            if hasattr(each, "content")
            else f"{type(each).__name__} {getattr(each, 'reply', '')}"
            for each in outcomes
        ]

    before = told()
    for values in (
        {"email": "", "phone": ""},
        {"email": "z@z.example", "phone": "no phone, and quite long " * 1},
    ):
        Customer.objects.update(**values)
        assert told() == before


def test_a_handle_finds_the_rows_that_hold_its_value(store: Any) -> None:
    first, second, third = Customer.objects.order_by("pk")[:3]
    Customer.objects.filter(pk__in=[first.pk, third.pk]).update(phone="+48 1")
    names = known(("store.customer", [first.pk, second.pk]))
    found = call(store, "support", "query_customer", {"filters": {"phone": "‹phone r1.1›"}}, names)
    assert {row["id"] for row in found.content["rows"]} == {str(first.pk), str(third.pk)}
    counted = call(store, "support", "count_customer", {"filters": {"phone": "‹phone r1.1›"}}, names)
    assert counted.content["count"] == 2
    Customer.objects.filter(pk=second.pk).update(phone="")
    Customer.objects.filter(pk=third.pk).update(phone="")
    assert (
        verdict(call(store, "support", "query_customer", {"filters": {"phone": "‹phone r1.2›"}}, names))
        == "0 rows"
    )


def test_a_handle_fills_in_a_form_and_is_not_read_back(store: Any, login: Login) -> None:
    customer = Customer.objects.order_by("pk")[0]
    Customer.objects.filter(pk=customer.pk).update(email="only@her.example")
    client = login("support")
    with script(
        Call("query_customer", {"filters": {"id": str(customer.pk)}}),
        Call("open_customer_form", {"id": "r1.1", "fields": {"phone": "‹email r1.1›"}}),
    ) as model:
        answer = ask(client, "Put the address there")
    assert Plan.objects.get().values == {"phone": "only@her.example"}
    assert_not_sent(model, "only@her")
    with script(Text("Yes.")) as model:
        ask(client, "And?", conversationId=answer["conversationId"])
    assert_not_sent(model, "only@her")


@pytest.mark.parametrize(
    ("tool", "args", "code"),
    [
        ("query_customer", {"filters": {"email": "‹email r2.1›"}}, "not_found"),
        ("query_customer", {"filters": {"email": "‹email r1.9›"}}, "not_found"),
        ("query_customer", {"filters": {"email": "‹api_token r1.1›"}}, "not_found"),
        ("query_customer", {"filters": {"name": "‹internal_note r1.1›"}}, "not_found"),
        ("query_customer", {"filters": {"name": "‹street r1.1›"}}, "not_found"),
        ("query_customer", {"filters": {"vip": "‹email r1.1›"}}, "invalid_handle"),
        ("query_customer", {"filters": {"id": "‹email r1.1›"}}, "invalid_id"),
        ("query_order", {"filters": {"status": "‹email r1.1›"}}, "invalid_handle"),
        ("query_order", {"filters": {"customer": "‹email r1.1›"}}, "invalid_handle"),
        ("query_order", {"filters": {"placed_at": {"gte": "‹email r1.1›"}}}, "invalid_handle"),
        ("query_order", {"filters": {"status": {"in": ["‹email r1.1›"]}}}, "invalid_handle"),
        ("query_customer", {"filters": {"city": {"in": ["‹email r1.1›"]}}}, "invalid_handle"),
        ("open_customer_form", {"id": "1", "fields": {"name": "‹api_token r1.1›"}}, "not_found"),
        ("open_product_form", {"fields": {"status": "‹email r1.1›"}}, "invalid_handle"),
        ("open_product_form", {"fields": {"category": "‹email r1.1›"}}, "invalid_handle"),
        ("draft_customer_message", {"order": "SO-0000001", "topic": "‹email r1.1›"}, "invalid_handle"),
        (
            "change_shipping_address",
            {"order": "SO-0000001", "street": "‹api_token r1.1›", "postal_code": "1", "city": "x"},
            "not_found",
        ),
    ],
    ids=lambda given: str(given).translate({0x2039: "<", 0x203A: ">"})[:70],
)
def test_a_handle_stands_for_nothing_else(store: Any, tool: str, args: Any, code: str) -> None:
    Customer.objects.update(
        email="only@her.example", api_token="secret", internal_note="secret", street="secret"
    )
    who = "admin" if tool == "open_product_form" else "support"
    outcome = call(store, who, tool, args, known(("store.customer", [1])))
    assert verdict(outcome) == code
    assert not re.search("only@her|secret", str(outcome))


def test_a_handle_in_a_write_tool_goes_to_the_person_only(store: Any) -> None:
    order = Order.objects.filter(region="north", customer__vip=False, status="paid").order_by("pk")[0]
    Customer.objects.update(phone="only her street 1")
    names = known(("store.customer", [order.customer_id]))
    arguments = {"order": order.number, "street": "‹phone r1.1›", "postal_code": "00-001", "city": "Oslo"}
    planned = call(store, "support", "change_shipping_address", arguments, names)
    assert isinstance(planned, Planned)
    assert "only her street 1" in str(vars(planned.draft))
    # What the tool says of the value is not told: here that nothing would change.
    Order.objects.filter(pk=order.pk).update(
        shipping_street="only her street 1", shipping_postal_code="00-001", shipping_city="Oslo"
    )
    refused = call(store, "support", "change_shipping_address", arguments, names)
    assert verdict(refused) == "refused"
    assert "only her" not in str(refused)
    assert "nothing" not in str(refused).lower()


def test_a_handle_does_not_come_back_once_it_was_carried_out(login: Login) -> None:
    client = login("support")
    order = Order.objects.filter(region="north", customer__vip=False, status="paid").order_by("pk")[0]
    Customer.objects.update(phone="only her city")
    arguments = {"order": order.number, "street": "Main 1", "postal_code": "00-001", "city": "‹phone r1.1›"}
    steps = [
        Call("query_customer", {"filters": {"id": str(order.customer_id)}}),
        Call("change_shipping_address", arguments),
        Text("Done."),
    ]
    with script(*steps) as model:
        answer = ask(client, "Send it there")
        plan = answer["plan"]
        assert "only her city" in json.dumps(plan["changes"])
        confirmed = client.post(
            plan["confirmUrl"],
            {"digest": plan["digest"]},
            content_type="application/json",
            headers={"accept": "application/json"},
        )
        assert confirmed.status_code == 200
        ask(client, None, conversationId=answer["conversationId"], **{"continue": plan["id"]})
    assert Order.objects.get(pk=order.pk).shipping_city == "only her city"
    assert "EXECUTED" in model.requests[2].messages[-1].text
    assert_not_sent(model, "only her")


def test_the_key_of_a_record_is_never_only_shown(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from example_project.store.admin import CustomerAdmin

    monkeypatch.setattr(CustomerAdmin, "harness_show", ["id", "email"])
    monkeypatch.setattr(CustomerAdmin, "readonly_fields", ["id"])
    monkeypatch.setattr(CustomerAdmin, "list_display", ["id", "name", "email"])
    outcome = call(store, "manager", "query_customer", {"limit": 1})
    assert isinstance(outcome, ReadDone)
    assert [each["name"] for each in outcome.table["columns"] if each.get("sent") is False] == ["email"]


def test_what_her_admin_does_not_show_is_not_shown(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from example_project.store.admin import CustomerAdmin

    monkeypatch.setattr(CustomerAdmin, "harness_show", ["internal_note", "api_token", "email"])
    Customer.objects.update(api_token="secret", internal_note="secret")
    for who, names in (("support", ["email"]), ("manager", ["internal_note", "email"])):
        outcome = call(store, who, "query_customer", {"limit": 1})
        assert isinstance(outcome, ReadDone)
        kept = [each["name"] for each in outcome.table["columns"] if each.get("sent") is False]
        assert kept == names
        assert "secret" not in json.dumps(outcome.content)
        assert ("secret" in json.dumps(outcome.table)) is (who == "manager")


def test_what_is_in_both_lists_is_kept_from_the_model(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from example_project.store.admin import CustomerAdmin

    monkeypatch.setattr(CustomerAdmin, "harness_list", ["name", "email"])
    Customer.objects.update(email="only@her.example")
    outcome = call(store, "admin", "query_customer", {})
    assert isinstance(outcome, ReadDone)
    assert "only@her" not in json.dumps(outcome.content)
    assert "only@her" in json.dumps(outcome.table)
    guess = call(store, "admin", "query_customer", {"filters": {"email": "only@her.example"}})
    assert verdict(guess) == "needs_handle"


def _raises(self: Any, request: Any, obj: Any = None) -> Any:
    raise LookupError


@pytest.mark.parametrize(
    "bent",
    [
        {"harness_show": "email"},
        {"get_harness_show": _raises},
        {"get_harness_show": lambda self, request, obj=None: "email"},
        {"get_harness_show": lambda self, request, obj=None: None},
    ],
    ids=["text", "raises", "answers a text", "answers nothing"],
)
def test_where_it_is_not_known_what_is_kept_nothing_is_sent(
    store: Any, monkeypatch: pytest.MonkeyPatch, bent: dict[str, Any]
) -> None:
    from example_project.store.admin import CustomerAdmin

    monkeypatch.setattr(CustomerAdmin, "harness_list", ["name", "email"])
    for name, value in bent.items():
        monkeypatch.setattr(CustomerAdmin, name, value)
    Customer.objects.update(email="only@her.example")
    outcome = call(store, "admin", "query_customer", {})
    assert "only@her" not in str(getattr(outcome, "content", outcome))


def test_the_delete_page_shows_her_what_is_not_sent(login: Login) -> None:
    customer = Customer.objects.filter(orders=None).first() or Customer.objects.order_by("pk")[0]
    Customer.objects.filter(pk=customer.pk).update(email="only@her.example")
    html = login("admin").get(f"/admin/store/customer/{customer.pk}/delete/").content.decode()
    assert "only@her.example" in html


def test_a_proposed_page_tells_the_model_nothing_of_the_value(store: Any) -> None:
    outcome = call(
        store,
        "admin",
        "open_customer_form",
        {"fields": {"email": "‹email r1.1›"}},
        known(("store.customer", [1])),
    )
    assert isinstance(outcome, Proposed)
    assert Customer.objects.get(pk=1).email not in outcome.reply
