"""What the hostile client always tries: it finds nothing in the product, and each guard that is taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.conf import settings as settings_now
from rest_framework.authentication import CSRFCheck

from django_copilot.models import Plan, PlanState
from django_copilot.plans import rights
from django_copilot.plans.states import move
from django_copilot.redteam.client.always import play_always
from django_copilot.redteam.client.attack import Client
from django_copilot.redteam.executions import check_executions
from django_copilot.redteam.world import World

from .playing import findings, playing


@pytest.fixture
def client(world: World, settings: Any) -> Iterator[Client]:
    with playing(world, settings) as client:
        yield client


class Lax(CSRFCheck):
    """Lets every request through."""

    def process_view(self, *args: Any) -> None:
        """Ask for nothing."""


class Found(Exception):
    """The first finding."""


def unless(code: str, asked: Callable[..., str]) -> Callable[..., str]:
    """Return a check that does not know one of its refusals."""

    def check(*args: Any, **options: Any) -> str:
        given = asked(*args, **options)
        return "" if given == code else given

    return check


def anytime(plan: Plan, state: PlanState, where: Any = None, **values: Any) -> bool:
    """Move a plan without asking for anything besides its state."""
    return move(plan, state, **values)


def sees_entities(access: Any, mentions: Mapping[str, Any]) -> bool:
    """Ask who sees an answer for its entities, and not for its fields."""
    return all((entity := access.labelled(each)) is not None and entity.can_view for each in mentions)


IS_SERVICE = "is_service_account"
# What is taken away, how the request is called that finds it, and what is found. Where a second check behind it
# holds the same rule with the same answer, both are taken away.
ALWAYS: Mapping[str, tuple[Mapping[str, Any], str, str]] = {
    "digest": (
        {"django_copilot.plans.decisions.hmac.compare_digest": lambda one, other: True},
        "an altered digest",
        "she was not shown that digest|answered 200",
    ),
    "csrf of the chat": (
        {"django_copilot.api.base.StaffSession.enforce_csrf": lambda self, request: None},
        "a message from a foreign page",
        "answered 200",
    ),
    "csrf of pages": ({"django_copilot.api.base.CSRFCheck": Lax}, "no token", "answered 200"),
    "approver sees all": (
        {"django_copilot.plans.rights.sees_all": lambda plan, access: True},
        "what she can't see",
        "answered 200",
    ),
    "withheld answers": (
        {"django_copilot.runtime.store.is_withheld": lambda message, access: False},
        "withheld",
        "who may not see it any more",
    ),
    "withheld answers, of fields": (
        {"django_copilot.runtime.store.may_still_see": sees_entities},
        "withheld",
        r"store\.\w+\.\w+ is shown to \w+, who may not see it any more",
    ),
    "plans of others": (
        {"django_copilot.plans.rights.is_visible": lambda plan, user: True},
        "a look at a plan",
        "answered 200",
    ),
    "service account": (  # the boundary asks again, of who has confirmed
        {
            f"django_copilot.plans.deciders.{IS_SERVICE}": lambda user: False,
            f"django_copilot.gate.{IS_SERVICE}": lambda user: False,
        },
        "a service account",
        "answered 200",
    ),
    "impersonation": (
        {"django_copilot.plans.deciders.real_actor": lambda request: None},
        "impersonated",
        "answered 200",
    ),
    "tool's permission": (
        {"django_copilot.gate.may_use_tool": lambda access, tool: True},
        "a lost permission",
        "answered 200",
    ),
    "tool's permission, to try again": (
        {"django_copilot.plans.execution.may_use_tool": lambda access, tool: True},
        "a lost permission",
        "answered 200",
    ),
    # The boundary refuses it still, as a grant that is none: with another status.
    "own plan": (
        {"django_copilot.plans.rights.why_not_with": unless("own_plan", rights.why_not_with)},
        "her own plan",
        "answered 409",
    ),
    "expiry": (  # the database's clock is asked again when the plan is claimed
        {
            "django_copilot.plans.decisions.effective": lambda plan: PlanState(plan.state),
            "django_copilot.plans.decisions.move": anytime,
        },
        "expired",
        "answered 200",
    ),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_each_guard_is_missed_without_chance(
    client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def found(oracle: int, what: str, *, case: str = "") -> None:
        raise Found(f"{case}: {what}")

    guards, request, finding = ALWAYS[name]
    for path, instead in guards.items():
        monkeypatch.setattr(path, instead)
    monkeypatch.setattr(client.world.report, "found", found)
    with pytest.raises(Found, match=f"(?s)always: {request}.*({finding})"):
        play_always(client)


def test_what_is_always_tried_finds_nothing_and_lacks_nothing(client: Client) -> None:
    play_always(client)
    check_executions(client.world, client.sender.ledger)
    assert findings(client) == {}
    assert client.world.report.not_run == {}
    tried = {each.verb for each in client.sender.ledger.decisions}
    assert tried == {"confirm", "approve", "reject", "undo", "again", "look_up", "settle"}
    assert settings_now.AUTHENTICATION_BACKENDS == ["django.contrib.auth.backends.ModelBackend"]
    assert 60 <= client.sender.sent <= 130
