"""The panel itself: nothing that was said or typed is lost, and everything can be reached."""

from __future__ import annotations

import re

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import expect

from django_copilot.models import Conversation, Plan
from django_copilot.testing import Call, Fail, Text, script
from example_project.store.models import Customer, Product

from .panel import Rows

FAILED = r"status of 5\d\d"


def test_the_conversation_survives_reloading_and_going_elsewhere(open_as, panel, store):
    page = open_as("support")
    rows = Rows(panel.ask("Show 3 orders"))
    page.reload()
    expect(panel.answers).to_have_count(1)
    assert Rows(panel.answers.last).cells == rows.cells
    page.goto("/admin/store/customer/")
    expect(panel.answers).to_have_count(1)
    panel.ask("Show 2 products")
    assert Conversation.objects.count() == 1

    panel.box.get_by_role("button", name="New conversation").click()
    expect(panel.answers).to_have_count(0)
    panel.ask("Show 1 tag")
    assert Conversation.objects.count() == 2
    panel.box.get_by_role("button", name="Conversations").click()
    page.locator(".copilot-open", has_text="Show 3 orders").click()
    expect(panel.answers).to_have_count(2)
    assert Rows(panel.answers.first).cells == rows.cells

    panel.box.get_by_role("button", name="Conversations").click()
    panel.box.get_by_role("button", name="Delete “Show 3 orders”").click()
    panel.dialog.get_by_role("button", name="Delete").click()
    expect(page.locator(".copilot-open")).to_have_count(1)
    assert Conversation.objects.count() == 1


def test_a_message_written_while_the_conversation_is_still_loading_goes_into_it(open_as, panel, page, store):
    open_as("support")
    panel.ask("Show 3 orders")
    held = []
    page.route(re.compile(r"/conversation/[0-9a-f-]{36}/$"), lambda route: held.append(route))
    page.reload()
    panel.input.fill("Show 2 products")
    panel.input.press("Enter")
    page.wait_for_timeout(200)
    expect(panel.asked).to_have_count(0)
    (route,) = held
    route.continue_()
    expect(panel.answers).to_have_count(2)
    expect(panel.input).to_have_value("")
    assert Conversation.objects.count() == 1


def test_a_closed_panel_stays_closed_and_its_draft_is_kept(open_as, panel, store):
    page = open_as("support")
    panel.open().input.fill("Half a sent")
    panel.input.press("Escape")
    expect(panel.box).to_be_hidden()
    expect(panel.toggle).to_be_focused()
    page.reload()
    expect(panel.toggle).to_have_attribute("aria-expanded", "false")
    expect(panel.box).to_have_count(0)
    panel.toggle.click()
    expect(panel.input).to_have_value("Half a sent")


def test_when_the_model_fails_the_message_is_kept_and_can_be_sent_again(open_as, panel, shot, watch, store):
    watch.allow(FAILED)
    page = open_as("support")
    with script(Fail("model_unavailable"), Fail("model_timeout"), Text("There you are.")):
        panel.say("Show the unsaid")
        expect(panel.status).to_have_text("The model can't be reached at the moment. Try again later.")
        expect(panel.input).to_have_value("Show the unsaid")
        shot("model-failed")
        panel.box.get_by_role("button", name="Retry").click()
        expect(panel.status).to_have_text("The model took too long to answer. Try again.")
        page.reload()
        expect(panel.status).to_have_text("The model took too long to answer. Try again.")
        expect(panel.asked.last).to_have_text(re.compile("Show the unsaid"))
        panel.box.get_by_role("button", name="Retry").click()
        expect(panel.answers).to_have_text(re.compile("There you are."))
    expect(panel.status).to_have_text("")
    expect(panel.input).to_have_value("")


NO_MODEL = "The assistant is not available: no model is set up on this site."


def test_without_a_key_the_panel_says_at_once_that_there_is_no_assistant(
    open_as, panel, page, settings, store
):
    open_as("support")
    panel.ask("Show 1 order")
    panel.input.fill("Half a sent")
    settings.COPILOT = {**settings.COPILOT, "BACKEND": "openai", "OPENAI_API_KEY": ""}
    page.reload()
    expect(panel.answers).to_have_count(1)
    expect(panel.status).to_have_text(NO_MODEL)
    panel.box.get_by_role("button", name="New conversation").click()
    expect(panel.box.locator(".copilot-greeting")).to_have_text(NO_MODEL)
    expect(panel.status).to_have_text("")
    expect(panel.input).to_be_disabled()
    expect(panel.input).to_have_value("Half a sent")
    expect(panel.box.get_by_role("button", name="Send")).to_be_disabled()
    panel.box.get_by_role("button", name="Close").click()
    panel.toggle.click()
    expect(panel.box.get_by_role("log")).to_be_focused()


def test_a_model_that_is_gone_since_is_no_reason_to_try_again(open_as, panel, settings, watch, store):
    watch.allow(FAILED)
    open_as("support")
    panel.open()
    settings.COPILOT = {**settings.COPILOT, "BACKEND": "openai", "OPENAI_API_KEY": ""}
    panel.say("Show the latest orders")
    expect(panel.status).to_have_text(NO_MODEL)
    expect(panel.input).to_have_value("Show the latest orders")
    expect(panel.box.get_by_role("button", name="Retry")).to_have_count(0)


def test_an_example_is_put_into_the_box_and_not_sent(open_as, panel, page, shot, store):
    def answer(route):
        examples = ["Show the latest orders", "Show customers", "Show products", "Show tags"]
        route.fulfill(json={"conversations": [], "examples": examples})

    page.route(re.compile(r"/conversation/$"), answer)
    open_as("support")
    buttons = panel.open().box.locator(".copilot-examples button")
    expect(buttons).to_have_text(["Show the latest orders", "Show customers", "Show products"])
    shot("examples")
    buttons.nth(1).click()
    expect(panel.input).to_have_value("Show customers")
    expect(panel.input).to_be_focused()
    expect(panel.asked).to_have_count(0)
    panel.input.press("Enter")
    expect(panel.answers).to_have_count(1)
    expect(buttons.first).to_be_hidden()


def test_what_was_looked_up_on_the_way_to_a_page_is_no_answer(open_as, panel, page, model, shot, store):
    product = Product.objects.first()
    model.will(
        Call("query_product", {"filters": {"sku": "none-such"}}),
        Call("query_product", {"filters": {"sku": product.sku}}),
        Call("open_product_form", {"id": str(product.pk), "fields": {"title": "Walnut \u202etray"}}),
    )
    open_as("manager")
    page.evaluate("document.addEventListener('copilot:go', (event) => event.preventDefault())")
    answer = panel.ask("Rename it")
    expect(answer.locator(".copilot-nothing")).to_have_count(0)
    expect(answer.locator("table")).to_have_count(1)
    expect(answer.locator("table")).to_be_hidden()
    shot("looked-up")
    answer.get_by_text("What was looked up").click()
    expect(answer.locator("table")).to_be_visible()


def test_a_character_that_turns_the_reading_round_is_shown_as_its_code(open_as, panel, model, store):
    product = Product.objects.first()
    Product.objects.filter(pk=product.pk).update(title="Tray \u202e0001")
    model.will(Call("query_product", {"filters": {"id": str(product.pk)}}), "Pay \u2066this\u2069.")
    open_as("manager")
    answer = panel.ask("Show it")
    expect(answer).to_contain_text("Pay ⟨U+2066⟩this⟨U+2069⟩.")
    assert Rows(answer).column("Title") == ["Tray ⟨U+202E⟩0001"]


PAGES = ("/admin/", "/admin/store/product/", "/admin/store/product/{pk}/change/")


def test_an_open_panel_never_makes_the_page_too_narrow(open_as, panel, page, shot, store):
    """Beside the panel is room for the page, or the panel lies over a page that stays as it was."""
    pk = Product.objects.first().pk
    open_as("manager")
    width = "document.querySelector('#container').getBoundingClientRect().width"
    for window in (1024, 1100, 1280, 1366, 1440, 1920):
        page.set_viewport_size({"width": window, "height": 800})
        for number, path in enumerate(PAGES):
            page.goto(path.format(pk=pk))
            panel.open()
            taken = panel.box.bounding_box()["width"]
            room = page.evaluate(width)
            shot(f"open-{window}-{number}")
            assert page.evaluate("document.documentElement.scrollWidth") <= window
            if window < 1440:
                assert (room, taken) == (window, 320)
            else:
                assert room == pytest.approx(window - taken, abs=1)
                assert page.evaluate("document.querySelector('#main > .content').clientWidth") >= 900
            panel.input.press("Escape")
            assert page.evaluate(width) == window


def test_a_panel_that_lies_over_the_page_stays_away_from_what_it_filled_in(open_as, panel, page, form, store):
    product = Product.objects.first()
    page.set_viewport_size({"width": 1280, "height": 800})
    open_as("manager")
    panel.go(f"Change the price of product {product.pk} to 3", f"/admin/store/product/{product.pk}/change/")
    form.ready()
    expect(panel.toggle).to_have_attribute("aria-expanded", "false")
    page.goto("/admin/")
    expect(panel.box).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 800})
    panel.go(f"Delete product {product.pk}", f"/admin/store/product/{product.pk}/delete/")
    expect(panel.box).to_be_visible()


def test_the_list_of_conversations_fits_a_phone(open_as, panel, page, speak, shot, store):
    open_as("manager")
    panel.ask("Show " + "unbroken" * 20)
    page.set_viewport_size({"width": 360, "height": 640})
    for language in ("en", "pl", "ru"):
        speak(language)
        page.goto("/admin/django_copilot/conversation/")
        shot(f"narrow-conversations-{language}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        button = page.locator("#content-main form button").bounding_box()
        assert button["x"] + button["width"] <= 345


def test_an_empty_message_is_not_sent_and_one_too_long_is_kept(open_as, panel, watch, store):
    watch.allow("status of 400")
    open_as("support")
    panel.open().input.fill("   ")
    panel.input.press("Enter")
    expect(panel.asked).to_have_count(0)
    long = "Show orders " + "x" * 8000
    panel.input.evaluate("(box, text) => { box.removeAttribute('maxlength'); box.value = text; }", long)
    panel.input.press("Enter")
    expect(panel.status).to_contain_text("8000")
    expect(panel.input).to_have_value(long)
    assert Conversation.objects.count() == 0


def test_when_the_session_is_over_the_panel_says_so_and_keeps_the_words(open_as, panel, page, watch, store):
    watch.allow("status of 401")
    open_as("support")
    panel.open()
    Session.objects.all().delete()
    panel.say("Show the latest orders")
    expect(panel.status).to_contain_text("You are logged out")
    expect(panel.input).to_have_value("Show the latest orders")
    panel.box.get_by_role("link", name="Load the page again").click()
    page.wait_for_url("**/admin/login/**")
    page.fill("#id_username", "support")
    page.fill("#id_password", "copilot")
    page.click("input[type=submit]")
    expect(panel.input).to_have_value("Show the latest orders")
    panel.input.press("Enter")
    expect(panel.answers).to_have_count(1)


def test_the_next_person_at_the_computer_finds_nothing(open_as, panel, page, store):
    """hazard 118"""
    open_as("support")
    panel.ask("Show 1 order")
    page.locator("#logout-form button").click()
    page.wait_for_url("**/logout/")
    open_as("manager")
    expect(panel.toggle).to_have_attribute("aria-expanded", "false")
    panel.open()
    expect(panel.box.locator(".copilot-greeting")).to_be_visible()
    expect(panel.asked).to_have_count(0)


def test_all_of_it_can_be_done_with_the_keyboard(open_as, panel, page, store):
    open_as("support")
    expect(panel.toggle).to_be_visible()
    keys = page.keyboard
    keys.press("Control+k")
    expect(panel.input).to_be_focused()
    keys.type("Show 2 orders")
    keys.press("Shift+Enter")
    keys.type("please")
    expect(panel.input).to_have_value("Show 2 orders\nplease")
    keys.press("Enter")
    expect(panel.answers).to_have_count(1)
    expect(panel.input).to_be_focused()
    keys.press("Shift+Tab")
    expect(panel.answers.locator(".copilot-sent summary")).to_be_focused()
    keys.press("Shift+Tab")
    last = panel.answers.locator("a").last
    expect(last).to_be_focused()
    target = last.get_attribute("href")
    keys.press("Enter")
    page.wait_for_url(f"**{target}")
    expect(panel.answers).to_have_count(1)
    keys.press("Control+k")
    expect(panel.box).to_be_hidden()
    keys.press("Control+k")
    expect(panel.input).to_be_focused()
    keys.press("Escape")
    expect(panel.toggle).to_be_focused()


def test_unsaved_typing_is_not_lost_without_asking(open_as, panel, page, shot, store):
    """hazard 117"""
    customer, product = Customer.objects.first(), Product.objects.first()
    here = f"/admin/store/customer/{customer.pk}/change/"
    there = f"/admin/store/product/{product.pk}/delete/"
    open_as("manager", here)
    panel.open()
    page.locator("#id_street").fill("Long Street 1")
    panel.say(f"Delete product {product.pk}")
    expect(panel.dialog).to_contain_text("not saved it")
    shot("unsaved-typing")
    panel.dialog.get_by_role("button", name="Stay here").click()
    expect(panel.dialog).to_have_count(0)
    assert page.url.endswith(here)
    expect(page.locator("#id_street")).to_have_value("Long Street 1")
    panel.answers.get_by_role("button", name="Open the page").click()
    panel.dialog.get_by_role("button", name="Go on").click()
    page.wait_for_url(f"**{there}")


QUESTIONS = {
    "single": (["Kitchen"], "Kitchen"),
    "multiple": (["Kitchen", "Bath"], "Kitchen, Bath"),
    "text": ([], "Somewhere else"),
}


def test_a_question_is_answered_with_real_controls(open_as, panel, page, shot, store):
    told = []
    steps = []
    for kind, (pick, _) in QUESTIONS.items():
        options = {"options": ["Kitchen", "Bath", "Garden"]} if pick else {}
        steps += [
            Call("ask_user", {"text": "Which category?", "kind": kind, **options}),
            Text("Thank you.", check=lambda request: told.append(request.messages[-1].text)),
        ]
    with script(*steps):
        open_as("manager")
        for number, (kind, (pick, answer)) in enumerate(QUESTIONS.items(), 1):
            panel.ask("Add a tray")
            question = panel.box.locator(".copilot-question").last
            expect(question).to_contain_text("Which category?")
            shot(f"question-{kind}")
            page.reload()
            expect(question.get_by_role("button")).to_be_enabled()
            for label in pick:
                question.get_by_label(label).check()
            if not pick:
                question.get_by_role("textbox").fill(answer)
            question.get_by_role("button").click()
            expect(panel.answers).to_have_count(2 * number)
            expect(question.get_by_role("button")).to_be_disabled()
    assert told == [answer for _, answer in QUESTIONS.values()]


def test_the_address_bar_keeps_nothing_of_ours(open_as, panel, page, form, model, store):
    """hazard 119"""
    product = Product.objects.first()
    model.will(Call("open_product_form", {"id": str(product.pk), "fields": {"title": "Walnut tray"}}))
    open_as("manager", "/admin/store/product/?status=active")
    with page.expect_request(re.compile("aiPlan=")) as asked:
        panel.go("Rename it", f"/admin/store/product/{product.pk}/change/")
    assert "Walnut" not in asked.value.url
    assert "aiAction=edit" in asked.value.url
    form.ready()
    assert "ai" not in page.evaluate("location.search")
    plan = Plan.objects.get()
    page.goto(f"/admin/store/product/add/?title=Kept&aiAction=create&aiPrefill=%7B%7D&aiPlan={plan.pk}")
    page.wait_for_url("**/add/?title=Kept")


def test_a_narrow_screen_is_usable(open_as, panel, page, form, shot, model, store):
    customer = Customer.objects.first()
    page.set_viewport_size({"width": 360, "height": 640})
    open_as("manager")
    model.will(Call("query_order", {"limit": 5}), "Here they are.")
    answer = panel.ask("Show orders")
    shot("narrow-table")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    box = panel.box.bounding_box()
    assert (box["x"], box["width"]) == (0, 360)
    for part in (answer, panel.input, panel.box.get_by_role("button", name="Close")):
        edges = part.bounding_box()
        assert edges["x"] >= 0
        assert edges["x"] + edges["width"] <= 360
    model.will(Call("open_customer_form", {"id": str(customer.pk), "fields": {"city": "Gdynia"}}))
    panel.go("Change the city", f"/admin/store/customer/{customer.pk}/change/")
    form.ready()
    expect(panel.box).to_have_count(0)  # it would cover the form
    page.locator("#id_city").scroll_into_view_if_needed()
    shot("narrow-form")
    form.swap("city")
    expect(page.locator("#id_city")).to_have_value(customer.city)


def test_what_was_looked_up_for_a_question_is_folded_away(open_as, panel, model, page):
    model.will(Call("query_category", {"limit": 2}), Call("ask_user", {"text": "Which one?"}))
    open_as("manager")
    panel.open()
    panel.say("Which category?")
    expect(panel.box.locator(".copilot-question")).to_contain_text("Which one?")
    expect(panel.box.locator("details:has(table)")).to_have_count(1)
    expect(panel.box.locator("details table")).to_be_hidden()
