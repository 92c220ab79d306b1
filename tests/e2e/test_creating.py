"""A manager has a new product filled in, looks it over, and saves it: once."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import expect

from django_copilot.models import Plan, PlanState
from django_copilot.testing import Call
from example_project.store.models import Category, Product, Tag

ADD = "/admin/store/product/add/"
ALL = ("title", "price", "category", "tags", "available_from_0", "available_from_1", "status", "attributes")
SENTENCES = {
    "en": (
        'Create a product with title "Walnut tray", price 1,234.50, category Kitchen, tags New and Sale, '
        "available from December 1, 2026 at 10:30 pm, status active, "
        'attributes {"colour": "natural", "legs": 4}',
        {"price": "1234.50", "available_from_0": "2026-12-01", "available_from_1": "22:30:00"},
        "1299.90",
    ),
    "pl": (
        "Dodaj produkt: tytuł „Walnut tray”, cena 1234,50, kategoria Kitchen, tagi New i Sale, "
        "dostępny od 1 grudnia 2026 o 22:30, status aktywny, "
        'atrybuty {"colour": "natural", "legs": 4}',
        {"price": "1234,50", "available_from_0": "01.12.2026", "available_from_1": "22:30:00"},
        "1299,90",
    ),
}


@pytest.fixture
def proposed(store):
    """Return the fields of the model's call."""
    return {
        "title": "Walnut tray",
        "price": "1234.50",
        "category": str(Category.objects.get(name="Kitchen").pk),
        "tags": [str(pk) for pk in Tag.objects.filter(name__in=["New", "Sale"]).values_list("pk", flat=True)],
        "available_from": "2026-12-01T22:30:00",
        "status": "active",
        "attributes": {"colour": "natural", "legs": 4},
    }


@pytest.mark.parametrize("language", SENTENCES)
def test_the_form_opens_filled_in_and_is_saved_with_what_the_person_changed(
    open_as, panel, form, speak, shot, mind, proposed, language
):
    sentence, localized, dearer = SENTENCES[language]
    before = Product.objects.count()
    mind.will(Call("open_product_form", {"fields": proposed}))
    speak(language)
    page = open_as("manager")
    panel.go(sentence, ADD)
    form.ready()
    shot(f"new-product-{language}")
    assert form.marked == set(proposed)
    values = form.sent(*ALL)
    assert values == {
        "title": "Walnut tray",
        "category": proposed["category"],
        "tags": proposed["tags"],
        "status": "active",
        "attributes": values["attributes"],
        **localized,
    }
    assert page.evaluate("text => JSON.parse(text)", values["attributes"]) == proposed["attributes"]
    assert page.locator("#id_tags_to option").all_inner_texts() == ["New", "Sale"]
    assert Product.objects.count() == before
    expect(panel.answers).to_have_count(1)  # the conversation came along
    assert page.url.endswith(ADD)

    page.locator("#id_price").fill(dearer)
    form.save("_addanother")
    expect(page.locator(".messagelist .success")).to_contain_text("Walnut tray")
    product = Product.objects.get(title="Walnut tray")
    assert product.price == Decimal("1299.90")
    assert product.category.name == "Kitchen"
    assert sorted(product.tags.values_list("name", flat=True)) == ["New", "Sale"]
    assert product.available_from == datetime.datetime(2026, 12, 1, 21, 30, tzinfo=datetime.UTC)
    assert product.status == "active"
    assert product.attributes == {"colour": "natural", "legs": 4}
    plan = Plan.objects.get()
    assert (plan.state, plan.result_pk) == (PlanState.EXECUTED, str(product.pk))
    entry = LogEntry.objects.get(object_id=str(product.pk))
    assert str(plan.pk) in entry.change_message
    (changed,) = [each["changed"] for each in json.loads(entry.change_message) if "changed" in each]
    # Title, price, category, tags, date-time, status and attributes, in the form's order.
    assert changed["fields"] == [
        "Title",
        "Status",
        "Price",
        "Category",
        "Tags",
        "Available from",
        "Attributes",
    ]
    assert str(plan.pk) in product.history.get().history_change_reason

    expect(page.locator("#id_title")).to_have_value("")
    expect(form.plan).to_have_count(0)
    expect(form.banner).to_have_count(0)
    assert form.marked == set()
    assert form.sent("tags", "price") == {"tags": [], "price": ""}


def test_a_double_click_on_save_makes_one_record(open_as, panel, form, model, proposed):
    """hazard 112"""
    model.will(Call("open_product_form", {"fields": proposed}))
    page = open_as("manager")
    panel.go("A new tray", ADD)
    form.ready()
    posts = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)
    page.evaluate(
        """() => {
            const save = document.querySelector("input[name=_save]");
            save.click();
            setTimeout(() => save.click(), 25); // the first one is on its way
        }"""
    )
    page.wait_for_url("**/product/**/")
    expect(page.locator(".messagelist li").first).to_be_visible()
    assert len(posts) == 2
    assert Product.objects.filter(title="Walnut tray").count() == 1
    assert LogEntry.objects.count() == 1


def test_going_back_and_saving_again_makes_no_second_record(open_as, panel, form, shot, model, proposed):
    """hazard 112"""
    model.will(Call("open_product_form", {"fields": proposed}))
    page = open_as("manager")
    panel.go("A new tray", ADD)
    form.ready()
    # What a person typed herself is what a browser puts back into a form.
    page.locator("#id_title").fill("Oak tray")
    page.locator("#id_price").fill("99")
    form.save()
    assert page.url.endswith("/store/product/")
    page.go_back()
    expect(form.banner).to_contain_text("was saved already")
    shot("back-after-saving")
    assert page.url.endswith(ADD)
    assert form.sent("title", "price") == {"title": "", "price": ""}
    form.save()
    expect(page.locator(".errornote")).to_be_visible()
    assert Product.objects.filter(title__in=["Oak tray", "Walnut tray"]).count() == 1
    assert LogEntry.objects.count() == 1


def test_a_form_that_is_loaded_again_is_filled_in_again(open_as, panel, form, model, proposed):
    model.will(Call("open_product_form", {"fields": proposed}))
    page = open_as("manager")
    panel.go("A new tray", ADD)
    form.ready()
    page.locator("#id_title").fill("Oak tray")
    page.reload()
    form.ready()
    expect(page.locator("#id_title")).to_have_value("Walnut tray")
    assert page.url.endswith(ADD)
    page.locator("#id_price").fill("none")
    form.save()
    expect(page.locator(".errornote")).to_be_visible()
    assert form.marked == set(proposed) - {"price"}
    form.ready()
    page.locator("#id_price").fill("12")
    form.save()
    assert str(Product.objects.get(title="Walnut tray").price) == "12.00"
    assert Plan.objects.get().state == PlanState.EXECUTED


def test_a_second_submit_of_the_same_form_says_so_and_links_to_the_record(
    open_as, page, panel, form, shot, context, model, proposed
):
    """hazard 112"""
    model.will(Call("open_product_form", {"fields": proposed}))
    open_as("manager")
    panel.go("A new tray", ADD)
    form.ready()
    plan = Plan.objects.get()
    other = context.new_page()
    other.goto(f"{ADD}?aiAction=create&aiPlan={plan.pk}")
    assert other.locator("#id_title").input_value() == "Walnut tray"
    form.save()
    other.locator("#id_title").fill("Oak tray")
    with other.expect_navigation():
        other.locator("input[name=_save]").click()
    product = Product.objects.get(title="Walnut tray")
    expect(other.locator(".messagelist")).to_contain_text("This form was saved already")
    expect(other.locator(f".messagelist a[href='/admin/store/product/{product.pk}/change/']")).to_be_visible()
    assert not Product.objects.filter(title="Oak tray").exists()
    other.goto(f"{ADD}?aiAction=create&aiPlan={plan.pk}")
    expect(other.locator(".copilot-mark-banner")).to_contain_text("was saved already")
    assert other.locator("#id_title").input_value() == ""
    other.close()
