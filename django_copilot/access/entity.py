"""One entity as one person may use it: its rights, its fields, and its records by the ids a model knows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from django.contrib.admin.utils import quote
from django.db import models

from ..exceptions import CallError, Refused
from ..identity import dereference, is_reference, key_is_data, key_text, own_key, parse_key, refer
from ..references import is_row
from ..scope import at_page, page_url
from .asking import AskAccess
from .rows import NOT_FOUND


class EntityAccess(AskAccess):
    """One entity as one person may use it."""

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

    @property
    def told_by_ids(self) -> dict[str, tuple[str, ...]]:
        """Return the fields, by entity, whose values ``ids`` gives away where keys are named by themselves."""
        if not key_is_data(self.model) or not self._key_is_named:
            return {}
        field = own_key(self.model)
        told: dict[str, tuple[str, ...]] = {self.entity.label: (field.name,)}
        if field.remote_field is not None:
            related = self.access.of_model(field.remote_field.model)
            told |= related.told_by_ids if related is not None else {}
        return told

    def keys(self, given: Any) -> list[Any]:
        """Return the key that an id from the model names, or nothing where that would tell of a hidden one.

        Raises CallError when it is no proper id.
        """
        if is_row(given):
            return [self._referred(given)]
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

    def _referred(self, given: str) -> Any:
        """Return the key of a row that this conversation showed. Whether it may be seen today is asked later."""
        found = self.access.references.find(given)
        if found is None or found[0] != self.entity.label:
            raise CallError(
                f"{given} names no record of this kind in this conversation.", code="unknown_reference"
            )
        return parse_key(self.model, found[1])

    def find(self, given: Any) -> Any:
        """Return the record of an id from the model. Raises CallError: the same for every hidden reason."""
        for key in self.keys(given):
            return self._record(key)
        raise Refused(NOT_FOUND, code="not_found")

    def record(self, text: str) -> Any:
        """Return the record of a key's canonical text, as addresses and plans hold it. Raises CallError."""
        return self._record(parse_key(self.model, text))

    def _record(self, pk: Any) -> Any:
        with at_page(self.request, self.model_admin, "change", quote(pk)):
            found = {obj.pk: obj for obj in self.queryset().order_by().filter(models.Q(("pk", pk)))[:2]}
            for obj in found.values():
                if self.may_view(obj):
                    return obj
        raise Refused(NOT_FOUND, code="not_found")

    def page_url(self, page: str, obj: Any = None) -> str:
        """Return the path of an admin page of this entity ("add", "change", "delete", "changelist")."""
        return page_url(self.model_admin, page, quote(obj.pk) if obj is not None else None)

    def at(self, page: str, obj: Any = None) -> Any:
        """Enter the request of that admin page, for hooks that look at the address."""
        return at_page(self.request, self.model_admin, page, quote(obj.pk) if obj is not None else None)
