"""``copilot_egress``: what it prints is what a message sends, byte for byte; and it sends and stores nothing."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_copilot.models import AuditEntry, Conversation, Message, Plan, Reference, Turn
from django_copilot.switch import turn
from django_copilot.testing import Call, Text, ask, script
from example_project.store.models import Customer, Order, Product
from tests.backends.loopback import Loopback, delta, stream

KEY = "sk-only-for-tests-0123456789"
HELLO = stream(delta({"content": "Hello"}), delta(finish="stop"))
OWN = (AuditEntry, Conversation, Message, Plan, Reference, Turn)
Login = Callable[[str], Client]


def egress(message: str = "Show the latest orders", *options: str, user: str = "support") -> tuple[str, str]:
    """Run the command and return what it printed, and its summary."""
    out, err = io.StringIO(), io.StringIO()
    call_command(
        "copilot_egress", message, "--as", user, "--host", "testserver", *options, stdout=out, stderr=err
    )
    return out.getvalue(), err.getvalue()


@pytest.fixture
def provider(settings: Any) -> Iterator[Loopback]:
    """Let the openai backend ask a server that says hello to everything."""
    with Loopback(HELLO) as server:
        settings.COPILOT = {
            **settings.COPILOT,
            "BACKEND": "openai",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": server.url,
            "OPENAI_MODEL": "test-model",
            "MODEL_RETRIES": 0,
        }
        yield server


@pytest.mark.parametrize(
    "message", ["Show the latest orders", "Ile jest zamówień? ‹email r1.1›", "Удали заказ 5"]
)
def test_what_is_printed_is_what_is_sent(login: Login, provider: Loopback, message: str) -> None:
    printed, _summary = egress(message, "--body")
    assert provider.asked == []
    ask(login("support"), message)
    (asked,) = provider.asked
    assert printed.encode() == asked.raw


def test_so_it_is_in_a_conversation_and_on_a_page(login: Login, provider: Loopback) -> None:
    client = login("support")
    order = Order.objects.filter(region="north", customer__vip=False).first()
    assert order is not None
    page = f"/admin/store/order/{order.pk}/change/"
    ident = ask(client, "Show the latest orders")["conversationId"]
    printed, summary = egress("And this one?", "--body", "--page", page, "--conversation", ident)
    ask(client, "And this one?", conversationId=ident, page=page)
    assert printed.encode() == provider.asked[1].raw
    assert "2 earlier messages" in summary
    assert str(order.pk) in printed
    whole_url, _summary = egress("And this one?", "--body", "--page", f"http://testserver{page}?_x=1")
    assert json.loads(whole_url)["messages"][-1] == json.loads(printed)["messages"][-1]


def test_nothing_is_sent_and_nothing_is_stored(store: Any, provider: Loopback) -> None:
    counts = [each.objects.count() for each in OWN]
    with CaptureQueriesContext(
        connection,
    ) as captured:
        egress()
    assert provider.asked == []
    assert [each.objects.count() for each in OWN] == counts
    assert not [each["sql"] for each in captured if each["sql"].split()[0] in ("INSERT", "UPDATE", "DELETE")]


def test_an_opaque_name_that_was_made_on_the_way_is_not_kept(
    store: Any, provider: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_name(site: Any, scope: Any, user: Any, page: Any) -> None:
        Reference.objects.create(token="ref_x", user_id=user.pk, model="store.order", object_pk="1")

    monkeypatch.setattr("django_copilot.management.commands.copilot_egress.page_context", with_name)
    egress()
    assert not Reference.objects.exists()


def test_method_address_and_headers_are_printed_and_no_key(
    store: Any, provider: Loopback, settings: Any
) -> None:
    settings.COPILOT = {
        **settings.COPILOT,
        "OPENAI_OPTIONS": {"extra_headers": {"api-key": "hdr-4711"}, "extra_query": {"code": "qry-4711"}},
    }
    printed, summary = egress()
    head, _blank, body = printed.partition("\n\n")
    assert head.startswith(f"POST {provider.url}/chat/completions?code=…\n")
    assert "content-type: application/json" in head
    assert "api-key: …" in head
    assert "authorization: …" in head
    assert json.loads(body)["model"] == "test-model"
    for secret in (KEY, "4711", "Bearer"):
        assert secret not in printed + summary
    assert f"content-length: {len(body.removesuffix(chr(10)).encode())}" in head


def test_without_a_key_it_shows_what_would_be_sent_with_one(
    store: Any, provider: Loopback, settings: Any
) -> None:
    with_one, _summary = egress("Hello", "--body")
    settings.COPILOT = {**settings.COPILOT, "OPENAI_API_KEY": ""}
    without, _summary = egress("Hello", "--body")
    assert without == with_one


def test_the_way_out_of_the_environment_is_not_taken(
    store: Any, provider: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setitem(os.environ, name, provider.url.removesuffix("/v1"))
    egress()
    assert provider.asked == []


def test_a_backend_that_sends_nothing_itself_is_told_as_json(login: Login) -> None:
    printed, summary = egress()
    told = json.loads(printed)
    with script(Text("Hello.")) as model:
        ask(login("support"), "Show the latest orders")
    request = model.request
    assert told["system"] == request.system
    assert told["context"] == request.context
    assert told["person"] == request.person
    assert [each["name"] for each in told["tools"]] == [each.name for each in request.tools]
    assert told["messages"] == [{"role": "user", "text": "Show the latest orders"}]
    assert "which sends nothing itself" in summary
    assert f"{len(printed.removesuffix(chr(10)).encode()):,} bytes" in summary


def test_a_person_sends_what_she_may_and_no_more(login: Login, provider: Loopback) -> None:
    """The history is withheld here as in a turn."""
    client = login("support")
    with script(Call("query_customer", {"fields": ["name"]}), Text("There is zqx-4711.")):
        ident = ask(client, "Customers?")["conversationId"]
    printed, _summary = egress("Again", "--body", "--conversation", ident)
    assert "zqx-4711" in printed
    from django.contrib.auth.models import Group

    for group in Group.objects.filter(user__username="support"):
        group.permissions.remove(*group.permissions.filter(content_type__model="customer"))
    printed, _summary = egress("Again", "--body", "--conversation", ident)
    assert "zqx-4711" not in printed


def test_stored_values_are_in_no_first_request(store: Any, provider: Loopback) -> None:
    Customer.objects.update(email="zqx-4711@example.org", internal_note="zqx-4711")
    Product.objects.update(title="zqx-4711")
    printed, _summary = egress("Show customers, products and orders", "--body", user="manager")
    assert "zqx-4711" not in printed


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["Hello", "--as", "nobody"], "no active account"),
        (["Hello", "--as", "support", "--site", "north"], "no AdminSite"),
        (["  ", "--as", "support"], "1 to 8000 characters"),
        (["x" * 8_001, "--as", "support"], "1 to 8000 characters"),
        (["Hello", "--as", "support", "--conversation", "1"], "no such conversation"),
        (["Hello", "--as", "plain"], "not_allowed"),
    ],
    ids=["nobody", "no site", "empty", "long", "no conversation", "not allowed"],
)
def test_what_would_not_be_asked_is_not_shown(store: Any, options: list[str], told: str) -> None:
    from django.contrib.auth.models import User

    User.objects.create_user("plain", is_staff=True)
    with pytest.raises(CommandError, match=told):
        call_command("copilot_egress", *options, stdout=io.StringIO(), stderr=io.StringIO())


def test_a_conversation_of_somebody_else_is_not_there(login: Login) -> None:
    with script(Text("Yes.")):
        ident = ask(login("manager"), "Hello")["conversationId"]
    with pytest.raises(CommandError, match="no such conversation"):
        egress("Hello", "--conversation", ident)


def test_a_site_that_is_turned_off_sends_nothing(store: Any) -> None:
    turn("admin", off=True, by=None)
    with pytest.raises(CommandError, match="turned off"):
        egress()
