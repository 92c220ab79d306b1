"""The scope: what is captured of a request, what it separates, and the request that is built from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory, override_settings
from django.utils import timezone, translation

from django_copilot.exceptions import ConfigurationError, ScopeUnavailable
from django_copilot.models import Conversation, Plan, Turn
from django_copilot.scope import Scope, at_page, capture_scope, enter_scope, load_person
from django_copilot.testing import Call, Text, ask, script
from example_project.store.admin import ProductAdmin

current = threading.local()


class Tenants:
    """A project's scope: the tenant stands in a header, and in a thread-local while work is done."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        tenant = request.headers.get("X-Tenant", "acme")
        if tenant == "none":
            raise LookupError("no tenant")
        return {"tenant": tenant}

    @staticmethod
    @contextmanager
    def enter(values: dict[str, str], request: Any) -> Iterator[None]:
        if values["tenant"] == "closed":
            raise LookupError("that tenant is closed")
        current.tenant = request.tenant = values["tenant"]
        try:
            yield
        finally:
            current.tenant = None


TENANTS = {"BACKEND": "scripted", "SCOPE": Tenants}


def visit(**headers: str) -> Any:
    return RequestFactory().get("/admin/", headers=headers)


def test_a_scope_is_what_the_request_was():
    with translation.override("pl"), timezone.override("Asia/Tokyo"):
        request = RequestFactory().get(
            "/admin/", secure=True, SCRIPT_NAME="/mounted", HTTP_HOST="localhost:8000"
        )
        scope = capture_scope(request, site)
    assert scope == Scope(
        site="admin",
        host="localhost:8000",
        secure=True,
        language="pl",
        time_zone="Asia/Tokyo",
        script="/mounted",
        keys={},
    )
    assert Scope.from_json(scope.to_json()) == scope


@pytest.mark.parametrize("stored", [{}, {"site": "admin", "unknown": 1}, {"host": "localhost"}])
def test_a_stored_scope_that_cannot_be_read_is_unavailable(stored):
    with pytest.raises(ScopeUnavailable):
        Scope.from_json(stored)


@pytest.mark.django_db
def test_the_built_request_is_a_get_of_the_person_in_that_place(store):
    scope = Scope(site="admin", host="localhost:8000", secure=True, language="pl", time_zone="Asia/Tokyo")
    before = translation.get_language(), timezone.get_current_timezone_name()
    with enter_scope(scope, store.user("manager").pk) as request:
        assert (request.method, request.user.username) == ("GET", "manager")
        assert not request.GET
        assert not request.POST
        assert not request.COOKIES
        assert request.build_absolute_uri("/x") == "https://localhost:8000/x"
        assert request.current_app == "admin"
        assert translation.get_language() == "pl"
        assert timezone.get_current_timezone_name() == "Asia/Tokyo"
        with pytest.raises(ScopeUnavailable, match="COPILOT"):
            request.session  # noqa: B018
    assert (translation.get_language(), timezone.get_current_timezone_name()) == before


@pytest.mark.django_db
def test_hooks_see_the_address_of_the_page_that_they_are_asked_for(store):
    model_admin = site._registry[next(m for m in site._registry if m.__name__ == "Product")]
    with enter_scope(Scope(site="admin"), store.user("manager").pk) as request:
        before = request.path, request.resolver_match
        with at_page(request, model_admin, "change", "5"):
            assert request.path == request.path_info == "/admin/store/product/5/change/"
            assert request.resolver_match.url_name == "store_product_change"
            assert request.resolver_match.kwargs == {"object_id": "5"}
        assert (request.path, request.resolver_match) == before


@pytest.mark.django_db
def test_the_person_is_loaded_anew_each_time(store):
    """Hazard 73."""
    user = store.user("viewer")
    assert user.has_perm("store.view_product")
    Group.objects.get(name="viewers").permissions.clear()
    with enter_scope(Scope(site="admin"), user.pk) as request:
        assert request.user is not user
        assert not request.user.has_perm("store.view_product")


@pytest.mark.django_db
@pytest.mark.parametrize("gone", ["inactive", "deleted"])
def test_a_person_who_is_gone_is_a_refusal(store, gone):
    user = store.user("viewer")
    pk = user.pk
    if gone == "inactive":
        user.is_active = False
        user.save()
    else:
        user.delete()
    with pytest.raises(ScopeUnavailable):
        load_person(pk)
    with pytest.raises(ScopeUnavailable), enter_scope(Scope(site="admin"), pk):
        pytest.fail("the scope was entered")


# -- the project's own ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "own",
    [
        Tenants,
        f"{__name__}.Tenants",
        {"capture": Tenants.capture, "enter": Tenants.enter},
        {"capture": f"{__name__}.Tenants.capture", "enter": Tenants.enter},
    ],
    ids=["object", "path", "dict", "dict of paths"],
)
@pytest.mark.django_db
def test_a_scope_of_the_project_is_captured_and_entered(store, own):
    if isinstance(own, dict) and isinstance(own["capture"], str):
        own = {**own, "capture": f"{__name__}.capture"}
    with override_settings(COPILOT={"SCOPE": own}):
        scope = capture_scope(visit(**{"X-Tenant": "acme"}), site)
        assert scope.keys == {"tenant": "acme"}
        with enter_scope(scope, store.user("viewer").pk) as request:
            assert current.tenant == request.tenant == "acme"
        assert current.tenant is None


capture = Tenants.capture


def test_keys_separate_and_nothing_else_does():
    base = Scope(site="admin", keys={"tenant": "acme", "shop": "1"})
    assert base.key == Scope(site="admin", keys={"shop": "1", "tenant": "acme"}, language="pl", host="x").key
    assert base.key != Scope(site="admin", keys={"tenant": "acme"}).key
    assert (
        Scope(site="admin", keys={"a": "b", "c": "d"}).key
        != Scope(site="admin", keys={"a": 'b", "c": "d'}).key
    )
    assert Scope(site="admin").key == ""


@pytest.mark.parametrize("wrong", ["no.such.module", "os.path", {"capture": print}, object(), 5])
def test_a_scope_that_is_none_is_a_configuration_error(wrong):
    with override_settings(COPILOT={"SCOPE": wrong}), pytest.raises(ConfigurationError, match="SCOPE"):
        capture_scope(visit(), site)


@pytest.mark.django_db
def test_a_stored_scope_without_the_setting_is_a_refusal_that_names_it(store):
    """Hazard 86."""
    scope = Scope(site="admin", keys={"tenant": "acme"})
    with pytest.raises(ScopeUnavailable, match="SCOPE"), enter_scope(scope, store.user("viewer").pk):
        pytest.fail("the scope was entered")


@pytest.mark.parametrize("tenant", ["none", "closed"])
def test_a_scope_that_fails_is_a_failed_answer_and_nothing_is_done(login, store, caplog, tenant):
    """Hazard 86."""
    client = login("manager")
    with override_settings(COPILOT=TENANTS), script():
        failing = client.post(
            "/admin/django_copilot/conversation/chat/",
            data={"message": "Hello"},
            content_type="application/json",
            headers={"X-Tenant": tenant},
        )
    assert (failing.status_code, failing.json()["code"]) == (500, "failed")
    assert "COPILOT['SCOPE']" in caplog.text
    assert "closed" not in failing.content.decode()
    assert not Turn.objects.exists()


def test_a_scope_that_closes_while_the_model_thinks_ends_the_turn(login, monkeypatch, caplog):
    """Hazard 86."""
    client = login("manager")

    def close(request: Any) -> Call:
        monkeypatch.setattr(Tenants, "enter", staticmethod(closed))
        return Call("query_product", {})

    @contextmanager
    def closed(values: Any, request: Any) -> Iterator[None]:
        raise LookupError("that tenant is closed")
        yield

    with override_settings(COPILOT=TENANTS), script(close):
        assert ask(client, "Hello", status=500)["code"] == "failed"
    assert "COPILOT['SCOPE']" in caplog.text
    assert Turn.objects.get().state == "failed"


def test_conversations_and_plans_of_one_scope_are_not_there_in_another(login):
    """Hazard 86."""
    client = login("manager")
    headers = {"Accept": "application/json"}
    with override_settings(COPILOT=TENANTS):
        with script(Call("open_tag_form", {"fields": {"name": "New"}})):
            answer = ask(client, "A tag")
        conversation = f"/admin/django_copilot/conversation/{answer['conversationId']}/"
        plan = f"/admin/django_copilot/plan/{answer['action']['queryParams']['aiPlan']}/"
        for path in (conversation, plan):
            assert client.get(path, headers=headers).status_code == 200
            other = client.get(path, headers={**headers, "X-Tenant": "other"})
            assert (other.status_code, other.json()["code"]) == (404, "not_found")
    for path in (conversation, plan):  # and without the setting they are in no scope of this project
        assert client.get(path, headers=headers).status_code == 404
    assert Conversation.objects.get().scope["keys"] == {"tenant": "acme"}
    assert Plan.objects.get().scope_key == Conversation.objects.get().scope_key != ""


def test_every_piece_of_work_runs_in_the_scope(login, monkeypatch):
    """Hazard 86."""
    client = login("manager")
    seen: list[Any] = []
    real = ProductAdmin.get_queryset

    def get_queryset(self: Any, request: Any) -> Any:
        seen.append((getattr(current, "tenant", None), getattr(request, "tenant", None)))
        return real(self, request)

    monkeypatch.setattr(ProductAdmin, "get_queryset", get_queryset)
    with override_settings(COPILOT=TENANTS), script(Call("query_product", {"limit": 1}), Text("Here.")):
        answer = ask(client, "Look")
        client.get(
            f"/admin/django_copilot/conversation/{answer['conversationId']}/",
            headers={"Accept": "application/json"},
        )
    assert len(seen) >= 2
    assert set(seen) == {("acme", "acme")}


def test_the_language_and_the_time_zone_do_not_separate(login):
    client: Client = login("manager")
    with script(Text("Hello."), Text("Cześć.")):
        ident = ask(client, "Hello")["conversationId"]
        answer = client.post(
            "/admin/django_copilot/conversation/chat/",
            data={"message": "Cześć", "conversationId": ident},
            content_type="application/json",
            headers={"Accept-Language": "pl"},
        )
    assert answer.json()["conversationId"] == ident
