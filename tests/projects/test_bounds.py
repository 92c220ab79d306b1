"""What is told, shown and counted keeps within its bounds, whatever a project's admin does."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import Permission, User
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.safestring import mark_safe

from django_copilot.admin import HarnessMixin
from django_copilot.models import Conversation, Message, Turn
from django_copilot.rows import CUT, PERSON_CHARS, RELATED_LIMIT, TABLES_BYTES
from django_copilot.runtime import page as page_module
from django_copilot.testing import Call, Calls, Text, copilot_client, sent_text

from .depot import models as depot
from .sites import Project, declared, say

JSON = {"Accept": "application/json"}


def shown(client: Client, conversation: str) -> list[dict[str, Any]]:
    """Return the messages of a conversation as they are shown again."""
    messages = client.get(f"/admin/django_copilot/conversation/{conversation}/", headers=JSON).json()
    return list(messages["messages"])


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


# -- passwords -------------------------------------------------------------------------------------


class PinForm(forms.ModelForm):
    """Takes the pin as a password."""

    class Meta:
        widgets = {"pin": forms.PasswordInput}


class Secret(forms.CharField):
    """A field of a library, with a password input."""

    widget = forms.PasswordInput


def of_dbfield(self: Any, db_field: Any, request: Any, **kwargs: Any) -> Any:
    if db_field.name == "pin":
        kwargs["widget"] = forms.PasswordInput()
    return admin.ModelAdmin.formfield_for_dbfield(self, db_field, request, **kwargs)


def of_form(self: Any, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
    return admin.ModelAdmin.get_form(
        self, request, obj, change, **{**kwargs, "widgets": {"pin": forms.PasswordInput}}
    )


MASKS: dict[str, dict[str, Any]] = {
    "form": {"form": PinForm},
    "formfield_for_dbfield": {"formfield_for_dbfield": of_dbfield},
    "overridden widget": {"formfield_overrides": {models.CharField: {"widget": forms.PasswordInput}}},
    "overridden widget, made": {"formfield_overrides": {models.CharField: {"widget": forms.PasswordInput()}}},
    "overridden class": {"formfield_overrides": {models.CharField: {"form_class": Secret, "widget": None}}},
    "get_form": {"get_form": of_form},
}


@pytest.mark.parametrize("mask", MASKS)
def test_what_the_form_hides_in_a_password_input_is_not_read(project: Project, mask: str) -> None:
    """Guards hazard 131."""
    attributes = {"list_display": ["title"], **MASKS[mask]}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    depot.Vault.objects.create(title="a", pin="SECRETPIN")
    chat = say(project.boss(), Call("query_vault"))
    assert [set(row) for row in chat.rows] == [{"id", "title"}]
    assert "SECRETPIN" not in json.dumps(chat.answer)
    assert say(project.boss("other"), Call("query_vault", {"filters": {"pin": "SECRETPIN"}})).error


@pytest.mark.parametrize(
    "where",
    [{"list_display": ["title", "pin"]}, {"readonly_fields": ["pin"]}],
    ids=lambda where: next(iter(where)),
)
def test_what_the_admin_shows_besides_the_password_input_is_read(
    project: Project, where: dict[str, Any]
) -> None:
    project.site({depot.Vault: declared(read=["title", "pin"], form=PinForm, **where)})
    depot.Vault.objects.create(title="a", pin="1234")
    assert [row["pin"] for row in say(project.boss(), Call("query_vault")).rows] == ["1234"]


def test_a_field_that_is_read_only_in_general_is_hidden_where_it_may_be_typed(project: Project) -> None:
    """Guards hazard 131."""

    def readonly(self: Any, request: Any, obj: Any = None) -> list[str]:
        return [] if obj is not None and obj.title == "open" else ["pin"]

    attributes = {"form": PinForm, "list_display": ["title"], "get_readonly_fields": readonly}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for title in ("open", "closed"):
        depot.Vault.objects.create(title=title, pin="1234")
    rows = {row["title"]: row for row in say(project.boss(), Call("query_vault")).rows}
    assert "pin" not in rows["open"]
    assert rows["closed"]["pin"] == "1234"


# -- order and scans -------------------------------------------------------------------------------


def hidden_pins(self: Any, request: Any, obj: Any = None) -> list[str]:
    return ["title"] if obj is not None and obj.title == "hidden" else ["title", "pin"]


@pytest.mark.parametrize("listed", [False, True], ids=["harness_list", "fieldsets"])
def test_rows_are_not_ordered_by_what_is_hidden_on_one_of_them(project: Project, listed: bool) -> None:
    """Guards hazard 132: the place among the others would tell the value."""

    def fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        return [(None, {"fields": hidden_pins(self, request, obj)})]

    own = {"get_fieldsets": fieldsets} if listed else {"get_harness_list": hidden_pins}
    attributes = {"ordering": ["pin"], "list_display": ["title"], **own}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for title, pin in (("hidden", "500"), ("a", "100"), ("b", "400"), ("c", "501")):
        depot.Vault.objects.create(title=title, pin=pin)
    rows = say(project.boss(), Call("query_vault")).rows
    assert [row["title"] for row in rows] == ["hidden", "a", "b", "c"]
    assert "pin" not in rows[0]


def test_what_the_list_shows_of_every_record_orders_the_rows(project: Project) -> None:
    def fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        return [(None, {"fields": ["title", "pin"]})]

    attributes = {"ordering": ["-pin"], "list_display": ["title", "pin"], "get_fieldsets": fieldsets}
    project.site({depot.Vault: declared(read=["title", "pin"], **attributes)})
    for pin in ("2", "3", "1"):
        depot.Vault.objects.create(title="x", pin=pin)
    assert [row["pin"] for row in say(project.boss(), Call("query_vault")).rows] == ["3", "2", "1"]


def test_a_scan_that_gave_up_is_told_like_one_that_ended(project: Project) -> None:
    """Guards hazard 132."""
    project.settings.COPILOT = {**project.settings.COPILOT, "SCAN_ROWS": 10}
    project.site(
        {
            depot.Vault: declared(
                read=["title"],
                has_view_permission=lambda self, request, obj=None: obj is None or obj.pin != "no",
                has_change_permission=lambda self, request, obj=None: False,
            )
        }
    )
    boss = project.boss()
    depot.Vault.objects.bulk_create(depot.Vault(title="x", pin="no") for _ in range(12))
    told = [say(boss, Call("query_vault", {"filters": {"title": title}})).told for title in ("x", "y")]
    assert told[0] == told[1]
    assert told[0][0]["rows"] == []
    assert "at most 10" in told[0][0]["note"]


# -- revoked values --------------------------------------------------------------------------------


def test_an_answer_is_withheld_once_a_record_that_it_labelled_may_not_be_seen(project: Project) -> None:
    """Guards hazard 133."""
    project.site({depot.Deed: declared(read=["title", "vault"]), depot.Vault: declared(read=["title"])})
    vault = depot.Vault.objects.create(title="SECRETVAULT", pin="1")
    depot.Deed.objects.create(title="x", vault=vault)
    person = project.person("depot.view_deed", "depot.view_vault")
    client = copilot_client(person)
    conversation = say(client, Call("query_deed"), Text("In SECRETVAULT.")).answer["conversationId"]
    assert [each["withheld"] for each in shown(client, conversation)] == [False, False]
    person.user_permissions.remove(Permission.objects.get(codename="view_vault"))
    assert [each["withheld"] for each in shown(client, conversation)] == [False, True]
    chat = say(client, Text("ok"), conversationId=conversation)
    assert "SECRETVAULT" not in sent_text(chat.model.requests[0])


KEY_TOLD: dict[str, tuple[Any, dict[str, Any]]] = {
    "query": ((Call("query_person", {"fields": ["name"]}), Text("It is x@y.z.")), {}),
    "related": ((Call("query_letter", {"fields": ["person"]}), Text("To x@y.z.")), {}),
    "copies": ((Call("query_letter", {"fields": ["copies"]}), Text("To x@y.z.")), {}),
    "badge": ((Call("query_badge", {"fields": ["email"]}), Text("Of x@y.z.")), {}),
    "form": ((Call("open_person_form", {"id": "x@y.z", "fields": {"name": "M"}}),), {"ends": True}),
    "delete": ((Call("confirm_delete_person", {"id": "x@y.z"}),), {"ends": True}),
    "page": ((Text("You are at x@y.z."),), {"page": "/admin/depot/person/x@y.z/change/"}),
}


@pytest.mark.parametrize("way", KEY_TOLD)
def test_an_answer_is_withheld_once_the_key_that_it_named_may_not_be_read(project: Project, way: str) -> None:
    """Guards hazard 133."""
    hide: list[bool] = []

    def own_list(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["name"] if hide else ["email", "name"]

    project.site(
        {
            depot.Person: declared(fill=["name"], get_harness_list=own_list),
            depot.Letter: declared(read=["subject", "person", "copies"]),
            depot.Badge: declared(read=["person", "email"]),
        }
    )
    joe = depot.Person.objects.create(email="x@y.z", name="N")
    depot.Badge.objects.create(person=joe, email="e")
    depot.Letter.objects.create(subject="s", person=joe).copies.add(joe)
    boss = project.boss()
    steps, extra = KEY_TOLD[way]
    chat = say(boss, *steps, **extra)
    assert "x@y.z" in chat.answer["reply"]
    conversation = chat.answer["conversationId"]
    assert shown(boss, conversation)[1]["withheld"] is False
    hide.append(True)
    assert shown(boss, conversation)[1]["withheld"] is True
    assert "x@y.z" not in sent_text(say(boss, Text("ok"), conversationId=conversation).model.requests[0])


# -- sizes -----------------------------------------------------------------------------------------


@pytest.fixture
def deeds(project: Project) -> Client:
    """A client of somebody who reads deeds and vaults."""
    project.site(
        {
            depot.Deed: declared(read=["title", "vault", "vaults"]),
            depot.Vault: declared(read=["title", "pin"]),
        }
    )
    return project.boss()


def test_cells_and_tables_for_a_person_are_cut(project: Project) -> None:
    """Guards hazard 134."""
    project.site({depot.Diary: declared(read=["title", "text"])})
    depot.Diary.objects.bulk_create(depot.Diary(title="t", text="x" * 300_000) for _ in range(50))
    read, boss = Call("query_diary", {"limit": 50}), project.boss()
    chat = say(boss, *[Calls(*[read] * 8)] * 3, Text("ok"))
    rows = chat.answer["results"][0]["rows"]
    assert len(rows) == 50
    assert rows[0]["values"]["text"] == "x" * PERSON_CHARS + CUT
    sizes = [len(each["rows"]) for each in chat.answer["results"]]
    assert len(sizes) == 24
    assert sizes[-1] == 1  # of each something is shown
    assert chat.answer["results"][-1]["hasMore"] is True
    assert len(json.dumps(chat.answer)) < TABLES_BYTES + 200_000
    address = f"/admin/django_copilot/conversation/{chat.answer['conversationId']}/"
    for headers in (JSON, {}):
        assert len(boss.get(address, headers=headers).content) < TABLES_BYTES + 400_000


@pytest.mark.parametrize("number", [RELATED_LIMIT, RELATED_LIMIT + 1, 400])
def test_a_cell_holds_so_many_related_records_and_a_mark(deeds: Client, number: int) -> None:
    """Guards hazard 134."""
    depot.Vault.objects.bulk_create(depot.Vault(title=f"v{at:03}", pin="1") for at in range(number))
    for title in ("a", "b"):
        depot.Deed.objects.create(title=title).vaults.set(depot.Vault.objects.all())
    for row in say(deeds, Call("query_deed")).answer["results"][0]["rows"]:
        cell = row["values"]["vaults"]
        labels = [f"v{at:03} PIN 1" for at in range(RELATED_LIMIT)]
        assert [each["label"] for each in cell] == labels + [CUT] * (number > RELATED_LIMIT)


def test_related_records_are_read_no_more_than_are_shown(deeds: Client) -> None:
    """Guards hazard 134."""
    depot.Vault.objects.bulk_create(depot.Vault(title=str(at), pin="1") for at in range(400))
    depot.Deed.objects.create(title="a").vaults.set(depot.Vault.objects.all())
    made: list[Any] = []

    def note(instance: Any, **kwargs: Any) -> None:
        made.append(instance)

    models.signals.post_init.connect(note, sender=depot.Vault)
    try:
        say(deeds, Call("query_deed"))
    finally:
        models.signals.post_init.disconnect(note, sender=depot.Vault)
    assert 0 < len(made) <= 3 * (RELATED_LIMIT + 1)


def test_opening_a_conversation_does_not_grow_with_its_answers(deeds: Client) -> None:
    """Guards hazard 135."""
    vault = depot.Vault.objects.create(title="a", pin="1")
    depot.Deed.objects.create(title="x", vault=vault)
    calls = [Call("query_deed", {"filters": {"title": f"t{at}"}}) for at in range(6)]
    chat = say(deeds, Calls(Call("query_deed"), *calls), Text("x"))
    conversation = Conversation.objects.get(pk=chat.answer["conversationId"])
    first = conversation.messages.get(role="assistant")
    used: list[int] = []
    for answers in (3, 30):
        conversation.messages.exclude(pk__lte=first.pk).delete()
        Message.objects.bulk_create(
            Message(
                conversation=conversation,
                turn=first.turn,
                role="assistant",
                text="x",
                # One that all have in common, and four of its own.
                reads=[first.reads[0]]
                + [{**first.reads[1], "filters": {"title": f"{at}-{own}"}} for own in range(4)],
                mentions=first.mentions,
            )
            for at in range(answers)
        )
        with CaptureQueriesContext(connection) as captured:
            messages = shown(deeds, str(conversation.pk))
        used.append(len(captured))
    assert used[1] <= used[0] + 12
    newest, oldest = messages[-1], messages[2]
    assert [len(each["rows"]) for each in newest["results"]] == [1, 0, 0, 0, 0]
    assert "older" not in newest
    assert oldest["older"] is True
    assert [len(each["rows"]) for each in oldest["results"]] == [1]  # what was read anyhow
    page = deeds.get(f"/admin/django_copilot/conversation/{conversation.pk}/").content.decode()
    assert "Older tables are not read again" in page


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
