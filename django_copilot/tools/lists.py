"""The body of ``open_<entity>_list``: the admin's own list, filtered, with rows to tick and an action to choose.

Only ``gate.py`` may call it. The page is the admin's, and so is the action: nothing is run here or there until
the person presses its button. The list is filtered by the admin's own parameters, and only where they say
exactly what was asked; everything else is looked up first and named by keys. What is to be ticked travels in a
plan, never in the address.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import django
from django.contrib.admin.views.main import ALL_VAR
from django.db import models
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..access import EntityAccess
from ..access.rows import NOT_FOUND
from ..database import limited
from ..declaration import model_field
from ..exceptions import CallError, Refused
from ..identity import key_text
from ..reading import Query
from ..reading.conditions import Conditions, conditions
from ..reading.scan import scan, selected
from ..reading.sums import each_once
from ..references import is_handle
from .base import Proposed

MAX_TICKED = 100
MAX_ADDRESS = 3_000  # characters of parameters: servers in front take lines of about 4,000
# The admin's button beside its actions, in the words of its own catalogue.
RUN = "Run" if django.VERSION >= (6, 1) else "Go"


def open_entity_list(entity: EntityAccess, args: Mapping[str, Any]) -> Proposed:
    """Propose to open the admin's list, filtered, with rows ticked and an action chosen."""
    with entity.at("changelist"):
        if not entity.can_view:
            raise Refused("This person may not see records of this kind.", code="not_allowed")
        ids, filters, action = args.get("ids"), args.get("filters") or {}, args.get("action") or ""
        if ids is not None and filters:
            raise CallError("Give ids or filters, not both.", code="invalid_argument", argument="filters")
        if action and action not in entity.actions:
            can = f"one of: {', '.join(entity.actions)}" if entity.actions else "none here"
            raise CallError(f"action: expected {can}.", code="invalid_argument", argument="action")
        if action and ids is None and not filters:
            raise CallError(
                "An action needs the records: ids of them, or filters.",
                code="invalid_argument",
                argument="ids",
            )
        wanted = conditions(entity, filters, entity.readable())
        records: Sequence[Any] = ()
        query: dict[str, str] | None
        if ids is not None:
            records = _named(entity, ids)
            query = _by_keys(entity, records)
        else:
            query = parameters(entity, wanted)
            if action or query is None:
                records = _matching(entity, wanted)
                fits = query is not None and _with_room(entity, query, _listed(entity, wanted))
                query = fits or _by_keys(entity, records)
        ticked = records if ids is not None or action else ()
        names = tuple(name for name in dict.fromkeys(wanted.names) if name in entity.readable())
        return Proposed(
            kind="list",
            entity=entity.name,
            label=entity.entity.label,
            record_id="",
            object_pk="",
            path=entity.page_url("changelist"),
            query=query or {},
            ticked=tuple(key_text(entity.model, each.pk) for each in ticked),
            action=action,
            reply=" ".join(told_of(entity, len(ticked), action))
            if ticked
            else _said_of_filtered(entity, filtered=bool(filters)),
            told={entity.entity.label: names} if names else {},
        )


# -- which rows -------------------------------------------------------------------------------------------


def _most(entity: EntityAccess) -> int:
    """Return how many rows of the admin's list stand on one page, at most."""
    page: int = max(entity.model_admin.list_per_page, entity.model_admin.list_max_show_all)
    return min(MAX_TICKED, page)


def _named(entity: EntityAccess, ids: Sequence[Any]) -> list[Any]:
    """Return the records of ids or references, each of which the person may view. Raises CallError."""
    most = _most(entity)
    if not 0 < len(ids) <= most:
        raise CallError(f"ids: expected 1 to {most} ids.", code="invalid_value", field="ids")
    keys: dict[Any, None] = {}
    for given in ids:
        found = entity.keys(given)
        if not found:
            raise Refused(NOT_FOUND, code="not_found")
        keys |= dict.fromkeys(found)
    visible = entity.visible({*keys})
    if len(visible) < len(keys):
        raise Refused(NOT_FOUND, code="not_found")
    return [visible[key] for key in keys]


def _matching(entity: EntityAccess, wanted: Conditions) -> list[Any]:
    """Return the records that meet the conditions and that the person may view, all of them. Raises CallError."""
    most = _most(entity)
    rows, looked_at, _told = selected(entity, wanted, "")
    query = Query(entity=entity.entity.label, filters=wanted.filters, limit=most)
    found = scan(entity, rows, looked_at, query)
    if found.has_more:
        raise CallError(
            f"More than {most} records match, and so many do not stand on one page. Narrow it down with filters.",
            code="too_many_records",
        )
    if not found.records:
        raise Refused("No record that this person may see matches.", code="not_found")
    return [record for record, _readable in found.records]


def _listed(entity: EntityAccess, wanted: Conditions) -> int:
    """Return how many rows the admin's list shows under these conditions, counted as far as a page goes.

    It asks for no permission of single records, as the query tools do: there may be more.
    """
    rows = entity.queryset().filter(wanted.q)
    with limited(rows):
        return len(each_once(rows).values_list("pk")[: _most(entity) + 1])


# -- the admin's own parameters ---------------------------------------------------------------------------


def _with_room(entity: EntityAccess, query: Mapping[str, str], rows: int) -> dict[str, str] | None:
    """Return the parameters that put so many rows on one page of the admin's list, None where nothing does."""
    if rows <= entity.model_admin.list_per_page:
        return dict(query)
    return {**query, ALL_VAR: ""} if rows <= entity.model_admin.list_max_show_all else None


def _by_keys(entity: EntityAccess, records: Sequence[Any]) -> dict[str, str]:
    """Return the parameters for a list of just these records, on one page. Raises CallError."""
    keys = _text([each.pk for each in records])
    query = _allowed(entity, {"pk__in": keys}) if keys is not None else None
    query = _with_room(entity, query, len(records)) if query is not None else None
    if query is None:
        raise CallError(
            "The admin's list can't be filtered so. Use fewer ids, or other filters.", code="not_filterable"
        )
    return query


def parameters(entity: EntityAccess, wanted: Conditions) -> dict[str, str] | None:
    """Return the parameters of the admin's list that say just what the conditions do, None where none can.

    A value that a handle stands for is never put into an address.
    """
    if any(is_handle(given) for given in wanted.filters.values()):
        return None
    query: dict[str, str] = {}
    for lookup, value in _leaves(wanted.q):
        text = _text(value)
        if text is None:
            return None
        query[_lookup(entity, lookup, value)] = text
    return _allowed(entity, query)


def _leaves(q: models.Q) -> Iterator[tuple[str, Any]]:
    """Give each comparison that must hold; for what is no plain comparison one with nothing."""
    is_one = len(q.children) == 1
    if q.negated:
        child = q.children[0] if is_one else ""
        lookup, value = child if isinstance(child, tuple) else ("", None)
        yield lookup, (not value if lookup.endswith("__isnull") else None)
    elif q.connector != models.Q.AND and not is_one:
        yield "", None
    else:
        for child in q.children:
            if isinstance(child, models.Q):
                yield from _leaves(child)
            else:
                yield child  # type: ignore[misc]


def _lookup(entity: EntityAccess, lookup: str, value: Any) -> str:
    """Return a comparison's name as the admin writes it, so that its own filters show as chosen."""
    name, _sep, rest = lookup.partition("__")
    if not rest:
        return f"{name}__exact"
    field = model_field(entity.model, name)
    if rest == "pk__in" and field is not None and len(value) == 1 and field.target_field.primary_key:
        return f"{name}__{field.target_field.name}__exact"
    return lookup


def _text(value: Any) -> str | None:
    """Return a value as the admin's list reads it back, None where it would read something else."""
    match value:
        case bool():
            return "1" if value else "0"
        case list():
            texts = [_text(each) for each in value]
            is_plain = bool(texts) and all(each and "," not in each for each in texts)
            return ",".join(str(each) for each in texts) if is_plain else None
        case str():
            return value or None
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case int() | float() | uuid.UUID():
            return str(value)
        case decimal.Decimal():
            return format(value, "f")
    return None


def _allowed(entity: EntityAccess, query: Mapping[str, str]) -> dict[str, str] | None:
    """Return parameters that this person's admin takes, and that fit into an address; else None."""
    return dict(query) if len(urlencode(query)) <= MAX_ADDRESS and entity.takes_parameters(query) else None


# -- what the person is told ------------------------------------------------------------------------------


def told_of(entity: EntityAccess, count: int, action: str) -> tuple[str, str]:
    """Return what is ticked and chosen, and which button does the rest, in the person's language."""
    meta = entity.model._meta
    values: dict[str, Any] = {
        "count": count,
        "name": str(meta.verbose_name if count == 1 else meta.verbose_name_plural),
    }
    if not action:
        ticked = ngettext("%(count)d %(name)s is ticked.", "%(count)d %(name)s are ticked.", count)
    else:
        values["action"] = entity.action_label(action)
        ticked = ngettext(
            "%(count)d %(name)s is ticked and “%(action)s” is chosen.",
            "%(count)d %(name)s are ticked and “%(action)s” is chosen.",
            count,
        )
    return ticked % values, press(action)


def press(action: str) -> str:
    """Return which button of the admin runs what is chosen."""
    words = _("Press %(button)s to run it.") if action else _("Choose an action and press %(button)s.")
    return words % {"button": _(RUN)}


def _said_of_filtered(entity: EntityAccess, *, filtered: bool) -> str:
    words = (
        _("This is the list of %(names)s, filtered as asked.")
        if filtered
        else _("This is the list of %(names)s.")
    )
    return words % {"names": str(entity.model._meta.verbose_name_plural)}
