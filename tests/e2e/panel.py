"""The panel and the filled-in forms as a person uses them: what the browser tests click and read."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect


class Panel:
    """The assistant's panel on the page that is open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.toggle = page.locator(".copilot-toggle")
        self.box = page.locator("#copilot-panel")
        self.input = self.box.locator("textarea")
        self.status = self.box.get_by_role("status")
        self.answers = self.box.locator(".copilot-message-assistant")
        self.asked = self.box.locator(".copilot-message-user")
        self.dialog = page.locator(".copilot-dialog")

    def open(self) -> Panel:
        """Open it with a click, unless it came back open by itself."""
        if self.toggle.get_attribute("aria-expanded") != "true":
            self.toggle.click()
        expect(self.input).to_be_visible()
        expect(self.box.get_by_role("log")).to_have_attribute("aria-busy", "false")
        return self

    def say(self, text: str) -> None:
        """Write a message and send it, without waiting for anything."""
        self.open().input.fill(text)
        self.input.press("Enter")

    def ask(self, text: str) -> Locator:
        """Send a message and return the answer when it is there."""
        count = self.open().answers.count()
        self.say(text)
        expect(self.answers).to_have_count(count + 1)
        return self.answers.last

    def go(self, text: str, path: str) -> None:
        """Send a message and wait until it has led to this address, in the end with nothing of ours in it."""
        self.say(text)
        self.page.wait_for_url(re.compile(re.escape(path) + "$"))

    @property
    def words(self) -> str:
        """All that the log says."""
        return self.box.locator(".copilot-log").inner_text()


class Rows:
    """A table of rows in an answer."""

    def __init__(self, answer: Locator, at: int = 0) -> None:
        table = answer.locator("table").nth(at)
        self.caption = table.locator("caption").inner_text()
        self.columns = table.locator("thead th").all_inner_texts()
        self.cells: list[list[str]] = table.locator("tbody").evaluate(
            "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
        )
        self.links: list[str] = table.locator("tbody a").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )

    def column(self, name: str) -> list[str]:
        return [row[self.columns.index(name)] for row in self.cells]


class Form:
    """The admin's form of the page that is open, and our marks on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.banner = page.locator(".copilot-mark-banner")
        self.plan = page.locator("input[name=_copilot_plan]")

    def mark(self, field: str) -> Locator:
        """Return the mark of a field."""
        return self.page.locator(f".copilot-mark:has(#copilot-mark-{field})")

    def swap(self, field: str) -> None:
        """Click the mark's one button."""
        self.mark(field).get_by_role("button").click()

    @property
    def marked(self) -> set[str]:
        """The names of the marked fields."""
        ids = self.page.locator(".copilot-mark-text").evaluate_all("all => all.map(one => one.id)")
        return {each.removeprefix("copilot-mark-") for each in ids}

    def ready(self) -> Form:
        """Wait until the marks are there."""
        expect(self.banner).to_be_visible()
        return self

    def sent(self, *names: str) -> dict[str, Any]:
        """Return what the form would send for these input names, the two-box selectors' lists included."""
        found: dict[str, Any] = self.page.evaluate(
            """names => {
                const form = document.querySelector("#content-main form");
                for (const box of form.querySelectorAll("select[id$=_to].filtered"))
                    for (const option of box.options) option.selected = true;
                const data = new FormData(form);
                return Object.fromEntries(names.map(name => [name, data.getAll(name)]));
            }""",
            list(names),
        )
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}

    def save(self, name: str = "_save") -> None:
        """Click one of the admin's save buttons and wait for the page that follows."""
        with self.page.expect_navigation():
            self.page.locator(f"input[name={name}]").click()
