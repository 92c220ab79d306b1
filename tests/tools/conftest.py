"""Tools declared in tests, and the people and records of the form tests."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.test import Client

from tests.formapp.admin import ParcelForm
from tests.forms.conftest import Things, client_of, person
from tests.gate.conftest import orders  # noqa: F401  # a fixture

from .declared import own_tools  # noqa: F401  # a fixture


@pytest.fixture(autouse=True)
def _own_tools(own_tools: None) -> None:  # noqa: F811
    pass


@pytest.fixture
def forms_site(db: None, settings: Any) -> Any:
    """Return the site of ``tests.formapp``, with its addresses."""
    from tests.formapp.admin import site

    settings.ROOT_URLCONF = "tests.formapp.urls"
    return site


@pytest.fixture
def boss(forms_site: Any) -> User:
    """Return a superuser of that site."""
    return User.objects.create_superuser("boss", password="x")


@pytest.fixture
def clerk(forms_site: Any) -> User:
    """Return somebody who may change parcels and see what they point to."""
    return person(
        "clerk", "formapp.change_parcel", "formapp.view_parcel", "formapp.view_place", "formapp.view_label"
    )


@pytest.fixture
def things(forms_site: Any) -> Things:
    """Return some places, labels and a parcel."""
    return Things()


@pytest.fixture
def plain_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the form of parcels take any of its fields alone."""
    monkeypatch.setattr(ParcelForm, "clean", forms.ModelForm.clean)


@pytest.fixture
def client(boss: User) -> Client:
    """Return the superuser's client."""
    return client_of(boss)
