"""Storing conversations, messages and turns; every function is one short piece of database work."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib.auth import get_user_model
from django.db import IntegrityError, connection, transaction
from django.db.models import Case, Count, Min, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from ..access import Access
from ..access.history import may_see_history
from ..backends import ModelReply
from ..conf import get_settings
from ..exceptions import ConversationNotFound, HistoryUnreadable, Throttled, TurnRunning
from ..models import Conversation, Message, Plan, Turn, TurnState
from ..reading.columns import columns_seen
from ..reading.history import PAST
from ..references import References
from ..scope import Scope
from ..values import clean_text
from .sent import Sent

MARGIN_SECONDS = 30  # between the end of a turn's time and taking its worker for dead
MAX_REPLY_CHARS = 20_000


@dataclass
class Result:
    """How a turn ended: ``code`` is "" for an answer, else one of the endpoint's codes."""

    code: str = ""
    reply: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    action: dict[str, Any] | None = None
    plan: Plan | None = None
    question: dict[str, Any] | None = None
    sent: list[Sent] = field(default_factory=list)  # what left for the model of each read
    denied: list[Plan] = field(default_factory=list)  # that nobody was there to decide on


def own_conversations(user: Any, scope: Scope) -> QuerySet[Conversation]:
    """Return the conversations of this person, on this site, in this scope."""
    return Conversation.objects.filter(user_id=user.pk, site=scope.site, scope_key=scope.key)


def find_conversation(user: Any, scope: Scope, given: str) -> Conversation:
    """Return an own conversation by the text of its id. Raises ConversationNotFound, for every reason alike."""
    try:
        ident = uuid.UUID(given)
    except (ValueError, AttributeError, TypeError):
        raise ConversationNotFound from None
    found = own_conversations(user, scope).filter(pk=ident).first()
    if found is None:
        raise ConversationNotFound
    return found


def throttled_for(user: Any) -> int:
    """Return for how many seconds the person has to wait before her next turn, 0 if not at all."""
    settings, now = get_settings(), timezone.now()
    minute_ago = now - datetime.timedelta(seconds=60)
    counts = Turn.objects.filter(
        Q(user_id=user.pk) & (Q(started_at__gt=minute_ago) | Q(state=TurnState.RUNNING))
    ).aggregate(
        recent=Count("pk", filter=Q(started_at__gt=minute_ago)),
        oldest=Min("started_at", filter=Q(started_at__gt=minute_ago)),
        running=Count("pk", filter=Q(state=TurnState.RUNNING, deadline__gt=now)),
    )
    if counts["recent"] >= settings.TURNS_PER_MINUTE:
        left = 60 - (now - counts["oldest"]).total_seconds() if counts["oldest"] else 60
        return max(1, int(left) + 1)
    return 5 if counts["running"] >= settings.RUNNING_TURNS else 0


def open_turn(user: Any, scope: Scope, conversation: Conversation | None, message: str) -> Turn:
    """Store a person's message and open the conversation's turn, atomically and one at a time for each person.

    Raises Throttled or TurnRunning, and then the message is not stored: the person still has it. Raises
    ConversationNotFound when the conversation was deleted meanwhile.
    A turn whose worker died (its deadline is past by the database's clock) is closed as failed first.
    """
    seconds = get_settings().TURN_SECONDS + MARGIN_SECONDS
    given = conversation
    try:
        with transaction.atomic():
            _line_up(user)
            if conversation is None:
                conversation = Conversation.objects.create(
                    user_id=user.pk,
                    site=scope.site,
                    scope_key=scope.key,
                    scope=scope.to_json(),
                    title=" ".join(message.split())[:80],
                )
            else:
                make_way(conversation)
            wait = throttled_for(user)
            if wait:
                raise Throttled(wait)
            turn = Turn.objects.create(
                conversation=conversation,
                open_for=conversation,
                user_id=user.pk,
                deadline=timezone.now() + datetime.timedelta(seconds=seconds),
            )
            if given is None or not _take_over(given, turn, message):
                Message.objects.create(
                    conversation=conversation, turn=turn, role=Message.Role.USER, text=message
                )
    except IntegrityError as error:
        if given is not None and not Conversation.objects.filter(pk=given.pk).exists():
            raise ConversationNotFound from error
        raise TurnRunning from error
    return turn


def _take_over(conversation: Conversation, turn: Turn, message: str) -> bool:
    """Give the last message to a new turn when it is sent again because its own turn failed."""
    last = conversation.messages.order_by("-id").select_related("turn").first()
    if (
        last is None
        or (last.role, last.text) != (Message.Role.USER, message)
        or last.turn.state != TurnState.FAILED
    ):
        return False
    last.turn = turn
    last.save(update_fields=["turn"])
    return True


def _line_up(user: Any) -> None:
    """Wait until no other request of the person is opening a turn, so that what is counted next stays true.

    SQLite has no such lock: there the first statement that writes, before the count, waits for all others.
    """
    features = connection.features
    if features.has_select_for_update:
        rows = get_user_model()._base_manager.select_for_update(no_key=features.has_select_for_no_key_update)
        list(rows.filter(pk=user.pk).values_list("pk"))


def close_dead(conversation: Conversation) -> None:
    """Close a turn of the conversation as failed when its worker must be dead."""
    Turn.objects.filter(open_for=conversation, deadline__lte=Now()).update(
        open_for=None, state=TurnState.FAILED, code="failed", finished_at=Now()
    )


def make_way(conversation: Conversation) -> None:
    """Close what a new message ends: a turn whose worker must be dead, and those that wait for a decision.

    The plans of the latter stay as they are.
    """
    waits = Q(state=TurnState.WAITING)
    Turn.objects.filter(
        (Q(conversation=conversation) & waits) | Q(open_for=conversation, deadline__lte=Now())
    ).update(
        open_for=None,
        state=Case(When(waits, then=Value(TurnState.DONE)), default=Value(TurnState.FAILED)),
        code=Case(When(waits, then=Value("")), default=Value("failed")),
        stored=None,
        finished_at=Now(),
    )


def close_turn(turn: Turn, *, state: TurnState, code: str = "") -> bool:
    """Close an open turn.

    False when it was closed already by whoever took its worker for dead, or when its conversation was
    deleted: there is nowhere to store an answer then.
    """
    values = {"finished_at": Now(), "rounds": turn.rounds, "sent": turn.sent}
    if Turn.objects.filter(pk=turn.pk, open_for__isnull=False).update(
        open_for=None, state=state, code=code, **values
    ):
        return True
    Turn.objects.filter(pk=turn.pk, state=TurnState.RUNNING).update(
        state=TurnState.FAILED, code="failed", **values
    )
    return False


def suspend_turn(turn: Turn) -> bool:
    """Let an open turn wait for a person; False when it was closed or taken away meanwhile."""
    values = {"open_for": None, "state": TurnState.WAITING, "rounds": turn.rounds, "sent": turn.sent}
    if Turn.objects.filter(pk=turn.pk, open_for__isnull=False).update(**values):
        return True
    close_turn(turn, state=TurnState.FAILED, code="failed")
    return False


def take_up(conversation: Conversation, plan: Plan) -> Turn | None:
    """Open the turn that waits for this plan again, once; None when there is none that does.

    Raises TurnRunning while another turn of the conversation is open.
    """
    seconds = get_settings().TURN_SECONDS + MARGIN_SECONDS
    try:
        with transaction.atomic():
            close_dead(conversation)
            turn = Turn.objects.filter(
                pk=plan.turn_id or uuid.UUID(int=0), conversation=conversation, state=TurnState.WAITING
            ).first()
            if turn is None or not turn.stored or turn.stored.get("plan") != str(plan.pk):
                return None
            taken = Turn.objects.filter(pk=turn.pk, state=TurnState.WAITING).update(
                state=TurnState.RUNNING,
                open_for=conversation,
                stored=None,
                deadline=timezone.now() + datetime.timedelta(seconds=seconds),
            )
    except IntegrityError as error:
        raise TurnRunning from error
    return turn if taken else None


def message_of(turn: Turn) -> str:
    """Return the person's message that a turn answers."""
    asked = Message.objects.filter(turn=turn, role=Message.Role.USER).order_by("-id").first()
    return asked.text if asked is not None else ""


def detach_turn(conversation: Conversation) -> None:
    """Leave a running turn without the conversation that is about to be deleted, waiting while it is closed.

    One that waits for a decision is closed: with the conversation goes what it had looked up.
    """
    Turn.objects.filter(conversation=conversation, state=TurnState.WAITING).update(
        state=TurnState.DONE, stored=None, finished_at=Now()
    )
    Turn.objects.filter(open_for=conversation).update(open_for=None)


def add_answer(conversation: Conversation, turn: Turn, text: str, **fields: Any) -> Message:
    """Store the assistant's message of a turn."""
    shown = max((number for number, *_ in fields.get("references", ())), default=0)
    numbered = {"shown": shown} if shown else {}
    Conversation.objects.filter(pk=conversation.pk).update(updated_at=Now(), **numbered)
    return Message.objects.create(
        conversation=conversation,
        turn=turn,
        role=Message.Role.ASSISTANT,
        text=clean_text(text)[:MAX_REPLY_CHARS],
        **fields,
    )


def history(conversation: Conversation, *, before: Turn | None) -> list[Message]:
    """Return the latest messages before a turn, oldest first, within the stated limits. Raises HistoryUnreadable."""
    settings = get_settings()
    try:
        messages = conversation.messages.exclude(turn=before) if before else conversation.messages.all()
        latest = list(messages.order_by("-id")[: settings.HISTORY_MESSAGES])
        kept, size = [], 0
        for message in latest:
            size += len(message.text)
            if size > settings.HISTORY_CHARS:
                break
            check_stored(message)
            kept.append(message)
    except Exception as error:
        raise HistoryUnreadable from error
    return kept[::-1]


def check_stored(message: Message) -> None:
    """Raise HistoryUnreadable unless what is stored beside the text has the shape that we write."""
    mentions = message.mentions
    if not isinstance(mentions, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in mentions.values()
    ):
        raise HistoryUnreadable(f"The mentions of message {message.pk} are damaged.")
    if not isinstance(message.reads, list):
        raise HistoryUnreadable(f"The reads of message {message.pk} are damaged.")
    References.from_json(message.references)


def references_of(
    conversation: Conversation | None, messages: Iterable[Message], shown: Iterable[Sequence[Any]] = ()
) -> References:
    """Return what can be named: what these messages have shown, and what the running turn has."""
    found = References.from_json([*(each for message in messages for each in message.references), *shown])
    found.last = conversation.shown if conversation is not None else 0
    return found


def reference_lines(message: Message, access: Access) -> str:
    """Return what a model is told of the rows that an answer showed: their names, and no value."""
    lines = []
    for shown in References.from_json(message.references).known.values():
        entity = access.labelled(shown.entity)
        if entity is not None:
            lines.append(f"\n[{shown.line(entity.name)}]")
    return "".join(lines)


def is_withheld(message: Message, access: Access) -> bool:
    """Tell whether an answer speaks of an entity or a field that the person may not read any more."""
    return not may_still_see(access, message.mentions)


def may_still_see(access: Access, mentions: Mapping[str, Collection[str]]) -> bool:
    """Tell whether a person may read all these fields of these entities today."""
    for label, fields in mentions.items():
        entity = access.labelled(label)
        if entity is None or not entity.can_view:
            return False
        besides = {*fields} - {*entity.readable(), *entity.showable()}
        if PAST in besides and not (entity.tells_history and may_see_history(entity, None)):
            return False
        besides.discard(PAST)
        if besides and not besides <= columns_seen(entity):
            return False
    return True


def storable(reply: ModelReply) -> ModelReply:
    """Return a reply without the characters that a database does not take."""
    calls = tuple(
        replace(
            each, id=clean_text(each.id), name=clean_text(each.name), arguments=clean_text(each.arguments)
        )
        for each in reply.calls
    )
    return replace(reply, text=clean_text(reply.text), calls=calls)
