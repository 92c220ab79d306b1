"""The tests' settings with the store in a database of its own, apart from plans, people and the audit."""

import os
from pathlib import Path
from typing import Any

from tests.settings import *  # noqa: F403

FOLDER = Path(os.environ["APART_FOLDER"])
DATABASES = {
    alias: {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / f"{alias}.sqlite3"}
    for alias in ("default", "store")
}
DATABASE_ROUTERS = ["tests.plans.apart_settings.Router"]


class Router:
    """Sends the store's models to its database; all tables are made in both."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        apart = model._meta.app_label in ("store", "formapp") and model.__name__ != "StaffProfile"
        return "store" if apart else "default"

    db_for_write = db_for_read

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True

    def allow_migrate(self, *args: Any, **hints: Any) -> bool:
        return True
