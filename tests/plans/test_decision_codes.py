"""Every way in which a decision is refused: its own code, nothing done, and an entry in the audit."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from django_copilot import Preview, write_tool
from django_copilot.models import AuditEntry, Plan, PlanState, Switch
from django_copilot.testing import Call, Text, ask, copilot_client, script
from django_copilot.tools import write
from example_project.store.models import Customer, Order

from .tools import (
    JSON,
    audited,
    decide,
    impersonated,
    let_pass,
    look,
    order_for,
    outcome,
    propose,
    relabel,
    revoke,
    send,
    stored,
    told,
)

ACTIONS = ["confirm", "reject", "approve", "undo", "again", "lookUp", "settle"]


class World:
    """A plan of ``relabel`` on a new order, proposed by support."""

    def __init__(self, store: Any) -> None:
        relabel()
        self.store = store
        self.order = order_for()
        self.owner: User = store.user("support")
        self.client = copilot_client(self.owner)
        self.plan = self.propose("Kari")

    def propose(self, name: str) -> dict[str, Any]:
        """Have a plan made for the order."""
        return propose(self.client, "relabel", {"order": self.order.number, "name": name})

    @property
    def ship_to(self) -> str:
        """Return what is stored, "" when the order is gone."""
        return Order.objects.filter(pk=self.order.pk).values_list("shipping_name", flat=True).first() or ""

    def set(self, **values: Any) -> None:
        """Change the stored plan."""
        Plan.objects.filter(pk=self.plan["id"]).update(**values)

    def change_order(self, **values: Any) -> None:
        """Change the record behind everybody's back."""
        Order.objects.filter(pk=self.order.pk).update(**values)


@pytest.fixture
def world(store: Any, tool: Any) -> World:
    return World(store)


def no_session(world: World) -> None:
    world.client = Client()


def no_token(world: World) -> None:
    world.client = copilot_client(world.owner, enforce_csrf_checks=True)


def wrong_token(world: World) -> None:
    no_token(world)
    world.client.cookies["csrftoken"] = "x" * 32
    world.client.defaults["HTTP_X_CSRFTOKEN"] = "y" * 32


def other_plans_digest(world: World) -> str:
    other = world.propose("Kari")
    assert other["digest"] != world.plan["digest"]
    return str(other["digest"])


def its_time_is_over(world: World) -> None:
    let_pass(world.plan, "expires_at")


def rejected(world: World) -> None:
    assert outcome(decide(world.client, world.plan, "reject", reason="No")) == (200, "rejected")


def no_tool_permission(world: World) -> None:
    revoke(world.owner, "store.change_order")


def no_copilot(world: World) -> None:
    revoke(world.owner, "django_copilot.use_copilot")


def no_staff(world: World) -> None:
    User.objects.filter(pk=world.owner.pk).update(is_staff=False)


def deactivated(world: World) -> None:
    User.objects.filter(pk=world.owner.pk).update(is_active=False)


def out_of_her_rows(world: World) -> None:
    world.change_order(region="south")


def closed_for_her(world: World) -> None:
    world.change_order(customer=Customer.objects.create(name="V", email="v@mail.example", vip=True))


def read_only_by_now(world: World) -> None:
    world.change_order(status="shipped")


def record_gone(world: World) -> None:
    Order.objects.filter(pk=world.order.pk).delete()


def other_schema(world: World) -> None:
    write._registry.pop("relabel")

    def relabel(ctx: Any, order: str, name: str, why: str = "") -> Preview:
        """Change the name on a parcel."""
        return Preview(ctx.get(Order, number=order), shipping_name=name)

    write_tool(Order, reversible=True)(relabel)


def other_revision(world: World) -> None:
    write._registry.pop("relabel")
    relabel(revision="2")


def other_category(world: World) -> None:
    write._registry.pop("relabel")
    relabel(category="destructive", reversible=False)


def no_tool(world: World) -> None:
    write._registry.pop("relabel")


def service_account(world: World) -> None:
    world.owner.groups.add(Group.objects.get_or_create(name="service accounts")[0])


def powerful_service_account(world: World) -> None:
    service_account(world)
    User.objects.filter(pk=world.owner.pk).update(is_superuser=True)


def as_somebody_else(world: World) -> None:
    impersonated(world.client, world.store.user("admin"))


def switched_off(world: World) -> None:
    Switch.objects.update_or_create(site="admin", defaults={"is_off": True})


def document_changed(world: World) -> None:
    document = stored(world.plan).document
    document["changes"][0]["new"] = "text:Somebody else"
    world.set(document=document)


def arguments_changed(world: World) -> None:
    world.set(arguments={"order": world.order.number, "name": "Somebody else"})


def scope_lost(world: World) -> None:
    world.set(scope={"tenant": "?"})


def preview_fails(world: World) -> None:
    def preview(ctx: Any, order: str, name: str) -> Preview:
        raise ZeroDivisionError

    write.all_tools()["relabel"]._steps["preview"] = preview


def preview_writes(world: World) -> None:
    """Hazard 139: what fails in the middle of the decision's transaction."""

    def preview(ctx: Any, order: str, name: str) -> Preview:
        Order.objects.filter(number=order).update(shipping_name="Somebody else")
        raise AssertionError("not reached")

    write.all_tools()["relabel"]._steps["preview"] = preview


def nothing_would_change(world: World) -> None:
    world.change_order(shipping_name="Kari")


def being_done(world: World) -> None:
    other = world.propose("Else")
    Plan.objects.filter(pk=other["id"]).update(state=PlanState.EXECUTING, lease_until=Now(), confirmed_by="1")


def state(state: PlanState) -> Callable[[World], None]:
    def put(world: World) -> None:
        world.set(state=state, confirmed_at=Now())

    put.__name__ = f"state {state}"
    return put


def in_flight(world: World) -> None:
    world.set(
        state=PlanState.EXECUTING,
        lease_until=F("created_at") + (stored(world.plan).expires_at - stored(world.plan).created_at),
    )


CONFIRMING = [
    (no_session, 401, "not_authenticated"),
    (no_token, 403, "csrf_failed"),
    (wrong_token, 403, "csrf_failed"),
    (other_plans_digest, 409, "digest_mismatch"),
    (its_time_is_over, 409, "expired"),
    (rejected, 409, "rejected"),
    (no_tool_permission, 403, "not_allowed"),
    (no_copilot, 403, "not_allowed"),
    (no_staff, 403, "not_staff"),
    (deactivated, 401, "not_authenticated"),
    (out_of_her_rows, 409, "stale"),
    (closed_for_her, 409, "stale"),
    (read_only_by_now, 409, "stale"),
    (record_gone, 409, "record_gone"),
    (other_schema, 409, "tool_changed"),
    (other_revision, 409, "tool_changed"),
    (other_category, 409, "tool_changed"),
    (no_tool, 409, "tool_changed"),
    (service_account, 403, "service_account"),
    (powerful_service_account, 403, "service_account"),
    (as_somebody_else, 403, "impersonated"),
    (switched_off, 403, "switched_off"),
    (document_changed, 409, "digest_mismatch"),
    (arguments_changed, 409, "digest_mismatch"),
    (scope_lost, 409, "scope_unavailable"),
    (preview_fails, 409, "failed"),
    (preview_writes, 409, "failed"),
    (nothing_would_change, 409, "stale"),
    (being_done, 409, "operation_open"),
    (in_flight, 409, "in_flight"),
    (state(PlanState.FAILED), 409, "failed"),
    (state(PlanState.STALE), 409, "stale"),
    (state(PlanState.UNDONE), 409, "undone"),
    (state(PlanState.EXPIRED), 409, "expired"),
]


@pytest.mark.parametrize(
    ("wrong", "status", "code"), CONFIRMING, ids=lambda each: getattr(each, "__name__", "")
)
def test_a_confirmation_is_refused_with_its_own_code_and_nothing_is_done(
    world: World, wrong: Callable[[World], Any], status: int, code: str
) -> None:
    digest = wrong(world) or world.plan["digest"]
    held, history = world.ship_to, Order.history.count()
    assert outcome(decide(world.client, world.plan, "confirm", digest=digest)) == (status, code)
    assert world.ship_to == held != "Somebody else"
    assert Order.history.count() == history
    assert stored(world.plan).state != PlanState.EXECUTED
    assert audited(world.plan)[-1] == ("refused", code)
    if digest != world.plan["digest"]:  # it is still to be confirmed, on what was shown
        assert stored(world.plan).state == PlanState.PROPOSED


@pytest.mark.parametrize(
    "digest", ["0" * 64, "", None, 12, ["x"], {"x": 1}, True, "é" * 64, "\ud800"], ids=repr
)
def test_only_the_digest_of_what_was_shown_confirms(world: World, digest: Any) -> None:
    assert outcome(decide(world.client, world.plan, "confirm", digest=digest)) == (409, "digest_mismatch")
    assert outcome(decide(world.client, world.plan, "confirm", digest=world.plan["digest"].upper())) == (
        409,
        "digest_mismatch",
    )
    assert world.ship_to == "Ola"
    assert outcome(decide(world.client, world.plan, "confirm")) == (200, "executed")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b'{"digest": NaN}', b"[" * 9000, b'"' + b"a" * 30_000]
)
def test_a_body_that_is_no_digest_confirms_nothing(world: World, body: bytes) -> None:
    response = world.client.post(
        world.plan["confirmUrl"], body, content_type="application/json", headers=JSON
    )
    assert response.status_code in (400, 409)
    assert response.json()["code"] in ("invalid", "digest_mismatch")
    assert stored(world.plan).state == PlanState.PROPOSED
    assert audited(world.plan)[-1][0] == "refused"


def test_an_executed_plan_confirmed_again_gives_its_stored_result(world: World) -> None:
    first = decide(world.client, world.plan, "confirm")
    history = Order.history.count()
    again = decide(world.client, world.plan, "confirm", digest="anything")
    assert outcome(first) == outcome(again) == (200, "executed")
    assert again[1]["plan"]["result"] == first[1]["plan"]["result"]
    assert (world.ship_to, Order.history.count()) == ("Kari", history)
    assert [event for event, _code in audited(world.plan)] == ["proposed", "confirmed", "executed"]


def test_a_result_of_an_executed_plan_is_not_given_to_who_acts_as_somebody_else(world: World) -> None:
    decide(world.client, world.plan, "confirm")
    as_somebody_else(world)
    assert outcome(decide(world.client, world.plan, "confirm")) == (403, "impersonated")


@pytest.mark.parametrize(
    "wrong", [as_somebody_else, service_account, switched_off], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("what", ["undo", "again"])
def test_who_decides_nothing_makes_no_plan_either(
    world: World, wrong: Callable[[World], Any], what: str
) -> None:
    if what == "undo":
        decide(world.client, world.plan, "confirm")
    else:
        let_pass(world.plan, "expires_at")
    wrong(world)
    code = {"as_somebody_else": "impersonated"}.get(wrong.__name__, wrong.__name__)
    assert outcome(decide(world.client, world.plan, what)) == (403, code)
    assert Plan.objects.count() == 1
    assert audited(world.plan)[-1] == ("refused", code)


@pytest.mark.parametrize("what", ACTIONS)
@pytest.mark.parametrize("username", ["manager", "admin", "viewer"])
def test_somebody_elses_plan_is_not_there_nor_one_that_never_was(
    world: World, login: Any, username: str, what: str
) -> None:
    other, never = login(username), uuid.uuid4()
    body = {"digest": world.plan["digest"], "reason": "x", "outcome": "executed"}
    for ident in (never, "nonsense", "1"):
        url = world.plan[f"{what}Url"].replace(world.plan["id"], str(ident))
        missing = send(other, url, body)
        assert missing.status_code == 404
        theirs = send(other, world.plan[f"{what}Url"], body)
        assert (theirs.status_code, theirs.content) == (404, missing.content)
    assert other.get(world.plan["url"], headers=JSON).status_code == 404
    assert other.get(world.plan["url"]).status_code == 404
    assert stored(world.plan).state == PlanState.PROPOSED
    assert audited(world.plan)[-1] == ("refused", "not_found")
    entry = AuditEntry.objects.filter(plan=world.plan["id"]).latest("number")
    assert entry.actor == str(world.store.user(username).pk)


@pytest.mark.parametrize("what", ["confirm", "undo", "again"])
def test_a_plan_that_waits_for_approval_is_seen_by_who_approves_and_decided_by_its_owner(
    store: Any, tool: Any, login: Any, what: str
) -> None:
    relabel(approval=write.Always())
    plan = propose(login("support"), "relabel", {"order": order_for().number, "name": "Kari"})
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "awaiting_approval")
    assert look(login("manager"), plan)["state"] == "awaiting_approval"
    assert decide(login("manager"), plan, what)[0] == 404
    assert login("viewer").get(plan["url"], headers=JSON).status_code == 404
    assert decide(login("viewer"), plan, "approve")[0] == 404
    assert stored(plan).state == PlanState.AWAITING_APPROVAL


@pytest.mark.parametrize("what", ACTIONS)
def test_a_decision_is_a_post(world: World, what: str) -> None:
    for method in (world.client.get, world.client.head, world.client.put, world.client.delete):
        response = method(world.plan[f"{what}Url"], headers=JSON)
        assert (response.status_code, response["Allow"]) == (405, "POST")
    assert stored(world.plan).state == PlanState.PROPOSED


def test_a_plan_of_another_site_is_not_there(world: World, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.formapp.urls"
    boss = world.store.user("admin")
    client = copilot_client(boss)
    world.set(user=boss)
    assert client.get(world.plan["url"], headers=JSON).status_code == 200
    for key in ("url", *(f"{what}Url" for what in ACTIONS)):
        elsewhere = world.plan[key].replace("/admin/", "/forms/")
        method = client.get if key == "url" else client.post
        assert method(elsewhere, {"digest": world.plan["digest"]}, headers=JSON).status_code == 404
    assert stored(world.plan).state == PlanState.PROPOSED


ARGUMENTS = {"confirm": True, "confirmed_by": "1", "approved": True, "digest": "x", "category": "read_only"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_assistant_confirms_nothing(world: World, name: str) -> None:
    given = {"order": world.order.number, "name": "Kari", name: ARGUMENTS[name]}
    assert told(world.client, "relabel", given)["error"]["code"] == "unknown_argument"
    assert stored(world.plan).state == PlanState.PROPOSED
    assert world.ship_to == "Ola"


@pytest.mark.parametrize("name", ["confirm", "confirm_plan", "approve", "execute", "apply"])
def test_there_is_no_tool_to_decide_with(world: World, name: str) -> None:
    given = {"plan": world.plan["id"], "digest": world.plan["digest"]}
    assert told(world.client, name, given)["error"]["code"] == "unknown_tool"
    assert world.ship_to == "Ola"


@pytest.mark.parametrize("said", ["yes", "Confirm it", "I approve", "tak", "да, подтверждаю", "はい"])
def test_a_yes_in_the_chat_confirms_nothing(world: World, said: str) -> None:
    with script(Text("Confirmed!")):
        ask(world.client, said, conversationId=str(stored(world.plan).conversation_id))
    assert stored(world.plan).state == PlanState.PROPOSED
    assert world.ship_to == "Ola"


def test_the_turn_is_not_gone_on_with_before_the_decision(world: World) -> None:
    conversation = str(stored(world.plan).conversation_id)
    body = {"conversationId": conversation, "continue": world.plan["id"]}
    url = "/admin/django_copilot/conversation/chat/"
    assert (send(world.client, url, body)).json()["code"] == "not_decided"
    decide(world.client, world.plan, "reject", reason="Too soon")
    with script(Text("All right.")) as model:
        assert send(world.client, url, body).json()["reply"] == "All right."
    assert "declined by a person: Too soon" in model.requests[0].messages[-1].text
    assert send(world.client, url, body).json()["code"] == "nothing_to_continue"
    with script(Call("relabel", {"order": world.order.number, "name": "Kari"})):
        assert "plan" in ask(world.client, "Do it after all", conversationId=conversation)
