"""Base classes of the store's admins: who sees which admin, which fields, and how much of the past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from simple_history.admin import SimpleHistoryAdmin

from .access import staff_of


class ManagersOnly:
    """Close an admin to everybody but managers, whatever permissions somebody was given."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return staff_of(request).is_manager and super().has_module_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return staff_of(request).is_manager and super().has_view_permission(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return staff_of(request).is_manager and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return staff_of(request).is_manager and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return staff_of(request).is_manager and super().has_delete_permission(request, obj)


class ManagerFields:
    """Show some fields to managers only.

    ``manager_fields`` are left out of the form and of the list of everybody else, and can't be filtered by
    through the address of the list either (Django lets any own field of a model be).
    """

    manager_fields: tuple[str, ...] = ()
    secret_fields: tuple[str, ...] = ()  # never shown; not to be filtered by

    def _without(self, names: Any, request: HttpRequest) -> list[Any]:
        return [name for name in names if staff_of(request).is_manager or name not in self.manager_fields]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self._without(super().get_fields(request, obj), request)

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return self._without(super().get_list_display(request), request)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        name = lookup.split("__")[0]
        if name in self.secret_fields or not self._without([name], request):
            return False
        return super().lookup_allowed(lookup, value, request)

    def get_hidden_history_fields(self, request: HttpRequest) -> set[str]:
        return {*self.secret_fields, *(() if staff_of(request).is_manager else self.manager_fields)}


class HistoryAdmin(SimpleHistoryAdmin):
    """Show a record's history to those who may see the record, without its hidden fields.

    simple-history asks for permissions on the history as a whole, lists every changed field, and lets an
    old version be saved again past the rules for the record of today. Here the past is only looked at.
    """

    def get_hidden_history_fields(self, request: HttpRequest) -> set[str]:
        return set()

    def has_view_history_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_view_history_permission(request, obj) and self._may_see(request, obj)

    def has_change_history_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def _may_see(self, request: HttpRequest, obj: Any) -> bool:
        if obj is None or staff_of(request).is_manager:
            return True  # a manager also sees what was deleted
        return self.has_view_permission(request, obj) and (
            self.get_queryset(request).filter(pk=obj.pk).exists()
        )

    def revert_disabled(self, request: HttpRequest, obj: Any = None) -> bool:
        return True

    def history_form_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            raise PermissionDenied
        return super().history_form_view(request, *args, **kwargs)

    def get_history_queryset(
        self, request: HttpRequest, history_manager: Any, pk_name: str, object_id: Any
    ) -> QuerySet[Any]:
        # For a model without foreign keys simple-history calls select_related() without a name, which
        # follows all there are and is deprecated in Django.
        names = [field.name for field in history_manager.model.tracked_fields if field.many_to_one]
        return history_manager.filter(**{pk_name: object_id}).select_related("history_user", *names)

    def set_history_delta_changes(
        self, request: HttpRequest, historical_records: Sequence[Any], foreign_keys_are_objs: bool = True
    ) -> None:
        newer = None
        for older in historical_records:
            if newer is not None:
                delta = newer.diff_against(
                    older,
                    excluded_fields=self.get_hidden_history_fields(request),
                    foreign_keys_are_objs=foreign_keys_are_objs,
                )
                shown = self.get_historical_record_context_helper(request, newer)
                newer.history_delta_changes = shown.context_for_delta_changes(delta)
            newer = older
