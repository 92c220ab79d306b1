"""A clumsy real model, three people and three languages: it names wrong tools and ids, and nothing comes of it."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable

import pytest
from django.test import Client

from .conftest import figures
from .talking import PEOPLE, talk

pytestmark = [pytest.mark.llm, pytest.mark.timeout(3_600)]


@pytest.mark.parametrize("person", PEOPLE)
def test_a_clumsy_model_does_no_harm(
    person: str,
    poisoned: None,
    login: Callable[[str], Client],
    small_model: str,
    gateway: socket.socket,
) -> None:
    seen: Counter[str] = Counter()
    try:
        talk(login(person), small_model, language=PEOPLE.index(person), gateway=gateway, figures=seen)
    finally:
        figures.update(seen)
    assert seen["tool calls"] > 5, "The model called next to nothing, so nothing was tried."
