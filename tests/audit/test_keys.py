"""The system checks of the keys, and that a key is never shown."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.core import checks

from django_copilot import audit
from django_copilot.audit.checks import SHORTEST, check_audit

from .chains import KEYS, SITE, chain

LONG = "k" * SHORTEST


def ids(settings: Any, keys: Any) -> list[str | None]:
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": keys}
    found = check_audit()
    for each in found:
        assert LONG not in str(each)
        assert "short" not in str(each)
    return [each.id for each in found]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ["copilot.W042"]),
        ({"1": LONG}, []),
        (KEYS, []),
        ({"1": ""}, ["copilot.E042"]),
        ({"1": "short"}, ["copilot.E042"]),
        ({"1": "k" * (SHORTEST - 1)}, ["copilot.E042"]),
        ({"1": None}, ["copilot.E042"]),
        ({"1": b"k" * SHORTEST}, ["copilot.E042"]),
        ({"": LONG}, ["copilot.E042"]),
        ({1: LONG}, ["copilot.E042"]),
        ({"v" * 21: LONG}, ["copilot.E042"]),
        ({"a\n": LONG}, ["copilot.E042"]),
        ({"1": LONG, "2": LONG}, ["copilot.E042"]),
        ({"1": "short", "2": LONG}, ["copilot.E042"]),
        ("1", []),  # copilot.E004
        (["1"], []),
    ],
    ids=str,
)
def test_keys_are_checked(settings: Any, keys: Any, expected: list[str]) -> None:
    assert ids(settings, keys) == expected


def test_a_key_of_django_is_no_key_of_the_audit(settings: Any) -> None:
    settings.SECRET_KEY = "s" * 50
    settings.SECRET_KEY_FALLBACKS = ["f" * 50]
    assert ids(settings, {"1": "s" * 50}) == ["copilot.E042"]
    assert ids(settings, {"1": "f" * 50}) == ["copilot.E042"]


def test_it_is_registered_and_quiet_about_a_setting_that_is_none(settings: Any) -> None:
    assert check_audit in checks.registry.registry.get_checks()
    settings.COPILOT = {"NO_SUCH": 1}
    assert check_audit() == []


@pytest.mark.django_db
def test_a_key_that_is_empty_signs_nothing(settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": {"1": ""}}
    with pytest.raises(ValueError, match="AUDIT_KEYS"):
        chain(1)


@pytest.mark.django_db
def test_keys_appear_in_no_row_no_log_and_no_problem(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    from django_copilot.conf import get_settings
    from django_copilot.models import AuditEntry, AuditValue

    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": KEYS}
    with caplog.at_level(logging.DEBUG):
        chain(2)
        AuditEntry.objects.filter(number=2).update(code="x")
        problem = audit.verify(SITE)
    told = [caplog.text, str(problem), repr(get_settings())]
    told += [str(list(model.objects.values())) for model in (AuditEntry, AuditValue)]
    assert problem is not None
    assert not any(key in text for key in KEYS.values() for text in told)
