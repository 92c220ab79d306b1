"""People and records of the form tests, on the admin site of ``tests.formapp``."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from tests.formapp.models import Label, Parcel, Place


def person(username: str, *permissions: str) -> User:
    """Return a member of staff with these permissions ("app.codename") and use_copilot."""
    user = User.objects.create_user(username, password="x", is_staff=True)
    for name in (*permissions, "django_copilot.use_copilot"):
        app, codename = name.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return user


def client_of(user: User) -> Client:
    """Return a test client of that person."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture(autouse=True)
def _addresses(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.formapp.urls"


@pytest.fixture
def boss(db: None) -> User:
    """Return a superuser."""
    return User.objects.create_superuser("boss", password="x")


@pytest.fixture
def client(boss: User) -> Client:
    """Return the superuser's client."""
    return client_of(boss)


class Things:
    """Records to point at."""

    def __init__(self) -> None:
        self.places = [Place.objects.create(code=f"P{n}", name=f"Nr {n}") for n in range(3)]
        self.closed = Place.objects.create(code="PX", name="Closed", is_open=False)
        self.labels = [Label.objects.create(name=f"L{n}") for n in range(4)]
        self.parcel = Parcel.objects.create(
            title="Old title",
            note="Old note",
            weight="7.50",
            depot=self.places[0],
            shelf=self.places[0],
            zone=self.places[0],
            extra={"old": 1},
            fragile=True,
        )
        self.parcel.labels.set(self.labels[:2])

    def fresh(self) -> Parcel:
        """Return the parcel as it is stored."""
        return Parcel.objects.get(pk=self.parcel.pk)


@pytest.fixture
def things(db: None) -> Things:
    """Return some places, labels and a parcel."""
    return Things()
