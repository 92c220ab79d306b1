"""What this person may read, fill in and touch: the declaration met with her own rights, per request.

The only place that asks a ModelAdmin about permissions, fields and rows for the assistant. Every answer is
the AND of two independent checks, for superusers too. An exception in a project's hook is a no, and is
logged with the hook's name.

An ``Access`` lives for one piece of work (one tool call, or the preparation of one turn) and may cache
within it; rights are never carried over to the next.
"""

from __future__ import annotations

from .entity import EntityAccess
from .person import Access, may_do_anything, may_use, related_rows
from .rows import NOT_FOUND, RowAccess, ask_hook

__all__ = [
    "NOT_FOUND",
    "Access",
    "EntityAccess",
    "RowAccess",
    "ask_hook",
    "may_do_anything",
    "may_use",
    "related_rows",
]
