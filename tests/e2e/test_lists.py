"""Rows are ticked and an action is chosen on the admin's own list; a person presses the button, and only then."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin.models import LogEntry
from playwright.sync_api import expect

from django_copilot.models import Plan, PlanState
from django_copilot.testing import Call, script
from django_copilot.tools.lists import RUN
from example_project.store.models import Order

from .test_safety import strict  # noqa: F401  # a fixture

SAID = "Mark them as shipped"


@pytest.fixture
def paid(store):
    """Return three orders of the north that are paid, whose customers are no VIPs."""
    found = list(Order.objects.filter(region="north", customer__vip=False).order_by("pk")[:3])
    Order.objects.filter(pk__in=[each.pk for each in found]).update(status="paid")
    return found


def call(orders, **more):
    return Call("open_order_list", {"ids": [str(each.pk) for each in orders], **more})


def boxes(page):
    return page.locator("input.action-select:checked")


def notice(page):
    return page.locator(".copilot-list-notice")


def statuses(orders):
    return {*Order.objects.filter(pk__in=[each.pk for each in orders]).values_list("status", flat=True)}


def listed(panel, orders, **more):
    """Ask for the list and wait until it says what is ticked."""
    with script(call(orders, **more)):
        panel.say(SAID)
        expect(notice(panel.page)).to_be_visible()
    return panel.page


def test_rows_are_ticked_the_action_is_chosen_and_go_runs_it(open_as, panel, paid, shot):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    shot("list-ticked")
    expect(notice(page)).to_have_text(
        f"3 orders are ticked and “Mark as shipped” is chosen. Press {RUN} to run it."
    )
    expect(notice(page)).to_have_attribute("role", "status")
    expect(notice(page)).to_be_focused()
    assert {each.get_attribute("value") for each in boxes(page).all()} == {str(each.pk) for each in paid}
    expect(page.locator("select[name=action]").first).to_have_value("mark_as_shipped")
    expect(page.locator(".action-counter").first).to_have_text("3 of 3 selected")
    assert page.url.endswith(f"/admin/store/order/?pk__in={'%2C'.join(str(each.pk) for each in paid)}")
    assert statuses(paid) == {"paid"}
    assert Plan.objects.get().state == PlanState.PROPOSED

    page.get_by_role("button", name=RUN, exact=True).first.click()
    expect(page.locator(".messagelist .success")).to_have_text("3 orders were marked as shipped.")
    assert statuses(paid) == {"shipped"}
    assert LogEntry.objects.filter(object_id__in=[str(each.pk) for each in paid]).count() == 3
    expect(notice(page)).to_have_count(0)  # nothing is ticked a second time
    expect(boxes(page)).to_have_count(0)


def test_it_is_done_with_the_keyboard_alone(open_as, panel, paid):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    expect(notice(page)).to_be_focused()
    for _each in range(20):  # from the sentence to the button, past what is between them
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "index":
            break
    assert page.evaluate("document.activeElement.name") == "index"
    assert statuses(paid) == {"paid"}
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist .success")).to_have_text("3 orders were marked as shipped.")
    assert statuses(paid) == {"shipped"}


def test_enter_right_after_the_page_has_opened_runs_nothing(open_as, panel, paid):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    page.wait_for_timeout(200)
    assert statuses(paid) == {"paid"}
    expect(boxes(page)).to_have_count(3)


def test_a_row_that_is_gone_is_told(open_as, panel, paid):
    gone, *rest = paid
    page = open_as("support")
    page.evaluate(
        """document.addEventListener("copilot:go", (event) => {
            event.preventDefault();
            document.body.dataset.address = event.detail.address;
        })"""
    )
    with script(call(paid, action="mark_as_shipped")):
        panel.say(SAID)
        expect(page.locator("body[data-address]")).to_have_count(1)
    Order.objects.filter(pk=gone.pk).update(region="south")
    page.goto(page.locator("body").get_attribute("data-address"))
    expect(notice(page)).to_have_text(
        "Rows ticked: 2 of 3. The others are not in this list. "
        f"“Mark as shipped” is chosen. Press {RUN} to run it."
    )
    assert {each.get_attribute("value") for each in boxes(page).all()} == {str(each.pk) for each in rest}


def test_the_same_list_asked_for_again_is_ticked_anew(open_as, panel, paid):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    page.locator("input.action-select").first.uncheck()
    expect(boxes(page)).to_have_count(2)
    with script(call(paid)):
        panel.ask("And once more")
        expect(notice(page)).to_have_text(f"3 orders are ticked. Choose an action and press {RUN}.")
    expect(boxes(page)).to_have_count(3)
    assert "#" not in page.url


@pytest.mark.parametrize(
    ("language", "told"),
    [
        (
            "pl",
            "Zaznaczono: 3 (zamówienia); wybrano akcję „Oznacz jako wysłane”. Aby ją wykonać, naciśnij „{}”.",
        ),
        (
            "ru",
            "Отмечено: 3 (заказы), выбрано действие «Отметить как отправленные». Чтобы выполнить его, нажмите «{}».",
        ),
    ],
    ids=["pl", "ru"],
)
def test_it_is_told_in_her_language_with_the_buttons_own_word(open_as, panel, paid, speak, language, told):
    speak(language)
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    button = page.locator("button[name=index]").first.inner_text()
    expect(notice(page)).to_have_text(told.format(button))


def test_a_page_loaded_again_has_nothing_ticked(open_as, panel, paid):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    page.reload()
    page.wait_for_load_state("load")
    expect(page.locator("input.action-select")).to_have_count(3)
    expect(notice(page)).to_have_count(0)
    expect(boxes(page)).to_have_count(0)


def test_a_plan_of_somebody_else_ticks_nothing(open_as, panel, paid, watch):
    watch.allow("status of 404")
    open_as("support")
    listed(panel, paid, action="mark_as_shipped")
    plan = Plan.objects.get()
    page = open_as("manager", f"/admin/store/order/?pk__in={paid[0].pk}#copilot-plan={plan.pk}")
    expect(notice(page)).to_have_text("This proposal is not available. Nothing was ticked.")
    expect(boxes(page)).to_have_count(0)


def test_a_fragment_that_is_no_plan_is_left_alone(open_as, paid):
    page = open_as("support", "/admin/store/order/#copilot-plan=../../secret")
    page.wait_for_load_state("networkidle")
    assert page.url.endswith("#copilot-plan=../../secret")
    expect(notice(page)).to_have_count(0)


@pytest.mark.usefixtures("strict")
def test_it_works_under_a_strict_policy(open_as, panel, paid):
    open_as("support")
    page = listed(panel, paid, action="mark_as_shipped")
    expect(boxes(page)).to_have_count(3)


def test_a_list_that_is_only_filtered_says_so_in_the_chat(open_as, panel, paid):
    open_as("support")
    with script(Call("open_order_list", {"filters": {"status": "paid"}})):
        panel.say("The paid orders")
        page = panel.page
        expect(page).to_have_url(re.compile(r"/admin/store/order/\?status__exact=paid$"))
    expect(panel.answers.last).to_contain_text("This is the list of orders, filtered as asked.")
    expect(page.locator("input.action-select").first).to_be_visible()
    expect(notice(page)).to_have_count(0)
