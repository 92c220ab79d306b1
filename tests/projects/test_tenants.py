"""A tenant that middleware puts into a thread-local, and other things that hooks read from a request."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.test import Client

from django_copilot import gate
from django_copilot.backends.base import ToolCall
from django_copilot.scope import Scope, capture_scope
from django_copilot.testing import Call, Text, ask, assert_not_sent, copilot_client, script
from django_copilot.tools.base import Failed

from .depot import models as depot
from .depot.models import tenant
from .sites import Project, declared, say

LEDGER = declared(read=["title"], fill=["title"])


def by_header(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Set the tenant while a request is answered, as libraries for tenants do."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with tenant(request.headers.get("X-Tenant", "red")):
            request.tenant = request.headers.get("X-Tenant", "red")  # type: ignore[attr-defined]
            return get_response(request)

    return middleware


class TenantScope:
    """What the project says of its tenants."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        """Read it from a person's request."""
        return {"tenant": request.tenant}

    @staticmethod
    @contextlib.contextmanager
    def enter(values: dict[str, str], request: Any) -> Iterator[None]:
        """Set what the middleware sets."""
        with tenant(values["tenant"]):
            request.tenant = values["tenant"]
            yield


@pytest.fixture
def tenants(project: Project) -> Project:
    """Give a project whose rows belong to the tenant of the request."""
    settings = project.settings
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.projects.test_tenants.by_header"]
    settings.COPILOT = {**settings.COPILOT, "SCOPE": TenantScope}
    project.site({depot.Ledger: LEDGER})
    for name in ("red", "blue"):
        with tenant(name):
            depot.Ledger.objects.create(title=f"{name} ledger")
    return project


def client_of(project: Project, name: str, boss: Any = None) -> Client:
    """Return a client of one person who talks to a tenant's address."""
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.filter(username="boss").first()
    user = user or get_user_model().objects.create_superuser("boss")
    return copilot_client(user, headers={"x-tenant": name})


def ledger(name: str) -> Any:
    return depot.Ledger.everything.get(tenant=name)


# -- a scope that is set ---------------------------------------------------------------------------


@pytest.mark.parametrize(("mine", "other"), [("red", "blue"), ("blue", "red")])
def test_tools_forms_and_delete_pages_know_the_tenants_rows_only(
    tenants: Project, mine: str, other: str
) -> None:
    """hazard 101"""
    client = client_of(tenants, mine)
    chat = say(client, Call("query_ledger"))
    assert [row["title"] for row in chat.rows] == [f"{mine} ledger"]
    assert_not_sent(chat.model, f"{other} ledger")
    foreign = str(ledger(other).pk)
    absent = "999999"
    answers = []
    for ident in (foreign, absent):
        assert say(client, Call("query_ledger", {"filters": {"id": ident}})).rows == []
        answers.append(
            [
                say(client, Call("open_ledger_form", {"id": ident, "fields": {"title": "x"}})).told,
                say(client, Call("confirm_delete_ledger", {"id": ident})).told,
            ]
        )
    assert answers[0] == answers[1]

    own = str(ledger(mine).pk)
    chat = say(client, Call("open_ledger_form", {"id": own, "fields": {"title": "new"}}), ends=True)
    assert 'value="new"' in client.get(chat.page).content.decode()
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    posted = client.post(chat.answer["action"]["path"], {"title": "new", "_copilot_plan": plan})
    assert posted.status_code == 302
    assert ledger(mine).title == "new"
    preview = client.get(f"/admin/depot/ledger/{own}/delete/").context["copilot_preview"]
    assert [each["value"] for each in preview["fields"]] == ["new"]


def test_the_work_of_a_turn_enters_the_stored_tenant_and_not_the_one_of_the_thread(tenants: Project) -> None:
    """hazard 101

    As for a streamed body, whose middleware has ended, or a worker that serves somebody else.
    """
    client_of(tenants, "red")
    site, boss = tenants.sites["admin"], tenants.person(is_superuser=True)
    call = ToolCall(id="1", name="query_ledger", arguments="{}")
    for around in (contextlib.nullcontext(), tenant("blue")):
        with around:
            outcome = gate.run(site, Scope(site="admin", keys={"tenant": "red"}), boss.pk, call)
        assert isinstance(outcome.content, dict)
        assert [row["title"] for row in outcome.content["rows"]] == ["red ledger"]


def test_conversations_and_plans_of_another_tenant_are_not_there(tenants: Project) -> None:
    """hazard 102"""
    red, blue = client_of(tenants, "red"), client_of(tenants, "blue")
    own = str(ledger("red").pk)
    form = say(red, Call("open_ledger_form", {"id": own, "fields": {"title": "red plan"}}), ends=True)
    ident, plan = form.answer["conversationId"], form.answer["action"]["queryParams"]["aiPlan"]
    read = say(red, Call("query_ledger"), conversationId=ident)
    assert read.answer["conversationId"] == ident
    as_json = {"accept": "application/json"}

    assert ask(blue, "Go on", conversationId=ident, status=404)["code"] == "not_found"
    assert blue.get(f"/admin/django_copilot/conversation/{ident}/", headers=as_json).status_code == 404
    assert blue.get(f"/admin/django_copilot/plan/{plan}/").status_code == 404
    assert blue.post(f"/admin/django_copilot/plan/{plan}/again/").status_code == 404
    assert blue.get("/admin/django_copilot/conversation/", headers=as_json).json()["conversations"] == []
    add = blue.get(f"/admin/depot/ledger/add/?aiAction=create&aiPlan={plan}").content.decode()
    assert "red plan" not in add
    # a posted plan of the other tenant saves nothing
    mine = f"/admin/depot/ledger/{ledger('blue').pk}/change/"
    assert blue.post(mine, {"title": "x", "_copilot_plan": plan}).status_code == 200
    assert ledger("blue").title == "blue ledger"

    shown = red.get(f"/admin/django_copilot/conversation/{ident}/", headers=as_json).json()
    rows = shown["messages"][-1]["results"][0]["rows"]
    assert [row["values"]["title"] for row in rows] == ["red ledger"]


def test_the_first_request_of_a_turn_offers_what_the_tenant_has(tenants: Project) -> None:
    tenants.sites["admin"].unregister(depot.Ledger)

    def only_red(self: Any, request: Any) -> bool:
        return request.tenant == "red"

    tenants.site({depot.Ledger: declared(read=["title"], has_module_permission=only_red)})
    assert "query_ledger" in say(client_of(tenants, "red")).tools
    assert ask(client_of(tenants, "blue"), "x", status=403)["code"] == "no_entities"


# -- a scope that is missing or fails --------------------------------------------------------------


def failing(*args: Any) -> Any:
    raise RuntimeError("the register of tenants is down")


@contextlib.contextmanager
def failing_inside(values: Any, request: Any) -> Iterator[None]:
    raise RuntimeError("the register of tenants is down")
    yield


BROKEN = {
    "capture fails": {"capture": failing, "enter": TenantScope.enter},
    "capture gives no mapping": {"capture": lambda request: "red", "enter": TenantScope.enter},
    "enter fails": {"capture": TenantScope.capture, "enter": failing},
    "enter fails inside": {"capture": TenantScope.capture, "enter": failing_inside},
    "enter is no context manager": {"capture": TenantScope.capture, "enter": lambda values, request: None},
    "nothing there": "tests.projects.no_such.thing",
    "half of it": {"capture": TenantScope.capture},
}


@pytest.mark.parametrize("scope", BROKEN.values(), ids=BROKEN)
def test_a_scope_that_fails_is_a_refusal_that_names_the_setting(
    tenants: Project, scope: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """hazard 103"""
    client = client_of(tenants, "red")
    own = str(ledger("red").pk)
    form = say(client, Call("open_ledger_form", {"id": own, "fields": {"title": "new"}}), ends=True)
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": scope}
    caplog.clear()
    with script():
        answer = ask(client, "Show ledgers", status=500)
    assert answer["code"] == "failed"
    assert "register" not in json.dumps(answer)
    assert "COPILOT['SCOPE']" in caplog.text
    # the admin's own pages work, without us
    response = client.get(form.page)
    assert response.status_code == 200
    assert 'value="new"' not in response.content.decode()
    response = client.get(f"/admin/depot/ledger/{own}/delete/")
    assert response.status_code == 200
    assert response.context["copilot_preview"] is None
    plan = form.answer["action"]["queryParams"]["aiPlan"]
    refused = client.post(form.answer["action"]["path"], {"title": "new", "_copilot_plan": plan})
    assert refused.status_code == 200
    assert ledger("red").title == "red ledger"
    assert client.post(f"/admin/depot/ledger/{own}/delete/", {"post": "yes"}).status_code == 302


def test_a_conversation_of_a_scope_is_not_continued_when_the_setting_is_gone(
    tenants: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """hazard 103"""
    client = client_of(tenants, "red")
    ident = say(client, Call("query_ledger")).answer["conversationId"]
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": None}
    with script():
        ask(client, "Go on", conversationId=ident, status=404)
    site, boss = tenants.sites["admin"], tenants.person(is_superuser=True)
    from django_copilot.exceptions import ScopeUnavailable

    call = ToolCall(id="1", name="query_ledger", arguments="{}")
    with tenant("red"), pytest.raises(ScopeUnavailable, match=r"COPILOT\['SCOPE'\] is not set"):
        gate.run(site, Scope(site="admin", keys={"tenant": "red"}), boss.pk, call)


def test_without_a_scope_the_rows_of_a_request_are_those_of_its_tenant(tenants: Project) -> None:
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": None}
    for name in ("red", "blue"):
        chat = say(client_of(tenants, name), Call("query_ledger"))
        assert [row["title"] for row in chat.rows] == [f"{name} ledger"]


def test_without_a_scope_work_outside_the_middleware_is_refused_and_logged(
    tenants: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """hazard 103"""
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": None}
    site, boss = tenants.sites["admin"], tenants.person(is_superuser=True)
    call = ToolCall(id="1", name="query_ledger", arguments="{}")
    outcome = gate.run(site, Scope(site="admin"), boss.pk, call)
    assert isinstance(outcome, Failed)
    assert "rows" not in outcome.content
    assert "get_queryset" in caplog.text
    assert "COPILOT['SCOPE']" in caplog.text


def test_two_scopes_are_told_apart_by_every_key_and_value(rf: Any, settings: Any) -> None:
    made = [{}, {"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "1"}, {"a": '1", "b": "1'}]
    assert len({Scope(site="admin", keys=each).key for each in made}) == len(made)
    site = admin.AdminSite(name="somewhere")
    try:
        settings.COPILOT = {
            "SCOPE": {"capture": lambda request: {"n": 1, "none": None}, "enter": TenantScope.enter}
        }
        assert capture_scope(rf.get("/"), site).keys == {"n": "1"}
    finally:
        admin.sites.all_sites.discard(site)


# -- hooks that read the request -------------------------------------------------------------------


def rows_by(read: Callable[[Any], Any]) -> type[admin.ModelAdmin[Any]]:
    """Return an admin whose rows depend on what ``read`` finds in the request."""

    def get_queryset(self: Any, request: Any) -> Any:
        return depot.Box.objects.filter(title__startswith=str(read(request)))

    return declared(read=["title"], fill=["title"], get_queryset=get_queryset)


@pytest.mark.parametrize(
    "read",
    [
        lambda request: request.session["region"],
        lambda request: request.session.get("region", ""),
        lambda request: request.tenant,
        lambda request: request.no_such_thing.name,
    ],
    ids=["session", "session with a default", "what middleware sets", "nothing that exists"],
)
def test_rows_that_need_what_is_not_there_are_refused_and_logged(
    project: Project, caplog: pytest.LogCaptureFixture, read: Any
) -> None:
    """hazard 103

    Also with a default: an empty session is not the person's session.
    """
    project.site({depot.Box: rows_by(read)})
    box = depot.Box.objects.create(title="t")
    client = project.boss()
    caplog.set_level(logging.ERROR, "django_copilot")
    for call in (
        Call("query_box"),
        Call("open_box_form", {"id": str(box.pk), "fields": {"title": "x"}}),
        Call("confirm_delete_box", {"id": str(box.pk)}),
    ):
        caplog.clear()
        chat = say(client, call)
        assert chat.error == "not_found"
        assert "get_queryset" in caplog.text
        assert "COPILOT['SCOPE']" in caplog.text


class SessionScope:
    """Keeps what the hooks read from the session."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        """Read it."""
        return {"region": request.session["region"]}

    @staticmethod
    @contextlib.contextmanager
    def enter(values: dict[str, str], request: Any) -> Iterator[None]:
        """Give the hooks a session with it."""
        request.session = {"region": values["region"]}
        yield


def test_a_scope_can_give_hooks_what_they_read_of_the_session(project: Project) -> None:
    project.settings.COPILOT = {**project.settings.COPILOT, "SCOPE": SessionScope}
    project.site({depot.Box: rows_by(lambda request: request.session["region"])})
    for title in ("north box", "south box"):
        depot.Box.objects.create(title=title)
    client = project.boss()
    session = client.session
    session["region"] = "north"
    session.save()
    chat = say(client, Call("query_box"))
    assert [row["title"] for row in chat.rows] == ["north box"]


def test_hooks_find_the_address_of_the_page_their_answer_is_for(project: Project) -> None:
    """hazard 104"""
    seen: set[tuple[str, str, str]] = set()

    def get_queryset(self: Any, request: Any) -> Any:
        match = request.resolver_match
        seen.add((match.url_name, str(match.kwargs.get("object_id", "")), request.path))
        assert request.path == request.path_info
        assert match.func.model_admin is self
        return depot.Bin.objects.all()

    bins = declared(read=["code", "title"], fill=["title"], list_display=["code"], get_queryset=get_queryset)
    project.site({depot.Bin: bins})
    client = project.boss()
    depot.Bin.objects.create(code="ż/b", title="t")
    say(client, Call("query_bin"))
    assert seen == {("depot_bin_changelist", "", "/admin/depot/bin/")}
    seen.clear()
    say(client, Call("open_bin_form", {"id": "ż/b", "fields": {"title": "x"}}), ends=True)
    assert ("depot_bin_change", "ż_2Fb", "/admin/depot/bin/ż_2Fb/change/") in seen


def test_hooks_find_no_parameters_and_no_body_of_anybodys_request(project: Project) -> None:
    """hazard 104"""
    seen: list[Any] = []

    def get_queryset(self: Any, request: Any) -> Any:
        seen.append((request.method, dict(request.GET), dict(request.POST), dict(request.COOKIES)))
        title = request.GET.get("title", "")
        return depot.Box.objects.filter(title__startswith=title)

    project.site({depot.Box: declared(read=["title"], get_queryset=get_queryset)})
    depot.Box.objects.create(title="t")
    client = project.boss()
    with script(Call("query_box"), Text("Done.")):
        client.post(
            "/admin/django_copilot/conversation/chat/?title=nothing",
            json.dumps({"message": "x"}),
            content_type="application/json",
        )
    assert seen
    assert all(each == ("GET", {}, {}, {}) for each in seen)
