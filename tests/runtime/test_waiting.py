"""A turn that waits for a person: what is kept of it, and what the model hears when it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client

from django_copilot import Always, Preview, write_tool
from django_copilot.access import Access
from django_copilot.models import Message, Plan, PlanState, Turn, TurnState
from django_copilot.plans.projection import for_model
from django_copilot.plans.states import clocked
from django_copilot.scope import Scope, enter_scope
from django_copilot.testing import (
    Call,
    Calls,
    Fail,
    ModelRequest,
    Script,
    Text,
    ask,
    assert_not_sent,
    copilot_client,
    offered_tools,
    script,
)
from django_copilot.turn.machine import DECISION_BYTES
from example_project.store.admin import OrderAdmin, ProductAdmin
from example_project.store.models import Customer, Order, Product
from tests.api.posting import post, told
from tests.plans.tools import decide, let_pass, look, order_for, outcome, revoke, stored, tool

__all__ = ["tool"]

ROOT = Path(__file__).parents[2]


def ship(**options: Any) -> Any:
    """Declare the tool ``ship(order, name, city)``; the model may read the city and not the name."""

    def ship(ctx: Any, order: str, name: str, city: str) -> Preview:
        """Change where an order goes."""
        return Preview(ctx.get(Order, number=order), shipping_name=name, shipping_city=city)

    return write_tool(Order, **options)(ship)


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for(shipping_name="Ola", shipping_city="Oslo")


@pytest.fixture
def client(store: Any) -> Client:
    return copilot_client(store.user("support"))


def calls(order: Order, name: str = "Kari", city: str = "Bergen") -> Call:
    return Call("ship", {"order": order.number, "name": name, "city": city})


def wait(
    client: Client, *steps: Any, message: str = "Ship it", **extra: Any
) -> tuple[dict[str, Any], Script]:
    """Run a turn until it waits."""
    with script(*steps) as model:
        answer = ask(client, message, **extra)
    assert answer["plan"]["state"] == "proposed"
    return answer, model


def go_on(
    client: Client, answer: dict[str, Any], *steps: Any, plan: str = "", status: int = 200
) -> tuple[dict[str, Any], Script]:
    """Let it go on with these steps of the model."""
    body = {"conversationId": answer["conversationId"], "continue": plan or answer["plan"]["id"]}
    with script(*steps) as model:
        response = post(client, body)
    assert response.status_code == status, response.content
    given: dict[str, Any] = response.json()
    return given, model


def results(request: ModelRequest) -> list[Any]:
    """Return what the model was told of its calls, in their order."""
    return [json.loads(each.text) for each in request.messages if each.role == "tool"]


def turn_of(answer: dict[str, Any]) -> Turn:
    return Turn.objects.get(pk=stored(answer["plan"]).turn_id)


# -- while it waits -----------------------------------------------------------------------------------------


def test_a_plan_ends_the_request_and_leaves_a_turn_that_is_not_open(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, Calls(calls(order), text="I have done it!"))
    assert (answer["plan"]["tool"], answer["results"]) == ("ship", [])
    assert "action" not in answer
    assert "question" not in answer
    # The words are the server's, not those that came with the call.
    assert answer["reply"] == "“Ship” is ready for you to look at. Nothing is done until you confirm it."
    assert not Message.objects.filter(text__contains="done it").exists()
    turn = turn_of(answer)
    assert (turn.state, turn.open_for_id, turn.finished_at, turn.rounds) == (TurnState.WAITING, None, None, 1)
    assert Message.objects.get(role="assistant").plan_id == stored(answer["plan"]).pk
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"


def test_a_turn_that_waits_keeps_nothing_busy(order: Order, client: Client, settings: Any) -> None:
    """It counts for no limit of turns at the same time, for as long as she takes."""
    settings.COPILOT = {**settings.COPILOT, "RUNNING_TURNS": 1}
    ship()
    for _ in range(3):
        wait(client, calls(order))
    assert Turn.objects.filter(state=TurnState.WAITING).count() == 3


# -- what the model hears -----------------------------------------------------------------------------------


def confirmed(client: Client, plan: dict[str, Any]) -> None:
    assert outcome(decide(client, plan, "confirm")) == (200, "executed")


def declined(client: Client, plan: dict[str, Any]) -> None:
    decide(client, plan, "reject", reason="Wrong street.")


def declined_in_silence(client: Client, plan: dict[str, Any]) -> None:
    decide(client, plan, "reject")


def too_late(client: Client, plan: dict[str, Any]) -> None:
    let_pass(plan, "expires_at")


def gone(client: Client, plan: dict[str, Any]) -> None:
    Order.objects.filter(shipping_name="Ola").delete()
    assert outcome(decide(client, plan, "confirm")) == (409, "record_gone")


def undone(client: Client, plan: dict[str, Any]) -> None:
    confirmed(client, plan)
    _status, answer = decide(client, plan, "undo")
    confirmed(client, answer["plan"])


DECISIONS = [
    (confirmed, "executed", "EXECUTED. The person confirmed it."),
    (declined, "rejected", "NOT EXECUTED: declined by a person: Wrong street."),
    (declined_in_silence, "rejected", "NOT EXECUTED: declined by a person: no reason given"),
    (too_late, "expired", "NOT EXECUTED: expired."),
    (gone, "stale", "NOT EXECUTED: stale."),
    (undone, "undone", "EXECUTED, and undone by the person since."),
]


@pytest.mark.parametrize(
    ("what", "status", "message"), DECISIONS, ids=[each[0].__name__ for each in DECISIONS]
)
def test_the_model_is_told_what_became_of_its_call(
    order: Order, client: Client, what: Any, status: str, message: str
) -> None:
    ship(reversible=True)
    answer, first = wait(client, calls(order))
    what(client, answer["plan"])
    _given, model = go_on(client, answer, Text("I see."))
    request = model.request
    # The same turn goes on: her message, the call, and now its result.
    assert [each.role for each in request.messages] == ["user", "assistant", "tool"]
    assert request.messages[0] == first.request.messages[-1]
    assert request.messages[1].calls[0].name == "ship"
    assert request.messages[2].call_id == request.messages[1].calls[0].id
    (result,) = results(request)
    assert (result["status"], result["message"]) == (status, message)
    assert set(result) <= {"plan", "status", "message", "now"}
    assert request.system == first.request.system


def test_a_failure_is_told_as_one(order: Order, client: Client, monkeypatch: Any) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("the secret of the database")

    ship()
    answer, _model = wait(client, calls(order))
    monkeypatch.setattr(OrderAdmin, "save_model", fail)
    assert outcome(decide(client, answer["plan"], "confirm")) == (409, "failed")
    _given, model = go_on(client, answer, Text("It failed."))
    assert results(model.request) == [
        {"plan": answer["plan"]["id"], "status": "failed", "message": "NOT EXECUTED: failed."}
    ]
    assert_not_sent(model, "secret of the database")


@pytest.mark.parametrize(
    ("state", "part"),
    [
        (PlanState.UNCERTAIN, "Nobody knows yet whether this was executed."),
        (PlanState.EXECUTING, "NOT EXECUTED yet."),
        (PlanState.AWAITING_APPROVAL, "NOT EXECUTED yet."),
    ],
)
def test_of_what_has_no_end_yet_the_model_is_told_no_end(
    order: Order, client: Client, store: Any, state: PlanState, part: str
) -> None:
    ship()
    answer, _model = wait(client, calls(order))
    Plan.objects.filter(pk=answer["plan"]["id"]).update(state=state)
    plan = clocked(Plan.objects.all()).get(pk=answer["plan"]["id"])
    with enter_scope(Scope(site="admin"), store.user("support").pk) as request:
        result = for_model(plan, Access(admin.site, request))
    assert result["status"] == state
    assert part in result["message"]
    assert "now" not in result


def test_of_the_new_values_it_hears_those_that_it_may_read(order: Order, client: Client) -> None:
    def move(ctx: Any, order: str) -> Preview:
        """Move an order to its next stop."""
        found = ctx.get(Order, number=order)
        return Preview(found, shipping_name="hidden-name", shipping_city="Bergen", status="cancelled")

    write_tool(Order)(move)
    Order.objects.filter(pk=order.pk).update(status="paid")
    answer, _model = wait(client, Call("move", {"order": order.number}))
    confirmed(client, answer["plan"])
    given, model = go_on(client, answer, Text("It goes to Bergen."))
    assert results(model.request)[0]["now"] == {"shipping_city": "Bergen", "status": "cancelled"}
    assert_not_sent(model, "hidden-name")
    # The answer speaks of those fields from now on, and is withheld with the right to them.
    message = Message.objects.get(text=given["reply"])
    assert {"shipping_city", "status"} <= set(message.mentions["store.order"])


def test_a_value_that_points_to_another_record_is_not_told_as_its_key(
    order: Order, client: Client, login: Any
) -> None:
    def give(ctx: Any, order: str, email: str) -> Preview:
        """Give an order to another customer."""
        return Preview(ctx.get(Order, number=order), customer=ctx.look_up(Customer, email=email))

    write_tool(Order)(give)
    manager = login("manager")
    other = Customer.objects.create(name="Per", email="per@mail.example")
    answer, _model = wait(manager, Call("give", {"order": order.number, "email": other.email}))
    confirmed(manager, answer["plan"])
    _given, model = go_on(manager, answer, Text("Done."))
    assert results(model.request)[0]["message"] == "EXECUTED. The person confirmed it."
    assert "store.customer:" not in model.request.messages[-1].text


def test_what_the_tool_gave_back_is_the_persons_and_not_the_models(order: Order, client: Client) -> None:
    made = ship()

    @made.apply
    def apply(ctx: Any, preview: Preview, grant: Any) -> dict[str, Any]:
        Order.objects.filter(pk=preview.record.pk).update(**preview.changes)
        return {"reference": "result-42"}

    answer, _model = wait(client, calls(order))
    status, decided = decide(client, answer["plan"], "confirm")
    assert (status, decided["plan"]["result"]) == (200, {"reference": "result-42"})
    _given, model = go_on(client, answer, Text("Done."))
    assert_not_sent(model, "result-42")


def test_a_decision_is_told_however_much_was_looked_up_before_and_however_long_the_new_value_is(
    store: Any, tool: Any, login: Any, settings: Any, monkeypatch: Any
) -> None:
    def describe(ctx: Any, sku: str) -> Preview:
        """Set a long text."""
        return Preview(ctx.get(Product, sku=sku), attributes={"text": "ł" * 20_000})

    look_up = Call("query_order", {"limit": 50})
    manager = login("manager")
    with script(look_up, Text("So many.")) as model:
        ask(manager, "Orders")
    size = len(model.request.messages[-1].text.encode())
    settings.COPILOT = {**settings.COPILOT, "TURN_BYTES": size + 100}
    monkeypatch.setattr(ProductAdmin, "harness_list", [*ProductAdmin.harness_list, "attributes"])
    product = Product.objects.first()
    assert product is not None
    write_tool(Product)(describe)
    answer, _model = wait(manager, look_up, Call("describe", {"sku": product.sku}))
    confirmed(manager, answer["plan"])
    _given, model = go_on(manager, answer, Text("Done."))
    looked_up, decision = results(model.request)
    assert len(looked_up["rows"]) == 50
    assert (decision["status"], decision["message"]) == ("executed", "EXECUTED. The person confirmed it.")
    assert decision["now"]["attributes"].startswith('{"text": "łł')  # its beginning
    assert len(model.request.messages[-1].text.encode()) <= DECISION_BYTES


# -- going on -----------------------------------------------------------------------------------------------


def test_calls_of_the_same_reply_run_before_it_and_not_after_it(order: Order, client: Client) -> None:
    ship()
    steps = Calls(Call("query_product", {"limit": 1}), calls(order), Call("query_order", {"limit": 1}))
    answer, _model = wait(client, steps)
    assert [each["entity"] for each in answer["results"]] == ["product"]
    confirmed(client, answer["plan"])
    given, model = go_on(client, answer, Text("Done."))
    first, second, third = results(model.request)
    assert len(first["rows"]) == 1
    assert second["status"] == "executed"
    assert third["error"]["code"] == "not_run"
    assert given["results"] == []


def test_a_second_write_of_the_same_reply_is_not_even_looked_at(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, Calls(calls(order), calls(order, "Per")))
    assert Plan.objects.count() == 1
    decide(client, answer["plan"], "reject")
    _given, model = go_on(client, answer, Text("Fine."))
    assert [each.get("status", each.get("error", {}).get("code")) for each in results(model.request)] == [
        "rejected",
        "not_run",
    ]
    assert Plan.objects.count() == 1


def test_several_plans_one_after_the_other_are_one_turn(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, calls(order, "Kari"))
    confirmed(client, answer["plan"])
    second, model = go_on(client, answer, calls(order, "Per"))
    assert second["plan"]["changes"][0]["old"] == "Kari"
    assert turn_of(second).pk == turn_of(answer).pk
    assert (turn_of(second).state, turn_of(second).rounds) == (TurnState.WAITING, 2)
    assert stored(second["plan"]).conversation_id == stored(answer["plan"]).conversation_id
    # The first plan's decision is used up.
    assert go_on(client, answer, status=409)[0]["code"] == "nothing_to_continue"
    decide(client, second["plan"], "reject", reason="Kari it is.")
    third, model = go_on(client, second, Text("Kari it is."))
    assert [each["status"] for each in results(model.request)] == ["executed", "rejected"]
    assert third["reply"] == "Kari it is."
    assert Order.objects.get(pk=order.pk).shipping_name == "Kari"


def test_a_decision_can_be_followed_by_a_form_a_question_or_another_look(
    order: Order, client: Client
) -> None:
    ship()
    answer, _model = wait(client, calls(order))
    declined(client, answer["plan"])
    values = {"id": str(order.pk), "fields": {"shipping_city": "Bergen"}}
    given, _model = go_on(client, answer, Call("query_order", {"limit": 1}), Call("open_order_form", values))
    assert given["action"]["path"] == f"/admin/store/order/{order.pk}/change/"
    assert [each["entity"] for each in given["results"]] == ["order"]
    assert turn_of(answer).state == TurnState.DONE

    answer, _model = wait(client, calls(order, "Per"))
    declined(client, answer["plan"])
    given, _model = go_on(client, answer, Call("ask_user", {"text": "Which street?"}))
    assert given["question"]["text"] == "Which street?"


def test_rounds_are_counted_on(order: Order, client: Client, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "MAX_ROUNDS": 3}
    ship()
    look_up = Call("query_order", {"limit": 1})
    answer, _model = wait(client, look_up, calls(order))
    declined(client, answer["plan"])
    given, model = go_on(client, answer, look_up, look_up, status=500)
    assert given["code"] == "too_many_rounds"
    assert len(model.requests) == 2
    assert (turn_of(answer).state, turn_of(answer).rounds) == (TurnState.FAILED, 3)


def test_bytes_are_counted_on(order: Order, client: Client, settings: Any) -> None:
    look_up = Call("query_order", {"limit": 50})
    ship()
    with script(look_up, Text("So many.")) as model:
        ask(client, "Orders")
    size = len(model.request.messages[-1].text.encode())
    settings.COPILOT = {**settings.COPILOT, "TURN_BYTES": size + size // 2}
    answer, _model = wait(client, look_up, calls(order))
    declined(client, answer["plan"])
    _given, model = go_on(client, answer, look_up, Text("That is all."))
    first, _decision, last = results(model.request)
    assert first["rows"]
    assert last["error"]["code"] == "too_much"


def test_what_left_for_the_model_is_counted_on(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, Call("query_order", {"limit": 1}), calls(order))
    before = turn_of(answer).sent
    assert (before["requests"], before["rows"]) == (2, 1)
    declined(client, answer["plan"])
    go_on(client, answer, Call("query_order", {"limit": 1}), Text("Done."))
    after = turn_of(answer).sent
    assert (after["requests"], after["rows"]) == (4, 2)
    assert after["bytes"] > before["bytes"] * 1.5


def test_its_tools_are_offered_again(order: Order, client: Client) -> None:
    ship()
    answer, first = wait(client, Call("find_entities", {"words": "payment"}), calls(order), message="x")
    declined(client, answer["plan"])
    _given, model = go_on(client, answer, Text("Done."))
    assert "ship" in offered_tools(model.request)
    assert offered_tools(model.request) == offered_tools(first.requests[-1])


def test_a_declined_call_is_refused_until_her_next_message(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, calls(order))
    declined(client, answer["plan"])
    _given, model = go_on(client, answer, calls(order), Text("As you say."))
    assert results(model.request)[-1]["error"]["code"] == "declined_before"
    assert Plan.objects.count() == 1
    again, _model = wait(
        client, calls(order), conversationId=answer["conversationId"], message="Do it after all"
    )
    assert again["plan"]["state"] == "proposed"


def test_three_plans_of_a_tool_may_be_declined_in_a_turn(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, calls(order, "A"))
    for name in ("B", "C"):
        declined(client, answer["plan"])
        answer = {**answer, **go_on(client, answer, calls(order, name))[0]}
    declined(client, answer["plan"])
    _given, model = go_on(client, answer, calls(order, "D"), Text("What do you want?"))
    assert results(model.request)[-1]["error"]["code"] == "declined_too_often"
    assert Plan.objects.filter(state=PlanState.REJECTED).count() == Plan.objects.count() == 3


def test_the_next_turn_does_not_hear_of_the_calls(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, Call("query_order", {"limit": 1}), calls(order))
    confirmed(client, answer["plan"])
    go_on(client, answer, Text("It goes to Bergen."))
    with script(Text("Yes.")) as model:
        ask(client, "And now?", conversationId=answer["conversationId"])
    assert [each.role for each in model.request.messages] == ["user", "assistant", "assistant", "user"]
    assert not any(each.calls for each in model.request.messages)


# -- rights ------------------------------------------------------------------------------------------------


def test_a_right_taken_away_meanwhile_keeps_what_was_read_from_being_sent_again(
    order: Order, client: Client, store: Any
) -> None:
    """hazard 169"""
    ship()
    answer, _model = wait(client, Call("query_product", {"limit": 3}), calls(order))
    titles = [each["values"]["title"] for each in answer["results"][0]["rows"]]
    confirmed(client, answer["plan"])
    revoke(store.user("support"), "store.view_product")
    given, model = go_on(client, answer)
    assert model.requests == []
    assert given["reply"] == "Done."
    assert turn_of(answer).state == TurnState.DONE
    assert titles


def test_nor_is_what_was_derived_from_an_earlier_answer(order: Order, client: Client, store: Any) -> None:
    ship()
    with script(Call("query_product", {"limit": 1}), Text("It is the lamp.")):
        first = ask(client, "Which product?")
    answer, _model = wait(client, calls(order), conversationId=first["conversationId"])
    declined(client, answer["plan"])
    revoke(store.user("support"), "store.view_product")
    given, model = go_on(client, answer)
    assert model.requests == []
    assert given["reply"] == "Declined. Nothing was done."


@pytest.mark.parametrize("when", ["in this turn", "in an earlier answer"])
def test_a_field_taken_away_meanwhile_counts_like_the_whole_entity(
    order: Order, client: Client, monkeypatch: Any, when: str
) -> None:
    """hazard 169"""
    ship()
    read = Call("query_product", {"fields": ["title", "price"], "limit": 2})
    if when == "in this turn":
        answer, _model = wait(client, read, calls(order))
    else:
        with script(read, Text("It costs 5.")):
            first = ask(client, "What does it cost?")
        answer, _model = wait(client, calls(order), conversationId=first["conversationId"])
    declined(client, answer["plan"])
    monkeypatch.setattr(ProductAdmin, "harness_list", ["title"])
    given, model = go_on(client, answer)
    assert model.requests == []
    assert given["reply"] == "Declined. Nothing was done."


def test_the_right_to_the_tool_taken_away_meanwhile_offers_it_no_more(
    order: Order, client: Client, store: Any
) -> None:
    ship(permissions=["store.change_order"])
    answer, _model = wait(client, calls(order))
    declined(client, answer["plan"])
    revoke(store.user("support"), "store.change_order")
    _given, model = go_on(client, answer, calls(order, "Per"), Text("I can't."))
    assert "ship" not in offered_tools(model.requests[0])
    assert results(model.request)[-1]["error"]["code"] == "unknown_tool"


def test_a_tool_that_is_gone_meanwhile_breaks_nothing(order: Order, client: Client) -> None:
    from django_copilot.tools import write

    ship()
    answer, _model = wait(client, calls(order))
    confirmed(client, answer["plan"])
    del write._registry["ship"]
    assert look(client, answer["plan"])["state"] == "executed"
    given, model = go_on(client, answer, Text("Done."))
    assert given["reply"] == "Done."
    assert "ship" not in offered_tools(model.request)


# -- a restart ----------------------------------------------------------------------------------------------

_SCRIPT = """
import json, os, sys
given = json.loads(sys.stdin.read())
import tests.settings
tests.settings.DATABASES["default"]["NAME"] = given["database"]
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django.contrib.auth import get_user_model
from django_copilot.testing import Call, Text, copilot_client, script
from tests.api.posting import post
from tests.runtime.test_waiting import ship
ship()
client = copilot_client(get_user_model().objects.get(username="support"))
with script(Call("query_order", {"limit": 1}), Text("From another process.")) as model:
    response = post(client, given["body"])
first = model.requests[0]
print(json.dumps({
    "answer": response.json(),
    "roles": [each.role for each in first.messages],
    "last": first.messages[-1].text,
    "system": first.system,
    "tools": [each.name for each in first.tools],
}))
"""


@pytest.fixture
def another_process() -> Any:
    """Return a function that goes on in a process of its own, which knows nothing of this one."""

    def go_on(body: dict[str, Any]) -> dict[str, Any]:
        connection.close()
        given = {"database": str(connection.settings_dict["NAME"]), "body": body}
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        told: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
        return told

    return go_on


@pytest.mark.django_db(transaction=True)
def test_a_turn_goes_on_in_another_process(
    transactional_db: None, store: Any, tool: Any, another_process: Any
) -> None:
    """Nothing of it is in the memory of the one that began it."""
    ship()
    order = order_for(shipping_name="Ola", shipping_city="Oslo")
    client = copilot_client(store.user("support"))
    answer, model = wait(client, Call("query_product", {"limit": 2}), calls(order))
    confirmed(client, answer["plan"])
    body = {"conversationId": answer["conversationId"], "continue": answer["plan"]["id"]}
    there = another_process(body)
    assert there["answer"]["reply"] == "From another process."
    assert there["roles"] == ["user", "assistant", "tool", "assistant", "tool"]
    assert json.loads(there["last"])["message"] == "EXECUTED. The person confirmed it."
    assert there["system"] == model.request.system
    assert there["tools"] == offered_tools(model.request)
    assert (turn_of(answer).state, turn_of(answer).rounds) == (TurnState.DONE, 3)
    with script():
        assert told(post(client, body)) == (409, "nothing_to_continue")


def test_a_turn_that_went_on_and_failed_is_shown_as_failed(order: Order, client: Client) -> None:
    ship()
    answer, _model = wait(client, calls(order))
    confirmed(client, answer["plan"])
    go_on(client, answer, Fail("model_unavailable"), status=500)
    page = client.get(
        f"/admin/django_copilot/conversation/{answer['conversationId']}/",
        headers={"accept": "application/json"},
    ).json()
    assert page["turn"]["code"] == "model_unavailable"


def test_the_approval_of_a_second_person_lets_it_go_on_a_day_later(
    order: Order, client: Client, login: Any
) -> None:
    ship(approval=Always())
    answer, _model = wait(client, calls(order))
    assert outcome(decide(client, answer["plan"], "confirm")) == (200, "awaiting_approval")
    Turn.objects.update(deadline=turn_of(answer).started_at)  # long past: it runs for nobody
    assert outcome(decide(login("manager2"), answer["plan"], "approve")) == (200, "executed")
    given, model = go_on(client, answer, Text("It is approved."))
    assert given["reply"] == "It is approved."
    assert results(model.request)[0]["message"].startswith("EXECUTED")
    assert turn_of(answer).state == TurnState.DONE
