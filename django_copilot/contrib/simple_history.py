"""django-simple-history: who saved a record, and because of which plan."""

from __future__ import annotations

from typing import Any


def _is_tracked(obj: Any) -> bool:
    return hasattr(type(obj)._meta, "simple_history_manager_attribute")


def note_plan(obj: Any, user: Any, plan_id: Any) -> None:
    """Let the next save of a tracked record name the person and the plan in its history."""
    if _is_tracked(obj):
        obj._history_user = user
        obj._change_reason = f"copilot plan {plan_id}"


def who_changed(obj: Any, since: Any) -> tuple[str, Any]:
    """Return who changed a tracked record last since then and when, or ("", None)."""
    if not _is_tracked(obj):
        return "", None
    records = getattr(type(obj), type(obj)._meta.simple_history_manager_attribute)
    latest = (
        records.filter(**{obj._meta.pk.attname: obj.pk}, history_date__gte=since)
        .order_by("-history_date")
        .first()
    )
    if latest is None or latest.history_user is None:
        return "", None
    return str(latest.history_user), latest.history_date
