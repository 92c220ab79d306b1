"""``page``: what the panel adds to an admin page.

The index, a list and a change page of generated models, against the same pages of plain ModelAdmins, for a
person with rights on all of them. The panel's own work is counted where it is done, in its template tag: as
CPU time, and as the number of Python calls, which is the same on every run. What the modules in
APART call is left out: ``re`` forgets patterns when many others were used since, as the admin's own addresses
are, and ``random`` draws again when a number is too large.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from typing import Any

from .report import Bound, Effort, Figures, median, run_child, say, scratch, whole

BYTES = 1536
APART = (re.__file__, random.__file__)


def measure(effort: Effort) -> Figures:
    """Measure the pages with few and with many models, declared and plain."""
    told: dict[tuple[int, bool], dict[str, dict[str, Any]]] = {}
    with scratch() as folder:
        for entities in effort.entities:
            for plain in (False, True):
                told[entities, plain] = run_child(
                    "bench.page",
                    settings="bench.settings_generated",
                    database=folder / f"{entities}-{plain}.sqlite3",
                    models=entities,
                    entities=0 if plain else entities,
                    repeats=effort.repeats,
                )
            say(f"  {entities} models")
    results: dict[str, Any] = {}
    for entities in effort.entities:
        with_panel, without = told[entities, False], told[entities, True]
        results[f"{entities} models"] = {
            page: {
                "bytes_added": each["bytes"] - without[page]["bytes"],
                "queries_added": each["queries"] - without[page]["queries"],
                "panel_calls": each["panel_calls"],
                "panel_cpu_ms": each["panel_cpu_ms"],
                "page_cpu_ms": each["page_cpu_ms"],
                "page_cpu_ms_without": without[page]["page_cpu_ms"],
            }
            for page, each in with_panel.items()
        }
    few, many = (results[f"{entities} models"] for entities in effort.entities)
    pages = [*few.values(), *many.values()]
    return Figures(
        name="page",
        results=results,
        bounds=(
            Bound(
                what="bytes of HTML that the panel adds to a page",
                value=max(each["bytes_added"] for each in pages),
                limit=BYTES,
            ),
            Bound(
                what="queries that the panel adds to a page",
                value=max(each["queries_added"] for each in pages),
                limit=0,
            ),
            Bound(
                what=f"Python calls of the panel at {effort.entities[1]} models beyond those at "
                f"{effort.entities[0]}",
                value=max(many[page]["panel_calls"] - few[page]["panel_calls"] for page in few),
                limit=0,
            ),
        ),
    )


class _Tag:
    """The panel's template tag, with the cost of each rendering."""

    def __init__(self, tag: Any) -> None:
        self.tag = tag
        self.seconds = 0.0
        self.calls = 0
        self.counting = False
        self.apart: Any = None  # the frame under which nothing is counted
        self.rendered = ""

    def __call__(self, context: Any) -> Any:
        """Render, and note CPU time or, when counting, Python calls."""
        self.calls = 0
        if self.counting:
            sys.setprofile(self._note)
        begun = time.process_time()
        try:
            self.rendered = self.tag(context)
        finally:
            self.seconds = time.process_time() - begun
            sys.setprofile(None)
        return self.rendered

    def _note(self, frame: Any, event: str, arg: Any) -> None:
        if self.apart is None and event == "call":
            self.calls += 1
            if frame.f_code.co_filename in APART:
                self.apart = frame
        elif frame is self.apart and event == "return":
            self.apart = None


def _watch() -> _Tag:
    """Put a watch around the panel's tag wherever a template is compiled from now on."""
    from django_copilot.templatetags import django_copilot as tags

    watch = _Tag(tags.copilot_panel)
    tags.register.simple_tag(lambda context: watch(context), takes_context=True, name="copilot_panel")
    return watch


def child() -> None:
    """Ask for each page and print its figures."""
    from bench.generated.world import build

    person = build()
    watch = _watch()
    from bench.generated.models import MADE
    from bench.serving import client_of

    client, worker = client_of(person)
    name = MADE[1]._meta.model_name
    pages = {
        "index": "/admin/",
        "list": f"/admin/generated/{name}/",
        "change": f"/admin/generated/{name}/{MADE[1].objects.first().pk}/change/",
    }
    figures = {}
    declared = whole("entities") > 0
    for page, path in pages.items():
        client.get(path)
        watch.counting, watch.rendered = True, ""
        answer = client.get(path)
        assert answer.status_code == 200, (page, answer.status_code)
        assert ("data-copilot" in watch.rendered) == declared, page
        assert (b"data-copilot" in answer.content) == declared, page
        size, queries, calls = len(answer.content), len(worker.statements), [watch.calls]
        for _ in range(4):  # the collector of garbage calls back now and then
            client.get(path)
            calls.append(watch.calls)
        watch.counting = False
        panel, whole_page = [], []
        for _ in range(whole("repeats")):
            client.get(path)
            panel.append(watch.seconds * 1000)
            whole_page.append(worker.cpu_seconds * 1000)
        figures[page] = {
            "bytes": size,
            "queries": queries,
            "panel_calls": min(calls),
            "panel_cpu_ms": median(panel, 3),
            "page_cpu_ms": median(whole_page),
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    child()
