"""What one person may see, asked of the project's own admin hooks and of nothing in this package's access rules.

This is the yardstick by which the outputs are judged, so it is written the slow and plain way: every record is
asked for, every hook is asked for each record.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.forms import PasswordInput

from ..declaration import is_declared
from ..scope import ScopedRequest


class Rights:
    """The rights of one person on one site at one moment. ``request`` is one of hers, in her scope, entered."""

    def __init__(self, site: AdminSite, request: ScopedRequest) -> None:
        self.site, self.request = site, request
        self._rows: dict[Any, dict[Any, Any]] = {}
        self._shown: dict[Any, frozenset[str]] = {}
        self._forms: dict[Any, set[str]] = {}

    @cached_property
    def declared(self) -> dict[Any, Any]:
        """Return the declared ModelAdmins by model."""
        return {model: each for model, each in self.site._registry.items() if is_declared(each)}

    def admins(self, model: Any) -> list[Any]:
        """Return the registered ModelAdmins that show rows of the model: its own and those of its proxies."""
        concrete = model._meta.concrete_model
        return [each for other, each in self.site._registry.items() if other._meta.concrete_model is concrete]

    def may_use(self, model: Any) -> bool:
        """Tell whether she may open anything of the model's admins and view records in general."""
        return any(self._may_use(each) for each in self.admins(model))

    def _may_use(self, each: Any) -> bool:
        return bool(
            each.has_module_permission(self.request) and each.has_view_or_change_permission(self.request)
        )

    def rows(self, model: Any) -> dict[Any, Any]:
        """Return the records that her admin lets her view, by key."""
        return {pk: obj for each in self.admins(model) for pk, obj in self._rows_of(each).items()}

    def _rows_of(self, each: Any) -> dict[Any, Any]:
        if each.model not in self._rows:
            self._rows[each.model] = (
                {
                    obj.pk: obj
                    for obj in each.get_queryset(self.request)
                    if each.has_view_or_change_permission(self.request, obj)
                }
                if self._may_use(each)
                else {}
            )
        return self._rows[each.model]

    def shown(self, model: Any, pk: Any) -> frozenset[str]:
        """Return the fields that her admin shows of a record: on its page or in the list. Nothing of hidden ones."""
        return frozenset().union(*(self._shown_by(each, pk) for each in self.admins(model)))

    def _shown_by(self, each: Any, pk: Any) -> frozenset[str]:
        obj, key = self._rows_of(each).get(pk), (each.model, pk)
        if obj is None:
            return frozenset()
        if key not in self._shown:
            masked = self._masked(each, obj)
            on_page = {
                *flatten_fieldsets(each.get_fieldsets(self.request, obj)),
                *each.get_readonly_fields(self.request, obj),
            }
            listed = {name for name in each.get_list_display(self.request) if isinstance(name, str)}
            if issubclass(each.model, AbstractBaseUser):
                masked.add("password")
            self._shown[key] = frozenset((on_page | listed) - masked)
        return self._shown[key]

    def _masked(self, model_admin: Any, obj: Any) -> set[str]:
        """Return the fields that her form of a record hides in password inputs; asked once for each set of fields."""
        fieldsets = model_admin.get_fieldsets(self.request, obj)
        readonly = tuple(model_admin.get_readonly_fields(self.request, obj))
        may_change = model_admin.has_change_permission(self.request, obj)
        key = model_admin.model, repr(fieldsets), readonly, may_change
        if key not in self._forms:
            form = model_admin.get_form(self.request, obj, change=True)
            self._forms[key] = {
                name for name, field in form.base_fields.items() if isinstance(field.widget, PasswordInput)
            }
        return set(self._forms[key])

    def readable(self, model: Any, pk: Any) -> frozenset[str]:
        """Return the fields of a record that a model's provider may get: declared and shown."""
        found: set[str] = set()
        for each in self.admins(model):
            obj = self._rows_of(each).get(pk)
            if each.model in self.declared and obj is not None:
                listed = set(each.get_harness_list(self.request, obj))
                found |= listed & self._shown_by(each, pk)
        return frozenset(found & _names(model))

    def labelled(self, model: Any, pk: Any) -> str:
        """Return the labels of a record that may stand beside a relation to it, or ""."""
        found = [self._rows_of(each).get(pk) for each in self.admins(model) if each.model in self.declared]
        return " ".join(str(obj) for obj in found if obj is not None)


@cache
def _names(model: Any) -> frozenset[str]:
    return frozenset(
        each.name for each in model._meta.get_fields() if not isinstance(each, models.BinaryField)
    )
