"""The admin of ``tests.formapp``, on a site that only tests with ``tests.formapp.urls`` have."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import DecimalField
from simple_history.admin import SimpleHistoryAdmin

from django_copilot.admin import HarnessMixin

from .models import Item, Label, Link, LongMemo, Memo, Parcel, Place

site = admin.AdminSite(name="forms")


@admin.register(Place, site=site)
class PlaceAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["name", "code", "is_open"]
    harness_persist = ["name", "code", "is_open"]
    search_fields = ["name"]


@admin.register(Label, site=site)
class LabelAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["name"]
    search_fields = ["name"]


class ParcelForm(forms.ModelForm):
    """``promise`` is a field of the form alone; ``slug`` is closed as long as the parcel is a bag."""

    promise = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk and self.instance.kind == "bag" and "slug" in self.fields:
            self.fields["slug"].disabled = True

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("title") == data.get("note") != "":
            raise forms.ValidationError("A note must say more than the title.")
        return data

    def save(self, commit: bool = True) -> Any:
        self.instance.promised = self.cleaned_data.get("promise", "")
        return super().save(commit=commit)


class ItemInline(admin.TabularInline):
    model = Item
    extra = 1


class TargetInline(admin.TabularInline):
    model = Link
    fk_name = "source"
    extra = 0
    raw_id_fields = ["target"]


class SourceInline(admin.TabularInline):
    model = Link
    fk_name = "target"
    extra = 0
    raw_id_fields = ["source"]


ALL_FIELDS = [
    "title", "slug", "note", "kind", "slot", "grade", "pieces", "weight", "ratio", "fragile", "checked", "day",
    "at", "clock", "length", "ticket", "address", "extra", "remark", "shelf", "depot", "stop", "zone", "labels",
    "stamps", "locked", "promise",
]  # fmt: skip


@admin.register(Parcel, site=site)
class ParcelAdmin(HarnessMixin, SimpleHistoryAdmin):
    harness_list = ["title", "kind", "weight"]
    harness_persist = [*ALL_FIELDS, "hidden"]

    form = ParcelForm
    fields = ALL_FIELDS
    list_filter = ["kind"]
    save_as = True
    prepopulated_fields = {"slug": ["title"]}
    filter_horizontal = ["labels"]
    raw_id_fields = ["depot", "stamps"]
    autocomplete_fields = ["stop"]
    formfield_overrides = {DecimalField: {"localize": True}}
    inlines = [ItemInline, TargetInline, SourceInline]

    seen: list[tuple[str, str]] = []  # what the hooks saw of the record

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        if obj is not None:
            self.seen.append(("get_readonly_fields", obj.title))
        return ["note", "locked"] if obj is not None and obj.locked else []

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        if obj is not None:
            self.seen.append(("has_change_permission", obj.title))
        return super().has_change_permission(request, obj)


class ClosingAdmin(admin.ModelAdmin):
    """A project's own base class, which changes the class of the form, as many do."""

    closed: tuple[str, ...] = ()

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        for name in self.closed:
            form.base_fields[name].disabled = True
        return form


@admin.register(Memo, site=site)
class MemoAdmin(HarnessMixin, ClosingAdmin):
    harness_list = ["title", "text"]
    harness_persist = ["title", "text", "labels"]


@admin.register(LongMemo, site=site)
class LongMemoAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["title", "body"]
    harness_persist = ["title", "body"]


@admin.register(User, site=site)
class PeopleAdmin(HarnessMixin, UserAdmin):
    harness_list = ["username", "first_name"]
    harness_persist = ["username", "first_name", "is_superuser", "is_staff"]
