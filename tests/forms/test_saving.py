"""Saving a filled-in form: once, with the plan named, and only by whom it was made for."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from django_copilot.models import Plan, PlanState
from tests.formapp.admin import ParcelAdmin
from tests.formapp.models import Item, Link, Memo, Parcel

from .conftest import Things
from .pages import Page, fill, plan_of, propose, visit
from .test_fields import assert_saved, last_log

ADD = "/forms/formapp/parcel/add/"


def change_url(obj: Any) -> str:
    """Return the address of a record's change form."""
    return reverse(f"admin:formapp_{obj._meta.model_name}_change", args=[obj.pk], current_app="forms")


def texts(response: Any) -> list[str]:
    """Return the messages that the next page will show."""
    return [str(each) for each in response.wsgi_request._messages]


# -- what is left behind ------------------------------------------------------------------------------


def test_the_log_and_the_history_name_the_plan_and_every_changed_field(
    client: Client, boss: User, things: Things
) -> None:
    page = fill(
        client,
        "open_parcel_form",
        {"title": "T", "extra": {"n": 1}, "fragile": False},
        id=str(things.parcel.pk),
    )
    plan = page.plan
    assert_saved(page.save(pieces="9"))
    (named,) = json.loads(last_log().change_message)
    assert named["changed"]["fields"] == ["Title", "Pieces", "Fragile", "Extra"]
    with translation.override("en"):
        shown = last_log().get_change_message()
    assert shown == f"Changed Title, Pieces, Fragile and Extra for copilot plan “{plan}”."
    latest = things.fresh().history.latest()
    assert latest.history_user == boss
    assert latest.history_change_reason == f"copilot plan {plan}"


def test_the_log_and_the_history_of_a_new_record_name_the_plan(client: Client, boss: User) -> None:
    page = fill(client, "open_parcel_form", {"title": "T"})
    plan = page.plan
    assert_saved(page.save())
    made = Parcel.objects.get()
    with translation.override("en"):
        shown = last_log().get_change_message()
    assert shown == f"Added parcel for copilot plan “{plan}”. Changed Title."
    assert made.history.get().history_change_reason == f"copilot plan {plan}"
    assert made.history.get().history_user == boss
    stored = Plan.objects.get(pk=plan)
    assert (stored.state, stored.result_pk) == (PlanState.EXECUTED, str(made.pk))
    assert stored.decided_at is not None


def test_an_ordinary_save_names_no_plan(client: Client, things: Things) -> None:
    page = Page(client, change_url(things.parcel), client.get(change_url(things.parcel)))
    assert page.draft == {}
    assert_saved(page.save(title="By hand"))
    assert "copilot" not in last_log().change_message
    assert things.fresh().history.latest().history_change_reason is None


def test_what_the_person_types_wins_over_the_proposal(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "Proposed", "grade": 2}, id=str(things.parcel.pk))
    assert_saved(page.save(title="Mine"))
    assert (things.fresh().title, things.fresh().grade) == ("Mine", 2)


def test_inline_rows_are_saved_along(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    assert_saved(page.save(**{"items-0-name": "Spoon", "items-0-count": "2"}))
    assert Item.objects.get().name == "Spoon"
    assert things.fresh().title == "T"


def test_opening_a_form_changes_nothing_and_shows_stored_values_in_its_titles(
    client: Client, things: Things
) -> None:
    """Hazard 38: the record itself is never touched; hooks and titles see what is stored."""
    ParcelAdmin.seen.clear()
    page = fill(client, "open_parcel_form", {"title": "Proposed title"}, id=str(things.parcel.pk))
    assert page.response.context["original"].title == "Old title"
    assert page.response.context["subtitle"] == "Parcel Old title"
    assert "Proposed title" not in page.html.split("<form", 1)[0]
    assert ParcelAdmin.seen
    assert {title for _hook, title in ParcelAdmin.seen} == {"Old title"}
    assert things.fresh().title == "Old title"
    assert plan_of(page).state == PlanState.PROPOSED


# -- errors ------------------------------------------------------------------------------------------


def test_an_error_keeps_everything_and_marks_only_what_is_still_as_proposed(
    client: Client, things: Things
) -> None:
    """Hazard 39."""
    page = fill(
        client,
        "open_parcel_form",
        {"title": "Proposed", "extra": {"a": 1}, "labels": [str(things.labels[3].pk)], "weight": "3.20"},
        id=str(things.parcel.pk),
    )
    again = page.save(title="", note="typed", extra='{"a": 2}')
    assert again.response.status_code == 200
    assert list(again.errors) == ["title"]
    assert set(again.marked) == {"labels", "weight"}
    assert again.plan == page.plan
    assert (again.value("note"), again.value("extra")) == ("typed", '{"a": 2}')
    assert plan_of(again).state == PlanState.PROPOSED
    assert_saved(again.save(title="Now"))
    parcel = things.fresh()
    assert (parcel.title, parcel.note, parcel.extra) == ("Now", "typed", {"a": 2})
    assert plan_of(page).state == PlanState.EXECUTED


def test_an_error_of_the_projects_own_clean_saves_nothing_and_keeps_the_plan(
    client: Client, things: Things
) -> None:
    page = fill(client, "open_parcel_form", {"title": "Same", "note": "Same"}, id=str(things.parcel.pk))
    again = page.save()
    assert "__all__" in again.errors
    assert set(again.marked) == {"title", "note"}
    assert things.fresh().title == "Old title"
    assert_saved(again.save(note="Other"))


def test_an_error_in_an_inline_row_saves_nothing_and_keeps_the_plan(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    again = page.save(**{"items-0-name": "x" * 41})
    assert again.response.status_code == 200
    assert again.plan == page.plan
    assert things.fresh().title == "Old title"
    assert plan_of(page).state == PlanState.PROPOSED
    assert_saved(again.save(**{"items-0-name": "x"}))


# -- the next form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("button", ["_continue", "_addanother"])
@pytest.mark.parametrize("in_address", [True, False])
def test_the_next_form_is_not_filled_in_again(
    client: Client, things: Things, button: str, in_address: bool
) -> None:
    """Hazard 40: the admin carries every parameter of the address on to the next form."""
    action = propose(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    page = visit(client, action, _changelist_filters="kind__exact=box")
    if in_address:  # as a browser without JavaScript sends it
        page.url += "?aiAction=edit&aiPlan=" + action["queryParams"]["aiPlan"]
        page.url += "&_changelist_filters=kind__exact%3Dbox"
    saved = page.save(button)
    assert_saved(saved)
    target = saved.response["Location"]
    assert "ai" not in target.split("?")[-1].replace("/", "")
    assert ("_changelist_filters=kind__exact%3Dbox" in target) is in_address
    following = Page(client, target, client.get(target))
    assert following.draft == {}
    assert following.plan is None
    assert following.value("title") == ("" if button == "_addanother" else "T")


def test_save_as_new_makes_one_record_and_closes_the_plan(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "Copy"}, id=str(things.parcel.pk))
    bad = page.save("_saveasnew", weight="much")
    assert bad.plan == page.plan
    saved = bad.save("_saveasnew", weight="1")
    assert_saved(saved)
    bad.save("_saveasnew", weight="1")
    assert things.fresh().title == "Old title"
    copy = Parcel.objects.exclude(pk=things.parcel.pk).get()
    assert copy.title == "Copy"
    assert plan_of(page).result_pk == str(copy.pk)


# -- once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [False, True])
def test_a_second_submit_saves_nothing_says_so_and_links_to_the_record(
    client: Client, things: Things, change: bool
) -> None:
    """Hazard 41."""
    args = {"id": str(things.parcel.pk)} if change else {}
    page = fill(client, "open_parcel_form", {"title": "Once"}, **args)
    assert_saved(page.save())
    count, logs = Parcel.objects.count(), LogEntry.objects.count()
    second = page.save(title="Twice")
    record = Parcel.objects.get(title="Once")
    assert second.response.status_code == 302
    assert second.response["Location"] == change_url(record)
    assert any("saved already" in text and change_url(record) in text for text in texts(second.response))
    assert Parcel.objects.count() == count
    assert not Parcel.objects.filter(title="Twice").exists()
    assert LogEntry.objects.count() == logs


def test_a_saved_plan_is_not_opened_again(client: Client) -> None:
    action = propose(client, "open_parcel_form", {"title": "Once"})
    visit(client, action).save()
    page = visit(client, action)
    assert page.value("title") == ""
    assert page.plan is None
    assert any("saved already" in notice for notice in page.draft["notices"])


# -- whose plan it is --------------------------------------------------------------------------------

FAR = datetime.timedelta(days=2)


def other_person(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(user=User.objects.create_superuser("other"))
    return action


def other_site(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(site="admin")
    return action


def other_scope(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(scope_key="tenant")
    return action


def other_model(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(model="formapp.memo")
    return action


def other_record(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(object_pk="424242")
    return action


def other_kind(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(kind="delete")
    return action


def expired(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(expires_at=timezone.now() - FAR, submit_by=timezone.now() - FAR)
    return action


def rejected(action: dict[str, Any]) -> dict[str, Any]:
    Plan.objects.update(state=PlanState.REJECTED)
    return action


def with_id(text: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(action: dict[str, Any]) -> dict[str, Any]:
        return {**action, "queryParams": {"aiPlan": text}}

    return change


FOREIGN = [
    other_person,
    other_site,
    other_scope,
    other_model,
    other_record,
    other_kind,
    expired,
    rejected,
    with_id("nonsense"),
    with_id(str(uuid.uuid4())),
    with_id("\x00"),
    with_id("ł" * 5000),
]


@pytest.mark.parametrize(
    ("spoil", "change"), [(spoil, number % 2 == 0) for number, spoil in enumerate(FOREIGN)]
)
def test_a_plan_that_is_not_for_this_page_and_person_fills_in_nothing(
    client: Client, things: Things, spoil: Callable[[dict[str, Any]], dict[str, Any]], change: bool
) -> None:
    """Hazard 42."""
    args = {"id": str(things.parcel.pk)} if change else {}
    page = visit(client, spoil(propose(client, "open_parcel_form", {"title": "Secret"}, **args)))
    assert page.response.status_code == 200
    assert page.value("title") == ("Old title" if change else "")
    assert "Secret" not in page.html
    assert page.plan is None
    assert page.draft["notices"]


@pytest.mark.parametrize("spoil", FOREIGN)
@pytest.mark.parametrize("change", [False, True])
def test_a_submit_with_a_plan_that_does_not_hold_saves_nothing_and_loses_nothing(
    client: Client, things: Things, spoil: Callable[[dict[str, Any]], dict[str, Any]], change: bool
) -> None:
    """Hazard 42."""
    args = {"id": str(things.parcel.pk)} if change else {}
    action = propose(client, "open_parcel_form", {"title": "Proposed"}, **args)
    page = visit(client, action)
    plan = plan_of(page)
    sent = spoil(action)["queryParams"]["aiPlan"]
    states = list(Plan.objects.values_list("pk", "state"))
    refused = page.save(_copilot_plan=sent, note="typed")
    assert refused.response.status_code == 200
    assert "Nothing was saved" in str(refused.errors["__all__"])
    assert Parcel.objects.filter(title="Proposed").count() == 0
    assert list(Plan.objects.values_list("pk", "state")) == states
    assert (refused.value("title"), refused.value("note")) == ("Proposed", "typed")
    # Now she knows, and may save it as her own.
    assert refused.plan is None
    assert_saved(refused.save())
    assert Parcel.objects.get(title="Proposed").note == "typed"
    assert str(plan.pk) not in last_log().change_message
    assert list(Plan.objects.values_list("pk", "state")) == states


def test_on_post_the_plan_is_read_from_the_hidden_input_only(client: Client) -> None:
    """Hazard 43."""
    page = fill(client, "open_parcel_form", {"title": "Proposed"})
    page.url += f"?aiAction=create&aiPlan={page.plan}"
    plan = plan_of(page)
    assert_saved(page.save(_copilot_plan=None))
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    assert str(plan.pk) not in last_log().change_message


def test_a_form_opened_in_time_may_be_submitted_for_a_day(client: Client) -> None:
    page = fill(client, "open_parcel_form", {"title": "Slow"})
    Plan.objects.update(expires_at=timezone.now() - datetime.timedelta(hours=20))
    assert_saved(page.save())
    assert plan_of(page).state == PlanState.EXECUTED


def test_a_plan_cannot_be_opened_after_its_ten_minutes(client: Client) -> None:
    action = propose(client, "open_parcel_form", {"title": "Late"})
    stored = Plan.objects.get()
    assert stored.expires_at - stored.created_at == pytest.approx(
        datetime.timedelta(minutes=10), abs=datetime.timedelta(seconds=2)
    )
    Plan.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    page = visit(client, action)
    assert "Late" not in page.html
    assert any("too old" in notice for notice in page.draft["notices"])


# -- where the form is drawn ---------------------------------------------------------------------------


def test_the_plan_travels_through_the_user_admins_add_form(client: Client) -> None:
    """Hazard 44: its templates drop what others put into their blocks."""
    page = fill(client, "open_user_form", {"username": "nell"})
    assert page.value("username") == "nell"
    assert page.plan
    saved = page.save(password1="Hard to guess 7", password2="Hard to guess 7", usable_password="true")
    assert_saved(saved)
    assert plan_of(page).result_pk == str(User.objects.get(username="nell").pk)


def test_a_popup_is_never_filled_in_and_carries_no_plan(client: Client) -> None:
    action = propose(client, "open_parcel_form", {"title": "Secret"})
    page = visit(client, action, _popup="1")
    assert page.value("title") == ""
    assert page.plan is None
    assert "copilot" not in page.html


def test_the_plan_travels_even_when_a_proposed_field_is_not_drawn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = propose(client, "open_parcel_form", {"promise": "x", "title": "T"})
    monkeypatch.setattr(ParcelAdmin, "prepopulated_fields", {})
    monkeypatch.setattr(ParcelAdmin, "fields", ["title", "weight", "grade", "pieces", "kind", "ticket"])
    page = visit(client, action)
    assert page.plan == action["queryParams"]["aiPlan"]


def test_answers_are_stored_nowhere_and_pages_of_plans_are_not_framed(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    bad = page.save(title="")
    for each in (page, bad, page.save(), page.save()):
        control = each.response["Cache-Control"]
        assert "no-store" in control
        assert "private" in control


def test_values_are_not_in_the_address(client: Client, things: Things) -> None:
    """Hazard 45."""
    action = propose(
        client, "open_parcel_form", {"title": "Secret", "note": "x" * 20_000}, id=str(things.parcel.pk)
    )
    assert set(action["queryParams"]) == {"aiAction", "aiId", "aiPlan"}
    page = visit(client, action)
    assert page.value("note") == "x" * 20_000
    assert_saved(page.save("_continue"))


# -- two inlines of one model, and a child table ---------------------------------------------------------


def test_two_kinds_of_rows_of_one_model_are_saved_apart(client: Client, things: Things) -> None:
    other = Parcel.objects.create(title="Other")
    Link.objects.create(source=things.parcel, target=other, name="out")
    Link.objects.create(source=other, target=things.parcel, name="in")
    page = fill(client, "open_parcel_form", {"title": "T"}, id=str(things.parcel.pk))
    assert_saved(page.save())
    assert things.fresh().title == "T"
    assert Memo.objects.count() == 0
