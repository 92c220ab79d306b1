"""What a project may set for its own API: none of it may reach the assistant's endpoint."""

from __future__ import annotations

from typing import Any, NoReturn

from rest_framework.authentication import BaseAuthentication
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle


class Anybody(BaseAuthentication):
    """Take everybody for the superuser."""

    def authenticate(self, request: Any) -> Any:
        from django.contrib.auth import get_user_model

        return get_user_model().objects.filter(is_superuser=True).first(), None


class SnakeParser(JSONParser):
    """Rename every key."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        return {f"{name}_renamed": value for name, value in super().parse(*args, **kwargs).items()}


class Wrapped(JSONRenderer):
    """Put every answer into an envelope."""

    media_type = "application/vnd.project+json"

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        return super().render({"data": data}, *args, **kwargs)


class Picky(DefaultContentNegotiation):
    """Accept nothing."""

    def select_renderer(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("the project's negotiation was asked")


class Closed(BaseThrottle):
    """Let nobody through."""

    def allow_request(self, request: Any, view: Any) -> bool:
        return False


def handle(error: Exception, context: Any) -> Response:
    """Call every error a success."""
    return Response({"ok": True, "error": repr(error)})
