"""Hook the package into a project: checks and nothing else at start."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.utils.translation import gettext_lazy as _


class CopilotConfig(AppConfig):
    """The app; its label is part of addresses and permissions and can't be changed."""

    name = "django_copilot"
    label = "django_copilot"
    verbose_name = _("Copilot")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from .checks import check_all, check_permission_given

        checks.register(check_all, checks.Tags.admin)
        checks.register(check_permission_given, checks.Tags.database)
