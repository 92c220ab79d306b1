"""How a record is named towards a model: the canonical text of its key, or an opaque reference.

Keys that the database makes (automatic numbers, UUIDs) say nothing and are named as they are. Any other key
is data: it is named by itself only where it was declared and may be read, else a reference stands for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.crypto import salted_hmac

from .exceptions import CallError
from .models import Reference
from .scope import ScopedRequest

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_PREFIX = "ref_"


def key_field(model: type[models.Model]) -> Any:
    """Return the field that holds the key's value: through parent links to the real one."""
    field: Any = model._meta.pk
    while field.remote_field is not None:
        field = field.target_field
    return field


def own_key(model: type[models.Model]) -> Any:
    """Return the field that decides whether the key is shown: past links to parents, but no other relation."""
    field: Any = model._meta.pk
    while field.remote_field is not None and field.remote_field.parent_link:
        field = field.remote_field.model._meta.pk
    return field


def key_is_data(model: type[models.Model]) -> bool:
    """Tell whether the key's value may tell something about the record."""
    return not isinstance(
        key_field(model), models.AutoField | models.BigAutoField | models.SmallAutoField | models.UUIDField
    )


def key_text(model: type[models.Model], pk: Any) -> str:
    """Return the canonical text of a key."""
    field = key_field(model)
    if isinstance(field, models.DateTimeField | models.DateField | models.TimeField) and pk is not None:
        return str(pk.isoformat())
    return str(pk)


def parse_key(model: type[models.Model], given: Any) -> Any:
    """Return the key that a model's JSON value names. Raises CallError for anything not canonical."""
    field = key_field(model)
    wrong = CallError("An id is the record's own id as text, exactly as a query gave it.", code="invalid_id")
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise wrong
    if isinstance(given, int):
        if not isinstance(field, models.IntegerField):
            raise wrong
        given = str(given) if abs(given) < 10**19 else "x"
    if not given or len(given) > 500 or "\x00" in given:
        raise wrong
    try:
        given.encode()
        if isinstance(field, models.IntegerField):
            if not _WHOLE.fullmatch(given):
                raise wrong
            value: Any = int(given)
            if not -(2**63) <= value < 2**63:
                raise wrong
            return value
        value = field.to_python(given)
    except (ValidationError, ValueError, TypeError, OverflowError):
        raise wrong from None
    if key_text(model, value) != given:
        raise wrong
    return value


def _token(request: ScopedRequest, model: type[models.Model], text: str) -> str:
    message = json.dumps(
        [
            str(request.user.pk),
            request.copilot_scope.site,
            request.copilot_scope.key,
            model._meta.label_lower,
            text,
        ]
    )
    return _PREFIX + salted_hmac("django_copilot.identity", message, algorithm="sha256").hexdigest()[:32]


def refer(request: ScopedRequest, model: type[models.Model], pks: Iterable[Any]) -> dict[Any, str]:
    """Return an opaque reference for each key, remembered for this person."""
    tokens = {pk: _token(request, model, key_text(model, pk)) for pk in pks}
    if tokens:
        Reference.objects.bulk_create(
            [
                Reference(
                    token=token,
                    user_id=request.user.pk,
                    model=model._meta.label_lower,
                    object_pk=key_text(model, pk),
                )
                for pk, token in tokens.items()
            ],
            ignore_conflicts=True,
        )
    return tokens


def is_reference(given: Any) -> bool:
    """Tell whether an id from the model has the form of a reference."""
    return isinstance(given, str) and given.startswith(_PREFIX) and len(given) <= 40 and given.isascii()


def dereference(request: ScopedRequest, model: type[models.Model], given: Any) -> Any:
    """Return the key that a reference stands for. Raises CallError when it is not one of this person's."""
    if is_reference(given):
        found = Reference.objects.filter(
            token=given, user_id=request.user.pk, model=model._meta.label_lower
        ).first()
        if found is not None and _token(request, model, found.object_pk) == given:
            return parse_key(model, found.object_pk)
    raise CallError("An id is the record's own id as text, exactly as a query gave it.", code="invalid_id")
