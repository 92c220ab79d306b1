"""The example store with one record of each kind that matters to who may see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from example_project.store.models import Order

MISSING = 999_999


@dataclass(frozen=True)
class Orders:
    """Keys of orders as support, who works for the north, would see them."""

    own: int
    shipped: int  # of the north
    south: int
    vip: int  # of the north
    missing: int = MISSING

    def pk(self, name: str) -> int:
        return int(getattr(self, name))


@pytest.fixture
def orders(store: Any) -> Orders:
    north = Order.objects.filter(region="north")
    vip = north.filter(customer__vip=True).exclude(status="shipped").first()
    if vip is None:  # the small store may have none
        vip = north.exclude(status="shipped").last()
        vip.customer.vip = True
        vip.customer.save()
    plain = north.filter(customer__vip=False)
    shipped = plain.filter(status="shipped").first()
    if shipped is None:
        shipped = plain.last()
        Order.objects.filter(pk=shipped.pk).update(status="shipped")
    return Orders(
        own=plain.filter(status__in=["pending", "paid"]).exclude(pk=shipped.pk).first().pk,
        shipped=shipped.pk,
        south=Order.objects.filter(region="south", customer__vip=False).exclude(status="shipped").first().pk,
        vip=vip.pk,
    )


@pytest.fixture
def people(store: Any) -> None:
    """Add those whom the demo has not: staff without use_copilot, no staff, and somebody who left."""
    users = get_user_model().objects
    permissions = Permission.objects.filter(content_type__app_label="store")
    use = Permission.objects.get(codename="use_copilot")
    for username, fields, may_use in (
        ("plain", {"is_staff": True}, False),
        ("outsider", {"is_staff": False}, True),
        ("gone", {"is_staff": True, "is_active": False}, True),
        ("gone_root", {"is_staff": True, "is_active": False, "is_superuser": True}, True),
        ("root_outsider", {"is_staff": False, "is_superuser": True}, True),
        ("only_use", {"is_staff": True}, True),
    ):
        user = users.create_user(username, **fields)
        if username != "only_use":
            user.user_permissions.set(permissions)
        if may_use:
            user.user_permissions.add(use)
