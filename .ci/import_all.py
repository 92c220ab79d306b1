"""Import every module of the installed package in a project that has nothing else.

Run with the wheel's own Python, outside the checkout. Prints where the package was found.
"""

from __future__ import annotations

import importlib
import pkgutil

import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    SECRET_KEY="only for this import",
    INSTALLED_APPS=[
        "django_copilot",
        "rest_framework",
        "simple_history",
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()

import django_copilot  # noqa: E402

OPTIONAL = {"django_copilot.contrib.spectacular"}  # needs the extra "openapi"
names = [m.name for m in pkgutil.walk_packages(django_copilot.__path__, "django_copilot.")]
names = [name for name in names if name not in OPTIONAL]
for name in names:
    importlib.import_module(name)
call_command("migrate", verbosity=0)
print(f"django_copilot {django_copilot.__version__} from {django_copilot.__path__[0]}: {len(names)} modules")
