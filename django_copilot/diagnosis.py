"""What no system check can find out: files, templates, people, keys and clocks of a running installation.

Everything here only reads. A page is made as for a person of the site, in a place that refuses every statement that
writes. Nothing here asks another machine but the model, and that only when told to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from django.apps import apps
from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.signed_cookies import SessionStore
from django.core import checks
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import connections, models, router
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from django.template import TemplateDoesNotExist, TemplateSyntaxError, engines
from django.template.backends.django import DjangoTemplates
from django.template.base import VariableNode
from django.template.loader_tags import BlockNode, ExtendsNode
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from .access import may_do_anything
from .access.person import may_use
from .audit.checks import check_audit
from .backends import ModelMessage, ModelRequest, get_backend
from .conf import get_settings
from .database import contained
from .exceptions import BackendError, ConfigurationError, ScopeUnavailable
from .models import Plan
from .scope import PERMISSION, Scope, enter_place
from .switch import state_of
from .tools.guard import is_read

OK: Literal["ok"] = "ok"
WARNING: Literal["warning"] = "warning"
PROBLEM: Literal["problem"] = "problem"
PACKAGE = Path(__file__).parent
CLOCK_SECONDS = 5  # more than this the database's clock may not differ from ours
CANDIDATES = 50  # accounts that are looked at to find one that may use the assistant
COMPRESSING = ("gzip", "brotli", "compress", "zstd")  # in the name of a middleware
PANEL_MARK = " data-copilot "


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report: ``todo`` says what to do, "" where nothing is to be done."""

    name: str
    level: Literal["ok", "warning", "problem"]
    text: str
    todo: str = ""

    def to_json(self) -> dict[str, str]:
        """Return it as JSON holds it."""
        return asdict(self)


def examine(scopes: Mapping[AdminSite, Scope], *, ask_model: bool = False) -> Iterator[Finding]:
    """Look at the installation, and at each of these sites in its scope."""
    yield from look("checks", _system_checks)
    migrated = list(look("migrations", _migrations))
    yield from migrated
    yield from look("static files", _static_files)
    yield from look("middleware", _middleware)
    yield from look("model", lambda: _model(ask=ask_model))
    yield from look("audit", _audit)
    if any(each.level == PROBLEM for each in migrated):
        return  # what follows is read from tables
    yield from look("people", _people)
    yield from look("clock", _clock)
    for site, scope in scopes.items():
        yield from look(f"switch of {site.name}", lambda site=site: _switch(site))  # type: ignore[misc]
        yield from look(
            f"panel of {site.name}",
            lambda site=site, scope=scope: _panel(site, scope),  # type: ignore[misc]
        )


def look(name: str, question: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Go through what a look finds; one that fails is a problem itself."""
    try:
        yield from question()
    except Exception as error:
        yield Finding(
            name=name, level=PROBLEM, text=f"could not be looked at: {type(error).__name__}: {error}"
        )


# -- the installation --------------------------------------------------------------------------------------


def _system_checks() -> Iterator[Finding]:
    found = [each for each in checks.run_checks() if str(each.id).startswith("copilot.")]
    found = [each for each in found if not each.is_silenced()]
    errors = sorted({str(each.id) for each in found if each.is_serious()})
    others = sorted({str(each.id) for each in found if not each.is_serious()})
    if errors:
        text = f"the system checks find errors: {', '.join(errors)}"
        yield Finding(name="checks", level=PROBLEM, text=text, todo="manage.py check")
    if others:
        text = f"the system checks warn: {', '.join(others)}"
        yield Finding(name="checks", level=WARNING, text=text, todo="manage.py check")
    if not found:
        yield Finding(name="checks", level=OK, text="the system checks find nothing")


def _migrations() -> Iterator[Finding]:
    connection = connections[router.db_for_write(Plan)]
    executor = MigrationExecutor(connection)
    ours = [key for key in executor.loader.graph.leaf_nodes() if key[0] == "django_copilot"]
    waiting = [migration for migration, _backwards in executor.migration_plan(ours)]
    if waiting:
        names = ", ".join(f"{each.app_label}.{each.name}" for each in waiting[:5])
        text = f"not applied to {connection.alias!r}: {names}{' …' if len(waiting) > 5 else ''}"
        yield Finding(name="migrations", level=PROBLEM, text=text, todo="manage.py migrate")
    else:
        yield Finding(name="migrations", level=OK, text="all are applied")


def static_names() -> list[str]:
    """Return the names of the package's static files."""
    root = PACKAGE / "static"
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def _static_files() -> Iterator[Finding]:
    names = static_names()

    def finding(level: Any, text: str, todo: str = "") -> Finding:
        return Finding(name="static files", level=level, text=text, todo=todo)

    if not apps.is_installed("django.contrib.staticfiles"):
        yield finding(
            WARNING,
            "django.contrib.staticfiles is not installed, so what serves them is not known here",
            "See whether --url finds them.",
        )
        return
    from django.contrib.staticfiles import finders
    from django.contrib.staticfiles.storage import staticfiles_storage

    lost = [name for name in names if finders.find(name) is None]
    if lost:
        todo = "STATICFILES_FINDERS needs django.contrib.staticfiles.finders.AppDirectoriesFinder."
        yield finding(PROBLEM, f"no finder finds {', '.join(lost[:3])}", todo)
        return
    try:
        for name in names:
            staticfiles_storage.url(name)
        if settings.DEBUG:
            yield finding(OK, "the finders find them; with DEBUG, runserver serves them")
            return
        missing = [name for name in names if not staticfiles_storage.exists(name)]
        stale = [name for name in names if name not in missing and not _is_current(staticfiles_storage, name)]
    except (ValueError, ImproperlyConfigured) as error:
        yield finding(PROBLEM, f"they are not collected: {error}", "Set STATIC_ROOT and run collectstatic.")
        return
    if missing:
        yield finding(PROBLEM, f"not collected: {', '.join(missing[:3])}", "manage.py collectstatic")
    elif stale:
        text = f"collected from another version: {', '.join(stale[:3])}"
        yield finding(PROBLEM, text, "manage.py collectstatic")
    else:
        yield finding(OK, "all are collected")


def _is_current(storage: Any, name: str) -> bool:
    with storage.open(name) as file:
        return bool(file.read() == (PACKAGE / "static" / name).read_bytes())


def _middleware() -> Iterator[Finding]:
    found = [each for each in settings.MIDDLEWARE if any(word in each.lower() for word in COMPRESSING)]
    if found:
        yield Finding(
            name="middleware",
            level=WARNING,
            text=f"{', '.join(found)} compresses answers: what is sent bit by bit would be held back",
            todo="Leave the assistant's addresses out of it, and turn buffering off in a proxy in front.",
        )
    else:
        yield Finding(name="middleware", level=OK, text="none of it holds an answer back")


def _model(*, ask: bool) -> Iterator[Finding]:
    def finding(level: Any, text: str, todo: str = "") -> Finding:
        return Finding(name="model", level=level, text=text, todo=todo)

    try:
        backend = get_backend()
    except (ConfigurationError, BackendError) as error:
        yield finding(PROBLEM, f"the backend can't be made: {error}", "See COPILOT['BACKEND'].")
        return
    name = get_settings().BACKEND
    if not getattr(backend, "is_configured", True):
        todo = "Set COPILOT_OPENAI_API_KEY for the server's process, and start it again."
        yield finding(PROBLEM, "there is no key to ask it with", todo)
        return
    if not ask:
        told = f"; people are told: {backend.label}" if backend.label else ""
        yield finding(OK, f"the backend {name!r} is set up, and was asked nothing (--model asks){told}")
        return
    request = ModelRequest(
        system="Answer with one word.", tools=(), messages=(ModelMessage(role="user", text="ping"),)
    )
    start = time.monotonic()
    try:
        reply = backend.complete(request)
    except BackendError as error:
        yield finding(PROBLEM, f"it did not answer: {error.code}: {error}", "The log has more.")
        return
    seconds = time.monotonic() - start
    yield finding(OK, f"{reply.model or name} answered in {seconds:.1f} s")


def _audit() -> Iterator[Finding]:
    for message in check_audit():
        level = PROBLEM if message.is_serious() else WARNING
        yield Finding(name="audit", level=level, text=str(message.msg), todo=str(message.hint or ""))
    if not check_audit():
        versions = ", ".join(get_settings().AUDIT_KEYS)
        yield Finding(name="audit", level=OK, text=f"is signed; versions of its key: {versions}")


# -- what the database tells -------------------------------------------------------------------------------


def _people() -> Iterator[Finding]:
    from django.contrib.auth.models import Permission

    label, codename = PERMISSION.split(".")
    permission = Permission.objects.filter(content_type__app_label=label, codename=codename).first()
    todo = (
        f"Give a group the permission {PERMISSION} in the admin, or in manage.py shell: "
        'Group.objects.get(name="…").permissions.add(Permission.objects.get('
        f'content_type__app_label="{label}", codename="{codename}"))'
    )
    if permission is None:
        text = f"there is no permission {PERMISSION}"
        yield Finding(name="people", level=PROBLEM, text=text, todo="manage.py migrate")
        return
    groups = sorted(permission.group_set.values_list("name", flat=True))
    allowed, superusers = _count(permission)
    if allowed:
        through = f", by the groups {', '.join(groups)}" if groups else ""
        text = f"{allowed} active accounts have {PERMISSION}{through}; and {superusers} superusers"
        yield Finding(name="people", level=OK, text=text)
    elif superusers:
        text = f"only superusers ({superusers}) may use the assistant"
        yield Finding(name="people", level=WARNING, text=text, todo=todo)
    else:
        yield Finding(name="people", level=PROBLEM, text="nobody may use the assistant", todo=todo)


def _count(permission: Any) -> tuple[int, int]:
    """Return how many active accounts have the permission, and how many are superusers, as far as fields tell."""
    user_model = get_user_model()
    users = user_model._default_manager.all()
    if _has(user_model, "is_active"):
        users = users.filter(is_active=True)
    given = models.Q(pk__in=())
    if _has(user_model, "user_permissions"):
        given |= models.Q(("user_permissions", permission))
    if _has(user_model, "groups"):
        given |= models.Q(("groups__permissions", permission))
    superusers = users.filter(is_superuser=True).count() if _has(user_model, "is_superuser") else 0
    return users.filter(given).distinct().count(), superusers


def _has(model: type[models.Model], name: str) -> bool:
    try:
        model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    return True


def _clock() -> Iterator[Finding]:
    using = router.db_for_write(Plan)
    rows = MigrationRecorder.Migration.objects.using(
        using
    ).order_by()  # there is one, and which does not matter
    theirs = rows.annotate(now=Now()).values_list("now", flat=True).first()
    if theirs is None:
        return
    if timezone.is_naive(theirs):
        theirs = timezone.make_aware(theirs)
    seconds = abs((theirs - timezone.now()).total_seconds())
    if seconds > CLOCK_SECONDS:
        text = f"the database's differs from this machine's by {seconds:.0f} s"
        yield Finding(name="clock", level=WARNING, text=text, todo="Set both by the same time server.")
    else:
        yield Finding(name="clock", level=OK, text="the database's and this machine's agree")


def _switch(site: AdminSite) -> Iterator[Finding]:
    name = f"switch of {site.name}"
    switch = state_of(site.name)
    if switch.is_off:
        reason = f": {switch.reason}" if switch.reason else ""
        text = f"the assistant is turned off since {switch.changed_at:%Y-%m-%d %H:%M} UTC{reason}"
        yield Finding(
            name=name, level=WARNING, text=text, todo=f"manage.py copilot_switch on --site {site.name}"
        )
    else:
        yield Finding(name=name, level=OK, text="on")


# -- the panel on a page -----------------------------------------------------------------------------------


def _panel(site: AdminSite, scope: Scope) -> Iterator[Finding]:
    def finding(level: Any, text: str, todo: str = "") -> Finding:
        return Finding(name=f"panel of {site.name}", level=level, text=text, todo=todo)

    try:
        reverse("admin:index", current_app=site.name)
        reverse("admin:django_copilot_chat", current_app=site.name)
    except NoReverseMatch:
        todo = "Mount site.urls in the project's URLs, after everything is registered and declared."
        yield finding(PROBLEM, "the site, or the assistant on it, is at no address", todo)
        return
    if get_settings().SCOPE is not None and not scope.keys:
        todo = "Name it with --scope KEY=VALUE."
        yield finding(WARNING, "not looked at: this project has a scope of its own", todo)
        return
    try:
        with enter_place(scope) as request, contained(), reading_only():
            request.user = person = _somebody(site, request)
            request.session = SessionStore()
            response: Any = site.index(request)
            text = response.render().content.decode() if hasattr(response, "render") else ""
            can_use = may_do_anything(site, request)
    except ScopeUnavailable as error:
        yield finding(WARNING, f"not looked at: {error}", "See COPILOT['SCOPE'].")
        return
    except Exception as error:
        yield finding(
            WARNING,
            f"the index can't be made without a browser's request: {type(error).__name__}: {error}",
            "Look for data-copilot in the source of the page.",
        )
        return
    who = person.get_username() or "a superuser"
    if PANEL_MARK in text:
        yield finding(OK, f"is on the index, as {who} sees it")
    elif not can_use:
        yield finding(WARNING, f"not shown to {who}, who can do nothing with what is declared")
    else:
        where, todo = shadowing(site.index_template or "admin/index.html")
        yield finding(PROBLEM, f"is not on the index{where}", todo)


def _somebody(site: AdminSite, request: Any) -> Any:
    """Return an account that may use the assistant there, or one that is not stored and may do everything."""
    user_model = get_user_model()
    users = user_model._default_manager.order_by("pk")
    if _has(user_model, "is_superuser"):
        users = users.order_by("-is_superuser", "pk")
    for user in users[:CANDIDATES]:
        request.user = user
        if user.is_active and not may_use(site, user, request) and may_do_anything(site, request):
            return user
    rights = {name: True for name in ("is_active", "is_staff", "is_superuser") if _has(user_model, name)}
    return user_model(**rights)


@contextmanager
def reading_only() -> Iterator[None]:
    """Refuse every statement that writes to a database, on all connections. Raises RuntimeError for one."""

    def refuse(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not is_read(sql):
            raise RuntimeError("it writes to the database")
        return execute(sql, params, many, context)

    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(refuse))
        yield


def shadowing(name: str) -> tuple[str, str]:
    """Return where the panel is lost on the way from a template to ours, and what to do about it."""
    ours = PACKAGE / "templates" / "admin" / "base.html"
    for backend in engines.all():
        if not isinstance(backend, DjangoTemplates):
            continue
        dropping = last = ""
        for template in _chain(backend.engine, name):
            if Path(template.origin.name) == ours:
                if dropping:
                    return (
                        f": {dropping} fills the block extrahead and drops what stands in it",
                        "Begin that block with {{ block.super }}.",
                    )
                return (
                    ", though its template is reached",
                    "The project's templates or middleware change the page.",
                )
            last = template.origin.name
            if not dropping and _drops(template):
                dropping = last
        if last:
            return (
                f": {last} ends the way to django_copilot's admin/base.html",
                'Let it begin with {% extends "admin/base.html" %}, or load {% copilot_panel %} in its head.',
            )
    return ": no template engine of Django's has it", "Add a DjangoTemplates backend to TEMPLATES."


def _chain(engine: Any, name: str) -> Iterator[Any]:
    """Go from a template to the one it extends, as rendering does, as far as the names are fixed."""
    met: list[Any] = []
    while True:
        try:
            template, _origin = engine.find_template(name, skip=met)
        except (TemplateDoesNotExist, TemplateSyntaxError):
            return
        yield template
        node = next((each for each in template.nodelist if isinstance(each, ExtendsNode)), None)
        parent = getattr(node, "parent_name", None)
        if parent is None or parent.filters or not isinstance(parent.var, str):
            return
        met.append(template.origin)
        name = parent.var


def _drops(template: Any) -> bool:
    """Tell whether a template fills the block extrahead without what its parent has there."""
    blocks = [each for each in template.nodelist.get_nodes_by_type(BlockNode) if each.name == "extrahead"]
    return any(
        all(
            str(node.filter_expression.var) != "block.super"
            for node in block.nodelist.get_nodes_by_type(VariableNode)
        )
        for block in blocks
    )
