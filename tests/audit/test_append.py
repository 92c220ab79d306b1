"""Appending: what is stored, in which order, and that nothing is stored where it fails."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_copilot import audit
from django_copilot.models import AuditEntry, AuditValue

from .chains import SITE, chain, entry, record, value


@pytest.mark.django_db
def test_entries_are_numbered_and_linked_and_hold_no_value() -> None:
    chain(2)
    chain(1, site="other")
    audit.append(SITE, "k", record(3, values=()))
    rows = list(AuditEntry.objects.filter(site=SITE).order_by("number"))
    assert [each.number for each in rows] == [1, 2, 3]
    assert [each.previous for each in rows] == ["", rows[0].digest, rows[1].digest]
    assert [each.scope_key for each in rows] == ["", "", "k"]
    assert entry(1, "other").previous == ""
    first = rows[0]
    assert (first.event, first.code, first.actor, first.real_actor) == ("proposed", "stale", "7", "8")
    assert (first.conversation, first.turn, first.plan, first.tool) == ("c", "t", "plan 1", "propose_refund")
    assert set(first.commitments) == {"words", "old status", "new status"}
    assert "Refund" not in str([vars(each) for each in rows])


@pytest.mark.django_db
def test_values_lie_beside_with_a_salt_each_and_say_whose_they_are() -> None:
    chain(2)
    words, status = value(1, "words"), value(1, "new status")
    assert (words.value, words.person, words.model) == ("Refund 1", "7", "")
    assert (status.value, status.person) == (["a", 1, None], "")
    assert (status.model, status.object_pk, status.field) == ("store.order", "3", "status")
    salts = list(AuditValue.objects.values_list("salt", flat=True))
    assert len(set(salts)) == len(salts) == 6
    assert {len(bytes.fromhex(each)) for each in salts} == {32}


@pytest.mark.django_db
def test_nothing_to_append_is_nothing() -> None:
    with CaptureQueriesContext(connection) as queries:
        audit.append(SITE, "")
    assert len(queries) == 0


@pytest.mark.django_db(transaction=True)
def test_an_append_is_three_statements() -> None:
    chain(1)
    with CaptureQueriesContext(connection) as queries:
        chain(3)
    kinds = [each["sql"].split()[0] for each in queries if each["sql"].split()[0] not in ("BEGIN", "COMMIT")]
    locks = ["SELECT"] if connection.vendor == "mysql" else []
    assert kinds == [*locks, "SELECT", "INSERT", "INSERT"]


@pytest.mark.django_db(transaction=True)
def test_an_append_belongs_to_the_transaction_of_its_caller() -> None:
    chain(1)

    def work() -> None:
        with transaction.atomic():
            chain(2)
            assert AuditEntry.objects.count() == 3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert AuditEntry.objects.count() == 1
    assert AuditValue.objects.count() == 3
    chain(1)
    assert audit.verify(SITE) is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "wrong",
    [
        {"event": "e" * 41},
        {"tool": "t" * 65},
        {"actor": "a" * 65},
        {"values": (audit.Value(name="n" * 101, value=1),)},
        {"values": (audit.Value(name="n", value=1), audit.Value(name="n", value=2))},
        {"values": (audit.Value(name="n", value=1, object_pk="p" * 201),)},
    ],
    ids=str,
)
def test_what_no_column_holds_is_an_error_and_nothing_is_stored(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="audit"), transaction.atomic():
        audit.append(SITE, "", record(1), record(2, **wrong))
    assert not AuditEntry.objects.exists()
    assert not AuditValue.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_failure_of_the_audit_takes_the_callers_work_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("full")

    def work() -> None:
        with transaction.atomic():
            AuditEntry.objects.update(code="work")
            chain(1)

    chain(1)
    monkeypatch.setattr("django_copilot.audit.chain.rows_of", fail)
    with pytest.raises(OSError, match="full"):
        work()
    assert entry(1).code == "stale"


@pytest.mark.django_db(transaction=True)
def test_without_its_values_no_entry_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, rows: list[Any], **kwargs: Any) -> None:
        raise OSError("full")

    real = QuerySet.bulk_create
    monkeypatch.setattr(
        QuerySet,
        "bulk_create",
        lambda self, *a, **k: (fail if self.model is AuditValue else real)(self, *a, **k),
    )
    with pytest.raises(OSError, match="full"):
        chain(1)
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
def test_what_is_no_json_is_kept_as_text_and_still_verifies() -> None:
    given = {
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "price": Decimal("1.50"),
        "text": "nul \x00 and \ud800",
        "big": 1e16,
        "huge": 1e300,
        "zero": -0.0,
        "none": float("nan"),
        "of": [1e23, 5e-324, 10**40, True],
    }
    audit.append(SITE, "", record(1, about=given, values=(audit.Value(name="v", value=given),)))
    assert value(1, "v").value["price"] == "1.50"
    assert value(1, "v").value["text"] == "nul \ufffd and ?"
    assert audit.verify(SITE) is None


@pytest.mark.django_db
def test_a_value_that_is_null_is_a_value() -> None:
    audit.append(SITE, "", record(1, values=(audit.Value(name="v", value=None),)))
    assert audit.verify(SITE) is None
    assert value(1, "v").salt


@pytest.mark.django_db
def test_without_time_zones_a_chain_verifies_as_well(settings: Any) -> None:
    settings.USE_TZ = False
    chain(2)
    assert audit.verify(SITE) is None


@pytest.mark.django_db
def test_the_head_is_where_the_chain_ends() -> None:
    assert audit.head(SITE) == {"site": SITE, "number": 0, "digest": "", "at": ""}
    chain(2)
    last = entry(2)
    head = audit.head(SITE)
    assert head == {"site": SITE, "number": 2, "digest": last.digest, "at": head["at"]}
    assert datetime.datetime.fromisoformat(head["at"]) == last.at
