"""A small marked store to attack, in the test's own database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_copilot.redteam.canaries import plant
from django_copilot.redteam.corpus import OWN
from django_copilot.redteam.outside import stand_in
from django_copilot.redteam.people import find_actors
from django_copilot.redteam.world import World
from example_project.store import redteam as project


@pytest.fixture
def world(store: Any) -> Iterator[World]:
    """Return the surroundings of a run on the example store, with its data marked."""
    given = {**settings.COPILOT, "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}
    with override_settings(COPILOT=given), stand_in(1):
        texts = list(OWN)
        yield World(
            seed=1, actors=find_actors(), canaries=plant(texts, seed=1), injections=texts, project=project
        )
