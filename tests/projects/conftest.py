"""What every test of another project gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import SettingsWrapper

from .sites import Project


@pytest.fixture
def project(db: None, settings: SettingsWrapper) -> Iterator[Project]:
    """Give a project without any admin site yet."""
    made = Project(settings)
    yield made
    made.close()
