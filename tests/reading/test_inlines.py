"""Rows of inlines: when they come, under whose rights, how many, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.db import connection
from django.forms.models import BaseInlineFormSet
from django.test.utils import CaptureQueriesContext

from django_copilot.access import Access, EntityAccess
from django_copilot.conf import get_settings
from django_copilot.reading import Query, Rows, run_query
from django_copilot.reading.columns import column_names, columns_seen
from django_copilot.reading.inlines import INLINE_ROWS
from django_copilot.scope import Scope, enter_scope
from example_project.store.admin import OrderLineInline
from example_project.store.models import Order, OrderLine, Product, Tag
from tests.access.conftest import read
from tests.gate.calls import run
from tests.projects import conftest as projects
from tests.projects.depot import models as depot
from tests.projects.sites import Project, declared

GetEntity = Callable[..., EntityAccess]
Bend = Callable[..., None]
project = projects.project


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces attributes of the inline of order lines."""

    def inline(**attributes: Any) -> None:
        for name, value in attributes.items():
            monkeypatch.setattr(OrderLineInline, name, value, raising=False)

    return inline


def seen() -> Order:
    """Return an order with lines that everybody in these tests may see."""
    order = Order.objects.filter(region="north", customer__vip=False, lines__isnull=False).first()
    assert order is not None
    return order


def lines(who: str, order: Order, **args: Any) -> Any:
    """Return what a query for that order gives of its lines, None where it does not."""
    outcome = run(who, "query_order", {"filters": {"id": str(order.pk)}, **args})
    return outcome.content["rows"][0].get("lines")  # type: ignore[union-attr]


def expected(order: Order) -> list[dict[str, Any]]:
    return [
        {
            "id": str(line.pk),
            "product": {"id": str(line.product_id), "label": line.product.title},
            "quantity": line.quantity,
            "unit_price": f"{line.unit_price:.2f}",
        }
        for line in order.lines.order_by("pk")
    ]


# -- when they come ------------------------------------------------------------------------------------


def test_one_record_comes_with_the_rows_of_its_inline(store: Any) -> None:
    order = seen()
    assert lines("support", order) == expected(order)


def test_a_query_that_names_them_gets_them_for_every_record(entity: GetEntity, store: Any) -> None:
    rows = read(entity("support", "order"), "number", "lines", limit=50)
    assert len(rows.rows) > 20
    for row in rows.rows:
        assert set(row.values) == {"number", "lines"}
        assert row.values["lines"] == expected(row.record)


@pytest.mark.parametrize(
    "args", [{}, {"filters": {"status": "paid"}}, {"fields": ["number", "status"]}], ids=json.dumps
)
def test_a_list_comes_without_them(store: Any, args: dict[str, Any]) -> None:
    content = run("manager", "query_order", args).content  # type: ignore[union-attr]
    assert content["rows"]
    assert all("lines" not in row for row in content["rows"])


def test_a_list_of_one_comes_without_them(store: Any) -> None:
    assert lines("manager", seen(), filters={"id": {"in": [str(seen().pk)]}}) is None


def test_one_record_without_them_where_other_fields_were_named(store: Any) -> None:
    assert lines("manager", seen(), fields=["number"]) is None
    assert lines("manager", seen(), fields=["lines"]) == expected(seen())


@pytest.mark.parametrize(
    "args",
    [
        {"filters": {"lines": "1"}},
        {"filters": {"lines": {"isnull": True}}},
        {"filters": {"lines__quantity": 1}},
        {"order_by": ["lines"]},
        {"order_by": ["-lines"]},
        {"fields": ["lines__product"]},
        {"fields": ["payments"]},
    ],
    ids=json.dumps,
)
def test_they_are_neither_filtered_nor_ordered_by(store: Any, args: dict[str, Any]) -> None:
    error = run("admin", "query_order", args).content["error"]  # type: ignore[union-attr]
    assert error["code"] in ("unknown_field", "not_orderable")


def test_they_take_no_part_in_sums(store: Any) -> None:
    for args in (
        {"measures": [{"op": "count", "field": "lines"}]},
        {"measures": [{"op": "count"}], "by": ["lines"]},
    ):
        assert run("admin", "summarise_order", args).content["error"]["code"] == "unknown_field"  # type: ignore[union-attr]


def test_an_error_names_them_among_what_can_be_read(store: Any) -> None:
    message = run("support", "query_order", {"fields": ["line"]}).content["error"]["message"]  # type: ignore[union-attr]
    assert message.endswith("shipping_country, lines.")


def test_nothing_declared_is_nothing_read(bend: Bend, store: Any) -> None:
    bend(Order, harness_inlines={})
    assert lines("admin", seen()) is None
    assert run("admin", "query_order", {"fields": ["lines"]}).content["error"]["code"] == "unknown_field"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "given", ["lines", ["lines"], {"lines": "product"}, {"lines": None}, {"nothing": ["id"]}]
)
def test_a_malformed_declaration_is_none(bend: Bend, store: Any, given: Any) -> None:
    bend(Order, harness_inlines=given)
    assert lines("admin", seen()) is None


# -- rights --------------------------------------------------------------------------------------------


def take_away(store: Any, who: str, *codenames: str) -> None:
    for group in store.user(who).groups.all():
        group.permissions.remove(*Permission.objects.filter(codename__in=codenames))
    store.user(who).user_permissions.clear()


def test_without_a_right_to_the_rows_there_are_none(entity: GetEntity, store: Any) -> None:
    order = seen()
    every = ("view_orderline", "change_orderline", "add_orderline", "delete_orderline")
    take_away(store, "support", *every)
    assert lines("support", order) is None
    rows = read(entity("support", "order"), "number", "lines")
    assert rows.columns == ()
    assert [each["name"] for each in rows.for_person()["columns"]] == ["number"]
    assert lines("manager", order) == expected(order)


def test_a_right_to_add_rows_is_none_to_see_them(store: Any) -> None:
    """An inline for adding alone is on the page, and shows nothing of what is there."""
    take_away(store, "support", "view_orderline", "change_orderline")
    group = store.user("support").groups.first()
    group.permissions.add(Permission.objects.get(codename="add_orderline"))
    assert store.user("support").has_perm("store.add_orderline")
    assert lines("support", seen()) is None


def test_the_inline_is_asked_about_the_parent(inline: Any, entity: GetEntity, store: Any) -> None:
    """Guards hazard 118."""
    asked: list[Any] = []
    hidden = seen().pk

    def may(self: Any, request: Any, obj: Any = None) -> bool:
        asked.append(obj)
        return obj is None or obj.pk != hidden

    inline(has_view_permission=may, has_change_permission=may)
    rows = read(entity("manager", "order"), "number", "lines", limit=50)
    assert {type(each) for each in asked} <= {Order, type(None)}
    for row in rows.rows:
        assert ("lines" in row.values) is (row.record.pk != hidden)
    assert any(row.record.pk == hidden for row in rows.rows)
    text = json.dumps(rows.for_model()[0])
    assert json.dumps(expected(seen())[0]) not in text


def test_an_inline_that_the_admin_leaves_out_is_left_out(bend: Bend, store: Any) -> None:
    order = seen()
    bend(Order, get_inlines=lambda self, request, obj: [])
    assert lines("admin", order) is None
    bend(Order, get_inlines=lambda self, request, obj: [OrderLineInline] if obj == order else [])
    assert lines("admin", order) == expected(order)


def test_formsets_that_the_admin_leaves_out_are_left_out(bend: Bend, store: Any) -> None:
    order = seen()
    bend(Order, get_formsets_with_inlines=lambda self, request, obj=None: iter(()))
    assert lines("admin", order) is None

    def fewer(self: Any, request: Any, obj: Any = None) -> Any:
        for inline in self.get_inline_instances(request, obj):
            yield inline.get_formset(request, obj, exclude=["unit_price"]), inline

    bend(Order, get_formsets_with_inlines=fewer)
    assert set(lines("admin", order)[0]) == {"id", "product", "quantity"}


def test_a_hook_that_fails_is_a_no(inline: Any, caplog: pytest.LogCaptureFixture, store: Any) -> None:
    for hook in ("has_view_permission", "get_queryset", "get_fieldsets", "get_readonly_fields"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(OrderLineInline, hook, lambda *args, **kwargs: 1 / 0)
            caplog.clear()
            assert lines("manager", seen()) is None
            assert "OrderLineInline" in caplog.text or "OrderAdmin" in caplog.text


def test_rows_are_those_of_the_inlines_queryset(inline: Any, entity: GetEntity, store: Any) -> None:
    inline(get_queryset=lambda self, request: OrderLine.objects.filter(quantity__gt=1))
    rows = read(entity("admin", "order"), "lines", limit=50)
    got = [line["quantity"] for row in rows.rows for line in row.values["lines"]]
    assert got
    assert min(got) > 1


def test_a_queryset_may_depend_on_the_page(inline: Any, entity: GetEntity, store: Any) -> None:
    """As on the change page: an inline has nothing but the request to know its parent by."""
    chosen = [each.pk for each in Order.objects.order_by("-placed_at", "-id")[:4]]

    def of_page(self: Any, request: Any) -> Any:
        shown = request.resolver_match.kwargs["object_id"]
        lines = OrderLine.objects.all()
        return (
            lines
            if int(shown) == chosen[0]
            else lines.filter(quantity=1)
            if int(shown) == chosen[1]
            else lines.none()
        )

    inline(get_queryset=of_page)
    rows = read(entity("admin", "order"), "lines", limit=4)
    got = {row.record.pk: [line["quantity"] for line in row.values["lines"]] for row in rows.rows}
    assert got == {
        chosen[0]: list(
            OrderLine.objects.filter(order=chosen[0]).order_by("pk").values_list("quantity", flat=True)
        ),
        chosen[1]: [1] * OrderLine.objects.filter(order=chosen[1], quantity=1).count(),
        chosen[2]: [],
        chosen[3]: [],
    }


def test_rows_are_those_of_the_formset_where_it_chooses(inline: Any, bend: Bend, store: Any) -> None:
    order = seen()
    first = order.lines.order_by("pk").first()
    assert first is not None
    order.lines.create(product=first.product, quantity=77, unit_price="1.00")

    class Large(BaseInlineFormSet):
        def get_queryset(self) -> Any:
            return super().get_queryset().filter(quantity=77)

    inline(formset=Large)
    assert [each["quantity"] for each in lines("manager", order)] == [77]
    inline(formset=BaseInlineFormSet)
    assert len(lines("manager", order)) > 1

    def kwargs(self: Any, request: Any, obj: Any, inline: Any, prefix: str) -> dict[str, Any]:
        given = admin.ModelAdmin.get_formset_kwargs(self, request, obj, inline, prefix)  # type: ignore[attr-defined]
        return {**given, "queryset": given["queryset"].exclude(quantity=77)}

    bend(Order, get_formset_kwargs=kwargs)
    assert 77 not in [each["quantity"] for each in lines("manager", order)]


# -- fields --------------------------------------------------------------------------------------------


class Masked(forms.ModelForm):
    quantity = forms.IntegerField(widget=forms.PasswordInput)


class Hidden(forms.ModelForm):
    quantity = forms.IntegerField(widget=forms.HiddenInput)


@pytest.mark.parametrize(
    ("attributes", "shown"),
    [
        ({}, {"product", "quantity", "unit_price"}),
        ({"fields": ["product", "quantity"]}, {"product", "quantity"}),
        ({"fieldsets": [(None, {"fields": [("quantity", "product")]})]}, {"product", "quantity"}),
        ({"exclude": ["unit_price"]}, {"product", "quantity"}),
        ({"get_exclude": lambda self, request, obj=None: ["quantity"]}, {"product", "unit_price"}),
        (
            {"get_readonly_fields": lambda self, request, obj=None: ["quantity"]},
            {"product", "quantity", "unit_price"},
        ),
        (
            {"fields": ["quantity"], "get_readonly_fields": lambda self, request, obj=None: ["product"]},
            {"quantity"},  # read-only, and on no page
        ),
        ({"form": Masked}, {"product", "unit_price"}),
        ({"form": Hidden}, {"product", "unit_price"}),
        (
            {
                "formfield_for_dbfield": lambda self, field, request, **kwargs: (
                    field.formfield() if field.name == "product" else None
                )
            },
            {"product"},
        ),
        ({"fields": ["order"]}, None),
    ],
)
def test_fields_are_those_that_the_inline_shows(
    inline: Any, store: Any, attributes: dict[str, Any], shown: set[str] | None
) -> None:
    order = Order.objects.filter(status="paid", lines__isnull=False).first()
    assert order is not None
    inline(**attributes)
    for who in ("admin", "manager"):
        got = lines(who, order)
        assert (got if got is None else set(got[0]) - {"id"}) == shown


@pytest.mark.parametrize("name", ["order", "nothing", "product__title", "__str__", "pk"])
def test_only_fields_of_the_row_itself_are_read(bend: Bend, inline: Any, store: Any, name: str) -> None:
    bend(Order, harness_inlines={"lines": ["quantity", name]})
    inline(get_readonly_fields=lambda self, request, obj=None: [name])
    inline(fields=["quantity"])
    assert set(lines("admin", seen())[0]) == {"id", "quantity"}


def test_fields_may_depend_on_the_parent(inline: Any, entity: GetEntity, store: Any) -> None:
    few = seen().pk

    def fields(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["quantity"] if obj is not None and obj.pk == few else ["quantity", "unit_price"]

    inline(get_fields=fields)
    rows = read(entity("admin", "order"), "lines", limit=50)
    for row in rows.rows:
        names = {name for line in row.values["lines"] for name in line} - {"id"}
        shown = {"quantity"} if row.record.pk == few else {"quantity", "unit_price"}
        assert names == (shown if row.values["lines"] else set())
    assert [each["name"] for each in rows.for_person()["columns"][0]["columns"]] == ["quantity", "unit_price"]


def test_what_the_rows_own_entity_keeps_from_the_model_is_kept(project: Project) -> None:
    class Inline(admin.TabularInline):  # type: ignore[type-arg]
        model = depot.Item

    project.site(
        {
            depot.Bin: declared(read=["title"], inlines=[Inline], harness_inlines={"item_set": ["title"]}),
            depot.Item: declared(harness_show=["title"]),
        }
    )
    made = depot.Bin.objects.create(code="b", title="one")
    depot.Item.objects.create(title="kept", bin=made)
    assert "kept" not in json.dumps(of_project(project, "bin").for_model()[0])


def test_a_related_record_has_a_label_where_she_may_see_it(bend: Bend, store: Any) -> None:
    order = seen()
    shown, hidden = order.lines.order_by("pk").first(), Product.objects.last()
    assert shown is not None
    assert hidden is not None
    order.lines.create(product=hidden, quantity=1, unit_price="1.00")
    bend(Product, get_queryset=lambda self, request: Product.objects.exclude(pk=hidden.pk))
    got = [each["product"] for each in lines("support", order)]
    assert got[0] == {"id": str(shown.product_id), "label": shown.product.title}
    assert got[-1] == {"id": str(hidden.pk)}


# -- order, number, cost -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "ours"),
    [
        (["-quantity"], ["-quantity", "pk"]),
        (["unit_price"], ["pk"]),  # not declared
        (["-unit_price", "quantity"], ["-pk", "quantity", "pk"]),
        (["product__title"], ["pk"]),
        (["product"], ["pk"]),
        (["-id"], ["-pk"]),
        (None, ["pk"]),
    ],
    ids=str,
)
def test_the_order_is_the_inlines_own_as_far_as_it_is_readable(
    bend: Bend, inline: Any, store: Any, own: list[str] | None, ours: list[str]
) -> None:
    order = seen()
    product = Product.objects.first()
    for number, price in ((3, 9), (3, 1), (1, 5), (2, 3)):
        order.lines.create(product=product, quantity=number, unit_price=price)
    bend(Order, harness_inlines={"lines": ["quantity"]})
    inline(get_ordering=lambda self, request: own)
    got = [int(each["id"]) for each in lines("admin", order)]
    assert got == list(order.lines.order_by(*ours).values_list("pk", flat=True))


@pytest.mark.parametrize("number", [INLINE_ROWS, INLINE_ROWS + 1, 300])
def test_no_more_rows_of_a_record_than_stated(entity: GetEntity, store: Any, number: int) -> None:
    order, product = seen(), Product.objects.first()
    order.lines.all().delete()
    OrderLine.objects.bulk_create(
        OrderLine(order=order, product=product, quantity=1, unit_price=1) for _ in range(number)
    )
    rows = run_query(entity("admin", "order"), Query(entity="store.order", filters={"id": str(order.pk)}))
    cell = rows.rows[0].values["lines"]
    assert cell[:INLINE_ROWS] == expected(order)[:INLINE_ROWS]
    assert cell[INLINE_ROWS:] == ([{"more": True}] if number > INLINE_ROWS else [])
    told = rows.for_model()[0]["rows"][0]["lines"]
    assert len(json.dumps(told)) < get_settings().RESULT_BYTES // 4 + 100
    assert rows.texts()[0][-1].startswith("Product: ")


def test_long_rows_are_cut_for_the_model_and_stay_a_list(project: Project) -> None:
    class Inline(admin.TabularInline):  # type: ignore[type-arg]
        model = depot.Item

    project.site(
        {depot.Bin: declared(read=["title"], inlines=[Inline], harness_inlines={"item_set": ["title"]})}
    )
    made = depot.Bin.objects.create(code="b", title="one")
    depot.Item.objects.bulk_create(depot.Item(title="ü" * 100, bin=made) for _ in range(50))
    project.settings.COPILOT = {"RESULT_BYTES": 4_000, "CELL_CHARS": 30}
    rows = of_project(project, "bin")
    told = rows.for_model()[0]["rows"][0]["item_set"]
    assert told[0]["title"] == "ü" * 30 + "… [cut]"
    assert 1 < len(told) < 20
    assert told[-1] == {"more": True}
    assert len(rows.for_person()["rows"][0]["values"]["item_set"]) == 50


def test_a_page_of_records_costs_one_query_more_and_one_for_each_relation(
    entity: GetEntity, store: Any
) -> None:
    counts = []
    for limit in (2, 50):
        asked = entity("admin", "order")
        with CaptureQueriesContext(connection) as without:
            read(asked, "number", limit=limit)
        with CaptureQueriesContext(connection) as captured:
            read(asked, "number", "lines", limit=limit)
        counts.append(len(captured) - len(without))
    assert counts == [2, 2]  # the lines, and the labels of their products


def test_the_database_reads_no_more_rows_than_are_shown(store: Any, django_assert_num_queries: Any) -> None:
    order, product = seen(), Product.objects.first()
    OrderLine.objects.bulk_create(
        OrderLine(order=order, product=product, quantity=1, unit_price=1) for _ in range(400)
    )
    made: list[Any] = []

    def note(instance: Any, **kwargs: Any) -> None:
        made.append(instance)

    from django.db.models.signals import post_init

    post_init.connect(note, sender=OrderLine)
    try:
        lines("admin", order)
    finally:
        post_init.disconnect(note, sender=OrderLine)
    assert len(made) == INLINE_ROWS + 1


# -- odd relations -------------------------------------------------------------------------------------


def of_project(project: Project, name: str, **filters: Any) -> Rows:
    """Read all rows of an entity of the project as a superuser, with the rows of its inlines."""
    boss = project.person(is_superuser=True)
    with enter_scope(Scope(site="admin", host="testserver"), boss.pk) as request:
        entity = Access(project.sites["admin"], request).entity(name)
        assert entity is not None
        fields = (*entity.readable(), *column_names(entity))
        return run_query(entity, Query(entity=entity.entity.label, fields=fields, filters=filters))


def test_a_key_that_is_data_is_not_told(project: Project) -> None:
    class Inline(admin.StackedInline):  # type: ignore[type-arg]
        model = depot.Badge

    project.site(
        {depot.Person: declared(read=["name"], inlines=[Inline], harness_inlines={"badge": ["email"]})}
    )
    depot.Badge.objects.create(
        person=depot.Person.objects.create(email="secret@example.org", name="Ada"), email="shown"
    )
    depot.Person.objects.create(email="other@example.org", name="Bob")
    rows = of_project(project, "person")
    assert {row.values["name"]: row.values["badge"] for row in rows.rows} == {
        "Ada": [{"email": "shown"}],
        "Bob": [],
    }
    assert "secret" not in json.dumps(rows.for_model()[0])


def test_a_relation_by_another_field_than_the_key(project: Project) -> None:
    class Inline(admin.TabularInline):  # type: ignore[type-arg]
        model = depot.City

    project.site(
        {
            depot.Country: declared(
                read=["title"], inlines=[Inline], harness_inlines={"city_set": ["title", "country"]}
            )
        }
    )
    for code in ("aa", "bb"):
        country = depot.Country.objects.create(code=code, title=code)
        depot.City.objects.create(title=f"city of {code}", country=country)
    rows = of_project(project, "country")
    got = {row.values["title"]: [each["title"] for each in row.values["city_set"]] for row in rows.rows}
    assert got == {"aa": ["city of aa"], "bb": ["city of bb"]}


def test_rows_are_read_again_for_the_person(entity: GetEntity, store: Any) -> None:
    from django_copilot.reading import read_again

    order = seen()
    asked = entity("support", "order")
    rows = run_query(asked, Query(entity="store.order", filters={"id": str(order.pk)}))
    again = read_again(asked, json.loads(json.dumps(rows.query.to_json())))
    assert again.for_person() == rows.for_person()
    column = rows.for_person()["columns"][-1]
    assert (column["name"], column["label"], column["type"]) == ("lines", "Order lines", "rows")
    assert [each["label"] for each in column["columns"]] == ["Product", "Quantity", "Unit price"]
    first = expected(order)[0]
    assert again.texts()[0][-1].startswith(
        f"Product: {first['product']['label']}, Quantity: {first['quantity']}, "
    )


def test_binary_data_is_never_read(project: Project) -> None:
    from django.contrib.contenttypes.models import ContentType

    class Inline(admin.TabularInline):  # type: ignore[type-arg]
        model = depot.Note
        fields = readonly_fields = ["title", "payload"]

    inlines = {"note_set": ["title", "payload"]}
    project.site({ContentType: declared(read=["model"], inlines=[Inline], harness_inlines=inlines)})
    kind = ContentType.objects.get_for_model(depot.Note)
    depot.Note.objects.create(title="shown", payload=b"kept", content_type=kind)
    (row,) = of_project(project, "contenttype", id=str(kind.pk)).rows
    assert [set(each) - {"id"} for each in row.values["note_set"]] == [{"title"}]


def test_columns_that_are_seen_today(entity: GetEntity, bend: Bend, store: Any) -> None:
    bend(Order, harness_computed=["total"], total=lambda self, obj: 1, list_display=["number", "total"])
    assert columns_seen(entity("support", "order")) == {"lines", "total"}
    bend(Order, list_display=["number"])
    assert columns_seen(entity("support", "order")) == {"lines"}
    take_away(store, "support", "view_orderline", "change_orderline")
    assert columns_seen(entity("support", "order")) == set()
    assert columns_seen(entity("support", "product")) == set()


def test_rows_that_a_queryset_takes_once_are_told_once(inline: Callable[..., None], store: Any) -> None:
    order = seen()
    tags = list(Tag.objects.order_by("pk")[:3])
    for line in order.lines.all():
        line.product.tags.set(tags)
    wanted = len(lines("manager", order))
    assert wanted

    def once(self: Any, request: Any) -> Any:
        return OrderLine.objects.filter(product__tags__pk__gte=0).distinct()

    inline(get_queryset=once)
    assert len(lines("manager", order)) == wanted
