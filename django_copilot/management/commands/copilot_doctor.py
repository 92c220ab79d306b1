"""``manage.py copilot_doctor``: look for what keeps the assistant from working and no system check can see."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite, sites
from django.core.management.base import BaseCommand, CommandError
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse

from ...declaration import has_entities
from ...diagnosis import OK, PROBLEM, Finding, examine, look, static_names
from ..place import add_place, given_keys, scope_at, site_named

TIMEOUT = 10  # seconds for one address


class Command(BaseCommand):
    """Print a line for each thing that was looked at. Nothing is written."""

    help = "Look for what keeps the assistant from working and no system check can see. Nothing is written."
    requires_system_checks = []  # they are one of its lines

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what to look at."""
        add_place(parser, site="", site_help="only this AdminSite")
        parser.add_argument(
            "--url",
            default="",
            metavar="http://…",
            help="address of the running server: ask it for the files",
        )
        parser.add_argument(
            "--model", action="store_true", help='ask the model once, with "ping"; this may cost money'
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Look and print. Raises CommandError, and with it exit status 1, when there is a problem."""
        keys = given_keys(options["scope"])
        if options["url"] and urlsplit(options["url"]).scheme not in ("http", "https"):
            raise CommandError("--url takes an address that begins with http:// or https://.")
        scopes = {site: scope_at(site, options, keys) for site in _sites(options["site"])}
        findings = list(examine(scopes, ask_model=options["model"]))
        if not scopes:
            text = "no ModelAdmin of any AdminSite is declared"
            findings.append(Finding(name="sites", level=PROBLEM, text=text, todo="manage.py copilot_suggest"))
        if options["url"]:
            findings += look("server", lambda: _served(options["url"], list(scopes)))
        problems = sum(each.level == PROBLEM for each in findings)
        if options["json"]:
            report = {"ok": not problems, "findings": [each.to_json() for each in findings]}
            self.stdout.write(json.dumps(report, ensure_ascii=False, indent=2))
        else:
            for each in findings:
                self.stdout.write(f"{each.level:<8} {each.name}: {each.text}")
                if each.todo:
                    self.stdout.write(f"{'':<8} → {each.todo}")
        if problems:
            raise CommandError(f"{problems} problem{'s' * (problems > 1)}.")


def _sites(name: str) -> list[AdminSite]:
    if name:
        return [site_named(name)]
    return sorted((each for each in sites.all_sites if has_entities(each)), key=lambda each: each.name)


# -- a running server --------------------------------------------------------------------------------------


def _served(url: str, among: list[AdminSite]) -> Iterator[Finding]:
    """Ask a server for the package's files and each site's login page, as a browser without a session would."""
    wrong = []
    for name in static_names():
        for path in dict.fromkeys((static(name), urljoin(settings.STATIC_URL or "/", name))):
            status, kind = _ask(urljoin(url, path))  # scripts import each other by their plain names
            if status != 200 or ("javascript" if name.endswith(".js") else "css") not in kind:
                wrong.append(f"{path} ({status} {kind})")
    if wrong:
        text = f"{len(wrong)} addresses of static files do not answer as they should: {', '.join(wrong[:3])}"
        todo = "Run collectstatic where the server takes them from; .js has to be text/javascript, .css text/css."
        yield Finding(name="server", level=PROBLEM, text=text, todo=todo)
    else:
        yield Finding(name="server", level=OK, text="all static files are served")
    for site in among:
        try:
            status, kind = _ask(urljoin(url, reverse("admin:login", current_app=site.name)))
        except NoReverseMatch:
            continue  # the panel's line tells of it
        text = f"the login page of {site.name} answers {status} {kind}"
        level = OK if status == 200 and "html" in kind else PROBLEM
        todo = "" if level == OK else "Is it the right address? Does the server's log say more?"
        yield Finding(name="server", level=level, text=text, todo=todo)


def _ask(url: str) -> tuple[int, str]:
    """Return status and content type of an address; 0 and the reason where nothing answers."""
    request = urllib.request.Request(url, headers={"User-Agent": "copilot_doctor"})  # noqa: S310 (checked above)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
            return response.status, response.headers.get_content_type()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type()
    except (urllib.error.URLError, OSError) as error:
        return 0, str(getattr(error, "reason", error))
