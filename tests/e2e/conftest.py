"""A real browser for the tests in this folder: Chromium, driven by Playwright, against the live server.

A test fails on an error in the console, on an uncaught exception of a script, and on a request to another
origin than the live server.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]


def chromium() -> str | None:
    """Return the program to start, or None."""
    names = (os.environ.get("COPILOT_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Watch:
    """What went wrong in the browser during one test."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._allowed: list[re.Pattern[str]] = []

    def allow(self, pattern: str) -> None:
        """Expect a problem whose text matches, such as ``status of 409``: Chromium logs each failed fetch."""
        self._allowed.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        return [text for text in self.problems if not any(p.search(text) for p in self._allowed)]


# A module is the widest scope that is safe: while Playwright runs, its event loop is "running" in this
# thread, which would break asyncio and Django's async checks in the tests of other folders.
@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as started:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield started


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium on PATH (COPILOT_TEST_CHROMIUM can name one)")
    started: Playwright = request.getfixturevalue("playwright")
    browser = started.chromium.launch(executable_path=program, headless=True, args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _offline_backend(settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "BACKEND": "offline"}


@pytest.fixture
def watch() -> Watch:
    """Return what collects the browser's problems; ``watch.allow(pattern)`` expects one."""
    return Watch()


@pytest.fixture
def context(
    browser: Browser, transactional_db: None, live_server: Any, watch: Watch
) -> Iterator[BrowserContext]:
    """Return a fresh browser profile whose relative addresses are the live server's."""
    context = browser.new_context(base_url=live_server.url, locale="en-US", timezone_id="Europe/Warsaw")
    context.set_default_timeout(10_000)
    origin = urlsplit(live_server.url)[:2]

    def on_request(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts[:2] != origin:
            watch.problems.append(f"request to {request.url}")

    def on_console(message: Any) -> None:
        url = message.location.get("url", "")
        if message.type == "error" and not url.endswith("/favicon.ico"):  # the browser's own wish
            watch.problems.append(f"console: {message.text} ({url})")

    context.on("request", on_request)
    context.on("console", on_console)
    context.on("weberror", lambda error: watch.problems.append(f"script: {error.error}"))
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, watch: Watch) -> Iterator[Page]:
    """Return an empty tab. The test fails if the browser had a problem that was not expected."""
    page = context.new_page()
    yield page
    page.wait_for_timeout(0)  # hand out the events that wait
    page.close()
    assert not watch.unexpected(), "\n".join(watch.unexpected())


@pytest.fixture
def open_as(page: Page, context: BrowserContext, live_server: Any, store: Any) -> Callable[..., Page]:
    """Return a function that logs a person of the example store in and opens an admin page."""

    def open_as(username: str, path: str = "/admin/") -> Page:
        from django.contrib.auth import get_user_model

        client = Client()
        client.force_login(get_user_model().objects.get(username=username))
        name = django_settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
        page.goto(path)
        return page

    return open_as
