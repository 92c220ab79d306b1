"""What counts as declared, and which fields never leave or are never filled in, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import models
from django.test.utils import isolate_apps

from django_copilot.admin import HarnessMixin
from django_copilot.declaration import is_declared, model_field, never_fillable, never_readable
from tests.projects.depot import models as depot
from tests.projects.sites import declared


def hook(self: Any, request: Any, obj: Any = None) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("attributes", "is_one"),
    [
        ({}, False),
        ({"harness_list": ["title"]}, True),
        ({"harness_persist": ["title"]}, True),
        ({"get_harness_list": hook}, True),
        ({"get_harness_persist": hook}, True),
    ],
    ids=["nothing", "list", "persist", "a hook of the list", "a hook of persist"],
)
def test_an_entity_is_declared_by_a_list_or_by_a_hook(attributes: dict[str, Any], is_one: bool) -> None:
    made = type("Made", (HarnessMixin, admin.ModelAdmin), attributes)
    assert is_declared(made(depot.Diary, admin.AdminSite("own"))) is is_one


def test_an_admin_without_the_mixin_declares_nothing() -> None:
    plain = type("Plain", (admin.ModelAdmin,), {"harness_list": ["title"]})
    assert not is_declared(plain(depot.Diary, admin.AdminSite("own")))
    own = declared(read=["id"])
    from django_copilot.models import Plan

    assert not is_declared(own(Plan, admin.AdminSite("own")))


@pytest.mark.parametrize(
    ("model", "name", "is_one"),
    [
        (depot.Item, "title", True),
        (depot.Item, "bin", True),
        (depot.Letter, "copies", True),
        (depot.Item, "bin_id", False),
        (depot.Item, "pk", False),
        (depot.Item, "bin__title", False),
        (depot.Item, "nothing", False),
        (depot.Bin, "item", False),
        (depot.Bin, "item_set", False),
        (depot.Person, "copied", False),
    ],
    ids=str,
)
def test_a_name_is_a_field_of_the_models_own(model: Any, name: str, is_one: bool) -> None:
    assert (model_field(model, name) is not None) is is_one


@pytest.mark.parametrize(
    ("model", "name", "reads", "fills"),
    [
        (depot.Note, "title", True, True),
        (depot.Note, "scan", True, False),
        (depot.Note, "payload", False, False),
        (depot.Note, "about", False, True),  # the form decides, and has none
        (depot.Topic, "notes", False, True),
        (depot.Letter, "copies", True, True),
        (depot.Note, "nothing", False, True),
    ],
    ids=str,
)
def test_some_fields_never_leave_and_some_are_never_filled_in(
    model: Any, name: str, reads: bool, fills: bool
) -> None:
    assert never_readable(model, name) is not reads
    assert never_fillable(model, name) is not fills


@isolate_apps("tests.projects.depot")
def test_a_password_is_one_where_people_log_in_with_it() -> None:
    class Door(models.Model):
        password = models.CharField(max_length=10)

        class Meta:
            app_label = "depot"

    for never in (never_readable, never_fillable):
        assert never(get_user_model(), "password")
        assert not never(get_user_model(), "username")
        assert not never(Door, "password")
