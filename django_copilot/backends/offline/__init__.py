"""A backend that asks no model: it understands a small set of sentences in English, Polish and Russian.

It gets what every backend gets, a ``ModelRequest``, and answers with calls of the tools offered or with
text; its calls pass the same gate as a model's. It keeps nothing between requests: what to do next is
read from the messages of the running turn. Nouns come from the models behind the tools, in each language.
"""

from __future__ import annotations

from django.utils.translation import gettext

from ..base import ModelReply, ModelRequest
from .lexicon import FindModel, find_model
from .steps import next_reply

__all__ = ["OfflineBackend"]


class OfflineBackend:
    """Answer by tables and rules, without a network."""

    def __init__(self, *, find: FindModel = find_model) -> None:
        """Take the models behind the tools from ``find``: by default from the installed apps."""
        self._find = find

    @property
    def label(self) -> str:
        """Return what is shown to people, in the active language."""
        return gettext("Offline demonstration: no model is asked")

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply of the turn."""
        return next_reply(request, find=self._find)
