"""What stays hidden: behind password inputs, in the order of rows, and once rights are gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import models

from django_copilot.testing import Call, Text, copilot_client, sent_text

from .depot import models as depot
from .sites import Project, declared, say, shown

# -- passwords -------------------------------------------------------------------------------------


class PinForm(forms.ModelForm):
    """Takes the pin as a password."""

    class Meta:
        widgets = {"pin": forms.PasswordInput}


class Secret(forms.CharField):
    """A field of a library, with a password input."""

    widget = forms.PasswordInput


def of_dbfield(self: Any, db_field: Any, request: Any, **kwargs: Any) -> Any:
    if db_field.name == "pin":
        kwargs["widget"] = forms.PasswordInput()
    return admin.ModelAdmin.formfield_for_dbfield(self, db_field, request, **kwargs)


def of_form(self: Any, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
    return admin.ModelAdmin.get_form(
        self, request, obj, change, **{**kwargs, "widgets": {"pin": forms.PasswordInput}}
    )


MASKS: dict[str, dict[str, Any]] = {
    "form": {"form": PinForm},
    "formfield_for_dbfield": {"formfield_for_dbfield": of_dbfield},
    "overridden widget": {"formfield_overrides": {models.CharField: {"widget": forms.PasswordInput}}},
    "overridden widget, made": {"formfield_overrides": {models.CharField: {"widget": forms.PasswordInput()}}},
    "overridden class": {"formfield_overrides": {models.CharField: {"form_class": Secret, "widget": None}}},
    "get_form": {"get_form": of_form},
}


@pytest.mark.parametrize("mask", MASKS)
def test_what_the_form_hides_in_a_password_input_is_not_read(project: Project, mask: str) -> None:
    """Guards hazard 131."""
    attributes = {"list_display": ["title"], **MASKS[mask]}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    depot.Vault.objects.create(title="a", pin="SECRETPIN")
    chat = say(project.boss(), Call("query_vault"))
    assert [set(row) for row in chat.rows] == [{"id", "title"}]
    assert "SECRETPIN" not in json.dumps(chat.answer)
    assert say(project.boss("other"), Call("query_vault", {"filters": {"pin": "SECRETPIN"}})).error


@pytest.mark.parametrize(
    "where",
    [{"list_display": ["title", "pin"]}, {"readonly_fields": ["pin"]}],
    ids=lambda where: next(iter(where)),
)
def test_what_the_admin_shows_besides_the_password_input_is_read(
    project: Project, where: dict[str, Any]
) -> None:
    project.site({depot.Vault: declared(read=["title", "pin"], form=PinForm, **where)})
    depot.Vault.objects.create(title="a", pin="1234")
    assert [row["pin"] for row in say(project.boss(), Call("query_vault")).rows] == ["1234"]


def test_a_field_that_is_read_only_in_general_is_hidden_where_it_may_be_typed(project: Project) -> None:
    """Guards hazard 131."""

    def readonly(self: Any, request: Any, obj: Any = None) -> list[str]:
        return [] if obj is not None and obj.title == "open" else ["pin"]

    attributes = {"form": PinForm, "list_display": ["title"], "get_readonly_fields": readonly}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for title in ("open", "closed"):
        depot.Vault.objects.create(title=title, pin="1234")
    rows = {row["title"]: row for row in say(project.boss(), Call("query_vault")).rows}
    assert "pin" not in rows["open"]
    assert rows["closed"]["pin"] == "1234"


# -- order and scans -------------------------------------------------------------------------------


def hidden_pins(self: Any, request: Any, obj: Any = None) -> list[str]:
    return ["title"] if obj is not None and obj.title == "hidden" else ["title", "pin"]


@pytest.mark.parametrize("listed", [False, True], ids=["harness_list", "fieldsets"])
def test_rows_are_not_ordered_by_what_is_hidden_on_one_of_them(project: Project, listed: bool) -> None:
    """Guards hazard 132: the place among the others would tell the value."""

    def fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        return [(None, {"fields": hidden_pins(self, request, obj)})]

    own = {"get_fieldsets": fieldsets} if listed else {"get_harness_list": hidden_pins}
    attributes = {"ordering": ["pin"], "list_display": ["title"], **own}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for title, pin in (("hidden", "500"), ("a", "100"), ("b", "400"), ("c", "501")):
        depot.Vault.objects.create(title=title, pin=pin)
    rows = say(project.boss(), Call("query_vault")).rows
    assert [row["title"] for row in rows] == ["hidden", "a", "b", "c"]
    assert "pin" not in rows[0]


def test_what_the_list_shows_of_every_record_orders_the_rows(project: Project) -> None:
    def fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        return [(None, {"fields": ["title", "pin"]})]

    attributes = {"ordering": ["-pin"], "list_display": ["title", "pin"], "get_fieldsets": fieldsets}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for pin in ("2", "3", "1"):
        depot.Vault.objects.create(title="x", pin=pin)
    assert [row["pin"] for row in say(project.boss(), Call("query_vault")).rows] == ["3", "2", "1"]


def test_a_scan_that_gave_up_is_told_like_one_that_ended(project: Project) -> None:
    """Guards hazard 132."""
    project.settings.COPILOT = {**project.settings.COPILOT, "SCAN_ROWS": 10}
    project.site(
        {
            depot.Vault: declared(
                read=["title"],
                has_view_permission=lambda self, request, obj=None: obj is None or obj.pin != "no",
                has_change_permission=lambda self, request, obj=None: False,
            )
        }
    )
    boss = project.boss()
    depot.Vault.objects.bulk_create(depot.Vault(title="x", pin="no") for _ in range(12))
    told = [say(boss, Call("query_vault", {"filters": {"title": title}})).told for title in ("x", "y")]
    assert told[0] == told[1]
    assert told[0][0]["rows"] == []
    assert "at most 10" in told[0][0]["note"]


# -- revoked values --------------------------------------------------------------------------------


def test_an_answer_is_withheld_once_a_record_that_it_labelled_may_not_be_seen(project: Project) -> None:
    """Guards hazard 133."""
    project.site({depot.Deed: declared(read=["title", "vault"]), depot.Vault: declared(read=["title"])})
    vault = depot.Vault.objects.create(title="SECRETVAULT", pin="1")
    depot.Deed.objects.create(title="x", vault=vault)
    person = project.person("depot.view_deed", "depot.view_vault")
    client = copilot_client(person)
    conversation = say(client, Call("query_deed"), Text("In SECRETVAULT.")).answer["conversationId"]
    assert [each["withheld"] for each in shown(client, conversation)] == [False, False]
    person.user_permissions.remove(Permission.objects.get(codename="view_vault"))
    assert [each["withheld"] for each in shown(client, conversation)] == [False, True]
    chat = say(client, Text("ok"), conversationId=conversation)
    assert "SECRETVAULT" not in sent_text(chat.model.requests[0])


KEY_TOLD: dict[str, tuple[Any, dict[str, Any]]] = {
    "query": ((Call("query_person", {"fields": ["name"]}), Text("It is x@y.z.")), {}),
    "related": ((Call("query_letter", {"fields": ["person"]}), Text("To x@y.z.")), {}),
    "copies": ((Call("query_letter", {"fields": ["copies"]}), Text("To x@y.z.")), {}),
    "badge": ((Call("query_badge", {"fields": ["email"]}), Text("Of x@y.z.")), {}),
    "form": ((Call("open_person_form", {"id": "x@y.z", "fields": {"name": "M"}}),), {"ends": True}),
    "delete": ((Call("confirm_delete_person", {"id": "x@y.z"}),), {"ends": True}),
    "page": ((Text("You are at x@y.z."),), {"page": "/admin/depot/person/x@y.z/change/"}),
}


@pytest.mark.parametrize("way", KEY_TOLD)
def test_an_answer_is_withheld_once_the_key_that_it_named_may_not_be_read(project: Project, way: str) -> None:
    """Guards hazard 133."""
    hide: list[bool] = []

    def own_list(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["name"] if hide else ["email", "name"]

    project.site(
        {
            depot.Person: declared(fill=["name"], get_harness_list=own_list),
            depot.Letter: declared(read=["subject", "person", "copies"]),
            depot.Badge: declared(read=["person", "email"]),
        }
    )
    joe = depot.Person.objects.create(email="x@y.z", name="N")
    depot.Badge.objects.create(person=joe, email="e")
    depot.Letter.objects.create(subject="s", person=joe).copies.add(joe)
    boss = project.boss()
    steps, extra = KEY_TOLD[way]
    chat = say(boss, *steps, **extra)
    assert "x@y.z" in chat.answer["reply"]
    conversation = chat.answer["conversationId"]
    assert shown(boss, conversation)[1]["withheld"] is False
    hide.append(True)
    assert shown(boss, conversation)[1]["withheld"] is True
    assert "x@y.z" not in sent_text(say(boss, Text("ok"), conversationId=conversation).model.requests[0])
