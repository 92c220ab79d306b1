"""Surroundings that make it harder: a project's own REST framework settings, a second site, another scope.

Everything here is put in place for a block and taken away at its end.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

from django.conf import settings
from django.contrib.admin import AdminSite, sites
from django.test.utils import override_settings
from django.urls import clear_url_caches, include, path
from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.pagination import PageNumberPagination
from rest_framework.parsers import FormParser, JSONParser, MultiPartParser
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BrowsableAPIRenderer, JSONRenderer
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.versioning import AcceptHeaderVersioning
from rest_framework.views import APIView

_HERE = "django_copilot.redteam.client.projects"
_URLS = "django_copilot_redteam_urls"


# -- a project's own REST framework ---------------------------------------------------------------------------


class TokenOfAnybody(BaseAuthentication):
    """Take whoever sends a token, and everybody else, for the superuser."""

    def authenticate(self, request: Any) -> Any:
        """Return the superuser."""
        from django.contrib.auth import get_user_model

        return get_user_model()._default_manager.filter(is_superuser=True).first(), None


def _camel(name: str) -> str:
    first, *rest = str(name).split("_")
    return first + "".join(each.title() for each in rest)


class CamelParser(JSONParser):
    """Take keys in snake case for ones in camel case, and any type for JSON."""

    media_type = "*/*"

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """Return the object with other names."""
        parsed = super().parse(*args, **kwargs)
        return (
            {f"x_{_camel(name)}": value for name, value in parsed.items()}
            if isinstance(parsed, dict)
            else parsed
        )


class CamelRenderer(JSONRenderer):
    """Put each answer into an envelope under a type of its own."""

    media_type = "application/vnd.project+json"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """Return the envelope."""
        rendered: bytes = super().render({"data": data}, *args, **kwargs)
        return rendered


class Picky(DefaultContentNegotiation):
    """Negotiate nothing."""

    def select_renderer(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Fail: the project's negotiation is not to be asked."""
        raise AssertionError("The project's negotiation was asked.")


class Closed(BaseThrottle):
    """Let nobody through."""

    def allow_request(self, request: Any, view: Any) -> bool:
        """Return no."""
        return False


def call_it_a_success(error: Exception, context: Any) -> Response:
    """Answer 200 to every error, with what it says."""
    return Response({"ok": True, "error": repr(error)})


HOSTILE_REST: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [f"{_HERE}.TokenOfAnybody"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
    "DEFAULT_PARSER_CLASSES": [f"{_HERE}.CamelParser"],
    "DEFAULT_RENDERER_CLASSES": [f"{_HERE}.CamelRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": f"{_HERE}.Picky",
    "DEFAULT_THROTTLE_CLASSES": [f"{_HERE}.Closed"],
    "DEFAULT_THROTTLE_RATES": {"user": "1/day", "anon": "1/day"},
    "DEFAULT_PAGINATION_CLASS": f"{_HERE}.PageNumberPagination",
    "PAGE_SIZE": 1,
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "ALLOWED_VERSIONS": ["7"],
    "EXCEPTION_HANDLER": f"{_HERE}.call_it_a_success",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "NON_FIELD_ERRORS_KEY": "oops",
    "STRICT_JSON": False,
    "COMPACT_JSON": False,
    "UNICODE_JSON": True,
    "COERCE_DECIMAL_TO_STRING": False,
    "URL_FORMAT_OVERRIDE": "as",
    "NUM_PROXIES": 9,
}
_ON_VIEWS: dict[str, Any] = {  # what REST framework reads when a view class is made
    "authentication_classes": [TokenOfAnybody],
    "permission_classes": [AllowAny],
    "parser_classes": [CamelParser, FormParser, MultiPartParser],
    "renderer_classes": [CamelRenderer, BrowsableAPIRenderer],
    "content_negotiation_class": Picky,
    "throttle_classes": [Closed],
    "versioning_class": AcceptHeaderVersioning,
    "pagination_class": PageNumberPagination,
}


@contextmanager
def hostile_rest_framework() -> Iterator[None]:
    """Let a project have REST framework do everything otherwise, for every view that has not said how."""
    missing = object()
    kept = {name: vars(APIView).get(name, missing) for name in _ON_VIEWS}
    with override_settings(REST_FRAMEWORK=HOSTILE_REST):
        try:
            for name, value in _ON_VIEWS.items():
                setattr(APIView, name, value)
            yield
        finally:
            for name, value in kept.items():
                if value is missing:
                    delattr(APIView, name)
                else:
                    setattr(APIView, name, value)


# -- more sites, another scope --------------------------------------------------------------------------------


class Scopes:
    """A project's own scope, read from a header: "a" unless it is sent."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        """Return the scope of a request."""
        return {"redteam": request.headers.get("X-Redteam-Scope") or "a"}

    @staticmethod
    @contextmanager
    def enter(values: dict[str, str], request: Any) -> Iterator[None]:
        """Enter it; rows are the same in all of them."""
        yield


@contextmanager
def more_sites(of: AdminSite) -> Iterator[tuple[AdminSite, AdminSite]]:
    """Mount a second site with the same admins as ``of``, and a bare one on which nothing is declared."""
    second, bare = AdminSite(name="redteam_second"), AdminSite(name="redteam_bare")
    for each in (second, bare):
        sites.all_sites.discard(each)  # they are nobody else's
    second.has_permission = of.has_permission  # type: ignore[method-assign]
    for model, model_admin in of._registry.items():
        if model._meta.app_label != "django_copilot":
            second.register(model, type(model_admin))
    urls: Any = types.ModuleType(_URLS)
    urls.urlpatterns = [
        path("redteam-second/", second.urls),
        path("redteam-bare/", bare.urls),
        path("", include(settings.ROOT_URLCONF)),
    ]
    with ExitStack() as stack:
        sys.modules[_URLS] = urls
        stack.callback(clear_url_caches)
        stack.callback(sys.modules.pop, _URLS)
        stack.enter_context(override_settings(ROOT_URLCONF=_URLS))
        yield second, bare


@contextmanager
def surroundings(**copilot: Any) -> Iterator[None]:
    """Let our clients in, as often as they come, with these keys of ``COPILOT``."""
    hosts = [*settings.ALLOWED_HOSTS, "testserver"]
    given = {**(settings.COPILOT or {}), "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6, **copilot}
    with override_settings(ALLOWED_HOSTS=hosts, DEBUG=False, COPILOT=given):
        yield
