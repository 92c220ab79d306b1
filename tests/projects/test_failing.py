"""Admins, sites, scopes and pages that fail, or are not as Django made them."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.test import Client
from django.utils.safestring import mark_safe

from django_copilot.admin import HarnessMixin
from django_copilot.models import Turn
from django_copilot.runtime import page as page_module
from django_copilot.testing import Call, Text, sent_text

from .depot import models as depot
from .sites import Project, declared, say, shown

JSON = {"Accept": "application/json"}


# -- one broken admin ------------------------------------------------------------------------------


class PartialForm(admin.ModelAdmin):
    """A get_form as some libraries have it: what it returns is no class."""

    def get_form(self, *args: Any, **kwargs: Any) -> Any:
        return functools.partial(super().get_form(*args, **kwargs))


class BrokenName:
    """A label that can't be made into text."""

    def __str__(self) -> str:
        raise LookupError("no label")


def broken_admins() -> dict[str, Any]:
    both = {"read": ["title"], "fill": ["title"]}
    partial = {"harness_list": ["title"], "harness_persist": ["title"], "fields": ["title"]}
    return {
        "list is None": declared(**both, get_harness_list=lambda self, request, obj=None: None),
        "persist is None": declared(**both, get_harness_persist=lambda self, request, obj=None: None),
        "list is a number": declared(**both, get_harness_list=lambda self, request, obj=None: 5),
        "form is no class": type("PartialAdmin", (HarnessMixin, PartialForm), partial),
        "permission is no truth": declared(
            **both, has_module_permission=lambda self, request: depot.Box.objects.none().__bool__
        ),
    }


@pytest.mark.parametrize("broken", broken_admins())
def test_a_broken_admin_takes_nothing_from_the_others(project: Project, broken: str) -> None:
    """Guards hazard 130."""
    project.site({depot.Box: broken_admins()[broken], depot.Vault: declared(read=["title"])})
    depot.Vault.objects.create(title="found", pin="1")
    chat = say(project.boss(), Call("query_vault"))
    assert [row["title"] for row in chat.rows] == ["found"]


@pytest.mark.parametrize("broken", ["list is None", "persist is None", "list is a number"])
def test_the_pages_of_a_broken_admin_stay_as_they_were(project: Project, broken: str) -> None:
    """Guards hazard 130."""
    project.site({depot.Box: broken_admins()[broken]})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    for page in (f"{box.pk}/delete/", f"{box.pk}/change/", 'add/?aiPrefill={"title":"a"}'):
        assert boss.get(f"/admin/depot/box/{page}").status_code == 200, page


def test_a_list_that_is_none_closes_reading_and_no_more(project: Project) -> None:
    """Guards hazard 130."""
    project.site({depot.Box: broken_admins()["list is None"]})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    assert say(boss, Call("query_box", {"fields": ["title"]})).told[0]["rows"] == [{"id": str(box.pk)}]
    chat = say(boss, Call("confirm_delete_box", {"id": str(box.pk)}), ends=True)
    assert chat.answer["action"]["prefill"] == {}


def test_a_form_that_is_no_class_is_not_available(project: Project) -> None:
    """Guards hazard 130."""
    project.site({depot.Box: broken_admins()["form is no class"], depot.Vault: declared(read=["title"])})
    boss = project.boss()
    assert say(boss, Call("open_box_form", {"fields": {"title": "x"}})).error == "not_available"


def test_code_that_fails_anywhere_costs_only_its_own_entity_and_is_logged(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 130."""
    project.site({depot.Box: declared(read=["title"]), depot.Vault: declared(read=["title"])})
    monkeypatch.setattr(depot.Box._meta, "verbose_name_plural", BrokenName())
    with caplog.at_level(logging.ERROR, "django_copilot"):
        tools = say(project.boss(), Text("Hello.")).tools
    assert "query_vault" in tools
    assert "query_box" not in tools
    assert "DeclaredAdmin" in caplog.text


@pytest.mark.parametrize(
    ("hook", "broken"),
    [
        ("get_fieldsets", {"fields": ["title"], "get_fieldsets": lambda self, request, obj=None: 1 // 0}),
        ("get_list_display", {"fields": ["title"], "get_list_display": lambda self, request: 1 // 0}),
        ("get_form", {"get_form": lambda self, request, obj=None, **kw: 1 // 0, "fields": ["title"]}),
    ],
)
def test_the_log_names_the_hook_that_failed(
    project: Project, caplog: pytest.LogCaptureFixture, hook: str, broken: dict[str, Any]
) -> None:
    project.site({depot.Box: declared(read=["title"], **broken), depot.Vault: declared(read=["title"])})
    with caplog.at_level(logging.ERROR, "django_copilot"):
        assert "query_box" not in say(project.boss(), Text("Hello.")).tools
    assert {each.getMessage().split(" ")[0] for each in caplog.records} == {f"DeclaredAdmin.{hook}"}


# -- projects' own pages, scopes and sites -----------------------------------------------------------


def test_an_admin_without_a_page_for_records_is_read_without_links(project: Project) -> None:
    """Guards hazard 136."""

    def get_urls(self: Any) -> Any:
        return [each for each in admin.ModelAdmin.get_urls(self) if not (each.name or "").endswith("_change")]

    project.site({depot.Deed: declared(read=["title"], get_urls=get_urls, list_display_links=None)})
    boss = project.boss()
    depot.Deed.objects.create(title="x")
    chat = say(boss, Call("query_deed"))
    assert [row["title"] for row in chat.rows] == ["x"]
    assert [row["url"] for row in chat.answer["results"][0]["rows"]] == [None]
    conversation = chat.answer["conversationId"]
    assert shown(boss, conversation)[1]["results"] == chat.answer["results"]
    page = boss.get(f"/admin/django_copilot/conversation/{conversation}/")
    assert page.status_code == 200
    assert "<td>x</td>" in page.content.decode()


class Swallowing:
    """A scope whose enter lets no exception through."""

    @staticmethod
    def capture(request: Any) -> dict[str, str]:
        return {}

    @staticmethod
    @contextlib.contextmanager
    def enter(values: Any, request: Any) -> Iterator[None]:
        with contextlib.suppress(Exception):
            yield


def test_a_scope_that_swallows_exceptions_hides_none_from_us(project: Project) -> None:
    """Guards hazard 136."""
    project.settings.COPILOT = {**project.settings.COPILOT, "SCOPE": Swallowing}
    project.site({depot.Vault: declared(read=["title"])})
    boss = project.boss()
    assert say(boss, Call("query_vault", {"limit": 0})).error == "invalid_value"
    assert say(boss, Call("query_nothing")).error == "unknown_tool"


class OtpSite(AdminSite):
    """A site that asks what middleware gave the request's user."""

    def has_permission(self, request: Any) -> bool:
        return super().has_permission(request) and request.user.is_verified()


def test_a_site_that_can_not_be_asked_is_a_no_that_is_explained(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 136."""
    project.site({depot.Vault: declared(read=["title"])}, cls=OtpSite)
    boss = project.boss()
    boss.raise_request_exception = False
    with caplog.at_level(logging.ERROR, "django_copilot"):
        response = boss.post(
            "/admin/django_copilot/conversation/chat/", {"message": "x"}, content_type="application/json"
        )
    assert (response.status_code, response.json()["code"]) == (403, "not_staff")
    assert "OtpSite.has_permission failed" in caplog.text
    assert "COPILOT['SCOPE']" in caplog.text


def test_a_page_that_can_not_be_looked_at_ends_no_chat(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project.site({depot.Vault: declared(read=["title"])})

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise LookupError("no page")

    monkeypatch.setattr(page_module, "resolve", broken)
    with caplog.at_level(logging.ERROR, "django_copilot"):
        chat = say(project.boss(), Text("Hello."), page="/admin/")
    assert chat.answer["reply"] == "Hello."
    assert "The page that a person is on" in caplog.text


def test_a_label_that_says_it_is_html_is_text(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards hazard 114."""
    project.site(
        {depot.Deed: declared(read=["title", "vault"], fill=["vault"]), depot.Vault: declared(read=["title"])}
    )
    monkeypatch.setattr(depot.Vault, "__str__", lambda self: mark_safe(f"<b>{self.title}</b>"))
    monkeypatch.setattr(depot.Deed, "__str__", lambda self: mark_safe("<u>deed</u>"))
    vault = depot.Vault.objects.create(title="<i>", pin="1")
    deed = depot.Deed.objects.create(title="x", vault=vault)
    boss = project.boss()
    chat = say(boss, Call("query_deed"))
    proposed = say(boss, Call("open_deed_form", {"id": str(deed.pk), "fields": {"vault": None}}), ends=True)
    pages = [
        f"/admin/django_copilot/conversation/{chat.answer['conversationId']}/",
        f"/admin/django_copilot/plan/{proposed.answer['action']['queryParams']['aiPlan']}/",
        f"/admin/depot/deed/{deed.pk}/delete/",
    ]
    for address in pages:
        html = boss.get(address).content.decode()
        html = html.split("Depends")[0]
        assert "&lt;b&gt;&lt;i&gt;&lt;/b&gt;" in html, address
        if "delete" not in address:
            assert "<b><i></b>" not in html
            assert "<u>deed" not in html


def test_a_form_without_its_boundary_is_no_json_and_no_failure(project: Project) -> None:
    project.site({depot.Vault: declared(read=["title"])})
    project.boss()
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.get(username="boss"))
    client.get("/admin/")
    response = client.generic(
        "POST",
        "/admin/django_copilot/conversation/chat/",
        b"{}",
        content_type="multipart/form-data",
        headers={"X-CSRFToken": client.cookies["csrftoken"].value, **JSON},
    )
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert "no-store" in response.headers["Cache-Control"]


def test_the_bytes_that_were_sent_are_counted_whole(project: Project) -> None:
    project.site({depot.Vault: declared(read=["title"])})
    depot.Vault.objects.create(title="zażółć", pin="1")
    chat = say(project.boss(), Call("query_vault"), Text("Gotowe."), message="Pokaż")
    counted = Turn.objects.get().sent["bytes"]
    # sent_text is readable: it has a line end between any two parts, and spaces in the schemas.
    texts = [sent_text(each) for each in chat.model.requests]
    assert len(texts) == 2
    most = sum(len(each.encode()) for each in texts)
    least = sum(len(each.replace(" ", "").replace("\n", "").encode()) for each in texts)
    assert least <= counted <= most
