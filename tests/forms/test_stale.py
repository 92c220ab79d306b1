"""A record that others change between the proposal and the save."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_copilot.models import Plan, PlanState
from tests.formapp.admin import ParcelAdmin
from tests.formapp.models import Item, Link, LongMemo, Memo, Parcel

from .conftest import Things, client_of, person
from .pages import Page, fill, plan_of, propose, visit
from .test_fields import assert_saved
from .test_saving import change_url


def by_update(things: Things) -> None:
    Parcel.objects.filter(pk=things.parcel.pk).update(note="Theirs")


def by_related_records(things: Things) -> None:
    things.fresh().labels.set(things.labels[2:])


def by_a_row_added(things: Things) -> None:
    Item.objects.create(parcel=things.parcel, name="Spoon")


def by_a_row_changed(things: Things) -> None:
    Item.objects.filter(name="Fork").update(count=99)


def by_a_row_removed(things: Things) -> None:
    Item.objects.filter(name="Fork").delete()


def by_a_row_of_the_first_of_two_inlines(things: Things) -> None:
    Link.objects.filter(source=things.parcel).update(name="changed")


def by_a_row_of_the_second_of_two_inlines(things: Things) -> None:
    Link.objects.filter(target=things.parcel).update(name="changed")


CHANGES: list[tuple[Callable[[Things], None], str]] = [
    (by_update, "Note: Theirs"),
    (by_related_records, "Labels: Label L2, Label L3"),
    (by_a_row_added, "Packed items: changed"),
    (by_a_row_changed, "Packed items: changed"),
    (by_a_row_removed, "Packed items: changed"),
    (by_a_row_of_the_first_of_two_inlines, "Links: changed"),
    (by_a_row_of_the_second_of_two_inlines, "Links: changed"),
]


@pytest.fixture
def opened(client: Client, things: Things) -> Page:
    """Return the parcel's form filled in from a plan, with rows of all kinds."""
    other = Parcel.objects.create(title="Other")
    Item.objects.create(parcel=things.parcel, name="Fork")
    Link.objects.create(source=things.parcel, target=other)
    Link.objects.create(source=other, target=things.parcel)
    return fill(client, "open_parcel_form", {"title": "Mine"}, id=str(things.parcel.pk))


@pytest.mark.parametrize(("change", "told"), CHANGES, ids=[each.__name__ for each, _ in CHANGES])
def test_a_record_that_changed_since_is_not_saved_over(
    opened: Page, things: Things, change: Callable[[Things], None], told: str
) -> None:
    """Hazard 47: whatever changed it, also what leaves no trace."""
    change(things)
    refused = opened.save()
    assert refused.response.status_code == 200
    message = str(refused.errors["__all__"])
    assert told in message
    assert "Nothing was saved" in message
    assert things.fresh().title == "Old title"
    assert plan_of(opened).state == PlanState.PROPOSED
    assert refused.value("title") == "Mine"  # nothing is lost
    assert refused.plan == opened.plan
    # And the next try is refused as well.
    assert "Nothing was saved" in str(refused.save().errors["__all__"])


def test_the_message_says_who_changed_what_and_when_and_where_to_start_again(
    opened: Page, things: Things
) -> None:
    colleague = client_of(User.objects.create_superuser("colleague"))
    theirs = Page(colleague, opened.url, colleague.get(opened.url))
    assert_saved(theirs.save(note="From a <colleague>"))
    message = str(opened.save().errors["__all__"])
    assert "colleague changed this record on" in message
    assert "Note: From a &lt;colleague&gt;" in message
    assert f'href="/forms/django_copilot/plan/{opened.plan}/"' in message


def test_a_change_outside_the_admin_is_put_to_the_one_whom_the_history_names(
    opened: Page, things: Things
) -> None:
    parcel = things.fresh()
    parcel._history_user = User.objects.create_user("script")
    parcel.note = "By a script"
    parcel.save()
    assert "script changed this record on" in str(opened.save().errors["__all__"])


def test_the_same_form_without_changes_of_others_is_saved(opened: Page, things: Things) -> None:
    assert_saved(opened.save(**{"items-0-count": "5"}))
    assert things.fresh().title == "Mine"


def test_a_form_of_a_changed_record_says_so_when_it_is_opened(client: Client, things: Things) -> None:
    action = propose(client, "open_parcel_form", {"title": "Mine"}, id=str(things.parcel.pk))
    assert visit(client, action).draft["notices"] == []
    by_update(things)
    assert any("changed after the proposal" in text for text in visit(client, action).draft["notices"])


@pytest.mark.parametrize("how", ["withdrawn", "too old", "no rights"])
def test_a_plan_that_does_not_hold_any_more_still_protects_a_changed_record(
    opened: Page, things: Things, how: str
) -> None:
    """Hazard 47: the refusal for one reason must not take the other protection away."""
    if how == "withdrawn":
        Plan.objects.update(state=PlanState.REJECTED)
    elif how == "too old":
        Plan.objects.update(submit_by=timezone.now() - datetime.timedelta(days=1))
    else:
        user = person("kate", "formapp.change_parcel")
        user.user_permissions.remove(user.user_permissions.get(codename="use_copilot"))
        Plan.objects.update(user=user, base={**Plan.objects.get().base, "rows": {}})
        opened.client = client_of(User.objects.get(pk=user.pk))
    by_update(things)
    refused = opened.save()
    assert "after the proposal was made" in str(refused.errors["__all__"])
    assert "after the proposal was made" in str(refused.save().errors["__all__"])
    assert things.fresh().title == "Old title"


def test_what_is_not_on_her_form_any_more_is_not_told(
    opened: Page, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParcelAdmin, "fields", [name for name in ParcelAdmin.fields if name != "note"])
    Parcel.objects.filter(pk=things.parcel.pk).update(note="Secret by now")
    message = str(opened.save(note=None).errors["__all__"])
    assert "Secret by now" not in message
    assert "Nothing was saved" in message


def test_start_again_proposes_the_same_values_on_what_is_stored_now(opened: Page, things: Things) -> None:
    by_update(things)
    opened.save()
    page = opened.client.get(f"/forms/django_copilot/plan/{opened.plan}/")
    assert b"again/" in page.content
    answer = opened.client.post(f"/forms/django_copilot/plan/{opened.plan}/again/")
    assert answer.status_code == 302
    again = Page(opened.client, opened.url, opened.client.get(answer["Location"]))
    assert again.plan != opened.plan
    assert (again.value("title"), again.value("note")) == ("Mine", "Theirs")
    assert again.draft["notices"] == []
    assert_saved(again.save())
    assert (things.fresh().title, things.fresh().note) == ("Mine", "Theirs")
    assert plan_of(opened).state == PlanState.REJECTED
    # The first form is of no use now.
    assert opened.save().errors


def test_the_first_form_can_be_saved_without_its_plan_when_nothing_changed(
    opened: Page, things: Things
) -> None:
    opened.client.post(f"/forms/django_copilot/plan/{opened.plan}/again/")
    refused = opened.save()
    assert "withdrawn" in str(refused.errors["__all__"])
    assert_saved(refused.save())
    assert things.fresh().title == "Mine"


def test_rows_that_cannot_be_compared_are_named(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_copilot.snapshots.MAX_INLINE_ROWS", 1)
    Item.objects.create(parcel=things.parcel, name="Fork")
    Item.objects.create(parcel=things.parcel, name="Knife")
    page = fill(client, "open_parcel_form", {"title": "Mine"}, id=str(things.parcel.pk))
    assert page.draft["notices"] == ["Changes that others make here meanwhile are not noticed: packed items."]
    by_a_row_changed(things)
    assert_saved(page.save())


def test_a_child_of_another_table_is_compared_with_its_parents_fields(client: Client) -> None:
    memo = LongMemo.objects.create(title="Old", body="b")
    page = fill(client, "open_longmemo_form", {"body": "mine"}, id=str(memo.pk))
    Memo.objects.update(title="Theirs")
    assert "Title: Theirs" in str(page.save().errors["__all__"])
    assert change_url(memo) == page.url
