"""THE SECURITY BOUNDARY: the only caller of tool bodies.

A call arrives as a name and a raw JSON text from a model that may be hostile. It leaves as an outcome, or as
an error that the model may read. What holds here, each with a test named after its number:

1. Only this module calls a tool body or a step of a write tool. No body that a model's call reaches writes to
   a record; whatever changes data is handed to a person as a form, a delete page or a plan. A step that has an
   effect needs a ``Grant``, and a grant is worth what the plan's stored row says: claimed, with that key, by
   its requester's confirmation and, where one is needed, another person's approval.
2. The actor comes from the stored owner of the turn, loaded freshly for every call. Nothing in a call can
   name an actor, an approver, a confirmation, a category, a key or a version: unknown arguments are refused.
   Nobody is no confirmer, and neither is a service account.
3. Objects come from ``ModelAdmin.get_queryset(request)`` and pass ``has_*_permission(request, obj)``, on a
   request built from the stored scope; a scope that can't be entered is a refusal.
4. Tool, entity and field names come from the registry and the declaration; values travel as parameters;
   a name with a lookup separator is just an unknown name.
5. Nothing outside readable ∩ declared reaches an outcome, and an error names only what may be read.
8. Rights are asked on every call: site access, ``use_copilot``, model and object permissions.
9. An exception anywhere in a check or a body is a refusal, never a pass. A site that was turned off runs no
   call.
10. The copilot's own models are no entities (``declaration.is_declared``).
11. No transaction or lock outlives a call; a call to another system is made outside of both.

(Numbers 6, 7 and 12 belong to plans and to what a person is told; see ``plans`` and ``runtime``.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.apps import apps
from django.conf import settings as django_settings
from django.contrib.admin import AdminSite
from django.db import connections
from django.utils import translation

from .access import Access, EntityAccess
from .backends.base import ToolCall
from .conf import get_settings
from .database import contained, release_connections
from .declaration import SECRET, never_readable
from .exceptions import CallError, NoGrant, Refused, ScopeUnavailable
from .identity import key_text
from .models import Plan, PlanState
from .people import is_service_account
from .reading import cut
from .references import References, is_handle
from .scope import Scope, enter_scope, load_person
from .tools import entity as bodies
from .tools.approval import needs_approval
from .tools.arguments import clean_arguments, from_stored, to_stored
from .tools.base import Failed, Outcome, Planned, Told
from .tools.context import Bound, Context
from .tools.document import Looked, PlanDraft, draft_of, effects_document, restored, typed
from .tools.further import kinds_of
from .tools.guard import only_reading, through_context
from .tools.offered import may_use_tool
from .tools.schema import ASK_USER, FIND_ENTITIES, PLAIN, tool_names
from .tools.shapes import arguments_of, parse_arguments
from .tools.through_form import Change, as_held, check_changes, save_changes, value_of
from .tools.write import Category, Effect, Preview, WriteTool, all_tools
from .values import to_json

logger = logging.getLogger("django_copilot")

Body = Callable[[EntityAccess, Mapping[str, Any]], Outcome]
_BODIES: dict[str, Body] = {
    "query": bodies.query,
    "form": bodies.open_entity_form,
    "delete": bodies.confirm_delete,
    "count": bodies.count,
    "summary": bodies.summarise,
    "history": bodies.history,
    "list": bodies.open_entity_list,
}


def run(
    site: AdminSite, scope: Scope, user_pk: Any, call: ToolCall, *, references: References | None = None
) -> Outcome:
    """Run one tool call for one person and return its outcome. Raises ScopeUnavailable, and nothing else.

    ``references`` are those of the conversation that the call was made in; a call can name no others.
    There is an outcome even where the project's own scope swallows what happens in it.
    """
    try:
        with enter_scope(scope, user_pk) as request, contained():
            if request.user.copilot_off:  # asked along with loading her
                raise Refused("The assistant was turned off.", code="switched_off")
            access = Access(site, request, references)
            access.check_person()
            return _dispatch(access, call)
    except CallError as error:
        return Failed(content={"error": {"code": error.code, "message": error.message, **error.details}})
    except ScopeUnavailable:
        raise
    except Exception:
        logger.exception("A tool call failed and was refused: %s", call.name[:64])
        return Failed(content={"error": {"code": "failed", "message": "The call could not be carried out."}})


def _dispatch(access: Access, call: ToolCall) -> Outcome:
    if call.name == ASK_USER.name:
        return bodies.ask_user(arguments_of("question", call))
    if call.name == FIND_ENTITIES.name:
        return bodies.find_entities(access, arguments_of("find", call))
    tool = all_tools().get(call.name)
    if tool is not None and may_use_tool(access, tool):
        return _call_tool(access, tool, parse_arguments(call.arguments))
    kind, entity = _target(access, call.name)
    shape = "wide query" if kind == "query" and entity.asks_more else kind
    return _BODIES[kind](entity, arguments_of(shape, call))


def _target(access: Access, name: str) -> tuple[str, EntityAccess]:
    """Return the kind of tool and the entity that a name stands for among those this person can use."""
    for entity in access.all():
        for kind, tool in tool_names(entity.name).items():
            if tool == name and entity.is_usable and (kind in PLAIN or kind in kinds_of(entity)):
                return kind, entity
    raise Refused("There is no such tool. Use only the tools that were given.", code="unknown_tool")


# -- write tools: looking -----------------------------------------------------------------------------------


def _call_tool(
    access: Access, tool: WriteTool, given: Mapping[str, Any], *, handled: bool = False
) -> Told | Planned:
    """Run a project's read-only tool, or look at what another one would do. Raises CallError."""
    if not handled and _handles_in(given):
        return _call_with_handles(access, tool, given)
    arguments = clean_arguments(tool.arguments, given)
    if tool.category is Category.READ_ONLY:
        ctx = Context(access, tool.verb)
        with only_reading():
            answer = _step(tool, "preview")(ctx, **arguments)
        content = {"result": cut(to_json(answer), get_settings().RESULT_BYTES // 4)}
        told: dict[str, tuple[str, ...]] = {}
        for bound in ctx.bound.values():
            if access.labelled(bound.model) is not None:
                told[bound.model] = ()
        return Told(tool=tool.name, content=content, told=told)
    looked = _look(access, tool, to_stored(arguments), dry_run=None)
    draft = _draft(access, looked, handled=handled)
    is_entity = access.labelled(draft.model) is not None
    return Planned(tool=tool.name, draft=draft, told={draft.model: ()} if is_entity else {})


def _handles_in(given: Any) -> bool:
    if isinstance(given, Mapping | list):
        return any(_handles_in(each) for each in (given.values() if isinstance(given, Mapping) else given))
    return is_handle(given)


def _call_with_handles(access: Access, tool: WriteTool, given: Mapping[str, Any]) -> Told | Planned:
    """Look at what a tool would do with values that the model may not get. Raises CallError.

    Only a tool that hands its answer to a person takes them, and what it says of them is not told.
    """
    if tool.category is Category.READ_ONLY:
        raise Refused("A handle can't stand here: what this tool answers goes to you.", code="invalid_handle")
    filled = {name: access.filled_in(value) for name, value in given.items()}
    try:
        return _call_tool(access, tool, filled, handled=True)
    except CallError:
        raise Refused(
            "This could not be prepared. Why is not told, since it may speak of what a handle stands for.",
            code="refused",
        ) from None


def look_again(access: Access, plan: Plan) -> tuple[Looked, PlanDraft]:
    """Make the preview of a stored plan once more, as its requester, with what is true now. Raises CallError."""
    tool = _tool_of(access, plan)
    if plan.undo_of_id:
        looked = _look_at_undo(access, tool, plan.undo_of)
    else:
        looked = _look(access, tool, plan.arguments, dry_run=plan.document.get("dry_run", ()))
    return looked, _draft(access, looked, plan=plan)


def look_afresh(access: Access, plan: Plan) -> PlanDraft:
    """Return the draft of a new plan for the same call, its dry run included. Raises CallError."""
    looked = _look(access, _tool_of(access, plan), plan.arguments, dry_run=None)
    return _draft(access, looked, handled="handled" in plan.document)


def _tool_of(access: Access, plan: Plan) -> WriteTool:
    tool = all_tools().get(plan.tool)
    if tool is None or tool.problems:
        raise Refused("There is no such tool any more.", code="tool_changed")
    if not may_use_tool(access, tool):
        raise Refused("This person may not use this tool any more.", code="not_allowed")
    return tool


def look_at_undo(access: Access, plan: Plan) -> PlanDraft:
    """Return the draft of the plan that puts back what an executed plan changed. Raises CallError."""
    tool = _tool_of(access, plan)
    return _draft(access, _look_at_undo(access, tool, plan), undoes=plan.pk)


def _draft(
    access: Access, looked: Looked, *, plan: Plan | None = None, undoes: Any = None, handled: bool = False
) -> PlanDraft:
    requester = access.request.user.pk
    # Once a second person was needed she stays so: what was before her may have left the window since.
    needed = (plan is not None and plan.needs_approval) or needs_approval(
        looked, requester=requester, plan_id=plan.pk if plan is not None else None
    )
    undoes = plan.undo_of_id if plan is not None else undoes
    return draft_of(
        looked,
        needs_approval=needed,
        scope=access.request.copilot_scope,
        requester=requester,
        undoes=undoes,
        handled=handled or (plan is not None and "handled" in plan.document),
    )


def _look(
    access: Access, tool: WriteTool, stored: Mapping[str, Any], *, dry_run: Sequence[Any] | None
) -> Looked:
    """Ask a tool's preview, with nothing but reading allowed, in one language whatever the person's.

    ``dry_run`` is what it said when the plan was made; None asks it.
    """
    ctx = Context(access, tool.verb)
    arguments = from_stored(tool.arguments, stored)
    with translation.override(django_settings.LANGUAGE_CODE), only_reading():
        preview = _step(tool, "preview")(ctx, **arguments)
        if not isinstance(preview, Preview):
            raise TypeError(f"{tool.where} must return a Preview.")
        with through_context():
            looked = _looked(
                tool, stored, ctx, preview, own_way=tool.has_step("apply"), dry_run=dry_run or ()
            )
    if dry_run is None and tool.has_step("dry_run"):
        with translation.override(django_settings.LANGUAGE_CODE), only_reading(may_call=True):
            said = [
                each if isinstance(each, Effect) else Effect(each) for each in _step(tool, "dry_run")(preview)
            ]
        return Looked(**{**vars(looked), "dry_run": effects_document(said)})
    return looked


def _look_at_undo(access: Access, tool: WriteTool, plan: Any) -> Looked:
    if plan is None or plan.state != PlanState.EXECUTED or not tool.reversible or tool.has_step("apply"):
        raise Refused("This can't be undone.", code="not_undoable")
    with translation.override(django_settings.LANGUAGE_CODE), only_reading(), through_context():
        ctx = Context(access, "change")
        record = ctx.get(apps.get_model(plan.model), pk=plan.object_pk)
        target = ctx.bound[plan.model, plan.object_pk]
        changes: dict[str, Any] = {}
        for each in plan.document["changes"]:
            field = record._meta.get_field(each["field"])
            if typed(value_of(record, field), field) != each["new"]:
                raise Refused(
                    "The value was changed again since; it can't be put back.", code="changed_since"
                )
            changes[field.name] = restored(ctx, field, each["old"])
        preview = Preview(
            target.before,
            changes=changes,
            amount=plan.amount,
            system={"undoes": str(plan.pk)},
            touched=plan.document.get("touched", ()),
        )
        looked = _looked(tool, {}, ctx, preview, own_way=False, dry_run=())
        old = {each["field"]: each["old"] for each in plan.document["changes"]}
        if any(typed(each.new, each.field) != old[each.field.name] for each in looked.changes):
            raise Refused("The form takes the old value in another way only.", code="not_undoable")
        return looked


def _looked(
    tool: WriteTool,
    stored: Mapping[str, Any],
    ctx: Context,
    preview: Preview,
    *,
    own_way: bool,
    dry_run: Sequence[Any],
) -> Looked:
    record = preview.record
    target = ctx.bound.get((record._meta.label_lower, key_text(type(record), record.pk)))
    if target is None or (target.verb != tool.verb and tool.verb != "view"):
        raise TypeError(f"{tool.where}: the record of a Preview must come from ctx.get.")
    if own_way or tool.is_external:
        changes = _own_changes(tool, target, preview)
    elif not preview.changes:
        raise TypeError(f"{tool.where}: a Preview without changes needs a tool with an apply or a call step.")
    else:
        changes = check_changes(ctx, target, preview.changes)
        if all(typed(each.old, each.field) == typed(each.new, each.field) for each in changes):
            raise Refused("Nothing would change: the record holds these values already.", code="no_change")
    return Looked(
        tool=tool,
        arguments=stored,
        preview=preview,
        ctx=ctx,
        target=target,
        changes=changes,
        dry_run=dry_run,
        unchanged=_sets_of(target.before, {each.field.name for each in changes} | {*preview.touched}),
    )


def _own_changes(tool: WriteTool, target: Bound, preview: Preview) -> list[Change]:
    """Return what a tool says it changes in a way of its own, and not through the form that would know the fields.

    A secret may not be among them: it would stand in the plan and in the audit.
    """
    with target.entity.at("change", target.before):
        shown = target.entity.shows(target.before)
    changes = []
    for name, new in preview.changes.items():
        if never_readable(target.entity.model, name) or (name not in shown and SECRET.search(name)):
            raise TypeError(f"{tool.where}: {name} is a secret; name it in touched= instead of showing it.")
        field = target.before._meta.get_field(name)
        changes.append(Change(field=field, old=value_of(target.before, field), new=as_held(field, new)))
    return changes


def _sets_of(obj: Any, without: set[str]) -> dict[str, str]:
    """Return the many-to-many fields of a record that are not to change, as typed text."""
    return {
        field.name: typed(value_of(obj, field))
        for field in obj._meta.local_many_to_many
        if field.name not in without and field.remote_field.through._meta.auto_created
    }


# -- write tools: doing -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Names the claimed plan for which a step may run. It proves nothing by itself: see ``_check_grant``."""

    plan_id: Any
    tool: str
    key: str
    requester: str  # keys of people, as text
    confirmed_by: str
    approved_by: str = ""


class EffectDiffers(Exception):
    """What is in the database after an effect is not what was shown."""


def _check_grant(grant: Grant, tool: WriteTool, *, records_only: bool = False) -> Plan:
    """Return the plan that a grant names if the stored row bears it out. Raises NoGrant, ScopeUnavailable.

    ``records_only`` is for writing down how a call ended: the people may be gone or uncertain by then.
    """
    plan = Plan.objects.filter(pk=grant.plan_id).first() if isinstance(grant, Grant) else None
    # What was closed as failed may turn out to have been done.
    ends = (PlanState.EXECUTING, PlanState.UNCERTAIN, PlanState.FAILED)
    claimed = ends if records_only else (PlanState.EXECUTING,)
    if plan is None or plan.state not in claimed:
        raise NoGrant("No plan is being carried out under this grant.")
    if (plan.tool, str(plan.key), plan.confirmed_by, plan.approved_by) != (
        tool.name,
        grant.key,
        grant.confirmed_by,
        grant.approved_by,
    ):
        raise NoGrant("The grant is of another plan.")
    if not grant.confirmed_by or grant.requester != grant.confirmed_by:
        raise NoGrant("A plan is confirmed by the person who asked for it, and by nobody else.")
    if plan.needs_approval and grant.approved_by in ("", grant.requester, plan.proposed_by):
        raise NoGrant("The plan needs the approval of a second person.")
    if records_only:
        return plan
    if grant.requester != str(plan.user_id):
        raise NoGrant("The person who asked for it has no account any more.")
    for key in filter(None, (grant.confirmed_by, grant.approved_by)):
        if is_service_account(load_person(key)):
            raise NoGrant("A service account decides nothing.")
    return plan


def perform(looked: Looked, grant: Grant) -> dict[str, Any] | None:
    """Do what a plan shows, inside the caller's transaction: a tool's own way, or through the admin's form.

    Returns the tool's result. Raises NoGrant, EffectDiffers, Refused, and whatever the project's code raises.
    """
    tool, target = looked.tool, looked.target
    plan = _check_grant(grant, tool)
    result: Any = None
    with translation.override(django_settings.LANGUAGE_CODE):
        if tool.has_step("apply") and not plan.undo_of_id:
            result = _step(tool, "apply")(looked.ctx, looked.preview, grant)
        else:
            obj = target.before._meta.model._base_manager.get(pk=target.before.pk)
            save_changes(target.entity, obj, looked.preview.changes, plan_id=plan.pk)
        _check_effect(looked)
    return result if isinstance(result, dict) else None


def _check_effect(looked: Looked) -> None:
    """Read the record back and raise EffectDiffers unless it holds what was shown, and what it held before."""
    before = looked.target.before
    after = type(before)._base_manager.filter(pk=before.pk).first()
    if after is None:
        if looked.tool.verb == "delete" and not looked.changes:
            return
        raise EffectDiffers("the record is not there any more")
    shown = {each.field.name: typed(each.new, each.field) for each in looked.changes}
    for field in before._meta.concrete_fields:
        if field.name in shown or field.name in looked.preview.touched or getattr(field, "auto_now", False):
            continue
        if typed(value_of(after, field), field) != typed(value_of(before, field), field):
            raise EffectDiffers(f"{field.name} was changed, and was not shown")
    if _sets_of(after, {*shown, *looked.preview.touched}) != looked.unchanged:
        raise EffectDiffers("related records were changed, and were not shown")
    for each in looked.changes:
        if typed(value_of(after, each.field), each.field) != shown[each.field.name]:
            raise EffectDiffers(f"{each.field.name} holds something else than was shown")


def reserve(looked: Looked, grant: Grant) -> None:
    """Run the reserving step of an external tool, inside the transaction that claims the plan."""
    _check_grant(grant, looked.tool)
    if looked.tool.has_step("reserve"):
        _step(looked.tool, "reserve")(looked.ctx, looked.preview, grant)


def call_out(tool: WriteTool, step: Literal["call", "look_up"], grant: Grant, payload: str) -> Any:
    """Ask the other system, with no transaction open. Raises NoGrant, CallFailed, or anything."""
    if step == "call":
        _check_grant(grant, tool)
    for each in connections.all(initialized_only=True):
        if each.in_atomic_block and not all(
            getattr(block, "_from_testcase", False) for block in each.atomic_blocks
        ):
            raise NoGrant("Another system is never asked inside a transaction.")
    release_connections()
    return _step(tool, step)(json.loads(payload) if payload else None, grant.key)


def settle(tool: WriteTool, grant: Grant, *, succeeded: bool, result: Mapping[str, Any] | None) -> None:
    """Run the step that records how a call ended, inside the transaction that closes the plan."""
    _check_grant(grant, tool, records_only=True)
    if tool.has_step("settle"):
        _step(tool, "settle")(grant, succeeded, dict(result) if result is not None else None)


def _step(tool: WriteTool, name: Any) -> Callable[..., Any]:
    function = tool.step(name)
    if function is None:
        raise NoGrant(f"{tool.where} has no {name} step.")
    return function
