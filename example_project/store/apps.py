"""The example store as a Django app."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class StoreConfig(AppConfig):
    name = "example_project.store"
    label = "store"
    verbose_name = _("Store")
    default_auto_field = "django.db.models.BigAutoField"
