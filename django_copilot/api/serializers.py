"""Shapes of the chat endpoint: what is taken, and what is given for the OpenAPI schema."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from ..conf import get_settings


class Text(serializers.CharField):
    """Text that was sent as text: numbers and lists are not turned into it."""

    def to_internal_value(self, data: Any) -> str:
        """Return the text. Raises ValidationError."""
        if not isinstance(data, str):
            self.fail("invalid")
        text: str = super().to_internal_value(data)
        return text


class Ident(Text):
    """Text that names something of the person's. What can't name anything is not found, not invalid."""

    def run_validators(self, value: Any) -> None:
        """Take any text."""


class ChatRequest(serializers.Serializer[Any]):
    """A person's message, or the plan after whose decision the turn that waits for it goes on."""

    conversationId = Ident(required=False, allow_null=True, allow_blank=True, trim_whitespace=False)
    message = Text(trim_whitespace=True, required=False)
    page = Ident(required=False, allow_null=True, allow_blank=True)

    def validate(self, attrs: Any) -> Any:
        """Ask for a message, unless a turn is to go on."""
        goes_on = attrs.get("continue") is not None
        if not goes_on and "message" not in attrs:
            raise serializers.ValidationError({"message": [_("This field is required.")]})
        if goes_on and "message" in attrs:
            raise serializers.ValidationError(
                {"message": [_("Send a message, or go on with a plan, not both.")]}
            )
        return attrs

    def validate_message(self, value: str) -> str:
        """Return the message. Raises ValidationError when it is longer than MESSAGE_CHARS."""
        most = get_settings().MESSAGE_CHARS
        if len(value) > most:
            raise serializers.ValidationError(
                _("Write at most %(most)d characters; these are %(given)d.")
                % {"most": most, "given": len(value)}
            )
        return value


# A class can't give an attribute this name.
ChatRequest._declared_fields["continue"] = Ident(
    required=False,
    allow_null=True,
    help_text="id of a plan that was decided: no message, the waiting turn goes on, once",
)


class ChatColumn(serializers.Serializer[Any]):
    """A column of a table."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    type = serializers.CharField()
    choices = serializers.DictField(child=serializers.CharField(), required=False)
    sent = serializers.BooleanField(required=False, help_text="false where the model gets handles only")
    columns = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="of type rows: those of the rows in a cell"
    )


class ChatRow(serializers.Serializer[Any]):
    """A row of a table."""

    id = serializers.CharField(allow_null=True, help_text="null where a row is no record")
    url = serializers.CharField(allow_null=True, help_text="null where the admin has no page for it")
    values = serializers.DictField()


class ChatTable(serializers.Serializer[Any]):
    """What one read gave."""

    entity = serializers.CharField()
    kind = serializers.CharField(
        required=False, help_text="summary, count or history where rows are no records"
    )
    label = serializers.CharField()  # type: ignore[assignment]
    columns = ChatColumn(many=True)
    rows = ChatRow(many=True)
    hasMore = serializers.BooleanField()
    asked = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="what was asked for, in words"
    )
    chart = serializers.DictField(required=False, help_text="of a summary: type, x, y and perhaps series")


class ChatSentRead(serializers.Serializer[Any]):
    """What of one read left for the model."""

    label = serializers.CharField()  # type: ignore[assignment]
    rows = serializers.IntegerField()
    fields = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]


class ChatSent(serializers.Serializer[Any]):
    """What left for the model of all that was read."""

    text = serializers.CharField()
    reads = ChatSentRead(many=True)


class ChatAction(serializers.Serializer[Any]):
    """A page to open."""

    aiAction = serializers.CharField(required=False, help_text="list for the admin's list")
    path = serializers.CharField()
    queryParams = serializers.DictField(child=serializers.CharField())
    fragment = serializers.CharField(
        required=False, help_text="of a list: what names the plan behind the address, where rows are ticked"
    )
    prefill = serializers.DictField()
    dropped = serializers.ListField(child=serializers.CharField())


class ChatQuestion(serializers.Serializer[Any]):
    """A question to the person; her next message is the answer."""

    text = serializers.CharField()
    kind = serializers.CharField(help_text="text, single or multiple")
    options = serializers.ListField(child=serializers.CharField())


class ChatPlan(serializers.Serializer[Any]):
    """What a write tool would do, for the person to confirm or to decline. More keys may be there."""

    id = serializers.CharField()
    tool = serializers.CharField()
    category = serializers.CharField()
    state = serializers.CharField()
    summary = serializers.CharField()
    changes = serializers.ListField(child=serializers.DictField())
    effects = serializers.ListField(child=serializers.CharField())
    actingAs = serializers.CharField()
    reversible = serializers.BooleanField()
    needsApproval = serializers.BooleanField()
    expiresAt = serializers.DateTimeField(allow_null=True)
    secondsLeft = serializers.IntegerField()
    digest = serializers.CharField(help_text="sent back to confirm or approve exactly this")
    result = serializers.DictField(allow_null=True)
    reason = serializers.CharField()
    url = serializers.CharField()
    confirmUrl = serializers.CharField()
    rejectUrl = serializers.CharField()
    approveUrl = serializers.CharField()
    undoUrl = serializers.CharField()


class ChatAnswer(serializers.Serializer[Any]):
    """What a turn gave. At most one of action, plan and question is there."""

    conversationId = serializers.CharField()
    reply = serializers.CharField()
    results = ChatTable(many=True)
    sent = ChatSent(required=False)
    action = ChatAction(required=False)
    plan = ChatPlan(required=False)
    question = ChatQuestion(required=False)


class ChatProblem(serializers.Serializer[Any]):
    """Why there is no answer. ``conversationId`` is there once a turn was opened, ``errors`` with "invalid"."""

    code = serializers.CharField()
    detail = serializers.CharField()
    conversationId = serializers.CharField(required=False)
    errors = serializers.DictField(  # type: ignore[assignment]  # Serializer keeps fields apart
        child=serializers.ListField(child=serializers.CharField()), required=False
    )
