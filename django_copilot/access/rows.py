"""Rows and permissions of one registered ModelAdmin, as one person has them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.admin import ModelAdmin
from django.db import models

from ..exceptions import Refused

if TYPE_CHECKING:
    from .person import Access

logger = logging.getLogger("django_copilot")
T = TypeVar("T")

NOT_FOUND = "There is no such record, or this person may not see it."


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


# Modules whose hooks add nothing to Django's own: they hand on to the next class.
_NEUTRAL = ("django.contrib.admin.options", "simple_history.admin")


def _is_own(cls: type, hook: str) -> bool:
    """Tell whether a hook of a ModelAdmin class is the project's, and so may say anything of single records."""
    return any(
        getattr(vars(each)[hook], "__module__", "") not in _NEUTRAL
        for each in cls.__mro__
        if hook in vars(each)
    )


class RowAccess:
    """Rows of one registered ModelAdmin, declared or not, as this person may see them."""

    def __init__(self, access: Access, model_admin: ModelAdmin[Any]) -> None:
        self.access = access
        self.request = access.request
        self.model_admin = model_admin
        self.model: type[models.Model] = model_admin.model

    def _may(self, verb: str, *obj: Any) -> bool:
        hook = f"has_{verb}_permission"
        return ask_hook(
            self.model_admin, hook, False, lambda: bool(getattr(self.model_admin, hook)(self.request, *obj))
        )

    def may_view(self, obj: Any = None) -> bool:
        """Tell whether the person may view or change this record, or any when there is none."""
        return self._may("view_or_change", obj)

    @property
    def asks_per_row(self) -> bool:
        """Tell whether the project decides on single records, so that more rows are read than shown."""
        hooks = ("has_view_permission", "has_change_permission", "has_view_or_change_permission")
        return any(_is_own(type(self.model_admin), hook) for hook in hooks)

    def queryset(self) -> models.QuerySet[Any]:
        """Return the person's rows, with the related records that checks per row need. Raises Refused."""
        qs = ask_hook(
            self.model_admin, "get_queryset", None, lambda: self.model_admin.get_queryset(self.request)
        )
        if qs is None or qs.query.is_sliced:
            raise Refused(NOT_FOUND, code="not_found")
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
