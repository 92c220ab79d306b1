"""``manage.py copilot_access``: what the assistant may do for a person, and which rule says each no."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...declaration import entities_of
from ...exceptions import ConfigurationError
from ...explaining import explain
from ..place import account, add_place, scope_at, scope_keys, site_named


class Command(BaseCommand):
    """Ask the code that decides, on a request built as for the assistant, and print what it says."""

    help = "Print what the assistant may do for a person, and which rule says each no. Nothing is changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take who, where, and which entities."""
        parser.add_argument("user", help="username of an account")
        parser.add_argument(
            "--entity",
            action="append",
            default=[],
            metavar="NAME",
            help="only this entity, as in tools or as app.Model; may be repeated",
        )
        add_place(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print it. Raises CommandError."""
        site = site_named(options["site"])
        user = account(options["user"], active=False)
        entities = entities_of(site)
        only = [each if each in entities else each.lower() for each in options["entity"]]
        unknown = set(only) - {*entities, *(each.label for each in entities.values())}
        if unknown:
            raise CommandError(
                f"No entity {', '.join(sorted(unknown))} on the site {site.name!r}. "
                f"There are: {', '.join(entities)}."
            )
        scope = scope_at(site, options, scope_keys(options["scope"]))
        try:
            report = explain(site, scope, user, only=only)
        except ConfigurationError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False, indent=2))
            return
        for line in _lines(report):
            self.stdout.write(line)


def _lines(report: Mapping[str, Any]) -> list[str]:
    who = f"{report['user']} on the site {report['site']!r}"
    if report["allowed"]["may"]:
        lines = [f"{who}: may use the assistant."]
    else:
        lines = [f"{who}: may not use the assistant: {report['allowed']['why']}."]
        if report["entities"]:
            lines.append("What follows would hold if that were otherwise.")
    if not report["decides"]["may"]:
        lines.append(f"Confirms and approves nothing: {report['decides']['why']}.")
    for each in report["entities"]:
        lines += ["", f"{each['entity']} ({each['model']})"]
        if not each["usable"]["may"]:
            lines.append(f"  not usable: {each['usable']['why']}")
            continue
        lines += _columns([(name, _said(answer)) for name, answer in each["tools"].items()])
        if each["fields"]:
            pages = [
                page
                for page in next(iter(each["fields"].values()))
                if page != "show" or any(answers["show"]["may"] for answers in each["fields"].values())
            ]
            rows = [
                (name, *(_said(answers[page]) for page in pages)) for name, answers in each["fields"].items()
            ]
            lines += ["", *_columns([("field", *pages), *rows])]
        if each["asking"]:
            lines += ["", *_columns(_asking(each["asking"]))]
    if report["tools"]:
        lines += [
            "",
            "write tools",
            *_columns([(name, _said(each)) for name, each in report["tools"].items()]),
        ]
    return lines


def _asking(asking: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for what, said in asking.items():
        for name in said:
            value = said[name] if isinstance(said, Mapping) else {"may": True}
            rows.append((what, name, ", ".join(value) if isinstance(value, list) else _said(value)))
    return rows


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _said(answer: Mapping[str, Any]) -> str:
    return "yes" if answer["may"] else f"no: {answer['why']}"
