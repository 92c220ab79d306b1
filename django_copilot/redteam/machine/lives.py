"""What may become of a plan, written down a second time: the yardstick of the state machine.

Nothing of ``plans`` is imported here. A step of the machine is allowed certain moves of one plan by what is true
when it begins; whatever else a plan does is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Move = tuple[str, str]  # from a state to a state

PROPOSED, AWAITING, EXECUTING, UNCERTAIN = "proposed", "awaiting_approval", "executing", "uncertain"
EXECUTED, UNDONE, FAILED, REJECTED = "executed", "undone", "failed", "rejected"
EXPIRED, STALE = "expired", "stale"

OPEN = (PROPOSED, AWAITING)
CLAIMED = (EXECUTING, UNCERTAIN)
ENDS = (UNDONE, FAILED, REJECTED, EXPIRED, STALE)
SPENT = (AWAITING, EXECUTING, UNCERTAIN, EXECUTED)  # counts against a limit
SLACK = 2.0  # seconds: two clocks are read one after the other


@dataclass
class Life:
    """One plan as it was when it was made, what was allowed of it since, and the state that it was seen in."""

    number: int  # in the order of their making
    pk: Any
    owner: Any  # key of the account that asked for it
    real: Any  # key of the person behind that account then
    tool: str
    is_external: bool
    is_plain: bool  # done through the admin's form, by no code of the tool's own
    needs_approval: bool
    key: str
    digest: str
    stored: Mapping[str, Any]  # what never changes in the row
    document: Mapping[str, Any]
    undo_of: Any
    confirm_by: float
    rows: Mapping[tuple[str, str], Any]  # of the records that it is bound to, as they were
    state: str = PROPOSED
    approve_by: float = 0.0
    lease_until: float = 0.0
    claimed_at: float = 0.0
    confirmed_at: float = 0.0
    confirmed_by: Any = None
    attempts: int = 0  # that were allowed
    calls: int = 0  # of the other system
    seen_attempts: int = 0  # as stored
    is_edited: bool = False  # the stored row was written to by somebody else
    is_settled: bool = False  # a second person may have said how it ended

    @property
    def target(self) -> tuple[str, str]:
        """Return label and key of the record that it is about."""
        return self.document["target"]["model"], self.document["target"]["pk"]

    @property
    def amount(self) -> float:
        """Return what counts against a limit, without its sign."""
        told = self.document["amount"].partition(":")[2]
        return abs(float(told)) if told else 0.0

    @property
    def changes(self) -> Mapping[str, str]:
        """Return the new values that were shown, as typed text by field."""
        return {each["field"]: each["new"] for each in self.document["changes"]}

    def reads(self, now: float) -> str:
        """Return the state, with what is over by the clock."""
        if self.state == PROPOSED and now >= self.confirm_by:
            return EXPIRED
        if self.state == AWAITING and now >= self.approve_by:
            return EXPIRED
        if self.state == EXECUTING and now >= self.lease_until:
            return UNCERTAIN
        return self.state


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is true of one person and one plan when she begins to do something with it."""

    now: float
    is_on: bool = True  # the copilot, on this site
    is_owner: bool = False
    decides: bool = False  # she acts for herself, may be here, and is a person
    approves: bool = False  # she may be the second person of this plan today
    is_as_shown: bool = False  # she sent the digest of what was shown, and nobody edited what is stored
    is_same: bool = False  # its records are as they were, and nothing else is being done to its target
    owner_may: bool = False  # who asked has the rights on each record, and to use the tool
    owner_uses: bool = False  # who asked may use the tool in general
    is_alone: bool = False  # no rule asks for a second person
    keys_kept: float = 0.0  # seconds for which the other system knows a key
    is_said: bool = False  # an outcome was named, with a reason


def allowed(life: Life, what: str, facts: Facts) -> set[Move]:
    """Return the moves that a person's request may lead to. One to executing is one call of the other system."""
    over = by_the_clock(life, facts.now)
    on_time = facts.now < life.confirm_by + SLACK
    may = facts.decides and facts.is_on and facts.is_as_shown
    ready = facts.is_same and facts.owner_may
    match what:
        case "confirm" if facts.is_owner and may:
            if life.state == PROPOSED and on_time:
                if ready and life.needs_approval:
                    return over | {(PROPOSED, STALE), (PROPOSED, AWAITING)}
                if ready and facts.is_alone:
                    return over | {(PROPOSED, STALE)} | _carried_out(life, PROPOSED)
                return over | {(PROPOSED, STALE)}
            kept = facts.now < life.claimed_at + facts.keys_kept
            if _may_be_uncertain(life, facts.now) and life.is_external and facts.owner_uses and kept:
                return over | {(UNCERTAIN, EXECUTING)} | _answered()
        case "approve" if facts.approves and may and not facts.is_owner:
            if life.state == AWAITING and facts.now < life.approve_by + SLACK:
                return over | {(AWAITING, STALE)} | (_carried_out(life, AWAITING) if ready else set())
        case "reject" if facts.is_owner:
            return over | {(state, REJECTED) for state in OPEN}
        case "reject" if facts.approves and facts.decides:
            return over | {(AWAITING, REJECTED)}
        case "look_up" if facts.decides and (facts.is_owner or facts.approves):
            if _may_be_uncertain(life, facts.now):
                return over | {(UNCERTAIN, EXECUTED), (UNCERTAIN, FAILED)}
        case "settle" if facts.decides and facts.approves and not facts.is_owner and facts.is_said:
            if _may_be_uncertain(life, facts.now):
                return over | {(UNCERTAIN, EXECUTED), (UNCERTAIN, FAILED)}
        case _:
            pass
    return over


def by_the_clock(life: Life, now: float) -> set[Move]:
    """Return the moves that anybody may notice, since time is over."""
    found = set()
    if life.state == PROPOSED and now >= life.confirm_by - SLACK:
        found.add((PROPOSED, EXPIRED))
    if life.state == AWAITING and now >= life.approve_by - SLACK:
        found.add((AWAITING, EXPIRED))
    if life.state == EXECUTING and now >= life.lease_until - SLACK:
        found.add((EXECUTING, UNCERTAIN))
    return found


def _may_be_uncertain(life: Life, now: float) -> bool:
    return life.state == UNCERTAIN or (life.state == EXECUTING and now >= life.lease_until - SLACK)


def _carried_out(life: Life, before: str) -> set[Move]:
    if life.is_external:
        return {(before, EXECUTING), (before, FAILED)} | _answered()
    return {(before, EXECUTED), (before, FAILED)}


def _answered() -> set[Move]:
    return {(EXECUTING, EXECUTED), (EXECUTING, FAILED), (EXECUTING, UNCERTAIN)}


def leads(moves: Iterable[Move], before: str, after: str) -> bool:
    """Tell whether the moves lead from one state to the other; nothing leads on from an end."""
    moves = set(moves)
    reached, fresh = {before}, {before}
    while fresh and after not in reached:
        fresh = {to for start, to in moves if start in fresh and start not in ENDS} - reached
        reached |= fresh
    return after in reached


@dataclass
class Outside:
    """The other system: what it was asked under which key, and how it behaves next."""

    how: str = "done"
    done: dict[str, str] = field(default_factory=dict)  # key → payload as JSON

    def act(self, payload: Any, key: str) -> dict[str, Any]:
        """Do it, once for each key."""
        self.done.setdefault(key, json.dumps(payload, sort_keys=True, default=str))
        return {"reference": key}
