"""What the copilot stores: conversations, messages, turns, plans and references.

Rows here belong to one person on one admin site in one scope; every read filters on all three (see
``Owned``). None of these models may ever be declared as an entity.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _


class Owned(models.Model):
    """A row of one person, on one admin site, in one scope."""

    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", verbose_name=_("person")
    )
    site = models.CharField(_("admin site"), max_length=100)
    scope_key = models.CharField(_("scope key"), max_length=64, blank=True)
    scope: models.JSONField[Any, Any] = models.JSONField(_("scope"), default=dict)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        abstract = True


class Conversation(Owned):
    """A thread of messages between one person and the assistant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(_("title"), max_length=80, blank=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        default_permissions = ()
        permissions = (
            ("use_copilot", "Can use the copilot"),
            ("approve_plan", "Can approve plans of other people"),
            ("view_audit", "Can read the audit"),
        )
        indexes = (models.Index(fields=["user", "site", "-updated_at"], name="copilot_conversation_own"),)

    def __str__(self) -> str:
        return f"conversation {self.id}"  # the admin shows it to whoever deletes the person's account


class TurnState(models.TextChoices):
    """Where a turn is. Everything but running is an end."""

    RUNNING = "running", _("running")
    DONE = "done", _("done")
    FAILED = "failed", _("failed")


class Turn(models.Model):
    """One run from a person's message to the assistant's answer.

    ``open_for`` is the conversation while the turn is open and null afterwards; that it is unique is what
    keeps a conversation at one open turn on every database. A turn outlives its conversation, so that limits
    can't be reset by deleting.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.SET_NULL, null=True, related_name="turns")
    open_for = models.OneToOneField(
        Conversation, on_delete=models.SET_NULL, null=True, editable=False, related_name="open_turn"
    )
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    state = models.CharField(max_length=10, choices=TurnState.choices, default=TurnState.RUNNING)
    code = models.CharField(max_length=40, blank=True)  # why it failed
    started_at = models.DateTimeField(auto_now_add=True)
    deadline = models.DateTimeField()  # after this the worker is taken for dead
    finished_at = models.DateTimeField(null=True)
    rounds = models.PositiveSmallIntegerField(default=0)
    sent: models.JSONField[Any, Any] = models.JSONField(default=dict)  # what left for the model, as counts

    class Meta:
        verbose_name = _("turn")
        verbose_name_plural = _("turns")
        default_permissions = ()
        indexes = (models.Index(fields=["user", "started_at"], name="copilot_turn_recent"),)

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"


class Message(models.Model):
    """One message of a conversation.

    ``reads`` are the queries whose rows the person saw, to be run again when she comes back; ``mentions``
    maps the entities the answer may speak of ("app.model") to the fields that went into it.
    """

    class Role(models.TextChoices):
        USER = "user", _("person")
        ASSISTANT = "assistant", _("assistant")

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(max_length=10, choices=Role.choices)
    text = models.TextField(blank=True)
    reads: models.JSONField[Any, Any] = models.JSONField(default=list)
    mentions: models.JSONField[Any, Any] = models.JSONField(default=dict)
    question: models.JSONField[Any, Any] = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        default_permissions = ()
        ordering = ("id",)

    def __str__(self) -> str:
        return f"message {self.pk}"


class PlanKind(models.TextChoices):
    """What carrying a plan out means."""

    FORM = "form", _("form")
    DELETE = "delete", _("delete page")


class PlanState(models.TextChoices):
    """Where a plan is. Expiry is computed from the clock, never stored by a job."""

    PROPOSED = "proposed", _("proposed")
    EXECUTED = "executed", _("executed")
    REJECTED = "rejected", _("rejected")


class Plan(Owned):
    """Something the assistant proposed and only a person can carry out.

    ``values`` are canonical JSON values by field name; ``base`` is what the record held when the plan was
    made. Neither is ever sent to a model or put into an address.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(_("kind"), max_length=10, choices=PlanKind.choices)
    conversation = models.ForeignKey(Conversation, on_delete=models.SET_NULL, null=True, related_name="plans")
    turn = models.ForeignKey(Turn, on_delete=models.SET_NULL, null=True, related_name="plans")
    model = models.CharField(_("model"), max_length=200)  # "app_label.modelname", lower case
    object_pk = models.TextField(_("record"), blank=True)  # "" for a new record
    values: models.JSONField[Any, Any] = models.JSONField(default=dict)
    base: models.JSONField[Any, Any] = models.JSONField(default=dict)
    state = models.CharField(_("state"), max_length=20, choices=PlanState.choices, default=PlanState.PROPOSED)
    expires_at = models.DateTimeField(_("expires"))  # can be opened until then
    submit_by = models.DateTimeField(_("to be saved by"))  # an opened form can be saved until then
    decided_at = models.DateTimeField(_("decided"), null=True)
    result_pk = models.TextField(_("saved record"), blank=True)

    class Meta:
        verbose_name = _("plan")
        verbose_name_plural = _("plans")
        default_permissions = ()
        indexes = (models.Index(fields=["user", "state", "model"], name="copilot_plan_own"),)

    def __str__(self) -> str:
        return f"plan {self.id}"


class Reference(models.Model):
    """An opaque name for a primary key that is data itself and was not declared."""

    token = models.CharField(max_length=40, unique=True)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+"
    )
    model = models.CharField(max_length=200)
    object_pk = models.TextField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.token
