"""``manage.py copilot_egress``: the exact bytes that a message would send to the model's provider.

The request is prepared as for a turn and goes through the backend's own code up to the last step. Nothing is
sent, no model is called, and nothing is stored.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import router, transaction

from ...backends import ModelRequest, Outgoing, get_backend
from ...conf import get_settings
from ...exceptions import (
    BackendError,
    CallError,
    ConfigurationError,
    ConversationNotFound,
    HistoryUnreadable,
    ScopeUnavailable,
)
from ...models import Conversation, Reference
from ...runtime import store
from ...runtime.page import page_context
from ...runtime.request import Briefing
from ...scope import Scope
from ...switch import is_off
from ..place import account, add_place, scope_at, scope_keys, site_named, why_not

BYTES_PER_TOKEN = 4  # about, of English and JSON


class Command(BaseCommand):
    """Prepare a message's first request and print it instead of sending it."""

    help = (
        "Print the exact bytes that a message would send to the model's provider. Nothing is sent or stored."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take who asks, where, and what."""
        parser.add_argument("message", help="what the person would write")
        parser.add_argument(
            "--as", dest="user", required=True, metavar="USER", help="username of an active account"
        )
        parser.add_argument("--page", default="", metavar="URL", help="address of the admin page she is on")
        parser.add_argument(
            "--conversation", default="", metavar="ID", help="a conversation of hers to go on with"
        )
        add_place(parser, language=True)
        parser.add_argument(
            "--body", action="store_true", help="print the body alone, and not even a line's end"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the request. Raises CommandError."""
        site, message = site_named(options["site"]), options["message"].strip()
        most = get_settings().MESSAGE_CHARS
        if not 0 < len(message) <= most:
            raise CommandError(f"A message has 1 to {most} characters.")
        if is_off(site.name):
            raise CommandError(f"The assistant is turned off on the site {site.name!r}: nothing is sent.")
        user = account(options["user"])
        scope = scope_at(site, options, scope_keys(options["scope"]))
        code = why_not(site, scope, user)
        if code:
            raise CommandError(
                f"{options['user']} may not use the assistant on the site {site.name!r} ({code}): nothing is sent."
            )
        try:
            # An opaque name for a page's record would be stored on the way.
            with transaction.atomic(using=router.db_for_write(Reference)):
                conversation = (
                    store.find_conversation(user, scope, options["conversation"])
                    if options["conversation"]
                    else None
                )
                briefing = _briefing(site, scope, user, message, options["page"], conversation)
                transaction.set_rollback(True, using=router.db_for_write(Reference))
            request = briefing.request()
            outgoing = _outgoing(request)
        except ConversationNotFound:
            raise CommandError(f"{options['user']} has no such conversation there.") from None
        except HistoryUnreadable as error:
            raise CommandError("The history of that conversation can't be read.") from error
        except (BackendError, CallError, ConfigurationError, ScopeUnavailable) as error:
            raise CommandError(str(error)) from error
        self._print(outgoing, body_alone=options["body"])
        self.stderr.write(_summary(briefing, request, outgoing))

    def _print(self, outgoing: Outgoing, *, body_alone: bool) -> None:
        body = outgoing.body.decode("utf-8")
        if body_alone:
            self.stdout.write(body, ending="")
            return
        if outgoing.method:
            self.stdout.write(f"{outgoing.method} {outgoing.url}")
            for name, value in outgoing.headers:
                self.stdout.write(f"{name}: {value}")
            self.stdout.write("")
        self.stdout.write(body)


def _briefing(
    site: Any, scope: Scope, user: Any, message: str, page: str, conversation: Conversation | None
) -> Briefing:
    briefing = Briefing(site, scope, user.pk, message, page_context(site, scope, user, page))
    briefing.prepare(conversation)
    return briefing


def _outgoing(request: ModelRequest) -> Outgoing:
    """Return what the configured backend would send; of one that can't tell, the request that it gets."""
    backend = get_backend()
    outgoing = getattr(backend, "outgoing", None)
    if outgoing is not None:
        made: Outgoing = outgoing(request)
        return made
    told = {
        "system": request.system,
        "tools": [
            {"name": each.name, "description": each.description, "parameters": each.parameters}
            for each in request.tools
        ],
        "messages": [{"role": each.role, "text": each.text} for each in request.messages],
        "context": request.context,
        "person": request.person,
    }
    return Outgoing(body=json.dumps(told, ensure_ascii=False, indent=2).encode("utf-8", "replace"))


def _summary(briefing: Briefing, request: ModelRequest, outgoing: Outgoing) -> str:
    size = len(outgoing.body)
    entities = ", ".join(briefing.offered) or "none"
    where = (
        "would be sent" if outgoing.method else "would be given to the backend, which sends nothing itself"
    )
    return (
        f"{size:,} bytes {where}, about {size // BYTES_PER_TOKEN:,} tokens: {len(request.tools)} tools, "
        f"entities: {entities}; {len(request.messages) - 1} earlier messages. Nothing was sent or stored."
    )
