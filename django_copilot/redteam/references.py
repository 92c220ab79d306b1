"""References to rows that another conversation has shown, of anybody's and on any site, and to rows that are hers no longer.

Real turns through the chat, so that what was shown is really stored. A reference of another conversation must be
answered exactly as one that nothing ever had, and one to a record that went out of her sight exactly as one to a
record that is gone: whichever tool takes it, as an id or within a handle.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from django.contrib.admin import AdminSite
from django.db import models

from ..declaration import entities_of
from .client.attack import own_scopes
from .client.projects import more_sites, surroundings
from .honest.asking import Person, Problem, undone
from .interference import without
from .people import Actor
from .world import NotRun, World

PART = "references"
UNKNOWN = "r998"  # nothing is shown that often here
Call = tuple[str, Mapping[str, Any]]


def run(world: World, *, number: int, calls: int) -> None:
    """Try the references of each person on each site, of one entity after the other, until so many calls are made."""
    if not world.sites:
        raise NotRun("nothing is declared on any admin site")
    rng, made = world.rng(PART, number), 0
    with surroundings(), own_scopes(world), more_sites(world.sites[0]) as (second, _bare):
        trials = [
            Trial(world, actor, site, name, second=second, rng=rng)
            for site in world.sites
            for actor in world.actors
            if actor.may_chat
            for name in entities_of(site)
        ]
        rng.shuffle(trials)
        trials.sort(key=lambda each: not each.takes_more)  # what takes references in most ways comes first
        for trial in trials:
            if made >= calls:
                break
            made += trial.run()
    world.report.count("tool calls", made)
    world.check_ended(case=f"{PART}, seed {world.seed}, batch {number}")


class Trial:
    """What one person was shown of one entity on one site, and what can be done with its names elsewhere."""

    def __init__(
        self, world: World, actor: Actor, site: AdminSite, name: str, *, second: AdminSite, rng: random.Random
    ) -> None:
        self.world, self.actor, self.site, self.name, self.second, self.rng = (
            world, actor, site, name, second, rng,
        )  # fmt: skip
        self.entity = entities_of(site)[name]
        self.model_admin: Any = self.entity.model_admin
        self.calls = 0

    @property
    def takes_more(self) -> bool:
        """Tell whether the entity can be searched or keeps values for people."""
        declared = self.model_admin
        return bool(declared.harness_show or declared.harness_search or declared.harness_from_admin)

    def run(self) -> int:
        """Show some rows and try their names. Returns how many calls were made."""
        shown = self.show(self.person(self.actor, self.site))
        if shown is None:
            return self.calls
        conversation, keys = shown
        own = self.ask(self.person(self.actor, self.site), [self.by_id("r1.1")], conversation)
        if own and own[0].get("rows"):
            self.world.report.count("references that lead to their record")
        self.elsewhere("another conversation of hers", self.person(self.actor, self.site))
        others = [each for each in self.world.actors if each.pk != self.actor.pk and self._could_see(each)]
        if others:
            self.elsewhere("another person's conversation", self.person(self.rng.choice(others), self.site))
        if self.second is not self.site:
            self.elsewhere("a conversation on another site", self.person(self.actor, self.second))
        self.of_another_kind(conversation)
        self.gone(conversation, keys[0])
        return self.calls

    def _could_see(self, other: Actor) -> bool:
        """Tell whether a reference could tell somebody else anything at all."""
        if not other.may_chat:
            return False
        with self.world.rights(other, self.site) as rights:
            return bool(rights.rows(self.entity.model))

    def person(self, actor: Actor, site: AdminSite) -> Person:
        """Return somebody for whom a scripted model answers."""
        person = Person(self.world, actor, site, "en")
        person.scripted = True
        person.case = (
            f"{PART}, seed {self.world.seed}: {self.name} of {self.actor.name}, by {actor.name}@{site.name}"
        )
        return person

    def ask(self, person: Person, calls: Sequence[Call], conversation: str = "") -> list[dict[str, Any]]:
        """Let a model make calls in a turn, and return what it was told; nothing where she gets no answer."""
        self.calls += len(calls)
        more: dict[str, Any] = {"conversationId": conversation} if conversation else {}
        try:
            person.say("go on", list(calls), **more)
        except Problem as problem:
            self.world.report.found(7, f"a turn was not answered: {problem}", case=person.case)
            return []
        return person.told_to_model

    def show(self, person: Person) -> tuple[str, list[Any]] | None:
        """Let rows be shown in a new conversation; the second thing shown is them too. None where there are none."""
        with self.world.rights(self.actor, self.site) as rights:
            if not rights.rows(self.entity.model):
                return None
        self.calls += 2
        try:
            answer = person.say("show", [(f"query_{self.name}", {"limit": 3})] * 2)
        except Problem as problem:
            self.world.report.found(7, f"a turn was not answered: {problem}", case=person.case)
            return None
        urls = [row["url"] for table in answer["results"] for row in table["rows"]]
        told = person.told_to_model
        if not urls or [each.get("ref") for each in told] != ["r1", "r2"]:
            return None
        with self.world.rights(self.actor, self.site) as rights:
            by_text = {str(pk): pk for pk in rights.rows(self.entity.model)}
        keys = [by_text.get(url.rstrip("/").split("/")[-2]) for url in urls if url]
        return (answer["conversationId"], keys) if keys and keys[0] is not None else None

    # -- what is tried -------------------------------------------------------------------------------------

    def by_id(self, reference: str) -> Call:
        """Return the question for the record of a reference."""
        return f"query_{self.name}", {"filters": {"id": reference}}

    def uses(self, reference: str) -> Iterator[Call]:
        """Go through the calls that take a reference, or a handle with one."""
        name, declared = self.name, self.model_admin
        for field in (*declared.harness_show, *declared.harness_list)[:3]:
            yield f"query_{name}", {"filters": {field: f"‹{field} {reference}›"}}
            yield f"count_{name}", {"filters": {field: f"‹{field} {reference}›"}}
        yield from self.ids(reference)
        for field in declared.harness_persist[:1]:
            given = (*declared.harness_show, *declared.harness_list)[0]
            yield f"open_{name}_form", {"fields": {field: f"‹{given} {reference}›"}}

    def ids(self, reference: str) -> Iterator[Call]:
        """Go through the calls that take a reference where an id stands, first those that end no turn."""
        name = self.name
        yield self.by_id(reference)
        yield f"query_{name}", {"filters": {"id": {"in": [reference]}}}
        yield f"query_{name}", {"after": reference}
        yield f"count_{name}", {"filters": {"id": reference}}
        yield f"summarise_{name}", {"measures": [{"op": "count"}], "filters": {"id": reference}}
        yield f"history_{name}", {"id": reference}
        for _place in range(2):
            yield self.by_id(reference)  # so that the rest is of another round
        yield f"open_{name}_list", {"ids": [reference]}
        yield f"open_{name}_form", {"id": reference, "fields": {}}
        yield f"confirm_delete_{name}", {"id": reference}

    def elsewhere(self, where: str, person: Person) -> None:
        """Compare a reference that was given in another conversation with one that never was."""
        try:
            answer = person.say("show", [(f"query_{self.name}", {"limit": 1})])  # r1, and no r2
        except Problem as problem:
            self.world.report.found(7, f"a turn was not answered: {problem}", case=person.case)
            return
        self.calls += 1
        first = "r2" if any(each.get("ref") for each in person.told_to_model) else "r1"
        self.compare(
            f"a reference used in {where}", person, answer["conversationId"], f"{first}.1", f"{UNKNOWN}.1"
        )

    def of_another_kind(self, conversation: str) -> None:
        """Compare a reference to a row of another entity with one that never was."""
        others = [each for each in entities_of(self.site) if each != self.name]
        if others:
            other = Trial(
                self.world, self.actor, self.site, self.rng.choice(others), second=self.second, rng=self.rng
            )
            person = self.person(self.actor, self.site)
            what = "a reference to a record of another kind"
            # As an id only: a handle may well stand for a value of another kind of record.
            other.compare(what, person, conversation, "r1.1", f"{UNKNOWN}.1", uses=other.ids)
            self.calls += other.calls

    def compare(
        self,
        what: str,
        person: Person,
        conversation: str,
        one: str,
        other: str,
        *,
        uses: Callable[[str], Iterator[Call]] | None = None,
    ) -> None:
        """Use both references and report each call that is answered otherwise, or with anything but an error."""
        uses = uses or self.uses
        told = [self.ask(person, [*uses(each)], conversation) for each in (one, other)]
        self._same_end(what, person, told)
        for call, first, second in zip(uses(one), *told, strict=False):
            same = _text(first).replace(one, "#") == _text(second).replace(other, "#")
            if not same or "error" not in first:
                self.world.report.found(
                    4,
                    f"{what} is answered {_text(first)[:200]}, one that never was {_text(second)[:200]}",
                    case=f"{person.case}: {call}",
                )

    def _same_end(self, what: str, person: Person, told: list[list[dict[str, Any]]]) -> None:
        """Report a turn that went on less long than another one: a call ended it, with a page to open."""
        if len(told[0]) != len(told[1]):
            self.world.report.found(4, f"{what} ends a turn, and nothing else does", case=person.case)

    def gone(self, conversation: str, pk: Any) -> None:
        """Compare a record that went out of her sight since it was shown with one that is not there any more."""
        model = self.entity.model
        ways: tuple[Callable[[], AbstractContextManager[None]], ...] = (
            partial(_out_of_sight, self.model_admin, pk),
            partial(without, {model: [pk]}),
        )
        person, requests = self.person(self.actor, self.site), list[list[str]]()
        told: list[list[dict[str, Any]]] = []
        for way in ways:
            with undone(), way():
                told.append(self.ask(person, [*self.uses("r1.1")], conversation))
                requests.append(person.sent)
        self._same_end("a record out of sight", person, told)
        for call, first, second in zip(self.uses("r1.1"), *told, strict=False):
            if first != second or not _is_nothing(first):
                self.world.report.found(
                    4,
                    f"a record out of sight is answered {_text(first)[:200]}, one that is gone {_text(second)[:200]}",
                    case=f"{person.case}: {call}",
                )
        if requests[0] != requests[1]:
            self.world.report.found(
                4, "the model is sent something else for a record out of sight than for one that is gone",
                case=person.case,
            )  # fmt: skip


def _text(told: Mapping[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, sort_keys=True)


def _is_nothing(told: Mapping[str, Any]) -> bool:
    """Tell whether an answer is an error, or tells of no record."""
    groups = told.get("groups", ())
    return "error" in told or not (
        told.get("rows") or told.get("count") or any(each["values"][0] for each in groups)
    )


@contextmanager
def _out_of_sight(model_admin: Any, pk: Any) -> Iterator[None]:
    """Let an admin give everybody all rows but one, inside the block."""
    own = model_admin.get_queryset

    def all_but_one(request: Any) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = own(request).exclude(pk=pk)
        return rows

    with mock.patch.object(model_admin, "get_queryset", all_but_one):
        yield
