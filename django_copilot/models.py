"""What the copilot stores: conversations, messages, turns, plans, references, the audit and the switch.

Rows of ``Owned`` belong to one person on one admin site in one scope; every read filters on all three. The
audit has no foreign keys to people or conversations, so that nothing cascades into it. None of these models
may ever be declared as an entity.
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
    shown = models.PositiveIntegerField(default=0, editable=False)  # the highest number of a reference

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        default_permissions = ()
        permissions = (
            ("use_copilot", "Can use the copilot"),
            ("approve_plan", "Can approve plans of other people"),
            ("view_audit", "Can read the audit"),
            ("view_metrics", "Can see the figures of the copilot"),
            ("use_switch", "Can turn the copilot on and off"),
        )
        indexes = (models.Index(fields=["user", "site", "-updated_at"], name="copilot_conversation_own"),)

    def __str__(self) -> str:
        return f"conversation {self.id}"  # the admin shows it to whoever deletes the person's account


class TurnState(models.TextChoices):
    """Where a turn is. Done and failed are ends; a waiting turn goes on when a person has decided."""

    RUNNING = "running", _("running")
    WAITING = "waiting", _("waiting for a decision")
    DONE = "done", _("done")
    FAILED = "failed", _("failed")


class Turn(models.Model):
    """One run from a person's message to the assistant's answer.

    ``open_for`` is the conversation while the turn is open and null afterwards; that it is unique is what
    keeps a conversation at one open turn on every database. A turn outlives its conversation, so that limits
    can't be reset by deleting. A waiting turn is not open: it holds in ``stored`` all that it needs to go on.
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
    stored: models.JSONField[Any, Any] = models.JSONField(null=True)  # of a waiting turn

    class Meta:
        verbose_name = _("turn")
        verbose_name_plural = _("turns")
        default_permissions = ()
        indexes = (models.Index(fields=["user", "started_at"], name="copilot_turn_recent"),)

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"


class Message(models.Model):
    """One message of a conversation.

    ``reads`` are the queries whose rows the person saw, to be run again when she comes back; ``references``
    are the keys of those rows, so that they can be named later; ``mentions`` maps the entities the answer may
    speak of ("app.model") to the fields that went into it.
    """

    class Role(models.TextChoices):
        USER = "user", _("person")
        ASSISTANT = "assistant", _("assistant")

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="messages")
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="messages")
    role = models.CharField(max_length=10, choices=Role.choices)
    text = models.TextField(blank=True)
    reads: models.JSONField[Any, Any] = models.JSONField(default=list)
    references: models.JSONField[Any, Any] = models.JSONField(default=list)
    mentions: models.JSONField[Any, Any] = models.JSONField(default=dict)
    question: models.JSONField[Any, Any] = models.JSONField(null=True)
    plan = models.ForeignKey("Plan", on_delete=models.SET_NULL, null=True, related_name="messages")
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
    LIST = "list", _("list")
    TOOL = "tool", _("write tool")


class PlanState(models.TextChoices):
    """Where a plan is; ``plans.states`` holds the table of what may follow what."""

    PROPOSED = "proposed", _("proposed")
    AWAITING_APPROVAL = "awaiting_approval", _("awaiting approval")
    EXECUTING = "executing", _("being carried out")
    EXECUTED = "executed", _("carried out")
    FAILED = "failed", _("failed")
    UNCERTAIN = "uncertain", _("uncertain")
    REJECTED = "rejected", _("rejected")
    EXPIRED = "expired", _("expired")
    STALE = "stale", _("out of date")
    UNDONE = "undone", _("undone")


def keep_operations(collector: Any, field: Any, plans: Any, using: Any) -> None:
    """Delete a person's plans with her account, but for what write tools did or may still be doing."""
    models.CASCADE(collector, field, plans.exclude(kind=PlanKind.TOOL), using)
    models.SET_NULL(collector, field, plans.filter(kind=PlanKind.TOOL), using)


class Plan(Owned):
    """Something the assistant proposed and only a person can carry out.

    Of kinds form and delete, ``values`` are canonical JSON values by field name and ``base`` is what the
    record held when the plan was made. Of kind tool, ``document`` is what is confirmed, ``digest`` its hash.
    None of them is ever sent to a model or put into an address. Of kind list, ``document`` holds the ``query``
    of the admin's list, the ``ids`` of the rows to tick and the ``action`` to choose. Of kind tool it outlives
    the account of its owner: an operation may still be uncertain then.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=keep_operations,
        null=True,
        related_name="+",
        verbose_name=_("person"),
    )
    kind = models.CharField(_("kind"), max_length=10, choices=PlanKind.choices)
    conversation = models.ForeignKey(Conversation, on_delete=models.SET_NULL, null=True, related_name="plans")
    turn = models.ForeignKey(Turn, on_delete=models.SET_NULL, null=True, related_name="plans")
    model = models.CharField(_("model"), max_length=200)  # "app_label.modelname", lower case
    object_pk = models.TextField(_("record"), blank=True)  # "" for a new record
    values: models.JSONField[Any, Any] = models.JSONField(default=dict)
    base: models.JSONField[Any, Any] = models.JSONField(default=dict)
    state = models.CharField(_("state"), max_length=20, choices=PlanState.choices, default=PlanState.PROPOSED)
    expires_at = models.DateTimeField(_("expires"))  # can be opened, or confirmed, until then
    submit_by = models.DateTimeField(_("to be saved by"))  # an opened form can be saved until then
    decided_at = models.DateTimeField(_("decided"), null=True)
    result_pk = models.TextField(_("saved record"), blank=True)

    # -- of kind tool --
    tool = models.CharField(_("tool"), max_length=64, blank=True)
    version = models.CharField(max_length=64, blank=True)  # hash of what the tool was declared as
    category = models.CharField(_("category"), max_length=12, blank=True)
    arguments: models.JSONField[Any, Any] = models.JSONField(default=dict)  # the model's, cleaned
    arguments_key = models.CharField(
        max_length=64, blank=True
    )  # hash of tool and arguments, to know a repeat
    document: models.JSONField[Any, Any] = models.JSONField(default=dict)
    digest = models.CharField(max_length=64, blank=True)
    amount = models.DecimalField(max_digits=24, decimal_places=4, null=True)  # what approval rules add up
    needs_approval = models.BooleanField(_("needs a second person"), default=False)
    approve_by = models.DateTimeField(_("to be approved by"), null=True)
    key = models.UUIDField(null=True, unique=True)  # idempotency key of the operation
    payload = models.TextField(blank=True)  # what is sent to another system, byte for byte
    lease_until = models.DateTimeField(null=True)  # after this an executing plan reads as uncertain
    attempts = models.PositiveSmallIntegerField(default=0)
    called_at = models.DateTimeField(null=True)  # when the payload was first sent
    asked_at = models.DateTimeField(null=True)  # the person's first message of this operation
    ended_at = models.DateTimeField(null=True)
    proposed_by = models.CharField(
        max_length=64, blank=True
    )  # key of the real person, behind an impersonation
    confirmed_by = models.CharField(max_length=64, blank=True)  # keys of people, who may be gone by now
    confirmed_at = models.DateTimeField(_("confirmed"), null=True)
    approved_by = models.CharField(max_length=64, blank=True)
    approved_at = models.DateTimeField(_("approved"), null=True)
    decided_by = models.CharField(max_length=64, blank=True)  # who rejected or settled it
    code = models.CharField(max_length=40, blank=True)  # why it did not go on
    reason = models.TextField(_("reason"), blank=True)  # in a person's words
    result: models.JSONField[Any, Any] = models.JSONField(null=True)
    undo_of = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="undo_plans")
    open_undo_of = models.OneToOneField(
        "self", on_delete=models.SET_NULL, null=True, editable=False, related_name="open_undo"
    )
    made_from = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="made_again")

    class Meta:
        verbose_name = _("plan")
        verbose_name_plural = _("plans")
        default_permissions = ()
        indexes = (
            models.Index(fields=["user", "state", "model"], name="copilot_plan_own"),
            models.Index(fields=["site", "state", "tool"], name="copilot_plan_waiting"),
            models.Index(fields=["tool", "created_at"], name="copilot_plan_window"),
        )

    def __str__(self) -> str:
        return f"plan {self.id}"


class Metrics(Plan):
    """Stands for the page with the copilot's figures in the admin's index; it has no rows of its own."""

    class Meta:
        proxy = True
        verbose_name = _("figures")
        verbose_name_plural = _("figures")
        default_permissions = ()


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


class AuditEntry(models.Model):
    """One entry of a site's chain. Appended by ``audit`` alone, never changed; it knows people by their keys.

    ``commitments`` are salted hashes of the values that lie beside in ``AuditValue``, by name; ``digest``
    covers everything else in the row and ``previous``, the digest before.
    """

    site = models.CharField(_("admin site"), max_length=100)
    number = models.PositiveBigIntegerField(_("number"))
    at = models.DateTimeField(_("time"))
    event = models.CharField(_("event"), max_length=40)
    code = models.CharField(_("reason code"), max_length=40, blank=True)
    actor = models.CharField(_("person"), max_length=64, blank=True)  # primary key as text
    real_actor = models.CharField(_("real person"), max_length=64, blank=True)
    scope_key = models.CharField(max_length=64, blank=True)
    conversation = models.CharField(max_length=36, blank=True)
    turn = models.CharField(max_length=36, blank=True)
    plan = models.CharField(_("plan"), max_length=36, blank=True, db_index=True)
    tool = models.CharField(_("tool"), max_length=64, blank=True)
    about: models.JSONField[Any, Any] = models.JSONField(default=dict)  # versions, counts, names: no values
    commitments: models.JSONField[Any, Any] = models.JSONField(default=dict)
    key_version = models.CharField(max_length=20, blank=True)
    previous = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=["site", "number"], name="copilot_audit_number"),)
        indexes = (
            models.Index(fields=["site", "actor"], name="copilot_audit_actor"),
            models.Index(fields=["site", "at"], name="copilot_audit_time"),
        )

    def __str__(self) -> str:
        return f"{self.site} {self.number}"


class AuditValue(models.Model):
    """A value that an audit entry commits to. Erasing it takes value and salt, and leaves the row."""

    entry = models.ForeignKey(AuditEntry, on_delete=models.PROTECT, related_name="values")
    name = models.CharField(max_length=100)
    value: models.JSONField[Any, Any] = models.JSONField(null=True)
    salt = models.CharField(max_length=64, blank=True)
    person = models.CharField(max_length=64, blank=True, db_index=True)  # whose words it is, by key
    model = models.CharField(max_length=200, blank=True)  # the record it belongs to, "app_label.modelname"
    object_pk = models.CharField(max_length=200, blank=True)
    field = models.CharField(max_length=100, blank=True)
    erased_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("audit value")
        verbose_name_plural = _("audit values")
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=["entry", "name"], name="copilot_audit_value"),)
        indexes = (models.Index(fields=["model", "object_pk"], name="copilot_audit_record"),)

    def __str__(self) -> str:
        return self.name


class Switch(models.Model):
    """Whether the assistant is turned off on a site. No row means that it is on."""

    site = models.CharField(_("admin site"), max_length=100, primary_key=True)
    is_off = models.BooleanField(_("turned off"), default=False)
    changed_at = models.DateTimeField(_("changed"), auto_now=True)
    changed_by = models.CharField(max_length=64, blank=True)
    reason = models.CharField(_("reason"), max_length=200, blank=True)

    class Meta:
        verbose_name = _("switch")
        verbose_name_plural = _("switches")
        default_permissions = ()

    def __str__(self) -> str:
        return self.site
