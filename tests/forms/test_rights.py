"""Rights are asked for when a form is opened and again when it is saved, whatever was proposed before."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_copilot.models import Plan, PlanState
from tests.formapp.models import Parcel

from .conftest import Things, client_of, person
from .pages import fill, propose, visit
from .test_fields import assert_saved

RIGHTS = ("formapp.view_parcel", "formapp.add_parcel", "formapp.change_parcel")


def revoke(user: User, codename: str) -> None:
    found = user.user_permissions.get(codename=codename)
    user.user_permissions.remove(found)


@pytest.mark.parametrize(("lost", "change"), [("change_parcel", True), ("add_parcel", False)])
def test_rights_lost_after_opening_stop_the_save(things: Things, lost: str, change: bool) -> None:
    user = person("kate", *RIGHTS)
    args = {"id": str(things.parcel.pk)} if change else {}
    page = fill(client_of(user), "open_parcel_form", {"title": "T"}, **args)
    revoke(user, lost)
    response = page.client.post(page.url, {**page.data, "_save": "1"})
    assert response.status_code == 403
    assert not Parcel.objects.filter(title="T").exists()
    assert Plan.objects.get().state == PlanState.PROPOSED


@pytest.mark.parametrize(("lost", "change"), [("change_parcel", True), ("add_parcel", False)])
def test_rights_lost_before_opening_fill_in_nothing(things: Things, lost: str, change: bool) -> None:
    user = person("kate", *RIGHTS)
    args = {"id": str(things.parcel.pk)} if change else {}
    action = propose(client_of(user), "open_parcel_form", {"title": "T-proposed"}, **args)
    revoke(user, lost)
    response = client_of(user).get(action["path"], action["queryParams"])
    assert response.status_code == (200 if change else 403)  # the admin's own read-only page
    assert b"T-proposed" not in response.content
    assert b"_copilot_plan" not in response.content


def test_without_use_copilot_a_plan_fills_in_nothing(things: Things) -> None:
    user = person("kate", *RIGHTS)
    action = propose(client_of(user), "open_parcel_form", {"title": "T-proposed"}, id=str(things.parcel.pk))
    revoke(user, "use_copilot")
    page = visit(client_of(user), action)
    assert page.value("title") == "Old title"
    assert page.plan is None


def test_use_copilot_lost_after_opening_refuses_the_plan_and_leaves_the_form_to_her(things: Things) -> None:
    user = person("kate", *RIGHTS)
    page = fill(client_of(user), "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    revoke(user, "use_copilot")
    refused = page.save()
    assert "Nothing was saved" in str(refused.errors["__all__"])
    assert things.fresh().title == "Old title"
    assert refused.plan is None
    assert_saved(refused.save())
    assert Plan.objects.get().state == PlanState.PROPOSED


@pytest.mark.parametrize("change", [False, True])
def test_who_may_only_view_is_filled_in_nothing(things: Things, change: bool) -> None:
    user = person("vera", "formapp.view_parcel")
    Plan.objects.all().delete()
    boss = User.objects.create_superuser("boss2")
    args = {"id": str(things.parcel.pk)} if change else {}
    action = propose(client_of(boss), "open_parcel_form", {"title": "T-proposed"}, **args)
    Plan.objects.update(user=user)
    response = client_of(user).get(action["path"], action["queryParams"])
    assert response.status_code == (200 if change else 403)
    assert b"T-proposed" not in response.content


def test_a_record_deleted_meanwhile_is_the_admins_own_answer(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    Parcel.objects.all().delete()
    response = client.post(page.url, {**page.data, "_save": "1"})
    assert response.status_code == 302
    assert response["Location"] == "/forms/"
    assert not Parcel.objects.exists()
    assert Plan.objects.get().state == PlanState.PROPOSED
