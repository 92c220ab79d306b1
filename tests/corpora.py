"""Where hostile texts of others lie beside the checkout, if they do: ``python -m tests.corpora`` prints it."""

from __future__ import annotations

from pathlib import Path

INJECTIONS = Path(__file__).parents[2] / "shared" / "corpora" / "injections.jsonl"

if __name__ == "__main__":
    print(INJECTIONS if INJECTIONS.exists() else "")
