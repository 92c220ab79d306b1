"""What a tool's context hands out: this person's rows, with the rights on each, and one text for everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.db.models import QuerySet

from django_copilot import Preview, Refused, write_tool
from django_copilot.access import NOT_FOUND
from django_copilot.models import AuditEntry, Conversation, Plan
from django_copilot.tools.context import MAX_FITTING, MAX_LIST
from django_copilot.tools.guard import only_reading
from example_project.store.models import Category, Customer, Order, OrderLine, Payment, Product, Refund
from tests.gate.conftest import Orders

from .declared import call, context, draft_for, why_not

OBJECTS = ("own", "shipped", "south", "vip", "missing")
WAYS = {
    "get": lambda ctx, pk: ctx.get(Order, pk=pk),
    "look_up": lambda ctx, pk: ctx.look_up(Order, pk=pk),
    "list": lambda ctx, pk: ctx.list(Order, pk=pk)[0],
}


def verdict(who: str, way: str, pk: int, *, verb: str = "change") -> str:
    with context(who, verb=verb) as ctx, only_reading():
        try:
            return "found" if WAYS[way](ctx, pk).pk == pk else "another"
        except IndexError:
            assert ctx.bound == {}
            return "nothing"
        except Refused as error:
            assert ctx.bound == {}
            assert error.message == NOT_FOUND  # noqa: PT017
            return error.code


# who: (get to change, get to delete, look_up, list), for each of OBJECTS
ALL = ("found",) * 4
NONE = ("not_found", "not_found", "not_found", "nothing")
NOT_HERE = ("not_found",) * 4
RIGHTS: dict[str, dict[str, tuple[str, ...]]] = {
    "admin": {**dict.fromkeys(OBJECTS, ALL), "missing": NONE},
    "manager": {**dict.fromkeys(OBJECTS, ALL), "missing": NONE},
    "support": {
        "own": ("found", "not_found", "found", "found"),
        "shipped": ("found", "not_found", "found", "found"),
        "south": NONE,
        "vip": NONE,
        "missing": NONE,
    },
    "viewer": dict.fromkeys(OBJECTS, NOT_HERE),
    "auditor": dict.fromkeys(OBJECTS, NOT_HERE),
}
RIGHTS["bot"] = RIGHTS["support"]


@pytest.mark.parametrize("who", RIGHTS)
def test_a_record_is_found_only_with_the_right_for_the_verb(orders: Orders, who: str) -> None:
    """Guards hazard 153."""
    got = {
        which: (
            verdict(who, "get", orders.pk(which)),
            verdict(who, "get", orders.pk(which), verb="delete"),
            verdict(who, "look_up", orders.pk(which)),
            verdict(who, "list", orders.pk(which)),
        )
        for which in OBJECTS
    }
    assert got == RIGHTS[who]


@pytest.mark.parametrize("verb", ["view", "add", "change", "delete"])
def test_each_verb_asks_its_own_permission_on_the_record(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    model_admin = type(admin.site.get_model_admin(Order))
    assert verdict("manager", "get", orders.own, verb=verb) == "found"
    if verb == "add":
        monkeypatch.setattr(model_admin, "has_add_permission", lambda *args: False)
    else:
        real = getattr(model_admin, f"has_{verb}_permission")
        monkeypatch.setattr(
            model_admin,
            f"has_{verb}_permission",
            lambda self, request, obj=None: obj is None and real(self, request, obj),
        )
        if verb == "view":  # who may change may view
            monkeypatch.setattr(model_admin, "has_change_permission", lambda self, r, obj=None: obj is None)
    assert verdict("manager", "get", orders.own, verb=verb) == "not_found"
    assert verdict("manager", "look_up", orders.own) == ("not_found" if verb == "view" else "found")


@pytest.mark.parametrize("hook", ["get_queryset", "has_view_permission", "has_change_permission"])
def test_a_hook_that_fails_is_a_no(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hook: str
) -> None:
    def broken(self: Any, request: Any, obj: Any = None) -> Any:
        raise LookupError("zqx")

    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), hook, broken)
    assert verdict("manager", "get", orders.own) == "not_found"


MODELS_NOT_HERS = [Refund, Group, LogEntry, OrderLine, Plan, Conversation, AuditEntry]


@pytest.mark.parametrize("model", MODELS_NOT_HERS, ids=lambda each: each.__name__)
def test_a_model_that_her_admin_has_not_is_refused_like_a_record_that_is_not_there(
    orders: Orders, model: Any
) -> None:
    """No admin for it here, no right to it, or one of the assistant's own."""
    for way in ("get", "look_up", "list"):
        with context("support") as ctx, only_reading(), pytest.raises(Refused) as caught:
            getattr(ctx, way)(model, pk=1)
        assert (caught.value.code, caught.value.message) == ("not_found", NOT_FOUND)


def test_the_assistants_own_models_are_for_nobody_and_in_no_way(orders: Orders) -> None:
    for model in (Plan, Conversation, AuditEntry):
        for way in ("get", "look_up", "list", "unscoped"):
            with context("admin") as ctx, only_reading(), pytest.raises(Refused, match="no such record"):
                getattr(ctx, way)(model)


# -- which one -----------------------------------------------------------------------------------------


def test_more_than_one_is_no_answer(orders: Orders) -> None:
    with context("support") as ctx, only_reading():
        for model, lookup in ((Order, {}), (Order, {"region": "north"}), (Category, {})):
            with pytest.raises(Refused) as caught:
                ctx.look_up(model, **lookup)
            assert caught.value.code == "ambiguous"
        assert ctx.bound == {}


def test_a_join_that_gives_a_record_often_does_not_hide_the_next_one(orders: Orders) -> None:
    """Guards hazard 154: one order with many lines and another one with a line fit both."""
    product = Product.objects.first()
    first, second = Order.objects.filter(region="north", customer__vip=False).order_by("pk")[:2]
    OrderLine.objects.filter(product=product).delete()
    for _ in range(MAX_FITTING * 3):
        OrderLine.objects.create(order=first, product=product, quantity=1, unit_price=1)
    with context("manager") as ctx, only_reading():
        assert ctx.get(Order, lines__product=product) == first
        assert [each.pk for each in ctx.list(Order, lines__product=product)] == [first.pk]
    OrderLine.objects.create(order=second, product=product, quantity=1, unit_price=1)
    with context("manager") as ctx, only_reading():
        with pytest.raises(Refused, match="More than one"):
            ctx.get(Order, lines__product=product)
        assert [each.pk for each in ctx.list(Order, lines__product=product)] == [first.pk, second.pk]


@pytest.mark.parametrize("place", [0, 1, 2, MAX_FITTING - 1, MAX_FITTING])
def test_the_one_that_is_hers_is_found_among_those_that_are_not(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    pks = list(Order.objects.order_by("pk").values_list("pk", flat=True)[: MAX_FITTING + 1])
    monkeypatch.setattr(
        type(admin.site.get_model_admin(Order)),
        "get_queryset",
        lambda self, request: Order.objects.filter(pk__in=pks),
    )
    monkeypatch.setattr(
        "example_project.store.admin._may_see", lambda request, order: order is None or order.pk in hers
    )
    hers = {pks[place]}
    with context("manager") as ctx, only_reading():
        with pytest.raises(Refused) as caught:
            ctx.get(Order)
        assert caught.value.code == "ambiguous"  # there may be more than were asked about
        if place == MAX_FITTING:
            return
        pks.pop()
        assert ctx.get(Order).pk == pks[place]
    hers = {pks[place], pks[-1], pks[0]}
    with context("manager") as ctx, only_reading(), pytest.raises(Refused, match="More than one"):
        ctx.get(Order)


def test_too_many_are_too_many_and_nothing_is_bound(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_copilot.tools.context.MAX_LIST", 5)
    assert MAX_LIST == 200
    with context("manager") as ctx, only_reading():
        with pytest.raises(Refused, match="More than 5 records"):
            ctx.list(Category, pk__gte=0)
        assert ctx.bound == {}
        assert len(ctx.list(Category, pk__in=Category.objects.order_by("pk").values("pk")[:5])) == 5
        assert len(ctx.bound) == 5


def test_a_list_holds_only_what_she_may_view(orders: Orders) -> None:
    with context("support") as ctx, only_reading():
        found = ctx.list(Order, pk__in=[orders.pk(which) for which in OBJECTS])
        assert sorted(each.pk for each in found) == sorted([orders.own, orders.shipped])
        assert {pk for _, pk in ctx.bound} == {str(orders.own), str(orders.shipped)}


# -- related -------------------------------------------------------------------------------------------


def test_a_related_record_is_given_only_where_she_may_view_that_one(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = Order.objects.get(pk=orders.own).customer
    with context("support") as ctx, only_reading():
        order = ctx.get(Order, pk=orders.own)
        assert ctx.related(order, "customer") == customer
        assert ("store.customer", str(customer.pk)) in ctx.bound
    real = type(admin.site.get_model_admin(Customer)).get_queryset
    monkeypatch.setattr(
        type(admin.site.get_model_admin(Customer)),
        "get_queryset",
        lambda self, request: real(self, request).exclude(pk=customer.pk),
    )
    with context("support") as ctx, only_reading():
        order = ctx.get(Order, pk=orders.own)
        with pytest.raises(Refused, match="no such record"):
            ctx.related(order, "customer")
        assert set(ctx.bound) == {("store.order", str(orders.own))}


def test_a_related_record_that_is_none_is_none(orders: Orders) -> None:
    product = Product.objects.first()
    Product.objects.filter(pk=product.pk).update(category=None, supplier=None)
    with context("manager") as ctx, only_reading():
        assert ctx.related(ctx.get(Product, pk=product.pk), "category") is None


# -- the scope -----------------------------------------------------------------------------------------


def test_rows_of_another_tenant_are_not_there(orders: Orders, settings: Any) -> None:
    """Guards hazard 155: where the tenant lives in a thread-local, the stored scope sets it."""
    import threading
    from contextlib import contextmanager

    from django_copilot.scope import Scope

    here = threading.local()

    @contextmanager
    def enter(values: Any, request: Any) -> Any:
        here.region = values["region"]
        yield
        here.region = None

    settings.COPILOT = {
        **settings.COPILOT,
        "SCOPE": {"capture": lambda request: {"region": here.region}, "enter": enter},
    }

    @write_tool(Order)
    def tenant(ctx: Any, pk: int) -> Preview:
        """Do it."""
        return Preview(ctx.get(Order, pk=pk), shipping_city="Oslo")

    class Rows:
        def __call__(self, this: Any, request: Any) -> QuerySet[Order]:
            return Order.objects.filter(region=here.region)

    with pytest.MonkeyPatch.context() as patch:
        rows = Rows()
        patch.setattr(
            type(admin.site.get_model_admin(Order)), "get_queryset", lambda self, request: rows(self, request)
        )
        north, south = (
            Scope(site="admin", host="testserver", keys={"region": each}) for each in ("north", "south")
        )
        assert draft_for("manager", "tenant", {"pk": orders.own}, scope=north).object_pk == str(orders.own)
        assert draft_for("manager", "tenant", {"pk": orders.south}, scope=south).object_pk == str(
            orders.south
        )
        for pk, scope in ((orders.own, south), (orders.south, north), (orders.missing, north)):
            assert why_not("manager", "tenant", {"pk": pk}, scope=scope) == {
                "code": "not_found",
                "message": NOT_FOUND,
            }


# -- what is bound -------------------------------------------------------------------------------------


def test_what_a_tool_does_to_its_record_changes_no_old_value(orders: Orders) -> None:
    Order.objects.filter(pk=orders.own).update(shipping_city="Gdynia", shipping_street="Old 1")

    @write_tool(Order)
    def careless(ctx: Any, pk: int) -> Preview:
        """Do it."""
        found = ctx.get(Order, pk=pk)
        found.shipping_city = found.shipping_street = "changed"
        found.customer = None
        return Preview(found, shipping_city="Oslo")

    draft = draft_for("support", "careless", {"pk": orders.own})
    assert draft.body["changes"] == [{"field": "shipping_city", "old": "text:Gdynia", "new": "text:Oslo"}]
    fresh = draft_for("support", "careless", {"pk": orders.own})
    assert fresh.body["records"] == draft.body["records"]


def test_everything_that_was_read_is_bound_with_its_version(orders: Orders) -> None:
    @write_tool(Order)
    def reading(ctx: Any, pk: int) -> Preview:
        """Do it."""
        found = ctx.get(Order, pk=pk)
        ctx.related(found, "customer")
        ctx.list(Payment, order=found)
        ctx.unscoped(Refund).count()
        return Preview(found, shipping_city="Oslo")

    order = Order.objects.get(pk=orders.own)
    payments = order.payments.count()
    bound = draft_for("support", "reading", {"pk": orders.own}).body["records"]
    assert [each["model"] for each in bound] == ["store.order", "store.customer"] + [
        "store.payment"
    ] * payments
    assert all(len(each["version"]) == 64 and each["label"] for each in bound)
    Customer.objects.filter(pk=order.customer_id).update(city="Elsewhere")
    changed = draft_for("support", "reading", {"pk": orders.own}).body["records"]
    assert [a["model"] for a, b in zip(bound, changed, strict=True) if a != b] == ["store.customer"]


def test_a_preview_of_a_record_that_was_not_handed_out_is_refused(
    orders: Orders, caplog: pytest.LogCaptureFixture
) -> None:
    @write_tool(Order)
    def made_up(ctx: Any, way: str) -> Preview:
        """Do it."""
        if way == "own":
            return Preview(Order(pk=orders.own), shipping_city="Oslo")
        if way == "unscoped":
            return Preview(ctx.unscoped(Order).get(pk=orders.south), shipping_city="Oslo")
        if way == "view":
            return Preview(ctx.look_up(Order, pk=orders.own), shipping_city="Oslo")
        if way == "list":
            return Preview(ctx.list(Order, pk=orders.own)[0], shipping_city="Oslo")
        if way == "related":
            return Preview(ctx.related(ctx.get(Order, pk=orders.own), "customer"), city="Oslo")
        return None  # type: ignore[return-value]

    for way in ("own", "unscoped", "view", "list", "related", "nothing"):
        if way == "own":
            continue  # it stands for a record that was not looked up at all
        caplog.clear()
        assert why_not("support", "made_up", {"way": way})["code"] == "failed"
        assert "ctx.get" in caplog.text or "must return a Preview" in caplog.text
    assert why_not("support", "made_up", {"way": "own"})["code"] == "failed"


def test_who_lost_a_right_in_general_has_no_tool_at_all(orders: Orders) -> None:
    @write_tool(Order, permissions=["store.delete_order"])
    def needing(ctx: Any) -> Preview:
        """Do it."""
        raise AssertionError

    assert why_not("support", "needing")["code"] == "unknown_tool"
    assert why_not("viewer", "change_shipping_address", {})["code"] == "unknown_tool"
    Permission.objects.get(codename="change_order").group_set.clear()
    args = {"order": "x", "street": "x", "postal_code": "x", "city": "x"}
    assert why_not("support", "change_shipping_address", args)["code"] == "unknown_tool"


def test_refusals_of_hidden_records_are_one_text(orders: Orders) -> None:
    """Guards hazard 3, for tools: neither the answer nor what the person's plan would be tells them apart."""
    args = {"street": "x", "postal_code": "x", "city": "x"}
    answers = {
        json.dumps(
            call(
                "support",
                "change_shipping_address",
                {**args, "order": Order.objects.get(pk=pk).number if pk != orders.missing else "SO-9999999"},
            ).content  # type: ignore[union-attr]
        )
        for pk in (orders.south, orders.vip, orders.missing)
    }
    assert answers == {json.dumps({"error": {"code": "not_found", "message": NOT_FOUND}})}
