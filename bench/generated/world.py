"""The generated project's database and the person who asks: full rights on every model, no superuser."""

from __future__ import annotations

from typing import Any

import django

ROWS = 60


def build() -> Any:
    """Set Django up, make tables and rows, and return the person's account."""
    django.setup()
    from django.contrib.auth.models import Group, Permission, User
    from django.core.management import call_command

    from .models import MADE

    call_command("migrate", run_syncdb=True, verbosity=0)
    MADE[0].objects.bulk_create(MADE[0](title=f"Parent {n}", code=f"p-{n:03}") for n in range(ROWS))
    MADE[1].objects.bulk_create(
        MADE[1](title=f"Row {n}", code=f"r-{n:03}", price=n, parent_id=n + 1) for n in range(ROWS)
    )
    group = Group.objects.create(name="managers")
    wanted = ("generated", "django_copilot")
    group.permissions.set(Permission.objects.filter(content_type__app_label__in=wanted))
    person = User.objects.create(username="manager", is_staff=True)
    person.groups.add(group)
    return person
