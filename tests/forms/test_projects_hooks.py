"""Projects that override the admin's hooks, with and without super()."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.http import HttpResponse, HttpResponseRedirect
from django.test import Client

from django_copilot.models import PlanState
from tests.formapp.admin import ClosingAdmin, MemoAdmin
from tests.formapp.models import Memo

from .pages import Page, fill, plan_of, refused
from .test_fields import assert_saved, last_log

ADD = "/forms/formapp/memo/add/"


@pytest.fixture
def memo(db: None) -> Memo:
    """Return a stored memo."""
    return Memo.objects.create(title="Old")


def save_without_super(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
    obj.text = "by the project"
    obj.save()


def related_without_super(self: Any, request: Any, form: Any, formsets: Any, change: bool) -> None:
    form.save_m2m()


def log_without_super(self: Any, request: Any, obj: Any, message: Any) -> None:
    pass


def answer_without_super(self: Any, request: Any, obj: Any, *args: Any) -> HttpResponse:
    return HttpResponseRedirect("/elsewhere/")


OVERRIDES: dict[str, dict[str, Any]] = {
    "save_model": {"save_model": save_without_super},
    "save_related": {"save_related": related_without_super},
    "response": {"response_add": answer_without_super, "response_change": answer_without_super},
    "all of them": {
        "save_model": save_without_super,
        "save_related": related_without_super,
        "log_addition": log_without_super,
        "log_change": log_without_super,
        "response_add": answer_without_super,
        "response_change": answer_without_super,
    },
}


@pytest.mark.parametrize("overridden", OVERRIDES)
@pytest.mark.parametrize("change", [False, True])
def test_a_form_is_saved_once_whatever_the_project_overrides(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch, overridden: str, change: bool
) -> None:
    """Hazard 41: that a form was saved is known from the form, not from one hook."""
    for name, hook in OVERRIDES[overridden].items():
        monkeypatch.setattr(MemoAdmin, name, hook, raising=False)
    args = {"id": str(memo.pk)} if change else {}
    page = fill(client, "open_memo_form", {"title": "Once"}, **args)
    assert_saved(page.save())
    plan = plan_of(page)
    assert (plan.state, plan.result_pk) == (PlanState.EXECUTED, str(Memo.objects.latest("pk").pk))
    count = Memo.objects.count()
    assert page.save(title="Twice").response.status_code == 302
    assert Memo.objects.count() == count
    assert not Memo.objects.filter(title="Twice").exists()


def test_a_project_that_refuses_in_save_model_leaves_the_plan_open(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(MemoAdmin, "save_model", refuse)
    page = fill(client, "open_memo_form", {"title": "T"})
    with pytest.raises(RuntimeError):
        page.save()
    assert plan_of(page).state == PlanState.PROPOSED
    assert not Memo.objects.exists()
    monkeypatch.undo()
    assert_saved(page.save())


@pytest.mark.parametrize("first", [False, True])
def test_a_log_of_another_record_is_not_taken_for_the_saved_one(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    def save_and_touch(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        if first:
            self.log_change(request, memo, "Counted")
        super(MemoAdmin, self).save_model(request, obj, form, change)
        if not first:
            self.log_change(request, memo, "Counted")

    monkeypatch.setattr(MemoAdmin, "save_model", save_and_touch, raising=False)
    page = fill(client, "open_memo_form", {"title": "New"})
    assert_saved(page.save())
    assert plan_of(page).result_pk == str(Memo.objects.get(title="New").pk)
    assert str(page.plan) in last_log().get_change_message()
    assert LogEntry.objects.get(object_id=str(memo.pk)).get_change_message() == "Counted"


def test_what_a_base_classs_get_form_did_to_the_form_stays(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hazard 48: a subclass of a model form makes its fields anew."""
    monkeypatch.setattr(ClosingAdmin, "closed", ("text",))
    assert "not_fillable" in refused(client, "open_memo_form", {"text": "x"}, id=str(memo.pk))
    page = fill(client, "open_memo_form", {"title": "T"}, id=str(memo.pk))
    assert page.response.context["adminform"].form.fields["text"].disabled
    page.save(text="smuggled in")
    memo.refresh_from_db()
    assert (memo.title, memo.text) == ("T", "")


def test_what_the_projects_own_get_form_does_after_ours_stays(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_form(self: Any, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super(MemoAdmin, self).get_form(request, obj, change=change, **kwargs)
        form.base_fields["text"].disabled = True
        return form

    monkeypatch.setattr(MemoAdmin, "get_form", get_form, raising=False)
    page = fill(client, "open_memo_form", {"title": "T", "text": "x"}, id=str(memo.pk))
    assert list(page.marked) == ["title"]
    assert page.response.context["adminform"].form.fields["text"].disabled


class OwnForm(forms.ModelForm):
    class Meta:
        model = Memo
        fields = ["title", "text", "labels"]


def test_a_get_form_without_super_is_an_ordinary_form(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoAdmin, "get_form", lambda self, *args, **kwargs: OwnForm, raising=False)
    page = fill(client, "open_memo_form", {"title": "T"}, id=str(memo.pk))
    assert page.value("title") == "Old"
    assert page.marked == {}
    assert "_copilot_plan" not in page.data
    assert_saved(page.save(title="By hand"))


def test_a_changeform_view_without_super_is_left_alone(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own(
        self: Any, request: Any, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        return admin.ModelAdmin.changeform_view(self, request, object_id, form_url, extra_context)

    page = fill(client, "open_memo_form", {"title": "T"}, id=str(memo.pk))
    monkeypatch.setattr(MemoAdmin, "changeform_view", own, raising=False)
    plain = Page(client, page.url, client.get(page.url, {"aiPlan": page.plan}))
    assert plain.value("title") == "Old"
    assert plain.draft == {}


def test_a_form_whose_field_is_disabled_on_the_class_is_never_filled_in(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hazard 37."""
    page = fill(client, "open_memo_form", {"title": "T", "text": "proposed"}, id=str(memo.pk))
    monkeypatch.setattr(ClosingAdmin, "closed", ("text",))
    page.save(text="proposed")
    memo.refresh_from_db()
    assert (memo.title, memo.text) == ("T", "")


def test_a_field_that_only_her_own_request_closes_is_not_filled_in(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hazard 37: what is checked beforehand may know less than the page."""

    def get_form(self: Any, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super(MemoAdmin, self).get_form(request, obj, change=change, **kwargs)
        form.base_fields["text"].disabled = "csrftoken" in request.COOKIES
        return form

    monkeypatch.setattr(MemoAdmin, "get_form", get_form, raising=False)
    client.cookies["csrftoken"] = "x" * 32
    page = fill(client, "open_memo_form", {"title": "T", "text": "proposed"}, id=str(memo.pk))
    assert list(page.marked) == ["title"]
    assert 'value="proposed"' not in page.html


def test_atomic_requests_change_nothing(
    client: Client, memo: Memo, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    from django.db import connection

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    page = fill(client, "open_memo_form", {"title": "T"}, id=str(memo.pk))
    assert page.save(title="").plan == page.plan
    assert_saved(page.save())
    assert page.save(title="Twice").response.status_code == 302
    memo.refresh_from_db()
    assert memo.title == "T"
    second = fill(client, "open_memo_form", {"text": "x"}, id=str(memo.pk))
    Memo.objects.update(title="Theirs")
    assert "Title: Theirs" in str(second.save().errors["__all__"])
