"""A clock for what words for dates mean: it stands at noon on Monday, 30 November 2026, in Warsaw."""

from __future__ import annotations

import datetime
from typing import Any

from django.utils import timezone

NOW = datetime.datetime(2026, 11, 30, 11, tzinfo=datetime.UTC)


class Standing:
    """Django's ``timezone`` with a clock that stands."""

    def __getattr__(self, name: str) -> Any:
        return getattr(timezone, name)

    def now(self) -> datetime.datetime:
        return NOW

    def localtime(self, value: datetime.datetime | None = None, zone: Any = None) -> datetime.datetime:
        return timezone.localtime(value or NOW, zone)
