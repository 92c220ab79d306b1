"""An AI copilot inside the Django admin that can't do anything a person did not confirm."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .declaring import harness
    from .exceptions import CallFailed, Refused
    from .mixin import HarnessMixin
    from .tools.arguments import Arg
    from .tools.write import Above, Always, Approval, Category, Effect, Never, Preview, write_tool

__version__ = "0.1.0.dev0"
__all__ = [
    "Above",
    "Always",
    "Approval",
    "Arg",
    "CallFailed",
    "Category",
    "Effect",
    "HarnessMixin",
    "Never",
    "Preview",
    "Refused",
    "__version__",
    "harness",
    "write_tool",
]

_HOMES = {
    "HarnessMixin": "mixin",
    "harness": "declaring",
    "Arg": "tools.arguments",
    "CallFailed": "exceptions",
    "Refused": "exceptions",
    **dict.fromkeys(
        ("Above", "Always", "Approval", "Category", "Effect", "Never", "Preview", "write_tool"), "tools.write"
    ),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: some need the app registry, this module must not."""
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
