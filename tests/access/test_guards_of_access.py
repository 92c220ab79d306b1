"""What access refuses, rule by rule, on admins that are bent so that this one rule decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import models
from django.test.utils import isolate_apps

from django_copilot.access import Access, EntityAccess, may_do_anything, related_rows
from django_copilot.exceptions import Refused
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


def test_of_what_she_may_not_view_she_reads_nothing(see: See) -> None:
    entity = see(depot.Diary, declared(read=["title"]), "add")
    assert entity.is_usable
    assert entity.readable() == ()


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
    entity = see(depot.Diary, model_admin)
    assert entity.readable() == read
    assert entity.declared() == set(read)


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


@isolate_apps("tests.projects.depot")
def test_a_key_that_is_another_records_other_field_is_not_named(project: Project) -> None:
    """What such a key says is not that record's own id, which may be shown, but the field that it holds."""

    class Seat(models.Model):
        country = models.OneToOneField(
            depot.Country, on_delete=models.CASCADE, primary_key=True, to_field="code"
        )

        class Meta:
            app_label = "depot"

    class Flag(models.Model):
        country = models.OneToOneField(depot.Country, on_delete=models.CASCADE, primary_key=True)

        class Meta:
            app_label = "depot"

    boss = get_user_model().objects.create_superuser("boss")
    admins = {model: declared(read=["country"]) for model in (Seat, Flag)}
    country = declared(read=["id", "code", "title"], readonly_fields=["id"])
    site = project.site({**admins, depot.Country: country})
    with enter_scope(HERE, boss.pk) as request:
        access = Access(site, request)
        named = {each.name: access.of(each)._key_is_named for each in access.declared()}
    assert named == {"seat": False, "flag": True, "country": True}


# -- what a form may have of its own ----------------------------------------------------------------------

ONLY_TITLE: dict[str, dict[str, Any]] = {
    "fields": {"fields": ["title"]},
    "fieldsets": {"fieldsets": [(None, {"fields": ["title"]})]},
    "get_fields": {"get_fields": lambda self, request, obj=None: ["title"]},
    "get_fieldsets": {"get_fieldsets": lambda self, request, obj=None: [(None, {"fields": ["title"]})]},
    "exclude": {"exclude": ["text"]},
}


@pytest.mark.parametrize("how", ONLY_TITLE)
def test_a_field_that_her_page_has_not_is_not_read(see: See, how: str) -> None:
    diary = depot.Diary.objects.create(title="t", text="x")
    entity = see(depot.Diary, declared(read=["title", "text"], list_display=["title"], **ONLY_TITLE[how]))
    assert entity.readable() == ("title",)
    assert entity.readable(diary) == ("title",)


@isolate_apps("tests.projects.depot")
def test_a_field_of_the_projects_own_that_makes_its_own_input_may_mask(project: Project) -> None:
    class Secret(models.CharField):  # type: ignore[type-arg]
        def formfield(self, **kwargs: Any) -> Any:
            return super().formfield(**{**kwargs, "widget": forms.PasswordInput})

    class Safe(models.Model):
        title = models.CharField(max_length=10)
        pin = Secret(max_length=10)

        class Meta:
            app_label = "depot"

    boss = get_user_model().objects.create_superuser("boss")
    site = project.site({Safe: declared(read=["title", "pin"], fill=["title", "pin"])})
    with enter_scope(HERE, boss.pk) as request:
        entity = next(Access(site, request).all())
        assert entity.readable() == ("title",)
        assert entity.fillable(change=False) == ("title",)


def test_a_form_that_is_none_is_refused(see: See) -> None:
    entity = see(
        depot.Diary,
        declared(
            read=["title"],
            fill=["title"],
            get_form=lambda self, request, obj=None, **kwargs: SimpleNamespace(base_fields=["title"]),
        ),
    )
    assert entity.readable() == ()
    with pytest.raises(Refused):
        entity.fillable(change=False)


class Closed(forms.ModelForm):  # type: ignore[type-arg]
    """A form with an input that takes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    text = forms.CharField(disabled=True, required=False)


def test_an_input_that_takes_nothing_is_not_filled_in(see: See) -> None:
    entity = see(depot.Diary, declared(fill=["title", "text"], form=Closed))
    assert entity.fillable(change=False) == ("title",)
    assert entity.fillable(depot.Diary.objects.create(title="t"), change=True) == ("title",)


def test_data_files_and_what_points_to_nobody_here_are_not_filled_in(see: See) -> None:
    note = see(
        depot.Note, declared(fill=["title", "scan", "payload", "content_type", "object_id", "nothing"])
    )
    assert note.fillable(change=False) == ("title", "object_id")
    names = ["title", "bin"]
    alone = see(depot.Item, declared(fill=names))
    assert alone.fillable(change=False) == ("title",)
    together = see(depot.Item, declared(fill=names), others={depot.Bin: declared(read=["title"])})
    assert together.fillable(change=False) == ("title", "bin")


def test_who_may_not_change_or_add_fills_in_nothing(see: See) -> None:
    diary = depot.Diary.objects.create(title="t")
    for verbs, adds, changes in ((("add",), True, False), (("view", "change"), False, True)):
        entity = see(depot.Diary, declared(fill=["title"]), *verbs)
        assert bool(entity.fillable(change=False)) is adds
        assert bool(entity.fillable(diary, change=True)) is changes


def test_a_password_is_not_filled_in_whatever_the_form_is(see: See) -> None:
    user = get_user_model()
    entity = see(user, declared(fill=["username", "password"], fields=["username", "password"]))
    assert entity.fillable(change=False) == ("username",)


@isolate_apps("tests.projects.depot")
def test_a_kind_of_field_that_nobody_knows_is_not_filled_in(project: Project) -> None:
    class Odd(models.Field):  # type: ignore[type-arg]
        def get_internal_type(self) -> str:
            return "CharField"

        def formfield(self, **kwargs: Any) -> Any:
            return forms.CharField()

    class Thing(models.Model):
        title = models.CharField(max_length=10)
        odd = Odd()

        class Meta:
            app_label = "depot"

    boss = get_user_model().objects.create_superuser("boss")
    site = project.site({Thing: declared(fill=["title", "odd"])})
    with enter_scope(HERE, boss.pk) as request:
        assert next(Access(site, request).all()).fillable(change=False) == ("title",)


# -- rows -------------------------------------------------------------------------------------------------


def test_records_are_asked_for_one_by_one_only_where_the_project_decides_on_them(see: See) -> None:
    assert not see(depot.Diary, declared(read=["title"])).asks_per_row
    for hook in ("has_view_permission", "has_change_permission", "has_view_or_change_permission"):
        own = declared(read=["title"], **{hook: lambda self, request, obj=None: True})
        assert see(depot.Diary, own).asks_per_row


def test_without_a_right_in_general_no_record_is_labelled(see: See) -> None:
    diary = depot.Diary.objects.create(title="t")
    may = {"has_view_permission": lambda self, request, obj=None: obj is not None}
    entity = see(depot.Diary, declared(read=["title"], **may), "add")
    assert entity.may_view(diary)
    assert not entity.may_view()
    assert entity.visible({diary.pk}) == {}


@pytest.mark.filterwarnings("ignore:Calling select_related")
@pytest.mark.parametrize(("own", "joined"), [(True, True), (["bin"], {"bin": {}}), (False, False)], ids=str)
def test_what_the_list_joins_is_joined(see: See, own: Any, joined: Any) -> None:
    hook = {"get_list_select_related": lambda self, request: own}  # the attribute is on its way out
    entity = see(depot.Item, declared(read=["title"], **hook))
    assert entity.queryset().query.select_related == joined


def test_rows_of_a_model_that_is_not_here_are_none(see: See) -> None:
    access = see(depot.Item, declared(read=["title", "bin"])).access
    assert related_rows(access, depot.Bin) is None
    assert related_rows(access, depot.Item) is not None


# -- the person -------------------------------------------------------------------------------------------


def test_entities_are_given_by_their_names(see: See) -> None:
    access = see(depot.Diary, declared(read=["title"]), others={depot.Note: declared(read=["title"])}).access
    assert [each.name for each in access.named(["note", "nothing"])] == ["note"]
    assert [each.name for each in access.named([])] == []
    assert [each.name for each in access.usable()] == ["diary"]


@pytest.mark.parametrize(
    ("hooks", "may"),
    [
        ({}, False),
        ({"has_module_permission": True}, False),
        ({"has_add_permission": True}, False),
        ({"has_module_permission": True, "has_add_permission": True}, True),
        ({"has_module_permission": True, "has_delete_permission": True}, True),
        ({"has_module_permission": True, "has_view_or_change_permission": True}, True),
    ],
    ids=str,
)
def test_there_is_something_to_do_where_the_app_and_one_verb_are_hers(
    see: See, hooks: dict[str, bool], may: bool
) -> None:
    hooked = {name: lambda self, request, obj=None: True for name in hooks}
    no_right = {"has_module_permission": lambda self, request: False}
    entity = see(depot.Diary, declared(read=["title"], **{**no_right, **hooked}), "view")
    person = get_user_model().objects.create_user("nobody", is_staff=True)
    with enter_scope(HERE, person.pk) as request:
        assert may_do_anything(entity.access.site, request) is may


def test_where_nothing_is_declared_there_is_nothing_to_do(project: Project) -> None:
    site = project.site({depot.Diary: None})
    boss = get_user_model().objects.create_superuser("boss")
    with enter_scope(HERE, boss.pk) as request:
        assert not may_do_anything(site, request)
