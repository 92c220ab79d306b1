"""The page of a plan: its owner's alone, up to date, and where a proposal is made again."""

from __future__ import annotations

import datetime
import json
import uuid
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from django_copilot import plans
from django_copilot.models import Conversation, Plan, PlanState
from django_copilot.scope import Scope
from example_project.store.models import Category, Customer, Product
from tests.forms.pages import Page, propose, visit

from .test_delete_page import delete_plan, free_product

JSON = {"accept": "application/json"}


def form_plan(client: Client) -> tuple[Plan, Customer]:
    """Have a customer's new city proposed."""
    customer = Customer.objects.exclude(city="Gdynia").order_by("pk")[0]
    propose(client, "open_customer_form", {"city": "Gdynia"}, id=str(customer.pk), site="admin")
    return Plan.objects.latest("created_at"), customer


def url(plan: Any, end: str = "") -> str:
    """Return the address of a plan's page."""
    return f"/admin/django_copilot/plan/{getattr(plan, 'pk', plan)}/{end}"


def test_the_page_shows_old_and_new_and_the_way_to_the_form(manager: Client) -> None:
    plan, customer = form_plan(manager)
    response = manager.get(url(plan))
    assert response.status_code == 200
    shown = response.context["plan"]
    assert shown["changes"] == [{"field": "city", "label": "City", "old": customer.city, "new": "Gdynia"}]
    assert shown["record_label"] == str(customer)
    page = Page(manager, f"/admin/store/customer/{customer.pk}/change/", manager.get(shown["open_url"]))
    assert page.value("city") == "Gdynia"
    assert page.plan == str(plan.pk)


def test_pages_are_stored_nowhere_and_not_framed(manager: Client, settings: Any) -> None:
    settings.X_FRAME_OPTIONS = "SAMEORIGIN"  # whatever the project's own pages allow
    plan, _ = form_plan(manager)
    for response in [
        manager.get(url(plan)),
        manager.get(url(plan), headers=JSON),
        manager.post(url(plan, "again/")),
    ]:
        assert response["X-Frame-Options"] == "DENY"
        assert "no-store" in response["Cache-Control"]
        assert "private" in response["Cache-Control"]


def test_the_plan_in_json_says_the_same(manager: Client) -> None:
    plan, customer = form_plan(manager)
    answer = manager.get(url(plan), headers=JSON).json()
    assert answer["state"] == "proposed"
    assert answer["changes"] == [{"field": "city", "label": "City", "old": customer.city, "new": "Gdynia"}]
    assert answer["url"] == url(plan)


@pytest.mark.parametrize("end", ["", "again/"])
@pytest.mark.parametrize("accept", ["text/html", "application/json"])
def test_a_plan_of_somebody_else_is_not_there(manager: Client, login: Any, end: str, accept: str) -> None:
    """Hazard 50: also for a superuser, and not to be told from one that never was."""
    plan, _ = form_plan(manager)
    headers = {"accept": accept}
    for username in ("admin", "manager2", "support"):
        client = login(username)
        ask = client.post if end else client.get
        theirs, nothing = ask(url(plan, end), headers=headers), ask(url(uuid.uuid4(), end), headers=headers)
        assert (theirs.status_code, nothing.status_code) == (404, 404)
        if accept == "application/json":
            assert theirs.content == nothing.content
    assert list(Plan.objects.values_list("state", flat=True)) == ["proposed"]


@pytest.mark.parametrize(
    "ident", ["x", "1", "00000000-0000-0000-0000-000000000000", "%00", "ł", "{}", "%E2%80%AE"]
)
def test_an_id_that_names_nothing_is_not_there(manager: Client, ident: str) -> None:
    assert manager.get(url(ident)).status_code == 404
    assert manager.post(url(ident, "again/")).status_code == 404


@pytest.mark.parametrize("change", [{"site": "other"}, {"scope_key": "tenant"}])
def test_a_plan_of_another_site_or_scope_is_not_there(manager: Client, change: dict[str, str]) -> None:
    plan, _ = form_plan(manager)
    Plan.objects.update(**change)
    assert manager.get(url(plan)).status_code == 404
    assert manager.post(url(plan, "again/")).status_code == 404


def test_a_plan_whose_model_is_gone_is_not_there(manager: Client) -> None:
    plan, _ = form_plan(manager)
    Plan.objects.update(model="store.gone")
    assert manager.get(url(plan)).status_code == 404


def test_a_visitor_is_sent_to_the_login_page(manager: Client) -> None:
    plan, _ = form_plan(manager)
    response = Client().get(url(plan))
    assert response.status_code == 302
    assert "/login/" in response["Location"]
    assert Client().get(url(plan), headers=JSON).status_code == 401


def test_old_values_are_shown_with_the_rights_of_now(manager: Client, store: Any) -> None:
    plan, customer = form_plan(manager)
    Customer.objects.filter(pk=customer.pk).update(city="Old-and-secret")
    assert b"Old-and-secret" in manager.get(url(plan)).content
    user = store.user("manager")
    user.groups.clear()
    user.user_permissions.set(store.user("support").groups.get().permissions.filter(codename="view_product"))
    user.user_permissions.add(*store.user("support").groups.get().permissions.filter(codename="use_copilot"))
    response = manager.get(url(plan))
    assert response.status_code == 200
    assert b"Old-and-secret" not in response.content
    assert response.context["plan"]["changes"] == []


def test_opening_a_page_changes_nothing_and_start_again_needs_a_token(manager: Client, store: Any) -> None:
    plan, _ = form_plan(manager)
    assert manager.get(url(plan, "again/")).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(store.user("manager"))
    assert strict.post(url(plan, "again/")).status_code == 403
    assert list(Plan.objects.values_list("state", flat=True)) == ["proposed"]


@pytest.mark.parametrize("too_old", [False, True])
def test_start_again_makes_a_new_plan_on_what_is_stored_now(manager: Client, too_old: bool) -> None:
    plan, customer = form_plan(manager)
    Customer.objects.filter(pk=customer.pk).update(city="Sopot")
    if too_old:
        Plan.objects.update(expires_at=timezone.now() - datetime.timedelta(hours=1))
        assert b"expired" in manager.get(url(plan)).content
    answer = manager.post(url(plan, "again/"))
    new = Plan.objects.exclude(pk=plan.pk).get()
    plan.refresh_from_db()
    assert plan.state == PlanState.REJECTED
    assert (new.state, new.values, new.user_id) == (PlanState.PROPOSED, plan.values, plan.user_id)
    assert new.base["fields"]["city"] != plan.base["fields"]["city"]
    assert new.base.keys() == plan.base.keys()
    assert new.base["fields"].keys() == plan.base["fields"].keys()
    page = Page(manager, answer["Location"], manager.get(answer["Location"]))
    assert page.marked["city"]["old"] == "Sopot"


@pytest.mark.parametrize("late", [False, True])
def test_a_plan_that_was_carried_out_is_never_made_again(
    manager: Client, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    plan, _ = form_plan(manager)
    if late:  # in the moment between looking and closing
        renew = plans.renew

        def saved_first(given: Plan, **kwargs: Any) -> Plan | None:
            Plan.objects.filter(pk=given.pk).update(state=PlanState.EXECUTED)
            return renew(given, **kwargs)

        monkeypatch.setattr(plans, "renew", saved_first)
    else:
        Plan.objects.update(state=PlanState.EXECUTED)
    answer = manager.post(url(plan, "again/"))
    assert answer["Location"] == url(plan)
    assert Plan.objects.get().state == PlanState.EXECUTED


def test_a_saved_plan_links_to_its_record_and_offers_nothing_more(manager: Client) -> None:
    action = propose(manager, "open_category_form", {"name": "Lamps", "slug": "lamps"}, site="admin")
    visit(manager, action).save()
    made = Category.objects.get(slug="lamps")
    shown = manager.get(url(action["queryParams"]["aiPlan"])).context["plan"]
    assert shown["result_url"] == f"/admin/store/category/{made.pk}/change/"
    assert (shown["can_open"], shown["again_url"]) == (False, "")


def test_the_page_of_a_delete_plan_leads_to_the_delete_page(manager: Client) -> None:
    product = free_product()
    delete_plan(manager, product)
    plan = Plan.objects.get()
    shown = manager.get(url(plan)).context["plan"]
    assert shown["open_url"].startswith(f"/admin/store/product/{product.pk}/delete/?")
    assert shown["record_label"] == "Unsold lamp"
    again = manager.post(url(plan, "again/"))
    assert again["Location"].startswith(f"/admin/store/product/{product.pk}/delete/?")
    manager.post(f"/admin/store/product/{product.pk}/delete/", {"post": "yes"})
    assert manager.get(url(Plan.objects.latest("created_at"))).status_code == 200
    assert not Product.objects.filter(pk=product.pk).exists()


def test_deleting_a_conversation_rejects_its_open_plans_and_keeps_the_saved(manager: Client) -> None:
    open_plan, _ = form_plan(manager)
    saved, _ = form_plan(manager)
    Plan.objects.filter(pk=saved.pk).update(state=PlanState.EXECUTED)
    for conversation in Conversation.objects.all():
        manager.post(f"/admin/django_copilot/conversation/{conversation.pk}/delete/")
    assert not Conversation.objects.exists()
    states = dict(Plan.objects.values_list("pk", "state"))
    assert states == {open_plan.pk: PlanState.REJECTED, saved.pk: PlanState.EXECUTED}


@pytest.mark.parametrize(
    ("changes", "claimed"),
    [
        ({}, True),
        ({"submit_by": timezone.now() - datetime.timedelta(seconds=1)}, False),
        ({"expires_at": timezone.now() - datetime.timedelta(hours=20)}, True),
        ({"state": PlanState.REJECTED}, False),
        ({"state": PlanState.EXECUTED}, False),
    ],
    ids=["open", "too late", "opened in time", "rejected", "saved"],
)
def test_a_claim_succeeds_once_and_only_for_an_open_plan(
    manager: Client, changes: dict[str, Any], claimed: bool
) -> None:
    """Hazard 41."""
    plan, _ = form_plan(manager)
    Plan.objects.update(**changes)
    assert plans.claim(plan) is claimed
    assert plans.claim(plan) is False


def test_the_clock_of_the_database_decides(manager: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = form_plan(manager)
    monkeypatch.setattr(timezone, "now", lambda: datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC))
    Plan.objects.update(submit_by=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    assert plans.claim(plan) is False


def test_own_plans_match_person_site_and_scope(manager: Client, store: Any) -> None:
    plan, _ = form_plan(manager)
    owner, scope = store.user("manager"), Scope(site="admin")
    assert plans.find_plan(owner, scope, str(plan.pk)) == plan
    assert plans.find_plan(store.user("admin"), scope, str(plan.pk)) is None
    assert plans.find_plan(owner, Scope(site="other"), str(plan.pk)) is None
    assert plans.find_plan(owner, Scope(site="admin", keys={"tenant": "a"}), str(plan.pk)) is None
    for junk in (None, 1, b"x", [], {}, True, json.dumps(str(plan.pk))):
        assert plans.find_plan(owner, scope, junk) is None


def test_the_page_of_a_plan_whose_record_was_changed_offers_to_start_again_only(manager: Client) -> None:
    """Guards hazard 113."""
    plan, customer = form_plan(manager)
    page = manager.get(url(plan))
    assert (page.context["plan"]["stale"], page.context["plan"]["can_open"]) == (False, True)
    Customer.objects.filter(pk=customer.pk).update(city="Sopot")
    page = manager.get(url(plan))
    assert (page.context["plan"]["stale"], page.context["plan"]["can_open"]) == (True, False)
    assert page.context["plan"]["again_url"]
    as_json = manager.get(url(plan), headers={"Accept": "application/json"}).json()
    assert as_json["state"] == "stale"


def test_a_refusal_is_a_page_that_says_why_and_is_stored_nowhere(manager: Client) -> None:
    missing = manager.get("/admin/django_copilot/plan/00000000-0000-4000-8000-000000000000/")
    assert missing.status_code == 404
    assert "There is no such conversation or proposal." in missing.content.decode()
    outsider = Client()
    outsider.force_login(get_user_model().objects.create_user("outsider", is_staff=True))
    forbidden = outsider.get("/admin/django_copilot/conversation/", headers={"Accept-Language": "en"})
    assert forbidden.status_code == 403
    assert "may not use the assistant" in forbidden.content.decode()
    for answer in (missing, forbidden):
        assert "no-store" in answer["Cache-Control"]
