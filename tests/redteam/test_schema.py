"""schemathesis finds nothing in the chat endpoint, and finds an answer that is not as its schema says."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse
from rest_framework.response import Response

from django_copilot.api.views import ChatView
from django_copilot.redteam import schema
from django_copilot.redteam.world import NotRun, World


@pytest.fixture
def installed() -> None:
    """Skip where schemathesis is not installed."""
    pytest.importorskip("schemathesis")
    pytest.importorskip("drf_spectacular")


@pytest.mark.parametrize("name", ["schemathesis", "drf_spectacular"])
def test_without_what_it_needs_it_is_not_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "drf_spectacular":
        pytest.importorskip("schemathesis")
    monkeypatch.setitem(sys.modules, name, None)
    world = World(seed=1, actors=[], canaries=None, injections=[])  # type: ignore[arg-type]
    with pytest.raises(NotRun, match=r"is not installed: pip install django-admin-copilot\[redteam\]"):
        schema.run(world, number=0, calls=10)


@pytest.mark.usefixtures("installed")
def test_the_schema_holds_our_address_and_nothing_else() -> None:
    told = schema.openapi_of(admin.site)
    assert list(told["paths"]) == [reverse("admin:django_copilot_chat")]
    assert "ChatAnswer" in told["components"]["schemas"]


@pytest.mark.usefixtures("installed")
def test_a_run_finds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = set()
    problems = schema.Asking.problems

    def noting(self: schema.Asking, case: Any, response: Any) -> list[str]:
        statuses.add(response.status_code)
        return problems(self, case, response)

    monkeypatch.setattr(schema.Asking, "problems", noting)
    schema.run(world, number=0, calls=60)
    assert world.report.examples == {}
    assert 50 <= world.report.counts["requests"] <= 60
    assert {200, 400, 401} <= statuses <= {200, 400, 401, 403, 404, 409}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Response({"reply": 1}), "JsonSchemaError"),
        (Response({"conversationId": "x", "reply": "", "results": [{"rows": None}]}), "JsonSchemaError"),
        (Response({"code": "failed", "detail": "x"}, status=500), "ServerError"),
        (Response({"code": "odd", "detail": "x"}, status=418), "UndefinedStatusCode"),
    ],
    ids=["reply", "table", "failed", "status"],
)
def test_an_answer_that_is_not_as_the_schema_says_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: Response, found: str
) -> None:
    monkeypatch.setattr(
        ChatView, "post", lambda self, request: Response(answer.data, status=answer.status_code)
    )
    schema.run(world, number=0, calls=8)
    assert found in " / ".join(each["what"] for each in world.report.examples[7])


@pytest.mark.usefixtures("installed")
def test_an_error_in_a_turn_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_copilot.api.views.run_turn", lambda *args, **options: 1 / 0)
    schema.run(world, number=0, calls=24)
    told = " / ".join(each["what"] for each in world.report.examples[7])
    assert "ZeroDivisionError" in told
    assert "ServerError" in told
