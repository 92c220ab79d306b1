"""Who may use the endpoint and the pages: status and code for everybody else, and no model is asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.test import Client, override_settings

from django_copilot.models import Conversation, Message, Turn
from django_copilot.testing import Call, Text, script

from .posting import CHAT, CONVERSATIONS, detail, post, told

HELLO = {"message": "Hello"}


def person(store: Any, **fields: Any) -> Any:
    """Return the viewer, changed."""
    user = store.user("viewer")
    for name, value in fields.items():
        setattr(user, name, value)
    user.save()
    return user


def without_permission(store: Any, **fields: Any) -> Any:
    user = person(store, **fields)
    user.groups.clear()
    return user


def with_permission_only(store: Any) -> Any:
    user = without_permission(store)
    user.user_permissions.add(Permission.objects.get(codename="use_copilot"))
    return user


WHO: list[tuple[str, Callable[[Any], Any], int, str]] = [
    ("nobody", lambda store: None, 401, "not_authenticated"),
    ("inactive", lambda store: person(store, is_active=False), 401, "not_authenticated"),
    (
        "inactive superuser",
        lambda store: person(store, is_active=False, is_superuser=True),
        401,
        "not_authenticated",
    ),
    ("not staff", lambda store: person(store, is_staff=False), 403, "not_staff"),
    (
        "superuser, not staff",
        lambda store: person(store, is_staff=False, is_superuser=True),
        403,
        "not_staff",
    ),
    ("without use_copilot", without_permission, 403, "not_allowed"),
    ("auditor", lambda store: store.user("auditor"), 403, "not_allowed"),
    ("not staff comes first", lambda store: without_permission(store, is_staff=False), 403, "not_staff"),
    ("without any entity", with_permission_only, 403, "no_entities"),
    ("viewer", lambda store: store.user("viewer"), 200, ""),
    ("bot", lambda store: store.user("bot"), 200, ""),
    ("superuser", lambda store: store.user("admin"), 200, ""),
]


@pytest.mark.parametrize(("who", "status", "code"), [each[1:] for each in WHO], ids=[each[0] for each in WHO])
def test_who_may_chat(store, who, status, code):
    """Hazard 71."""
    client, user = Client(), who(store)
    if user is not None:
        client.force_login(user)
    with script(*[Text("Hello.")] * (status == 200)):
        response = post(client, HELLO)
    assert told(response) == (status, code)
    assert ("WWW-Authenticate" in response.headers) == (status == 401)
    assert "Location" not in response.headers
    assert Turn.objects.exists() == (status == 200)


@pytest.mark.parametrize(("who", "status", "code"), [each[1:] for each in WHO], ids=[each[0] for each in WHO])
def test_who_may_see_the_conversations_page(store, who, status, code):
    client, user = Client(), who(store)
    if user is not None:
        client.force_login(user)
    as_json = client.get(CONVERSATIONS, headers={"Accept": "application/json"})
    assert told(as_json) == (status, code)
    assert ("WWW-Authenticate" in as_json.headers) == (status == 401)
    page = client.get(CONVERSATIONS, headers={"Accept": "text/html"})
    if status == 401:
        assert page.status_code == 302
        assert page.headers["Location"] == f"/admin/login/?next={CONVERSATIONS}"
    else:
        assert page.status_code == status
    if status in (200, 401):
        assert "no-store" in page.headers["Cache-Control"]


def test_a_session_that_ended_is_no_session(login):
    client = login("viewer")
    Session.objects.all().delete()
    with script():
        assert told(post(client, HELLO)) == (401, "not_authenticated")


def test_a_session_that_expired_is_no_session(login):
    client = login("viewer")
    session = client.session
    session.set_expiry(-1)
    session.save()
    with script():
        assert told(post(client, HELLO)) == (401, "not_authenticated")


def test_a_changed_password_ends_the_session(login, store):
    client, user = login("viewer"), store.user("viewer")
    user.set_password("another one")
    user.save()
    with script():
        assert told(post(client, HELLO)) == (401, "not_authenticated")


@pytest.mark.parametrize("header", ["Basic dmlld2VyOmNvcGlsb3Q=", "Token 0123456789", "Bearer 0123456789"])
def test_nothing_but_a_session_authenticates(store, header):
    """Hazard 72."""
    with script():
        assert told(post(Client(), HELLO, headers={"Authorization": header})) == (401, "not_authenticated")


# -- CSRF -------------------------------------------------------------------------------------------


@pytest.fixture
def strict(store: Any) -> Client:
    """A client of the viewer's, of whom CSRF tokens are asked, with the cookie of an admin page."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(store.user("viewer"))
    client.get(CONVERSATIONS)
    return client


def token_of(client: Client) -> str:
    page = client.get("/admin/store/product/").content.decode()
    found = re.search(r'data-csrf="([^"]+)"', page)
    assert found is not None
    return found[1]


def test_without_a_csrf_token_nothing_is_taken(strict):
    """Hazard 71."""
    with script():
        assert told(post(strict, HELLO)) == (403, "csrf_failed")
        assert told(post(strict, HELLO, headers={"X-CSRFToken": "x" * 64})) == (403, "csrf_failed")
        assert told(post(strict, "{", headers={"X-CSRFToken": ""})) == (403, "csrf_failed")
    assert not Turn.objects.exists()


def test_with_the_token_of_the_panel_a_message_is_taken(strict):
    with script(Text("Hello.")):
        assert told(post(strict, HELLO, headers={"X-CSRFToken": token_of(strict)})) == (200, "")


def test_a_visitor_without_a_session_is_told_so_before_any_token_is_asked_for(store):
    with script():
        response = post(Client(enforce_csrf_checks=True), HELLO)
    assert told(response) == (401, "not_authenticated")


def test_a_conversation_is_deleted_only_with_a_csrf_token(strict, store):
    """Hazard 71."""
    kept = Conversation.objects.create(user=store.user("viewer"), site="admin")
    address = f"{detail(kept.pk)}delete/"
    assert told(strict.post(address, headers={"Accept": "application/json"})) == (403, "csrf_failed")
    assert strict.post(address).status_code == 403
    assert Conversation.objects.filter(pk=kept.pk).exists()
    token = token_of(strict)
    assert strict.post(address, {"csrfmiddlewaretoken": token}).status_code == 302
    assert not Conversation.objects.filter(pk=kept.pk).exists()


@override_settings(CSRF_USE_SESSIONS=True)
def test_the_token_may_live_in_the_session(store):
    client = Client(enforce_csrf_checks=True)
    client.force_login(store.user("viewer"))
    token = token_of(client)
    with script(Text("Hello.")):
        assert told(post(client, HELLO)) == (403, "csrf_failed")
        assert told(post(client, HELLO, headers={"X-CSRFToken": token})) == (200, "")


# -- rights that end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("revoke", "status", "code"),
    [
        (lambda user: user.groups.clear(), 403, "not_allowed"),
        (lambda user: type(user).objects.filter(pk=user.pk).update(is_staff=False), 403, "not_staff"),
        (
            lambda user: type(user).objects.filter(pk=user.pk).update(is_active=False),
            401,
            "not_authenticated",
        ),
        (lambda user: user.delete(), 401, "not_authenticated"),
    ],
    ids=["use_copilot", "staff", "active", "account"],
)
def test_rights_that_end_between_two_messages_are_asked_for_again(login, store, revoke, status, code):
    client = login("viewer")
    with script(Text("Hello.")):
        ident = post(client, HELLO).json()["conversationId"]
    revoke(store.user("viewer"))
    with script():
        assert told(post(client, {**HELLO, "conversationId": ident})) == (status, code)
    assert Message.objects.filter(role="user").count() == (0 if code and not store_has("viewer") else 1)


def store_has(username: str) -> bool:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.filter(username=username).exists()


def test_rights_that_end_while_the_model_thinks_are_asked_for_again(login, store):
    """Hazard 73."""

    def revoke(request: Any) -> Call:
        store.user("viewer").groups.clear()
        return Call("query_product", {"limit": 1})

    with script(revoke, Text("I can't look.")) as model:
        answer = post(login("viewer"), HELLO)
    assert told(answer) == (200, "")
    assert answer.json()["results"] == []
    assert '"not_allowed"' in model.request.messages[-1].text


# -- methods ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete", "options", "trace"])
def test_only_post_starts_a_turn(login, method):
    """Hazard 74."""
    with script():
        response = getattr(login("manager"), method)(CHAT)
    assert response.status_code == 405
    assert "POST" in response.headers["Allow"]
    if method != "head":
        assert told(response) == (405, "method_not_allowed")
    assert not Turn.objects.exists()


@pytest.mark.parametrize("method", ["get", "put", "options"])
def test_other_methods_tell_a_visitor_nothing(db, method):
    assert told(getattr(Client(), method)(CHAT)) == (401, "not_authenticated")


def test_a_method_is_not_overridden_by_a_header_or_a_parameter(login):
    """Hazard 74."""
    with script():
        response = login("manager").get(
            f"{CHAT}?_method=POST&message=Hello", headers={"X-HTTP-Method-Override": "POST"}
        )
    assert told(response) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    "accept",
    ["text/html", "text/html,*/*;q=0.8", "application/xml", "*/*", "application/json; indent=9", "x"],
)
def test_the_answer_is_json_whatever_is_accepted(login, accept):
    client = login("manager")
    with script(Text("Hello.")):
        assert told(post(client, HELLO, headers={"Accept": accept})) == (200, "")
    with script():
        assert told(post(client, {}, headers={"Accept": accept})) == (400, "invalid")


def test_deleting_takes_a_post(login, store):
    kept = Conversation.objects.create(user=store.user("viewer"), site="admin")
    response = login("viewer").get(f"{detail(kept.pk)}delete/", headers={"Accept": "application/json"})
    assert told(response) == (405, "method_not_allowed")
    assert Conversation.objects.filter(pk=kept.pk).exists()
