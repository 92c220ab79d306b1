"""The person who decides on a plan, as the request says: her session, who really acts, and her scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from ..exceptions import Denied
from ..people import is_service_account, person_key, real_actor
from ..scope import Scope

UNKNOWN = "?"  # key of somebody who acts as another person and can't be named


@dataclass(frozen=True, kw_only=True)
class Decider:
    """Who asks for something to be done with a plan, and where."""

    user: Any
    key: str  # of the account
    real_key: str  # of the person behind it while it is impersonated, else ""
    impersonated: bool
    site: AdminSite
    scope: Scope

    @classmethod
    def of(cls, request: HttpRequest, site: AdminSite, scope: Scope) -> Decider:
        """Return the person of a request."""
        real = real_actor(request)
        return cls(
            user=request.user,
            key=person_key(request.user),
            real_key=person_key(real) or UNKNOWN if real is not None else "",
            impersonated=real is not None,
            site=site,
            scope=scope,
        )

    def check(self) -> None:
        """Raise Denied unless this is a person who acts for herself: to confirm, approve, undo or settle."""
        if self.impersonated:
            raise Denied("impersonated", status=403)
        if not self.key or is_service_account(self.user):
            raise Denied("service_account", status=403)
