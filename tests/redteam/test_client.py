"""The hostile client: it finds nothing in the product, and finds each check that is taken away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse

from django_copilot import gate
from django_copilot.api.base import OwnView
from django_copilot.api.conversations import ListView
from django_copilot.models import AuditEntry, Conversation, Plan
from django_copilot.plans import inbox, pages
from django_copilot.redteam.client import attack as hostile
from django_copilot.redteam.client.at_once import confirm_at_once, runs_threads
from django_copilot.redteam.client.attack import Client
from django_copilot.redteam.client.bodies import FOREIGN, Body, random_body
from django_copilot.redteam.client.decisions import Decisions
from django_copilot.redteam.client.endpoints import TABLE, Standing, allowed, find_endpoints
from django_copilot.redteam.client.pages import PLAN_INPUT, Pages
from django_copilot.redteam.client.projects import hostile_rest_framework
from django_copilot.redteam.client.sender import NOTHING, Sender, Who
from django_copilot.redteam.client.stage import Thing
from django_copilot.redteam.client.ticked import Ticked
from django_copilot.redteam.executions import check_executions
from django_copilot.redteam.honest.submitting import controls
from django_copilot.redteam.world import World
from django_copilot.scope import Scope
from example_project.store.models import Customer

from .playing import actor, findings, plan_of, playing

JSON = {"Accept": "application/json"}


@pytest.fixture
def client(world: World, settings: Any) -> Iterator[Client]:
    with playing(world, settings) as client:
        yield client


def ask(
    client: Client,
    name: str,
    endpoint: str,
    ident: str = "",
    *,
    method: str = "GET",
    body: Body = NOTHING,
    stands: str = "own",
) -> None:
    """Send a request to one of our addresses as somebody."""
    site = client.sites[0]
    who = Who(actor(client, name) if name else None)
    client.to_endpoint(who, site, client.stage.endpoint(site, endpoint), method, ident, body, JSON, stands)


def confirm(client: Client, name: str, thing: Thing, *, who: Who | None = None, **options: Any) -> None:
    """Send a confirmation as somebody."""
    site = client.sites[0]
    digest = options.pop("digest", thing.digest)
    client.sender.decide(
        who or Who(actor(client, name)),
        site,
        client.stage.endpoint(site, "plan_confirm"),
        thing.ident,
        {"digest": digest},
        what="a test",
        **options,
    )


# -- the product as it is ---------------------------------------------------------------------------------


def test_a_run_finds_nothing_and_has_tried_everything(
    world: World, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STORE_GATEWAY_URL = "http://127.0.0.1:9"
    statuses: Counter[int] = Counter()
    judge = Sender._judge

    def counting(self: Sender, who: Who, site: Any, answer: Any, **options: Any) -> None:
        statuses[answer.status] += 1
        judge(self, who, site, answer, **options)

    monkeypatch.setattr(Sender, "_judge", counting)
    hostile.run(world, number=0, calls=150)
    assert world.report.examples == {}
    assert world.report.findings.total() == 0
    assert world.report.counts["requests"] >= 150
    assert {200, 302, 400, 401, 403, 404, 405, 409} <= set(statuses)
    assert 500 not in statuses
    assert Plan.objects.filter(kind="tool", state="executed").exists()
    assert {"redteam_second"} < {*Plan.objects.values_list("site", flat=True)}


def test_it_leaves_the_other_parts_their_scopes(world: World, settings: Any) -> None:
    somebody = world.actors[0]
    before = world.scope(somebody, admin.site)
    with playing(world, settings) as client:
        assert world.scope(somebody, admin.site).keys == {"redteam": "a"}
        assert {each.name for each in client.sites} == {"admin", "redteam_second"}
    assert world.scope(somebody, admin.site) == before
    assert [each.name for each in world.sites] == ["admin"]
    assert dict(before.keys) == {}


def test_the_same_seed_sends_the_same(world: World) -> None:
    def bodies() -> list[Body]:
        rng = world.rng("client", 3)
        return [random_body(rng, {"digest": "0"}) for _ in range(200)]

    assert bodies() == bodies()
    kinds = {each.type.split(";")[0] for each in bodies()}
    assert {"application/json", "multipart/form-data", "application/x-www-form-urlencoded"} <= kinds
    assert max(len(each.content) for each in bodies()) > 1_000_000


def test_every_address_of_ours_is_found_and_has_its_rule() -> None:
    found = {each.name for each in find_endpoints(admin.site)}
    own = {
        pattern.name
        for model_admin in admin.site._registry.values()
        if model_admin.opts.app_label == "django_copilot"
        for pattern in model_admin.get_urls()
        if pattern.name
    }
    assert found == own
    assert len(found) > 20


@pytest.mark.parametrize(
    ("rule", "method", "options", "expected"),
    [
        ("chat", "POST", {"standing": None, "json": False}, {401}),
        ("plan_confirm", "POST", {"standing": None, "json": True}, {401}),
        ("plan_confirm", "POST", {"standing": None, "json": False}, {302}),
        ("plan_confirm", "POST", {"standing": None, "json": False, "token": False}, {302}),
        (
            "plan_confirm",
            "POST",
            {"standing": None, "json": False, "token": False, "broken": True},
            {302, 400},
        ),
        ("chat", "POST", {"standing": None, "token": False, "broken": True}, {401}),
        ("plan_confirm", "POST", {"token": False}, {403}),
        ("plan_confirm", "POST", {"ident": "none"}, {404}),
        ("plan_confirm", "POST", {"ident": "none", "broken": True}, {400, 404}),
        ("plan_confirm", "GET", {}, {405}),
        ("conversation_detail", "GET", {"ident": "none"}, {404}),
        ("conversation_detail", "GET", {}, {200}),
        ("metrics", "GET", {}, {403}),
        ("switch", "POST", {}, {403}),
        ("audit", "GET", {}, {302, 403}),
        ("audit", "POST", {"standing": None}, {302}),
        ("audit", "POST", {"standing": None, "token": False}, {302, 403}),
        # Which reads the body for its token first, and may stumble over it.
        ("audit", "POST", {"standing": None, "token": False, "broken": True}, {302, 400, 403}),
    ],
)
def test_the_table_says_what_is_promised(
    rule: str, method: str, options: Mapping[str, Any], expected: set[int]
) -> None:
    user = Standing(is_staff=True, permissions=frozenset({"django_copilot.use_copilot"}), has_entity=True)
    assert allowed(TABLE[rule], method, **{"standing": user, "json": True, **options}) == expected


def test_where_nothing_is_declared_nothing_of_ours_answers(client: Client) -> None:
    for _ in range(25):
        client.bare_site()
    assert findings(client) == {}
    assert client.world.report.counts["requests"] == 25


def test_one_plan_confirmed_again_and_again_is_carried_out_once(client: Client) -> None:
    for amount in (0, 500):
        thing = plan_of(client, "support", amount=amount)
        endpoint = client.stage.endpoint(client.sites[0], "plan_confirm")
        confirm_at_once(client.sender, Who(thing.owner), client.sites[0], endpoint, thing)
        assert Plan.objects.get(pk=thing.ident).state == "executed"
    check_executions(client.world, client.sender.ledger)
    assert findings(client) == {}
    assert "client: threads" in client.world.report.not_run  # a test's transaction is open
    assert len(client.sender.ledger.decisions) == 5  # the one from within the call only where there is a call


@pytest.mark.django_db(transaction=True)
def test_one_plan_confirmed_by_threads_is_carried_out_once(transactional_db: None, client: Client) -> None:
    if runs_threads():
        pytest.skip(runs_threads())
    for amount in (0, 500):
        thing = plan_of(client, "support", amount=amount)
        endpoint = client.stage.endpoint(client.sites[0], "plan_confirm")
        confirm_at_once(client.sender, Who(thing.owner), client.sites[0], endpoint, thing)
        assert Plan.objects.get(pk=thing.ident).state == "executed"
        assert AuditEntry.objects.filter(plan=thing.ident, event="executed").count() == 1
    check_executions(client.world, client.sender.ledger)
    assert findings(client) == {}


# -- with a check taken away ------------------------------------------------------------------------------


def test_another_persons_conversation_that_opens_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = client.stage.ask(actor(client, "support"), client.sites[0])
    ask(client, "viewer", "conversation_detail", told["conversationId"], stands="none")
    assert findings(client) == {}
    everybodys = Conversation.objects.all
    monkeypatch.setattr("django_copilot.runtime.store.own_conversations", lambda user, scope: everybodys())
    ask(client, "viewer", "conversation_detail", told["conversationId"], stands="none")
    assert set(findings(client)) == {3, 5}
    assert "words of person" in findings(client)[3]
    assert "answered 200 , and not [404]" in findings(client)[5]


def test_another_persons_plan_that_opens_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support")
    ask(client, "viewer", "plan_detail", thing.ident, stands="none")
    assert findings(client) == {}
    monkeypatch.setattr("django_copilot.plans.rights.is_visible", lambda plan, user: True)
    ask(client, "viewer", "plan_detail", thing.ident, stands="none")
    assert "answered 200 , and not [404]" in findings(client)[5]


def test_another_persons_plan_that_can_be_confirmed_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = plan_of(client, "support")
    confirm(client, "manager", thing, ident="none")
    assert findings(client) == {}
    monkeypatch.setattr("django_copilot.plans.rights.is_visible", lambda plan, user: True)
    monkeypatch.setattr("django_copilot.plans.decisions._is_own", lambda plan, by: True)
    confirm(client, "manager", thing, ident="none")
    assert "it is another person's" in findings(client)[5]


def test_another_digest_that_is_taken_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support")
    confirm(client, "support", thing, digest="0" * 64)
    assert findings(client) == {}
    monkeypatch.setattr("django_copilot.plans.decisions.hmac.compare_digest", lambda one, other: True)
    confirm(client, "support", thing, digest="0" * 64)
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    assert "she was not shown that digest" in findings(client)[5]


def test_a_request_of_a_foreign_page_that_is_taken_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = plan_of(client, "support")
    browser = Who(actor(client, "support"), csrf=True)
    for headers in FOREIGN:
        confirm(client, "", thing, who=browser, token=False, headers={**JSON, **headers})
    assert findings(client) == {}
    monkeypatch.setattr("rest_framework.authentication.CSRFCheck.process_view", lambda *args: None)
    confirm(client, "", thing, who=browser, token=False, headers={**JSON, **FOREIGN[0]})
    assert "answered 200 , and not [403]" in findings(client)[5]


def test_another_scopes_plan_that_opens_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support", scope="b")
    ask(client, "support", "plan_detail", thing.ident, stands="none")
    assert findings(client) == {}
    monkeypatch.setattr(Scope, "key", property(lambda self: ""))
    Plan.objects.update(scope_key="")
    ask(client, "support", "plan_detail", thing.ident, stands="none")
    assert "answered 200 , and not [404]" in findings(client)[5]


def test_an_error_that_nobody_caught_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "own_waiting", lambda by: 1 / 0)
    ask(client, "support", "plan_changelist")
    assert "answered 500 failed" in findings(client)[7]
    assert "ZeroDivisionError" in findings(client)[7]


def test_a_project_of_its_own_rest_framework_changes_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = Body(b'{"message": "hello"}', "application/json")
    with hostile_rest_framework():
        ask(client, "", "chat", method="POST", body=body)
        ask(client, "support", "chat", method="POST", body=body)
        assert findings(client) == {}
        monkeypatch.delattr(OwnView, "authentication_classes")
        ask(client, "", "chat", method="POST", body=body)
    assert "answered 200 , and not [401]" in findings(client)[5]


def test_an_execution_that_changes_another_record_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, other = gate.save_changes, Customer.objects.filter(vip=False, orders=None).order_by("pk")[0]

    def save_more(entity: Any, obj: Any, changes: Any, **options: Any) -> Any:
        Customer.objects.filter(pk=other.pk).update(vip=True)
        return save(entity, obj, changes, **options)

    monkeypatch.setattr(gate, "save_changes", save_more)
    thing = plan_of(client, "support")
    confirm(client, "support", thing)
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    assert findings(client) == {1: f"store.customer {other.pk} changed in vip"}


def test_a_page_that_writes_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    get = ListView.get

    def writing(self: ListView, request: Any) -> Any:
        Customer.objects.filter(pk=1).update(vip=True)
        return get(self, request)

    monkeypatch.setattr(ListView, "get", writing)
    ask(client, "support", "conversation_changelist")
    assert findings(client)[1].startswith("statement: UPDATE")


def test_a_hidden_value_on_a_plans_page_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = plan_of(client, "support")
    ask(client, "support", "plan_detail", thing.ident)
    assert findings(client) == {}
    customer = Customer.objects.order_by("pk")[0]
    told = "django_copilot.plans.projection._Projection._summary"
    monkeypatch.setattr(told, lambda self, title: customer.internal_note)
    ask(client, "support", "plan_detail", thing.ident)
    assert findings(client) == {3: f"store.customer.internal_note of {customer.pk} in an answer for support"}


def test_a_plan_that_is_claimed_without_a_decision_is_found(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = plan_of(client, "support")
    get = ListView.get

    def carrying_out(self: ListView, request: Any) -> Any:
        Plan.objects.filter(pk=thing.ident).update(state="executed")
        return get(self, request)

    monkeypatch.setattr(ListView, "get", carrying_out)
    ask(client, "support", "conversation_changelist")
    assert "a plan was claimed by no decision" in findings(client)[5]
    check_executions(client.world, client.sender.ledger)
    assert "no confirmation by its owner" in findings(client)[5]


# -- the admin's own list ---------------------------------------------------------------------------------


def list_plan(client: Client, name: str, scope: str = "a") -> Thing:
    """Return a plan that ticks one order."""
    made = client.stage.make_page(actor(client, name), client.sites[0], "list", scope=scope)
    assert made is not None
    return made


def test_what_a_list_ticks_is_told_to_its_owner_in_time_and_in_its_scope(client: Client) -> None:
    ticked, site, support = Ticked(client), client.sites[0], Who(actor(client, "support"))
    thing, other = list_plan(client, "support"), list_plan(client, "support", scope="b")
    assert len(ticked.ask(support, site, thing).json["ids"]) == 1
    assert len(ticked.ask(support, site, other, scope="b").json["ids"]) == 1
    for who, where, asked, scope in (
        (support, site, thing, "b"),
        (support, site, other, "a"),
        (support, client.sites[-1], thing, "a"),
        (Who(actor(client, "admin")), site, thing, "a"),
        (Who(None), site, thing, "a"),
    ):
        assert "ids" not in ticked.ask(who, where, asked, scope=scope).json
    client.stage.expire(thing)
    assert ticked.ask(support, site, thing).json["ids"] == []
    for _ in range(20):
        ticked.some()
    assert findings(client) == {}


def test_what_a_list_of_somebody_else_ticks_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = list_plan(client, "manager")
    monkeypatch.setattr(
        pages, "find_plan", lambda user, scope, given, **more: Plan.objects.filter(pk=given).first()
    )
    monkeypatch.setattr("django_copilot.plans.find_plan", pages.find_plan)
    Ticked(client).ask(Who(actor(client, "admin")), client.sites[0], thing)
    told = findings(client)
    assert "rows to tick are told to admin" in told[3]


# -- the admin's own pages --------------------------------------------------------------------------------


def page_plan(client: Client, name: str) -> Thing:
    """Return a plan to change a customer."""
    found = client.stage.ask(
        actor(client, name),
        client.sites[0],
        ("open_customer_form", {"id": "1", "fields": client.stage.values_for(*customers(client, name))}),
    )["action"]
    made = Thing(
        "plan",
        found["queryParams"]["aiPlan"],
        actor(client, name),
        "admin",
        kind="form",
        path=found["path"],
        model=Customer,
        pk="1",
    )
    return client.stage.add(made)


def customers(client: Client, name: str) -> tuple[Any, Any, Any]:
    """Return a person, the site, and the entity of customers."""
    from django_copilot.declaration import entities_of

    return actor(client, name), client.sites[0], entities_of(client.sites[0])["customer"]


def submit(client: Client, name: str, thing: Thing, *, saves: bool) -> None:
    """Submit the customer's form with a plan in it, and one field changed."""
    pages, who = Pages(client), Who(actor(client, name))
    _status, cells, text = pages.plain(who, client.sites[0], thing.path)
    sent = {**controls(text), PLAN_INPUT: [thing.ident], "city": ["elsewhere"], "_save": ["Save"]}
    pages.submit(
        who,
        client.sites[0],
        thing.path,
        sent,
        model=Customer,
        pk="1",
        plan=thing.ident,
        saves=saves,
        token=True,
        cells=cells,
    )


def test_another_persons_plan_in_a_form_saves_nothing_and_is_found_when_it_does(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = page_plan(client, "support")
    submit(client, "manager", thing, saves=False)
    assert findings(client) == {}
    monkeypatch.setattr("django_copilot.plans.pages.own_plans", lambda user, scope: Plan.objects.all())
    submit(client, "manager", thing, saves=False)
    assert "store.customer 1 changed in city" in findings(client)[1]
    assert "it is another person's" in findings(client)[5]


def test_another_persons_values_in_a_form_are_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = page_plan(client, "support")
    who, site = Who(actor(client, "manager")), client.sites[0]
    seen = Pages(client).plain(who, site, thing.path)[1]
    address = f"{thing.path}?aiAction=edit&aiId=1&aiPlan={thing.ident}"
    client.sender.send(who, site, "GET", address, headers={"Accept": "text/html"}, what="a test", seen=seen)
    assert findings(client) == {}
    monkeypatch.setattr("django_copilot.plans.pages.own_plans", lambda user, scope: Plan.objects.all())
    client.sender.send(who, site, "GET", address, headers={"Accept": "text/html"}, what="a test", seen=seen)
    assert "words of person" in findings(client)[3]


def test_a_form_that_is_saved_twice_is_found(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = page_plan(client, "support")
    submit(client, "support", thing, saves=True)
    assert Plan.objects.get(pk=thing.ident).state == "executed"
    submit(client, "support", thing, saves=False)
    check_executions(client.world, client.sender.ledger)
    assert findings(client) == {}
    Customer.objects.filter(pk=1).update(city="here")
    monkeypatch.setattr("django_copilot.plans.claim", lambda plan: True)
    submit(client, "support", thing, saves=False)
    assert findings(client) == {}  # the record has changed since, which is a check of its own
    monkeypatch.setattr("django_copilot.draft.Draft.lock_and_compare", lambda self: None)
    submit(client, "support", thing, saves=False)
    assert "store.customer 1 changed in city" in findings(client)[1]


def test_pages_with_forged_parameters_are_what_they_always_are(client: Client) -> None:
    page_plan(client, "support")
    pages = Pages(client)
    for _ in range(15):
        pages.hostile_address()
        pages.forged_form()
    pages.honest_form()
    assert findings(client) == {}


def test_an_honest_look_sees_the_digest_that_is_confirmed(client: Client) -> None:
    thing = plan_of(client, "support")
    told = Decisions(client).look(Who(actor(client, "support")), client.sites[0], thing)
    assert told["digest"] == thing.digest
    path = reverse("admin:django_copilot_plan_detail", args=[thing.ident])
    client.sender.ledger._shown.clear()
    client.sender.send(
        Who(actor(client, "support")),
        client.sites[0],
        "GET",
        path,
        headers={"Accept": "text/html"},
        what="a page",
    )
    key = str(actor(client, "support").pk)
    assert client.sender.ledger.shown(key, thing.ident) == {thing.digest}
