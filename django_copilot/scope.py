"""The place a piece of work belongs to, and the one function that builds a request for it.

A scope is captured from the person's own request, stored with her conversation and plans, and entered
again for each tool call and preview: admin site, host, language, time zone, and whatever the project adds
through ``COPILOT["SCOPE"]``. Nothing in this package calls a ModelAdmin on any request but the one built
here, and nothing is copied from another person's request.

``COPILOT["SCOPE"]`` names (dotted path, or the thing itself) an object with two functions::

    def capture(request) -> dict[str, str]: ...        # e.g. {"tenant": "acme"}; read in the person's request
    @contextmanager
    def enter(values, request): ...                    # sets what middleware would have set, and undoes it

A dict with the keys ``capture`` and ``enter`` does as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.urls import NoReverseMatch, get_script_prefix, resolve, reverse
from django.utils import timezone, translation
from django.utils.encoding import iri_to_uri
from django.utils.module_loading import import_string

from .conf import get_settings
from .exceptions import ConfigurationError, Refused, ScopeUnavailable
from .switch import off_annotation

PERMISSION = "django_copilot.use_copilot"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where work is done. ``keys`` are the project's own and separate conversations; the rest does not."""

    site: str  # name of the AdminSite
    host: str = "localhost"
    secure: bool = False
    language: str = "en"
    time_zone: str = "UTC"
    script: str = ""  # where the project is mounted, as in SCRIPT_NAME
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return what conversations and plans are matched on besides person and site."""
        if not self.keys:
            return ""
        canonical = json.dumps(dict(self.keys), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "site": self.site,
            "host": self.host,
            "secure": self.secure,
            "language": self.language,
            "time_zone": self.time_zone,
            "script": self.script,
            "keys": dict(self.keys),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Scope:
        """Read the stored form. Raises ScopeUnavailable when it is not one."""
        try:
            return cls(**stored)
        except TypeError as error:
            raise ScopeUnavailable(f"A stored scope can't be read: {error}.") from error


def own_scope() -> tuple[Any, Any]:
    """Return the project's capture and enter, or (None, None). Raises ConfigurationError."""
    own = get_settings().SCOPE
    if own is None:
        return None, None
    try:
        if isinstance(own, str):
            own = import_string(own)
        pair = (own["capture"], own["enter"]) if isinstance(own, Mapping) else (own.capture, own.enter)
        capture, enter = (import_string(each) if isinstance(each, str) else each for each in pair)
    except (ImportError, AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"COPILOT['SCOPE'] must name an object with the functions 'capture' and 'enter': {error}."
        ) from error
    return capture, enter


def capture_scope(request: HttpRequest, site: AdminSite) -> Scope:
    """Return the scope of a person's own request. Raises ConfigurationError, ScopeUnavailable."""
    capture, _ = own_scope()
    keys: dict[str, str] = {}
    if capture is not None:
        try:
            captured = capture(request)
            keys = {str(name): str(value) for name, value in dict(captured).items() if value is not None}
        except Exception as error:
            raise ScopeUnavailable(f"COPILOT['SCOPE'] could not capture the request: {error!r}.") from error
    return Scope(
        site=site.name,
        host=request.get_host(),
        secure=request.is_secure(),
        language=translation.get_language() or "en",
        time_zone=timezone.get_current_timezone_name(),
        script=request.META.get("SCRIPT_NAME", ""),
        keys=keys,
    )


class ScopedRequest(HttpRequest):
    """A request built from a stored scope: GET, empty, of one freshly loaded person.

    It has no session and nothing that middleware adds. A project whose hooks need such things sets them in
    the ``enter`` of ``COPILOT["SCOPE"]``; a hook that asks for them otherwise fails, and the call is refused.
    """

    user: Any

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.copilot_scope = scope
        self.method = "GET"
        host, _, port = scope.host.partition(":")
        self.META = {
            "REQUEST_METHOD": "GET",
            "SERVER_NAME": host or "localhost",
            "SERVER_PORT": port or ("443" if scope.secure else "80"),
            "HTTP_HOST": scope.host,
            "SCRIPT_NAME": scope.script,
            "QUERY_STRING": "",
        }
        self.LANGUAGE_CODE = scope.language
        self.current_app = scope.site

    def _get_scheme(self) -> str:
        return "https" if self.copilot_scope.secure else "http"

    @property
    def session(self) -> Any:
        """Return the session that the project's scope has set. Raises ScopeUnavailable without one."""
        if "session" not in self.__dict__:
            raise ScopeUnavailable(
                "Work done for the copilot has no session. Capture what you need of it in COPILOT['SCOPE']."
            )
        return self.__dict__["session"]

    @session.setter
    def session(self, value: Any) -> None:
        self.__dict__["session"] = value


def load_person(user_pk: Any, *, site: str = "") -> Any:
    """Return a freshly loaded user, so that no cached right outlives its revocation. Raises ScopeUnavailable.

    With ``site``, ``copilot_off`` of the user says whether the assistant is turned off there, in the same
    statement.
    """
    users = get_user_model()._default_manager.filter(pk=user_pk)
    if site:
        users = users.annotate(copilot_off=off_annotation(site))
    user = users.first()
    if user is None or not user.is_active:
        raise ScopeUnavailable("The person's account does not exist any more or is not active.")
    return user


@contextmanager
def enter_scope(scope: Scope, user_pk: Any, *, just_loaded: Any = None) -> Iterator[ScopedRequest]:
    """Enter a stored scope and give the request to work with, for a freshly loaded person.

    ``just_loaded`` is the person as the request under way has loaded her, where nothing was waited for
    since. Raises ScopeUnavailable when the scope can't be entered: nothing may be done then.
    """
    with enter_place(scope) as request:
        request.user = just_loaded if just_loaded is not None else load_person(user_pk, site=scope.site)
        yield request


@contextmanager
def enter_place(scope: Scope) -> Iterator[ScopedRequest]:
    """Enter a stored scope for nobody: what was claimed is brought to its end, whoever is still there.

    Raises ScopeUnavailable.
    """
    _capture, enter = own_scope()
    if scope.keys and enter is None:
        raise ScopeUnavailable(
            "This conversation belongs to a scope of the project, but COPILOT['SCOPE'] is not set."
        )
    request = ScopedRequest(scope)
    with suppress(NoReverseMatch):  # a site that is not mounted has no pages to be on
        _go_to(request, reverse("admin:index", current_app=scope.site))
    with translation.override(scope.language), timezone.override(scope.time_zone), ExitStack() as stack:
        if enter is not None:
            try:
                stack.enter_context(enter(dict(scope.keys), request))
            except Exception as error:
                raise ScopeUnavailable(
                    f"COPILOT['SCOPE'] could not enter {dict(scope.keys)!r}: {error!r}."
                ) from error
        failed: BaseException | None = None
        try:
            yield request
        except BaseException as error:
            failed = error
            raise
    if failed is not None:  # and the project's own part has swallowed it
        raise failed


def page_url(model_admin: Any, page: str, pk: str | None = None) -> str:
    """Return the path of a ModelAdmin's page: "changelist", "add", "change" or "delete".

    ``pk`` is the quoted key where the page has one. Raises NoReverseMatch when there is no such page.
    """
    opts, site = model_admin.opts, model_admin.admin_site
    name = f"{opts.app_label}_{opts.model_name}"
    shared = name.count("_") > 1 and any(
        each is not model_admin and f"{each.opts.app_label}_{each.opts.model_name}" == name
        for each in site._registry.values()
    )
    if not shared:
        return reverse(f"admin:{name}_{page}", args=[pk] if pk is not None else [], current_app=site.name)
    # a + b_c and a_b + c have the same names of addresses, and the one registered last would be found.
    root = reverse("admin:app_list", args=[opts.app_label], current_app=site.name)
    ending = {"changelist": "", "add": "add/"}.get(page, f"{pk}/{page}/")
    url = f"{root}{iri_to_uri(f'{opts.model_name}/{ending}')}"
    found = resolve(unquote(url.removeprefix(get_script_prefix().rstrip("/"))))
    if getattr(found.func, "model_admin", None) is not model_admin:
        raise NoReverseMatch(f"The admin's page {page!r} of {opts.label} has an address of its own.")
    return url


def _go_to(request: HttpRequest, url: str) -> None:
    request.path = unquote(url)  # as requests hold it, decoded
    request.path_info = request.path.removeprefix(request.META.get("SCRIPT_NAME", ""))
    request.resolver_match = resolve(request.path_info)


@contextmanager
def at_page(request: HttpRequest, model_admin: ModelAdmin[Any], page: str, pk: str | None) -> Iterator[None]:
    """Let hooks see the request as one for that admin page: path and resolver_match are the page's.

    ``page`` is "changelist", "add", "change" or "delete"; ``pk`` is the quoted key where the page has one.
    Raises Refused when the site has no such page.
    """
    before = request.path, request.path_info, request.resolver_match
    try:
        url = page_url(model_admin, page, pk)
    except NoReverseMatch:
        raise Refused(f"This administration site has no such page: {page}.", code="not_available") from None
    _go_to(request, url)
    try:
        yield
    finally:
        request.path, request.path_info, request.resolver_match = before
