"""A manager has a record changed: old and new values, the way back, and nobody's change lost."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from playwright.sync_api import expect

from django_copilot.models import Plan, PlanState
from django_copilot.testing import Call, script
from example_project.store.models import Customer
from tests.formapp.models import Label, Parcel, Place


@pytest.fixture
def customer(store):
    customer = Customer.objects.order_by("pk").first()
    Customer.objects.filter(pk=customer.pk).update(city="Sopot", phone="123")
    customer.refresh_from_db()
    return customer


@pytest.fixture
def change_city(open_as, panel, form, customer):
    """Return a function that has the city's form opened, for a person, with more values."""

    def change_city(mind, **more):
        path = f"/admin/store/customer/{customer.pk}/change/"
        fields = {"city": "Gdynia", **more}
        mind.will(Call("open_customer_form", {"id": str(customer.pk), "fields": fields}))
        page = open_as("manager")
        panel.go(f"Change the city of customer {customer.pk} to Gdynia", path)
        form.ready()
        return page

    return change_city


def test_old_and_new_are_shown_and_one_click_puts_the_old_back(change_city, form, shot, mind, customer):
    page = change_city(mind)
    city = page.locator("#id_city")
    expect(city).to_have_value("Gdynia")
    assert form.marked == {"city"}
    expect(form.mark("city")).to_contain_text("Proposed by the assistant")
    expect(form.mark("city")).to_contain_text("Sopot")
    shot("change-city")
    form.swap("city")
    expect(city).to_have_value("Sopot")
    form.swap("city")
    expect(city).to_have_value("Gdynia")
    customer.refresh_from_db()
    assert customer.city == "Sopot"

    page.locator("#id_phone").fill("456")
    form.save("_continue")
    expect(page.locator(".messagelist .success")).to_be_visible()
    customer.refresh_from_db()
    assert (customer.city, customer.phone) == ("Gdynia", "456")
    plan = Plan.objects.get()
    assert (plan.state, plan.result_pk) == (PlanState.EXECUTED, str(customer.pk))
    entry = LogEntry.objects.get(action_flag=CHANGE)
    changed = [each["changed"]["fields"] for each in json.loads(entry.change_message) if "changed" in each]
    assert [sorted(each) for each in changed] == [["City", "Phone"]]
    assert str(plan.pk) in entry.change_message
    assert str(plan.pk) in customer.history.first().history_change_reason
    expect(form.plan).to_have_count(0)
    expect(form.banner).to_have_count(0)


def test_a_validation_error_keeps_the_marks_and_what_was_typed(change_city, form, shot, model, customer):
    page = change_city(model, postal_code="81-001")
    page.locator("#id_email").fill("no e-mail")
    page.locator("#id_street").fill("Long Street 1")
    form.save()
    expect(page.locator(".errornote")).to_be_visible()
    form.ready()
    shot("validation-error")
    assert form.marked == {"city", "postal_code"}
    expect(form.mark("city")).to_contain_text("Sopot")
    assert form.sent("city", "postal_code", "street", "email") == {
        "city": "Gdynia",
        "postal_code": "81-001",
        "street": "Long Street 1",
        "email": "no e-mail",
    }
    form.swap("city")
    expect(page.locator("#id_city")).to_have_value("Sopot")
    form.swap("city")
    page.locator("#id_email").fill("new@mail.example")
    form.save()
    customer.refresh_from_db()
    assert (customer.city, customer.street, customer.email) == ("Gdynia", "Long Street 1", "new@mail.example")
    assert Plan.objects.get().state == PlanState.EXECUTED


def test_a_record_that_somebody_else_changed_is_not_saved_over(
    change_city, page, form, shot, model, login, customer
):
    """hazard 113"""
    change_city(model)
    values = form.sent("name", "email", "phone", "street", "postal_code", "city", "country", "internal_note")
    other = {**values, "city": "Poznań", "_save": "Save"}
    url = f"/admin/store/customer/{customer.pk}/change/"
    assert login("manager2").post(url, other).status_code == 302
    form.save()
    error = page.locator(".errornote, .errorlist.nonfield").last
    expect(error).to_contain_text("manager2")
    expect(error).to_contain_text("Poznań")
    expect(page.locator("#id_city")).to_have_value("Gdynia")
    shot("changed-meanwhile")
    customer.refresh_from_db()
    assert customer.city == "Poznań"
    form.save()  # trying again changes nothing
    customer.refresh_from_db()
    assert customer.city == "Poznań"

    page.get_by_role("link", name="Start again from the current values").click()
    page.wait_for_url("**/plan/**")
    shot("plan-page")
    expect(page.locator("#content-main table")).to_contain_text("Poznań")
    page.get_by_role("button", name="Start again from the current values").click()
    page.wait_for_url(f"**{url}")
    form.ready()
    expect(page.locator("#id_city")).to_have_value("Gdynia")
    expect(form.mark("city")).to_contain_text("Poznań")
    form.save()
    customer.refresh_from_db()
    assert customer.city == "Gdynia"


WIDGETS = {
    # field: (its inputs, the old values, the proposed value, the new ones)
    "title": (["title"], ["Blue parcel"], "Red parcel", ["Red parcel"]),
    "note": (["note"], ["Two\nlines"], "One", ["One"]),
    "kind": (["kind"], ["box"], "bag", ["bag"]),
    "grade": (["grade"], ["1"], 2, ["2"]),
    "weight": (["weight"], ["1200.50"], "3.25", ["3.25"]),
    "fragile": (["fragile"], ["on"], False, [[]]),
    "checked": (["checked"], ["unknown"], True, ["true"]),
    "day": (["day"], ["2026-11-01"], "2026-12-24", ["2026-12-24"]),
    "at": (["at_0", "at_1"], ["2026-11-01", "10:15:00"], "2026-12-24T18:00:00", ["2026-12-24", "18:00:00"]),
    "extra": (["extra"], ['{"a": [1, 2]}'], {"b": None}, ['{"b": null}']),
    "shelf": (["shelf"], ["A"], "B", ["B"]),
    "depot": (["depot"], ["A"], "B", ["B"]),
    "stop": (["stop"], ["A"], "B", ["B"]),
    "labels": (["labels"], [["L1", "L2"]], ["L3"], ["L3"]),
    "stamps": (["stamps"], ["L1,L2"], ["L3"], ["L3"]),
}


@pytest.mark.urls("tests.formapp.urls")
def test_every_kind_of_input_can_be_put_back_and_proposed_again(open_as, page, panel, form, shot, store):
    keys = {}
    for code in ("A", "B"):
        keys[code] = str(Place.objects.create(code=code, name=f"Place {code}").pk)
    for name in ("L1", "L2", "L3"):
        keys[name] = str(Label.objects.create(name=name).pk)

    def real(value):
        if isinstance(value, list):
            return [real(each) for each in value]
        if isinstance(value, str) and "," in value:
            return ",".join(keys.get(part, part) for part in value.split(","))
        return keys.get(value, value) if isinstance(value, str) else value

    parcel = Parcel.objects.create(
        title="Blue parcel",
        slug="blue-parcel",  # an empty one is filled in by the admin's own script when the title changes
        note="Two\r\nlines",
        kind="box",
        weight=Decimal("1200.50"),
        fragile=True,
        checked=None,
        day=datetime.date(2026, 11, 1),
        at=datetime.datetime(2026, 11, 1, 9, 15, tzinfo=datetime.UTC),
        extra={"a": [1, 2]},
        shelf_id=keys["A"],
        depot_id=keys["A"],
        stop_id=keys["A"],
    )
    parcel.labels.set([keys["L1"], keys["L2"]])
    parcel.stamps.set([keys["L1"], keys["L2"]])
    fields = {name: real(proposed) for name, (_, _, proposed, _) in WIDGETS.items()}
    path = f"/forms/formapp/parcel/{parcel.pk}/change/"
    open_as("admin", "/forms/")
    with script(Call("open_parcel_form", {"id": str(parcel.pk), "fields": fields})):
        panel.go("Change everything", path)
    form.ready()
    shot("all-widgets")
    assert form.marked == set(WIDGETS)
    inputs = [each for names, *_ in WIDGETS.values() for each in names]

    def expected(at):
        found = {}
        for names, old, _, new in WIDGETS.values():
            for name, value in zip(names, (old, None, None, new)[at], strict=True):
                found[name] = real(value)
        return found

    assert form.sent(*inputs) == expected(3)
    for name in WIDGETS:
        form.swap(name)
    assert form.sent(*inputs) == expected(0)
    expect(page.locator("#select2-id_stop-container")).to_contain_text("Place A")
    shot("all-widgets-put-back")
    for name in WIDGETS:
        form.swap(name)
    assert form.sent(*inputs) == expected(3)
    expect(page.locator("#select2-id_stop-container")).to_contain_text("Place B")
    for name in WIDGETS:
        form.swap(name)
    form.save("_continue")
    expect(page.locator(".messagelist .success")).to_be_visible()
    entry = LogEntry.objects.get(action_flag=CHANGE)
    assert not [each for each in json.loads(entry.change_message) if "changed" in each]  # all as it was
