"""A project's own ``REST_FRAMEWORK`` changes nothing: the same tests pass under settings that want it otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib import admin

from django_copilot.api.base import OwnView
from django_copilot.api.views import ChatView

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "tests",
    [
        ["tests/api/test_people.py"],
        ["tests/api/test_bodies.py"],
        ["tests/api/test_limits.py"],
    ],
    ids=["people", "bodies", "limits"],
)
def test_a_hostile_rest_framework_changes_nothing(tests):
    """Hazard 72."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COPILOT_TEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--ds=tests.api.hostile_settings", *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    assert " passed" in done.stdout


@pytest.mark.parametrize(
    "policy",
    [
        "authentication_classes",
        "permission_classes",
        "throttle_classes",
        "parser_classes",
        "renderer_classes",
        "content_negotiation_class",
        "versioning_class",
        "metadata_class",
        "settings",
        "get_exception_handler",
    ],
)
def test_every_policy_is_pinned_on_our_own_views(policy):
    """Hazard 72: a policy that is not named here would be the project's."""
    assert policy in vars(OwnView)
    assert policy not in vars(ChatView)


def test_the_view_is_made_for_one_site():
    assert ChatView(site=admin.site).site is admin.site
