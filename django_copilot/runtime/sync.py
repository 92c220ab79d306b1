"""The driver of a turn for a request that waits: does what the machine asks for, and stores the end.

No transaction, lock or connection is held while the model is waited for. Whatever happens after a turn was
opened, it is closed: with an answer, or as failed with one of the endpoint's codes.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from django.contrib.admin import AdminSite
from django.db import connections, transaction
from django.utils.crypto import salted_hmac

from .. import gate, plans, prompt
from ..access import Access
from ..backends import ModelMessage, ModelRequest, ToolSpec, get_backend
from ..conf import get_settings
from ..exceptions import BackendError, ConfigurationError, HistoryUnreadable, ScopeUnavailable
from ..models import Message, Turn, TurnState
from ..rows import TABLES_BYTES, fit_table
from ..scope import Scope, enter_scope
from ..tools import ranking
from ..tools.base import Asked, Failed, Found, Outcome, Proposed, ReadDone
from ..tools.schema import ASK_USER, FIND_ENTITIES, specs_for
from ..turn import machine
from . import store

logger = logging.getLogger("django_copilot")


@dataclass
class Result:
    """How a turn ended: ``code`` is "" for an answer, else one of the endpoint's codes."""

    code: str = ""
    reply: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    action: dict[str, Any] | None = None
    question: dict[str, Any] | None = None


def run_turn(site: AdminSite, scope: Scope, turn: Turn, message: str, page: dict[str, Any] | None) -> Result:
    """Run an open turn to its end and close it."""
    driver = _Driver(site, scope, turn, message, page)
    try:
        return driver.run()
    except BaseException:
        store.close_turn(turn, state=TurnState.FAILED, code="failed")
        raise


class _Driver:
    def __init__(
        self, site: AdminSite, scope: Scope, turn: Turn, message: str, page: dict[str, Any] | None
    ) -> None:
        self.site, self.scope, self.turn, self.message, self.page = site, scope, turn, message, page
        assert turn.conversation is not None
        self.conversation = turn.conversation
        self.settings = get_settings()
        self.stop_at = time.monotonic() + self.settings.TURN_SECONDS
        self.result = Result()
        self.offered: list[str] = []  # entities whose tools are sent, by name
        self.reads: list[dict[str, Any]] = []
        self.mentions: dict[str, set[str]] = {}
        self.inherited: dict[str, set[str]] = {}  # what earlier answers in the request spoke of
        self.shown_bytes = 0
        self.sent: dict[str, Any] = {"requests": 0, "bytes": 0, "rows": 0}

    def run(self) -> Result:
        """Do what the machine asks for until the turn has ended."""
        turn = machine.Turn(
            limits=machine.Limits(
                max_rounds=self.settings.MAX_ROUNDS,
                max_calls=self.settings.MAX_CALLS,
                max_bytes=self.settings.TURN_BYTES,
            )
        )
        effect = turn.start()
        try:
            self.prepare()
        except (ScopeUnavailable, ConfigurationError) as error:
            logger.error("A turn could not be started: %s", error)
            effect = turn.send(machine.Interrupted(code="failed"))
        except HistoryUnreadable:
            logger.exception("The history of conversation %s can't be read.", self.turn.conversation_id)
            effect = turn.send(machine.Interrupted(code="history_unreadable"))
        except Exception:
            logger.exception("A turn could not be started.")
            effect = turn.send(machine.Interrupted(code="failed"))
        while True:
            match effect:
                case machine.CallModel(messages=messages):
                    effect = turn.send(self.ask(messages))
                case machine.RunTool(call=call):
                    effect = turn.send(self.call(call))
                case machine.Answered(text=text):
                    self.turn.rounds = turn.rounds
                    return self.finish(text)
                case machine.Ended(final=final):
                    self.turn.rounds = turn.rounds
                    return self.finish_with(final)
                case machine.FailedTurn(code=code):
                    self.turn.rounds = turn.rounds
                    return self.fail(code)
                case _:
                    assert_never(effect)

    # -- before the first call ---------------------------------------------------------------------

    def prepare(self) -> None:
        """Read the history and choose the tools, with the rights of this moment."""
        earlier = store.history(self.conversation, before=self.turn)
        with enter_scope(self.scope, self.turn.user_id) as request:
            access = Access(self.site, request)
            access.check_person()
            earlier = [each for each in earlier if not store.is_withheld(each, access)]
            self.history = tuple(
                ModelMessage(role="user" if each.role == Message.Role.USER else "assistant", text=each.text)
                for each in earlier
            )
            for each in earlier:
                self.inherit(each.mentions)
            chosen = ranking.choose(
                access, self.message, page=(self.page or {}).get("entity", ""), recent=self.inherited
            )
            self.offered = [each.name for each in chosen]
            self.tools = self.tools_of(access)
            on_page = access.entity(self.page["entity"]) if self.page and "id" in self.page else None
            if on_page is not None:  # the model is told of a record, and may tell it in its own words
                self.inherit({on_page.entity.label: (), **on_page.told_by_ids})
            self.context = prompt.context(language=self.scope.language, page=self.page)

    def inherit(self, told: Mapping[str, Iterable[str]]) -> None:
        """Remember what else than this turn's calls the model is told of."""
        for label, fields in told.items():
            self.inherited.setdefault(label, set()).update(fields)

    def tools_of(self, access: Access) -> tuple[ToolSpec, ...]:
        """Return the tools of the offered entities and those that belong to none, in a stable order."""
        chosen = [each for each in access.named(self.offered) if each.is_usable]
        specs = [spec for each in chosen for spec in specs_for(each)]
        specs.append(ASK_USER)
        if ranking.has_more(access, chosen):
            specs.append(FIND_ENTITIES)
        return tuple(specs)

    # -- effects -----------------------------------------------------------------------------------

    def ask(self, messages: tuple[ModelMessage, ...]) -> machine.Event:
        """Ask the model, holding nothing meanwhile."""
        if time.monotonic() > self.stop_at:
            return machine.ModelFailed(code="model_timeout")
        request = ModelRequest(
            system=prompt.SYSTEM,
            tools=self.tools,
            messages=(*self.history, ModelMessage(role="user", text=self.message), *messages),
            context=self.context,
            person=salted_hmac(
                "django_copilot.person",
                json.dumps([str(self.turn.user_id), self.scope.site, self.scope.key]),
                algorithm="sha256",
            ).hexdigest()[:32],
        )
        self.sent["requests"] += 1
        self.sent["bytes"] += size_of(request)
        try:
            backend = get_backend()
            release_connections()
            reply = backend.complete(request)
        except BackendError as error:
            logger.warning("The model gave no answer (%s): %s", error.code, error)
            return machine.ModelFailed(code=error.code)
        except ConfigurationError as error:
            logger.error("The backend can't be made: %s", error)
            return machine.ModelFailed(code="model_not_configured")
        except Exception:
            logger.exception("The backend failed in a way it must not.")
            return machine.Interrupted(code="failed")
        return machine.ModelReplied(reply=reply)

    def call(self, call: Any) -> machine.Event:
        """Run one call through the gate."""
        if time.monotonic() > self.stop_at:
            return machine.Interrupted(code="model_timeout")
        try:
            outcome = gate.run(self.site, self.scope, self.turn.user_id, call)
        except ScopeUnavailable as error:
            logger.error("A tool call was refused: %s", error)
            return machine.Interrupted(code="failed")
        return self.returned(outcome)

    def returned(self, outcome: Outcome) -> machine.Event:
        """Keep what an outcome means for the person and tell the machine."""
        match outcome:
            case ReadDone():
                self.reads.append(outcome.query.to_json())
                table, size = fit_table(outcome.table, TABLES_BYTES - self.shown_bytes)
                self.shown_bytes += size
                self.result.results.append(table)
                self.mention(outcome.query.entity, outcome.fields, outcome.query.filters)
                for label, fields in outcome.told.items():
                    self.mention(label, fields)
                self.sent["rows"] += outcome.sent_rows
                return machine.ToolReturned(content=outcome.content)
            case Found():
                self.offered.extend(name for name in outcome.names if name not in self.offered)
                try:
                    with enter_scope(self.scope, self.turn.user_id) as request:
                        self.tools = self.tools_of(Access(self.site, request))
                except ScopeUnavailable as error:
                    logger.error("A tool call was refused: %s", error)
                    return machine.Interrupted(code="failed")
                return machine.ToolReturned(content=outcome.content)
            case Failed():
                return machine.ToolReturned(content=outcome.content)
            case Proposed() | Asked():
                return machine.ToolReturned(content=None, final=outcome)
            case _:
                assert_never(outcome)

    def mention(self, label: str, fields: Any, filters: Any = ()) -> None:
        """Remember what the answer may speak of."""
        known = self.mentions.setdefault(label, set())
        known.update(fields)
        known.update(name for name in filters if name != "id")

    # -- ends --------------------------------------------------------------------------------------

    def finish(self, text: str) -> Result:
        """Store the model's text as the answer.

        It may repeat what earlier answers said, so it is bound to what they spoke of, too.
        """
        for label, fields in self.inherited.items():
            self.mention(label, fields)
        return self.store_answer(text)

    def finish_with(self, final: Proposed | Asked) -> Result:
        """Store a page to open or a question as the answer, in the server's words."""
        match final:
            case Asked():
                self.result.question = {
                    "text": final.text,
                    "kind": final.kind,
                    "options": list(final.options),
                }
                return self.finish(final.text)
            case Proposed():
                self.mention(final.label, ())
                for label, fields in final.told.items():
                    self.mention(label, fields)
                return self.store_answer(final.reply, proposed=final)
            case _:
                assert_never(final)

    def store_answer(self, text: str, *, proposed: Proposed | None = None) -> Result:
        """Close the turn with an answer and its plan, unless it was closed or taken away meanwhile."""
        self.turn.sent = self.sent
        with transaction.atomic():
            if not store.close_turn(self.turn, state=TurnState.DONE):
                return Result(code="failed")
            if proposed is not None:
                plan = plans.propose(
                    proposed,
                    scope=self.scope,
                    user_pk=self.turn.user_id,
                    conversation=self.conversation,
                    turn=self.turn,
                )
                self.result.action = plans.action_of(plan, proposed)
            message = store.add_answer(
                self.conversation,
                self.turn,
                text,
                reads=self.reads,
                mentions={label: sorted(names) for label, names in self.mentions.items()},
                question=self.result.question,
            )
        self.result.reply = message.text
        return self.result

    def fail(self, code: str) -> Result:
        """Close the turn as failed."""
        self.turn.sent = self.sent
        store.close_turn(self.turn, state=TurnState.FAILED, code=code)
        return Result(code=code)


def size_of(request: ModelRequest) -> int:
    """Return how many bytes of a request are ours, before a backend puts them into its provider's shape."""
    texts = [request.system, request.context]
    for message in request.messages:
        texts += [message.text, *(part for call in message.calls for part in (call.name, call.arguments))]
    for tool in request.tools:
        parameters = json.dumps(tool.parameters, ensure_ascii=False, separators=(",", ":"))
        texts += [tool.name, tool.description, parameters]
    return sum(len(each.encode("utf-8", "replace")) for each in texts)


def release_connections() -> None:
    """Give back every database connection that no surrounding block holds."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block and connection.get_autocommit():
            connection.close()
