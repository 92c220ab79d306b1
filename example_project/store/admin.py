"""The store's admin: who sees what is decided here by Django's own hooks, and nothing of it is the copilot's.

The copilot is what begins with ``harness_``: lists of fields, and what may be asked of them.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import DecimalField, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_copilot.admin import HarnessMixin

from .access import staff_of
from .bases import HistoryAdmin, ManagerFields, ManagersOnly
from .models import (
    Category,
    Customer,
    Order,
    OrderLine,
    Payment,
    Product,
    Refund,
    StaffProfile,
    Supplier,
    Tag,
)

admin.site.site_header = _("Example store")
admin.site.site_title = _("Example store")


@admin.register(StaffProfile)
class StaffProfileAdmin(ManagersOnly, admin.ModelAdmin):
    list_display = ["user", "region"]
    list_filter = ["region"]
    list_select_related = ["user"]


@admin.register(Category)
class CategoryAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["name", "slug"]
    harness_persist = ["name", "slug"]

    list_display = ["name", "slug"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Tag)
class TagAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["name"]
    harness_persist = ["name"]

    list_display = ["name", "slug"]
    search_fields = ["name"]
    prepopulated_fields = {"slug": ["name"]}


@admin.register(Supplier)
class SupplierAdmin(ManagersOnly, admin.ModelAdmin):
    list_display = ["name", "country", "contact_email"]
    list_filter = ["country"]
    search_fields = ["name"]


@admin.register(Customer)
class CustomerAdmin(HarnessMixin, ManagerFields, HistoryAdmin):
    harness_list = ["name", "city", "country", "vip"]
    harness_show = ["email", "phone"]  # hers to see, and not the model's
    harness_search = True
    harness_lookups = {"country": ["in"], "city": ["in"]}
    harness_persist = ["name", "email", "phone", "street", "postal_code", "city", "country"]

    list_display = ["name", "email", "city", "country", "vip"]
    list_filter = ["vip", "country"]
    search_fields = ["name", "email", "city"]
    fields = ["name", "email", "phone", "street", "postal_code", "city", "country", "vip", "internal_note"]
    exclude = ["api_token"]
    manager_fields = ("internal_note",)
    secret_fields = ("api_token",)
    show_full_result_count = False


@admin.register(Product)
class ProductAdmin(HarnessMixin, ManagerFields, HistoryAdmin):
    harness_list = ["title", "sku", "status", "price", "cost_price", "category", "available_from"]
    harness_search = True
    harness_lookups = {
        "status": ["in"],
        "category": ["in", "isnull"],
        "price": ["range"],
        "available_from": ["range", "isnull"],
    }
    harness_history = True
    harness_persist = [
        "title",
        "sku",
        "status",
        "price",
        "category",
        "tags",
        "available_from",
        "attributes",
    ]

    list_display = ["title", "sku", "status", "price", "cost_price", "category"]
    list_filter = ["status", "category"]
    list_select_related = ["category"]
    search_fields = ["title", "sku"]
    fields = [
        "title",
        "sku",
        "status",
        "price",
        "cost_price",
        "category",
        "supplier",
        "tags",
        "available_from",
        "attributes",
        "photo",
    ]
    autocomplete_fields = ["supplier"]
    filter_horizontal = ["tags"]
    formfield_overrides = {DecimalField: {"localize": True}}  # "12,50" where that is how it is written
    manager_fields = ("cost_price",)


class OrderLineInline(admin.TabularInline):
    model = OrderLine
    raw_id_fields = ["product"]
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[OrderLine]:
        return super().get_queryset(request).select_related("product")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["product", "quantity", "unit_price"] if _shipped(obj) else []

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not _shipped(obj) and super().has_add_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not _shipped(obj) and super().has_delete_permission(request, obj)


@admin.register(Order)
class OrderAdmin(HarnessMixin, HistoryAdmin):
    """Support staff work on the orders of their own region, except those of VIP customers."""

    harness_list = [
        "number",
        "customer",
        "region",
        "status",
        "placed_at",
        "shipping_city",
        "shipping_country",
    ]
    harness_from_admin = True  # its search, its filters and its date hierarchy
    harness_inlines = {"lines": ["product", "quantity", "unit_price"]}
    harness_actions = ["mark_as_shipped"]
    harness_history = True
    harness_persist = [
        "shipping_name",
        "shipping_street",
        "shipping_postal_code",
        "shipping_city",
        "shipping_country",
    ]

    list_display = ["number", "customer", "region", "status", "placed_at", "shipping_city"]
    list_filter = ["status", "region"]
    date_hierarchy = "placed_at"
    list_select_related = ["customer"]  # so that asking whether a row may be viewed costs no query
    list_per_page = 50
    show_full_result_count = False
    search_fields = ["number", "customer__name"]
    fieldsets = [
        (None, {"fields": ["number", "customer", "region", "status", "placed_at"]}),
        (_("Shipping"), {"fields": harness_persist}),
    ]
    readonly_fields = ["number"]  # given by the store itself
    raw_id_fields = ["customer"]
    inlines = [OrderLineInline]
    actions = ["mark_as_shipped"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Order]:
        orders = super().get_queryset(request)
        staff = staff_of(request)
        return orders if staff.is_manager else orders.filter(region=staff.region)

    def get_harness_rows(self, request: HttpRequest, queryset: QuerySet[Order]) -> QuerySet[Order]:
        """Say of all rows at once what ``_may_see`` says of one, so that they can be counted where they are."""
        return queryset if staff_of(request).is_manager else queryset.filter(customer__vip=False)

    @admin.action(description=_("Mark as shipped"), permissions=["change"])
    def mark_as_shipped(self, request: HttpRequest, queryset: QuerySet[Order]) -> None:
        """Mark the ticked orders that are paid; the others are left as they are, and she is told."""
        shipped = 0
        with transaction.atomic():
            for order in queryset.select_related("customer").select_for_update(of=["self"]).order_by("pk"):
                if order.status == Order.Status.PAID and self.has_change_permission(request, order):
                    order.status = Order.Status.SHIPPED
                    order.save(update_fields=["status"])
                    self.log_change(request, order, [{"changed": {"fields": ["Status"]}}])
                    shipped += 1
        left = queryset.count() - shipped
        told = ngettext(
            "%(count)d order was marked as shipped.", "%(count)d orders were marked as shipped.", shipped
        )
        messages.success(request, told % {"count": shipped})
        if left:
            told = ngettext(
                "%(count)d order is not paid, or not yours to change, and was left as it is.",
                "%(count)d orders are not paid, or not yours to change, and were left as they are.",
                left,
            )
            messages.warning(request, told % {"count": left})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Order | None:
        order = super().get_object(request, object_id, from_field)
        if order is not None:
            # The form writes the new status into this object before the lines are looked at: who marks an
            # order as shipped and mends a line in one go would lose the line.
            order.opened_as_shipped = _shipped(order)
        return order

    def get_readonly_fields(self, request: HttpRequest, obj: Order | None = None) -> list[str]:
        if _shipped(obj):
            return [name for _title, options in self.fieldsets for name in options["fields"]]
        return list(super().get_readonly_fields(request, obj))

    def has_view_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return super().has_view_permission(request, obj) and _may_see(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_see(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Order | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_see(request, obj)


def _shipped(order: Order | None) -> bool:
    if order is None:
        return False
    return getattr(order, "opened_as_shipped", order.status == Order.Status.SHIPPED)


def _may_see(request: HttpRequest, order: Order | None) -> bool:
    return order is None or staff_of(request).is_manager or not order.customer.vip


@admin.register(Payment)
class PaymentAdmin(HarnessMixin, admin.ModelAdmin):
    harness_list = ["order", "amount_cents", "currency"]

    list_display = ["order", "amount_cents", "currency", "gateway_reference"]
    list_filter = ["currency"]
    list_select_related = ["order"]
    show_full_result_count = False
    search_fields = ["order__number"]
    autocomplete_fields = ["order"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Payment]:
        payments = super().get_queryset(request)
        staff = staff_of(request)
        if staff.is_manager:
            return payments
        return payments.filter(order__region=staff.region, order__customer__vip=False)


@admin.register(Refund)
class RefundAdmin(admin.ModelAdmin):
    """Refunds are made by the payment gateway and only looked at here."""

    list_display = ["payment", "amount_cents", "state", "reason"]
    list_filter = ["state"]
    list_select_related = ["payment"]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Refund]:
        refunds = super().get_queryset(request)
        staff = staff_of(request)
        if staff.is_manager:
            return refunds
        return refunds.filter(payment__order__region=staff.region, payment__order__customer__vip=False)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Refund | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Refund | None = None) -> bool:
        return False
