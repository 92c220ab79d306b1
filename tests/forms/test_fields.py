"""Each kind of field: proposed, shown in the real form, saved untouched, and named in the log."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from tests.formapp.models import Parcel

from .conftest import Things
from .pages import Page, fill, plan_of, refused, visit

WARSAW = ZoneInfo("Europe/Warsaw")
TICKET = "6f1f8a9e-3b5c-4a0e-9a27-5d1e0c3b2a11"

# name, given by the model, inputs in the form, stored value
FIELDS: list[tuple[str, Any, dict[str, Any], Any]] = [
    ("title", "A new one", {"title": "A new one"}, "A new one"),
    ("slug", "a-new-one", {"slug": "a-new-one"}, "a-new-one"),
    ("note", "Two\r\nlines <b>", {"note": "Two\r\nlines <b>"}, "Two\r\nlines <b>"),
    ("kind", "bag", {"kind": "bag"}, "bag"),
    ("slot", "pm", {"slot": "pm"}, "pm"),
    ("grade", 2, {"grade": "2"}, 2),
    ("pieces", 12, {"pieces": "12"}, 12),
    ("weight", "1234.50", {"weight": "1234.50"}, decimal.Decimal("1234.50")),
    ("ratio", "0.25", {"ratio": "0.25"}, 0.25),
    ("fragile", False, {"fragile": []}, False),
    ("checked", False, {"checked": "false"}, False),
    ("checked", True, {"checked": "true"}, True),
    ("day", "2026-02-03", {"day": "2026-02-03"}, datetime.date(2026, 2, 3)),
    (
        "at",
        "2026-07-01T08:30:00Z",
        {"at_0": "2026-07-01", "at_1": "10:30:00"},
        datetime.datetime(2026, 7, 1, 10, 30, tzinfo=WARSAW),
    ),
    (
        "at",
        "2026-01-15 18:05",
        {"at_0": "2026-01-15", "at_1": "18:05:00"},
        datetime.datetime(2026, 1, 15, 18, 5, tzinfo=WARSAW),
    ),
    ("clock", "07:45", {"clock": "07:45:00"}, datetime.time(7, 45)),
    ("length", "1 02:30:00", {"length": "1 02:30:00"}, datetime.timedelta(days=1, hours=2, minutes=30)),
    ("ticket", TICKET, {"ticket": TICKET}, uuid.UUID(TICKET)),
    ("address", "10.0.0.7", {"address": "10.0.0.7"}, "10.0.0.7"),
    ("extra", {"a": [1, "ż"]}, {"extra": '{"a": [1, "ż"]}'}, {"a": [1, "ż"]}),
    ("extra", "plain text", {"extra": '"plain text"'}, "plain text"),
    (
        "remark",
        '{"not": "an object"}',
        {"remark": json.dumps('{"not": "an object"}')},
        '{"not": "an object"}',
    ),
    ("remark", 0, {"remark": "0"}, 0),
    ("remark", False, {"remark": "false"}, False),
]
IDS = [f"{name}-{number}" for number, (name, *_rest) in enumerate(FIELDS)]


def last_log() -> LogEntry:
    """Return the newest entry of the admin's log."""
    entry = LogEntry.objects.order_by("-pk").first()
    assert entry is not None
    return entry


def assert_saved(page: Page) -> None:
    """Fail with the form's errors if the page is not the redirect of a saved form."""
    assert page.response.status_code == 302, page.errors


@pytest.mark.parametrize(("name", "given", "inputs", "stored"), FIELDS, ids=IDS)
def test_a_proposed_value_is_shown_saved_untouched_and_logged_on_the_change_form(
    client: Client, things: Things, name: str, given: Any, inputs: dict[str, Any], stored: Any
) -> None:
    """Hazards 30, 31, 32 and 33: the change form too, of every type, and what was accepted counts as changed."""
    page = fill(client, "open_parcel_form", {name: given}, id=str(things.parcel.pk))
    assert {each: page.value(each) for each in inputs} == inputs
    assert list(page.marked) == [name]
    before = things.fresh()
    assert getattr(before, name) != stored  # nothing is saved by opening

    assert_saved(page.save())
    assert getattr(things.fresh(), name) == stored
    changed = json.loads(last_log().change_message)[0]["changed"]["fields"]
    label = Parcel._meta.get_field(name).verbose_name
    assert changed == [str(label).capitalize()]


@pytest.mark.parametrize("last", [False, True], ids=["first of each", "last of each"])
def test_proposed_values_are_shown_and_saved_untouched_on_the_add_form(
    client: Client, things: Things, last: bool
) -> None:
    """Hazards 31 and 33."""
    chosen = {field[0]: field for field in (FIELDS if last else reversed(FIELDS))}
    page = fill(client, "open_parcel_form", {name: given for name, given, _, _ in chosen.values()})
    wanted = {name: value for _, _, inputs, _ in chosen.values() for name, value in inputs.items()}
    assert {name: page.value(name) for name in wanted} == wanted
    assert set(page.marked) == set(chosen)
    assert_saved(page.save())
    made = Parcel.objects.latest("pk")
    assert {name: getattr(made, name) for name in chosen} == {
        name: stored for name, _, _, stored in chosen.values()
    }


@pytest.mark.parametrize("name", ["shelf", "depot", "stop", "zone"])
def test_a_relation_is_shown_and_saved_by_select_raw_id_autocomplete_and_to_field(
    client: Client, things: Things, name: str
) -> None:
    """Hazard 34."""
    place = things.places[2]
    page = fill(client, "open_parcel_form", {name: str(place.pk)}, id=str(things.parcel.pk))
    assert page.value(name) == (place.code if name == "zone" else str(place.pk))
    assert_saved(page.save())
    assert getattr(things.fresh(), name) == place
    assert json.loads(last_log().change_message)[0]["changed"]["fields"] == [name.capitalize()]


@pytest.mark.parametrize("name", ["shelf", "depot", "zone"])
def test_the_old_relation_is_named_and_put_back_by_the_key_that_its_widget_uses(
    client: Client, things: Things, name: str
) -> None:
    page = fill(client, "open_parcel_form", {name: str(things.places[2].pk)}, id=str(things.parcel.pk))
    old = things.places[0]
    mark = page.marked[name]
    assert mark["old"] == "Place Nr 0"
    assert mark["oldInputs"][0][:2] == [name, [old.code if name == "zone" else str(old.pk)]]
    again = page.save(title="")
    assert again.marked[name]["old"] == "Place Nr 0"  # and not what was posted


@pytest.mark.parametrize("name", ["labels", "stamps"])
def test_many_related_records_are_shown_and_saved_as_a_whole_set(
    client: Client, things: Things, name: str
) -> None:
    wanted = things.labels[1:4]
    pks = [str(each.pk) for each in wanted]
    page = fill(client, "open_parcel_form", {name: pks}, id=str(things.parcel.pk))
    if name == "labels":
        assert sorted(page.value(name)) == sorted(pks)
        assert page.marked[name]["old"] == "Label L0, Label L1"
        assert sorted(page.marked[name]["oldInputs"][0][1]) == sorted(
            str(each.pk) for each in things.labels[:2]
        )
    else:
        assert sorted(page.value(name).split(",")) == sorted(pks)
        assert page.marked[name]["oldInputs"] == [[name, [""]]]
    assert_saved(page.save())
    assert set(getattr(things.fresh(), name).all()) == set(wanted)


def test_many_related_records_can_be_emptied(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"labels": []}, id=str(things.parcel.pk))
    assert page.value("labels") == []
    assert_saved(page.save())
    assert not things.fresh().labels.exists()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("shelf", "closed"),  # limit_choices_to
        ("shelf", "999999"),
        ("depot", "abc"),
        ("labels", ["999999"]),
        ("labels", "1,2"),
        ("kind", "A box"),  # a label and not a value
        ("slot", "noon"),  # callable choices
        ("grade", 3),
        ("grade", "High"),
        ("fragile", "false"),
        ("checked", "yes"),
        ("day", "02/03/2026"),
        ("at", "tomorrow"),
        ("at", "2026-03-29T02:30:00"),  # skipped by the clock in Warsaw
        ("weight", "1,234.50"),
        ("weight", True),
        ("title", "x" * 121),
        ("ticket", "no uuid"),
        ("address", "10.0.0"),
    ],
)
def test_a_value_that_the_field_would_not_take_never_becomes_a_plan(
    client: Client, things: Things, name: str, given: Any
) -> None:
    """Hazards 35 and 36: refused before a page opens, instead of silently showing something else."""
    value = str(things.closed.pk) if given == "closed" else given
    told = refused(client, "open_parcel_form", {name: value})
    assert '"error"' in told
    assert name in told


def test_the_old_value_is_shown_on_change_forms_only(client: Client, things: Things) -> None:
    adding = fill(client, "open_parcel_form", {"title": "New", "weight": "3"})
    assert adding.draft["showOld"] is False
    assert {mark["old"] for mark in adding.marked.values()} == {None}
    changing = fill(client, "open_parcel_form", {"title": "New", "weight": "3"}, id=str(things.parcel.pk))
    assert changing.draft["showOld"] is True
    assert {name: mark["old"] for name, mark in changing.marked.items()} == {
        "title": "Old title",
        "weight": "7.50",
    }


@pytest.mark.parametrize(
    ("name", "given", "old_inputs"),
    [
        ("fragile", False, [["fragile", ["on"]]]),
        ("checked", True, [["checked", ["unknown"], []]]),
        ("kind", "bag", [["kind", ["box"], []]]),
        ("grade", 2, [["grade", ["1"], []]]),
        ("at", "2026-01-15T18:05:00", [["at_0", [""]], ["at_1", [""]]]),
        ("extra", {}, [["extra", ['{"old": 1}']]]),
        ("stop", "1", [["stop", [], []]]),
    ],
)
def test_the_old_value_is_given_as_the_inputs_hold_it(
    client: Client, things: Things, name: str, given: Any, old_inputs: Any
) -> None:
    value = str(things.places[1].pk) if name == "stop" else given
    page = fill(client, "open_parcel_form", {name: value}, id=str(things.parcel.pk))
    assert page.marked[name]["oldInputs"] == old_inputs


def test_a_field_of_the_form_alone_is_filled_in_and_reaches_the_form(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = fill(client, "open_parcel_form", {"promise": "by noon"}, id=str(things.parcel.pk))
    assert page.value("promise") == "by noon"
    assert list(page.marked) == ["promise"]
    kept = []
    monkeypatch.setattr(Parcel, "save", lambda self, **kwargs: kept.append(self.promised))
    assert_saved(page.save())
    assert kept == ["by noon"]


def test_a_field_that_is_closed_for_this_record_is_dropped_and_never_saved(
    client: Client, things: Things
) -> None:
    """Hazard 37: a disabled field would take its value from what was proposed, whatever the browser sent."""
    Parcel.objects.filter(pk=things.parcel.pk).update(kind="bag", slug="kept")
    told = refused(client, "open_parcel_form", {"slug": "taken"}, id=str(things.parcel.pk))
    assert "not_fillable" in told
    # Closed only after the proposal was made:
    Parcel.objects.filter(pk=things.parcel.pk).update(kind="box")
    page = fill(client, "open_parcel_form", {"slug": "taken", "title": "T"}, id=str(things.parcel.pk))
    Parcel.objects.filter(pk=things.parcel.pk).update(kind="bag")
    page = visit(client, {"path": page.url, "queryParams": {"aiPlan": page.plan}})
    assert list(page.marked) == ["title"]
    assert any("Slug" in notice for notice in page.draft["notices"])
    page.save(slug="taken")
    assert things.fresh().slug == "kept"


def test_fields_that_are_read_only_for_this_record_are_dropped(client: Client, things: Things) -> None:
    Parcel.objects.filter(pk=things.parcel.pk).update(locked="yes")
    page = fill(client, "open_parcel_form", {"note": "n", "title": "t"}, id=str(things.parcel.pk))
    assert list(page.marked) == ["title"]
    assert plan_of(page).values == {"title": "t"}


def test_a_declared_field_that_no_page_shows_is_never_filled_in(client: Client, things: Things) -> None:
    assert "not_fillable" in refused(client, "open_parcel_form", {"hidden": "x"})
    page = fill(client, "open_parcel_form", {"hidden": "x", "title": "t"})
    page.save(hidden="x")
    assert Parcel.objects.latest("pk").hidden == ""


def test_prepopulated_fields_left_empty_are_pointed_out(client: Client) -> None:
    page = fill(client, "open_parcel_form", {"title": "t"})
    assert any("Slug" in notice for notice in page.draft["notices"])
    page = fill(client, "open_parcel_form", {"title": "t", "slug": "t"})
    assert page.draft["notices"] == []


@pytest.mark.parametrize(
    ("language", "separator", "thousands", "day"),
    [
        ("en", ".", ",", "2026-02-03"),
        ("pl", ",", "\xa0", "03.02.2026"),
        ("de", ",", ".", "03.02.2026"),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_numbers_and_dates_survive_each_language(
    client: Client,
    things: Things,
    settings: Any,
    language: str,
    separator: str,
    thousands: str,
    day: str,
    grouped: bool,
) -> None:
    """Hazard 33: values stay typed until the widget writes them, and are read back as what they were."""
    settings.LANGUAGES = [("en", "English"), ("pl", "Polski"), ("de", "Deutsch")]
    settings.USE_THOUSAND_SEPARATOR = grouped
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    page = fill(
        client,
        "open_parcel_form",
        {"weight": "1234.50", "day": "2026-02-03", "at": "2026-02-03T04:05:06"},
        id=str(things.parcel.pk),
    )
    assert page.value("weight") == f"1{thousands if grouped else ''}234{separator}50"
    assert page.value("day") == day
    assert page.value("at_0") == day
    assert page.marked["weight"]["old"] == f"7{separator}50"
    assert page.marked["weight"]["oldInputs"] == [["weight", [f"7{separator}50"]]]
    again = page.save(title="")
    assert set(again.marked) == {"weight", "day", "at"}
    assert_saved(again.save(title="Old title"))
    parcel = things.fresh()
    assert (parcel.weight, parcel.day) == (decimal.Decimal("1234.50"), datetime.date(2026, 2, 3))
    assert parcel.at == datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=WARSAW)


def test_microseconds_that_a_widget_does_not_show_leave_the_mark(client: Client, things: Things) -> None:
    page = fill(client, "open_parcel_form", {"at": "2026-02-03T04:05:06.789"}, id=str(things.parcel.pk))
    assert page.value("at_1") == "04:05:06"
    assert set(page.save(title="").marked) == {"at"}
