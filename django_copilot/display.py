"""Stored values and fields as text for people, in their language."""

from __future__ import annotations

import datetime
import json
from typing import Any

from django.db import models
from django.utils import formats, timezone
from django.utils.text import capfirst
from django.utils.translation import gettext

from .declaration import model_field
from .values import clean_text, has_choices


def display(field: Any, value: Any) -> str:
    """Return a value of a model field as text for the person's own page, in her language."""
    if value is None or value == "" or value == []:
        return ""
    if isinstance(value, list | tuple | models.QuerySet):
        return clean_text(", ".join(str(each) for each in value))
    if field is not None and has_choices(field):
        return clean_text(str(dict(field.flatchoices).get(value, value)))
    if isinstance(value, bool):
        return gettext("Yes") if value else gettext("No")
    if isinstance(field, models.JSONField):
        return json.dumps(value, ensure_ascii=False, cls=field.encoder)
    return str(
        formats.localize(
            timezone.localtime(value)
            if isinstance(value, datetime.datetime) and timezone.is_aware(value)
            else value
        )
    )


def field_label(model: type[models.Model], name: str) -> str:
    """Return a field's label for people."""
    field = model_field(model, name)
    return str(capfirst(field.verbose_name)) if field is not None else name
