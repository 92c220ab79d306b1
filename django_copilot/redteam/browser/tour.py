"""What a curious person does in a browser: reads answers, opens every page of ours, and clicks all that decides nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db import models
from django.forms import MultiValueField
from django.urls import NoReverseMatch, reverse

from ...backends.base import ModelReply, ToolCall
from ...declaration import entities_of, model_field
from ...models import AuditEntry, Conversation, Plan
from ..honest.asking import Person, Problem, expect
from ..honest.sentences import form_of
from ..world import World
from .live import Live
from .texts import TEXTS

if TYPE_CHECKING:
    from .judging import Eyes, Mouth

_CLICKS = 8  # on one page
_RECORDS = 1  # of each entity whose pages are opened
_TRIED = 3  # calls of each write tool until one gives a plan
_LINKS = 3  # that are followed on one page
_FORMS = 6  # filled-in forms and delete pages
# What decides something or leaves is left alone; so are the admin's own buttons.
_BUTTONS = (
    ".copilot-log button:not(.copilot-plan button):not([type=submit]), .copilot-log summary, .copilot-mark button, "
    ".copilot-page summary"
)


class Tour:
    """One person's way through the site in one browser context."""

    def __init__(
        self,
        world: World,
        live: Live,
        mouth: Mouth,
        person: Person,
        context: Any,
        eyes: Eyes,
        *,
        number: int,
        most: int = _FORMS,
    ) -> None:
        self.most = most
        self.world, self.live, self.mouth, self.person = world, live, mouth, person
        self.context, self.eyes = context, eyes
        self.site, self.actor = person.site, person.actor
        self.rng = world.rng(f"browser/{person.actor.name}", number)
        self.page = context.new_page()

    def _address(self, name: str, *args: Any) -> str:
        return reverse(f"admin:{name}", args=args, current_app=self.site.name)

    def _try(self, what: str, do: Callable[[], None]) -> None:
        """Do something and look at the page afterwards; what breaks on the way is a finding, too."""
        self.eyes.step = what
        try:
            do()
            self.page.wait_for_timeout(30)  # hand out the events that wait
            self.eyes.look(self.page)
        except Exception as error:  # Playwright's errors are known only where it is installed
            self.world.report.found(
                7, f"{type(error).__name__}: {str(error)[:400]}", case=f"{self.eyes.case}: {what}"
            )

    # -- the panel --------------------------------------------------------------------------------------

    def panel(self, texts: Sequence[str]) -> None:
        """Read hostile answers, tables, questions and plans in the panel, as they come and as they are kept."""
        self._try("the index", lambda: self._go(self._address("index")))
        self._try("the panel is opened", self._open)
        for at, text in enumerate(texts):
            reply = ModelReply(text=text.replace("\x00", "\ufffd"), model="scripted")
            self._try(
                f"an answer: {text[:60]!r}",
                partial(self._say, TEXTS[at % len(TEXTS)], reply),
            )
            self.world.report.count("hostile answers in a browser")
        self._try("a click on what answers hold", self._click)
        for name in entities_of(self.site):
            table = self._call(f"query_{name}", {"limit": 50})
            self._try(f"a table of {name}", partial(self._say, "Show them", table))
        self._try("a question", lambda: self._say("Ask me", self._question()))
        for call in self._plans():
            self._try(f"the card of {call.calls[0].name}", partial(self._say, "Do it", call))
        self._try("links and buttons of the log", self._click)
        self._try("the panel after another page", self._again)
        self._try("the list of conversations", self._conversations)

    def _go(self, path: str) -> None:
        response = self.page.goto(path, wait_until="load")
        expect(
            response is not None and response.status < 400,
            f"{path} was answered with {response and response.status}",
        )
        self.world.report.count("pages in a browser")

    def _open(self) -> None:
        toggle = self.page.locator(".copilot-toggle")
        if toggle.get_attribute("aria-expanded") != "true":
            toggle.click()
        self.page.locator("#copilot-panel textarea").wait_for(state="visible")
        self.page.locator(".copilot-log[aria-busy=false]").wait_for(state="attached")

    def _say(self, message: str, reply: ModelReply) -> None:
        self.mouth.replies = [reply]
        answers = self.page.locator(".copilot-message-assistant")
        before = answers.count()
        box = self.page.locator("#copilot-panel textarea")
        box.fill(message.replace("\x00", "\ufffd"))
        box.press("Enter")
        answers.nth(before).wait_for(state="attached")
        self.page.locator(".copilot-log[aria-busy=false]").wait_for(state="attached")

    def _again(self) -> None:
        self._go(self._address("index"))
        self._open()

    def _conversations(self) -> None:
        self.page.locator(".copilot-bar button[aria-expanded]").click()
        self.page.locator(".copilot-open").first.wait_for(state="visible")
        self.eyes.look(self.page)
        self.page.locator(".copilot-open").first.click()
        self.page.locator(".copilot-message").first.wait_for(state="visible")

    def _click(self) -> None:
        """Click each kind of link and button that decides nothing, and come back."""
        here = self.page.url
        hrefs = self.page.locator(".copilot-log a, .copilot-page a").evaluate_all(
            "links => links.map(link => link.getAttribute('href'))"
        )
        hrefs = list(dict.fromkeys(hrefs))
        for href in self.rng.sample(hrefs, min(len(hrefs), _LINKS)):
            link = self.page.locator(
                f".copilot-log a[href={json.dumps(href)}], .copilot-page a[href={json.dumps(href)}]"
            )
            if link.first.is_visible():
                link.first.click()
                self.page.wait_for_load_state("load")
                self.eyes.look(self.page)
                self._go(here)
                if self.page.locator(".copilot-toggle").count():
                    self._open()
        buttons = self.page.locator(_BUTTONS)
        for at in range(min(buttons.count(), _CLICKS)):
            if buttons.nth(at).is_visible() and buttons.nth(at).is_enabled():
                buttons.nth(at).click()
                self.page.wait_for_timeout(20)

    # -- what a model calls -----------------------------------------------------------------------------

    def _call(self, tool: str, arguments: dict[str, Any]) -> ModelReply:
        return ModelReply(
            calls=(ToolCall(id="1", name=tool, arguments=json.dumps(arguments)),), model="scripted"
        )

    def _question(self) -> ModelReply:
        options = [text[:190] for text in self.rng.sample(TEXTS, 8)]
        text = self.rng.choice(TEXTS)[:400]
        return self._call("ask_user", {"text": text, "kind": "multiple", "options": _clean(options)})

    def _plans(self) -> list[ModelReply]:
        """Return calls of the project's write tools that give this person a plan, with hostile words where they fit."""
        given: Any = getattr(self.world.project, "calls", None)
        with self.live.lock:
            calls = list(given()) if given is not None else []
        made = []
        for tool in dict.fromkeys(name for name, _arguments in calls):
            tried = [dict(arguments) for name, arguments in calls if name == tool]
            for arguments in self.rng.sample(tried, min(_TRIED, len(tried))):
                if self._gives_a_plan(tool, arguments):
                    made.append(self._call(tool, self._with_hostile_words(tool, arguments)))
                    break
        return made

    def _with_hostile_words(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with a hostile text in each place where there is still a plan."""
        fits = _clean([text for text in TEXTS if len(text) <= 90])
        for name, value in list(arguments.items()):
            hostile = {**arguments, name: self.rng.choice(fits)}
            if isinstance(value, str) and self._gives_a_plan(tool, hostile):
                arguments = hostile
        return arguments

    def _gives_a_plan(self, tool: str, arguments: Any) -> bool:
        self.mouth.replies = [self._call(tool, dict(arguments))]
        return bool(self._asked().get("plan"))

    def _asked(self) -> dict[str, Any]:
        """Send a message outside of the browser and return the answer, {} where there was no good one."""
        self.person.case = f"{self.eyes.case}: {self.eyes.step}"
        with self.live.lock:
            try:
                return self.person.say("Do it")
            except Problem:
                return {}
            finally:
                self.mouth.replies = []

    # -- pages ------------------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """Return the addresses of every page that shows something hostile: our own, filled-in forms, delete pages."""
        forms, own = self._forms(), self._own()
        found = [*self.rng.sample(forms, min(len(forms), self.most)), *own]
        self.world.report.count("hostile pages", len(found))
        return found

    def _own(self) -> list[str]:
        with self.live.lock:
            user = self.actor.user()
            talks = list(
                Conversation.objects.filter(user=user, site=self.site.name).order_by("-created_at")[:1]
            )
            plans = [
                plan
                for kind in ("tool", "form", "delete")
                for plan in Plan.objects.filter(user=user, site=self.site.name, kind=kind).order_by(
                    "-created_at"
                )[:2]
            ]
            entries = list(AuditEntry.objects.order_by("-number")[:2])
            audits = user.has_perm("django_copilot.view_audit")
        named: list[tuple[Any, ...]] = [
            ("index",),
            ("django_copilot_conversation_changelist",),
            *(("django_copilot_conversation_detail", each.pk) for each in talks),
            ("django_copilot_plan_changelist",),
            *(("django_copilot_plan_detail", each.pk) for each in plans),
        ]
        if audits:
            named += [("django_copilot_auditentry_changelist",)]
            named += [("django_copilot_auditentry_change", each.pk) for each in entries]
        if user.has_perm("django_copilot.view_metrics"):
            named += [("django_copilot_metrics",)]
        found = []
        for name, *args in named:
            try:
                found.append(self._address(name, *args))
            except NoReverseMatch:
                continue
        return found

    def _forms(self) -> list[str]:
        """Have a filled-in add form, change form and delete page of each entity proposed, as far as she may."""
        found = []
        for name, entity in entities_of(self.site).items():
            with self.live.lock, self.world.rights(self.actor, self.site) as rights:
                rows = list(rights.rows(entity.model).values())
                chosen = self.rng.sample(rows, min(len(rows), _RECORDS))
                forms = [(obj, self._values(rights, entity.model, obj)) for obj in (None, *chosen)]
            for obj, values in forms:
                if values:
                    ident = {"id": str(obj.pk)} if obj is not None else {}
                    self.mouth.replies = [self._call(f"open_{name}_form", {**ident, "fields": values})]
                    found.append(self._asked().get("action"))
            for obj in chosen:
                self.mouth.replies = [self._call(f"confirm_delete_{name}", {"id": str(obj.pk)})]
                found.append(self._asked().get("action"))
        return [_url(action) for action in found if action]

    def _values(self, rights: Any, model: Any, obj: Any) -> dict[str, Any]:
        """Return a hostile text for each text of a form that takes one."""
        each = rights.declared[model]
        instance = copy.copy(obj) if obj is not None else None
        form = form_of(rights, model, obj)(instance=instance)
        values: dict[str, Any] = {}
        for name in each.get_harness_persist(rights.request, obj):
            field, shown = model_field(model, name), form.fields.get(name)
            if (
                shown is None
                or shown.disabled
                or field is None
                or field.remote_field is not None
                or field.choices
            ):
                continue
            if isinstance(field, models.JSONField):
                values[name] = {"x": _clean([self.rng.choice(TEXTS)])[0]}
            elif isinstance(field, models.CharField | models.TextField) and not isinstance(
                shown, MultiValueField
            ):
                text = self._taken(shown, field.max_length)
                if text:
                    values[name] = text
        return values

    def _taken(self, shown: Any, most: int | None) -> str:
        for text in self.rng.sample(TEXTS, len(TEXTS)):
            cleaned = _clean([text])[0].replace("\n", " ")
            if most is None or len(cleaned) <= most:
                try:
                    shown.clean(cleaned)
                except Exception:  # noqa: S112  # the project's own field refuses it: the next one
                    continue
                return cleaned
        return ""

    def pages(self, paths: Sequence[str], *, scripts: bool) -> None:
        """Open pages, look at them, and click."""
        for path in paths:
            self._try(f"{path[:80]} {'with' if scripts else 'without'} scripts", partial(self._go, path))
            if scripts:
                self._try(f"clicks on {path[:80]}", self._marks)

    def _marks(self) -> None:
        marks = self.page.locator(".copilot-mark button, .copilot-page summary")
        for at in range(min(marks.count(), _CLICKS)):
            if marks.nth(at).is_visible():
                marks.nth(at).click()


def _clean(texts: Sequence[str]) -> list[str]:
    return [
        text.replace("\x00", "\ufffd").replace("\x01", "").replace("\x1b", "").replace("\x07", "")
        for text in texts
    ]


def _url(action: Any) -> str:
    query = {
        name: json.dumps(value) if isinstance(value, dict | list) else value
        for name, value in action["queryParams"].items()
    }
    return f"{action['path']}?{urlencode(query)}"
