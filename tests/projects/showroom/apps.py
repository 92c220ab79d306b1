"""A project of its own: it is run in processes of its own, with settings that are read at import."""

import os

from django.apps import AppConfig
from django.contrib import admin


class ShowroomConfig(AppConfig):
    """With REPLACE_SITE, it puts another site in the place of the default one, as admin themes do."""

    name = "tests.projects.showroom"
    label = "showroom"

    def ready(self) -> None:
        """Replace the default site, when asked to."""
        if os.environ.get("REPLACE_SITE"):
            from .other import OtherSite

            admin.site = admin.sites.site = OtherSite()
