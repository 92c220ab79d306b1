"""Defaults for REST framework that would break, or open, everything that does not say what it wants."""

from typing import Any

from django.contrib.auth import get_user_model
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.versioning import BaseVersioning


class EverybodyIsBoss(BaseAuthentication):
    """Take everybody for the superuser."""

    def authenticate(self, request: Any) -> Any:
        """Return her."""
        return get_user_model().objects.get(username="boss"), None


class CamelParser(JSONParser):
    """Rename the keys, as camel-case packages do."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """Return an object in which nothing is called as it was."""
        return {f"snake_{name}": value for name, value in super().parse(*args, **kwargs).items()}


class Wrapped(JSONRenderer):
    """Put every answer into an envelope."""

    def render(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the envelope."""
        return super().render({"envelope": data}, *args, **kwargs)


class Never(BaseThrottle):
    """Let nobody through."""

    def allow_request(self, request: Any, view: Any) -> bool:
        """Say no."""
        return False


class NoNegotiation(BaseContentNegotiation):
    """Accept nothing."""

    def select_parser(self, request: Any, parsers: Any) -> Any:
        """Raise."""
        raise NotAcceptable

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        """Raise."""
        raise NotAcceptable


class NoVersion(BaseVersioning):
    """Find no version."""

    def determine_version(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Raise."""
        raise NotAcceptable


def everything_is_fine(error: Exception, context: Any) -> Response:
    """Answer 200 to every error, with its text."""
    return Response({"fine": repr(error)})
