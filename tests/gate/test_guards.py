"""Guards of the gate, each alone: where another one holds the same rule, it is asked without that one."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import F
from django.db.models.signals import post_save
from django.utils import translation
from django.utils.translation import gettext

from django_copilot import Above, Category, Preview, gate, write_tool
from django_copilot.access import Access
from django_copilot.exceptions import NoGrant, Refused
from django_copilot.models import Plan, PlanState
from django_copilot.scope import enter_scope
from django_copilot.tools import write
from django_copilot.tools.base import Planned
from example_project.store.models import Order, Product, Supplier, Tag
from tests.plans.outside import World as Outside
from tests.plans.tools import World, decide, outcome, propose, stored
from tests.tools.declared import call, own_tools, why_not  # noqa: F401  # own_tools is a fixture

from .calls import HERE, judge
from .conftest import Orders
from .test_grants import World as Claimed

pytestmark = pytest.mark.usefixtures("own_tools")


def plain(name: str, model: Any = Order, **options: Any) -> Any:
    """Declare a tool on an order that changes, by itself, what its steps say."""

    def tool(ctx: Any, order: str) -> Preview:
        """Do it."""
        return Preview(ctx.get(model, number=order), amount=1)

    return write_tool(model, name=name, **{"approval": Above(10**9), **options})(tool)


@pytest.fixture
def world(store: Any, login: Any) -> World:
    return World(login)


@pytest.fixture
def access(store: Any) -> Iterator[Access]:
    """Give the rights of support in its scope."""
    with enter_scope(HERE, store.user("support").pk) as request:
        yield Access(admin.site, request)


def test_what_a_failing_hook_does_to_a_transaction_is_taken_back_with_the_call(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block without a savepoint of its own that fails leaves the surrounding one unusable, on every database."""

    def broken(self: Any, request: Any) -> Any:
        with transaction.atomic(savepoint=False):
            raise LookupError("zqx")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), "get_queryset", broken)
    assert judge("admin", "query_order") == "not_found"
    assert not connection.needs_rollback
    assert Product.objects.count() == 40


# -- the tool of a stored plan ----------------------------------------------------------------------------


def lose_the_tool() -> None:
    write._registry.clear()


def spoil_the_tool() -> None:
    write._registry["relabel"].problems = ("It is not as it should be.",)


@pytest.mark.parametrize("happens", [lose_the_tool, spoil_the_tool])
@pytest.mark.parametrize(
    "look", [gate.look_again, gate.look_afresh, gate.look_at_undo], ids=lambda f: f.__name__
)
def test_a_tool_that_is_gone_or_wrong_is_not_looked_at(
    world: World, access: Access, look: Callable[..., Any], happens: Callable[[], None]
) -> None:
    plan = stored(world.propose())
    happens()
    with pytest.raises(Refused) as caught:
        look(access, plan)
    assert caught.value.code == "tool_changed"


NOT_TO_BE_UNDONE: dict[str, Callable[[], Any]] = {
    "not carried out": lambda: Plan.objects.update(state=PlanState.FAILED),
    "not reversible": lambda: setattr(write._registry["relabel"], "reversible", False),
    "in a way of its own": lambda: write._registry["relabel"].apply(lambda ctx, preview, grant: None),
}


@pytest.mark.parametrize("why", ["", *NOT_TO_BE_UNDONE])
def test_the_gate_itself_undoes_only_what_can_be_undone(world: World, access: Access, why: str) -> None:
    plan = world.propose()
    decide(world.client, plan, "confirm")
    assert stored(plan).state == "executed"
    if not why:
        assert gate.look_at_undo(access, stored(plan)).body["undoes"] == plan["id"]
        return
    NOT_TO_BE_UNDONE[why]()
    with pytest.raises(Refused) as caught:
        gate.look_at_undo(access, stored(plan))
    assert caught.value.code == "not_undoable"


def test_the_gate_undoes_no_plan_that_is_not_there(world: World, access: Access) -> None:
    with pytest.raises(Refused) as caught:
        gate._look_at_undo(access, write._registry["relabel"], None)
    assert caught.value.code == "not_undoable"


def test_an_undo_only_reads_whatever_a_hook_does(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.propose()
    decide(world.client, plan, "confirm")
    model_admin = type(admin.site.get_model_admin(Order))
    real = model_admin.get_queryset

    def writes(self: Any, request: Any) -> Any:
        Product.objects.update(title=F("title"))
        return real(self, request)

    monkeypatch.setattr(model_admin, "get_queryset", writes)
    with transaction.atomic():
        answer = decide(world.client, plan, "undo")
        transaction.set_rollback(True)
    assert outcome(answer) == (409, "failed")
    assert not Plan.objects.exclude(undo_of=None).exists()


# -- a second person --------------------------------------------------------------------------------------


def test_a_second_person_who_was_needed_stays_needed_though_what_was_before_leaves_the_window(
    store: Any, login: Any
) -> None:
    def pay(ctx: Any, order: str, cents: int) -> Preview:
        """Pay so much."""
        return Preview(ctx.get(Order, number=order), shipping_name=f"{cents}", amount=cents)

    write_tool(Order, approval=Above(100, datetime.timedelta(hours=1)))(pay)
    client, north = login("support"), Order.objects.filter(region="north", customer__vip=False)
    first, second = list(north.exclude(status="shipped").order_by("pk")[:2])
    earlier = propose(client, "pay", {"order": first.number, "cents": 60})
    assert outcome(decide(client, earlier, "confirm")) == (200, "executed")
    plan = propose(client, "pay", {"order": second.number, "cents": 60})
    assert outcome(decide(client, plan, "confirm")) == (200, "awaiting_approval")
    ago = datetime.timedelta(hours=2)
    Plan.objects.filter(pk=earlier["id"]).update(
        confirmed_at=F("confirmed_at") - ago, ended_at=F("ended_at") - ago
    )
    assert outcome(decide(login("manager2"), plan, "approve")) == (200, "executed")


# -- one language -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["pl", "de"])
def test_a_tool_that_translates_says_the_same_in_every_language(
    store: Any, world: World, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked at, looked at again, put back and done is so in the project's own language."""

    def named(ctx: Any, order: str) -> Preview:
        """Name it as the site does."""
        return Preview(ctx.get(Order, number=order), shipping_name=gettext("Yes"), effects=[gettext("No")])

    tool = write_tool(Order, reversible=True)(named)
    own = plain("own")
    own.dry_run(lambda preview: [gettext("No")])
    done: list[str] = []

    @own.apply
    def apply(ctx: Any, preview: Preview, grant: Any) -> None:
        done.append(gettext("Yes"))

    assert tool.reversible
    monkeypatch.setattr(Order, "__str__", lambda self: gettext("Yes"))
    with translation.override(language):
        assert gettext("Yes") != "Yes"  # else it proves nothing
    foreign = {"HTTP_ACCEPT_LANGUAGE": language}
    world.client.defaults.update(foreign)
    plans = [propose(world.client, name, {"order": world.order.number}) for name in ("own", "named")]
    assert stored(plans[0]).document["dry_run"] == [{"text": "No", "values": {}}]
    assert stored(plans[1]).document["effects"] == [{"text": "No", "values": {}}]
    for plan in plans:
        assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert done == ["Yes"]
    assert world.fresh().shipping_name == "Yes"
    undo = decide(world.client, plans[1], "undo")[1]["plan"]
    for each in (*plans, undo):
        assert [record["label"] for record in stored(each).document["records"]] == ["Yes"]
    assert outcome(decide(world.client, undo, "confirm")) == (200, "executed")


# -- what a preview must be -------------------------------------------------------------------------------


def test_a_preview_without_changes_is_none_unless_the_tool_has_a_way_of_its_own(
    store: Any, world: World
) -> None:
    def empty(ctx: Any, order: str) -> Preview:
        """Do nothing."""
        return Preview(ctx.get(Order, number=order))

    tool = write_tool(Order)(empty)
    args = {"order": world.order.number}
    assert why_not("support", "empty", args)["code"] == "failed"
    tool.apply(lambda ctx, preview, grant: None)
    plan = propose(world.client, "empty", args)
    assert plan["changes"] == []


def test_what_a_step_gives_back_is_kept_if_it_is_a_dict_and_else_nothing_is(store: Any, world: World) -> None:
    for name, given, kept in (("one", {"a": 1}, {"a": 1}), ("two", "a text", None), ("three", 7, None)):
        plain(name).apply(lambda ctx, preview, grant, given=given: given)
        plan = propose(world.client, name, {"order": world.order.number})
        assert outcome(decide(world.client, plan, "confirm"))[0] == 200
        assert stored(plan).result == kept


def test_a_plan_on_what_is_no_entity_tells_the_model_of_none(store: Any) -> None:
    def move(ctx: Any, name: str) -> Preview:
        """Move a supplier."""
        return Preview(ctx.get(Supplier, name=name), country="Norway")

    write_tool(Supplier)(move)
    outcome = call("admin", "move", {"name": Supplier.objects.order_by("pk").first().name})
    assert isinstance(outcome, Planned), outcome
    assert outcome.told == {}


def test_a_password_is_shown_in_no_plan_though_her_admin_has_it_on_the_page(store: Any) -> None:
    """Not even by a tool that changes it in a way of its own; its page shows a summary of the hash."""

    def reset(ctx: Any, name: str) -> Preview:
        """Set a password."""
        return Preview(ctx.get(User, username=name), password="x")

    write_tool(User, name="reset")(reset).apply(lambda ctx, preview, grant: None)
    model_admin = admin.site.get_model_admin(User)
    assert "password" in str(model_admin.fieldsets)
    assert why_not("admin", "reset", {"name": "viewer"})["code"] == "failed"


def test_related_records_in_a_table_of_the_projects_own_are_not_looked_at() -> None:
    """Their rows hold more than two keys; whoever changes them does so on a page of their own."""

    def relation(auto_created: bool) -> Any:
        through = SimpleNamespace(_meta=SimpleNamespace(auto_created=auto_created))
        field = SimpleNamespace(name="tags", remote_field=SimpleNamespace(through=through), many_to_many=True)
        return SimpleNamespace(
            _meta=SimpleNamespace(local_many_to_many=[field]), tags=SimpleNamespace(all=list)
        )

    assert gate._sets_of(relation(auto_created=True), set()) == {"tags": "list:[]"}
    assert gate._sets_of(relation(auto_created=True), {"tags"}) == {}
    assert gate._sets_of(relation(auto_created=False), set()) == {}


# -- what an effect must have been ------------------------------------------------------------------------


def test_a_tool_that_deletes_its_record_may_and_another_may_not(store: Any, world: World) -> None:
    boss = world.login("manager")
    for name, verb, after in (
        ("remove", "delete", (200, "executed")),
        ("edit", "change", (409, "effect_differs")),
    ):
        order = Order.objects.create(
            number=f"SO-800000{len(name)}", region="north", customer=world.order.customer
        )
        tool = plain(name, verb=verb, category=Category.DESTRUCTIVE)
        tool.apply(lambda ctx, preview, grant: preview.record.delete())
        plan = propose(boss, name, {"order": order.number})
        assert outcome(decide(boss, plan, "confirm")) == after
        assert Order.objects.filter(pk=order.pk).exists() is (after[0] != 200)


@pytest.mark.parametrize("announced", [True, False])
def test_related_records_that_change_with_a_save_must_have_been_said(
    store: Any, login: Any, announced: bool
) -> None:
    product = Product.objects.order_by("pk").first()
    product.tags.clear()

    def rename(ctx: Any, sku: str, title: str) -> Preview:
        """Rename a product."""
        return Preview(ctx.get(Product, sku=sku), title=title, touched=["tags"] if announced else [])

    write_tool(Product)(rename)

    def tag(sender: Any, instance: Any, **kwargs: Any) -> None:
        instance.tags.add(Tag.objects.order_by("pk").first())

    client = login("manager")
    plan = propose(client, "rename", {"sku": product.sku, "title": "Another"})
    post_save.connect(tag, sender=Product)
    try:
        answer = outcome(decide(client, plan, "confirm"))
    finally:
        post_save.disconnect(tag, sender=Product)
    assert answer == ((200, "executed") if announced else (409, "effect_differs"))
    assert product.tags.exists() is announced


# -- another system ---------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_call_without_a_payload_is_made_with_none(store: Any, login: Any) -> None:
    world, asked = Outside(login), list[Any]()
    plain("ping").call(lambda payload, key: asked.append(payload) or {"done": True})  # type: ignore[func-returns-value]
    plan = propose(world.client, "ping", {"order": world.order.number})
    assert outcome(decide(world.client, plan, "confirm")) == (200, "executed")
    assert asked == [None]


def test_a_plan_that_nobody_confirmed_is_not_even_settled(orders: Orders, login: Any) -> None:
    world = Claimed(orders, login)
    world.store(world.plan, confirmed_by="")
    with pytest.raises(NoGrant, match="nobody else"):
        world.run("settle", world.grant(confirmed_by="", requester=""))
    assert world.ran == []
