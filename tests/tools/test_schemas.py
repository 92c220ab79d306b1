"""What a model is told: the tools of each kind of person and the system prompt, word for word."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from django_copilot import prompt
from django_copilot.access import Access
from django_copilot.backends.base import ModelRequest
from django_copilot.backends.chat_completions import request_body
from django_copilot.conf import Settings
from django_copilot.scope import enter_scope
from django_copilot.testing import Text, ask, offered_tools, script
from django_copilot.tools import shapes
from django_copilot.tools.schema import ASK_USER, FIND_ENTITIES, PLAIN, specs_for, tool_names
from example_project.store.models import Order, Product
from tests import golden
from tests.gate.calls import HERE, run, verdict

MOST_BYTES = 11_000


def first_request(client: Client, **extra: Any) -> ModelRequest:
    with script(Text("Hello.")) as model:
        ask(client, "Hello", **extra)
    return model.requests[0]


def on_the_wire(request: ModelRequest) -> dict[str, Any]:
    return request_body(request, model=Settings.OPENAI_MODEL, stream=True, options={}, official=True)


@pytest.mark.parametrize("who", ["manager", "support", "viewer"])
def test_the_tools_of_a_person_are_as_agreed(login: Callable[[str], Client], who: str) -> None:
    tools = on_the_wire(first_request(login(who)))["tools"]
    text = json.dumps([each["function"] for each in tools], indent=1, ensure_ascii=False)
    golden.check(f"tools_{who}.json", text + "\n")


def test_the_system_prompt_is_as_agreed(login: Callable[[str], Client]) -> None:
    request = first_request(login("manager"))
    assert request.system == prompt.SYSTEM
    golden.check("system.txt", request.system + "\n")


@pytest.mark.parametrize("language", ["en", "pl", "ru"])
def test_the_request_of_a_manager_is_small(login: Callable[[str], Client], language: str) -> None:
    client = login("manager")
    client.cookies["django_language"] = language
    for message, page in (
        ("Hello", "/admin/store/product/"),
        ("Hello", "/admin/store/order/"),
        ("How many orders, and the sum of payments of customers by month? Mark all products.", ""),
        ("Ile zamówień było w zeszłym miesiącu i suma według klientów?", "/admin/store/customer/"),
        ("Сколько заказов по месяцам, какие товары и клиенты изменили?", "/admin/store/product/"),
        ("Выдели все товары и заказы", "/admin/store/order/"),
    ):
        with script(Text("Hello.")) as model:
            ask(client, message, **({"page": page} if page else {}))
        for separators in ((",", ":"), None):
            body = on_the_wire(model.requests[0])
            size = len(json.dumps(body, ensure_ascii=False, separators=separators).encode())
            assert size - len(message.encode()) <= MOST_BYTES


def test_what_is_sent_first_is_the_same_from_call_to_call(login: Callable[[str], Client]) -> None:
    """Providers cache the beginning of a request; what changes comes last."""
    client = login("manager")
    first, second = first_request(client), first_request(client, page="/admin/store/category/")
    assert (first.system, first.tools) == (second.system, second.tools)
    assert first.context != second.context
    # Where the page points at an entity, more is told of that one: all that stands before it stays.
    third = first_request(client, page="/admin/store/product/")
    place = [tool.name for tool in first.tools].index("query_product")
    assert (first.system, first.tools[:place]) == (third.system, third.tools[:place])
    assert first.context not in first.system
    for username in ("manager", "Maria", "Nowak"):
        assert username not in json.dumps(on_the_wire(first))


def test_names_of_tools_do_not_depend_on_the_language_of_the_request(login: Callable[[str], Client]) -> None:
    for language in ("pl", "ru"):
        client = login("viewer")
        client.cookies["django_language"] = language
        names = offered_tools(first_request(client))
        assert names == offered_tools(first_request(login("viewer")))


def specs(who: str) -> dict[str, Any]:
    with enter_scope(HERE, get_user_model().objects.get(username=who).pk) as request:
        return {spec.name: spec for each in Access(admin.site, request).usable() for spec in specs_for(each)}


WHO = ["admin", "manager", "support", "bot", "viewer"]


@pytest.mark.parametrize("who", WHO)
def test_a_schema_holds_only_what_the_person_may_read_or_fill_in(store: Any, who: str) -> None:
    """Guards hazard 9."""
    with enter_scope(HERE, store.user(who).pk) as request:
        for entity in Access(admin.site, request).usable():
            made = {spec.kind: spec.parameters["properties"] for spec in specs_for(entity)}
            readable = set(entity.readable())
            told = set(made["query"]["filters"]["properties"])
            assert told <= readable | {"id"}
            # The names stand once: in the filters, or else among the fields.
            assert set(made["query"]["fields"]["items"].get("enum", told - {"id"})) == readable | {
                *entity.showable()
            }
            fillable = {*entity.fillable(change=False), *entity.fillable(change=True)}
            assert set(made.get("form", {"fields": {"properties": {}}})["fields"]["properties"]) == fillable
    everything = json.dumps([spec.parameters for spec in specs(who).values()])
    for name in ("api_token", "internal_note", "supplier", "photo", "gateway_reference", "confirm"):
        assert name not in everything
    assert ("cost_price" in everything) is (who in ("admin", "manager"))


@pytest.mark.parametrize("who", WHO)
def test_schemas_are_closed_and_take_what_the_gate_takes(store: Any, who: str) -> None:
    """Guards hazard 10: the schema is advice, the gate's own list is the rule, and they agree."""

    def closed(schema: Any) -> None:
        if isinstance(schema, dict):
            if schema.get("type") == "object":
                assert schema["additionalProperties"] is False
            for each in schema.values():
                closed(each)

    for spec in (*specs(who).values(), ASK_USER, FIND_ENTITIES):
        closed(spec.parameters)
        rule = shapes.ARGUMENTS[spec.kind]
        assert set(spec.parameters["properties"]) <= set(rule)
        required = {name for name, (_, needed) in rule.items() if needed}
        assert required <= set(spec.parameters.get("required", ()))
        assert len(spec.name) <= 64


@pytest.mark.parametrize("who", WHO)
def test_what_is_offered_works_and_what_is_not_offered_does_not(store: Any, who: str) -> None:
    offered = specs(who)
    for entity in ("category", "tag", "customer", "product", "order", "payment"):
        for kind, name in tool_names(entity).items():
            if kind not in PLAIN:
                continue
            args = {"query": {"limit": 1}, "form": {}, "delete": {"id": "999999"}}[kind]
            if name in offered and "id" in offered[name].parameters.get("required", ()):
                args = {"id": "999999"}
            got = verdict(run(who, name, args))
            if name in offered:
                assert got in ("1 rows", "form new", "not_found")
            else:
                # A delete tool looks for the record first: there is nothing to tell of one that is not.
                assert got in ("unknown_tool", "not_allowed", "not_fillable", "not_found")


def test_a_tool_is_offered_only_with_the_right_for_it(store: Any) -> None:
    for codename, tool in (
        ("delete_order", "confirm_delete_order"),
        ("add_category", "open_category_form"),
        ("change_tag", "open_tag_form"),
    ):
        assert tool not in specs("support")
        store.user("support").user_permissions.add(Permission.objects.get(codename=codename))
        assert tool in specs("support")
    assert "id" not in specs("support")["open_category_form"].parameters["properties"]
    assert specs("support")["open_tag_form"].parameters["required"] == ["id"]
    Permission.objects.get(codename="change_customer").group_set.clear()
    assert "open_customer_form" not in specs("support")


@pytest.mark.parametrize("hook", ["get_form", "get_fieldsets", "get_readonly_fields", "get_harness_persist"])
def test_a_hook_that_fails_takes_its_tools_away_and_no_others(
    store: Any, monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    """Guards hazard 14."""

    def broken(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise LookupError(hook)

    before = specs("manager")
    monkeypatch.setattr(type(admin.site.get_model_admin(Order)), hook, broken)
    after = specs("manager")
    assert "open_order_form" not in after
    assert {name for name in before if "order" not in name} <= set(after)


def test_choices_are_raw_values(store: Any) -> None:
    status = specs("manager")["query_product"].parameters["properties"]["filters"]["properties"]["status"]
    assert status == {"type": "string", "enum": [raw for raw, _ in Product.Status.choices]}
