"""Who plays in the fixed table and with which plans, how a decision is sent, and how rights are lost for a while."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.test.utils import override_settings

from ... import gate
from ...backends.base import ToolCall
from ...tools.base import Planned
from ...tools.write import all_tools
from ..executions import APPROVE, find_outside, find_plan, why_not
from ..people import Actor
from .bodies import as_json
from .play import Play
from .sender import Answer, Who
from .stage import Thing

JSON = {"Accept": "application/json"}
MOST = 150  # calls of the project's that are looked at for one person
KINDS = ("inside", "second", "outside", "undoable")  # of plans that the rules need

Call = tuple[str, Mapping[str, Any]]


class Overruled:
    """An authentication backend that takes permissions from people, and gives them others, whatever they have."""

    taken: ClassVar[dict[str, frozenset[str]]] = {}  # by key of the account
    given: ClassVar[dict[str, frozenset[str]]] = {}

    def authenticate(self, request: Any, **credentials: Any) -> None:
        """Know nobody."""

    def has_perm(self, user: Any, perm: str, obj: Any = None) -> bool:
        """Tell whether a permission was given. Raises PermissionDenied for one that was taken."""
        if perm in self.taken.get(str(user.pk), ()):
            raise PermissionDenied
        return user.is_active and perm in self.given.get(str(user.pk), ())

    def get_all_permissions(self, user: Any, obj: Any = None) -> set[str]:
        """Return what was given."""
        return {*self.given.get(str(user.pk), ())}


@dataclass
class Cast:
    """The people and plans of one site."""

    play: Play
    site: AdminSite
    owner: Actor = field(init=False)
    calls: dict[str, Call] = field(default_factory=dict)  # of the owner's, by kind
    _found: dict[Any, dict[str, Call]] = field(default_factory=dict)

    # -- people and plans ----------------------------------------------------------------------------------

    def find_owner(self) -> bool:
        """Choose who owns the plans: the first one who can have all kinds, else who can have the most."""
        people = [each for each in self.play.users(self.site) if each.kind != "service account"]
        for each in sorted(people, key=lambda each: each.kind == "superuser"):
            found = self.calls_of(each)
            if len(found) > len(self.calls):
                self.owner, self.calls = each, found
            if len(self.calls) == len(KINDS):
                break
        return bool(self.calls)

    def calls_of(self, actor: Actor) -> dict[str, Call]:
        """Return a call for each kind of plan that a person can have, looked at without a turn."""
        if actor.pk in self._found:
            return self._found[actor.pk]
        found = self._found[actor.pk] = {}
        scope = self.play.world.scope(actor, self.site)
        targets = set()  # each kind has one of its own, so that none stands in another one's way
        for name, arguments in _mixed(self.play.stage.calls)[:MOST]:
            tool = all_tools().get(name)
            if tool is None or len(found) == len(KINDS):
                continue
            text = json.dumps(dict(arguments), default=str)
            looked = gate.run(self.site, scope, actor.pk, ToolCall(id="call_1", name=name, arguments=text))
            if not isinstance(looked, Planned) or (looked.draft.model, looked.draft.object_pk) in targets:
                continue
            second = looked.draft.needs_approval
            kinds = {
                "second": second,
                "outside": tool.is_external and not second,
                "inside": not tool.is_external and not second,
                "undoable": tool.reversible and not tool.is_external and not second,
            }
            kind = next((each for each in KINDS if kinds[each] and each not in found), "")
            if kind:
                found[kind] = name, arguments
                targets.add((looked.draft.model, looked.draft.object_pk))
        return found

    def make(self, *kinds: str, actor: Actor | None = None) -> Thing | None:
        """Make a plan of the first of these kinds that there is."""
        owner = actor or self.owner
        calls = self.calls_of(owner)
        chosen = [calls[kind] for kind in kinds if kind in calls]
        made = self.play.stage.make_plan(owner, self.site, calls=chosen[:1]) if chosen else None
        if made is None:
            self.miss(f"a plan that is {' or '.join(kinds)}, of a {owner.kind}")
        return made

    def waiting(self) -> Thing | None:
        """Make a plan that its owner has confirmed and that waits for a second person."""
        thing = self.make("second")
        if thing is None:
            return None
        self.decide("an honest confirmation", "confirm", Who(self.owner), thing)
        plan = find_plan(thing.ident)
        return thing if plan is not None and plan.state == "awaiting_approval" else None

    def approver(self, thing: Thing) -> Actor | None:
        """Return a person who may approve a plan, by the admin's own hooks."""
        for each in self.play.world.actors:
            if each.kind != "service account" and not self.why_not(each, thing, "approve"):
                return each
        self.miss("anybody who may approve")
        return None

    def why_not(self, actor: Actor, thing: Thing, verb: str) -> str:
        """Return what stands against somebody's decision, asked independently of what is judged."""
        plan = find_plan(thing.ident)
        return why_not(self.play.world, actor, self.site, plan, verb) if plan is not None else "no plan"

    def strangers(self, *, may_use: bool = True) -> list[Actor]:
        """Return the people to whom the owner's plans are nothing."""
        among = self.play.users(self.site) if may_use else list(self.play.world.actors)
        return [
            each
            for each in among
            if each.pk != self.owner.pk
            and each.kind not in ("service account", "superuser")
            and not each.user().has_perm(APPROVE)
        ]

    def miss(self, what: str) -> None:
        """Say what the table did without."""
        name = f"client: the fixed table on {self.site.name}"
        told = self.play.world.report.not_run.get(name, "")
        if what not in told:
            self.play.world.report.not_run[name] = f"{told}, {what}" if told else f"there is not: {what}"

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """Let the other system do what it is asked for, so that it leaves nothing to chance either."""
        outside = find_outside()
        if outside is None:
            yield
            return
        was, outside.honest = outside.honest, True
        try:
            yield
        finally:
            outside.honest = was

    @contextmanager
    def overruled(
        self, actor: Actor, *, take: Collection[str] = (), give: Collection[str] = ()
    ) -> Iterator[None]:
        """Take permissions from somebody, or give her some, for a while."""
        own = f"{Overruled.__module__}.{Overruled.__name__}"
        key, world = str(actor.pk), self.play.world
        Overruled.taken, Overruled.given = {key: frozenset(take)}, {key: frozenset(give)}
        world.forget()
        try:
            with override_settings(AUTHENTICATION_BACKENDS=[own, *settings.AUTHENTICATION_BACKENDS]):
                yield
        finally:
            Overruled.taken, Overruled.given = {}, {}
            world.forget()

    # -- sending -------------------------------------------------------------------------------------------

    def decide(
        self,
        what: str,
        verb: str,
        who: Who,
        thing: Thing,
        *wanted: int,
        digest: str | None = None,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
        stands: str = "own",
    ) -> Answer:
        """Decide on a plan. The answer must have one of the statuses that the rule gives, of those of the table."""
        sender, endpoint = self.play.sender, self.play.stage.endpoint(self.site, f"plan_{verb}")
        sent = thing.digest if digest is None else digest
        fields: dict[str, Any] = {"digest": sent} if verb in ("confirm", "approve") else {}
        if verb == "settle":
            fields = {"outcome": "executed", "reason": "They say that it was done."}
        table = sender.expected(who, self.site, endpoint.rule, "POST", json=True, token=token, ident=stands)
        return sender.send(
            who,
            self.site,
            "POST",
            endpoint.path(thing.ident),
            as_json(fields),
            headers={**JSON, "X-Redteam-Scope": thing.scope, **(headers or {})},
            expected=(table & {*wanted}) or table,
            what=f"always: {what}",
            decides=(verb, thing.ident, fields.get("digest")),
        )

    def look(self, who: Who, thing: Thing, *wanted: int, stands: str = "own") -> None:
        """Let somebody open a plan."""
        sender, endpoint = self.play.sender, self.play.stage.endpoint(self.site, "plan_detail")
        table = sender.expected(who, self.site, endpoint.rule, "GET", json=True, ident=stands)
        sender.send(
            who,
            self.site,
            "GET",
            endpoint.path(thing.ident),
            headers={**JSON, "X-Redteam-Scope": thing.scope},
            expected=(table & {*wanted}) or table,
            what="always: a look at a plan",
        )

    def unclear(self) -> Thing | None:
        """Make a plan of which nobody knows whether it was carried out."""
        outside, thing = find_outside(), self.make("outside") if "outside" in self.calls else None
        if outside is None or thing is None:
            self.miss("an uncertain plan")
            return None
        was = outside.honest, outside.rng
        outside.honest, outside.rng = False, _Silence()  # type: ignore[assignment]
        try:
            self.decide("an honest confirmation", "confirm", Who(self.owner), thing)
        finally:
            outside.honest, outside.rng = was
        plan = find_plan(thing.ident)
        if plan is not None and plan.state == "uncertain":
            return thing
        self.miss("an uncertain plan")
        return None


class _Silence:
    """Chance by which the other system does nothing and does not answer."""

    def random(self) -> float:
        """Return what means that."""
        return 0.85


def _mixed(calls: Collection[Call]) -> list[Call]:
    """Return calls with those of different tools in turn."""
    by_tool: dict[str, list[Call]] = {}
    for each in calls:
        by_tool.setdefault(each[0], []).append(each)
    most = max(map(len, by_tool.values()), default=0)
    return [of[at] for at in range(most) for of in by_tool.values() if at < len(of)]
