"""What access refuses, rule by rule, on admins that are bent so that this one rule decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django import forms
from django.contrib import admin

from django_copilot.access import Access, EntityAccess
from django_copilot.scope import Scope, enter_scope
from tests.projects.depot import models as depot
from tests.projects.sites import Project, declared

ALL = ("view", "add", "change", "delete")
HERE = Scope(site="admin", host="testserver", language="en", time_zone="UTC")


@pytest.fixture
def project(db: None, settings: Any) -> Iterator[Project]:
    made = Project(settings)
    yield made
    made.close()


@pytest.fixture
def see(project: Project) -> Iterator[Callable[..., EntityAccess]]:
    """Return a function that gives an entity on a site of its own, for a person with these rights on it."""
    with ExitStack() as stack:

        def see(model: Any, model_admin: type[Any], *verbs: str, others: Any = None) -> EntityAccess:
            site = project.site({model: model_admin, **(others or {})})
            options = model._meta
            rights = [f"{options.app_label}.{verb}_{options.model_name}" for verb in verbs or ALL]
            person = project.person(*rights)
            request = stack.enter_context(enter_scope(HERE, person.pk))
            access = Access(site, request)
            return access.of(next(each for each in access.declared() if each.model is model))

        yield see


See = Callable[..., EntityAccess]

# -- the entity as a whole --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ALL)
def test_one_right_is_enough_to_do_anything_with_an_entity(see: See, verb: str) -> None:
    assert see(depot.Diary, declared(read=["title"]), verb).is_usable


def test_without_a_right_there_is_nothing_to_do(see: See) -> None:
    class Closed(declared(read=["title"])):  # type: ignore[misc]
        def has_module_permission(self, request: Any) -> bool:
            return True

    assert not see(depot.Diary, Closed, "view", others={}).access.registered(depot.Note)
    nobody = see(depot.Note, type("Closed", (Closed,), {"has_view_permission": lambda *args: False}), "add")
    assert nobody.is_usable
    assert not nobody.can_view


# -- what a declaration says ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (["title", "text"], ("title", "text")),
        ("title", ()),  # a text is no list of one-letter names
        (["title", None, 7, b"text"], ("title",)),
    ],
    ids=["names", "a text", "others among them"],
)
def test_a_declaration_is_a_list_of_names(see: See, said: Any, read: tuple[str, ...]) -> None:
    model_admin = declared(read=["title"], get_harness_list=lambda self, request, obj=None: said)
    assert see(depot.Diary, model_admin).readable() == read


def test_one_letter_names_are_not_read_out_of_a_text(see: See) -> None:
    entity = see(
        depot.Diary, declared(read=["title"], get_harness_list=lambda self, request, obj=None: "title")
    )
    assert entity.declared() == set()


# -- keys that are data -----------------------------------------------------------------------------------


def test_a_key_that_is_hidden_in_general_is_named_on_no_record(see: See) -> None:
    """Not even where the project shows it of that one: one can't tell the two apart by what is missing."""
    ann = depot.Person.objects.create(email="ann@secret.example", name="Ann")

    def of_one(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["name"] if obj is None else ["name", "email"]

    entity = see(depot.Person, declared(read=["name"], get_harness_list=of_one))
    assert entity.readable() == ("name",)
    assert entity.readable(ann) == ("name", "email")
    assert entity._named([ann]) == set()
    assert entity.ids([ann])[ann.pk].startswith("ref_")
    assert entity.told_by_ids == {}


def test_what_an_id_tells_of_is_named_only_where_it_is_data_and_shown(see: See) -> None:
    label = "depot.diary"
    assert see(depot.Diary, declared(read=["id", "title"], readonly_fields=["id"])).told_by_ids == {}
    entity = see(depot.Person, declared(read=["email", "name"]))
    assert entity.told_by_ids == {entity.entity.label: ("email",)}
    assert entity.entity.label != label


def test_a_key_of_another_record_that_nobody_may_use_is_hidden(see: See) -> None:
    """Guards the case that the related model is declared, and not for her."""
    ann = depot.Person.objects.create(email="ann@secret.example", name="Ann")
    badge = depot.Badge.objects.create(person=ann, email="blue")
    people = {depot.Person: declared(read=["email", "name"])}
    entity = see(depot.Badge, declared(read=["person", "email"]), others=people)
    assert entity.access.of_model(depot.Person) is None
    assert not entity._key_is_named
    assert entity._named([badge]) == set()


# -- fields that depend on the record ---------------------------------------------------------------------


def readonly_on_the_first(*names: str) -> Any:
    """Return a hook that shows fields as text on the first record, and in general."""

    def get_readonly_fields(self: Any, request: Any, obj: Any = None) -> tuple[str, ...]:
        return names if obj is None or obj.pk == 1 else ()

    return get_readonly_fields


class Masked(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = depot.Vault
        fields = ("title", "pin")
        widgets = {"pin": forms.PasswordInput()}


def test_rows_are_ordered_only_by_what_is_readable_on_each_of_them(see: See) -> None:
    """A hook of the project's that closes a field on one record may not be told by the order."""
    first = depot.Diary.objects.create(pk=1, title="a", text="x")
    second = depot.Diary.objects.create(pk=2, title="b", text="y")
    model_admin = declared(
        read=["title", "text"], exclude=["text"], get_readonly_fields=readonly_on_the_first("text")
    )
    entity = see(depot.Diary, model_admin)
    assert [entity.readable(each) for each in (None, first, second)] == [
        ("title", "text"),
        ("title", "text"),
        ("title",),
    ]
    assert "text" not in entity.readable_on_all
    assert entity.hides_fields_per_row


def test_rows_are_not_ordered_by_what_a_form_masks_on_some_of_them(see: See) -> None:
    first, second = (depot.Vault.objects.create(pk=pk, title="t", pin="1") for pk in (1, 2))
    model_admin = declared(
        read=["title", "pin"],
        fields=["title", "pin"],
        form=Masked,
        get_readonly_fields=readonly_on_the_first("pin"),
    )
    entity = see(depot.Vault, model_admin)
    assert "pin" in entity.readable()
    assert "pin" in entity.readable(first)
    assert "pin" not in entity.readable(second)
    assert "pin" not in entity.readable_on_all
    assert entity.hides_fields_per_row


def test_where_no_hook_looks_at_a_record_rows_are_ordered_by_every_field(see: See) -> None:
    entity = see(depot.Diary, declared(read=["title", "text"]))
    assert entity.readable_on_all == {"title", "text"}
    assert not entity.hides_fields_per_row


def test_of_fields_that_depend_on_the_record_those_in_the_list_are_on_each(see: See) -> None:
    model_admin = declared(
        read=["title", "text"],
        list_display=["title", lambda obj: "x"],
        get_fields=lambda self, request, obj=None: ["title", "text"] if obj is None else ["title"],
    )
    entity = see(depot.Diary, model_admin)
    assert entity.readable_on_all == {"title"}
    assert entity.hides_fields_per_row


# -- what a form masks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verbs", "reads"), [(("view",), True), (("view", "change"), False)], ids=str)
def test_a_masked_field_is_read_by_who_is_shown_it_as_text(see: See, verbs: Any, reads: bool) -> None:
    """Who may only view has no form, so that nothing is masked for her; in general and of a record."""
    vault = depot.Vault.objects.create(title="t", pin="1")
    entity = see(depot.Vault, declared(read=["title", "pin"], form=Masked), *verbs)
    assert ("pin" in entity.readable()) is reads
    assert ("pin" in entity.readable(vault)) is reads


@pytest.mark.parametrize("drops", [True, False], ids=["on change", "on add"])
def test_a_form_that_tells_adding_from_changing_is_asked_for_the_right_one(see: See, drops: bool) -> None:
    """Of a record the form to change it decides; in general the one to add."""

    def get_form(self: Any, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if change is drops:
            kwargs["fields"] = ["title"]
        return admin.ModelAdmin.get_form(self, request, obj, change=change, **kwargs)

    vault = depot.Vault.objects.create(title="t", pin="1")
    entity = see(depot.Vault, declared(read=["title", "pin"], fields=["title", "pin"], get_form=get_form))
    assert ("pin" in entity.readable()) is drops
    assert ("pin" in entity.readable(vault)) is not drops
