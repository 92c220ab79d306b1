"""The second person: when a plan needs one, who that may be, and what is asked again when she approves."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from django_copilot import Above, Always, Never, Preview, write_tool
from django_copilot.models import AuditEntry, Plan
from django_copilot.testing import copilot_client
from django_copilot.tools import write
from django_copilot.tools.write import Approval
from example_project.store.models import Order, Product

from .tools import (
    JSON,
    audited,
    decide,
    grant,
    impersonated,
    let_pass,
    look,
    order_for,
    outcome,
    propose,
    relabel,
    revoke,
    staff,
    stored,
)

SEES = ("store.view_order", "django_copilot.approve_plan")


@pytest.fixture
def order(store: Any, tool: Any) -> Order:
    return order_for()


def ship_to(order: Order) -> str:
    """Return what is stored."""
    return Order.objects.get(pk=order.pk).shipping_name


def confirmed(client: Client, order: Order, name: str = "Kari") -> dict[str, Any]:
    """Return a plan of ``relabel`` that its owner has confirmed and that waits."""
    plan = propose(client, "relabel", {"order": order.number, "name": name})
    assert plan["needsApproval"]
    assert outcome(decide(client, plan, "confirm")) == (200, "awaiting_approval")
    return plan


def test_a_confirmed_plan_waits_and_is_carried_out_by_the_second_persons_approval(
    order: Order, login: Any, store: Any
) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    assert ship_to(order) == "Ola"
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")  # a double click
    seen = look(login("manager2"), plan)
    assert (seen["requester"], "approve" in seen["can"], seen["changes"][0]["new"]) == (
        "support",
        True,
        "Kari",
    )
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")
    assert ship_to(order) == "Kari"
    kept = stored(plan)
    people = [str(store.user(name).pk) for name in ("support", "manager2")]
    assert [kept.confirmed_by, kept.approved_by] == people
    assert None not in (kept.confirmed_at, kept.approved_at, kept.ended_at)
    assert [event for event, _code in audited(plan)] == ["proposed", "confirmed", "approved", "executed"]
    # Approved or confirmed once more, it gives what is stored; anybody else's approval comes too late.
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "executed")
    assert outcome(decide(login("manager"), plan, "approve")) == (409, "no_approval_needed")
    assert Order.history.filter(id=order.pk).count() == 2


def test_the_history_names_who_asked_for_it(order: Order, login: Any) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    decide(login("manager2"), plan, "approve")
    assert Order.history.filter(id=order.pk).latest().history_user.username == "support"


# -- who it may be ------------------------------------------------------------------------------------------


def requester_herself(order: Order, login: Any) -> Client:
    client: Client = login("support")
    grant(User.objects.get(username="support"), "django_copilot.approve_plan")
    return client


def powerful_requester(order: Order, login: Any) -> Client:
    User.objects.filter(username="support").update(is_superuser=True)
    client: Client = login("support")
    return client


def while_acting_as_another(order: Order, login: Any) -> Client:
    return impersonated(login("manager"), User.objects.get(username="admin"))


def bot(order: Order, login: Any) -> Client:
    grant(User.objects.get(username="bot"), "django_copilot.approve_plan")
    client: Client = login("bot")
    return client


def powerful_service_account(order: Order, login: Any) -> Client:
    user = User.objects.create_superuser("robot")
    user.groups.add(Group.objects.get(name="service accounts"))
    return copilot_client(user)


def without_the_tools_permission(order: Order, login: Any) -> Client:
    return copilot_client(staff("anna", *SEES))


def of_another_region(order: Order, login: Any) -> Client:
    Order.objects.filter(pk=order.pk).update(region="south")
    user = staff("anna", *SEES, "store.view_customer", "store.propose_refund")
    from example_project.store.models import StaffProfile

    StaffProfile.objects.create(user=user, region="north")
    Order.objects.filter(pk=order.pk).update(region="north")
    StaffProfile.objects.filter(user=user).update(region="south")
    return copilot_client(user)


def who_may_not_view_orders(order: Order, login: Any) -> Client:
    return copilot_client(
        staff("anna", "django_copilot.approve_plan", "store.propose_refund", "store.view_customer")
    )


def without_the_right_to_approve(order: Order, login: Any) -> Client:
    client: Client = login("viewer")
    return client


def nobody(order: Order, login: Any) -> Client:
    return Client()


@pytest.mark.parametrize(
    ("who", "status", "code"),
    [
        (requester_herself, 403, "own_plan"),
        (powerful_requester, 403, "own_plan"),
        (while_acting_as_another, 403, "impersonated"),
        (bot, 403, "service_account"),
        (powerful_service_account, 403, "service_account"),
        (without_the_tools_permission, 403, "not_allowed"),
        (of_another_region, 403, "approver_cannot_see"),
        (who_may_not_view_orders, 403, "approver_cannot_see"),
        (without_the_right_to_approve, 404, "not_found"),
        (nobody, 401, "not_authenticated"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_who_must_not_be_the_second_person_is_refused(
    order: Order, login: Any, who: Callable[[Order, Any], Client], status: int, code: str
) -> None:
    relabel(approval=Always(), approve_permissions=["store.propose_refund"])
    plan = confirmed(login("support"), order)
    client = who(order, login)
    assert outcome(decide(client, plan, "approve")) == (status, code)
    if status == 403:
        assert "approve" not in look(client, plan)["can"]
    assert (ship_to(order), stored(plan).state) == ("Ola", "awaiting_approval")
    assert audited(plan)[-1] == ("refused", code)
    if status == 403 and code not in ("own_plan", "impersonated"):  # nor may she decline it
        assert outcome(decide(client, plan, "reject")) == (403, code)
        assert stored(plan).state == "awaiting_approval"
    grant(User.objects.get(username="manager2"), "store.propose_refund")
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


def test_the_real_person_behind_the_proposal_can_not_approve_it(order: Order, login: Any, store: Any) -> None:
    relabel(approval=Always())
    given, manager = {"order": order.number, "name": "Kari"}, store.user("manager")
    plan = propose(impersonated(login("support"), manager), "relabel", given)
    assert outcome(decide(impersonated(login("support"), manager), plan, "confirm")) == (403, "impersonated")
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    assert outcome(decide(login("manager"), plan, "approve")) == (403, "own_plan")
    assert ship_to(order) == "Ola"
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


def test_what_somebody_proposed_who_can_not_be_named_is_approved_by_nobody(order: Order, login: Any) -> None:
    relabel(approval=Always())
    client, gone = login("support"), User(pk=987_654)
    plan = propose(impersonated(client, gone), "relabel", {"order": order.number, "name": "Kari"})
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    assert outcome(decide(login("manager2"), plan, "approve")) == (403, "own_plan")
    assert ship_to(order) == "Ola"
    entries = AuditEntry.objects.filter(plan=plan["id"]).order_by("number")
    assert [each.real_actor for each in entries] == ["?", "", ""]


def test_who_may_not_see_a_changed_field_can_not_approve(store: Any, tool: Any, login: Any) -> None:
    def reprice(ctx: Any, sku: str, price: int) -> Preview:
        """Set what a product costs the store."""
        return Preview(ctx.get(Product, sku=sku), cost_price=price)

    write_tool(Product, approval=Always())(reprice)
    product = Product.objects.create(title="Lamp", price=9, cost_price=3, status="active")
    plan = propose(login("manager"), "reprice", {"sku": product.sku, "price": 4})
    assert outcome(decide(login("manager"), plan, "confirm")) == (200, "awaiting_approval")
    anna = copilot_client(staff("anna", "store.view_product", "django_copilot.approve_plan"))
    seen = look(anna, plan)
    assert (seen["changes"], seen["arguments"], seen["can"]) == ([], [], [])
    assert outcome(decide(anna, plan, "approve")) == (403, "approver_cannot_see")
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


def test_who_may_not_see_another_bound_record_can_not_approve(store: Any, tool: Any, login: Any) -> None:
    def address_to_customer(ctx: Any, order: str) -> Preview:
        """Ship to the customer."""
        found = ctx.get(Order, number=order)
        return Preview(found, shipping_name=ctx.related(found, "customer").name)

    write_tool(Order, approval=Always())(address_to_customer)
    plan = propose(login("support"), "address_to_customer", {"order": order_for().number})
    decide(login("support"), plan, "confirm")
    anna = staff("anna", *SEES)
    from example_project.store.models import StaffProfile

    StaffProfile.objects.create(user=anna, region="north")
    assert outcome(decide(copilot_client(anna), plan, "approve")) == (403, "approver_cannot_see")
    grant(anna, "store.view_customer")
    assert outcome(decide(copilot_client(anna), plan, "approve")) == (200, "executed")


@contextmanager
def _enter(values: Any, request: Any) -> Iterator[None]:
    request.tenant = values.get("tenant", "")
    yield


def _capture(request: Any) -> dict[str, str]:
    return {"tenant": request.headers.get("x-tenant", "")}


def test_somebody_of_another_scope_can_not_approve(order: Order, login: Any, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "SCOPE": {"capture": _capture, "enter": _enter}}
    relabel(approval=Always())

    def of(username: str, tenant: str) -> Client:
        client: Client = login(username)
        client.defaults["HTTP_X_TENANT"] = tenant
        return client

    plan = confirmed(of("support", "acme"), order)
    for tenant in ("other", ""):
        assert outcome(decide(of("manager2", tenant), plan, "approve")) == (404, "not_found")
        for what in ("confirm", "reject", "undo", "again"):
            assert outcome(decide(of("support", tenant), plan, what)) == (404, "not_found")
        assert of("support", tenant).get(plan["url"], headers=JSON).status_code == 404
    assert outcome(decide(of("manager2", "acme"), plan, "approve")) == (200, "executed")


# -- what is asked again ------------------------------------------------------------------------------------


def test_a_requester_who_has_lost_her_right_has_nothing_done(order: Order, login: Any) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    user = User.objects.get(username="support")
    revoke(user, "store.change_order")
    assert outcome(decide(login("manager2"), plan, "approve")) == (403, "not_allowed")
    assert (ship_to(order), stored(plan).state) == ("Ola", "awaiting_approval")
    grant(user, "store.change_order")
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"is_active": False}, 409, "requester_inactive"),
        ({"is_staff": False}, 403, "not_allowed"),
    ],
)
def test_a_requester_whose_account_was_closed_has_nothing_done(
    order: Order, login: Any, change: dict[str, Any], status: int, code: str
) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    User.objects.filter(username="support").update(**change)
    assert outcome(decide(login("manager2"), plan, "approve")) == (status, code)
    assert ship_to(order) == "Ola"


def test_an_approver_who_has_lost_her_right_finds_no_plan(order: Order, login: Any) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    client = login("manager2")
    assert look(client, plan)["state"] == "awaiting_approval"
    revoke(User.objects.get(username="manager2"), "django_copilot.approve_plan")
    assert outcome(decide(client, plan, "approve")) == (404, "not_found")


def test_an_approval_of_what_was_changed_since_is_stale_and_the_fresh_plan_is_the_owners(
    order: Order, login: Any
) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    Order.objects.filter(pk=order.pk).update(shipping_name="Per")
    status, answer = decide(login("manager2"), plan, "approve")
    assert (status, answer["code"], ship_to(order)) == (409, "stale", "Per")
    assert (answer["plan"]["id"], answer["plan"]["state"]) == (plan["id"], "stale")
    fresh = Plan.objects.get(made_from=plan["id"])
    assert (fresh.state, fresh.user.username, fresh.confirmed_by) == ("proposed", "support", "")
    url = plan["url"].replace(plan["id"], str(fresh.pk))
    assert login("manager2").get(url).status_code == 404
    assert look(login("support"), {"url": url})["changes"][0]["old"] == "Per"


@pytest.mark.parametrize("rule", [Never(), Above(5)], ids=lambda rule: type(rule).__name__)
def test_another_rule_than_at_the_confirmation_has_nothing_done(
    order: Order, login: Any, rule: Approval
) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    write.all_tools()["relabel"].approval = rule
    assert outcome(decide(login("manager2"), plan, "approve")) == (409, "stale")
    assert ship_to(order) == "Ola"


def test_a_plan_that_needs_approval_by_now_is_not_carried_out_by_a_confirmation(
    order: Order, login: Any
) -> None:
    relabel()
    plan = propose(login("support"), "relabel", {"order": order.number, "name": "Kari"})
    write.all_tools()["relabel"].approval = Always()
    status, answer = decide(login("support"), plan, "confirm")
    assert (status, answer["code"], answer["plan"]["needsApproval"]) == (409, "stale", True)
    assert ship_to(order) == "Ola"


def test_an_approval_comes_too_late_after_its_own_window(order: Order, login: Any) -> None:
    relabel(approval=Always(), approve_within=datetime.timedelta(hours=2))
    plan = confirmed(login("support"), order)
    kept = stored(plan)
    assert kept.approve_by - kept.confirmed_at == datetime.timedelta(hours=2)
    let_pass(plan, "expires_at")  # that one was for the confirmation
    assert look(login("manager2"), plan)["state"] == "awaiting_approval"
    let_pass(plan, "approve_by")
    assert look(login("manager2"), plan)["state"] == "expired"
    assert outcome(decide(login("manager2"), plan, "approve")) == (409, "expired")
    assert (ship_to(order), stored(plan).state) == ("Ola", "expired")
    assert audited(plan)[-2:] == [("expired", ""), ("refused", "expired")]


def test_a_plan_that_needs_nobody_else_is_not_approved(order: Order, login: Any) -> None:
    relabel()
    plan = propose(login("support"), "relabel", {"order": order.number, "name": "Kari"})
    assert outcome(decide(login("support"), plan, "approve")) == (409, "no_approval_needed")
    assert outcome(decide(login("manager2"), plan, "approve")) == (404, "not_found")
    assert ship_to(order) == "Ola"


def test_a_plan_that_was_not_confirmed_is_not_approved(order: Order, login: Any) -> None:
    relabel(approval=Always())
    plan = propose(login("support"), "relabel", {"order": order.number, "name": "Kari"})
    assert outcome(decide(login("manager2"), plan, "approve")) == (404, "not_found")
    assert outcome(decide(login("support"), plan, "approve")) == (409, "no_approval_needed")
    assert (ship_to(order), stored(plan).state) == ("Ola", "proposed")


@pytest.mark.parametrize("digest", ["", "0" * 64, None])
def test_an_approval_is_of_the_digest_that_was_shown(order: Order, login: Any, digest: Any) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    other = confirmed(login("support"), order_for(number="SO-9000002"))
    for given in (digest, other["digest"]):
        assert outcome(decide(login("manager2"), plan, "approve", digest=given)) == (409, "digest_mismatch")
    assert ship_to(order) == "Ola"


@pytest.mark.parametrize("who", ["support", "manager2"])
def test_a_waiting_plan_is_declined_by_its_owner_or_by_who_could_approve_it(
    order: Order, login: Any, store: Any, who: str
) -> None:
    relabel(approval=Always())
    plan = confirmed(login("support"), order)
    assert outcome(decide(login(who), plan, "reject", reason="Not today")) == (200, "rejected")
    kept = stored(plan)
    assert (kept.reason, kept.decided_by) == ("Not today", str(store.user(who).pk))
    assert outcome(decide(login("manager2"), plan, "approve")) == (409, "rejected")
    assert ship_to(order) == "Ola"
