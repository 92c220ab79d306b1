"""What every view of ours has in common: who may call it, and how it answers when she may not.

All of REST framework's policies are pinned here, so that a project's ``REST_FRAMEWORK`` changes nothing:
a session, a CSRF token, JSON in, JSON out, no versioning, no throttle but our own.
"""

from __future__ import annotations

import json
import logging
from typing import Any, NoReturn

from django.contrib.admin import AdminSite
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.csrf import requires_csrf_token
from rest_framework import exceptions, status
from rest_framework.authentication import CSRFCheck, SessionAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.settings import DEFAULTS, IMPORT_STRINGS, APISettings
from rest_framework.views import APIView

from ..access import Access, may_use
from ..conf import get_settings
from ..declaration import has_entities
from ..exceptions import ConfigurationError, ScopeUnavailable
from ..scope import Scope, capture_scope, enter_scope
from ..switch import is_off

logger = logging.getLogger("django_copilot")

OWN_SETTINGS = APISettings({"UNAUTHENTICATED_USER": AnonymousUser}, DEFAULTS, IMPORT_STRINGS)  # type: ignore[arg-type]


def error_text(code: str) -> str:
    """Return the fixed text of an error code, in the person's language."""
    texts = {
        "invalid": _("That can't be sent like this."),
        "not_authenticated": _("You are not logged in. Log in and try again."),
        "csrf_failed": _("This page is too old. Reload it and try again."),
        "not_staff": _("Your account has no access to this administration site."),
        "not_allowed": _("Your account may not use the assistant. Ask an administrator for the right to."),
        "no_entities": _("There is nothing here that the assistant could show you or fill in for you."),
        "not_found": _("There is no such conversation or proposal."),
        "switched_off": _("The assistant is turned off on this site."),
        "nothing_to_continue": _("There is nothing here that the assistant waits for."),
        "not_decided": _("This is not decided yet."),
        "turn_running": _("The assistant is still answering in this conversation. Wait for it to finish."),
        "throttled": _("You sent many messages in a short time. Wait a moment and try again."),
        "history_unreadable": _("The earlier messages can't be read. Start a new conversation."),
        "model_not_configured": _("The assistant is not available: no model is set up on this site."),
        "model_unavailable": _("The model can't be reached at the moment. Try again later."),
        "model_timeout": _("The model took too long to answer. Try again."),
        "model_protocol": _("The model's answer could not be used. Try again."),
        "too_many_rounds": _(
            "The assistant looked things up too often without an answer. Ask more precisely."
        ),
        "failed": _("Something went wrong. Try again; if it stays, tell an administrator."),
        "method_not_allowed": _("That can't be done at this address."),
    }
    return texts.get(code, texts["failed"])


class ApiError(exceptions.APIException):
    """An answer with a code and its fixed text."""

    def __init__(self, status_code: int, code: str, **extra: Any) -> None:
        super().__init__(code)
        self.status_code, self.code, self.extra = status_code, code, extra


class StaffSession(SessionAuthentication):
    """The person's session, with a CSRF token for every call that does something."""

    def authenticate_header(self, request: Request) -> str:
        """Return the header that makes a missing session a 401."""
        return "Session"

    def enforce_csrf(self, request: Request) -> None:
        """Raise ApiError for a missing or wrong token, before the body is looked at."""
        try:
            super().enforce_csrf(request._request)  # type: ignore[arg-type]  # its own would parse the body
        except exceptions.PermissionDenied:
            raise ApiError(status.HTTP_403_FORBIDDEN, "csrf_failed") from None


class OneRenderer(BaseContentNegotiation):
    """Answer JSON whatever the Accept header says."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Return the only parser, for any content type."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: Any = None) -> Any:
        """Return the only renderer."""
        return renderers[0], renderers[0].media_type


class StrictJSONParser(BaseParser):
    """One JSON object in UTF-8, of any declared content type, not much longer than a message can make it."""

    media_type = "*/*"
    least = 1_500_000  # bytes that are read anyhow, so that a message far too long is told by its name

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        """Return the object. Raises ParseError for anything else."""
        most = max(self.least, 12 * get_settings().MESSAGE_CHARS + 64_000)  # up to 12 bytes, if escaped
        raw = stream.read(most + 1)
        if len(raw) > most:
            raise exceptions.ParseError
        try:
            parsed = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise exceptions.ParseError from None
        if not isinstance(parsed, dict):
            raise exceptions.ParseError
        return parsed


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class StrictJSONRenderer(JSONRenderer):
    """JSON in plain ASCII, without NaN, whatever the project prefers for its own."""

    ensure_ascii = True
    compact = True
    strict = True


def answer_error(error: Exception, context: dict[str, Any]) -> Response:
    """Return the JSON answer of any exception. Nothing but codes and fixed texts leaves."""
    extra: dict[str, Any] = {}
    headers: dict[str, str] = {}
    match error:
        case ApiError():
            code, number, extra = str(error.code), error.status_code, dict(error.extra)
            if "retry_after" in extra:
                headers["Retry-After"] = str(extra.pop("retry_after"))
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            code, number = "not_authenticated", 401
            headers["WWW-Authenticate"] = "Session"
        case exceptions.ValidationError():
            code, number, extra = "invalid", 400, {"errors": error.detail}
        case exceptions.ParseError() | SuspiciousOperation() | UnreadablePostError() | MultiPartParserError():
            code, number, extra = (
                "invalid",
                400,
                {"errors": {"body": [_("This is not a JSON object, or it is too long.")]}},
            )
        case exceptions.MethodNotAllowed():
            code, number = "method_not_allowed", 405
        case Http404() | exceptions.NotFound():
            code, number = "not_found", 404
        case PermissionDenied() | exceptions.PermissionDenied():
            code, number = "not_allowed", 403
        case _:
            logger.error("An assistant request failed.", exc_info=error)
            code, number = "failed", 500
    response = Response({"code": code, "detail": error_text(code), **extra}, status=number, headers=headers)
    # What went wrong was logged where it happened, a failing model as a warning. Django would note every
    # answer of 500 as an error on top, and write to ADMINS each time a provider is down.
    response._has_been_logged = number >= 500  # type: ignore[attr-defined]
    return response


class OwnView(APIView):
    """A JSON view of one AdminSite for a person who may use the assistant there."""

    site: AdminSite = None  # type: ignore[assignment]  # set by as_view
    authentication_classes = [StaffSession]
    permission_classes = []
    throttle_classes = []
    parser_classes = [StrictJSONParser]
    renderer_classes = [StrictJSONRenderer]
    content_negotiation_class = OneRenderer
    versioning_class = None
    metadata_class = None
    settings = OWN_SETTINGS

    scope: Scope

    def get_exception_handler(self) -> Any:
        """Return our own handler."""
        return answer_error

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Ask who the person is and whether she may use the assistant here, in the fixed order."""
        request.current_app = self.site.name
        super().initial(request, *args, **kwargs)
        if not getattr(request.user, "is_authenticated", False):  # a project may have no anonymous user
            raise exceptions.NotAuthenticated
        self.scope = admit(request._request, self.site, request.user)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Forbid storing the answer anywhere."""
        response = super().finalize_response(request, response, *args, **kwargs)
        patch_cache_control(response, no_store=True, private=True)
        return response


def admit(request: HttpRequest, site: AdminSite, user: Any) -> Scope:
    """Return the scope of somebody who is logged in and may use the assistant here.

    Raises Http404 and ApiError, in the fixed order in which it is asked.
    """
    if not has_entities(site):
        raise Http404
    code = may_use(site, user, request)
    if code:
        raise ApiError(403, code)
    scope = scope_of(request, site)
    if not can_use_anything(site, scope, user):
        raise ApiError(403, "no_entities")
    return scope


def check_switch(site: AdminSite) -> None:
    """Raise ApiError where the assistant is turned off."""
    if is_off(site.name):
        raise ApiError(403, "switched_off")


def scope_of(request: HttpRequest, site: AdminSite) -> Scope:
    """Return the request's scope. Raises ApiError when the project's own part can't be captured."""
    try:
        return capture_scope(request, site)
    except (ScopeUnavailable, ConfigurationError) as error:
        logger.error("A request was refused: %s", error)
        raise ApiError(500, "failed") from None


def can_use_anything(site: AdminSite, scope: Scope, user: Any) -> bool:
    """Tell whether there is any entity that the person could use. Raises ApiError."""
    try:
        with enter_scope(scope, user.pk, just_loaded=user) as request:
            return next(Access(site, request).usable(), None) is not None
    except (ScopeUnavailable, ConfigurationError) as error:
        logger.error("A request was refused: %s", error)
        raise ApiError(500, "failed") from None


@method_decorator(requires_csrf_token, name="dispatch")
class OwnPage(View):
    """An ordinary admin page for the same people; JSON for those who ask for it.

    The CSRF token is checked after the session, so that a refusal has the same form as all others.
    """

    site: AdminSite = None  # type: ignore[assignment]  # set by as_view
    scope: Scope

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Ask as the JSON views do; a visitor without a session is sent to the login page."""
        request.current_app = self.site.name
        try:
            self._check(request)
            response = super().dispatch(request, *args, **kwargs)
        except ApiError as error:
            response = self._refuse(request, error)
        except Http404:
            response = self._refuse(request, ApiError(404, "not_found"))
        except PermissionDenied:
            response = self._refuse(request, ApiError(403, "not_allowed"))
        except (SuspiciousOperation, UnreadablePostError, MultiPartParserError):
            response = self._refuse(request, ApiError(400, "invalid"))
        except Exception as error:
            if not wants_json(request):
                raise  # the project's own error page
            logger.error("An assistant page failed.", exc_info=error)
            response = self._refuse(request, ApiError(500, "failed"))
        patch_cache_control(response, no_store=True, private=True)
        response["X-Frame-Options"] = "DENY"
        return response

    def _check(self, request: HttpRequest) -> None:
        # Somebody that a project's middleware lets in by a token has no session, and is nobody here.
        if not request.user.is_authenticated or SESSION_KEY not in getattr(request, "session", ()):
            raise ApiError(401, "not_authenticated")
        csrf = CSRFCheck(lambda request: HttpResponse())
        csrf.process_request(request)
        if csrf.process_view(request, self.dispatch, (), {}):
            raise ApiError(403, "csrf_failed")
        self.scope = self.admit_person(request)

    def admit_person(self, request: HttpRequest) -> Scope:
        """Return the scope of somebody who may see this page. Raises Http404 and ApiError."""
        return admit(request, self.site, request.user)

    def _refuse(self, request: HttpRequest, error: ApiError) -> HttpResponse:
        if wants_json(request):
            answer = json_answer(
                {"code": error.code, "detail": error_text(str(error.code))}, error.status_code
            )
            if error.status_code == 401:
                answer["WWW-Authenticate"] = "Session"
            return answer
        if error.status_code == 401:
            login = reverse("admin:login", current_app=self.site.name)
            return redirect_to_login(request.get_full_path(), login)
        page = self.page(request, "refused.html", title=error_text(str(error.code)))
        page.status_code = error.status_code
        return page

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer with JSON where that is asked for."""
        answer = super().http_method_not_allowed(request, *args, **kwargs)
        if wants_json(request):
            body = json_answer(
                {"code": "method_not_allowed", "detail": error_text("method_not_allowed")}, 405
            )
            body["Allow"] = answer["Allow"]
            return body
        return answer

    def page(self, request: HttpRequest, template: str, **context: Any) -> TemplateResponse:
        """Return an admin page."""
        return TemplateResponse(
            request, f"django_copilot/{template}", {**self.site.each_context(request), **context}
        )

    def go(self, name: str, *args: Any) -> HttpResponseRedirect:
        """Return a redirect to one of the site's own addresses."""
        return HttpResponseRedirect(reverse(f"admin:{name}", args=args, current_app=self.site.name))


MAX_FIELDS_BYTES = 20_000


def sent_fields(request: HttpRequest) -> dict[str, Any]:
    """Return what was sent: the fields of a form, or a JSON object; nothing at all is no fields. Raises ApiError."""
    if request.content_type != "application/json":
        return request.POST.dict()
    try:
        raw = request.read(MAX_FIELDS_BYTES + 1)
        given = json.loads(raw or "{}") if len(raw) <= MAX_FIELDS_BYTES else None
    except (ValueError, RecursionError, OSError):  # a connection that broke is an OSError, too
        given = None
    if not isinstance(given, dict):
        raise ApiError(400, "invalid")
    return given


def wants_json(request: HttpRequest) -> bool:
    """Tell whether the caller prefers JSON to a page."""
    accepted = request.headers.get("Accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def json_answer(body: dict[str, Any], number: int = 200) -> HttpResponse:
    """Return a JSON answer with no number that is not finite."""
    return HttpResponse(json.dumps(body, allow_nan=False), status=number, content_type="application/json")


def not_here() -> NoReturn:
    """Raise the one answer for everything that is not this person's."""
    raise ApiError(404, "not_found")
