"""Values proposed for a form: checked against the real form, stored canonically, and put into it.

Used three times with the same code: when a tool proposes values, when the page opens (with the rights of
that moment), and when a hand-made link brings values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db import models

from .access import EntityAccess, ask_hook, related_rows
from .declaration import model_field
from .exceptions import CallError, Refused
from .identity import dereference, key_is_data, key_text, parse_key
from .reading import unknown_field
from .references import is_handle
from .values import json_to_python, run_field_checks, to_json, wrong_value

MAX_INLINE_ROWS = 500


@dataclass(frozen=True, kw_only=True)
class Filled:
    """Checked values for a form: ``stored`` as canonical JSON, ``typed`` as Python objects, by field."""

    stored: dict[str, Any]
    typed: dict[str, Any]
    dropped: tuple[str, ...]  # names given that can't be filled in here
    form_names: tuple[str, ...] = ()  # every field of the person's form


def open_form(entity: EntityAccess, obj: Any) -> forms.ModelForm[Any]:
    """Return the unbound form that the person would get for a record, or the add form for None."""
    cls = entity.form_class(obj, change=obj is not None)
    form: forms.ModelForm[Any] | None = ask_hook(
        entity.model_admin, "form", None, lambda: cls(instance=obj) if obj is not None else cls()
    )
    if form is None:
        raise Refused("That form can't be opened by the assistant.", code="not_available")
    return form


def fill_from_tool(entity: EntityAccess, obj: Any, given: Mapping[str, Any]) -> Filled:
    """Check values from a model's call. Raises CallError for the first that can't be used."""
    declared = entity.declared(obj)
    fillable = entity.fillable(obj, change=obj is not None)
    for name in given:
        if name not in declared:
            raise unknown_field(name, fillable)
    form = open_form(entity, obj)
    usable = [name for name in given if name in fillable and _is_open(form, name)]
    dropped = tuple(name for name in given if name not in usable)
    if not usable and (given or not fillable):
        raise Refused(
            f"This person can't fill in {', '.join(dropped) or 'anything'} here. "
            f"Fields: {', '.join(fillable) or 'none'}.",
            code="not_fillable",
        )
    typed = {name: _typed(entity, form, name, given[name], from_model=True) for name in usable}
    return Filled(
        stored={name: _stored(entity, name, value) for name, value in typed.items()},
        typed=typed,
        dropped=dropped,
    )


def fill_from_store(
    entity: EntityAccess, obj: Any, stored: Mapping[str, Any], *, without: Iterable[str] = ()
) -> Filled:
    """Turn stored or linked values into typed ones, leaving out what can't be filled in any more."""
    fillable = set(entity.fillable(obj, change=obj is not None)) - set(without)
    form = open_form(entity, obj)
    typed: dict[str, Any] = {}
    for name in form.fields:  # in the form's order, which a database need not keep for JSON
        if name in stored and name in fillable and _is_open(form, name):
            try:
                typed[name] = _typed(entity, form, name, stored[name], from_model=False)
            except CallError:
                continue
    return Filled(
        stored={name: _stored(entity, name, value) for name, value in typed.items()},
        typed=typed,
        dropped=tuple(name for name in stored if name not in typed),
        form_names=tuple(form.fields),
    )


def _is_open(form: forms.ModelForm[Any], name: str) -> bool:
    return name in form.fields and not form.fields[name].disabled


def _typed(
    entity: EntityAccess, form: forms.ModelForm[Any], name: str, given: Any, *, from_model: bool
) -> Any:
    """Return the Python value for a form field, after the field's own checks."""
    field, form_field = model_field(entity.model, name), form.fields[name]
    value: Any
    if from_model and is_handle(given):
        # Not checked: whether the form takes it would tell the model of a value that it never gets.
        return entity.access.handled(given, field)
    if field is None:
        if not isinstance(given, str | int | float | bool):
            raise wrong_value(name, "expected plain text or a number.")
        value = given
    elif field.many_to_many:
        if not isinstance(given, list):
            raise wrong_value(name, "expected a list of ids.")
        value = _related(entity, field, form_field, name, given, from_model)
    elif field.remote_field is not None:
        value = None
        if given is not None:
            value = _related(entity, field, form_field, name, [given], from_model)[0]
    else:
        value = json_to_python(field, name, given)
    run_field_checks(form_field, name, value)
    return value


def _related(
    entity: EntityAccess,
    field: Any,
    form_field: forms.Field,
    name: str,
    given: Sequence[Any],
    from_model: bool,
) -> list[Any]:
    """Return related records that are in the form field's rows and among the person's rows of their admin."""
    model = field.remote_field.model
    if len(given) > 200:
        raise wrong_value(name, "expected at most 200 ids.")
    rows = related_rows(entity.access, model)
    if rows is None or not isinstance(form_field, forms.ModelChoiceField):
        raise wrong_value(name, "this relation can't be filled in by the assistant.")
    related = entity.access.of_model(model) if from_model else None
    try:
        if related is not None:
            keys = [related.keys(raw) for raw in given]
        elif from_model and key_is_data(model):
            keys = [[dereference(entity.request, model, raw)] for raw in given]
        else:
            keys = [[parse_key(model, raw)] for raw in given]
    except CallError as error:
        raise CallError(f"{name}: {error.message}", code=error.code, field=name) from None
    pks = list(dict.fromkeys(key for each in keys for key in each))
    seen = rows.visible(set(pks))
    offered = set(form_field.queryset.filter(models.Q(("pk__in", pks))).values_list("pk", flat=True))  # type: ignore[union-attr]
    if not all(keys) or any(pk not in seen or pk not in offered for pk in pks):
        raise Refused(f"{name}: no such record can be chosen here.", code="invalid_value", field=name)
    return [seen[pk] for pk in pks]


def _stored(entity: EntityAccess, name: str, value: Any) -> Any:
    if isinstance(value, list) and value and isinstance(value[0], models.Model):
        return [key_text(type(each), each.pk) for each in value]
    if isinstance(value, models.Model):
        return key_text(type(value), value.pk)
    return to_json(value)
