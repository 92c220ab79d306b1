"""``HarnessMixin``: what a project puts before ``ModelAdmin``, and nothing else it has to do."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.utils import unquote
from django.db import router, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.csrf import csrf_protect

from . import plans
from .access import Access
from .declaration import Declaration, is_declared
from .draft import Draft, take_parameters
from .exceptions import CopilotError
from .identity import key_text
from .models import Plan, PlanState
from .preview import preview_record
from .scope import capture_scope, enter_scope, page_url
from .switch import is_off

logger = logging.getLogger("django_copilot")


class HarnessMixin(Declaration):
    """Declare what the assistant may read and fill in. Stands first among the bases of a ModelAdmin.

    ``harness_list`` names the fields that go to the model and onto delete pages, ``harness_persist`` those
    that may be filled in on the add and change forms; ``get_harness_list(request, obj=None)`` and
    ``get_harness_persist(request, obj=None)`` decide per request. Registering such a ModelAdmin gives its
    AdminSite the assistant.
    """

    def __init__(self, model: Any, admin_site: AdminSite) -> None:
        super().__init__(model, admin_site)  # type: ignore[call-arg]
        if is_declared(self):
            from .admin import register_own

            register_own(admin_site)

    # -- forms -------------------------------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the admin's form class; the one of a page opened from a plan fills itself in."""
        form = super().get_form(request, obj, change=change, **kwargs)  # type: ignore[misc]
        draft = getattr(request, "_copilot_draft", None)
        return draft.form_class(form) if draft is not None and draft.is_for(self, obj) else form

    get_form.copilot_neutral = True  # type: ignore[attr-defined]  # it drops no field

    @method_decorator(csrf_protect)
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show or save the admin's form; with a plan, filled in, and claimed in the saving transaction."""
        view = super().changeform_view  # type: ignore[misc]
        draft = Draft.open(self, request, object_id) if is_declared(self) else None
        if draft is None:
            response: HttpResponse = view(request, object_id, form_url, extra_context)
            return response
        request._copilot_draft = draft  # type: ignore[attr-defined]
        if request.method == "POST" and draft.plan is not None:
            response = self._save_draft(draft, lambda: view(request, object_id, form_url, extra_context))
        else:
            response = view(request, object_id, form_url, extra_context)
        context = getattr(response, "context_data", None)
        if context and "adminform" in context:
            context["copilot_draft"] = self._marks(draft, context["adminform"].form)
        patch_cache_control(response, no_store=True, private=True)
        return response

    def _marks(self, draft: Draft, form: Any) -> dict[str, Any] | None:
        try:
            return draft.marks(form)
        except Exception:
            logger.exception("The marks of a filled-in form failed and were left out.")
            return None

    def _save_draft(self, draft: Draft, view: Any) -> HttpResponse:
        plan = draft.plan
        assert plan is not None
        with (
            transaction.atomic(using=router.db_for_write(Plan)),
            transaction.atomic(using=router.db_for_write(self.model)),  # type: ignore[attr-defined]
        ):
            if not plans.claim(plan):
                plan.refresh_from_db()
                if plan.state == PlanState.EXECUTED:
                    return self._saved_already(draft)
                draft.lock_and_compare()
                if not draft.refusal:
                    draft.detach(_("This proposal is too old or was withdrawn."))
                response: HttpResponse = view()
                return response
            draft.lock_and_compare()
            response = view()
            if draft.saved is None:
                plans.withdraw_claim(plan)
            else:
                plans.record_result(plan, key_text(type(draft.saved), draft.saved.pk))
        return response

    def _saved_already(self, draft: Draft) -> HttpResponse:
        url = draft.result_url
        text = _("This form was saved already. Nothing was saved a second time.")
        link = format_html(' <a href="{}">{}</a>', url, _("Open the saved record")) if url else ""
        messages.warning(draft.request, format_html("{}{}", text, link))
        return HttpResponseRedirect(url or page_url(self, "changelist"))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save as the admin does and remember that it was saved."""
        super().save_model(request, obj, form, change)  # type: ignore[misc]
        self._note_saved(request, obj)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Log as the admin does, with the plan's id."""
        draft = self._note_saved(request, obj)
        message = draft.log_message(message) if draft is not None else message
        return super().log_addition(request, obj, message)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Log as the admin does, with the plan's id."""
        draft = self._note_saved(request, obj)
        message = draft.log_message(message) if draft is not None else message
        return super().log_change(request, obj, message)  # type: ignore[misc]

    def _note_saved(self, request: HttpRequest, obj: Any) -> Draft | None:
        draft: Draft | None = getattr(request, "_copilot_draft", None)
        if draft is None or draft.model_admin is not self or not isinstance(obj, self.model):
            return None
        return draft if draft.note_saved(obj) else None

    # -- the delete page ---------------------------------------------------------------------------

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the admin's delete page with the readable fields of the record above."""
        given = take_parameters(request)
        if is_declared(self) and request.method != "POST":
            preview = self._delete_preview(request, object_id, proposed=given.get("aiAction") == "delete")
            extra_context = {**(extra_context or {}), "copilot_preview": preview}
        response: HttpResponse = super().delete_view(request, object_id, extra_context)  # type: ignore[misc]
        return response

    def _delete_preview(
        self, request: HttpRequest, object_id: str, *, proposed: bool
    ) -> dict[str, Any] | None:
        try:
            if is_off(self.admin_site.name):  # type: ignore[attr-defined]
                return None
            scope = capture_scope(request, self.admin_site)  # type: ignore[attr-defined]
            with enter_scope(scope, request.user.pk) as scoped:
                access = Access(self.admin_site, scoped)  # type: ignore[attr-defined]
                access.check_person()
                entity = access.of_model(self.model)  # type: ignore[attr-defined]
                if entity is None or not entity.can_view:
                    return None
                obj = entity.record(unquote(object_id))
                with entity.at("delete", obj):
                    return {
                        "title": _("About this record"),
                        "fields": preview_record(entity, obj),
                        "proposed": proposed,
                    }
        except CopilotError:
            return None  # the admin answers as it always does
        except Exception:
            logger.exception("The preview of a delete page failed and was left out.")
            return None

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: Any) -> HttpResponse:
        """Answer as the admin does, and close the person's open plans to delete this record."""
        try:
            scope = capture_scope(request, self.admin_site) if is_declared(self) else None  # type: ignore[attr-defined]
        except CopilotError:
            scope = None
        if scope is not None:
            plans.close_deleted(request.user, scope, self.opts.label_lower, key_text(self.model, obj_id))  # type: ignore[attr-defined]
        response: HttpResponse = super().response_delete(request, obj_display, obj_id)  # type: ignore[misc]
        return response
