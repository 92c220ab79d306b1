"""Models with every kind of field that a form can hold, on an AdminSite of their own."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from simple_history.models import HistoricalRecords


class Place(models.Model):
    code = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=80)
    is_open = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"Place {self.name}"


class Label(models.Model):
    name = models.CharField(max_length=80)

    def __str__(self) -> str:
        return f"Label {self.name}"


def slots() -> list[tuple[str, str]]:
    return [("am", "Morning"), ("pm", "Afternoon")]


class Parcel(models.Model):
    """One field of each kind; ``history`` as a customer would track it."""

    class Grade(models.IntegerChoices):
        LOW = 1, "Low"
        HIGH = 2, "High"

    title = models.CharField(max_length=120)
    slug = models.SlugField(blank=True)
    note = models.TextField(blank=True)
    kind = models.CharField(max_length=10, choices=[("box", "A box"), ("bag", "A bag")], default="box")
    slot = models.CharField(max_length=10, choices=slots, blank=True)
    grade = models.IntegerField(choices=Grade, default=Grade.LOW)
    pieces = models.PositiveIntegerField(default=1)
    weight = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    ratio = models.FloatField(null=True, blank=True)
    fragile = models.BooleanField(default=True)
    checked = models.BooleanField(null=True, blank=True)
    day = models.DateField(null=True, blank=True)
    at = models.DateTimeField(null=True, blank=True)
    clock = models.TimeField(null=True, blank=True)
    length = models.DurationField(null=True, blank=True)
    ticket = models.UUIDField(default=uuid.uuid4)
    address = models.GenericIPAddressField(null=True, blank=True)
    extra: Any = models.JSONField(default=dict, blank=True)
    remark: Any = models.JSONField(null=True, blank=True)
    shelf = models.ForeignKey(
        Place, models.PROTECT, null=True, blank=True, related_name="+", limit_choices_to={"is_open": True}
    )
    depot = models.ForeignKey(Place, models.PROTECT, null=True, blank=True, related_name="+")
    stop = models.ForeignKey(Place, models.PROTECT, null=True, blank=True, related_name="+")
    zone = models.ForeignKey(Place, models.PROTECT, null=True, blank=True, related_name="+", to_field="code")
    labels = models.ManyToManyField(Label, blank=True, related_name="+")
    stamps = models.ManyToManyField(Label, blank=True, related_name="+")
    locked = models.CharField(max_length=20, blank=True)  # read-only once it says so
    hidden = models.CharField(max_length=20, blank=True)  # declared, and not on the form

    history = HistoricalRecords()

    def __str__(self) -> str:
        return f"Parcel {self.title}"


class Item(models.Model):
    """A row of the parcel's page. ``count`` has a callable default."""

    parcel = models.ForeignKey(Parcel, models.CASCADE, related_name="items")
    name = models.CharField(max_length=40)
    count = models.IntegerField(default=1)

    class Meta:
        verbose_name = "item"
        verbose_name_plural = "packed items"


class Link(models.Model):
    """A row that hangs on two parcels, so that one page can show it twice."""

    source = models.ForeignKey(Parcel, models.CASCADE, related_name="targets")
    target = models.ForeignKey(Parcel, models.CASCADE, related_name="sources")
    name = models.CharField(max_length=40, blank=True)


class Memo(models.Model):
    """A plain record, whose admin the tests override hook by hook."""

    title = models.CharField(max_length=80)
    text = models.CharField(max_length=80, blank=True)
    labels = models.ManyToManyField(Label, blank=True)

    def __str__(self) -> str:
        return f"Memo {self.title}"


class LongMemo(Memo):
    """A child of another model's table."""

    body = models.CharField(max_length=80, blank=True)
