"""Run in a process of its own: install the showroom, go through its pages, and print what was there as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import django


def main(what: str) -> dict[str, Any]:
    """Set the project up and run one of the visits."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.projects.showroom.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    return {"pages": visit_pages, "rest": visit_rest, "checks": visit_checks}[what]()


def visit_checks() -> dict[str, Any]:
    """Return the ids of the check messages about declarations and order."""
    from django_copilot.checks import check_all

    return {"ids": sorted(str(each.id) for each in check_all())}


def visit_pages() -> dict[str, Any]:
    """Return, for each page of the admin, which of our parts it has."""
    from django.contrib import admin
    from django.contrib.admin.utils import quote
    from django.contrib.auth import get_user_model

    from django_copilot.testing import Call, copilot_client
    from tests.projects.depot.models import Bin, Item
    from tests.projects.sites import say

    client = copilot_client(get_user_model().objects.create_superuser("boss"))
    one = Bin.objects.create(code="a/b_5F", title="a bin to be seen")
    item = Item.objects.create(title="an item to be seen", bin=one)
    key = quote(one.pk)
    found: dict[str, Any] = {}

    def look(name: str, path: str, *, plan: str = "") -> str:
        response = client.get(path)
        text = response.content.decode()
        found[name] = {
            "status": response.status_code,
            "panel": text.count(" data-copilot "),
            "plan": bool(
                plan
                and re.search(
                    rf'<form(?:(?!</form>).)*<input type="hidden" name="_copilot_plan" value="{plan}">',
                    text,
                    re.DOTALL,
                )
            ),
            "marks": '<script id="copilot-draft" type="application/json">' in text,
        }
        return text

    look("index", "/admin/")
    look("app", "/admin/depot/")
    look("list", "/admin/depot/bin/")
    look("history", f"/admin/depot/bin/{key}/history/")
    look("password", "/admin/password_change/")
    forms = {
        "add": Call("open_item_form", {"fields": {"title": "proposed title", "bin": one.pk}}),
        "change": Call("open_item_form", {"id": str(item.pk), "fields": {"title": "proposed title"}}),
        "change by text key": Call("open_bin_form", {"id": one.pk, "fields": {"title": "proposed title"}}),
        "add account": Call("open_user_form", {"fields": {"username": "proposed title"}}),
    }
    for name, call in forms.items():
        chat = say(client, call, ends=True)
        plan = chat.answer["action"]["queryParams"]["aiPlan"]
        text = look(name, chat.page, plan=plan)
        found[name]["filled"] = 'value="proposed title"' in text
        if name == "change":
            posted = client.post(
                chat.answer["action"]["path"],
                {"title": "proposed title", "bin": one.pk, "_copilot_plan": plan},
            )
            item.refresh_from_db()
            found[name]["saved"] = (posted.status_code, item.title)
    chat = say(client, Call("confirm_delete_item", {"id": str(item.pk)}), ends=True)
    text = look("delete", chat.page)
    found["delete"]["preview"] = 'class="copilot-preview' in text or "About this record" in text
    chat = say(client, Call("query_item"))
    found["rows"] = chat.rows
    found["header"] = str(admin.site.site_header)
    client.logout()
    look("login", "/admin/login/")
    return found


def visit_rest() -> dict[str, Any]:
    """Return what the chat endpoint answers to people and strangers under hostile defaults."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from django_copilot.testing import Call, Text, copilot_client, script
    from tests.projects.depot.models import Bin

    chat = "/admin/django_copilot/conversation/chat/"
    boss = copilot_client(get_user_model().objects.create_superuser("boss"))
    plain = copilot_client(get_user_model().objects.create_user("plain"))
    checked = Client(enforce_csrf_checks=True)
    checked.force_login(get_user_model().objects.get(username="boss"))
    Bin.objects.create(code="k", title="żółw")

    def post(client: Client, body: str, **options: Any) -> Any:
        response = client.post(chat, body, content_type="application/json", **options)
        return [response.status_code, response.json()]

    message = json.dumps({"message": "Show bins"})
    found: dict[str, Any] = {}
    with script(Call("query_bin"), Text("There.")):
        found["answer"] = post(boss, message)
    again = json.dumps({"message": "And?", "conversationId": found["answer"][1]["conversationId"]})
    with script(Text("Again.")):
        found["same conversation"] = post(boss, again, headers={"accept": "text/html"})
    with script():
        found["stranger"] = post(Client(), message)
        found["stranger with a token"] = post(Client(), message, headers={"authorization": "Token x"})
        found["not staff"] = post(plain, message)
        found["no csrf token"] = post(checked, message)
        found["empty"] = post(boss, json.dumps({"message": ""}))
        found["no json"] = post(boss, "{")
        found["not a number"] = post(boss, '{"message": NaN}')
        found["get"] = boss.get(chat).status_code
        found["list for a stranger"] = (
            Client()
            .get("/admin/django_copilot/conversation/", headers={"accept": "application/json"})
            .status_code
        )
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
