"""A progress bar of a few lines, so that a million rows don't look like a hang."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Show how far a long piece of work is, on stderr; on something that is no terminal, every tenth."""

    def __init__(self, label: str, total: int, *, stream: TextIO | None = None, width: int = 30) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._stream = stream if stream is not None else sys.stderr
        self._width = width
        self._started = time.monotonic()
        self._shown = -1

    def advance(self, count: int) -> None:
        """Count some more rows as done and show it where the picture changes."""
        self.done += count
        if not self.total:
            return
        terminal = self._stream.isatty()
        step = self.done * (100 if terminal else 10) // self.total
        if step == self._shown:
            return
        self._shown = step
        full = self._width * self.done // self.total
        seconds = time.monotonic() - self._started
        line = (
            f"{self.label:<10} [{'#' * full}{'.' * (self._width - full)}] "
            f"{self.done:,}/{self.total:,} {seconds:.0f} s"
        )
        if not terminal:
            self._stream.write(f"{line}\n")
        else:
            self._stream.write(f"\r{line}{chr(10) if self.done >= self.total else ''}")
        self._stream.flush()
