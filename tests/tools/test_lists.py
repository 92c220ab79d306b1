"""``open_<entity>_list``: the admin's own list shows just what was asked for, and a plan says what is ticked."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db.models import Q
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from django_copilot import gate
from django_copilot.access import Access, EntityAccess
from django_copilot.backends.base import ToolCall
from django_copilot.exceptions import CallError, Refused
from django_copilot.models import AuditEntry, Plan, PlanKind, PlanState
from django_copilot.references import References, Shown
from django_copilot.scope import enter_scope
from django_copilot.switch import turn
from django_copilot.testing import Call, Text, ask, script
from django_copilot.tools import lists
from django_copilot.tools.base import Outcome, Proposed
from django_copilot.tools.lists import RUN
from example_project.store.admin import OrderAdmin
from example_project.store.models import Category, Customer, Order, Payment, Product, Refund
from tests.gate.calls import HERE, run, verdict
from tests.gate.conftest import Orders

Login = Callable[[str], Client]
JSON = {"accept": "application/json"}


def opened(login: Login, outcome: Outcome, who: str = "manager") -> list[Any]:
    """Return the keys of the rows that the proposed address shows on its one page, as this person's admin gives it."""
    assert isinstance(outcome, Proposed), outcome
    answer = login(who).get(outcome.path, outcome.query)
    assert answer.status_code == 200, (answer.status_code, answer.headers.get("Location"))
    shown = answer.context_data["cl"]  # type: ignore[attr-defined]
    assert not shown.multi_page or shown.show_all
    return sorted(each.pk for each in shown.result_list)


def keep_only(orders: Any) -> None:
    """Leave these orders, and no others, in the store."""
    gone = Order.objects.exclude(pk__in=[*orders])
    Refund.objects.filter(payment__order__in=gone).delete()
    Payment.objects.filter(order__in=gone).delete()
    gone.delete()


def keys(rows: Any) -> list[Any]:
    return sorted(rows.values_list("pk", flat=True))


@pytest.fixture
def kitchen(store: Any) -> str:
    return str(Category.objects.get(name="Kitchen").pk)


# -- filters in the admin's own words ---------------------------------------------------------------------

ORDERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a choice": ({"status": "paid"}, {"status__exact": "paid"}),
    "several choices": ({"status": {"in": ["paid", "pending"]}}, {"status__in": "paid,pending"}),
    "two fields": (
        {"status": "paid", "region": "north"},
        {"status__exact": "paid", "region__exact": "north"},
    ),
    "a text": ({"shipping_city": "Gdańsk"}, {"shipping_city__exact": "Gdańsk"}),
    "nothing empty": ({"status": {"isnull": False}}, {}),
}


def meant(filters: dict[str, Any]) -> Q:
    """Return what these filters mean, said anew."""
    q = Q()
    for name, given in filters.items():
        if isinstance(given, dict) and "isnull" in given:
            empty = Q((f"{name}__isnull", True)) | Q((name, ""))
            q &= empty if given["isnull"] else ~empty
        elif isinstance(given, dict):
            q &= Q(*((f"{name}__{lookup}", value) for lookup, value in given.items()))
        else:
            q &= Q((name, given))
    return q


@pytest.mark.parametrize("case", ORDERS)
def test_the_list_shows_the_rows_of_the_filters(login: Login, case: str) -> None:
    filters, query = ORDERS[case]
    rows = Order.objects.filter(meant(filters))
    if rows.count() > 50:
        keep_only(rows.values_list("pk", flat=True)[:40])
    outcome = run("manager", "open_order_list", {"filters": filters})
    assert isinstance(outcome, Proposed)
    assert outcome.path == "/admin/store/order/"
    assert opened(login, outcome) == keys(Order.objects.filter(meant(filters)))
    if query:
        assert outcome.query == query
    assert (outcome.ticked, outcome.action) == ((), "")
    assert outcome.reply == "This is the list of orders, filtered as asked."


def test_dates_are_worked_out_and_put_into_the_admins_own_parameters(login: Login) -> None:
    outcome = run("manager", "open_order_list", {"filters": {"placed_at": {"gte": "2026-01-01"}}})
    assert isinstance(outcome, Proposed)
    (name, text), *rest = outcome.query.items()
    assert (name, rest) == ("placed_at__gte", [])
    assert datetime.datetime.fromisoformat(text) == datetime.datetime(2025, 12, 31, 23, tzinfo=datetime.UTC)
    month = run("manager", "open_order_list", {"filters": {"placed_at": "last month"}})
    assert isinstance(month, Proposed)
    assert {*month.query} == {"placed_at__gte", "placed_at__lt"}
    today = timezone.now()
    Order.objects.all().update(placed_at=today)
    some = Order.objects.order_by("pk")[:3]
    Order.objects.filter(pk__in=[each.pk for each in some]).update(
        placed_at=today - datetime.timedelta(days=400)
    )
    since = (today - datetime.timedelta(days=300)).date().isoformat()
    older = run("manager", "open_order_list", {"filters": {"placed_at": {"lt": since}}})
    assert opened(login, older) == sorted(each.pk for each in some)


PRODUCTS: list[tuple[dict[str, Any], Q, list[str]]] = [
    ({"status": "active"}, Q(status="active"), ["status__exact"]),
    (
        {"price": {"gte": "20.00", "lt": "90"}},
        Q(price__gte=Decimal(20), price__lt=Decimal(90)),
        ["price__gte", "price__lt"],
    ),
    ({"available_from": {"isnull": True}}, Q(available_from=None), ["available_from__isnull"]),
    ({"available_from": None}, Q(available_from=None), ["available_from__isnull"]),
    ({"category": None}, Q(category=None), ["category__isnull"]),
    ({"category": {"isnull": True}}, Q(category=None), ["category__isnull"]),
    ({"category": {"isnull": False}}, ~Q(category=None), ["category__isnull"]),
    ({"available_from": {"isnull": False}}, ~Q(available_from=None), ["available_from__isnull"]),
    (
        {"available_from": {"isnull": False}, "status": "active"},
        Q(status="active") & ~Q(available_from=None),
        ["available_from__isnull", "status__exact"],
    ),
]


@pytest.mark.parametrize("case", range(len(PRODUCTS)))
def test_the_list_of_products_shows_the_rows_of_the_filters(login: Login, case: int) -> None:
    filters, q, names = PRODUCTS[case]
    Product.objects.exclude(pk__in=Product.objects.order_by("pk").values("pk")[:60]).delete()
    outcome = run("manager", "open_product_list", {"filters": filters})
    assert isinstance(outcome, Proposed)
    assert sorted(outcome.query) == sorted(names)
    assert opened(login, outcome) == keys(Product.objects.filter(q))


def test_a_related_record_shows_as_chosen_among_the_admins_own_filters(login: Login, kitchen: str) -> None:
    outcome = run("manager", "open_product_list", {"filters": {"category": kitchen}})
    assert isinstance(outcome, Proposed)
    assert outcome.query == {"category__id__exact": kitchen}
    answer = login("manager").get(outcome.path, outcome.query)
    chosen = [
        choice["display"]
        for spec in answer.context_data["cl"].filter_specs  # type: ignore[attr-defined]
        for choice in spec.choices(answer.context_data["cl"])  # type: ignore[attr-defined]
        if choice["selected"]
    ]
    assert "Kitchen" in chosen
    assert opened(login, outcome) == keys(Product.objects.filter(category=kitchen))
    both = run("manager", "open_product_list", {"filters": {"category": {"in": [kitchen, kitchen]}}})
    assert opened(login, both) == keys(Product.objects.filter(category=kitchen))


def test_a_yes_or_no_is_written_as_the_admin_writes_it(login: Login) -> None:
    outcome = run("manager", "open_customer_list", {"filters": {"vip": True}})
    assert isinstance(outcome, Proposed)
    assert outcome.query == {"vip__exact": "1"}
    assert opened(login, outcome) == keys(Customer.objects.filter(vip=True))


def test_an_id_is_a_filter_too(login: Login, orders: Orders) -> None:
    outcome = run("manager", "open_order_list", {"filters": {"id": str(orders.own)}})
    assert isinstance(outcome, Proposed)
    assert outcome.query == {"pk__in": str(orders.own)}
    assert opened(login, outcome) == [orders.own]


def test_without_filters_it_is_the_whole_list(store: Any) -> None:
    outcome = run("manager", "open_order_list", {})
    assert isinstance(outcome, Proposed)
    assert (outcome.query, outcome.ticked) == ({}, ())
    assert outcome.reply == "This is the list of orders."


# -- what the admin can't express -------------------------------------------------------------------------


def test_a_comma_in_one_of_several_values_is_looked_up_first(login: Login) -> None:
    first, second = Order.objects.order_by("pk")[:2]
    Order.objects.filter(pk=first.pk).update(shipping_city="Łódź, Bałuty")
    bend = {"shipping_city": ["in"]}
    before = OrderAdmin.harness_lookups
    OrderAdmin.harness_lookups = bend
    try:
        outcome = run("manager", "open_order_list", {"filters": {"shipping_city": {"in": ["Łódź, Bałuty"]}}})
    finally:
        OrderAdmin.harness_lookups = before
    assert isinstance(outcome, Proposed)
    assert outcome.query == {"pk__in": str(first.pk)}
    assert opened(login, outcome) == [first.pk]
    assert second.pk not in opened(login, outcome)


@pytest.mark.parametrize("more", [{}, {"region": "north"}], ids=["alone", "with another"])
@pytest.mark.parametrize("empty", [True, False])
def test_an_empty_text_is_looked_up_first(
    login: Login, monkeypatch: pytest.MonkeyPatch, empty: bool, more: dict[str, str]
) -> None:
    """The admin's list knows what has no value, and not what is an empty text."""
    monkeypatch.setattr(OrderAdmin, "harness_lookups", {"shipping_city": ["isnull"]})
    keep_only(Order.objects.filter(region="north").order_by("pk").values_list("pk", flat=True)[:6])
    without = Order.objects.order_by("pk").values_list("pk", flat=True)[:2]
    Order.objects.filter(pk__in=list(without)).update(shipping_city="")
    outcome = run("manager", "open_order_list", {"filters": {"shipping_city": {"isnull": empty}, **more}})
    assert isinstance(outcome, Proposed)
    assert [*outcome.query] == ["pk__in"]
    assert opened(login, outcome) == keys(
        Order.objects.filter(shipping_city="") if empty else Order.objects.exclude(shipping_city="")
    )


def test_a_moment_or_a_day_is_looked_up_first(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OrderAdmin, "harness_lookups", {"placed_at": ["in"]})
    first, second, *rest = Order.objects.order_by("pk")
    noon = datetime.datetime(2025, 3, 3, 12, tzinfo=datetime.UTC)
    Order.objects.filter(pk=first.pk).update(placed_at=noon)
    Order.objects.filter(pk=second.pk).update(placed_at=noon + datetime.timedelta(days=2))
    Order.objects.filter(pk=rest[0].pk).update(placed_at=noon + datetime.timedelta(days=1))
    days = {"in": [noon.isoformat(), "2025-03-05"]}
    outcome = run("manager", "open_order_list", {"filters": {"placed_at": days}})
    assert opened(login, outcome) == [first.pk, second.pk]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], None),
        ([""], None),
        (["a", ""], None),
        (["a", "b,c"], None),
        ([1, 2], "1,2"),
        ("", None),
        ("a, b", "a, b"),
        (None, None),
        (True, "1"),
        (False, "0"),
        (Decimal("1E+3"), "1000"),
        (datetime.timedelta(hours=30, seconds=1), None),
        (datetime.date(2026, 5, 1), "2026-05-01"),
        (datetime.time(6, 30), "06:30:00"),
        (b"x", None),
        ({"a": 1}, None),
    ],
    ids=repr,
)
def test_a_value_is_written_as_the_list_reads_it_or_not_at_all(value: Any, text: str | None) -> None:
    assert lists._text(value) == text


@pytest.fixture
def entity(store: Any) -> Iterator[EntityAccess]:
    """Return the orders as a manager may use them."""
    with enter_scope(HERE, get_user_model().objects.get(username="manager").pk) as request:
        found = Access(admin.site, request).entity("order")
        assert found is not None
        yield found


def test_an_address_has_an_end(entity: EntityAccess) -> None:
    assert lists._allowed(entity, {"shipping_city__exact": "x" * 2_900}) is not None
    assert lists._allowed(entity, {"shipping_city__exact": "x" * 3_000}) is None


def test_a_key_that_can_stand_in_no_list_of_keys_is_an_error(entity: EntityAccess) -> None:
    with pytest.raises(CallError) as error:
        lists._by_keys(entity, [Order(pk="a,b")])
    assert error.value.code == "not_filterable"


def test_an_id_that_names_nothing_is_as_one_that_is_hidden(
    entity: EntityAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where keys are data, an id may be well made and name nothing that she may know of."""
    monkeypatch.setattr(EntityAccess, "keys", lambda self, given: [])
    with pytest.raises(Refused) as error:
        lists.open_entity_list(entity, {"ids": ["x"]})
    assert error.value.code == "not_found"


def test_who_may_not_view_opens_no_list(entity: EntityAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(entity), "can_view", False)
    with pytest.raises(Refused) as error:
        lists.open_entity_list(entity, {})
    assert error.value.code == "not_allowed"


def test_a_handle_on_a_readable_field_is_in_no_address_either(login: Login, orders: Orders) -> None:
    customer = Customer.objects.exclude(email="").order_by("pk").first()
    assert customer is not None
    Order.objects.filter(pk=orders.own).update(shipping_city=customer.email)
    shown = Shown(number=1, entity="store.customer", keys=(str(customer.pk),))
    outcome = handled("manager", "open_order_list", {"filters": {"shipping_city": "‹email r1.1›"}}, shown)
    assert isinstance(outcome, Proposed), outcome
    assert outcome.query == {"pk__in": str(orders.own)}


def handled(who: str, tool: str, args: Any, shown: Shown) -> Outcome:
    """Run a call in a conversation that has shown something."""
    user = get_user_model().objects.get(username=who)
    call = ToolCall(id="1", name=tool, arguments=json.dumps(args))
    return gate.run(admin.site, HERE, user.pk, call, references=References.from_json([shown.to_json()]))


def test_a_value_behind_a_handle_is_in_no_address(login: Login) -> None:
    customer = Customer.objects.exclude(email="").order_by("pk").first()
    assert customer is not None
    shown = Shown(number=1, entity="store.customer", keys=(str(customer.pk),))
    outcome = handled("manager", "open_customer_list", {"filters": {"email": "‹email r1.1›"}}, shown)
    assert isinstance(outcome, Proposed), outcome
    assert customer.email not in json.dumps([outcome.path, dict(outcome.query), outcome.reply])
    assert opened(login, outcome) == keys(Customer.objects.filter(email=customer.email))
    assert [*outcome.told] == []  # or the answer would be hidden from her, who may not read it through us


def test_a_list_that_refuses_a_parameter_is_filtered_by_keys(
    login: Login, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup_allowed(self: Any, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "pk__in"

    monkeypatch.setattr(OrderAdmin, "lookup_allowed", lookup_allowed)
    city = Order.objects.get(pk=orders.own).shipping_city
    Order.objects.exclude(pk=orders.own).update(shipping_city="Nowhere")
    outcome = run("manager", "open_order_list", {"filters": {"shipping_city": city}})
    assert isinstance(outcome, Proposed)
    assert outcome.query == {"pk__in": str(orders.own)}
    assert opened(login, outcome) == [orders.own]

    monkeypatch.setattr(OrderAdmin, "lookup_allowed", lambda *args, **kwargs: False)
    assert (
        verdict(run("manager", "open_order_list", {"filters": {"shipping_city": city}})) == "not_filterable"
    )
    assert verdict(run("manager", "open_order_list", {"ids": [str(orders.own)]})) == "not_filterable"


# -- rows to tick -----------------------------------------------------------------------------------------


def test_ids_are_ticked_and_stand_on_one_page(login: Login, orders: Orders) -> None:
    two = [orders.own, orders.shipped]
    outcome = run("support", "open_order_list", {"ids": [str(pk) for pk in two], "action": "mark_as_shipped"})
    assert isinstance(outcome, Proposed)
    assert outcome.ticked == tuple(str(pk) for pk in two)
    assert outcome.query == {"pk__in": ",".join(outcome.ticked)}
    assert outcome.action == "mark_as_shipped"
    assert outcome.reply == f"2 orders are ticked and “Mark as shipped” is chosen. Press {RUN} to run it."
    assert opened(login, outcome, "support") == sorted(two)


def test_a_reference_stands_for_an_id(orders: Orders) -> None:
    shown = Shown(number=3, entity="store.order", keys=(str(orders.shipped), str(orders.own)))
    outcome = handled("support", "open_order_list", {"ids": ["r3.2"]}, shown)
    assert isinstance(outcome, Proposed)
    assert outcome.ticked == (str(orders.own),)
    assert outcome.reply == f"1 order is ticked. Choose an action and press {RUN}."
    assert verdict(handled("support", "open_order_list", {"ids": ["r3.3"]}, shown)) == "unknown_reference"
    assert verdict(handled("support", "open_customer_list", {"ids": ["r3.2"]}, shown)) == "unknown_reference"


@pytest.mark.parametrize("hidden", ["south", "vip", "missing"])
def test_one_row_that_she_may_not_see_refuses_them_all_with_one_answer(orders: Orders, hidden: str) -> None:
    outcome = run("support", "open_order_list", {"ids": [str(orders.own), str(orders.pk(hidden))]})
    assert verdict(outcome) == "not_found"
    assert outcome == run("support", "open_order_list", {"ids": [str(orders.own), "99999999"]})


def test_with_an_action_all_rows_of_the_filters_are_ticked_but_those_she_may_not_see(
    login: Login, orders: Orders
) -> None:
    Order.objects.filter(pk__in=[orders.own, orders.vip]).update(shipping_city="Nowhere")
    args = {"filters": {"shipping_city": "Nowhere"}, "action": "mark_as_shipped"}
    outcome = run("support", "open_order_list", args)
    assert isinstance(outcome, Proposed)
    # The admin's list shows the row of a VIP, which she may not open: it is not ticked.
    assert outcome.ticked == (str(orders.own),)
    assert opened(login, outcome, "support") == sorted([orders.own, orders.vip])
    assert outcome.query == {"shipping_city__exact": "Nowhere"}
    assert outcome.told == {"store.order": ("shipping_city",)}


def test_more_rows_than_stand_on_a_page_are_an_error_and_are_not_cut(
    login: Login, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OrderAdmin, "list_per_page", 5)
    monkeypatch.setattr(OrderAdmin, "list_max_show_all", 8)
    pks = [str(pk) for pk in Order.objects.order_by("pk").values_list("pk", flat=True)[:9]]
    keep_only(pks)
    args = {"filters": {"placed_at": {"gte": "2000"}}, "action": "mark_as_shipped"}
    assert verdict(run("manager", "open_order_list", args)) == "too_many_records"
    assert verdict(run("manager", "open_order_list", {"ids": pks})) == "invalid_value"
    eight = run("manager", "open_order_list", {"ids": pks[:8]})
    assert isinstance(eight, Proposed)
    assert eight.query == {"pk__in": ",".join(pks[:8]), "all": ""}
    assert opened(login, eight) == sorted(int(pk) for pk in pks[:8])
    keep_only(pks[:8])
    all_rows = run("manager", "open_order_list", args)
    assert isinstance(all_rows, Proposed)
    assert {*all_rows.query} == {"placed_at__gte", "all"}
    assert len(all_rows.ticked) == 8
    assert opened(login, all_rows) == sorted(int(pk) for pk in pks[:8])


def test_rows_that_she_may_not_see_push_none_of_hers_from_the_page(
    login: Login, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OrderAdmin, "list_per_page", 2)
    monkeypatch.setattr(OrderAdmin, "list_max_show_all", 2)
    vip = Order.objects.get(pk=orders.vip).customer
    Order.objects.filter(region="north").update(customer=vip)
    plain = Customer.objects.filter(vip=False).first()
    Order.objects.filter(pk__in=[orders.own, orders.shipped]).update(customer=plain)
    Order.objects.filter(region="north").update(shipping_city="Nowhere")
    assert Order.objects.filter(region="north").count() > 2
    args = {"filters": {"shipping_city": "Nowhere"}, "action": "mark_as_shipped"}
    outcome = run("support", "open_order_list", args)
    assert isinstance(outcome, Proposed)
    assert sorted(outcome.ticked) == sorted([str(orders.own), str(orders.shipped)])
    assert opened(login, outcome, "support") == sorted([orders.own, orders.shipped])


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"ids": []}, "invalid_value"),
        ({"ids": ["1"] * 101}, "invalid_value"),
        ({"ids": [True]}, "invalid_id"),
        ({"ids": ["x"]}, "invalid_id"),
        ({"ids": [{"in": ["1"]}]}, "invalid_id"),
        ({"ids": ["1"], "filters": {"status": "paid"}}, "invalid_argument"),
        ({"action": "delete_selected"}, "invalid_argument"),
        ({"action": "no_such"}, "invalid_argument"),
        ({"action": "mark_as_shipped"}, "invalid_argument"),  # of which rows?
        ({"action": "mark_as_shipped", "filters": {}}, "invalid_argument"),
        ({"filters": {"internal_note": "x"}}, "unknown_field"),
        ({"filters": {"customer__email": "x"}}, "unknown_field"),
        ({"filters": {"status": {"contains": "a"}}}, "unknown_lookup"),
        ({"filters": {"placed_at": {"gte": "2026-02-30"}}}, "invalid_value"),
        ({"filters": {"shipping_city": "Nowhere at all"}, "action": "mark_as_shipped"}, "not_found"),
        ({"ids": "1"}, "invalid_argument"),
        ({"search": "x"}, "unknown_argument"),
    ],
    ids=json.dumps,
)
def test_what_can_be_mended_is_told(orders: Orders, args: dict[str, Any], code: str) -> None:
    assert verdict(run("manager", "open_order_list", args)) == code


def test_the_error_of_an_action_names_those_that_her_admin_gives_her(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome: Any = run("manager", "open_order_list", {"action": "ship"})
    assert outcome.content["error"]["message"] == "action: expected one of: mark_as_shipped."
    # The admin gives it to nobody without the right to change.
    monkeypatch.setattr(OrderAdmin, "has_change_permission", lambda self, request, obj=None: False)
    outcome = run("support", "open_order_list", {"action": "mark_as_shipped"})
    assert outcome.content["error"]["message"] == "action: expected none here."
    monkeypatch.setattr(OrderAdmin, "harness_actions", [])
    assert verdict(run("manager", "open_order_list", {"action": "mark_as_shipped"})) == "invalid_argument"


def test_an_entity_whose_declaration_opts_into_nothing_has_no_such_tool(store: Any) -> None:
    assert verdict(run("manager", "open_category_list", {})) == "unknown_tool"


# -- the plan ---------------------------------------------------------------------------------------------


def propose(client: Client, args: dict[str, Any]) -> dict[str, Any]:
    """Let the model call the tool in a turn; return the answer of the chat."""
    with script(Call("open_order_list", args)):
        return ask(client, "Tick them")


def looked_at(client: Client, plan: Plan) -> dict[str, Any]:
    answer = client.get(f"/admin/django_copilot/plan/{plan.pk}/", headers=JSON)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def test_the_answer_has_the_admins_own_address_and_the_plan_behind_it(login: Login, orders: Orders) -> None:
    client = login("support")
    before = [*Order.objects.order_by("pk").values()]
    told = propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    plan = Plan.objects.get()
    assert (plan.kind, plan.state, plan.model) == (PlanKind.LIST, PlanState.PROPOSED, "store.order")
    assert told["action"] == {
        "aiAction": "list",
        "path": "/admin/store/order/",
        "queryParams": {"pk__in": str(orders.own)},
        "fragment": f"copilot-plan={plan.pk}",
        "prefill": {},
        "dropped": [],
    }
    assert told["reply"] == f"1 order is ticked and “Mark as shipped” is chosen. Press {RUN} to run it."
    ticks = looked_at(client, plan)
    assert ticks["kind"] == "list"
    assert (ticks["ids"], ticks["action"], ticks["count"]) == ([str(orders.own)], "mark_as_shipped", 1)
    assert ticks["notice"] == told["reply"]
    assert [*Order.objects.order_by("pk").values()] == before  # nothing ran
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED  # looking at it uses nothing up
    entry = AuditEntry.objects.get(event="proposed")
    assert (entry.about["rows"], entry.about["action"]) == (1, "mark_as_shipped")
    assert entry.about["target"] == {"model": "store.order", "pk": ""}


def test_a_list_with_nothing_to_tick_names_no_plan(login: Login, orders: Orders) -> None:
    told = propose(login("support"), {"filters": {"status": "paid"}})
    assert told["action"]["fragment"] == ""
    assert told["action"]["queryParams"] == {"status__exact": "paid"}


def test_the_ticks_are_those_that_she_may_see_now(login: Login, orders: Orders) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own), str(orders.shipped)], "action": "mark_as_shipped"})
    plan = Plan.objects.get()
    Order.objects.filter(pk=orders.shipped).update(region="south")
    ticks = looked_at(client, plan)
    assert (ticks["ids"], ticks["count"]) == ([str(orders.own)], 2)
    assert str(orders.shipped) not in json.dumps(ticks["ids"])
    Order.objects.filter(pk=orders.own).update(region="south")
    ticks = looked_at(client, plan)
    assert ticks["ids"] == []
    assert ticks["notice"] == "None of these rows can be ticked any more."


def test_an_action_that_her_admin_gives_her_no_more_is_not_chosen(
    login: Login, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    monkeypatch.setattr(OrderAdmin, "get_actions", lambda self, request: {})
    ticks = looked_at(client, Plan.objects.get())
    assert (ticks["action"], ticks["chosen"]) == ("", "")
    assert ticks["ids"] == [str(orders.own)]
    assert "Mark as shipped" not in ticks["notice"]


def test_a_plan_is_its_owners_and_is_over_when_it_expires(login: Login, orders: Orders) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    plan = Plan.objects.get()
    for other in ("manager", "admin"):
        assert login(other).get(f"/admin/django_copilot/plan/{plan.pk}/", headers=JSON).status_code == 404
    page = client.get(f"/admin/django_copilot/plan/{plan.pk}/", headers={"accept": "text/html"})
    address = f"/admin/store/order/?pk__in={orders.own}#copilot-plan={plan.pk}"
    assert address in page.content.decode()
    assert "1 order is ticked and “Mark as shipped” is chosen." in page.content.decode()
    Plan.objects.update(expires_at=timezone.now() - datetime.timedelta(seconds=1))
    ticks = looked_at(client, plan)
    assert (ticks["ids"], ticks["action"], ticks["state"]) == ([], "", "expired")
    assert ticks["notice"] == "This proposal is too old to be opened. Nothing was ticked."


def test_it_can_be_proposed_again_without_the_model(login: Login, orders: Orders) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    old = Plan.objects.get()
    answer = client.post(f"/admin/django_copilot/plan/{old.pk}/again/")
    new = Plan.objects.exclude(pk=old.pk).get()
    assert answer.headers["Location"] == f"/admin/store/order/?pk__in={orders.own}#copilot-plan={new.pk}"
    assert looked_at(client, new)["ids"] == [str(orders.own)]
    assert looked_at(client, old)["ids"] == []


def test_nothing_is_ticked_while_the_assistant_is_turned_off(login: Login, orders: Orders) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    turn("admin", off=True, by=None)
    ticks = looked_at(client, Plan.objects.get())
    assert (ticks["ids"], ticks["action"]) == ([], "")
    assert ticks["notice"] == "The assistant is turned off on this site. Nothing was ticked."


def test_a_plan_of_a_list_fills_in_no_form_and_is_decided_by_nobody(login: Login, orders: Orders) -> None:
    client = login("support")
    propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    plan = Plan.objects.get()
    page = client.get(
        f"/admin/store/order/{orders.own}/change/?aiAction=edit&aiId={orders.own}&aiPlan={plan.pk}"
    )
    assert "This proposal is not available. Nothing was filled in." in page.content.decode()
    for verb in ("confirm", "reject", "approve", "undo"):
        answer = client.post(
            f"/admin/django_copilot/plan/{plan.pk}/{verb}/",
            "{}",
            content_type="application/json",
            headers=JSON,
        )
        assert answer.status_code == 404, (verb, answer.status_code)
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED


def test_what_the_model_hears_next_time_is_the_sentence_and_no_key(login: Login, orders: Orders) -> None:
    client = login("support")
    told = propose(client, {"ids": [str(orders.own)], "action": "mark_as_shipped"})
    with script(Text("Yes.")) as model:
        ask(client, "And now?", conversationId=told["conversationId"])
    assert model.requests[0].messages[-2].text == told["reply"]


def test_with_nobody_there_no_list_is_opened(orders: Orders) -> None:
    with script(Call("open_order_list", {"ids": [str(orders.own)]}), Text("I can't.")) as model:
        call_command("copilot_ask", "--user", "support", "Tick it", stdout=io.StringIO())
    assert "denied" in model.requests[1].messages[-1].text
    assert not Plan.objects.exists()
