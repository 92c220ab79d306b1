"""Our own admins: but for the audit they have no lists or forms of the admin's, and carry our addresses.

They are registered by ``HarnessMixin`` on each AdminSite with a declared entity, and on no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import URLPattern, path
from django.views.i18n import JSONCatalog

from .api.lazy import LazyView
from .audit.admin import AuditEntryAdmin
from .mixin import HarnessMixin
from .models import AuditEntry, Conversation, Metrics, Plan, Switch

__all__ = ["HarnessMixin", "register_own"]

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
else:
    _Admin = admin.ModelAdmin


class OwnAdmin(_Admin):
    """A ModelAdmin with no pages of the admin's own, that stays out of the index; its views ask for themselves."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Stay out of the index and the navigation."""
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Grant nothing: people reach their own rows through our views."""
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Grant nothing."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Grant nothing."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow it: who deletes a user deletes her conversations along, and the admin asks us before it does.

        No page of ours deletes through the admin.
        """
        return True

    def _view(self, name: str) -> LazyView:
        return LazyView(f"django_copilot.api.{name}", self.admin_site)


class ConversationAdmin(OwnAdmin):
    """The chat and the person's own conversations."""

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses below ``<admin>/django_copilot/conversation/``."""
        catalog = JSONCatalog.as_view(packages=["django_copilot"])
        return [
            path("chat/", self._view("views.ChatView"), name="django_copilot_chat"),
            path(
                "jsi18n/", self.admin_site.admin_view(catalog, cacheable=True), name="django_copilot_jsi18n"
            ),
            path("", self._view("conversations.ListView"), name="django_copilot_conversation_changelist"),
            path(
                "<str:ident>/",
                self._view("conversations.DetailView"),
                name="django_copilot_conversation_detail",
            ),
            path(
                "<str:ident>/delete/",
                self._view("conversations.DeleteView"),
                name="django_copilot_conversation_delete",
            ),
        ]


class IndexedAdmin(OwnAdmin):
    """An admin whose one page is on the index, for those with one of its permissions."""

    needs: tuple[str, ...] = ()

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the page on the index, and there only, since the navigation stands on every page.

        Whoever has an inbox finds the other pages from there.
        """
        has_inbox = any(request.user.has_perm(each) for each in PlanAdmin.needs)
        return is_index(request) and self._may(request) and (isinstance(self, PlanAdmin) or not has_inbox)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Show the link to the page; a row is never reached through the admin."""
        return obj is None and self._may(request)

    def _may(self, request: HttpRequest) -> bool:
        return any(request.user.has_perm(each) for each in self.needs)


class AuditAdmin(AuditEntryAdmin):
    """The audit, on the index of those who have no inbox to find it from."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show it on the index, and there only."""
        has_inbox = any(request.user.has_perm(each) for each in PlanAdmin.needs)
        return is_index(request) and not has_inbox and super().has_module_permission(request)


def is_index(request: HttpRequest) -> bool:
    """Tell whether the page is the admin's index, or that of an app."""
    return getattr(request.resolver_match, "url_name", "") in ("index", "app_list")


class SwitchAdmin(IndexedAdmin):
    """The page on which the assistant is turned off and on."""

    needs = ("django_copilot.use_switch",)

    def get_urls(self) -> list[URLPattern]:
        """Return the address ``<admin>/django_copilot/switch/``."""
        view = self._view("switch.SwitchView")
        return [
            path("", view, name="django_copilot_switch"),
            path("", view, name="django_copilot_switch_changelist"),
        ]


class MetricsAdmin(IndexedAdmin):
    """The page with the figures."""

    needs = ("django_copilot.view_metrics",)

    def get_urls(self) -> list[URLPattern]:
        """Return the address ``<admin>/django_copilot/metrics/``."""
        view = self._view("metrics.MetricsView")
        return [
            path("", view, name="django_copilot_metrics"),
            path("", view, name="django_copilot_metrics_changelist"),
        ]


class PlanAdmin(IndexedAdmin):
    """The inbox, and the pages of single plans."""

    needs = ("django_copilot.use_copilot", "django_copilot.approve_plan")

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses below ``<admin>/django_copilot/plan/``."""
        actions = {
            "again": "plans.AgainView",
            "confirm": "decisions.ConfirmView",
            "reject": "decisions.RejectView",
            "approve": "decisions.ApproveView",
            "undo": "decisions.UndoView",
            "look_up": "decisions.LookUpView",
            "settle": "decisions.SettleView",
        }
        return [
            path("", self._view("decisions.InboxView"), name="django_copilot_plan_changelist"),
            path("<str:ident>/", self._view("plans.PlanView"), name="django_copilot_plan_detail"),
            *(
                path(f"<str:ident>/{name}/", self._view(view), name=f"django_copilot_plan_{name}")
                for name, view in actions.items()
            ),
        ]


def register_own(site: AdminSite) -> None:
    """Register our own admins on a site, once."""
    if Conversation not in site._registry:
        site.register(Conversation, ConversationAdmin)
        site.register(Plan, PlanAdmin)
        site.register(Switch, SwitchAdmin)
        site.register(Metrics, MetricsAdmin)
        site.register(AuditEntry, AuditAdmin)
