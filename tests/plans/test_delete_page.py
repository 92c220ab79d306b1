"""The admin's own delete page, with the readable fields of the record above."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from django_copilot.models import Plan, PlanState
from example_project.store.models import Category, Customer, Order, OrderLine, Product, Supplier
from tests.forms.pages import propose, visit


def free_product() -> Product:
    """Return a new product that nothing depends on."""
    return Product.objects.create(
        title="Unsold lamp", price="12.50", cost_price="3.33", category=Category.objects.first()
    )


def delete_url(obj: Any) -> str:
    """Return the address of a record's delete page."""
    return reverse(f"admin:store_{obj._meta.model_name}_delete", args=[obj.pk])


def delete_plan(client: Client, obj: Any) -> dict[str, Any]:
    """Have the delete page of a record proposed."""
    tool = f"confirm_delete_{obj._meta.model_name}"
    return propose(client, tool, id=str(obj.pk), site="admin")


def preview(response: Any) -> dict[str, str]:
    """Return the previewed fields by label."""
    given = response.context.get("copilot_preview")
    return {each["label"]: each["value"] for each in given["fields"]} if given else {}


def test_the_page_shows_the_readable_fields_and_deletes_only_on_the_admins_post(manager: Client) -> None:
    """Hazard 49."""
    product = free_product()
    action = delete_plan(manager, product)
    assert action["path"] == delete_url(product)
    assert action["queryParams"]["aiAction"] == "delete"
    page = visit(manager, action)
    shown = preview(page.response)
    assert shown["Title"] == "Unsold lamp"
    assert shown["Category"] == str(product.category)
    assert set(shown) == {"Title", "SKU", "Status", "Price", "Cost price", "Category", "Available from"}
    assert "Unsold lamp" in page.html.split("copilot-preview")[1]
    assert "on your request" in page.html
    assert Product.objects.filter(pk=product.pk).exists()  # a visit deletes nothing
    assert Plan.objects.get().state == PlanState.PROPOSED

    response = manager.post(page.url, {"post": "yes"})
    assert response.status_code == 302
    assert not Product.objects.filter(pk=product.pk).exists()
    plan = Plan.objects.get()
    assert (plan.state, plan.result_pk) == (PlanState.EXECUTED, str(product.pk))


def test_deleting_closes_every_open_delete_plan_of_hers_and_nobody_elses(manager: Client, login: Any) -> None:
    product, other = free_product(), free_product()
    for client, obj in ((manager, product), (manager, product), (manager, other), (login("admin"), product)):
        delete_plan(client, obj)
    manager.post(delete_url(product), {"post": "yes"})
    states = [
        (plan.user.username, plan.object_pk, plan.state) for plan in Plan.objects.order_by("created_at")
    ]
    assert states == [
        ("manager", str(product.pk), "executed"),
        ("manager", str(product.pk), "executed"),
        ("manager", str(other.pk), "proposed"),
        ("admin", str(product.pk), "proposed"),
    ]


def test_what_is_protected_is_explained_and_not_deleted(manager: Client) -> None:
    line = OrderLine.objects.select_related("product").first()
    assert line is not None
    action = delete_plan(manager, line.product)
    page = visit(manager, action)
    assert preview(page.response)["Title"] == line.product.title
    assert page.response.context["protected"]
    assert "would require deleting the following protected" in " ".join(page.html.split())
    response = manager.post(page.url, {"post": "yes"})
    assert response.status_code == 200
    assert response.context["protected"]
    assert Product.objects.filter(pk=line.product_id).exists()
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_what_cascades_is_listed_by_the_admin(manager: Client) -> None:
    order = Order.objects.filter(payments=None, lines__isnull=False).first()
    if order is None:
        order = Order.objects.filter(lines__isnull=False)[0]
        order.payments.all().delete()
    page = visit(manager, delete_plan(manager, order))
    assert not page.response.context["protected"]
    assert page.html.count("Order line: ") >= order.lines.count()
    manager.post(page.url, {"post": "yes"})
    assert not OrderLine.objects.filter(order_id=order.pk).exists()


def test_a_field_that_she_may_not_read_is_not_in_the_preview(manager: Client, store: Any, login: Any) -> None:
    product = free_product()
    viewer = store.user("viewer")
    viewer.user_permissions.add(Permission.objects.get(codename="delete_product"))
    response = login("viewer").get(delete_url(product))
    assert response.status_code == 200
    assert "Cost price" not in preview(response)
    assert b"3.33" not in response.content
    assert preview(response)["Title"] == "Unsold lamp"


def test_who_may_delete_and_not_view_gets_no_preview(store: Any, db: None) -> None:
    product = free_product()
    user = User.objects.create_user("eve", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["delete_product", "use_copilot", "view_category"])
    )
    client = Client()
    client.force_login(user)
    response = client.get(delete_url(product))
    assert response.status_code == 200
    assert "copilot-preview" not in response.content.decode()
    assert preview(response) == {}


def test_a_record_outside_her_rows_is_the_admins_own_answer(store: Any, login: Any) -> None:
    support = store.user("support")
    support.user_permissions.add(Permission.objects.get(codename="delete_order"))
    hidden = Order.objects.filter(region="south").first() or Order.objects.create(
        customer=Customer.objects.first(), region="south"
    )
    client = login("support")
    there = client.get(delete_url(hidden))
    nowhere = client.get(reverse("admin:store_order_delete", args=[99999999]))
    assert (there.status_code, there["Location"]) == (nowhere.status_code, nowhere["Location"])


def test_without_the_right_to_delete_there_is_no_page_and_no_plan(login: Any) -> None:
    product = free_product()
    client = login("viewer")
    assert client.get(delete_url(product), {"aiAction": "delete"}).status_code == 403
    assert client.post(delete_url(product), {"post": "yes"}).status_code == 403
    assert Product.objects.filter(pk=product.pk).exists()


def test_the_delete_page_of_an_undeclared_model_is_untouched(manager: Client) -> None:
    supplier = Supplier.objects.create(name="Nobody's", country="PL")
    response = manager.get(delete_url(supplier), {"aiAction": "delete"})
    assert "copilot-preview" not in response.content.decode()


@pytest.mark.parametrize("language", ["en", "pl", "ru"])
def test_the_preview_is_in_the_persons_language(manager: Client, language: str) -> None:
    product = free_product()
    response = manager.get(delete_url(product), headers={"accept-language": language})
    price = preview(response)[{"en": "Price", "pl": "Cena", "ru": "Цена"}[language]]
    assert price == ("12.50" if language == "en" else "12,50")
