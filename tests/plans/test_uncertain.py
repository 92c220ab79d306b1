"""When nobody knows how an operation outside ended: trying again, asking, and settling."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from django_copilot.testing import copilot_client
from example_project.store.models import Order

from .outside import (
    World,
    entries,
    let_be_called_ago,
    nothing,
    raised,
    refused,
    said,
    timed_out,
)
from .tools import JSON, audited, decide, grant, impersonated, look, outcome, revoke, staff, stored

KEPT = datetime.timedelta(hours=2)
DONE = {"parcel": "P1"}
WHY = {"outcome": "executed", "reason": "They told me so."}


@pytest.fixture
def world(tool: Any, login: Any) -> World:
    return World(login, keys_kept=KEPT)


def uncertain(world: World, *later: Any) -> dict[str, Any]:
    """Return a confirmed plan whose call had no answer; ``later`` are the answers from now on."""
    plan = world.propose()
    world.outside.answers = [timed_out, *(later or [said(DONE)])]
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    return plan


# -- trying again -------------------------------------------------------------------------------------------


def test_what_is_sent_again_is_what_was_stored_byte_for_byte_under_the_same_key(world: World) -> None:
    plan, outside = uncertain(world), world.outside
    before = stored(plan)
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Somebody else", status="shipped")
    assert "retry" in look(world.client, plan)["can"]
    status, answer = decide(world.client, plan, "confirm")
    assert (status, answer["plan"]["state"], answer["plan"]["result"]) == (200, "executed", DONE)
    assert outside.sent == [(str(before.key), before.payload)] * 2
    kept = stored(plan)
    assert (kept.payload, kept.key, kept.called_at, kept.attempts) == (
        *(before.payload, before.key, before.called_at, 2),
    )
    assert "Ola" in kept.payload
    assert (outside.reserved, outside.ended) == (["spent"], [(True, DONE)])  # reserved once
    assert audited(plan)[2:] == [
        *(("executing", ""), ("uncertain", "no_answer"), ("executing", ""), ("executed", "")),
    ]
    assert [each.about["attempt"] for each in entries(plan, "executing")] == [1, 2]
    assert {each.about["key"] for each in entries(plan, "executing")} == {str(before.key)}


def test_trying_again_may_end_in_a_no_or_in_no_answer_once_more(world: World) -> None:
    plan, outside = uncertain(world, timed_out, refused), world.outside
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    assert (outside.reserved, stored(plan).attempts) == (["pending"], 2)
    assert outcome(decide(world.client, plan, "confirm")) == (200, "failed")
    assert (outside.reserved, stored(plan).attempts) == (["released"], 3)


def wrong_digest(world: World) -> dict[str, Any]:
    return {"digest": "0" * 64}


def no_right_to_the_tool(world: World) -> None:
    revoke(User.objects.get(username="support"), "store.change_order")


def keys_are_forgotten(world: World) -> None:
    # Less the lease: the last call has to end while the other side still knows the key.
    let_be_called_ago(world.plan, KEPT - datetime.timedelta(seconds=60))


def tool_is_gone(world: World) -> None:
    from django_copilot.tools import write

    del write._registry["announce"]


def not_outside_any_more(world: World) -> None:
    world.outside.tool._steps.pop("call")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        (wrong_digest, 409, "digest_mismatch"),
        (no_right_to_the_tool, 403, "not_allowed"),
        (keys_are_forgotten, 409, "key_expired"),
        (tool_is_gone, 409, "tool_changed"),
        (not_outside_any_more, 409, "tool_changed"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_trying_again_is_refused_and_nothing_is_sent(
    world: World, change: Callable[[Any], Any], status: int, code: str
) -> None:
    plan, outside = uncertain(world), world.outside
    world.plan = plan
    given = change(world) or {}
    assert outcome(decide(world.client, plan, "confirm", **given)) == (status, code)
    assert (len(outside.sent), outside.reserved) == (1, ["pending"])
    assert (stored(plan).state, stored(plan).attempts) == ("uncertain", 1)
    assert audited(plan)[-1] == ("refused", code)


def test_the_last_time_to_try_again_is_a_lease_before_the_key_is_forgotten(
    world: World, settings: Any
) -> None:
    settings.COPILOT = {**settings.COPILOT, "LEASE_SECONDS": 60}
    plan, outside = uncertain(world), world.outside
    let_be_called_ago(plan, KEPT - datetime.timedelta(seconds=120))
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert len(outside.sent) == 2


def test_after_the_key_is_forgotten_it_can_be_looked_up_or_settled(world: World, login: Any) -> None:
    plan, outside = uncertain(world), world.outside
    let_be_called_ago(plan, KEPT)
    outside.knows = said(None)
    assert outcome(decide(world.client, plan, "lookUp")) == (200, "uncertain")
    assert outcome(decide(world.client, plan, "confirm")) == (409, "key_expired")
    assert outcome(decide(login("manager2"), plan, "settle", **WHY)) == (200, "executed")
    assert len(outside.sent) == 1


def test_only_who_asked_for_it_can_try_it_again(world: World, login: Any) -> None:
    plan = uncertain(world)
    for who in ("manager2", "viewer", "bot", "admin"):
        assert outcome(decide(login(who), plan, "confirm")) == (404, "not_found")
    assert outcome(decide(impersonated(login("support"), User(pk=987_654)), plan, "confirm")) == (
        *(403, "impersonated"),
    )
    assert len(world.outside.sent) == 1


# -- a settling step that raises ----------------------------------------------------------------------------


@pytest.mark.parametrize("mend", ["confirm", "lookUp"])
@pytest.mark.parametrize("answer", [said(DONE), refused], ids=["done", "refused"])
def test_an_end_that_could_not_be_recorded_is_uncertain_and_mended_later(
    world: World, answer: Callable[[], Any], mend: str
) -> None:
    plan, outside = world.propose(), world.outside
    outside.answers, outside.knows = [answer], answer
    outside.settling = raised(ValueError("words for the log"))
    assert outcome(decide(world.client, plan, "confirm")) == (200, "uncertain")
    assert (outside.reserved, stored(plan).result, len(outside.ended)) == (["pending"], None, 1)
    assert outcome(decide(world.client, plan, mend)) == (200, "uncertain")
    assert "words for the log" not in str(look(world.client, plan))
    outside.settling = nothing
    state = "failed" if answer is refused else "executed"
    assert outcome(decide(world.client, plan, mend)) == (200, state)
    assert outside.reserved == ["released" if answer is refused else "spent"]
    assert len(set(outside.sent)) == 1  # the same key and bytes, however often


# -- asking -------------------------------------------------------------------------------------------------


def test_what_became_of_it_is_asked_with_the_stored_key_and_bytes(world: World) -> None:
    plan, outside = uncertain(world), world.outside
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Somebody else")
    outside.knows = said({"parcel": "P7"})
    status, answer = decide(world.client, plan, "lookUp")
    assert (status, answer["plan"]["state"], answer["plan"]["result"]) == (200, "executed", {"parcel": "P7"})
    assert outside.asked == outside.sent == [(str(stored(plan).key), stored(plan).payload)]
    assert (outside.reserved, outside.ended) == (["spent"], [(True, {"parcel": "P7"})])
    assert audited(plan)[-2:] == [("looked_up", ""), ("executed", "")]  # how it was known, and what it is
    (end,) = entries(plan, "looked_up")
    assert (end.actor, end.code, end.about["state"]) == (stored(plan).confirmed_by, "", "executed")
    assert outcome(decide(world.client, plan, "lookUp")) == (409, "not_uncertain")


@pytest.mark.parametrize(
    ("knows", "expected", "state", "reserved", "entry"),
    [
        (said(None), (200, "uncertain"), "uncertain", "pending", ("looked_up", "unknown_there")),
        (refused, (200, "failed"), "failed", "released", ("failed", "call_failed")),
        (timed_out, (409, "no_answer"), "uncertain", "pending", ("refused", "no_answer")),
        (raised(KeyError("id")), (409, "no_answer"), "uncertain", "pending", ("refused", "no_answer")),
    ],
    ids=["unknown there", "refused there", "no answer", "any other"],
)
def test_what_asking_tells(
    world: World,
    knows: Any,
    expected: tuple[int, str],
    state: str,
    reserved: str,
    entry: tuple[str, str],
) -> None:
    plan, outside = uncertain(world), world.outside
    outside.knows = knows
    answer = decide(world.client, plan, "lookUp")
    assert outcome(answer) == expected
    assert (stored(plan).state, outside.reserved) == (state, [reserved])
    assert audited(plan)[-1] == entry
    if entry[1] == "unknown_there":
        assert "never got it" in answer[1]["reply"]
    if state == "uncertain":  # it can still be tried again
        assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")


def test_a_tool_that_can_not_ask_says_so(world: World) -> None:
    plan = uncertain(world)
    world.outside.tool._steps.pop("look_up")
    assert "look_up" not in look(world.client, plan)["can"]
    assert outcome(decide(world.client, plan, "lookUp")) == (409, "no_look_up")


def test_whoever_may_see_it_may_ask_and_nobody_else(world: World, login: Any) -> None:
    plan = uncertain(world)
    grant(User.objects.get(username="bot"), "django_copilot.approve_plan")
    assert outcome(decide(login("viewer"), plan, "lookUp")) == (404, "not_found")
    assert outcome(decide(login("bot"), plan, "lookUp")) == (403, "service_account")
    assert outcome(decide(impersonated(login("manager2"), User(pk=987_654)), plan, "lookUp")) == (
        *(403, "impersonated"),
    )
    assert (world.outside.asked, stored(plan).state) == ([], "uncertain")
    assert outcome(decide(login("manager2"), plan, "lookUp")) == (200, "executed")


# -- settling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "reserved"), [("executed", "spent"), ("failed", "released")])
def test_a_second_person_settles_it_with_a_reason_for_good(
    world: World, login: Any, store: Any, end: str, reserved: str
) -> None:
    plan, outside = uncertain(world), world.outside
    outside.knows = timed_out
    second = login("manager2")
    assert "settle" in look(second, plan)["can"]
    assert plan["id"] in str(second.get("/admin/django_copilot/plan/", headers=JSON).json())
    status, answer = decide(second, plan, "settle", outcome=end, reason="  They told me so.  ")
    assert (status, answer["plan"]["state"], answer["plan"]["reason"]) == (200, end, "They told me so.")
    kept, key = stored(plan), str(store.user("manager2").pk)
    assert (kept.decided_by, kept.reason, kept.code) == (key, "They told me so.", "")
    assert (outside.reserved, outside.ended) == ([reserved], [(end == "executed", None)])
    (entry,) = entries(plan, "settled")
    assert (entry.actor, entry.code, entry.about["state"]) == (key, "", end)
    assert entry.values.get(name="reason").value == "They told me so."
    for other in ("executed", "failed"):
        assert outcome(decide(second, plan, "settle", outcome=other, reason="No.")) == (409, "not_uncertain")
    assert outcome(decide(world.client, plan, "lookUp")) == (409, "not_uncertain")
    assert outcome(decide(world.client, plan, "confirm"))[1] == end
    assert (stored(plan).state, len(outside.sent), len(outside.ended)) == (end, 1, 1)


def test_what_the_other_system_knows_to_be_done_nobody_settles_as_failed(world: World, login: Any) -> None:
    plan, outside, second = uncertain(world), world.outside, login("manager2")
    given = {"outcome": "failed", "reason": "I saw nothing."}
    assert outcome(decide(second, plan, "settle", **given)) == (409, "done_there")
    kept = stored(plan)
    assert (kept.state, kept.result, outside.reserved) == ("executed", {"parcel": "P1"}, ["spent"])
    (entry,) = entries(plan, "looked_up")
    assert (entry.actor, entry.about["state"]) == (str(User.objects.get(username="manager2").pk), "executed")


def test_what_was_done_there_and_can_not_be_recorded_is_not_settled_as_failed(
    world: World, login: Any
) -> None:
    plan, outside = uncertain(world), world.outside
    outside.settling = raised(ValueError("the books are closed"))
    given = {"outcome": "failed", "reason": "I saw nothing."}
    assert outcome(decide(login("manager2"), plan, "settle", **given)) == (409, "no_answer")
    assert (stored(plan).state, outside.reserved) == ("uncertain", ["pending"])


@pytest.mark.parametrize("knows", ["nothing", "refused", "silence", "nonsense"])
def test_what_it_does_not_know_to_be_done_can_be_settled_as_failed(
    world: World, login: Any, knows: str
) -> None:
    plan, outside = uncertain(world), world.outside
    outside.knows = {
        "nothing": nothing,
        "refused": refused,
        "silence": timed_out,
        "nonsense": said("yes"),
    }[knows]
    given = {"outcome": "failed", "reason": "They lost it."}
    assert outcome(decide(login("manager2"), plan, "settle", **given)) == (200, "failed")
    assert (outside.reserved, len(outside.asked)) == (["released"], 1)


def requester_herself(login: Any) -> Client:
    grant(User.objects.get(username="support"), "django_copilot.approve_plan")
    client: Client = login("support")
    return client


def powerful_requester(login: Any) -> Client:
    User.objects.filter(username="support").update(is_superuser=True)
    client: Client = login("support")
    return client


def while_acting_as_another(login: Any) -> Client:
    return impersonated(login("manager2"), User.objects.get(username="admin"))


def service_account(login: Any) -> Client:
    user = User.objects.create_superuser("robot")
    user.groups.add(Group.objects.get(name="service accounts"))
    return copilot_client(user)


def who_may_not_view_the_order(login: Any) -> Client:
    return copilot_client(staff("anna", "django_copilot.approve_plan"))


def without_the_tools_permission(login: Any) -> Client:
    return copilot_client(staff("anna", "django_copilot.approve_plan", "store.view_order"))


def without_the_right_to_approve(login: Any) -> Client:
    client: Client = login("viewer")
    return client


def nobody(login: Any) -> Client:
    return Client()


@pytest.mark.parametrize(
    ("who", "status", "code"),
    [
        (requester_herself, 403, "own_plan"),
        (powerful_requester, 403, "own_plan"),
        (while_acting_as_another, 403, "impersonated"),
        (service_account, 403, "service_account"),
        (who_may_not_view_the_order, 403, "approver_cannot_see"),
        (without_the_tools_permission, 403, "not_allowed"),
        (without_the_right_to_approve, 404, "not_found"),
        (nobody, 401, "not_authenticated"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_who_must_not_settle_is_refused(
    world: World, login: Any, who: Callable[[Any], Client], status: int, code: str
) -> None:
    if who is without_the_tools_permission:
        world.outside.tool.approve_permissions = ("store.propose_refund",)
    plan, outside = uncertain(world), world.outside
    client = who(login)
    assert outcome(decide(client, plan, "settle", **WHY)) == (status, code)
    if status == 403:
        assert "settle" not in look(client, plan)["can"]
    assert (stored(plan).state, outside.reserved, outside.ended) == ("uncertain", ["pending"], [])
    assert audited(plan)[-1] == ("refused", code)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"outcome": "executed"},
        {"outcome": "executed", "reason": " \n"},
        {"outcome": "executed", "reason": ["They told me so."]},
        {"reason": "They told me so."},
        {"outcome": "undone", "reason": "They told me so."},
        {"outcome": ["executed"], "reason": "They told me so."},
    ],
    ids=str,
)
def test_without_an_end_or_a_reason_nothing_is_settled(
    world: World, login: Any, given: dict[str, Any]
) -> None:
    plan = uncertain(world)
    assert outcome(decide(login("manager2"), plan, "settle", **given)) == (400, "reason_needed")
    assert (stored(plan).state, world.outside.ended) == ("uncertain", [])


# -- who and what is gone meanwhile -------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["settle", "lookUp"])
def test_after_the_requesters_account_is_gone_a_second_person_closes_it(
    world: World, login: Any, way: str
) -> None:
    plan, outside = uncertain(world), world.outside
    key = stored(plan).confirmed_by
    User.objects.get(username="support").delete()
    second = login("manager2")
    seen = look(second, plan)
    assert (stored(plan).user_id, seen["state"]) == (None, "uncertain")
    assert set(seen["can"]) == {"settle", "look_up"}
    assert outcome(decide(second, plan, "confirm")) == (404, "not_found")
    assert outcome(decide(second, plan, way, **(WHY if way == "settle" else {}))) == (200, "executed")
    assert (outside.reserved, len(outside.sent), stored(plan).confirmed_by) == (["spent"], 1, key)


def delete_order(world: World) -> None:
    Order.objects.filter(pk=world.order.pk).delete()


@pytest.mark.parametrize("way", ["settle", "lookUp", "confirm"])
def test_after_the_record_is_gone_it_can_still_be_closed(world: World, login: Any, way: str) -> None:
    plan, outside = uncertain(world), world.outside
    delete_order(world)
    who = login("manager2") if way == "settle" else world.client
    assert outcome(decide(who, plan, way, **(WHY if way == "settle" else {}))) == (200, "executed")
    assert outside.reserved == ["spent"]


def test_after_record_and_account_are_gone_it_can_still_be_settled(world: World, login: Any) -> None:
    plan = uncertain(world)
    delete_order(world)
    User.objects.get(username="support").delete()
    assert outcome(decide(login("manager2"), plan, "settle", **WHY)) == (200, "executed")
    assert world.outside.reserved == ["spent"]


def test_a_conversation_that_is_deleted_leaves_it_as_it_is(world: World) -> None:
    plan = uncertain(world)
    conversation = stored(plan).conversation
    assert conversation is not None
    url = f"/admin/django_copilot/conversation/{conversation.pk}/delete/"
    assert world.client.post(url, headers=JSON).status_code in (200, 204, 302, 303)
    assert (stored(plan).conversation_id, stored(plan).state) == (None, "uncertain")
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
