"""The audit: what was asked, shown, decided and done, in one chain per site that only ever grows.

``append`` is the only way in and belongs last into the transaction of what it tells of: where it raises,
nothing was done. ``verify`` finds what was changed behind its back. Secrets never enter it: no key of the
project, no password, nothing but what a caller hands over as a value.
"""

from __future__ import annotations

from .chain import append, head
from .erasure import erase
from .records import Record, Value
from .verification import Problem, verify

__all__ = ["Problem", "Record", "Value", "append", "erase", "head", "verify"]
