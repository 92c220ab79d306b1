"""What a person does with a plan of a write tool: short POSTs, as JSON or as an ordinary HTML form.

Nothing here decides: ``plans`` does, under a lock, and what is answered is read from the database afterwards.
A refusal is told with its code; a plan that is not this person's to see is not there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from .. import audit
from ..declaration import has_entities
from ..exceptions import Denied
from ..models import Plan, PlanKind
from ..plans import decisions, execution, inbox, trail, undoing
from ..plans.deciders import Decider
from ..plans.projection import as_json, urls_of
from ..plans.rights import APPROVE, find, is_visible
from ..plans.states import clocked
from ..plans.texts import code_text, reply_of
from ..scope import Scope
from ..values import made_visible
from .base import ApiError, OwnPage, admit, json_answer, not_here, scope_of, sent_fields, wants_json

logger = logging.getLogger("django_copilot")


class PlanPage(OwnPage):
    """A page or an action for those who own plans, and those who approve them."""

    by: Decider

    def admit_person(self, request: HttpRequest) -> Scope:
        """Admit whoever may use the assistant, and whoever may approve: she need not use it herself."""
        if has_entities(self.site) and self.site.has_permission(request) and request.user.has_perm(APPROVE):
            scope = scope_of(request, self.site)
        else:
            scope = admit(request, self.site, request.user)
        self.by = Decider.of(request, self.site, scope)
        return scope


class InboxView(PlanPage):
    """What waits for this person: her own plans, and those of others that she can approve."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Return the plans that wait, as a page or as JSON with their number."""
        mine, theirs = list(inbox.own_waiting(self.by)[: inbox.LISTED]), inbox.to_approve(self.by)
        if wants_json(request):  # every page asks for the number
            waiting = len(mine) + len(theirs)
            plans = [as_json(each, self.by) for each in (*mine, *theirs)[: inbox.TOLD]]
            text = ngettext("%(count)d plan waits for you", "%(count)d plans wait for you", waiting)
            return json_answer({"waiting": waiting, "text": text % {"count": waiting}, "plans": plans})
        return self.page(
            request,
            "plan_list.html",
            title=_("Plans that wait"),
            own=[as_json(each, self.by) for each in mine],
            approvals=[as_json(each, self.by) for each in theirs],
            latest=[as_json(each, self.by) for each in inbox.own_latest(self.by)],
            others=self.others(request),
        )

    def others(self, request: HttpRequest) -> list[dict[str, str]]:
        """Return the other pages of the copilot that this person may open."""
        pages = (
            ("use_copilot", "conversation_changelist", _("Conversations")),
            ("view_metrics", "metrics", _("Figures")),
            ("view_audit", "auditentry_changelist", _("Audit")),
            ("use_switch", "switch", _("Turn off and on")),
        )
        return [
            {
                "url": reverse(f"admin:django_copilot_{name}", current_app=self.site.name),
                "label": label,
            }
            for permission, name, label in pages
            if request.user.has_perm(f"django_copilot.{permission}")
        ]


class _Decision(PlanPage):
    """One POST by which a person decides something about one plan."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, ident: str) -> HttpResponse:
        """Decide, and answer from what is stored afterwards."""
        given = sent_fields(request)
        plan = find(ident, self.by)
        if plan is None:
            self._note(ident, "not_found")
            not_here()
        try:
            decided = self.decide(plan, given)
        except Denied as denied:
            if denied.status == 404:
                self._note(ident, "not_found")
                not_here()
            return self._denied(request, plan, denied)
        except OperationalError as error:  # a deadlock, or a database that is locked
            logger.warning("A decision on plan %s could not be made: %s", plan.pk, error)
            return self._denied(request, plan, Denied("try_again"))
        now = decisions.current(decided.pk)
        shown, reply = as_json(now, self.by), self.reply(now)
        if wants_json(request):
            return json_answer({"plan": shown, "reply": reply})
        messages.info(request, reply, fail_silently=True)
        return _see(shown["url"])

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Do it, and return the plan to show. Raises Denied."""
        raise NotImplementedError

    def reply(self, plan: Plan) -> str:
        """Return the sentence that the answer comes with."""
        return reply_of(plan)

    def _denied(self, request: HttpRequest, plan: Plan, denied: Denied) -> HttpResponse:
        made = denied.plan
        # A fresh plan in place of a stale one is not the approver's to see before its owner has confirmed it.
        shown = made if isinstance(made, Plan) and is_visible(made, self.by.user) else plan
        current = decisions.current(shown.pk)
        text = code_text(denied.code, otherwise=made_visible(denied.text))  # a tool refuses in its own words
        if wants_json(request):
            body = {"code": denied.code, "detail": text, "plan": as_json(current, self.by)}
            return json_answer(body, denied.status)
        messages.warning(request, text, fail_silently=True)
        return _see(urls_of(current)["url"])

    def _refuse(self, request: HttpRequest, error: ApiError) -> HttpResponse:
        """Refuse as every page does, and write it down where there is such a plan."""
        ident = request.resolver_match.kwargs.get("ident") if request.resolver_match else None
        if request.method == "POST" and error.status_code in (400, 401, 403):
            self._note(ident, str(error.code), request)
        return super()._refuse(request, error)

    def _note(self, ident: Any, code: str, request: HttpRequest | None = None) -> None:
        """Tell the audit of somebody who could not even try. It changes nothing if that fails."""
        try:
            ident = uuid.UUID(ident)
        except (ValueError, TypeError, AttributeError):
            return  # nobody's plan
        try:
            plan = clocked(Plan.objects.filter(pk=ident, site=self.site.name, kind=PlanKind.TOOL)).first()
            if plan is None:
                return
            by = getattr(self, "by", None)
            if by is None and request is not None and request.user.is_authenticated:
                by = Decider.of(request, self.site, Scope(site=self.site.name))
            audit.append(plan.site, plan.scope_key, trail.entry(plan, "refused", by=by, code=code))
        except Exception:
            logger.exception("A refused decision could not be written to the audit.")


class ConfirmView(_Decision):
    """Confirm a plan on the digest of what was shown."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Confirm it."""
        return decisions.confirm(plan.pk, given.get("digest"), self.by)


class ApproveView(_Decision):
    """Approve another person's plan on the digest of what was shown."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Approve it."""
        return decisions.approve(plan.pk, given.get("digest"), self.by)


class RejectView(_Decision):
    """Decline a plan, with or without a reason."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Decline it."""
        reason = given.get("reason", "")
        return decisions.reject(plan.pk, reason if isinstance(reason, str) else "", self.by)


class UndoView(_Decision):
    """Make the plan that puts back what this one changed."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Make it."""
        return undoing.undo(plan, self.by)


class MakeAgainView(_Decision):
    """Make the plan again with what is true now, without the model."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Make it."""
        return undoing.again(plan, self.by)


class LookUpView(_Decision):
    """Ask the other system what became of an uncertain operation."""

    knew = True

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Ask."""
        self.knew = execution.look_up(plan, self.by)
        return plan

    def reply(self, plan: Plan) -> str:
        """Say so if the other system does not know it."""
        return reply_of(plan) if self.knew else _("The other system never got it. Try again.")


class SettleView(_Decision):
    """Let a second person say how an uncertain operation ended."""

    def decide(self, plan: Plan, given: Mapping[str, Any]) -> Plan:
        """Settle it."""
        outcome, reason = given.get("outcome"), given.get("reason")
        execution.settle(
            plan,
            self.by,
            outcome=outcome if isinstance(outcome, str) else "",
            reason=reason if isinstance(reason, str) else "",
        )
        return plan


def _see(url: str) -> HttpResponse:
    answer = HttpResponseRedirect(url)
    answer.status_code = 303
    return answer
