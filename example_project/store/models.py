"""What a store keeps: products, customers, orders, payments, refunds, and who of its staff works where."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from simple_history.models import HistoricalRecords


class Region(models.TextChoices):
    """Where an order is looked after. Support staff work for one region."""

    NORTH = "north", pgettext_lazy("region", "North")
    SOUTH = "south", pgettext_lazy("region", "South")


class StaffProfile(models.Model):
    """What the store knows of a member of its staff beside her account."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="store_profile",
        verbose_name=_("user"),
    )
    region = models.CharField(_("region"), max_length=10, choices=Region.choices)

    class Meta:
        verbose_name = _("staff profile")
        verbose_name_plural = _("staff profiles")
        ordering = ["user__username"]

    def __str__(self) -> str:
        return f"{self.user} ({self.get_region_display()})"


class Category(models.Model):
    name = models.CharField(pgettext_lazy("thing", "name"), max_length=80)
    slug = models.SlugField(_("slug"), max_length=80, unique=True)

    class Meta:
        verbose_name = _("category")
        verbose_name_plural = _("categories")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Tag(models.Model):
    name = models.CharField(pgettext_lazy("thing", "name"), max_length=80)
    slug = models.SlugField(_("slug"), max_length=80, unique=True)

    class Meta:
        verbose_name = _("tag")
        verbose_name_plural = _("tags")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Supplier(models.Model):
    name = models.CharField(pgettext_lazy("thing", "name"), max_length=120)
    country = models.CharField(_("country"), max_length=60)
    contact_email = models.EmailField(_("contact e-mail"), blank=True)

    class Meta:
        verbose_name = _("supplier")
        verbose_name_plural = _("suppliers")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Customer(models.Model):
    name = models.CharField(pgettext_lazy("person", "name"), max_length=120, db_index=True)
    email = models.EmailField(_("e-mail"), db_index=True)
    phone = models.CharField(_("phone"), max_length=40, blank=True)
    street = models.CharField(_("street"), max_length=120, blank=True)
    postal_code = models.CharField(_("postal code"), max_length=20, blank=True)
    city = models.CharField(_("city"), max_length=80, blank=True)
    country = models.CharField(_("country"), max_length=60, blank=True)
    vip = models.BooleanField(_("VIP"), default=False)
    internal_note = models.TextField(_("internal note"), blank=True)
    api_token = models.CharField(_("API token"), max_length=64, blank=True)

    history = HistoricalRecords()

    class Meta:
        verbose_name = _("customer")
        verbose_name_plural = _("customers")
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    class Status(models.TextChoices):
        DRAFT = "draft", pgettext_lazy("product status", "Draft")
        ACTIVE = "active", pgettext_lazy("product status", "Active")
        ARCHIVED = "archived", pgettext_lazy("product status", "Archived")

    title = models.CharField(pgettext_lazy("product", "title"), max_length=160, db_index=True)
    sku = models.CharField(
        _("SKU"), max_length=32, unique=True, blank=True, help_text=_("Left empty, one is made.")
    )
    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.DRAFT)
    price = models.DecimalField(
        _("price"), max_digits=10, decimal_places=2, validators=[MinValueValidator(0)]
    )
    cost_price = models.DecimalField(
        _("cost price"),
        max_digits=10,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
    )
    category = models.ForeignKey(
        Category,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="products",
        verbose_name=_("category"),
    )
    supplier = models.ForeignKey(
        Supplier,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="products",
        verbose_name=_("supplier"),
    )
    tags = models.ManyToManyField(Tag, blank=True, related_name="products", verbose_name=_("tags"))
    available_from = models.DateTimeField(_("available from"), null=True, blank=True)
    attributes = models.JSONField(_("attributes"), default=dict, blank=True)
    photo = models.FileField(_("photo"), upload_to="products/", blank=True)

    history = HistoricalRecords()

    class Meta:
        verbose_name = _("product")
        verbose_name_plural = _("products")
        ordering = ["title", "id"]

    def __str__(self) -> str:
        return self.title

    def save(self, *args: object, **kwargs: object) -> None:
        if not self.sku:
            self.sku = f"P-{uuid.uuid4().hex[:10].upper()}"
        super().save(*args, **kwargs)


class Order(models.Model):
    class Status(models.TextChoices):
        PENDING = "pending", pgettext_lazy("order status", "Pending")
        PAID = "paid", pgettext_lazy("order status", "Paid")
        SHIPPED = "shipped", pgettext_lazy("order status", "Shipped")
        CANCELLED = "cancelled", pgettext_lazy("order status", "Cancelled")

    number = models.CharField(pgettext_lazy("order", "number"), max_length=10, unique=True, blank=True)
    customer = models.ForeignKey(
        Customer, on_delete=models.PROTECT, related_name="orders", verbose_name=_("customer")
    )
    region = models.CharField(_("region"), max_length=10, choices=Region.choices)
    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.PENDING)
    placed_at = models.DateTimeField(_("placed at"), default=timezone.now)
    shipping_name = models.CharField(_("shipping name"), max_length=120, blank=True)
    shipping_street = models.CharField(_("shipping street"), max_length=120, blank=True)
    shipping_postal_code = models.CharField(_("shipping postal code"), max_length=20, blank=True)
    shipping_city = models.CharField(_("shipping city"), max_length=80, blank=True)
    shipping_country = models.CharField(_("shipping country"), max_length=60, blank=True)

    history = HistoricalRecords()

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        ordering = ["-placed_at", "-id"]
        indexes = [
            models.Index(fields=["-placed_at", "-id"], name="store_order_newest"),
            models.Index(fields=["region", "-placed_at", "-id"], name="store_order_region_newest"),
        ]

    def __str__(self) -> str:
        return self.number

    def save(self, *args: object, **kwargs: object) -> None:
        if not self.number:
            # All numbers have the same length, so the greatest text is the greatest number. Of two orders
            # made in the same instant the second is refused by the unique index.
            last = Order.objects.aggregate(last=models.Max("number"))["last"] or "SO-0000000"
            self.number = f"SO-{int(last[3:]) + 1:07d}"
        super().save(*args, **kwargs)


class OrderLine(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines", verbose_name=_("order"))
    product = models.ForeignKey(
        Product, on_delete=models.PROTECT, related_name="order_lines", verbose_name=_("product")
    )
    quantity = models.PositiveIntegerField(_("quantity"), default=1, validators=[MinValueValidator(1)])
    unit_price = models.DecimalField(
        _("unit price"), max_digits=10, decimal_places=2, validators=[MinValueValidator(0)]
    )

    class Meta:
        verbose_name = _("order line")
        verbose_name_plural = _("order lines")
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.product}"


class Payment(models.Model):
    order = models.ForeignKey(
        Order, on_delete=models.PROTECT, related_name="payments", verbose_name=_("order")
    )
    amount_cents = models.PositiveIntegerField(_("amount in cents"))
    currency = models.CharField(_("currency"), max_length=3, default="EUR")
    gateway_reference = models.CharField(_("gateway reference"), max_length=64, blank=True, db_index=True)

    class Meta:
        verbose_name = _("payment")
        verbose_name_plural = _("payments")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.amount_cents // 100}.{self.amount_cents % 100:02d} {self.currency}"


class Refund(models.Model):
    class State(models.TextChoices):
        PENDING = "pending", pgettext_lazy("refund state", "Pending")
        SUCCEEDED = "succeeded", pgettext_lazy("refund state", "Succeeded")
        FAILED = "failed", pgettext_lazy("refund state", "Failed")

    payment = models.ForeignKey(
        Payment, on_delete=models.PROTECT, related_name="refunds", verbose_name=_("payment")
    )
    amount_cents = models.PositiveIntegerField(_("amount in cents"))
    reason = models.CharField(_("reason"), max_length=200, blank=True)
    state = models.CharField(
        pgettext_lazy("refund", "state"), max_length=10, choices=State.choices, default=State.PENDING
    )
    idempotency_key = models.CharField(_("idempotency key"), max_length=64, unique=True)
    gateway_reference = models.CharField(_("gateway reference"), max_length=64, blank=True)

    class Meta:
        verbose_name = _("refund")
        verbose_name_plural = _("refunds")
        ordering = ["-id"]
        permissions = [("propose_refund", "Can propose refunds")]

    def __str__(self) -> str:
        return f"{self.amount_cents // 100}.{self.amount_cents % 100:02d} {self.payment.currency}"
