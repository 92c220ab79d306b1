"""What the state machine plays with: people with sessions, calls that make plans, and another system to be asked.

All of it lies in transactions that are rolled back at the end, marked as those of Django's own test cases are, so
that other systems are asked as if there were none.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.db import connections, router, transaction
from django.test import Client
from django.test.utils import override_settings
from django.urls import reverse

from ...backends import scripted
from ...backends.base import ModelReply, ModelRequest, ToolCall
from ...models import AuditEntry, AuditValue, Conversation, Message, Plan, Turn
from ...people import is_service_account
from ...scope import PERMISSION
from ...tools.write import Above, Category, all_tools
from .. import tables
from ..canaries import business_models
from ..outside import stand_in
from ..people import Actor
from ..world import NotRun, World

APPROVE = "django_copilot.approve_plan"
KNOWN = 3_000  # calls that are asked of the project
PROBES = 40  # of those, of one tool, that are tried for a plan
OFFERS = 3  # of those, that are played with
Rows = Mapping[str, Mapping[str, str]]  # label → key → hash of the row


class Saying(scripted.Script):
    """A model that says what it is told to, and something harmless when it is asked more often."""

    def __init__(self) -> None:
        super().__init__()
        self.next: list[ModelReply] = []
        self.asked = 0

    def answer(self, request: ModelRequest) -> ModelReply:
        """Return the next reply."""
        self.asked += 1
        return self.next.pop(0) if self.next else ModelReply(text="That is all.", model="hostile")

    def call(self, name: str, arguments: Mapping[str, Any] | str) -> None:
        """Call a tool next."""
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self.next = [ModelReply(calls=(ToolCall(id="c1", name=name, arguments=given),), model="hostile")]


@dataclass(frozen=True)
class Offer:
    """A call that makes a plan, and for whom."""

    tool: str
    arguments: Mapping[str, Any]
    people: Sequence[Actor]  # those who decide nothing last
    needs_approval: bool = False


@dataclass
class Surroundings:
    """One run's; every example begins with the database as it is here."""

    world: World
    site: AdminSite
    people: Sequence[Actor]
    model: Saying
    clients: Mapping[tuple[Any, bool], Client] = field(default_factory=dict)  # (key, is impersonated)
    behind: Mapping[Any, Actor] = field(default_factory=dict)  # who impersonates whom
    approvers: Sequence[Actor] = ()
    offers: Sequence[Offer] = ()
    reads: Sequence[Offer] = ()
    rows: Rows = field(default_factory=dict)
    asking: Callable[..., Any] | None = None  # what another system's steps lead to: set by each example

    def url(self, name: str, *args: Any) -> str:
        """Return one of the site's own addresses."""
        return reverse(f"admin:django_copilot_{name}", args=args, current_app=self.site.name)

    def call(self, payload: Any, key: str) -> Any:
        """Ask the other system, as the example that is played has it."""
        return self._ask("call", payload, key)

    def look_up(self, payload: Any, key: str) -> Any:
        """Ask the other system what it knows."""
        return self._ask("look_up", payload, key)

    def _ask(self, step: str, payload: Any, key: str) -> Any:
        if self.asking is None:
            raise TimeoutError("nobody is there")
        return self.asking(step, payload, key)

    def chat(self, client: Client, body: Mapping[str, Any]) -> Any:
        """Send a body to the chat."""
        return client.post(self.url("chat"), json.dumps(body), content_type="application/json")


@contextmanager
def surroundings(world: World, rng: random.Random) -> Iterator[Surroundings]:
    """Open everything that the examples share. Raises NotRun where there is nothing to play with."""
    calls = getattr(world.project, "calls", None)
    if calls is None:
        raise NotRun("COPILOT['REDTEAM'] has no calls(): no plan of a write tool can be made")
    known = [(name, dict(arguments)) for name, arguments in islice(calls(), KNOWN)]
    site = _site(world)
    people = [*world.actors, *_approvers(world.actors)]
    for each in people:
        world.scope(each, site)  # asked over the chat, before anything is put away
    given = {**(settings.COPILOT or {}), "BACKEND": "scripted"}
    quiet = {**given, "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}
    made = Surroundings(world, site, people, Saying())
    with ExitStack() as stack:
        stack.enter_context(override_settings(COPILOT=quiet))
        stack.enter_context(undone())
        stack.enter_context(stand_in(world.seed, made))
        _put_away()
        scripted.running.append(made.model)
        stack.callback(scripted.running.remove, made.model)
        _log_in(made)
        made.approvers = [each for each in people if each.user().has_perm(APPROVE)]
        made.rows = {label: rows_of(model) for label, model in models_by_label().items()}
        with undone():
            _find_offers(made, known, rng)
        if not made.offers:
            raise NotRun("no call of calls() makes a plan for anybody who takes part")
        yield made


@contextmanager
def undone() -> Iterator[None]:
    """Roll everything back at the end; what is asked of other systems meanwhile counts as outside a transaction."""
    with ExitStack() as stack:
        for alias in connections:
            block: Any = transaction.atomic(using=alias)
            block._from_testcase = True
            stack.enter_context(block)
            stack.callback(transaction.set_rollback, True, using=alias)
        yield


def models_by_label() -> dict[str, Any]:
    """Return the project's models by label."""
    return {model._meta.label_lower: model for model in business_models()}


def rows_of(model: Any) -> dict[str, str]:
    """Return a hash of each row of a model, by key."""
    return dict(tables._rows_of(model))


def _site(world: World) -> AdminSite:
    for site in world.sites:
        if any(tool.model in site._registry for tool in all_tools().values()):
            return site
    raise NotRun("no admin site has the models of a write tool")


def _approvers(actors: Sequence[Actor]) -> list[Actor]:
    """Return two more people who may approve: somebody else has to, whoever asks."""
    taken = {each.pk for each in actors}
    found: list[Actor] = []
    users = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
    for user in users.exclude(pk__in=taken).order_by("pk")[:500]:
        if user.has_perm(APPROVE) and len(found) < 2:
            found.append(Actor(user.pk, user.get_username(), "staff"))
    return found


def _put_away() -> None:
    """Take away what earlier runs left of ours: waiting plans would count, a long audit would be read each time."""
    for kind in (Message, AuditValue, AuditEntry, Plan, Turn, Conversation):
        rows: Any = kind._base_manager.all()
        rows._raw_delete(router.db_for_write(kind))


def _log_in(made: Surroundings) -> None:
    clients, behind = {}, {}
    for number, each in enumerate(made.people):
        clients[each.pk, False] = made.world.client(each)
        other = made.people[(number + 1) % len(made.people)]
        client = made.world.client(each)
        session = client.session
        session["hijack_history"] = [str(other.pk)]  # as django-hijack leaves it
        session.save()
        clients[each.pk, True], behind[each.pk] = client, other
    made.clients, made.behind = clients, behind


def _find_offers(made: Surroundings, known: list[tuple[str, dict[str, Any]]], rng: random.Random) -> None:
    """Try calls until there are some of each tool, for everybody who gets a plan of them."""
    by_tool: dict[str, list[dict[str, Any]]] = {}
    for name, arguments in rng.sample(known, len(known)):
        by_tool.setdefault(name, []).append(arguments)
    tools = {name: tool for name, tool in all_tools().items() if name in by_tool}
    writes = [name for name in sorted(tools) if tools[name].category is not Category.READ_ONLY]
    made.reads = [Offer(name, by_tool[name][0], made.people) for name in sorted(tools) if name not in writes]
    made.offers = []
    for name in writes:
        found: list[Offer] = []
        for arguments in by_tool[name][:PROBES]:
            alone = all(not each.needs_approval for each in found)
            if len(found) >= OFFERS and not (alone and isinstance(tools[name].approval, Above)):
                break
            people: list[Actor] = []
            needs = False
            for each in made.people:
                if each.user().has_perms((PERMISSION, *tools[name].permissions)):
                    plan = _plan_of(made, each, name, arguments)
                    if plan:
                        people.append(each)
                        needs = needs or bool(plan["needsApproval"])
            if people and (len(found) < OFFERS or needs):
                people.sort(key=lambda each: is_service_account(each.user()))
                found.append(Offer(name, arguments, people, needs))
        made.offers = [*made.offers, *found]
    # Those with the longest lives first: they are chosen a little more often.
    made.offers.sort(key=lambda each: (not each.needs_approval, not tools[each.tool].is_external))


def _plan_of(
    made: Surroundings, actor: Actor, name: str, arguments: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the plan that a call makes for a person, None when it makes none."""
    made.model.call(name, arguments)
    answer = made.chat(made.clients[actor.pk, False], {"message": "Please do it"})
    made.model.next = []
    made.world.report.count("tool calls")
    plan: dict[str, Any] | None = answer.json().get("plan") if answer.status_code == 200 else None
    return plan
