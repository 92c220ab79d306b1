"""The join of what was carried out with what people sent: it holds for honest work, and finds everything else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_copilot.models import AuditEntry, AuditValue, Plan
from django_copilot.people import person_key
from django_copilot.plans import decisions
from django_copilot.plans.deciders import Decider
from django_copilot.redteam.client import rows
from django_copilot.redteam.client.attack import Client
from django_copilot.redteam.client.decisions import Decisions
from django_copilot.redteam.client.sender import Who
from django_copilot.redteam.client.stage import Thing
from django_copilot.redteam.executions import Ledger, check_executions, find_outside, why_not
from django_copilot.redteam.world import World
from django_copilot.scope import Scope
from example_project.store.models import Order

from .playing import actor, plan_of, playing


@pytest.fixture
def client(world: World, settings: Any) -> Iterator[Client]:
    with playing(world, settings) as client:
        yield client


def post(client: Client, name: str, thing: Thing, verb: str, *, mark: str = "", **fields: Any) -> int:
    """Send a decision, and return its status."""
    site = client.sites[0]
    sent = {"digest": thing.digest, **fields}
    who = Who(actor(client, name), mark)
    answer = client.sender.decide(
        who,
        site,
        client.stage.endpoint(site, f"plan_{verb}"),
        thing.ident,
        sent,
        ident="perhaps",
        what="a test",
    )
    return answer.status


def found(client: Client) -> list[str]:
    """Return what the join finds now."""
    check_executions(client.world, client.sender.ledger)
    return [each["what"] for each in client.world.report.examples.get(5, [])]


def directly(client: Client, name: str) -> Decider:
    """Return somebody who decides without any request."""
    user = actor(client, name).user()
    site = client.sites[0]
    return Decider(
        user=user,
        key=person_key(user),
        real_key="",
        impersonated=False,
        site=site,
        scope=Scope(site=site.name, host="testserver", keys={"redteam": "a"}),
    )


def test_what_an_owner_confirms_on_what_she_was_shown_joins(client: Client) -> None:
    thing = plan_of(client, "support")
    assert post(client, "support", thing, "confirm") == 200
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    assert found(client) == []
    assert client.world.report.findings.total() == 0


def test_what_two_people_decide_joins_and_so_does_the_other_systems_act(client: Client) -> None:
    thing = plan_of(client, "support", amount=12_000)
    assert post(client, "support", thing, "confirm") == 200
    client_look(client, "manager", thing)
    assert post(client, "manager", thing, "approve") == 200
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    outside = find_outside()
    assert outside is not None
    assert list(outside.done) == [str(Plan.objects.get(pk=thing.ident).key)]
    assert found(client) == []
    assert client.world.report.findings.total() == 0


def client_look(client: Client, name: str, thing: Thing) -> None:
    """Let somebody open a plan."""
    told = Decisions(client).look(Who(actor(client, name)), client.sites[0], thing)
    assert told["digest"] == thing.digest


def test_an_execution_without_any_request_is_found(client: Client) -> None:
    thing = plan_of(client, "support")
    decisions.confirm(thing.ident, thing.digest, directly(client, "support"))
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    assert any("no confirmation by its owner" in each for each in found(client))


def test_a_confirmation_of_what_she_was_not_shown_is_found(client: Client) -> None:
    thing = plan_of(client, "support")
    client.sender.ledger._shown.clear()
    assert post(client, "support", thing, "confirm") == 200
    assert any("not shown that digest" in each for each in found(client))
    assert any("no confirmation by its owner" in each for each in found(client))


def test_an_approval_without_any_request_is_found(client: Client) -> None:
    thing = plan_of(client, "support", amount=12_000)
    post(client, "support", thing, "confirm")
    decisions.approve(thing.ident, thing.digest, directly(client, "manager"))
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    assert any("no approval by a second person" in each for each in found(client))


def test_an_approval_of_what_she_was_not_shown_is_found(client: Client) -> None:
    thing = plan_of(client, "support", amount=12_000)
    post(client, "support", thing, "confirm")
    assert post(client, "manager", thing, "approve") == 200
    assert any("no approval by a second person" in each for each in found(client))


@pytest.mark.parametrize("mark", ["hijack", "loginas", "impersonate"])
def test_a_decision_of_somebody_impersonated_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    thing = plan_of(client, "support")
    assert post(client, "support", thing, "confirm", mark=mark) == 403
    assert found(client) == []
    monkeypatch.setattr("django_copilot.plans.deciders.real_actor", lambda request: None)
    assert post(client, "support", thing, "confirm", mark=mark) == 200
    assert any("not a person who acts for herself" in each for each in found(client))


def test_a_decision_of_a_service_account_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "bot")
    assert post(client, "bot", thing, "confirm") == 403
    assert found(client) == []
    for module in ("django_copilot.plans.deciders", "django_copilot.gate"):
        monkeypatch.setattr(f"{module}.is_service_account", lambda user: False)
    assert post(client, "bot", thing, "confirm") == 200
    assert any("it is a service account" in each for each in found(client))


def test_a_second_person_who_may_not_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support", amount=12_000)
    post(client, "support", thing, "confirm")
    assert post(client, "support", thing, "approve") == 403
    assert found(client) == []
    monkeypatch.setattr("django_copilot.plans.decisions.why_not_approver", lambda plan, by: "")
    monkeypatch.setattr("django_copilot.gate._check_grant", lambda grant, tool, records_only=False: Plan())
    assert post(client, "support", thing, "approve") == 200
    assert any("she asked for it herself" in each for each in found(client))


def test_rights_that_are_gone_are_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support")
    target = Plan.objects.get(pk=thing.ident).object_pk
    Order.objects.filter(pk=target).update(region="south")
    assert post(client, "support", thing, "confirm") == 409
    assert found(client) == []
    assert client.world.report.findings.total() == 0
    why = client.sender.ledger.decisions[-1].may_not
    assert why == f"store.order {target} is not among her rows"


@pytest.mark.parametrize("lost", ["django_copilot.use_copilot", "store.propose_refund"])
def test_a_permission_that_is_gone_stands_against_her(client: Client, lost: str) -> None:
    thing = plan_of(client, "support", amount=500)
    plan, site, owner = Plan.objects.get(pk=thing.ident), client.sites[0], actor(client, "support")
    assert why_not(client.world, owner, site, plan, "confirm") == ""
    app_label, codename = lost.split(".")
    for group in owner.user().groups.all():
        group.permissions.remove(
            *group.permissions.filter(content_type__app_label=app_label, codename=codename)
        )
    assert why_not(client.world, owner, site, plan, "confirm") == "she may not use the assistant or this tool"


def test_an_act_of_the_other_system_that_nobody_decided_on_is_found(client: Client) -> None:
    outside = find_outside()
    assert outside is not None
    waiting = Plan.objects.get(pk=plan_of(client, "support", amount=500).ident)
    outside.call({"amount_cents": 1}, str(waiting.key))
    outside.call({"amount_cents": 1}, "another key")
    outside.call({"amount_cents": 2}, "another key")
    told = " / ".join(found(client))
    assert f"did plan {waiting.pk}, which was not decided" in told
    assert "which is no plan's" in told
    assert "asked for something else under the key another key" in told


def test_the_other_system_is_asked_for_the_payload_and_nothing_else(client: Client) -> None:
    thing = plan_of(client, "support", amount=500)
    post(client, "support", thing, "confirm")
    outside = find_outside()
    assert outside is not None
    assert found(client) == []
    outside.done[str(Plan.objects.get(pk=thing.ident).key)] = '{"amount_cents": 500000}'
    assert any("something else than the payload" in each for each in found(client))


def test_what_the_audit_does_not_say_is_found(client: Client) -> None:
    thing = plan_of(client, "support")
    post(client, "support", thing, "confirm")
    told = AuditEntry.objects.filter(plan=thing.ident, event="confirmed")
    AuditValue.objects.filter(entry__in=told).delete()
    told.delete()
    problems = " / ".join(found(client))
    assert "does not say that she confirmed it" in problems
    assert "the audit does not verify" in problems


def test_what_was_carried_out_before_is_not_the_ledgers_business(client: Client) -> None:
    thing = plan_of(client, "support")
    decisions.confirm(thing.ident, thing.digest, directly(client, "support"))
    client.sender.ledger = Ledger.opened()
    assert found(client) == []


# -- rows -------------------------------------------------------------------------------------------------


def test_a_plan_accounts_for_its_fields_and_its_history_and_for_nothing_else(client: Client) -> None:
    thing = plan_of(client, "support")
    before = rows.rows_now()
    post(client, "support", thing, "confirm")
    plan = Plan.objects.get(pk=thing.ident)
    changes = rows.differences(before, rows.rows_now())
    assert {each.label for each in changes} == {"store.order", "store.historicalorder"}
    assert rows.unaccounted(changes, plans=[plan]) == []
    assert rows.unaccounted(changes) == changes
    assert rows.wrong_values(plan) == []

    order = Order.objects.get(pk=plan.object_pk)
    Order.objects.filter(pk=order.pk).update(shipping_name="somebody", shipping_city="elsewhere")
    other = Order.objects.exclude(pk=order.pk).first()
    assert other is not None
    Order.objects.filter(pk=other.pk).update(shipping_city="elsewhere")
    left = rows.unaccounted(rows.differences(before, rows.rows_now()), plans=[plan])
    assert sorted(map(str, left)) == sorted(
        [
            f"store.order {order.pk} changed in {', '.join(sorted(_fields(before, order)))}",
            f"store.order {other.pk} changed in shipping_city",
        ]
    )
    assert rows.wrong_values(plan) == ["shipping_city"]


def _fields(before: rows.Rows, order: Order) -> set[str]:
    was = before["store.order", str(order.pk)]
    now = Order.objects.filter(pk=order.pk).values(*was).get()
    return {name for name in was if str(was[name]) != str(now[name])} - {"placed_at"}


def test_a_form_accounts_for_its_record_and_for_nothing_else(client: Client) -> None:
    site = client.sites[0]
    before = rows.rows_now()
    first, second = Order.objects.order_by("pk")[:2]
    Order.objects.filter(pk__in=[first.pk, second.pk]).update(shipping_city="elsewhere")
    changes = rows.differences(before, rows.rows_now())
    assert [each.pk for each in rows.unaccounted(changes, form=(site._registry[Order], str(first.pk)))] == [
        str(second.pk)
    ]
