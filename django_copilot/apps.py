"""Hook the package into a project: its write tools are found, and the checks registered."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class CopilotConfig(AppConfig):
    """The app; its label is part of addresses and permissions and can't be changed."""

    name = "django_copilot"
    label = "django_copilot"
    verbose_name = _("Copilot")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import each app's ``copilot_tools`` and register the system checks."""
        from .audit.checks import check_audit
        from .checks import check_all, check_permission_given
        from .people import check_people, check_service_accounts
        from .tools.checks import check_tools

        autodiscover_modules("copilot_tools")
        checks.register(check_all, checks.Tags.admin)
        checks.register(check_tools, checks.Tags.admin)
        checks.register(check_people, checks.Tags.admin)
        checks.register(check_audit, checks.Tags.security)
        checks.register(check_permission_given, checks.Tags.database)
        checks.register(check_service_accounts, checks.Tags.database)
