"""ModelAdmins that are not plain: forms of their own, rights per record, labels and fields that hide things."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.contrib.contenttypes.models import ContentType
from django.core.files.base import ContentFile

from django_copilot.admin import HarnessMixin
from django_copilot.checks import check_all
from django_copilot.testing import Call, assert_not_sent, copilot_client

from .depot import models as depot
from .sites import Project, declared, say

TITLE = declared(read=["title"], fill=["title"])
PIN = "s3cr3t-pin"


# -- labels that print secrets ---------------------------------------------------------------------

DEED = declared(read=["title", "vault", "vaults"], fill=["title", "vault", "vaults"])


def vault_and_deed() -> tuple[Any, Any]:
    vault = depot.Vault.objects.create(title="main", pin=PIN)
    deed = depot.Deed.objects.create(title="d", vault=vault)
    deed.vaults.add(vault)
    return vault, deed


@pytest.mark.parametrize("vault_admin", [None, admin.ModelAdmin], ids=["not registered", "not declared"])
def test_a_label_that_prints_a_secret_stays_out_of_everything_while_its_model_is_no_entity(
    project: Project, vault_admin: Any
) -> None:
    """hazard 12"""
    project.site({depot.Deed: DEED, **({depot.Vault: vault_admin} if vault_admin else {})})
    client = project.boss()
    vault, deed = vault_and_deed()
    ident = str(deed.pk)
    chat = say(client, Call("query_deed"))
    assert chat.rows[0]["vault"] == {"id": str(vault.pk)}
    assert chat.rows[0]["vaults"] == [{"id": str(vault.pk)}]
    assert PIN not in json.dumps(chat.answer)
    assert_not_sent(chat.model, PIN)
    for step in (
        Call("open_deed_form", {"id": ident, "fields": {"title": "n"}}),
        Call("confirm_delete_deed", {"id": ident}),
    ):
        chat = say(client, step, ends=True)
        assert PIN not in chat.answer["reply"]
        assert PIN not in json.dumps(chat.answer)
        later = say(client, conversationId=chat.answer["conversationId"])
        assert_not_sent(later.model, PIN)
    preview = client.get(chat.page).context["copilot_preview"]
    assert PIN not in str(preview)


def test_a_label_is_told_where_its_model_is_declared_and_the_record_may_be_seen(project: Project) -> None:
    """hazard 12"""

    def only_main(self: Any, request: Any, obj: Any = None) -> bool:
        return obj is None or obj.title == "main"

    vaults = declared(
        read=["title"],
        has_view_permission=only_main,
        has_change_permission=lambda self, request, obj=None: False,
    )
    project.site({depot.Deed: DEED, depot.Vault: vaults})
    vault, _deed = vault_and_deed()
    hidden = depot.Vault.objects.create(title="other", pin="h1dd3n")
    depot.Deed.objects.create(title="of the other", vault=hidden)
    chat = say(project.boss(), Call("query_deed"))
    by_title = {row["title"]: row["vault"] for row in chat.rows}
    assert by_title["d"] == {"id": str(vault.pk), "label": f"main PIN {PIN}"}
    assert by_title["of the other"] == {"id": str(hidden.pk)}
    assert_not_sent(chat.model, "h1dd3n")


def test_a_person_without_rights_on_the_related_model_gets_no_label(project: Project) -> None:
    """hazard 12"""
    project.site({depot.Deed: DEED, depot.Vault: declared(read=["title"])})
    vault_and_deed()
    client = copilot_client(project.person("depot.view_deed", "depot.change_deed"))
    chat = say(client, Call("query_deed"))
    assert set(chat.rows[0]["vault"]) == {"id"}
    assert_not_sent(chat.model, PIN)
    refused = say(client, Call("open_deed_form", {"fields": {"vault": chat.rows[0]["vault"]["id"]}}))
    assert "error" in refused.told[-1]


# -- forms of the project's own --------------------------------------------------------------------


class KeywordsOnly(admin.ModelAdmin):
    """A base whose get_form takes the record and keywords, as many projects' do."""

    def get_form(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        """Drop a field for everybody but superusers."""
        form = super().get_form(request, obj, **kwargs)
        if not request.user.is_superuser:
            form.base_fields.pop("vault", None)
        return form


@pytest.mark.parametrize("fields", [None, ["title", "vault"]], ids=["all fields", "fields named"])
def test_what_a_projects_get_form_drops_can_be_neither_read_nor_filled(project: Project, fields: Any) -> None:
    """hazard 106"""
    deeds = type("DeedAdmin", (HarnessMixin, KeywordsOnly), {"harness_list": ["title", "vault"]})
    deeds.harness_persist = ["title", "vault"]  # type: ignore[attr-defined]
    deeds.fields = fields  # type: ignore[attr-defined]
    project.site({depot.Deed: deeds, depot.Vault: TITLE})
    vault, deed = vault_and_deed()
    rights = ("depot.view_deed", "depot.change_deed", "depot.add_deed", "depot.view_vault")
    plain = copilot_client(project.person(*rights))
    chat = say(plain, Call("query_deed"))
    assert chat.rows == [{"id": str(deed.pk), "title": "d"}]
    values = {"title": "n", "vault": str(vault.pk)}
    chat = say(plain, Call("open_deed_form", {"fields": values}), ends=True)
    assert chat.answer["action"]["prefill"] == {"title": "n"}
    assert chat.answer["action"]["dropped"] == ["Vault"]
    boss = project.boss()
    assert say(boss, Call("query_deed")).rows[0]["vault"]["id"] == str(vault.pk)
    chat = say(boss, Call("open_deed_form", {"fields": values}), ends=True)
    assert boss.get(chat.page).context["adminform"].form.initial["vault"] == vault


def test_a_person_who_may_only_view_reads_what_a_projects_form_shows_her(project: Project) -> None:
    """hazard 106

    Django makes her form without a single editable field and shows every field as text.
    """
    notes = type("NoteAdmin", (HarnessMixin, KeywordsOnly), {"harness_list": ["title"]})
    project.site({depot.Note: notes})
    note = depot.Note.objects.create(title="seen")
    client = copilot_client(project.person("depot.view_note"))
    assert "seen" in client.get(f"/admin/depot/note/{note.pk}/change/").content.decode()
    assert say(client, Call("query_note")).rows == [{"id": str(note.pk), "title": "seen"}]


class FailingForm(admin.ModelAdmin):
    """A form that can't be made."""

    def get_form(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        """Fail."""
        raise LookupError("no such form")


def test_a_get_form_that_fails_offers_no_form(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    boxes = type("BoxAdmin", (HarnessMixin, FailingForm), {"harness_list": ["title"]})
    boxes.harness_persist = ["title"]  # type: ignore[attr-defined]
    project.site({depot.Box: boxes, depot.Item: TITLE})
    chat = say(project.boss(), Call("open_box_form", {"fields": {"title": "x"}}))
    assert not {"open_box_form", "query_box"} & chat.tools
    assert "error" in chat.told[-1]
    assert "get_form" in caplog.text


class PeopleAdmin(HarnessMixin, UserAdmin):
    """Django's own admin of accounts: the add form is another one than the change form."""

    harness_list = ["username", "email", "first_name", "date_joined", "password"]
    harness_persist = ["username", "email", "first_name", "password", "password1", "is_superuser"]


def test_accounts_are_added_with_one_form_and_changed_with_another(project: Project) -> None:
    """hazard 106"""
    project.site({get_user_model(): PeopleAdmin})
    client = project.boss()
    other = get_user_model().objects.create_user("other", email="o@example.org", password="hashed-away")
    call = Call("open_user_form", {"fields": {"username": "new", "email": "n@example.org"}})
    chat = say(client, call, ends=True)
    assert chat.answer["action"]["prefill"] == {"username": "new"}
    assert chat.answer["action"]["dropped"] == ["Email address"]
    page = client.get(chat.page).content.decode()
    assert 'value="new"' in page
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    assert f'<input type="hidden" name="_copilot_plan" value="{plan}">' in page
    values = {
        "username": "new",
        "password1": "cRs-55-alpha",
        "password2": "cRs-55-alpha",
        "_copilot_plan": plan,
    }
    values["usable_password"] = "true"
    assert client.post(chat.answer["action"]["path"], values).status_code == 302
    assert get_user_model().objects.filter(username="new").count() == 1
    assert client.post(chat.answer["action"]["path"], {**values, "username": "newer"}).status_code == 302
    assert not get_user_model().objects.filter(username="newer").exists()

    call = Call("open_user_form", {"id": str(other.pk), "fields": {"email": "x@example.org"}})
    chat = say(client, call, ends=True)
    page = client.get(chat.page).content.decode()
    assert 'value="x@example.org"' in page


def test_a_password_is_neither_read_nor_filled_even_when_declared(project: Project) -> None:
    """hazard 109"""
    project.site({get_user_model(): PeopleAdmin})
    client = project.boss()
    other = get_user_model().objects.create_user("other", password="hashed-away")
    chat = say(client, Call("query_user", {"filters": {"username": "other"}}))
    assert "password" not in chat.rows[0]
    assert_not_sent(chat.model, other.password)
    assert say(client, Call("query_user", {"filters": {"password": other.password}})).error == "unknown_field"
    for ident in ({}, {"id": str(other.pk)}):
        call = Call("open_user_form", {**ident, "fields": {"password": "x"}})
        assert say(client, call).error == "not_fillable"
    found = {each.id for each in check_all() if each.obj is PeopleAdmin}
    assert {"copilot.E021", "copilot.E031", "copilot.W035"} <= found


def test_password_fields_of_the_add_form_are_not_filled(project: Project) -> None:
    """hazard 109"""
    project.site({get_user_model(): PeopleAdmin})
    client = project.boss()
    call = Call("open_user_form", {"fields": {"username": "n", "password1": "known-to-the-model"}})
    chat = say(client, call, ends=True)
    assert "password1" not in chat.answer["action"]["prefill"]
    assert "known-to-the-model" not in client.get(chat.page).content.decode()


# -- rights per record -----------------------------------------------------------------------------


class PerRecord(HarnessMixin, admin.ModelAdmin):
    """Rights that are given on single records only, as guardian does."""

    harness_list = ["title"]
    harness_persist = ["title"]
    granted: dict[str, set[str]] = {}

    def _granted(self, request: Any, verb: str, obj: Any) -> bool:
        titles = self.granted.get(verb, set())
        return bool(titles) if obj is None else obj.title in titles

    def has_module_permission(self, request: Any) -> bool:
        """Let everybody in who was given something."""
        return any(self.granted.values())

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        """Ask for the record."""
        return self._granted(request, "view", obj)

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        """Ask for the record."""
        return self._granted(request, "change", obj)

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Ask for the record."""
        return self._granted(request, "delete", obj)

    def has_add_permission(self, request: Any) -> bool:
        """Nobody adds."""
        return False


def test_rights_on_single_records_decide_on_each_of_them(project: Project) -> None:
    """hazard 108"""
    granted = {"view": {"seen", "mine"}, "change": {"mine"}, "delete": {"mine"}}
    project.site({depot.Box: type("BoxAdmin", (PerRecord,), {"granted": granted})})
    boxes = {title: depot.Box.objects.create(title=title) for title in ("seen", "mine", "hidden")}
    client = copilot_client(project.person())  # no permission on the model at all
    chat = say(client, Call("query_box"))
    assert {row["title"] for row in chat.rows} == {"seen", "mine"}
    assert not chat.told[-1]["has_more"]
    expected = {"seen": "not_allowed", "hidden": "not_found"}
    for title, code in expected.items():
        ident = str(boxes[title].pk)
        call = Call("open_box_form", {"id": ident, "fields": {"title": "x"}})
        assert say(client, call).error == code
        assert say(client, Call("confirm_delete_box", {"id": ident})).error == code
    assert "error" in say(client, Call("open_box_form", {"fields": {"title": "x"}})).told[-1]
    ident = str(boxes["mine"].pk)
    chat = say(client, Call("open_box_form", {"id": ident, "fields": {"title": "x"}}), ends=True)
    assert client.get(chat.page).context["original"] == boxes["mine"]


# -- fields that are not for a model ---------------------------------------------------------------


class NoteAdmin(HarnessMixin, admin.ModelAdmin):
    """Shows everything that there is."""

    harness_list = ["title", "about", "payload", "scan"]
    harness_persist = ["title", "about", "payload", "scan"]
    list_display = ["title", "about"]
    readonly_fields = ["about"]


def test_binary_data_files_and_generic_relations(project: Project) -> None:
    """hazard 109"""
    project.site({depot.Note: NoteAdmin, depot.Box: TITLE})
    client = project.boss()
    box = depot.Box.objects.create(title="b")
    note = depot.Note(
        title="t",
        content_type=ContentType.objects.get_for_model(depot.Box),
        object_id=str(box.pk),
        payload=b"\x00binary",
    )
    note.scan.name = "scans/letter.pdf"
    note.save()
    chat = say(client, Call("query_note"))
    assert chat.rows == [{"id": str(note.pk), "title": "t", "scan": "scans/letter.pdf"}]
    for name, code in {
        "about": "unknown_field",
        "payload": "unknown_field",
        "scan": "not_filterable",
        "content_type": "unknown_field",
    }.items():
        assert say(client, Call("query_note", {"filters": {name: "1"}})).error == code, name
    for name in ("about", "payload", "scan"):
        call = Call("open_note_form", {"fields": {name: "1"}})
        assert say(client, call).error == "not_fillable"
    fields = {"title": "n", "about": "1", "payload": "x", "scan": "/etc/passwd"}
    chat = say(client, Call("open_note_form", {"id": str(note.pk), "fields": fields}), ends=True)
    assert chat.answer["action"]["prefill"] == {"title": "n"}
    assert client.get(chat.page).status_code == 200
    assert client.get(f"/admin/depot/note/{note.pk}/delete/").context["copilot_preview"]["fields"]


def test_generic_relations_binary_data_and_files_are_refused_by_the_checks(project: Project) -> None:
    """hazard 109"""
    project.site({depot.Note: NoteAdmin})
    found = [(each.id, each.msg) for each in check_all() if each.obj is NoteAdmin]
    for attribute, name in (
        ("harness_list", "about"),
        ("harness_list", "payload"),
        ("harness_persist", "about"),
        ("harness_persist", "payload"),
        ("harness_persist", "scan"),
    ):
        assert any(
            msg.startswith(f"{attribute}: {name!r}") and ident.startswith("copilot.E") for ident, msg in found
        ), (attribute, name, found)


def test_the_reverse_of_a_generic_relation_is_no_field_to_read(project: Project) -> None:
    """hazard 109"""
    topics = declared(read=["title", "notes"], fill=["title", "notes"], readonly_fields=["notes"])
    project.site({depot.Topic: topics})
    client = project.boss()
    topic = depot.Topic.objects.create(title="t")
    topic.notes.create(title="n")
    assert say(client, Call("query_topic")).rows == [{"id": str(topic.pk), "title": "t"}]
    assert "copilot.E021" in {each.id for each in check_all() if each.obj is topics}


def test_a_file_is_read_as_a_name_and_never_opened(project: Project, tmp_path: Any) -> None:
    """hazard 109"""
    project.settings.MEDIA_ROOT = tmp_path
    project.site({depot.Note: NoteAdmin})
    note = depot.Note(title="t")
    note.scan.save("letter.txt", ContentFile(b"contents of the file"))
    chat = say(project.boss(), Call("query_note"))
    assert chat.rows[0]["scan"] == note.scan.name
    assert_not_sent(chat.model, "contents of the file")
    assert_not_sent(chat.model, str(tmp_path))


class WithExtra(forms.ModelForm):
    """A form with a field of its own."""

    extra = forms.CharField(required=False)

    class Meta:
        model = depot.Box
        fields = ["title"]


def test_a_field_of_the_form_only_can_be_filled_and_not_read(project: Project) -> None:
    boxes = declared(read=["title", "extra"], fill=["extra"], form=WithExtra, fields=["title", "extra"])
    project.site({depot.Box: boxes})
    client = project.boss()
    depot.Box.objects.create(title="t")
    assert "extra" not in say(client, Call("query_box")).rows[0]
    chat = say(client, Call("open_box_form", {"fields": {"extra": "more"}}), ends=True)
    assert 'value="more"' in client.get(chat.page).content.decode()
