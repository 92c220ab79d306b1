"""Our own admins: they have no changelist or forms of their own and carry the addresses of the assistant.

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
from .harness import HarnessMixin
from .models import Conversation, Plan

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


class PlanAdmin(OwnAdmin):
    """The pages of the person's own plans."""

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
