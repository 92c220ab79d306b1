"""Honest requests in the same hostile data: what each person may ask must succeed, in each language.

So that nothing is won by refusing. A request has a stable name, such as ``support/pl/list/product``, and
succeeds only when what came back is what the yardstick says: the rows, the values in the form, the record after
it was saved. What is written is taken back at once, so that the other parts find the database as it was.

The offline backend answers. Where it does not get a sentence right, a scripted model asks for the same, since
it is the product that is on trial and not the backend's grammar; how often is counted.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.management import call_command
from django.test.utils import override_settings
from django.utils import timezone, translation

from ...declaration import entities_of
from ...scope import PERMISSION
from ..outside import stand_in
from ..people import Actor, find_actors
from ..world import World
from . import judging
from . import plans as plan_requests
from .asking import Person, Problem, expect
from .sentences import Said, ident_of, languages, sentence, to_fill, to_search

_TRIED = 40  # records until one is found that can be changed or deleted
LEAST = 120  # requests of a short run
MANY = 500  # from which on everything is asked in each language

Call = tuple[str, dict[str, Any]]  # a tool's name and its arguments


@dataclass(frozen=True)
class Request:
    """One honest request. ``ask`` raises Problem when it does not succeed."""

    name: str
    person: Person
    ask: Callable[[], None]


def run(world: World, *, number: int, calls: int) -> None:
    """Ask ``calls`` requests, or a few more: some of each kind, of each person, in each language.

    ``number`` chooses the records. What belongs to the project (``honest()``) and plans are always asked.
    """
    own = {"BACKEND": "offline", "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}
    with (
        override_settings(COPILOT={**(settings.COPILOT or {}), **own}),
        stand_in(world.seed) as outside,
        translation.override(translation.get_language()),  # a request sets both, to stay
        timezone.override(timezone.get_current_timezone()),
    ):
        outside.honest = True
        kinds = list(_kinds(world, number))
        world.rng("honest", number).shuffle(kinds)
        mixed = [each for each in chain(*zip_longest(*kinds)) if each is not None]
        for each in mixed[: max(calls, LEAST)]:
            _ask(world, each)
        for name, person, problem in plan_requests.ask_all(world, outside, in_each_language=calls >= MANY):
            world.report.asked_honestly(name, problem)
            world.report.count(_counted(person))
        for each in _of_project(world):
            _ask(world, each)
    world.check_ended(case=f"honest, seed {world.seed}, number {number}")


def _ask(world: World, request: Request) -> None:
    """Ask, and where the offline backend did not get it, once more with a scripted model."""
    person = request.person
    problem = _problem(request)
    if problem:
        person.scripted = True
        again = _problem(request)
        person.scripted = False
        if not again:
            world.report.count("honest requests that took a scripted model")
        problem = again and problem
    world.report.asked_honestly(request.name, problem)
    world.report.count(_counted(person))


def _counted(person: Person | None) -> str:
    return f"honest requests of a {person.actor.kind}" if person is not None else "honest requests"


def _problem(request: Request) -> str:
    request.person.case = f"honest request {request.name}"
    try:
        request.ask()
    except Problem as problem:
        return str(problem) or "failed"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


# -- every entity ---------------------------------------------------------------------------------------------


def _kinds(world: World, number: int) -> Iterator[list[Request]]:
    """Give the requests of each person, language and kind; each list begins with another entity."""
    several = len(world.sites) > 1
    turn = number
    for site in world.sites:
        for actor in world.actors:
            if not actor.user().has_perm(PERMISSION):
                continue
            for language in languages():
                person = Person(world, actor, site, language)
                desk = _Desk(person, number, prefix=f"{site.name}/" if several else "")
                found: dict[str, list[Request]] = {}
                for request in desk.requests():
                    found.setdefault(request.name.split("/")[-2], []).append(request)
                for each in found.values():
                    turn += 1
                    at = turn % len(each)
                    yield [*each[at:], *each[:at]]


class _Desk:
    """What one person can ask on one site in one language."""

    def __init__(self, person: Person, number: int, *, prefix: str) -> None:
        self.person, self.world, self.site = person, person.world, person.site
        self.language, self.number = person.language, number
        self.prefix = f"{prefix}{person.actor.name}/{person.language}"
        self.at = languages().index(person.language)
        self.names = {entity.model: name for name, entity in entities_of(person.site).items()}

    def requests(self) -> Iterator[Request]:
        """Give them, by looking at what her admin lets her do."""
        with self.world.rights(self.person.actor, self.site) as rights:
            usable = [model for model in rights.declared if rights.rows(model)]
        for model in usable:
            yield self._request("list", model, partial(self.list, model))
            yield self._request("record", model, partial(self.record, model))
            yield self._request("headless", model, partial(self.headless, model))
            yield self._request("second", model, partial(self.second, model))
            if self._takes_more(model):
                yield self._request("count", model, partial(self.count, model))
            yield from self._searching(model)
            yield from self._changing(model)

    def _request(self, kind: str, model: Any, ask: Callable[[], None]) -> Request:
        return Request(f"{self.prefix}/{kind}/{model._meta.model_name}", self.person, ask)

    def _takes_more(self, model: Any) -> bool:
        with self.world.rights(self.person.actor, self.site) as rights:
            each = rights.declared[model]
            return bool(each.harness_search or each.harness_lookups or each.harness_from_admin)

    def _searching(self, model: Any) -> Iterator[Request]:
        marked = {(cell.pk, cell.field) for cell in self.world.canaries.cells.values() if cell.model is model}
        with self.world.rights(self.person.actor, self.site) as rights:
            found = to_search(rights, model, self.language, marked=marked)
        if found:
            said = found[(self.at + self.number) % len(found)]
            yield self._request("filter", model, partial(self.filter, model, said))

    def _changing(self, model: Any) -> Iterator[Request]:
        rng = self.world.rng(f"honest/{self.prefix}/{model._meta.label_lower}", self.number)
        with self.world.rights(self.person.actor, self.site) as rights:
            each, request = rights.declared[model], rights.request
            rows = list(rights.rows(model).values())
            rng.shuffle(rows)
            rows = [obj for obj in rows if ident_of(model, obj.pk)]
            new = to_fill(rights, model, None, self.language, number=41 + self.at)
            if new and each.has_add_permission(request):
                said = new[self.at % len(new)]
                yield self._request("add", model, partial(self.form, model, None, said))
            for obj in rows[:_TRIED]:
                values = each.has_change_permission(request, obj) and to_fill(
                    rights, model, obj, self.language, number=51 + self.at
                )
                if values:
                    change = values[(self.at + 1) % len(values)]
                    yield self._request("change", model, partial(self.form, model, obj, change))
                    yield self._request("save", model, partial(self.save, model, obj, change))
                    yield self._request("follow-up", model, partial(self.follow_up, model, obj, "change"))
                    break
            may = [one for one in rows[:_TRIED] if each.has_delete_permission(request, one)]
            # Better one that nothing else protects, so that it can be deleted in the end.
            free = (one for one in may if not each.get_deleted_objects([one], request)[3])
            gone = next(free, may[0] if may else None)
            if gone is not None:
                yield self._request("delete", model, partial(self.delete, model, gone))
                yield self._request("which", model, partial(self.follow_up, model, gone, "delete"))

    def say(self, kind: str, model: Any, call: Call, **more: Any) -> dict[str, Any]:
        """Say a sentence; every second language asks for a stream."""
        written = sentence(
            kind, model, self.language, **{k: more.pop(k) for k in ("ident", "said") if k in more}
        )
        stream = (self.at + len(kind)) % 2 == 1
        return self.person.say(written, call, stream=stream, **more)

    def tool(self, pattern: str, model: Any) -> str:
        """Return the name of an entity's tool."""
        return pattern.format(self.names[model])

    # -- reading ----------------------------------------------------------------------------------------

    def list(self, model: Any) -> None:
        """The first records, and a second message in the same conversation."""
        query: Call = self.tool("query_{}", model), {}
        answer = self.say("list", model, query)
        judging.rows(self.person, model, answer["results"])
        expect(answer["reply"], "there is a table and no word")
        again = self.say("list", model, query, conversationId=answer["conversationId"])
        expect(again["conversationId"] == answer["conversationId"], "it was another conversation")
        judging.rows(self.person, model, again["results"])

    def record(self, model: Any) -> None:
        """One record by its key."""
        with self.world.rights(self.person.actor, self.site) as rights:
            pk = self.world.rng("honest record", self.number + self.at).choice(list(rights.rows(model)))
        ident = ident_of(model, pk)
        if ident:
            answer = self.say(
                "record", model, (self.tool("query_{}", model), {"filters": {"id": str(pk)}}), ident=ident
            )
            judging.rows(self.person, model, answer["results"], keys=[pk])

    def filter(self, model: Any, said: Said) -> None:
        """The records with a value."""
        call = self.tool("query_{}", model), {"filters": {said.field: said.given}}
        answer = self.say("filter", model, call, said=said)
        with self.world.rights(self.person.actor, self.site) as rights:
            attname = model._meta.get_field(said.field).attname
            keys = [
                pk
                for pk, obj in rights.rows(model).items()
                if getattr(obj, attname) == said.typed and said.field in rights.readable(model, pk)
            ]
        judging.rows(self.person, model, answer["results"], keys=keys)

    def count(self, model: Any) -> None:
        """How many there are."""
        answer = self.say("count", model, (self.tool("count_{}", model), {}))
        judging.number(self.person, model, answer["results"])

    def second(self, model: Any) -> None:
        """The record that an answer showed second, or first where there is one only."""
        query: Call = self.tool("query_{}", model), {}
        before = self.say("list", model, query)
        urls = [row["url"] for row in before["results"][-1]["rows"]]
        if len(urls) < 2:
            return
        call = query[0], {"filters": {"id": "r1.2"}}
        answer = self.say("second", model, call, conversationId=before["conversationId"])
        with self.world.rights(self.person.actor, self.site) as rights:
            keys = [
                pk
                for pk, obj in rights.rows(model).items()
                if judging.path_of(self.site, model, obj) == urls[1]
            ]
        judging.rows(self.person, model, answer["results"], keys=keys)

    def headless(self, model: Any) -> None:
        """The first records, from the command line."""
        written, out = sentence("list", model, self.language), io.StringIO()
        scope = self.world.scope(self.person.actor, self.site)
        query: Call = self.tool("query_{}", model), {}
        with self.person.model(query):
            call_command(
                "copilot_ask",
                written,
                user=self.person.actor.name,
                site=self.site.name,
                host=scope.host,
                language=self.language,
                scope=[f"{key}={value}" for key, value in scope.keys.items()],
                json=True,
                stdout=out,
            )
        self.person.judge(out.getvalue(), "the command line's report")
        judging.rows(self.person, model, json.loads(out.getvalue())["results"])

    # -- forms and delete pages -------------------------------------------------------------------------

    def _proposed(self, model: Any, obj: Any, said: Said) -> dict[str, Any]:
        fields = {"fields": {said.field: said.given}}
        if obj is None:
            answer = self.say("add", model, (self.tool("open_{}_form", model), fields), said=said)
        else:
            call = self.tool("open_{}_form", model), {"id": str(obj.pk), **fields}
            answer = self.say("change", model, call, ident=ident_of(model, obj.pk), said=said)
        action: dict[str, Any] = answer.get("action") or {}
        expect(action, f"no form was opened: {answer['reply'][:300]}")
        expect(action["path"] == judging.path_of(self.site, model, obj), f"it leads to {action['path']}")
        return action

    def form(self, model: Any, obj: Any, said: Said) -> None:
        """A form filled in with a value."""
        action = self._proposed(model, obj, said)
        judging.filled(
            self.person, model, obj, said, html=self.person.open(action["path"], action["queryParams"])
        )

    def save(self, model: Any, obj: Any, said: Said) -> None:
        """A form filled in and saved."""
        action = self._proposed(model, obj, said)
        judging.saved(
            self.person, model, obj, said, html=self.person.open(action["path"], action["queryParams"])
        )

    def delete(self, model: Any, obj: Any) -> None:
        """The delete page of a record."""
        call = self.tool("confirm_delete_{}", model), {"id": str(obj.pk)}
        answer = self.say("delete", model, call, ident=ident_of(model, obj.pk))
        self._deleted(model, obj, answer)

    def _deleted(self, model: Any, obj: Any, answer: dict[str, Any]) -> None:
        action = answer.get("action") or {}
        expect(action, f"no delete page was opened: {answer['reply'][:300]}")
        path = judging.path_of(self.site, model, obj, page="delete")
        expect(action["path"] == path, f"it leads to {action['path']}")
        judging.deleted(self.person, model, obj, html=self.person.open(path, action["queryParams"]))

    def follow_up(self, model: Any, obj: Any, kind: str) -> None:
        """A request that does not say which record, and the answer to the question which."""
        which = "ask_user", {"text": "Which one?", "kind": "text"}
        asked = self.say(f"{kind} which", model, which)
        expect(asked.get("question"), f"it was not asked which: {asked['reply'][:300]}")
        tool = "open_{}_form" if kind == "change" else "confirm_delete_{}"
        call = self.tool(tool, model), {"id": str(obj.pk)}
        answer = self.person.say(str(obj.pk), call, conversationId=asked["conversationId"])
        if kind == "delete":
            self._deleted(model, obj, answer)
            return
        action = answer.get("action") or {}
        expect(action, f"no form was opened: {answer['reply'][:300]}")
        expect(action["path"] == judging.path_of(self.site, model, obj), f"it leads to {action['path']}")
        self.person.open(action["path"], action["queryParams"])


# -- the project's own ----------------------------------------------------------------------------------------


def _of_project(world: World) -> Iterator[Request]:
    """Give what ``honest()`` of the project asks: (name, username, message, check), check(answer) → problem or "".

    A part of the name that is a language's code says in which language the admin is shown. A fifth thing is the call
    (name, arguments) that answers it, for a model to make where the offline backend does not get the message.
    """
    honest: Any = getattr(world.project, "honest", None)
    people: dict[tuple[str, str], Person] = {}
    for name, username, message, check, *call in honest() if honest is not None else ():
        language = next((part for part in name.split("/") if part in languages()), languages()[0])
        person = people.get((username, language))
        if person is None:
            person = Person(world, _account(username), _site_of(world), language)
            people[username, language] = person
        yield Request(f"project/{name}", person, _asking(person, message, check, *call))


def _asking(
    person: Person, message: str, check: Callable[[dict[str, Any]], str], call: Call | None = None
) -> Callable[[], None]:
    def ask() -> None:
        problem = check(person.say(message, call))
        expect(not problem, problem)

    return ask


def _account(username: str) -> Actor:
    return find_actors([username])[0]


def _site_of(world: World) -> AdminSite:
    return next((each for each in world.sites if each.name == "admin"), world.sites[0])


__all__: Sequence[str] = ("LEAST", "Request", "run")
