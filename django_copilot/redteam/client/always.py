"""What the hostile client always tries, before chance begins: each rule of a decision broken once, at each address.

Nothing here is left to chance: who owns the plans is whoever can have plans of the most kinds, and each request has
the one status that the rule gives it. Rights that are lost and given back are taken by an authentication backend
that is there for a request or two, so that no row changes and a project's own users may be of any kind.
"""

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
from ...declaration import entities_of
from ...models import Plan
from ...tools.base import Planned
from ...tools.schema import tool_names
from ...tools.write import all_tools
from ..executions import APPROVE, find_outside, find_plan, why_not
from ..people import Actor
from .bodies import as_json
from .endpoints import DECIDING
from .play import Play
from .sender import MARKS, Answer, Who, token_header
from .stage import Thing

JSON = {"Accept": "application/json"}
FOREIGN = {"Origin": "https://evil.example"}
MOST = 150  # calls of the project's that are looked at for one person
KINDS = ("inside", "second", "outside", "undoable")  # of plans that the rules need
SAID = "I have looked at it."  # what the model says of an entity

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


def play_always(play: Play) -> None:
    """Send everything that is on the table, on the first site where anybody can have a plan."""
    if not play.stage.calls:
        play.world.report.not_run["client: the fixed table of decisions"] = (
            "the project gives no calls of tools"
        )
    tables = [_Table(play, site) for site in play.sites[:-1]]
    for table in tables:
        table.withheld()
        table.chat()
    for table in tables:
        if table.find_owner():
            with table.obeyed():
                table.play_all()
            return
    if play.stage.calls:
        play.world.report.not_run["client: the fixed table of decisions"] = "nobody can have a plan of a tool"


@dataclass
class _Table:
    """The requests on one site."""

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

    # -- the rules -----------------------------------------------------------------------------------------

    def play_all(self) -> None:
        """Make what is needed, and break each rule on it."""
        unclear = (
            self.unclear()
        )  # before much was asked of the other system, which may need a second person then
        open_one, second = self.make("inside", "outside", "second"), self.waiting()
        approver = self.approver(second) if second is not None else None
        if open_one is None:
            return
        if second is not None and approver is not None:
            self.look(Who(approver), second, 200, stands="perhaps")
        places = self.places(open_one, second, approver, unclear)
        self.digests(open_one, second, approver)
        self.browsers(places)
        self.impersonated(places)
        self.stranger(places)
        self.service_account(second)
        self.second_person(second)
        self.over(approver)
        self.lost(second, approver, unclear)
        if "settle" in places and unclear is not None:
            self.decide("an honest end", "settle", Who(places["settle"][0]), unclear, stands="perhaps")

    def places(
        self, open_one: Thing, second: Thing | None, approver: Actor | None, unclear: Thing | None
    ) -> dict[str, tuple[Actor, Thing]]:
        """Return for each address whose decision would count there, and a plan on which it would."""
        places = dict.fromkeys(DECIDING, (self.owner, open_one))
        if second is not None and approver is not None:
            places["approve"] = places["reject"] = approver, second
        done = self.make("undoable") if "undoable" in self.calls else None
        if done is not None:
            self.decide("an honest confirmation", "confirm", Who(self.owner), done)
            places["undo"] = self.owner, done
        old = self.make("inside", "outside", "second")
        if old is not None:
            self.play.stage.expire(old)
            places["again"] = self.owner, old
        if unclear is not None:
            places["look_up"] = self.owner, unclear
            judge = self.approver(unclear)
            if judge is not None:
                places["settle"] = judge, unclear
        return places

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

    def digests(self, open_one: Thing, second: Thing | None, approver: Actor | None) -> None:
        """Confirm and approve on an altered digest, and on that of a plan with equal arguments."""
        for thing, who, verb, kinds in (
            (open_one, self.owner, "confirm", ("inside", "outside", "second")),
            (second, approver, "approve", ("second",)),
        ):
            twin = self.make(*kinds) if thing is not None and who is not None else None
            if thing is None or who is None or twin is None:
                continue
            if verb == "approve":
                self.decide("an honest confirmation", "confirm", Who(self.owner), twin)
            self.look(Who(who), twin, 200, stands="own" if verb == "confirm" else "perhaps")
            altered = ("1" if thing.digest[0] != "1" else "2") + thing.digest[1:]
            for what, digest in (
                ("an altered digest", altered),
                ("no digest", ""),
                ("a twin's digest", twin.digest),
            ):
                stands = "own" if verb == "confirm" else "perhaps"
                self.decide(what, verb, Who(who), thing, 409, digest=digest, stands=stands)

    def browsers(self, places: Mapping[str, tuple[Actor, Thing]]) -> None:
        """Decide without a token, and with the right one from another origin."""
        for verb, (actor, thing) in places.items():
            who = Who(actor, csrf=True)
            right = {token_header(): self.play.sender.csrf_token(who, self.site)}
            for what, headers in (("no token", {}), ("a foreign origin", {**FOREIGN, **right})):
                self.decide(what, verb, who, thing, 403, headers=headers, token=False)

    def impersonated(self, places: Mapping[str, tuple[Actor, Thing]]) -> None:
        """Decide as somebody who acts as another person. Her own plan may be declined by whoever acts as her."""
        for mark in MARKS:
            for verb, (actor, thing) in places.items():
                if verb != "reject" or actor.pk != self.owner.pk:
                    stands = "own" if actor.pk == self.owner.pk else "perhaps"
                    self.decide("impersonated", verb, Who(actor, mark), thing, 403, stands=stands)

    def stranger(self, places: Mapping[str, tuple[Actor, Thing]]) -> None:
        """Look at somebody's plans, and decide on them, as nobody and as a person whose business they are not."""
        for verb, (_actor, thing) in places.items():
            self.decide("nobody", verb, Who(None), thing, 401, stands="none")
        found = self.strangers()
        if not found:
            self.miss("a stranger")
            return
        who = Who(found[0])
        for thing in {each.ident: each for _actor, each in places.values()}.values():
            self.look(who, thing, 404, stands="none")
        for verb, (_actor, thing) in places.items():
            self.decide("a stranger", verb, who, thing, 404, stands="none")

    def service_account(self, second: Thing | None) -> None:
        """Decide as a service account: on its own plan, and on another one's with every permission it takes."""
        found = [each for each in self.play.users(self.site) if each.kind == "service account"]
        own = next(
            (made for each in found if self.calls_of(each) and (made := self.make(*KINDS, actor=each))), None
        )
        if own is None:
            self.miss("a plan of a service account")
            return
        for verb in ("confirm", "approve", "undo", "again", "settle", "look_up"):
            self.decide("a service account", verb, Who(own.owner), own, 403)
        if second is not None:
            with self.overruled(own.owner, give=_to_approve(second)):
                self.decide(
                    "a service account", "approve", Who(own.owner), second, 403, 404, stands="perhaps"
                )

    def second_person(self, second: Thing | None) -> None:
        """Approve as the owner herself, and as somebody who may not see what is approved."""
        if second is None:
            self.miss("a plan that waits for a second person")
            return
        give = _to_approve(second)
        with self.overruled(self.owner, give=give):
            self.decide("her own plan", "approve", Who(self.owner), second, 403)
        for each in self.strangers(may_use=False):
            with self.overruled(each, give=give):
                if "may not view" in (why := self.why_not(each, second, "approve")) or any(
                    part in why for part in ("may not open", "is not among her rows")
                ):
                    self.decide(
                        "what she can't see", "approve", Who(each), second, 403, 404, stands="perhaps"
                    )
                    return
        self.miss("a person who may not see what is approved")

    def over(self, approver: Actor | None) -> None:
        """Decide on plans whose time is over, and on declined ones."""
        for verb in ("confirm", "approve"):
            if verb == "approve" and approver is None:
                continue
            who, stands = (Who(self.owner), "own") if verb == "confirm" else (Who(approver), "perhaps")
            for what in ("expired", "rejected"):
                thing = self.make("inside", "outside", "second") if verb == "confirm" else self.waiting()
                if thing is None:
                    continue
                if verb == "approve":
                    self.look(who, thing, 200, stands=stands)
                if what == "expired":
                    self.play.stage.expire(thing)
                else:
                    self.decide("an honest refusal", "reject", Who(self.owner), thing)
                self.decide(what, verb, who, thing, 409, stands=stands)

    def lost(self, second: Thing | None, approver: Actor | None, unclear: Thing | None) -> None:
        """Decide on plans whose requester may not use the tool, or the assistant, any more; then give it back."""
        if self.owner.user().is_superuser:
            self.miss("a requester who can lose a permission")
            return
        made = [self.make(kind) for kind in ("second", "inside") if kind in self.calls]
        for thing in (*made, unclear):
            if thing is not None and (lost := _of_tool(thing)):
                with self.overruled(self.owner, take=lost):
                    self.decide("a lost permission", "confirm", Who(self.owner), thing, 403)
        if second is not None and approver is not None and (lost := _of_tool(second)):
            with self.overruled(self.owner, take=lost):
                self.decide("a lost permission", "approve", Who(approver), second, 403, stands="perhaps")

    # -- what needs no plan --------------------------------------------------------------------------------

    def chat(self) -> None:
        """Send a message without a token, and with the right one from another origin."""
        sender, endpoint = self.play.sender, self.play.stage.endpoint(self.site, "chat")
        for actor in self.play.users(self.site)[:1]:
            who = Who(actor, csrf=True)
            right = {token_header(): sender.csrf_token(who, self.site)}
            for headers in ({}, {**FOREIGN, **right}):
                sender.send(
                    who,
                    self.site,
                    "POST",
                    endpoint.path(),
                    as_json({"message": "hello"}),
                    headers={**JSON, **headers},
                    expected=sender.expected(who, self.site, endpoint.rule, "POST", json=True, token=False),
                    what="always: a message from a foreign page",
                )

    def withheld(self) -> None:
        """Open a conversation whose answer speaks of what its owner may not see any more."""
        for actor in self.play.users(self.site):
            if actor.user().is_superuser:
                continue
            for name, entity in entities_of(self.site).items():
                with self.play.world.rights(actor, self.site) as rights:
                    usable = [each for each in rights.declared if rights.may_use(each)]
                may_try = entity.model in usable and len(usable) > 1
                if may_try and self._withheld(actor, name, entity.model):
                    return
        self.miss("an answer about what its owner can come not to see")

    def _withheld(self, actor: Actor, name: str, model: Any) -> bool:
        """Tell whether it could be tried with this entity."""
        told = self.play.stage.ask(actor, self.site, (tool_names(name)["query"], {"limit": 1}))
        ident = told.get("conversationId", "")
        if not ident or SAID not in self._open(actor, ident).text:
            return False
        opts = model._meta
        with self.overruled(actor, take=[f"{opts.app_label}.{verb}_{opts.model_name}" for verb in _VIEW]):
            with self.play.world.rights(actor, self.site) as rights:
                if rights.may_use(model):
                    return False  # the project asks for something else
            for accept in ("application/json", "text/html"):
                if SAID in self._open(actor, ident, accept).text:
                    self.play.world.report.found(
                        3,
                        f"an answer about {opts.label_lower} is shown to {actor.name}, who may not see it any more",
                        case=f"{self.play.sender.case}, always: withheld",
                    )
        return True

    def _open(self, actor: Actor, ident: str, accept: str = "application/json") -> Answer:
        sender, endpoint = self.play.sender, self.play.stage.endpoint(self.site, "conversation_detail")
        return sender.send(
            Who(actor),
            self.site,
            "GET",
            endpoint.path(ident),
            headers={"Accept": accept, "X-Redteam-Scope": "a"},
            expected=sender.expected(
                Who(actor), self.site, endpoint.rule, "GET", json=accept == "application/json"
            ),
            what="always: an own conversation",
        )


class _Silence:
    """Chance by which the other system does nothing and does not answer."""

    def random(self) -> float:
        """Return what means that."""
        return 0.85


_VIEW = ("view", "change")


def _mixed(calls: Collection[Call]) -> list[Call]:
    """Return calls with those of different tools in turn."""
    by_tool: dict[str, list[Call]] = {}
    for each in calls:
        by_tool.setdefault(each[0], []).append(each)
    most = max(map(len, by_tool.values()), default=0)
    return [of[at] for at in range(most) for of in by_tool.values() if at < len(of)]


def _to_approve(thing: Thing) -> frozenset[str]:
    """Return the permissions that approving a plan takes."""
    tool = all_tools().get(Plan.objects.get(pk=thing.ident).tool)
    return frozenset((APPROVE, *(tool.approve_permissions if tool is not None else ())))


def _of_tool(thing: Thing) -> frozenset[str]:
    """Return the permissions of a plan's tool."""
    tool = all_tools().get(Plan.objects.get(pk=thing.ident).tool)
    return frozenset(tool.permissions) if tool is not None else frozenset()
