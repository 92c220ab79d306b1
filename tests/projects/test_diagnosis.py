"""``copilot_doctor``: each thing that it looks at, as it should be and as it should not."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group, Permission, User
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_copilot import diagnosis, switch
from django_copilot.backends import ModelReply
from django_copilot.diagnosis import OK, PROBLEM, WARNING, Finding, examine, reading_only, shadowing
from django_copilot.exceptions import BackendError
from django_copilot.scope import Scope
from django_copilot.testing import Text, script
from django_copilot.tools.guard import is_read
from tests.kept_store import Store

from .depot import models as depot
from .sites import Project, declared

SCOPE = Scope(site="admin")


@pytest.fixture(autouse=True)
def development(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be where static files need not be collected, and let no site of another test have a say."""
    settings.DEBUG = True
    monkeypatch.setattr(diagnosis.checks, "run_checks", lambda: [])


def found(name: str, site: Any = admin.site, **options: Any) -> list[Finding]:
    """Return what is found of one thing."""
    scope = Scope(site=site.name)
    return [each for each in examine({site: scope}, **options) if each.name.startswith(name)]


def the(name: str, site: Any = admin.site, **options: Any) -> Finding:
    (one,) = found(name, site, **options)
    return one


def said(*args: str) -> tuple[str, bool]:
    """Return what the command prints, and whether it ends well."""
    text = StringIO()
    try:
        call_command("copilot_doctor", *args, stdout=text)
    except CommandError:
        return text.getvalue(), False
    return text.getvalue(), True


# -- as a whole --------------------------------------------------------------------------------------------


def test_the_example_store_has_no_problem(store: Store) -> None:
    text, well = said("--site", "admin")
    assert well, text
    lines = [line for line in text.splitlines() if not line.startswith(" ")]
    assert {line.split()[0] for line in lines} == {OK}
    for name in ("migrations", "static files", "middleware", "model", "people", "audit", "clock"):
        assert f" {name}: " in text
    assert "panel of admin: is on the index, as admin sees it" in text


def test_json_says_the_same(store: Store) -> None:
    text, _well = said("--site", "admin", "--json")
    report = json.loads(text)
    assert report["ok"] is True
    assert {*report["findings"][0]} == {"name", "level", "text", "todo"}
    assert "panel of admin" in {each["name"] for each in report["findings"]}


def test_a_problem_is_exit_status_1_and_told_with_what_to_do(store: Store, settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "BACKEND": "nowhere.Backend"}
    text, well = said("--site", "admin")
    assert not well
    assert "problem  model: the backend can't be made" in text
    assert "→ See COPILOT['BACKEND']." in text
    text, well = said("--site", "admin", "--json")
    assert not well
    assert json.loads(text)["ok"] is False


def test_nothing_is_written(store: Store) -> None:
    with CaptureQueriesContext(connection) as captured:
        findings = list(examine({admin.site: SCOPE}))
    assert len(captured) > 5
    assert [each["sql"] for each in captured if not is_read(each["sql"])] == []
    assert all(each.level == OK for each in findings), findings


def test_a_look_that_fails_is_a_problem_and_the_others_go_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Iterator[Finding]:
        raise LookupError("no clock here")

    monkeypatch.setattr(diagnosis, "_clock", fail)
    one = the("clock")
    assert one.level == PROBLEM
    assert "LookupError: no clock here" in one.text
    assert the("panel of admin").level == OK


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--site", "nowhere"], "There is no AdminSite 'nowhere'"),
        (["--url", "ftp://127.0.0.1/"], "begins with http"),
        (["--scope", "tenant"], "KEY=VALUE"),
    ],
)
def test_what_can_not_be_asked_is_an_error(db: None, args: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        call_command("copilot_doctor", *args, stdout=StringIO())


# -- the installation --------------------------------------------------------------------------------------


def test_system_checks_are_one_line(store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert the("checks").level == OK
    others = [checks.Error("x", id="models.E001"), checks.Warning("x", id="copilot.W035")]
    monkeypatch.setattr(diagnosis.checks, "run_checks", lambda: others)
    assert (the("checks").level, the("checks").todo) == (WARNING, "manage.py check")
    assert "copilot.W035" in the("checks").text
    monkeypatch.setattr(diagnosis.checks, "run_checks", lambda: [checks.Error("x", id="copilot.E020")])
    assert (the("checks").level, "copilot.E020" in the("checks").text) == (PROBLEM, True)
    settings.SILENCED_SYSTEM_CHECKS = ["copilot.E020"]
    assert the("checks").level == OK


def test_the_audits_key(store: Store, settings: Any) -> None:
    assert the("audit").text == "is signed; versions of its key: 1"
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": {}}
    assert the("audit").level == WARNING
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": {"1": "short"}}
    assert the("audit").level == PROBLEM


def test_migrations_that_are_not_applied_end_the_look(store: Store) -> None:
    MigrationRecorder.Migration.objects.filter(app="django_copilot").delete()
    one = the("migrations")
    assert (one.level, one.todo) == (PROBLEM, "manage.py migrate")
    assert "django_copilot.0001_initial" in one.text
    assert found("panel of admin") == found("people") == []


def test_middleware_that_compresses_is_a_warning(store: Store, settings: Any) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    one = the("middleware")
    assert one.level == WARNING
    assert "GZipMiddleware" in one.text


def test_static_files_are_collected_from_this_version(store: Store, settings: Any, tmp_path: Path) -> None:
    settings.DEBUG = False
    settings.STATIC_ROOT = str(tmp_path)
    one = the("static files")
    assert (one.level, one.todo) == (PROBLEM, "manage.py collectstatic")
    call_command("collectstatic", interactive=False, verbosity=0)
    assert the("static files").level == OK
    (tmp_path / "django_copilot" / "panel.js").write_text("old")
    one = the("static files")
    assert one.level == PROBLEM
    assert "django_copilot/panel.js" in one.text
    (tmp_path / "django_copilot" / "panel.js").unlink()
    assert "not collected: django_copilot/panel.js" in the("static files").text


def test_static_files_with_hashed_names_and_without_a_manifest(
    store: Store, settings: Any, tmp_path: Path
) -> None:
    settings.DEBUG = False
    settings.STATIC_ROOT = str(tmp_path)
    hashed = {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": hashed}
    one = the("static files")
    assert one.level == PROBLEM
    assert "not collected" in one.text
    call_command("collectstatic", interactive=False, verbosity=0)
    assert the("static files").level == OK


def test_static_files_that_no_finder_finds_or_nothing_serves(
    store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    one = the("static files")
    assert one.level == PROBLEM
    assert "STATICFILES_FINDERS" in one.todo
    monkeypatch.setattr(diagnosis.apps, "is_installed", lambda name: name != "django.contrib.staticfiles")
    assert the("static files").level == WARNING


# -- the model ---------------------------------------------------------------------------------------------


def test_the_model_is_asked_only_when_told_to(store: Store) -> None:
    assert "was asked nothing" in the("model").text
    with script(Text("pong")) as model:
        one = the("model", ask_model=True)
    assert one.level == OK
    assert " answered in " in one.text
    (request,) = model.requests
    assert [each.text for each in request.messages] == ["ping"]
    assert request.tools == ()


class Silent:
    """A backend that is down."""

    label = ""

    def complete(self, request: Any) -> ModelReply:
        raise BackendError("model_unavailable", "nobody there")


class Keyless(Silent):
    """A backend without a key."""

    is_configured = False


def test_a_model_that_is_down_or_has_no_key(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "get_backend", Silent)
    assert the("model").level == OK
    one = the("model", ask_model=True)
    assert one.level == PROBLEM
    assert "model_unavailable" in one.text
    monkeypatch.setattr(diagnosis, "get_backend", Keyless)
    assert "COPILOT_OPENAI_API_KEY" in the("model").todo


# -- people, switch, clock ---------------------------------------------------------------------------------


def test_who_may_use_it_is_counted_and_else_how_to_let_them(db: None) -> None:
    one = the("people")
    assert (one.level, one.text) == (PROBLEM, "nobody may use the assistant")
    User.objects.create_superuser("root")
    one = the("people")
    assert (one.level, one.text) == (WARNING, "only superusers (1) may use the assistant")
    assert "use_copilot" in one.todo
    office = Group.objects.create(name="office")
    exec(
        one.todo.partition("manage.py shell: ")[2].replace("…", "office"),
        {"Group": Group, "Permission": Permission},
    )
    assert the("people").level == WARNING  # a group without people
    User.objects.create_user("anna").groups.add(office)
    User.objects.create_user("gone", is_active=False).groups.add(office)
    one = the("people")
    assert (one.level, one.text) == (
        OK,
        "1 active accounts have django_copilot.use_copilot, by the groups office; and 1 superusers",
    )


def test_a_permission_that_was_never_made_is_a_problem(db: None) -> None:
    Permission.objects.filter(codename="use_copilot").delete()
    assert (the("people").level, the("people").todo) == (PROBLEM, "manage.py migrate")


def test_the_switch_and_how_to_turn_it_on(store: Store) -> None:
    assert the("switch of admin").text == "on"
    switch.turn("admin", off=True, by=None, reason="The gateway is down.")
    one = the("switch of admin")
    assert one.level == WARNING
    assert "The gateway is down." in one.text
    assert one.todo == "manage.py copilot_switch on --site admin"


def test_a_clock_that_is_wrong_is_a_warning(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert the("clock").level == OK
    later = timezone.now() + datetime.timedelta(minutes=2)
    monkeypatch.setattr(diagnosis.timezone, "now", lambda: later)
    one = the("clock")
    assert one.level == WARNING
    assert "by 1" in one.text


# -- the panel ---------------------------------------------------------------------------------------------


def template(project: Project, root: Path, name: str, text: str) -> Path:
    """Write a template of the project's own, found before all others."""
    path = root / "admin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    project.settings.TEMPLATES = [{**project.settings.TEMPLATES[0], "DIRS": [str(root)]}]
    return path


def test_a_template_that_drops_the_panel_is_named(project: Project, tmp_path: Path) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    User.objects.create_superuser("root")
    assert the("panel of", site).text == "is on the index, as root sees it"
    base = '{% extends "admin/base.html" %}{% block extrahead %}'
    path = template(project, tmp_path, "base_site.html", base + "mine{% endblock %}")
    one = the("panel of", site)
    assert one.level == PROBLEM
    assert f"{path} fills the block extrahead" in one.text
    assert "block.super" in one.todo
    template(project, tmp_path, "base_site.html", base + "{{ block.super }}mine{% endblock %}")
    assert the("panel of", site).level == OK


def test_a_template_that_ends_the_way_is_named(project: Project, tmp_path: Path) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    User.objects.create_superuser("root")
    path = template(project, tmp_path, "base.html", "<html>{% block content %}{% endblock %}</html>")
    one = the("panel of", site)
    assert one.level == PROBLEM
    assert f"{path} ends the way" in one.text
    assert "copilot_panel" in one.todo
    template(project, tmp_path, "base.html", "{% load django_copilot %}<html>{% copilot_panel %}</html>")
    assert the("panel of", site).level == OK


def test_an_index_of_the_projects_own_is_followed_from_there(project: Project, tmp_path: Path) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    site.index_template = "admin/own_index.html"
    User.objects.create_superuser("root")
    path = template(project, tmp_path, "own_index.html", "<p>no way</p>")
    assert str(path) in the("panel of", site).text
    assert shadowing("admin/index.html")[0] == ", though its template is reached"
    project.settings.TEMPLATES = []
    assert "no template engine" in shadowing("admin/index.html")[0]


def test_it_is_made_for_somebody_who_may_use_it(project: Project) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    User.objects.create_user("plain", is_staff=True)
    User.objects.create_superuser("gone", is_active=False)
    project.person(name="idle")
    project.person("depot.view_box", name="anna")
    assert the("panel of", site).text == "is on the index, as anna sees it"


def test_without_any_account_it_is_made_for_one_that_is_not_stored(project: Project) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    with CaptureQueriesContext(connection) as captured:
        assert the("panel of", site).text == "is on the index, as a superuser sees it"
    assert [each["sql"] for each in captured if not is_read(each["sql"])] == []
    assert not User.objects.exists()


def test_a_site_at_no_address_is_a_problem(project: Project) -> None:
    site = project.site({depot.Box: declared(read=["title"])})
    User.objects.create_superuser("root")
    assert the("panel of", site).level == OK
    del project.sites["admin"]
    project.mount()
    one = the("panel of", site)
    assert (one.level, "at no address" in one.text) == (PROBLEM, True)
    admin.sites.all_sites.discard(site)


def test_a_site_whose_code_writes_is_not_carried_through(project: Project) -> None:
    class Writing(ModelAdmin):
        def has_module_permission(self, request: Any) -> bool:
            depot.Box.objects.create(title="a trace")
            return True

    site = project.site({depot.Shelf: declared(read=["title"]), depot.Box: Writing})
    User.objects.create_superuser("root")
    one = the("panel of", site)
    assert one.level == WARNING
    assert "it writes to the database" in one.text
    assert not depot.Box.objects.exists()


def test_a_scope_of_the_projects_own_has_to_be_named(project: Project) -> None:
    @contextmanager
    def enter(values: Any, request: Any) -> Iterator[None]:
        with depot.tenant(values["tenant"]):
            yield

    project.settings.COPILOT = {
        **project.settings.COPILOT,
        "SCOPE": {"capture": lambda request: {"tenant": "acme"}, "enter": enter},
    }
    site = project.site({depot.Box: declared(read=["title"])})
    User.objects.create_superuser("root")
    one = the("panel of", site)
    assert (one.level, one.todo) == (WARNING, "Name it with --scope KEY=VALUE.")
    (panel,) = [
        each
        for each in examine({site: Scope(site="admin", keys={"tenant": "acme"})})
        if each.name.startswith("panel")
    ]
    assert panel.level == OK


def test_reading_only_lets_nothing_be_written(db: None) -> None:
    with reading_only():
        assert not depot.Box.objects.exists()
        with pytest.raises(RuntimeError, match="writes to the database"), transaction.atomic():
            depot.Box.objects.create(title="x")
    depot.Box.objects.create(title="x")
    assert depot.Box.objects.count() == 1


# -- a running server --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_running_server_is_asked_for_its_files(live_server: Any, settings: Any) -> None:
    User.objects.create_superuser("root")
    text, _well = said("--site", "admin", "--url", live_server.url)
    assert "ok       server: all static files are served" in text
    assert "ok       server: the login page of admin answers 200 text/html" in text
    settings.STATIC_URL = "elsewhere/"
    text, well = said("--site", "admin", "--url", live_server.url)
    assert not well
    assert "problem  server:" in text


def test_a_server_that_is_not_there_is_a_problem(store: Store) -> None:
    text, well = said("--site", "admin", "--url", "http://127.0.0.1:9/")
    assert not well
    assert "addresses of static files do not answer as they should" in text
