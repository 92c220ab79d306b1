"""Settings of the tests: the example project, on a throw-away database, with no way to a real model.

``COPILOT_TEST_DATABASE_URL`` puts the whole suite on that server, for instance
``postgres://postgres@127.0.0.1:5432/postgres``; a database of the tests' own is made in it.
"""

import os
import tempfile
from pathlib import Path

# A developer's own key, model or database must never be what a test talks to.
for _name in [name for name in os.environ if name.startswith("COPILOT_") and "_TEST_" not in name]:
    del os.environ[_name]
os.environ.pop("DATABASE_URL", None)

from example_project.settings import *  # noqa: E402, F403
from example_project.settings import COPILOT as _COPILOT  # noqa: E402
from example_project.settings import INSTALLED_APPS as _APPS  # noqa: E402

# Models of the tests' own; they are registered on no site but those that a test makes.
INSTALLED_APPS = [*_APPS, "tests.formapp", "tests.projects.depot", "tests.projects.depot_north"]

TEST_DATABASE_URL = os.environ.get("COPILOT_TEST_DATABASE_URL", "")

if TEST_DATABASE_URL:
    import dj_database_url

    DATABASES = {"default": dj_database_url.parse(TEST_DATABASE_URL)}
else:
    # A file and not memory: the threads of a live server, and of tests of two requests at once, need
    # connections of their own. It is made when the tests start and removed when they end.
    _FILE = str(Path(tempfile.gettempdir()) / f"django-copilot-tests-{os.getpid()}.sqlite3")
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": _FILE,
            "TEST": {"NAME": _FILE},
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF",
            },
        }
    }

ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# A test that needs a model says what it answers (django_copilot.testing), or asks for the offline backend.
COPILOT = {**_COPILOT, "BACKEND": "scripted"}
