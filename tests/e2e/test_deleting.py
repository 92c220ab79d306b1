"""A manager has a record deleted: on the admin's own page, by her own click."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from django_copilot.testing import Call
from example_project.store.models import Product


@pytest.fixture
def delete(open_as, panel):
    """Return a function that has the delete page of a product opened."""

    def delete(mind, product):
        mind.will(Call("confirm_delete_product", {"id": str(product.pk)}))
        page = open_as("manager")
        panel.go(f"Delete product {product.pk}", f"/admin/store/product/{product.pk}/delete/")
        return page

    return delete


def test_a_product_without_orders_goes_when_the_person_confirms(delete, shot, mind, store):
    product = Product.objects.filter(order_lines=None).first()
    page = delete(mind, product)
    preview = page.locator(".copilot-preview")
    expect(preview).to_contain_text(product.sku)
    expect(preview).to_contain_text("Draft")
    expect(preview).to_contain_text("The assistant opened this page on your request")
    shot("delete-page")
    assert Product.objects.filter(pk=product.pk).exists()
    page.locator("#content input[type=submit]").click()
    expect(page.locator(".messagelist .success")).to_contain_text(product.title)
    assert not Product.objects.filter(pk=product.pk).exists()


def test_a_product_with_orders_is_explained_and_stays(delete, shot, mind, store):
    product = Product.objects.exclude(order_lines=None).first()
    page = delete(mind, product)
    expect(page.locator(".copilot-preview")).to_contain_text(product.sku)
    expect(page.locator("#content")).to_contain_text("would require deleting the following protected")
    expect(page.locator("#content input[type=submit]")).to_have_count(0)
    shot("delete-protected")
    assert Product.objects.filter(pk=product.pk).exists()
