"""Decisions on plans: hostile ones by everybody, and honest ones, so that there is something to replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.admin import AdminSite

from ...models import PlanState
from .at_once import confirm_at_once
from .bodies import HOSTILE_EXTRAS, as_form, as_json, edited
from .endpoints import APPROVE, TABLE, Endpoint
from .play import Play, is_elsewhere
from .sender import MARKS, Who
from .stage import Thing

JSON = {"Accept": "application/json"}
VERBS = (
    "confirm",
    "confirm",
    "confirm",
    "approve",
    "approve",
    "reject",
    "undo",
    "again",
    "look_up",
    "settle",
)

_APPROVERS = replace(TABLE["plan_approve"], needs=(APPROVE,))


@dataclass
class Decisions:
    """Attacks on the addresses that decide."""

    play: Play

    def decision(self) -> None:
        """Decide on somebody's plan as somebody, on some digest, with hostile fields beside it."""
        who, rng = self.play.who(), self.play.rng
        waiting = self.play.stage.waiting() if rng.random() < 0.4 else set()
        thing = self.play.stage.choose(where=lambda each: each.ident in waiting)
        thing = thing or self.play.stage.choose(where=lambda each: each.what == "plan")
        if thing is None:
            return
        site = self.play.on(thing) if rng.random() < 0.85 else self.play.site()
        if rng.random() < 0.3:
            who = Who(thing.owner, rng.choice(("", *MARKS)), csrf=False)
        elif rng.random() < 0.4:
            who = self.play.who_may(_APPROVERS, site)
        endpoint = self.play.stage.endpoint(site, f"plan_{rng.choice(VERBS)}")
        if rng.random() < 0.05:
            self.play.stage.expire(thing)
        digest = self.digest_for(thing)
        fields: dict[str, Any] = {"digest": digest}
        if endpoint.verb == "settle":
            fields |= {
                "outcome": rng.choice(("executed", "failed", "undone", None)),
                "reason": rng.choice(("I say so.", "")),
            }
        if rng.random() < 0.3:
            fields |= HOSTILE_EXTRAS
        headers: dict[str, str] = {"Accept": rng.choice(("application/json", "text/html"))}
        stands, token = self.play.is_for(who, site, thing), True
        if rng.random() < 0.15:
            headers["X-Redteam-Scope"] = rng.choice(("a", "b"))
            stands = self.play.is_for(who, site, thing, headers["X-Redteam-Scope"])
        if is_elsewhere(endpoint, thing):
            stands = "none"
        if stands == "perhaps" and digest == thing.digest and endpoint.verb == "approve":
            # A digest tells what is approved, and not that she has looked: she does before she approves it.
            self.look(who, site, thing)
        if who.csrf:
            token = rng.random() < 0.5
            headers |= self.play.csrf_headers(who, site, right=token)
        body = as_form(fields) if rng.random() < 0.3 else as_json(fields)
        if body.type != "application/json" and not isinstance(digest, str):
            fields["digest"] = None
        self.play.sender.decide(
            who,
            site,
            endpoint,
            thing.ident,
            fields,
            body=body,
            headers=headers,
            token=token,
            ident=stands,
            what=f"{endpoint.verb} of {thing.kind} plan of {thing.owner.name}, {stands}",
        )

    def digest_for(self, thing: Thing) -> Any:
        """Return the digest of a plan, of another one with or without equal arguments, or none that there is."""
        chance = self.play.rng.random()
        if chance < 0.4:
            return thing.digest
        twin = self.play.stage.choose(
            where=lambda each: each.ident != thing.ident and each.call == thing.call != ""
        )
        other = self.play.stage.choose(where=lambda each: each.ident != thing.ident and each.digest != "")
        if chance < 0.6 and twin is not None:
            return twin.digest
        if chance < 0.75 and other is not None:
            return other.digest
        return edited(self.play.rng, thing.digest)

    def honest_decision(self) -> None:
        """Let an owner look at her plan and confirm it, and another person approve it, undo it, and the like."""
        thing = self.play.stage.choose(where=lambda each: each.kind == "tool")
        if thing is None:
            return
        site, who = self.play.on(thing), Who(thing.owner, csrf=self.play.rng.random() < 0.3)
        stands = self.play.is_for(who, site, thing, thing.scope)
        told = self.look(who, site, thing)
        for verb in told.get("can", ()):
            if verb == "reject" and self.play.rng.random() < 0.7:
                continue
            endpoint = self.play.stage.endpoint(site, f"plan_{'confirm' if verb == 'retry' else verb}")
            self.honestly(who, site, endpoint, thing, told, stands)
            break
        plan = self.play.stage.refresh(thing)
        if plan is None or plan.state not in (PlanState.AWAITING_APPROVAL, PlanState.UNCERTAIN):
            return
        for actor in self.play.rng.sample(list(self.play.world.actors), len(self.play.world.actors)):
            second = Who(actor)
            stands = self.play.is_for(second, site, thing, thing.scope)
            told = self.look(second, site, thing) if stands == "perhaps" else {}
            for verb in ("approve", "settle", "look_up"):
                if verb in told.get("can", ()):
                    self.honestly(
                        second, site, self.play.stage.endpoint(site, f"plan_{verb}"), thing, told, stands
                    )
                    return

    def look(self, who: Who, site: AdminSite, thing: Thing) -> dict[str, Any]:
        """Let somebody open a plan."""
        endpoint = self.play.stage.endpoint(site, "plan_detail")
        stands = self.play.is_for(who, site, thing, thing.scope)
        answer = self.play.sender.send(
            who,
            site,
            "GET",
            endpoint.path(thing.ident),
            headers={**JSON, "X-Redteam-Scope": thing.scope},
            expected=self.play.sender.expected(who, site, endpoint.rule, "GET", json=True, ident=stands),
            what="an honest look at a plan",
        )
        return answer.json if answer.status == 200 else {}

    def honestly(
        self,
        who: Who,
        site: AdminSite,
        endpoint: Endpoint,
        thing: Thing,
        told: Mapping[str, Any],
        stands: str,
    ) -> None:
        """Send what a button of a plan's page sends."""
        headers = {"X-Redteam-Scope": thing.scope}
        if who.csrf:
            headers |= self.play.csrf_headers(who, site, right=True)
        fields: dict[str, Any] = {"digest": told["digest"]} if endpoint.verb in ("confirm", "approve") else {}
        if endpoint.verb == "settle":
            fields = {"outcome": "executed", "reason": "They say that it was done."}
        answer = self.play.sender.decide(
            who,
            site,
            endpoint,
            thing.ident,
            fields,
            headers=headers,
            ident=stands,
            what=f"an honest {endpoint.verb}",
        )
        made = answer.json.get("plan") or {}
        if (
            made.get("id", thing.ident) != thing.ident
            and who.actor is not None
            and thing.owner.pk == who.actor.pk
        ):
            self.play.stage.add(
                Thing(
                    "plan",
                    made["id"],
                    who.actor,
                    site.name,
                    thing.scope,
                    "tool",
                    made["digest"],
                    call=thing.call,
                )
            )

    def more_plans(self) -> None:
        """Make one more of something, for something to be left to play with."""
        play = self.play
        site = play.rng.choice(play.sites)
        users = play.users(site)
        if not users:
            return
        actor = play.rng.choice(users)
        if play.rng.random() < 0.6 and play.stage.calls:
            play.stage.make_plan(actor, site)
        else:
            play.stage.make_page(actor, site, play.rng.choice(("form", "form", "delete")))

    def at_once(self) -> None:
        """Confirm one plan several times at once."""
        play = self.play
        site = play.rng.choice(play.sites[:-1])
        users = [each for each in play.users(site) if each.kind != "service account"]
        thing = play.stage.make_plan(play.rng.choice(users), site) if users else None
        if thing is not None:
            endpoint = play.stage.endpoint(site, "plan_confirm")
            confirm_at_once(play.sender, Who(thing.owner), site, endpoint, thing)
