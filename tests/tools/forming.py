"""A tool that changes fields through the admin of ``tests.formapp``, and what becomes of its call."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import User

from django_copilot import Preview, write_tool
from django_copilot.scope import Scope
from tests.formapp.admin import ParcelForm
from tests.formapp.models import Parcel
from tests.forms.conftest import Things

from .declared import why_not


def changing(values: Any, model: Any = Parcel, **declared: Any) -> None:
    """Declare the tool ``change``, which proposes these values for a record; a function gets the context."""

    @write_tool(model, name="change", **declared)
    def change(ctx: Any, pk: int) -> Preview:
        """Change it."""
        found = ctx.get(model, pk=pk)
        return Preview(found, changes=values(ctx) if callable(values) else values)


OWN_CLEAN = ParcelForm.clean  # compares two fields, and takes those that are not there for equal


def shown(plan: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return old and new of each change, by field."""
    return {each["field"]: (each["old"], each["new"]) for each in plan["changes"]}


def refused(things: Things, boss: User, obj: Any = None) -> tuple[str, str]:
    """Let the model call ``change``; return code and text of the refusal, which has changed nothing."""
    from tests.formapp.admin import site

    obj = obj or things.parcel
    before = json.dumps(list(type(obj).objects.filter(pk=obj.pk).values()), default=str)
    error = why_not("boss", "change", {"pk": obj.pk}, site=site, scope=FORMS)
    assert json.dumps(list(type(obj).objects.filter(pk=obj.pk).values()), default=str) == before
    return error["code"], error["message"]


FORMS = Scope(site="forms", host="testserver", language="en", time_zone="Europe/Warsaw")


def forms_admin() -> Any:
    """Return the AdminSite."""
    from tests.formapp.admin import site

    return site
