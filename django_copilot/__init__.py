"""An AI copilot inside the Django admin that can't do anything a person did not confirm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .harness import HarnessMixin

__version__ = "0.1.0.dev0"
__all__ = ["HarnessMixin", "__version__"]


def __getattr__(name: str) -> Any:
    """Import HarnessMixin when it is asked for: it needs the app registry, this module must not."""
    if name == "HarnessMixin":
        from .harness import HarnessMixin

        return HarnessMixin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
