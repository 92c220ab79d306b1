"""Write tools where rows belong to a tenant that middleware puts into a thread-local.

A decision is made in the tenant in which the plan was made, whoever decides, or it is not made.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pytest
from django.contrib.admin import sites
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import CommandError, call_command
from django.test import Client

from django_copilot import Always, Preview, write_tool
from django_copilot.models import Conversation, Plan, PlanState, Turn, TurnState
from django_copilot.testing import Call, Text, ask, assert_not_sent, copilot_client, script
from tests.api.posting import post, told
from tests.plans.tools import JSON, audited, decide, look, outcome, propose, stored, tool

from .depot import models as depot
from .depot.models import _tenant, tenant
from .sites import Project, declared, results
from .test_tenants import BROKEN, TenantScope, client_of, ledger

__all__ = ["tool"]


class LedgerAdmin(declared(read=["title"], fill=["title"])):  # type: ignore[misc]
    """An admin that keeps in which tenant each of its hooks ran."""

    saved_in: list[tuple[str, str]] = []

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        self.saved_in.append((request.tenant, depot.current_tenant()))
        super().save_model(request, obj, form, change)


def retitle(**options: Any) -> Any:
    """Declare the tool ``retitle(title, new)``, for a ledger by its title."""

    def retitle(ctx: Any, title: str, new: str) -> Preview:
        """Give a ledger another title."""
        return Preview(ctx.get(depot.Ledger, title=title), title=new)

    return write_tool(depot.Ledger, reversible=True, **options)(retitle)


@pytest.fixture
def tenants(project: Project, tool: Any) -> Project:
    """Give a project whose rows belong to the tenant of the request; each has a ledger "book"."""
    settings = project.settings
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.projects.test_tenants.by_header"]
    settings.COPILOT = {**settings.COPILOT, "SCOPE": TenantScope}
    LedgerAdmin.saved_in = []
    project.site({depot.Ledger: LedgerAdmin})
    for name in ("red", "blue"):
        with tenant(name):
            depot.Ledger.objects.create(title="book")
    return project


@pytest.fixture(autouse=True)
def _no_tenant_is_left() -> Any:
    """Whatever is done for a person, the thread has no tenant afterwards."""
    assert getattr(_tenant, "name", None) is None
    yield
    assert getattr(_tenant, "name", None) is None


def second(name: str) -> Client:
    """Return a client of a superuser who is not the boss and talks to a tenant's address."""
    user_model = get_user_model()
    user = user_model.objects.filter(username="second").first() or user_model.objects.create_superuser(
        "second"
    )
    return copilot_client(user, headers={"x-tenant": name})


def titles() -> dict[str, str]:
    return dict(depot.Ledger.everything.values_list("tenant", "title"))


@pytest.mark.parametrize(("mine", "other"), [("red", "blue"), ("blue", "red")])
def test_a_tool_finds_and_changes_the_tenants_row_and_no_other(
    tenants: Project, mine: str, other: str
) -> None:
    """hazard 166"""
    retitle()
    client = client_of(tenants, mine)
    plan = propose(client, "retitle", {"title": "book", "new": "new"})
    kept = stored(plan)
    assert (kept.object_pk, kept.scope["keys"]) == (str(ledger(mine).pk), {"tenant": mine})
    assert kept.document["scope"]["key"] == kept.scope_key != ""
    assert outcome(decide(client, plan, "confirm")) == (200, "executed")
    assert titles() == {mine: "new", other: "book"}
    assert LedgerAdmin.saved_in == [(mine, mine)]
    _status, answer = decide(client, plan, "undo")
    assert outcome(decide(client, answer["plan"], "confirm")) == (200, "executed")
    assert titles() == {mine: "book", other: "book"}
    assert LedgerAdmin.saved_in == [(mine, mine)] * 2
    assert look(client, plan)["state"] == "undone"


def test_a_tool_does_not_find_the_other_tenants_row(tenants: Project) -> None:
    retitle()
    with tenant("blue"):
        depot.Ledger.objects.create(title="blue only")
    with script(Call("retitle", {"title": "blue only", "new": "x"}), Text("No.")) as model:
        ask(client_of(tenants, "red"), "Do it")
    assert results(model.request)[0]["error"]["code"] == "not_found"
    assert not Plan.objects.exists()


ACTIONS = ["confirm", "approve", "reject", "undo", "again", "lookUp", "settle"]


@pytest.mark.parametrize("what", ACTIONS)
def test_from_another_tenant_a_plan_is_not_there_for_its_own_owner(tenants: Project, what: str) -> None:
    """hazard 166"""
    retitle()
    plan = propose(client_of(tenants, "red"), "retitle", {"title": "book", "new": "new"})
    if what == "undo":
        assert outcome(decide(client_of(tenants, "red"), plan, "confirm")) == (200, "executed")
    before, state = titles(), stored(plan).state
    blue = client_of(tenants, "blue")
    assert outcome(decide(blue, plan, what)) == (404, "not_found")
    assert blue.get(plan["url"], headers=JSON).status_code == 404
    assert blue.get("/admin/django_copilot/plan/", headers=JSON).json()["plans"] == []
    assert (titles(), stored(plan).state) == (before, state)
    assert audited(plan)[-1] == ("refused", "not_found")


def test_a_second_person_of_the_tenant_approves_and_one_of_another_does_not(tenants: Project) -> None:
    """hazard 166"""
    retitle(approval=Always())
    red = client_of(tenants, "red")
    plan = propose(red, "retitle", {"title": "book", "new": "new"})
    assert outcome(decide(red, plan, "confirm")) == (200, "awaiting_approval")
    assert LedgerAdmin.saved_in == []
    assert outcome(decide(second("blue"), plan, "approve")) == (404, "not_found")
    assert outcome(decide(second("blue"), plan, "reject")) == (404, "not_found")
    assert second("blue").get("/admin/django_copilot/plan/", headers=JSON).json()["waiting"] == 0
    waiting = second("red").get("/admin/django_copilot/plan/", headers=JSON).json()
    assert [each["id"] for each in waiting["plans"]] == [plan["id"]]
    assert titles() == {"red": "book", "blue": "book"}
    assert outcome(decide(second("red"), plan, "approve")) == (200, "executed")
    assert titles() == {"red": "new", "blue": "book"}
    assert LedgerAdmin.saved_in == [("red", "red")]


def test_whether_an_approver_sees_the_record_is_asked_in_her_own_tenant(tenants: Project) -> None:
    """A plan whose tenant was changed in the database is not approved on another tenant's rows."""
    retitle(approval=Always())
    red = client_of(tenants, "red")
    plan = propose(red, "retitle", {"title": "book", "new": "new"})
    decide(red, plan, "confirm")
    with tenant("blue"):
        blue_key = propose_key(tenants)
    Plan.objects.filter(pk=plan["id"]).update(scope_key=blue_key)
    assert outcome(decide(second("blue"), plan, "approve")) == (403, "approver_cannot_see")
    assert titles() == {"red": "book", "blue": "book"}


def propose_key(tenants: Project) -> str:
    """Return the key under which the blue tenant's plans are kept."""
    from django_copilot.scope import Scope

    return Scope(site="admin", keys={"tenant": "blue"}).key


def test_a_turn_goes_on_in_the_tenant_in_which_it_began(tenants: Project) -> None:
    """hazard 166"""
    retitle()
    with tenant("blue"):
        depot.Ledger.objects.create(title="blue only")
    red = client_of(tenants, "red")
    with script(Call("retitle", {"title": "book", "new": "new"})):
        answer = ask(red, "Do it")
    assert outcome(decide(red, answer["plan"], "confirm")) == (200, "executed")
    body = {"conversationId": answer["conversationId"], "continue": answer["plan"]["id"]}
    with script():
        assert told(post(client_of(tenants, "blue"), body)) == (404, "not_found")
    with script(Call("query_ledger"), Text("That is all.")) as model:
        assert told(post(red, body)) == (200, "")
    decision, read = results(model.request)
    assert decision["now"] == {"title": "new"}
    assert [row["title"] for row in read["rows"]] == ["new"]
    assert_not_sent(model, "blue only")


# -- a scope that is missing or fails -----------------------------------------------------------------------


@pytest.mark.parametrize("scope", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("what", ["confirm", "approve", "undo"])
def test_where_the_tenant_can_not_be_entered_nothing_is_decided(
    tenants: Project, scope: Any, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """hazard 167"""
    retitle(approval=Always() if what == "approve" else None)
    red = client_of(tenants, "red")
    plan = propose(red, "retitle", {"title": "book", "new": "new"})
    if what != "confirm":
        decide(red, plan, "confirm")
    before, state = titles(), stored(plan).state
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": scope}
    status, body = decide(second("red") if what == "approve" else red, plan, what)
    assert status in (403, 409, 500)
    assert body["code"] in ("failed", "scope_unavailable", "not_allowed")
    assert "register" not in json.dumps(body)
    assert (titles(), stored(plan).state) == (before, state)
    assert "COPILOT['SCOPE']" in caplog.text


def test_without_the_setting_a_tenants_plan_is_not_there(tenants: Project) -> None:
    """hazard 167"""
    retitle()
    red = client_of(tenants, "red")
    plan = propose(red, "retitle", {"title": "book", "new": "new"})
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": None}
    for what in ACTIONS:
        assert outcome(decide(red, plan, what)) == (404, "not_found")
    assert titles() == {"red": "book", "blue": "book"}
    # Nor does a stored key that names nobody's scope open it.
    Plan.objects.filter(pk=plan["id"]).update(scope_key="")
    assert outcome(decide(red, plan, "confirm")) == (409, "scope_unavailable")
    assert (titles(), stored(plan).state) == ({"red": "book", "blue": "book"}, PlanState.PROPOSED)


@pytest.mark.parametrize(
    "keep", [{}, {"keys": {"tenant": "blue"}}, {"site": "admin", "nonsense": 1}, {"keys": {}}], ids=repr
)
def test_a_stored_scope_that_was_tampered_with_carries_nothing_out_in_another_tenant(
    tenants: Project, keep: dict[str, Any]
) -> None:
    """The digest is over the tenant, and the record over its rows."""
    retitle()
    red = client_of(tenants, "red")
    plan = propose(red, "retitle", {"title": "book", "new": "new"})
    given = {**stored(plan).scope, **keep} if "keys" in keep else keep
    Plan.objects.filter(pk=plan["id"]).update(scope=given)
    status, body = decide(red, plan, "confirm")
    assert status in (403, 409), body
    assert titles() == {"red": "book", "blue": "book"}
    assert stored(plan).state in (PlanState.PROPOSED, PlanState.STALE)


def test_a_turn_that_waits_does_not_go_on_without_its_tenant(tenants: Project) -> None:
    """hazard 167"""
    retitle()
    red = client_of(tenants, "red")
    with script(Call("retitle", {"title": "book", "new": "new"})):
        answer = ask(red, "Do it")
    decide(red, answer["plan"], "reject")
    body = {"conversationId": answer["conversationId"], "continue": answer["plan"]["id"]}
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": BROKEN["enter fails"]}
    with script():
        assert told(post(red, body)) == (500, "failed")
    assert Turn.objects.get().state == TurnState.WAITING
    tenants.settings.COPILOT = {**tenants.settings.COPILOT, "SCOPE": TenantScope}
    with script(Text("As you say.")):
        assert told(post(red, body)) == (200, "")


# -- an operation outside -----------------------------------------------------------------------------------


@pytest.fixture
def outside(tenants: Project) -> list[tuple[str, str]]:
    """Declare an external tool; gives in which tenant each of its steps ran."""
    ran: list[tuple[str, str]] = []

    def seen(step: str) -> None:
        ran.append((step, getattr(_tenant, "name", None) or "none"))

    def announce(ctx: Any, title: str) -> Preview:
        """Announce a ledger."""
        seen("preview")
        found = ctx.get(depot.Ledger, title=title)
        return Preview(found, payload={"pk": found.pk})

    made = write_tool(depot.Ledger)(announce)

    @made.reserve
    def reserve(ctx: Any, preview: Preview, grant: Any) -> None:
        seen("reserve")

    @made.call
    def call(payload: Any, key: str) -> dict[str, Any]:
        seen("call")
        raise TimeoutError

    @made.look_up
    def look_up(payload: Any, key: str) -> dict[str, Any]:
        seen("look_up")
        return {"number": "1"}

    @made.settle
    def settle(grant: Any, succeeded: bool, result: Any) -> None:
        seen("settle")
        depot.Ledger.objects.update(title="announced")

    return ran


def test_every_step_of_an_operation_outside_runs_in_its_tenant(
    tenants: Project, outside: list[tuple[str, str]]
) -> None:
    """hazard 166"""
    red = client_of(tenants, "red")
    plan = propose(red, "announce", {"title": "book"})
    assert outcome(decide(red, plan, "confirm")) == (200, "uncertain")
    assert outcome(decide(red, plan, "lookUp")) == (200, "executed")
    assert {step for step, _name in outside} == {"preview", "reserve", "call", "look_up", "settle"}
    assert {name for _step, name in outside} == {"red"}
    assert titles() == {"red": "announced", "blue": "book"}


def test_its_steps_do_not_depend_on_what_the_middleware_left_in_the_thread(
    tenants: Project, outside: list[tuple[str, str]]
) -> None:
    """hazard 166

    A tenant may be known from the request alone, and nothing but the scope set it for the project's code.
    """
    tenants.settings.MIDDLEWARE = [
        *[each for each in tenants.settings.MIDDLEWARE if not each.endswith("by_header")],
        "tests.projects.test_tenant_tools.on_the_request_only",
    ]
    red = client_of(tenants, "red")
    plan = propose(red, "announce", {"title": "book"})
    assert outcome(decide(red, plan, "confirm")) == (200, "uncertain")
    assert outcome(decide(red, plan, "lookUp")) == (200, "executed")
    assert {name for _step, name in outside} == {"red"}
    assert titles() == {"red": "announced", "blue": "book"}


def on_the_request_only(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Note the tenant on the request, as some middleware does."""

    def middleware(request: Any) -> Any:
        request.tenant = request.headers.get("X-Tenant", "red")
        return get_response(request)

    return middleware


# -- headless -----------------------------------------------------------------------------------------------


@pytest.fixture
def alone(tenants: Project) -> Iterator[Project]:
    """Give the project with its own sites alone: the example's has the same name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "all_sites", WeakSet(tenants.sites.values()))
        yield tenants


def headless(*options: str, message: str = "Do it") -> dict[str, Any]:
    out = io.StringIO()
    call_command("copilot_ask", message, "--user", "boss", "--json", *options, stdout=out)
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


@pytest.mark.parametrize(("mine", "other"), [("red", "blue"), ("blue", "red")])
def test_headless_it_works_in_the_tenant_that_is_named(alone: Project, mine: str, other: str) -> None:
    """hazard 168"""
    retitle()
    client_of(tenants, mine)
    with tenant(other):
        depot.Ledger.objects.create(title="other only")
    calls = [Call("query_ledger"), Call("retitle", {"title": "book", "new": "new"}), Text("I could not.")]
    with script(*calls) as model:
        report = headless("--scope", f"tenant={mine}")
    rows = results(model.request)[0]["rows"]
    assert [(row["id"], row["title"]) for row in rows] == [(str(ledger(mine).pk), "book")]
    (denied,) = report["denied"]
    assert stored(denied).object_pk == str(ledger(mine).pk)
    assert stored(denied).scope["keys"] == {"tenant": mine}
    assert "denied by automatic policy: " in denied["reason"]
    assert depot.Ledger.everything.filter(title="book").count() == 2
    # It is the person's own in that tenant and in no other one.
    assert look(client_of(tenants, mine), denied)["state"] == "rejected"
    assert client_of(tenants, other).get(denied["url"], headers=JSON).status_code == 404


@pytest.mark.parametrize(
    "options",
    [(), ("--scope", "x=y"), ("--scope", "tenant"), ("--scope", "tenant=red", "--scope", "tenant=blue")],
)
def test_headless_without_the_tenant_nothing_is_asked(alone: Project, options: tuple[str, ...]) -> None:
    """hazard 168"""
    client_of(tenants, "red")
    with script(), pytest.raises(CommandError, match=r"--scope|COPILOT\['SCOPE'\]"):
        headless(*options)
    assert not Conversation.objects.exists()


def test_headless_the_tenant_is_asked_for_even_where_the_project_could_do_without(alone: Project) -> None:
    """hazard 168"""
    client_of(alone, "red")

    @contextmanager
    def enter(values: dict[str, str], request: Any) -> Iterator[None]:
        with tenant(values.get("tenant", "red")):
            request.tenant = values.get("tenant", "red")
            yield

    scope = {"capture": TenantScope.capture, "enter": enter}
    alone.settings.COPILOT = {**alone.settings.COPILOT, "SCOPE": scope}
    with script(), pytest.raises(CommandError, match="name it with --scope"):
        headless()
    assert not Conversation.objects.exists()


def test_headless_a_tenant_that_can_not_be_entered_is_refused(alone: Project) -> None:
    """hazard 168"""
    client_of(tenants, "red")
    alone.settings.COPILOT = {**alone.settings.COPILOT, "SCOPE": BROKEN["enter fails"]}
    with script(), pytest.raises(CommandError, match=r"COPILOT\['SCOPE'\] could not enter"):
        headless("--scope", "tenant=red")
    assert not Conversation.objects.exists()


def test_headless_it_has_the_rights_of_that_person_in_that_tenant(alone: Project) -> None:
    boss = alone.person("depot.view_ledger", name="boss")
    with script(
        Call("open_ledger_form", {"id": str(ledger("red").pk), "fields": {"title": "x"}}), Text("No.")
    ):
        report = headless("--scope", "tenant=red")
    assert report["denied"] == []
    boss.user_permissions.remove(Permission.objects.get(codename="use_copilot"))
    with script(), pytest.raises(CommandError, match="not_allowed"):
        headless("--scope", "tenant=red")
