"""Projects whose settings are read at import: themes, a replaced default site, hostile REST defaults.

Each is set up in a process of its own, which goes through the pages and says what it found.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import set_script_prefix

from django_copilot.testing import Call, Text, copilot_client, script

from .depot import models as depot
from .sites import Project, declared, say

ROOT = Path(__file__).resolve().parents[2]
TITLE = declared(read=["title"], fill=["title"])
ADMIN_PAGES = ("index", "app", "list", "history", "password", "add", "change", "change by text key", "delete")
FORMS = ("add", "change", "change by text key", "add account")


def visit(what: str, *, warnings: str = "error", **environment: str) -> Any:
    """Run one visit in a process of its own and return what it found."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-m", "tests.projects.showroom.visit", what],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_pages(found: dict[str, Any]) -> None:
    """Check that every page has the panel once, and forms and delete pages what belongs to them."""
    for name in ADMIN_PAGES:
        assert found[name]["status"] == 200, (name, found[name])
        assert found[name]["panel"] == 1, (name, found[name])
    for name in FORMS:
        assert found[name]["plan"], (name, found[name])
        assert found[name]["marks"], (name, found[name])
        assert found[name]["filled"], (name, found[name])
    assert found["change"]["saved"] == [302, "proposed title"]
    assert found["delete"]["preview"]
    assert found["login"] == {"status": 200, "panel": 0, "plan": False, "marks": False}
    assert [row["title"] for row in found["rows"]] == ["proposed title"]


@pytest.mark.parametrize("theme", ["", "unfold", "jazzmin", "grappelli"], ids=lambda theme: theme or "django")
def test_panel_plan_marks_and_preview_are_on_the_pages_of_each_theme(theme: str) -> None:
    """hazard 105"""
    if theme and importlib.util.find_spec(theme) is None:
        pytest.skip(f"the admin theme {theme} is not installed")
    check_pages(visit("pages", warnings="default" if theme else "error", ADMIN_THEME=theme))


def test_a_default_site_that_an_app_replaces_has_everything_too() -> None:
    """hazard 99"""
    found = visit("pages", REPLACE_SITE="1")
    assert found["header"] == "Another header"
    check_pages(found)


def test_an_app_after_the_admin_is_a_check_error() -> None:
    """hazard 105"""
    assert "copilot.E003" in visit("checks", APP_LAST="1")["ids"]
    assert "copilot.E003" not in visit("checks")["ids"]


def test_rest_framework_defaults_of_the_project_change_nothing() -> None:
    """hazard 107

    A default that takes everybody for the superuser, parsers that rename keys, envelopes, no throttle.
    """
    found = visit("rest", REST="hostile")
    status, answer = found["answer"]
    assert status == 200
    assert answer["reply"] == "There."
    assert answer["results"][0]["rows"][0]["values"]["title"] == "żółw"
    assert set(answer) == {"conversationId", "reply", "results", "sent"}
    assert found["same conversation"][0] == 200
    assert found["same conversation"][1]["conversationId"] == answer["conversationId"]
    expected = {
        "stranger": (401, "not_authenticated"),
        "stranger with a token": (401, "not_authenticated"),
        "not staff": (403, "not_staff"),
        "no csrf token": (403, "csrf_failed"),
        "empty": (400, "invalid"),
        "no json": (400, "invalid"),
        "not a number": (400, "invalid"),
    }
    assert {name: (found[name][0], found[name][1]["code"]) for name in expected} == expected
    assert "message" in found["empty"][1]["errors"]
    assert found["get"] == 405
    assert found["list for a stranger"] == 401


# -- settings that are read when they are used -----------------------------------------------------


def test_where_a_login_is_required_everywhere_the_endpoint_still_answers_for_itself(project: Project) -> None:
    """hazard 107"""
    middleware = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    project.settings.MIDDLEWARE = [*project.settings.MIDDLEWARE, middleware]
    project.site({depot.Box: TITLE})
    chat = "/admin/django_copilot/conversation/chat/"
    body = json.dumps({"message": "x"})
    refused = Client().post(chat, body, content_type="application/json")
    assert refused.status_code == 401
    assert refused.json()["code"] == "not_authenticated"
    page = Client().get("/admin/django_copilot/conversation/")
    assert page.status_code == 302
    assert page["Location"] == "/admin/login/?next=/admin/django_copilot/conversation/"
    client = project.boss()
    chat_answer = say(client, Call("query_box"))
    assert chat_answer.rows == []
    assert client.get("/admin/django_copilot/conversation/").status_code == 200
    assert client.get("/admin/django_copilot/conversation/jsi18n/").status_code == 200


def test_a_base_site_template_of_the_projects_own_keeps_the_panel(project: Project, tmp_path: Path) -> None:
    """hazard 105"""
    (tmp_path / "admin").mkdir()
    (tmp_path / "admin" / "base_site.html").write_text(
        '{% extends "admin/base.html" %}{% block branding %}<p>own branding</p>{% endblock %}'
        '{% block extrahead %}{{ block.super }}<meta name="own" content="here">{% endblock %}'
    )
    project.settings.TEMPLATES = [{**project.settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    project.site({depot.Box: TITLE})
    client = project.boss()
    chat = say(client, Call("open_box_form", {"fields": {"title": "t"}}), ends=True)
    for path in ("/admin/", "/admin/depot/box/", chat.page):
        text = client.get(path).content.decode()
        assert "own branding" in text
        assert '<meta name="own" content="here">' in text
        assert text.count(" data-copilot ") == 1


def test_no_key_and_no_backend_leave_the_admin_as_it_is(project: Project) -> None:
    project.settings.COPILOT = {"BACKEND": "tests.projects.no_such.Backend"}
    project.site({depot.Box: TITLE})
    client = project.boss()
    text = client.get("/admin/").content.decode()
    assert " data-copilot " in text
    response = client.post(
        "/admin/django_copilot/conversation/chat/",
        json.dumps({"message": "x"}),
        content_type="application/json",
    )
    assert (response.status_code, response.json()["code"]) == (500, "model_not_configured")


def test_the_admin_mounted_below_a_script_name_stays_below_it(project: Project) -> None:
    """hazard 104"""
    bins = declared(read=["code", "title"], fill=["title"], list_display=["code"])
    project.site({depot.Bin: bins})
    project.boss()
    client = copilot_client(get_user_model().objects.get(username="boss"), SCRIPT_NAME="/shop")
    depot.Bin.objects.create(code="ż/b", title="t")
    body = json.dumps({"message": "x", "page": "/shop/admin/depot/bin/"})
    set_script_prefix("/shop/")  # as the WSGI and ASGI handlers do
    try:
        with script(Call("query_bin"), Text("Done.")) as model:
            response = client.post(
                "/admin/django_copilot/conversation/chat/", body, content_type="application/json"
            )
    finally:
        set_script_prefix("/")
    assert response.status_code == 200, response.content
    assert response.json()["results"][0]["rows"][0]["url"] == "/shop/admin/depot/bin/%C5%BC_2Fb/change/"
    assert '"entity": "bin"' in model.request.context
