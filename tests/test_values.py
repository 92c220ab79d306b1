"""Values between JSON and Django: what is taken, what is refused, and that nothing is lost on the way."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.db import models
from django.test import override_settings
from django.utils import timezone
from hypothesis import assume, example, given
from hypothesis import strategies as st

from django_copilot.exceptions import CallError
from django_copilot.values import (
    clean_text,
    field_schema,
    is_clean,
    json_to_python,
    run_field_checks,
    to_json,
)

WARSAW = ZoneInfo("Europe/Warsaw")
CHAR = models.CharField(max_length=40)
STATUS = models.CharField(max_length=10, choices=[("draft", "Draft"), ("active", "Active")])
TEXT = models.TextField()
BOOLEAN = models.BooleanField()
INTEGER = models.IntegerField()
LEVEL = models.IntegerField(choices=[(1, "Low"), (2, "High")])
DECIMAL = models.DecimalField(max_digits=10, decimal_places=2)
FLOAT = models.FloatField()
DATE = models.DateField()
DATETIME = models.DateTimeField()
TIME = models.TimeField()
DURATION = models.DurationField()
UUID = models.UUIDField()
JSON = models.JSONField()

SOME_UUID = "0d9a3f2c-6a51-4d0e-9d0b-0a5b8a7f4f10"


@pytest.fixture(autouse=True)
def in_warsaw():
    with timezone.override("Europe/Warsaw"):
        yield


TAKEN = [
    (CHAR, "text", "text"),
    (CHAR, "", ""),
    (CHAR, " spaces are kept ", " spaces are kept "),
    (STATUS, "draft", "draft"),
    (BOOLEAN, False, False),
    (BOOLEAN, True, True),
    (INTEGER, 7, 7),
    (INTEGER, "7", 7),
    (INTEGER, "-7", -7),
    (INTEGER, 0, 0),
    (DECIMAL, "1234.50", decimal.Decimal("1234.50")),
    (DECIMAL, 12, decimal.Decimal("12")),
    (DECIMAL, 12.5, decimal.Decimal("12.5")),
    (DECIMAL, "-0.01", decimal.Decimal("-0.01")),
    (FLOAT, 1e-07, 1e-07),
    (FLOAT, 1e300, 1e300),
    (FLOAT, "0.5", 0.5),
    (FLOAT, 3, 3.0),
    (DATE, "2026-12-31", datetime.date(2026, 12, 31)),
    (TIME, "18:30", datetime.time(18, 30)),
    (TIME, "18:30:00.123456", datetime.time(18, 30, 0, 123456)),
    (DURATION, "3 04:30:00", datetime.timedelta(days=3, hours=4, minutes=30)),
    (UUID, SOME_UUID, uuid.UUID(SOME_UUID)),
    (UUID, SOME_UUID.upper(), uuid.UUID(SOME_UUID)),
    (JSON, {"a": [1, "b", None]}, {"a": [1, "b", None]}),
    (JSON, "{}", "{}"),  # a text stays a text
    (DATETIME, "2026-12-31", datetime.datetime(2026, 12, 31, tzinfo=WARSAW)),
    (DATETIME, "2026-12-31 18:30", datetime.datetime(2026, 12, 31, 18, 30, tzinfo=WARSAW)),
    (DATETIME, "2026-12-31T18:30:00Z", datetime.datetime(2026, 12, 31, 18, 30, tzinfo=datetime.UTC)),
    (
        DATETIME,
        "2026-12-31T18:30:00.000001+01:00",
        datetime.datetime(2026, 12, 31, 18, 30, 0, 1, tzinfo=WARSAW),
    ),
    *[(field, None, None) for field in (CHAR, BOOLEAN, INTEGER, DECIMAL, DATE, DATETIME, UUID, JSON)],
]

REFUSED = [
    *[(CHAR, bad) for bad in (1, True, 1.5, [], {}, "a\x00b", "\ud800")],
    *[(STATUS, bad) for bad in ("Draft", "gone", "DRAFT", " draft")],
    *[(BOOLEAN, bad) for bad in ("false", "true", 0, 1, "", [], "on")],
    *[
        (INTEGER, bad)
        for bad in (True, 1.0, 1.9, "1_0", "+1", " 1", "1 ", "01", "\uff11", "", "1e3", 2**63, [1])
    ],
    *[
        (DECIMAL, bad)
        for bad in (
            "1,5",
            "1 000",
            "1e3",
            "NaN",
            "Infinity",
            "\uff11",
            "",
            "€5",
            True,
            [],
            "1.234",
            "123456789.00",
            1e300,
        )
    ],
    *[(FLOAT, bad) for bad in ("NaN", "inf", math.nan, math.inf, True, "1,5", "", {})],
    *[
        (DATE, bad)
        for bad in ("31.12.2026", "2026-13-01", "2026-02-30", "2026-1-1", "2026-12-31T00:00", 20261231, "")
    ],
    *[(TIME, bad) for bad in ("25:00", "6pm", "18", "1830", "18:30+02:00", "\uff11\uff18:30", "", 18)],
    *[(DURATION, bad) for bad in ("soon", "", 5, "\uff13 04:30:00", "9999999999 00:00:00")],
    *[(UUID, bad) for bad in ("x", "", SOME_UUID.replace("-", ""), "{" + SOME_UUID + "}", 5)],
    *[
        (DATETIME, bad)
        for bad in (
            "tomorrow",
            "2026-12-31T",
            "2026-12-31T25:00",
            "2026-W01-1T10:00",
            "20261231T1000",
            "31.12.2026 10:00",
            "\uff12026-12-31T10:00",
            "2026-12-31T10:00 Europe/Warsaw",
            "2026-12-31x10:00",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-12:00",
            1767225600,
            "",
        )
    ],
    *[(JSON, bad) for bad in ({"a": "\x00"}, {"\ud800": 1}, [math.inf], [math.nan])],
]


@pytest.mark.parametrize(("field", "given_value", "expected"), TAKEN)
def test_a_value_of_the_right_kind_is_taken_as_it_is(field: Any, given_value: Any, expected: Any) -> None:
    """Guards hazard 5."""
    made = json_to_python(field, "x", given_value)
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(("field", "bad"), REFUSED)
def test_nothing_is_coerced(field: Any, bad: Any) -> None:
    """Guards hazard 5."""
    with pytest.raises(CallError) as caught:
        json_to_python(field, "x", bad)
    assert caught.value.code == "invalid_value"
    assert caught.value.message.startswith("x: ")
    assert caught.value.details == {"field": "x"}
    json.dumps(caught.value.message).encode()


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("2026-03-29T02:30:00", "does not exist"),  # the clock jumps from 2 to 3
        ("2026-10-25T02:30:00", "comes twice"),
    ],
)
def test_a_local_time_that_is_missing_or_comes_twice_is_refused(written: str, why: str) -> None:
    """Guards hazard 6."""
    with pytest.raises(CallError, match=why):
        json_to_python(DATETIME, "x", written)


@pytest.mark.parametrize("offset", ["+02:00", "+01:00"])
def test_with_its_offset_a_time_that_comes_twice_is_one_of_the_two(offset: str) -> None:
    made = json_to_python(DATETIME, "x", f"2026-10-25T02:30:00{offset}")
    assert made.utcoffset() == datetime.timedelta(hours=int(offset[2]))
    assert json_to_python(DATETIME, "x", to_json(made)) == made
    assert to_json(made).endswith(offset)


@override_settings(USE_TZ=False)
def test_without_time_zones_a_point_in_time_is_naive() -> None:
    assert json_to_python(DATETIME, "x", "2026-12-31T18:30") == datetime.datetime(2026, 12, 31, 18, 30)  # noqa: DTZ001
    made = json_to_python(DATETIME, "x", "2026-12-31T18:30Z")
    assert made == datetime.datetime(2026, 12, 31, 19, 30)  # noqa: DTZ001


# -- round trips ---------------------------------------------------------------------------------------

clean_texts = st.text().map(clean_text)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | clean_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(clean_texts, inner, max_size=4),
    max_leaves=12,
)
ROUND_TRIPS = [
    (CHAR, clean_texts),
    (STATUS, st.sampled_from(["draft", "active"])),
    (BOOLEAN, st.booleans()),
    (INTEGER, st.integers(-(2**63), 2**63 - 1)),
    (LEVEL, st.sampled_from([1, 2])),
    (
        DECIMAL,
        st.decimals(min_value=-99999999, max_value=99999999, places=2, allow_nan=False, allow_infinity=False),
    ),
    (FLOAT, st.floats(allow_nan=False, allow_infinity=False)),
    (DATE, st.dates()),
    (TIME, st.times()),
    (
        DURATION,
        st.timedeltas(datetime.timedelta(days=-100_000_000), datetime.timedelta(days=100_000_000)),
    ),
    (UUID, st.uuids()),
    (JSON, json_values),
]


@pytest.mark.parametrize(("field", "values"), ROUND_TRIPS, ids=lambda each: type(each).__name__)
def test_what_a_row_gives_can_be_given_back(field: Any, values: Any) -> None:
    """Guards hazard 7."""

    @given(values)
    def check(value: Any) -> None:
        wire = json.loads(json.dumps(to_json(value), allow_nan=False))
        made = json_to_python(field, "x", wire)
        assert made == value
        assert to_json(made) == to_json(value)

    check()


@given(
    st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 12, 31)),  # noqa: DTZ001
    st.sampled_from(
        ["UTC", "Europe/Warsaw", "America/St_Johns", "Asia/Kathmandu", "Africa/Monrovia", "Pacific/Apia"]
    ),
    st.sampled_from([0, 1]),
)
@example(datetime.datetime(2026, 10, 25, 2, 30), "Europe/Warsaw", 1)  # noqa: DTZ001
@example(datetime.datetime(1850, 1, 1, 0, 0, 0, 1), "Europe/Amsterdam", 0)  # noqa: DTZ001
def test_a_point_in_time_survives_in_every_time_zone(moment: datetime.datetime, zone: str, fold: int) -> None:
    """Guards hazards 6 and 7: microseconds, repeated hours, and offsets with seconds."""
    value = moment.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(datetime.UTC)
    with timezone.override(zone):
        made = json_to_python(DATETIME, "x", json.loads(json.dumps(to_json(value))))
    assert made == value


@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)))  # noqa: DTZ001
@example(datetime.datetime(2026, 3, 29, 2, 30))  # noqa: DTZ001
@example(datetime.datetime(2026, 10, 25, 2, 30))  # noqa: DTZ001
def test_a_local_time_is_either_refused_or_meant_once(moment: datetime.datetime) -> None:
    """Guards hazard 6."""
    moments = {
        utc
        for fold in (0, 1)
        if (utc := moment.replace(tzinfo=WARSAW, fold=fold).astimezone(datetime.UTC))
        .astimezone(WARSAW)
        .replace(tzinfo=None)
        == moment
    }
    with timezone.override("Europe/Warsaw"):
        try:
            made = json_to_python(DATETIME, "x", moment.isoformat())
        except CallError:
            assert len(moments) != 1
        else:
            assert moments == {made.astimezone(datetime.UTC)}


@given(st.text(alphabet=st.characters()) | st.sampled_from(["\ud800", "a\x00", "\udfff\ud800"]))
def test_cleaned_text_can_be_stored_and_sent(text: str) -> None:
    cleaned = clean_text(text)
    assert is_clean(cleaned)
    assert cleaned.encode().decode() == cleaned
    if is_clean(text):
        assert cleaned == text


@given(st.floats() | st.decimals() | st.binary() | st.lists(st.floats()) | st.text())
def test_whatever_a_row_holds_becomes_json(value: Any) -> None:
    """Guards hazard 7: no NaN, no surrogate, no type that JSON has not."""
    json.dumps(to_json(value), allow_nan=False, ensure_ascii=False).encode()


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20))
def test_a_number_is_never_rounded_into_a_field(number: decimal.Decimal) -> None:
    """Guards hazard 5."""
    text = format(number, "f")
    assume(len(text) < 50)
    try:
        made = json_to_python(DECIMAL, "x", text)
    except CallError:
        exact = number.normalize().as_tuple()
        places = max(0, -int(exact.exponent))
        written = max(0, -int(number.as_tuple().exponent))
        assert places > 2 or written > 2 or abs(number) >= 10**8
    else:
        assert made == number


# -- the form field's own checks -----------------------------------------------------------------------


class SplitForm(forms.Form):
    when = forms.SplitDateTimeField(required=False)
    level = forms.TypedChoiceField(choices=[(1, "Low"), (2, "High")], coerce=int)
    data = forms.JSONField(required=False)
    name = forms.CharField(max_length=5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("when", datetime.datetime(2026, 12, 31, 18, 30, tzinfo=WARSAW), None),
        ("when", None, None),
        ("level", 2, None),
        ("level", 3, "Select a valid choice"),
        ("data", {"a": 1}, None),
        ("data", "{}", None),
        ("name", "short", None),
        ("name", "too long", "at most 5"),
        ("name", None, "required"),
    ],
)
def test_the_form_fields_own_checks_decide(name: str, value: Any, message: str | None) -> None:
    field = SplitForm().fields[name]
    if message is None:
        run_field_checks(field, name, value)
    else:
        with pytest.raises(CallError, match=message):
            run_field_checks(field, name, value)


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        (STATUS, {"type": "string", "enum": ["draft", "active"]}),
        (LEVEL, {"type": "integer", "enum": [1, 2]}),
        (BOOLEAN, {"type": "boolean"}),
        (DATE, {"type": "string", "format": "date"}),
        (DATETIME, {"type": "string", "format": "date-time"}),
        (CHAR, {"type": "string"}),
        (models.CharField(choices=[(str(n), str(n)) for n in range(41)]), {"type": "string"}),
    ],
)
def test_a_schema_says_what_is_taken(field: Any, schema: dict[str, Any]) -> None:
    assert field_schema(field) == schema
