"""The tests' settings with a ``REST_FRAMEWORK`` and middleware that want everything otherwise."""

from tests.settings import *  # noqa: F403
from tests.settings import MIDDLEWARE as _MIDDLEWARE

_HERE = "tests.api.hostile"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        f"{_HERE}.Anybody",
        "rest_framework.authentication.TokenAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
    "DEFAULT_PARSER_CLASSES": [f"{_HERE}.SnakeParser"],
    "DEFAULT_RENDERER_CLASSES": [f"{_HERE}.Wrapped"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": f"{_HERE}.Picky",
    "DEFAULT_THROTTLE_CLASSES": [f"{_HERE}.Closed"],
    "DEFAULT_THROTTLE_RATES": {"user": "1/day", "anon": "1/day"},
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
    "ALLOWED_VERSIONS": ["7"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 1,
    "EXCEPTION_HANDLER": f"{_HERE}.handle",
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
MIDDLEWARE = [*_MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
APPEND_SLASH = False
