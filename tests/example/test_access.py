"""The store's own rules, seen through the plain admin: what each account sees, opens and may write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from example_project.store import people as store_people
from example_project.store.access import staff_of
from example_project.store.models import (
    Category,
    Customer,
    Order,
    Payment,
    Product,
    Refund,
    Region,
    StaffProfile,
    Tag,
)

LogIn = Callable[[str], Client]
EVERYTHING = {
    "Category",
    "Customer",
    "Order",
    "Payment",
    "Product",
    "Refund",
    "StaffProfile",
    "Supplier",
    "Tag",
}


def models_shown(client: Client) -> set[str]:
    response = client.get(reverse("admin:index"))
    assert response.status_code == 200
    return {
        model["object_name"]
        for app in response.context["app_list"]
        if app["app_label"] == "store"
        for model in app["models"]
    }


def change(obj: object) -> str:
    return reverse(f"admin:store_{type(obj)._meta.model_name}_change", args=[obj.pk])


def some_order(**wanted: object) -> Order:
    order = Order.objects.filter(**wanted).first()
    assert order is not None
    return order


@pytest.mark.parametrize(
    ("username", "shown"),
    [
        ("admin", EVERYTHING),
        ("manager", EVERYTHING),
        ("manager2", EVERYTHING),
        ("support", {"Category", "Customer", "Order", "Payment", "Product", "Tag"}),
        ("bot", {"Category", "Customer", "Order", "Payment", "Product", "Tag"}),
        ("viewer", {"Category", "Product", "Tag"}),
        ("auditor", set()),
    ],
)
def test_each_account_sees_its_models(log_in: LogIn, username: str, shown: set[str]) -> None:
    assert models_shown(log_in(username)) == shown


@pytest.mark.parametrize(
    ("username", "permissions"),
    [
        ("manager", {"use_copilot", "approve_plan", "view_metrics"}),
        ("support", {"use_copilot"}),
        ("viewer", {"use_copilot"}),
        ("auditor", {"view_audit"}),
        ("bot", {"use_copilot"}),
    ],
)
def test_copilot_permissions(people: None, username: str, permissions: set[str]) -> None:
    user = get_user_model().objects.get(username=username)
    own = {name.split(".")[1] for name in user.get_all_permissions() if name.startswith("django_copilot.")}
    assert own == permissions
    assert user.check_password("copilot")
    assert user.is_staff


def test_accounts_are_made_once_and_kept(people: None) -> None:
    support = get_user_model().objects.get(username="support")
    support.set_password("another one")
    support.save()
    Group.objects.get(name="support").permissions.clear()
    assert store_people.create_people() == 0
    support.refresh_from_db()
    assert support.check_password("another one")
    assert get_user_model().objects.get(username="support").has_perm("store.change_order")
    assert Group.objects.count() == 5
    assert StaffProfile.objects.count() == 2


@pytest.mark.django_db
def test_a_missing_permission_is_named() -> None:
    Permission.objects.filter(codename="view_audit").delete()
    with pytest.raises(ImproperlyConfigured, match=r"django_copilot\.view_audit"):
        store_people.create_people()
    assert not get_user_model().objects.exists()


def test_support_sees_the_orders_of_its_region(store: None, log_in: LogIn) -> None:
    client = log_in("support")
    response = client.get(reverse("admin:store_order_changelist"))
    listed = response.context["cl"].result_list
    assert listed
    assert {order.region for order in listed} == {"north"}
    assert response.context["cl"].result_count == Order.objects.filter(region="north").count()
    south = some_order(region="south", customer__vip=False)
    assert client.get(change(south)).status_code == 302
    assert log_in("manager").get(change(south)).status_code == 200
    # Filtering by the other region in the address opens nothing either.
    response = client.get(reverse("admin:store_order_changelist"), {"region__exact": "south"})
    assert response.context["cl"].result_count == 0


def test_a_person_without_a_region_sees_no_order(store: None, log_in: LogIn) -> None:
    StaffProfile.objects.filter(user__username="support").delete()
    response = log_in("support").get(reverse("admin:store_order_changelist"))
    assert response.context["cl"].result_count == 0


@pytest.mark.parametrize("what", ["change", "delete", "history"])
def test_support_may_not_open_a_vip_order(store: None, log_in: LogIn, what: str) -> None:
    get_user_model().objects.get(username="support").user_permissions.set(
        Permission.objects.filter(codename__in=["delete_order", "view_historicalorder"])
    )
    order = some_order(region="north", customer__vip=True)
    url = reverse(f"admin:store_order_{what}", args=[order.pk])
    assert log_in("support").get(url).status_code == 403
    assert log_in("manager").get(url).status_code == 200
    allowed = some_order(region="north", customer__vip=False)
    assert log_in("support").get(reverse(f"admin:store_order_{what}", args=[allowed.pk])).status_code == 200


@pytest.mark.parametrize("username", ["support", "manager", "admin"])
def test_a_shipped_order_is_read_only(store: None, log_in: LogIn, username: str) -> None:
    client = log_in(username)
    order = some_order(region="north", customer__vip=False, status="shipped")
    response = client.get(change(order))
    assert response.status_code == 200
    assert list(response.context["adminform"].form.fields) == []
    for inline in response.context["inline_admin_formsets"]:
        assert not {"product", "quantity", "unit_price"} & set(inline.formset.form.base_fields)
    lines = order.lines.count()
    client.post(
        change(order),
        {
            "shipping_city": "Elsewhere",
            "status": "pending",
            "lines-TOTAL_FORMS": lines,
            "lines-INITIAL_FORMS": lines,
            **{f"lines-{at}-id": line.pk for at, line in enumerate(order.lines.all())},
            **{f"lines-{at}-order": order.pk for at in range(lines)},
            **{f"lines-{at}-quantity": 99 for at in range(lines)},
            **{f"lines-{at}-DELETE": "on" for at in range(lines)},
        },
    )
    order.refresh_from_db()
    assert order.status == "shipped"
    assert order.shipping_city != "Elsewhere"
    assert order.lines.count() == lines
    assert not order.lines.filter(quantity=99).exists()


def test_a_line_mended_while_the_order_is_marked_as_shipped_is_kept(store: None, log_in: LogIn) -> None:
    order = some_order(region="north", customer__vip=False, status="paid")
    line = order.lines.first()
    client = log_in("support")
    form = client.get(change(order)).context["adminform"].form
    values = {name: form.initial.get(name) or "" for name in form.fields if name != "placed_at"}
    response = client.post(
        change(order),
        {
            **values,
            "status": "shipped",
            "placed_at_0": "2026-11-20",
            "placed_at_1": "10:00:00",
            "initial-placed_at_0": "2026-11-20",
            "initial-placed_at_1": "10:00:00",
            "lines-TOTAL_FORMS": 1,
            "lines-INITIAL_FORMS": 1,
            "lines-0-id": line.pk,
            "lines-0-order": order.pk,
            "lines-0-product": line.product_id,
            "lines-0-quantity": 77,
            "lines-0-unit_price": line.unit_price,
        },
    )
    assert response.status_code == 302, response.context["errors"]
    order.refresh_from_db()
    line.refresh_from_db()
    assert (order.status, line.quantity) == ("shipped", 77)
    assert order.history.first().history_user.username == "support"


def test_payments_and_refunds_follow_their_orders(store: None, log_in: LogIn) -> None:
    support = get_user_model().objects.get(username="support")
    support.user_permissions.set(Permission.objects.filter(codename="view_refund"))
    client = log_in("support")
    visible = Payment.objects.filter(order__region="north", order__customer__vip=False)
    hidden = Payment.objects.exclude(pk__in=visible)
    assert visible.exists()
    response = client.get(reverse("admin:store_payment_changelist"))
    assert response.context["cl"].result_count == visible.count()
    assert client.get(change(visible.first())).status_code == 200
    for payment in (
        hidden.filter(order__region="south").first(),
        hidden.filter(order__region="north").first(),
    ):
        assert client.get(change(payment)).status_code == 302
    response = client.get(reverse("admin:store_refund_changelist"))
    assert response.context["cl"].result_count == Refund.objects.filter(payment__in=visible).count()


def test_refunds_are_looked_at_only(store: None, log_in: LogIn) -> None:
    client = log_in("admin")
    refund = Refund.objects.first()
    assert client.get(change(refund)).status_code == 200
    assert client.post(change(refund), {"reason": "x"}).status_code == 403
    assert client.get(reverse("admin:store_refund_add")).status_code == 403
    assert client.get(reverse("admin:store_refund_delete", args=[refund.pk])).status_code == 403


@pytest.mark.parametrize(("username", "sees"), [("manager", True), ("admin", True), ("support", False)])
def test_the_internal_note_is_for_managers(store: None, log_in: LogIn, username: str, sees: bool) -> None:
    client = log_in(username)
    customer = Customer.objects.create(name="Ewa Lis", email="e@x.example", internal_note="She bites.")
    response = client.get(change(customer))
    assert ("internal_note" in response.context["adminform"].form.fields) is sees
    assert ("She bites." in response.content.decode()) is sees
    assert "api_token" not in response.context["adminform"].form.fields
    values = {"name": "Ewa Lis", "email": "e@x.example", "internal_note": "Hacked.", "api_token": "stolen"}
    client.post(change(customer), values)
    customer.refresh_from_db()
    assert customer.internal_note == ("Hacked." if sees else "She bites.")
    assert customer.api_token == ""


@pytest.mark.parametrize(("username", "sees"), [("manager", True), ("support", False), ("viewer", False)])
def test_the_cost_price_is_for_managers(store: None, log_in: LogIn, username: str, sees: bool) -> None:
    client = log_in(username)
    Product.objects.all().update(cost_price="4321.99")
    response = client.get(reverse("admin:store_product_changelist"))
    assert ("cost_price" in response.context["cl"].list_display) is sees
    assert ("4321.99" in response.content.decode()) is sees
    response = client.get(change(Product.objects.first()))
    assert ("4321.99" in response.content.decode()) is sees


@pytest.mark.parametrize(
    ("username", "model", "lookup", "status"),
    [
        ("support", "customer", "internal_note__startswith", 400),
        ("support", "customer", "api_token__startswith", 400),
        ("admin", "customer", "api_token__startswith", 400),
        ("manager", "customer", "internal_note__startswith", 200),
        ("support", "customer", "city__startswith", 200),
        ("viewer", "product", "cost_price__gt", 400),
        ("support", "order", "customer__api_token__startswith", 400),
    ],
)
def test_hidden_fields_are_no_filter(
    store: None, log_in: LogIn, username: str, model: str, lookup: str, status: int
) -> None:
    url = reverse(f"admin:store_{model}_changelist")
    assert log_in(username).get(url, {lookup: "1"}).status_code == status


def test_history_shows_no_hidden_field_and_is_only_looked_at(store: None, log_in: LogIn) -> None:
    support = get_user_model().objects.get(username="support")
    support.user_permissions.set(Permission.objects.filter(codename__startswith="view_historical"))
    customer = Customer.objects.create(name="Ewa Lis", email="e@x.example", city="Ełk")
    customer.city, customer.internal_note, customer.api_token = "Suwałki", "She bites.", "tok_secret"
    customer.save()
    page = reverse("admin:store_customer_history", args=[customer.pk])
    for username, sees in (("support", False), ("manager", True)):
        content = log_in(username).get(page).content.decode()
        assert "Suwałki" in content
        assert "tok_secret" not in content
        assert ("She bites." in content) is sees
    for username in ("manager", "admin"):
        version = reverse(
            "admin:store_customer_simple_history", args=[customer.pk, customer.history.earliest().history_id]
        )
        assert log_in(username).get(version).status_code == 200
        assert log_in(username).post(version, {"name": "Ewa", "email": "e@x.example"}).status_code == 403
    customer.refresh_from_db()
    assert customer.city == "Suwałki"


def test_history_of_an_order_is_for_those_who_see_the_order(store: None, log_in: LogIn) -> None:
    support = get_user_model().objects.get(username="support")
    support.user_permissions.set(Permission.objects.filter(codename="view_historicalorder"))
    order = some_order(region="south", customer__vip=False)
    order.save()
    page = reverse("admin:store_order_history", args=[order.pk])
    assert log_in("support").get(page).status_code == 403
    assert log_in("manager").get(page).status_code == 200


def test_suppliers_are_for_managers_whatever_permissions_somebody_has(people: None, log_in: LogIn) -> None:
    support = get_user_model().objects.get(username="support")
    support.user_permissions.set(Permission.objects.filter(codename__endswith="_supplier"))
    url = reverse("admin:store_supplier_changelist")
    assert log_in("support").get(url).status_code == 403
    assert log_in("manager").get(url).status_code == 200
    assert "Supplier" not in models_shown(log_in("support"))


def test_viewers_change_nothing(store: None, log_in: LogIn) -> None:
    client = log_in("viewer")
    for obj in (Product.objects.first(), Category.objects.first(), Tag.objects.first()):
        assert client.get(change(obj)).status_code == 200
        assert client.post(change(obj), {"name": "x"}).status_code == 403
    assert client.get(reverse("admin:store_order_changelist")).status_code == 403


def test_a_manager_makes_a_product_and_an_order(store: None, log_in: LogIn) -> None:
    client = log_in("manager")
    response = client.post(
        reverse("admin:store_product_add"),
        {
            "title": "Blue lamp",
            "price": "12.50",
            "status": "draft",
            "category": Category.objects.first().pk,
            "tags": [Tag.objects.first().pk],
            "attributes": '{"colour": "blue"}',
        },
    )
    assert response.status_code == 302, response.context["errors"]
    product = Product.objects.get(title="Blue lamp")
    assert product.sku.startswith("P-")
    assert product.history.count() == 1
    response = client.post(
        reverse("admin:store_order_add"),
        {
            "customer": Customer.objects.first().pk,
            "region": Region.SOUTH,
            "status": "pending",
            "placed_at_0": "2026-11-30",
            "placed_at_1": "10:00",
            "lines-TOTAL_FORMS": 0,
            "lines-INITIAL_FORMS": 0,
        },
    )
    assert response.status_code == 302, response.context["errors"]
    assert Order.objects.first().number == "SO-0000241"


def test_the_order_list_costs_the_same_however_many_rows_it_has(store: None, log_in: LogIn) -> None:
    client = log_in("support")
    url = reverse("admin:store_order_changelist")
    client.get(url)  # content types are remembered from here on

    def statements() -> tuple[int, int]:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            response = client.get(url)
        return len(captured), len(response.context["cl"].result_list)

    many, rows = statements()
    assert rows == 50
    keep = list(Order.objects.filter(region="north").values_list("pk", flat=True)[:2])
    Payment.objects.exclude(order__in=keep).filter(refunds=None).delete()
    Order.objects.filter(payments=None).exclude(pk__in=keep).delete()
    Order.objects.exclude(pk__in=keep).update(region="south")
    few, rows = statements()
    assert rows == 2
    assert few == many


def test_permission_hooks_cost_no_query_per_row(store: None) -> None:
    from django.contrib import admin

    model_admin = admin.site.get_model_admin(Order)
    request = RequestFactory().get("/")
    request.user = get_user_model().objects.get(username="support")
    orders = list(model_admin.get_queryset(request).select_related(*model_admin.list_select_related))
    assert model_admin.has_view_permission(request, orders[0]) in (True, False)
    with CaptureQueriesContext(connection) as captured:
        seen = [order for order in orders if model_admin.has_view_permission(request, order)]
        for order in orders:
            model_admin.has_change_permission(request, order)
            model_admin.get_readonly_fields(request, order)
    assert len(captured) == 0
    assert 0 < len(seen) < len(orders)
    assert not any(order.customer.vip for order in seen)


def test_what_is_known_of_a_person_is_asked_once_and_afresh_for_a_fresh_user(people: None) -> None:
    users = get_user_model().objects
    request = RequestFactory().get("/")
    request.user = users.get(username="support")
    with CaptureQueriesContext(connection) as captured:
        assert staff_of(request).region == "north"
        assert staff_of(request).is_manager is False
    assert len(captured) == 2
    StaffProfile.objects.filter(user=request.user).update(region="south")
    request.user = users.get(username="support")
    assert staff_of(request).region == "south"
    request.user.is_active = False
    del request.user._store_staff
    assert staff_of(request).region == ""
