"""Honest plans: proposed, confirmed on their digest, approved by somebody else where that is needed, and undone.

Which calls somebody may make is the project's to say (``calls()``). Each person tries them until one gives a plan;
everything is taken back at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.apps import apps

from ...people import is_service_account
from ...plans.rights import APPROVE
from ...scope import PERMISSION
from ...tools.write import Always, Category, Never, all_tools
from .. import tables
from ..outside import Outside
from ..people import Actor
from ..world import World
from .asking import Person, Problem, expect, undone
from .sentences import languages

Arguments = Mapping[str, Any]
_CALLS = 400  # of the project that are looked at
_TRIED = 24  # of one tool, by one person
_IN_VAIN = 8  # until it is clear that she may not


def ask_all(
    world: World, outside: Outside, *, in_each_language: bool
) -> Iterator[tuple[str, Person | None, str]]:
    """Ask for plans and decide on them; give the name, who asked, and "" or what went wrong.

    Each person asks in one language, or ``in_each_language``.

    Names are ``support/en/plan/refund_payment``, with ``approved`` where a second person was needed and ``told``
    for a tool that only reads.
    """
    given: Any = getattr(world.project, "calls", None)
    calls: dict[str, list[Arguments]] = {}
    for tool, arguments in islice(given() if given is not None else (), _CALLS):
        calls.setdefault(tool, []).append(arguments)
    for tool, tried in calls.items():
        done = 0
        for person in _people(world, in_each_language):
            for kind, problem in _of_tool(person, outside, tool, tried):
                done += 1
                yield f"{person.actor.name}/{person.language}/{kind}/{tool}", person, problem
        if not done:
            yield f"anybody/{tool}", None, f"nobody was given a plan by {min(len(tried), _IN_VAIN)} calls"


def _people(world: World, in_each_language: bool) -> Iterator[Person]:
    spoken = languages()
    for site in world.sites:
        for number, actor in enumerate(world.actors):
            if actor.user().has_perm(PERMISSION):
                for language in spoken if in_each_language else [spoken[number % len(spoken)]]:
                    yield Person(world, actor, site, language)


def _of_tool(
    person: Person, outside: Outside, tool: str, calls: Sequence[Arguments]
) -> Iterator[tuple[str, str]]:
    """Try calls of a tool until there was a plan with and one without a second person, as far as there are such."""
    person.scripted = True  # the calls are the project's own, to the letter
    person.case = f"honest plan {person.actor.name}/{person.language}/{tool}"
    declared = all_tools()[tool]
    reads = declared.category == Category.READ_ONLY
    one_kind = (
        reads or isinstance(declared.approval, Always | Never) or is_service_account(person.actor.user())
    )
    seen: set[str] = set()
    # Calls of one kind may stand together, or come every so often.
    mixed = person.world.rng(f"honest/{tool}", 0).sample(calls, min(_TRIED, len(calls)))
    for number, arguments in enumerate(mixed):
        if number == _IN_VAIN and not seen:
            return
        with undone():
            try:
                kind = (
                    _read(person, tool, arguments) if reads else _plan(person, outside, tool, arguments, seen)
                )
                problem = ""
            except Problem as failed:
                kind, problem = "plan", str(failed)
            except Exception as error:
                kind, problem = "plan", f"{type(error).__name__}: {error}"
        if problem or (kind and kind not in seen):
            seen.add(kind)
            yield kind, problem
        if problem or len(seen) == (1 if one_kind else 2):
            return


def _read(person: Person, tool: str, arguments: Arguments) -> str:
    """Call a tool that only reads; "" when this call gives her nothing."""
    answer = person.say(f"Do {tool}", (tool, arguments))
    results = person.told_to_model
    if any("error" in each for each in results):
        return ""
    expect(answer["reply"] and results, f"{tool} was called, and nothing was said")
    return "told"


def _plan(person: Person, outside: Outside, tool: str, arguments: Arguments, seen: set[str]) -> str:
    """Ask for a plan and carry it out; return its kind, or "" when she gets none or one of a kind that was seen."""
    answer = person.say(f"Do {tool}", (tool, arguments))
    plan = answer.get("plan")
    if plan is None:
        return ""
    kind = "approved" if plan["needsApproval"] else "plan"
    if kind in seen or is_service_account(person.actor.user()):
        return "" if kind in seen else "proposed"
    expect(plan["state"] == "proposed", f"the plan is {plan['state']}")
    before, called = tables.snapshot(), len(outside.done)
    record = _Record(plan["id"])
    decided = person.decide(plan["confirmUrl"], {"digest": plan["digest"]})["plan"]
    if plan["needsApproval"]:
        expect(decided["state"] == "awaiting_approval", f"the confirmed plan is {decided['state']}")
        expect(not tables.changes(before, tables.snapshot()), "it was carried out before it was approved")
        decided = _approved(person, plan)
    expect(decided["state"] == "executed", f"the plan is {decided['state']}: {decided['reason']}")
    record.check(plan["changes"])
    external = all_tools()[tool].is_external
    expect(len(outside.done) - called == external, f"{len(outside.done) - called} operations outside")
    expect(external or tables.changes(before, tables.snapshot()), "nothing has changed")
    _go_on(person, answer["conversationId"], plan)
    if plan["reversible"]:
        _undo(person, plan, record)
    return kind


class _Record:
    """The record of a plan, as it was when the plan was made."""

    def __init__(self, plan_id: str) -> None:
        plan = apps.get_model("django_copilot", "Plan").objects.get(pk=plan_id)
        self.model: Any = apps.get_model(plan.model)
        self.pk = plan.object_pk
        self.before = self.now()

    def now(self) -> Any:
        """Return the record as it is stored."""
        return self.model._base_manager.filter(pk=self.pk).first()

    def check(self, changes: Sequence[Mapping[str, Any]]) -> None:
        """Raise Problem unless the record holds each new value of the plan, as text, and nothing else is new."""
        now = self.now()
        names = {each["field"] for each in changes}
        for each in changes:
            value = getattr(now, each["field"])
            same = str(value) == str(each["new"]) or str(value).strip() == str(each["new"]).strip()
            shown = getattr(now, f"get_{each['field']}_display", lambda: None)()
            expect(same or shown == each["new"], f"{each['field']} is {value!r}, not {each['new']!r}")
        for field in self.model._meta.concrete_fields:
            if field.name not in names and not getattr(field, "auto_now", False):
                same = getattr(now, field.attname) == getattr(self.before, field.attname)
                expect(same, f"{field.name} has changed, and was not shown")


def _approved(person: Person, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Let the first other person who may approve do so. Raises Problem when nobody can."""
    told = []
    for actor in person.world.actors:
        if actor.pk != person.actor.pk and _may_approve(actor):
            other = Person(person.world, actor, person.site, person.language)
            other.case = person.case
            try:
                shown = other.look(plan["url"])
                decided: dict[str, Any] = other.decide(plan["approveUrl"], {"digest": shown["digest"]})[
                    "plan"
                ]
                return decided
            except Problem as problem:
                told.append(str(problem))
    raise Problem(f"nobody could approve it: {told or 'there is nobody'}")


def _may_approve(actor: Actor) -> bool:
    user = actor.user()
    return bool(user.has_perm(APPROVE)) and not is_service_account(user)


def _go_on(person: Person, conversation: str, plan: Mapping[str, Any]) -> None:
    """Let the turn that waited for the plan go on."""
    answer = person.say("", conversationId=conversation, **{"continue": plan["id"]})
    expect(answer["reply"], "the turn went on without a word")


def _undo(person: Person, plan: Mapping[str, Any], record: _Record) -> None:
    """Undo an executed plan by a plan of its own. Raises Problem unless the record is as it was."""
    undo = person.decide(plan["undoUrl"], {})["plan"]
    expect(undo["isUndo"] and undo["id"] != plan["id"], "there is no plan to undo it")
    decided = person.decide(undo["confirmUrl"], {"digest": undo["digest"]})["plan"]
    if undo["needsApproval"]:
        decided = _approved(person, undo)
    expect(decided["state"] == "executed", f"the plan to undo it is {decided['state']}: {decided['reason']}")
    now = record.now()
    for field in record.model._meta.concrete_fields:
        if not getattr(field, "auto_now", False):
            was, held = getattr(record.before, field.attname), getattr(now, field.attname)
            expect(held == was, f"{field.name} is not as it was: {str(held)[:80]!r}")
    shown = person.look(plan["url"])
    expect(shown["state"] == "undone", f"the undone plan is {shown['state']}")
