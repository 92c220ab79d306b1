"""``manage.py copilot_switch``: turn the assistant of a site off and on, or tell how it is."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import sites
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ... import switch
from ...declaration import has_entities


class Command(BaseCommand):
    """Turn the assistant off or on for a whole site, on every worker."""

    help = "Turn the assistant of an admin site off or on, on every worker, or tell how it is."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what to do, where, and why."""
        parser.add_argument("action", choices=("on", "off", "status"), help="what to do")
        parser.add_argument("--site", default="admin", metavar="NAME", help="the AdminSite (default: admin)")
        parser.add_argument(
            "--reason", default="", metavar="TEXT", help="why; people with the right to see it"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it and print how it is now. Raises CommandError for a site that has no assistant."""
        site, action, reason = options["site"], options["action"], options["reason"]
        known = sorted(each.name for each in sites.all_sites if has_entities(each))
        if site not in known:
            raise CommandError(
                f"There is no AdminSite {site!r} with entities. There are: {', '.join(known) or 'none'}."
            )
        if len(reason.strip()) > switch.REASON_LENGTH:
            raise CommandError(f"A reason has at most {switch.REASON_LENGTH} characters.")
        if action == "status":
            if reason:
                raise CommandError("--reason goes with on and off.")
        else:
            switch.turn(site, off=action == "off", by=None, reason=reason)
        now = switch.state_of(site)
        line = f"{site}: the assistant is {'off' if now.is_off else 'on'}"
        if now.changed_at is not None:
            by = f"account {now.changed_by}" if now.changed_by else "the command line"
            line += f", since {now.changed_at.isoformat(timespec='seconds')}, by {by}"
        self.stdout.write(f"{line}: {now.reason}" if now.reason else f"{line}.")
