"""Clients of the example store for the tests of plans and delete pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from .tools import tool

__all__ = ["tool"]


@pytest.fixture
def manager(login: Any) -> Client:
    """Return the manager's client."""
    found: Client = login("manager")
    return found
