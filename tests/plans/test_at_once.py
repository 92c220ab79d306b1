"""Two people, or one person's two clicks, in the same second: real threads, real transactions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection, connections, transaction

from django_copilot.models import Plan, PlanState
from tests.formapp.models import Memo, Parcel
from tests.forms.conftest import client_of
from tests.forms.pages import Page, fill, plan_of

from .tools import at_once

THREADS = 8


@pytest.fixture(autouse=True)
def _addresses(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.formapp.urls"


@pytest.fixture
def boss(transactional_db: None) -> User:
    """Return a superuser."""
    return User.objects.create_superuser("boss", password="x")


def post(user: User, page: Page, **changed: Any) -> Callable[[], Any]:
    """Return the work of sending the form from a browser of that person's."""
    client = client_of(user)
    sent = {**page.data, **changed, "_save": "1"}
    return lambda: client.post(page.url, sent)


def test_a_new_record_is_saved_once_by_eight_submits_at_once(boss: User) -> None:
    """Hazard 41."""
    page = fill(client_of(boss), "open_memo_form", {"title": "Once"})
    answers = at_once(*[post(boss, page) for _ in range(THREADS)])
    made = Memo.objects.get()
    assert {answer.status_code for answer in answers} == {302}
    assert sum(answer["Location"].endswith(f"/{made.pk}/change/") for answer in answers) == THREADS - 1
    assert LogEntry.objects.count() == 1
    assert (plan_of(page).state, plan_of(page).result_pk) == (PlanState.EXECUTED, str(made.pk))


def test_a_changed_record_is_saved_once_by_eight_submits_at_once(boss: User) -> None:
    """Hazard 41."""
    parcel = Parcel.objects.create(title="Old")
    page = fill(client_of(boss), "open_parcel_form", {"title": "New"}, id=str(parcel.pk))
    at_once(*[post(boss, page, note=f"number {number}") for number in range(THREADS)])
    assert LogEntry.objects.count() == 1
    assert Parcel.history.filter(history_type="~").count() == 1


def test_of_two_plans_for_one_record_only_the_first_to_be_saved_is(boss: User) -> None:
    """Hazard 47."""
    other = User.objects.create_superuser("other")
    parcel = Parcel.objects.create(title="Old")
    pages = [
        (user, fill(client_of(user), "open_parcel_form", {"title": f"By {user}"}, id=str(parcel.pk)))
        for user in (boss, other)
    ]
    answers = at_once(*[post(user, page) for user, page in pages])
    assert sorted(answer.status_code for answer in answers) == [200, 302]
    winner = "boss" if answers[0].status_code == 302 else "other"
    assert Parcel.objects.get().title == f"By {winner}"
    loser = next(answer for answer in answers if answer.status_code == 200)
    assert f"{winner} changed this record" in str(loser.context["adminform"].form.errors["__all__"])
    assert sorted(Plan.objects.values_list("state", flat=True)) == ["executed", "proposed"]


def test_saving_and_starting_again_at_once_leave_one_way_open(boss: User) -> None:
    parcel = Parcel.objects.create(title="Old")
    page = fill(client_of(boss), "open_parcel_form", {"title": "New"}, id=str(parcel.pk))
    client = client_of(boss)
    plan = page.plan
    saved, again = at_once(post(boss, page), lambda: client.post(f"/forms/django_copilot/plan/{plan}/again/"))
    state = Plan.objects.get(pk=plan).state
    assert again.status_code == 302
    if saved.status_code == 302:
        assert state == PlanState.EXECUTED
        assert Plan.objects.count() == 1
    else:
        assert state == PlanState.REJECTED
        assert Parcel.objects.get().title == "Old"


@pytest.mark.postgres
def test_the_record_is_locked_before_it_is_compared(boss: User) -> None:
    """Hazard 47: who changes it in a transaction that is still open is waited for, and seen."""
    parcel = Parcel.objects.create(title="Old")
    page = fill(client_of(boss), "open_parcel_form", {"title": "New"}, id=str(parcel.pk))
    work = post(boss, page)
    answers: list[Any] = []

    def submit() -> None:
        try:
            answers.append(work())
        finally:
            connections.close_all()

    thread = threading.Thread(target=submit, daemon=True)
    with transaction.atomic():
        Parcel.objects.filter(pk=parcel.pk).update(note="Theirs")
        thread.start()
        thread.join(1.5)
        assert thread.is_alive()  # it waits for this transaction
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            waiting = [row[0] for row in cursor.fetchall()]
        assert any("FOR UPDATE" in query and "formapp_parcel" in query for query in waiting), waiting
    thread.join(60)
    assert answers[0].status_code == 200
    assert "Note: Theirs" in str(answers[0].context["adminform"].form.errors["__all__"])
    assert Parcel.objects.get().title == "Old"
