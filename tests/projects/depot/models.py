"""Models with odd keys, odd names and odd relations."""

import contextlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from django.contrib.contenttypes.fields import GenericForeignKey, GenericRelation
from django.contrib.contenttypes.models import ContentType
from django.db import models


class Titled(models.Model):
    """Something with a title that is its label."""

    title = models.CharField(max_length=100)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.title


# -- names -----------------------------------------------------------------------------------------


class Box(Titled):
    """A twin of depot_north's."""


class SmallBox(Box):
    """A proxy, with permissions of its own."""

    class Meta:
        proxy = True


class North_Stock(Titled):
    """Joins to depot_north_stock, as Stock of the app depot_north does."""


class Café(Titled):
    """A name that is almost ASCII."""


class Заказ(Titled):
    """A name without one ASCII letter."""


class AnExtremelyLongNameForAThingThatNobodyWouldEverWriteDownButSomebodyDidOne(Titled):
    """Its name does not fit into a tool's."""

    class Meta:
        db_table = "depot_long_one"


class AnExtremelyLongNameForAThingThatNobodyWouldEverWriteDownButSomebodyDidTwo(Titled):
    """The same beginning."""

    class Meta:
        db_table = "depot_long_two"


# -- keys ------------------------------------------------------------------------------------------


class Parcel(Titled):
    """A key that is random."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)


class Bin(Titled):
    """A key that is text, written by people."""

    code = models.CharField(max_length=100, primary_key=True)


class Item(Titled):
    """Something in a bin."""

    bin = models.ForeignKey(Bin, on_delete=models.CASCADE, null=True, blank=True)


class Shelf(Titled):
    """A number that people give."""

    number = models.IntegerField(primary_key=True)


class Person(models.Model):
    """A key that is an address, and a label that prints it."""

    email = models.EmailField(primary_key=True)
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.email


class Letter(models.Model):
    """Points to people in both ways."""

    subject = models.CharField(max_length=100)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, null=True, blank=True)
    copies = models.ManyToManyField(Person, blank=True, related_name="copied")

    def __str__(self) -> str:
        return self.subject


class Badge(models.Model):
    """Its key is a person's; the field called like that key is something else."""

    person = models.OneToOneField(Person, on_delete=models.CASCADE, primary_key=True)
    email = models.CharField(max_length=100)

    def __str__(self) -> str:
        return "badge"


class Sticker(Titled):
    """Its key is a parcel's."""

    parcel = models.OneToOneField(Parcel, on_delete=models.CASCADE, primary_key=True)


class Place(models.Model):
    """A parent with a table of its own."""

    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Shop(Place):
    """A child with another."""

    till = models.CharField(max_length=100, blank=True)


class Country(Titled):
    """Known by a code that is nobody's business."""

    code = models.CharField(max_length=20, unique=True)


class City(Titled):
    """Points to a country by its code."""

    country = models.ForeignKey(Country, to_field="code", on_delete=models.CASCADE, null=True, blank=True)


# -- fields and labels -----------------------------------------------------------------------------


class Vault(models.Model):
    """Its label prints a secret."""

    title = models.CharField(max_length=100)
    pin = models.CharField(max_length=100)

    def __str__(self) -> str:
        return f"{self.title} PIN {self.pin}"


class Diary(Titled):
    """Holds text of any length."""

    text = models.TextField()


class Deed(models.Model):
    """Points to vaults in both ways, and prints one."""

    title = models.CharField(max_length=100)
    vault = models.ForeignKey(Vault, on_delete=models.CASCADE, null=True, blank=True)
    vaults = models.ManyToManyField(Vault, blank=True, related_name="deeds")

    def __str__(self) -> str:
        return f"deed of {self.vault}"


class Note(models.Model):
    """Fields that are not for a model, or not for a form."""

    title = models.CharField(max_length=100)
    content_type = models.ForeignKey(
        ContentType, on_delete=models.CASCADE, null=True, blank=True, db_constraint=False
    )
    object_id = models.CharField(max_length=100, blank=True)
    about = GenericForeignKey("content_type", "object_id")
    payload = models.BinaryField(blank=True, default=b"", editable=True)
    scan = models.FileField(blank=True, upload_to="scans")

    def __str__(self) -> str:
        return self.title


class Topic(Titled):
    """Something that notes are about."""

    notes = GenericRelation(Note)


# -- tenants ---------------------------------------------------------------------------------------

_tenant = threading.local()


def current_tenant() -> str:
    """Return what the middleware has set. Raises LookupError outside a request."""
    name = getattr(_tenant, "name", None)
    if name is None:
        raise LookupError("no tenant is set")
    return str(name)


@contextlib.contextmanager
def tenant(name: str) -> Iterator[None]:
    """Set the tenant of this thread."""
    before = getattr(_tenant, "name", None)
    _tenant.name = name
    try:
        yield
    finally:
        _tenant.name = before


class OfTenant(models.Manager["Ledger"]):
    """Rows of the tenant that is set, as libraries for tenants do it."""

    def get_queryset(self) -> models.QuerySet["Ledger"]:
        """Return them. Raises LookupError where none is set."""
        return super().get_queryset().filter(tenant=current_tenant())


class Ledger(Titled):
    """A row of one tenant."""

    tenant = models.CharField(max_length=20, editable=False)
    objects: Any = OfTenant()
    everything: Any = models.Manager()

    class Meta:
        base_manager_name = "everything"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save as a row of the tenant that is set."""
        self.tenant = self.tenant or current_tenant()
        super().save(*args, **kwargs)
