"""What this person may read, fill in and touch: the declaration met with her own rights, per request.

The only place that asks a ModelAdmin about permissions, fields and rows for the assistant. Every answer is
the AND of two independent checks, for superusers too. An exception in a project's hook is a no, and is
logged with the hook's name.

An ``Access`` lives for one piece of work (one tool call, or the preparation of one turn) and may cache
within it; rights are never carried over to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.utils import flatten_fieldsets, quote
from django.db import models
from django.forms import PasswordInput

from .declaration import (
    Entity,
    admin_of,
    entities_of,
    is_declared,
    model_field,
    never_fillable,
    never_readable,
)
from .exceptions import CallError, Refused
from .identity import dereference, is_reference, key_is_data, key_text, own_key, parse_key, refer
from .scope import PERMISSION, ScopedRequest, at_page, page_url
from .values import FILLABLE

logger = logging.getLogger("django_copilot")
T = TypeVar("T")

NOT_FOUND = "There is no such record, or this person may not see it."


def may_use(site: AdminSite, user: Any, request: Any) -> str:
    """Return "" for a person who may use the copilot on the site, else "not_staff" or "not_allowed"."""
    if not site.has_permission(request):
        return "not_staff"
    return "" if user.has_perm(PERMISSION) else "not_allowed"


def may_do_anything(site: AdminSite, request: Any) -> bool:
    """Tell whether the person of a page's own request can do anything declared; stops at the first."""

    def may(model_admin: Any, hook: str) -> bool:
        return bool(ask_hook(model_admin, hook, False, lambda: getattr(model_admin, hook)(request)))

    hooks = ("has_view_or_change_permission", "has_add_permission", "has_delete_permission")
    return any(
        may(each, "has_module_permission") and any(may(each, hook) for hook in hooks)
        for each in site._registry.values()
        if is_declared(each)
    )


def ask_hook(model_admin: Any, hook: str, default: T, question: Callable[[], T]) -> T:
    """Return a hook's answer; its exception is logged and reads as ``default``, which must be the safe one."""
    try:
        return question()
    except Exception:
        logger.exception(
            "%s.%s failed for the copilot and is taken as a no. If it needs something that middleware sets, "
            "set it in the enter of COPILOT['SCOPE'].",
            type(model_admin).__name__,
            hook,
        )
        return default


class Access:
    """The rights of one person on one site, asked on a request built from her stored scope."""

    def __init__(self, site: AdminSite, request: ScopedRequest) -> None:
        self.site = site
        self.request = request
        self._known: dict[str, EntityAccess] = {}

    def check_person(self) -> None:
        """Raise Refused unless the person may use the copilot on this site now."""
        code = may_use(self.site, self.request.user, self.request)
        if code:
            raise Refused(code, "This person may not use the assistant here any more.")

    @cached_property
    def _declared(self) -> Mapping[str, Entity]:
        return entities_of(self.site)

    @cached_property
    def _by_model(self) -> dict[Any, Entity]:
        return {each.model: each for each in self._declared.values()}

    def entity_of(self, model: Any) -> Entity | None:
        """Return the entity of exactly this model class, usable or not, if it is declared."""
        return self._by_model.get(model)

    def all(self) -> Iterator[EntityAccess]:
        """Go through the declared entities, usable or not, in the site's order."""
        for entity in self._declared.values():
            yield self.of(entity)

    def declared(self) -> Collection[Entity]:
        """Return the declared entities in the site's order, before anything is asked about rights."""
        return self._declared.values()

    def named(self, names: Collection[str]) -> list[EntityAccess]:
        """Return the declared entities of these names, usable or not, in the site's order."""
        return [self.of(entity) for name, entity in self._declared.items() if name in names]

    def usable(self) -> Iterator[EntityAccess]:
        """Go through the entities that this person can do anything with."""
        return (each for each in self.all() if each.is_usable)

    def entity(self, name: str) -> EntityAccess | None:
        """Return a usable entity by its name in tools."""
        entity = self._declared.get(name)
        access = self.of(entity) if entity is not None else None
        return access if access is not None and access.is_usable else None

    def labelled(self, label: str) -> EntityAccess | None:
        """Return a usable entity by "app_label.modelname"."""
        for entity in self._declared.values():
            if entity.label == label:
                access = self.of(entity)
                return access if access.is_usable else None
        return None

    def of_model(self, model: Any) -> EntityAccess | None:
        """Return the usable entity of exactly this model class."""
        entity = self._by_model.get(model)
        access = self.of(entity) if entity is not None else None
        return access if access is not None and access.is_usable else None

    def of(self, entity: Entity) -> EntityAccess:
        """Return a declared entity as this person may use it."""
        found = self._known.get(entity.name)
        if found is None:
            found = self._known[entity.name] = EntityAccess(self, entity)
        return found


class RowAccess:
    """Rows of one registered ModelAdmin, declared or not, as this person may see them."""

    def __init__(self, access: Access, model_admin: ModelAdmin[Any]) -> None:
        self.access = access
        self.request = access.request
        self.model_admin = model_admin
        self.model: type[models.Model] = model_admin.model

    def _may(self, verb: str, *obj: Any) -> bool:
        hook = f"has_{verb}_permission"
        return bool(
            ask_hook(
                self.model_admin, hook, False, lambda: getattr(self.model_admin, hook)(self.request, *obj)
            )
        )

    def may_view(self, obj: Any = None) -> bool:
        """Tell whether the person may view or change this record, or any when there is none."""
        return self._may("view_or_change", obj)

    @property
    def asks_per_row(self) -> bool:
        """Tell whether the project decides on single records, so that more rows are read than shown."""
        return any(
            getattr(type(self.model_admin), hook) is not getattr(ModelAdmin, hook)
            for hook in ("has_view_permission", "has_change_permission", "has_view_or_change_permission")
        )

    def queryset(self) -> models.QuerySet[Any]:
        """Return the person's rows, with the related records that checks per row need. Raises Refused."""
        qs = ask_hook(
            self.model_admin, "get_queryset", None, lambda: self.model_admin.get_queryset(self.request)
        )
        if qs is None or qs.query.is_sliced:
            raise Refused("not_found", NOT_FOUND)
        none: Any = False
        related = ask_hook(
            self.model_admin,
            "get_list_select_related",
            none,
            lambda: self.model_admin.get_list_select_related(self.request),
        )
        if related is True:
            return qs.select_related()
        return qs.select_related(*related) if related else qs

    def visible(self, pks: set[Any]) -> dict[Any, Any]:
        """Return those records among the keys that the person may view, by key, with one query."""
        if not pks or not self.may_view():
            return {}
        found = self.queryset().order_by().filter(models.Q(("pk__in", pks)))
        return {obj.pk: obj for obj in found if self.may_view(obj)}


def related_rows(access: Access, model: Any) -> RowAccess | None:
    """Return the rows of a related model as its own admin gives them, or None if it isn't registered here."""
    model_admin = admin_of(access.site, model)
    return RowAccess(access, model_admin) if model_admin is not None else None


class EntityAccess(RowAccess):
    """One entity as one person may use it."""

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
        hook = "has_module_permission"
        return bool(
            ask_hook(
                self.model_admin, hook, False, lambda: self.model_admin.has_module_permission(self.request)
            )
        ) and (self.can_view or self.can_add or self.can_delete)

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
        names: Any = ask_hook(
            self.model_admin, hook, (), lambda: getattr(self.model_admin, hook)(self.request, obj)
        )
        return [name for name in names if isinstance(name, str)] if not isinstance(names, str) else []

    def declared(self, obj: Any = None) -> set[str]:
        """Return every name in either list of the declaration."""
        return {
            *self._declared_names("get_harness_list", obj),
            *self._declared_names("get_harness_persist", obj),
        }

    @cached_property
    def _readable(self) -> tuple[str, ...]:
        return self._readable_for(None) if self.can_view else ()

    def readable(self, obj: Any = None) -> tuple[str, ...]:
        """Return the fields that the model may get of this record (None: of records in general), in order.

        The caller has established that the person may view the record.
        """
        return self._readable if obj is None else self._readable_for(obj)

    def _readable_for(self, obj: Any) -> tuple[str, ...]:
        declared = self._declared_names("get_harness_list", obj)
        shown = self._shown(obj)
        return tuple(
            dict.fromkeys(name for name in declared if name in shown and not never_readable(self.model, name))
        )

    def _shown(self, obj: Any) -> frozenset[str]:
        """Return the fields that this person's admin shows: on the form or read-only, and in the list.

        Which of them depend on the record is known from the hooks that the project overrides, so that the
        ordinary case costs no form class per row.
        """
        ma, request = self.model_admin, self.request
        readonly = ask_hook(
            ma, "get_readonly_fields", None, lambda: tuple(ma.get_readonly_fields(request, obj))
        )
        if readonly is None:
            return frozenset()
        key: Any = readonly
        if obj is not None and self._fields_depend_on_record:
            key = None
        if key is not None and key in self._shown_cache:
            return self._shown_cache[key]

        def ask() -> frozenset[str]:
            on_form = set(self._on_form(obj))
            # Who may only view is shown the fields as text, by a form without a single editable one.
            if self._form_decides and (obj is None or self.may_change(obj)):
                form = ma.get_form(request, obj, change=obj is not None, fields=None)
                on_form &= {*form.base_fields, *readonly}
            return frozenset(on_form) | {
                name for name in ma.get_list_display(request) if isinstance(name, str)
            }

        shown: frozenset[str] = ask_hook(ma, "get_fieldsets", frozenset(), ask)
        if key is not None:
            self._shown_cache[key] = shown
        return shown

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
        made = ask_hook(
            ma,
            "get_form",
            None,
            lambda: ma.get_form(request, obj, change=change, fields=self._on_form(obj)),
        )
        if made is None:
            raise Refused("not_available", "That form can't be opened by the assistant.")
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

    # -- records -----------------------------------------------------------------------------------

    @cached_property
    def _key_is_named(self) -> bool:
        """Tell whether keys are named by themselves at all, where they are data."""
        field = own_key(self.model)
        if not self.can_view or field.name not in self.readable():
            return False
        if field.remote_field is None:
            return True
        related = self.access.of_model(field.remote_field.model)
        return field.target_field.primary_key and related is not None and related._key_is_named

    def _named(self, objects: Iterable[Any]) -> set[Any]:
        """Return the keys, of these viewable records, that the model may get although they are data.

        A key that is another record's is shown where that record's own key is, on that very record.
        """
        if not self._key_is_named:
            return set()
        field = own_key(self.model)
        named = {obj.pk for obj in objects if field.name in self.readable(obj)}
        if field.remote_field is None:
            return named
        related = self.access.of_model(field.remote_field.model)
        return related._named(related.visible(named).values()) if related is not None else set()

    def ids(self, objects: Iterable[Any]) -> dict[Any, str]:
        """Return the names, towards the model, of records that the person may view, by key."""
        objects = list(objects)
        if not key_is_data(self.model):
            return {obj.pk: key_text(self.model, obj.pk) for obj in objects}
        named = self._named(objects)
        hidden = [obj.pk for obj in objects if obj.pk not in named]
        return {pk: key_text(self.model, pk) for pk in named} | refer(self.request, self.model, hidden)

    def keys(self, given: Any) -> list[Any]:
        """Return the key that an id from the model names, or nothing where that would tell of a hidden one.

        Raises CallError when it is no proper id.
        """
        if not key_is_data(self.model):
            return [parse_key(self.model, given)]
        if not self._key_is_named or is_reference(given):
            try:
                return [dereference(self.request, self.model, given)]
            except CallError:
                if not self._key_is_named:
                    raise
        key = parse_key(self.model, given)
        with at_page(self.request, self.model_admin, "changelist", None):
            return list(self._named(self.visible({key}).values()))

    def find(self, given: Any) -> Any:
        """Return the record of an id from the model. Raises CallError: the same for every hidden reason."""
        for key in self.keys(given):
            return self._record(key)
        raise Refused("not_found", NOT_FOUND)

    def record(self, text: str) -> Any:
        """Return the record of a key's canonical text, as addresses and plans hold it. Raises CallError."""
        return self._record(parse_key(self.model, text))

    def _record(self, pk: Any) -> Any:
        with at_page(self.request, self.model_admin, "change", quote(pk)):
            found = {obj.pk: obj for obj in self.queryset().order_by().filter(models.Q(("pk", pk)))[:2]}
            for obj in found.values():
                if self.may_view(obj):
                    return obj
        raise Refused("not_found", NOT_FOUND)

    def page_url(self, page: str, obj: Any = None) -> str:
        """Return the path of an admin page of this entity ("add", "change", "delete", "changelist")."""
        return page_url(self.model_admin, page, quote(obj.pk) if obj is not None else None)

    def at(self, page: str, obj: Any = None) -> Any:
        """Enter the request of that admin page, for hooks that look at the address."""
        return at_page(self.request, self.model_admin, page, quote(obj.pk) if obj is not None else None)
