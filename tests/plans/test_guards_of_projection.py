"""What a person is shown of a plan, and what not, asked of the projection directly."""

from __future__ import annotations

import dataclasses
import datetime
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now
from django.urls import NoReverseMatch
from django.utils import timezone

from django_copilot import Always, Effect, Preview, write_tool
from django_copilot.access import Access, EntityAccess
from django_copilot.exceptions import Refused
from django_copilot.models import Plan, PlanState
from django_copilot.plans import decisions, projection
from django_copilot.plans.deciders import Decider
from django_copilot.scope import Scope, enter_scope
from django_copilot.tools import write
from example_project.store.models import Category, Order, Product, Supplier, Tag

from .test_guards_of_plans import decider, owner
from .tools import World, decide, outcome, propose, staff, stored

RESULT = {"parcel": "P1", "parts": [1], "nothing": None}


def full(ctx: Any, order: str) -> Preview:
    """Say everything that a preview can say."""
    return Preview(
        ctx.get(Order, number=order),
        shipping_name="Kari",
        effects=[Effect("A mail goes to %(to)s.", to="ola@mail.example")],
        system={"currency": "NOK"},
        acting_as="The warehouse",
        touched=["shipping_city"],
        summary=Effect("The parcel of %(who)s", who="Ola"),
    )


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    made = World(login)
    write_tool(Order, reversible=True, approval=Always())(full).dry_run(
        lambda preview: ["It would take a day."]
    )
    return made


@pytest.fixture
def plan(world: World) -> Plan:
    """Give a plan that was confirmed and waits for a second person."""
    made = propose(world.client, "full", {"order": world.order.number})
    assert outcome(decide(world.client, made, "confirm")) == (200, "awaiting_approval")
    Plan.objects.filter(pk=made["id"]).update(result=RESULT)
    return decisions.current(made["id"])


def shown(plan: Plan, by: Decider) -> dict[str, Any]:
    return projection.as_json(decisions.current(plan.pk), by)


def nowhere(by: Decider) -> Decider:
    """Return the same person in a scope that can't be entered."""
    return dataclasses.replace(by, scope=dataclasses.replace(by.scope, keys={"tenant": "acme"}))


BLIND = {"changes": [], "effects": [], "arguments": [], "actingAs": "", "result": None, "resultRows": []}


def test_who_sees_all_of_it_is_shown_all_of_it(plan: Plan) -> None:
    for by in (owner(plan), decider(plan, User.objects.get(username="manager2"))):
        told = shown(plan, by)
        assert [each["old"] for each in told["changes"]] == ["Ola"]
        assert told["effects"] == ["A mail goes to ola@mail.example.", "It would take a day."]
        assert [each["origin"] for each in told["arguments"]] == ["model", "system"]
        assert (told["actingAs"], told["result"]) == ("The warehouse", RESULT)
        assert told["resultRows"] == [{"label": "Parcel", "value": "P1"}]
        assert "The parcel of Ola" in told["summary"]
        assert told["recordUrl"].endswith(f"/order/{plan.object_pk}/change/")
        assert told["requester"] == ("" if by.user == plan.user else "support")


def test_who_may_approve_and_not_see_is_shown_that_there_is_one(plan: Plan) -> None:
    blind = decider(plan, staff("anna", "django_copilot.use_copilot", "django_copilot.approve_plan"))
    lost = nowhere(decider(plan, User.objects.get(username="manager2")))
    for by in (blind, lost):
        told = shown(plan, by)
        assert {name: told[name] for name in BLIND} == BLIND
        assert "Ola" not in str(told)
        assert (told["recordUrl"], told["requester"], told["state"]) == ("", "support", "awaiting_approval")


def test_her_own_plan_is_shown_where_its_record_is_not_hers_any_more(plan: Plan, world: World) -> None:
    """What was before is not: that she was shown as what the record held."""
    Order.objects.filter(pk=world.order.pk).update(region="south")
    for by in (owner(plan), nowhere(owner(plan))):
        told = shown(plan, by)
        assert told["changes"] == [
            {**told["changes"][0], "old": None, "new": "Kari", "oldHidden": True, "field": "shipping_name"}
        ]
        assert told["recordUrl"] == ""
        assert told["actingAs"] == "The warehouse"


def test_a_page_that_there_is_not_shows_no_old_value(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def no_page(self: Any, page: str, obj: Any = None) -> Any:
        raise Refused("no such page")
        yield

    monkeypatch.setattr(EntityAccess, "at", no_page)
    assert [each["old"] for each in shown(plan, owner(plan))["changes"]] == [None]


def test_an_undo_does_not_tell_what_the_record_held_where_that_is_not_hers(world: World) -> None:
    made = world.propose()
    assert outcome(decide(world.client, made, "confirm")) == (200, "executed")
    undo = stored(decide(world.client, made, "undo")[1]["plan"])
    told = shown(undo, owner(undo))["changes"]
    assert [(each["old"], each["new"], "oldHidden" in each) for each in told] == [("Kari", "Ola", False)]
    Order.objects.filter(pk=world.order.pk).update(region="south")
    told = shown(undo, owner(undo))["changes"]
    assert [(each["old"], each["new"], "oldHidden" in each) for each in told] == [(None, None, True)]


def test_what_can_not_be_seen_in_a_value_is_warned_of(plan: Plan, world: World) -> None:
    assert shown(plan, owner(plan))["warnings"] == []
    odd = stored(world.propose("Ka\u202eri"))
    told = shown(odd, owner(odd))
    assert len(told["warnings"]) == 1
    assert "\u202e" not in str(told)


def test_a_page_without_an_address_is_no_link(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere_to_go(*args: Any) -> str:
        raise NoReverseMatch

    monkeypatch.setattr(projection, "page_url", nowhere_to_go)
    assert shown(plan, owner(plan))["recordUrl"] == ""


def test_related_records_are_named_where_she_may_see_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    product, tags = Product.objects.order_by("pk").first(), list(Tag.objects.order_by("pk")[:2])
    product.tags.set(tags[:1])
    category = Category.objects.exclude(pk=product.category_id).first()

    def sort(ctx: Any, sku: str) -> Preview:
        """Sort a product."""
        chosen = ctx.look_up(Category, pk=category.pk)
        return Preview(
            ctx.get(Product, sku=sku), category=chosen, tags=ctx.list(Tag, pk__in=[t.pk for t in tags])
        )

    write_tool(Product)(sort)
    made = stored(propose(world.login("manager"), "sort", {"sku": product.sku}))
    told = {each["field"]: each["new"] for each in shown(made, owner(made))["changes"]}
    assert told == {"category": str(category), "tags": ", ".join(str(each) for each in tags)}
    for model in (Tag, Category):
        model_admin = type(admin.site.get_model_admin(model))
        monkeypatch.setattr(model_admin, "get_queryset", lambda self, request: self.model.objects.none())
    told = {each["field"]: each["new"] for each in shown(made, owner(made))["changes"]}
    assert told == {"category": str(category.pk), "tags": ", ".join(str(each.pk) for each in tags)}


# -- its windows, and why ---------------------------------------------------------------------------------


def test_what_has_no_end_by_the_clock_has_none(plan: Plan) -> None:
    Plan.objects.filter(pk=plan.pk).update(approve_by=None)
    told = shown(plan, owner(plan))
    assert (told["expiresAt"], told["secondsLeft"]) == (None, 0)
    Plan.objects.filter(pk=plan.pk).update(approve_by=Now())
    assert shown(plan, owner(plan))["expiresAt"] is not None


def test_a_reason_is_what_a_person_said_or_the_text_of_the_code(plan: Plan) -> None:
    assert shown(plan, owner(plan))["reason"] == ""
    Plan.objects.filter(pk=plan.pk).update(code="record_gone")
    assert "not there any more" in shown(plan, owner(plan))["reason"]
    Plan.objects.filter(pk=plan.pk).update(reason="No.")
    assert shown(plan, owner(plan))["reason"] == "No."


# -- what can be done -------------------------------------------------------------------------------------


def can(plan: Plan, by: Decider, state: PlanState) -> list[str]:
    later = timezone.now() + datetime.timedelta(hours=1)
    Plan.objects.filter(pk=plan.pk).update(
        state=state, expires_at=later, approve_by=later, lease_until=later, needs_approval=True
    )
    return list(shown(plan, by)["can"])


S = PlanState
OWNER = {
    S.PROPOSED: ["confirm", "reject"],
    S.AWAITING_APPROVAL: ["reject"],
    S.EXECUTING: [],
    S.UNCERTAIN: ["retry"],
    S.EXECUTED: ["undo"],
    S.FAILED: [],
    S.REJECTED: [],
    S.EXPIRED: ["again"],
    S.STALE: ["again"],
    S.UNDONE: [],
}
APPROVER: dict[PlanState, list[str]] = {
    **{state: [] for state in PlanState},
    S.AWAITING_APPROVAL: ["approve", "reject"],
    S.UNCERTAIN: ["settle"],
}


@pytest.mark.parametrize("state", PlanState, ids=str)
def test_what_can_be_done_with_a_plan_is_for_its_people_in_its_state(plan: Plan, state: PlanState) -> None:
    second = decider(plan, User.objects.get(username="manager2"))
    viewer = decider(plan, User.objects.get(username="viewer"))
    assert can(plan, owner(plan), state) == OWNER[state]
    assert can(plan, second, state) == APPROVER[state]
    assert can(plan, viewer, state) == []
    # Who acts as somebody else, or is a program, can decline what is her own.
    declines = ["reject"] if state in (S.PROPOSED, S.AWAITING_APPROVAL) else []
    assert can(plan, owner(plan, impersonated=True), state) == declines
    assert can(plan, dataclasses.replace(second, impersonated=True), state) == []
    group = Group.objects.get(user__username="bot", name__icontains="service")
    for by, left in ((owner(plan), declines), (second, [])):
        by.user.groups.add(group)
        assert can(plan, by, state) == left


@pytest.mark.parametrize("has_step", [True, False])
def test_the_other_system_is_asked_by_its_people_where_it_can_be(plan: Plan, has_step: bool) -> None:
    if has_step:
        write._registry["full"].look_up(lambda payload, key: None)
    asks = ["look_up"] if has_step else []
    assert can(plan, owner(plan), S.UNCERTAIN) == ["retry", *asks]
    assert can(plan, decider(plan, User.objects.get(username="manager2")), S.UNCERTAIN) == [*asks, "settle"]
    assert can(plan, decider(plan, User.objects.get(username="viewer")), S.UNCERTAIN) == []
    assert can(plan, owner(plan, impersonated=True), S.UNCERTAIN) == []
    assert can(plan, owner(plan), S.EXECUTED) == ["undo"]
    write._registry.clear()
    assert can(plan, owner(plan), S.UNCERTAIN) == ["retry"]


def test_an_undo_is_not_made_again(plan: Plan) -> None:
    Plan.objects.filter(pk=plan.pk).update(undo_of=stored({"id": plan.pk}))
    assert can(plan, owner(plan), S.STALE) == []
    assert can(plan, owner(plan), S.EXECUTED) == []


@pytest.mark.parametrize("state", PlanState, ids=str)
def test_the_turn_goes_on_once_its_plan_is_decided_and_for_its_owner(plan: Plan, state: PlanState) -> None:
    goes_on = state not in (S.PROPOSED, S.AWAITING_APPROVAL, S.EXECUTING, S.UNCERTAIN)
    second = decider(plan, User.objects.get(username="manager2"))
    can(plan, owner(plan), state)
    assert shown(plan, owner(plan))["canContinue"] is goes_on
    assert shown(plan, second)["canContinue"] is False
    turn = plan.turn
    assert turn is not None
    for stored_state in (None, {"plan": "another"}):
        turn.stored = stored_state
        turn.save()
        assert shown(plan, owner(plan))["canContinue"] is False
    Plan.objects.filter(pk=plan.pk).update(turn=None)
    assert shown(plan, owner(plan))["canContinue"] is False


# -- what the model is told -------------------------------------------------------------------------------

TOLD = {
    S.PROPOSED: "NOT EXECUTED: proposed.",
    S.AWAITING_APPROVAL: "NOT EXECUTED yet.",
    S.EXECUTING: "NOT EXECUTED yet.",
    S.UNCERTAIN: "Nobody knows yet",
    S.EXECUTED: "EXECUTED. The person confirmed it.",
    S.FAILED: "NOT EXECUTED: failed.",
    S.REJECTED: "NOT EXECUTED: declined by a person: no reason given",
    S.EXPIRED: "NOT EXECUTED: expired.",
    S.STALE: "NOT EXECUTED: stale.",
    S.UNDONE: "EXECUTED, and undone",
}


def told_model(plan: Plan) -> dict[str, Any]:
    with enter_scope(Scope.from_json(plan.scope), plan.user_id) as request:
        return projection.for_model(decisions.current(plan.pk), Access(admin.site, request))


@pytest.mark.parametrize("state", PlanState, ids=str)
def test_the_model_is_told_what_became_of_it_and_what_the_record_holds_now(
    plan: Plan, state: PlanState
) -> None:
    can(plan, owner(plan), state)
    told = told_model(plan)
    assert told["message"].startswith(TOLD[state])
    assert ("now" in told) is False  # the name on a parcel is not declared


def change(name: str, value: Any) -> Any:
    def tool(ctx: Any, sku: str) -> Preview:
        """Change a product."""
        return Preview(ctx.get(Product, sku=sku), **{name: value})

    return tool


@pytest.mark.parametrize(
    ("name", "value", "now"),
    [
        ("title", "Lamp", {"title": "Lamp"}),
        ("category", None, {}),
        ("title", "L" * 150, {"title": "L" * 150}),
    ],
    ids=["declared", "a relation", "long"],
)
def test_of_the_new_values_the_model_gets_what_it_may_read(
    world: World, name: str, value: Any, now: dict[str, Any]
) -> None:
    product = Product.objects.filter(category__isnull=False).first()
    write_tool(Product, name="renew")(change(name, value))
    client = world.login("manager")
    made = propose(client, "renew", {"sku": product.sku})
    assert outcome(decide(client, made, "confirm")) == (200, "executed")
    done = stored(made)
    assert told_model(done).get("now", {}) == now
    model_admin = type(admin.site.get_model_admin(Product))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_admin, "get_queryset", lambda self, request: Product.objects.none())
        assert "now" not in told_model(done)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_admin, "has_view_permission", lambda self, request, obj=None: False)
        patch.setattr(model_admin, "has_change_permission", lambda self, request, obj=None: False)
        assert "now" not in told_model(done)


def test_of_a_record_that_is_no_entity_the_model_is_told_no_value(world: World) -> None:
    supplier = Supplier.objects.order_by("pk").first()

    def move(ctx: Any, name: str) -> Preview:
        """Move a supplier."""
        return Preview(ctx.get(Supplier, name=name), country="Norway")

    write_tool(Supplier)(move)
    client = world.login("admin")
    made = propose(client, "move", {"name": supplier.name})
    assert outcome(decide(client, made, "confirm")) == (200, "executed")
    assert "now" not in told_model(stored(made))
