"""What the store's own rules ask of a person: is she a manager, and which region does she work for?

The rules themselves are in ``admin.py``, in Django's own hooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from .models import StaffProfile

MANAGERS = "managers"


@dataclass(frozen=True)
class Staff:
    """What the rules need to know of one person. ``region`` is "" for somebody without one."""

    is_manager: bool  # superusers too
    region: str


def staff_of(request: HttpRequest) -> Staff:
    """Return what the rules need to know of the person of a request, asked of the database once.

    It is kept on the user object, which lives as long as its request: the hooks of a list run for every
    row. A user loaded anew is asked for anew.
    """
    user: Any = request.user
    staff: Staff | None = getattr(user, "_store_staff", None)
    if staff is None:
        staff = user._store_staff = _load(user)
    return staff


def _load(user: Any) -> Staff:
    if not user.is_active or not user.is_authenticated:
        return Staff(is_manager=False, region="")
    if user.is_superuser or user.groups.filter(name=MANAGERS).exists():
        return Staff(is_manager=True, region="")
    region = StaffProfile.objects.filter(user_id=user.pk).values_list("region", flat=True).first()
    return Staff(is_manager=False, region=region or "")
