"""The page with the figures: who may see it, its table and charts, and the same as JSON."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory, override_settings
from django.utils import translation

from django_copilot import metrics
from django_copilot.api.metrics import MetricsView, duration_text
from django_copilot.models import PlanKind
from django_copilot.scope import Scope
from django_copilot.testing import copilot_client
from django_copilot.tools.write import all_tools

from ..plans.tools import JSON, impersonated, staff
from .plans import S, plan

URL = "/admin/django_copilot/metrics/"
LABEL = str(all_tools()["refund_payment"].title)


@pytest.fixture
def viewer(db: None) -> Client:
    """Return the client of somebody who may see the figures and nothing else."""
    return copilot_client(staff("watcher", "django_copilot.view_metrics"))


def content(client: Client, query: str = "", **options: Any) -> str:
    """Return the page's own part."""
    text = client.get(URL + query, **options).content.decode()
    return text.partition('id="content-main"')[2].partition("<footer")[0]


class Cells(HTMLParser):
    """Collect the text of the cells of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data


def table(text: str) -> list[list[str]]:
    cells = Cells()
    cells.feed(text)
    return cells.rows[1:]


def some_plans() -> None:
    for seconds in (30, 200, 4_000):
        plan(seconds=seconds)
    plan(S.REJECTED)
    plan(S.PROPOSED)
    plan(kind=PlanKind.FORM, tool="", seconds=12)
    plan(S.UNCERTAIN, tool="gone_since")


def test_the_table_has_a_row_for_each_tool(viewer: Client) -> None:
    some_plans()
    rows = table(content(viewer))
    assert rows == [
        [LABEL, "5", "3 min 20 s", "1 h 6 min", "4", "25.0%", "0.0%", "0.0%", "0.0%", "0"],
        ["Form", "1", "12 s", "12 s", "1", "0.0%", "0.0%", "0.0%", "0.0%", "0"],
        ["gone_since", "1", "–", "–", "0", "–", "–", "–", "–", "1"],
    ]


def test_the_same_as_json(viewer: Client) -> None:
    some_plans()
    answer = viewer.get(URL, headers=JSON).json()
    assert answer["period"] == "30"
    assert answer["tools"][0] == {
        "kind": "tool",
        "tool": "refund_payment",
        "label": LABEL,
        "plans": 5,
        "decided": 4,
        "uncertain": 0,
        "rejected": 1,
        "expired": 0,
        "stale": 0,
        "undone": 0,
        "shares": {"rejected": 0.25, "expired": 0.0, "stale": 0.0, "undone": 0.0},
        "seconds": {"median": 200.0, "p90": 4000.0, "of": 3, "cut": False},
    }
    assert [each["label"] for each in answer["tools"]] == [LABEL, "Form", "gone_since"]
    assert answer["tools"][2]["shares"] == {"rejected": None, "expired": None, "stale": None, "undone": None}


@pytest.mark.parametrize(
    ("query", "period", "number"),
    [
        ("", "30", 2),
        ("?period=7", "7", 1),
        ("?period=30", "30", 2),
        ("?period=90", "90", 3),
        ("?period=all", "all", 4),
        ("?period=1e400", "30", 2),
        ("?period=", "30", 2),
        ("?period=7&period=all", "all", 4),
    ],
)
def test_the_period_is_chosen_by_a_link(viewer: Client, query: str, period: str, number: int) -> None:
    for age in (1, 20, 80, 800):
        plan(age=age)
    answer = viewer.get(URL + query, headers=JSON).json()
    assert (answer["period"], answer["tools"][0]["plans"]) == (period, number)
    text = content(viewer, query)
    assert sorted(re.findall(r'href="\?period=(\w+)"', text)) == sorted({"7", "30", "90", "all"} - {period})
    assert text.count('aria-current="true"') == 1


def test_without_plans_there_is_a_sentence_and_no_chart(viewer: Client) -> None:
    text = content(viewer)
    assert "No plans were made in this period." in text
    assert "<svg" not in text
    assert viewer.get(URL, headers=JSON).json()["tools"] == []


@pytest.mark.parametrize("more", [(), ("django_copilot.use_copilot",)])
def test_the_page_brings_its_style_also_without_the_panel(db: None, more: tuple[str, ...]) -> None:
    """Without it the table makes the whole page too wide for a phone."""
    watcher = staff("watcher", "django_copilot.view_metrics", *more)
    head = copilot_client(watcher).get(URL).content.decode().partition("</head>")[0]
    assert re.findall(r'<link rel="stylesheet" href="([^"]*copilot\.css)"', head)


def test_the_style_carries_the_nonce_of_the_page(viewer: Client, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.with_nonce"]
    page = viewer.get(URL).content.decode()
    assert '<link rel="stylesheet" nonce="n&lt;once" href="' in page


def with_nonce(get_response: Any) -> Any:
    """Put a nonce on each request, as django-csp does."""

    def middleware(request: Any) -> Any:
        request.csp_nonce = "n<once"
        return get_response(request)

    return middleware


# -- charts ----------------------------------------------------------------------------------------------


def test_the_charts_show_what_the_table_does(viewer: Client) -> None:
    some_plans()
    page = viewer.get(URL)
    times, shares = page.context["charts"]
    assert [(each.text, each.width, each.value) for each in times.lines[:3]] == [
        (LABEL, "", ""),
        ("median", "1.70%", "3 min 20 s"),
        ("90th percentile", "34.00%", "1 h 6 min"),
    ]
    assert [(each.text, each.width, each.value) for each in shares.lines[:3]] == [
        (LABEL, "", ""),
        ("rejected", "8.50%", "25.0%"),
        ("expired", "0.00%", "0.0%"),
    ]
    assert "gone_since" not in [each.text for each in (*times.lines, *shares.lines)]  # nothing to draw


def test_charts_run_under_a_strict_policy_and_have_a_text(viewer: Client) -> None:
    some_plans()
    text = content(viewer)
    drawings = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(drawings) == 2
    for each in drawings:
        assert re.findall(r"\sstyle=|\son\w+=|<script|<style|href=|#[0-9a-f]{3}", each) == []
        (label,) = re.findall(r'role="img" aria-labelledby="([\w-]+)"', each)
        assert f'<title id="{label}">' in each
        assert 'fill="currentColor"' in each


@pytest.mark.parametrize("language", ["pl", "ru", "en"])
def test_numbers_of_the_drawing_have_a_point_in_every_language(viewer: Client, language: str) -> None:
    some_plans()
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        text = content(viewer, headers={"Accept-Language": language})
    numbers = re.findall(
        r'\s(?:x|y|width|height|opacity)="([^"]*)"', "".join(re.findall(r"<svg.*?</svg>", text, re.S))
    )
    assert len(numbers) > 20
    assert [each for each in numbers if not re.fullmatch(r"\d+(\.\d+)?%?", each)] == []
    assert ("25,0" in text) is (language != "en")


def test_a_chart_has_so_many_tools_and_says_so(viewer: Client) -> None:
    for number in range(12):
        plan(tool=f"tool_{number:02}", seconds=10)
    page = viewer.get(URL)
    for chart in page.context["charts"]:
        assert len([each for each in chart.lines if not each.width]) == 10
    assert "The charts show the 10 tools with the most plans." in page.content.decode()


def test_operations_of_no_time_are_drawn(viewer: Client) -> None:
    plan(seconds=0)
    assert "0.00%" in content(viewer)


def test_it_is_said_when_not_all_times_were_taken(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_DURATIONS", 1)
    monkeypatch.setattr(metrics, "FEWEST_DURATIONS", 1)
    plan(seconds=1)
    words = "only the latest went into the times"
    assert words not in content(viewer)
    plan(seconds=2)
    assert words in content(viewer)


def test_names_of_tools_are_shown_as_text(viewer: Client) -> None:
    plan(tool="<b>x</b>", seconds=1)
    assert "<b>" not in content(viewer)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.99, "10.0 s"),
        (10.4, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 1_234, "1,234 d 0 h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    with translation.override("en"):
        assert duration_text(seconds) == text


# -- who may ---------------------------------------------------------------------------------------------


def refused(client: Client, status: int, code: str) -> None:
    answer = client.get(URL, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    page = client.get(URL)
    assert page.status_code == (302 if status == 401 else status)
    assert "copilot-figures" not in page.content.decode()


def test_without_a_session_the_right_to_or_access_to_the_site_it_is_refused(db: None) -> None:
    plan(seconds=1)
    refused(Client(), 401, "not_authenticated")
    others = ("use_copilot", "approve_plan", "view_audit", "use_switch")
    refused(
        copilot_client(staff("other", *(f"django_copilot.{each}" for each in others))), 403, "not_allowed"
    )
    outsider = staff("outsider", "django_copilot.view_metrics")
    User.objects.filter(pk=outsider.pk).update(is_staff=False)
    refused(copilot_client(outsider), 403, "not_staff")


def test_a_site_without_entities_has_no_figures(db: None, rf: RequestFactory) -> None:
    request = rf.get(URL, headers=JSON)
    request.user = User.objects.create_superuser("boss")
    request.session = {SESSION_KEY: str(request.user.pk)}
    answer = MetricsView.as_view(site=AdminSite(name="bare"))(request)
    assert (answer.status_code, json.loads(answer.content)["code"]) == (404, "not_found")


def test_it_only_reads(viewer: Client) -> None:
    assert viewer.post(URL, headers=JSON).status_code == 405
    assert "no-store" in viewer.get(URL)["Cache-Control"]


def test_who_may_see_it_may_do_so_whoever_she_is(viewer: Client) -> None:
    """Looking decides nothing: a program may collect the figures, and support may look as somebody else."""
    boss = User.objects.create_superuser("boss")
    User.objects.get(username="watcher").groups.add(Group.objects.get_or_create(name="service accounts")[0])
    assert viewer.get(URL).status_code == 200
    assert impersonated(viewer, boss).get(URL).status_code == 200


def test_the_link_is_on_the_index_of_those_who_may_only(viewer: Client) -> None:
    assert f'href="{URL}"' in viewer.get("/admin/").content.decode()
    other = copilot_client(staff("other", "django_copilot.use_copilot"))
    assert f'href="{URL}"' not in other.get("/admin/").content.decode()


def capture(request: Any) -> dict[str, str]:
    return {"tenant": "a"}


def test_a_person_sees_the_figures_of_her_own_scope(viewer: Client, settings: Any) -> None:
    mine = Scope(site="admin", keys={"tenant": "a"}).key
    plan(seconds=1, tool="of_nobody")
    plan(seconds=1, tool="of_b", scope_key=Scope(site="admin", keys={"tenant": "b"}).key)
    plan(seconds=1, tool="of_a", scope_key=mine)
    with override_settings(COPILOT={**settings.COPILOT, "SCOPE": {"capture": capture, "enter": capture}}):
        answer = viewer.get(URL, headers=JSON).json()
    assert [each["tool"] for each in answer["tools"]] == ["of_a"]
