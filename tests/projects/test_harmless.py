"""A page that works without the package works with it, whatever a project's own code does."""

from __future__ import annotations

import json
from typing import Any

import django
import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_copilot.admin import HarnessMixin
from django_copilot.models import Plan
from django_copilot.testing import Call, Text, copilot_client
from tests.forms.pages import Page, fill, propose

from .depot import models as depot
from .sites import Project, declared, say


@pytest.mark.parametrize("by", ["page", "action"])
def test_a_person_who_has_chatted_can_be_deleted_by_whoever_may_delete_people(
    project: Project, by: str
) -> None:
    """Guards hazard 120."""
    project.site({depot.Deed: declared(read=["title"], fill=["title"]), User: UserAdmin})
    boss, joe = project.boss(), project.person("depot.add_deed", "depot.view_deed", name="joe")
    say(copilot_client(joe), Call("open_deed_form", {"fields": {"title": "x"}}), ends=True)
    if by == "page":
        answer = boss.post(f"/admin/auth/user/{joe.pk}/delete/", {"post": "yes"})
    else:
        answer = boss.post(
            "/admin/auth/user/", {"action": "delete_selected", "_selected_action": [joe.pk], "post": "yes"}
        )
    assert answer.status_code == 302
    assert not User.objects.filter(pk=joe.pk).exists()
    assert not Plan.objects.exists()


def test_the_page_that_deletes_a_person_shows_none_of_her_words(project: Project) -> None:
    """Guards hazard 120."""
    project.site({depot.Deed: declared(read=["title"]), User: UserAdmin})
    project.site({User: UserAdmin}, name="people")
    joe = project.person("depot.view_deed", name="joe")
    say(copilot_client(joe), Text("The salary of Ann is 9000."), message="Private words")
    colleague = project.person("auth.delete_user", "auth.view_user", name="colleague")
    for site in ("admin", "people"):
        page = copilot_client(colleague).get(f"/{site}/auth/user/{joe.pk}/delete/").content.decode()
        assert "onversation" in page
        assert "Private words" not in page
        assert "9000" not in page


def broken(self: Any) -> str:
    raise RuntimeError("a label that can't be made")


def test_a_label_that_cannot_be_made_breaks_no_delete_page(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 121."""
    project.site({depot.Deed: declared(read=["title", "vault"]), depot.Vault: declared(read=["title"])})
    boss = project.boss()
    monkeypatch.setattr(depot.Deed, "__str__", lambda self: "deed")
    deed = depot.Deed.objects.create(title="x", vault=depot.Vault.objects.create(title="v", pin="1"))
    monkeypatch.setattr(depot.Vault, "__str__", broken)
    answer = boss.get(f"/admin/depot/deed/{deed.pk}/delete/")
    assert answer.status_code == 200
    assert "About this record" not in answer.content.decode()
    assert "preview of a delete page failed" in caplog.text


class Odd(forms.ModelForm):
    when = forms.DateField(required=False)
    at = forms.SplitDateTimeField(required=False)

    class Meta:
        model = depot.Box
        fields = ("title",)


@pytest.mark.parametrize("values", [{"when": 5}, {"at": "2020-01-01"}, {"when": True, "title": "ok"}])
def test_a_link_with_values_of_odd_types_breaks_no_page(project: Project, values: dict[str, Any]) -> None:
    """Guards hazard 121."""
    project.site({depot.Box: declared(fill=["title", "when", "at"], form=Odd)})
    answer = project.boss().get("/admin/depot/box/add/", {"aiPrefill": json.dumps(values)})
    assert answer.status_code == 200
    assert ('value="ok"' in answer.content.decode()) == ("title" in values)


def test_a_hook_that_answers_nothing_breaks_no_page(project: Project) -> None:
    """Guards hazard 121."""
    project.site({depot.Box: declared(fill=["title"], get_harness_list=lambda self, request, obj=None: None)})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    assert boss.get(f"/admin/depot/box/{box.pk}/delete/").status_code == 200
    assert boss.get("/admin/depot/box/add/", {"aiPrefill": '{"title": "a"}'}).status_code == 200


def test_a_backend_that_cannot_be_made_breaks_no_page(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards hazard 121."""

    def fails() -> None:
        raise RuntimeError("no such model")

    monkeypatch.setattr("django_copilot.templatetags.django_copilot.get_backend", fails)
    project.site({depot.Box: declared(read=["title"])})
    answer = project.boss().get("/admin/")
    assert answer.status_code == 200
    assert "data-copilot" in answer.content.decode()


def test_marks_that_cannot_be_made_break_no_page(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Guards hazard 121."""
    project.site({depot.Box: declared(read=["title"], fill=["title"])})
    boss = project.boss()
    action = propose(boss, "open_box_form", {"title": "new"}, site="admin")

    def fails(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("a label that can't be made")

    monkeypatch.setattr("django_copilot.draft.page_marks", fails)
    answer = boss.get(action["path"], action["queryParams"])
    assert answer.status_code == 200
    assert 'value="new"' in answer.content.decode()
    assert "marks of a filled-in form failed" in caplog.text


def test_a_form_that_takes_no_values_says_so(project: Project) -> None:
    """Guards hazard 121."""

    class Wrapping(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ("title",)

        def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
            made = super().get_form(request, obj, change=change, **kwargs)
            return type("Wrapped", (made,), {"__new__": lambda cls, *args, **kw: made(*args, **kw)})

    cls = type("BoxAdmin", (HarnessMixin, Wrapping), {"harness_persist": ["title"]})
    project.site({depot.Box: cls})
    boss = project.boss()
    page = fill(boss, "open_box_form", {"title": "new"}, site="admin")
    assert page.value("title") == ""
    assert page.draft["notices"] == ["This form can't be filled in by the assistant. Nothing was filled in."]


class Clause(admin.TabularInline):  # type: ignore[type-arg]
    model = depot.Deed
    fields = ("title",)
    extra = 0


def test_inline_rows_that_cannot_be_read_here_are_named_as_not_watched(project: Project) -> None:
    """Guards hazard 113: a hook that needs the session fails on the request of the assistant."""

    def by_session(self: Any, request: Any, obj: Any = None) -> list[type[Any]]:
        return [Clause] if request.session.get("x", True) else []

    project.site({depot.Vault: declared(read=["title"], fill=["title"], get_inlines=by_session)})
    boss, vault = project.boss(), depot.Vault.objects.create(title="v", pin="1")
    page = fill(boss, "open_vault_form", {"title": "new"}, id=str(vault.pk), site="admin")
    assert page.draft["notices"] == [
        "Changes that others make here meanwhile are not noticed: all rows below the form."
    ]


def test_what_a_plan_keeps_of_the_record_holds_no_values(project: Project) -> None:
    """Guards hazard 122."""
    project.site({depot.Vault: declared(read=["title"], fill=["title"])})
    boss, vault = project.boss(), depot.Vault.objects.create(title="v", pin="SECRETPIN")
    propose(boss, "open_vault_form", {"title": "new"}, id=str(vault.pk), site="admin")
    plan = Plan.objects.get()
    assert set(plan.base["fields"]) == {"title", "pin"}
    assert "SECRETPIN" not in json.dumps([plan.base, plan.values])


def test_an_address_that_names_the_record_otherwise_is_compared_all_the_same(project: Project) -> None:
    """Guards hazard 113."""
    project.site({depot.Box: declared(read=["title"], fill=["title"])})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    page = fill(boss, "open_box_form", {"title": "new"}, id=str(box.pk), site="admin")
    depot.Box.objects.update(title="of a colleague")
    other = f"/admin/depot/box/0{box.pk}/change/"
    answer = boss.post(other, {"title": "mine", "_copilot_plan": page.plan, "_save": "1"})
    assert answer.status_code == 200
    assert depot.Box.objects.get().title == "of a colleague"


def test_a_plan_of_another_record_is_refused_on_every_form(project: Project) -> None:
    """Guards hazard 113."""
    project.site({depot.Box: declared(read=["title"], fill=["title"])})
    boss = project.boss()
    box, other = (depot.Box.objects.create(title=title) for title in "xy")
    page = fill(boss, "open_box_form", {"title": "new"}, id=str(box.pk), site="admin")
    answer = boss.post(
        f"/admin/depot/box/{other.pk}/change/", {"title": "mine", "_copilot_plan": page.plan, "_save": "1"}
    )
    assert answer.status_code == 200
    assert "not available here" in answer.content.decode()
    assert set(depot.Box.objects.values_list("title", flat=True)) == {"x", "y"}


def test_start_again_twice_is_one_new_plan(project: Project) -> None:
    """Guards hazard 112."""
    project.site({depot.Box: declared(read=["title"], fill=["title"])})
    boss = project.boss()
    action = propose(boss, "open_box_form", {"title": "new"}, site="admin")
    again = f"/admin/django_copilot/plan/{action['queryParams']['aiPlan']}/again/"
    first, second = (boss.post(again)["Location"] for _ in range(2))
    assert first == second
    for _ in range(2):
        Page(boss, first, boss.get(first)).save()
    assert depot.Box.objects.count() == 1
    assert boss.post(again)["Location"].startswith("/admin/django_copilot/plan/")
    assert sorted(Plan.objects.values_list("state", flat=True)) == ["executed", "rejected"]


@pytest.mark.skipif(django.VERSION < (6, 1), reason="actions on the change form came with Django 6.1")
@pytest.mark.parametrize("saved", [False, True])
def test_an_action_on_the_change_form_is_not_the_plan(project: Project, saved: bool) -> None:
    """Guards hazard 123."""
    from django.contrib.admin.options import ActionLocation

    ran: list[Any] = []

    @admin.action(description="Publish", location=ActionLocation.CHANGE_FORM)
    def publish(model_admin: Any, request: Any, queryset: Any) -> None:
        for box in queryset:
            ran.append(box.pk)
            model_admin.save_model(request, box, None, True)
            model_admin.log_change(request, box, "Published")

    project.site({depot.Box: declared(read=["title"], fill=["title"], actions=[publish])})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    page = fill(boss, "open_box_form", {"title": "new"}, id=str(box.pk), site="admin")
    if saved:
        page.save()
    (chosen,) = [name for name in page.data if name.endswith("-action")]
    boss.post(page.url, {**page.data, chosen: "publish", "index": "0"})
    assert ran == [box.pk]
    assert LogEntry.objects.order_by("pk").last().get_change_message() == "Published"
    assert Plan.objects.get().state == ("executed" if saved else "proposed")
    if not saved:
        page.save()
        assert depot.Box.objects.get().title == "new"
        assert Plan.objects.get().state == "executed"


def test_deleting_where_nothing_is_declared_asks_nothing_of_our_tables(project: Project) -> None:
    project.site({depot.Box: declared(), depot.Deed: declared(read=["title"])})
    boss, box = project.boss(), depot.Box.objects.create(title="x")
    with CaptureQueriesContext(connection) as captured:
        assert boss.post(f"/admin/depot/box/{box.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not [each["sql"] for each in captured if "django_copilot_plan" in each["sql"]]


def test_who_may_not_use_the_assistant_gets_the_admins_own_delete_page(project: Project) -> None:
    project.site({depot.Box: declared(read=["title"])})
    person = project.person("depot.delete_box", "depot.view_box")
    box = depot.Box.objects.create(title="x")
    client = copilot_client(person)
    assert "About this record" in client.get(f"/admin/depot/box/{box.pk}/delete/").content.decode()
    person.user_permissions.remove(person.user_permissions.get(codename="use_copilot"))
    assert "About this record" not in client.get(f"/admin/depot/box/{box.pk}/delete/").content.decode()
