"""The kept store is the store that the example's own functions make."""

import pytest
from django.contrib.auth import get_user_model

from example_project.store.models import Order, Payment, Product

from . import kept_store


def rows():
    return {
        model.__name__: list(model._default_manager.order_by("pk").values())
        for model in (Product, Order, Payment)
    }


def rights():
    return {user.username: sorted(user.get_all_permissions()) for user in get_user_model().objects.all()}


@pytest.fixture(params=["rolled back", "flushed", "flushed again"])
def database(request):
    request.getfixturevalue("db" if request.param == "rolled back" else "transactional_db")


def test_what_is_kept_is_what_would_be_made(database):
    store = kept_store.fill()
    kept = rows(), rights()
    for model in reversed(kept_store._models()):
        model._default_manager.all().delete()
    kept_store._make()
    assert kept == (rows(), rights())
    assert len(kept[0]["Order"]) == kept_store.ORDERS
    assert store.user("support").check_password("copilot")


def test_new_rows_get_keys_of_their_own(store):
    assert Product.objects.create(title="Blue mug", sku="BLUE", price=1).pk > kept_store.PRODUCTS
    assert get_user_model().objects.create_user("joe").pk


def test_the_store_stands_beside_what_is_there(admin_user, login):
    assert login("support").get("/admin/").status_code == 200
