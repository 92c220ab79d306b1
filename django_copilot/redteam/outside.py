"""A stand-in for every other system that write tools call: nothing leaves, and a second act under a key is noticed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from .. import gate
from ..exceptions import CallFailed
from ..tools.write import WriteTool


@dataclass
class Outside:
    """What the stand-in was asked. It answers by chance: done, refused, or silence after it was done or not."""

    rng: random.Random
    done: dict[str, str] = field(default_factory=dict)  # key → payload as JSON
    calls: int = 0
    changed: list[str] = field(default_factory=list)  # keys that came again with another payload
    honest: bool = False  # always done, at once

    def call(self, payload: Any, key: str) -> dict[str, Any]:
        """Do it once for each key."""
        self.calls += 1
        text = json.dumps(payload, sort_keys=True, default=str)
        if self.done.get(key, text) != text:
            self.changed.append(key)
        chance = 0.0 if self.honest else self.rng.random()
        if key not in self.done and chance > 0.8:
            if chance > 0.9:
                raise CallFailed("The other system refused it.")
            raise TimeoutError("no answer, and nothing was done")
        self.done[key] = text
        if chance > 0.6:
            raise TimeoutError("no answer after it was done")
        return {"reference": key}

    def look_up(self, payload: Any, key: str) -> dict[str, Any] | None:
        """Tell what was done under a key."""
        return {"reference": key} if key in self.done else None


@contextmanager
def stand_in(seed: int, instead_of_it: Any = None) -> Iterator[Any]:
    """Let the ``call``, ``look_up`` and ``dry_run`` steps of write tools reach the stand-in, and no other system.

    ``instead_of_it`` is another one with ``call`` and ``look_up``; the one opened last is asked.
    """
    outside = instead_of_it or Outside(random.Random(f"{seed}:outside"))
    instead: dict[str, Any] = {
        "call": outside.call,
        "look_up": outside.look_up,
        "dry_run": lambda preview: [],
    }
    own = gate._step

    def step(tool: WriteTool, name: Any) -> Any:
        found = own(tool, name)  # a step that there is not stays missing
        return instead.get(name, found)

    step.outside = outside  # type: ignore[attr-defined]
    with mock.patch.object(gate, "_step", step):
        yield outside


def opened() -> Any:
    """Return the stand-in that write tools reach at the moment, or None."""
    return getattr(gate._step, "outside", None)
