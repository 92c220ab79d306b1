"""Keys of rows, as the database gives them and as everybody else knows them."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import models

from django_copilot.models import Conversation
from django_copilot.redteam import tables

KEY = uuid.UUID("ae5ed28e-ee81-4f5c-9a6e-0c6f1d2b3a4c")


@pytest.mark.parametrize(
    ("field", "raw", "text"),
    [
        (models.UUIDField(), KEY.hex, str(KEY)),
        (models.UUIDField(), KEY, str(KEY)),
        (models.BigAutoField(), 7, "7"),
        (models.CharField(), "a b", "a b"),
        (models.BigAutoField(), None, ""),
    ],
    ids=["hex", "uuid", "number", "text", "none"],
)
def test_a_key_is_the_same_text_however_the_driver_gives_it(field: Any, raw: Any, text: str) -> None:
    assert tables.key_text(field, raw) == text


def test_rows_are_known_by_the_text_of_their_key(store: Any) -> None:
    talk = Conversation.objects.create(user=store.user("support"), site="admin")
    assert [key for key, _row in tables._rows_of(Conversation)] == [str(talk.pk)]
