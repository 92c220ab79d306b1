"""Settings of a process of its own. ADMIN_THEME names apps that stand before the admin, REST what REST framework
gets: "hostile" or nothing."""

import os

SECRET_KEY = "only-for-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
LANGUAGE_CODE = "en"
STATIC_URL = "static/"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
THEMES = [each for each in os.environ.get("ADMIN_THEME", "").split(",") if each]
INSTALLED_APPS = [
    "django_copilot",
    *THEMES,
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "simple_history",
    "tests.projects.depot",
    "tests.projects.depot_north",
    "tests.projects.showroom",
]
if os.environ.get("REPLACE_SITE"):  # before the admin looks for declarations
    INSTALLED_APPS = [INSTALLED_APPS[0], INSTALLED_APPS[-1], *INSTALLED_APPS[1:-1]]
if os.environ.get("APP_LAST"):
    INSTALLED_APPS = [*INSTALLED_APPS[1:], INSTALLED_APPS[0]]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.projects.showroom.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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
COPILOT = {"BACKEND": "scripted"}

if os.environ.get("REST") == "hostile":
    _OWN = "tests.projects.showroom.rest"
    REST_FRAMEWORK = {
        "DEFAULT_AUTHENTICATION_CLASSES": [f"{_OWN}.EverybodyIsBoss"],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.AllowAny"],
        "DEFAULT_PARSER_CLASSES": [f"{_OWN}.CamelParser"],
        "DEFAULT_RENDERER_CLASSES": [f"{_OWN}.Wrapped"],
        "DEFAULT_THROTTLE_CLASSES": [f"{_OWN}.Never"],
        "DEFAULT_CONTENT_NEGOTIATION_CLASS": f"{_OWN}.NoNegotiation",
        "DEFAULT_VERSIONING_CLASS": f"{_OWN}.NoVersion",
        "DEFAULT_METADATA_CLASS": None,
        "EXCEPTION_HANDLER": f"{_OWN}.everything_is_fine",
        "UNAUTHENTICATED_USER": None,
        "UNAUTHENTICATED_TOKEN": None,
        "NON_FIELD_ERRORS_KEY": "oops",
        "URL_FORMAT_OVERRIDE": "message",
        "FORMAT_SUFFIX_KWARG": "ident",
        "STRICT_JSON": False,
        "UNICODE_JSON": False,
        "COMPACT_JSON": False,
    }
