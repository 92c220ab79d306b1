"""A database that is locked, or that found a deadlock, makes a decision to be tried again and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from django_copilot.plans import decisions, execution, undoing

from .tools import World, decide, look, outcome


@pytest.mark.parametrize(
    ("module", "what"),
    [
        (undoing, "undo"),
        (undoing, "again"),
        (decisions, "confirm"),
        (decisions, "reject"),
        (execution, "look_up"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_database_that_is_locked_is_told_as_such(
    module: Any,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    tool: Any,
    login: Callable[[str], Client],
) -> None:
    world = World(login)
    plan = world.propose()

    def locked(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(module, what, locked)
    plan["look_upUrl"] = plan["lookUpUrl"]
    assert outcome(decide(world.client, plan, what)) == (409, "try_again")
    assert look(world.client, plan)["state"] == "proposed"
    assert world.fresh().shipping_name != "Kari"
