"""A small filled store, its people, and a client logged in as one of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from example_project.store.data import create_data
from example_project.store.people import create_people


@pytest.fixture
def people(db: None) -> None:
    create_people()


@pytest.fixture
def store(people: None) -> None:
    create_data(products=40, orders=240)


@pytest.fixture
def log_in(people: None) -> Callable[[str], Client]:
    """Return what makes a client of one person."""

    def log_in(username: str) -> Client:
        client = Client()
        client.force_login(get_user_model().objects.get(username=username))
        return client

    return log_in
