"""The page of a plan, and proposing the same values again on what the record holds now."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from django.apps import apps
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from .. import plans
from ..access import Access, EntityAccess
from ..declaration import admin_of, model_field
from ..display import display, field_label
from ..exceptions import CallError, ScopeUnavailable
from ..identity import parse_key
from ..models import Plan, PlanKind, PlanState
from ..plans.projection import as_json
from ..plans.rights import find
from ..prefill import fill_from_store, open_form
from ..scope import enter_scope, page_url
from ..snapshots import differences, snapshot
from ..switch import is_off
from ..tools.lists import RUN, told_of
from ..values import clean_text
from .base import ApiError, check_switch, json_answer, not_here, wants_json
from .decisions import MakeAgainView, PlanPage

_PAGES: dict[str, str] = {PlanKind.DELETE: "delete", PlanKind.LIST: "changelist"}


class OwnPlan(PlanPage):
    """A view of one own plan of the admin's pages; everything else is not there."""

    def plan(self, request: HttpRequest, ident: str) -> Plan:
        """Return the plan. Raises ApiError."""
        found = plans.find_plan(request.user, self.scope, ident)
        if found is None or found.kind == PlanKind.TOOL or self.admin_of(found) is None:
            not_here()
        return found

    def admin_of(self, plan: Plan) -> Any:
        """Return the ModelAdmin of the plan's model, or None when it is not registered here any more."""
        try:
            return admin_of(self.site, apps.get_model(plan.model))
        except LookupError:
            return None

    def url(self, name: str, *args: Any) -> str:
        """Return one of the site's addresses."""
        return reverse(f"admin:{name}", args=args, current_app=self.site.name)

    def page_of(self, plan: Plan) -> str:
        """Return the address that opens the plan's page with its values."""
        page = _PAGES.get(plan.kind) or ("change" if plan.object_pk else "add")
        path = page_url(self.admin_of(plan), page, quote(plan.object_pk) if plan.object_pk else None)
        fragment = plans.fragment(plan)
        query = urlencode(plans.query_params(plan))
        return f"{path}{'?' if query else ''}{query}{'#' if fragment else ''}{fragment}"


class PlanView(OwnPlan):
    """What was proposed, and where it stands."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest, ident: str) -> HttpResponse:
        """Return the plan."""
        of_tool = find(ident, self.by)
        if of_tool is not None:
            told = as_json(of_tool, self.by)
            if wants_json(request):
                return json_answer(told)
            ends = of_tool.approve_by if "approve" in told["can"] else of_tool.expires_at
            told |= {"created_at": of_tool.created_at, "expires_at": ends}
            return self.page(request, "plan_detail.html", title=told["summary"], plan=told)
        plan = self.plan(request, ident)
        model = apps.get_model(plan.model)
        changes: list[dict[str, str]] = []
        record, changed = "", False
        list_: dict[str, Any] = {
            "ids": [],
            "action": "",
            "count": 0,
            "notice": _not_ticked(is_openable=False),
        }
        try:
            with enter_scope(self.scope, request.user.pk) as scoped:
                entity = Access(self.site, scoped).of_model(model)
                if entity is not None and plan.kind == PlanKind.LIST:
                    list_ = ticks(plan, entity)
                elif entity is not None:
                    changes, record, changed = _changes(plan, entity)
        except (CallError, ScopeUnavailable):
            pass  # the page says when it was proposed and where it stands, and nothing of the record
        openable, state = plans.is_openable(plan), str(plan.state)
        state_label = str(plan.get_state_display())
        if state == PlanState.PROPOSED and not openable:
            state, state_label = "expired", _("expired")
        elif openable and changed:
            state, state_label = "stale", _("out of date: the record was changed since")
        shown: dict[str, Any] = {
            "id": str(plan.pk),
            "kind_label": str(plan.get_kind_display()),
            "state_label": state_label,
            "model_label": str(capfirst(model._meta.verbose_name)),
            "record_label": record,
            "created_at": plan.created_at,
            "expires_at": plan.expires_at,
            "changes": changes,
            "can_open": openable and not changed,
            "stale": state == "stale",
            "open_url": self.page_of(plan),
            "again_url": self.url("django_copilot_plan_again", plan.pk)
            if plan.state == PlanState.PROPOSED
            else "",
            "result_url": page_url(self.admin_of(plan), "change", quote(plan.result_pk))
            if plan.result_pk and plan.kind == PlanKind.FORM
            else "",
            "result_label": _("Open the saved record"),
        }
        if plan.kind == PlanKind.LIST:
            shown["notice"] = list_.get("notice", "")
        if wants_json(request):
            if plan.kind == PlanKind.LIST and (not openable or is_off(self.site.name)):
                list_ = {"ids": [], "action": "", "count": 0, "notice": _not_ticked(is_openable=openable)}
            of_list = (
                {**list_, "path": urlsplit(self.page_of(plan)).path} if plan.kind == PlanKind.LIST else {}
            )
            return json_answer(
                {
                    **of_list,
                    "id": shown["id"],
                    "kind": plan.kind,
                    "state": state,
                    "changes": changes,
                    "expiresAt": plan.expires_at.isoformat(),
                    "url": request.path,
                }
            )
        return self.page(request, "plan_detail.html", title=_("Proposal of the assistant"), plan=shown)


def ticks(plan: Plan, entity: EntityAccess) -> dict[str, Any]:
    """Return which rows of the admin's list a plan ticks and which action it chooses, with the rights of now.

    ``ids`` are the keys as the admin's own boxes have them, ``count`` how many there were when it was made.
    """
    stored, action = plan.document["ids"], plan.document["action"]
    action = action if action in entity.actions else ""
    with entity.at("changelist"):
        keys = [parse_key(entity.model, each) for each in stored]
        visible = entity.visible({*keys})
    ids = [str(key) for key in keys if key in visible]
    ticked, press = told_of(entity, len(ids), action)
    chosen = _("“%(action)s” is chosen.") % {"action": entity.action_label(action)} if action else ""
    return {
        "ids": ids,
        "action": action,
        "count": len(stored),
        "notice": f"{ticked} {press}" if ids else _("None of these rows can be ticked any more."),
        "chosen": chosen,
        "press": press,
        "button": _(RUN),
    }


def _not_ticked(*, is_openable: bool) -> str:
    if is_openable:
        return _("The assistant is turned off on this site. Nothing was ticked.")
    return _("This proposal is too old to be opened. Nothing was ticked.")


def _changes(plan: Plan, entity: EntityAccess) -> tuple[list[dict[str, str]], str, bool]:
    """Return old and new values as this person's form would show them, the record's label, and if it changed."""
    obj = entity.record(plan.object_pk) if plan.object_pk else None
    if plan.kind == PlanKind.DELETE:
        return [], clean_text(str(obj)), False
    changed = False
    with entity.at("change" if obj is not None else "add", obj):
        filled = fill_from_store(entity, obj, plan.values)
        if obj is not None:
            now = snapshot(entity.model_admin, entity.request, obj, plan.base["fields"])
            changed = any(differences(plan.base, now))
    changes = []
    for name, value in filled.typed.items():
        field = model_field(entity.model, name)
        old = ""
        if obj is not None and field is not None:
            old = display(field, list(getattr(obj, name).all()) if field.many_to_many else getattr(obj, name))
        changes.append(
            {
                "field": name,
                "label": field_label(entity.model, name),
                "old": clean_text(old),  # plain text, though a label may be marked as safe HTML
                "new": clean_text(display(field, value)),
            }
        )
    return changes, clean_text(str(obj)) if obj is not None else "", changed


class AgainView(OwnPlan):
    """Make the proposal again, without the model."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, ident: str) -> HttpResponse:
        """Store a new plan with the same values and go to its page."""
        found = plans.find_plan(request.user, self.scope, ident)
        if found is None or found.kind == PlanKind.TOOL:  # which also tells the audit of what is not hers
            return cast(HttpResponse, MakeAgainView.as_view(site=self.site)(request, ident))
        plan = self.plan(request, ident)
        check_switch(self.site)
        if plan.state == PlanState.EXECUTED:
            return self.go("django_copilot_plan_detail", plan.pk)
        base: dict[str, Any] = {}
        try:
            with enter_scope(self.scope, request.user.pk) as scoped:
                entity = Access(self.site, scoped).labelled(plan.model)
                if entity is None:
                    not_here()
                if plan.object_pk:
                    obj = entity.record(plan.object_pk)
                    if plan.kind == PlanKind.FORM:
                        with entity.at("change", obj):  # as when it was proposed first
                            base = snapshot(entity.model_admin, scoped, obj, open_form(entity, obj).fields)
        except (CallError, ScopeUnavailable):
            raise ApiError(404, "not_found") from None
        renewed = plans.renew(plan, scope=self.scope, base=base)
        if renewed is None:
            return self.go("django_copilot_plan_detail", plan.pk)
        return HttpResponseRedirect(self.page_of(renewed))
