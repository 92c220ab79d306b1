"""``copilot_access``: each yes and no is what the assistant goes by, and each no names its rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from django_copilot import switch
from django_copilot.access import Access
from django_copilot.admin import HarnessMixin
from django_copilot.exceptions import CallError
from django_copilot.explaining import SEE_LOG, explain
from django_copilot.scope import Scope, enter_scope
from django_copilot.tools.further import kinds_of
from django_copilot.tools.offered import may_use_tool
from django_copilot.tools.schema import specs_for, tool_names
from django_copilot.tools.write import all_tools
from example_project.store import models as store_models
from example_project.store.people import ACCOUNTS
from tests.kept_store import Store

from .depot import models as depot
from .sites import Project, declared

SCOPE = Scope(site="admin")
NAMES = sorted(each.username for each in ACCOUNTS)


@contextmanager
def access_of(user: Any, site: Any = admin.site) -> Iterator[Access]:
    with enter_scope(SCOPE, user.pk) as request:
        yield Access(site, request)


def said(*args: str) -> str:
    text = StringIO()
    call_command("copilot_access", *args, stdout=text)
    return text.getvalue()


def reasons(report: Any) -> Iterator[str]:
    """Go through every reason in a report."""
    if isinstance(report, dict):
        if "why" in report:
            yield report["why"]
        for each in report.values():
            yield from reasons(each)
    elif isinstance(report, list):
        for each in report:
            yield from reasons(each)


# -- the same answers as those that are gone by ------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_are_those_of_the_code_that_decides(store: Store, name: str) -> None:
    user = store.user(name)
    report = explain(admin.site, SCOPE, user)
    with access_of(user) as access:
        try:
            access.check_person()
            allowed = next(access.usable(), None) is not None
        except CallError:
            allowed = False
        assert report["allowed"]["may"] is allowed
        entities = list(access.all())
        assert [each["entity"] for each in report["entities"]] == [each.name for each in entities]
        for told, entity in zip(report["entities"], entities, strict=True):
            assert told["usable"]["may"] is entity.is_usable
            specs = {spec.name for spec in specs_for(entity)} if entity.is_usable else set()
            tools = {tool for tool, answer in told["tools"].items() if answer["may"]}
            assert tools == specs | more(entity)
            readable = entity.readable() if entity.can_view else ()
            fields = told["fields"]
            assert {each for each in fields if fields[each]["read"]["may"]} == set(readable)
            shown = entity.showable() if entity.can_view else ()
            assert {each for each in fields if fields[each]["show"]["may"]} == set(shown)
            adding = entity.fillable(change=False)
            assert {each for each in fields if fields[each]["add"]["may"]} == set(adding)
            changing = entity.fillable(change=True) if entity.can_view else ()
            assert {each for each in fields if fields[each]["change"]["may"]} == set(changing)
        assert {tool for tool, answer in report["tools"].items() if answer["may"]} == {
            tool.name for tool in all_tools().values() if may_use_tool(access, tool)
        }
    found = list(reasons(report))
    assert SEE_LOG not in found
    assert all(found)


def more(entity: Any) -> set[str]:
    """Return the names of tools that not every entity has."""
    return {tool_names(entity.name)[kind] for kind in kinds_of(entity)} if entity.is_usable else set()


def test_the_accounts_differ(store: Store) -> None:
    """So that the test above has met yes and no of everything."""
    reports = {name: explain(admin.site, SCOPE, store.user(name)) for name in NAMES}
    assert {each["allowed"]["may"] for each in reports.values()} == {True, False}
    for kind in ("usable", "tools", "fields"):
        texts = {json.dumps([entity[kind] for entity in each["entities"]]) for each in reports.values()}
        assert len(texts) > 2
    assert reports["bot"]["decides"] == {"may": False, "why": "a service account decides nothing"}
    assert reports["support"]["decides"] == {"may": True}


# -- the rule of each no -----------------------------------------------------------------------------------


class Form(forms.ModelForm):
    """Draws one field as a password."""

    class Meta:
        model = depot.Letter
        fields = ["subject", "person"]
        widgets = {"subject": forms.PasswordInput}


def fields_of(project: Project, model: Any, cls: Any, *, others: Any = ()) -> dict[str, Any]:
    """Return what is said to a superuser of the fields of a model that is declared so."""
    site = project.site({model: cls, **dict.fromkeys(others)})
    (entity,) = explain(site, SCOPE, User.objects.create_superuser("root"))["entities"]
    return dict(entity["fields"])


def why(answer: Any) -> str:
    assert answer["may"] is False
    return str(answer["why"])


def test_fields_that_are_declared_and_not_readable(project: Project) -> None:
    class Admin(HarnessMixin, ModelAdmin):
        harness_list = ["title", "payload", "scan", "nothing"]
        harness_persist = ["object_id", "scan", "payload", "content_type", "title"]
        fields = ["title", "object_id", "scan", "content_type"]
        readonly_fields = ["title"]

    found = fields_of(project, depot.Note, Admin)
    assert found["title"]["read"] == {"may": True}
    assert why(found["payload"]["read"]) == "never read by the assistant"
    assert why(found["nothing"]["read"]) == "never read by the assistant"
    assert why(found["object_id"]["read"]) == "not in harness_list"
    assert found["scan"]["read"] == {"may": True}
    assert found["object_id"]["add"] == {"may": True}
    assert why(found["title"]["add"]) == "not on the form, or read-only there"
    assert why(found["payload"]["change"]) == "not on the form, or read-only there"
    assert why(found["scan"]["add"]) == "a file, binary or password field"
    assert why(found["content_type"]["add"]) == "contenttypes.ContentType is not registered on this site"
    assert why(found["nothing"]["add"]) == "not in harness_persist"


def test_fields_that_no_page_shows_or_that_a_form_masks(project: Project) -> None:
    class Admin(HarnessMixin, ModelAdmin):
        harness_list = ["subject", "copies"]
        harness_persist = ["subject", "person"]
        form = Form
        list_display = ["__str__"]

        def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
            made = super().get_form(request, obj, change=change, **kwargs)
            made.base_fields["person"].disabled = True
            return made

    found = fields_of(project, depot.Letter, Admin, others=[depot.Person])
    assert why(found["subject"]["read"]) == "the admin does not show it"
    assert why(found["copies"]["read"]) == "the admin does not show it"
    assert why(found["subject"]["add"]) == "a password input"
    assert why(found["person"]["change"]) == "disabled on the form"


def test_fields_that_an_admins_own_method_leaves_out(project: Project) -> None:
    class Admin(HarnessMixin, ModelAdmin):
        harness_list = ["title"]
        harness_persist = ["title"]
        list_display = ["title"]

        def get_harness_list(self, request: Any, obj: Any = None) -> list[str]:
            return []

        def get_harness_persist(self, request: Any, obj: Any = None) -> list[str]:
            return []

    found = fields_of(project, depot.Box, Admin)
    assert why(found["title"]["read"]) == "not named by this admin's own method of harness_list"
    assert why(found["title"]["add"]) == "not named by this admin's own method of harness_persist"


def test_a_form_that_can_not_be_made_and_code_that_fails_point_to_the_log(project: Project) -> None:
    class Admin(HarnessMixin, ModelAdmin):
        harness_list = ["title"]
        harness_persist = ["title"]
        list_display = ["title"]

        def get_form(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no form today")

    site = project.site({depot.Box: Admin})
    (box,) = explain(site, SCOPE, User.objects.create_superuser("root"))["entities"]
    assert why(box["fields"]["title"]["add"]) == SEE_LOG
    assert why(box["tools"]["open_box_form"]) == "no field can be filled in"


def test_fields_that_are_shown_and_not_sent(project: Project) -> None:
    class Admin(HarnessMixin, ModelAdmin):
        harness_list = ["title", "object_id"]
        harness_show = ["object_id", "payload", "content_type", "scan"]
        fields = ["title", "object_id", "content_type"]

    found = fields_of(project, depot.Note, Admin)
    assert found["object_id"]["show"] == {"may": True}
    assert why(found["object_id"]["read"]) == "in harness_show, so it is not sent"
    assert why(found["title"]["show"]) == "not in harness_show"
    assert why(found["payload"]["show"]) == "never read by the assistant"
    assert why(found["content_type"]["show"]) == "a relation"
    assert why(found["scan"]["show"]) == "the admin does not show it"


def test_fields_that_an_admins_own_method_does_not_show(project: Project) -> None:
    class Own(HarnessMixin, ModelAdmin):
        harness_show = ["title"]

        def get_harness_show(self, request: Any, obj: Any = None) -> list[str]:
            return []

    shown = fields_of(project, depot.Box, Own)
    assert why(shown["title"]["show"]) == "not named by this admin's own method of harness_show"


def test_tools_that_not_every_entity_has(project: Project) -> None:
    site = project.site(
        {
            depot.Box: declared(read=["title"]),
            depot.Shelf: declared(read=["title"], harness_search=True, search_fields=["title"]),
            depot.Shop: declared(read=["name"], harness_history=True),
            store_models.Product: declared(read=["title"], harness_history=True),
            depot.City: declared(fill=["title"], harness_search=True),
        }
    )
    said_of = {
        each["entity"]: each["tools"]
        for each in explain(site, SCOPE, User.objects.create_superuser("root"))["entities"]
    }
    box, shelf = said_of["box"], said_of["shelf"]
    for name in ("count_box", "summarise_box"):
        assert why(box[name]) == "without harness_search, harness_lookups and harness_from_admin"
    assert why(box["history_box"]) == "without harness_history"
    assert why(box["open_box_list"]).startswith("without harness_actions")
    for name in ("count_shelf", "summarise_shelf", "open_shelf_list"):
        assert shelf[name] == {"may": True}
    assert why(said_of["shop"]["history_shop"]) == "django-simple-history does not track this model"
    assert said_of["product"]["history_product"] == {"may": True}
    assert why(said_of["city"]["count_city"]) == "no field can be read"


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        ([], {"usable": "no permission to view, change, add or delete"}),
        (
            ["view"],
            {
                "open_box_form": "has_add_permission and has_change_permission said no",
                "confirm_delete_box": "has_delete_permission said no",
            },
        ),
        (
            ["add"],
            {
                "query_box": "has_view_permission and has_change_permission said no",
                "confirm_delete_box": "has_view_permission and has_change_permission said no",
            },
        ),
        (["change"], {"confirm_delete_box": "has_delete_permission said no"}),
        (["view", "delete"], {"open_box_form": "has_add_permission and has_change_permission said no"}),
        (["view", "add", "change", "delete"], {}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_tools_and_the_permission_that_is_missing(
    project: Project, permissions: list[str], expected: dict[str, str]
) -> None:
    site = project.site({depot.Box: declared(read=["title"], fill=["title"])})
    user = project.person(*(f"depot.{each}_box" for each in permissions))
    (box,) = explain(site, SCOPE, user)["entities"]
    answers = {"usable": box["usable"], **box["tools"]}
    found = {name: answer["why"] for name, answer in answers.items() if not answer["may"]}
    if not permissions:
        assert set(found.values()) == set(expected.values())
        assert set(found) == set(answers)
        return
    plain = {name: text for name, text in found.items() if name in ("usable", *PLAIN)}
    assert plain == expected


PLAIN = ("query_box", "open_box_form", "confirm_delete_box")


def test_an_entity_without_a_field_for_her_and_a_hidden_module(project: Project) -> None:
    class Hidden(HarnessMixin, ModelAdmin):
        harness_list = ["title"]

        def has_module_permission(self, request: Any) -> bool:
            return False

    class Blank(HarnessMixin, ModelAdmin):
        harness_list = ["title"]
        harness_persist = ["title"]
        exclude = ["title"]

    site = project.site({depot.Box: Hidden, depot.Shelf: Blank})
    box, shelf = explain(site, SCOPE, User.objects.create_superuser("root"))["entities"]
    assert why(box["usable"]) == "has_module_permission said no"
    assert why(shelf["tools"]["query_shelf"]) == "no field can be read"
    assert why(shelf["tools"]["open_shelf_form"]) == "no field can be filled in"


def test_who_may_not_use_it_at_all(project: Project) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    person = project.person("depot.view_box", name="anna")

    def told() -> str:
        return why(explain(site, SCOPE, person)["allowed"])

    assert explain(site, SCOPE, person)["allowed"] == {"may": True}
    switch.turn("admin", off=True, by=None)
    assert told() == "the assistant is switched off on this site"
    switch.turn("admin", off=False, by=None)
    person.user_permissions.filter(codename="view_box").first().user_set.clear()
    assert told() == "there is no entity that this person can use"
    person.user_permissions.clear()
    assert told() == "use_copilot is missing"
    User.objects.filter(pk=person.pk).update(is_staff=False)
    assert told() == "not staff of this site: its has_permission said no"
    User.objects.filter(pk=person.pk).update(is_active=False)
    assert "not active" in told()
    assert explain(site, SCOPE, person)["entities"] == []


def test_who_may_not_see_a_record_is_offered_no_change_of_one(project: Project) -> None:
    class Blind(HarnessMixin, ModelAdmin):
        harness_list = ["title"]
        harness_persist = ["title"]

        def has_view_or_change_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    found = fields_of(project, depot.Box, Blind)
    assert found["title"]["add"] == {"may": True}
    assert why(found["title"]["change"]) == why(found["title"]["read"])


def test_write_tools_and_what_is_missing_for_them(store: Store) -> None:
    tools = explain(admin.site, SCOPE, store.user("viewer"))["tools"]
    assert set(tools) == set(all_tools())
    assert why(tools["refund_payment"]) == "store.propose_refund is missing"
    assert why(tools["change_shipping_address"]).endswith("is missing")


# -- the command -------------------------------------------------------------------------------------------


def test_it_prints_a_table_and_the_same_as_json(store: Store) -> None:
    text = said("support")
    assert text.startswith("support on the site 'admin': may use the assistant.\n")
    assert "  confirm_delete_order  no: has_delete_permission said no\n" in text
    assert "write tools" in text
    report = json.loads(said("support", "--json"))
    assert report == json.loads(json.dumps(explain(admin.site, SCOPE, store.user("support"))))


def test_an_entity_is_named_as_in_tools_or_by_its_model(store: Store) -> None:
    report = json.loads(said("admin", "--entity", "order", "--entity", "store.Customer", "--json"))
    assert [each["entity"] for each in report["entities"]] == ["customer", "order"]
    assert report["tools"] == {}


def test_a_person_who_may_not_use_it_is_told_so_first(store: Store) -> None:
    text = said("auditor")
    assert text.splitlines()[0].endswith("may not use the assistant: use_copilot is missing.")
    assert "Confirms and approves nothing: a service account" in said("bot")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nobody"], "There is no account 'nobody'"),
        (["admin", "--site", "elsewhere"], "There is no AdminSite 'elsewhere'"),
        (["admin", "--entity", "spaceship"], "No entity spaceship"),
        (["admin", "--scope", "tenant=1"], "no scope of its own"),
    ],
)
def test_what_is_not_there_is_an_error(store: Store, args: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        said(*args)


def test_what_may_be_asked_is_told_with_the_reason_for_each_no(store: Store) -> None:
    told = {each["entity"]: each for each in json.loads(said("support", "--json"))["entities"]}
    asking = told["customer"]["asking"]
    assert asking["search"]["name"]["may"] is True
    assert "not readable" in asking["search"]["email"]["why"]
    assert asking["filters"] == {"country": ["in"], "city": ["in"]}
    assert asking["order_by"] == ["name", "city", "country", "vip"]
    order = told["order"]["asking"]
    assert (order["columns"]["lines"]["may"], order["actions"]["mark_as_shipped"]["may"]) == (True, True)
    assert told["order"]["tools"]["history_order"]["why"] == "no permission to look at the history"
    assert told["category"]["asking"] == {}
    assert re.search(r"^  search +email +no: not readable", said("support"), re.MULTILINE)


def test_actions_and_columns_that_are_not_hers_are_told(store: Store, monkeypatch: Any) -> None:
    from example_project.store.admin import OrderAdmin

    monkeypatch.setattr(OrderAdmin, "get_actions", lambda self, request: {})
    group = store.user("support").groups.get()
    group.permissions.remove(*group.permissions.filter(codename__endswith="_orderline"))
    (order,) = json.loads(said("support", "--entity", "order", "--json"))["entities"]
    asking = order["asking"]
    assert asking["columns"]["lines"]["why"] == "the admin does not show it to this person"
    assert asking["actions"]["mark_as_shipped"]["why"] == "get_actions does not give it to this person"
