"""What the hostile client plays with: conversations and plans of everybody, made the honest way."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.contrib.admin import AdminSite
from django.db import models
from django.utils import timezone

from ...backends.base import ModelReply, ModelRequest, ToolCall
from ...declaration import entities_of
from ...models import Plan, PlanState
from ..people import Actor
from .bodies import as_json
from .endpoints import Endpoint, find_endpoints
from .sender import Sender, Who

JSON = {"Accept": "application/json"}
TRIES = 6  # calls that are tried until one makes a plan


class Puppet:
    """A backend that makes the call it is given, and says something otherwise."""

    label = ""
    calls: ClassVar[list[tuple[str, Mapping[str, Any]]]] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next call, or a text."""
        if self.calls:
            name, arguments = self.calls.pop(0)
            call = ToolCall(id="call_1", name=name, arguments=json.dumps(dict(arguments), default=str))
            return ModelReply(calls=(call,), model="puppet")
        return ModelReply(text="I have looked at it.", model="puppet")


@dataclass(frozen=True)
class Thing:
    """A conversation or a plan, and whose it is."""

    what: str  # "conversation" or "plan"
    ident: str
    owner: Actor
    site: str
    scope: str = "a"
    kind: str = ""  # of a plan: "tool", "form", "delete", "list"
    digest: str = ""
    call: str = ""  # of a plan of a tool: its name and arguments
    path: str = ""  # of a plan of a page: where it is opened
    model: Any = None  # and of which model
    pk: str = ""


@dataclass
class Stage:
    """Everybody's things on some sites."""

    sender: Sender
    rng: random.Random
    calls: list[tuple[str, Mapping[str, Any]]]  # that the project gives
    things: list[Thing] = field(default_factory=list)
    endpoints: dict[str, dict[str, Endpoint]] = field(default_factory=dict)  # by site and short name

    def open_site(self, site: AdminSite) -> None:
        """Look up the addresses of a site."""
        self.endpoints[site.name] = {
            each.name.removeprefix("django_copilot_"): each for each in find_endpoints(site)
        }

    def endpoint(self, site: AdminSite, name: str) -> Endpoint:
        """Return one of a site's addresses."""
        return self.endpoints[site.name][name]

    # -- making things -------------------------------------------------------------------------------------

    def token(self, actor: Actor) -> str:
        """Return a word that only this person has written."""
        word = "zp" + "".join(self.rng.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(10))
        self.sender.tokens[word] = str(actor.pk)
        return word

    def ask(
        self,
        actor: Actor,
        site: AdminSite,
        call: tuple[str, Mapping[str, Any]] | None = None,
        *,
        scope: str = "a",
        conversation: str = "",
        what: str = "an honest message",
    ) -> dict[str, Any]:
        """Send a message to which the model answers with this call, and return the answer."""
        Puppet.calls[:] = [call] if call is not None else []
        message: dict[str, Any] = {"message": f"{self.token(actor)} please"}
        if conversation:
            message["conversationId"] = conversation
        who, endpoint = Who(actor), self.endpoint(site, "chat")
        answer = self.sender.send(
            who,
            site,
            "POST",
            endpoint.path(),
            as_json(message),
            headers={**JSON, "X-Redteam-Scope": scope},
            expected=self.sender.expected(who, site, endpoint.rule, "POST", json=True) - {400, 404, 409, 429},
            what=what,
        )
        Puppet.calls.clear()
        told = answer.json
        if "conversationId" in told:
            self.add(Thing("conversation", told["conversationId"], actor, site.name, scope))
        return told

    def add(self, thing: Thing) -> Thing:
        """Keep a thing."""
        if thing not in self.things:
            self.things.append(thing)
        return thing

    def make_plan(
        self, actor: Actor, site: AdminSite, *, scope: str = "a", calls: Any = None
    ) -> Thing | None:
        """Make a plan of one of the project's calls; None where none of some allows it."""
        for name, arguments in calls or self.rng.sample(self.calls, min(TRIES, len(self.calls))):
            told = self.ask(actor, site, (name, arguments), scope=scope).get("plan")
            if told:
                call = json.dumps([name, arguments], default=str, sort_keys=True)
                return self.add(
                    Thing("plan", told["id"], actor, site.name, scope, "tool", told["digest"], call=call)
                )
        return None

    def make_page(
        self, actor: Actor, site: AdminSite, kind: str, *, scope: str = "a", record: bool | None = None
    ) -> Thing | None:
        """Make a plan of an admin page, "form", "delete" or "list"; None where the person may not."""
        entities = list(entities_of(site).items())
        self.rng.shuffle(entities)
        for name, entity in entities:
            pk = self.some_pk(actor, site, entity.model)
            if kind == "delete":
                call: tuple[str, Mapping[str, Any]] = (f"confirm_delete_{name}", {"id": pk})
            elif kind == "list":
                chosen = {"action": each} if (each := self.action_of(entity)) else {}
                call = (f"open_{name}_list", {"ids": [pk], **chosen})
            else:
                values = self.values_for(actor, site, entity)
                if not values:
                    continue
                on_record = self.rng.random() < 0.85 if record is None else record
                call = (f"open_{name}_form", {**({"id": pk} if on_record else {}), "fields": values})
            action = self.ask(actor, site, call, scope=scope).get("action")
            if action:
                named = action.get("fragment", "").partition("=")[2]
                ident = named or action["queryParams"]["aiPlan"]
                pk = action["queryParams"].get("aiId", "")
                return self.add(
                    Thing(
                        "plan",
                        ident,
                        actor,
                        site.name,
                        scope,
                        kind,
                        path=action["path"],
                        model=entity.model,
                        pk=pk,
                    )
                )
        return None

    def action_of(self, entity: Any) -> str:
        """Return an action that may be chosen on the admin's list of an entity, or ""."""
        declared = list(entity.model_admin.harness_actions)
        return str(self.rng.choice(declared)) if declared else ""

    def some_pk(self, actor: Actor, site: AdminSite, model: Any) -> str:
        """Return the key of one of the records that a person may view, "0" where there is none."""
        with self.sender.world.rights(actor, site) as rights:
            keys = sorted(map(str, rights.rows(model)))
        return self.rng.choice(keys) if keys else "0"

    def values_for(self, actor: Actor, site: AdminSite, entity: Any) -> dict[str, str]:
        """Return a value for one text field that may be filled in, with a word of the person's in it."""
        with self.sender.world.rights(actor, site) as rights:
            names = [str(each) for each in entity.model_admin.get_harness_persist(rights.request)]
        fields = [each for each in entity.model._meta.concrete_fields if each.name in names]
        texts = [
            each
            for each in fields
            if type(each) in (models.CharField, models.TextField)
            and not each.choices
            and (each.max_length or 99) >= 40
            and each.unique is False
        ]
        if not texts:
            return {}
        word = self.token(actor)
        self.sender.of_values.add(word)
        return {self.rng.choice(texts).name: f"{word} new"}

    # -- choosing ------------------------------------------------------------------------------------------

    def choose(self, *, where: Callable[[Thing], bool]) -> Thing | None:
        """Return one of the things, by chance, or None."""
        found = [each for each in self.things if where(each)]
        return self.rng.choice(found) if found else None

    def waiting(self) -> set[str]:
        """Return the ids of plans that wait for a second person."""
        made = [each.ident for each in self.things if each.kind == "tool"]
        states = (PlanState.AWAITING_APPROVAL, PlanState.UNCERTAIN)
        return {
            str(pk) for pk in Plan.objects.filter(pk__in=made, state__in=states).values_list("pk", flat=True)
        }

    def refresh(self, thing: Thing) -> Plan | None:
        """Return a plan as it is stored."""
        return Plan.objects.filter(pk=thing.ident).first() if thing.what == "plan" else None

    def expire(self, thing: Thing) -> None:
        """Let a plan's time be over."""
        past = timezone.now() - datetime.timedelta(seconds=5)
        Plan.objects.filter(pk=thing.ident).update(expires_at=past, submit_by=past, approve_by=past)

    def close(self) -> None:
        """Let the time of everything that is still open be over, so that it stands in nobody's way."""
        past = timezone.now() - datetime.timedelta(seconds=5)
        still = Plan.objects.filter(
            created_at__gte=self.sender.since, state__in=(PlanState.PROPOSED, PlanState.AWAITING_APPROVAL)
        )
        still.update(expires_at=past, submit_by=past)
        still.filter(approve_by__isnull=False).update(approve_by=past)

    @staticmethod
    def now() -> datetime.datetime:
        """Return the time."""
        return timezone.now()
