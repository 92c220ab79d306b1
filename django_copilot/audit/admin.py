"""The audit in the admin: to be read by those who may, each in her own scope, and changed by nobody."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db import connections, models
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from ..exceptions import ConfigurationError, ScopeUnavailable
from ..models import AuditEntry, Plan
from ..scope import capture_scope
from ..values import clean_text, made_visible
from .viewing import Seen, as_text, see

PERMISSION = "django_copilot.view_audit"
RECENT = 1_000  # entries that the filters take their choices from
MOST = 5_000  # entries that are counted and paged through; older ones are found with the filters

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[AuditEntry]
    _Filter = admin.SimpleListFilter
else:
    _Admin = admin.ModelAdmin
    _Filter = admin.SimpleListFilter


def names_of(keys: Iterable[str]) -> dict[str, str]:
    """Return the names of the accounts that are still there, by key, with one query."""
    user_model = get_user_model()
    pks = {}
    for key in {*keys} - {""}:
        try:
            pks[user_model._meta.pk.to_python(key)] = key
        except (ValidationError, ValueError, TypeError, OverflowError):
            continue
    if not pks:
        return {}
    found = user_model._default_manager.filter(pk__in=pks)
    return {pks[user.pk]: made_visible(user.get_username()) for user in found if user.pk in pks}


class _Recent:
    """What the latest entries hold in the columns that can be filtered: read once for all filters of a page."""

    columns = ("event", "tool", "code", "actor")

    def __init__(self, queryset: models.QuerySet[AuditEntry]) -> None:
        latest = queryset.order_by("-number")[:RECENT].values_list(*self.columns)
        rows = set(latest)
        self.values = {
            name: sorted({row[place] for row in rows} - {""}) for place, name in enumerate(self.columns)
        }

    @cached_property
    def names(self) -> dict[str, str]:
        return names_of(self.values["actor"])


class _ColumnFilter(_Filter):
    """A filter whose choices are what stands in the latest entries, and not in the whole table."""

    parameter_name: str  # the column

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices, and the chosen one if it is old."""
        recent = getattr(request, "_copilot_recent", None)
        if recent is None:
            recent = _Recent(model_admin.get_queryset(request))
            request._copilot_recent = recent  # type: ignore[attr-defined]
        values = list(recent.values[self.parameter_name])
        chosen = self.used_parameters.get(self.parameter_name)
        if chosen and chosen not in values:
            values.append(chosen)
        return [(each, self.label(recent, each)) for each in values]

    def label(self, recent: _Recent, value: str) -> str:
        """Return what a choice is called."""
        return made_visible(value)

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[AuditEntry]
    ) -> models.QuerySet[AuditEntry]:
        """Return the entries with the chosen value."""
        value = clean_text(self.value() or "")
        return queryset.filter(**{self.parameter_name: value}) if value else queryset

    def has_output(self) -> bool:
        """Show the filter wherever there is something to choose."""
        return bool(self.lookup_choices)


class EventFilter(_ColumnFilter):
    """By what happened."""

    title = _("event")
    parameter_name = "event"


class ToolFilter(_ColumnFilter):
    """By tool."""

    title = _("tool")
    parameter_name = "tool"


class CodeFilter(_ColumnFilter):
    """By reason code."""

    title = _("reason code")
    parameter_name = "code"


class PersonFilter(_ColumnFilter):
    """By who did it."""

    title = _("person")
    parameter_name = "actor"

    def label(self, recent: _Recent, value: str) -> str:
        """Return the account's name, or its key."""
        return recent.names.get(value) or made_visible(value)


class AuditChangeList(ChangeList):
    """A page of the audit, with the names of all its people read at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not connections[self.queryset.db].features.has_zoneinfo_database:
            self.date_hierarchy = None  # the database can't tell days in a time zone

    def get_results(self, request: HttpRequest) -> None:
        """Read the page."""
        super().get_results(request)
        self.result_list = list(self.result_list)
        names = names_of(key for each in self.result_list for key in (each.actor, each.real_actor))
        for each in self.result_list:
            each.people = names


class _Pages(Paginator):  # type: ignore[type-arg]
    """Pages of at most so many entries, so that a long audit is not counted to its end."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows[:MOST].count())


class AuditEntryAdmin(_Admin):
    """The audit: for those with the permission, of this site and of the viewer's own scope."""

    list_display = ("number", "when", "shown_event", "shown_code", "person", "shown_tool", "shown_plan")
    list_display_links = ("number", "when")
    list_filter = (EventFilter, ToolFilter, CodeFilter, PersonFilter)
    search_fields = ("plan__exact",)
    search_help_text = _("The id of a plan.")
    date_hierarchy = "at"
    ordering = ("site", "-number")
    sortable_by = ()
    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # they count everything
    paginator = _Pages
    actions = None
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "number",
                    "when",
                    "shown_event",
                    "shown_code",
                    "person",
                    "real_person",
                    "shown_tool",
                    "shown_plan",
                    "shown_values",
                    "shown_about",
                )
            },
        ),
        (
            _("Where it belongs"),
            {"fields": ("site", "scope_key", "conversation", "turn")},
        ),
        (
            _("The chain"),
            {"fields": ("shown_commitments", "key_version", "previous", "digest")},
        ),
    )

    # -- who may do what ---------------------------------------------------------------------------

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let those read it who have the audit's own permission."""
        return bool(request.user.is_active and request.user.has_perm(PERMISSION))

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show it in the index to those who may read it."""
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody add to it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody change it."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Let nobody delete from it. Nothing cascades into it, so no other deletion asks."""
        return False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[AuditEntry]:
        """Return the entries of this site and of the viewer's scope; none where that can't be told."""
        rows = super().get_queryset(request)
        try:
            scope = capture_scope(request, self.admin_site)
        except (ConfigurationError, ScopeUnavailable):
            return rows.none()
        return rows.filter(site=scope.site, scope_key=scope.key)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow the filters and dates only: any other lookup in an address could ask for what is not shown."""
        return lookup in _Recent.columns or lookup.startswith("at__")

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[AuditEntry], search_term: str
    ) -> tuple[models.QuerySet[AuditEntry], bool]:
        """Return the entries of a plan, however its id was pasted."""
        return super().get_search_results(request, queryset, search_term.strip().lower())

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all fields."""
        return [str(name) for _title, options in self.fieldsets for name in options["fields"]]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that knows the names of its people."""
        return AuditChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return an entry with what the viewer may see of its values, and her own plan's address."""
        entry = super().get_object(request, object_id, from_field)
        if entry is not None:
            entry.people = names_of((entry.actor, entry.real_actor))  # type: ignore[attr-defined]
            entry.seen = see(request, self.admin_site, entry)  # type: ignore[attr-defined]
            entry.plan_url = self._plan_url(request, entry)  # type: ignore[attr-defined]
        return entry

    def _plan_url(self, request: HttpRequest, entry: AuditEntry) -> str:
        """Return the address of the plan's page where it is the viewer's own, else ""."""
        try:
            own = Plan.objects.filter(
                pk=entry.plan, user=request.user.pk, site=entry.site, scope_key=entry.scope_key
            )
            if not entry.plan or not own.exists():
                return ""
            name = "admin:django_copilot_plan_detail"
            return reverse(name, args=[entry.plan], current_app=self.admin_site.name)
        except (ValidationError, NoReverseMatch):
            return ""

    # -- columns -----------------------------------------------------------------------------------

    @admin.display(description=_("time"))
    def when(self, entry: AuditEntry) -> Any:
        """Return when it was written."""
        return entry.at

    @admin.display(description=_("event"))
    def shown_event(self, entry: AuditEntry) -> str:
        """Return what happened."""
        return made_visible(entry.event)

    @admin.display(description=_("reason code"))
    def shown_code(self, entry: AuditEntry) -> str:
        """Return why it did not go on."""
        return made_visible(entry.code)

    @admin.display(description=_("tool"))
    def shown_tool(self, entry: AuditEntry) -> str:
        """Return the tool's name."""
        return made_visible(entry.tool)

    @admin.display(description=_("person"))
    def person(self, entry: Any) -> str:
        """Return the name of who did it, or her key once the account is gone."""
        return entry.people.get(entry.actor) or made_visible(entry.actor)

    @admin.display(description=_("real person"))
    def real_person(self, entry: Any) -> str:
        """Return who acted as that person."""
        return entry.people.get(entry.real_actor) or made_visible(entry.real_actor)

    @admin.display(description=_("plan"))
    def shown_plan(self, entry: Any) -> str | SafeString:
        """Return the plan's id, as a link where the plan is the viewer's own."""
        text = made_visible(entry.plan)
        url = getattr(entry, "plan_url", "")
        return format_html('<a href="{}">{}</a>', url, text) if url else text

    @admin.display(description=_("values"))
    def shown_values(self, entry: Any) -> str | SafeString:
        """Return the values, those that the viewer may see as they are."""
        seen: Seen = entry.seen
        if not seen.values:
            return ""
        return render_to_string("django_copilot/audit_values.html", {"values": seen.values})

    @admin.display(description=_("about"))
    def shown_about(self, entry: Any) -> str:
        """Return names, counts and versions."""
        return format_html("<pre>{}</pre>", as_text(entry.seen.about))

    @admin.display(description=_("commitments"))
    def shown_commitments(self, entry: AuditEntry) -> str:
        """Return the hashes of the values."""
        return format_html("<pre>{}</pre>", as_text(entry.commitments))
