"""What happens in one example of the state machine, step by step, and what is looked at after each.

A step tells beforehand what it may lead to (``lives.allowed``, from facts that are asked of the project's own admin
and of the database); ``check`` compares with what is stored afterwards. Problems are kept and raised as ``Broken``.
"""

from __future__ import annotations

import copy
import datetime
import json
import time
from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.db.models import F

from ..audit.verification import verify
from ..conf import get_settings
from ..exceptions import CallFailed
from ..models import AuditEntry, Plan, PlanKind, Turn, TurnState
from ..tools.write import all_tools
from . import lives
from .facts import Place, facts_of, row_of
from .lives import Life, Outside
from .people import Actor
from .surroundings import Offer, Surroundings, models_by_label, rows_of
from .watch import watching

NEVER_CHANGES = (
    *(
        "user_id",
        "site",
        "scope_key",
        "tool",
        "version",
        "model",
        "object_pk",
        "arguments",
        "document",
        "digest",
    ),
    *("amount", "needs_approval", "payload", "key", "undo_of_id", "proposed_by"),
)
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


class Broken(AssertionError):
    """Something happened that may not."""

    def __init__(self, oracle: int, what: str) -> None:
        super().__init__(what)
        self.oracle, self.what = oracle, what


class Died(BaseException):
    """The process that asked another system is gone."""


class Example:
    """One example: who did what, and what is known of each plan."""

    def __init__(self, around: Surroundings) -> None:
        self.around, self.world, self.model = around, around.world, around.model
        self.steps: list[str] = []
        self.problems: list[Broken] = []
        self.lives: dict[Any, Life] = {}
        self.outside = Outside()
        self.meanwhile = ""  # what is done while a late answer is waited for
        self.is_on = True
        self.shifted = 0.0
        self.rows = dict(around.rows)
        self.moves: dict[Any, set[lives.Move]] = {}
        self.touched: set[Any] = set()  # plans that moved in this step
        self.asked: set[Any] = set()  # keys of the people who sent something in this step
        self.written: set[str] = set()  # tables, "?" for all of them
        self.dead = False
        self.seconds: dict[Any, set[str]] = {}  # plan → keys of people who may have approved it
        self.talks: dict[Any, str] = {}  # a person's latest conversation
        self.place = Place(around.world, around.site)
        around.asking = self.answer

    # -- time ------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Return the time, in seconds, as the stored deadlines see it."""
        return time.monotonic() + self.shifted

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
        if status == 200 and mine and told.get("digest") not in (None, life.digest):
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

    # -- looking ---------------------------------------------------------------------------------------

    def step(self, what: str) -> None:
        """Note what is done next."""
        self.steps.append(what)
        self.world.report.count("steps of the machine")

    def problem(self, oracle: int, what: str) -> None:
        """Keep what may not be; ``check`` raises the first."""
        self.problems.append(Broken(oracle, what))

    def person(self, pk: Any) -> Actor:
        """Return one of the people by key."""
        return next(each for each in self.around.people if each.pk == pk)

    def check(self) -> None:
        """Compare what is stored with what the step could lead to. Raises Broken."""
        self.follow()
        self._meet()
        self._check_rows()
        self.moves, self.touched, self.asked, self.written = {}, set(), set(), set()
        if self.problems:
            raise self.problems[0]

    def follow(self) -> None:
        """See where the plans have gone."""
        now = self.now
        for plan in Plan.objects.filter(pk__in=list(self.lives)):
            life = self.lives[plan.pk]
            self._follow(life, plan, now)

    def _follow(self, life: Life, plan: Plan, now: float) -> None:
        before, after = life.state, str(plan.state)
        moves = self.moves.get(life.pk, set()) | lives.by_the_clock(life, now)
        if before != after:
            self.touched.add(life.pk)
            if not lives.leads(moves, before, after):
                oracle = 5 if after not in (lives.REJECTED, lives.STALE, lives.EXPIRED) else 7
                self.problem(
                    oracle, f"plan {life.number} went from {before} to {after}; allowed was {sorted(moves)}"
                )
        if plan.attempts > life.attempts and life.is_external:
            self.problem(5, f"plan {life.number} was claimed {plan.attempts} times, {life.attempts} allowed")
        if after in (*lives.CLAIMED, lives.EXECUTED, lives.FAILED) and before in lives.OPEN:
            life.claimed_at = now
        if after in (lives.AWAITING, *lives.CLAIMED, lives.EXECUTED) and before == lives.PROPOSED:
            life.confirmed_at, life.confirmed_by = now, plan.confirmed_by
            tool = all_tools()[life.tool]
            within = (
                tool.approve_within.total_seconds() if tool.approve_within else get_settings().APPROVE_SECONDS
            )
            life.approve_by = now + within
        if plan.attempts and plan.attempts != life.seen_attempts:
            life.seen_attempts, life.lease_until = plan.attempts, now + get_settings().LEASE_SECONDS
            self.touched.add(life.pk)
        life.state = after
        if not life.is_edited and _stored(plan) != life.stored:
            self.problem(5, f"what is stored of plan {life.number} was changed")
        if before != after and after == lives.EXECUTED:
            self._check_done(life, plan)

    def _check_done(self, life: Life, plan: Plan) -> None:
        if plan.confirmed_by != str(life.owner):
            self.problem(5, f"plan {life.number} was confirmed by {plan.confirmed_by!r}")
        if life.needs_approval and plan.approved_by not in self.seconds.get(life.pk, ()):
            self.problem(5, f"plan {life.number} was approved by {plan.approved_by!r}")
        if life.is_external and life.key not in self.outside.done and not life.is_settled:
            self.problem(5, f"plan {life.number} is carried out, and the other system knows nothing of it")
        if (
            life.undo_of in self.lives
            and not Plan.objects.filter(pk=life.undo_of, state=lives.UNDONE).exists()
        ):
            self.problem(5, f"plan {life.number} undid a plan that is not undone")
        held = row_of(*life.target) or {}
        for name, text in life.changes.items() if life.is_plain else ():
            kind, _, value = text.partition(":")
            column = apps.get_model(life.target[0])._meta.get_field(name)
            if kind in ("text", "int") and str(held.get(getattr(column, "attname", name))) != value:
                self.problem(1, f"plan {life.number} is carried out, and {name} does not hold what was shown")
        self.world.report.count(f"plans carried out ({life.tool})")

    def _meet(self) -> None:
        """Get to know plans that were made in this step: they are proposals of who asked, and nothing else."""
        fresh = (
            Plan.objects.filter(kind=PlanKind.TOOL)
            .exclude(pk__in=list(self.lives))
            .order_by("created_at", "pk")
        )
        for plan in fresh:
            number = len(self.lives) + 1
            tool = all_tools()[plan.tool]
            within = (
                tool.confirm_within.total_seconds() if tool.confirm_within else get_settings().PLAN_SECONDS
            )
            own = any(tool.has_step(name) for name in ("apply", "reserve", "call", "settle"))
            real = plan.proposed_by or str(plan.user_id)
            self.lives[plan.pk] = Life(
                number=number,
                pk=plan.pk,
                owner=plan.user_id,
                real=real,
                tool=plan.tool,
                is_external=tool.has_step("call") and plan.undo_of_id is None,
                is_plain=not own or plan.undo_of_id is not None,
                needs_approval=plan.needs_approval,
                key=str(plan.key),
                digest=plan.digest,
                stored=_stored(plan),
                document=copy.deepcopy(plan.document),
                undo_of=plan.undo_of_id,
                confirm_by=self.now + within,
                rows={
                    (each["model"], each["pk"]): row_of(each["model"], each["pk"])
                    for each in plan.document["records"]
                },
            )
            self.world.report.count("plans")
            if plan.state != lives.PROPOSED:
                self.problem(5, f"plan {number} was made as {plan.state}")
            origin = self.lives.get(plan.made_from_id)
            if plan.user_id not in self.asked and (origin is None or origin.owner != plan.user_id):
                self.problem(5, f"plan {number} was made for somebody who did not ask")

    def _check_rows(self) -> None:
        """Compare the tables that were written to with what the plans that moved have shown."""
        known = models_by_label()
        by_table = {model._meta.db_table: label for label, model in known.items()}
        labels = (
            set(known)
            if "?" in self.written
            else {by_table[each] for each in self.written if each in by_table}
        )
        moved = [self.lives[pk] for pk in self.touched]
        for label in sorted(labels):
            before, after = self.rows.get(label, {}), rows_of(known[label])
            self.rows[label] = after
            for pk in sorted({*before, *after}):
                if before.get(pk) != after.get(pk) and not self._is_accounted(
                    known[label], label, pk, pk in before, moved
                ):
                    self.problem(1, f"{label} {pk} was changed, and no plan that was carried out shows it")

    def _is_accounted(self, model: Any, label: str, pk: str, was_there: bool, moved: list[Life]) -> bool:
        for life in moved:
            is_done = life.state in (lives.EXECUTED, lives.FAILED, *lives.CLAIMED)
            if (label, pk) == life.target and is_done:
                before, after = life.rows.get(life.target) or {}, row_of(label, pk) or {}
                names = {*life.changes, *life.document["touched"]}
                shown = {getattr(model._meta.get_field(name), "attname", name) for name in names}
                auto = {
                    each.attname for each in model._meta.concrete_fields if getattr(each, "auto_now", False)
                }
                if {
                    name for name in {*before, *after} if before.get(name) != after.get(name)
                } <= shown | auto:
                    return True
            elif is_done and not life.is_plain:
                return True  # what its own steps write besides is the project's
            elif life.state == lives.EXECUTED and not was_there:
                history = getattr(model, "instance_type", None)
                if history is not None and history._meta.label_lower == life.target[0]:
                    return True
        return False

    def end(self) -> None:
        """Look at the whole once more when the example is over. Raises Broken."""
        found = verify(self.around.site.name)
        if found is not None:
            self.problem(5, f"the audit does not verify: {found}")
        if not self.dead and Turn.objects.filter(state=TurnState.RUNNING).exists():
            self.problem(7, "a turn is left running")
        for life in self.lives.values():
            if life.state in (lives.EXECUTED, lives.UNDONE):
                self._check_audit(life)
            if life.state == lives.EXECUTING and not self.dead:
                self.problem(7, f"plan {life.number} is left executing")
        if self.problems:
            raise self.problems[0]

    def _check_audit(self, life: Life) -> None:
        told = AuditEntry.objects.filter(plan=str(life.pk)).values_list("event", "actor", "real_actor")
        if ("confirmed", str(life.owner), "") not in told:
            self.problem(
                5, f"plan {life.number} was carried out, and the audit knows no confirmation of its owner"
            )
        seconds = {actor for event, actor, real in told if event == "approved" and not real}
        if life.needs_approval and not seconds & self.seconds.get(life.pk, set()):
            self.problem(5, f"plan {life.number} was carried out, and the audit knows no approval")


def _stored(plan: Plan) -> dict[str, Any]:
    return copy.deepcopy({name: getattr(plan, name) for name in NEVER_CHANGES})


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
