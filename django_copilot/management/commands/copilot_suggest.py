"""``manage.py copilot_suggest``: print a declaration to review for admins that have none."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.apps import apps
from django.contrib.admin import sites
from django.core.management.base import BaseCommand, CommandError

from ...suggesting import attributes_text, module_text, suggestions


class Command(BaseCommand):
    """Print what could be declared; nothing is written and no database is asked."""

    help = "Print a declaration to review, for the admins that have none or for those of the models named."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take which models, where, and how it is printed."""
        parser.add_argument("models", nargs="*", metavar="app.Model", help="only the admins of these models")
        parser.add_argument("--site", default="", metavar="NAME", help="only the admins of this AdminSite")
        parser.add_argument(
            "--attributes",
            action="store_true",
            help="print attributes of the classes instead of a copilot.py",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print it. Raises CommandError for a model or site that is not there."""
        among = sorted(sites.all_sites, key=lambda each: each.name)
        if options["site"]:
            names = [each.name for each in among]
            among = [each for each in among if each.name == options["site"]]
            if not among:
                raise CommandError(
                    f"There is no AdminSite {options['site']!r}. There are: {', '.join(names)}."
                )
        only = []
        for label in options["models"]:
            try:
                model = apps.get_model(label)
            except (LookupError, ValueError) as error:
                raise CommandError(f"{label!r} is no model, written app.Model.") from error
            if not any(each.is_registered(model) for each in among):
                raise CommandError(f"{model._meta.label} is registered on no AdminSite.")
            only.append(model)
        made = suggestions(among, only=only)
        if not made:
            self.stdout.write("# Every registered admin has a harness.")
            return
        self.stdout.write(attributes_text(made) if options["attributes"] else module_text(made), ending="")
