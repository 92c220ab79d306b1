"""The switch itself, its command, and what it stops: at once, on every worker, together with the audit."""

from __future__ import annotations

import functools
import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from django_copilot import audit, switch
from django_copilot.models import AuditEntry, AuditValue, Switch

from ..plans.tools import at_once

REASON = "The gateway is down."


def told() -> list[tuple[str, str, str, str]]:
    entries = AuditEntry.objects.filter(event="switched").order_by("number")
    return list(entries.values_list("site", "code", "actor", "scope_key"))


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("copilot_switch", *arguments, stdout=out)
    return out.getvalue()


def test_it_is_on_until_somebody_turns_it_off_and_for_that_site_only(db: None) -> None:
    assert not switch.is_off("admin")
    switch.turn("admin", off=True, by=None)
    assert switch.is_off("admin")
    assert not switch.is_off("other")
    switch.turn("admin", off=False, by=None)
    assert not switch.is_off("admin")


def test_each_answer_is_one_query_and_none_is_remembered(db: None, django_assert_num_queries: Any) -> None:
    for off in (True, False):
        Switch.objects.update_or_create(site="admin", defaults={"is_off": off})  # as another worker does
        with django_assert_num_queries(1):
            assert switch.is_off("admin") is off


def test_it_can_be_asked_along_with_another_query(db: None) -> None:
    User.objects.create_user("ann")
    for off in (True, False):
        switch.turn("admin", off=off, by=None)
        assert User.objects.annotate(off=switch.off_annotation("admin")).get().off is off
        assert User.objects.annotate(off=switch.off_annotation("other")).get().off is False


def test_who_turned_it_when_and_why_is_stored_and_audited(db: None) -> None:
    ann = User.objects.create_user("ann")
    switch.turn("admin", off=True, by=ann, reason=f"  {REASON} ")
    switch.turn("admin", off=False, by=None)
    assert told() == [("admin", "off", str(ann.pk), ""), ("admin", "on", "", "")]
    given = AuditValue.objects.order_by("entry__number").values_list("name", "value", "person")
    assert list(given) == [("reason", REASON, str(ann.pk)), ("reason", "", "")]
    assert [each.about for each in AuditEntry.objects.order_by("number")] == [
        {"reason_given": True},
        {"reason_given": False},
    ]
    now = switch.state_of("admin")
    assert (now.is_off, now.changed_by, now.reason) == (False, "", "")
    assert audit.verify("admin") is None


@pytest.mark.parametrize("reason", ["x" * 5_000, "a\x00b\ud800", "‮gnorw"])
def test_any_reason_can_be_stored(db: None, reason: str) -> None:
    switch.turn("admin", off=True, by=None, reason=reason)
    stored = switch.state_of("admin").reason
    assert 0 < len(stored) <= 200
    assert AuditValue.objects.get().value == stored


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("off", [True, False])
def test_without_an_audit_it_is_not_turned(off: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    switch.turn("admin", off=not off, by=None, reason=REASON)

    def broken(*args: Any) -> None:
        raise RuntimeError("no audit")

    monkeypatch.setattr(audit, "append", broken)
    with pytest.raises(RuntimeError):
        switch.turn("admin", off=off, by=None)
    now = switch.state_of("admin")
    assert (now.is_off, now.reason) == (not off, REASON)


@pytest.mark.django_db(transaction=True)
def test_several_at_once_leave_it_as_the_last_entry_of_the_audit_says() -> None:
    wanted = [True, False] * 4
    at_once(*(functools.partial(switch.turn, "admin", off=off, by=None, reason=str(off)) for off in wanted))
    entries = told()
    assert sorted(code for _, code, *_ in entries) == ["off"] * 4 + ["on"] * 4
    now = switch.state_of("admin")
    assert (now.is_off, now.reason) == (entries[-1][1] == "off", str(now.is_off))
    assert audit.verify("admin") is None


# -- the command -----------------------------------------------------------------------------------------


def test_the_command_turns_it_and_tells_how_it_is(db: None) -> None:
    assert command("status") == "admin: the assistant is on.\n"
    assert not Switch.objects.exists()
    said = command("off", "--reason", REASON)
    assert said.startswith("admin: the assistant is off, since 2")
    assert said.endswith(f", by the command line: {REASON}\n")
    assert command("status") == said
    assert switch.is_off("admin")
    assert command("on").endswith(", by the command line.\n")
    assert not switch.is_off("admin")
    assert told() == [("admin", "off", "", ""), ("admin", "on", "", "")]


def test_the_command_names_the_account_of_who_turned_it(db: None) -> None:
    ann = User.objects.create_user("ann")
    switch.turn("admin", off=True, by=ann)
    assert f", by account {ann.pk}." in command("status", "--site", "admin")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("off", "--site", "nowhere"), "There are: admin"),
        (("status", "--site", ""), "There are: admin"),
        (("off", "--reason", "x" * 201), "at most 200"),
        (("status", "--reason", "x"), "goes with on and off"),
        (("toggle",), "invalid choice"),
        ((), "action"),
    ],
)
def test_a_command_that_can_not_be_carried_out_says_why(
    db: None, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CommandError) as error:
        command(*arguments)
    assert words in str(error.value)
    assert not Switch.objects.exists()
    assert not AuditEntry.objects.exists()
