"""System checks: each id with a declaration that earns it, and none for the example store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.apps import apps
from django.conf import settings as project
from django.contrib import admin
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core import checks
from django.test import override_settings

import django_copilot.checks as module
from django_copilot.admin import HarnessMixin
from django_copilot.models import Conversation
from example_project.store.models import Category, Customer, Order, Payment, Product, Supplier

ROOT = Path(__file__).parent.parent
SOURCES = sorted(Path(module.__file__).parent.rglob("*.py"))
IDS = sorted({found for path in SOURCES for found in re.findall(r"copilot\.[EW]\d{3}", path.read_text())})


def named(value: Any) -> str:
    """Return a test's name for a value: the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.fixture
def site() -> Iterator[AdminSite]:
    """A site of its own, with the related models registered; forgotten at the end."""
    from django.contrib.admin import sites

    made = AdminSite(name="checked")
    made.register(Category)
    yield made
    sites.all_sites.discard(made)


def found(
    site: AdminSite, model: Any, bases: tuple[type, ...] = (HarnessMixin, ModelAdmin), **body: Any
) -> Any:
    """Register a ModelAdmin with this body and return the checks' messages about it."""
    cls = type("CheckedAdmin", bases, body)
    site.register(model, cls)
    return [each for each in module.check_all() if each.obj is cls]


def ids(messages: Any) -> list[str]:
    return [str(each.id) for each in messages]


def installation() -> list[Any]:
    """Return the messages about the installation and the example store; test apps have declarations of all kinds."""
    return [
        each
        for each in module.check_all()
        if each.obj is None or each.obj.__module__.startswith("example_project")
    ]


def test_the_example_store_has_nothing_to_complain_of():
    assert installation() == []


@pytest.mark.parametrize(
    ("model", "body", "expected"),
    [
        # harness_list
        (Product, {"harness_list": ["titel"]}, "copilot.E020"),
        (Product, {"harness_list": ["category__name"]}, "copilot.E020"),
        (Product, {"harness_list": ["category_id"]}, "copilot.E020"),
        (Product, {"harness_list": ["pk"]}, "copilot.E020"),
        (Product, {"harness_list": ["order_lines"]}, "copilot.E020"),
        (Product, {"harness_list": ["__str__"]}, "copilot.E020"),
        (User, {"harness_list": ["password"]}, "copilot.E021"),
        (Customer, {"harness_list": ["api_token"]}, "copilot.W022"),
        (Customer, {"harness_list": ["name"], "fields": ["email"]}, "copilot.W023"),
        (Customer, {"harness_list": ["name"], "exclude": ["name"]}, "copilot.W023"),
        (
            Customer,
            {"harness_list": ["name"], "fieldsets": [(None, {"fields": [("email",)]})]},
            "copilot.W023",
        ),
        # harness_persist
        (Product, {"harness_persist": ["titel"]}, "copilot.E030"),
        (Product, {"harness_persist": ["category__name"]}, "copilot.E030"),
        (Product, {"harness_persist": ["photo"]}, "copilot.E031"),
        (User, {"harness_persist": ["password"]}, "copilot.E031"),
        (Product, {"harness_persist": ["id"]}, "copilot.E032"),
        (Product, {"harness_persist": ["supplier"]}, "copilot.E033"),
        (Payment, {"harness_persist": ["order"]}, "copilot.E033"),
        (Customer, {"harness_persist": ["name"], "fields": ["email"]}, "copilot.W023"),
        (Customer, {"harness_persist": ["name"], "readonly_fields": ["name"]}, "copilot.W023"),
        (User, {"harness_persist": ["is_superuser"]}, "copilot.W035"),
        (User, {"harness_persist": ["is_active"]}, "copilot.W035"),
        (Customer, {"harness_persist": ["api_token"]}, "copilot.W036"),
        # the whole
        (Product, {"harness_list": "title"}, "copilot.E013"),
        (Product, {"harness_list": {"title"}}, "copilot.E013"),
        (Product, {"harness_persist": [Product.title]}, "copilot.E013"),
        (Product, {"harness_list": "__all__"}, "copilot.E013"),
        (Product, {"list": ["title"]}, "copilot.W012"),
        (Product, {"persist": ["title"]}, "copilot.W012"),
        (Product, {"list": ["title"], "harness_persist": ["title"]}, "copilot.W012"),
        (Product, {"harness_lists": ["title"]}, "copilot.W017"),
        (Product, {"harness_list": ["title"], "harness_write": ["title"]}, "copilot.W017"),
        (Product, {"get_harness_fields": lambda self, request: []}, "copilot.W017"),
        (Product, {"harness_list": ["title"], "harness_silence": ["copilot.W022"]}, "copilot.E015"),
        (Product, {"harness_list": ["title"], "harness_silence": {"copilot.W022": "title"}}, "copilot.E015"),
        (Product, {"harness_list": ["title"], "harness_silence": {"copilot.E020": ["x"]}}, "copilot.E015"),
        (Product, {"harness_list": ["title"], "harness_silence": {"fields.W1": ["x"]}}, "copilot.E015"),
        (
            Product,
            {"harness_list": ["title"], "harness_silence": {"copilot.W022": ["title"]}},
            "copilot.W016",
        ),
    ],
    ids=named,
)
def test_a_bad_declaration_is_named(site, model, body, expected):
    messages = found(site, model, **body)
    assert ids(messages) == [expected]
    assert messages[0].is_serious() == expected.startswith("copilot.E")


@pytest.mark.parametrize("name", ["harness_list", "harness_persist", "get_harness_list", "harness_read"])
def test_a_declaration_without_the_mixin_is_pointed_out(site, name):
    messages = found(site, Product, (ModelAdmin,), **{name: ["title"]})
    assert ids(messages) == ["copilot.W018"]
    assert messages[0].hint == "Write class CheckedAdmin(HarnessMixin, …)."


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (
            Product,
            {"harness_list": ["title", "category"], "harness_persist": ["title", "category", "attributes"]},
        ),
        (Product, {"harness_list": ("title", "photo")}),
        (Product, {}),
        (Category, {"harness_list": ["name"], "fields": ["slug"], "list_display": ["name"]}),
        (Category, {"harness_list": ["name"], "exclude": ["name"], "list_display": ["name"]}),
        (Category, {"harness_list": ["name"], "readonly_fields": ["name"]}),
        (Category, {"harness_list": ["name"], "get_fields": lambda self, request, obj=None: ["name"]}),
        (Category, {"get_harness_list": lambda self, request, obj=None: ["name"]}),
    ],
)
def test_a_good_declaration_is_not(site, model, body):
    if model is Category:
        site.unregister(Category)
    assert found(site, model, **body) == []


def test_a_form_of_its_own_may_have_any_field(site):
    class OwnForm(forms.ModelForm):
        extra = forms.CharField()

        class Meta:
            model = Product
            fields = ["title"]

    assert found(site, Product, form=OwnForm, harness_persist=["extra", "title", "sku"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "api_token",
        "SECRET",
        "apikey",
        "api_key",
        "private_key",
        "password_hash",
        "pin",
        "card_cvv",
        "iban",
        "otp",
        "reset_token",
        "hash",
        "ssn",
        "credentials",
        "passphrase",
    ],
)
def test_names_that_look_like_secrets(name):
    assert module.SECRET.search(name)


@pytest.mark.parametrize(
    "name",
    [
        "title",
        "shipping_city",
        "pinned",
        "spinner",
        "basalt",
        "footprint",
        "classname",
        "hashtag",
        "caliban",
        "keyword",
        "monkey",
        "option",
        "passenger",
        "compass",
        "opinion",
    ],
)
def test_names_that_do_not(name):
    assert not module.SECRET.search(name)


@pytest.mark.parametrize(
    ("model", "body", "silence"),
    [
        (Customer, {"harness_list": ["api_token"]}, {"copilot.W022": ["api_token"]}),
        (Customer, {"harness_list": ["name"], "fields": ["email"]}, {"copilot.W023": ["name"]}),
        (User, {"harness_persist": ["is_staff"]}, {"copilot.W035": ("is_staff",)}),
        (Customer, {"harness_persist": ["api_token"]}, {"copilot.W036": ["api_token"]}),
    ],
)
def test_a_warning_is_silenced_for_one_field(site, model, body, silence):
    assert found(site, model, harness_silence=silence, **body) == []


def test_silencing_one_field_leaves_the_others(site):
    messages = found(
        site,
        User,
        harness_persist=["is_staff", "is_superuser"],
        harness_silence={"copilot.W035": ["is_staff"]},
    )
    assert ids(messages) == ["copilot.W035"]
    assert "is_superuser" in messages[0].msg


def test_errors_are_not_silenced(site):
    messages = found(site, Product, harness_list=["titel"], harness_silence={"copilot.E020": ["titel"]})
    assert ids(messages) == ["copilot.E015", "copilot.E020"]


def test_an_active_flag_is_a_privilege_of_users_only(site):
    from django.db import models

    class Offer(models.Model):
        is_active = models.BooleanField()

        class Meta:
            app_label = "checked"

    try:
        assert found(site, Offer, harness_persist=["is_active"]) == []
    finally:
        apps.all_models.pop("checked", None)
        apps.clear_cache()


def test_the_mixin_in_the_wrong_place(site):
    assert ids(found(site, Product, bases=(ModelAdmin, HarnessMixin), harness_list=["title"])) == [
        "copilot.E011"
    ]


def test_our_own_models_are_no_entities(site):
    """Hazard 85."""
    cls = type("OwnAdmin", (HarnessMixin, ModelAdmin), {"harness_list": ["title"]})
    if site.is_registered(Conversation):
        site.unregister(Conversation)
    site.register(Conversation, cls)
    assert "copilot.E010" in ids([each for each in module.check_all() if each.obj is cls])


def test_an_inherited_declaration_is_pointed_out(site):
    class Parent(HarnessMixin, ModelAdmin):
        harness_list = ["title"]
        harness_persist = ["title"]

    class Child(Parent):
        harness_list = ["title", "sku"]

    site.register(Product, Child)
    messages = [each for each in module.check_all() if each.obj is Child]
    assert ids(messages) == ["copilot.W014"]
    assert "harness_persist" in messages[0].msg


def test_a_check_warns_that_a_field_goes_to_the_provider(site):
    messages = found(site, Customer, harness_list=["api_token"])
    assert "provider" in messages[0].msg


# -- the installation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copilot", "expected"),
    [
        ({"BACKENDS": "openai"}, "copilot.E001"),
        (["BACKEND"], "copilot.E001"),
        ({"TURNS_PER_MINUTE": "60"}, "copilot.E004"),
        ({"TURNS_PER_MINUTE": 0}, "copilot.E004"),
        ({"TURNS_PER_MINUTE": 1.5}, "copilot.E004"),
        ({"MAX_ROUNDS": True}, "copilot.E004"),
        ({"MODEL_TIMEOUT": 0}, "copilot.E004"),
        ({"MODEL_RETRIES": -1}, "copilot.E004"),
        ({"OPENAI_STREAM": "yes"}, "copilot.E004"),
        ({"OPENAI_OPTIONS": []}, "copilot.E004"),
        ({"OPENAI_API_KEY": 5}, "copilot.E004"),
        ({"BACKEND": "no.such.Backend"}, "copilot.E005"),
        ({"BACKEND": "opnai"}, "copilot.E005"),
        ({"SCOPE": "no.such.scope"}, "copilot.E006"),
        ({"SCOPE": {"capture": print}}, "copilot.E006"),
        ({"SCOPE": object()}, "copilot.E006"),
    ],
    ids=named,
)
def test_a_wrong_setting_is_an_error(copilot, expected):
    with override_settings(COPILOT=copilot):
        messages = installation()
    assert ids(messages) == [expected]


@pytest.mark.parametrize(
    "copilot",
    [
        {},
        {"MODEL_TIMEOUT": 30, "MODEL_RETRIES": 0, "BACKEND": "offline"},
        {"OPENAI_API_KEY": None},
        {"SCOPE": {"capture": dict, "enter": print}},
    ],
    ids=named,
)
def test_a_right_setting_is_not(copilot):
    with override_settings(COPILOT=copilot):
        assert installation() == []


def test_the_key_is_in_no_message():
    with override_settings(COPILOT={"OPENAI_API_KEY": "sk-secret", "TURNS_PER_MINUTE": 0}):
        assert "sk-secret" not in repr(installation())


@pytest.mark.parametrize("app", ["rest_framework", "simple_history"])
def test_an_app_that_is_missing(monkeypatch, app):
    real = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != app and real(name))
    assert ids(installation()) == ["copilot.E002"]


@pytest.mark.parametrize("first", ["django.contrib.admin", "unfold", "jazzmin", "grappelli"])
def test_the_app_after_the_admin_or_its_theme(monkeypatch, first):
    class Theme:
        name = first

    real = list(apps.get_app_configs())
    monkeypatch.setattr(apps, "get_app_configs", lambda: [Theme, *real])
    messages = installation()
    assert ids(messages) == ["copilot.E003"]
    assert first in messages[0].msg


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"admin/base.html": "<html></html>"}, False),
        ({"admin/base.html": '{% extends "admin/base.html" %}'}, True),
        (
            {"admin/base.html": '{% extends "own.html" %}', "own.html": '{% extends "admin/base.html" %}'},
            True,
        ),
        ({"admin/base.html": '{% extends "own.html" %}', "own.html": "<html></html>"}, False),
        ({"admin/base.html": "{% extends theme %}"}, True),
        ({"admin/base_site.html": '{% extends "admin/base.html" %}'}, True),
        ({}, True),
    ],
    ids=[
        "a copy",
        "extends ours",
        "a detour",
        "a detour to nowhere",
        "unknown until rendered",
        "base_site",
        "none",
    ],
)
def test_the_panel_is_reached_through_the_templates(tmp_path, files, shown):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with override_settings(TEMPLATES=[{**project.TEMPLATES[0], "DIRS": [tmp_path]}]):
        assert ids(installation()) == ([] if shown else ["copilot.W007"])


@pytest.mark.django_db
def test_no_group_with_the_permission_is_a_warning_of_the_database_checks():
    assert module.check_permission_given() == []
    assert ids(module.check_permission_given(databases=["default"])) == ["copilot.W040"]
    group = Group.objects.create(name="People")
    group.permissions.add(Permission.objects.get(codename="use_copilot"))
    assert module.check_permission_given(databases=["default"]) == []


def test_all_checks_but_that_one_touch_no_database():
    """The test has no access to one: a query would be an error."""
    assert installation() == []


def test_django_runs_the_checks():
    with override_settings(COPILOT={"NOTHING": 1}):
        assert "copilot.E001" in ids(checks.run_checks(tags=[checks.Tags.admin]))


# -- the page ---------------------------------------------------------------------------------------


def test_every_id_is_on_the_page_once_and_nothing_else():
    page = (ROOT / "docs" / "checks.md").read_text()
    listed = re.findall(r"^\| `(copilot\.[EW]\d{3})` \|", page, re.MULTILINE)
    assert sorted(listed) == IDS
    assert set(re.findall(r"copilot\.[EW]\d{3}", page)) == set(IDS)
    for ident in module.PER_FIELD:
        assert page.count(ident) >= 2


def test_every_id_is_tried_somewhere():
    tests = [path.read_text("utf-8") for path in sorted(Path(__file__).parent.rglob("test_*.py"))]
    tried = {f"copilot.{found}" for text in tests for found in re.findall(r"\b[EW]0\d\d\b", text)}
    assert set(IDS) - tried == set()


def test_an_unsupported_field_type(site):
    from django.db import models

    class Odd(models.Field):
        def get_internal_type(self) -> str:
            return "TextField"

    class Thing(models.Model):
        odd = Odd()

        class Meta:
            app_label = "checked"

    try:
        assert ids(found(site, Thing, harness_persist=["odd"])) == ["copilot.E034"]
    finally:
        apps.all_models.pop("checked", None)
        apps.clear_cache()


def test_unregistered_models_are_named(site):
    messages = found(site, Product, harness_persist=["supplier"])
    assert Supplier._meta.label in messages[0].msg
    assert "checked" in messages[0].msg


def test_a_site_that_is_not_the_default_is_checked_too(site):
    assert site is not admin.site
    assert ids(found(site, Order, harness_list=["nothing"])) == ["copilot.E020"]
