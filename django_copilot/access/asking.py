"""What may be asked of one entity besides exact filters: search, ranges, order, counts. Each is opted into."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db import connections, models, router
from django.utils.inspect import func_supports_parameter

from ..declaration import LOOKUPS, Declaration, model_field
from .fields import FieldAccess
from .rows import ask_hook

RANGED = (
    models.IntegerField,
    models.DecimalField,
    models.FloatField,
    models.DateField,
    models.TimeField,
    models.DurationField,
)
UNCOMPARED = (models.JSONField, models.FileField, models.BinaryField)  # read, and never compared
EXACT_DIGITS = 15  # that a float holds
SEARCHED = (models.CharField, models.TextField, models.GenericIPAddressField)


@dataclass(frozen=True, kw_only=True)
class SearchPath:
    """One of the admin's search fields that this person may search. ``relation`` is "" for an own field."""

    given: str  # as the admin names it, prefix and lookup included
    field: str
    relation: str = ""


class AskAccess(FieldAccess):
    """What one person may ask of one entity."""

    @cached_property
    def asks_more(self) -> bool:
        """Tell whether the declaration opts into anything besides the exact filters."""
        ma = self.model_admin
        return bool(ma.harness_search or ma.harness_lookups or ma.harness_from_admin)

    @cached_property
    def lookups(self) -> Mapping[str, frozenset[str]]:
        """Return the kinds of lookup, of ``LOOKUPS``, by readable field."""
        declared: dict[str, set[str]] = {
            name: {*kinds} & {*LOOKUPS} for name, kinds in self.model_admin.harness_lookups.items()
        }
        if self.model_admin.harness_from_admin:
            for name, kinds in self._lookups_of_admin().items():
                declared.setdefault(name, set()).update(kinds)
        readable = self.readable()
        return {
            name: frozenset(kinds)
            for name, kinds in declared.items()
            if name in readable and self.can_compare(name)
        }

    def _lookups_of_admin(self) -> dict[str, set[str]]:
        ma = self.model_admin
        found: dict[str, set[str]] = {}
        filters: tuple[Any, ...] = ask_hook(
            ma, "get_list_filter", (), lambda: tuple(ma.get_list_filter(self.request))
        )
        for given in filters:
            name = given[0] if isinstance(given, list | tuple) else given
            field = model_field(self.model, name) if isinstance(name, str) else None
            if field is not None:
                ranged = isinstance(field, models.DateField)
                found[field.name] = {"in", "isnull", *(["range"] if ranged else [])}
        if isinstance(ma.date_hierarchy, str) and model_field(self.model, ma.date_hierarchy) is not None:
            found.setdefault(ma.date_hierarchy, set()).add("range")
        return found

    def can_compare(self, name: str) -> bool:
        """Tell whether a field may stand in a filter at all."""
        field = model_field(self.model, name)
        return field is not None and not isinstance(field, UNCOMPARED)

    def can_range(self, name: str) -> bool:
        """Tell whether a readable field's values have an order that a person means: numbers, dates, times."""
        field = model_field(self.model, name)
        return isinstance(field, RANGED) and field.remote_field is None and not field.choices

    @cached_property
    def orderable(self) -> tuple[str, ...]:
        """Return the fields by which rows may be ordered: own values that are readable on every record."""
        if not self.asks_more:
            return ()
        return tuple(
            name for name in self.readable() if name in self.readable_on_all and self._has_order(name)
        )

    def _has_order(self, name: str) -> bool:
        field = model_field(self.model, name)
        if field is None or field.remote_field is not None or isinstance(field, UNCOMPARED):
            return False
        # SQLite keeps a decimal as a float: beyond its digits no page would know where it ended.
        rounded = connections[router.db_for_read(self.model)].vendor == "sqlite"
        return not (
            rounded and isinstance(field, models.DecimalField) and (field.max_digits or 0) > EXACT_DIGITS
        )

    @cached_property
    def tells_history(self) -> bool:
        """Tell whether the declaration lets changes of a record be told, and they are kept."""
        return bool(self.model_admin.harness_history) and hasattr(
            self.model._meta, "simple_history_manager_attribute"
        )

    @property
    def opens_list(self) -> bool:
        """Tell whether the admin's own list may be opened, filtered and ticked."""
        return self.asks_more or bool(self.model_admin.harness_actions)

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """Return the declared actions that this person's admin offers her."""
        ma = self.model_admin
        if not ma.harness_actions:
            return ()
        offered: Collection[str] = ask_hook(ma, "get_actions", (), lambda: [*ma.get_actions(self.request)])
        return tuple(name for name in ma.harness_actions if name in offered)

    def action_label(self, name: str) -> str:
        """Return an action's text in the admin's list; its name where the admin gives none."""
        ma = self.model_admin
        choices: list[Any] = ask_hook(
            ma, "get_action_choices", [], lambda: [*ma.get_action_choices(self.request)]
        )
        return next((str(label) for value, label in choices if value == name), name)

    def takes_parameters(self, query: Mapping[str, str]) -> bool:
        """Tell whether this person's admin takes all these parameters of its list as filters."""
        ma = self.model_admin
        more = [self.request] if func_supports_parameter(ma.lookup_allowed, "request") else []
        return ask_hook(
            ma,
            "lookup_allowed",
            False,
            lambda: all(ma.lookup_allowed(name, text, *more) for name, text in query.items()),
        )

    # -- search ------------------------------------------------------------------------------------

    @cached_property
    def search_paths(self) -> tuple[SearchPath, ...]:
        """Return the admin's search fields whose every segment this person may read, in the admin's order.

        A field of a related record counts only where all of that kind are hers to read: what a search finds
        tells of what it looked at.
        """
        if self.searches_its_own_way:
            return ()
        found = (self._search_path(name) for name in self.search_fields)
        return tuple(path for path in found if path is not None)

    @property
    def search_fields(self) -> tuple[str, ...]:
        """Return the admin's search fields, readable or not, where the declaration opts into its search."""
        ma = self.model_admin
        if not (ma.harness_search or ma.harness_from_admin):
            return ()
        names: Sequence[Any] = ask_hook(
            ma, "get_search_fields", (), lambda: tuple(ma.get_search_fields(self.request))
        )
        return tuple(name for name in names if isinstance(name, str))

    @cached_property
    def searches_its_own_way(self) -> bool:
        """Tell whether the project's admin has its own ``get_search_results``, which may look at anything."""
        return type(self.model_admin).get_search_results is not ModelAdmin.get_search_results

    def _search_path(self, given: str) -> SearchPath | None:
        segments = given.lstrip("^=@").split("__")
        field = model_field(self.model, segments[0])
        if segments[0] == "pk" or field is None or field.name not in self.readable_on_all:
            return None
        rest = segments[1:]
        if field.remote_field is None:
            own = not rest or (len(rest) == 1 and rest[0] in TEXT_LOOKUPS)
            return SearchPath(given=given, field=field.name) if own and _is_text(field) else None
        related = self.access.of_model(field.remote_field.model)
        if field.many_to_many or related is None or not rest or not related.shows_all_rows:
            return None
        target = model_field(related.model, rest[0])
        if target is None or target.name not in related.readable_on_all or not _is_text(target):
            return None
        if rest[1:] and not (len(rest) == 2 and rest[1] in TEXT_LOOKUPS):
            return None
        return SearchPath(given=given, field=target.name, relation=field.name)

    # -- in the database ---------------------------------------------------------------------------

    @cached_property
    def shows_all_rows(self) -> bool:
        """Tell whether every row of the model is this person's to view, by the hooks the project leaves alone."""
        rows = type(self.model._default_manager).get_queryset
        return (
            self.can_view
            and not self.asks_per_row
            and type(self.model_admin).get_queryset is ModelAdmin.get_queryset
            and rows is models.Manager.get_queryset
        )

    @cached_property
    def decides_in_database(self) -> bool:
        """Tell whether the rows this person may view are known without asking for each of them."""
        return not self.asks_per_row or self.narrows_rows

    @cached_property
    def narrows_rows(self) -> bool:
        """Tell whether the project says in a queryset what its permission hooks say of each record."""
        return type(self.model_admin).get_harness_rows is not Declaration.get_harness_rows

    def viewable(self) -> models.QuerySet[Any]:
        """Return the person's rows, narrowed by what the project says in a queryset. Raises Refused."""
        rows = self.queryset()
        if not self.narrows_rows:
            return rows
        narrowed = ask_hook(
            self.model_admin,
            "get_harness_rows",
            None,
            lambda: self.model_admin.get_harness_rows(self.request, rows),
        )
        return (
            narrowed
            if isinstance(narrowed, models.QuerySet) and not narrowed.query.is_sliced
            else rows.none()
        )


TEXT_LOOKUPS = ("exact", "iexact", "contains", "icontains", "startswith", "istartswith")


def _is_text(field: Any) -> bool:
    return isinstance(field, (*SEARCHED, models.IntegerField, models.UUIDField))
