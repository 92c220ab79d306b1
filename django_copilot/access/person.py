"""Who the person is and which entities she can use: where every piece of work for her begins."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any

from django.contrib.admin import AdminSite
from django.db import models

from ..declaration import Entity, admin_of, entities_of, is_declared, model_field
from ..display import display
from ..exceptions import CallError, Refused
from ..references import HANDLE, References, is_handle, parts_of
from ..scope import PERMISSION, ScopedRequest
from ..values import has_choices
from .entity import EntityAccess
from .rows import NOT_FOUND, RowAccess, ask_hook

logger = logging.getLogger("django_copilot")

SPOKEN = 50  # values read out in all answers that are shown at once
SPOKEN_CHARS = 300  # of one of them


def may_use(site: AdminSite, user: Any, request: Any) -> str:
    """Return "" for a person who may use the copilot on the site, else "not_staff" or "not_allowed"."""
    try:
        if not site.has_permission(request):
            return "not_staff"
    except Exception:
        logger.exception(
            "%s.has_permission failed for the copilot and is taken as a no. If it needs something that "
            "middleware sets, set it in the enter of COPILOT['SCOPE'].",
            type(site).__name__,
        )
        return "not_staff"
    return "" if user.has_perm(PERMISSION) else "not_allowed"


def may_do_anything(site: AdminSite, request: Any) -> bool:
    """Tell whether the person of a page's own request can do anything declared; stops at the first."""

    def may(model_admin: Any, hook: str) -> bool:
        return ask_hook(model_admin, hook, False, lambda: bool(getattr(model_admin, hook)(request)))

    hooks = ("has_view_or_change_permission", "has_add_permission", "has_delete_permission")
    return any(
        may(each, "has_module_permission") and any(may(each, hook) for hook in hooks)
        for each in site._registry.values()
        if is_declared(each)
    )


class Access:
    """The rights of one person on one site, asked on a request built from her stored scope."""

    def __init__(self, site: AdminSite, request: ScopedRequest, references: References | None = None) -> None:
        self.site = site
        self.request = request
        self.references = references if references is not None else References()
        self._known: dict[str, EntityAccess] = {}
        self._spoken: dict[str, str] = {}  # what handles stand for

    def check_person(self) -> None:
        """Raise Refused unless the person may use the copilot on this site now."""
        code = may_use(self.site, self.request.user, self.request)
        if code:
            raise Refused("This person may not use the assistant here any more.", code=code)

    @cached_property
    def _declared(self) -> Mapping[str, Entity]:
        return entities_of(self.site)

    @cached_property
    def _by_model(self) -> dict[Any, Entity]:
        return {each.model: each for each in self._declared.values()}

    @cached_property
    def _by_label(self) -> dict[str, Entity]:
        return {each.label: each for each in self._declared.values()}

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
        return self._usable(self._declared.get(name))

    def labelled(self, label: str) -> EntityAccess | None:
        """Return a usable entity by "app_label.modelname"."""
        return self._usable(self._by_label.get(label))

    def of_model(self, model: Any) -> EntityAccess | None:
        """Return the usable entity of exactly this model class."""
        return self._usable(self._by_model.get(model))

    def registered(self, model: Any) -> EntityAccess | None:
        """Return any model registered on the site, declared or not, or None where the person may not use it.

        For write tools, whose developers name the model. What is not declared has no readable field.
        """
        entity = self._by_model.get(model)
        if entity is None:
            model_admin = admin_of(self.site, model)
            if model_admin is None or model._meta.app_label == "django_copilot":
                return None
            entity = Entity(f"~{model._meta.label_lower}", model_admin)
        return self._usable(entity)

    def _usable(self, entity: Entity | None) -> EntityAccess | None:
        access = self.of(entity) if entity is not None else None
        return access if access is not None and access.is_usable else None

    def handled(self, handle: str, field: Any) -> Any:
        """Return the value that a handle stands for, read with the rights of this moment, for a field like its own.

        Raises CallError: for a handle of nothing here, and for a field of another kind.
        """
        source, obj = self._handled(handle)
        if not _holds_alike(source, field):
            raise CallError("That handle can't stand for a value of this field.", code="invalid_handle")
        return source.value_from_object(obj)

    def filled_in(self, given: Any) -> Any:
        """Return a tool's argument with the text that a handle, or each of a list, stands for. Raises CallError."""
        if isinstance(given, list):
            return [self.filled_in(each) for each in given]
        if not is_handle(given):
            return given
        source, obj = self._handled(given)
        if not isinstance(source, models.CharField | models.TextField):
            raise CallError("That handle stands for no text.", code="invalid_handle")
        return source.value_from_object(obj)

    def read_out(self, text: str) -> str:
        """Return a text of the model's as the person reads it: with the values that its handles stand for.

        A handle of nothing that she may see now stays as it is, and so do those beyond the first SPOKEN.
        """

        def value(found: re.Match[str]) -> str:
            handle = found[0]
            if handle not in self._spoken:
                if len(self._spoken) >= SPOKEN:
                    return handle
                try:
                    source, obj = self._handled(handle)
                    self._spoken[handle] = display(source, source.value_from_object(obj))[:SPOKEN_CHARS]
                except CallError:
                    self._spoken[handle] = handle
            return self._spoken[handle]

        return HANDLE.sub(value, text)

    def _handled(self, handle: str) -> tuple[Any, Any]:
        """Return the field and the record of a handle, as they may be seen now. Raises CallError."""
        name, reference = parts_of(handle)
        found = self.references.find(reference)
        entity = self.labelled(found[0]) if found is not None else None
        source = model_field(entity.model, name) if entity is not None else None
        if found is None or entity is None or source is None:
            raise Refused(NOT_FOUND, code="not_found")
        obj = entity.record(found[1])
        with entity.at("changelist"):
            if name not in entity.showable(obj) and name not in entity.readable(obj):
                raise Refused(NOT_FOUND, code="not_found")
        return source, obj

    def of(self, entity: Entity) -> EntityAccess:
        """Return a declared entity as this person may use it."""
        found = self._known.get(entity.name)
        if found is None:
            found = self._known[entity.name] = EntityAccess(self, entity)
        return found


def _holds_alike(source: Any, field: Any) -> bool:
    """Tell whether one field takes what another holds, known from the fields and not from a value."""
    texts = (models.CharField, models.TextField)
    if field is None or source.remote_field is not None or field.remote_field is not None:
        return False
    if isinstance(source, texts) and isinstance(field, texts):
        return not (has_choices(source) or has_choices(field))
    return type(source) is type(field)


def related_rows(access: Access, model: Any) -> RowAccess | None:
    """Return the rows of a related model as its own admin gives them, or None if it isn't registered here."""
    model_admin = admin_of(access.site, model)
    return RowAccess(access, model_admin) if model_admin is not None else None
