"""A draft: the values of a plan or of a hand-made link on their way into the admin's real form.

Opened once per request by ``HarnessMixin.changeform_view``, with the rights of that moment, and kept on the
request. It never touches the instance and never replaces what was posted: values go into ``initial`` of an
unbound form only, so that what the person accepted counts as changed.
"""

from __future__ import annotations

import functools
import json
import logging
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import translation
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from . import plans
from .access import Access
from .contrib.simple_history import note_plan
from .declaration import PRIVILEGES, model_field
from .display import field_label
from .exceptions import CallError, CopilotError, ScopeUnavailable
from .identity import key_text, own_key
from .marks import page_marks
from .models import Plan, PlanKind, PlanState
from .prefill import Filled, fill_from_store
from .scope import Scope, capture_scope, enter_scope, page_url
from .snapshots import conflict_text, differences, lock_record, snapshot
from .switch import is_off
from .values import is_clean

logger = logging.getLogger("django_copilot")

PARAMETERS = ("aiAction", "aiId", "aiPlan", "aiPrefill", "aiPreview")
PLAN_INPUT = "_copilot_plan"
MAX_LINK_CHARS = 20_000


def take_parameters(request: HttpRequest) -> dict[str, str]:
    """Return our own query parameters and remove them from the request.

    What the admin does not see can't be carried on to the next form, nor read as a field's value.
    """
    taken = {name: request.GET[name] for name in PARAMETERS if name in request.GET}
    if taken:
        rest = request.GET.copy()
        for name in taken:
            del rest[name]
        request.GET = rest  # type: ignore[assignment]
        kept = [
            pair for pair in parse_qsl(request.META.get("QUERY_STRING", ""), True) if pair[0] not in taken
        ]
        request.META["QUERY_STRING"] = urlencode(kept)
    return taken


class Draft:
    """Values for one form on one request. ``plan`` is None for those of a hand-made link."""

    def __init__(self, model_admin: Any, request: HttpRequest, scope: Scope | None, object_pk: str) -> None:
        self.model_admin, self.request, self.scope, self.object_pk = model_admin, request, scope, object_pk
        self.plan: Plan | None = None
        self.travels = False  # whether the form carries the plan's id
        self.typed: dict[str, Any] = {}
        self.notices: list[str] = []
        self.refusal: str | SafeString = ""  # why the submitted form may not be saved
        self.instance: Any = None  # the record of the form that is being saved
        self.saved: Any = None
        self._form_names: tuple[str, ...] = ()
        self._old: dict[str, Any] = {}
        self._form: Any = None  # the form that got the values, the last one if several were made

    # -- opening -----------------------------------------------------------------------------------

    @classmethod
    def open(cls, model_admin: Any, request: HttpRequest, object_id: str | None) -> Draft | None:
        """Return the draft that this request brings, or None. Removes our parameters from the request."""
        given = take_parameters(request)
        posted = request.method == "POST"
        plan_id = request.POST.get(PLAN_INPUT) if posted else given.get("aiPlan")
        if not plan_id and (posted or "aiPrefill" not in given or object_id is not None):
            return None
        if "_popup" in request.GET or "_popup" in request.POST or _is_action(request):
            return None
        object_pk = _canonical(model_admin.model, unquote(object_id)) if object_id is not None else ""
        try:
            scope = capture_scope(request, model_admin.admin_site)
        except CopilotError as error:
            logger.error("A proposal could not be opened: %s", error)
            scope = None
        draft = cls(model_admin, request, scope, object_pk)
        if not posted and is_off(model_admin.admin_site.name):  # a form that is open already can be saved
            draft.notices.append(_("The assistant is turned off on this site. Nothing was filled in."))
            return draft
        if plan_id:
            draft._read_plan(plan_id, posted)
        else:
            draft._read_link(given["aiPrefill"])
        return draft

    def _read_plan(self, plan_id: str, posted: bool) -> None:
        if self.scope is not None:
            self.plan = plans.find_plan(
                self.request.user,
                self.scope,
                plan_id,
                kind=PlanKind.FORM,
                model=self.model_admin.opts.label_lower,
                object_pk=self.object_pk,
            )
        if self.plan is None:
            if posted:
                self.detach(_("This proposal is not available here."))
            else:
                self.notices.append(_("This proposal is not available. Nothing was filled in."))
            return
        if "_saveasnew" in self.request.POST:
            self.object_pk = ""  # the admin makes a new record of the form; the old one is left alone
        if not posted and not plans.is_openable(self.plan):
            if self.plan.state == PlanState.EXECUTED:
                self.notices.append(_("This proposal was saved already. Nothing was filled in."))
            else:
                self.notices.append(_("This proposal is too old to be opened. Nothing was filled in."))
            return
        filled = self._fill(self.plan.values)
        self.travels = filled is not None
        if posted and not self.travels:
            self.detach(_("This proposal is not available any more."))
        elif self.travels and not posted and self.object_pk:
            self._warn_of_changes()

    def detach(self, reason: str) -> None:
        """Refuse this save and let the next one be an ordinary one, without the plan."""
        self.travels = False
        self.refusal = _(
            "%(reason)s Nothing was saved. Check the values and save again to save them without it."
        ) % {"reason": reason}

    def _read_link(self, raw: str) -> None:
        try:
            given = json.loads(raw) if len(raw) <= MAX_LINK_CHARS else None
            values = given if isinstance(given, dict) and is_clean(given) else None
        except (ValueError, RecursionError):
            values = None
        if values is None:
            self.notices.append(_("The values in the link can't be read. Nothing was filled in."))
            return
        self._fill(values, without=PRIVILEGES)

    def _fill(self, values: dict[str, Any], without: Any = ()) -> Filled | None:
        """Check the values with the rights of now and keep them; None when nothing can be filled in at all."""
        try:
            filled = self._filled(values, without)
        except CopilotError as error:
            logger.warning("A proposal could not be filled in: %s", error)
            filled = None
        except Exception:
            # Project code runs in there; a page that works without a proposal works with one.
            logger.exception("A proposal could not be filled in.")
            filled = None
        if filled is None:
            self.notices.append(_("This proposal is not available. Nothing was filled in."))
            return None
        self.typed, self._form_names = filled.typed, filled.form_names
        if filled.dropped:
            names = ", ".join(
                field_label(self.model_admin.model, name)
                for name in filled.dropped
                if model_field(self.model_admin.model, name) is not None
            )
            if names:
                self.notices.append(_("Not filled in: %(names)s.") % {"names": names})
        return filled

    def _filled(self, values: dict[str, Any], without: Any) -> Filled:
        if self.scope is None:
            raise ScopeUnavailable("The request's scope could not be captured.")
        with enter_scope(self.scope, self.request.user.pk) as request:
            access = Access(self.model_admin.admin_site, request)
            access.check_person()
            entity = access.of_model(self.model_admin.model)
            if entity is None:
                raise CallError("This is no entity that the person can use.", code="not_found")
            obj = entity.record(self.object_pk) if self.object_pk else None
            with entity.at("change" if obj is not None else "add", obj):
                filled = fill_from_store(entity, obj, values, without=without)
                if self.plan is None:
                    # Whoever wrote a link may have guessed names; only declared ones have an answer.
                    declared = entity.declared(obj)
                    filled = replace(filled, dropped=tuple(n for n in filled.dropped if n in declared))
                return filled

    def _warn_of_changes(self) -> None:
        """Say while the form is opened what would stop the save, and what nothing watches."""
        assert self.plan is not None
        base = self.plan.base
        try:
            obj = self.model_admin.model._base_manager.filter(pk=self.object_pk).first()
            now = snapshot(self.model_admin, self.request, obj, base["fields"]) if obj else base
        except Exception:
            logger.exception(
                "A record could not be compared with what it held; saving will compare it again."
            )
            now = base
        if any(differences(base, now)):
            self.notices.append(
                _(
                    "This record was changed after the proposal was made, so this form can't be saved. "
                    "Start again from the page of the proposal."
                )
            )
        if base.get("unprotected"):
            self.notices.append(
                _("Changes that others make here meanwhile are not noticed: %(names)s.")
                % {"names": ", ".join(base["unprotected"])}
            )

    def is_for(self, model_admin: Any, obj: Any) -> bool:
        """Tell whether a form of this ModelAdmin for this record is the draft's.

        A refusal holds for every form of the ModelAdmin.
        """
        if model_admin is not self.model_admin or self.refusal:
            return model_admin is self.model_admin
        return (key_text(type(obj), obj.pk) if obj is not None else "") == self.object_pk

    # -- the form ----------------------------------------------------------------------------------

    def form_class(self, base: Any) -> Any:
        """Return the admin's form class with the draft put into each of its forms."""
        draft = self

        class DraftForm(base):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                draft.attach(self)

            def full_clean(self) -> None:
                super().full_clean()
                if draft.refusal and self.is_bound:
                    self.add_error(None, ValidationError(draft.refusal, code="copilot"))

            def save(self, commit: bool = True) -> Any:
                draft.instance = self.instance
                if draft.plan is not None:
                    note_plan(self.instance, draft.request.user, draft.plan.pk)
                return super().save(commit=commit)

            def _save_m2m(self) -> None:
                # Part of every way to save a form, whatever a project's save_model leaves out.
                super()._save_m2m()
                draft.note_saved(self.instance)

        # A new class makes its fields anew from the model: what a project's get_form did to its own class, a
        # narrower queryset or a disabled field, must stay.
        DraftForm.base_fields = base.base_fields
        DraftForm.__name__ = base.__name__
        return DraftForm

    def attach(self, form: Any) -> None:
        """Put the values into an unbound form, and the plan's id beside each of them."""
        names = [name for name in self.typed if name in form.fields and not form.fields[name].disabled]
        self._form = form
        for name in names:
            field = form.fields[name]
            # A field with a callable default would carry the proposal in its hidden initial value, and
            # what the person accepts would count as unchanged.
            field.show_hidden_initial = False
            self._old[name] = form.get_initial_for_field(field, name)
            if not form.is_bound:
                form.initial[name] = self.typed[name]
        if self.plan is not None and self.travels:
            # Inside a widget the input survives every theme and template; blocks around forms do not. And
            # a template may leave out any single field.
            for name in dict.fromkeys([*names, *list(form.fields)[:1]]):
                widget = form.fields[name].widget
                widget.render = functools.partial(_render_with_plan, widget.render, str(self.plan.pk))

    def marks(self, form: Any) -> dict[str, Any] | None:
        """Return what the page's script needs to mark the proposed fields, or None when it needs nothing."""
        if self.typed and self._form is None:
            self.notices.append(_("This form can't be filled in by the assistant. Nothing was filled in."))
        marks = page_marks(
            form,
            self.typed,
            self._old,
            from_link=self.plan is None,
            show_old=bool(self.object_pk),
            notices=self.notices,
            prepopulated=self._prepopulated(form),
        )
        return marks if marks["fields"] or marks["notices"] else None

    def _prepopulated(self, form: Any) -> dict[str, Any]:
        """Return the fields of an add form that the admin's script fills in from others while she types."""
        if self.object_pk or form.is_bound:
            return {}
        return dict(self.model_admin.get_prepopulated_fields(self.request, None))

    # -- saving ------------------------------------------------------------------------------------

    @property
    def result_url(self) -> str:
        """Return the page of the record that the plan was saved as, or "" when it is not known."""
        if self.plan is None or not self.plan.result_pk:
            return ""
        return page_url(self.model_admin, "change", quote(self.plan.result_pk))

    def note_saved(self, obj: Any) -> bool:
        """Remember the record that was saved; tell whether it is this form's and not another one."""
        own = self.instance
        if obj.pk is None or (own is not None and obj is not own and obj.pk != own.pk):
            return False
        self.saved = obj
        return True

    def lock_and_compare(self) -> None:
        """Lock the record and refuse the save if it changed since the plan was made.

        Called in the transaction that saves, before the admin's view runs.
        """
        if self.plan is None or not self.object_pk:
            return
        obj = lock_record(self.model_admin.model, self.object_pk)
        if obj is None:
            return  # the admin's view says so
        base = self.plan.base
        now = snapshot(self.model_admin, self.request, obj, base["fields"])
        fields, inlines = differences(base, now)
        if fields or inlines:
            self.travels = True  # whatever else is wrong with the plan, the next try is compared again
            self.refusal = conflict_text(
                obj, self.plan, fields=fields, inlines=inlines, shown=self._form_names
            )

    def log_message(self, message: Any) -> Any:
        """Return the log entry's message with the plan named in it, in the shape that the admin translates.

        "Changed City for copilot plan “…”." on a change form, "Added product for copilot plan “…”. Changed Title
        and Price." on an add form, where the admin alone names no fields; the database holds English, as for the
        admin's own entries.
        """
        if self.plan is None:
            return message
        ident = str(self.plan.pk)
        if not isinstance(message, list):
            return f"{message} (copilot plan {ident})"
        for number, part in enumerate(message):
            own = next((part[verb] for verb in ("added", "changed") if verb in part), None)
            if own is not None and "name" not in own:
                with translation.override(None):
                    name = f"{self.model_admin.opts.verbose_name} for copilot plan"
                if "added" in part:
                    named: list[dict[str, Any]] = [{"added": {"name": name, "object": ident}}]
                    if labels := self._changed_labels():
                        named.append({"changed": {"fields": labels}})
                else:
                    named = [{"changed": {**own, "name": "copilot plan", "object": ident}}]
                return [*message[:number], *named, *message[number + 1 :]]
        return [*message, {"added": {"name": "nothing for copilot plan", "object": ident}}]

    def _changed_labels(self) -> list[str]:
        """Return the labels of the fields in which the saved form differs from an empty one."""
        if self._form is None:
            return []
        with translation.override(None):
            return [str(self._form.fields[name].label or name) for name in self._form.changed_data]


def _render_with_plan(render: Any, plan_id: str, *args: Any, **kwargs: Any) -> SafeString:
    return format_html(
        '{}<input type="hidden" name="{}" value="{}">', render(*args, **kwargs), PLAN_INPUT, plan_id
    )


def _canonical(model: Any, text: str) -> str:
    """Return the canonical text of the key that the admin would read from an address, or the text itself."""
    try:
        return key_text(model, own_key(model).to_python(text))
    except (ValidationError, ValueError, TypeError):
        return text


def _is_action(request: HttpRequest) -> bool:
    """Tell whether a POST runs one of the admin's actions on the form's page instead of saving the form."""
    saves = ("_save", "_continue", "_addanother", "_saveasnew")
    return any(name.endswith("-action") and value for name, value in request.POST.items()) and not any(
        name in request.POST for name in saves
    )
