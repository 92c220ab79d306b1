"""A form page as a browser has it: its inputs, its marks, and saving it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

from django.test import Client

from django_copilot.models import Plan
from django_copilot.testing import Call, ask, script


class _Inputs(HTMLParser):
    """The controls of the page's main form that a browser would send, and one script's JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, list[str]] = {}
        self.raw: dict[str, str] = {}
        self.in_form = False
        self.select: dict[str, Any] | None = None
        self.textarea = ""
        self.script = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "form":
            self.in_form = (given.get("id") or "").endswith("_form") and given.get("id") != "logout-form"
        if tag == "script" and given.get("id"):
            self.script = given["id"]
        if not self.in_form:
            return
        name = given.get("name")
        if tag == "input" and name and "disabled" not in given:
            kind = given.get("type", "text")
            ticked = kind not in ("checkbox", "radio") or "checked" in given
            if ticked and kind not in ("submit", "button", "file"):
                self.data.setdefault(name, []).append(given.get("value", "on" if kind == "checkbox" else ""))
        elif tag == "select" and name:
            self.select = {"name": name, "multiple": "multiple" in given, "first": None, "chosen": []}
        elif tag == "option" and self.select is not None:
            if self.select["first"] is None:
                self.select["first"] = given.get("value", "")
            if "selected" in given:
                self.select["chosen"].append(given.get("value", ""))
        elif tag == "textarea" and name:
            self.textarea = name
            self.data[name] = [""]

    def handle_data(self, data: str) -> None:
        if self.textarea:
            self.data[self.textarea][0] += data
        if self.script:
            self.raw[self.script] = self.raw.get(self.script, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.in_form = False
        elif tag == "textarea" and self.textarea:
            # A browser drops the line break that Django writes first.
            self.data[self.textarea] = [self.data[self.textarea][0].removeprefix("\r\n").removeprefix("\n")]
            self.textarea = ""
        elif tag == "script":
            self.script = ""
        elif tag == "select" and self.select is not None:
            chosen = self.select["chosen"]
            if not chosen and not self.select["multiple"] and self.select["first"] is not None:
                chosen = [self.select["first"]]
            if chosen:
                self.data.setdefault(self.select["name"], []).extend(chosen)
            self.select = None


class Page:
    """One answer of the admin. ``data`` are the form's inputs, ``draft`` what the page's script gets."""

    def __init__(self, client: Client, url: str, response: Any) -> None:
        self.client, self.url, self.response = client, url, response
        self.html = response.content.decode()
        parser = _Inputs()
        parser.feed(self.html)
        self.data = parser.data
        self.draft: dict[str, Any] = json.loads(parser.raw.get("copilot-draft", "{}"))

    @property
    def marked(self) -> dict[str, dict[str, Any]]:
        """Return the marks by field."""
        return {each["name"]: each for each in self.draft.get("fields", ())}

    @property
    def plan(self) -> str | None:
        """Return the plan's id as the form carries it."""
        found = set(self.data.get("_copilot_plan", ()))
        assert len(found) < 2
        return found.pop() if found else None

    @property
    def errors(self) -> dict[str, Any]:
        """Return the form's errors."""
        return dict(self.response.context["adminform"].form.errors)

    def value(self, name: str) -> Any:
        """Return what an input holds: a text, or a list of them if there are several or none."""
        found = self.data.get(name, [])
        return found[0] if len(found) == 1 else found

    def save(self, button: str = "_save", **changed: Any) -> Page:
        """Send the form as a browser would, with some inputs changed by the person."""
        sent = {**self.data, **changed, button: "1"}
        response = self.client.post(self.url, {k: v for k, v in sent.items() if v is not None})
        return Page(self.client, self.url, response)


def propose(client: Client, tool: str, fields: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    """Have the model propose a page, and return the browser action."""
    site = args.pop("site", "forms")
    if fields is not None:
        args["fields"] = fields
    with script(Call(tool, args)):
        answer = ask(client, "Do it", site=site)
    assert "action" in answer, answer
    action: dict[str, Any] = answer["action"]
    return action


def refused(client: Client, tool: str, fields: dict[str, Any], **args: Any) -> str:
    """Have the model propose a page that the server refuses, and return what the model was told."""
    from django_copilot.testing import Text

    site = args.pop("site", "forms")
    with script(Call(tool, {**args, "fields": fields}), Text("I can't.")) as model:
        ask(client, "Do it", site=site)
    return str(model.requests[1].messages[-1].text)


def visit(client: Client, action: dict[str, Any], **more: Any) -> Page:
    """Open the page of a browser action."""
    response = client.get(action["path"], {**action["queryParams"], **more})
    return Page(client, action["path"], response)


def fill(client: Client, tool: str, fields: dict[str, Any], **args: Any) -> Page:
    """Have a form proposed and open it."""
    return visit(client, propose(client, tool, fields, **args))


def plan_of(action_or_page: Any) -> Plan:
    """Return the stored plan of an action or a page, as it is now."""
    given = action_or_page
    key = given.plan if isinstance(given, Page) else given["queryParams"]["aiPlan"]
    return Plan.objects.get(pk=key)
