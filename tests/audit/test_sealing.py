"""The canonical text: the same for what was written and what a database gives back, and for nothing else."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_copilot import audit
from django_copilot.audit.sealing import canonical, moment
from django_copilot.models import AuditEntry
from django_copilot.values import to_json

from .chains import SITE, entry, record, value

clean = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean
)
documents = st.recursive(
    scalars, lambda each: st.lists(each, max_size=4) | st.dictionaries(clean, each, max_size=4), max_leaves=15
)


@given(documents)
def test_it_is_one_text_of_ascii_that_json_reads(document: Any) -> None:
    text = canonical(document)
    assert text.isascii()
    json.loads(text)
    assert canonical(json.loads(json.dumps(document))) == text


@given(st.dictionaries(clean, scalars, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_keys_is_of_no_account(document: dict[str, Any], random: Any) -> None:
    keys = list(document)
    random.shuffle(keys)
    assert canonical({key: document[key] for key in keys}) == canonical(document)


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are the same, numbers by what they amount to."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return Decimal(repr(one)) == Decimal(repr(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@given(documents, documents)
def test_what_differs_has_another_text(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) is same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1, True),
        (0, False),
        (None, "null"),
        ([], {}),
        ("", None),
        ([1, 2], [12]),
        ({"a": 1}, ["a", 1]),
    ],
    ids=str,
)
def test_types_are_told_apart(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (0.0, -0.0), (1e16, 10**16), (1e23, 10**23), (100, 1e2), (0.5, 0.50)]
)
def test_numbers_are_what_they_amount_to(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize("given", [math.nan, math.inf, -math.inf, object(), {1, 2}, b"x"])
def test_what_is_no_json_is_an_error(given: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical(given)


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(clean, documents, max_size=3), documents)
def test_what_a_database_gives_back_verifies(about: dict[str, Any], kept: Any) -> None:
    head = audit.head(SITE)["number"]
    audit.append(SITE, "", record(1, about=about, values=(audit.Value(name="v", value=kept),)))
    assert audit.verify(SITE) is None
    assert canonical(entry(head + 1).about) == canonical(to_json(about))
    assert canonical(value(head + 1, "v").value) == canonical(to_json(kept))


def test_a_moment_is_utc_with_microseconds() -> None:
    warsaw = datetime.timezone(datetime.timedelta(hours=2))
    assert moment(datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=warsaw)) == "2026-01-02T01:04:05.000000+00:00"
    assert moment(datetime.datetime(2026, 1, 2, 3, 4, 5, 6)) == "2026-01-02T03:04:05.000006"  # noqa: DTZ001


@pytest.mark.django_db
def test_reading_in_another_time_zone_changes_nothing() -> None:
    from django.utils import timezone

    audit.append(SITE, "", record(1))
    for zone in ("Asia/Tokyo", "America/New_York"):
        with timezone.override(zone):
            assert audit.verify(SITE) is None
    assert AuditEntry.objects.count() == 1
