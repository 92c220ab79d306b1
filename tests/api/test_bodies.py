"""What is sent to the chat endpoint: each bad body has its answer, asks no model and stores nothing."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.test import override_settings

from django_copilot.models import Conversation, Message, Turn
from django_copilot.testing import Text, script

from .posting import post, told

GOOD = json.dumps({"message": "Hello"})
SOME_ID = str(uuid.UUID(int=7))


def nothing_stored() -> bool:
    return not Turn.objects.exists() and not Message.objects.exists() and not Conversation.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({}, "message", id="no message"),
        pytest.param({"message": ""}, "message", id="empty"),
        pytest.param({"message": " \n\t\N{NO-BREAK SPACE}"}, "message", id="blank"),
        pytest.param({"message": None}, "message", id="null"),
        pytest.param({"message": 5}, "message", id="number"),
        pytest.param({"message": True}, "message", id="boolean"),
        pytest.param({"message": ["Hello"]}, "message", id="list"),
        pytest.param({"message": {"text": "Hello"}}, "message", id="object"),
        pytest.param({"message": "x" * 8_001}, "message", id="8,001 characters"),
        pytest.param({"message": "x" * 100_000}, "message", id="100,000 characters"),
        pytest.param({"message": "ż" * 100_000}, "message", id="100,000 escaped characters"),
        pytest.param('{"message": "a \\ud800 b"}', "message", id="lone surrogate"),
        pytest.param('{"message": "a \\u0000 b"}', "message", id="NUL"),
        pytest.param({"message": "Hello", "conversationId": 5}, "conversationId", id="id is a number"),
        pytest.param({"message": "Hello", "conversationId": True}, "conversationId", id="id is a boolean"),
        pytest.param({"message": "Hello", "conversationId": [SOME_ID]}, "conversationId", id="id is a list"),
        pytest.param({"message": "Hello", "page": 5}, "page", id="page is a number"),
        pytest.param({"message": "Hello", "page": {}}, "page", id="page is an object"),
        pytest.param("", "message", id="no body"),
        pytest.param("Hello", "body", id="no JSON"),
        pytest.param('{"message": "Hello"', "body", id="cut JSON"),
        pytest.param('{"message": NaN}', "body", id="NaN"),
        pytest.param('{"message": "Hello"} {}', "body", id="two objects"),
        pytest.param("[" * 200_000, "body", id="deeper than a parser goes"),
        pytest.param('["Hello"]', "body", id="a list"),
        pytest.param('"Hello"', "body", id="a text"),
        pytest.param("null", "body", id="null"),
        pytest.param("5", "body", id="a number"),
        pytest.param(b'{"message": "\xff\xfe"}', "body", id="not UTF-8"),
        pytest.param(GOOD.encode("utf-16"), "body", id="UTF-16"),
        pytest.param('{"message": "' + "x" * 3_000_000 + '"}', "body", id="three megabytes"),
    ],
)
def test_a_bad_body_is_invalid_and_names_the_field(login, body, field):
    client = login("manager")
    with script():
        response = post(client, body)
    assert told(response) == (400, "invalid")
    errors = response.json()["errors"]
    assert list(errors) == [field]
    assert all(isinstance(text, str) and text for text in errors[field])
    assert nothing_stored()


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "text/plain",
        "application/json; charset=utf-16",
        "application/json; charset=rot13",
        "application/json; charset=nothing-like-it",
        "application/vnd.api+json",
    ],
)
def test_the_body_is_read_as_utf8_json_whatever_it_is_called(login, content_type):
    with script(Text("Hello.")):
        response = login("manager").generic(
            "POST", "/admin/django_copilot/conversation/chat/", GOOD.encode(), content_type=content_type
        )
    assert told(response) == (200, "")


@pytest.mark.parametrize(
    "content_type", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
)
def test_a_form_is_no_json(login, content_type):
    with script():
        response = login("manager").generic(
            "POST", "/admin/django_copilot/conversation/chat/", b"message=Hello", content_type=content_type
        )
    assert told(response) == (400, "invalid")
    assert nothing_stored()


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10)
def test_the_projects_limit_for_forms_is_an_invalid_body_too(login):
    with script():
        response = login("manager").generic(
            "POST",
            "/admin/django_copilot/conversation/chat/",
            b"message=Hello",
            content_type="application/x-www-form-urlencoded",
        )
    assert told(response) == (400, "invalid")


@pytest.mark.parametrize("length", [1, 8_000])
def test_a_message_of_up_to_8000_characters_is_taken(login, length):
    with script(Text("Hello.")) as model:
        assert told(post(login("manager"), {"message": "\N{GRINNING FACE}" * length})) == (200, "")
    assert model.request.messages[-1].text == "\N{GRINNING FACE}" * length
    assert Message.objects.get(role="user").text == "\N{GRINNING FACE}" * length


@override_settings(COPILOT={"BACKEND": "scripted", "MESSAGE_CHARS": 10})
def test_the_length_is_a_setting(login):
    client = login("manager")
    with script(Text("Hello.")):
        assert told(post(client, {"message": "1234567890"})) == (200, "")
        assert told(post(client, {"message": "12345678901"})) == (400, "invalid")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"page": None}, "null is no page"),
        ({"page": ""}, "empty is no page"),
        ({"page": "/admin/store/product/?" + "q=1&" * 2_000}, "a list with many filters"),
        ({"page": "\ud800\x00"}, "a page that is none"),
        ({"page": "//evil.example/admin/"}, "another host"),
        ({"conversationId": None}, "null is no conversation"),
        ({"unknown": 1, "confirm": True, "user": "admin"}, "unknown names are ignored"),
    ],
)
def test_what_does_not_matter_is_no_error(login, more, why):
    with script(Text("Hello.")):
        assert told(post(login("manager"), {"message": "Hello", **more})) == (200, ""), why


def test_errors_are_in_the_persons_language(login):
    client = login("manager")
    with script():
        english, polish = (
            post(client, {"message": ""}, headers={"Accept-Language": language}).json()["errors"]["message"]
            for language in ("en", "pl")
        )
    assert english != polish


# -- conversations that are not there ---------------------------------------------------------------


@pytest.fixture
def foreign(store: Any) -> dict[str, str]:
    """Ids that name no conversation of the manager's on this site, by the reason."""
    manager, viewer = store.user("manager"), store.user("viewer")
    make = Conversation.objects.create
    return {
        "unknown": str(uuid.uuid4()),
        "another person's": str(make(user=viewer, site="admin").pk),
        "a superuser's": str(make(user=store.user("admin"), site="admin").pk),
        "another site's": str(make(user=manager, site="other").pk),
        "another scope's": str(make(user=manager, site="admin", scope_key="f" * 64).pk),
        "empty": "",
        "malformed": "no-id",
        "nearly": SOME_ID[:-1],
        "too long": SOME_ID * 1_000,
        "another type's": "1",
        "NUL": SOME_ID[:-1] + "\x00",
        "lone surrogate": "\ud800",
        "a path": "../../etc/passwd",
        "SQL": "' OR 1=1 --",
    }


def test_a_conversation_that_is_not_the_persons_is_not_there_for_every_reason_alike(login, foreign):
    """Hazard 70."""
    client, bodies = login("manager"), {}
    turns = Turn.objects.count()
    with script():
        for why, ident in foreign.items():
            response = post(client, {"message": "Hello", "conversationId": ident})
            assert told(response) == (404, "not_found"), why
            bodies[why] = response.content
    assert len(set(bodies.values())) == 1
    assert Turn.objects.count() == turns
    assert not Message.objects.exists()


def test_a_superuser_sees_no_other_persons_conversation(login, store):
    """Hazard 70."""
    with script(Text("Hello.")):
        ident = post(login("viewer"), {"message": "Hello"}).json()["conversationId"]
    with script():
        assert told(post(login("admin"), {"message": "Hello", "conversationId": ident})) == (404, "not_found")


def test_the_pages_of_a_conversation_that_is_not_the_persons_are_not_there(login, foreign):
    """Hazard 70."""
    client, bodies = login("manager"), set()
    for why, ident in foreign.items():
        if not ident or "/" in ident or "\ud800" in ident:
            continue
        for method, path in (("get", ""), ("post", "delete/")):
            response = getattr(client, method)(
                f"/admin/django_copilot/conversation/{ident}/{path}", headers={"Accept": "application/json"}
            )
            assert told(response) == (404, "not_found"), (why, method)
            bodies.add(response.content)
    assert len(bodies) == 1
    assert Conversation.objects.count() == 4
