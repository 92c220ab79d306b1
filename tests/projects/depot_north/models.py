"""Twins of the depot's models, with other fields."""

from django.db import models


class Box(models.Model):
    """A box of the north, with a field that the other box does not have."""

    north_title = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.north_title


class Stock(models.Model):
    """Joins to depot_north_stock, as North_Stock of the app depot does."""

    title = models.CharField(max_length=100)

    class Meta:
        db_table = "depot_north__stock"

    def __str__(self) -> str:
        return self.title


class Cafe(models.Model):
    """What the name Café reads as in ASCII."""

    title = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.title
