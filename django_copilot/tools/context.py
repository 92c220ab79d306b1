"""What a write tool's function is given: the one way in which it reads.

Every record that it hands out is the person's own (her rows, her rights on that record) and is bound to the
plan with its version, so that whoever confirms or approves is known to see it, and a change of it is noticed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import models

from ..access import NOT_FOUND, Access, EntityAccess
from ..exceptions import Refused
from ..identity import key_text
from ..snapshots import record_version
from .guard import through_context

M = TypeVar("M", bound=models.Model)
MAX_LIST = 200
MAX_FITTING = 20  # records that are asked about to find the one that is hers


class Bound:
    """A record that a preview has read, as it was then."""

    def __init__(self, entity: EntityAccess, obj: models.Model, verb: str) -> None:
        self.entity, self.verb = entity, verb
        self.model = obj._meta.label_lower
        self.pk = key_text(type(obj), obj.pk)
        self.version = record_version(obj)
        self.label = str(obj)
        self.before = copy.deepcopy(obj)  # whatever the tool does to the one that it got


class Context:
    """Reads for one person. Raises Refused for what is not hers, with one text for every reason."""

    def __init__(self, access: Access, verb: str) -> None:
        self._access, self._verb = access, verb
        self.bound: dict[tuple[str, str], Bound] = {}

    @property
    def person(self) -> Any:
        """Return the person for whom this is done."""
        return self._access.request.user

    def has_perm(self, permission: str) -> bool:
        """Tell whether the person has a permission, "app.codename"."""
        with through_context():
            return bool(self.person.has_perm(permission))

    def get(self, model: type[M], **lookup: Any) -> M:
        """Return the one record of her rows on which she has the tool's verb. Raises Refused."""
        found: M = self._find(model, self._verb, lookup)
        return found

    def look_up(self, model: type[M], **lookup: Any) -> M:
        """Return the one record of her rows that she may view. Raises Refused."""
        found: M = self._find(model, "view", lookup)
        return found

    def related(self, record: models.Model, name: str) -> Any:
        """Return the record that a foreign key points to, None if it points to none. Raises Refused."""
        field: Any = record._meta.get_field(name)
        pk = getattr(record, field.attname)
        if pk is None:
            return None
        return self._find(field.remote_field.model, "view", {field.target_field.name: pk})

    def list(self, model: type[M], **lookup: Any) -> Sequence[M]:
        """Return those records of her rows that she may view, at most 200. Raises Refused when there are more."""
        with self._reading(model) as entity:
            found = self._candidates(entity, lookup, MAX_LIST + 1)
            if len(found) > MAX_LIST:
                raise Refused(f"More than {MAX_LIST} records would be touched; that is too many at once.")
            return [self._bind(entity, obj, "view") for obj in found if self._may(entity, obj, "view")]

    def unscoped(self, model: type[M]) -> models.QuerySet[M]:
        """Return all rows of a model, whoever may see them: for sums and rules, never to be shown."""
        if model._meta.app_label == "django_copilot":
            raise Refused(NOT_FOUND, code="not_found")
        rows = model._base_manager.all()
        cls = type(rows)
        rows.__class__ = type(f"Unscoped{cls.__name__}", (_Unscoped, cls), {})
        return rows

    def knows(self, record: models.Model) -> bool:
        """Tell whether a record was handed out here."""
        return (record._meta.label_lower, key_text(type(record), record.pk)) in self.bound

    # -- how -----------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, model: Any) -> Iterator[EntityAccess]:
        with through_context():
            entity = self._access.registered(model)
            if entity is None:
                raise Refused(NOT_FOUND, code="not_found")
            with entity.at("changelist"):
                yield entity

    def _candidates(self, entity: EntityAccess, lookup: dict[str, Any], most: int) -> Sequence[Any]:
        """Return the first records, each once, however often a join gives one of them."""
        rows = entity.queryset().order_by("pk").filter(**lookup)
        found: dict[Any, Any] = {}
        while len(found) < most:
            known = len(found)
            more = list((rows.exclude(pk__in=list(found)) if found else rows)[:most])
            found.update((obj.pk, obj) for obj in more)
            if len(more) < most or len(found) == known:
                break
        return list(found.values())[:most]

    def _find(self, model: Any, verb: str, lookup: dict[str, Any]) -> Any:
        with self._reading(model) as entity:
            found = self._candidates(entity, lookup, MAX_FITTING + 1)
            allowed = [obj for obj in found if self._may(entity, obj, verb)]
            if not allowed:
                raise Refused(NOT_FOUND, code="not_found")
            if len(allowed) > 1 or len(found) > MAX_FITTING:
                raise Refused("More than one record fits.", code="ambiguous")
            return self._bind(entity, allowed[0], verb)

    def _may(self, entity: EntityAccess, obj: Any, verb: str) -> bool:
        with entity.at("change", obj):
            if not entity.may_view(obj):
                return False
            if verb == "add":
                return entity.can_add
            return verb == "view" or (entity.may_change(obj) if verb == "change" else entity.may_delete(obj))

    def _bind(self, entity: EntityAccess, obj: Any, verb: str) -> Any:
        bound = Bound(entity, obj, verb)
        known = self.bound.get((bound.model, bound.pk))
        if known is None or known.verb == "view":
            self.bound[bound.model, bound.pk] = bound
        obj._state.fields_cache.clear()  # whoever follows a relation asks for it, and for the right to
        return obj


class _Unscoped(models.QuerySet):  # type: ignore[type-arg]
    """A queryset whose own reads count as the context's."""

    def _fetch_all(self) -> None:
        with through_context():
            super()._fetch_all()

    def iterator(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Read as usual, at once: what is done between two rows is the tool's."""
        return iter(self)

    def aggregate(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Read as usual."""
        with through_context():
            return super().aggregate(*args, **kwargs)

    def count(self) -> int:
        """Read as usual."""
        with through_context():
            return super().count()

    def exists(self) -> bool:
        """Read as usual."""
        with through_context():
            return super().exists()
