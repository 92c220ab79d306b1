"""The steps of one example of the state machine: what people, the model and another system do.

A step that decides something tells beforehand what it may lead to (``lives.allowed``, from ``facts``).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any

from django.db.models import F

from ...conf import get_settings
from ...exceptions import CallFailed
from ...models import Plan, Turn
from ..people import Actor
from ..watch import watching
from . import lives
from .facts import Place, facts_of
from .following import Followed
from .lives import Life
from .surroundings import Offer, Surroundings

# Every code that a refusal of these pages may have.
CODES = frozenset(
    [
        "digest_mismatch",
        "expired",
        "stale",
        "changed_since",
        "record_gone",
        "tool_changed",
        "rejected",
        "executed",
        "undone",
        "failed",
        "effect_differs",
        "in_flight",
        "uncertain",
        "operation_open",
        "awaiting_approval",
        "no_approval_needed",
        "own_plan",
        "not_allowed",
        "approver_cannot_see",
        "impersonated",
        "service_account",
        "requester_inactive",
        "scope_unavailable",
        "reservation_failed",
        "key_expired",
        "not_undoable",
        "not_again",
        "not_uncertain",
        "no_look_up",
        "done_there",
        "no_answer",
        "reason_needed",
        "try_again",
        "call_failed",
        "lease_over",
        "not_staff",
        "not_authenticated",
        "csrf_failed",
        "no_entities",
        "switched_off",
        "nothing_to_continue",
        "not_decided",
        "turn_running",
        "invalid",
        "not_found",
        "refused",
        "ambiguous",
        "no_change",
        "not_available",
        "not_editable",
        "form_refuses",
        "unknown_argument",
        "invalid_argument",
        "invalid_arguments",
        "clarification_required",
        "too_many_waiting",
    ]
)


class Died(BaseException):
    """The process that asked another system is gone."""


class Example(Followed):
    """One example: what people, the model and the other system do."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.model = around.model
        self.meanwhile = ""  # what is done while a late answer is waited for
        self.talks: dict[Any, str] = {}  # a person's latest conversation
        self.place = Place(around.world, around.site)
        around.asking = self.answer

    # -- time ------------------------------------------------------------------------------------------

    def pass_time(self, seconds: int) -> None:
        """Let time pass: each stored time lies so much further back."""
        self.step(f"{seconds} s pass")
        by = datetime.timedelta(seconds=seconds)
        names = (
            "expires_at",
            "submit_by",
            "approve_by",
            "lease_until",
            "called_at",
            "asked_at",
            "created_at",
        )
        ends = ("confirmed_at", "approved_at", "decided_at", "ended_at")
        Plan.objects.update(**{name: F(name) - by for name in (*names, *ends)})
        Turn.objects.update(started_at=F("started_at") - by, deadline=F("deadline") - by)
        self.shifted += seconds

    # -- what people send ------------------------------------------------------------------------------

    def ask(
        self, who: Actor, offer: Offer, *, how: int, extra: Mapping[str, Any], again: bool, behind: bool
    ) -> None:
        """Let a person send a message, and the model call a tool."""
        arguments = {**_varied(offer.arguments, how), **extra}
        self.step(
            f"{_name(who, behind)} asks, and the model calls {offer.tool}({json.dumps(arguments)[:300]})"
        )
        self.model.call(offer.tool, arguments)
        talk = {"conversationId": self.talks[who.pk]} if again and who.pk in self.talks else {}
        self._chat(who, behind, {"message": "Please do it", **talk})
        self.world.report.count("tool calls")

    def go_on(self, who: Actor, life: Life, offer: Offer, *, behind: bool) -> None:
        """Let a person go on with the turn that waited for a plan; the model calls a tool again."""
        self.step(f"{_name(who, behind)} goes on after plan {life.number}")
        self.model.call(offer.tool, dict(offer.arguments))
        self._chat(who, behind, {"continue": str(life.pk)})

    def _chat(self, who: Actor, behind: bool, body: Mapping[str, Any]) -> None:
        status, answer = self._send(who, behind, self.around.url("chat"), body)
        self.model.next = []
        if status == 200 and isinstance(answer.get("conversationId"), str):
            self.talks[who.pk] = answer["conversationId"]

    def decide(
        self, who: Actor, life: Life, what: str, *, digest: Any, behind: bool = False, outcome: str = "failed"
    ) -> None:
        """Let a person decide something about a plan."""
        shown = "" if digest == life.digest else f", digest {str(digest)[:40]!r}"
        self.step(f"{_name(who, behind)}: {what} plan {life.number}{shown}")
        self._decide(who, life, what, digest=digest, behind=behind, outcome=outcome)

    def _decide(self, who: Actor, life: Life, what: str, *, digest: Any, behind: bool, outcome: str) -> None:
        body = {
            "confirm": {"digest": digest},
            "approve": {"digest": digest},
            "reject": {"reason": "no"},
            "settle": {"outcome": outcome, "reason": "I have asked"},
        }.get(what, {})
        facts = facts_of(
            life,
            who,
            behind=behind,
            digest=digest,
            place=self.place,
            all_lives=self.lives,
            now=self.now,
            is_on=self.is_on,
        )
        moves = lives.allowed(life, what, facts)
        self.moves.setdefault(life.pk, set()).update(moves)
        if any(to == lives.EXECUTING for _before, to in moves):
            life.attempts += 1
        if what == "approve" and facts.approves:
            self.seconds.setdefault(life.pk, set()).add(str(who.pk))
        if what == "settle" and (lives.UNCERTAIN, lives.EXECUTED) in moves:
            life.is_settled = True
        if life.undo_of in self.lives and any(to == lives.EXECUTED for _before, to in moves):
            self.moves.setdefault(life.undo_of, set()).add((lives.EXECUTED, lives.UNDONE))
        status, _answer = self._send(who, behind, self.around.url(f"plan_{what}", life.pk), body)
        if status == 200 and not facts.is_owner and what in ("confirm", "undo", "again"):
            self.problem(5, f"{who.name}, whose plan it is not, could {what} plan {life.number}")
        if status == 200 and what == "approve" and str(who.pk) not in self.seconds.get(life.pk, ()):
            self.problem(5, f"{who.name} could approve plan {life.number} and may not")

    def look(self, who: Actor, life: Life, *, behind: bool) -> None:
        """Let a person look at a plan and at what waits for her: nothing may come of it."""
        self.step(f"{_name(who, behind)} looks at plan {life.number}")
        mine = who.pk == life.owner
        status, told = self._send(who, behind, self.around.url("plan_detail", life.pk))
        if status == 200 and mine and not life.is_edited and told.get("digest") != life.digest:
            self.problem(5, f"plan {life.number} is shown with another digest")
        if status == 200 and "confirm" in told.get("can", ()) and (not mine or behind):
            self.problem(5, f"{_name(who, behind)} is offered to confirm plan {life.number}")
        self._send(who, behind, self.around.url("plan_changelist"))

    def drop(self, who: Actor, life: Life) -> None:
        """Let a person delete the conversation that a plan was made in."""
        plan = Plan.objects.filter(pk=life.pk).first()
        talk = plan.conversation_id if plan is not None else None
        self.step(f"{who.name} deletes the conversation of plan {life.number}")
        if talk is None:
            return
        if who.pk == life.owner:
            for pk in Plan.objects.filter(conversation=talk).values_list("pk", flat=True):
                self.moves.setdefault(pk, set()).update((each, lives.REJECTED) for each in lives.OPEN)
        self._send(who, False, self.around.url("conversation_delete", talk), {})

    def _send(self, who: Actor, behind: bool, url: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        client = self.around.clients[who.pk, behind]
        self.asked.add(who.pk)
        accept = {"accept": "application/json"}
        self.world.report.count("requests")
        with watching() as watched:
            try:
                if body is None:
                    answer = client.get(url, headers=accept)
                else:
                    answer = client.post(
                        url, json.dumps(body), content_type="application/json", headers=accept
                    )
            except Died:
                self.dead = True
                answer = None
        self.written |= {each.writes_to for each in watched.statements if each.writes_to}
        for error in watched.errors:
            if "Traceback" in error:
                self.problem(7, f"logged: {error[-900:]}")
        if answer is None:
            return 0, {}
        try:
            told = json.loads(answer.content or b"{}")
        except ValueError:
            told = {}
        if answer.status_code >= 500:
            self.problem(7, f"{url} was answered with {answer.status_code}: {told}")
        if answer.status_code >= 400 and told.get("code") not in CODES:
            self.problem(
                7, f"{url} was refused with a code that is not documented: {answer.status_code} {told}"
            )
        return answer.status_code, told if isinstance(told, dict) else {}

    # -- the other system ------------------------------------------------------------------------------

    def answer(self, step: str, payload: Any, key: str) -> Any:
        """Answer as the other system: done, refused, silent, late, or never since the process is gone."""
        life = next((each for each in self.lives.values() if each.key == key), None)
        how = self.outside.how
        if step == "look_up":
            if how in ("silent", "dies"):
                raise TimeoutError("no answer")
            return {"reference": key} if key in self.outside.done else None
        if life is None:
            self.problem(5, f"another system was asked under the key {key}, which no plan has")
            return self.outside.act(payload, key)
        self._called(life, payload)
        if how == "refuses" and key not in self.outside.done:
            raise CallFailed("The other system refused it.")
        if how == "late" and self.meanwhile:
            self._late(life)
        if how != "silent":
            self.outside.act(payload, key)
        if how == "dies":
            raise Died
        if how in ("silent", "silent after"):
            raise TimeoutError("no answer")
        return {"reference": key}

    def _called(self, life: Life, payload: Any) -> None:
        self.follow()
        life.calls += 1
        if life.state != lives.EXECUTING:
            self.problem(5, f"another system was asked for plan {life.number}, which is {life.state}")
        if life.calls > life.attempts:
            self.problem(
                5,
                f"another system was asked {life.calls} times for plan {life.number}, {life.attempts} allowed",
            )
        if json.loads(life.document["payload"] or "null") != payload:
            self.problem(5, f"another system got something else than plan {life.number} says")

    def _late(self, life: Life) -> None:
        """Let the lease run out while the answer is under way, and somebody not wait for it."""
        what, self.meanwhile = self.meanwhile, ""
        self.pass_time(int(get_settings().LEASE_SECONDS) + 1)
        owner = self.person(life.owner)
        other = next((each for each in self.around.people if each.pk != life.owner), owner)
        who = owner if what in ("confirm", "look_up") else other
        self.outside.how = "done"
        self.step(f"while the answer is waited for, {who.name}: {what} plan {life.number}")
        self._decide(who, life, what, digest=life.digest, behind=False, outcome="failed")
        self.follow()


def _name(who: Actor, behind: bool) -> str:
    return f"{who.name}, acted by somebody else," if behind else who.name


def _varied(arguments: Mapping[str, Any], how: int) -> dict[str, Any]:
    """Return a call's arguments, or some that mean a little else."""
    varied = dict(arguments)
    if how:
        texts = [name for name, value in varied.items() if isinstance(value, str)]
        for name, value in varied.items():
            if isinstance(value, int) and not isinstance(value, bool):
                varied[name] = max(1, value // (how + 1))
        for name in texts[-1:]:
            varied[name] = f"{varied[name]} {how}"
    return varied
