"""Settings for a store on the internet: HTTPS only, nothing secret in the code, nothing guessed.

Required in the environment: ``DJANGO_SECRET_KEY`` (50 characters or more), ``DJANGO_ALLOWED_HOSTS``
(comma-separated), ``DATABASE_URL`` and ``STORE_AUDIT_KEY`` (what the audit is signed with, kept apart from
the database); ``STORE_GATEWAY_TOKEN`` too where ``STORE_GATEWAY_URL`` is set. A missing one stops the start
and is named.
"""

import os

from django.core.exceptions import ImproperlyConfigured

from .settings import *  # noqa: F403


def _required(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ImproperlyConfigured(f"Set {name} in the environment.")
    return value


_required("DATABASE_URL")
SECRET_KEY = _required("DJANGO_SECRET_KEY")
ALLOWED_HOSTS = [host.strip() for host in _required("DJANGO_ALLOWED_HOSTS").split(",") if host.strip()]

COPILOT = {**COPILOT, "AUDIT_KEYS": {"1": _required("STORE_AUDIT_KEY")}}  # noqa: F405
STORE_GATEWAY_TOKEN = _required("STORE_GATEWAY_TOKEN") if STORE_GATEWAY_URL else ""  # noqa: F405

DEBUG = False
STORE_DEMO = False

SECURE_SSL_REDIRECT = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # set by the proxy in front, nobody else
SECURE_HSTS_SECONDS = 365 * 24 * 3600
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
LANGUAGE_COOKIE_SECURE = True
X_FRAME_OPTIONS = "DENY"

STATIC_ROOT = BASE_DIR / "staticfiles"  # noqa: F405

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
