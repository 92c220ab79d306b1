"""What the attacks of the hostile client share: who sends, where, what there is to play with, and chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.admin import AdminSite

from ..people import Actor
from ..world import World
from .bodies import FOREIGN, random_ident
from .endpoints import APPROVE, Endpoint, Rule
from .sender import MARKS, Sender, Who, token_header
from .stage import Stage, Thing


@dataclass(kw_only=True)
class Play:
    """One batch."""

    world: World
    rng: random.Random
    sites: Sequence[AdminSite]  # the last one is ours, a second one of the first
    sender: Sender
    stage: Stage
    gone: list[Thing] = field(default_factory=list)  # conversations that somebody has deleted

    def who(self, *, csrf: float = 0.25, mark: float = 0.1, nobody: float = 0.1) -> Who:
        """Return somebody, by chance."""
        if self.rng.random() < nobody:
            return Who(None, csrf=self.rng.random() < 2 * csrf)
        actor = self.rng.choice(list(self.world.actors))
        if self.rng.random() < mark:
            return Who(actor, self.rng.choice(MARKS))
        return Who(actor, csrf=self.rng.random() < csrf)

    def who_may(self, rule: Rule, site: AdminSite) -> Who:
        """Return somebody who may open an address, where there is anybody."""
        standings = [(each, self.sender.standing(each, site)) for each in self.world.actors]
        may = [each for each, standing in standings if standing is not None and standing.may(rule)]
        return Who(self.rng.choice(may), csrf=self.rng.random() < 0.25) if may else self.who()

    def site(self) -> AdminSite:
        """Return a site, mostly one of the project's."""
        return self.sites[-1] if self.rng.random() < 0.1 else self.rng.choice(self.sites[:-1])

    def ident(self, who: Who, site: AdminSite, what: str) -> tuple[str, str]:
        """Return an id for an address, and whether it is "own", "perhaps" hers to approve, or "none" of hers."""
        thing = self.stage.choose(where=lambda each: each.what == what) if self.rng.random() < 0.7 else None
        if thing is None:
            return random_ident(self.rng), "none"
        return thing.ident, self.is_for(who, site, thing)

    def is_for(self, who: Who, site: AdminSite, thing: Thing, scope: str = "a") -> str:
        """Return how a thing stands to a person who asks for it on a site, in a scope."""
        if thing.site != site.name or thing.scope != scope or who.actor is None:
            return "none"
        if thing.owner.pk == who.actor.pk:
            return "own" if self.is_there(thing) else "perhaps"
        if thing.what != "plan" or thing.kind != "tool":
            return "none"
        standing = self.sender.standing(who.actor, site)
        plan = self.stage.refresh(thing)
        approves = standing is not None and APPROVE in standing.permissions
        # Without anybody's confirmation it is nobody's business but the owner's.
        return "perhaps" if approves and plan is not None and plan.confirmed_by else "none"

    def is_there(self, thing: Thing) -> bool:
        """Tell whether a conversation was not deleted meanwhile."""
        return thing not in self.gone

    def csrf_headers(self, who: Who, site: AdminSite, *, right: bool) -> dict[str, str]:
        """Return the headers of a browser's request: with its token, or as a foreign page's come."""
        token = {token_header(): self.sender.csrf_token(who, site)}
        if right:
            return token
        foreign = dict(self.rng.choice(FOREIGN))
        # From another origin not even the right token is taken.
        return {**foreign, **token} if {*foreign} & {"Origin", "Referer"} else foreign

    def users(self, site: AdminSite) -> list[Actor]:
        """Return those who may use the assistant on a site."""
        rule = self.stage.endpoint(site, "chat").rule
        standings = [(each, self.sender.standing(each, site)) for each in self.world.actors]
        return [each for each, standing in standings if standing is not None and standing.may(rule)]

    def on(self, thing: Thing) -> AdminSite:
        """Return the site that a thing belongs to."""
        return next(each for each in self.sites if each.name == thing.site)


def is_elsewhere(endpoint: Endpoint, thing: Thing) -> bool:
    """Tell whether a plan can't be decided on at an address, as one of the admin's own pages."""
    return thing.what == "plan" and thing.kind != "tool" and endpoint.verb not in ("", "again")
