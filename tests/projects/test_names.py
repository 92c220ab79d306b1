"""Names of models that clash, do not fit, or are not ASCII: each tool reaches its own model and pages."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.admin.models import LogEntry

from django_copilot.declaration import entities_of
from django_copilot.models import Plan
from django_copilot.testing import Call, Text, copilot_client, sent_text

from .depot import models as depot
from .depot_north import models as north
from .sites import Project, declared, say

TITLE = declared(read=["title"], fill=["title"])
NORTH = declared(read=["north_title"], fill=["north_title"])
LONG = (
    depot.AnExtremelyLongNameForAThingThatNobodyWouldEverWriteDownButSomebodyDidOne,
    depot.AnExtremelyLongNameForAThingThatNobodyWouldEverWriteDownButSomebodyDidTwo,
)
EVERY = {
    depot.Box: TITLE,
    north.Box: NORTH,
    depot.SmallBox: TITLE,
    depot.North_Stock: TITLE,
    north.Stock: TITLE,
    depot.Café: TITLE,
    north.Cafe: TITLE,
    depot.Заказ: TITLE,
    LONG[0]: TITLE,
    LONG[1]: TITLE,
}


def test_names_of_tools_are_unique_short_and_ascii_whatever_models_are_called(project: Project) -> None:
    """hazard 90"""
    site = project.site(EVERY)
    entities = entities_of(site)
    assert len(entities) == len(EVERY)
    assert {each.model for each in entities.values()} == set(EVERY)
    for name, entity in entities.items():
        for tool in (f"query_{name}", f"open_{name}_form", f"confirm_delete_{name}"):
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool), (entity.label, tool)
    assert {"depot__box", "depot_north__box"} <= set(entities)
    assert entities["smallbox"].model is depot.SmallBox


def test_a_name_without_a_twin_is_as_short_as_the_model(project: Project) -> None:
    assert set(entities_of(project.site({depot.Box: TITLE, depot.Item: TITLE}))) == {"box", "item"}


@pytest.mark.parametrize("model", EVERY, ids=lambda model: model._meta.label)
def test_each_tool_reads_opens_and_deletes_its_own_model(project: Project, model: Any) -> None:
    """hazard 90

    Also where app label and model name join to the same text: depot_north + stock, depot + north_stock.
    """
    project.settings.COPILOT = {**project.settings.COPILOT, "MAX_ENTITIES": 20}
    site, client = project.site(EVERY), project.boss()
    field = "north_title" if model is north.Box else "title"
    for each in EVERY:
        each.objects.create(**{"north_title" if each is north.Box else "title": each._meta.label})
    name = next(each.name for each in entities_of(site).values() if each.model is model)
    mine = model.objects.get(**{field: model._meta.label})
    path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"

    chat = say(client, Call(f"query_{name}", {"filters": {"id": str(mine.pk)}}))
    assert chat.rows == [{"id": str(mine.pk), field: model._meta.label}]
    row = chat.answer["results"][0]["rows"][0]
    response = client.get(row["url"])
    assert response.status_code == 200
    assert response.context["original"] == mine
    assert type(response.context["original"]) is model

    chat = say(client, Call(f"open_{name}_form", {"fields": {field: "quite new"}}), ends=True)
    response = client.get(chat.page)
    assert response.context["opts"] is model._meta
    assert 'value="quite new"' in response.content.decode()
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    client.post(chat.answer["action"]["path"], {field: "quite new", "_copilot_plan": plan})
    assert model.objects.filter(**{field: "quite new"}).exists()
    entry = LogEntry.objects.get()
    assert entry.content_type is not None
    assert entry.content_type.model == model._meta.model_name
    assert plan in entry.change_message
    assert Plan.objects.get(pk=plan).model == model._meta.label_lower

    chat = say(
        client, Call(f"open_{name}_form", {"id": str(mine.pk), "fields": {field: "changed"}}), ends=True
    )
    response = client.get(chat.page)
    assert response.context["original"] == mine
    assert 'value="changed"' in response.content.decode()
    page = client.get(f"/admin/django_copilot/plan/{chat.answer['action']['queryParams']['aiPlan']}/")
    assert client.get(page.context["plan"]["open_url"]).context["original"] == mine

    chat = say(client, Call(f"confirm_delete_{name}", {"id": str(mine.pk)}), ends=True)
    response = client.get(chat.page)
    assert response.context["object"] == mine
    assert response.context["opts"] is model._meta
    assert response.context["copilot_preview"]["fields"][0]["value"] == model._meta.label
    assert chat.answer["action"]["path"] == f"{quote(path)}{mine.pk}/delete/"


def test_a_conversation_about_one_twin_is_not_taken_for_the_other(project: Project) -> None:
    """hazard 90"""
    project.site({depot.Box: TITLE, north.Box: NORTH})
    user = project.person("depot.view_box", "depot_north.view_box")
    client = copilot_client(user)
    depot.Box.objects.create(title="south")
    north.Box.objects.create(north_title="north")
    chat = say(client, Call("query_depot_north__box"))
    assert [row["north_title"] for row in chat.rows] == ["north"]
    user.user_permissions.remove(
        *user.user_permissions.filter(codename="view_box", content_type__app_label="depot_north")
    )
    again = client.get(
        f"/admin/django_copilot/conversation/{chat.answer['conversationId']}/",
        headers={"accept": "application/json"},
    ).json()
    assert again["messages"][-1]["withheld"]
    assert again["messages"][-1]["results"] == []
    later = say(client, Text("Yes?"), conversationId=chat.answer["conversationId"])
    assert later.tools == {"query_depot__box", "ask_user"}
    assert "Done." not in sent_text(later.model.request)


def test_rights_of_a_proxy_are_its_own(project: Project) -> None:
    """hazard 91"""
    project.site({depot.Box: TITLE, depot.SmallBox: TITLE})
    box = depot.Box.objects.create(title="one")
    of_box = copilot_client(project.person("depot.view_box", "depot.change_box"))
    of_proxy = copilot_client(project.person("depot.view_smallbox"))
    assert {"query_box", "open_box_form"} <= say(of_box).tools
    assert "query_smallbox" not in say(of_box).tools
    assert "query_box" not in say(of_proxy).tools
    chat = say(of_proxy, Call("query_smallbox"))
    assert [row["id"] for row in chat.rows] == [str(box.pk)]
    assert say(of_proxy, Call("query_box")).error == "unknown_tool"
    assert say(of_proxy, Call("open_smallbox_form", {"id": str(box.pk), "fields": {"title": "x"}})).error in (
        "not_allowed",
        "not_found",
    )
