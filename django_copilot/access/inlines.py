"""One inline of an admin as this person has it on a record: whether she sees it, with which fields and rows.

An inline's permission hooks are asked about the parent record, as the admin's own page does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.options import InlineModelAdmin
from django.contrib.admin.utils import flatten_fieldsets
from django.db import models
from django.forms import PasswordInput
from django.forms.models import BaseInlineFormSet, _get_foreign_key

from ..declaration import model_field, never_readable
from ..exceptions import Refused
from .rows import ask_hook

if TYPE_CHECKING:
    from .entity import EntityAccess


@dataclass(frozen=True, kw_only=True)
class InlineOnRecord:
    """What an inline shows this person of one record. ``rows`` are of all records unless they are ``own``."""

    label: str
    fields: tuple[str, ...]
    ordering: tuple[Any, ...]
    rows: Any  # a queryset, or a list where they are the record's own
    own: bool


def declared_inlines(model_admin: Any) -> dict[str, tuple[str, ...]]:
    """Return the declared fields by accessor, without what is malformed."""
    given = model_admin.harness_inlines
    if not isinstance(given, Mapping):
        return {}
    return {
        accessor: tuple(name for name in names if isinstance(name, str))
        for accessor, names in given.items()
        if isinstance(accessor, str) and isinstance(names, Sequence) and not isinstance(names, str)
    }


def relation_of(model: type[models.Model], accessor: str) -> Any:
    """Return the relation whose rows a record has under that name, or None: many-to-many are none."""
    for each in model._meta.related_objects:
        if not each.many_to_many and each.get_accessor_name() == accessor:
            return each
    return None


def shows_relation(inline: Any, relation: Any) -> bool:
    """Tell whether an inline, or its class with ``parent_model``, is of that relation's rows."""
    if inline.model._meta.concrete_model is not relation.related_model._meta.concrete_model:
        return False
    try:
        found = _get_foreign_key(inline.parent_model, inline.model, fk_name=inline.fk_name)
    except ValueError:
        return False
    return bool(found.name == relation.field.name)


class InlineAccess:
    """An inline as one person may see it, under its own rights and never beyond what it shows."""

    def __init__(self, entity: EntityAccess, accessor: str, relation: Any, declared: Sequence[str]) -> None:
        self.entity = entity
        self.access = entity.access
        self.request = entity.request
        self.accessor = accessor
        self.relation = relation
        self.declared = tuple(declared)
        self.model: type[models.Model] = relation.related_model
        self._shown_cache: dict[Any, frozenset[str]] = {}

    @property
    def is_seen(self) -> bool:
        """Tell whether the person may see rows of this inline in general, whatever the record."""
        ma, request = self.entity.model_admin, self.request

        def ask() -> bool:
            found = (each for each in ma.get_inline_instances(request) if shows_relation(each, self.relation))
            return any(each.has_view_or_change_permission(request) for each in found)

        return ask_hook(ma, "get_inline_instances", False, ask)

    def on(self, record: Any) -> InlineOnRecord | None:
        """Return what it shows of a record that may be viewed, or None where it is not hers to see."""
        try:
            with self.entity.at("change", record):
                return self._on(record)
        except Refused:  # there is no such page, so nobody sees an inline on it
            return None

    def _on(self, record: Any) -> InlineOnRecord | None:
        ma, request = self.entity.model_admin, self.request
        inline, formset = ask_hook(ma, "get_inline_instances", (None, None), lambda: self._find(record))
        if inline is None or not ask_hook(
            inline,
            "has_view_or_change_permission",
            False,
            lambda: bool(inline.has_view_or_change_permission(request, record)),
        ):
            return None
        fields = ask_hook(inline, "get_formset", (), lambda: self._fields(inline, formset, record))
        if not fields:
            return None
        own = formset is not None or _chooses_rows(ma, inline)
        rows = ask_hook(
            inline,
            "get_queryset",
            None,
            lambda: self._own_rows(inline, formset, record) if own else inline.get_queryset(request),
        )
        if rows is None or (isinstance(rows, models.QuerySet) and rows.query.is_sliced and not own):
            return None
        no_order: tuple[Any, ...] = ()
        return InlineOnRecord(
            label=str(inline.verbose_name_plural),
            fields=fields,
            ordering=ask_hook(
                inline, "get_ordering", no_order, lambda: tuple(inline.get_ordering(request) or ())
            ),
            rows=rows,
            own=own,
        )

    def _find(self, record: Any) -> tuple[Any, Any]:
        """Return the inline that the admin would show of this record, and its formset where the project makes it."""
        ma, request = self.entity.model_admin, self.request
        if type(ma).get_formsets_with_inlines is not ModelAdmin.get_formsets_with_inlines:
            for formset, inline in ma.get_formsets_with_inlines(request, record):
                if shows_relation(inline, self.relation):
                    return inline, formset
            return None, None
        for inline in ma.get_inline_instances(request, record):
            if shows_relation(inline, self.relation):
                return inline, None
        return None, None

    def _own_rows(self, inline: Any, formset: Any, record: Any) -> Any:
        """Return the rows that the project's own formset shows of this record."""
        made = formset or inline.get_formset(self.request, record)
        prefix = made.get_default_prefix()
        kwargs = self.entity.model_admin.get_formset_kwargs(self.request, record, inline, prefix)
        return made(**kwargs).get_queryset()

    def _fields(self, inline: Any, formset: Any, record: Any) -> tuple[str, ...]:
        readonly = tuple(inline.get_readonly_fields(self.request, record))
        depends = formset is not None or _fields_depend_on_record(type(inline))
        key = None if depends else (type(inline), readonly)
        shown = self._shown_cache.get(key) if key is not None else None
        if shown is None:
            shown = self._shown(inline, formset, record, readonly)
            if key is not None:
                self._shown_cache[key] = shown
        child = self.access.entity_of(self.model)
        kept = {self.relation.field.name}
        if child is not None:
            kept |= self.access.of(child).kept_from_model(None)
        return tuple(
            dict.fromkeys(
                name
                for name in self.declared
                if name in shown
                and name not in kept
                and model_field(self.model, name) is not None
                and not never_readable(self.model, name)
            )
        )

    def _shown(self, inline: Any, formset: Any, record: Any, readonly: tuple[Any, ...]) -> frozenset[str]:
        """Return the names that the inline shows: as text, or in an input that shows what it holds."""
        names = flatten_fieldsets(inline.get_fieldsets(self.request, record))
        inputs = (formset or inline.get_formset(self.request, record)).form.base_fields
        return frozenset(
            name
            for name in names
            if isinstance(name, str)
            and (
                name in readonly
                or (
                    name in inputs
                    and not isinstance(inputs[name].widget, PasswordInput)
                    and not inputs[name].widget.is_hidden
                )
            )
        )


def _fields_depend_on_record(cls: type) -> bool:
    hooks = ("get_fields", "get_fieldsets", "get_exclude", "get_formset")
    return any(getattr(cls, hook) is not getattr(InlineModelAdmin, hook) for hook in hooks)


def _chooses_rows(model_admin: Any, inline: Any) -> bool:
    """Tell whether the project's own formset has a say in which rows are shown."""
    hooks = ("__init__", "get_queryset", "initial_form_count")
    return type(model_admin).get_formset_kwargs is not ModelAdmin.get_formset_kwargs or any(
        getattr(inline.formset, hook, None) is not getattr(BaseInlineFormSet, hook) for hook in hooks
    )
