"""How a record is named: one spelling for each key, nothing guessed, and references that are a person's own."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import models
from hypothesis import given
from hypothesis import strategies as st

from django_copilot.exceptions import CallError
from django_copilot.identity import dereference, key_is_data, key_text, parse_key, refer
from django_copilot.models import Conversation, Reference
from django_copilot.scope import Scope, enter_scope
from example_project.store.models import Order, StaffProfile


def model_with(key: models.Field) -> Any:
    """Return a stand-in for a model class with that key: what ``identity`` asks of one."""
    key.set_attributes_from_name("key")
    options = type("Meta", (), {"pk": key, "label_lower": "made.up", "_meta": None})
    return type("Made", (), {"_meta": options})


AUTO = model_with(models.BigAutoField(primary_key=True))
WHOLE = model_with(models.IntegerField(primary_key=True))
TEXT = model_with(models.CharField(primary_key=True, max_length=80))
UUIDS = model_with(models.UUIDField(primary_key=True))
DATES = model_with(models.DateField(primary_key=True))
SOME = "0d9a3f2c-6a51-4d0e-9d0b-0a5b8a7f4f10"


@pytest.mark.parametrize(
    ("model", "given_id", "key"),
    [
        (AUTO, "7", 7),
        (AUTO, 7, 7),
        (AUTO, "-7", -7),
        (AUTO, "0", 0),
        (AUTO, str(2**63 - 1), 2**63 - 1),
        (WHOLE, "12", 12),
        (TEXT, "a/b_5Fc?d", "a/b_5Fc?d"),
        (TEXT, " 1", " 1"),
        (TEXT, "true", "true"),
        (TEXT, "ż\u202e", "ż\u202e"),
        (UUIDS, SOME, uuid.UUID(SOME)),
    ],
)
def test_a_keys_own_text_is_taken(model: Any, given_id: Any, key: Any) -> None:
    made = parse_key(model, given_id)
    assert (made, type(made)) == (key, type(key))


BAD_NUMBERS = [
    *(True, False, 1.0, 1.9, None, [], {}, [1], {"id": 1}),
    *("", "1_0", "+1", " 1", "1 ", "1\n", "01", "-0", "--1", "1.0", "1e3", "0x1", "true", "None"),
    *("\uff11", "\u0661", "²", "1\x00", "\ud800", "1" * 30, "9" * 501),
    *(2**63, -(2**63) - 1, 10**400, str(2**63), str(-(2**63) - 1)),
]


@pytest.mark.parametrize("model", [AUTO, WHOLE, Order])
@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda each: ascii(each)[:30])
def test_a_number_key_has_one_spelling(model: Any, bad: Any) -> None:
    """Guards hazard 1."""
    with pytest.raises(CallError) as caught:
        parse_key(model, bad)
    assert caught.value.code == "invalid_id"


@pytest.mark.parametrize(
    ("model", "bad"),
    [
        (TEXT, 1),
        (TEXT, True),
        (TEXT, ""),
        (TEXT, "a\x00"),
        (TEXT, "\ud800"),
        (TEXT, "x" * 501),
        (UUIDS, SOME.upper()),
        (UUIDS, SOME.replace("-", "")),
        (UUIDS, "{" + SOME + "}"),
        (UUIDS, 5),
        (UUIDS, "x"),
        (DATES, "2026-1-1"),
        (DATES, "today"),
    ],
)
def test_other_keys_have_one_spelling_too(model: Any, bad: Any) -> None:
    """Guards hazard 1."""
    with pytest.raises(CallError) as caught:
        parse_key(model, bad)
    assert caught.value.code == "invalid_id"


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        (AUTO, st.integers(-(2**63), 2**63 - 1)),
        (UUIDS, st.uuids()),
        (DATES, st.dates()),
        (
            TEXT,
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1).filter(
                lambda text: len(text) <= 500
            ),
        ),
    ],
    ids=["auto", "uuid", "date", "text"],
)
def test_a_keys_text_names_that_key(model: Any, keys: Any) -> None:
    @given(keys)
    def check(key: Any) -> None:
        assert parse_key(model, key_text(model, key)) == key

    check()


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_whatever_is_taken_is_the_keys_own_text(given_id: Any) -> None:
    """Guards hazard 1."""
    try:
        key = parse_key(AUTO, given_id)
    except CallError:
        return
    assert key_text(AUTO, key) == str(given_id)
    assert type(given_id) in (int, str)


@pytest.mark.parametrize(
    ("model", "is_data"),
    [(AUTO, False), (UUIDS, False), (Order, False), (WHOLE, True), (TEXT, True), (DATES, True)],
)
def test_only_keys_that_the_database_makes_say_nothing(model: Any, is_data: bool) -> None:
    assert key_is_data(model) is is_data


# -- references ----------------------------------------------------------------------------------------

HERE = Scope(site="admin")
ELSEWHERE = [Scope(site="other"), Scope(site="admin", keys={"tenant": "acme"})]


def test_a_reference_is_stable_opaque_and_the_persons_own(store: Any, settings: Any) -> None:
    """Guards hazard 2."""
    support, manager = store.user("support"), store.user("manager")
    settings.COPILOT = {"SCOPE": {"capture": lambda request: {}, "enter": _enter}}
    with enter_scope(HERE, support.pk) as request:
        token = refer(request, StaffProfile, [41])[41]
        assert refer(request, StaffProfile, [41])[41] == token
        assert refer(request, StaffProfile, [42])[42] != token
        assert refer(request, Order, [41])[41] != token
        assert Reference.objects.filter(token=token).count() == 1
        assert "41" not in token.removeprefix("ref_") or len(token) == 36
        assert dereference(request, StaffProfile, token) == 41
        with pytest.raises(CallError):
            dereference(request, Conversation, token)
    for scope, user in [(HERE, manager), *((each, support) for each in ELSEWHERE)]:
        with enter_scope(scope, user.pk) as request, pytest.raises(CallError) as caught:
            dereference(request, StaffProfile, token)
        assert caught.value.code == "invalid_id"


@pytest.mark.parametrize("bad", ["41", 41, True, None, "", "ref_", "ref_" + "0" * 32, "ref_\uff11", [], {}])
def test_what_is_no_reference_names_nothing(store: Any, bad: Any) -> None:
    """Guards hazard 2."""
    with enter_scope(HERE, store.user("support").pk) as request:
        refer(request, StaffProfile, [41])
        with pytest.raises(CallError) as caught:
            dereference(request, StaffProfile, bad)
    assert caught.value.code == "invalid_id"


def _enter(values: Any, request: Any) -> Any:
    from contextlib import nullcontext

    return nullcontext()
