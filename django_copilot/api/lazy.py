"""Views imported when they are first asked for: REST framework costs a start a noticeable part of a second."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponseBase
from django.utils.module_loading import import_string


class LazyView:
    """A view callable of one AdminSite, standing in for a class-based view named by its dotted path.

    The attributes are those that Django and middleware look for on the resolved callable: the view checks
    CSRF tokens and logins itself, and no request of ours runs inside ``ATOMIC_REQUESTS``.
    There is no ``view_class``: Django's resolver asks every callable for one when it is first used.
    """

    csrf_exempt = True  # REST framework's session authentication checks the token
    login_required = False  # the view answers 401 or redirects itself

    def __init__(self, dotted: str, site: AdminSite) -> None:
        self.dotted, self.site = dotted, site
        self.__name__ = dotted.rsplit(".", 1)[-1]
        self.__qualname__ = self.__name__
        self.admin_site = site
        self._non_atomic_requests = _Everything()
        self._described: Any = None

    @property
    def cls(self) -> Any:
        """Return the view class, as schema generators ask for it."""
        return self._described or import_string(self.dotted)

    @cls.setter
    def cls(self, described: Any) -> None:
        """Take a stand-in that only describes the class, as drf-spectacular leaves one. It answers nothing."""
        self._described = described

    @property
    def initkwargs(self) -> dict[str, Any]:
        """Return what the view is made with."""
        return {"site": self.site}

    @cached_property
    def _view(self) -> Any:
        return import_string(self.dotted).as_view(**self.initkwargs)

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer the request."""
        response: HttpResponseBase = self._view(request, *args, **kwargs)
        return response


class _Everything(set):  # type: ignore[type-arg]
    """The set of all database aliases."""

    def __contains__(self, alias: object) -> bool:
        return True
