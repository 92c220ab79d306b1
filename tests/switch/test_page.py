"""The page of the switch: who may use it, that it works without scripts, and that it can always be turned on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client, override_settings

from django_copilot import audit, switch
from django_copilot.models import AuditEntry, Switch
from django_copilot.testing import Text, ask, copilot_client, script

from ..plans.tools import JSON, impersonated, staff

URL = "/admin/django_copilot/switch/"
OFF = {"off": "on", "reason": "The gateway is down."}


@pytest.fixture
def keeper(db: None) -> Client:
    """Return the client of somebody who may turn it, and may not use the assistant herself."""
    return copilot_client(staff("keeper", "django_copilot.use_switch"))


def test_it_is_turned_off_and_on_by_plain_forms(keeper: Client) -> None:
    page = keeper.get(URL)
    assert page.status_code == 200
    assert 'name="off" value="on"' in page.content.decode()
    answer = keeper.post(URL, OFF)
    assert (answer.status_code, answer["Location"]) == (303, URL)
    assert switch.is_off("admin")
    page = keeper.get(URL)
    text = page.content.decode()
    assert (page.context["off"], page.context["changed_by"]) == (True, "keeper")
    assert page.context["changed_at"] == Switch.objects.get().changed_at
    assert OFF["reason"] in text
    assert 'name="off" value=""' in text
    assert keeper.post(URL, {"off": "", "reason": ""}).status_code == 303
    assert not switch.is_off("admin")
    key = str(User.objects.get(username="keeper").pk)
    entries = AuditEntry.objects.order_by("number").values_list("event", "code", "actor")
    assert list(entries) == [("switched", "off", key), ("switched", "on", key)]
    assert audit.verify("admin") is None


def test_the_form_of_the_page_sends_what_is_needed_and_runs_no_script(keeper: Client) -> None:
    text = keeper.get(URL).content.decode().partition('id="content-main"')[2].partition("<footer")[0]
    form = text.partition("<form")[2].partition("</form>")[0]
    assert f'method="post" action="{URL}"' in form
    assert 'name="csrfmiddlewaretoken"' in form
    assert 'name="reason" maxlength="200"' in form
    assert "style=" not in form
    assert re.findall(r"\son\w+=|<script", text) == []


def test_json_is_answered_and_taken_as_well(keeper: Client) -> None:
    assert keeper.get(URL, headers=JSON).json() == {
        "off": False,
        "changedAt": None,
        "changedBy": "",
        "reason": "",
    }
    for body, off in (
        ({"off": True}, True),
        ({"off": ""}, False),
        ({"off": "on"}, True),
        ({"off": False}, False),
    ):
        answer = keeper.post(URL, json.dumps(body), content_type="application/json", headers=JSON)
        assert (answer.status_code, answer.json()["off"]) == (200, off)
        assert switch.is_off("admin") is off
    assert answer.json()["changedBy"] == "keeper"
    assert keeper.post(URL, OFF, headers=JSON).json()["reason"] == OFF["reason"]


@pytest.mark.parametrize("given", [{}, {"reason": "x"}, {"off": "off"}, {"off": "1"}, {"off": "true"}])
@pytest.mark.parametrize("off", [True, False])
def test_what_says_neither_on_nor_off_turns_nothing(keeper: Client, given: dict[str, str], off: bool) -> None:
    Switch.objects.create(site="admin", is_off=off)
    assert keeper.post(URL, given, headers=JSON).status_code == 400
    for body in ("", "[", "[]", "null", '{"off": 1}', '{"off": null}', '{"off": true, "reason": 1}'):
        answer = keeper.post(URL, body, content_type="application/json", headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
    assert switch.is_off("admin") is off
    assert not AuditEntry.objects.exists()


def test_while_it_is_off_nobody_is_answered_and_the_page_still_turns_it_on(
    keeper: Client, store: Any
) -> None:
    manager = copilot_client(store.user("manager"))
    keeper.post(URL, OFF)
    chat = "/admin/django_copilot/conversation/chat/"
    answer = manager.post(chat, json.dumps({"message": "Hello"}), content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "switched_off")
    assert keeper.get(URL).status_code == 200
    assert URL in keeper.get("/admin/").content.decode()  # it can still be found
    keeper.post(URL, {"off": "", "reason": ""})
    with script(Text("Hello.")):
        assert ask(manager, "Hello")["reply"] == "Hello."


# -- who may not -----------------------------------------------------------------------------------------


def refused(client: Client, status: int, code: str) -> None:
    """Assert that the page is neither shown to a client nor turns anything, and says so in both forms."""
    for answer in (client.get(URL, headers=JSON), client.post(URL, OFF, headers=JSON)):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.json()["detail"]
    for answer in (client.get(URL), client.post(URL, OFF)):
        if status == 401:
            assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, "/admin/login/")
        else:
            assert answer.status_code == status
            assert "Something went wrong" not in answer.content.decode()
        assert "no-store" in answer["Cache-Control"]
    assert not Switch.objects.exists()
    assert not AuditEntry.objects.exists()


def test_who_has_no_session_is_refused(db: None) -> None:
    refused(Client(), 401, "not_authenticated")


def test_who_is_no_staff_is_refused(db: None) -> None:
    user = staff("outsider", "django_copilot.use_switch")
    User.objects.filter(pk=user.pk).update(is_staff=False)
    refused(copilot_client(user), 403, "not_staff")


@pytest.mark.parametrize("permissions", [(), ("use_copilot", "approve_plan", "view_audit", "view_metrics")])
def test_who_has_not_the_permission_is_refused(db: None, permissions: tuple[str, ...]) -> None:
    user = staff("other", *(f"django_copilot.{each}" for each in permissions))
    refused(copilot_client(user), 403, "not_allowed")


@pytest.mark.parametrize("superuser", [False, True])
def test_a_service_account_is_refused(db: None, superuser: bool) -> None:
    user = staff("program", "django_copilot.use_switch", is_superuser=superuser)
    user.groups.add(Group.objects.get_or_create(name="service accounts")[0])
    refused(copilot_client(user), 403, "service_account")


def test_who_acts_as_somebody_else_is_refused(keeper: Client) -> None:
    boss = User.objects.create_superuser("boss")
    refused(impersonated(keeper, boss), 403, "impersonated")
    refused(impersonated(copilot_client(boss), boss), 403, "impersonated")


def test_without_a_token_nothing_is_turned(db: None) -> None:
    boss = User.objects.create_superuser("boss")
    client = copilot_client(boss, enforce_csrf_checks=True)
    assert client.get(URL).status_code == 200
    client.cookies.clear()
    client.force_login(boss)
    answer = client.post(URL, OFF, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")
    assert not Switch.objects.exists()


def test_a_superuser_may_turn_it(db: None) -> None:
    assert copilot_client(User.objects.create_superuser("boss")).post(URL, OFF).status_code == 303
    assert switch.is_off("admin")


def test_the_link_is_on_the_index_of_those_who_may_only(keeper: Client) -> None:
    assert f'href="{URL}"' in keeper.get("/admin/").content.decode()
    other = copilot_client(staff("other", "django_copilot.use_copilot"))
    assert f'href="{URL}"' not in other.get("/admin/").content.decode()


def no_scope(request: Any) -> dict[str, str]:
    raise RuntimeError("no tenant")


def test_it_can_be_turned_where_the_project_s_scope_is_broken(keeper: Client, settings: Any) -> None:
    with override_settings(COPILOT={**settings.COPILOT, "SCOPE": {"capture": no_scope, "enter": no_scope}}):
        assert keeper.get(URL).status_code == 200
        assert keeper.post(URL, OFF).status_code == 303
    assert switch.is_off("admin")


# -- what it shows ---------------------------------------------------------------------------------------


def test_words_and_names_are_shown_as_text(keeper: Client) -> None:
    keeper.post(URL, {"off": "on", "reason": "<b>now</b> ‮x"})
    text = keeper.get(URL).content.decode()
    assert "&lt;b&gt;now&lt;/b&gt; ⟨U+202E⟩x" in text
    assert "<b>now" not in text


def test_the_command_line_and_accounts_that_are_gone_have_words(keeper: Client) -> None:
    switch.turn("admin", off=True, by=None)
    assert keeper.get(URL).context["changed_by"] == "the command line"
    for key in ("999999", "no key"):
        Switch.objects.update(changed_by=key)
        assert keeper.get(URL).context["changed_by"] == "an account that is gone"
