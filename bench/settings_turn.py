"""The generated project with a model that answers at once."""

from .settings_generated import *  # noqa: F403

COPILOT = {"BACKEND": "bench.answers.Answers", "TURNS_PER_MINUTE": 1_000_000}
