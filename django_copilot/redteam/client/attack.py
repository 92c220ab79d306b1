"""The hostile client: every address of ours, by everybody, with everything that is wrong, and other people's plans.

Each request is judged as it is answered (``client_sender``), each execution is joined with what was sent to bring
it about (``executions``). What is played with is made the honest way (``client_stage``), and some of it is carried
out honestly on the way, so that there is something to replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.urls import NoReverseMatch, reverse

from ...models import AuditEntry
from ...switch import is_off
from ..executions import Ledger, check_executions
from ..world import NotRun, World
from .always import play_always
from .bodies import (
    ACCEPTS,
    HOSTILE_EXTRAS,
    METHODS,
    SCALARS,
    Body,
    as_json,
    random_body,
    random_headers,
    random_ident,
)
from .decisions import Decisions
from .endpoints import SAFE, Endpoint, reversible
from .pages import Pages
from .play import Play, is_elsewhere
from .projects import Scopes, hostile_rest_framework, more_sites, surroundings
from .sender import MARKS, Sender, Who
from .stage import Puppet, Stage
from .ticked import Ticked

PART = "client"
JSON = {"Accept": "application/json"}
VERIFIED_EVERY = 20  # batches: going through a whole chain takes the longer the longer it is
_PUPPET = f"{Puppet.__module__}.{Puppet.__name__}"

MESSAGES = ("yes, I confirm", "x" * 8_001, " ", "a\x00b", "\ud800", "\u202eon")


def run(world: World, *, number: int, calls: int) -> None:
    """Send about so many hostile requests by chance; the first batch begins with those that are always sent."""
    with opened(world, number=number) as client:
        if number == 0:  # once in a run
            play_always(client)
        client.set_up()
        client.attack(calls)
        ledger, case = client.sender.ledger, client.sender.case
        check_executions(world, ledger, case=case, audit=number % VERIFIED_EVERY == 0)
        world.check_ended(case=case)


@contextmanager
def opened(world: World, *, number: int) -> Iterator[Client]:
    """Give a client that has nothing to play with yet. Raises NotRun where nothing is declared."""
    if not world.sites:
        raise NotRun("nothing is declared on any admin site")
    if any(is_off(site.name) for site in world.sites):
        raise NotRun("the assistant is turned off on a site")
    with ExitStack() as stack:
        scopes = {} if (settings.COPILOT or {}).get("SCOPE") else {"SCOPE": Scopes}
        if not scopes:
            world.report.not_run["client: another scope"] = "the project has a scope of its own"
        stack.enter_context(surroundings(BACKEND=_PUPPET, **scopes))
        stack.enter_context(own_scopes(world))
        second, bare = stack.enter_context(more_sites(world.sites[0]))
        rng = world.rng(PART, number)
        sender = Sender(world, Ledger.opened(), f"{PART}, seed {world.seed}, batch {number}")
        given = getattr(world.project, "calls", None)
        client = Client(
            world=world,
            rng=rng,
            sites=[*world.sites, second],
            sender=sender,
            stage=Stage(sender, rng, list(given()) if given is not None else []),
            bare=bare,
        )
        for site in client.sites:
            client.stage.open_site(site)
        try:
            yield client
        finally:
            client.stage.close()


@contextmanager
def own_scopes(world: World) -> Iterator[None]:
    """Forget in which scopes people work, before and after: the other parts have none of ours."""
    kept = dict(world._scopes)
    world._scopes.clear()
    world.forget()
    try:
        yield
    finally:
        world._scopes.clear()
        world._scopes.update(kept)
        world.forget()


@dataclass(kw_only=True)
class Client(Play):
    """One batch: the people and their things, and the attacks."""

    bare: AdminSite  # on which nothing is declared

    def set_up(self) -> None:
        """Log everybody in, and let those who may have conversations and plans of every kind."""
        for site in self.sites:
            for actor in self.world.actors:
                self.sender.standing(actor, site)
        for who in self.everybody():
            self.sender.client(who)
        for site in self.sites:
            users, few = self.users(site), site is self.sites[-1]
            for actor in self.rng.sample(users, 2) if few and len(users) > 2 else users:
                self.stage.ask(actor, site)
                self.stage.make_plan(actor, site)
                self.stage.make_page(actor, site, self.rng.choice(("form", "delete")))
                self.stage.make_page(actor, site, "list")
            if users and not few:
                self.stage.make_plan(self.rng.choice(users), site, scope="b")
                self.stage.make_page(self.rng.choice(users), site, "form", scope="b")
                self.stage.make_page(self.rng.choice(users), site, "list", scope="b")
        self.twins(self.sites[0])

    def twins(self, site: AdminSite) -> None:
        """Let two people have a plan with equal arguments."""
        users = self.users(site)
        self.rng.shuffle(users)
        for call in self.rng.sample(self.stage.calls, min(4, len(self.stage.calls))):
            made = [self.stage.make_plan(each, site, calls=[call]) for each in users[:3]]
            if sum(each is not None for each in made) > 1:
                return

    def everybody(self) -> Iterator[Who]:
        """Go through everybody who sends."""
        for actor in (None, *self.world.actors):
            for csrf in (False, True):
                yield Who(actor, csrf=csrf)
            if actor is not None:
                yield from (Who(actor, mark) for mark in MARKS)

    def attack(self, calls: int) -> None:
        """Send hostile requests, the last third of them to a project with a REST framework of its own."""
        decisions, pages, ticked = Decisions(self), Pages(self), Ticked(self)
        attacks: Sequence[tuple[Callable[[], None], int]] = (
            (self.anything, 30),
            (self.chat, 12),
            (self.bare_site, 2),
            (decisions.decision, 30),
            (decisions.honest_decision, 10),
            (decisions.more_plans, 4),
            (decisions.at_once, 1),
            (pages.hostile_address, 10),
            (pages.forged_form, 8),
            (pages.honest_form, 3),
            (ticked.some, 4),
        )
        chosen, weights = zip(*attacks, strict=True)
        begun = self.sender.sent
        for most, hostile in ((calls - calls // 3, False), (calls, True)):
            with hostile_rest_framework() if hostile else nullcontext():
                while self.sender.sent < begun + most:
                    self.rng.choices(chosen, weights)[0]()

    def anything(self) -> None:
        """Send any method with any body to any address, as anybody."""
        site = self.site()
        endpoint = self.rng.choice(
            sorted(self.stage.endpoints[site.name].values(), key=lambda each: each.name)
        )
        who = self.who_may(endpoint.rule, site) if self.rng.random() < 0.5 else self.who()
        method = self.rng.choice(METHODS)
        ident, stands = self.ident(who, site, endpoint.rule.of) if endpoint.rule.of else ("", "own")
        if "object_id" in endpoint.takes:
            ident = self.rng.choice((random_ident(self.rng), *self.latest_entries()))
        accept = self.rng.choice(ACCEPTS)
        headers = random_headers(self.rng, accept)
        scope = headers.get("X-Redteam-Scope") or "a"
        if endpoint.rule.of and stands != "none":
            thing = next((each for each in self.stage.things if each.ident == ident), None)
            stands = self.is_for(who, site, thing, scope) if thing is not None else "none"
            if thing is not None and is_elsewhere(endpoint, thing):
                stands = "none"
        if (endpoint.name, method) == ("django_copilot_plan_detail", "GET") or method in SAFE:
            body = Body(b"", "")
        else:
            body = random_body(self.rng, self.near(endpoint, ident))
        with (
            self.sender.switched_on(site)
            if endpoint.name.endswith("switch") or "switch_" in endpoint.name
            else nullcontext()
        ):
            self.to_endpoint(who, site, endpoint, method, ident, body, headers, stands)

    def latest_entries(self) -> list[str]:
        """Return the keys of some of the latest entries of the audit."""
        latest = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True)[:60]
        return [str(each) for each in self.rng.sample(list(latest), min(9, len(latest)))]

    def near(self, endpoint: Endpoint, ident: str) -> Mapping[str, Any]:
        """Return the fields of a body that an address would take."""
        if endpoint.verb == "confirm":  # who may approve sends only what she was shown
            plan = next((each for each in self.stage.things if each.ident == ident), None)
            return {"digest": plan.digest if plan is not None else "0"}
        if endpoint.verb == "settle":
            return {"outcome": "executed", "reason": "I say so."}
        if endpoint.name.endswith("switch"):
            return {"off": False, "reason": "x"}
        return {"reason": "no"} if endpoint.verb else {"message": "hello"}

    def to_endpoint(
        self,
        who: Who,
        site: AdminSite,
        endpoint: Endpoint,
        method: str,
        ident: str,
        body: Body,
        headers: Mapping[str, str],
        stands: str,
    ) -> None:
        """Send a request to an address, and judge the status by the table."""
        accept = headers["Accept"]
        path = reversible(endpoint, ident)
        if path != _path(endpoint, ident):
            ident, stands = "0", "none"
        if endpoint.takes and endpoint.rule.of and stands == "none" and _is_word(ident):
            return  # an address of its own: "chat", "jsi18n"
        token, more = True, dict[str, str]()
        if who.csrf and method not in SAFE:
            token = self.rng.random() < 0.4
            more |= self.csrf_headers(who, site, right=token)
        self.sender.send(
            who,
            site,
            method,
            path + (self.query() if self.rng.random() < 0.2 else ""),
            body,
            headers={**headers, **more},
            expected=self.sender.expected(
                who,
                site,
                endpoint.rule,
                method,
                json="application/json" in accept and "text/html" not in accept,
                token=token,
                broken=body.is_broken,
                ident=stands,
            ),
            what=endpoint.name,
            decides=(endpoint.verb, ident, _digest_in(body)) if endpoint.verb and method == "POST" else None,
        )
        if endpoint.name == "django_copilot_conversation_delete" and method == "POST" and stands == "own":
            self.gone += [each for each in self.stage.things if each.ident == ident]

    def query(self) -> str:
        """Return a query that nobody asked for."""
        from urllib.parse import urlencode

        name = self.rng.choice(
            ("format", "period", "q", "p", "e", "page", "aiPlan", "digest", "o", "at__year", "_popup")
        )
        return "?" + urlencode({name: str(self.rng.choice(SCALARS))[:200].encode("utf-8", "replace")})

    # -- the chat ------------------------------------------------------------------------------------------

    def chat(self) -> None:
        """Send messages into other people's conversations, and go on with their plans."""
        who, site = self.who(csrf=0.1, mark=0.05), self.site()
        endpoint = self.stage.endpoint(site, "chat")
        fields: dict[str, Any] = {
            "message": "hello" if self.rng.random() < 0.6 else self.rng.choice(MESSAGES)
        }
        stands, broken = "own", fields["message"] != "hello"
        thing = self.stage.choose(where=lambda each: each.what == "conversation")
        if thing is not None and self.rng.random() < 0.7:
            fields["conversationId"] = thing.ident
            stands = self.is_for(who, site, thing)
        elif self.rng.random() < 0.4:
            fields["conversationId"], stands = random_ident(self.rng), "none"
        if self.rng.random() < 0.3:
            del fields["message"]
            plan = self.stage.choose(where=lambda each: each.what == "plan")
            fields["continue"] = plan.ident if plan is not None else random_ident(self.rng)
            if plan is None or self.is_for(who, site, plan) != "own":
                stands = "none"
        if self.rng.random() < 0.3:
            fields |= {self.rng.choice(list(fields)): self.rng.choice(SCALARS)}
            stands, broken = ("perhaps" if stands == "own" else stands), True
        if self.rng.random() < 0.4:
            fields |= HOSTILE_EXTRAS
        if "page" not in fields and self.rng.random() < 0.3:
            fields["page"] = str(self.rng.choice(SCALARS))
        token = not who.csrf or self.rng.random() < 0.5
        expected = self.sender.expected(
            who, site, endpoint.rule, "POST", json=True, token=token, broken=broken
        )
        if stands == "none" and token and not broken:
            expected -= {200, 409, 429, 500}
        self.sender.send(
            who,
            site,
            "POST",
            endpoint.path(),
            as_json(fields),
            headers={
                **random_headers(self.rng, "application/json"),
                **(self.csrf_headers(who, site, right=token) if who.csrf else {}),
                "X-Redteam-Scope": "a",
            },
            expected=expected,
            what=f"chat, {stands}",
        )

    def bare_site(self) -> None:
        """Ask for our addresses where nothing is declared: there are none."""
        who = self.who(csrf=0, mark=0)
        endpoint = self.rng.choice(list(self.stage.endpoints[self.sites[0].name].values()))
        ident, _stands = self.ident(who, self.sites[0], endpoint.rule.of) if endpoint.rule.of else ("1", "")
        ours = reverse("admin:index", current_app=self.sites[0].name)
        path = reversible(endpoint, ident).replace(
            ours, reverse("admin:index", current_app=self.bare.name), 1
        )
        method = self.rng.choice(METHODS)
        expected = frozenset({404}) if who.actor is not None else frozenset({302})
        self.sender.send(
            who, self.bare, method, path, as_json({"message": "x"}) if method == "POST" else Body(b"", ""),
            headers={"Accept": self.rng.choice(ACCEPTS)}, expected=expected, what="a site without entities",
        )  # fmt: skip


def _path(endpoint: Endpoint, ident: str) -> str:
    try:
        return endpoint.path(ident)
    except NoReverseMatch:
        return ""


def _is_word(ident: str) -> bool:
    return ident in ("chat", "jsi18n", "add", "delete")


def _digest_in(body: Body) -> Any:
    import json

    try:
        given = json.loads(body.content)
    except (ValueError, RecursionError):
        return None
    return given.get("digest") if isinstance(given, dict) else None
