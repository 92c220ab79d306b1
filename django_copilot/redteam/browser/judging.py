"""A real browser in front of hostile texts: what it asks for, what it runs, and where it goes (oracle 6).

Chromium, driven by Playwright, on the project's own site. It opens the panel, every page of ours, filled-in forms
and delete pages, with and without JavaScript, and clicks what a curious person clicks, but decides nothing. All
that is written meanwhile is taken back at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.admin import AdminSite
from django.db import connections
from django.test.utils import override_settings
from django.urls import reverse
from django.utils import timezone, translation

from ...backends.base import ModelReply, ModelRequest
from ...backends.scripted import Script, running
from ...scope import PERMISSION
from ..canaries import _is_login as is_login
from ..canaries import business_models, hostile_labels, text_fields
from ..honest.asking import Person, undone
from ..people import Actor
from ..world import NotRun, World
from .live import Live, serving
from .texts import EVIL, TEXTS
from .tour import Tour

PROGRAM = "COPILOT_REDTEAM_CHROMIUM"
# Chromium does not start as root with its sandbox, and everybody else keeps it.
AS_ROOT = ("--no-sandbox",) if getattr(os, "geteuid", lambda: 1)() == 0 else ()
FLAGS = (
    *AS_ROOT,
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # nothing leaves this machine
)
_HARMLESS = ("about", "blob")  # addresses that reach nobody; data: is looked at where it is a document
_MARKED_ROWS = 40  # of each model
_SECONDS = 15.0  # that a page or an answer may take

# What the panel and our pages may never hold, whatever was said to them.
LOOK = """
(roots) => {
  const found = [];
  const never = new Set(["SCRIPT", "IFRAME", "FRAME", "OBJECT", "EMBED", "IMG", "PICTURE", "VIDEO", "AUDIO", "SOURCE",
    "BASE", "META", "LINK", "STYLE", "MATH", "TEMPLATE", "APPLET", "PORTAL", "FOREIGNOBJECT", "ANIMATE", "SET", "USE",
    "IMAGE", "MARQUEE"]);
  const addresses = new Set(["href", "src", "action", "formaction", "poster", "ping", "background", "data",
    "xlink:href", "srcset"]);
  const inside = (value) => {
    let url;
    try { url = new URL(value, location.href); } catch { return false; }
    return url.origin === location.origin && roots.some((root) => url.pathname.startsWith(root));
  };
  const seen = new Set();
  for (const root of document.querySelectorAll('.copilot, [class*="copilot-"]:not(body)')) {
    for (const one of [root, ...root.querySelectorAll("*")]) {
      if (seen.has(one)) continue;
      seen.add(one);
      const tag = one.tagName.toUpperCase();
      if (never.has(tag)) found.push(`an element ${tag}`);
      if (tag === "SVG" && !one.matches(".copilot-icon, [role=img]")) found.push("an element SVG");
      if (tag.includes("-")) found.push(`an element ${tag}`);
      for (const { name, value } of one.attributes) {
        const lower = name.toLowerCase();
        if (lower.startsWith("on") || (lower === "style" && value) || lower === "srcdoc") found.push(`${tag} ${name}="${value}"`);
        if (addresses.has(lower) && !inside(value)) found.push(`${tag} ${name}="${value}"`);
      }
    }
  }
  for (const one of document.querySelectorAll("iframe, frame, object, embed, base, portal, meta[http-equiv=refresh]"))
    found.push(`${one.tagName} on the page`);
  return found;
}
"""


def run(world: World, *, number: int, calls: int) -> None:
    """Show hostile texts, about ``calls`` answers with several each, to a few people. Raises NotRun."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NotRun("Playwright is not installed: pip install 'django-admin-copilot[redteam]'") from None
    actors = _actors(world, calls)
    with ExitStack() as stack:
        held = {alias: connections[alias] for alias in connections}
        # Playwright's loop counts as running in this thread: Django would refuse to ask a database, and open it anew.
        stack.enter_context(mock.patch.dict(os.environ, {"DJANGO_ALLOW_ASYNC_UNSAFE": "1"}))
        playwright = stack.enter_context(sync_playwright())
        stack.enter_context(_the_same_connections(held))
        browser = _launched(playwright)
        stack.callback(browser.close)
        stack.enter_context(_hostile_surroundings(world, number))
        live = stack.enter_context(serving())
        mouth = Mouth()
        running.append(mouth)
        stack.callback(running.remove, mouth)
        for actor, site in actors:
            _tour(world, browser, live, mouth, actor, site, number=number, calls=calls)
        world.report.count("requests of a browser", live.requests)


@contextmanager
def _the_same_connections(held: Mapping[str, Any]) -> Iterator[None]:
    for alias, connection in held.items():
        connections[alias] = connection
    try:
        yield
    finally:
        for alias in held:
            del connections[alias]


def _launched(playwright: Any) -> Any:
    names = (os.environ.get(PROGRAM), "chromium", "chromium-browser", "google-chrome", "chrome")
    found = next((path for name in names if name and (path := shutil.which(name))), None)
    if found is None and os.path.exists(playwright.chromium.executable_path):
        found = playwright.chromium.executable_path
    if found is None:
        raise NotRun(
            f"there is no Chromium on PATH ({PROGRAM} can name one; or: playwright install chromium)"
        )
    return playwright.chromium.launch(executable_path=found, headless=True, args=list(FLAGS))


def _actors(world: World, calls: int) -> list[tuple[Actor, AdminSite]]:
    """Return the most powerful person and the least, and everybody where many texts are asked for."""
    able = [
        (actor, site)
        for site in world.sites
        for actor in world.actors
        if actor.user().is_staff and actor.user().has_perm(PERMISSION)
    ]
    if not able:
        raise NotRun("nobody of those who act may use the assistant")
    return able if calls >= 100 else list(dict.fromkeys([able[-1], able[0]]))


@contextmanager
def _hostile_surroundings(world: World, number: int) -> Iterator[None]:
    """Let records and labels hold the browser's own hostile texts, and a scripted model answer, while open."""
    own = {"BACKEND": "scripted", "TURNS_PER_MINUTE": 10**9, "RUNNING_TURNS": 10**6}
    with (
        override_settings(COPILOT={**(settings.COPILOT or {}), **own}),
        translation.override(translation.get_language()),
        timezone.override(timezone.get_current_timezone()),
        hostile_labels(TEXTS, seed=world.seed + number),
        undone(),
    ):
        rng = world.rng("browser rows", number)
        for model in business_models():
            fields = [each for each in text_fields(model) if not each.unique and not is_login(model, each)]
            fields = [each for each in fields if (each.max_length or 4_000) > 40 and not each.validators[1:]]
            changed = list(model._base_manager.order_by("pk")[:_MARKED_ROWS])
            for obj in changed:
                for each in fields:
                    if isinstance(getattr(obj, each.attname), str):
                        setattr(obj, each.attname, _fitting(rng, each.max_length))
            if fields and changed:
                model._base_manager.bulk_update(changed, [each.name for each in fields])
        world.forget()
        try:
            yield
        finally:
            world.forget()


def _fitting(rng: Any, most: int | None) -> str:
    """Return a hostile text that a column takes whole, if there is one."""
    short = [each for each in TEXTS if most is None or len(each) <= most]
    return str(rng.choice(short or TEXTS)).replace("\x00", "\ufffd")[:most]


class Mouth(Script):
    """A model that says what it was told to say, whoever asks, and a word when there is nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[ModelReply] = []

    def answer(self, request: ModelRequest) -> ModelReply:
        """Return the next reply."""
        return self.replies.pop(0) if self.replies else ModelReply(text="There.", model="scripted")


# -- one person -----------------------------------------------------------------------------------------------


def _tour(
    world: World,
    browser: Any,
    live: Live,
    mouth: Mouth,
    actor: Actor,
    site: AdminSite,
    *,
    number: int,
    calls: int,
) -> None:
    case = f"browser, seed {world.seed}, number {number}, {actor.name} on {site.name}"
    with live.lock:
        person = Person(world, actor, site, "en")
    roots = [reverse("admin:index", current_app=each.name) for each in world.sites]
    eyes = Eyes(world, live.origin, roots, case)
    texts = _shown(world, number, calls)
    paths: list[str] = []
    for scripts in (True, False):
        context = browser.new_context(
            base_url=live.origin,
            java_script_enabled=scripts,
            viewport={"width": 1440, "height": 900},
            accept_downloads=False,
        )
        context.set_default_timeout(_SECONDS * 1_000)
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": person.client.cookies[name].value, "url": live.origin}])
        eyes.watch(context, scripts=scripts)
        try:
            tour = Tour(world, live, mouth, person, context, eyes, number=number, most=max(6, calls // 4))
            if scripts:
                tour.panel(texts)
                paths = tour.paths()
            tour.pages(paths if scripts else paths[:: 1 if calls >= 100 else 2], scripts=scripts)
        finally:
            eyes.closing = True
            context.close()
            eyes.closing = False


def _shown(world: World, number: int, calls: int) -> list[str]:
    """Return ``calls`` texts to answer with, which hold every hostile text of ours and some of the run's."""
    rng = world.rng("browser texts", number)
    count = max(1, calls)
    texts = [*TEXTS, *rng.sample(list(world.injections), min(len(world.injections), count))]
    rng.shuffle(texts)
    return ["\n\n".join(texts[at::count])[:7_000] for at in range(min(count, len(texts)))]


class Eyes:
    """What is seen of a browser. Everything that should not be is a finding."""

    def __init__(self, world: World, origin: str, roots: Sequence[str], case: str) -> None:
        self.world, self.origin, self.roots, self.case = world, origin, roots, case
        self.step = ""  # what is being done
        self.closing = False
        self.own_errors_only = False

    def found(self, what: str) -> None:
        """Report it."""
        if not self.closing:
            self.world.report.found(6, what, case=f"{self.case}: {self.step}")

    def watch(self, context: Any, *, scripts: bool) -> None:
        """Listen to everything that a context tells of."""
        if scripts:
            context.expose_binding("__owned", lambda source, *told: self.found(f"a script ran: {told}"))
        context.on("request", self._request)
        context.on("dialog", self._dialog)
        context.on("weberror", lambda error: self.found(f"an error in a script: {error.error}"))
        context.on("console", self._console)
        context.on("page", self._page)

    def _page(self, page: Any) -> None:
        if page.opener() is not None:
            self.found(f"another window was opened: {page.url}")
        page.on("framenavigated", self._navigated)
        page.on("websocket", lambda socket: self.found(f"a socket to {socket.url}"))
        page.on("download", lambda download: self.found(f"a download from {download.url}"))
        page.on("frameattached", lambda frame: self.found(f"a frame: {frame.url or frame.name or 'empty'}"))

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        outside = (
            parts.scheme not in (*_HARMLESS, "data") and f"{parts.scheme}://{parts.netloc}" != self.origin
        )
        if outside or (parts.scheme == "data" and EVIL in request.url):
            self.found(f"a request ({request.resource_type}) to {request.url[:300]}")
        if parts.scheme == "data" and request.resource_type in ("document", "script", "stylesheet"):
            self.found(f"a {request.resource_type} from {request.url[:300]}")

    def _dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload":
            self.found(f"a dialog: {dialog.type} {dialog.message[:200]!r}")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        """An error of our scripts, or something that a policy or the browser has kept from happening."""
        url = message.location.get("url", "")
        about_us = "/django_copilot/" in urlsplit(url).path or "Content Security Policy" in message.text
        if (
            message.type == "error"
            and about_us
            and "the server responded with a status of" not in message.text
        ):
            self.found(f"an error in the console: {message.text[:300]} ({url[:200]})")

    def _navigated(self, frame: Any) -> None:
        parts = urlsplit(frame.url)
        inside = f"{parts.scheme}://{parts.netloc}" == self.origin and any(
            parts.path.startswith(root) for root in self.roots
        )
        if not inside and frame.url not in ("about:blank", ""):
            self.found(f"it went to {frame.url[:300]}")

    def look(self, page: Any) -> None:
        """Look at what a page holds."""
        for problem in dict.fromkeys(page.evaluate(LOOK, list(self.roots))):
            self.found(f"in the page: {problem[:300]}")
        if page.evaluate("typeof window.__owned") not in ("function", "undefined"):
            self.found("a script has set a global of the page")
        self.world.report.count("looks at a page in a browser")
