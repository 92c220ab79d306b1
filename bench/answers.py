"""A model that answers at once with what it was given, and knows how long it took to."""

from __future__ import annotations

import time

from django_copilot.backends.base import ModelReply, ModelRequest

replies: list[ModelReply] = []
requests: list[ModelRequest] = []
spent = 0.0  # seconds of CPU, of all answers together


class Answers:
    """Answer with the next of ``replies``."""

    label = ""

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next reply."""
        global spent
        begun = time.process_time()
        requests.append(request)
        reply = replies.pop(0)
        spent += time.process_time() - begun
        return reply
