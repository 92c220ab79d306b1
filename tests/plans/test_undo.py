"""Undo: a new plan that puts the old values back, only where they are still what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_copilot import Always, Preview, gate, write_tool
from django_copilot.models import Plan, PlanState
from django_copilot.tools import write
from example_project.store.models import Category, Customer, Order, Product, Tag

from .tools import audited, decide, let_pass, look, order_for, outcome, propose, relabel, revoke, stored


class World:
    """An executed plan of ``relabel``: Ola → Kari."""

    def __init__(self, login: Callable[[str], Client]) -> None:
        relabel()
        self.login = login
        self.client = login("support")
        self.order = order_for()
        self.plan = propose(self.client, "relabel", {"order": self.order.number, "name": "Kari"})
        assert outcome(decide(self.client, self.plan, "confirm")) == (200, "executed")

    def undo(self) -> dict[str, Any]:
        """Return the plan that undoes it."""
        status, answer = decide(self.client, self.plan, "undo")
        assert status == 200, answer
        made: dict[str, Any] = answer["plan"]
        return made

    def fresh(self) -> Order:
        """Return the order as it is stored."""
        return Order.objects.get(pk=self.order.pk)


@pytest.fixture
def world(store: Any, tool: Any, login: Any) -> World:
    return World(login)


def test_an_undo_is_a_plan_of_its_own_that_is_confirmed_like_any_other(world: World) -> None:
    undo = world.undo()
    assert (undo["state"], undo["isUndo"], undo["reversible"]) == ("proposed", True, False)
    assert [(each["field"], each["old"], each["new"]) for each in undo["changes"]] == [
        ("shipping_name", "Kari", "Ola")
    ]
    assert world.fresh().shipping_name == "Kari"
    assert outcome(decide(world.client, undo, "confirm", digest=world.plan["digest"])) == (
        409,
        "digest_mismatch",
    )
    assert stored(world.plan).state == PlanState.EXECUTED
    assert outcome(decide(world.client, undo, "confirm")) == (200, "executed")
    assert world.fresh().shipping_name == "Ola"
    assert stored(world.plan).state == PlanState.UNDONE
    assert audited(world.plan)[-1] == ("undone", "")
    assert [event for event, _code in audited(undo)] == ["proposed", "refused", "confirmed", "executed"]
    assert stored(undo).key != stored(world.plan).key
    # Both are ends.
    assert outcome(decide(world.client, world.plan, "confirm")) == (409, "undone")
    assert outcome(decide(world.client, world.plan, "undo")) == (409, "not_undoable")
    assert outcome(decide(world.client, undo, "undo")) == (409, "not_undoable")
    assert "undo" not in look(world.client, undo)["can"]


def test_history_and_log_name_who_it_was_the_fields_and_the_plan(world: World) -> None:
    support, undo = User.objects.get(username="support"), world.undo()
    decide(world.client, undo, "confirm")
    history = list(Order.history.filter(id=world.order.pk).order_by("history_id"))
    assert [(each.history_user, each.history_change_reason) for each in history[1:]] == [
        (support, f"copilot plan {world.plan['id']}"),
        (support, f"copilot plan {undo['id']}"),
    ]
    entries = LogEntry.objects.filter(object_id=str(world.order.pk)).order_by("pk")
    assert [each.user for each in entries] == [support] * 2
    for entry, plan in zip(entries, (world.plan, undo), strict=True):
        (part,) = json.loads(entry.change_message)
        assert part["changed"]["fields"] == ["Shipping name"]
        assert plan["id"] in str(entry)
        assert plan["id"] in entry.get_change_message()


def test_what_was_changed_besides_stays(world: World) -> None:
    undo = world.undo()
    order = world.fresh()
    order.shipping_city = "Bergen"
    order.save()
    # It is another record than the one that was shown, so it is shown again.
    status, answer = decide(world.client, undo, "confirm")
    assert (status, answer["code"]) == (409, "stale")
    assert outcome(decide(world.client, answer["plan"], "confirm")) == (200, "executed")
    assert (world.fresh().shipping_name, world.fresh().shipping_city) == ("Ola", "Bergen")
    assert stored(world.plan).state == PlanState.UNDONE


def test_a_value_that_was_changed_since_is_not_put_back(world: World) -> None:
    """Hazard 140."""
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Per")
    assert outcome(decide(world.client, world.plan, "undo")) == (409, "changed_since")
    assert not Plan.objects.filter(undo_of=world.plan["id"]).exists()
    assert audited(world.plan)[-1] == ("refused", "changed_since")


def test_a_value_that_was_changed_while_the_undo_waited_is_not_put_back(world: World) -> None:
    undo = world.undo()
    Order.objects.filter(pk=world.order.pk).update(shipping_name="Per")
    assert outcome(decide(world.client, undo, "confirm")) == (409, "changed_since")
    assert world.fresh().shipping_name == "Per"
    assert (stored(undo).state, stored(world.plan).state) == ("stale", "executed")


def test_there_is_one_open_undo_of_a_plan(world: World) -> None:
    undo = world.undo()
    assert world.undo()["id"] == undo["id"]
    let_pass(undo, "expires_at")
    second = world.undo()
    assert second["id"] != undo["id"]
    assert (stored(undo).state, stored(undo).open_undo_of_id) == ("expired", None)
    decide(world.client, second, "reject", reason="No")
    third = world.undo()
    assert third["id"] not in (undo["id"], second["id"])
    assert Plan.objects.filter(open_undo_of=world.plan["id"]).count() == 1
    decide(world.client, third, "confirm")
    assert not Plan.objects.filter(open_undo_of=world.plan["id"]).exists()


def test_an_undo_that_is_over_is_asked_for_anew_and_not_made_again(world: World) -> None:
    undo = world.undo()
    let_pass(undo, "expires_at")
    assert look(world.client, undo)["can"] == []
    assert outcome(decide(world.client, undo, "again")) == (409, "not_again")


def test_an_undo_is_approved_where_the_tool_needs_approval(world: World) -> None:
    write.all_tools()["relabel"].approval = Always()
    undo = world.undo()
    assert undo["needsApproval"]
    assert outcome(decide(world.client, undo, "confirm")) == (200, "awaiting_approval")
    assert world.undo()["id"] == undo["id"]
    assert stored(world.plan).state == PlanState.EXECUTED
    assert outcome(decide(world.login("manager2"), undo, "approve")) == (200, "executed")
    assert (world.fresh().shipping_name, stored(world.plan).state) == ("Ola", "undone")


def test_the_original_is_undone_in_the_undos_own_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = world.undo()
    order_admin = admin.site._registry[Order]

    def save_model(*args: Any) -> None:
        type(order_admin).save_model(order_admin, *args)
        raise ZeroDivisionError

    monkeypatch.setattr(order_admin, "save_model", save_model, raising=False)
    assert outcome(decide(world.client, undo, "confirm")) == (409, "failed")
    assert (world.fresh().shipping_name, stored(world.plan).state) == ("Kari", "executed")
    assert ("undone", "") not in audited(world.plan)
    monkeypatch.undo()
    again = world.undo()
    assert outcome(decide(world.client, again, "confirm")) == (200, "executed")


def test_an_undo_whose_original_is_not_executed_any_more_does_nothing(world: World) -> None:
    undo = world.undo()
    Plan.objects.filter(pk=world.plan["id"]).update(state=PlanState.UNDONE)
    status, answer = decide(world.client, undo, "confirm")
    assert (status, answer["code"]) == (409, "stale")
    assert world.fresh().shipping_name == "Kari"


def lost_permission(world: World) -> None:
    revoke(User.objects.get(username="support"), "store.change_order")


def shipped_since(world: World) -> None:
    Order.objects.filter(pk=world.order.pk).update(status="shipped")


def out_of_her_rows(world: World) -> None:
    Order.objects.filter(pk=world.order.pk).update(region="south")


def gone(world: World) -> None:
    Order.objects.filter(pk=world.order.pk).delete()


def changed_tool(world: World) -> None:
    write.all_tools()["relabel"].reversible = False


def removed_tool(world: World) -> None:
    write._registry.pop("relabel")


@pytest.mark.parametrize(
    ("since", "status", "code"),
    [
        (lost_permission, 403, "not_allowed"),
        (shipped_since, 409, "not_editable"),
        (out_of_her_rows, 409, "not_found"),
        (gone, 409, "not_found"),
        (changed_tool, 409, "not_undoable"),
        (removed_tool, 409, "not_undoable"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_undo_is_made_and_carried_out_under_todays_rights(
    world: World, since: Callable[[World], None], status: int, code: str, when: str
) -> None:
    undo = world.undo() if when == "after" else None
    since(world)
    if undo is None:
        assert outcome(decide(world.client, world.plan, "undo")) == (status, code)
        assert not Plan.objects.filter(undo_of=world.plan["id"]).exists()
        assert audited(world.plan)[-1] == ("refused", code)
    else:
        refused = decide(world.client, undo, "confirm")
        assert refused[0] == status
        assert stored(undo).state != PlanState.EXECUTED
        assert audited(undo)[-1][0] == "refused"
    assert stored(world.plan).state == PlanState.EXECUTED
    assert not Order.objects.filter(pk=world.order.pk, shipping_name="Ola").exists()


@pytest.mark.parametrize("action", ["undo", "again"])
def test_a_hook_of_the_projects_that_fails_is_a_refusal_and_no_crash(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    plan = world.plan
    if action == "again":
        plan = propose(
            world.client, "relabel", {"order": order_for(number="SO-9000778").number, "name": "Kari"}
        )
        let_pass(plan, "expires_at")
    monkeypatch.setattr(gate, "_looked", failing)
    assert outcome(decide(world.client, plan, action)) == (409, "failed")
    assert audited(plan)[-1] == ("refused", "failed")


def failing(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("the project's own code broke")


def test_a_value_that_the_form_would_put_back_otherwise_is_not_put_back(world: World) -> None:
    order = order_for(
        number="SO-9000777", shipping_name="Ola "
    )  # as another program wrote it; a form strips it
    plan = propose(world.client, "relabel", {"order": order.number, "name": "Kari"})
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert outcome(decide(world.client, plan, "undo")) == (409, "not_undoable")
    assert (stored(plan).state, Order.objects.get(pk=order.pk).shipping_name) == ("executed", "Kari")


@pytest.mark.parametrize("who", ["manager", "admin", "viewer"])
def test_nobody_but_its_owner_undoes(world: World, who: str) -> None:
    assert outcome(decide(world.login(who), world.plan, "undo")) == (404, "not_found")
    undo = world.undo()
    assert outcome(decide(world.login(who), undo, "confirm")) == (404, "not_found")


# -- what can't be put back in full, and what can ----------------------------------------------------------


def test_only_what_is_reversible_and_was_written_by_the_form_is_offered_to_be_undone(
    store: Any, tool: Any, login: Any
) -> None:
    def by_itself(ctx: Any, order: str) -> Preview:
        """Do it its own way."""
        return Preview(ctx.get(Order, number=order), shipping_name="Kari")

    declared = write_tool(Order, reversible=True)(by_itself)
    declared.apply(
        lambda ctx, preview, grant: Order.objects.filter(pk=preview.record.pk).update(shipping_name="Kari")
    )
    relabel(reversible=False)
    order = order_for()
    for name, arguments in (("by_itself", {}), ("relabel", {"name": "Per"})):
        plan = propose(login("support"), name, {"order": order.number, **arguments})
        status, answer = decide(login("support"), plan, "confirm")
        assert (status, answer["plan"]["state"]) == (200, "executed")
        assert "undo" not in answer["plan"]["can"]
        assert outcome(decide(login("support"), plan, "undo")) == (409, "not_undoable")


@pytest.mark.parametrize("state", [each for each in PlanState if each != PlanState.EXECUTED], ids=str)
def test_only_what_was_carried_out_is_undone(world: World, state: PlanState) -> None:
    Plan.objects.filter(pk=world.plan["id"]).update(state=state)
    assert outcome(decide(world.client, world.plan, "undo")) == (409, "not_undoable")


def sorting(ctx: Any, sku: str, category: str, tags: list[str]) -> Preview:
    """Sort a product into a category, with tags."""
    found = ctx.get(Product, sku=sku)
    chosen = ctx.look_up(Category, slug=category) if category != "-" else None
    return Preview(found, category=chosen, tags=list(ctx.list(Tag, slug__in=tags)))


class Shelf:
    """A product in a category with two tags, and others to sort it into."""

    def __init__(self, manager: Client) -> None:
        write_tool(Product, reversible=True)(sorting)
        self.client = manager
        self.old, self.new = (Category.objects.create(name=name, slug=name) for name in ("old-c", "new-c"))
        self.tags = [Tag.objects.create(name=f"t{n}", slug=f"t{n}") for n in range(4)]
        self.product = Product.objects.create(title="Lamp", price=9, category=self.old)
        self.product.tags.set(self.tags[:2])

    def sort(self, category: str, tags: list[str]) -> dict[str, Any]:
        """Return an executed plan."""
        given = {"sku": self.product.sku, "category": category, "tags": tags}
        plan = propose(self.client, "sorting", given)
        assert outcome(decide(self.client, plan, "confirm")) == (200, "executed")
        return plan

    def held(self) -> tuple[Any, list[str]]:
        """Return what is stored."""
        product = Product.objects.get(pk=self.product.pk)
        return product.category, sorted(product.tags.values_list("slug", flat=True))


@pytest.fixture
def shelf(store: Any, tool: Any, manager: Client) -> Shelf:
    return Shelf(manager)


@pytest.mark.parametrize(
    ("category", "tags"), [("new-c", ["t2", "t3"]), ("new-c", ["t1", "t2"]), ("-", ["t3"])], ids=str
)
def test_related_records_are_put_back(shelf: Shelf, category: str, tags: list[str]) -> None:
    plan = shelf.sort(category, tags)
    assert shelf.held() == (None if category == "-" else shelf.new, tags)
    undo = decide(shelf.client, plan, "undo")[1]["plan"]
    assert [each["new"] for each in undo["changes"]] == ["old-c", "t0, t1"]
    assert outcome(decide(shelf.client, undo, "confirm")) == (200, "executed")
    assert shelf.held() == (shelf.old, ["t0", "t1"])


def test_no_category_is_put_back_as_none(shelf: Shelf) -> None:
    Product.objects.filter(pk=shelf.product.pk).update(category=None)
    plan = shelf.sort("new-c", ["t3"])
    undo = decide(shelf.client, plan, "undo")[1]["plan"]
    assert outcome(decide(shelf.client, undo, "confirm")) == (200, "executed")
    assert shelf.held() == (None, ["t0", "t1"])


def test_related_records_that_were_changed_since_are_not_put_back(shelf: Shelf) -> None:
    plan = shelf.sort("new-c", ["t3"])
    shelf.product.tags.add(shelf.tags[0])
    assert outcome(decide(shelf.client, plan, "undo")) == (409, "changed_since")


def test_a_related_record_that_is_gone_can_not_be_put_back(shelf: Shelf) -> None:
    plan = shelf.sort("new-c", ["t3"])
    shelf.old.delete()
    assert outcome(decide(shelf.client, plan, "undo")) == (409, "not_found")


def test_a_related_record_that_she_may_not_see_is_not_put_back(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = shelf.sort("new-c", ["t3"])
    category_admin = admin.site._registry[Category]
    rows = category_admin.get_queryset
    monkeypatch.setattr(category_admin, "get_queryset", lambda request: rows(request).exclude(slug="old-c"))
    assert outcome(decide(shelf.client, plan, "undo")) == (409, "not_found")
    assert shelf.held() == (shelf.new, ["t3"])


def test_a_value_that_the_form_would_not_take_is_not_put_back(store: Any, tool: Any, login: Any) -> None:
    def rename(ctx: Any, customer: str, email: str) -> Preview:
        """Change an address."""
        return Preview(ctx.get(Customer, name=customer), email=email)

    write_tool(Customer, reversible=True)(rename)
    Customer.objects.create(name="Kari Nordmann", email="no address at all")
    plan = propose(login("support"), "rename", {"customer": "Kari Nordmann", "email": "k@mail.example"})
    assert outcome(decide(login("support"), plan, "confirm")) == (200, "executed")
    status, answer = decide(login("support"), plan, "undo")
    assert (status, answer["plan"]["state"]) == (409, "executed")
    assert not Plan.objects.filter(undo_of=plan["id"]).exists()
