"""The fixtures of this folder: what they catch in the browser, and whose pages they open."""

import pytest


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("console.error('Out of order')", "console: Out of order"),
        ("setTimeout(() => { throw new Error('Not caught') })", "Not caught"),
        ("fetch('https://elsewhere.invalid/').catch(() => null)", "request to https://elsewhere.invalid/"),
        ("fetch('/admin/no-such-page/').then(() => null)", "status of 404"),
    ],
)
def test_a_problem_in_the_browser_is_seen(open_as, watch, script, problem):
    page = open_as("admin")
    assert watch.problems == []
    page.evaluate(script)
    page.wait_for_timeout(50)
    assert any(problem in text for text in watch.problems)
    watch.allow(problem)
    watch.allow("ERR_NAME_NOT_RESOLVED")
    assert watch.unexpected() == []


@pytest.mark.parametrize("username", ["manager", "viewer"])
def test_the_browser_is_logged_in_as_the_person(open_as, store, username):
    page = open_as(username, "/admin/store/product/")
    assert store.user(username).first_name in page.locator("#user-tools").text_content()
    assert page.locator("#result_list tbody tr").count() == 40
