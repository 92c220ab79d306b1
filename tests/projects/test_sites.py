"""Several admin sites in one project: each has its own declarations, people and conversations, or nothing."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.core import checks
from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from django_copilot.admin import HarnessMixin
from django_copilot.checks import check_all
from django_copilot.declaration import entities_of, is_declared
from django_copilot.testing import Call, Text, ask, copilot_client, script

from .depot import models as depot
from .sites import Project, declared, say

TITLE = declared(read=["title"], fill=["title"])
PANEL = "data-copilot"


class BackOffice(AdminSite):
    """A site for people of its own."""

    site_header = "Back office"

    def has_permission(self, request: Any) -> bool:
        """Let in who is called so."""
        return bool(super().has_permission(request) and request.user.username.startswith("office"))


def two_sites(project: Project) -> None:
    project.site({depot.Box: TITLE, depot.Item: TITLE})
    project.site(
        {depot.Box: declared(read=[], fill=["title"]), depot.Parcel: TITLE}, name="backoffice", cls=BackOffice
    )


def test_each_site_has_its_own_declarations(project: Project) -> None:
    """hazard 99"""
    two_sites(project)
    client = project.boss("office boss")
    assert say(client).tools == {
        *("query_box", "open_box_form", "confirm_delete_box"),
        *("query_item", "open_item_form", "confirm_delete_item", "ask_user"),
    }
    chat = say(client, site="backoffice")
    assert {"open_box_form", "query_parcel"} <= chat.tools
    assert not {"query_box", "query_item", "open_item_form"} & chat.tools
    depot.Box.objects.create(title="hidden here")
    chat = say(client, Call("query_box", {"fields": ["title"]}), site="backoffice")
    assert "hidden here" not in json.dumps(chat.told)


def test_links_and_pages_stay_on_their_site(project: Project) -> None:
    """hazard 99"""
    two_sites(project)
    client = project.boss("office boss")
    parcel = depot.Parcel.objects.create(title="p")
    chat = say(client, Call("query_parcel"), site="backoffice")
    url = chat.answer["results"][0]["rows"][0]["url"]
    assert url == f"/backoffice/depot/parcel/{str(parcel.pk).replace('_', '_5F')}/change/"
    assert client.get(url).status_code == 200
    for call, path in (
        (Call("open_box_form", {"fields": {"title": "t"}}), "/backoffice/depot/box/add/"),
        (Call("confirm_delete_parcel", {"id": str(parcel.pk)}), url.replace("change", "delete")),
    ):
        chat = say(client, call, site="backoffice", ends=True)
        assert chat.answer["action"]["path"] == path
        response = client.get(chat.page)
        assert response.status_code == 200
        text = response.content.decode()
        assert 'data-chat="/backoffice/django_copilot/conversation/chat/"' in text
        assert '="/admin/' not in text
        page = client.get(
            f"/backoffice/django_copilot/plan/{chat.answer['action']['queryParams']['aiPlan']}/"
        )
        assert page.status_code == 200
        assert '="/admin/' not in page.content.decode()
    listed = client.get("/backoffice/django_copilot/conversation/").content.decode()
    assert "/backoffice/django_copilot/conversation/" in listed
    assert '="/admin/' not in listed


def test_a_plan_of_one_site_fills_no_form_of_the_other(project: Project) -> None:
    """hazard 99"""
    two_sites(project)
    client = project.boss("office boss")
    chat = say(client, Call("open_box_form", {"fields": {"title": "from the other"}}), ends=True)
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    response = client.get(f"/backoffice/depot/box/add/?aiAction=create&aiPlan={plan}")
    assert response.status_code == 200
    assert "from the other" not in response.content.decode()
    assert client.get(f"/backoffice/django_copilot/plan/{plan}/").status_code == 404
    assert client.get(f"/admin/django_copilot/plan/{plan}/").status_code == 200


def test_a_conversation_of_one_site_is_not_there_on_the_other(project: Project) -> None:
    """hazard 99"""
    two_sites(project)
    client = project.boss("office boss")
    depot.Item.objects.create(title="only on the default site")
    ident = say(client, Call("query_item")).answer["conversationId"]
    foreign, absent = (
        ask(client, "Go on", site="backoffice", conversationId=each, status=404)
        for each in (ident, "00000000-0000-4000-8000-000000000000")
    )
    assert foreign == absent
    as_json = {"accept": "application/json"}
    assert client.get(f"/backoffice/django_copilot/conversation/{ident}/", headers=as_json).status_code == 404
    assert client.post(f"/backoffice/django_copilot/conversation/{ident}/delete/").status_code == 404
    assert client.get(f"/admin/django_copilot/conversation/{ident}/", headers=as_json).status_code == 200
    listed = client.get("/backoffice/django_copilot/conversation/", headers=as_json).json()
    assert listed["conversations"] == []


def test_who_is_staff_of_one_site_only_is_refused_on_the_other(project: Project) -> None:
    two_sites(project)
    client = copilot_client(project.person("depot.view_box", name="ann"))
    assert "query_box" in say(client).tools
    assert ask(client, "x", site="backoffice", status=403)["code"] == "not_staff"


def test_the_panel_is_on_every_page_of_each_site_and_only_for_its_people(project: Project) -> None:
    two_sites(project)
    boss = project.boss("office boss")
    box = depot.Box.objects.create(title="t")
    pages = ["", "depot/", "depot/box/", "depot/box/add/", f"depot/box/{box.pk}/change/"]
    pages += [f"depot/box/{box.pk}/delete/", f"depot/box/{box.pk}/history/", "password_change/"]
    for site in ("admin", "backoffice"):
        for page in pages:
            text = boss.get(f"/{site}/{page}").content.decode()
            assert f'data-chat="/{site}/django_copilot/conversation/chat/"' in text, (site, page)
    assert PANEL not in boss.get("/admin/depot/box/add/?_popup=1").content.decode()
    assert PANEL not in project_client_without_right(project).get("/admin/").content.decode()


def project_client_without_right(project: Project) -> Any:
    user = project.person("depot.view_box", name="plain")
    user.user_permissions.remove(user.user_permissions.get(codename="use_copilot"))
    return copilot_client(user)


def test_the_panel_is_on_pages_of_the_projects_own_in_the_admin(project: Project) -> None:
    from django.http import HttpRequest, HttpResponse
    from django.template.response import TemplateResponse
    from django.urls import path

    class WithReport(HarnessMixin, admin.ModelAdmin):
        harness_list = ["title"]

        def get_urls(self) -> Any:
            own = path("report/", self.admin_site.admin_view(self.report), name="report")
            return [own, *super().get_urls()]

        def report(self, request: HttpRequest) -> HttpResponse:
            return TemplateResponse(request, "admin/base_site.html", self.admin_site.each_context(request))

    project.site({depot.Box: TITLE})
    project.site({depot.Box: WithReport}, name="other")
    text = project.boss().get("/other/depot/box/report/").content.decode()
    assert 'data-chat="/other/django_copilot/conversation/chat/"' in text


# -- nothing declared ------------------------------------------------------------------------------


class Base(HarnessMixin, admin.ModelAdmin):
    """What a project puts under all its admins."""


@pytest.mark.parametrize("model_admin", [admin.ModelAdmin, Base])
def test_a_site_without_a_declared_entity_has_no_panel_and_no_endpoint(
    project: Project, model_admin: Any
) -> None:
    """hazard 100"""
    project.site({depot.Box: TITLE})
    site = project.site({depot.Box: model_admin}, name="plain")
    assert entities_of(site) == {}
    client = project.boss()
    box = depot.Box.objects.create(title="t")
    for page in ("", "depot/box/", "depot/box/add/", f"depot/box/{box.pk}/change/"):
        assert PANEL not in client.get(f"/plain/{page}").content.decode()
    body = json.dumps({"message": "x"})
    for path in ("conversation/chat/", "conversation/", "conversation/jsi18n/"):
        response = client.post(f"/plain/django_copilot/{path}", body, content_type="application/json")
        assert response.status_code == 404
        assert client.get(f"/plain/django_copilot/{path}").status_code == 404
    # a link with our parameters fills in nothing, and the site's own forms work
    response = client.get('/plain/depot/box/add/?aiAction=create&aiPrefill={"title":"from a link"}')
    assert "from a link" not in response.content.decode()
    assert "copilot_draft" not in response.context
    assert client.post("/plain/depot/box/add/", {"title": "saved"}).status_code == 302
    assert client.get(f"/plain/depot/box/{box.pk}/delete/").context.get("copilot_preview") is None


def test_a_base_class_with_nothing_declared_asks_the_database_nothing(
    project: Project, django_assert_num_queries: Any
) -> None:
    """hazard 100"""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    project.site({depot.Box: admin.ModelAdmin}, name="without")
    project.site({depot.Box: Base}, name="with")
    client = project.boss()
    box = depot.Box.objects.create(title="t")
    for page in (
        "depot/box/",
        "depot/box/add/",
        f"depot/box/{box.pk}/change/",
        f"depot/box/{box.pk}/delete/",
    ):
        client.get(f"/without/{page}")  # what is read once per process
        with CaptureQueriesContext(
            connection,
        ) as without:
            client.get(f"/without/{page}")
        with django_assert_num_queries(len(without)):
            client.get(f"/with/{page}")


def test_a_base_class_with_nothing_declared_gives_no_check_messages(project: Project) -> None:
    site = project.site({depot.Box: Base})
    assert [each for each in check_all() if each.obj is Base] == []
    assert not is_declared(site._registry[depot.Box])


def test_an_inherited_declaration_is_in_force_and_pointed_out(project: Project) -> None:
    """hazard 100"""
    inherited = type("InheritedAdmin", (TITLE,), {})
    repeated = type("RepeatedAdmin", (TITLE,), {"harness_list": ["title"], "harness_persist": []})
    site = project.site({depot.Box: inherited, depot.SmallBox: repeated})
    assert set(entities_of(site)) == {"box", "smallbox"}
    found = [each for each in check_all() if each.obj in (inherited, repeated)]
    assert [(each.id, each.obj) for each in found] == [("copilot.W014", inherited)] * 2
    assert all(each.level == checks.WARNING for each in found)


# -- registering and unregistering -----------------------------------------------------------------


def test_a_model_that_is_unregistered_is_gone_from_the_next_message_on(project: Project) -> None:
    site = project.site({depot.Box: TITLE, depot.Item: TITLE})
    client = project.boss()
    box = depot.Box.objects.create(title="t")
    conversation = say(client, Call("query_box")).answer["conversationId"]
    form = say(client, Call("open_box_form", {"id": str(box.pk), "fields": {"title": "n"}}), ends=True)
    plan = form.answer["action"]["queryParams"]["aiPlan"]
    site.unregister(depot.Box)
    project.mount()
    assert say(client, Call("query_box")).error == "unknown_tool"
    assert client.get(f"/admin/django_copilot/plan/{plan}/").status_code == 404
    shown = client.get(
        f"/admin/django_copilot/conversation/{conversation}/", headers={"accept": "application/json"}
    ).json()
    assert shown["messages"][-1]["withheld"]


def test_when_the_last_entity_is_unregistered_the_endpoint_is_gone(project: Project) -> None:
    site = project.site({depot.Box: TITLE})
    client = project.boss()
    say(client)
    site.unregister(depot.Box)
    with script():
        assert ask(client, "x", status=404)["code"] == "not_found"
    assert PANEL not in client.get("/admin/").content.decode()


def test_the_own_models_can_be_no_entities(project: Project) -> None:
    from django_copilot.models import Conversation, Message, Plan

    for model in (Conversation, Message, Plan):
        site = AdminSite(name="own")
        site.register(model, declared(read=["id"]))
        try:
            assert entities_of(site) == {}
            assert "copilot.E010" in {each.id for each in check_all()}
        finally:
            admin.sites.all_sites.discard(site)


def test_the_only_site_may_have_any_name_and_place(project: Project) -> None:
    project.site({depot.Box: TITLE}, name="intranet-Ü")
    client = project.boss()
    depot.Box.objects.create(title="t")
    chat = say(client, Call("query_box"), Text("There."), site="intranet-Ü")
    url = chat.answer["results"][0]["rows"][0]["url"]
    assert resolve(unquote(reverse("admin:index"))).namespace == "intranet-Ü"
    assert client.get(url).status_code == 200
    with pytest.raises((NoReverseMatch, Resolver404)):
        resolve("/admin/")
