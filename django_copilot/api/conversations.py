"""A person's own conversations: as pages, and as JSON for the panel."""

from __future__ import annotations

import json
import logging
from itertools import islice
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from .. import audit, plans
from ..access import Access
from ..exceptions import CallError, ConversationNotFound, ScopeUnavailable
from ..models import Conversation, Message, Plan, PlanKind, Turn, TurnState
from ..plans.deciders import Decider
from ..plans.projection import as_json
from ..plans.rights import find
from ..plans.states import clocked
from ..reading import TABLES_BYTES, Reading, fit_table, read_again
from ..runtime import store
from ..runtime.sent import Sent, told_of_sent
from ..scope import enter_scope
from .base import ApiError, OwnPage, error_text, json_answer, not_here, wants_json

logger = logging.getLogger("django_copilot")

LISTED = 100
SHOWN_MESSAGES = 200
EXAMPLES_FROM = 12  # entities looked at for the sentences to begin with
SHOWN_PLANS = 20  # of a conversation, with everything on them
READ_AGAIN = 20  # different reads of a conversation whose tables are made again


class ListView(OwnPage):
    """The person's conversations, latest first."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the list."""
        found = store.own_conversations(request.user, self.scope).order_by("-updated_at")[:LISTED]
        listed = [
            {
                "id": str(each.pk),
                "title": each.title or _("Untitled conversation"),
                "url": self.url("detail", each),
                "delete_url": self.url("delete", each),
                "updated_at": each.updated_at,
            }
            for each in found
        ]
        if wants_json(request):
            return json_answer(
                {
                    "conversations": [
                        {
                            "conversationId": each["id"],
                            "title": each["title"],
                            "updatedAt": each["updated_at"].isoformat(),  # type: ignore[attr-defined]
                            "url": each["url"],
                        }
                        for each in listed
                    ],
                    "examples": self.examples(request),
                }
            )
        return self.page(request, "conversation_list.html", title=_("Conversations"), conversations=listed)

    def examples(self, request: HttpRequest) -> list[str]:
        """Return sentences that this person can begin with, about what she can see most of."""
        try:
            with enter_scope(self.scope, request.user.pk, just_loaded=request.user) as scoped:
                usable = islice(Access(self.site, scoped).usable(), EXAMPLES_FROM)
                seen = [(len(each.readable()), each) for each in usable if each.can_view]
        except ScopeUnavailable:
            return []
        seen.sort(key=lambda pair: -pair[0])
        return [
            _("Show the latest %(names)s") % {"names": str(each.model._meta.verbose_name_plural)}
            for readable, each in seen[:3]
            if readable
        ]

    def url(self, page: str, conversation: Conversation) -> str:
        """Return the address of a conversation."""
        return reverse(
            f"admin:django_copilot_conversation_{page}",
            args=[conversation.pk],
            current_app=self.site.name,
        )


class OwnConversation(OwnPage):
    """A view of one own conversation; everything else is not there."""

    def conversation(self, request: HttpRequest, ident: str) -> Conversation:
        """Return the conversation. Raises ApiError."""
        try:
            return store.find_conversation(request.user, self.scope, ident)
        except ConversationNotFound:
            not_here()


class DetailView(OwnConversation):
    """What was said in a conversation, with the rows read again under today's rights."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest, ident: str) -> HttpResponse:
        """Return the latest messages."""
        conversation = self.conversation(request, ident)
        try:
            messages = list(conversation.messages.order_by("-id")[:SHOWN_MESSAGES])[::-1]
            proposing = set(conversation.plans.exclude(kind=PlanKind.TOOL).values_list("turn_id", flat=True))
            shown_plans = self.plans(request, messages)
            with enter_scope(self.scope, request.user.pk) as scoped:
                access = Access(self.site, scoped, store.references_of(conversation, messages))
                again = _Again(access, pages=not wants_json(request))
                shown = [again.shown(each, proposes=each.turn_id in proposing) for each in messages[::-1]]
                shown.reverse()
            for each in shown:
                if each["id"] in shown_plans and not each["withheld"]:
                    each["plan"] = shown_plans[each["id"]]
        except ScopeUnavailable as error:
            logger.error("A conversation can't be shown: %s", error)
            raise ApiError(500, "failed") from None
        except Exception:
            logger.exception("The history of conversation %s can't be read.", conversation.pk)
            raise ApiError(500, "history_unreadable") from None
        if wants_json(request):
            return json_answer(
                {
                    "conversationId": str(conversation.pk),
                    "title": conversation.title,
                    "messages": [
                        {
                            **{key: value for key, value in each.items() if key != "created_at"},
                            "createdAt": each["created_at"].isoformat(),
                        }
                        for each in shown
                    ],
                    "turn": _last_turn(conversation),
                }
            )
        return self.page(
            request,
            "conversation_detail.html",
            title=conversation.title or _("Conversation"),
            messages_shown=shown,
            delete_url=reverse(
                "admin:django_copilot_conversation_delete",
                args=[conversation.pk],
                current_app=self.site.name,
            ),
        )

    def plans(self, request: HttpRequest, messages: list[Message]) -> dict[str, dict[str, Any]]:
        """Return the plans of write tools as she may see them now, the latest made in place of one that was over.

        By the message's id.
        """
        by = Decider.of(request, self.site, self.scope)
        shown: dict[str, dict[str, Any]] = {}
        for message in [each for each in messages if each.plan_id][-SHOWN_PLANS:]:
            plan = find(message.plan_id, by)
            if plan is not None:
                for _each in range(SHOWN_PLANS):
                    newer = clocked(Plan.objects.filter(made_from=plan)).order_by("-created_at").first()
                    if newer is None:
                        break
                    plan = newer
                shown[str(message.pk)] = as_json(plan, by)
        return shown


class _Again:
    """Reads the tables of a conversation again, the newest first and not more than a bounded number of them."""

    def __init__(self, access: Access, *, pages: bool) -> None:
        self.access, self.pages = access, pages
        self.left, self.bytes_left = READ_AGAIN, TABLES_BYTES
        self.known: dict[str, Reading | None] = {}  # by query, None where it is refused by now

    def shown(self, message: Message, *, proposes: bool) -> dict[str, Any]:
        """Return a message as its owner may see it today. Ask for the newest message first.

        What was looked up for a form or a question on the way, and not found, is no answer of its own.
        """
        store.check_stored(message)
        withheld = store.is_withheld(message, self.access)
        results: list[dict[str, Any]] = []
        left: list[Sent | None] = []
        older = False
        for stored in () if withheld else message.reads:
            read = {name: value for name, value in stored.items() if name != "sent"}
            key = json.dumps(read, sort_keys=True)
            if (key not in self.known and not self.left) or self.bytes_left <= 0:
                older = True
                left.append(Sent.from_json(stored, None))
                continue
            rows = self.rows(key, read)
            if rows is None:
                continue
            table = rows.for_person()
            left.append(Sent.from_json(stored, table))
            if not (rows.is_empty and (proposes or message.question)):
                table, size = fit_table(table, self.bytes_left)
                self.bytes_left -= size
                results.append(_texts(rows, table) if self.pages else table)
        return {
            "id": str(message.pk),
            "role": message.role,
            "text": _("This answer is hidden, because you may not see what it speaks of any more.")
            if withheld
            else self.access.read_out(message.text),
            "withheld": withheld,
            "created_at": message.created_at,
            "results": results,
            **told_of_sent(each for each in left if each is not None),
            **({"older": True} if older else {}),
            **({"proposed": True} if proposes else {}),
            **({"on_the_way": True} if self.pages and (proposes or message.question) else {}),
            **({"question": self.question(message.question)} if message.question and not withheld else {}),
        }

    def question(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return a question with the values that handles in it stand for."""
        options = [self.access.read_out(each) for each in asked["options"]]
        return {**asked, "text": self.access.read_out(asked["text"]), "options": options}

    def rows(self, key: str, stored: dict[str, Any]) -> Reading | None:
        """Return what a stored read gives, None when it is refused."""
        if key not in self.known:
            self.left -= 1
            entity = self.access.labelled(stored["entity"])
            try:
                self.known[key] = read_again(entity, stored) if entity is not None else None
            except CallError:
                self.known[key] = None
        return self.known[key]


def _texts(rows: Reading, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table of texts for the page."""
    lines = [
        {"url": drawn["url"], "id": drawn["id"], "cells": cells}
        for cells, drawn in zip(rows.texts(), table["rows"], strict=False)  # it may be cut
    ]
    return {
        "label": table["label"],
        "asked": table.get("asked", ()),
        "columns": table["columns"],
        "rows": lines,
        "has_more": table["hasMore"],
    }


def _last_turn(conversation: Conversation) -> dict[str, Any] | None:
    """Return how the last turn stands when it gave no answer; one whose worker died reads as failed."""
    store.close_dead(conversation)
    turn = Turn.objects.filter(conversation=conversation).order_by("-started_at").first()
    if turn is None or turn.state in (TurnState.DONE, TurnState.WAITING):
        return None
    code = turn.code or "turn_running"
    return {"state": turn.state, "code": code, "detail": error_text(code)}


class DeleteView(OwnConversation):
    """Delete a conversation and reject what is still open of it."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, ident: str) -> HttpResponse:
        """Delete it."""
        conversation = self.conversation(request, ident)
        with transaction.atomic():
            store.detach_turn(conversation)
            told = plans.reject_open(conversation)
            conversation.delete()
            audit.append(self.scope.site, self.scope.key, *told)
        if wants_json(request):
            return json_answer({"deleted": True})
        return self.go("django_copilot_conversation_changelist")
