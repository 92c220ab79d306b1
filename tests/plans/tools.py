"""Write tools that a test declares, plans of them as a model's call makes them, and decisions over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.db.models.functions import Now
from django.test import Client

from django_copilot import Preview, write_tool
from django_copilot.models import AuditEntry, Plan
from django_copilot.testing import Call, Text, ask, script
from django_copilot.tools import write
from example_project.store.models import Customer, Order

JSON = {"accept": "application/json"}


@pytest.fixture
def tool() -> Iterator[Callable[..., Any]]:
    """Return ``write_tool``; what a test declares with it is forgotten afterwards."""
    known, twice = dict(write._registry), list(write._twice)
    yield write_tool
    write._registry.clear()
    write._registry.update(known)
    write._twice[:] = twice


def relabel(**options: Any) -> Any:
    """Declare the tool ``relabel(order, name)``, which changes whom an order is shipped to."""
    options.setdefault("reversible", True)

    def relabel(ctx: Any, order: str, name: str) -> Preview:
        """Change the name on a parcel."""
        return Preview(ctx.get(Order, number=order), shipping_name=name)

    return write_tool(Order, **options)(relabel)


def order_for(**values: Any) -> Order:
    """Return a new order of region north, whose customer is no VIP, that nobody else's test touches."""
    number = values.pop("number", "SO-9000001")
    customer, _made = Customer.objects.get_or_create(name="Ola Nordmann", email="ola@mail.example")
    given = {"customer": customer, "region": "north", "status": "paid", "shipping_name": "Ola"}
    return Order.objects.create(number=number, **{**given, **values})


def staff(username: str, *permissions: str, **fields: Any) -> User:
    """Return a member of staff with these permissions ("app.codename")."""
    user = User.objects.create_user(username, password="x", is_staff=True, **fields)
    grant(user, *permissions)
    return user


def grant(user: User, *permissions: str) -> None:
    """Give a person permissions of her own."""
    for name in permissions:
        app, codename = name.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))


def revoke(user: User, name: str) -> None:
    """Take a permission away, from the person and from every group that she is in."""
    app, codename = name.split(".")
    permission = Permission.objects.get(content_type__app_label=app, codename=codename)
    user.user_permissions.remove(permission)
    for group in user.groups.all():
        group.permissions.remove(permission)


def lets_support_in(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a middleware that lets support in without a session, as one that reads a token does."""

    def answer(request: Any) -> Any:
        request.user = User.objects.get(username="support")
        return get_response(request)

    return answer


def impersonated(client: Client, real: User) -> Client:
    """Return the client with its session as django-hijack leaves it for a person who acts as another."""
    session = client.session
    session["hijack_history"] = [str(real.pk)]
    session.save()
    return client


class World:
    """An order, the tool ``relabel``, and support."""

    def __init__(self, login: Callable[[str], Client]) -> None:
        relabel()
        self.login = login
        self.client = login("support")
        self.order = order_for()

    def propose(self, name: str = "Kari", **extra: Any) -> dict[str, Any]:
        """Return a plan to ship the order to somebody."""
        return propose(self.client, "relabel", {"order": self.order.number, "name": name}, **extra)

    def fresh(self) -> Order:
        """Return the order as it is stored."""
        return Order.objects.get(pk=self.order.pk)


# -- plans --------------------------------------------------------------------------------------------------


def propose(
    client: Client, name: str, arguments: Mapping[str, Any], *, site: str = "admin", **extra: Any
) -> dict[str, Any]:
    """Have the model call a tool and return the plan of the answer."""
    with script(Call(name, dict(arguments))):
        answer = ask(client, "Please do it", site=site, **extra)
    plan: dict[str, Any] = answer["plan"]
    return plan


def told(
    client: Client, name: str, arguments: Mapping[str, Any], *, site: str = "admin", **extra: Any
) -> dict[str, Any]:
    """Have the model call a tool that is refused, and return what the model was told."""
    with script(Call(name, dict(arguments)), Text("I can't.")) as model:
        ask(client, "Please do it", site=site, **extra)
    content: dict[str, Any] = json.loads(model.requests[-1].messages[-1].text)
    return content


def send(client: Client, url: str, body: Any = None, **options: Any) -> Any:
    """POST JSON to one of a plan's addresses and return the response."""
    return client.post(url, json.dumps(body or {}), content_type="application/json", headers=JSON, **options)


def decide(client: Client, plan: Mapping[str, Any], what: str, **given: Any) -> tuple[int, dict[str, Any]]:
    """Confirm, approve, reject, undo or make again a plan, and return status and JSON."""
    if what in ("confirm", "approve"):
        given = {"digest": plan["digest"], **given}
    response = send(client, plan[f"{what}Url"], given)
    return response.status_code, response.json()


def outcome(answer: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    """Return status and code of a decision, the state of the plan where it has no code."""
    status, body = answer
    return status, body.get("code") or body["plan"]["state"]


def look(client: Client, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan as its address tells it now."""
    response = client.get(plan["url"], headers=JSON)
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def stored(plan: Mapping[str, Any]) -> Plan:
    """Return a plan as it is stored now."""
    return Plan.objects.get(pk=plan["id"])


def let_pass(plan: Mapping[str, Any], *names: str) -> None:
    """Let windows of a plan ("expires_at", "approve_by") end, by the database's clock."""
    Plan.objects.filter(pk=plan["id"]).update(**dict.fromkeys(names, Now()))


def audited(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return events and codes of the audit on a plan, oldest first."""
    entries = AuditEntry.objects.filter(plan=str(plan["id"])).order_by("number")
    return list(entries.values_list("event", "code"))


# -- at once ------------------------------------------------------------------------------------------------


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Run all works in threads that start together, each with connections of its own; return what they gave."""
    gate = threading.Barrier(len(works), timeout=30)
    given: list[Any] = [None] * len(works)

    def run(number: int, work: Callable[[], Any]) -> None:
        try:
            gate.wait()
            given[number] = work()
        except Exception as error:
            given[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    errors = [each for each in given if isinstance(each, Exception)]
    assert not errors, errors
    return given
