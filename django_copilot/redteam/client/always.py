"""What the hostile client always tries, before chance begins: each rule of a decision broken once, at each address.

Nothing here is left to chance: who owns the plans is whoever can have plans of the most kinds, and each request has
the one status that the rule gives it. Rights that are lost and given back are taken by an authentication backend
that is there for a request or two, so that no row changes and a project's own users may be of any kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ...declaration import entities_of
from ...models import Message, Plan
from ...tools.schema import tool_names
from ...tools.write import all_tools
from ..executions import APPROVE
from ..people import Actor
from .bodies import as_json
from .cast import JSON, KINDS, Cast
from .endpoints import DECIDING
from .play import Play
from .sender import MARKS, Answer, Who, token_header
from .stage import Thing

FOREIGN = {"Origin": "https://evil.example"}
SAID = "I have looked at it."  # what the model says of an entity


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


class _Table(Cast):
    """The requests on one site."""

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
            self._look_again(actor, ident, opts.label_lower)
        mentioned = Message.objects.filter(conversation=ident).exclude(mentions={}).first()
        names = mentioned.mentions.get(opts.label_lower, ()) if mentioned is not None else ()
        for field in names[:1]:
            with self._hidden(model, field):
                self._look_again(actor, ident, f"{opts.label_lower}.{field}")
        return True

    def _look_again(self, actor: Actor, ident: str, about: str) -> None:
        """Report an answer that is shown though its owner may not see any more what it is about."""
        for accept in ("application/json", "text/html"):
            if SAID in self._open(actor, ident, accept).text:
                told = f"an answer about {about} is shown to {actor.name}, who may not see it any more"
                self.play.world.report.found(3, told, case=f"{self.play.sender.case}, always: withheld")

    @contextmanager
    def _hidden(self, model: Any, field: str) -> Iterator[None]:
        """Let a field of a model be readable for nobody, for a while."""
        model_admin: Any = self.site._registry[model]
        own = model_admin.get_harness_list

        def others(request: Any, obj: Any = None) -> list[str]:
            return [each for each in own(request, obj) if each != field]

        self.play.world.forget()
        try:
            with mock.patch.object(model_admin, "get_harness_list", others):
                yield
        finally:
            self.play.world.forget()

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


_VIEW = ("view", "change")


def _to_approve(thing: Thing) -> frozenset[str]:
    """Return the permissions that approving a plan takes."""
    tool = all_tools().get(Plan.objects.get(pk=thing.ident).tool)
    return frozenset((APPROVE, *(tool.approve_permissions if tool is not None else ())))


def _of_tool(thing: Thing) -> frozenset[str]:
    """Return the permissions of a plan's tool."""
    tool = all_tools().get(Plan.objects.get(pk=thing.ident).tool)
    return frozenset(tool.permissions) if tool is not None else frozenset()
