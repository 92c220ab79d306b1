"""ONE matrix: who calls which tool on what, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from example_project.store.models import Category, Customer, Order, Payment, Product, Refund, Tag

from .calls import ENTITIES, judge, run, sent, statements
from .conftest import Orders

# -- whole entities ------------------------------------------------------------------------------------

ALL = ("admin", "manager", "manager2", "support", "bot", "viewer", "auditor")
FULL = dict.fromkeys(ENTITIES, "rows new delete")
SUPPORT = {
    "category": "rows - -",
    "tag": "rows - -",
    "customer": "rows - -",
    "product": "rows - -",
    "order": "rows - -",
    "payment": "rows - -",
}
VIEWER = {"category": "rows - -", "tag": "rows - -", "product": "rows - -"}
MAY = {
    "admin": {**FULL, "payment": "rows none delete"},
    "manager": {**FULL, "payment": "rows none delete"},
    "support": SUPPORT,
    "bot": SUPPORT,
    "viewer": VIEWER,
}
STOPPED = {
    "auditor": "not_allowed",
    "plain": "not_allowed",
    "outsider": "not_staff",
    "root_outsider": "not_staff",
    "gone": "no scope",
    "gone_root": "no scope",
    "only_use": "unknown_tool",
}


def some_pk(entity: str, orders: Orders) -> str:
    if entity == "order":
        return str(orders.own)
    model = {"category": Category, "tag": Tag, "customer": Customer, "product": Product}.get(entity)
    if model is None:
        return str(Payment.objects.filter(order__region="north", order__customer__vip=False).first().pk)
    return str(model.objects.order_by("pk").first().pk)


VALUES = {"category": "name", "tag": "name", "customer": "name", "product": "title", "order": "shipping_city"}


@pytest.mark.parametrize("who", [*MAY, *STOPPED])
def test_each_person_gets_what_her_rights_and_the_declaration_give(
    people: None, orders: Orders, who: str
) -> None:
    meaning = {"rows": "1 rows", "new": "form new", "none": "not_fillable", "-": "not_allowed"}
    got, expected = {}, {}
    for entity in ENTITIES:
        pk = some_pk(entity, orders)
        values = {VALUES[entity]: "X"} if entity in VALUES else {}
        got[entity] = [
            judge(who, f"query_{entity}", {"filters": {"id": pk}}),
            judge(who, f"open_{entity}_form", {"fields": values}),
            judge(who, f"confirm_delete_{entity}", {"id": pk}),
        ]
        may = MAY.get(who, {}).get(entity)
        expected[entity] = (
            [{**meaning, "delete": f"delete {pk}"}[word] for word in may.split()]
            if may is not None
            else [STOPPED.get(who, "unknown_tool")] * 3
        )
    assert got == expected


@pytest.mark.parametrize(
    ("who", "entity", "expected"),
    [
        ("manager", "category", "form {pk}"),
        ("manager", "customer", "form {pk}"),
        ("manager", "order", "form {pk}"),
        ("manager", "payment", "not_fillable"),
        ("support", "customer", "form {pk}"),
        ("support", "order", "form {pk}"),
        ("support", "product", "not_allowed"),
        ("viewer", "product", "not_allowed"),
        ("viewer", "order", "unknown_tool"),
    ],
)
def test_the_change_form_is_for_those_who_may_change(
    orders: Orders, who: str, entity: str, expected: str
) -> None:
    pk = some_pk(entity, orders)
    fields = {VALUES[entity]: "X"} if entity in VALUES else {}
    assert judge(who, f"open_{entity}_form", {"id": pk, "fields": fields}) == expected.format(pk=pk)


NO_TOOLS = [
    *("", "query_", "query_order ", "QUERY_ORDER", "query_order\x00", "\ud800", "x" * 5000),
    *(
        "query_supplier",
        "query_refund",
        "query_staffprofile",
        "query_user",
        "query_conversation",
        "query_plan",
    ),
    *("open_order_forms", "delete_order", "confirm_delete_refund", "run", "__class__", "ask_user2", "query"),
]


def test_what_is_no_tool_is_refused_alike_for_everybody(store: Any) -> None:
    """Guards hazard 8."""
    answers = {sent(run(who, name, {})) for who in ("admin", "viewer") for name in NO_TOOLS}
    assert len(answers) == 1
    assert '"unknown_tool"' in answers.pop()


# -- single records ------------------------------------------------------------------------------------

OBJECTS = ("own", "shipped", "south", "vip", "missing")
BY_OBJECT = {
    # who: what she gets from (query by id, change form, delete page), for each of OBJECTS
    "support": {
        "own": ("1 rows", "form {pk}", "not_allowed"),
        "shipped": ("1 rows", "not_fillable", "not_allowed"),
        "south": ("0 rows", "not_found", "not_found"),
        "vip": ("0 rows", "not_found", "not_found"),
        "missing": ("0 rows", "not_found", "not_found"),
    },
    "manager": {
        "own": ("1 rows", "form {pk}", "delete {pk}"),
        "shipped": ("1 rows", "not_fillable", "delete {pk}"),
        "south": ("1 rows", "form {pk}", "delete {pk}"),
        "vip": ("1 rows", "form {pk}", "delete {pk}"),
        "missing": ("0 rows", "not_found", "not_found"),
    },
    "viewer": dict.fromkeys(OBJECTS, ("unknown_tool",) * 3),
    "auditor": dict.fromkeys(OBJECTS, ("not_allowed",) * 3),
}
BY_OBJECT["bot"] = BY_OBJECT["support"]
BY_OBJECT["admin"] = BY_OBJECT["manager"]


@pytest.mark.parametrize("who", BY_OBJECT)
def test_a_record_is_there_only_for_those_who_may_see_it(orders: Orders, who: str) -> None:
    """Guards hazard 3."""
    for as_id in (str, int):  # a JSON number is as good as its text
        got, expected = {}, {}
        for which in OBJECTS:
            pk = as_id(orders.pk(which))
            got[which] = (
                judge(who, "query_order", {"filters": {"id": pk}}),
                judge(who, "open_order_form", {"id": pk, "fields": {"shipping_city": "X"}}),
                judge(who, "confirm_delete_order", {"id": pk}),
            )
            expected[which] = tuple(each.format(pk=pk) for each in BY_OBJECT[who][which])
        assert got == expected


BAD_IDS = [
    True,
    False,
    1.0,
    1.9,
    "1_0",
    "+1",
    " 1",
    "1 ",
    "01",
    "-0",
    "1.0",
    "true",
    "\uff11",
    "\u0661",
    "1" * 30,
    10**30,
    -(10**30),
    2**63,
    [],
    [1],
    {},
    {"pk": 1},
    "1 OR 1=1",
    "SO-0000001",
    "1\n",
    "x" * 600,
]


@pytest.mark.parametrize("who", ["support", "admin"])
def test_an_id_that_is_not_canonical_names_nothing(orders: Orders, who: str) -> None:
    """Guards hazard 1."""
    tools = {
        "query_order": lambda bad: {"filters": {"id": bad}},
        "open_order_form": lambda bad: {"id": bad, "fields": {"shipping_city": "X"}},
        "confirm_delete_order": lambda bad: {"id": bad},
        "query_payment": lambda bad: {"filters": {"order": bad}},
    }
    wrong = {
        (tool, repr(bad)[:40]): verdict
        for tool, args in tools.items()
        for bad in BAD_IDS
        if (verdict := judge(who, tool, args(bad))) != "invalid_id"
    }
    assert wrong == {}


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_id_is_asked_for_and_never_guessed(orders: Orders, nothing: Any) -> None:
    for args in ({"id": nothing}, {}):
        outcome = run("manager", "confirm_delete_order", args)
        assert outcome.content["error"]["code"] == "clarification_required"
        assert outcome.content["error"]["missing"] == ["id"]
    assert judge("manager", "query_order", {"filters": {"id": nothing}}) == "invalid_id"
    assert judge("manager", "open_order_form", {"id": ""}) == "invalid_id"
    assert judge("manager", "open_category_form", {"id": None, "fields": {"name": "X"}}) == "form new"


def test_a_number_beyond_the_column_is_just_not_there(orders: Orders) -> None:
    for big in (2**31, 2**40, 2**63 - 1, -1, 0):
        assert judge("manager", "query_payment", {"filters": {"amount_cents": big}}) == "0 rows"
        assert judge("manager", "query_order", {"filters": {"id": str(big)}}) == "0 rows"
        assert judge("manager", "open_order_form", {"id": str(big)}) == "not_found"


# -- not there, not hers, not to be seen: one answer ---------------------------------------------------

HIDDEN = ("missing", "south", "vip")


LOOKING: dict[str, tuple[str, Any]] = {
    "by id": ("query_order", lambda pk: {"filters": {"id": pk}}),
    "by id and more": (
        "query_order",
        lambda pk: {"filters": {"id": pk, "region": "south"}, "fields": ["number"]},
    ),
    "by relation": ("query_payment", lambda pk: {"filters": {"order": pk}}),
    "form": ("open_order_form", lambda pk: {"id": pk, "fields": {"shipping_city": "X"}}),
    "empty form": ("open_order_form", lambda pk: {"id": pk}),
    "bad field": ("open_order_form", lambda pk: {"id": pk, "fields": {"no_such_field": 1}}),
    "delete": ("confirm_delete_order", lambda pk: {"id": pk}),
}


@pytest.mark.parametrize("who", ["support", "bot"])
@pytest.mark.parametrize("looking", LOOKING)
def test_hidden_records_can_not_be_told_apart(orders: Orders, who: str, looking: str) -> None:
    """Guards hazard 3: neither by the answer nor by the statements."""
    tool, args = LOOKING[looking]
    statements(who, tool, args(str(orders.own)))  # what is remembered in the process is so from here on
    seen = [statements(who, tool, args(str(orders.pk(which)))) for which in ("missing", "south", "vip")]
    assert len({body for _, body in seen}) == 1
    assert seen[0][0] == seen[1][0] == seen[2][0]


@pytest.mark.parametrize("hide", ["get_queryset", "has_view_permission", "formfield_for_foreignkey"])
def test_a_related_record_that_is_hidden_can_not_be_told_from_none(
    store: Any, monkeypatch: pytest.MonkeyPatch, hide: str
) -> None:
    """Guards hazard 4."""
    from django.contrib import admin

    product = Product.objects.order_by("pk").first()
    secret = Category.objects.create(name="Secret category", slug="secret")
    model_admin = type(admin.site.get_model_admin(Category))
    real = getattr(model_admin, hide)
    if hide == "formfield_for_foreignkey":  # the form does not offer it, though she may see it
        monkeypatch.setattr(
            type(admin.site.get_model_admin(Product)),
            hide,
            lambda self, field, request, **kwargs: real(
                self,
                field,
                request,
                **{**kwargs, "queryset": Category.objects.exclude(pk=secret.pk)}
                if field.name == "category"
                else kwargs,
            ),
        )
    elif hide == "get_queryset":
        monkeypatch.setattr(
            model_admin, hide, lambda self, request: real(self, request).exclude(pk=secret.pk)
        )
    else:
        monkeypatch.setattr(
            model_admin,
            hide,
            lambda self, request, obj=None: (obj is None or obj.pk != secret.pk) and real(self, request, obj),
        )
        monkeypatch.setattr(
            model_admin,
            "has_change_permission",
            lambda self, request, obj=None: obj is None or obj.pk != secret.pk,
        )

    def choose(pk: int) -> tuple[list[str], str]:
        return statements(
            "manager", "open_product_form", {"id": str(product.pk), "fields": {"category": str(pk)}}
        )

    assert "invalid_value" not in choose(Category.objects.exclude(pk=secret.pk).first().pk)[1]
    hidden, missing = choose(secret.pk), choose(999_999)
    assert '"invalid_value"' in hidden[1]
    assert hidden == missing


# -- write tools -----------------------------------------------------------------------------------------

# who: what becomes of (drafting, changing the address, refunding) for each of OBJECTS
BY_TOOL: dict[str, dict[str, tuple[str, ...]]] = {
    "support": {
        "own": ("told", "plan {pk}", "plan {payment}"),
        "shipped": ("told", "refused", "plan {payment}"),
        "south": ("not_found",) * 3,
        "vip": ("not_found",) * 3,
        "missing": ("not_found",) * 3,
    },
    "manager": {
        "own": ("told", "plan {pk}", "plan {payment}"),
        "shipped": ("told", "refused", "plan {payment}"),
        "south": ("told", "plan {pk}", "plan {payment}"),
        "vip": ("told", "plan {pk}", "plan {payment}"),
        "missing": ("not_found",) * 3,
    },
    "viewer": dict.fromkeys(OBJECTS, ("unknown_tool",) * 3),
    "only_use": dict.fromkeys(OBJECTS, ("unknown_tool",) * 3),
    "auditor": dict.fromkeys(OBJECTS, ("not_allowed",) * 3),
    "plain": dict.fromkeys(OBJECTS, ("not_allowed",) * 3),
    "outsider": dict.fromkeys(OBJECTS, ("not_staff",) * 3),
    "root_outsider": dict.fromkeys(OBJECTS, ("not_staff",) * 3),
    "gone": dict.fromkeys(OBJECTS, ("no scope",) * 3),
    "gone_root": dict.fromkeys(OBJECTS, ("no scope",) * 3),
}
BY_TOOL["bot"] = BY_TOOL["support"]  # it may have plans made, and confirms none
BY_TOOL["admin"] = BY_TOOL["manager2"] = BY_TOOL["manager"]


@pytest.fixture
def paid(orders: Orders, settings: Any) -> dict[str, int]:
    """Give each order one payment that came through the gateway; return their keys."""
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"  # nobody asks it for a preview
    keys = {}
    for which in OBJECTS[:-1]:
        order = Order.objects.get(pk=orders.pk(which))
        order.payments.all().delete()
        keys[which] = order.payments.create(amount_cents=5_000, gateway_reference=f"pay_{which}").pk
    return keys


@pytest.mark.parametrize("who", BY_TOOL)
def test_a_tool_acts_on_what_this_person_may_act_on(
    people: None, orders: Orders, paid: dict[str, int], who: str
) -> None:
    """Guards hazards 3 and 153: actor, tool and record decide, and nothing is written but by a confirmation."""
    got, expected = {}, {}
    for which in OBJECTS:
        pk = orders.pk(which)
        order = Order.objects.filter(pk=pk).first()
        number = order.number if order is not None else "SO-9999999"
        address = {"street": "New 1", "postal_code": "00-001", "city": "Oslo"}
        got[which] = (
            judge(who, "draft_customer_message", {"order": number, "topic": "late"}),
            judge(who, "change_shipping_address", {"order": number, **address}),
            judge(who, "refund_payment", {"order": number, "amount_cents": 100, "reason": "late"}),
        )
        expected[which] = tuple(each.format(pk=pk, payment=paid.get(which)) for each in BY_TOOL[who][which])
    assert got == expected
    assert not Order.objects.filter(shipping_city="Oslo").exists()
    assert not Refund.objects.filter(payment__in=paid.values()).exists()


def test_hidden_records_can_not_be_told_apart_by_a_tool(orders: Orders, paid: dict[str, int]) -> None:
    """Guards hazard 3: neither by the answer nor by the statements, but for those that ask about a single record."""
    for tool, more in (
        ("draft_customer_message", {"topic": "late"}),
        ("change_shipping_address", {"street": "S", "postal_code": "0", "city": "C"}),
        ("refund_payment", {"amount_cents": 100, "reason": "late"}),
    ):
        numbers = ["SO-9999999", *(Order.objects.get(pk=orders.pk(each)).number for each in ("south", "vip"))]
        seen = [statements("support", tool, {"order": number, **more}) for number in numbers]
        assert len({body for _, body in seen}) == 1, tool
        assert seen[0][0] == seen[1][0] == seen[2][0], tool
