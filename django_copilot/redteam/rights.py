"""What one person may see, asked of the project's own admin hooks and of nothing in this package's access rules.

This is the yardstick by which the outputs are judged, so it is written the slow and plain way: every record is
asked for, every hook is asked for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import flatten_fieldsets, lookup_field
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.forms import HiddenInput, PasswordInput
from django.forms.models import _get_foreign_key

from ..declaration import is_declared
from ..scope import ScopedRequest


class Rights:
    """The rights of one person on one site at one moment. ``request`` is one of hers, in her scope, entered."""

    def __init__(self, site: AdminSite, request: ScopedRequest) -> None:
        self.site, self.request = site, request
        self._rows: dict[Any, dict[Any, Any]] = {}
        self._shown: dict[Any, frozenset[str]] = {}
        self._forms: dict[Any, set[str]] = {}
        self._pasts: dict[Any, dict[Any, Any]] = {}

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
        """Return the fields that her admin shows of a record: on its page, in the list, in an inline, in its past.

        Nothing of hidden ones.
        """
        found = frozenset().union(*(self._shown_by(each, pk) for each in self.admins(model)))
        found |= self.inlines.shown(model, pk)
        past = self.past_of(model, pk)
        if past is None or not self.opens_past(*past):
            return found
        return found | (self.shown(*past) & _names(model)) | _told_of_versions(model)

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
        """Return the fields of a record that a model's provider may get: declared and shown, and not only shown."""
        found: set[str] = set()
        for each in self.admins(model):
            obj = self._rows_of(each).get(pk)
            if each.model in self.declared and obj is not None:
                listed = set(each.get_harness_list(self.request, obj))
                found |= (listed & self._shown_by(each, pk)) - self._kept_by(each, obj)
        found |= self.inlines.declared(model, pk) | self._in_past(model, pk)
        return frozenset(found & _names(model))

    def kept(self, model: Any, pk: Any) -> frozenset[str]:
        """Return the fields of a record that are shown to her only: a model gets handles for them."""
        found: set[str] = set()
        for each in self.admins(model):
            obj = self._rows_of(each).get(pk)
            if each.model in self.declared and obj is not None:
                found |= self._kept_by(each, obj) & self._shown_by(each, pk)
        return frozenset(found & _names(model))

    def _kept_by(self, each: Any, obj: Any) -> set[str]:
        return {*each.harness_show, *each.get_harness_show(self.request, obj)}

    def _in_past(self, model: Any, pk: Any) -> frozenset[str]:
        """Return the fields of an earlier version of a record that may be told: those readable on it today."""
        past = self.past_of(model, pk)
        if past is None or not self.tells_past(past[0], past[1]):
            return frozenset()
        return self.readable(*past) | _told_of_versions(model)

    def past_of(self, model: Any, pk: Any) -> tuple[Any, Any] | None:
        """Return the model and the key of the record of which this is an earlier version, or None."""
        of = tracked_by(model)
        if of is None:
            return None
        if model not in self._pasts:
            keys = model._base_manager.values_list("pk", of._meta.pk.attname)
            self._pasts[model] = dict(keys)
        return (of, self._pasts[model][pk]) if pk in self._pasts[model] else None

    def tells_past(self, model: Any, pk: Any) -> bool:
        """Tell whether the changes of a record may be told: it is declared, and her admin opens its history."""
        return self.opens_past(model, pk) and any(
            each.harness_history for each in self.admins(model) if each.model in self.declared
        )

    def opens_past(self, model: Any, pk: Any) -> bool:
        """Tell whether her admin opens the history of a record."""
        for each in self.admins(model):
            obj = self._rows_of(each).get(pk)
            if obj is not None:
                hooks = [getattr(each, f"has_{verb}_history_permission", None) for verb in ("view", "change")]
                may = [hook for hook in hooks if hook is not None] or [each.has_view_or_change_permission]
                return any(hook(self.request, obj) for hook in may)
        return False

    @cached_property
    def inlines(self) -> Inlines:
        """Return the rows of inlines that her forms show."""
        return Inlines(self)

    def computed(self, model: Any, pk: Any) -> str:
        """Return what the declared columns that no field holds say of a record, as one text."""
        said = []
        for each in self.admins(model):
            obj = self._rows_of(each).get(pk)
            if each.model in self.declared and obj is not None:
                listed = each.get_list_display(self.request)
                said += [
                    str(lookup_field(name, obj, each)[2]) for name in each.harness_computed if name in listed
                ]
        return " ".join(said)

    @cached_property
    def computed_texts(self) -> str:
        """Return what all those columns say of all her records."""
        return " ".join(
            self.computed(model, pk)
            for model, each in self.declared.items()
            if each.harness_computed
            for pk in self.rows(model)
        )

    def labelled(self, model: Any, pk: Any) -> str:
        """Return the labels of a record that may stand beside a relation to it, or ""."""
        found = [self._rows_of(each).get(pk) for each in self.admins(model) if each.model in self.declared]
        return " ".join(str(obj) for obj in found if obj is not None)


class Inlines:
    """The rows of inlines as her forms show them: of each record its own, asked for one record at a time."""

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self._found: dict[Any, dict[Any, tuple[set[str], set[str]]]] = {}

    def shown(self, model: Any, pk: Any) -> frozenset[str]:
        """Return the fields that a form's inline shows of a row."""
        return frozenset(self._of(model).get(pk, (set(), set()))[0])

    def declared(self, model: Any, pk: Any) -> frozenset[str]:
        """Return those of them that are declared, so that a model may get them."""
        return frozenset(self._of(model).get(pk, (set(), set()))[1])

    def parents(self, model: Any) -> frozenset[str]:
        """Return the relations of a model by which forms show its rows with another record."""
        return frozenset(
            _get_foreign_key(parent, model, fk_name=inline.fk_name).name
            for parent, inline in self._classes(model)
        )

    def _classes(self, model: Any) -> Iterator[tuple[Any, Any]]:
        """Go through the inlines of the model's rows, each with the model on whose forms it is; not generic ones."""
        for parent, each in self.rights.site._registry.items():
            for inline in dict.fromkeys([*each.inlines, *each.get_inlines(self.rights.request, None)]):
                if inline.model is model and not hasattr(inline, "ct_field"):
                    yield parent, inline

    def all_declared(self, model: Any) -> frozenset[str]:
        """Return the declared fields that are shown of any row."""
        return frozenset().union(*(declared for _shown, declared in self._of(model).values()))

    def _of(self, model: Any) -> dict[Any, tuple[set[str], set[str]]]:
        if model not in self._found:
            self._found[model] = {}
            for parent in dict.fromkeys(parent for parent, _inline in self._classes(model)):
                each = self.rights.site._registry[parent]
                for obj in self.rights._rows_of(each).values():
                    self._look(each, parent, obj, model)
        return self._found[model]

    def _look(self, each: Any, parent: Any, obj: Any, model: Any) -> None:
        request = self.rights.request
        for inline in each.get_inline_instances(request, obj):
            if inline.model is not model or hasattr(inline, "ct_field"):
                continue
            if not inline.has_view_or_change_permission(request, obj):
                continue
            key = _get_foreign_key(parent, model, fk_name=inline.fk_name)
            inputs = inline.get_formset(request, obj).form.base_fields
            readonly = set(inline.get_readonly_fields(request, obj))
            shown = {
                name
                for name in flatten_fieldsets(inline.get_fieldsets(request, obj))
                if name in readonly
                or (name in inputs and not isinstance(inputs[name].widget, PasswordInput | HiddenInput))
            }
            given = getattr(each, "harness_inlines", {}) if parent in self.rights.declared else {}
            declared = shown & {*given.get(key.remote_field.get_accessor_name(), ())} - {key.name}
            child = self.rights.declared.get(model)
            declared -= {*child.harness_show} if child is not None else set()
            for row in inline.get_queryset(request).filter(**{key.name: obj}):
                before = self._found[model].setdefault(row.pk, (set(), set()))
                before[0].update(shown)
                before[1].update(declared)


def tracked_by(model: Any) -> Any:
    """Return the model whose earlier versions a model holds, as django-simple-history keeps them, or None."""
    found = getattr(model, "instance_type", None)
    return found if isinstance(found, type) and hasattr(model, "history_type") else None


def _told_of_versions(model: Any) -> frozenset[str]:
    """Return what is told of an earlier version besides what it holds: when, by whom, and of which record."""
    own = {"history_date", "history_type", "history_user", tracked_by(model)._meta.pk.name}
    return frozenset(own) & _names(model)


@cache
def _names(model: Any) -> frozenset[str]:
    return frozenset(
        each.name for each in model._meta.get_fields() if not isinstance(each, models.BinaryField)
    )
