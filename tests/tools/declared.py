"""Write tools of the tests' own, which are gone after each test, and the way of one from a call to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from django_copilot import gate
from django_copilot.access import Access
from django_copilot.backends.base import ToolCall
from django_copilot.models import Plan
from django_copilot.scope import Scope, enter_scope
from django_copilot.testing import Call, Text, ask, script
from django_copilot.tools import write
from django_copilot.tools.base import Failed, Outcome, Planned
from django_copilot.tools.context import Context
from django_copilot.tools.document import PlanDraft
from tests.gate.calls import HERE


@pytest.fixture
def own_tools() -> Iterator[None]:
    """Forget at the end what a test has declared."""
    before, twice = dict(write._registry), list(write._twice)
    yield
    write._registry.clear()
    write._registry.update(before)
    write._twice[:] = twice


@contextmanager
def context(
    who: str, *, verb: str = "change", site: Any = admin.site, scope: Scope = HERE
) -> Iterator[Context]:
    """Give what a tool of that account gets."""
    with enter_scope(scope, get_user_model().objects.get(username=who).pk) as request:
        yield Context(Access(site, request), verb)


def call(
    who: str, tool: str, args: dict[str, Any] | None = None, *, site: Any = admin.site, scope: Scope = HERE
) -> Outcome:
    """Run a model's call for an account."""
    user = get_user_model().objects.only("pk").get(username=who)
    return gate.run(site, scope, user.pk, ToolCall(id="1", name=tool, arguments=json.dumps(args or {})))


def draft_for(who: str, tool: str, args: dict[str, Any] | None = None, **where: Any) -> PlanDraft:
    """Run a call that must come to a plan, and return what the plan would hold."""
    outcome = call(who, tool, args, **where)
    assert isinstance(outcome, Planned), outcome
    draft: PlanDraft = outcome.draft
    return draft


def why_not(who: str, tool: str, args: dict[str, Any] | None = None, **where: Any) -> dict[str, Any]:
    """Run a call that must be refused, and return the error as the model gets it."""
    outcome = call(who, tool, args, **where)
    assert isinstance(outcome, Failed), outcome
    error: dict[str, Any] = outcome.content["error"]
    return error


def propose(
    client: Client, tool: str, args: dict[str, Any] | None = None, *, site: str = "admin", **extra: Any
) -> dict[str, Any]:
    """Have the model call a tool in a chat, and return the plan in the answer."""
    with script(Call(tool, args or {})) as model:
        answer = ask(client, "Do it", site=site, **extra)
    assert "plan" in answer, (answer, model.requests)
    plan: dict[str, Any] = answer["plan"]
    return plan


def decide(client: Client, url: str, **body: Any) -> Any:
    """Send a decision as the panel does."""
    return client.post(
        url, data=json.dumps(body), content_type="application/json", headers={"accept": "application/json"}
    )


def confirm(client: Client, plan: dict[str, Any]) -> dict[str, Any]:
    """Confirm a plan as it was shown, and return the plan that was answered."""
    response = decide(client, plan["confirmUrl"], digest=plan["digest"])
    assert response.status_code == 200, response.content
    done: dict[str, Any] = response.json()["plan"]
    return done


def go_on(client: Client, plan: dict[str, Any], *, said: str = "There.") -> Any:
    """Let the turn that waited go on, and return what the model was asked with."""
    stored = Plan.objects.get(pk=plan["id"])
    with script(Text(said)) as model:
        response = client.post(
            reverse("admin:django_copilot_chat", current_app=stored.site),
            data=json.dumps({"conversationId": str(stored.conversation_id), "continue": plan["id"]}),
            content_type="application/json",
        )
    assert response.status_code == 200, response.content
    return model
