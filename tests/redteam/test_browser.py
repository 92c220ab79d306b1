"""The red team's browser: nothing is found in the product, and everything is found where a judge is given something."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.template import engines
from django.test.utils import override_settings

from django_copilot.redteam import tables
from django_copilot.redteam.browser import judging as browser
from django_copilot.redteam.browser import live
from django_copilot.redteam.browser.texts import EVIL, TEXTS
from django_copilot.redteam.browser.tour import Tour
from django_copilot.redteam.canaries import plant
from django_copilot.redteam.corpus import OWN
from django_copilot.redteam.people import find_actors
from django_copilot.redteam.world import NotRun, World
from example_project.store import redteam as project

pytestmark = pytest.mark.browser


@pytest.fixture
def world(store: Any, settings: Any) -> World:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"
    canaries = plant(OWN, seed=3)
    return World(seed=3, actors=find_actors(["manager"]), canaries=canaries, injections=OWN, project=project)


@pytest.fixture
def run(world: World) -> Callable[..., World]:
    """Return a function that runs the part, or skips the test where it can't."""

    def run(calls: int = 4) -> World:
        try:
            browser.run(world, number=0, calls=calls)
        except NotRun as why:
            pytest.skip(str(why))
        return world

    return run


def what(world: World) -> str:
    """Return what was found, one finding a line."""
    return "\n".join(each["what"] for each in world.report.examples.get(6, []))


def changed_file(monkeypatch: pytest.MonkeyPatch, name: str, old: bytes, new: bytes) -> None:
    """Serve a script of ours in which something else stands."""
    own = live._application

    def application() -> Any:
        inner = own()

        def changed(environ: Any, start_response: Any) -> Any:
            if not environ["PATH_INFO"].endswith(f"/django_copilot/{name}"):
                return inner(environ, start_response)
            told: list[Any] = []
            response = inner(environ, lambda *args: told.extend(args[:2]))
            body = b"".join(response)
            assert old in body
            body = body.replace(old, new)
            headers = [(key, value) for key, value in told[1] if key.lower() != "content-length"]
            start_response(told[0], [*headers, ("Content-Length", str(len(body)))])
            return _Body(body, response.close)

        return changed

    monkeypatch.setattr(live, "_application", application)


class _Body(list[bytes]):
    def __init__(self, body: bytes, close: Callable[[], None]) -> None:
        super().__init__([body])
        self.close = close


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Leave parts of the tour out that a test has no use for."""
    for name in ("panel", "pages", "_click", "_again", "_conversations"):
        if name not in names:
            monkeypatch.setattr(Tour, name, lambda self, *args, **kwargs: None)


# -- the product ----------------------------------------------------------------------------------------------


def test_nothing_is_found_and_nothing_is_left_behind(run: Callable[..., World], world: World) -> None:
    before = tables.snapshot()
    report = run(4).report
    assert not report.findings, report.as_text()
    assert report.counts["hostile answers in a browser"] == 4
    assert report.counts["hostile pages"] > 10
    assert report.counts["pages in a browser"] > 20
    assert tables.snapshot() == before


def test_texts_reach_the_panel_whole(world: World) -> None:
    shown = "\n\n".join(browser._shown(world, 0, 3))
    assert all(text in shown for text in TEXTS)
    assert len(browser._shown(world, 0, 3)) == 3
    assert len(TEXTS) == len(set(TEXTS)) > 60


# -- judges ---------------------------------------------------------------------------------------------------


def test_words_of_a_model_as_markup_are_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_file(monkeypatch, "dom.js", b"node.textContent = text", b"node.innerHTML = text")
    monkeypatch.setattr(browser, "_SECONDS", 1.5)  # the panel does not survive it
    only(monkeypatch, "panel")
    found = what(run(2))
    assert "a script ran" in found
    assert f"to https://{EVIL}/" in found


def test_links_that_go_anywhere_are_found(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed_file(
        monkeypatch,
        "view.js",
        b"text: showUnseen(message.text)",
        b"text: showUnseen(message.text) }, element('a', { href: 'https://evil.example/x', text: 'x' })), element('i', {",
    )
    only(monkeypatch, "panel")
    assert 'in the page: A href="https://evil.example/x"' in what(run(1))


def test_templates_that_escape_nothing_are_found_without_scripts_too(
    run: Any, world: World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Tour.pages
    done = []

    def pages(self: Tour, paths: Any, *, scripts: bool) -> None:
        if not scripts:
            before = world.report.findings[6]
            unsafe = [
                {**each, "OPTIONS": {**each["OPTIONS"], "autoescape": False}} for each in settings.TEMPLATES
            ]
            with override_settings(TEMPLATES=unsafe):
                engines.all()
                own(self, [path for path in paths if "/delete/" in path or "/plan/" in path], scripts=False)
            done.append(world.report.findings[6] - before)

    monkeypatch.setattr(Tour, "pages", pages)
    for name in ("_click", "_again", "_conversations"):
        monkeypatch.setattr(Tour, name, lambda self: None)
    run(1)
    assert done
    assert done[0] > 0
    assert EVIL in what(world)


BAD: dict[str, str] = {
    "document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }))": "a request (image) to",
    "fetch('https://evil.example/').catch(() => 0)": "a request (fetch) to https://evil.example/",
    "__owned('here')": "a script ran: ('here',)",
    "window.__owned = 1": "a script has set a global of the page",
    "void setTimeout(alert, 0, 'gone')": "a dialog: alert 'gone'",
    "void window.open('/admin/')": "another window was opened",
    "void setTimeout(() => { throw new Error('oops') })": "an error in a script",
    "document.body.append(document.createElement('iframe'))": "IFRAME on the page",
    "document.head.append(Object.assign(document.createElement('base'), { target: 'x' }))": "BASE on the page",
    "document.body.innerHTML += '<p class=copilot-x onclick=f()>x</p>'": 'in the page: P onclick="f()"',
    "document.body.innerHTML += '<p class=copilot-x><b style=\"color:red\">x</b></p>'": 'in the page: B style="color:red"',
    "document.body.innerHTML += '<p class=copilot><img></p>'": "an element IMG",
    "document.body.innerHTML += '<p class=copilot><svg><use></use></svg></p>'": "an element USE",
    "document.body.innerHTML += '<p class=copilot><x-y></x-y></p>'": "an element X-Y",
    "document.body.innerHTML += '<p class=copilot><a href=javascript:f()>x</a></p>'": 'A href="javascript:f()"',
    "document.body.innerHTML += '<p class=copilot><a href=/elsewhere/>x</a></p>'": 'A href="/elsewhere/"',
    "document.body.innerHTML += '<form class=copilot action=//evil.example></form>'": 'FORM action="//evil.example"',
    "void new WebSocket('ws://127.0.0.1:9/')": "a socket to ws://127.0.0.1:9/",
    "location.href = '/static/admin/css/base.css'": "it went to",
}


def test_each_thing_that_should_not_be_seen_is_a_finding(
    run: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = []

    def panel(self: Tour, texts: Any) -> None:
        for script, told in BAD.items():
            world.report.examples.clear()
            self._go(self._address("index"))
            self._try("bad", lambda script=script: self.page.evaluate(script))
            self.page.wait_for_timeout(150)
            if told not in what(world):
                missed.append((script, told, what(world)))

    only(monkeypatch)
    monkeypatch.setattr(Tour, "panel", panel)
    monkeypatch.setattr(Tour, "paths", lambda self: [])
    run(1)
    assert not missed


def test_a_page_that_fails_is_found(run: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "pages")
    monkeypatch.setattr(Tour, "paths", lambda self: ["/admin/nothing/here/"])
    run(1)
    assert [each["what"] for each in world.report.examples[7]] == [
        "Problem: /admin/nothing/here/ was answered with 404"
    ] * 2


# -- where it can't run ---------------------------------------------------------------------------------------


def test_it_says_what_is_missing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "playwright.sync_api", None)
        with pytest.raises(NotRun, match=r"pip install 'django-admin-copilot\[redteam\]'"):
            browser.run(world, number=0, calls=1)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    with pytest.raises(NotRun, match=browser.PROGRAM):
        browser.run(world, number=0, calls=1)
    world.actors = find_actors(["auditor"])
    with pytest.raises(NotRun, match="nobody"):
        browser.run(world, number=0, calls=1)
