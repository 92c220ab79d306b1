"""Models of ten fields each, alike but for their names, each pointing at the one before it."""

from __future__ import annotations

import os
from itertools import product

from django.db import models

KINDS = ("Amber", "Bronze", "Copper", "Dusty", "Early", "Frozen", "Golden", "Hollow", "Iron", "Jade", "Keen")
KINDS += ("Late", "Mild", "Northern", "Oaken", "Plain", "Quiet", "Round", "Silver", "Tall")
THINGS = ("Anchor", "Barrel", "Candle", "Drum", "Engine", "Filter", "Gasket", "Hammer", "Item", "Jacket")
THINGS += ("Kettle", "Ladder", "Mirror", "Needle", "Oven")
NAMES = [(kind, thing) for kind, thing in product(KINDS, THINGS)]  # 300


class Status(models.TextChoices):
    DRAFT = "draft"
    ACTIVE = "active"
    CLOSED = "closed"


def _make(kind: str, thing: str, before: type[models.Model] | None) -> type[models.Model]:
    return type(
        f"{kind}{thing}",
        (models.Model,),
        {
            "__module__": __name__,
            "Meta": type("Meta", (), {"app_label": "generated", "ordering": ["code"]}),
            "__str__": lambda self: self.title,
            "title": models.CharField(max_length=100),
            "code": models.SlugField(unique=True),
            "status": models.CharField(max_length=10, choices=Status.choices, default=Status.DRAFT),
            "price": models.DecimalField(max_digits=10, decimal_places=2, default=0),
            "quantity": models.IntegerField(default=0),
            "active": models.BooleanField(default=True),
            "placed_at": models.DateTimeField(null=True, blank=True),
            "notes": models.TextField(blank=True),
            "contact": models.EmailField(blank=True),
            "parent": models.ForeignKey(before or "self", models.SET_NULL, null=True, blank=True),
        },
    )


MADE: list[type[models.Model]] = []
for _kind, _thing in NAMES[: int(os.environ["BENCH_MODELS"])]:
    MADE.append(_make(_kind, _thing, MADE[-1] if MADE else None))
