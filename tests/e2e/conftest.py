"""A real browser for the tests in this folder: Chromium, driven by Playwright, against the live server.

A test fails on an error in the console, on an uncaught exception of a script, and on a request to another
origin than the live server.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from django.test import Client
from llmock.pytest_plugin import LLMock
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from django_copilot.redteam.browser.judging import FLAGS
from django_copilot.testing import Call

from .panel import Form, Panel

expect.set_options(timeout=20_000)  # a busy machine is no failure

SHOTS = Path(__file__).parents[2] / "test-artifacts"


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
    browser = started.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
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
    context = browser.new_context(
        base_url=live_server.url,
        locale="en-US",
        timezone_id="Europe/Warsaw",
        viewport={"width": 1440, "height": 800},  # wide enough for the page beside the panel
    )
    context.set_default_timeout(20_000)
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


@pytest.fixture
def panel(page: Page) -> Panel:
    """Return the panel of whatever page is open."""
    return Panel(page)


@pytest.fixture
def form(page: Page) -> Form:
    """Return the form of whatever page is open."""
    return Form(page)


@pytest.fixture
def speak(context: BrowserContext, live_server: Any) -> Callable[[str], None]:
    """Return a function that sets the language of the interface."""

    def speak(language: str) -> None:
        name = django_settings.LANGUAGE_COOKIE_NAME
        context.add_cookies([{"name": name, "value": language, "url": live_server.url}])

    return speak


@pytest.fixture
def shot(page: Page) -> Callable[[str], None]:
    """Return a function that takes a picture of the page, if COPILOT_TEST_SCREENSHOTS is set."""

    def shot(name: str) -> None:
        if os.environ.get("COPILOT_TEST_SCREENSHOTS"):
            SHOTS.mkdir(exist_ok=True)
            page.screenshot(path=SHOTS / f"{name}.png")

    return shot


class Model:
    """A model's server on loopback, asked over HTTP by the openai backend."""

    def __init__(self, server: LLMock) -> None:
        self._server = server

    def will(self, *steps: Call | str) -> None:
        """Answer the next requests with these calls and texts."""
        for step in steps:
            if isinstance(step, str):
                self._server.reply(step)
            else:
                self._server.call_tool(step.name, step.arguments)

    @property
    def server(self) -> LLMock:
        return self._server

    @property
    def sent(self) -> str:
        """All that left for the model, with nothing in it escaped."""
        return "\n".join(text for request in self._server.requests for text in _texts(request.body))

    @property
    def results(self) -> list[str]:
        """What the tools answered, in the last request."""
        messages = self._server.last_request.body["messages"]
        return [each["content"] for each in messages if each["role"] == "tool"]


@pytest.fixture
def model(llmock: LLMock, settings: Any, _offline_backend: None) -> Model:
    """Return a model's server; what it is told to answer is what the assistant does."""
    settings.COPILOT = {
        **settings.COPILOT,
        "BACKEND": "openai",
        "OPENAI_API_KEY": "sk-only-for-tests-0123456789",
        "OPENAI_BASE_URL": llmock.base_url(),
        "OPENAI_MODEL": "test-model",
        "MODEL_RETRIES": 0,
        "MODEL_TIMEOUT": 20.0,
    }
    return Model(llmock)


def _texts(value: Any) -> Iterator[str]:
    """Give every name and value of a JSON document, and of the documents in its texts."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)
        if isinstance(value, str) and value[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                yield from _texts(json.loads(value))


class Offline:
    """The offline backend in a model's place: it reads the sentence itself."""

    sent = ""

    def will(self, *steps: Call | str) -> None:
        """Nothing has to be told."""


@pytest.fixture(params=["offline", "openai"])
def mind(request: pytest.FixtureRequest) -> Model | Offline:
    """Return who answers: the offline backend, and then the openai backend with a scripted server."""
    if request.param == "offline":
        return Offline()
    made: Model = request.getfixturevalue("model")
    return made
