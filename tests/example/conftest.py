"""A small filled store, its people, and a client logged in as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from example_project.store.data import create_data
from example_project.store.gateway import Gateway
from example_project.store.ledger import Ledger
from example_project.store.people import create_people

from .gateways import PAID, TOKEN, serving


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


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "books.sqlite3", find=PAID.get)


@pytest.fixture
def gateway(ledger: Ledger, settings: Any) -> Iterator[Gateway]:
    """Serve a gateway that knows two payments, as the one of the store."""
    with serving(ledger) as gateway:
        settings.STORE_GATEWAY_URL = gateway.address
        settings.STORE_GATEWAY_TOKEN = TOKEN
        settings.STORE_GATEWAY_SECONDS = 10
        yield gateway
