"""Values between JSON and Django: strict on the way in, canonical on the way out.

Nothing is coerced: a number is no text, "false" is no boolean, a label is no choice. What a field would
accept by luck today is refused here with a reason that the model can mend.
"""

from __future__ import annotations

import datetime
import decimal
import json
import logging
import math
import re
import unicodedata
import uuid
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import DecimalValidator
from django.db import models
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime, parse_duration, parse_time
from django.utils.duration import duration_string

from .exceptions import CallError

logger = logging.getLogger("django_copilot")

_DECIMAL = re.compile(r"-?[0-9]{1,60}(\.[0-9]{1,60})?")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ISO_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?", re.ASCII)
_ISO_OFFSET = re.compile(r"(Z|[+-]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?", re.ASCII)

_WHEN = "expected a date and time like 2026-12-31T18:30:00."

FILLABLE = (
    models.CharField,
    models.TextField,
    models.BooleanField,
    models.IntegerField,
    models.DecimalField,
    models.FloatField,
    models.DateField,
    models.TimeField,
    models.DurationField,
    models.UUIDField,
    models.JSONField,
    models.GenericIPAddressField,
)


def wrong_value(name: str, why: str) -> CallError:
    """Return the error for a value that the field would not take."""
    return CallError(f"{name}: {why}", code="invalid_value", field=name)


def clean_text(text: str) -> str:
    """Return text that every database and encoder takes: no NUL, no lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def is_clean(value: Any) -> bool:
    """Tell whether a JSON value holds no NUL, no lone surrogate and no number that is not finite."""
    if isinstance(value, str):
        return clean_text(value) == value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(is_clean(key) and is_clean(each) for key, each in value.items())
    if isinstance(value, list):
        return all(is_clean(each) for each in value)
    return True


def has_invisible(value: Any) -> bool:
    """Tell whether text, or any text in a JSON value, holds characters that hide or reorder others."""
    if isinstance(value, str):
        return any(unicodedata.category(each) in ("Cf", "Cc") and each not in "\n\r\t" for each in value)
    if isinstance(value, dict):
        return any(has_invisible(key) or has_invisible(each) for key, each in value.items())
    return isinstance(value, list) and any(has_invisible(each) for each in value)


_BLANKS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)  # letters and marks that show nothing


def _hides(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cf", "Cc", "Zl", "Zp", "Co", "Cn")
        or char in _BLANKS
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    ) and char not in "\n\t"


def made_visible(text: str) -> str:
    """Return text with each character that hides, reorders or shows nothing written as its code: ⟨U+202E⟩."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(char):04X}⟩" if _hides(char) else char for char in text)


def has_choices(field: Any) -> bool:
    """Tell whether a model field has a closed list of raw values."""
    return bool(getattr(field, "flatchoices", None))


def json_to_python(field: Any, name: str, given: Any) -> Any:
    """Return the Python value of a model's JSON value for a field that is no relation. Raises CallError.

    ``None`` is returned as it is: whether a field may be empty is its form field's or the filter's business.
    """
    if not is_clean(given):
        raise wrong_value(name, "it holds characters or numbers that can't be stored.")
    if given is None:
        return None
    match field:
        case models.JSONField():
            return given
        case models.BooleanField():
            if not isinstance(given, bool):
                raise wrong_value(name, "expected true or false.")
            return given
        case models.IntegerField():
            if isinstance(given, str) and _INTEGER.fullmatch(given):
                given = int(given)
            if isinstance(given, bool) or not isinstance(given, int) or not -(2**63) <= given < 2**63:
                raise wrong_value(name, "expected a whole number.")
            return _chosen(field, name, given)
        case models.DecimalField():
            return _decimal(field, name, given)
        case models.FloatField():
            return float(given) if isinstance(given, float) else float(_number(name, given))
    if not isinstance(given, str):
        raise wrong_value(name, "expected text.")
    parsed: Any
    try:
        match field:
            case models.DateTimeField():
                return _in_time_zone(name, _or_wrong(name, _point_in_time(given), _WHEN))
            case models.DateField():
                parsed = parse_date(given) if _ISO_DATE.fullmatch(given) else None
                return _or_wrong(name, parsed, "expected a date like 2026-12-31.")
            case models.TimeField():
                parsed = parse_time(given) if _ISO_TIME.fullmatch(given) else None
                return _or_wrong(name, parsed, "expected a time like 18:30:00.")
            case models.DurationField():
                parsed = parse_duration(given) if given and given.isascii() else None
                return _or_wrong(name, parsed, "expected a duration like 3 04:30:00.")
            case models.UUIDField():
                parsed = uuid.UUID(given)
                return _or_wrong(name, parsed if str(parsed) == given.lower() else None, "expected a UUID.")
    except (ValueError, OverflowError):
        raise wrong_value(name, "that is not a valid value.") from None
    return _chosen(field, name, given)


def _chosen(field: Any, name: str, given: Any) -> Any:
    """Return a value that is among the field's choices, if it has any. Raises CallError."""
    if has_choices(field) and str(given) not in {str(raw) for raw, _ in field.flatchoices}:
        allowed = ", ".join(repr(str(raw)) for raw, _ in field.flatchoices if raw not in (None, ""))
        raise wrong_value(name, f"expected one of {allowed[:500]}.")
    return given


def _or_wrong(name: str, parsed: Any, why: str) -> Any:
    if parsed is None:
        raise wrong_value(name, why)
    return parsed


def _number(name: str, given: Any) -> decimal.Decimal:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise wrong_value(name, "expected a number.")
    text = format(decimal.Decimal(repr(given)), "f") if isinstance(given, float) else str(given)
    if not _DECIMAL.fullmatch(text):
        raise wrong_value(name, "expected a plain number like 1234.50, without separators or units.")
    return decimal.Decimal(text)


def _decimal(field: Any, name: str, given: Any) -> decimal.Decimal:
    """Return the number when the field can hold it as it is: a database would round it, or fail."""
    number = _number(name, given)
    try:
        DecimalValidator(field.max_digits, field.decimal_places)(number)
    except ValidationError as error:
        raise wrong_value(name, clean_text(" ".join(error.messages))[:300]) from None
    except Exception:
        # A field of the project's own may stumble over a value of a type it never gets from a browser.
        logger.info("The form field %s could not check a value.", name, exc_info=True)
        raise wrong_value(name, "that is not a valid value.") from None
    return number


def _point_in_time(given: str) -> datetime.datetime | None:
    """Return a date and time, or the start of a day; None unless it is written out in full."""
    day, rest = given[:10], given[11:]
    if not _ISO_DATE.fullmatch(day):
        return None
    if len(given) == 10:
        start = parse_date(day)
        return datetime.datetime.combine(start, datetime.time()) if start is not None else None
    clock = _ISO_TIME.match(rest)
    if given[10] not in "T " or clock is None or not _ISO_OFFSET.fullmatch(rest, clock.end()):
        return None
    return parse_datetime(given)


def _in_time_zone(name: str, value: datetime.datetime) -> datetime.datetime:
    """Return the point in time that is meant. Raises CallError, and OverflowError at the ends of time."""
    current = timezone.get_current_timezone()
    if not settings.USE_TZ:
        return value if timezone.is_naive(value) else timezone.make_naive(value, current)
    if timezone.is_naive(value):
        made = timezone.make_aware(value, current)
        # Through UTC: within one time zone nothing is converted, and the gap would not show.
        if timezone.make_naive(made.astimezone(datetime.UTC), current) != value:
            raise wrong_value(name, "that time does not exist on that day in this time zone.")
        if made.replace(fold=1).utcoffset() != made.utcoffset():
            raise wrong_value(name, "that time comes twice on that day; add the offset, like +01:00.")
        value = made
    value.astimezone(datetime.UTC)
    value.astimezone(current)
    return value


def to_json(value: Any) -> Any:
    """Return the canonical JSON of a stored value: numbers with a scale and points in time as text."""
    match value:
        case None | bool() | int() | str():
            return value if not isinstance(value, str) else clean_text(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case datetime.datetime():
            return (timezone.localtime(value) if timezone.is_aware(value) else value).isoformat()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            return duration_string(value)
        case dict():
            return {clean_text(str(key)): to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case models.Model():
            return to_json(value.pk)
        case _:
            return clean_text(str(value))


def widget_data(field: forms.Field, value: Any) -> Any:
    """Return a typed value in the shape that the form field's ``clean`` expects."""
    if isinstance(field, forms.ModelMultipleChoiceField):
        return [field.prepare_value(each) for each in value or ()]
    if isinstance(field, forms.ModelChoiceField):
        return field.prepare_value(value)
    if isinstance(field, forms.MultiValueField):
        return field.widget.decompress(value)
    if isinstance(field, forms.JSONField):
        return json.dumps(value, cls=field.encoder) if value is not None else ""
    if isinstance(field, forms.NullBooleanField | forms.BooleanField):
        return value
    if isinstance(value, bool | int | float) and isinstance(field, forms.ChoiceField):
        return str(value)
    return value


def run_field_checks(field: forms.Field, name: str, value: Any) -> None:
    """Run the form field's own ``clean`` on a typed value. Raises CallError with the field's reason."""
    try:
        field.clean(widget_data(field, value))
    except ValidationError as error:
        raise wrong_value(name, clean_text(" ".join(error.messages))[:300]) from None
    except Exception:
        # A field of the project's own may stumble over a value of a type it never gets from a browser.
        logger.info("The form field %s could not check a value.", name, exc_info=True)
        raise wrong_value(name, "that is not a valid value.") from None


def field_schema(field: Any, form_field: forms.Field | None = None) -> dict[str, Any]:
    """Return the JSON schema of a field's value that is no relation."""
    if has_choices(field):
        raws = [raw for raw, _ in field.flatchoices if raw not in (None, "")]
        whole = isinstance(field, models.IntegerField)
        if len(raws) <= 40:
            return {
                "type": "integer" if whole else "string",
                "enum": raws if whole else [str(r) for r in raws],
            }
    match field:
        case models.JSONField():
            return {"description": "any JSON"}
        case models.BooleanField():
            return {"type": "boolean"}
        case models.IntegerField():
            return {"type": "integer"}
        case models.DecimalField() | models.FloatField():
            return {"type": "string"}
        case models.DateTimeField():
            return {"type": "string", "format": "date-time"}
        case models.DateField():
            return {"type": "string", "format": "date"}
        case models.TimeField():
            return {"type": "string", "format": "time"}
        case _:
            return {"type": "string"}


def column_type(field: Any) -> str:
    """Return how a person's table should draw a field."""
    if has_choices(field):
        return "choice"
    match field:
        case models.ManyToManyField():
            return "relations"
        case models.ForeignKey():
            return "relation"
        case models.JSONField():
            return "json"
        case models.BooleanField():
            return "boolean"
        case models.IntegerField() | models.DecimalField() | models.FloatField():
            return "number"
        case models.DateTimeField():
            return "datetime"
        case models.DateField():
            return "date"
        case models.TimeField():
            return "time"
        case _:
            return "text"
