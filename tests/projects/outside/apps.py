"""Apps of the project: one with a ``copilot`` module, and one that registers when it is ready."""

from django.apps import AppConfig


class OutsideConfig(AppConfig):
    """Has ``admin`` and ``copilot``."""

    name = "tests.projects.outside"
    label = "outside"


class LastConfig(AppConfig):
    """Stands last and registers an admin in its ready(), as some packages do."""

    name = "tests.projects.outside.last"
    label = "last"

    def ready(self) -> None:
        """Register one."""
        from django.contrib import admin

        from tests.projects.depot.models import City

        from .admins import CityAdmin

        if admin.site.is_registered(City):  # the apps are made ready once more
            admin.site.unregister(City)
        admin.site.register(City, CityAdmin)
