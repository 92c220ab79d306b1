"""Columns of an admin's list that no field holds: what a method or a property says of each record, as text."""

from __future__ import annotations

import copy
import functools
import html
import inspect
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.utils import display_for_value, label_for_field, lookup_field
from django.core.exceptions import FieldDoesNotExist, ObjectDoesNotExist
from django.core.validators import EMPTY_VALUES
from django.db import models
from django.utils.html import strip_tags
from django.utils.text import capfirst

from ..access import EntityAccess, ask_hook
from ..conf import get_settings
from ..database import contained
from ..display import display
from ..tools.guard import only_reading, through_context
from ..values import clean_text
from .cells import cut

logger = logging.getLogger("django_copilot")

HTML_CHARS = 50_000  # of markup that is looked at to make one text
_UNSEEN = re.compile(r"<(script|style|template)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_BREAKS = re.compile(r"<(?:br|/p|/div|/li|/tr|/td|/th|/h[1-6])\b[^>]*>", re.IGNORECASE)
# Names of what does something, even where nothing says that it alters data.
_DOES = re.compile(r"(?:delete|save|remove|destroy|purge|drop|truncate)(?:_(?:all|self|now))?")


def declared_computed(model_admin: Any) -> tuple[str, ...]:
    """Return the declared names, without what is malformed."""
    given = model_admin.harness_computed
    if isinstance(given, str) or not isinstance(given, Sequence):
        return ()
    return tuple(dict.fromkeys(name for name in given if isinstance(name, str)))


def name_of(entry: Any) -> str:
    """Return the name of a column of ``list_display``, which may be a function."""
    return entry if isinstance(entry, str) else str(getattr(entry, "__name__", ""))


def why_not(model_admin: Any, entry: Any) -> str:
    """Return why a column of the list is never computed for a model: "field", "does", "missing", or "" if it is."""
    model, name = model_admin.model, name_of(entry)
    if callable(entry):
        return "does" if _does(name, entry) else ""
    if "__" in name:
        return "missing"
    if _is_of_model(model, name):
        return "field"
    missing = object()
    found = inspect.getattr_static(model_admin, name, missing)
    if found is missing:
        found = inspect.getattr_static(model, name, missing)
    if found is missing:
        # An annotation of ``get_queryset`` is on the records only.
        return "does" if _DOES.fullmatch(name) else ""
    return "does" if hasattr(ModelAdmin, name) or hasattr(models.Model, name) or _does(name, found) else ""


def _is_of_model(model: type[models.Model], name: str) -> bool:
    """Tell whether the model has a field, a column, rows of another model or a manager of that name."""
    accessors = {each.get_accessor_name() for each in model._meta.related_objects}
    if name in accessors or name in {each.name for each in model._meta.managers}:
        return True
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


def _does(name: str, found: Any) -> bool:
    """Tell whether a function is marked as altering data, or is named as if it did."""
    while isinstance(found, functools.partialmethod | functools.partial):
        found = found.func
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    function = found.fget if isinstance(found, property) else found
    return bool(getattr(function, "alters_data", False)) or _DOES.fullmatch(name) is not None


def computed_names(entity: EntityAccess) -> tuple[str, ...]:
    """Return the declared names that a query may use, whether or not this person's list shows them."""
    if not entity.model_admin.harness_computed:
        return ()
    return tuple(
        name for name in declared_computed(entity.model_admin) if not why_not(entity.model_admin, name)
    )


class Computed:
    """One column of the list. It is computed on a copy of each record, and nothing but reading is let through."""

    def __init__(self, entity: EntityAccess, name: str, entry: Any) -> None:
        self.name = name
        self.told: dict[str, tuple[str, ...]] = {entity.entity.label: (name,)}
        self._model_admin = entity.model_admin
        self._entry = entry
        self._is_boolean = False
        self._values: dict[Any, str | bool | None] = {}

    @classmethod
    def all(cls, entity: EntityAccess, names: Iterable[str]) -> Iterator[Computed]:
        """Go through those of these columns that this person's list shows."""
        names = tuple(names)
        if not names:
            return
        ma = entity.model_admin
        listed: tuple[Any, ...] = ask_hook(
            ma, "get_list_display", (), lambda: tuple(ma.get_list_display(entity.request))
        )
        shown = {name_of(each): each for each in reversed(listed)}
        for name in names:
            if name in shown and not why_not(ma, shown[name]):
                yield cls(entity, name, shown[name])

    def read(self, records: Sequence[Any]) -> None:
        """Compute the column for each record. An exception makes the cell empty, and is logged once."""
        failed: Exception | None = None
        for record in records:
            try:
                # A copy: what the project's code does to it must not get into what is read of the record.
                with contained(), only_reading(), through_context():
                    self._values[record.pk] = self._value(copy.copy(record))
            except Exception as error:
                failed, self._values[record.pk] = failed or error, None
        if failed is not None:
            logger.error(
                "%s.%s failed for the copilot, as a column of harness_computed; its cells are empty.",
                type(self._model_admin).__name__,
                self.name,
                exc_info=failed,
            )

    def _value(self, record: Any) -> str | bool | None:
        """Return what the list shows of a record, as the list asks for it."""
        empty = self._model_admin.get_empty_value_display()
        try:
            _field, attribute, value = lookup_field(self._entry, record, self._model_admin)
        except ObjectDoesNotExist:
            return _plain(empty) or None
        said = attribute.fget if isinstance(attribute, property) else attribute
        if getattr(said, "boolean", False):
            self._is_boolean = True
            return None if value is None else bool(value)
        empty = getattr(attribute, "empty_value_display", empty)
        if value in EMPTY_VALUES or (isinstance(value, str) and not value.strip()):
            return _plain(empty) or None
        return _plain(display_for_value(value, empty)) or None

    def for_person(self) -> dict[str, Any]:
        """Return the column's head, with the label that the list gives it."""
        kind = "boolean" if self._is_boolean else "text"
        return {"name": self.name, "label": self._label(), "type": kind}

    def _label(self) -> str:
        ma = self._model_admin
        return ask_hook(
            ma,
            self.name,
            self.name,
            lambda: clean_text(str(capfirst(str(label_for_field(self._entry, ma.model, ma))))),
        )

    def is_readable_on(self, record: Any) -> bool:
        """Tell whether it was computed for this record; her list shows it on every one."""
        return record.pk in self._values

    def cell(self, record: Any) -> str | bool | None:
        """Return the text, true or false, or nothing."""
        return self._values[record.pk]

    def sent(self, value: Any) -> Any:
        """Return the same: it is short."""
        return value

    def text(self, record: Any) -> str:
        """Return it as text."""
        value = self._values[record.pk]
        return value if isinstance(value, str) else display(None, value)


def _plain(shown: Any) -> str:
    """Return what a list draws as text without markup: only what is marked as safe is any."""
    text = str(shown)
    if hasattr(shown, "__html__"):
        text = _UNSEEN.sub(" ", text[:HTML_CHARS])
        text = html.unescape(strip_tags(_BREAKS.sub(" ", text)))
        text = " ".join(text.split())
    return str(cut(clean_text(text.strip()), get_settings().CELL_CHARS)) if text.strip() != "-" else ""
