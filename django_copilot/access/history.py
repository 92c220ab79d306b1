"""The past of one record, where django-simple-history keeps it, as this person's admin lets her look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from .rows import _is_own, ask_hook

if TYPE_CHECKING:
    from .entity import EntityAccess


def may_see_history(entity: EntityAccess, record: Any) -> bool:
    """Tell whether the person may look at the history of a record that she may view, as its page asks it."""
    ma = entity.model_admin
    for hook in ("has_view_history_or_change_history_permission", "has_view_history_permission"):
        if hasattr(ma, hook):
            ask = getattr(ma, hook)
            return ask_hook(ma, hook, False, lambda ask=ask: bool(ask(entity.request, record)))  # type: ignore[misc]
    return True  # Django's own page asks for no more than the right to view the record


def versions_of(entity: EntityAccess, record: Any) -> models.QuerySet[Any] | None:
    """Return the versions that are kept of a record, the newest first, or None where a hook of the project fails."""
    model, ma = entity.model, entity.model_admin
    kept = getattr(model, model._meta.simple_history_manager_attribute)  # type: ignore[attr-defined]
    key = record._meta.pk.attname
    if hasattr(ma, "get_history_queryset") and _is_own(type(ma), "get_history_queryset"):
        rows = ask_hook(
            ma,
            "get_history_queryset",
            None,
            lambda: ma.get_history_queryset(entity.request, kept, key, record.pk),
        )
    else:
        rows = kept.filter(models.Q((key, record.pk)))
    if not isinstance(rows, models.QuerySet) or rows.query.is_sliced:
        return None
    return rows.order_by("-history_date", "-history_id")
