"""What a plan shows to each person and tells the model: never more than each of them may see."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils.translation import gettext_lazy as _

from django_copilot import Effect, Preview, write_tool
from django_copilot.models import Conversation, Plan
from django_copilot.plans import projection
from django_copilot.testing import assert_not_sent
from example_project.store.models import Customer, Order
from tests.gate.conftest import Orders

from .declared import context, decide, go_on, propose

SECRET = "zqx secret note"


def shown(client: Client, plan: dict[str, Any]) -> str:
    """Return all that a person gets of a plan: JSON, page and inbox."""
    told = client.get(plan["url"], headers={"accept": "application/json"}).content.decode()
    page = client.get(plan["url"], headers={"accept": "text/html"})
    inbox = client.get("/admin/django_copilot/plan/", headers={"accept": "text/html"})
    return told + page.content.decode() + inbox.content.decode()


# -- values that a person may not see ----------------------------------------------------------------------


@pytest.fixture
def noting(orders: Orders) -> Customer:
    """Declare a tool that writes a field which only managers see, its own way; return the customer."""
    customer = Order.objects.get(pk=orders.own).customer
    customer.internal_note = SECRET
    customer.save()

    @write_tool(Customer)
    def write_note(ctx: Any, pk: int, note: str) -> Preview:
        """Write a note about a customer."""
        return Preview(ctx.get(Customer, pk=pk), internal_note=note)

    @write_note.apply
    def apply(ctx: Any, preview: Preview, grant: Any) -> dict[str, str]:
        record: Any = preview.record
        record.internal_note = preview.changes["internal_note"]
        record.save()
        return {"written": "yes"}

    return customer


def test_an_old_value_that_her_admin_does_not_show_is_shown_nowhere_and_sent_to_nobody(
    noting: Customer, login: Any
) -> None:
    """Guards hazard 164."""
    client = login("support")
    plan = propose(client, "write_note", {"pk": noting.pk, "note": "called twice"})
    (change,) = plan["changes"]
    assert change == {
        "field": "internal_note",
        "label": "Internal note",
        "old": None,
        "oldHidden": True,
        "new": "called twice",
        "origin": "model",
    }
    assert SECRET not in json.dumps(plan) + shown(client, plan)
    done = decide(client, plan["confirmUrl"], digest=plan["digest"])
    assert done.status_code == 200, done.content
    assert SECRET not in done.content.decode() + shown(client, plan)
    model = go_on(client, plan)
    assert_not_sent(model, SECRET)
    told = json.loads(model.requests[0].messages[-1].text)
    assert told["status"] == "executed"
    assert "now" not in told  # it may not read the field
    noting.refresh_from_db()
    assert noting.internal_note == "called twice"
    conversation = client.get(
        f"/admin/django_copilot/conversation/{Conversation.objects.get().pk}/",
        headers={"accept": "application/json"},
    )
    assert SECRET not in conversation.content.decode()


def test_whose_admin_shows_it_is_shown_it(noting: Customer, login: Any) -> None:
    plan = propose(login("manager"), "write_note", {"pk": noting.pk, "note": "x"})
    assert plan["changes"][0]["old"] == SECRET
    assert "oldHidden" not in plan["changes"][0]


def test_a_stale_plan_shows_no_more_than_the_first_one(noting: Customer, login: Any) -> None:
    client = login("support")
    plan = propose(client, "write_note", {"pk": noting.pk, "note": "x"})
    Customer.objects.filter(pk=noting.pk).update(internal_note="zqx another secret")
    answer = decide(client, plan["confirmUrl"], digest=plan["digest"])
    assert (answer.status_code, answer.json()["code"]) == (409, "stale")
    assert answer.json()["plan"]["changes"][0]["oldHidden"] is True
    assert "zqx" not in answer.content.decode() + shown(client, answer.json()["plan"])


def test_what_is_shown_is_what_she_may_see_now(noting: Customer, login: Any) -> None:
    client = login("manager")
    plan = propose(client, "write_note", {"pk": noting.pk, "note": "x"})
    assert SECRET in shown(client, plan)
    get_user_model().objects.get(username="manager").groups.clear()
    for name in ("use_copilot", "view_customer", "change_customer", "view_order"):
        get_user_model().objects.get(username="manager").user_permissions.add(
            Permission.objects.get(codename=name)
        )
    assert SECRET not in shown(client, plan)
    get_user_model().objects.get(username="manager").user_permissions.clear()
    assert SECRET not in shown(client, plan)


def test_labels_of_records_are_each_viewers_own(orders: Orders, login: Any) -> None:
    customer = Order.objects.get(pk=orders.own).customer
    Customer.objects.filter(pk=customer.pk).update(name="Zqx Label")

    @write_tool(Order, approval=None, category="destructive")
    def telling(ctx: Any, pk: int) -> Preview:
        """Do it."""
        found = ctx.get(Order, pk=pk)
        customer = ctx.related(found, "customer")
        return Preview(
            found,
            shipping_city="Oslo",
            effects=[Effect(_("status"), who=customer)],
            system={"customer": customer, "all": [customer]},
            summary=Effect("of %(who)s", who=customer),
        )

    client = login("support")
    plan = propose(client, "telling", {"pk": orders.own})
    assert plan["summary"].endswith("of Zqx Label")
    assert [each["value"] for each in plan["arguments"] if each["origin"] == "system"] == ["Zqx Label"] * 2
    Permission.objects.get(codename="view_customer").group_set.clear()
    Permission.objects.get(codename="change_customer").group_set.clear()
    again = client.get(plan["url"], headers={"accept": "application/json"}).json()
    assert "Zqx" not in json.dumps(again)
    assert again["summary"].endswith(f"of {customer.pk}")


@pytest.mark.parametrize(
    "state", ["proposed", "awaiting_approval", "executed", "failed", "uncertain", "rejected"]
)
def test_an_approver_sees_the_plan_and_not_the_conversation(noting: Customer, login: Any, state: str) -> None:
    client, other = login("support"), login("manager2")
    plan = propose(client, "write_note", {"pk": noting.pk, "note": "called"})
    Plan.objects.filter(pk=plan["id"]).update(
        state=state,
        needs_approval=True,
        confirmed_by=str(get_user_model().objects.get(username="support").pk),
        **(
            {}
            if state == "proposed"
            else {"confirmed_at": "2026-01-01T00:00Z", "approve_by": "2099-01-01T00:00Z"}
        ),
    )
    response = other.get(plan["url"], headers={"accept": "application/json"})
    assert response.status_code == (404 if state == "proposed" else 200)
    if state != "proposed":
        body = response.json()
        assert (body["requester"], body["changes"][0]["old"]) == ("support", SECRET)
        assert body["canContinue"] is False
        assert "conversationId" not in body
        assert "Do it" not in response.content.decode()
    conversation = Conversation.objects.get().pk
    assert other.get(f"/admin/django_copilot/conversation/{conversation}/").status_code == 404


# -- what the model is told ----------------------------------------------------------------------------------

STATES: dict[str, str] = {
    "executed": "EXECUTED. The person confirmed it.",
    "undone": "EXECUTED, and undone",
    "rejected": "NOT EXECUTED: declined by a person: not today",
    "expired": "NOT EXECUTED: expired",
    "stale": "NOT EXECUTED: stale",
    "failed": "NOT EXECUTED: failed",
    "uncertain": "Nobody knows yet",
    "awaiting_approval": "NOT EXECUTED yet",
    "executing": "NOT EXECUTED yet",
}


@pytest.mark.parametrize("state", STATES)
def test_the_model_is_told_how_a_plan_stands_and_only_what_it_may_read(
    orders: Orders, login: Any, state: str
) -> None:
    """Of the changed fields those that are declared to be read and shown to this person: the city, no street."""
    args = {
        "order": Order.objects.get(pk=orders.own).number,
        "street": "Zqx 1",
        "postal_code": "00",
        "city": "Oslo",
    }
    plan = Plan.objects.get(pk=propose(login("support"), "change_shipping_address", args)["id"])
    Order.objects.filter(pk=orders.own).update(shipping_city="Oslo", shipping_street="Zqx 1")
    Plan.objects.filter(pk=plan.pk).update(
        state=state,
        reason="not today",
        code="zqx",
        result={"zqx": "zqx"},
        lease_until="2099-01-01T00:00Z",
        approve_by="2099-01-01T00:00Z",
    )
    plan = Plan.objects.get(pk=plan.pk)
    with context("support") as ctx:
        told = projection.for_model(plan, ctx._access)
    assert told["message"].startswith(STATES[state])
    assert told["plan"] == str(plan.pk)
    assert told.get("now") == ({"shipping_city": "Oslo"} if state == "executed" else None)
    assert set(told) <= {"plan", "status", "message", "now"}
    assert "zqx" not in json.dumps(told).lower()
    assert len(json.dumps(told)) < 4_000


def test_a_rejected_plans_reason_is_told_as_a_persons(orders: Orders, login: Any) -> None:
    client = login("support")
    args = {
        "order": Order.objects.get(pk=orders.own).number,
        "street": "S",
        "postal_code": "00",
        "city": "Oslo",
    }
    plan = propose(client, "change_shipping_address", args)
    assert decide(client, plan["rejectUrl"], reason="He moved to Bergen").status_code == 200
    model = go_on(client, plan, said="To Bergen, then?")
    told = json.loads(model.requests[0].messages[-1].text)
    assert told["message"] == "NOT EXECUTED: declined by a person: He moved to Bergen"
    assert "now" not in told
