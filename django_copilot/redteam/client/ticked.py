"""Whose rows a plan of the admin's list ticks: asked for by everybody, in any scope, in time and too late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.utils import timezone

from ...models import Plan, PlanState
from ..tables import key_text
from .play import Play
from .sender import Answer, Who
from .stage import Thing

JSON = {"Accept": "application/json"}


@dataclass
class Ticked:
    """Attacks on what the list's page asks for, to tick rows and to choose an action."""

    play: Play

    def __post_init__(self) -> None:
        self.rng, self.stage, self.sender = self.play.rng, self.play.stage, self.play.sender

    def some(self) -> None:
        """Ask for what one of the plans ticks, as anybody, on any site, in any scope; sometimes its time is over."""
        thing = self.stage.choose(where=lambda each: each.kind == "list")
        if thing is None:
            return
        if self.rng.random() < 0.1:
            self.stage.expire(thing)
        own = Who(thing.owner)
        who = own if self.rng.random() < 0.5 else self.play.who(csrf=0, mark=0.05)
        site = self.play.on(thing) if self.rng.random() < 0.8 else self.play.site()
        scope = thing.scope if self.rng.random() < 0.7 else self.rng.choice(("a", "b"))
        self.ask(who, site, thing, scope=scope)

    def ask(self, who: Who, site: AdminSite, thing: Thing, *, scope: str = "a") -> Answer:
        """Ask for what a plan ticks, and judge what is told."""
        endpoint = self.stage.endpoint(site, "plan_detail")
        stands = self.play.is_for(who, site, thing, scope)
        answer = self.sender.send(
            who,
            site,
            "GET",
            endpoint.path(thing.ident),
            headers={**JSON, "X-Redteam-Scope": scope},
            expected=self.sender.expected(who, site, endpoint.rule, "GET", json=True, ident=stands),
            what=f"what a list of {thing.owner.name} ticks, {stands}",
        )
        told = {str(each) for each in answer.json.get("ids", ())}
        wrong = told - self.hers(thing) if stands == "own" and not self.is_over(thing) else told
        if wrong:
            self.sender.world.report.found(
                3,
                f"{len(wrong)} rows to tick are told to {who}, which a plan of {thing.owner.name} can't tick for her",
                case=f"{self.sender.case}: {who}: plan {thing.ident}",
            )
        return answer

    def hers(self, thing: Thing) -> set[str]:
        """Return the keys of the rows that the owner of a plan may view today, as texts."""
        with self.sender.world.rights(thing.owner, self.play.on(thing)) as rights:
            keys: Any = rights.rows(thing.model)
        return {key_text(thing.model._meta.pk, pk) for pk in keys}

    def is_over(self, thing: Thing) -> bool:
        """Tell whether a plan can't be opened any more."""
        plan = Plan.objects.get(pk=thing.ident)
        return plan.state != PlanState.PROPOSED or plan.expires_at <= timezone.now()
