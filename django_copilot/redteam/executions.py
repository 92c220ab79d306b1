"""Oracle 5: what was carried out joins to what a person sent, on what she had been shown, and nothing else was.

The ledger is kept by whoever sends requests, as they are sent: who, what, on which digest, and how the plan stood
before and after. Whether she may is asked of the admin's own hooks at that moment, not of what is judged here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models

from ..audit.verification import verify
from ..exceptions import CopilotError
from ..models import AuditEntry, Plan, PlanKind, PlanState
from ..people import is_service_account
from ..scope import Scope, enter_scope
from ..tools.write import all_tools
from .outside import Outside, opened
from .people import Actor
from .world import World

USE, APPROVE = "django_copilot.use_copilot", "django_copilot.approve_plan"
OPEN = ("proposed", "awaiting_approval")
CLAIMED = ("executing", "executed", "uncertain", "undone")
_FORM = re.compile(
    r'action="[^"]*/plan/([0-9a-f-]{36})/(?:confirm|approve)/".*?name="digest" value="(\w+)"', re.DOTALL
)


@dataclass(kw_only=True)
class Decision:
    """One POST to an address that decides, or to a page of the admin's with a plan in its form."""

    number: int
    verb: str  # "confirm", "approve", …, and "save" or "delete" for the admin's own pages
    plan: str
    person: str  # key of the account whose session it was, "" for nobody
    herself: bool  # a person, and nobody acts as her
    may_not: str  # what stands against her by the admin's own hooks, "" for nothing
    sent: str  # the digest, "" where none or no text was sent
    was_shown: bool  # whether that digest of that plan was on something she had been given
    case: str
    before: str = ""
    after: str = ""
    status: int = 0

    @property
    def is_right(self) -> bool:
        """Tell whether a plan may be carried out on it as far as the person and what she saw are concerned."""
        return self.herself and not self.may_not and self.was_shown and self.status not in (0, 401, 403, 404)

    def __str__(self) -> str:
        return f"{self.verb} of {self.plan} by {self.person or 'nobody'} ({self.case})"


@dataclass
class Ledger:
    """What was sent to carry plans out, and what people had been shown before."""

    decisions: list[Decision] = field(default_factory=list)
    known: frozenset[str] = frozenset()  # plans that were claimed before it was opened
    done: frozenset[str] = frozenset()  # keys that the stand-in knew before
    reused: int = 0  # keys that had come back to it with another payload before
    _shown: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # person, plan → digests

    @classmethod
    def opened(cls) -> Ledger:
        """Begin a ledger; what was carried out before is not its business."""
        outside = find_outside()
        return cls(
            known=frozenset(map(str, claimed_plans().values_list("pk", flat=True))),
            done=frozenset(outside.done) if outside is not None else frozenset(),
            reused=len(outside.changed) if outside is not None else 0,
        )

    def show(self, person: str, text: str) -> None:
        """Keep each digest in an answer that a person was given: a page, or JSON."""
        for plan, digest in _FORM.findall(text):
            self._shown.setdefault((person, plan), set()).add(digest)
        if text[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                for plan, digest in _digests(json.loads(text)):
                    self._shown.setdefault((person, plan), set()).add(digest)

    def shown(self, person: str, plan: str) -> frozenset[str]:
        """Return the digests of a plan that a person was shown so far."""
        return frozenset(self._shown.get((person, plan), ()))

    @contextmanager
    def deciding(
        self,
        world: World,
        actor: Actor | None,
        site: AdminSite,
        *,
        verb: str,
        plan: str,
        sent: Any,
        herself: bool,
        case: str,
    ) -> Iterator[Decision]:
        """Note a POST. Whoever sends it inside the block sets ``status``."""
        found = find_plan(plan)
        person = str(actor.pk) if actor is not None else ""
        decision = Decision(
            number=len(self.decisions),
            verb=verb,
            plan=str(found.pk) if found is not None else plan,
            person=person,
            # A form of the admin's is anybody's to save who may; it needs no plan.
            herself=verb in ("save", "delete")
            or (herself and actor is not None and actor.kind != "service account"),
            may_not=why_not(world, actor, site, found, verb)
            if found is not None
            else "there is no such plan",
            sent=sent if isinstance(sent, str) else "",
            was_shown=verb in ("save", "delete"),
            case=case,
            before=found.state if found is not None else "",
        )
        if found is not None and isinstance(sent, str) and sent == found.digest:
            decision.was_shown |= sent in self.shown(person, str(found.pk))
        self.decisions.append(decision)
        yield decision
        after = find_plan(plan)
        decision.after = after.state if after is not None else ""

    def of(self, plan: Plan, *verbs: str) -> Iterator[Decision]:
        """Go through what was sent about a plan."""
        ident = str(plan.pk)
        return (each for each in self.decisions if each.plan == ident and each.verb in verbs)


def _digests(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        ident, digest = value.get("id"), value.get("digest")
        if isinstance(ident, str) and isinstance(digest, str):
            yield ident, digest
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _digests(each)


def find_plan(ident: str) -> Plan | None:
    """Return a plan by the text of its id, or None for what names none."""
    try:
        return Plan.objects.filter(pk=ident).first()
    except (ValidationError, ValueError):
        return None


def claimed_plans() -> models.QuerySet[Plan]:
    """Return the plans that somebody has begun to carry out, however that ended."""
    begun = models.Q(state__in=CLAIMED)
    begun |= models.Q(state=PlanState.FAILED) & (models.Q(attempts__gt=0) | ~models.Q(confirmed_by=""))
    return Plan.objects.filter(begun).order_by("created_at")


def find_outside() -> Outside | None:
    """Return the stand-in that write tools reach at the moment, if it is one of ours."""
    outside = opened()
    return outside if isinstance(outside, Outside) else None


# -- who may ------------------------------------------------------------------------------------------------


def why_not(world: World, actor: Actor | None, site: AdminSite, plan: Plan, verb: str) -> str:
    """Return what forbids a person to confirm or approve a plan, or to save its form, now; "" for nothing.

    Asked of the account and of the ModelAdmins, on a request in the plan's own scope and a freshly loaded person.
    """
    if actor is None:
        return "nobody"
    if plan.site != site.name:
        return "it is another site's"
    try:
        with enter_scope(Scope.from_json(plan.scope), actor.pk) as request:
            return _why_not(site, request, actor, plan, verb)
    except (CopilotError, ObjectDoesNotExist) as error:
        return f"her scope can't be entered: {error}"


def _why_not(site: AdminSite, request: Any, actor: Actor, plan: Plan, verb: str) -> str:
    user, own = request.user, str(actor.pk) == str(plan.user_id)
    if not (user.is_active and site.has_permission(request)):
        return "she is no staff of the site"
    if verb in ("save", "delete"):
        return "" if own else "it is another person's"
    if plan.kind != PlanKind.TOOL:
        return "it is carried out on a page of the admin's"
    if is_service_account(user):
        return "it is a service account"
    tool = all_tools().get(plan.tool)
    if verb != "approve":
        if not own:
            return "it is another person's"
        if not user.has_perms((USE, *(tool.permissions if tool is not None else ()))):
            return "she may not use the assistant or this tool"
        return _why_not_record(site, request, plan.model, plan.object_pk, _verb_of(plan))
    if own or str(actor.pk) in (plan.confirmed_by, plan.proposed_by):
        return "she asked for it herself"
    if not user.has_perms((APPROVE, *(tool.approve_permissions if tool is not None else ()))):
        return "she may not approve"
    for each in plan.document["records"]:
        why = _why_not_record(site, request, each["model"], each["pk"], "view")
        if why:
            return why
    return ""


def _verb_of(plan: Plan) -> str:
    tool = all_tools().get(plan.tool)
    return tool.verb if tool is not None else "change"


def _why_not_record(site: AdminSite, request: Any, label: str, pk: str, verb: str) -> str:
    model = apps.get_model(label)
    model_admin = site._registry.get(model)
    if model_admin is None:
        return f"{label} is not on the site"
    if not model_admin.has_module_permission(request):
        return f"she may not open {label}"
    obj = model_admin.get_queryset(request).filter(pk=pk).first()
    if obj is None:
        return f"{label} {pk} is not among her rows"
    asked = {"view": model_admin.has_view_or_change_permission, "change": model_admin.has_change_permission}
    asked["delete"] = model_admin.has_delete_permission
    hook = asked.get(verb, model_admin.has_view_or_change_permission)
    return "" if hook(request, obj) else f"she may not {verb} {label} {pk}"


# -- the join -----------------------------------------------------------------------------------------------


def check_moved(world: World, decision: Decision) -> None:
    """Report a decision that has moved its plan on and may not have. For one that was alone at it."""
    moved = decision.before in OPEN and decision.after in (*CLAIMED, "awaiting_approval", "failed")
    if not moved or decision.after == decision.before or decision.is_right:
        return
    why = (
        decision.may_not
        or ("" if decision.herself else "it is not a person who acts for herself")
        or ("" if decision.was_shown else "she was not shown that digest")
        or f"the answer was {decision.status}"
    )
    world.report.found(
        5, f"{decision.before} → {decision.after} by {decision.verb}, though {why}", case=decision.case
    )


def check_executions(world: World, ledger: Ledger, *, case: str = "", audit: bool = True) -> None:
    """Report each execution since the ledger was opened that does not join (oracle 5).

    With ``audit`` the whole chains are verified, too, which takes the longer the longer they are.
    """
    idents = [pk for pk in claimed_plans().values_list("pk", flat=True) if str(pk) not in ledger.known]
    new = [plan for ident in idents if (plan := find_plan(str(ident))) is not None]
    entries = _entries(new)
    for plan in new:
        told = entries.get(str(plan.pk), [])
        for problem in (*_unjoined(ledger, plan), *_untold(plan, told)):
            world.report.found(
                5, f"{plan.kind} plan {plan.pk} ({plan.tool}, {plan.state}): {problem}", case=case
            )
    outside = find_outside()
    if outside is not None:
        for problem in _outside(ledger, outside):
            world.report.found(5, problem, case=case)
    for site in Plan.objects.order_by("site").values_list("site", flat=True).distinct() if audit else ():
        broken = verify(site)
        if broken is not None:
            world.report.found(5, f"the audit does not verify: {broken}", case=case)


def _unjoined(ledger: Ledger, plan: Plan) -> Iterator[str]:
    """Give what a plan lacks of the requests that it takes."""
    if plan.kind != PlanKind.TOOL:
        if not any(each.is_right for each in ledger.of(plan, "save", "delete")):
            yield "no submitted form of its owner's"
        return
    owner = str(plan.user_id or plan.confirmed_by)
    confirms = [each for each in ledger.of(plan, "confirm") if each.is_right and each.before in OPEN]
    if not any(each.person == owner and each.sent == plan.digest for each in confirms):
        yield "no confirmation by its owner on the digest shown to her"
    if plan.confirmed_by != owner:
        yield f"confirmed by {plan.confirmed_by!r}, and it is {owner}'s"
    if plan.needs_approval:
        approvals = [each for each in ledger.of(plan, "approve") if each.is_right]
        second = {each.person for each in approvals if each.sent == plan.digest} - {owner, plan.proposed_by}
        if not second:
            yield "no approval by a second person on the digest shown to her"
        if plan.approved_by not in second:
            yield f"approved by {plan.approved_by!r}, who sent nothing"
    elif plan.approved_by:
        yield f"approved by {plan.approved_by!r}, and it needs no approval"


def _entries(plans: list[Plan]) -> dict[str, list[AuditEntry]]:
    found: dict[str, list[AuditEntry]] = {}
    idents = [str(each.pk) for each in plans]
    for at in range(0, len(idents), 500):
        for entry in AuditEntry.objects.filter(plan__in=idents[at : at + 500]).order_by("site", "number"):
            found.setdefault(entry.plan, []).append(entry)
    return found


def _untold(plan: Plan, told: list[AuditEntry]) -> Iterator[str]:
    """Give what the audit does not say of a plan."""
    events = [(each.event, each.actor) for each in told]
    names = [event for event, _actor in events]
    if plan.kind != PlanKind.TOOL:
        if "executed" not in names:
            yield "the audit does not say that it was carried out"
        return
    if ("confirmed", plan.confirmed_by) not in events:
        yield "the audit does not say that she confirmed it"
    if plan.needs_approval and ("approved", plan.approved_by) not in events:
        yield "the audit does not say who approved it"
    wanted = {
        "executing": "executing",
        "executed": "executed",
        "undone": "undone",
        "failed": "failed",
        "uncertain": "uncertain",
    }[plan.state]
    if wanted not in names:
        yield f"the audit does not say that it is {plan.state}"
    if {*_told_digests(told)} - {plan.digest}:
        yield "the audit speaks of another digest"
    if names.count("executed") > 1:
        yield f"the audit says {names.count('executed')} times that it was carried out"


def _told_digests(told: list[AuditEntry]) -> Iterator[str]:
    for each in told:
        if isinstance(each.about, Mapping) and each.event in (
            "confirmed",
            "approved",
            "executing",
            "executed",
        ):
            yield str(each.about.get("digest", ""))


def _outside(ledger: Ledger, outside: Outside) -> Iterator[str]:
    """Give what other systems did that no claimed plan stands behind, or did twice."""
    for key in outside.changed[ledger.reused :]:
        yield f"the other system was asked for something else under the key {key}"
    for key in sorted({*outside.done} - ledger.done):
        try:
            plan = Plan.objects.filter(key=key).first()
        except ValidationError:
            plan = None
        if plan is None:
            yield f"the other system did {key}, which is no plan's"
        elif not plan.confirmed_by or (plan.needs_approval and not plan.approved_by):
            yield f"the other system did plan {plan.pk}, which was not decided"
        elif json.loads(outside.done[key]) != json.loads(plan.payload or "null"):
            yield f"the other system did something else than the payload of plan {plan.pk}"
