"""People ask for records: what they are shown is what they may see, and nothing else leaves."""

from __future__ import annotations

import json
import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from playwright.sync_api import expect

from django_copilot.testing import Call
from example_project.store.models import Customer, Order, Product

from .panel import Rows

LATEST = {
    "en": ("Show the latest orders", "Number", "Region", "North"),
    "pl": ("Pokaż ostatnie zamówienia", "Numer", "Region", "Północ"),
    "ru": ("Покажи последние заказы", "Номер", "Регион", "Север"),
}
HIDDEN = ("internal_note", "api_token", "cost_price", "gateway_reference")


@pytest.fixture
def secrets(store):
    """Give every record something that support may not see, and return what must not be found anywhere."""
    Customer.objects.update(internal_note="Knows-the-owner-4711", api_token="tok_4711_very_secret")
    Product.objects.update(cost_price="47.11")
    Order.objects.update(shipping_street="Hidden-Street-4711")
    return ("Knows-the-owner-4711", "tok_4711_very_secret", "47.11", "Hidden-Street-4711")


def test_support_sees_the_orders_of_his_region_without_those_of_vips(
    open_as, panel, speak, shot, mind, secrets
):
    own = Order.objects.filter(region="north", customer__vip=False)
    assert Order.objects.filter(region="north", customer__vip=True).exists()
    for language, (sentence, number, region, north) in LATEST.items():
        mind.will(Call("query_order", {}), "Here they are.")
        speak(language)
        page = open_as("support")
        rows = Rows(panel.ask(sentence))
        shot(f"latest-orders-{language}")

        assert rows.column(number) == list(own.values_list("number", flat=True)[:20])
        assert set(rows.column(region)) == {north}
        assert len(rows.columns) == 7
        assert rows.links == [
            f"/admin/store/order/{pk}/change/" for pk in own.values_list("pk", flat=True)[:20]
        ]
        content = page.content()
        for word in (*secrets, *HIDDEN):
            assert word not in content
            assert word not in mind.sent
    page.locator(f"#copilot-panel a[href='{rows.links[0]}']").last.click()
    page.wait_for_url("**/change/")
    assert rows.column(number)[0] in page.locator("#content").inner_text()


OUT_OF_REACH = {
    "a lookup through a relation": {"filters": {"customer__api_token": "tok_4711_very_secret"}},
    "a column through a relation": {"fields": ["number", "customer__api_token"]},
    "a hidden field": {"filters": {"internal_note": "Knows-the-owner-4711"}},
    "a column that is not there": {"fields": ["number", "internal_note"]},
    "a field that may be filled in and not read": {"filters": {"shipping_street": "x"}},
    "a lookup": {"filters": {"number__startswith": "SO"}},
}
BAD_IDS = [True, "true", "1.9", "1_0", 1.9, "1 ", "01", "١"]


def test_a_name_outside_the_readable_fields_is_an_error_and_no_row(open_as, panel, model, secrets):
    """hazard 110"""
    page = open_as("support")
    asked = ""
    for what, arguments in OUT_OF_REACH.items():
        model.will(Call("query_order", arguments), "I can't.")
        asked += json.dumps(arguments)
        answer = panel.ask(f"Show me {what}")
        expect(answer).to_contain_text("I can't.")
        expect(answer.locator("table")).to_have_count(0)
        assert "error" in json.loads(model.results[-1]), what
        for word in secrets:
            assert word not in model.results[-1]
            assert word not in page.content()
            assert word in asked or word not in model.sent


def test_records_out_of_reach_and_records_that_are_not_there_answer_alike(open_as, panel, model, secrets):
    """hazard 110"""
    foreign = Order.objects.filter(region="south").first()
    vip = Order.objects.filter(region="north", customer__vip=True).first()
    given = [foreign.pk, vip.pk, 99_999_999, *BAD_IDS]
    rows, forms = [], []
    open_as("support")
    panel.open()
    for each in given[:3]:
        model.will(Call("query_order", {"filters": {"id": str(each)}}), "Nothing.")
        expect(panel.ask("Show that order").locator(".copilot-nothing")).to_have_count(1)
        rows.append(model.results[-1])
    for each in given:
        model.will(Call("open_order_form", {"id": each, "fields": {"shipping_city": "Gdynia"}}), "No.")
        expect(panel.ask("Change that order")).to_contain_text("No.")
        forms.append(model.results[-1])
    assert len({text.replace(str(pk), "N") for text, pk in zip(rows, given, strict=False)}) == 1
    assert len(set(forms[:3])) == 1
    assert all("error" in json.loads(text) for text in forms)
    assert foreign.customer.name not in model.sent
    assert vip.number not in model.sent


def test_the_offline_backend_tells_support_what_he_may_search_by(open_as, panel, store, secrets):
    page = open_as("support")
    answer = panel.ask("Show customers with internal note Knows-the-owner-4711")
    expect(answer).to_contain_text("You can search customers by")
    expect(answer.locator("table")).to_have_count(0)
    assert "api_token" not in page.content()


REFUSED = {
    "show": ("Show the latest orders", "nothing called “orders”"),
    "add": ("Create a product with title Walnut tray", "You may not do that here (add: products)"),
    "change": ("Change the price of product 1 to 3", "You may not do that here (change: products)"),
    "delete": ("Delete product 1", "You may not do that here (delete: products)"),
}


def test_a_viewer_is_told_plainly_what_she_may_not_do(open_as, panel, shot, store):
    page = open_as("viewer")
    start = page.url
    for sentence, words in REFUSED.values():
        answer = panel.ask(sentence)
        expect(answer).to_contain_text(words)
        expect(answer).to_contain_text("products: show")
        expect(answer.locator("table")).to_have_count(0)
    shot("viewer-refused")
    rows = Rows(panel.ask("Show products"))
    assert "Cost price" not in rows.columns
    assert len(rows.cells) == 20
    assert page.url == start


def test_a_viewer_is_offered_only_reading_tools(open_as, panel, model, store):
    model.will(Call("open_product_form", {"fields": {"title": "X"}}), Call("query_order"), "I can't.")
    page = open_as("viewer")
    start = page.url
    expect(panel.ask("Add a product and show orders")).to_contain_text("I can't.")
    for request in model.server.requests:
        names = {each["function"]["name"] for each in request.body["tools"]}
        assert {"query_product", "query_category", "query_tag"} <= names
        # The list of products is for looking at: no action of it is hers.
        not_reading = [each for each in names if re.match("open_|confirm_", each) or "order" in each]
        assert set(not_reading) <= {"open_product_list"}
    assert all("error" in json.loads(text) for text in model.results)
    assert page.url == start


def test_nobody_without_the_permission_has_a_panel(open_as, page, panel, store):
    group = Group.objects.get(name="support")
    group.permissions.remove(group.permissions.get(codename="use_copilot"))
    for username in ("support", "auditor"):
        open_as(username)
        expect(page.locator("#user-tools")).to_contain_text(store.user(username).first_name)
        expect(panel.toggle).to_have_count(0)
        audit = page.locator(
            "#content a[href*=auditentry]"
        )  # the auditor's own page, and nothing else of ours
        expect(audit).to_have_count(2 if username == "auditor" else 0)
        page.locator(".app-django_copilot").evaluate_all("found => found.forEach((one) => one.remove())")
        assert "copilot" not in page.content()


@pytest.mark.parametrize(
    ("username", "path"),
    [
        (None, "/admin/login/"),
        ("support", "/admin/login/"),  # who is logged in and not, or no longer, staff
        ("manager", "/admin/store/category/add/?_popup=1"),
        ("manager", "/admin/store/category/?_popup=1"),
    ],
)
def test_popups_and_the_login_page_have_no_panel(open_as, page, panel, store, username, path):
    """hazard 111"""
    if username is None:
        page.goto(path)
    else:
        get_user_model().objects.filter(username="support").update(is_staff=False)
        open_as(username, path)
    expect(page.locator("form").first).to_be_visible()
    expect(panel.toggle).to_have_count(0)
    assert "data-copilot" not in page.content()
