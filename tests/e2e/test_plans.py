"""A plan of a write tool in the browser: shown, decided by a person's own click, and told how it ended."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from playwright.sync_api import expect

from django_copilot.models import Plan, PlanState
from django_copilot.testing import Call, Text, script
from example_project.store import payments
from example_project.store.models import Order, Payment, Refund

from .test_safety import strict  # noqa: F401  # a fixture

SAID = "Change the address"
AFTER = "That is arranged."


@pytest.fixture
def order(store):
    """Return an order of the north that has not shipped, whose customer is no VIP."""
    found = Order.objects.filter(region="north", status="paid", customer__vip=False).first()
    Order.objects.filter(pk=found.pk).update(shipping_street="Old Street 1", shipping_city="Oldtown")
    found.refresh_from_db()
    return found


def call(order, street="New Street 2"):
    """Return the model's call of the tool."""
    given = {"order": order.number, "street": street, "postal_code": "80-001", "city": "Gdansk"}
    return Call("change_shipping_address", given)


@pytest.fixture
def proposed(open_as, panel, order):
    """Return a function that has a new address proposed to support, and gives the card."""

    def proposed(street="New Street 2"):
        if not panel.page.url.startswith("http"):
            open_as("support")
        panel.ask(SAID)
        card = panel.box.locator(".copilot-plan").first
        expect(card).to_be_visible()
        return card

    return proposed


def outcome(card):
    return card.locator(".copilot-outcome")


def street(order):
    return Order.objects.values_list("shipping_street", flat=True).get(pk=order.pk)


def test_a_plan_is_confirmed_with_the_mouse(proposed, panel, order, shot):
    with script(call(order), Text(AFTER)):
        card = proposed()
        shot("plan-proposed")
        assert street(order) == "Old Street 1"
        row = card.locator("tbody tr", has_text="New Street 2")
        expect(row.get_by_role("rowheader")).to_have_text(re.compile("street", re.I))
        expect(row.get_by_role("cell").first).to_have_text("Old Street 1")
        expect(card.get_by_role("timer")).to_have_text(re.compile(r"^(9:\d\d|10:00)$"))
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(outcome(card)).to_be_focused()
        expect(panel.answers.last).to_contain_text(AFTER)
        expect(outcome(card)).to_be_focused()
        shot("plan-executed")
    assert street(order) == "New Street 2"
    assert Plan.objects.get().state == PlanState.EXECUTED
    expect(card.get_by_role("button", name="Change the shipping address")).to_have_count(0)
    expect(card.get_by_role("button", name="Undo")).to_be_visible()


def test_enter_in_the_message_box_and_a_typed_yes_confirm_nothing(proposed, panel, order):
    with script(call(order), Text("Use the button.")):
        proposed()
        panel.input.press("Enter")
        panel.input.press("Enter")
        panel.page.wait_for_timeout(200)
        assert Plan.objects.get().state == PlanState.PROPOSED
        expect(panel.ask("yes")).to_contain_text("Use the button.")
    assert street(order) == "Old Street 1"


def test_everything_can_be_done_with_the_keyboard(proposed, panel, order):
    page = panel.page
    with script(call(order), Text(AFTER)):
        card = proposed()
        verb = card.get_by_role("button", name="Change the shipping address")
        expect(panel.input).to_be_focused()
        for _ in range(12):  # back from the box into the card
            page.keyboard.press("Shift+Tab")
            if verb.evaluate("one => one === document.activeElement"):
                break
        expect(verb).to_be_focused()
        page.keyboard.press("Tab")
        expect(card.get_by_label("Reason for rejecting (optional)")).to_be_focused()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        expect(outcome(card)).to_have_text("Done.")
        expect(outcome(card)).to_be_focused()
        expect(panel.answers.last).to_contain_text(AFTER)
    assert street(order) == "New Street 2"


def test_a_plan_is_rejected_with_a_reason_and_the_model_hears_it(proposed, panel, order):
    with script(call(order), Text("I won't.")) as model:
        card = proposed()
        card.get_by_label("Reason for rejecting (optional)").fill("wrong customer")
        card.get_by_role("button", name="Reject").click()
        expect(outcome(card)).to_have_text("Declined. Nothing was done.")
        expect(card.locator("dl")).to_contain_text(["wrong customer"])
        expect(panel.answers.last).to_contain_text("I won't.")
    assert "wrong customer" in model.requests[-1].messages[-1].text
    assert street(order) == "Old Street 1"
    plan = Plan.objects.get()
    assert (plan.state, plan.reason) == (PlanState.REJECTED, "wrong customer")
    expect(card.get_by_role("button")).to_have_count(0)


def test_the_card_is_there_after_reloading_and_decides(proposed, panel, order):
    with script(call(order), Text(AFTER)):
        proposed()
        panel.page.goto("/admin/store/customer/")
        card = panel.box.locator(".copilot-plan")
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(panel.answers.last).to_contain_text(AFTER)
        panel.page.reload()
        card = panel.box.locator(".copilot-plan")
        expect(card).to_contain_text("carried out")
        expect(card.get_by_role("button", name="Undo")).to_be_visible()
        expect(panel.answers).to_have_count(2)
    assert street(order) == "New Street 2"


def test_a_double_click_sends_once(proposed, panel, order):
    sent = []
    panel.page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/confirm/") else None)
    with script(call(order), Text(AFTER)):
        card = proposed()
        card.get_by_role("button", name="Change the shipping address").dblclick()
        expect(outcome(card)).to_have_text("Done.")
        expect(panel.answers.last).to_contain_text(AFTER)
    assert len(sent) == 1


def test_while_it_is_sent_nothing_can_be_pressed(proposed, panel, order):
    held = []
    with script(call(order), Text(AFTER)):
        card = proposed()
        panel.page.route("**/confirm/", lambda route: held.append(route))
        card.get_by_role("button", name="Change the shipping address").click()
        expect(card).to_have_attribute("aria-busy", "true")
        for one in card.get_by_role("button").all():
            expect(one).to_be_disabled()
        held[0].continue_()
        expect(outcome(card)).to_have_text("Done.")
        expect(card).to_have_attribute("aria-busy", "false")
        expect(panel.answers.last).to_contain_text(AFTER)


def test_a_decision_that_was_lost_on_the_way_can_be_sent_again(proposed, panel, order, watch):
    watch.allow("ERR_FAILED")
    with script(call(order), Text(AFTER)):
        card = proposed()
        panel.page.route("**/confirm/", lambda route: route.abort(), times=1)
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_contain_text("could not be reached")
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(panel.answers.last).to_contain_text(AFTER)


def test_what_the_model_says_afterwards_cannot_change_the_outcome(proposed, panel, order, watch):
    watch.allow(r"status of 500")
    with script(call(order)):
        card = proposed()
        panel.page.route(
            "**/conversation/chat/",
            lambda route: route.fulfill(status=500, json={"code": "model_timeout", "detail": "Too slow."}),
        )
        card.get_by_role("button", name="Change the shipping address").click()
        expect(panel.status).to_have_text("Too slow.")
        expect(outcome(card)).to_have_text("Done.")
    expect(panel.box.get_by_role("button", name="Retry")).to_have_count(0)
    assert street(order) == "New Street 2"


def test_when_its_time_is_over_it_says_so_and_is_made_again(proposed, panel, order, shot):
    with script(call(order)):
        proposed()
    Plan.objects.update(expires_at=timezone.now() + timedelta(seconds=4))
    panel.page.reload()
    card = panel.box.locator(".copilot-plan")
    expect(card.get_by_role("timer")).to_have_text(re.compile(r"0:0\d"))
    expect(outcome(card)).to_have_text("Its time is over. Nothing was done.")
    expect(card.get_by_role("button", name="Change the shipping address")).to_have_count(0)
    shot("plan-expired")
    with script(Text("It was too late.")):
        expect(card).to_contain_text("expired")
        card.get_by_role("button", name="Make the preview again").click()
        expect(card.get_by_role("timer")).to_have_text(re.compile(r"9:\d\d|10:00"))
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(panel.answers.last).to_contain_text("It was too late.")
    assert street(order) == "New Street 2"


def test_a_stale_plan_gives_way_to_the_fresh_diff(proposed, panel, order, watch, shot):
    watch.allow(r"status of 409")
    with script(call(order), Text(AFTER)):
        card = proposed()
        Order.objects.filter(pk=order.pk).update(shipping_street="Somebody's Street 3")
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_contain_text("Look at what it would do now")
        expect(outcome(card)).to_be_focused()
        row = card.locator("tbody tr", has_text="New Street 2")
        expect(row.get_by_role("cell").first).to_have_text("Somebody's Street 3")
        shot("plan-stale")
        assert street(order) == "Somebody's Street 3"
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(panel.answers.last).to_contain_text(AFTER)
    assert street(order) == "New Street 2"


def test_what_was_done_is_undone_by_a_plan_of_its_own(proposed, panel, order, shot):
    with script(call(order), Text(AFTER)):
        card = proposed()
        card.get_by_role("button", name="Change the shipping address").click()
        expect(panel.answers.last).to_contain_text(AFTER)
    card.get_by_role("button", name="Undo").click()
    undo = panel.box.locator(".copilot-plan + .copilot-plan")
    expect(undo.locator("tbody tr", has_text="Old Street 1")).to_be_visible()
    shot("plan-undo")
    assert street(order) == "New Street 2"
    undo.locator(".copilot-button-main").click()
    expect(outcome(undo)).to_have_text("Done.")
    expect(card).to_contain_text("undone")
    expect(card.get_by_role("button", name="Undo")).to_have_count(0)
    assert street(order) == "Old Street 1"


def test_the_button_tells_how_many_wait_and_leads_there(proposed, panel, order, shot):
    page = panel.page
    with script(call(order), Text(AFTER)):
        card = proposed()
        expect(panel.toggle).to_have_text("Copilot 1")
        panel.box.get_by_role("link", name="Waiting for a decision (1)").click()
        page.wait_for_url("**/django_copilot/plan/")
        shot("inbox")
        page.locator("#content-main").get_by_role("link", name=order.number).click()
        page.wait_for_url(re.compile(r"/plan/[0-9a-f-]{36}/$"))
        card = panel.open().box.locator(".copilot-plan")
        card.get_by_role("button", name="Reject").click()
        expect(outcome(card)).to_have_text("Declined. Nothing was done.")
        expect(panel.toggle).to_have_text("Copilot 0")
        expect(panel.toggle.locator(".copilot-badge")).to_be_hidden()
        expect(panel.answers.last).to_contain_text(AFTER)
    page.goto("/admin/django_copilot/plan/")
    expect(page.locator("#content-main")).to_contain_text("Nothing waits for you.")


# -- the page, with no script at all --


@pytest.fixture
def plain(browser, live_server, store):
    """Return a function that opens a page for somebody in a browser that runs no scripts."""
    made = []

    def plain(username, path):
        context = browser.new_context(
            base_url=live_server.url, java_script_enabled=False, viewport={"width": 360, "height": 740}
        )
        made.append(context)
        client = Client()
        client.force_login(get_user_model().objects.get(username=username))
        name = django_settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
        page = context.new_page()
        page.goto(path)
        return page

    yield plain
    for context in made:
        context.close()


def page_of(plan):
    return f"/admin/django_copilot/plan/{plan.pk}/"


def test_without_scripts_the_page_confirms_and_undoes(proposed, plain, order):
    with script(call(order)):
        proposed()
    page = plain("support", "/admin/django_copilot/plan/")
    page.locator("#content-main").get_by_role("link", name=order.number).click()
    row = page.locator(".copilot-plan tbody tr", has_text="New Street 2")
    expect(row.get_by_role("cell").first).to_have_text("Old Street 1")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("button", name="Change the shipping address").click()
    expect(page.locator(".messagelist")).to_contain_text("Done.")
    assert street(order) == "New Street 2"
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Change the shipping address").click()
    expect(page.locator(".messagelist")).to_contain_text("Done.")
    assert street(order) == "Old Street 1"


def test_without_scripts_the_page_rejects_with_a_reason(proposed, plain, order):
    with script(call(order)):
        proposed()
    page = plain("support", page_of(Plan.objects.get()))
    page.get_by_label("Reason for rejecting (optional)").fill("not now")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("Declined. Nothing was done.")
    expect(page.locator(".copilot-plan")).to_contain_text("not now")
    assert Plan.objects.get().state == PlanState.REJECTED


def test_what_was_decided_on_the_page_goes_on_when_the_panel_comes_back(proposed, panel, plain, order):
    with script(call(order), Text(AFTER)):
        proposed()
        page = plain("support", page_of(Plan.objects.get()))
        page.get_by_role("button", name="Change the shipping address").click()
        expect(page.locator(".messagelist")).to_contain_text("Done.")
        panel.page.reload()
        expect(panel.answers.last).to_contain_text(AFTER)
        expect(panel.box.locator(".copilot-plan")).to_contain_text("carried out")
    assert Plan.objects.count() == 1


# -- a second person, and another system that does not answer --


@pytest.fixture
def refund(order, monkeypatch):
    """Return a function that makes the model's call of a refund; ``refund.answer`` is the gateway's."""
    payment = order.payments.first() or Payment.objects.create(
        order=order, amount_cents=50_000, currency="EUR", gateway_reference="pay_1"
    )
    Payment.objects.filter(pk=payment.pk).update(amount_cents=50_000, gateway_reference="pay_1")

    def refund(cents):
        given = {"order": order.number, "amount_cents": cents, "reason": "arrived broken"}
        return Call("refund_payment", given)

    def ask(payload, key):
        if isinstance(refund.answer, Exception):
            raise refund.answer
        return refund.answer

    refund.answer = {"gateway_reference": "re_1"}
    refund.made = lambda: Refund.objects.filter(payment=payment, reason="arrived broken")
    monkeypatch.setattr(payments, "refund", ask)
    monkeypatch.setattr(payments, "look_up", ask)
    monkeypatch.setattr(payments, "is_set_up", lambda: True)
    return refund


def test_a_second_person_approves_on_the_page(proposed, panel, plain, refund, shot):
    with script(refund(20_000), Text(AFTER)):
        card = proposed()
        expect(card).to_contain_text("Has to approve it before anything is done.")
        card.locator(".copilot-button-main").click()
        expect(outcome(card)).to_contain_text("A second person has to approve it")
        expect(card).to_contain_text("awaiting approval")
        expect(card.locator(".copilot-button-main")).to_have_count(0)
        shot("plan-waits")
        assert not refund.made().exists()

        page = plain("manager2", "/admin/django_copilot/plan/")
        expect(page.locator("#content-main")).to_contain_text("Waiting for a second person")
        page.locator("#content-main table a").click()
        expect(page.locator(".copilot-plan")).to_contain_text("arrived broken")
        expect(page.locator(".copilot-plan")).to_contain_text("Asked for by")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".messagelist")).to_contain_text("Done.")
        expect(page.locator(".copilot-plan")).to_contain_text("carried out")
        assert refund.made().get().state == Refund.State.SUCCEEDED

        panel.page.reload()
        expect(panel.answers.last).to_contain_text(AFTER)
        expect(panel.box.locator(".copilot-plan")).to_contain_text("carried out")


def test_the_card_hears_of_the_approval_by_itself(proposed, panel, plain, refund):
    panel.page.clock.install()
    with script(refund(20_000), Text(AFTER)):
        card = proposed()
        card.locator(".copilot-button-main").click()
        expect(card).to_contain_text("awaiting approval")
        page = plain("manager2", page_of(Plan.objects.get()))
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".messagelist")).to_contain_text("Done.")
        panel.page.clock.run_for(21_000)
        expect(card).to_contain_text("carried out")
        expect(panel.answers.last).to_contain_text(AFTER)


def test_who_may_not_approve_finds_no_page(proposed, refund, plain):
    with script(refund(20_000)):
        card = proposed()
        card.locator(".copilot-button-main").click()
        expect(card).to_contain_text("awaiting approval")
    page = plain("viewer", page_of(Plan.objects.get()))
    expect(page.locator("#content-main")).to_contain_text("There is no such conversation or proposal.")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)


def test_no_answer_is_told_as_such_and_tried_again(proposed, panel, refund, shot):
    refund.answer = TimeoutError("nothing came")
    with script(refund(2_000), Text(AFTER)):
        card = proposed()
        card.locator(".copilot-button-main").click()
        expect(card).to_contain_text("uncertain")
        expect(card.get_by_role("button", name="Ask what became of it")).to_be_visible()
        expect(panel.answers).to_have_count(1)  # nothing to tell the model yet
        shot("plan-uncertain")
        refund.answer = {"gateway_reference": "re_1"}
        card.get_by_role("button", name="Try again").click()
        expect(outcome(card)).to_have_text("Done.")
        expect(card).to_contain_text("re_1")
        expect(panel.answers.last).to_contain_text(AFTER)
    assert refund.made().get().state == Refund.State.SUCCEEDED


def test_a_second_person_settles_what_nobody_knows(proposed, plain, refund):
    refund.answer = TimeoutError("nothing came")
    with script(refund(2_000)):
        card = proposed()
        card.locator(".copilot-button-main").click()
        expect(card).to_contain_text("uncertain")
        expect(card.get_by_role("button", name="Settle it")).to_have_count(0)
    page = plain("manager2", page_of(Plan.objects.get()))
    page.get_by_label("Outcome").select_option("failed")
    page.get_by_label("How you know").fill("the bank says no")
    page.get_by_role("button", name="Settle it").click()
    expect(page.locator(".messagelist")).to_contain_text("It failed. Nothing was done.")
    plan = Plan.objects.get()
    assert (plan.state, plan.reason) == (PlanState.FAILED, "the bank says no")
    assert refund.made().get().state == Refund.State.FAILED


def test_values_on_a_card_are_text(proposed, panel, order):
    hostile = "<img src=x onerror=\"document.title='taken'\">\u202e1"
    with script(call(order, street=hostile)):
        card = proposed()
    row = card.locator("tbody tr").first
    expect(row).to_contain_text("<img src=x onerror=")
    expect(row).to_contain_text("⟨U+202E⟩")
    expect(card).to_contain_text("characters that can't be seen")
    assert "taken" not in panel.page.title()


def test_a_decision_goes_to_this_admin_only(proposed, panel, order):
    def elsewhere(route):
        answer = route.fetch()
        body = answer.json()
        body["plan"]["confirmUrl"] = "//evil.example/admin/confirm/"
        route.fulfill(response=answer, json=body)

    with script(call(order)):
        panel.page.route("**/conversation/chat/", elsewhere)
        card = proposed()
        card.get_by_role("button", name="Change the shipping address").click()
        expect(outcome(card)).to_contain_text("outside the admin")
    assert Plan.objects.get().state == PlanState.PROPOSED


@pytest.mark.usefixtures("strict")
def test_a_strict_policy_is_kept_by_the_card_and_the_pages(proposed, panel, order):
    page = panel.page
    with script(call(order), Text(AFTER)):
        card = proposed()
        card.get_by_role("button", name="Change the shipping address").click()
        expect(panel.answers.last).to_contain_text(AFTER)
        for path in ("/admin/django_copilot/plan/", page_of(Plan.objects.get())):
            page.goto(path)
            expect(page.locator("#content-main.copilot-page")).to_be_visible()
    page.locator("#content-main").get_by_role("button", name="Undo").click()
    expect(page.locator("#content-main .copilot-plan")).to_contain_text("Old Street 1")
