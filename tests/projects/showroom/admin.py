"""Declarations on the default site, on the ModelAdmin of the theme where it has one."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from django_copilot.admin import HarnessMixin
from tests.projects.depot.models import Bin, Item

Base: Any = admin.ModelAdmin
if apps.is_installed("unfold"):
    from unfold.admin import ModelAdmin as Base  # type: ignore[no-redef]


@admin.register(Bin)
class BinAdmin(HarnessMixin, Base):
    """A model with a text key."""

    harness_list = ["code", "title"]
    harness_persist = ["title"]
    fields = ["code", "title"]
    list_display = ["code", "title"]


@admin.register(Item)
class ItemAdmin(HarnessMixin, Base):
    """A model with a relation."""

    harness_list = ["title", "bin"]
    harness_persist = ["title", "bin"]
    list_display = ["title"]
    search_fields = ["title"]


if admin.site.is_registered(User):
    admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(HarnessMixin, UserAdmin, Base):
    """Django's own templates for adding an account."""

    harness_list = ["username"]
    harness_persist = ["username"]
