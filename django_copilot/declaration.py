"""What a project declares, and the entities that follow from it.

Pure declaration: nothing here knows a person. ``access`` meets it with her rights.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.http import HttpRequest

# Names that look like secrets.
SECRET = re.compile(
    r"pass(word|wd|phrase|code)|token|secret|credential|(api|private|access|encryption)_?key"
    r"|(^|_)(hash|salt|otp|totp|pin|pwd|cvc|cvv|iban|ssn|pesel|mfa|2fa)(_|$)",
    re.IGNORECASE,
)
# Names that look like what tells who somebody is, or how to reach her.
PERSONAL = re.compile(
    r"e_?mail|phone|mobile|(^|_)(mail|tel|fax|street|address|postcode|postal_code|zip|zip_code|birth|birthday|dob"
    r"|passport|tax_?id|nip|vat_id|national_id|first_name|last_name|surname|full_name|gender|religion"
    r"|ip|ip_address|latitude|longitude|salary)(_|$)|birth_?date|date_of_birth",
    re.IGNORECASE,
)
LOOKUPS = {"range": ("gte", "gt", "lte", "lt"), "in": ("in",), "isnull": ("isnull",)}
NAME_LENGTH = 49  # what the longest tool name leaves of 64 characters


class Declaration:
    """The part of HarnessMixin that projects write. Nothing declared, nothing exposed."""

    harness_list: Sequence[str] = ()
    harness_persist: Sequence[str] = ()
    harness_show: Sequence[str] = ()  # the person sees these values in her table, the model gets handles
    harness_search: bool = False  # the admin's own search, over those of its fields that may be read
    harness_lookups: Mapping[str, Sequence[str]] = {}  # field → some of LOOKUPS
    harness_from_admin: bool = False  # search_fields, list_filter and date_hierarchy stand for the two above
    harness_inlines: Mapping[str, Sequence[str]] = {}  # accessor of the inline's rows → fields of them
    harness_computed: Sequence[str] = ()  # columns of list_display that are no fields, read as text
    harness_history: bool = False  # who changed what of a record, where django-simple-history keeps it
    harness_actions: Sequence[str] = ()  # actions of the admin that may be chosen on its opened list
    harness_silence: Mapping[str, Sequence[str]] = {}  # id of a check's warning → fields it is not about

    def get_harness_list(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        """Return the fields that the assistant may read, for this request and record."""
        return self.harness_list

    def get_harness_persist(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        """Return the fields that the assistant may fill in, for this request and record."""
        return self.harness_persist

    def get_harness_show(self, request: HttpRequest, obj: Any = None) -> Sequence[str]:
        """Return the fields that are shown to the person and kept from the model, for this request and record."""
        return self.harness_show

    def get_harness_rows(self, request: HttpRequest, queryset: Any) -> Any:
        """Return the queryset narrowed to exactly the records that ``has_view_permission`` lets this person view.

        Only for admins that decide on single records: with it they can be counted and summed in the database.
        What a query shows is still asked for record by record.
        """
        return queryset


def is_declared(model_admin: Any) -> bool:
    """Tell whether this ModelAdmin declares anything, by attribute or by hook."""
    if not isinstance(model_admin, Declaration) or model_admin.opts.app_label == "django_copilot":  # type: ignore[attr-defined]
        return False
    cls = type(model_admin)
    return bool(
        model_admin.harness_list
        or model_admin.harness_persist
        or model_admin.harness_show
        or cls.get_harness_list is not Declaration.get_harness_list
        or cls.get_harness_persist is not Declaration.get_harness_persist
        or cls.get_harness_show is not Declaration.get_harness_show
    )


@dataclass(frozen=True, eq=False)
class Entity:
    """A ModelAdmin with a harness on one AdminSite. ``name`` is its name in tools."""

    name: str
    model_admin: Any

    @cached_property
    def model(self) -> type[models.Model]:
        """Return the model class."""
        model: type[models.Model] = self.model_admin.model
        return model

    @cached_property
    def label(self) -> str:
        """Return "app_label.modelname", as stored."""
        label: str = self.model._meta.label_lower
        return label


def entities_of(site: AdminSite) -> Mapping[str, Entity]:
    """Return the declared entities of a site by tool name. Clashing model names carry their app's label.

    What is declared is asked each time; the names are kept with the site as long as that is the same.
    """
    declared = tuple(each for each in site._registry.values() if is_declared(each))
    kept: tuple[tuple[Any, ...], Mapping[str, Entity]] | None = getattr(site, "_copilot_entities", None)
    if kept is None or kept[0] != declared:
        kept = declared, MappingProxyType(_named(declared))
        site._copilot_entities = kept  # type: ignore[attr-defined]
    return kept[1]


def _named(declared: Sequence[Any]) -> dict[str, Entity]:
    short = Counter(_ascii(each.opts.model_name or "") for each in declared)
    entities: dict[str, Entity] = {}
    for model_admin in declared:
        model_name = model_admin.opts.model_name or ""
        name = _ascii(model_name)
        if short[name] > 1 or not name:
            name = f"{_ascii(model_admin.opts.app_label)}__{name}"
        if len(name) > NAME_LENGTH or name in entities or not model_name.isascii():
            digest = hashlib.sha256(model_admin.opts.label_lower.encode()).hexdigest()[:8]
            name = f"{name[: NAME_LENGTH - 9]}_{digest}"
        entities[name] = Entity(name, model_admin)
    return entities


def has_entities(site: AdminSite) -> bool:
    """Tell whether anything is declared on the site at all."""
    return any(is_declared(each) for each in site._registry.values())


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_-]", "", plain)


def model_field(model: type[models.Model], name: str) -> Any:
    """Return the model's own field of that exact name, or None: no lookups, aliases or reverse relations."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    if field.name != name or (field.auto_created and not field.concrete):
        return None
    return field if isinstance(field, models.Field) else None


def never_readable(model: type[models.Model], name: str) -> bool:
    """Tell whether a field may never go to a model, declared or not.

    Binary data, password hashes, and what has neither a column nor rows of its own, as generic relations.
    """
    field = model_field(model, name)
    return (
        field is None
        or not (field.concrete or field.many_to_many)
        or isinstance(field, models.BinaryField)
        or (name == "password" and issubclass(model, AbstractBaseUser))
    )


def never_fillable(model: type[models.Model], name: str) -> bool:
    """Tell whether a field may never be proposed: files, binary data, password hashes."""
    field = model_field(model, name)
    if field is None:
        return False  # a field of the form only; the form decides
    return isinstance(field, models.FileField | models.FilePathField | models.BinaryField) or (
        name == "password" and issubclass(model, AbstractBaseUser)
    )


PRIVILEGES = frozenset({"is_superuser", "is_staff", "is_active", "groups", "user_permissions", "permissions"})


def admin_of(site: AdminSite, model: Any) -> ModelAdmin[Any] | None:
    """Return the ModelAdmin registered for exactly this model class on the site."""
    found: ModelAdmin[Any] | None = site._registry.get(model)
    return found
