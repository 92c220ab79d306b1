"""A plan on its page: the same decisions with ordinary forms, what waits for whom, its JSON, and the signal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client

from django_copilot import Always, Preview, write_tool
from django_copilot.models import Plan, PlanState
from django_copilot.signals import plan_awaits_approval
from django_copilot.testing import copilot_client
from example_project.store.models import Order

from .tools import (
    JSON,
    audited,
    decide,
    let_pass,
    look,
    order_for,
    outcome,
    propose,
    relabel,
    send,
    staff,
    stored,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "plan.json"
INBOX = "/admin/django_copilot/plan/"


class _Forms(HTMLParser):
    """The POST forms of a page that belong to a plan: what they send, by the end of their address."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, tuple[str, dict[str, str]]] = {}
        self.open: dict[str, str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "form":
            self.open = None
            action = given.get("action") or ""
            if "/plan/" in action and given.get("method", "").lower() == "post":
                self.open = {}
                self.found[action.rstrip("/").rpartition("/")[2]] = (action, self.open)
        elif tag in ("input", "select") and self.open is not None and given.get("name"):
            self.open[given["name"]] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.open = None


def forms(client: Client, plan: dict[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the forms of a plan's page."""
    response = client.get(plan["url"])
    assert response.status_code == 200
    return _Forms(response.content.decode()).found


def press(client: Client, plan: dict[str, Any], button: str, **typed: str) -> Any:
    """Send one of the forms of a plan's page as a browser does, the CSRF token included."""
    action, inputs = forms(client, plan)[button]
    assert inputs["csrfmiddlewaretoken"]
    return client.post(action, {**inputs, **typed})


def said(response: Any) -> list[str]:
    """Return the messages that the next page will show."""
    return [str(each) for each in get_messages(response.wsgi_request)]


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for()


@pytest.fixture
def browser(store: Any) -> Callable[[str], Client]:
    """Return a function that gives a person's client, for which CSRF tokens count."""
    return lambda username: copilot_client(store.user(username), enforce_csrf_checks=True)


def plan_of(
    order: Order, username: str = "support", name: str = "Kari", tool: str = "relabel"
) -> dict[str, Any]:
    """Return a plan for the order."""
    client = copilot_client(User.objects.get(username=username))
    return propose(client, tool, {"order": order.number, "name": name})


def test_a_plan_is_confirmed_and_undone_with_ordinary_forms(order: Order, browser: Any) -> None:
    relabel()
    plan, client = plan_of(order), browser("support")
    assert set(forms(client, plan)) == {"confirm", "reject"}
    response = press(client, plan, "confirm")
    assert (response.status_code, response["Location"]) == (303, plan["url"])
    assert said(response) == ["Done."]
    assert Order.objects.get(pk=order.pk).shipping_name == "Kari"
    page = client.get(plan["url"]).content.decode()
    assert "Done." in page
    assert set(forms(client, plan)) == {"undo"}
    response = press(client, plan, "undo")
    undo = Plan.objects.get(undo_of=plan["id"])
    assert (response.status_code, response["Location"]) == (
        303,
        plan["url"].replace(plan["id"], str(undo.pk)),
    )
    response = press(client, {"url": response["Location"]}, "confirm")
    assert said(response) == ["Done."]  # what was said before stood on the page already
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"


def test_a_plan_is_declined_with_an_ordinary_form(order: Order, browser: Any) -> None:
    relabel()
    plan, client = plan_of(order), browser("support")
    response = press(client, plan, "reject", reason="  Not <b>today</b> ")
    assert (response.status_code, said(response)) == (303, ["Declined. Nothing was done."])
    assert stored(plan).reason == "Not <b>today</b>"
    page = client.get(plan["url"]).content.decode()
    assert "Not &lt;b&gt;today&lt;/b&gt;" in page
    assert forms(client, plan) == {}


def test_a_plan_is_approved_with_an_ordinary_form(order: Order, browser: Any) -> None:
    relabel(approval=Always())
    plan = plan_of(order)
    response = press(browser("support"), plan, "confirm")
    assert said(response) == ["Confirmed. A second person has to approve it before anything is done."]
    assert set(forms(browser("support"), plan)) == {"reject"}
    approver = browser("manager2")
    assert set(forms(approver, plan)) == {"approve", "reject"}
    assert said(press(approver, plan, "approve")) == ["Done."]
    assert Order.objects.get(pk=order.pk).shipping_name == "Kari"


def test_a_plan_that_is_over_is_made_again_with_an_ordinary_form(order: Order, browser: Any) -> None:
    relabel()
    plan, client = plan_of(order), browser("support")
    let_pass(plan, "expires_at")
    assert set(forms(client, plan)) == {"again"}
    response = press(client, plan, "again")
    assert response.status_code == 303
    assert set(forms(client, {"url": response["Location"]})) == {"confirm", "reject"}


def test_what_is_refused_leads_to_the_page_with_the_reason(order: Order, browser: Any) -> None:
    relabel()
    plan, client = plan_of(order), browser("support")
    response = client.get(plan["url"])
    action, inputs = _Forms(response.content.decode()).found["confirm"]
    wrong = client.post(action, {**inputs, "digest": "0" * 64})
    assert (wrong.status_code, wrong["Location"]) == (303, plan["url"])
    assert said(wrong) == ["This is not what you were shown. Look at it again."]
    Order.objects.filter(pk=order.pk).update(shipping_name="Per")
    stale = client.post(action, inputs)
    assert stale.status_code == 303
    fresh = Plan.objects.get(made_from=plan["id"])
    assert stale["Location"] == plan["url"].replace(plan["id"], str(fresh.pk))
    assert "Per" in client.get(stale["Location"]).content.decode()
    assert Order.objects.get(pk=order.pk).shipping_name == "Per"


def test_a_form_without_its_token_is_refused_as_every_page(order: Order, browser: Any) -> None:
    relabel()
    plan, client = plan_of(order), browser("support")
    response = client.post(plan["confirmUrl"], {"digest": plan["digest"]})
    assert response.status_code == 403
    assert "This page is too old" in response.content.decode()
    anonymous = Client().post(plan["confirmUrl"], {"digest": plan["digest"]})
    assert (anonymous.status_code, anonymous["Location"].partition("?")[0]) == (302, "/admin/login/")
    assert stored(plan).state == PlanState.PROPOSED
    assert [code for _event, code in audited(plan)[1:]] == ["csrf_failed", "not_authenticated"]


def test_an_answer_is_stored_nowhere_and_stands_in_no_frame(order: Order, browser: Any, login: Any) -> None:
    relabel()
    plan, client = plan_of(order), login("support")
    answers = [
        client.get(plan["url"]),
        client.get(plan["url"], headers=JSON),
        client.get(INBOX),
        send(client, plan["confirmUrl"], {"digest": "x"}),
        send(client, plan["confirmUrl"], {"digest": plan["digest"]}),
        browser("support").post(plan["confirmUrl"]),
    ]
    for answer in answers:
        assert {"no-store", "private"} <= set(answer["Cache-Control"].split(", "))
        assert answer["X-Frame-Options"] == "DENY"


def test_the_page_runs_no_script_of_its_own_and_shows_markup_as_text(order: Order, login: Any) -> None:
    relabel()
    plan = plan_of(order, name="<script>alert(1)</script>\u202eKari")
    page = login("support").get(plan["url"]).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in page
    assert "characters that can&#x27;t be seen" in page
    assert not re.search(r"\son\w+=", page.partition("copilot-plan")[2].partition("</section>")[0])


# -- what waits ---------------------------------------------------------------------------------------------


def waiting(client: Client) -> list[str]:
    """Return the ids of what waits for a person, after comparing number and page."""
    response = client.get(INBOX, headers=JSON)
    assert response.status_code == 200
    told = response.json()
    assert told["waiting"] == len(told["plans"])
    page = client.get(INBOX).content.decode()
    for plan in told["plans"]:
        assert plan["url"] in page
    return [plan["id"] for plan in told["plans"]]


def test_the_inbox_holds_what_she_can_confirm_and_what_she_can_approve(order: Order, login: Any) -> None:
    relabel()
    relabel(name="approved", approval=Always())
    support, manager = login("support"), login("manager2")
    own, other = plan_of(order), plan_of(order, tool="approved", name="Per")
    assert set(waiting(support)) == {own["id"], other["id"]}
    assert waiting(manager) == waiting(login("manager")) == []
    decide(support, other, "confirm")
    assert waiting(support) == [own["id"]]
    assert waiting(manager) == [other["id"]]
    Order.objects.filter(pk=order.pk).update(region="south")
    blind = copilot_client(staff("anna", "django_copilot.approve_plan"))
    assert waiting(blind) == []
    let_pass(own, "expires_at")
    let_pass(other, "approve_by")
    assert waiting(support) == waiting(manager) == []


@pytest.mark.parametrize("state", [PlanState.EXECUTING, PlanState.UNCERTAIN], ids=str)
def test_what_nobody_knows_the_end_of_waits_for_its_owner_and_an_approver(
    order: Order, login: Any, state: PlanState
) -> None:
    relabel()
    plan = plan_of(order)
    Plan.objects.filter(pk=plan["id"]).update(state=state, confirmed_at=Now(), lease_until=Now())
    assert waiting(login("support")) == waiting(login("manager2")) == [plan["id"]]
    assert waiting(login("manager")) == [plan["id"]]
    assert look(login("support"), plan)["state"] == "uncertain"
    assert "retry" in look(login("support"), plan)["can"]


def test_the_inbox_needs_a_session_and_a_right(order: Order, login: Any) -> None:
    assert Client().get(INBOX, headers=JSON).status_code == 401
    nobody = copilot_client(staff("anna", "store.view_order"))
    assert nobody.get(INBOX, headers=JSON).status_code == 403
    assert login("support").post(INBOX, headers=JSON).status_code == 405


# -- its JSON -----------------------------------------------------------------------------------------------


def shape(value: Any, name: str = "") -> Any:
    """Return a plan's JSON with what differs from run to run replaced."""
    if isinstance(value, dict):
        return {key: shape(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", value)
        value = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.+]+", "<time>", value)
        value = re.sub(r"/order/\d+/", "/order/<pk>/", value)
        return re.sub(r"\b[0-9a-f]{64}\b", "<digest>", value)
    return "<seconds>" if name == "secondsLeft" and value else value


def test_the_json_of_a_plan_has_this_shape(order: Order, login: Any) -> None:
    """Hazard 142. Where it fails, the new shape stands beside the kept one, in ``plan.json.candidate``."""
    from django_copilot import Effect

    def courier(ctx: Any, order: str, name: str) -> Preview:
        """Send a courier."""
        found = ctx.get(Order, number=order)
        return Preview(
            found,
            shipping_name=name,
            shipping_city="Oslo",
            effects=[Effect("A mail goes to %(email)s.", email="ola@mail.example")],
            system={"region": found.region},
            acting_as="The store",
            amount=12,
        )

    write_tool(Order, reversible=True, approval=Always(), title="Send a courier")(courier)
    support = login("support")
    plan = plan_of(order, tool="courier")
    told = {"proposed": plan}
    decide(support, plan, "confirm")
    told["approver"] = look(login("manager2"), plan)
    told["executed"] = decide(login("manager2"), plan, "approve")[1]["plan"]
    told["undo"] = decide(support, plan, "undo")[1]["plan"]
    found = json.dumps(shape(told), indent=1, ensure_ascii=False) + "\n"
    kept = GOLDEN.read_text() if GOLDEN.exists() else ""
    if found != kept:
        GOLDEN.with_suffix(".json.candidate").write_text(found)
    assert found == kept
    own = look(support, plan)
    differing = {key for key, value in told["executed"].items() if own[key] != value}
    assert differing - {"secondsLeft"} == {"can", "canContinue", "requester"}


# -- the signal ---------------------------------------------------------------------------------------------


@pytest.fixture
def heard() -> Iterator[list[tuple[Any, str, str, bool]]]:
    """Return what a receiver of the signal was told: plan, site, state, and if a transaction was open."""
    found: list[tuple[Any, str, str, bool]] = []

    def receive(sender: Any, plan: Plan, site: str, **kwargs: Any) -> None:
        found.append((plan.pk, site, plan.state, connection.in_atomic_block))

    plan_awaits_approval.connect(receive)
    yield found
    plan_awaits_approval.disconnect(receive)


@pytest.mark.django_db(transaction=True)
def test_a_plan_that_waits_for_a_second_person_is_told_of_once_after_the_commit(
    order: Order, login: Any, heard: list[Any]
) -> None:
    relabel(approval=Always())
    plan = plan_of(order)
    assert heard == []
    for _ in range(2):
        assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    assert heard == [(stored(plan).pk, "admin", "awaiting_approval", False)]
    decide(login("manager2"), plan, "approve")
    relabel(name="alone")
    decide(login("support"), plan_of(order, tool="alone", name="Per"), "confirm")
    assert len(heard) == 1


@pytest.mark.django_db(transaction=True)
def test_nothing_is_told_of_what_was_rolled_back(
    order: Order, login: Any, heard: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_copilot import audit

    relabel(approval=Always())
    plan = plan_of(order)

    def append(*args: Any) -> None:
        raise OSError

    monkeypatch.setattr(audit, "append", append)
    assert decide(login("support"), plan, "confirm")[0] == 500
    assert (heard, stored(plan).state) == ([], "proposed")


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_fails_changes_nothing(
    order: Order, login: Any, heard: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**kwargs: Any) -> None:
        with transaction.atomic():
            Order.objects.filter(pk=order.pk).update(shipping_name="Somebody")
            raise ZeroDivisionError

    relabel(approval=Always())
    plan = plan_of(order)
    plan_awaits_approval.connect(fail)
    try:
        with caplog.at_level(logging.ERROR):
            assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    finally:
        plan_awaits_approval.disconnect(fail)
    assert "ZeroDivisionError" in caplog.text
    assert len(heard) == 1
    assert Order.objects.get(pk=order.pk).shipping_name == "Ola"
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")
