"""A record's history: which fields, whose names, whose right, and that a hidden change leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_copilot.access import EntityAccess
from django_copilot.exceptions import CallError, Refused
from django_copilot.reading import read_again
from django_copilot.reading.history import HISTORY_ENTRIES, HISTORY_VERSIONS, History, run_history
from django_copilot.tools.base import ReadDone
from example_project.store.models import Category, Customer, Order, Product
from tests.gate.calls import run, sent

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]


@pytest.fixture(autouse=True)
def may_look(store: Any) -> None:
    """Let support staff look at histories, as their group may not in the example."""
    permissions = Permission.objects.filter(codename__startswith="view_historical")
    store.user("support").user_permissions.add(*permissions)


@pytest.fixture
def product(store: Any) -> Product:
    """Return a product whose history begins now."""
    made = Product(title="Lamp", sku="L-1", status="draft", price="10.00", cost_price="5.00")
    made._history_user = store.user("manager")
    made.save()
    return made


def change(product: Any, by: Any = None, **values: Any) -> None:
    product._history_user = by
    for name, value in values.items():
        setattr(product, name, value)
    product.save()


def told(who: str, entity: str, pk: Any) -> dict[str, Any]:
    """Return the tool result of a call for that history."""
    outcome = run(who, f"history_{entity}", {"id": str(pk)})
    assert isinstance(outcome, ReadDone), outcome
    return outcome.content


def changes(who: str, product: Product) -> list[dict[str, Any]]:
    """Return what is told of a product, without the times."""
    return [
        {name: value for name, value in each.items() if name != "at"}
        for each in told(who, "product", product.pk)["changes"]
    ]


# -- what is told --------------------------------------------------------------------------------------


def test_who_changed_which_fields_newest_first(store: Any, product: Product) -> None:
    category = Category.objects.first()
    assert category is not None
    change(product, store.user("admin"), price="12.50", status="active")
    change(product, None, category=category)
    content = told("support", "product", product.pk)
    assert {name: content[name] for name in ("entity", "id", "more")} == {
        "entity": "product",
        "id": str(product.pk),
        "more": False,
    }
    assert changes("support", product) == [
        {
            "by": None,
            "type": "changed",
            "fields": [
                {"field": "category", "old": None, "new": {"id": str(category.pk), "label": category.name}}
            ],
        },
        {
            "by": "admin",
            "type": "changed",
            "fields": [
                {"field": "status", "old": "draft", "new": "active"},
                {"field": "price", "old": "10.00", "new": "12.50"},
            ],
        },
        {"by": "manager", "type": "created", "fields": []},
    ]
    at = [each["at"] for each in content["changes"]]
    assert at == sorted(at, reverse=True)
    assert all(each.endswith("+01:00") or each.endswith("+02:00") for each in at)  # her own time zone


def test_the_persons_table_has_a_line_for_each_field(store: Any, product: Product, entity: GetEntity) -> None:
    change(product, store.user("admin"), price="12.50", status="active")
    table = run_history(entity("support", "product"), product).for_person()
    assert table["kind"] == "history"
    assert table["label"] == f"History of product {product.pk}"
    assert [each["label"] for each in table["columns"]] == ["When", "Who", "Field", "Before", "After"]
    lines = [[row["values"][name] for name in ("by", "field", "old", "new")] for row in table["rows"]]
    assert lines == [
        ["admin", "Status", "Draft", "Active"],
        ["admin", "Price", "10.00", "12.50"],
        ["manager", "Created", "", ""],
    ]
    assert {(row["id"], row["url"]) for row in table["rows"]} == {(None, None)}
    texts = run_history(entity("support", "product"), product).texts()
    assert [each[1:] for each in texts] == lines


# -- hidden fields -------------------------------------------------------------------------------------


def test_a_change_of_hidden_fields_alone_is_left_out(store: Any, product: Product) -> None:
    change(product, store.user("admin"), cost_price="6.00")  # hidden from support
    change(product, store.user("admin"), attributes={"a": 1})  # not declared
    change(product, store.user("manager"), price="11.00", cost_price="7.00")
    assert [each["fields"] for each in changes("support", product)] == [
        [{"field": "price", "old": "10.00", "new": "11.00"}],
        [],
    ]
    assert [len(each["fields"]) for each in changes("manager", product)] == [2, 1, 0]
    outcome = run("support", "history_product", {"id": str(product.pk)})
    both = sent(outcome) + json.dumps(outcome.table)  # type: ignore[union-attr]
    assert "cost" not in both.casefold()
    assert "6.00" not in both


def test_hidden_values_make_no_difference(store: Any, product: Product) -> None:
    """The same versions, with other hidden values: what changed in them, or not at all, is told by nothing."""
    for number in range(30):
        change(
            product, None, cost_price=str(number), **({"price": str(number + 1)} if number % 7 == 0 else {})
        )
    with CaptureQueriesContext(connection) as first:
        one = run("support", "history_product", {"id": str(product.pk)})
    history: Any = Product.history  # type: ignore[attr-defined]
    history.filter(id=product.pk).update(cost_price=None, attributes={"x": 1})
    with CaptureQueriesContext(connection) as second:
        other = run("support", "history_product", {"id": str(product.pk)})
    assert one.content == other.content  # type: ignore[union-attr]
    assert one.table == other.table  # type: ignore[union-attr]
    assert len(first) == len(second)


def test_hidden_changes_do_not_shift_what_is_told(store: Any, product: Product) -> None:
    """With or without them the entries, their number and what is said of more are the same."""
    history: Any = Product.history  # type: ignore[attr-defined]
    for number in range(HISTORY_ENTRIES + 10):
        change(product, None, price=str(number + 20))
    outcome: Any = run("support", "history_product", {"id": str(product.pk)})
    before, table = outcome.content, outcome.table
    assert len(before["changes"]) == len(table["rows"]) == HISTORY_ENTRIES
    assert before["more"] is table["hasMore"] is True
    newest = history.filter(id=product.pk).latest()
    hidden = [
        history.model(
            **{field.attname: getattr(newest, field.attname) for field in newest.tracked_fields},
            history_date=newest.history_date,
            history_type="~",
        )
        for _ in range(HISTORY_VERSIONS // 2)
    ]
    for number, each in enumerate(hidden):
        each.cost_price = number
    history.bulk_create(hidden)
    after: Any = run("support", "history_product", {"id": str(product.pk)})
    assert (after.content, after.table) == (before, table)


def test_what_is_shown_and_not_sent_is_in_her_table_alone(store: Any, entity: GetEntity, bend: Bend) -> None:
    bend(Customer, harness_history=True)
    customer = Customer(name="Ada", email="old@example.org", city="Łódź")
    customer.save()
    change(customer, store.user("admin"), email="new@example.org")
    change(customer, store.user("admin"), email="newest@example.org", city="Gdańsk")
    outcome = run("support", "history_customer", {"id": str(customer.pk)})
    assert isinstance(outcome, ReadDone)
    assert [each["fields"] for each in outcome.content["changes"]] == [
        [{"field": "city", "old": "Łódź", "new": "Gdańsk"}],
        [],
    ]
    assert "mail" not in sent(outcome)
    assert "example.org" not in json.dumps([outcome.read, outcome.told, outcome.fields])
    values = [row["values"] for row in outcome.table["rows"]]
    assert [each["new"] for each in values if each["field"] == "E-mail"] == [
        "newest@example.org",
        "new@example.org",
    ]


def test_a_hidden_field_of_today_is_hidden_in_the_past(store: Any, product: Product, bend: Bend) -> None:
    change(product, None, status="active")
    bend(Product, harness_list=["title", "price"])
    assert [each["fields"] for each in changes("admin", product)] == [[]]


def test_fields_that_depend_on_the_record(store: Any, product: Product, bend: Bend) -> None:
    change(product, None, status="active", price="11.00")
    bend(
        Product,
        get_harness_list=lambda self, request, obj=None: (
            ["title", "price"] if obj is not None and obj.pk == product.pk else ["title", "price", "status"]
        ),
    )
    assert changes("admin", product)[0]["fields"] == [{"field": "price", "old": "10.00", "new": "11.00"}]


# -- rights --------------------------------------------------------------------------------------------


def test_the_admins_own_right_to_look_at_histories_holds(store: Any, product: Product) -> None:
    store.user("support").user_permissions.clear()
    outcome = run("support", "history_product", {"id": str(product.pk)})
    assert outcome.content["error"]["code"] == "unknown_tool"  # type: ignore[union-attr]


PERMISSIONS = ["has_view_history_or_change_history_permission", "has_view_history_permission"]


@pytest.mark.parametrize("hook", [*PERMISSIONS, "get_history_queryset"])
def test_a_hook_that_says_no_or_fails_is_a_no(store: Any, product: Product, bend: Bend, hook: str) -> None:
    code = "unknown_tool" if hook in PERMISSIONS else "not_allowed"
    for answer in (lambda *args, **kwargs: False, lambda *args, **kwargs: 1 / 0):
        bend(Product, **{hook: answer})
        outcome = run("admin", "history_product", {"id": str(product.pk)})
        assert outcome.content["error"]["code"] == code  # type: ignore[union-attr]


@pytest.mark.parametrize("hook", PERMISSIONS)
def test_a_no_for_one_record_is_of_that_record(store: Any, product: Product, bend: Bend, hook: str) -> None:
    bend(Product, **{hook: lambda self, request, obj=None: obj is None or obj.pk != product.pk})
    outcome = run("admin", "history_product", {"id": str(product.pk)})
    assert outcome.content["error"]["code"] == "not_allowed"  # type: ignore[union-attr]
    other = Product.objects.exclude(pk=product.pk)[0]
    assert "changes" in run("admin", "history_product", {"id": str(other.pk)}).content  # type: ignore[union-attr]


def test_a_record_that_she_may_not_see_has_none(store: Any) -> None:
    hidden = Order.objects.filter(region="south").first()
    assert hidden is not None
    one = run("support", "history_order", {"id": str(hidden.pk)})
    other = run("support", "history_order", {"id": "999999"})
    assert one.content == other.content  # type: ignore[union-attr]
    assert one.content["error"]["code"] == "not_found"  # type: ignore[union-attr]


def test_an_admin_of_djangos_own_needs_the_right_to_view(
    store: Any, product: Product, monkeypatch: pytest.MonkeyPatch, entity: GetEntity
) -> None:
    change(product, None, price="11.00")
    asked = entity("support", "product")
    monkeypatch.setattr(
        type(asked.model_admin),
        "__getattribute__",
        lambda self, name: (
            (_ for _ in ()).throw(AttributeError(name))
            if "view_history" in name or name == "get_history_queryset"
            else admin.ModelAdmin.__getattribute__(self, name)
        ),
    )
    assert len(run_history(asked, product).sent) == 2


@pytest.mark.parametrize("given", [False, None])
def test_what_is_not_declared_is_no_tool(store: Any, product: Product, bend: Bend, given: Any) -> None:
    bend(Product, harness_history=given)
    outcome = run("admin", "history_product", {"id": str(product.pk)})
    assert outcome.content["error"]["code"] == "unknown_tool"  # type: ignore[union-attr]


def test_a_model_that_is_not_tracked_has_none(store: Any, bend: Bend, entity: GetEntity) -> None:
    bend(Category, harness_history=True)
    category = Category.objects.first()
    outcome = run("admin", "history_category", {"id": str(category.pk)})  # type: ignore[union-attr]
    assert outcome.content["error"]["code"] == "unknown_tool"  # type: ignore[union-attr]
    with pytest.raises(Refused):
        run_history(entity("admin", "category"), category)


def test_the_admins_own_choice_of_versions_holds(store: Any, product: Product, bend: Bend) -> None:
    change(product, store.user("admin"), price="11.00")
    change(product, store.user("manager"), price="12.00")

    def of_admin(self: Any, request: Any, manager: Any, pk_name: str, object_id: Any) -> Any:
        return manager.filter(**{pk_name: object_id}).exclude(history_user__username="manager")

    bend(Product, get_history_queryset=of_admin)
    assert changes("admin", product) == []  # the one that is left has nothing before it to compare with


# -- names ---------------------------------------------------------------------------------------------


def test_names_that_are_addresses_are_for_the_person_alone(
    store: Any, product: Product, entity: GetEntity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(store.user("admin")), "USERNAME_FIELD", "email")
    for who in ("admin", "manager", "admin"):
        user = store.user(who)
        user.email = f"{who}@example.org"
        user.save()
        change(product, user, price=str(len(who) + Product.history.count()))  # type: ignore[attr-defined]
    made = run_history(entity("support", "product"), product)
    content, _number = made.for_model()
    assert [each["by"] for each in content["changes"]] == ["person 1", "person 2", "person 1", "person 2"]
    assert "example.org" not in json.dumps(content)
    assert [row["values"]["by"] for row in made.for_person()["rows"]][:2] == [
        "admin@example.org",
        "manager@example.org",
    ]


# -- bounds --------------------------------------------------------------------------------------------


def test_no_more_entries_than_stated(store: Any, product: Product) -> None:
    for number in range(HISTORY_ENTRIES - 1):
        change(product, None, price=str(number + 20))
    content = told("admin", "product", product.pk)
    assert (len(content["changes"]), content["more"]) == (HISTORY_ENTRIES, False)
    change(product, None, price="999")
    content = told("admin", "product", product.pk)
    assert (len(content["changes"]), content["more"]) == (HISTORY_ENTRIES, True)
    assert content["changes"][0]["fields"][0]["new"] == "999.00"


def test_no_more_versions_are_read_than_stated(store: Any, product: Product) -> None:
    history: Any = Product.history  # type: ignore[attr-defined]
    first = history.get(id=product.pk)
    history.bulk_create(
        history.model(
            **{field.attname: getattr(first, field.attname) for field in first.tracked_fields},
            history_date=first.history_date,
            history_type="~",
        )
        for _ in range(HISTORY_VERSIONS + 500)
    )
    with CaptureQueriesContext(connection) as captured:
        content = told("admin", "product", product.pk)
    assert content["changes"] == []
    assert content["more"] is False  # nothing tells of versions that say nothing
    assert len([each for each in captured if "historicalproduct" in each["sql"]]) <= 5


def test_a_result_is_cut_and_says_so(store: Any, product: Product, settings: Any) -> None:
    for number in range(20):
        change(product, None, title=f"{number} " + "x" * 150)
    settings.COPILOT = {**settings.COPILOT, "RESULT_BYTES": 3_000, "CELL_CHARS": 50}
    content = told("admin", "product", product.pk)
    assert len(json.dumps(content)) < 3_000 + 200
    assert 3 < len(content["changes"]) < 20
    assert content["more"] is True
    assert "cut" in content
    assert content["changes"][0]["fields"][0]["new"] == ("19 " + "x" * 150)[:50] + "… [cut]"


def test_it_is_one_query_for_the_versions_and_one_for_each_relation(
    entity: GetEntity, product: Product, store: Any
) -> None:
    for category in [*Category.objects.all()[:4], None]:
        change(product, store.user("admin"), category=category)
    asked = entity("admin", "product")
    asked.readable()
    with CaptureQueriesContext(connection) as captured:
        run_history(asked, product)
    assert len(captured) == 2


def test_another_record_of_the_same_key_is_another(store: Any, product: Product, entity: GetEntity) -> None:
    change(product, None, price="11.00")
    pk = product.pk
    product.delete()
    again = Product(pk=pk, title="Other", sku="L-2", status="draft", price="1.00")
    again.save()
    change(again, None, price="2.00")
    assert [each["fields"] for each in changes("admin", again)] == [
        [{"field": "price", "old": "1.00", "new": "2.00"}],
        [],
    ]


def test_what_was_deleted_under_a_key_is_another_record_even_where_nothing_says_that_it_was_made_anew(
    store: Any, product: Product
) -> None:
    change(product, None, price="11.00")
    pk = product.pk
    product.delete()
    Product.objects.bulk_create([Product(pk=pk, title="Other", sku="L-2", status="draft", price="1.00")])
    again = Product.objects.get(pk=pk)
    assert changes("admin", again) == []
    change(again, None, price="2.00")
    assert changes("admin", again) == []  # what it was before is not known
    change(again, None, price="3.00")
    assert [each["fields"] for each in changes("admin", again)] == [
        [{"field": "price", "old": "2.00", "new": "3.00"}]
    ]


# -- later ---------------------------------------------------------------------------------------------


def test_it_is_read_again_with_the_rights_of_then(
    store: Any, product: Product, entity: GetEntity, bend: Bend
) -> None:
    change(product, None, price="11.00", status="active")
    outcome = run("support", "history_product", {"id": str(product.pk)})
    assert isinstance(outcome, ReadDone)
    stored = json.loads(json.dumps(outcome.read))
    assert stored == {"kind": "history", "entity": "store.product", "id": str(product.pk)}
    assert outcome.entity == "store.product"
    assert outcome.fields == ("status", "price")
    assert {"title", "status", "price"} <= set(outcome.told["store.product"])
    assert outcome.sent_rows == 2
    again = read_again(entity("support", "product"), stored)
    assert isinstance(again, History)
    assert again.for_person() == outcome.table
    bend(Product, harness_list=["title", "price"])
    assert "Status" not in json.dumps(read_again(entity("support", "product"), stored).for_person())
    store.user("support").user_permissions.clear()
    with pytest.raises(CallError):
        read_again(entity("support", "product"), stored)


@pytest.mark.parametrize("given", ["x", 1.5, True, None, "", "r1.1", {"id": 1}, ["1"]], ids=str)
def test_what_is_no_id_is_an_error(store: Any, given: Any) -> None:
    assert "error" in run("admin", "history_product", {"id": given}).content  # type: ignore[union-attr]
