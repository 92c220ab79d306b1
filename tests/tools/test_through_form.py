"""Changes through the ModelAdmin's own form: what is proposed, shown and saved is one thing, or nothing is done."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission, User
from django.db.models import DateTimeField
from django.db.models.signals import post_save, pre_save
from django.test import Client

from django_copilot import Preview, write_tool
from django_copilot.models import Plan
from tests.formapp.admin import MemoAdmin, ParcelAdmin
from tests.formapp.models import Label, LongMemo, Memo, Parcel, Place
from tests.forms.conftest import Things, client_of

from .declared import confirm, context, decide, propose
from .forming import FORMS, changing, forms_admin, refused, shown

pytestmark = pytest.mark.usefixtures("plain_clean")

WARSAW = ZoneInfo("Europe/Warsaw")
TICKET = uuid.UUID("6f1f8a9e-3b5c-4a0e-9a27-5d1e0c3b2a11")


# name, what the tool gives, how it is shown, what is stored ("" of the last two: as given)
SAME = object()
FIELDS: list[tuple[str, Any, str, Any]] = [
    ("title", "A new one", "A new one", SAME),
    ("title", "  blank  ", "blank", "blank"),
    ("title", "ż 😀", "ż 😀", SAME),
    ("slug", "a-new-one", "a-new-one", SAME),
    ("note", "Two\nlines <b>", "Two\nlines <b>", SAME),
    ("note", "", "", SAME),
    ("kind", "bag", "A bag", SAME),
    ("slot", "pm", "Afternoon", SAME),
    ("grade", 2, "High", SAME),
    ("grade", Parcel.Grade.HIGH, "High", 2),
    ("pieces", 1234, "1234", SAME),
    ("pieces", 0, "0", SAME),
    ("weight", decimal.Decimal("1234.50"), "1234.50", SAME),
    ("weight", decimal.Decimal("-0.5"), "-0.50", SAME),
    ("weight", 3, "3.00", decimal.Decimal(3)),
    ("ratio", 0.25, "0.25", SAME),
    ("fragile", False, "No", SAME),
    ("checked", False, "No", SAME),
    ("checked", True, "Yes", SAME),
    ("day", datetime.date(2026, 2, 3), "Feb. 3, 2026", SAME),
    ("at", datetime.datetime(2026, 7, 1, 10, 30, tzinfo=WARSAW), "July 1, 2026, 10:30 a.m.", SAME),
    ("at", datetime.datetime(2026, 7, 1, 8, 30, tzinfo=datetime.UTC), "July 1, 2026, 10:30 a.m.", SAME),
    ("clock", datetime.time(7, 45), "7:45 a.m.", SAME),
    ("length", datetime.timedelta(days=1, hours=2, minutes=30), "1 day, 2:30:00", SAME),
    ("ticket", TICKET, str(TICKET), SAME),
    ("address", "10.0.0.7", "10.0.0.7", SAME),
    ("extra", {"a": [1, "ż"], "b": None}, '{"a": [1, "ż"], "b": null}', SAME),
    ("extra", "plain text", '"plain text"', SAME),
    ("remark", '{"not": "an object"}', '"{\\"not\\": \\"an object\\"}"', SAME),
    ("remark", 0, "0", SAME),
    ("remark", False, "No", SAME),
]
IDS = [f"{name}-{number}" for number, (name, *_rest) in enumerate(FIELDS)]


@pytest.mark.parametrize(("name", "value", "text", "stored"), FIELDS, ids=IDS)
def test_what_is_proposed_is_shown_and_saved(
    client: Client, things: Things, name: str, value: Any, text: str, stored: Any
) -> None:
    """Guards hazard 156, for each kind of field and widget."""
    Parcel.objects.filter(pk=things.parcel.pk).update(checked=None, remark={"x": 1})
    if (name, value) == ("checked", False):
        Parcel.objects.filter(pk=things.parcel.pk).update(checked=True)
    changing({name: value})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert {field: new for field, (_, new) in shown(plan).items()} == {name: text}
    before = things.fresh()
    done = confirm(client, plan)
    assert done["state"] == "executed", done
    saved = things.fresh()
    assert getattr(saved, name) == (value if stored is SAME else stored)
    assert type(getattr(saved, name)) is type(value if stored is SAME else stored)
    others = [field.attname for field in Parcel._meta.concrete_fields if field.name != name]
    assert [getattr(saved, each) for each in others] == [getattr(before, each) for each in others]


@pytest.mark.parametrize("language", ["de", "pl", "en", "ar"])
@pytest.mark.parametrize("thousands", [False, True])
def test_numbers_and_dates_are_what_they_are_in_every_language_of_the_project(
    client: Client, things: Things, settings: Any, language: str, thousands: bool
) -> None:
    """Guards hazard 157: the form is written and read in one language, whatever the person's."""
    settings.LANGUAGE_CODE = language
    settings.USE_THOUSAND_SEPARATOR = thousands
    at = datetime.datetime(2026, 12, 3, 10, 30, 15, tzinfo=WARSAW)
    values = {
        "weight": decimal.Decimal("1234567.50"),
        "pieces": 12345,
        "ratio": 1234.5,
        "day": at.date(),
        "at": at,
        "clock": at.time(),
    }
    changing(values)
    client.cookies["django_language"] = "pl"
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert shown(plan)["weight"][1].replace("\xa0", "").replace(" ", "") == "1234567,50"
    assert confirm(client, plan)["state"] == "executed"
    saved = things.fresh()
    assert {name: getattr(saved, name) for name in values} == values


def test_a_point_in_time_is_the_same_one_in_a_single_input(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards hazard 158: such an input is written in the person's time zone, not in the value's."""
    monkeypatch.setitem(
        forms_admin()._registry[Parcel].formfield_overrides,
        DateTimeField,
        {"form_class": forms.DateTimeField, "widget": forms.DateTimeInput},
    )
    at = datetime.datetime(2026, 7, 1, 8, 30, tzinfo=datetime.UTC)
    changing({"at": at})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert confirm(client, plan)["state"] == "executed"
    assert things.fresh().at == at


def test_what_an_input_can_not_hold_is_shown_without_it(client: Client, things: Things) -> None:
    """Microseconds: the admin's input has none, so neither has what is shown and stored."""
    changing({"clock": datetime.time(7, 45, 1, 999), "title": "\tnew\n"})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert shown(plan)["title"][1] == "new"
    assert confirm(client, plan)["state"] == "executed"
    assert (things.fresh().clock, things.fresh().title) == (datetime.time(7, 45, 1), "new")


@pytest.mark.parametrize("name", ["title", "weight", "kind"])
def test_what_would_change_nothing_is_no_plan(things: Things, boss: User, name: str) -> None:
    changing({name: getattr(things.fresh(), name)})
    assert refused(things, boss)[0] == "no_change"


# -- relations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shelf", "depot", "stop", "zone"])
def test_a_relation_is_set_by_select_raw_id_autocomplete_and_to_field(
    client: Client, things: Things, name: str
) -> None:
    changing(lambda ctx: {name: ctx.look_up(Place, pk=things.places[1].pk)})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    old = getattr(things.parcel, name)
    assert shown(plan) == {name: (str(old) if old else "", "Place Nr 1")}
    assert confirm(client, plan)["state"] == "executed"
    assert getattr(things.fresh(), name) == things.places[1]
    changing({name: None})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert shown(plan) == {name: ("Place Nr 1", "")}
    assert confirm(client, plan)["state"] == "executed"
    assert getattr(things.fresh(), name) is None


@pytest.mark.parametrize("name", ["labels", "stamps"])
@pytest.mark.parametrize("chosen", [[3], [1, 2, 3], []], ids=["one", "many", "none"])
def test_many_relations_are_set_by_select_and_raw_ids(
    client: Client, things: Things, name: str, chosen: list[int]
) -> None:
    getattr(things.parcel, name).set(things.labels[:2])
    wanted = [things.labels[n] for n in chosen]
    changing(lambda ctx: {name: [ctx.look_up(Label, pk=each.pk) for each in reversed(wanted)]})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    ((old, new),) = shown(plan).values()
    assert sorted(filter(None, old.split(", "))) == ["Label L0", "Label L1"]
    assert sorted(filter(None, new.split(", "))) == [str(each) for each in wanted]
    assert confirm(client, plan)["state"] == "executed"
    assert set(getattr(things.fresh(), name).all()) == set(wanted)
    changing(lambda ctx: {name: [ctx.look_up(Label, pk=each.pk) for each in wanted]})
    assert refused(things, User.objects.get(username="boss"))[0] == "no_change"  # in whatever order


@pytest.mark.parametrize("how", ["key", "made up", "unscoped", "text", "of another model"])
def test_a_related_record_that_was_not_looked_up_is_refused(things: Things, boss: User, how: str) -> None:
    """Guards hazard 159: nobody asked whether it is hers."""
    pk = things.places[1].pk
    values = {
        "key": lambda ctx: pk,
        "made up": lambda ctx: Place(pk=pk),
        "unscoped": lambda ctx: ctx.unscoped(Place).get(pk=pk),
        "text": lambda ctx: str(pk),
        "of another model": lambda ctx: ctx.look_up(Label, pk=things.labels[0].pk),
    }
    changing(lambda ctx: {"depot": values[how](ctx)})
    code = refused(things, boss)[0]
    assert code == "not_available"
    if how == "of another model":
        values[how] = lambda ctx: ctx.look_up(Place, pk=pk)
    changing(lambda ctx: {"labels": [values[how](ctx)]})
    assert refused(things, boss)[0] == "not_available"


def test_a_record_that_the_form_does_not_offer_is_refused(things: Things, boss: User) -> None:
    changing(lambda ctx: {"shelf": ctx.look_up(Place, pk=things.closed.pk)})
    assert refused(things, boss)[0] == "invalid_value"


# -- saving ----------------------------------------------------------------------------------------------


def test_the_hooks_signals_log_and_history_are_those_of_the_admin(
    client: Client, boss: User, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        seen.append(("save_model", request.method, request.user.username, form.changed_data, change))
        messages.success(request, "Saved!")
        self.message_user(request, "Saved!")
        obj.save()

    real = ParcelAdmin.save_related

    def save_related(self: Any, request: Any, form: Any, formsets: Any, change: bool) -> None:
        seen.append(("save_related", formsets, change))
        real(self, request, form, formsets, change)

    def on_signal(signal: Any, **kwargs: Any) -> None:
        seen.append("signal")

    monkeypatch.setattr(ParcelAdmin, "save_model", save_model)
    monkeypatch.setattr(ParcelAdmin, "save_related", save_related)
    changing(lambda ctx: {"title": "New", "labels": [ctx.look_up(Label, pk=things.labels[3].pk)]})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert seen == []
    for signal in (pre_save, post_save):
        signal.connect(on_signal, sender=Parcel)
    try:
        done = confirm(client, plan)
    finally:
        for signal in (pre_save, post_save):
            signal.disconnect(on_signal, sender=Parcel)
    assert done["state"] == "executed"
    assert seen == [
        ("save_model", "POST", "boss", ["title", "labels"], True),
        "signal",
        "signal",
        ("save_related", [], True),
    ]
    entry = LogEntry.objects.latest("pk")
    assert (entry.user, entry.action_flag, entry.object_id) == (boss, CHANGE, str(things.parcel.pk))
    assert plan["id"] in entry.change_message
    assert "Title" in entry.get_change_message()
    history = things.fresh().history.first()
    assert history.history_user == boss
    assert plan["id"] in history.history_change_reason
    assert history.history_type == "~"


def test_nothing_is_logged_or_tracked_before_it_is_confirmed(client: Client, things: Things) -> None:
    changing({"title": "New"})
    before = LogEntry.objects.count(), things.fresh().history.count()
    propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert (LogEntry.objects.count(), things.fresh().history.count()) == before


@pytest.mark.parametrize("touched", [(), ("slug",)], ids=["silently", "declared"])
def test_another_field_that_saving_changes_must_have_been_said(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch, touched: tuple[str, ...]
) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.slug = "made-by-the-hook"
        obj.save()

    monkeypatch.setattr(ParcelAdmin, "save_model", save_model)

    @write_tool(Parcel)
    def touching(ctx: Any, pk: int) -> Preview:
        """Do it."""
        return Preview(ctx.get(Parcel, pk=pk), title="New", touched=touched)

    plan = propose(client, "touching", {"pk": things.parcel.pk}, site="forms")
    assert plan["touched"] == (["Slug"] if touched else [])
    response = decide(client, plan["confirmUrl"], digest=plan["digest"])
    if touched:
        assert response.status_code == 200
        assert (things.fresh().title, things.fresh().slug) == ("New", "made-by-the-hook")
    else:
        assert (response.status_code, response.json()["code"]) == (409, "effect_differs")
        assert (things.fresh().title, things.fresh().slug) == ("Old title", "")


def test_a_time_stamp_of_the_last_change_need_not_be_said(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = Parcel._meta.get_field("at")
    monkeypatch.setattr(field, "auto_now", True)
    changing({"title": "New"})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert confirm(client, plan)["state"] == "executed"
    assert things.fresh().at is not None


def test_a_child_of_another_table_is_one_record(client: Client, things: Things) -> None:
    memo = LongMemo.objects.create(title="Old", body="Old")
    changing({"title": "New", "body": "New"}, LongMemo)
    plan = propose(client, "change", {"pk": memo.pk}, site="forms")
    assert confirm(client, plan)["state"] == "executed"
    memo.refresh_from_db()
    assert (memo.title, memo.body) == ("New", "New")


def test_a_class_of_the_project_that_closes_fields_is_heard(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo = Memo.objects.create(title="Old", text="Old")
    changing({"title": "New"}, Memo)
    monkeypatch.setattr(MemoAdmin, "closed", ("text",))
    assert refused(things, boss, memo)[0] == "open_form"  # it takes the whole form for granted
    monkeypatch.setattr(MemoAdmin, "closed", ("title",))
    assert refused(things, boss, memo)[0] == "not_editable"


def test_who_may_not_see_the_related_records_is_not_told_their_labels(clerk: User, things: Things) -> None:
    from tests.formapp.admin import site

    changing({"depot": None})
    client = client_of(clerk)
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert shown(plan) == {"depot": ("Place Nr 0", "")}
    clerk.user_permissions.remove(
        Permission.objects.get(codename="view_place", content_type__app_label="formapp")
    )
    again = client.get(plan["url"], headers={"accept": "application/json"}).json()
    assert shown(again) == {"depot": (str(things.places[0].pk), "")}
    with context("clerk", site=site, scope=FORMS) as ctx:
        assert ctx.get(Parcel, pk=things.parcel.pk)
    assert Plan.objects.count() == 1
    assert admin.site is not site
