"""Asking from the command line: it reads as that person would, and whatever needs her is denied and reported."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db import connection

from django_copilot import Always, Effect, Preview, write_tool
from django_copilot.models import AuditEntry, Conversation, Message, Plan, PlanState, Switch, Turn, TurnState
from django_copilot.testing import Call, Calls, Fail, Script, Text, copilot_client, offered_tools, script
from example_project.store.models import Order
from tests.api.posting import post, told
from tests.plans.tools import (
    JSON,
    audited,
    decide,
    look,
    order_for,
    outcome,
    relabel,
    revoke,
    stored,
    tool,
)

__all__ = ["tool"]

ROOT = Path(__file__).parents[1]


def run(*options: str, user: str = "support", message: str = "Please do it") -> str:
    """Run the command and return what it printed."""
    out = io.StringIO()
    call_command("copilot_ask", message, "--user", user, *options, stdout=out)
    return out.getvalue()


def report(*steps: Any, **options: Any) -> tuple[dict[str, Any], Script]:
    """Run the command with these steps of the model, and return its JSON."""
    with script(*steps) as model:
        given: dict[str, Any] = json.loads(run("--json", **options))
    return given, model


def results(model: Script) -> list[Any]:
    """Return what the model was told last of its calls."""
    return [json.loads(each.text) for each in model.request.messages if each.role == "tool"]


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for()


# -- reading ------------------------------------------------------------------------------------------------


def test_it_reads_as_that_person_would(order: Order, login: Any) -> None:
    given, model = report(Call("query_order", {"limit": 50}), Text("Those are yours."))
    assert given["reply"] == "Those are yours."
    assert given["denied"] == []
    (table,) = given["results"]
    with script(Call("query_order", {"limit": 50}), Text("Those are yours.")) as in_the_admin:
        answer = post(login("support"), {"message": "Please do it"}).json()
    assert table == answer["results"][0]
    assert results(model) == [json.loads(in_the_admin.request.messages[-1].text)]
    assert offered_tools(model.requests[0]) == offered_tools(in_the_admin.requests[0])
    assert {row["values"]["region"] for row in table["rows"]} == {"north"}


def test_as_text_it_prints_the_answer_and_how_many_rows_it_rests_on(order: Order) -> None:
    with script(Call("query_order", {"limit": 3}), Text("Three of them.")):
        printed = run()
    assert printed.splitlines() == ["Three of them.", "", "Orders: 3 rows"]


def test_a_tool_that_only_reads_runs(order: Order) -> None:
    given, model = report(
        Call("draft_customer_message", {"order": order.number, "topic": "the delay"}), Text("There it is.")
    )
    assert order.number in results(model)[0]["result"]
    assert given["denied"] == []


def test_the_conversation_is_hers_and_can_be_read_and_gone_on_with(order: Order, login: Any) -> None:
    given, _model = report(Call("query_order", {"limit": 2}), Text("Two."))
    url = f"/admin/django_copilot/conversation/{given['conversationId']}/"
    shown = login("support").get(url, headers=JSON).json()
    assert [each["text"] for each in shown["messages"]] == ["Please do it", "Two."]
    assert login("manager").get(url, headers=JSON).status_code == 404
    with script(Text("And now?")):
        body = {"message": "More", "conversationId": given["conversationId"]}
        assert told(post(login("support"), body)) == (200, "")


# -- what needs a person ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (Call("relabel", {"order": "SO-9000001", "name": "Kari"}), "a plan needs a person to confirm it"),
        (
            Call("open_order_form", {"id": "%s", "fields": {"shipping_city": "Oslo"}}),
            "nobody is there to do that",
        ),
        (Call("open_customer_form", {"id": "%c", "fields": {"city": "Oslo"}}), "nobody is there to do that"),
        (Call("ask_user", {"text": "Really?"}), "nobody is there to do that"),
        (Call("confirm_delete_order", {"id": "%s"}), "nobody is there to do that"),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_what_needs_a_person_is_denied_and_the_model_goes_on(order: Order, call: Call, why: str) -> None:
    relabel()
    ids = {"%s": str(order.pk), "%c": str(order.customer_id)}
    arguments = {name: ids.get(str(value), value) for name, value in call.arguments.items()}
    user = "manager" if "delete" in call.name else "support"
    given, model = report(Call(call.name, arguments), Text("I could not."), user=user)
    assert results(model) == [
        {"error": {"code": "denied", "message": f"NOT EXECUTED: denied by automatic policy: {why}."}}
    ]
    assert given["reply"] == "I could not."
    assert set(given) == {"conversationId", "reply", "results", "denied"}
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"
    assert len(given["denied"]) == Plan.objects.count() == (1 if call.name == "relabel" else 0)
    assert Turn.objects.get().state == TurnState.DONE


def test_reads_before_and_after_what_is_denied_are_run(order: Order) -> None:
    relabel()
    calls = Calls(
        Call("query_order", {"limit": 1}),
        Call("relabel", {"order": order.number, "name": "Kari"}),
        Call("query_product", {"limit": 1}),
    )
    given, model = report(calls, Text("Here."))
    assert [each["entity"] for each in given["results"]] == ["order", "product"]
    assert [each.get("error", {}).get("code") for each in results(model)] == [None, "denied", None]
    assert len(given["denied"]) == 1


def with_dry_run(asked: list[str]) -> None:
    """Declare a tool of its own with a dry run."""

    def pay(ctx: Any, order: str, cents: int) -> Preview:
        """Pay."""
        return Preview(ctx.get(Order, number=order), shipping_name=f"paid {cents}", effects=["Money moves."])

    made = write_tool(Order, approval=Always())(pay)

    @made.dry_run
    def dry_run(preview: Preview) -> list[Effect]:
        asked.append(preview.changes["shipping_name"])
        return [Effect("The bank would take %(cents)s.", cents=7)]


def test_the_plan_is_in_the_report_with_its_dry_run_and_can_not_be_confirmed(
    order: Order, login: Any
) -> None:
    asked: list[str] = []
    with_dry_run(asked)
    given, _model = report(Call("pay", {"order": order.number, "cents": 5}), Text("I could not."))
    (denied,) = given["denied"]
    assert asked == ["paid 5"]
    assert denied["effects"] == ["Money moves.", "The bank would take 7."]
    assert denied["changes"][0] | {"old": "Ola", "new": "paid 5"} == denied["changes"][0]
    assert (denied["state"], denied["reason"]) == (
        "rejected",
        "denied by automatic policy: nobody is there to confirm it.",
    )
    assert denied["can"] == []
    kept = stored(denied)
    assert (kept.state, kept.code, kept.confirmed_by, kept.approved_by, kept.decided_by) == (
        PlanState.REJECTED,
        "headless",
        "",
        "",
        "",
    )
    assert kept.ended_at is not None
    # It was born ended: nobody can do anything with it.
    support, manager = login("support"), login("manager")
    assert outcome(decide(support, denied, "confirm")) == (409, "rejected")
    assert outcome(decide(manager, denied, "approve"))[0] in (403, 404, 409)
    assert outcome(decide(support, denied, "again")) == (409, "not_again")
    assert outcome(decide(support, denied, "undo")) == (409, "not_undoable")
    assert support.get("/admin/django_copilot/plan/", headers=JSON).json()["plans"] == []
    assert look(support, denied)["canContinue"] is False
    body = {"conversationId": given["conversationId"], "continue": denied["id"]}
    assert told(post(support, body)) == (409, "nothing_to_continue")
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"


def test_as_text_the_report_says_what_would_have_changed(order: Order) -> None:
    with_dry_run([])
    with script(Call("pay", {"order": order.number, "cents": 5}), Text("I could not.")):
        printed = run()
    assert printed.splitlines() == [
        "I could not.",
        "",
        f"Not done: Pay: {order}. denied by automatic policy: nobody is there to confirm it.",
        "  Shipping name: Ola → paid 5",
        "  Money moves.",
        "  The bank would take 7.",
    ]


def test_the_same_call_again_is_denied_again_and_reported_once(order: Order) -> None:
    relabel()
    call = Call("relabel", {"order": order.number, "name": "Kari"})
    given, model = report(call, call, Text("I could not."))
    assert [each["error"]["code"] for each in results(model)] == ["denied", "denied"]
    assert "declined" not in json.dumps(results(model))  # nobody did
    assert len(given["denied"]) == 1


def test_what_was_denied_is_in_the_audit(order: Order) -> None:
    relabel()
    given, _model = report(Call("relabel", {"order": order.number, "name": "Kari"}), Text("No."))
    (denied,) = given["denied"]
    assert ("proposed", "") in audited(denied)
    proposed = AuditEntry.objects.get(plan=denied["id"], event="proposed")
    assert proposed.about["state"] == "rejected"
    call = AuditEntry.objects.get(event="tool_call")
    assert (call.tool, call.code) == ("relabel", "denied")


def test_a_refusal_of_the_tool_itself_makes_no_plan(order: Order) -> None:
    relabel()
    given, model = report(Call("relabel", {"order": "SO-0", "name": "Kari"}), Text("No such order."))
    assert results(model)[0]["error"]["code"] == "not_found"
    assert given["denied"] == []


def test_nothing_that_runs_headless_counts_as_a_person(order: Order, login: Any, store: Any) -> None:
    """Not the first and not the second one, whoever's name it is run in."""
    relabel(approval=Always())
    waiting = post_plan(login("support"), order)
    assert outcome(decide(login("support"), waiting, "confirm")) == (200, "awaiting_approval")
    calls = [
        Call("approve", {"plan": waiting["id"]}),
        Call("relabel", {"order": order.number, "name": "Per", "approved_by": "1"}),
        Call("relabel", {"order": order.number, "name": "Per", "confirmed": True}),
        Text("I can't."),
    ]
    _given, model = report(*calls, user="manager2")
    assert [each["error"]["code"] for each in results(model)] == [
        "unknown_tool",
        "unknown_argument",
        "unknown_argument",
    ]
    kept = stored(waiting)
    assert (kept.state, kept.approved_by) == (PlanState.AWAITING_APPROVAL, "")
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"


def post_plan(client: Any, order: Order) -> dict[str, Any]:
    with script(Call("relabel", {"order": order.number, "name": "Kari"})):
        plan: dict[str, Any] = post(client, {"message": "Do it"}).json()["plan"]
    return plan


# -- who, where ---------------------------------------------------------------------------------------------


def refused(match: str, *options: str, user: str = "support") -> None:
    """Assert that the command is refused before the model is asked and anything is stored."""
    with script(), pytest.raises(CommandError, match=match) as raised:
        run(*options, user=user)
    assert raised.value.returncode == 1
    assert not Conversation.objects.exists()
    assert not Message.objects.exists()


def test_somebody_who_is_not_there_is_refused(store: Any) -> None:
    refused("There is no active account 'nobody'", user="nobody")


def test_an_account_that_is_not_active_is_refused(store: Any) -> None:
    User.objects.filter(username="support").update(is_active=False)
    refused("There is no active account 'support'")


def test_somebody_without_the_right_is_refused(store: Any) -> None:
    revoke(store.user("support"), "django_copilot.use_copilot")
    refused("support may not use the assistant on the site 'admin' .not_allowed.")


def test_somebody_who_is_not_staff_is_refused(store: Any) -> None:
    User.objects.filter(username="support").update(is_staff=False)
    refused("not_staff")


def test_somebody_with_nothing_to_use_is_refused(store: Any) -> None:
    for group in Group.objects.all():
        group.permissions.set(group.permissions.filter(codename="use_copilot"))
    refused("no_entities")


def test_a_site_that_is_not_there_is_refused_and_those_that_are_named(store: Any) -> None:
    refused("There is no AdminSite 'elsewhere' with entities. There are: .*admin", "--site", "elsewhere")


@pytest.mark.parametrize("given", ["tenant=red", "tenant", "=", ""])
def test_a_scope_that_the_project_does_not_have_is_refused(store: Any, given: str) -> None:
    refused("--scope takes KEY=VALUE|no scope of its own", "--scope", given)


def test_a_site_that_is_turned_off_is_refused(store: Any) -> None:
    Switch.objects.create(site="admin", is_off=True)
    refused("turned off on the site 'admin'")


def test_turned_off_meanwhile_it_stops(store: Any) -> None:
    def then_off(request: Any) -> Call:
        Switch.objects.create(site="admin", is_off=True)
        return Call("query_order", {})

    with script(then_off), pytest.raises(CommandError, match="There is no answer: switched_off"):
        run()
    assert Turn.objects.get().state == TurnState.FAILED


def test_a_right_that_is_taken_away_meanwhile_holds_for_the_next_call(order: Order, store: Any) -> None:
    relabel()

    def then_less(request: Any) -> Call:
        revoke(store.user("support"), "store.change_order")
        return Call("relabel", {"order": order.number, "name": "Kari"})

    given, model = report(then_less, Text("I can't."))
    assert results(model)[0]["error"]["code"] == "unknown_tool"
    assert given["denied"] == []


def test_without_an_answer_of_the_model_it_fails_with_the_code(store: Any) -> None:
    with script(Fail("model_unavailable")), pytest.raises(CommandError, match="model_unavailable"):
        run()


def test_it_counts_for_the_limit_of_turns(store: Any, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "TURNS_PER_MINUTE": 1}
    with script(Text("One.")):
        run()
    with script(), pytest.raises(CommandError, match="Too many turns of support; wait"):
        run()


def test_host_and_language_are_those_that_are_named(store: Any) -> None:
    given, _model = report(Text("Hello."))
    assert Conversation.objects.get(pk=given["conversationId"]).scope["language"] == "en"
    with script(Text("Cześć.")) as model:
        run("--language", "pl", "--host", "store.example:8443")
    scope = Conversation.objects.exclude(pk=given["conversationId"]).get().scope
    assert (scope["language"], scope["host"]) == ("pl", "store.example:8443")
    assert '"pl"' in model.request.context


_SCRIPT = """
import json, os, sys
given = json.loads(sys.stdin.read())
import tests.settings
tests.settings.DATABASES["default"]["NAME"] = given["database"]
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
from django.core.management import execute_from_command_line
from django_copilot.backends.scripted import Script, Text, running
running.append(Script(Text("From the command line.")))
execute_from_command_line(["manage.py", "copilot_ask", *given["arguments"]])
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["Hello", "--user", "support"], 0, "From the command line.\n", ""),
        (["Hello", "--user", "nobody"], 1, "", "CommandError: There is no active account 'nobody'.\n"),
        (["Hello"], 2, "", "required: --user"),
    ],
    ids=["answered", "refused", "wrong"],
)
def test_what_a_job_sees(
    transactional_db: None, store: Any, arguments: list[str], code: int, out: str, err: str
) -> None:
    """The exit code, and nothing but the answer on the standard output."""
    connection.close()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps({"database": str(connection.settings_dict["NAME"]), "arguments": arguments}),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (code, out), done.stderr
    assert err in done.stderr


def test_a_service_account_may_ask_as_well(order: Order, store: Any) -> None:
    """It decides nothing, and there is nothing to decide."""
    bot = store.user("support")
    bot.groups.add(Group.objects.get(name="service accounts"))
    relabel()
    given, _model = report(
        Call("query_order", {"limit": 1}),
        Call("relabel", {"order": order.number, "name": "Kari"}),
        Text("I could not."),
    )
    assert len(given["results"]) == len(given["denied"]) == 1
    assert outcome(decide(copilot_client(bot), given["denied"][0], "confirm")) == (403, "service_account")
