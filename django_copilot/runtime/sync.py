"""The driver of a turn for a request that waits: does what the machine asks for, and stores the end.

No transaction, lock or connection is held while the model is waited for. Whatever happens after a turn was
opened, it is closed: with an answer, or as failed with one of the endpoint's codes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, assert_never

from django.contrib.admin import AdminSite
from django.db import transaction
from django.utils.translation import gettext as _

from .. import audit, gate, plans, prompt
from ..access import Access
from ..backends import ModelMessage, get_backend
from ..conf import get_settings
from ..database import release_connections
from ..exceptions import (
    BackendError,
    CallError,
    ConfigurationError,
    HistoryUnreadable,
    ScopeUnavailable,
)
from ..models import Plan, PlanState, Turn, TurnState
from ..plans import projection, proposals, trail
from ..plans.deciders import Decider
from ..plans.texts import reply_of
from ..reading import TABLES_BYTES, fit_table
from ..references import HANDLE
from ..scope import Scope, enter_scope
from ..switch import is_off
from ..tools.base import Asked, Failed, Found, Outcome, Planned, Proposed, ReadDone, Told
from ..tools.write import all_tools
from ..turn import machine
from ..values import clean_text
from . import store
from .request import Briefing
from .sent import Sent
from .store import Result

logger = logging.getLogger("django_copilot")

DENIED = "denied by automatic policy:"


def run_turn(
    site: AdminSite,
    scope: Scope,
    turn: Turn,
    message: str,
    page: dict[str, Any] | None,
    *,
    by: Decider | None,
) -> Result:
    """Run an open turn to its end, or until it waits for a person, and close or store it.

    Without ``by`` nobody is there to decide: what needs a person is denied, and the turn goes on.
    """
    with _closed_on_failure(turn):
        return _Driver(site, scope, turn, message, page, by).run()


def continue_turn(site: AdminSite, scope: Scope, turn: Turn, plan: Plan, *, by: Decider) -> Result:
    """Go on with a turn that waited for a plan and was claimed again, with what became of the plan."""
    with _closed_on_failure(turn):
        stored = turn.stored or {}
        driver = _Driver(site, scope, turn, store.message_of(turn), stored.get("page"), by)
        driver.resume(stored, plan)
        return driver.run()


@contextmanager
def _closed_on_failure(turn: Turn) -> Iterator[None]:
    try:
        yield
    except BaseException:
        store.close_turn(turn, state=TurnState.FAILED, code="failed")
        raise


class _Driver:
    def __init__(
        self,
        site: AdminSite,
        scope: Scope,
        turn: Turn,
        message: str,
        page: dict[str, Any] | None,
        by: Decider | None,
    ) -> None:
        self.site, self.scope, self.turn, self.message, self.page = site, scope, turn, message, page
        assert turn.conversation is not None
        self.conversation, self.by = turn.conversation, by
        self.settings = get_settings()
        self.real_key = (
            by.real_key if by is not None else ""
        )  # of who acted as her when she asked, or does now
        self.decided: Plan | None = None  # what a person decided since the turn began to wait
        self.told: list[audit.Record] = []  # of tool calls, for the audit, before the model hears of them
        self.model = ""  # what answered, as its provider names it
        self.stop_at = time.monotonic() + self.settings.TURN_SECONDS
        self.result = Result()
        self.briefing = Briefing(site, scope, turn.user_id, message, page)
        self.reads: list[dict[str, Any]] = []
        self.shown: list[list[Any]] = []  # what this turn has shown, as stored
        self.mentions: dict[str, set[str]] = {}
        self.shown_bytes = 0
        self.sent: dict[str, Any] = {"requests": 0, "bytes": 0, "rows": 0}
        self.denied = self.result.denied

        self.machine = machine.Turn(
            limits=machine.Limits(
                max_rounds=self.settings.MAX_ROUNDS,
                max_calls=self.settings.MAX_CALLS,
                max_bytes=self.settings.TURN_BYTES,
            )
        )

    def resume(self, stored: Mapping[str, Any], plan: Plan) -> None:
        """Take up a turn where it began to wait."""
        self.decided = plan
        self.machine = machine.Turn.from_json(stored["machine"], limits=self.machine.limits)
        self.briefing.offered = list(stored["offered"])
        self.briefing.looked_for = list(stored.get("looked_for", ()))
        self.briefing.found = set(stored.get("found", ()))
        self.shown = list(stored.get("shown", ()))
        self.mentions = {label: set(names) for label, names in stored["mentions"].items()}
        self.sent = self.turn.sent or self.sent
        self.model = stored.get("model", "")
        self.real_key = self.real_key or stored.get("real_key", "")

    def to_json(self, plan: Plan) -> dict[str, Any]:
        """Return what ``resume`` needs."""
        inherited = self.briefing.inherited
        return {
            "plan": str(plan.pk),
            "machine": self.machine.to_json(),
            "offered": self.briefing.offered,
            "looked_for": self.briefing.looked_for,
            "found": sorted(self.briefing.found),
            "shown": self.shown,
            "mentions": {
                label: sorted({*self.mentions.get(label, ()), *inherited.get(label, ())})
                for label in {**self.mentions, **inherited}
            },
            "page": self.page,
            "model": self.model,
            "real_key": self.real_key,
        }

    def run(self) -> Result:
        """Do what the machine asks for until the turn has ended or waits."""
        turn = self.machine
        effect: machine.Effect | None = None
        try:
            self.briefing.prepare(self.conversation, before=self.turn, shown=self.shown)
            if self.decided is None:
                effect = turn.start()
            else:
                told = self.decision(self.decided)
                if told is None:
                    return self.store_answer(reply_of(self.decided))
                effect = turn.send(machine.Decided(content=told))
        except (ScopeUnavailable, ConfigurationError) as error:
            logger.error("A turn could not be started: %s", error)
            return self.fail("failed")
        except HistoryUnreadable:
            logger.exception("The history of conversation %s can't be read.", self.turn.conversation_id)
            return self.fail("history_unreadable")
        except Exception:
            logger.exception("A turn could not be started.")
            return self.fail("failed")
        while True:
            match effect:
                case machine.CallModel(messages=messages):
                    effect = turn.send(self.stop() or self.ask(messages))
                case machine.RunTool(call=call):
                    effect = turn.send(self.call(call))
                case machine.Answered(text=text):
                    return self.finish(text)
                case machine.Ended(final=final):
                    return self.finish_with(final)
                case machine.Wait(waits=planned):
                    return self.wait_for(planned)
                case machine.FailedTurn(code=code):
                    return self.fail(code)
                case _:
                    assert_never(effect)

    # -- before the first call ---------------------------------------------------------------------

    def decision(self, plan: Plan) -> dict[str, Any] | None:
        """Return what the model is told of a decision.

        None where the person may not see any more what the turn has spoken of: nothing of that is sent again.
        """
        with enter_scope(self.scope, self.turn.user_id) as request:
            access = Access(self.site, request)
            if not store.may_still_see(access, self.mentions):
                self.mentions = {}
                return None
            told = projection.for_model(plan, access)
            if "now" in told:
                self.mention(plan.model, told["now"])
            return told

    # -- effects -----------------------------------------------------------------------------------

    def stop(self) -> machine.Event | None:
        """Write down what the model is about to be told; stop the turn when that fails or the site is off."""
        if self.sent["requests"] == 0:
            return None  # it was asked a moment ago
        try:
            self.flush()
            return machine.Interrupted(code="switched_off") if is_off(self.scope.site) else None
        except Exception:
            logger.exception("The audit could not be written, so the turn does not go on.")
            return machine.Interrupted(code="failed")

    def flush(self) -> None:
        """Append what is to be told to the audit."""
        told, self.told = self.told, []
        audit.append(self.scope.site, self.scope.key, *told)

    def ask(self, messages: tuple[ModelMessage, ...]) -> machine.Event:
        """Ask the model, holding nothing meanwhile."""
        if time.monotonic() > self.stop_at:
            return machine.ModelFailed(code="model_timeout")
        request = self.briefing.request(messages)
        self.sent["requests"] += 1
        self.sent["bytes"] += request.size
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
        self.model = clean_text(reply.model)
        return machine.ModelReplied(reply=store.storable(reply))

    def call(self, call: Any) -> machine.Event:
        """Run one call through the gate."""
        if time.monotonic() > self.stop_at:
            return machine.Interrupted(code="model_timeout")
        try:
            outcome = gate.run(
                self.site, self.scope, self.turn.user_id, call, references=self.briefing.references
            )
        except ScopeUnavailable as error:
            logger.error("A tool call was refused: %s", error)
            return machine.Interrupted(code="failed")
        if isinstance(outcome, Planned):
            outcome = self.planned(outcome)
        self.told.append(
            trail.tool_call(
                self.turn,
                call,
                outcome,
                words=self.message,
                real_actor=self.real_key,
                model=self.model,
                prompt=str(prompt.VERSION),
            )
        )
        return self.returned(outcome)

    def planned(self, outcome: Planned) -> Planned | Failed:
        """Return what becomes of a plan that could be made: not if it was declined, nor with nobody there."""
        try:
            proposals.check_repeat(self.turn, outcome.draft)
            proposals.check_room(self.turn.user_id, outcome.draft)
        except CallError as error:
            if self.by is None:
                return self.deny("a plan needs a person to confirm it")
            return Failed(content={"error": {"code": error.code, "message": error.message}})
        if self.by is not None:
            return outcome
        with transaction.atomic():
            self.denied.append(
                proposals.store_plan(
                    outcome.draft,
                    scope=self.scope,
                    user_pk=self.turn.user_id,
                    turn=self.turn,
                    conversation=self.conversation,
                    asked={"model": self.model, "prompt": prompt.VERSION},
                    state=PlanState.REJECTED,
                    code="headless",
                    reason=f"{DENIED} nobody is there to confirm it.",
                )
            )
        return self.deny("a plan needs a person to confirm it")

    def deny(self, why: str) -> Failed:
        """Return the answer to what needs a person when there is none."""
        return Failed(content={"error": {"code": "denied", "message": f"NOT EXECUTED: {DENIED} {why}."}})

    def returned(self, outcome: Outcome) -> machine.Event:
        """Keep what an outcome means for the person and tell the machine."""
        match outcome:
            case ReadDone():
                sent = Sent.of(outcome)
                self.reads.append({**outcome.read, "sent": sent.to_json()})
                self.result.sent.append(sent)
                if outcome.shown is not None:
                    self.briefing.references.add(outcome.shown)
                    self.shown.append(outcome.shown.to_json())
                table, size = fit_table(outcome.table, TABLES_BYTES - self.shown_bytes)
                self.shown_bytes += size
                self.result.results.append(table)
                self.mention(outcome.entity, outcome.fields)
                for label, fields in outcome.told.items():
                    self.mention(label, fields)
                self.sent["rows"] += outcome.sent_rows
                return machine.ToolReturned(content=outcome.content)
            case Found():
                try:
                    self.briefing.offer(outcome.names)
                except ScopeUnavailable as error:
                    logger.error("A tool call was refused: %s", error)
                    return machine.Interrupted(code="failed")
                return machine.ToolReturned(content=outcome.content)
            case Told():
                for label, fields in outcome.told.items():
                    self.mention(label, fields)
                return machine.ToolReturned(content=outcome.content)
            case Failed():
                return machine.ToolReturned(content=outcome.content)
            case Planned():
                return machine.ToolReturned(content=None, waits=outcome)
            case Proposed() | Asked():
                if self.by is None:
                    return machine.ToolReturned(content=self.deny("nobody is there to do that").content)
                return machine.ToolReturned(content=None, final=outcome)
            case _:
                assert_never(outcome)

    def mention(self, label: str, fields: Any) -> None:
        """Remember what the answer may speak of."""
        self.mentions.setdefault(label, set()).update(fields)

    # -- ends --------------------------------------------------------------------------------------

    def finish(self, text: str) -> Result:
        """Store the model's text as the answer.

        It may repeat what earlier answers said, so it is bound to what they spoke of, too.
        """
        for label, fields in self.briefing.inherited.items():
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

    def wait_for(self, planned: Planned) -> Result:
        """Store the plan and the turn that waits for it."""
        title = str(all_tools()[planned.tool].title)
        for label, fields in planned.told.items():
            self.mention(label, fields)
        reply = _("“%(tool)s” is ready for you to look at. Nothing is done until you confirm it.") % {
            "tool": title
        }
        return self.store_answer(reply, planned=planned)

    def store_answer(
        self, text: str, *, proposed: Proposed | None = None, planned: Planned | None = None
    ) -> Result:
        """Close the turn with an answer and its plan, unless it was closed or taken away meanwhile.

        With the plan of a write tool it is not closed but waits for the decision.
        """
        self.turn.sent, self.turn.rounds = self.sent, self.machine.rounds
        made: Plan | None = None
        self.flush()  # by itself: what was done stays told, whatever becomes of the answer
        with transaction.atomic():
            if planned is not None:
                if not store.suspend_turn(self.turn):
                    return Result(code="failed")
                assert self.by is not None
                self.result.plan = made = proposals.store_plan(
                    planned.draft,
                    scope=self.scope,
                    user_pk=self.turn.user_id,
                    turn=self.turn,
                    conversation=self.conversation,
                    asked={"model": self.model, "prompt": prompt.VERSION},
                    proposed_by=self.real_key,
                )
                Turn.objects.filter(pk=self.turn.pk).update(stored=self.to_json(made))
                made.turn = self.turn
                self.turn.stored = {"plan": str(made.pk)}
            elif not store.close_turn(self.turn, state=TurnState.DONE):
                return Result(code="failed")
            if proposed is not None:
                plan = plans.propose(
                    proposed,
                    scope=self.scope,
                    user_pk=self.turn.user_id,
                    conversation=self.conversation,
                    turn=self.turn,
                )
                self.told.append(trail.page_proposed(plan, words=self.message, real_actor=self.real_key))
                made = plan
                self.result.action = plans.action_of(plan, proposed)
            message = store.add_answer(
                self.conversation,
                self.turn,
                text,
                reads=self.reads,
                references=self.shown,
                mentions={label: sorted(names) for label, names in self.mentions.items()},
                question=self.result.question,
                plan=made if planned is not None else None,
            )
            self.flush()
        self.result.reply = self.for_person(message.text)
        if self.result.question is not None:
            question = self.result.question
            options = [self.for_person(each) for each in question["options"]]
            self.result.question = {**question, "text": self.for_person(question["text"]), "options": options}
        return self.result

    def for_person(self, text: str) -> str:
        """Return an answer as the person reads it; what is stored and what a model gets again has handles."""
        if HANDLE.search(text) is None:
            return text
        with enter_scope(self.scope, self.turn.user_id) as request:
            return Access(self.site, request, self.briefing.references).read_out(text)

    def fail(self, code: str) -> Result:
        """Close the turn as failed."""
        self.turn.sent, self.turn.rounds = self.sent, self.machine.rounds
        store.close_turn(self.turn, state=TurnState.FAILED, code=code)
        try:
            self.flush()
        except Exception:
            logger.exception("What a failed turn did could not be written to the audit.")
        return Result(code=code)
