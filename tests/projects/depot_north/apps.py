"""The second of two apps with models of the same names."""

from django.apps import AppConfig


class DepotNorthConfig(AppConfig):
    """Its label and a model name join to the same text as the other app's."""

    name = "tests.projects.depot_north"
    label = "depot_north"
    default_auto_field = "django.db.models.BigAutoField"
