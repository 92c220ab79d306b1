"""Ask the assistant from the command line or a job: it reads, and what needs a person is denied and reported."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_copilot.exceptions import Throttled
from django_copilot.management.place import account, add_place, scope_at, scope_keys, site_named, why_not
from django_copilot.people import person_key
from django_copilot.plans.deciders import Decider
from django_copilot.plans.projection import as_json
from django_copilot.runtime import store
from django_copilot.runtime.sync import run_turn
from django_copilot.switch import is_off


class Command(BaseCommand):
    """Run one turn for a person who is not there: nothing is changed, whatever the model asks for."""

    help = "Ask the assistant as a person of the admin. Nothing is changed: what needs her is denied and reported."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take who asks, where, and what."""
        parser.add_argument("message", help="what to ask")
        parser.add_argument("--user", required=True, help="username of an active account with the right to")
        add_place(parser, language=True)
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the turn and print the report. Raises CommandError."""
        site = site_named(options["site"])
        if is_off(site.name):
            raise CommandError(f"The assistant is turned off on the site {site.name!r}.")
        user = account(options["user"])
        scope = scope_at(site, options, scope_keys(options["scope"]))
        code = why_not(site, scope, user)
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
