"""The form of an admin page as a browser sends it: every control that it would send, with what it holds."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.http import QueryDict

_ONE_LINE = ("text", "email", "url", "search", "tel", "number", "password")
_NOT_SENT = ("submit", "button", "image", "reset", "file")


class _Controls(HTMLParser):
    """The controls of the page's main form: the admin's has an id that ends in ``_form``, a delete page's has none."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, list[str]] = {}
        self._in_form = False
        self._select: dict[str, Any] | None = None
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name = given.get("name", "")
        if tag == "form":
            ident = given.get("id", "")
            self._in_form = given.get("method", "").lower() == "post" and (
                not ident or (ident.endswith("_form") and ident != "logout-form")
            )
        elif tag == "option" and self._select is not None:
            self._select["first"] = self._select["first"] or [given.get("value", "")]
            if "selected" in given:
                self._select["chosen"].append(given.get("value", ""))
        elif not self._in_form or not name or "disabled" in given:
            return
        elif tag == "input":
            self._input(name, given.get("type", "text"), given)
        elif tag == "select":
            self._select = {"name": name, "multiple": "multiple" in given, "first": [], "chosen": []}
        elif tag == "textarea":
            self._area = name
            self.sent.setdefault(name, []).append("")

    def _input(self, name: str, kind: str, given: dict[str, str]) -> None:
        if kind in _NOT_SENT or (kind in ("checkbox", "radio") and "checked" not in given):
            return
        value = given.get("value", "on" if kind in ("checkbox", "radio") else "")
        if kind in _ONE_LINE:  # a browser holds no line break there
            value = value.replace("\r", "").replace("\n", "")
        self.sent.setdefault(name, []).append(value)

    def handle_data(self, data: str) -> None:
        if self._area:
            self.sent[self._area][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._in_form = False
        elif tag == "textarea" and self._area:
            held = self.sent[self._area]
            text = held[-1].replace("\r\n", "\n").replace("\r", "\n")
            # A browser drops the line break that the server writes first, and sends the others as two characters.
            held[-1] = text.removeprefix("\n").replace("\n", "\r\n")
            self._area = ""
        elif tag == "select" and self._select is not None:
            chosen = self._select["chosen"]
            if not chosen and not self._select["multiple"]:
                chosen = self._select["first"]
            if chosen:
                self.sent.setdefault(self._select["name"], []).extend(chosen)
            self._select = None


def controls(html: str) -> dict[str, list[str]]:
    """Return what the main form of a page would send, without its buttons."""
    parser = _Controls()
    parser.feed(html)
    return parser.sent


def as_posted(sent: dict[str, list[str]]) -> QueryDict:
    """Return what a form gets as its data when that is sent."""
    data = QueryDict(mutable=True)
    for name, values in sent.items():
        data.setlist(name, values)
    return data
