"""What a record held when a change of it was proposed, and what to say when it holds something else now.

A snapshot is kept with the plan for as long as the plan, and may cover fields that nobody declared: so it
holds keyed digests and no values.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import InlineModelAdmin
from django.contrib.contenttypes.models import ContentType
from django.db import connections, models, router
from django.forms.models import _get_foreign_key
from django.urls import reverse
from django.utils import formats
from django.utils.crypto import salted_hmac
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from .access import ask_hook
from .contrib.simple_history import who_changed
from .declaration import model_field
from .display import display, field_label
from .identity import key_text
from .models import Plan

MAX_INLINE_ROWS = 500


def _digest(held: Any) -> str:
    return salted_hmac("django_copilot.snapshots", json.dumps(held), algorithm="sha256").hexdigest()


def snapshot(model_admin: Any, request: Any, obj: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return digests of what the named form fields and the inline rows of a record hold.

    Inlines that can't be read here, or hold too many rows, are named under "unprotected".
    """
    fields: dict[str, str] = {}
    for name in names:
        field = model_field(type(obj), name)
        if field is None:
            continue
        if field.many_to_many:
            held: Any = sorted(
                key_text(field.remote_field.model, each.pk) for each in getattr(obj, name).all()
            )
        else:
            held = field.value_to_string(obj)
            if not isinstance(held, str):
                held = json.dumps(held, sort_keys=True, default=str)
        fields[name] = _digest(held)
    rows: dict[str, dict[str, str]] = {}
    unprotected: list[str] = []
    inlines: Sequence[Any] | None = ask_hook(
        model_admin, "get_inline_instances", None, lambda: model_admin.get_inline_instances(request, obj)
    )
    if inlines is None:
        unprotected.append(_("all rows below the form"))
    for inline in inlines or ():
        found = ask_hook(inline, "get_queryset", None, functools.partial(_inline_rows, inline, request, obj))
        if found is None:
            unprotected.append(str(inline.verbose_name_plural))
        else:
            rows.setdefault(found[0], {}).update(found[1])
    return {"fields": fields, "rows": rows, "unprotected": unprotected}


def record_version(obj: Any) -> str:
    """Return a digest of everything that a record's own columns hold."""
    return _digest([[field.name, str(field.value_to_string(obj))] for field in obj._meta.concrete_fields])


def _inline_rows(
    inline: InlineModelAdmin[Any, Any], request: Any, obj: Any
) -> tuple[str, dict[str, str]] | None:
    """Return "app.model.link" of an inline and the digests of its rows, or None when they can't be compared."""
    if not hasattr(inline, "fk_name"):
        return None  # a generic inline
    fk = _get_foreign_key(type(obj), inline.model, fk_name=inline.fk_name)
    using = router.db_for_write(inline.model)
    found = list(
        inline.get_queryset(request).using(using).filter(models.Q((fk.name, obj)))[: MAX_INLINE_ROWS + 1]
    )
    if len(found) > MAX_INLINE_ROWS:
        return None
    digests = {
        str(row.pk): _digest([str(field.value_to_string(row)) for field in row._meta.concrete_fields])
        for row in found
    }
    return f"{inline.model._meta.label_lower}.{fk.name}", digests


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of fields and the keys of inline rows that differ between two snapshots."""
    fields = [name for name, value in before["fields"].items() if now["fields"].get(name) != value]
    rows = [key for key, digests in before["rows"].items() if now["rows"].get(key) != digests]
    return fields, rows


def lock_record(model: Any, object_pk: str) -> Any:
    """Return the record locked for the running transaction, or None when it is not there.

    It is locked without the admin's joins, which a database may not be able to lock, but with the rows of
    parent models, which hold fields of the form.
    """
    using = router.db_for_write(model)
    rows = model._base_manager.using(using).select_related(None)
    if connections[using].features.has_select_for_update:
        rows = rows.select_for_update()
    return rows.filter(pk=object_pk).first()


def conflict_text(
    obj: Any, plan: Plan, *, fields: Sequence[str], inlines: Sequence[str], shown: Sequence[str]
) -> SafeString:
    """Return who changed a record and what it holds now, with a link to start again.

    Of ``fields`` only those among ``shown``, what is on her form, are told with their values.
    """
    told = []
    for name in fields:
        if name in shown:
            field = model_field(type(obj), name)
            value = list(getattr(obj, name).all()) if field.many_to_many else getattr(obj, name)
            told.append((field_label(type(obj), name), display(field, value) or _("empty")))
    told.extend((_inline_label(key), _("changed")) for key in inlines)
    who, when = _last_change(obj, plan)
    by = (
        _("%(who)s changed this record on %(when)s, after the proposal was made.")
        % {"who": who, "when": formats.localize(localtime(when))}
        if who
        else _("This record was changed after the proposal was made.")
    )
    return format_html(
        '{} {} {} <a href="{}">{}</a>',
        by,
        format_html("{} {}.", _("It now holds:"), format_html_join("; ", "{}: {}", told)) if told else "",
        _("Nothing was saved."),
        reverse("admin:django_copilot_plan_detail", args=[plan.pk], current_app=plan.site),
        _("Start again from the current values"),
    )


def _inline_label(key: str) -> str:
    return str(capfirst(apps.get_model(key.rpartition(".")[0])._meta.verbose_name_plural))


def _last_change(obj: Any, plan: Plan) -> tuple[str, Any]:
    """Return who changed a record last since the plan was made, and when, as far as the admin knows."""
    known = [who_changed(obj, plan.created_at)]
    entry = (
        LogEntry.objects.filter(
            content_type=ContentType.objects.get_for_model(obj, for_concrete_model=False),
            object_id=str(obj.pk),
            action_time__gte=plan.created_at,
        )
        .select_related("user")
        .order_by("-action_time")
        .first()
    )
    if entry is not None:
        known.append((str(entry.user), entry.action_time))
    return max((each for each in known if each[0]), key=lambda each: each[1], default=("", None))
