"""Fields of one entity: what this person's admin shows and lets her fill in, met with the declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import flatten_fieldsets
from django.forms import ModelForm, PasswordInput

from ..declaration import Declaration, Entity, admin_of, model_field, never_fillable, never_readable
from ..exceptions import Refused
from ..values import FILLABLE
from .rows import RowAccess, ask_hook

if TYPE_CHECKING:
    from .person import Access


class FieldAccess(RowAccess):
    """The rights on one entity as a whole, and on its fields."""

    model_admin: Any

    def __init__(self, access: Access, entity: Entity) -> None:
        super().__init__(access, entity.model_admin)
        self.entity = entity
        self.name = entity.name
        self._shown_cache: dict[Any, frozenset[str]] = {}
        self._form_cache: dict[bool, Any] = {}
        self._on_form_cache: dict[str, list[str]] = {}  # by the page's path

    # -- rights on the whole entity ----------------------------------------------------------------

    @cached_property
    def is_usable(self) -> bool:
        """Tell whether the person can do anything with the entity here."""
        ma = self.model_admin
        may = ask_hook(
            ma, "has_module_permission", False, lambda: bool(ma.has_module_permission(self.request))
        )
        return may and (self.can_view or self.can_add or self.can_delete)

    @cached_property
    def can_view(self) -> bool:
        """Tell whether the person may view or change records in general."""
        return self.may_view()

    @cached_property
    def can_add(self) -> bool:
        """Tell whether the person may add records."""
        return self._may("add")

    @cached_property
    def can_change(self) -> bool:
        """Tell whether the person may change records in general."""
        return self._may("change")

    @cached_property
    def can_delete(self) -> bool:
        """Tell whether the person may delete records in general."""
        return self._may("delete")

    def may_change(self, obj: Any) -> bool:
        """Tell whether the person may change this record."""
        return self._may("change", obj)

    def may_delete(self, obj: Any) -> bool:
        """Tell whether the person may delete this record."""
        return self._may("delete", obj)

    # -- fields ------------------------------------------------------------------------------------

    def _declared_names(self, hook: str, obj: Any) -> list[str]:
        def ask() -> list[str]:
            names = getattr(self.model_admin, hook)(self.request, obj)
            return [name for name in names if isinstance(name, str)] if not isinstance(names, str) else []

        return ask_hook(self.model_admin, hook, [], ask)

    def declared(self, obj: Any = None) -> set[str]:
        """Return every name in one of the lists of the declaration."""
        hooks = ("get_harness_list", "get_harness_persist", "get_harness_show")
        return {name for hook in hooks for name in self._declared_names(hook, obj)}

    @cached_property
    def _readable(self) -> tuple[str, ...]:
        return self._readable_for(None) if self.can_view else ()

    def readable(self, obj: Any = None) -> tuple[str, ...]:
        """Return the fields that the model may get of this record (None: of records in general), in order.

        The caller has established that the person may view the record.
        """
        return self._readable if obj is None else self._readable_for(obj)

    def _readable_for(self, obj: Any) -> tuple[str, ...]:
        kept = self.kept_from_model(obj)
        return tuple(name for name in self._declared_and_shown("get_harness_list", obj) if name not in kept)

    def _declared_and_shown(self, hook: str, obj: Any) -> tuple[str, ...]:
        declared = self._declared_names(hook, obj)
        if not declared:
            return ()
        shown = self._shown(obj)
        return tuple(
            dict.fromkeys(name for name in declared if name in shown and not never_readable(self.model, name))
        )

    def kept_from_model(self, obj: Any) -> set[str]:
        """Return the names that no model gets, whichever other list they are in too."""
        given = self.model_admin.harness_show
        names: Any = ask_hook(
            self.model_admin,
            "get_harness_show",
            None,
            lambda: self.model_admin.get_harness_show(self.request, obj),
        )
        if not all(isinstance(each, list | tuple | set | frozenset) for each in (given, names)):
            # What is to be kept is not known, so all is.
            return {field.name for field in self.model._meta.get_fields()}
        return {*given, *names}

    def showable(self, obj: Any = None) -> tuple[str, ...]:
        """Return the fields whose values the person sees of this record, while the model gets handles for them.

        The caller has established that the person may view the record. Relations are never among them, nor
        is the key: what names the record depends on it.
        """
        fields = {
            name: model_field(self.model, name) for name in self._declared_and_shown("get_harness_show", obj)
        }
        return tuple(
            name for name, each in fields.items() if each.remote_field is None and not each.primary_key
        )

    @cached_property
    def readable_on_all(self) -> frozenset[str]:
        """Return the fields that are readable on every record that may be viewed: those that may order rows.

        Known from the hooks that the project overrides, as what a hook says of each record is not: where
        ``get_harness_list`` is the project's own, there are none.
        """
        cls = type(self.model_admin)
        if (
            cls.get_harness_list is not Declaration.get_harness_list
            or cls.get_harness_show is not Declaration.get_harness_show
        ):
            return frozenset()
        return self._on_all(self._readable)

    @cached_property
    def showable_on_all(self) -> frozenset[str]:
        """Return the fields that are shown to the person, and not sent, on every record that may be viewed."""
        if type(self.model_admin).get_harness_show is not Declaration.get_harness_show or not self.can_view:
            return frozenset()
        return self._on_all(self.showable())

    def _on_all(self, names: Iterable[str]) -> frozenset[str]:
        """Return those names that the admin shows on every record, known from the hooks a project overrides."""
        own_readonly = type(self.model_admin).get_readonly_fields is not ModelAdmin.get_readonly_fields
        static = bool(self.model_admin.fields or self.model_admin.fieldsets)
        if self._fields_depend_on_record or (own_readonly and (self._may_mask or not static)):
            return frozenset(names) & (self._listed or frozenset())
        return frozenset(names)

    @property
    def hides_fields_per_row(self) -> bool:
        """Tell whether a field may be readable on one record and not on the next."""
        return self.readable_on_all != frozenset(self._readable)

    @cached_property
    def _listed(self) -> frozenset[str] | None:
        """Return the fields in the admin's list, or None when the hook fails."""
        ma = self.model_admin
        return ask_hook(
            ma,
            "get_list_display",
            None,
            lambda: frozenset(each for each in ma.get_list_display(self.request) if isinstance(each, str)),
        )

    def _shown(self, obj: Any) -> frozenset[str]:
        """Return the fields that this person's admin shows: on the form or read-only, and in the list.

        Which of them depend on the record is known from the hooks that the project overrides, so that the
        ordinary case costs no form class per row. What a form shows in a password input only is not shown.
        """
        ma, request = self.model_admin, self.request
        readonly = ask_hook(
            ma, "get_readonly_fields", None, lambda: tuple(ma.get_readonly_fields(request, obj))
        )
        if readonly is None:
            return frozenset()
        key: Any = readonly
        if self._may_mask:
            key = readonly, self.can_change if obj is None else self.may_change(obj)
        if obj is not None and self._fields_depend_on_record:
            key = None
        if key is not None and key in self._shown_cache:
            return self._shown_cache[key]
        hook = "get_form" if obj is None and self._form_is_plain else "get_fieldsets"
        on_form = ask_hook(ma, hook, None, lambda: set(self._on_form(obj)))
        if on_form is not None and self._may_mask:
            on_form = self._unmasked(obj, on_form, readonly)
        listed = self._listed
        shown = listed | on_form if listed is not None and on_form is not None else frozenset()
        if key is not None:
            self._shown_cache[key] = shown
        return shown

    def shows(self, obj: Any = None) -> frozenset[str]:
        """Return the fields that this person's own admin shows of a record that she may view."""
        return self._shown(obj)

    def _unmasked(self, obj: Any, on_form: set[str], readonly: tuple[Any, ...]) -> set[str] | None:
        """Return which names on the form this person's own form shows, or None when a hook fails."""
        # Who may only view is shown the fields as text, by a form without a single editable one.
        if not (self.can_change if obj is None else self.may_change(obj)) and (
            obj is not None or not self._form_decides
        ):
            return on_form
        try:
            # In general the form to add decides what is shown, as long as a project tells the two apart.
            change = obj is not None or (self.can_change and not self._form_decides)
            form = self.form_class(obj, change=change)
        except Refused:
            return None
        masked = {name for name, field in form.base_fields.items() if isinstance(field.widget, PasswordInput)}
        if self._form_decides:
            on_form &= {*form.base_fields, *readonly}
        return on_form - masked

    def _on_form(self, obj: Any) -> list[str]:
        """Return the names in the form's fieldsets. Without a record asked once per page: it makes a form."""
        if obj is not None:
            return flatten_fieldsets(self.model_admin.get_fieldsets(self.request, obj))
        names = self._on_form_cache.get(self.request.path)
        if names is None:
            names = (
                self._on_plain_form()
                if self._form_is_plain
                else flatten_fieldsets(self.model_admin.get_fieldsets(self.request, None))
            )
            self._on_form_cache[self.request.path] = names
        return list(names)

    def _on_plain_form(self) -> list[str]:
        """Do what ModelAdmin.get_fields does and keep the form that it throws away: one class, not two."""
        form = self.model_admin.get_form(self.request, None, change=False, fields=None)
        self._form_cache[False] = form
        return [*form.base_fields, *self.model_admin.get_readonly_fields(self.request, None)]

    @cached_property
    def _form_is_plain(self) -> bool:
        """Tell whether the form has the fields that Django finds, with no say of the project's."""
        cls = type(self.model_admin)
        return not (self.model_admin.fields or self.model_admin.fieldsets or self._form_decides) and all(
            getattr(cls, hook) is getattr(ModelAdmin, hook)
            for hook in ("get_fields", "get_fieldsets", "_get_form_for_get_fields")
        )

    @cached_property
    def _fields_depend_on_record(self) -> bool:
        return (
            any(
                getattr(type(self.model_admin), hook) is not getattr(ModelAdmin, hook)
                for hook in ("get_fields", "get_fieldsets", "get_exclude")
            )
            or self._form_decides
        )

    @cached_property
    def _may_mask(self) -> bool:
        """Tell whether a form of the project's may hide what it holds, or drop fields: the class must tell."""
        ma, cls = self.model_admin, type(self.model_admin)
        overridden = any(
            getattr(cls, hook) is not getattr(ModelAdmin, hook)
            for hook in ("formfield_for_dbfield", "formfield_for_choice_field")
        )
        return (
            self._form_decides
            or ma.form is not ModelForm
            or overridden
            or any(_may_be_password(each) for each in ma.formfield_overrides.values())
            or any(
                not type(field).formfield.__module__.startswith("django.")
                for field in self.model._meta.concrete_fields
            )
        )

    @cached_property
    def _form_decides(self) -> bool:
        """Tell whether a project's own get_form may drop fields that its fieldsets name."""
        for cls in type(self.model_admin).__mro__:
            if "get_form" in vars(cls) and not getattr(vars(cls)["get_form"], "copilot_neutral", False):
                return cls is not ModelAdmin
        return True

    def form_class(self, obj: Any = None, *, change: bool) -> Any:
        """Return the class of the form that this person would get. Raises Refused when a hook fails."""
        if obj is None and change and not self._form_decides and self.can_change:
            change = False  # Django's own get_form makes no other difference, and a class costs a lot
        if obj is None and change in self._form_cache:
            return self._form_cache[change]
        ma, request = self.model_admin, self.request

        def ask() -> Any:
            made = ma.get_form(request, obj, change=change, fields=self._on_form(obj))
            return made if isinstance(made.base_fields, Mapping) else None

        made = ask_hook(ma, "get_form", None, ask)
        if made is None:
            raise Refused("That form can't be opened by the assistant.", code="not_available")
        if obj is None:
            self._form_cache[change] = made
        return made

    def fillable(self, obj: Any = None, *, change: bool) -> tuple[str, ...]:
        """Return the fields that may be filled in for this person on the add or change form, in order."""
        if not (self.may_change(obj) if change else self.can_add):
            return ()
        declared = self._declared_names("get_harness_persist", obj)
        if not declared:
            return ()
        fields = self.form_class(obj, change=change).base_fields
        return tuple(
            dict.fromkeys(
                name
                for name in declared
                if name in fields
                and not fields[name].disabled
                and not isinstance(fields[name].widget, PasswordInput)
                and not never_fillable(self.model, name)
                and self._can_be_proposed(name)
            )
        )

    def _can_be_proposed(self, name: str) -> bool:
        field = model_field(self.model, name)
        if field is None:
            return True
        if field.remote_field is not None:
            return admin_of(self.access.site, field.remote_field.model) is not None
        return isinstance(field, FILLABLE)


def _may_be_password(override: Mapping[str, Any]) -> bool:
    """Tell whether an entry of ``formfield_overrides`` may put what a field holds into a password input."""
    widget, form_class = override.get("widget"), override.get("form_class")
    if isinstance(widget, PasswordInput) or (isinstance(widget, type) and issubclass(widget, PasswordInput)):
        return True
    return form_class is not None and not getattr(form_class, "__module__", "").startswith("django.")
