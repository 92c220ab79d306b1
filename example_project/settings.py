"""Settings of the example store, for the demo and for development on one machine.

They know a public secret key and accounts with a public password, so they answer only on 127.0.0.1 and
localhost. ``settings_production`` is what a store on the internet would start from.

Read from the environment: ``DATABASE_URL``, ``COPILOT_BACKEND``, ``COPILOT_OPENAI_API_KEY``,
``COPILOT_TURNS_PER_MINUTE``, ``STORE_AUDIT_KEY``, ``STORE_GATEWAY_URL``, ``STORE_GATEWAY_TOKEN``,
``STORE_GATEWAY_SECONDS``, ``STORE_GATEWAY_STATE``.
"""

import os
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "only-for-the-demo-on-your-own-machine-and-nowhere-else-0123456789"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

STORE_DEMO = True  # "manage.py demo" may make accounts with a public password

INSTALLED_APPS = [
    "django_copilot",  # before the admin (and before an admin theme), so that its base template is found
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "simple_history",
    "example_project.store",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "example_project" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def _database() -> dict[str, Any]:
    if os.environ.get("DATABASE_URL"):
        database: dict[str, Any] = dict(dj_database_url.config())
    else:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(BASE_DIR / "demo.sqlite3")}
    if database["ENGINE"].endswith(".sqlite3"):
        # A deferred transaction that reads first and writes later fails at once when somebody else wrote
        # in between; an immediate one waits for its turn, up to the timeout in seconds.
        database["OPTIONS"] = {
            **database.get("OPTIONS", {}),
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("pl", "Polski"), ("ru", "Русский")]
TIME_ZONE = "Europe/Warsaw"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
MEDIA_URL = "media/"
MEDIA_ROOT = BASE_DIR / "media"

# Without it, simple-history shows a record's history to whoever may change the record.
SIMPLE_HISTORY_ENFORCE_HISTORY_MODEL_PERMISSIONS = True


def _whole_number(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit():
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}.")
    return int(text)


def _backend() -> str:
    if os.environ.get("COPILOT_BACKEND"):
        return os.environ["COPILOT_BACKEND"]
    return "openai" if os.environ.get("COPILOT_OPENAI_API_KEY") else "offline"


COPILOT = {
    "BACKEND": _backend(),  # key, model and base URL are read from COPILOT_OPENAI_* by the app itself
    "TURNS_PER_MINUTE": _whole_number("COPILOT_TURNS_PER_MINUTE", 60),
    "REDTEAM": "example_project.store.redteam",  # fills a new database for copilot_redteam
    "SERVICE_ACCOUNTS_GROUP": "service accounts",  # the demo makes it, with the account bot in it
    "AUDIT_KEYS": {
        "1": os.environ.get("STORE_AUDIT_KEY") or "only-for-the-demo-audit-key-known-to-everybody"
    },
}

# The store's payment gateway. Without an address nothing can be refunded; "manage.py demo" starts one.
STORE_GATEWAY_URL = os.environ.get("STORE_GATEWAY_URL", "")
STORE_GATEWAY_TOKEN = os.environ.get("STORE_GATEWAY_TOKEN") or "only-for-the-demo-gateway-token"
STORE_GATEWAY_SECONDS = _whole_number("STORE_GATEWAY_SECONDS", 5)  # how long an answer is waited for


def _gateway_state() -> str:
    database = DATABASES["default"]
    path = Path(str(database["NAME"]))
    if database["ENGINE"].endswith(".sqlite3") and path.suffix:
        return str(path.with_name(f"{path.stem}-gateway.sqlite3"))
    return str(BASE_DIR / "demo-gateway.sqlite3")


# Where the demo's gateway keeps its own books, a SQLite file.
STORE_GATEWAY_STATE = os.environ.get("STORE_GATEWAY_STATE") or _gateway_state()
