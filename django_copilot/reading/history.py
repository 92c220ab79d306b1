"""Who changed which fields of a record when, of the fields that this person may read of it today.

A version that differs from the one before it in other fields only is as if it were not there: it is no entry
and leaves no gap. What she is shown and the model is not sent is in her table alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ..access import EntityAccess
from ..access.history import may_see_history, versions_of
from ..conf import get_settings
from ..declaration import PERSONAL, model_field
from ..display import display, field_label
from ..exceptions import Refused
from ..identity import key_text
from ..values import clean_text, to_json
from .cells import PERSON_CHARS, cut, merge, related_values

HISTORY_ENTRIES = 50
HISTORY_VERSIONS = 1_000  # versions looked at to find so many entries
NAME_CHARS = 200  # of the name of who changed something
PAST = "=history"  # stands among the fields that were told for the right to look at the past
CREATED, CHANGED, DELETED = "+", "~", "-"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field as it was and as it became: what the columns hold."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One version that tells something. ``by`` is a user's key."""

    at: Any
    by: Any
    name: str | None
    kind: str
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True)
class History:
    """What is told of a record's past."""

    entity: EntityAccess
    record: Any
    ident: str
    fields: tuple[str, ...]  # that the model is told a change of
    shown: tuple[Entry, ...]  # to the person
    shown_more: bool
    sent: tuple[Entry, ...]
    sent_more: bool
    names_people: bool  # whether the model may get the names of who changed something
    related: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form of the read."""
        return {
            "kind": "history",
            "entity": self.entity.entity.label,
            "id": key_text(self.entity.model, self.record.pk),
        }

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing was found."""
        return not self.shown

    def for_model(self) -> tuple[dict[str, Any], int]:
        """Return the tool result, cut at the stated sizes, and how many entries are in it."""
        settings = get_settings()
        result: dict[str, Any] = {
            "entity": self.entity.name,
            "id": self.ident,
            "changes": [],
            "more": self.sent_more,
        }
        size = len(json.dumps(result))
        people: dict[Any, str] = {}
        for entry in self.sent:
            made = {
                "at": to_json(entry.at),
                "by": self._by(entry, people),
                "type": "created" if entry.kind == CREATED else "changed",
                "fields": [
                    {
                        "field": each.field,
                        "old": cut(self._value(each.field, each.old), settings.CELL_CHARS),
                        "new": cut(self._value(each.field, each.new), settings.CELL_CHARS),
                    }
                    for each in entry.changes
                ],
            }
            size += len(json.dumps(made, ensure_ascii=False).encode()) + 2
            if size > settings.RESULT_BYTES:
                result["more"] = True
                result["cut"] = "The result was too long; the changes before these were left out."
                break
            result["changes"].append(made)
        return result, len(result["changes"])

    def _by(self, entry: Entry, people: dict[Any, str]) -> str | None:
        """Return a person's name for the model; a number instead where a name is not for it."""
        if entry.by is None or (self.names_people and entry.name is None):
            return None
        if self.names_people and "@" not in (entry.name or ""):  # an address, whatever the field is called
            return entry.name
        return people.setdefault(entry.by, f"person {len(people) + 1}")

    def _value(self, name: str, raw: Any) -> Any:
        source = model_field(self.entity.model, name)
        if source.remote_field is not None:
            return self.related.get(name, {}).get(raw)
        return str(raw) if isinstance(source, models.FileField) else to_json(raw)

    def _text(self, name: str, raw: Any) -> str:
        source = model_field(self.entity.model, name)
        if source.remote_field is None:
            return str(cut(clean_text(display(source, raw)), PERSON_CHARS))
        value = self.related.get(name, {}).get(raw)
        return clean_text(str(value.get("label", value["id"]))) if value is not None else ""

    def _lines(self) -> Iterator[tuple[Any, str, str, str, str]]:
        """Go through the lines of the person's table: one for each field that was changed."""
        for entry in self.shown:
            by = entry.name or ""
            if entry.kind == CREATED:
                yield entry.at, by, _("Created"), "", ""
            for each in entry.changes:
                label = field_label(self.entity.model, each.field)
                yield entry.at, by, label, self._text(each.field, each.old), self._text(each.field, each.new)

    def for_person(self) -> dict[str, Any]:
        """Return the table that the person sees."""
        heads = {"at": _("When"), "by": _("Who"), "field": _("Field"), "old": _("Before"), "new": _("After")}
        return {
            "entity": self.entity.name,
            "kind": "history",
            "label": _("History of %(name)s %(id)s")
            % {"name": str(self.entity.model._meta.verbose_name), "id": self.ident},
            "columns": [
                {"name": name, "label": str(capfirst(label)), "type": "datetime" if name == "at" else "text"}
                for name, label in heads.items()
            ],
            "rows": [
                {
                    "id": None,
                    "url": None,
                    "values": dict(zip(heads, (to_json(at), *rest), strict=True)),
                }
                for at, *rest in self._lines()
            ],
            "hasMore": self.shown_more,
        }

    def texts(self) -> list[list[str]]:
        """Return the cells of ``for_person`` as text, row by row, for a page."""
        return [[display(None, at), *rest] for at, *rest in self._lines()]


def run_history(entity: EntityAccess, record: Any) -> History:
    """Read the past of a record that the person may view. Raises Refused where she may not look at it."""
    if not entity.tells_history:
        raise Refused("There is no history of these records.", code="not_available")
    with entity.at("history", record):
        versions = versions_of(entity, record) if may_see_history(entity, record) else None
    if versions is None:
        raise Refused("This person may not see the history of that record.", code="not_allowed")
    tracked = {each.name for each in versions.model.tracked_fields if not each.many_to_many}
    with entity.at("change", record):
        readable = tuple(name for name in entity.readable(record) if name in tracked)
        showable = tuple(name for name in entity.showable(record) if name in tracked)
    shown, sent = _entries(versions, readable, showable)
    related: dict[str, Mapping[Any, Any]] = {}
    told: dict[str, tuple[str, ...]] = {}
    for name in readable:
        source = model_field(entity.model, name)
        changes = [each for entry in shown[:HISTORY_ENTRIES] for each in entry.changes if each.field == name]
        changes += [each for entry in sent[:HISTORY_ENTRIES] for each in entry.changes if each.field == name]
        if source.remote_field is not None and changes:
            holders = [
                SimpleNamespace(**{source.attname: raw}) for each in changes for raw in (each.old, each.new)
            ]
            related[name], more = related_values(entity.access, source, holders)
            told = merge(told, more)
    told_of = {each.field for entry in sent[:HISTORY_ENTRIES] for each in entry.changes}
    return History(
        entity=entity,
        record=record,
        ident=entity.ids([record])[record.pk],
        fields=tuple(name for name in readable if name in told_of),
        shown=tuple(shown[:HISTORY_ENTRIES]),
        shown_more=len(shown) > HISTORY_ENTRIES,
        sent=tuple(sent[:HISTORY_ENTRIES]),
        sent_more=len(sent) > HISTORY_ENTRIES,
        names_people=_names_people(entity, versions.model),
        related=related,
        # That a field is not in it tells of that field, too.
        told=merge(told, entity.told_by_ids, {entity.entity.label: (*readable, PAST)}),
    )


def _entries(
    versions: models.QuerySet[Any], readable: Sequence[str], showable: Sequence[str]
) -> tuple[list[Entry], list[Entry]]:
    """Return the entries for the person and for the model, each the newest and one more than are told.

    Whether it ended at HISTORY_VERSIONS is not told: that would tell of versions that say nothing to her.
    """
    shown: list[Entry] = []
    sent: list[Entry] = []
    for at, by, name, kind, changes in _differing(versions, (*readable, *showable)):
        if kind == CREATED or changes:
            shown.append(Entry(at=at, by=by, name=name, kind=kind, changes=changes))
        to_model = tuple(each for each in changes if each.field in readable)
        if kind == CREATED or to_model:
            sent.append(Entry(at=at, by=by, name=name, kind=kind, changes=to_model))
        if len(sent) > HISTORY_ENTRIES:
            break
    return shown, sent


def _differing(
    versions: models.QuerySet[Any], names: Sequence[str]
) -> Iterator[tuple[Any, Any, str | None, str, tuple[Change, ...]]]:
    """Go through the versions since the record was made, each with what it changed of these fields.

    What is older than a deletion under the same key was another record.
    """
    newer: Any = None
    for version in _read(versions, names):
        at, kind, by, name, *values = version
        if newer is not None:
            changes = tuple(
                Change(field=each, old=old, new=new)
                for each, old, new in zip(names, values, newer[4:], strict=True)
                if old != new
            )
            if kind != DELETED:
                yield newer[0], newer[2], newer[3], CHANGED, changes
        if kind == DELETED:
            return
        if kind == CREATED:
            yield at, by, name, CREATED, ()
            return
        newer = version


def _read(versions: models.QuerySet[Any], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Go through at most HISTORY_VERSIONS versions: when, what kind, whose key, whose name, and these fields."""
    meta = versions.model._meta
    user = _user_model(versions.model)
    columns = ["history_date", "history_type"]
    if user is not None:
        columns += ["history_user_id", f"history_user__{user.USERNAME_FIELD}"]
    columns += [meta.get_field(name).attname for name in names]
    offset, step = 0, 2 * (HISTORY_ENTRIES + 1)
    while offset < HISTORY_VERSIONS:
        page = list(versions.values_list(*columns)[offset : offset + step])
        for at, kind, *rest in page:
            if user is None:
                yield at, kind, None, None, *rest
            else:
                by, name, *values = rest
                shown = cut(clean_text(str(name)), NAME_CHARS) if name is not None else None
                yield at, kind, by, shown, *values
        if len(page) < step:
            return
        offset += step
        step = min(max(step, 300), HISTORY_VERSIONS - offset)


def _user_model(history_model: type[models.Model]) -> Any:
    """Return the model of who changed something, or None where it is kept in another way than by an account."""
    source = model_field(history_model, "history_user")
    model: Any = source.remote_field.model if source is not None and source.remote_field is not None else None
    if not isinstance(model, type) or not issubclass(model, AbstractBaseUser):
        return None
    name = model_field(model, model.USERNAME_FIELD)  # type: ignore[attr-defined]  # every user model names one
    return model if name is not None and name.remote_field is None else None


def _names_people(entity: EntityAccess, history_model: type[models.Model]) -> bool:
    """Tell whether the model may get user names: not where they are e-mail addresses, or declared as not for it."""
    user = _user_model(history_model)
    if user is None:
        return False
    users = entity.access.entity_of(user)
    kept = users is not None and user.USERNAME_FIELD in users.model_admin.harness_show
    return not kept and not PERSONAL.search(user.USERNAME_FIELD)
