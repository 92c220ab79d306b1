"""Choose the backend that the settings name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.utils.module_loading import import_string

from ..conf import get_settings, on_settings_changed
from ..exceptions import ConfigurationError
from .base import Backend, ModelMessage, ModelReply, ModelRequest, Outgoing, ToolCall, ToolSpec

__all__ = [
    "Backend",
    "ModelMessage",
    "ModelReply",
    "ModelRequest",
    "Outgoing",
    "ToolCall",
    "ToolSpec",
    "get_backend",
]

_BUILT_IN = {
    "openai": "django_copilot.backends.openai.OpenAIBackend",
    "offline": "django_copilot.backends.offline.OfflineBackend",
    "scripted": "django_copilot.backends.scripted.ScriptedBackend",
}


@lru_cache(maxsize=1)
def get_backend() -> Backend:
    """Return the process's backend, made once. Raises ConfigurationError, BackendError."""
    made: Backend = backend_class(get_settings().BACKEND)()
    return made


def backend_class(path: str) -> Any:
    """Return what a value of ``BACKEND`` names. Raises ConfigurationError."""
    try:
        return import_string(_BUILT_IN.get(path, path))
    except ImportError as error:
        raise ConfigurationError(
            f"COPILOT['BACKEND'] = {path!r} can't be imported: {error}. "
            f"Name one of {', '.join(_BUILT_IN)}, or the dotted path of a class."
        ) from error


on_settings_changed(get_backend.cache_clear)
