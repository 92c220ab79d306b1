"""Who the run acts as: one account for each kind of person that the database knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from ..people import is_service_account
from ..scope import PERMISSION

MOST = 8  # kinds of people


@dataclass(frozen=True)
class Actor:
    """One person of a run. Only the key is kept: rights change under way."""

    pk: Any
    name: str
    kind: str  # "superuser", "service account", "staff", "staff without the permission"

    @property
    def may_chat(self) -> bool:
        """Tell whether the permission to chat was hers when the run began."""
        return self.kind != "staff without the permission"

    def user(self) -> Any:
        """Return the account, freshly loaded."""
        return get_user_model()._default_manager.get(pk=self.pk)


def find_actors(names: Sequence[str] = ()) -> list[Actor]:
    """Return the named accounts, or one of each kind. Raises LookupError for a name that there is not.

    A kind is being superuser or not, a service account or not, and the groups and own permissions.
    """
    users = get_user_model()
    if names:
        found = {
            each.get_username(): each
            for each in users._default_manager.filter(**{f"{users.USERNAME_FIELD}__in": names})
        }
        missing = [name for name in names if name not in found]
        if missing:
            raise LookupError(f"There is no account {', '.join(map(repr, missing))}.")
        return [_actor(found[name]) for name in names]
    kinds: dict[Any, Any] = {}
    for user in users._default_manager.filter(is_active=True, is_staff=True).order_by("pk")[:2_000]:
        kind = (
            user.is_superuser,
            is_service_account(user),
            frozenset() if user.is_superuser else frozenset(user.get_all_permissions()),
        )
        kinds.setdefault(kind, user)
    # Those who may use the copilot first, the least powerful of them before the most.
    chosen = sorted(
        kinds.values(), key=lambda each: (not each.has_perm(PERMISSION), each.is_superuser, each.pk)
    )
    if len(chosen) > MOST:
        superusers = [each for each in chosen if each.is_superuser][:1]
        chosen = [*[each for each in chosen if not each.is_superuser][: MOST - len(superusers)], *superusers]
    return [_actor(each) for each in chosen]


def _actor(user: Any) -> Actor:
    if is_service_account(user):
        kind = "service account"
    elif user.is_superuser:
        kind = "superuser"
    else:
        kind = "staff" if user.has_perm(PERMISSION) else "staff without the permission"
    return Actor(user.pk, user.get_username(), kind)
