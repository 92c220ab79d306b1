"""What is asked of plans of kinds form and delete, each condition by itself."""

from __future__ import annotations

import datetime
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from django_copilot.models import Conversation, Message, Plan, PlanKind, PlanState, Turn
from django_copilot.plans import pages
from django_copilot.scope import Scope

from .tools import audited, staff

HERE = Scope(site="admin")
NOW = timezone.now()
LATER = NOW + datetime.timedelta(hours=1)


class Desk:
    """A person with a conversation and a turn in it, and plans of hers."""

    def __init__(self) -> None:
        self.user = staff("anna")
        self.conversation = self.talk(self.user)
        self.turn = self.take(self.conversation)

    def talk(self, user: User) -> Conversation:
        return Conversation.objects.create(
            user=user, site=HERE.site, scope_key=HERE.key, scope=HERE.to_json()
        )

    def take(self, conversation: Conversation) -> Turn:
        return Turn.objects.create(conversation=conversation, user=conversation.user, deadline=LATER)

    def plan(self, **values: Any) -> Plan:
        given = {
            "user": self.user,
            "conversation": self.conversation,
            "turn": self.turn,
            "kind": PlanKind.FORM,
            "model": "store.order",
            "object_pk": "7",
            "expires_at": LATER,
            "submit_by": LATER,
            "site": HERE.site,
            "scope_key": HERE.key,
            "scope": HERE.to_json(),
        }
        return Plan.objects.create(**{**given, **values})


@pytest.fixture
def desk(db: None) -> Desk:
    return Desk()


# -- once more on what the record holds now ---------------------------------------------------------------


def another(desk: Desk, name: str) -> Any:
    """Return another value of that column."""
    return {
        "user": staff("bert"),
        "turn": desk.take(desk.talk(staff("carl"))),
        "kind": PlanKind.DELETE,
        "model": "store.product",
        "object_pk": "8",
        "state": PlanState.REJECTED,
    }[name]


def test_a_plan_that_is_over_gives_the_one_that_was_made_in_its_place(desk: Desk) -> None:
    old, _older, newer = desk.plan(state=PlanState.REJECTED), desk.plan(), desk.plan()
    assert pages.renew(old, scope=HERE, base={}) == newer


@pytest.mark.parametrize("name", ["user", "turn", "kind", "model", "object_pk", "state"])
def test_a_plan_of_something_else_is_not_in_its_place(desk: Desk, name: str) -> None:
    old = desk.plan(state=PlanState.REJECTED)
    desk.plan(**{name: another(desk, name)})
    assert pages.renew(old, scope=HERE, base={}) is None


def test_an_open_plan_is_closed_for_the_new_one(desk: Desk) -> None:
    old = desk.plan(values={"a": 1})
    new = pages.renew(old, scope=HERE, base={"a": 0})
    assert new is not None
    assert (new.values, new.base, new.state) == ({"a": 1}, {"a": 0}, "proposed")
    assert Plan.objects.get(pk=old.pk).state == "rejected"


# -- since when she was at it -----------------------------------------------------------------------------


def say(conversation: Conversation, minutes: int, role: str = Message.Role.USER) -> datetime.datetime:
    at = NOW + datetime.timedelta(minutes=minutes)
    turn = Turn.objects.filter(conversation=conversation).first()
    if turn is None:
        turn = Turn.objects.create(conversation=conversation, user=conversation.user, deadline=LATER)
    made = Message.objects.create(conversation=conversation, turn=turn, role=role, text="x")
    Message.objects.filter(pk=made.pk).update(created_at=at)
    return at


def test_she_began_with_her_first_message_since_the_last_operation_of_the_conversation(desk: Desk) -> None:
    other = desk.talk(staff("bert"))
    say(other, -9)
    say(desk.conversation, -8, Message.Role.ASSISTANT)
    first = say(desk.conversation, -7)
    say(desk.conversation, -6)
    assert pages.asked_at(desk.conversation, desk.turn) == first
    desk.plan(conversation=other, ended_at=NOW)  # which is no end of hers
    assert pages.asked_at(desk.conversation, desk.turn) == first
    desk.plan(ended_at=NOW - datetime.timedelta(minutes=5))
    assert pages.asked_at(desk.conversation, desk.turn) == desk.turn.started_at
    assert pages.asked_at(desk.conversation, None) is None
    again = say(desk.conversation, -4)
    assert pages.asked_at(desk.conversation, desk.turn) == again


def test_without_a_conversation_she_began_with_the_turn(desk: Desk) -> None:
    say(desk.conversation, -7)
    assert pages.asked_at(None, desk.turn) == desk.turn.started_at
    assert pages.asked_at(None, None) is None


# -- opening, claiming, closing ---------------------------------------------------------------------------

PAST = NOW - datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    ("values", "opens", "claims"),
    [
        ({}, True, True),
        ({"expires_at": PAST}, False, True),
        ({"submit_by": PAST}, True, False),
        ({"state": PlanState.REJECTED}, False, False),
        ({"state": PlanState.EXECUTED}, False, False),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)
def test_a_plan_is_opened_and_claimed_within_its_windows(
    desk: Desk, values: dict[str, Any], opens: bool, claims: bool
) -> None:
    other, plan = desk.plan(), desk.plan(**values)
    assert pages.is_openable(plan) is opens
    assert pages.claim(plan) is claims
    assert pages.claim(plan) is False
    assert pages.is_openable(plan) is (opens and not claims)
    assert pages.is_openable(other)
    pages.withdraw_claim(other)
    if claims:
        assert Plan.objects.get(pk=plan.pk).state == "executed"
        pages.withdraw_claim(plan)
        assert pages.claim(plan) is True


def test_a_plan_is_declined_while_it_is_open_and_no_other_with_it(desk: Desk) -> None:
    plan, other = desk.plan(), desk.plan()
    assert [pages.reject(plan), pages.reject(plan)] == [True, False]
    assert Plan.objects.get(pk=other.pk).state == "proposed"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, True),
        ({"site": "other"}, False),
        ({"scope_key": "other"}, False),
        ({"user": None}, False),
        ({"kind": PlanKind.DELETE}, False),
    ],
    ids=str,
)
def test_a_plan_is_found_by_its_owner_here_and_of_that_kind(desk: Desk, values: Any, found: bool) -> None:
    plan = desk.plan(**values)
    assert (pages.find_plan(desk.user, HERE, str(plan.pk), kind=PlanKind.FORM) == plan) is found
    for text in (str(uuid.uuid4()), "x", None, 7):
        assert pages.find_plan(desk.user, HERE, text) is None


@pytest.mark.parametrize(
    ("values", "params"),
    [
        ({"kind": PlanKind.DELETE}, {"aiAction": "delete", "aiId": "7"}),
        ({}, {"aiAction": "edit", "aiId": "7"}),
        ({"object_pk": ""}, {"aiAction": "create"}),
    ],
    ids=str,
)
def test_a_page_is_opened_for_what_the_plan_is(desk: Desk, values: Any, params: dict[str, str]) -> None:
    plan = desk.plan(**values)
    assert pages.query_params(plan) == {**params, "aiPlan": str(plan.pk)}


@pytest.mark.parametrize(
    ("values", "closed"),
    [
        ({}, 1),
        ({"kind": PlanKind.FORM}, 0),
        ({"model": "store.product"}, 0),
        ({"object_pk": "8"}, 0),
        ({"state": PlanState.REJECTED}, 0),
        ({"site": "other"}, 0),
        ({"scope_key": "other"}, 0),
    ],
    ids=str,
)
def test_a_record_that_was_deleted_closes_what_was_proposed_for_that(
    desk: Desk, values: Any, closed: int
) -> None:
    plan = desk.plan(**{"kind": PlanKind.DELETE, **values})
    before = Plan.objects.get(pk=plan.pk).state
    assert pages.close_deleted(desk.user, HERE, "store.order", "7") == closed
    after = Plan.objects.get(pk=plan.pk)
    assert after.state == ("executed" if closed else before)
    assert after.result_pk == ("7" if closed else "")


def test_a_conversation_that_is_deleted_closes_its_own_open_plans(desk: Desk) -> None:
    other = desk.talk(staff("bert"))
    plans = [
        desk.plan(),
        desk.plan(state=PlanState.AWAITING_APPROVAL),
        desk.plan(state=PlanState.EXECUTING),
        desk.plan(conversation=other),
    ]
    told = pages.reject_open(desk.conversation)
    assert [Plan.objects.get(pk=each.pk).state for each in plans] == [
        "rejected",
        "rejected",
        "executing",
        "proposed",
    ]
    assert sorted(each.plan for each in told) == sorted(str(each.pk) for each in plans[:2])


# -- what the audit is told -------------------------------------------------------------------------------


def test_what_a_form_was_saved_as_is_kept_and_told(desk: Desk) -> None:
    plan, other = desk.plan(), desk.plan()
    pages.record_result(plan, "12")
    plan.refresh_from_db()
    other.refresh_from_db()
    assert (plan.result_pk, plan.ended_at is not None) == ("12", True)
    assert (other.result_pk, other.ended_at) == ("", None)
    assert audited({"id": plan.pk}) == [("executed", "")]


def test_that_a_record_was_deleted_is_told(desk: Desk) -> None:
    plan = desk.plan(kind=PlanKind.DELETE)
    pages.close_deleted(desk.user, HERE, "store.order", "7")
    assert audited({"id": plan.pk}) == [("executed", "")]


def test_a_plan_that_was_declined_meanwhile_is_not_closed_as_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = desk.plan(kind=PlanKind.DELETE)
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.REJECTED)
    found = SimpleNamespace(filter=lambda **conditions: [plan])  # as it was a moment ago
    monkeypatch.setattr(pages, "own_plans", lambda user, scope: found)
    pages.close_deleted(desk.user, HERE, "store.order", "7")
    assert Plan.objects.get(pk=plan.pk).state == "rejected"


def test_an_undo_that_is_closed_with_its_conversation_is_open_no_more(desk: Desk) -> None:
    done = desk.plan(state=PlanState.EXECUTED)
    undo = desk.plan(undo_of=done, open_undo_of=done)
    pages.reject_open(desk.conversation)
    undo.refresh_from_db()
    assert (undo.state, undo.open_undo_of) == ("rejected", None)
