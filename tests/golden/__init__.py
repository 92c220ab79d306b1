"""Golden files: texts that are product, and may change only on purpose.

``check`` compares a text with the file of that name here. When they differ, the failure prints the
difference and the new text is written beside it as ``<name>.candidate``, to be looked at and renamed.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Fail, with a unified diff, unless the text is that of the golden file."""
    golden, candidate = HERE / name, HERE / f"{name}.candidate"
    before = golden.read_text("utf-8") if golden.is_file() else ""
    if before == text:
        candidate.unlink(missing_ok=True)
        return
    candidate.write_text(text, "utf-8")
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), name, candidate.name
    )
    pytest.fail(f"{''.join(diff)}\nIf this is meant: mv {candidate} {golden}", pytrace=False)
