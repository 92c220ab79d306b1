"""Entities of the example store, as for the tests of access."""

from __future__ import annotations

from tests.access.conftest import bend, entity

__all__ = ["bend", "entity"]
