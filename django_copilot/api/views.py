"""The chat endpoint."""

from __future__ import annotations

import logging
from typing import Any

from django.apps import apps
from rest_framework.request import Request
from rest_framework.response import Response

from ..exceptions import ConversationNotFound, Throttled, TurnRunning
from ..runtime import store
from ..runtime.page import page_context
from ..runtime.sync import run_turn
from .base import ApiError, OwnView, not_here
from .serializers import ChatRequest

logger = logging.getLogger("django_copilot")


class ChatView(OwnView):
    """Take a person's message and answer with what the turn gave."""

    http_method_names = ["post"]

    def post(self, request: Request) -> Response:
        """Run one turn to its end."""
        asked = ChatRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        message, given = asked.validated_data["message"], asked.validated_data.get("conversationId")
        conversation = None
        if given is not None:
            try:
                conversation = store.find_conversation(request.user, self.scope, given)
            except ConversationNotFound:
                not_here()
        try:
            turn = store.open_turn(request.user, self.scope, conversation, message)
        except Throttled as error:
            raise ApiError(429, "throttled", retry_after=error.seconds) from None
        except TurnRunning:
            raise ApiError(409, "turn_running") from None
        except ConversationNotFound:
            not_here()
        page = page_context(self.site, self.scope, request.user, asked.validated_data.get("page"))
        try:
            result = run_turn(self.site, self.scope, turn, message, page)
        except Exception:
            logger.exception("A turn failed.")
            raise ApiError(500, "failed", conversationId=str(turn.conversation_id)) from None
        if result.code:
            raise ApiError(500, result.code, conversationId=str(turn.conversation_id))
        body: dict[str, Any] = {
            "conversationId": str(turn.conversation_id),
            "reply": result.reply,
            "results": result.results,
        }
        if result.action is not None:
            body["action"] = result.action
        if result.question is not None:
            body["question"] = result.question
        return Response(body)


if apps.is_installed("drf_spectacular"):
    from ..contrib import spectacular  # noqa: F401  (it describes the view above)
