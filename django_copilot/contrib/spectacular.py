"""drf-spectacular: what the chat endpoint is in an OpenAPI schema. Imported only where that app is installed."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiViewExtension
from drf_spectacular.utils import OpenApiResponse, extend_schema

from ..api.serializers import ChatAnswer, ChatProblem, ChatRequest

_PROBLEMS = {
    400: "invalid: the body or a field of it can't be used; errors names it.",
    401: "not_authenticated: there is no session.",
    403: "csrf_failed, not_staff, not_allowed, no_entities or switched_off.",
    404: "not_found: no such conversation of this person, on this site, in this scope.",
    409: (
        "turn_running: the conversation has an open turn, the message was not stored. With continue: "
        "not_decided or nothing_to_continue."
    ),
    429: "throttled: Retry-After says for how many seconds.",
    500: (
        "history_unreadable, model_not_configured, model_unavailable, model_timeout, model_protocol, "
        "too_many_rounds or failed. With a conversationId the message was stored."
    ),
}


class StaffSessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The session's cookie."""

    target_class = "django_copilot.api.base.StaffSession"
    name = "copilotSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the definition."""
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class ChatViewSchema(OpenApiViewExtension):  # type: ignore[no-untyped-call]
    """Request, answer and problems of the chat endpoint."""

    target_class = "django_copilot.api.views.ChatView"

    def view_replacement(self) -> Any:
        """Return the view with its description."""

        class Described(self.target_class):  # type: ignore[misc,name-defined]
            @extend_schema(
                operation_id="copilot_chat",
                tags=["copilot"],
                summary="Send a message to the assistant and wait for the answer",
                description=(
                    "For a person's own session only, with a CSRF token in the header X-CSRFToken. The answer "
                    "has a reply, what was read for it, and at most one of: a page to open, "
                    "a plan to confirm, a question. With continue instead of a message, the turn that waits for "
                    "a plan goes on once that is decided."
                ),
                request={"application/json": ChatRequest},
                responses={
                    200: ChatAnswer,
                    **{
                        status: OpenApiResponse(ChatProblem, description=text)
                        for status, text in _PROBLEMS.items()
                    },
                },
            )
            def post(self, request: Any) -> Any:
                """Run one turn to its end."""

        return Described
