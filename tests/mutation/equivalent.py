"""Guards whose removal changes nothing that could be noticed, each with the reason.

``python -m tests.mutation --all`` leaves them out. A guard that is noticed must not stand here.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
