"""Hook the package into a project: write tools and outside declarations are found, and the checks registered."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.core import checks
from django.utils.module_loading import autodiscover_modules, module_has_submodule
from django.utils.translation import gettext_lazy as _

DECLARATIONS = "copilot"  # the module of an app that calls harness()


class CopilotConfig(AppConfig):
    """The app; its label is part of addresses and permissions and can't be changed."""

    name = "django_copilot"
    label = "django_copilot"
    verbose_name = _("Copilot")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import each app's ``copilot_tools`` and ``copilot`` and register the system checks."""
        from .audit.checks import check_audit
        from .checks import check_all, check_permission_given
        from .declaring import check_declared
        from .people import check_people, check_service_accounts
        from .tools.checks import check_tools

        autodiscover_modules("copilot_tools")
        checks.register(check_all, checks.Tags.admin)
        checks.register(check_declared, checks.Tags.admin)
        checks.register(check_tools, checks.Tags.admin)
        checks.register(check_people, checks.Tags.admin)
        checks.register(check_audit, checks.Tags.security)
        checks.register(check_permission_given, checks.Tags.database)
        checks.register(check_service_accounts, checks.Tags.database)
        self._after_all_apps()

    def _after_all_apps(self) -> None:
        """Have each app's ``copilot`` imported when every app is ready, where there is one.

        It names admins that are registered, and this app stands before all that register them.
        """
        configs = list(apps.get_app_configs())
        if not any(each.module and module_has_submodule(each.module, DECLARATIONS) for each in configs):
            return
        last = configs[-1]
        ready = last.ready

        def ready_and_declared() -> None:
            ready()
            declare()

        if last is self:
            declare()
        else:
            last.ready = ready_and_declared  # type: ignore[method-assign]  # of this one object; nothing else tells that all are ready


def declare() -> None:
    """Import each app's ``copilot``. Raises what that raises."""
    from .declaring import apply_waiting

    autodiscover_modules(DECLARATIONS)
    apply_waiting()
