"""The first of two apps with models of the same names."""

from django.apps import AppConfig


class DepotConfig(AppConfig):
    """Its label and a model name join to the same text as the other app's."""

    name = "tests.projects.depot"
    label = "depot"
    default_auto_field = "django.db.models.BigAutoField"
