"""No transaction, lock or connection is held while the model is waited for."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.db import connection, connections, transaction

from django_copilot.models import Message, Turn
from django_copilot.runtime.sync import release_connections
from django_copilot.testing import Call, Fail, Text, ask, copilot_client, script

pytestmark = pytest.mark.django_db(transaction=True)


def held() -> list[str]:
    """Return what is held of each database."""
    return [
        f"{each.alias}: {'a transaction' if each.in_atomic_block else 'a connection'}"
        for each in connections.all(initialized_only=True)
        if each.in_atomic_block or each.connection is not None
    ]


@pytest.fixture(params=[False, True], ids=["autocommit", "ATOMIC_REQUESTS"])
def atomic_requests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run with and without a transaction around each of the project's requests."""
    for settings in connections.settings.values():
        monkeypatch.setitem(settings, "ATOMIC_REQUESTS", request.param)
    assert connection.settings_dict["ATOMIC_REQUESTS"] is request.param
    return bool(request.param)


def test_nothing_is_held_while_the_model_is_asked(store: Any, atomic_requests: bool):
    """Hazard 84."""
    seen: list[list[str]] = []

    def think(request: Any) -> Any:
        seen.append(held())
        return [Call("query_order", {"limit": 3}), Call("query_product", {}), Text("Done.")][len(seen) - 1]

    with script(think, think, think):
        answer = ask(copilot_client(store.user("manager")), "Hello")
    assert seen == [[], [], []]
    assert len(answer["results"]) == 2


def test_what_was_stored_before_the_model_is_asked_is_committed(store: Any, atomic_requests: bool):
    """Hazard 84: with ATOMIC_REQUESTS a failure takes nothing back."""
    with script(Fail("model_timeout")):
        ask(copilot_client(store.user("manager")), "Hello", status=500)
    assert Message.objects.get().text == "Hello"
    assert Turn.objects.get().state == "failed"


def test_the_projects_own_views_keep_their_transaction(store: Any, atomic_requests: bool, monkeypatch: Any):
    """The exemption is ours alone."""
    seen: list[bool] = []
    real = AdminSite.each_context

    def context(self: Any, request: Any) -> Any:
        seen.append(connection.in_atomic_block)
        return real(self, request)

    monkeypatch.setattr(AdminSite, "each_context", context)
    copilot_client(store.user("manager")).get("/admin/")
    assert seen == [atomic_requests]


def test_a_surrounding_block_is_left_alone():
    with transaction.atomic():
        release_connections()
        assert connection.connection is not None
        Turn.objects.count()
    Turn.objects.count()
    release_connections()
    assert connection.connection is None


def test_a_connection_whose_transaction_a_caller_controls_is_left_alone():
    connection.ensure_connection()
    connection.set_autocommit(False)
    try:
        release_connections()
        assert connection.connection is not None
    finally:
        connection.rollback()
        connection.set_autocommit(True)
