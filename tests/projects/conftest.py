"""What every test of another project gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .sites import Project


@pytest.fixture
def project(db: None, settings: Any) -> Iterator[Project]:
    """Give a project without any admin site yet."""
    made = Project(settings)
    yield made
    made.close()
