"""A change of some fields of a record, through the ModelAdmin's own form for just those fields.

The form is the one that this person would get, so its validation and its save hooks are the project's own.
Whatever it makes of a value is what is shown, and what must be in the database afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db import models
from django.forms import model_to_dict
from django.utils.datastructures import MultiValueDict

from ..access import EntityAccess
from ..contrib.simple_history import note_plan
from ..declaration import model_field, never_fillable
from ..exceptions import Refused
from ..values import run_field_checks, widget_data
from .context import Bound, Context


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field's value before and after, as Python values; relations as records."""

    field: Any
    old: Any
    new: Any


class _NoMessages:
    """Takes what a ModelAdmin says to the person: there is no page on which it would appear."""

    def add(self, *args: Any, **kwargs: Any) -> None:
        """Drop it."""


def value_of(obj: Any, field: Any) -> Any:
    """Return what a record holds in a field: relations as records, without reading those that are not needed."""
    if field.many_to_many:
        return list(getattr(obj, field.name).all())
    if field.remote_field is not None:
        pk = getattr(obj, field.attname)
        return None if pk is None else _stand_in(field, pk)
    return field.value_from_object(obj)


def _stand_in(field: Any, value: Any) -> Any:
    """Return a record of the related model that holds nothing but its key, where the key is what is stored."""
    related = field.remote_field.model
    if field.target_field.primary_key:
        return related(pk=value)
    return related._base_manager.get(models.Q((field.target_field.name, value)))


def as_held(field: Any, value: Any) -> Any:
    """Return a value that a tool gave in the form in which ``value_of`` gives it."""
    if field.many_to_many or value is None or isinstance(value, models.Model):
        return value
    if field.remote_field is None:
        return field.to_python(value)
    return _stand_in(field, value)


def check_changes(ctx: Context, bound: Bound, given: Mapping[str, Any]) -> list[Change]:
    """Return what saving these values would change, as the form cleans them. Raises Refused."""
    entity, obj = bound.entity, copy.deepcopy(bound.before)
    with entity.at("change", obj):
        if not entity.may_change(obj):
            raise Refused("This person may not change that record.", code="not_allowed")
        cleaned = _valid_form(entity, obj, given, ctx).cleaned_data
        changes = []
        for name in given:
            field = model_field(entity.model, name)
            new = cleaned[name]
            if isinstance(new, models.QuerySet):
                new = list(new)
            changes.append(Change(field=field, old=value_of(bound.before, field), new=new))
    return changes


def save_changes(entity: EntityAccess, obj: Any, given: Mapping[str, Any], *, plan_id: Any) -> None:
    """Save values through the form and the ModelAdmin's hooks, logged with the plan. Raises Refused."""
    ma, request = entity.model_admin, entity.request
    with entity.at("change", obj):
        form = _valid_form(entity, obj, given, None)
        request.method, request.POST = "POST", form.data  # type: ignore[assignment]
        request._messages = _NoMessages()  # type: ignore[attr-defined]
        new = ma.save_form(request, form, change=True)
        note_plan(new, request.user, plan_id)
        ma.save_model(request, new, form, True)
        ma.save_related(request, form, [], True)
        message = ma.construct_change_message(request, form, [], False)
        ma.log_change(request, new, _named(message, plan_id))


def _named(message: Any, plan_id: Any) -> Any:
    """Return the log entry's message with the plan in it, in the shape that the admin translates."""
    if not isinstance(message, list):
        return f"{message} (copilot plan {plan_id})"
    named = {"name": "copilot plan", "object": str(plan_id)}
    return [{"changed": {**part["changed"], **named}} if "changed" in part else part for part in message] or [
        {"changed": named}
    ]


def _valid_form(
    entity: EntityAccess, obj: Any, given: Mapping[str, Any], ctx: Context | None
) -> forms.ModelForm[Any]:
    names = list(given)
    whole = entity.form_class(obj, change=True).base_fields
    for name in names:
        field = model_field(entity.model, name)
        editable = (
            name in whole
            and not whole[name].disabled
            and not isinstance(whole[name].widget, forms.PasswordInput)
        )
        if field is None or not editable or never_fillable(entity.model, name):
            raise Refused(f"{name}: this person can't change this field of that record.", code="not_editable")
        if ctx is not None and field.remote_field is not None:
            _check_bound(ctx, field, given[name])
    needs_more = Refused(
        "The form of that record needs more than these fields; open the form instead.", code="open_form"
    )
    try:
        form_class = entity.model_admin.get_form(entity.request, obj, change=True, fields=names)
        empty = form_class(instance=obj)
    except KeyError as error:
        raise needs_more from error
    data: MultiValueDict[str, Any] = MultiValueDict()
    # A form class can have more fields than it was asked for: those stay as they are.
    others = [name for name in empty.fields if name not in names]
    initial = model_to_dict(obj, others)
    for name, field in empty.fields.items():
        if name in names:
            run_field_checks(field, name, given[name])
            value = widget_data(field, given[name])
        else:
            kept = initial[name] if name in initial else empty.get_initial_for_field(field, name)
            value = widget_data(field, kept)
        if not isinstance(field, forms.JSONField | forms.ModelChoiceField | forms.MultiValueField):
            value = field.prepare_value(value)
        _put(data, name, field.widget, value)
    form: forms.ModelForm[Any] = form_class(data, instance=obj, initial=initial)
    for field in form.fields.values():
        field.show_hidden_initial = False
    try:
        valid = form.is_valid()
    except KeyError as error:
        raise needs_more from error
    if not valid:
        # What a form says of other rows (uniqueness, constraints) is not for the model.
        raise Refused("The admin's form does not take these values.", code="form_refuses")
    return form


def _check_bound(ctx: Context, field: Any, value: Any) -> None:
    """Raise Refused for a related record that the preview did not look up: nobody asked whether it is hers."""
    for each in value if isinstance(value, list | tuple | models.QuerySet) else [value]:
        if each is not None and not (isinstance(each, field.remote_field.model) and ctx.knows(each)):
            raise Refused(f"{field.name}: a related record must come from ctx.look_up.", code="not_available")


def _put(data: MultiValueDict[str, Any], name: str, widget: Any, value: Any) -> None:
    """Write a value as the widget would send it."""
    widget = getattr(widget, "widget", widget)  # what the admin wraps around a relation's
    if isinstance(widget, forms.MultiWidget):
        split: Any = widget
        parts = value if isinstance(value, list | tuple) else split.decompress(value)
        for part, suffix, each in zip(split.widgets, split.widgets_names, parts, strict=True):
            _put(data, name + suffix, part, each)
        return
    if isinstance(widget, forms.CheckboxInput):
        if value:
            data[name] = "on"
        return
    shown = widget.format_value(value)
    if isinstance(shown, dict):
        for part, each in shown.items():
            data[f"{name}_{part}"] = "" if each is None else str(each)
    elif isinstance(shown, list | tuple):
        data.setlist(name, [str(each) for each in shown])
    else:
        data[name] = "" if shown is None else str(shown)
