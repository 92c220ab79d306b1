"""Ask the assistant from the command line or a job: it reads, and what needs a person is denied and reported."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite, sites
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from django_copilot.access import Access
from django_copilot.conf import get_settings
from django_copilot.declaration import has_entities
from django_copilot.exceptions import CallError, ConfigurationError, ScopeUnavailable, Throttled
from django_copilot.people import person_key
from django_copilot.plans.deciders import Decider
from django_copilot.plans.projection import as_json
from django_copilot.runtime import store
from django_copilot.runtime.sync import run_turn
from django_copilot.scope import Scope, enter_scope
from django_copilot.switch import is_off


class Command(BaseCommand):
    """Run one turn for a person who is not there: nothing is changed, whatever the model asks for."""

    help = "Ask the assistant as a person of the admin. Nothing is changed: what needs her is denied and reported."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take who asks, where, and what."""
        parser.add_argument("message", help="what to ask")
        parser.add_argument("--user", required=True, help="username of an active account with the right to")
        parser.add_argument("--site", default="admin", help="name of the AdminSite (default: admin)")
        parser.add_argument("--host", default="", help="host name that the project's code should see")
        parser.add_argument("--language", default=settings.LANGUAGE_CODE, help="language of texts and dates")
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a key of the project's own scope, as COPILOT['SCOPE'] captures it; may be repeated",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the turn and print the report. Raises CommandError."""
        site = _site(options["site"])
        if is_off(site.name):
            raise CommandError(f"The assistant is turned off on the site {site.name!r}.")
        user = _user(options["user"])
        scope = Scope(
            site=site.name,
            host=options["host"]
            or next((h for h in settings.ALLOWED_HOSTS if h[:1] not in "*."), "localhost"),
            language=options["language"],
            time_zone=timezone.get_default_timezone_name(),
            keys=_keys(options["scope"]),
        )
        code = _why_not(site, scope, user)
        if code:
            raise CommandError(
                f"{options['user']} may not use the assistant on the site {site.name!r} ({code})."
            )
        try:
            turn = store.open_turn(user, scope, None, options["message"])
        except Throttled as error:
            raise CommandError(f"Too many turns of {options['user']}; wait {error.seconds} s.") from error
        result = run_turn(site, scope, turn, options["message"], None, by=None)
        if result.code:
            raise CommandError(f"There is no answer: {result.code}.")
        by = Decider(user=user, key=person_key(user), real_key="", impersonated=False, site=site, scope=scope)
        denied = [as_json(plan, by) for plan in result.denied]
        report = {
            "conversationId": str(turn.conversation_id),
            "reply": result.reply,
            "results": result.results,
            "denied": denied,
        }
        if options["json"]:
            self.stdout.write(json.dumps(report, ensure_ascii=False, indent=2))
            return
        self.stdout.write(result.reply)
        for table in result.results:
            self.stdout.write(f"\n{table['label']}: {len(table['rows'])} rows")
        for plan in denied:
            self.stdout.write(f"\nNot done: {plan['summary']}. {plan['reason']}")
            for change in plan["changes"]:
                self.stdout.write(f"  {change['label']}: {change['old'] or '–'} → {change['new'] or '–'}")
            for effect in plan["effects"]:
                self.stdout.write(f"  {effect}")


def _site(name: str) -> AdminSite:
    found = {each.name: each for each in sites.all_sites if has_entities(each)}
    if name not in found:
        raise CommandError(
            f"There is no AdminSite {name!r} with entities. There are: {', '.join(found) or 'none'}."
        )
    return found[name]


def _user(username: str) -> Any:
    user_model = get_user_model()
    user = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: username}).first()
    if user is None or not user.is_active:
        raise CommandError(f"There is no active account {username!r}.")
    return user


def _why_not(site: AdminSite, scope: Scope, user: Any) -> str:
    """Return the code of why the person can't use the assistant there, or "". Raises CommandError."""
    try:
        with enter_scope(scope, user.pk) as request:
            access = Access(site, request)
            access.check_person()
            return "" if next(access.usable(), None) is not None else "no_entities"
    except CallError as error:
        return error.code
    except (ScopeUnavailable, ConfigurationError) as error:
        raise CommandError(str(error)) from error


def _keys(given: list[str]) -> dict[str, str]:
    keys = dict(each.split("=", 1) for each in given if "=" in each)
    if len(keys) != len(given):
        raise CommandError("--scope takes KEY=VALUE, each key once.")
    if get_settings().SCOPE is not None and not keys:
        raise CommandError(
            "This project has a scope of its own (COPILOT['SCOPE']): name it with --scope KEY=VALUE."
        )
    if get_settings().SCOPE is None and keys:
        raise CommandError("This project has no scope of its own: COPILOT['SCOPE'] is not set.")
    return keys
