"""Hand-made links: filtered like everything else, never for privileges, and said to be links."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.formapp.admin import PeopleAdmin
from tests.formapp.models import Parcel

from .conftest import Things, client_of, person
from .pages import Page, fill
from .test_fields import assert_saved, last_log

ADD = "/forms/formapp/parcel/add/"


def link(client: Client, values: Any, url: str = ADD, **more: str) -> Page:
    """Open a link with these values."""
    raw = values if isinstance(values, str) else json.dumps(values)
    return Page(client, url, client.get(url, {"aiPrefill": raw, **more}))


def test_a_link_fills_in_declared_fields_and_says_that_it_is_a_link(client: Client, things: Things) -> None:
    page = link(client, {"title": "From a link", "weight": "2.50", "stop": str(things.places[0].pk)})
    assert (page.value("title"), page.value("weight")) == ("From a link", "2.50")
    assert page.draft["source"] == "link"
    assert "not the assistant" in page.draft["title"]
    assert page.draft["texts"]["proposed"] == "From a link"
    assert set(page.marked) == {"title", "weight", "stop"}
    assert page.plan is None
    assert "no-store" in page.response["Cache-Control"]
    assert_saved(page.save())
    assert Parcel.objects.latest("pk").title == "From a link"
    assert "plan" not in last_log().change_message


def test_a_link_never_fills_in_privileges(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hazard 46: a plan may, where a project declares such a field, but nobody's link."""
    fields = ["username", "is_superuser", "is_staff"]
    monkeypatch.setattr(
        PeopleAdmin, "add_fieldsets", [(None, {"fields": [*fields, "password1", "password2"]})]
    )
    given = {"username": "nell", "is_superuser": True, "is_staff": True}
    proposed = fill(client, "open_user_form", given)
    assert list(proposed.marked) == fields
    page = link(client, {**given, "groups": ["1"]}, "/forms/auth/user/add/")
    assert page.value("username") == "nell"
    assert list(page.marked) == ["username"]
    assert (page.value("is_superuser"), page.value("is_staff")) == ([], [])


def test_a_link_to_a_change_form_fills_in_nothing(client: Client, things: Things) -> None:
    """Hazard 46: a link of a stranger must not fill in what exists already."""
    url = f"/forms/formapp/parcel/{things.parcel.pk}/change/"
    page = link(client, {"title": "Forged"}, url, aiAction="edit", aiId=str(things.parcel.pk))
    assert page.value("title") == "Old title"
    assert page.draft == {}


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "{",
        "[]",
        '"text"',
        "null",
        "1",
        "[" * 9_000,
        '{"title":' + "[" * 400 + "]" * 400 + "}",
        '{"extra":' + '{"a":' * 900 + "1" + "}" * 900 + "}",
        '{"title": "' + "x" * 30_000 + '"}',
        '{"title": "\\ud800"}',
        '{"title": "a\\u0000b"}',
        '{"weight": NaN}',
        '{"pieces": ' + "9" * 5_000 + "}",
    ],
    ids=lambda junk: junk[:12],
)
def test_junk_in_a_link_is_an_empty_form(client: Client, junk: str) -> None:
    page = link(client, junk)
    assert page.response.status_code == 200
    assert page.value("title") == ""
    assert page.marked == {}


@pytest.mark.parametrize(
    "values",
    [
        {"weight": "much"},
        {"kind": "crate"},
        {"shelf": "999999"},
        {"stop": "abc"},
        {"at": "2026-13-45"},
        {"at_0": "2026-01-01", "at_1": "10:00"},
        {"extra__a": 1, "pk": 5, "id": 5},
    ],
    ids=lambda values: next(iter(values)),
)
def test_a_value_that_a_field_would_not_take_is_left_out_and_the_rest_filled_in(
    client: Client, things: Things, values: dict[str, Any]
) -> None:
    page = link(client, {**values, "title": "T"})
    assert list(page.marked) == ["title"]
    assert page.value("title") == "T"


def test_a_link_names_no_field_that_was_not_declared(client: Client) -> None:
    page = link(client, {"title": "T", "history": 1, "hidden": "x"})
    assert page.draft["notices"] == ["Not filled in: Hidden.", "Still to be filled in by you: Slug."]
    page = link(client, {"username": "nell", "last_name": "x", "date_joined": "x"}, "/forms/auth/user/add/")
    assert page.draft["notices"] == []


def test_values_too_deep_to_work_on_are_an_empty_form(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_deep(*args: Any, **kwargs: Any) -> None:
        raise RecursionError

    monkeypatch.setattr("django_copilot.draft.fill_from_store", too_deep)
    page = link(client, {"title": "T"})
    assert (page.response.status_code, page.value("title")) == (200, "")


def test_a_link_fills_in_nothing_for_who_may_not_use_the_assistant(things: Things) -> None:
    user = person("kate", "formapp.view_parcel", "formapp.add_parcel")
    user.user_permissions.remove(user.user_permissions.get(codename="use_copilot"))
    page = link(client_of(User.objects.get(pk=user.pk)), {"title": "T"})
    assert page.response.status_code == 200
    assert page.value("title") == ""


def test_a_link_shows_no_record_that_the_person_may_not_see(things: Things) -> None:
    """Hazard 35: a raw id would be labelled with the name of any row."""
    user = person("kate", "formapp.view_parcel", "formapp.add_parcel")
    page = link(client_of(user), {"depot": str(things.places[1].pk), "title": "T"})
    assert list(page.marked) == ["title"]
    assert "Place Nr 1" not in page.html.split('name="depot"')[1][:400]


@pytest.mark.parametrize("name", ["aiPreview", "aiAction", "aiId", "aiPlan", "aiPrefill"])
def test_our_parameters_never_reach_the_admin(client: Client, name: str) -> None:
    """Hazard 40."""
    evil = '<b onclick="x">{"title": "Evil"}</b>'
    page = Page(client, ADD, client.get(ADD, {name: evil, "title": "By the admin itself"}))
    assert page.value("title") == "By the admin itself"
    assert "Evil" not in page.html
    assert name not in page.response.wsgi_request.GET
    assert page.response.wsgi_request.get_full_path() == ADD + "?title=By+the+admin+itself"


def test_a_preview_in_the_address_is_ignored(client: Client, things: Things) -> None:
    url = f"/forms/formapp/parcel/{things.parcel.pk}/delete/"
    page = client.get(
        url, {"aiAction": "delete", "aiPreview": json.dumps([{"label": "x", "value": "Forged"}])}
    )
    assert b"Forged" not in page.content
    assert b"Old title" in page.content
