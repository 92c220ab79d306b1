"""What was asked for, in words for the person: so that she sees how a date was understood, and what was left out."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from django.db import models
from django.utils.translation import gettext as _

from ..access import EntityAccess
from ..declaration import model_field
from ..display import display, field_label
from ..exceptions import CallError
from ..identity import key_is_data, key_text
from ..references import is_row
from ..values import clean_text, json_to_python
from .cells import cut
from .query import Query

WORD_CHARS = 200


def conditions_text(entity: EntityAccess, filters: Mapping[str, Any], query: Query) -> tuple[str, ...]:
    """Return a sentence for each filter and for the search. Related records are named as the call named them."""
    told = [_sentence(entity, name, given) for name, given in filters.items()]
    if query.search.strip():
        told.append(_("Search: “%(text)s”") % {"text": cut(query.search.strip(), WORD_CHARS)})
    return tuple(told)


def _sentence(entity: EntityAccess, name: str, given: Any) -> str:
    label = field_label(entity.model, name) if name != "id" else "ID"
    if not isinstance(given, Mapping):
        shown = _("is empty") if given is None else _shown(entity, name, given)
        return f"{label}: {shown}"
    if "isnull" in given:
        empty = _("is empty") if given["isnull"] else _("is not empty")
        return f"{label}: {empty}"
    if "in" in given:
        return f"{label}: {', '.join(_shown(entity, name, each) for each in given['in'])}"
    day = _whole_days(given)
    if day is not None:
        return f"{label}: {day}"
    words = {
        "gte": _("from %(value)s"),
        "gt": _("after %(value)s"),
        "lte": _("up to %(value)s"),
        "lt": _("before %(value)s"),
    }
    if not isinstance(model_field(entity.model, name), models.DateField | models.TimeField):
        words = {
            "gte": _("at least %(value)s"),
            "gt": _("more than %(value)s"),
            "lte": _("at most %(value)s"),
            "lt": _("less than %(value)s"),
        }
    parts = [words[lookup] % {"value": _end(entity, name, value)} for lookup, value in given.items()]
    return f"{label}: {', '.join(parts)}"


def _end(entity: EntityAccess, name: str, given: Any) -> str:
    """Return one end of a range: a day alone where a point in time is the start of one."""
    moment = _moment(given) if isinstance(model_field(entity.model, name), models.DateTimeField) else None
    if moment is not None and moment.time() == datetime.time():
        return display(None, moment.date())
    return _shown(entity, name, given)


def _whole_days(given: Mapping[str, Any]) -> str | None:
    """Return the first and the last day of a range that begins and ends with a day, or None."""
    ends = [_moment(given.get(lookup)) for lookup in ("gte", "lt")]
    if len(given) != 2 or None in ends or any(each.time() != datetime.time() for each in ends if each):
        return None
    start, end = (each.date() for each in ends if each is not None)
    last = end - datetime.timedelta(days=1)
    if last <= start:
        return display(None, start)
    return _("%(start)s to %(end)s") % {"start": display(None, start), "end": display(None, last)}


def _moment(given: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(given).replace(tzinfo=None)
    except (TypeError, ValueError):
        return None


def _shown(entity: EntityAccess, name: str, given: Any) -> str:
    if name == "id" and is_row(given) and not key_is_data(entity.model):
        try:
            return ", ".join(key_text(entity.model, key) for key in entity.keys(given))
        except CallError:
            pass
    field = model_field(entity.model, name) if name != "id" else None
    if field is not None and field.remote_field is None:
        try:
            return str(cut(display(field, json_to_python(field, name, given)), WORD_CHARS))
        except CallError:
            pass
    return str(cut(clean_text(str(given)), WORD_CHARS))
