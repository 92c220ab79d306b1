"""The plans of one example as they are stored after each step, compared with what the step could lead to."""

from __future__ import annotations

import copy
import time
from typing import Any

from django.apps import apps

from ...audit.verification import verify
from ...conf import get_settings
from ...models import AuditEntry, Plan, PlanKind, Turn, TurnState
from ...tools.write import all_tools
from ..people import Actor
from . import lives
from .facts import row_of
from .lives import Life, Outside
from .surroundings import Surroundings, models_by_label, rows_of

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


class Broken(AssertionError):
    """Something happened that may not."""

    def __init__(self, oracle: int, what: str) -> None:
        super().__init__(what)
        self.oracle, self.what = oracle, what


class Followed:
    """What was done so far, what is known of each plan, and what is wrong."""

    def __init__(self, around: Surroundings) -> None:
        self.around, self.world = around, around.world
        self.steps: list[str] = []
        self.problems: list[Broken] = []
        self.lives: dict[Any, Life] = {}
        self.outside = Outside()
        self.is_on = True
        self.shifted = 0.0
        self.rows = dict(around.rows)
        self.moves: dict[Any, set[lives.Move]] = {}
        self.touched: set[Any] = set()  # plans that moved in this step
        self.asked: set[Any] = set()  # keys of the people who sent something in this step
        self.written: set[str] = set()  # tables, "?" for all of them
        self.dead = False
        self.seconds: dict[Any, set[str]] = {}  # plan → keys of people who may have approved it

    @property
    def now(self) -> float:
        """Return the time, in seconds, as the stored deadlines see it."""
        return time.monotonic() + self.shifted

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
