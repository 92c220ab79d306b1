"""What members of staff write: sentences of the offline backend in its three languages, about any entity."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.forms import MultiValueField
from django.utils import timezone, translation

from ...declaration import model_field
from ..rights import Rights

LANGUAGES = ("en", "pl", "ru")
SENTENCES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "list": "Show {nouns}",
        "filter": "Show {nouns} with {field} {value}",
        "record": "Show {noun} {id}",
        "add": "Add {noun}: {field} {value}",
        "change": "Change {noun} {id}: {field} {value}",
        "delete": "Delete {noun} {id}",
        "change which": "Change {noun}",
        "delete which": "Delete {noun}",
        "count": "How many {nouns} are there?",
        "second": "Show the second one",
    },
    "pl": {
        "list": "Pokaż {nouns}",
        "filter": "Pokaż {nouns} gdzie {field} {value}",
        "record": "Pokaż {noun} {id}",
        "add": "Dodaj {noun}: {field} {value}",
        "change": "Zmień {noun} {id}: {field} {value}",
        "delete": "Usuń {noun} {id}",
        "change which": "Zmień {noun}",
        "delete which": "Usuń {noun}",
        "count": "Ile jest: {nouns}?",
        "second": "Pokaż drugie",
    },
    "ru": {
        "list": "Покажи {nouns}",
        "filter": "Покажи {nouns} где {field} {value}",
        "record": "Покажи {noun} {id}",
        "add": "Добавь {noun}: {field} {value}",
        "change": "Измени {noun} {id}: {field} {value}",
        "delete": "Удали {noun} {id}",
        "change which": "Измени {noun}",
        "delete which": "Удали {noun}",
        "count": "Сколько {nouns}?",
        "second": "Покажи второй",
    },
}
_YES_NO = {"en": ("yes", "no"), "pl": ("tak", "nie"), "ru": ("да", "нет")}
_QUOTES = {"en": ('"', '"'), "pl": ("„", "”"), "ru": ("«", "»")}
# What is tried for a text, until the form's own field takes one. The number keeps it from being what is there already.
_TEXTS = (
    "Blue mug {}",
    "blue-mug-{}",
    "blue.mug.{}@example.com",
    "https://example.com/blue/{}",
    "BM{}",
    "{}",
)


def languages() -> list[str]:
    """Return the languages that the project speaks of those the offline backend knows, or all of these."""
    spoken = {code.split("-")[0] for code, _name in settings.LANGUAGES}
    return [each for each in LANGUAGES if each in spoken] or list(LANGUAGES)


@dataclass(frozen=True)
class Said:
    """A value of a field: as a person says it, as a tool takes it, and as the record holds it."""

    field: str
    text: str
    given: Any
    typed: Any


def sentence(kind: str, model: Any, language: str, *, ident: str = "", said: Said | None = None) -> str:
    """Return what a person writes. Raises LookupError for a field that the model does not have."""
    meta = model._meta
    with translation.override(language):
        names = {"noun": str(meta.verbose_name), "nouns": str(meta.verbose_name_plural)}
        label = str(meta.get_field(said.field).verbose_name) if said is not None else ""
    return SENTENCES[language][kind].format(
        **names, id=ident, field=label, value=said.text if said is not None else ""
    )


def quoted(text: str, language: str) -> str:
    """Return text in the language's quotation marks."""
    opening, closing = _QUOTES[language]
    return f"{opening}{text}{closing}"


def ident_of(model: Any, pk: Any) -> str:
    """Return how a sentence names a record by its key, or "" where it can't."""
    if isinstance(model._meta.pk, models.IntegerField):
        return str(pk) if pk >= 0 else ""
    return f'id "{pk}"' if isinstance(model._meta.pk, models.UUIDField) else ""


# -- values to search by --------------------------------------------------------------------------------------


def to_search(rights: Rights, model: Any, language: str, *, marked: set[tuple[Any, str]]) -> list[Said]:
    """Return values that a person can search the records by, one for each readable field that has such.

    ``marked`` are (key, field) of the cells that hold hostile text, which no sentence can spell.
    """
    found: dict[str, Said] = {}
    rows = rights.rows(model)
    for pk, obj in list(rows.items())[:50]:
        for name in sorted(rights.readable(model, pk) - found.keys()):
            field = model_field(model, name)
            if field is not None and (pk, name) not in marked:
                said = _held(field, name, obj, language)
                if said is not None:
                    found[name] = said
    # A field that is not readable on a record without knowing it can't be searched by.
    shown = _readable_without_record(rights, model)
    return [said for name, said in sorted(found.items()) if name in shown]


def _readable_without_record(rights: Rights, model: Any) -> set[str]:
    each, request = rights.declared[model], rights.request
    form = each.get_form(request, None, change=False)
    shown = {*form.base_fields, *each.get_readonly_fields(request, None)}
    shown |= {name for name in each.get_list_display(request) if isinstance(name, str)}
    return set(each.get_harness_list(request, None)) & shown


def _held(field: Any, name: str, obj: Any, language: str) -> Said | None:
    if field.many_to_many or field.primary_key:
        return None
    value = getattr(obj, field.attname)
    if value is None or value == "":
        return None
    if field.remote_field is not None:
        whole = isinstance(value, int) and field.target_field.primary_key
        return Said(name, str(value), str(value), value) if whole else None
    if field.choices:
        return Said(name, _word(str(value), language), value, value)
    if isinstance(field, models.BooleanField):
        return Said(name, _YES_NO[language][not value], value, value)
    if isinstance(field, models.IntegerField):
        return Said(name, str(value), value, value) if value >= 0 else None
    if isinstance(field, models.DecimalField):
        return Said(name, str(value), str(value), value) if value >= 0 else None
    plain = isinstance(value, str) and re.fullmatch(r"[\w.@+-]+(?: [\w.@+-]+){0,5}", value)
    is_text = isinstance(field, models.CharField | models.TextField)
    return Said(name, quoted(value, language), value, value) if plain and is_text else None


def _word(text: str, language: str) -> str:
    return text if re.fullmatch(r"[^\W\d_]\w*(?:[-_]\w+)*", text) else quoted(text, language)


# -- values to fill in ----------------------------------------------------------------------------------------


def form_of(rights: Rights, model: Any, obj: Any) -> Any:
    """Return the class of the form on her add page, or on the change page of a record."""
    each, request = rights.declared[model], rights.request
    shown = [name for _title, part in each.get_fieldsets(request, obj) for name in _flat(part["fields"])]
    return each.get_form(request, obj, change=obj is not None, fields=shown)


def _flat(names: Sequence[Any]) -> list[str]:
    return [one for each in names for one in (each if isinstance(each, list | tuple) else [each])]


def to_fill(rights: Rights, model: Any, obj: Any, language: str, *, number: int) -> list[Said]:
    """Return values that a person can have filled in for a record, or for a new one: one for each such field."""
    each, request = rights.declared[model], rights.request
    form = form_of(rights, model, obj)(instance=obj) if obj is not None else form_of(rights, model, obj)()
    fixed = set(each.get_readonly_fields(request, obj))
    found = []
    for name in each.get_harness_persist(request, obj):
        field = model_field(model, name)
        if (
            field is None
            or name in fixed
            or name not in form.fields
            or form.fields[name].disabled
            or isinstance(field, models.FileField)
        ):
            continue
        current = getattr(obj, name) if obj is not None and not field.many_to_many else None
        said = next(
            (one for one in _new(rights, field, language, number) if _takes(form, one, current)), None
        )
        if said is not None:
            found.append(said)
    return found


def _takes(form: Any, said: Said, current: Any) -> bool:
    if said.typed == current or (isinstance(current, models.Model) and said.typed == current.pk):
        return False
    field = form.fields[said.field]
    try:
        if not isinstance(field, MultiValueField):  # a date and a time in two inputs: fits as it is
            field.clean(said.given)
    except ValidationError:
        return False
    return True


def _new(rights: Rights, field: Any, language: str, number: int) -> Iterator[Said]:
    name = field.name
    if field.remote_field is not None:
        related = field.remote_field.model
        for pk in list(rights.rows(related))[:10] if related in rights.declared else ():
            if isinstance(pk, int):
                many = field.many_to_many
                yield Said(name, str(pk), [str(pk)] if many else str(pk), [pk] if many else pk)
    elif field.choices:
        for value, _label in field.flatchoices:
            if value not in (None, ""):
                yield Said(name, _word(str(value), language), value, value)
    elif isinstance(field, models.BooleanField):
        for value in (True, False):
            yield Said(name, _YES_NO[language][not value], value, value)
    elif isinstance(field, models.DecimalField):
        for text in (f"{number}.50", f"{number}"):
            yield Said(name, text, text, Decimal(text))
    elif isinstance(field, models.IntegerField | models.FloatField):
        yield Said(name, str(number), number, number)
    elif isinstance(field, models.DateTimeField):
        when = datetime.datetime.combine(datetime.date(2030, 5, 1 + number % 28), datetime.time(10, 30))
        aware = timezone.make_aware(when) if settings.USE_TZ else when
        yield Said(name, when.strftime("%Y-%m-%d %H:%M"), when.isoformat(), aware)
    elif isinstance(field, models.DateField):
        day = datetime.date(2030, 5, 1 + number % 28)
        yield Said(name, day.isoformat(), day.isoformat(), day)
    elif isinstance(field, models.JSONField):
        yield Said(name, f'{{"colour": {number}}}', {"colour": number}, {"colour": number})
    elif isinstance(field, models.CharField | models.TextField):
        for pattern in _TEXTS:
            text = pattern.format(number)
            yield Said(name, quoted(text, language), text, text)
