"""The chat endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.apps import apps
from rest_framework.request import Request
from rest_framework.response import Response

from ..exceptions import ConversationNotFound, Throttled, TurnRunning
from ..models import Conversation, PlanState, Turn
from ..plans.deciders import Decider
from ..plans.projection import as_json
from ..plans.rights import find
from ..plans.states import OPEN, effective
from ..runtime import store
from ..runtime.page import page_context
from ..runtime.sent import told_of_sent
from ..runtime.store import Result
from ..runtime.sync import continue_turn, run_turn
from .base import ApiError, OwnView, check_switch, not_here
from .serializers import ChatRequest

logger = logging.getLogger("django_copilot")


class ChatView(OwnView):
    """Take a person's message and answer with what the turn gave."""

    http_method_names = ["post"]

    def post(self, request: Request) -> Response:
        """Run one turn until it ends or waits, or go on with one that waited."""
        check_switch(self.site)
        asked = ChatRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data.get("conversationId")
        by = Decider.of(request._request, self.site, self.scope)
        conversation = None
        if given is not None:
            try:
                conversation = store.find_conversation(request.user, self.scope, given)
            except ConversationNotFound:
                not_here()
        if asked.validated_data.get("continue") is not None:
            return self.go_on(conversation, asked.validated_data["continue"], by)
        message = asked.validated_data["message"]
        try:
            turn = store.open_turn(request.user, self.scope, conversation, message)
        except Throttled as error:
            raise ApiError(429, "throttled", retry_after=error.seconds) from None
        except TurnRunning:
            raise ApiError(409, "turn_running") from None
        except ConversationNotFound:
            not_here()
        page = page_context(self.site, self.scope, request.user, asked.validated_data.get("page"))
        return self.answer(turn, by, lambda: run_turn(self.site, self.scope, turn, message, page, by=by))

    def go_on(self, conversation: Conversation | None, plan_id: str, by: Decider) -> Response:
        """Go on with the turn that waited for a plan, now that it is decided. Once."""
        plan = find(plan_id, by)
        if conversation is None or plan is None or plan.conversation_id != conversation.pk:
            not_here()
        if plan.user_id != by.user.pk:
            not_here()
        if effective(plan) in (*OPEN, PlanState.EXECUTING, PlanState.UNCERTAIN):
            raise ApiError(409, "not_decided")
        try:
            turn = store.take_up(conversation, plan)
        except TurnRunning:
            raise ApiError(409, "turn_running") from None
        if turn is None:
            raise ApiError(409, "nothing_to_continue")
        return self.answer(turn, by, lambda: continue_turn(self.site, self.scope, turn, plan, by=by))

    def answer(self, turn: Turn, by: Decider, run: Callable[[], Result]) -> Response:
        """Return what a turn gave. Raises ApiError."""
        try:
            result = run()
        except Exception:
            logger.exception("A turn failed.")
            raise ApiError(500, "failed", conversationId=str(turn.conversation_id)) from None
        if result.code == "switched_off":
            raise ApiError(403, "switched_off", conversationId=str(turn.conversation_id))
        if result.code:
            raise ApiError(500, result.code, conversationId=str(turn.conversation_id))
        body: dict[str, Any] = {
            "conversationId": str(turn.conversation_id),
            "reply": result.reply,
            "results": result.results,
            **told_of_sent(result.sent),
        }
        if result.action is not None:
            body["action"] = result.action
        if result.plan is not None:
            body["plan"] = as_json(result.plan, by)
        if result.question is not None:
            body["question"] = result.question
        return Response(body)


if apps.is_installed("drf_spectacular"):
    from ..contrib import spectacular  # noqa: F401  (it describes the view above)
