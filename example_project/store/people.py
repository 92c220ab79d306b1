"""The people of the demo: groups, what they may do, and one account for each kind of person.

All accounts have the same public password, so nothing of this is for a store on the internet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from .access import MANAGERS
from .models import Region, StaffProfile

PASSWORD = "copilot"

SUPPORT = "support"
VIEWERS = "viewers"
AUDITORS = "auditors"
SERVICE_ACCOUNTS = "service accounts"

_EVERYTHING = "store.*"
_SUPPORT_PERMISSIONS = (
    "store.view_customer",
    "store.change_customer",
    "store.view_order",
    "store.change_order",
    "store.view_orderline",
    "store.change_orderline",
    "store.view_product",
    "store.view_category",
    "store.view_tag",
    "store.view_payment",
    "store.propose_refund",
    "django_copilot.use_copilot",
)

GROUPS: dict[str, tuple[str, ...]] = {
    MANAGERS: (
        _EVERYTHING,
        "django_copilot.use_copilot",
        "django_copilot.approve_plan",
        "django_copilot.view_metrics",
    ),
    SUPPORT: _SUPPORT_PERMISSIONS,
    VIEWERS: (
        "store.view_product",
        "store.view_category",
        "store.view_tag",
        "django_copilot.use_copilot",
    ),
    AUDITORS: ("django_copilot.view_audit",),
    SERVICE_ACCOUNTS: (),  # a mark, not a right: its members decide nothing
}


@dataclass(frozen=True, kw_only=True)
class Account:
    """One account of the demo. ``permissions`` are the account's own, beside those of its group."""

    username: str
    first_name: str
    last_name: str
    what: str  # printed by the demo
    group: str = ""
    region: str = ""
    is_superuser: bool = False
    permissions: tuple[str, ...] = ()


ACCOUNTS: tuple[Account, ...] = (
    Account(
        username="admin",
        first_name="Ada",
        last_name="Lis",
        what="superuser",
        is_superuser=True,
    ),
    Account(
        username="manager",
        first_name="Maria",
        last_name="Nowak",
        what="manager: everything in the store, approves plans",
        group=MANAGERS,
    ),
    Account(
        username="manager2",
        first_name="Marek",
        last_name="Zieliński",
        what="a second manager, to approve what the first one asked for",
        group=MANAGERS,
    ),
    Account(
        username="support",
        first_name="Sofia",
        last_name="Lindqvist",
        what="support, region north: customers and orders, no VIP orders",
        group=SUPPORT,
        region=Region.NORTH,
    ),
    Account(
        username="viewer",
        first_name="Victor",
        last_name="Moreau",
        what="views products, categories and tags",
        group=VIEWERS,
    ),
    Account(
        username="auditor",
        first_name="Anna",
        last_name="Keller",
        what="reads the audit and nothing else",
        group=AUDITORS,
    ),
    Account(
        username="bot",
        first_name="Store",
        last_name="Bot",
        what="service account: like support, but never confirms or approves",
        group=SERVICE_ACCOUNTS,
        region=Region.NORTH,
        permissions=_SUPPORT_PERMISSIONS,
    ),
)


@transaction.atomic
def create_people() -> int:
    """Create the groups and accounts that are missing, and return how many accounts were made.

    An account that is there keeps its password and everything else; a group that is there gets the
    permissions it lacks. Raises ImproperlyConfigured for a permission that no installed app defines.
    """
    groups = {}
    for name, permissions in GROUPS.items():
        groups[name], _created = Group.objects.get_or_create(name=name)
        groups[name].permissions.add(*_find(permissions))
    users = get_user_model().objects
    there = set(
        users.filter(username__in=[each.username for each in ACCOUNTS]).values_list("username", flat=True)
    )
    missing = [each for each in ACCOUNTS if each.username not in there]
    hashed = make_password(PASSWORD) if missing else ""  # slow on purpose, so once for all
    for account in missing:
        user = users.create(
            username=account.username,
            first_name=account.first_name,
            last_name=account.last_name,
            email=f"{account.username}@store.example",
            password=hashed,
            is_staff=True,
            is_superuser=account.is_superuser,
        )
        if account.group:
            user.groups.add(groups[account.group])
        user.user_permissions.add(*_find(account.permissions))
        if account.region:
            StaffProfile.objects.create(user=user, region=account.region)
    return len(missing)


def _find(names: Iterable[str]) -> list[Permission]:
    found: list[Permission] = []
    for name in names:
        app_label, codename = name.split(".")
        permissions = Permission.objects.filter(content_type__app_label=app_label)
        if name != _EVERYTHING:
            permissions = permissions.filter(codename=codename)
        if not permissions:
            raise ImproperlyConfigured(
                f"There is no permission {name}. Is {app_label} installed and migrated?"
            )
        found.extend(permissions)
    return found
