"""The document that is confirmed: typed texts, one form in every language and place, and a digest of all of it."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import models
from django.utils import timezone, translation
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from hypothesis import given
from hypothesis import strategies as st

from django_copilot import Above, Always, Effect, Preview, write_tool
from django_copilot.models import Plan
from django_copilot.scope import Scope
from django_copilot.tools.document import PlanDraft, canonical, digest_of, typed, untyped
from example_project.store.models import Category, Customer, Order, Payment, Product
from tests.formapp.models import Parcel
from tests.gate.calls import HERE
from tests.gate.conftest import Orders

from .declared import draft_for

# -- typed texts -----------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    texts,
    st.uuids(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.UTC)),
    st.timedeltas(),
)


@given(scalars)
def test_a_typed_text_gives_the_value_back(value: Any) -> None:
    again = untyped(typed(value))
    assert again == value
    assert type(again) is type(value)
    assert typed(again) == typed(value)


@given(st.lists(scalars, max_size=4))
def test_a_list_of_values_gives_them_back_in_order(values: list[Any]) -> None:
    assert untyped(typed(values)) == values
    assert typed(tuple(values)) == typed(values)


@given(json_values)
def test_json_gives_itself_back_whatever_the_order_of_its_keys(value: Any) -> None:
    field = models.JSONField()
    text = typed(value, field)
    assert text.startswith("json:")
    assert untyped(text) == value
    if isinstance(value, dict):
        assert typed(dict(reversed(value.items()))) == typed(value)
        assert typed(dict(reversed(value.items())), field) == text


@given(scalars, scalars)
def test_two_values_of_one_text_are_the_same(first: Any, second: Any) -> None:
    """No two different values look alike to whoever compares digests."""
    if typed(first) == typed(second):
        assert type(first) is type(second)
        assert first == second or math.isclose(first, second)


TYPED = [
    (True, "bool:true"),
    (1, "int:1"),
    (1.0, "float:1.0"),
    ("1", "text:1"),
    (decimal.Decimal("1.50"), "decimal:1.50"),
    (decimal.Decimal("1E+3"), "decimal:1000"),
    (None, "null:"),
    ("", "text:"),
    ("a\x00\ud800b", "text:a\ufffd?b"),
    (Order.Status.PAID, "text:paid"),
    (Parcel.Grade.HIGH, "int:2"),
    (_("status"), "text:status"),
    (datetime.datetime(2026, 7, 1, 10, tzinfo=timezone.get_fixed_timezone(120)), "datetime:2026-07-01T08:00:00.000000Z"),
    (datetime.datetime(2026, 7, 1, 10), "datetime:2026-07-01T10:00:00.000000"),  # noqa: DTZ001
    (datetime.date(2026, 7, 1), "date:2026-07-01"),
    (datetime.time(7, 45), "time:07:45:00.000000"),
    (datetime.timedelta(days=1, microseconds=5), "duration:P1DT00H00M00.000005S"),
    (uuid.UUID(int=1), "uuid:00000000-0000-0000-0000-000000000001"),
    (["a", 1], 'list:["text:a","int:1"]'),
    ({"b": 1, "a": [None]}, 'json:{"a":[null],"b":1}'),
    (Category(pk=7), "record:store.category:7"),
    ([Category(pk=7), Category(pk=10)], 'list:["record:store.category:10","record:store.category:7"]'),
    ([Category(pk=10), Category(pk=7)], 'list:["record:store.category:10","record:store.category:7"]'),
    ({"b", "a"}, 'list:["text:a","text:b"]'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), TYPED, ids=[text[:40] for _value, text in TYPED])
def test_each_kind_of_value_has_one_text(value: Any, text: str) -> None:
    with translation.override("pl"), timezone.override("Asia/Tokyo"):
        if isinstance(value, type(_("x"))):
            assert typed(value).startswith("text:")
            return
        assert typed(value) == text


def test_bytes_are_the_same_however_a_database_gives_them() -> None:
    texts = {typed(each) for each in (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff"))}
    assert len(texts) == 1
    assert texts != {typed(b"\x00")}


def test_a_number_of_a_field_has_the_fields_places() -> None:
    field = Product._meta.get_field("price")
    assert {typed(each, field) for each in map(decimal.Decimal, ("1.5", "1.50", "1.500", "15E-1"))} == {
        "decimal:1.50"
    }
    assert typed(decimal.Decimal("-0.5"), field) == "decimal:-0.50"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_have_no_place_in_json(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"x": value})


def test_a_text_is_the_same_in_every_process() -> None:
    """The order of a set differs from process to process."""
    program = (
        "import django; django.setup()\n"
        "from django_copilot.tools.document import typed, canonical\n"
        "print(typed({'a', 'b', 'c', 'd'}), typed(frozenset('xyz')), canonical({'b': 1, 'a': {'d': 1, 'c': 2}}))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "DJANGO_SETTINGS_MODULE": "tests.settings"},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1


# -- the document ------------------------------------------------------------------------------------------

MAIL = "A mail goes to %(email)s."


class World:
    """What a document depends on, to be changed bit by bit."""

    def __init__(self, pk: int) -> None:
        self.pk = pk
        self.changes: dict[str, Any] = {"shipping_city": "Oslo"}
        self.preview: dict[str, Any] = {
            "effects": [
                Effect(_("status"), count=2),
                Effect(MAIL, email="a@example.com", sum=decimal.Decimal("1.5")),
            ],
            "system": {"currency": "EUR", "count": 3},
            "amount": 500,
            "acting_as": "the store",
            "touched": ["status"],
            "payload": {"b": 1, "a": "x"},
        }
        self.declared: dict[str, Any] = {"permissions": ["store.change_order"], "approval": Above(100)}
        self.dry = "It would work."
        self.customer = Order.objects.get(pk=pk).customer_id

    def draft(
        self, who: str = "support", *, scope: Scope = HERE, note: str = "x", tool: str = "made"
    ) -> PlanDraft:
        world = self

        @write_tool(Order, name=tool, **self.declared)
        def made(ctx: Any, pk: int, note: str) -> Preview:
            """Do it."""
            found = ctx.get(Order, pk=pk)
            ctx.look_up(Customer, pk=world.customer)
            system = {**world.preview.get("system", {}), "said": gettext("customer")}  # not a lazy one
            return Preview(found, changes=world.changes, **{**world.preview, "system": system})

        @made.dry_run
        def dry(preview: Preview) -> list[str]:
            return [world.dry]

        return draft_for(who, tool, {"pk": self.pk, "note": note}, scope=scope)

    def digest(self, **more: Any) -> str:
        return digest_of(self.draft(**more).document("id"))


@pytest.fixture
def world(orders: Orders) -> World:
    return World(orders.own)


@pytest.mark.parametrize("language", ["en", "pl", "ru", "de", "ar"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_the_digest_is_the_same_in_every_language_and_time_zone(
    world: World, language: str, zone: str
) -> None:
    """Guards hazard 162."""
    world.changes["placed_at"] = datetime.datetime(2026, 7, 1, 10, 30, tzinfo=datetime.UTC)
    before = world.digest()
    with translation.override(language), timezone.override(zone):
        scope = Scope(site="admin", host="elsewhere:8000", secure=True, language=language, time_zone=zone)
        assert world.digest(scope=scope) == before
        document = world.draft(scope=scope).body
    assert document["effects"][0]["text"] == "status"
    assert document["arguments"]["system"]["said"] == "text:customer"
    with translation.override("pl"):
        assert gettext("customer") != "customer"
    assert document == json.loads(json.dumps(document))


def test_the_document_is_all_texts_numbers_of_its_form_and_flags(world: World) -> None:
    def scalars_of(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [each for inner in value.values() for each in scalars_of(inner)]
        if isinstance(value, list):
            return [each for inner in value for each in scalars_of(inner)]
        return [value]

    found = scalars_of(world.draft().body)
    assert {type(each) for each in found} == {str, int, bool}
    assert [each for each in found if type(each) is int] == [1]  # the version of its form


# One for each ingredient: what is changed, and the digest must change with it.
def _tool(**declared: Any) -> Callable[[World], None]:
    return lambda world: world.declared.update(declared)


def _preview(**preview: Any) -> Callable[[World], None]:
    return lambda world: world.preview.update(preview)


def _stored(model: Any, **values: Any) -> Callable[[World], None]:
    def change(world: World) -> None:
        pk = world.pk if model is Order else world.customer
        model.objects.filter(pk=pk).update(**values)

    return change


INGREDIENTS: dict[str, Any] = {
    "new value": lambda world: world.changes.update(shipping_city="Bergen"),
    "another field": lambda world: world.changes.update(shipping_country="Norway"),
    "old value": _stored(Order, shipping_city="Before"),
    "version of the record": _stored(Order, status="cancelled"),
    "version of a related record": _stored(Customer, phone="112233"),
    "label of a related record": _stored(Customer, name="Zofia Zqx"),
    "version of the tool": _tool(revision="2"),
    "permissions": _tool(permissions=["store.view_order"]),
    "category": _tool(category="destructive"),
    "approval rule": _tool(approval=Above(101)),
    "approval needed": _tool(approval=Always()),
    "reversible": lambda world: world.declared.update(reversible=True),
    "effect": _preview(effects=[Effect("Another one.")]),
    "no effect": _preview(effects=[]),
    "value of an effect": _preview(
        effects=[
            Effect(_("status"), count=2),
            Effect(MAIL, email="b@example.com", sum=decimal.Decimal("1.5")),
        ]
    ),
    "system argument": _preview(system={"currency": "USD", "count": 3}),
    "type of a system argument": _preview(system={"currency": "EUR", "count": "3"}),
    "amount": _preview(amount=499),
    "acting as": _preview(acting_as="somebody"),
    "touched": _preview(touched=[]),
    "payload": _preview(payload={"b": 2, "a": "x"}),
    "summary": _preview(summary="Another one"),
    "dry run": lambda world: setattr(world, "dry", "It would not."),
}


@pytest.mark.parametrize("ingredient", INGREDIENTS)
def test_the_digest_changes_with_each_ingredient(world: World, ingredient: str) -> None:
    before = world.digest()
    assert world.digest() == before
    INGREDIENTS[ingredient](world)
    assert world.digest() != before


def test_the_digest_changes_with_plan_scope_requester_tool_and_arguments(
    world: World, orders: Orders
) -> None:
    document = world.draft().document("id")
    digests = [digest_of(document), digest_of(world.draft().document("other"))]
    digests.append(world.digest(note="y"))
    digests.append(world.digest(tool="other"))
    digests.append(digest_of(world.draft("manager").document("id")))
    digests.append(digest_of({**document, "undoes": "x"}))
    digests.append(digest_of({**document, "v": 2}))
    digests.append(digest_of({**document, "scope": {"site": "other", "key": ""}}))
    world.pk = orders.shipped
    world.changes = {}
    assert len(set(digests)) == len(digests)


def test_a_scope_of_the_project_is_part_of_it(world: World, settings: Any) -> None:
    from contextlib import nullcontext

    settings.COPILOT = {
        **settings.COPILOT,
        "SCOPE": {"capture": lambda request: {}, "enter": lambda values, request: nullcontext()},
    }
    digests = {
        world.digest(scope=Scope(site="admin", host="testserver", keys=keys))
        for keys in ({}, {"tenant": "a"}, {"tenant": "b"})
    }
    assert len(digests) == 3


def test_a_digest_is_of_one_plan_also_when_another_one_has_the_same_arguments(
    world: World, login: Any
) -> None:
    from .declared import decide, propose

    world.draft()
    client = login("support")
    first, second = (propose(client, "made", {"pk": world.pk, "note": "x"}) for _number in range(2))
    assert first["digest"] != second["digest"]
    response = decide(client, first["confirmUrl"], digest=second["digest"])
    assert (response.status_code, response.json()["code"]) == (409, "digest_mismatch")
    assert {each.state for each in Plan.objects.all()} == {"proposed"}


def test_a_stored_document_that_was_tampered_with_confirms_nothing(world: World, login: Any) -> None:
    from .declared import decide, propose

    world.declared = {}
    world.preview = {}
    world.draft()
    client = login("support")
    plan = propose(client, "made", {"pk": world.pk, "note": "x"})
    stored = Plan.objects.get(pk=plan["id"])
    stored.document["changes"][0]["new"] = "text:Elsewhere"
    stored.save(update_fields=["document"])
    for digest in (plan["digest"], digest_of(stored.document), "", None, 1, "ż"):
        response = decide(client, plan["confirmUrl"], digest=digest)
        assert response.status_code in (400, 409), response.content
    stored.digest = digest_of(stored.document)  # and with its digest: the preview says something else
    stored.save(update_fields=["digest"])
    response = decide(client, plan["confirmUrl"], digest=stored.digest)
    assert (response.status_code, response.json()["code"]) == (409, "stale")
    assert Order.objects.get(pk=world.pk).shipping_city not in ("Oslo", "Elsewhere")


def test_what_a_database_gives_back_has_the_text_of_what_was_given(store: Any) -> None:
    """On each database: what is read back after saving is compared by its text."""
    parcel = Parcel(
        title="ż 😀 ",
        weight=decimal.Decimal("1234.5"),
        ratio=0.1 + 0.2,
        at=datetime.datetime(2026, 7, 1, 8, 30, 1, 123456, tzinfo=datetime.UTC),
        clock=datetime.time(7, 45, 1, 999999),
        day=datetime.date(1000, 1, 1),
        length=datetime.timedelta(days=-3, microseconds=7),
        extra={"z": [1.5, None, {"ż": True}], "a": "x", "n": 12345678901234},
        remark="text",
        address="2001:db8::1",
        checked=None,
    )
    parcel.save()
    fresh = Parcel.objects.get(pk=parcel.pk)
    for field in Parcel._meta.concrete_fields:
        if field.remote_field is None:
            assert typed(getattr(fresh, field.name), field) == typed(getattr(parcel, field.name), field), (
                field
            )


def test_the_people_of_a_document_are_their_keys(world: World) -> None:
    user = get_user_model().objects.get(username="support")
    body = world.draft().body
    assert body["requester"] == str(user.pk)
    assert "support" not in json.dumps(body)
    assert Payment.objects.exists()
