"""Settings: one ``COPILOT`` dict, read when used and never at import.

``get_settings()`` returns a frozen object with safe defaults; it is made again after every change of the
settings, so ``override_settings`` works at any time. Nothing else in the package reads ``COPILOT``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from .exceptions import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The ``COPILOT`` setting. Every key is optional; times are in seconds, sizes as named."""

    BACKEND: str = "openai"  # "openai", "offline", "scripted", or the dotted path of a Backend class
    OPENAI_API_KEY: str = field(default="", repr=False)  # also the variable COPILOT_OPENAI_API_KEY
    OPENAI_MODEL: str = "gpt-5-mini"  # also COPILOT_OPENAI_MODEL
    OPENAI_BASE_URL: str = ""  # also COPILOT_OPENAI_BASE_URL; "" is the SDK's own
    OPENAI_STREAM: bool = True  # read the provider's answer as a stream
    OPENAI_OPTIONS: Mapping[str, Any] = field(default_factory=dict)  # more request parameters, as they are
    MODEL_TIMEOUT: float = 45.0  # of one model call, retries included
    MODEL_RETRIES: int = 1  # of one model call, within its time

    SCOPE: Any = None  # what captures and enters a project's own scope: see scope.py

    TURNS_PER_MINUTE: int = 60  # for each person
    RUNNING_TURNS: int = 4  # at once, for each person
    TURN_SECONDS: float = 150.0  # wall time of one turn, waiting for the model included
    MAX_ROUNDS: int = 5  # of read tools in a turn
    MAX_CALLS: int = 8  # tool calls in one model reply
    MAX_ENTITIES: int = 8  # entities whose tools are sent with a request; the rest is found by name

    MESSAGE_CHARS: int = 8_000  # of a person's message
    CELL_CHARS: int = 500  # of one value in a tool result
    RESULT_BYTES: int = 24_000  # of one tool result
    TURN_BYTES: int = 96_000  # of all tool results in a turn
    SCAN_ROWS: int = 1_000  # rows read at most to fill one query when a project hides rows one by one
    READ_SECONDS: float = 5.0  # of the database, for one search, count or sum
    HISTORY_MESSAGES: int = 20  # earlier messages sent to the model
    HISTORY_CHARS: int = 24_000  # of those together

    PLAN_SECONDS: int = 600  # how long a proposed form can be opened, or a plan of a write tool confirmed
    FORM_SECONDS: int = 86_400  # how long an opened form can be saved
    APPROVE_SECONDS: int = 86_400  # how long a confirmed plan waits for a second person
    LEASE_SECONDS: int = 120  # how long a call to another system may take before it reads as uncertain
    MAX_WRITE_TOOLS: int = 6  # write tools sent with a request; others are found by name

    IS_SERVICE_ACCOUNT: Any = None  # function of a user, or its dotted path; unset: membership in the group
    SERVICE_ACCOUNTS_GROUP: str = "service accounts"  # whose members decide nothing
    REAL_ACTOR: Any = None  # function of a request, or its dotted path: who acts as somebody else, or None

    REDTEAM: Any = None  # object, or its dotted path, that fills a new database for the red team: see redteam

    AUDIT_KEYS: Mapping[str, str] = field(default_factory=dict, repr=False)  # version → key; the last signs


_ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL")


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the settings in force. Raises ConfigurationError for a key that does not exist."""
    given = getattr(django_settings, "COPILOT", {})
    if not isinstance(given, Mapping):
        raise ConfigurationError("COPILOT must be a dict.")
    known = {f.name for f in fields(Settings)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(f"COPILOT has no key {', '.join(map(repr, unknown))}.")
    values: dict[str, Any] = {
        name: os.environ[f"COPILOT_{name}"] for name in _ENVIRONMENT if os.environ.get(f"COPILOT_{name}")
    }
    values |= {name: value for name, value in given.items() if value is not None}
    return Settings(**values)


_on_clear: list[Callable[[], None]] = [get_settings.cache_clear]


def on_settings_changed(clear: Callable[[], None]) -> Callable[[], None]:
    """Register what must be forgotten when ``COPILOT`` changes."""
    _on_clear.append(clear)
    return clear


def _changed(*, setting: str, **kwargs: Any) -> None:
    if setting == "COPILOT":
        for clear in _on_clear:
            clear()


setting_changed.connect(_changed, dispatch_uid="django_copilot.conf")
