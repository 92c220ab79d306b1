"""Run in a process of its own: install the project and print what was there as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django


def main(what: str) -> Any:
    """Set the project up and run one of the visits."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.projects.outside.settings"
    django.setup()
    return {"state": state, "pages": pages, "uninstall": uninstall, "suggest": suggest, "again": again}[
        what
    ]()


def state() -> dict[str, Any]:
    """Return what is registered, and what the checks say of it."""
    from django.apps import apps
    from django.contrib import admin
    from django.core import checks

    from django_copilot.declaration import is_declared
    from django_copilot.mixin import HarnessMixin

    found = {each.opts.label: each for each in admin.site._registry.values()}
    return {
        "registered": list(found),
        "declared": sorted(label for label, each in found.items() if is_declared(each)),
        "mixin": sorted(label for label, each in found.items() if isinstance(each, HarnessMixin)),
        "ids": sorted(str(each.id) for each in checks.run_checks()),
        "readies": sorted(each.label for each in apps.get_app_configs() if "ready" in vars(each)),
    }


def again() -> dict[str, Any]:
    """Return the state once all apps have been made ready a second and a third time."""
    from django.conf import settings
    from django.test import override_settings

    with override_settings(INSTALLED_APPS=settings.INSTALLED_APPS[::1]):
        return state()


def suggest() -> dict[str, Any]:
    """Return what is declared, and what the checks say, once the suggestion for all admins is carried out."""
    from io import StringIO

    from django.core.management import call_command

    text = StringIO()
    call_command("copilot_suggest", stdout=text)
    exec(compile(text.getvalue(), "copilot.py", "exec"), {"__name__": "suggested"})
    return {"text": text.getvalue(), **state()}


def pages() -> dict[str, Any]:
    """Return what the showroom's visit finds on the pages."""
    from django.core.management import call_command

    from tests.projects.showroom.visit import visit_pages

    call_command("migrate", run_syncdb=True, verbosity=0)
    return visit_pages()


def uninstall() -> dict[str, Any]:
    """Return which tables are left once the migrations are undone, and what the admin does without them."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    from tests.projects.depot.models import City, Country

    call_command("migrate", run_syncdb=True, verbosity=0)
    before = connection.introspection.table_names()
    call_command("migrate", "django_copilot", "zero", verbosity=0)
    after = connection.introspection.table_names()
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("boss"))
    Country.objects.create(code="PL", title="Poland")
    saved = client.post("/admin/depot/city/add/", {"title": "Gdynia"})
    index = client.get("/admin/")
    return {
        "dropped": sorted(set(before) - set(after)),
        "left": [each for each in after if each.startswith("django_copilot")],
        "saved": [saved.status_code, City.objects.count()],
        "index": [index.status_code, "data-copilot" in index.content.decode()],
        "chat": client.get("/admin/django_copilot/conversation/").status_code,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
