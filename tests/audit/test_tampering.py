"""Every way to change a chain in the database is found, at the first entry that it touches."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from django_copilot import audit
from django_copilot.audit import sealing
from django_copilot.audit.records import rows_of
from django_copilot.audit.verification import CHUNK
from django_copilot.models import AuditEntry, AuditValue

from .chains import KEYS, SITE, chain, edit, entry, record, remove, value

pytestmark = pytest.mark.django_db

OTHER_TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ENTRY_COLUMNS: dict[str, Any] = {
    "site": "other",
    "number": 77,
    "at": OTHER_TIME,
    "event": "executed",
    "code": "",
    "actor": "9",
    "real_actor": "",
    "scope_key": "k",
    "conversation": "",
    "turn": "",
    "plan": "",
    "tool": "",
    "about": {"rows": 3, "share": 0.5, "names": ["a", "ż"]},
    "commitments": {},
    "key_version": "3",
    "previous": "0" * 64,
    "digest": "0" * 64,
}
VALUE_COLUMNS: dict[str, Any] = {
    "entry": 3,
    "name": "word",
    "value": "Refund 3",
    "salt": "0" * 64,
    "person": "9",
    "model": "store.order",
    "object_pk": "4",
    "field": "status",
    "erased_at": OTHER_TIME,
}


@pytest.fixture(params=["plain", "signed"], autouse=True)
def keys(request: pytest.FixtureRequest, settings: Any) -> None:
    """Run everything without keys, and with two of them."""
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": KEYS if request.param == "signed" else {}}


def broken_at() -> int | None:
    """Return the number of the entry that is named, or None."""
    problem = audit.verify(SITE)
    assert problem is None or (problem.site == SITE and problem.what)
    return problem.number if problem else None


def test_the_tests_below_know_every_column() -> None:
    for model, known in ((AuditEntry, ENTRY_COLUMNS), (AuditValue, VALUE_COLUMNS)):
        assert {each.name for each in model._meta.concrete_fields} == {*known, "id"}
    assert {*sealing.SEALED, "at", "digest"} == {*ENTRY_COLUMNS}


def test_a_chain_that_nobody_touched_verifies() -> None:
    assert broken_at() is None
    chain()
    assert broken_at() is None


@pytest.mark.parametrize("column", ENTRY_COLUMNS)
@pytest.mark.parametrize("number", [1, 2])
def test_an_edited_column_of_an_entry_is_found(column: str, number: int) -> None:
    chain()
    row = entry(number)
    assert getattr(row, column) != ENTRY_COLUMNS[column]
    edit(row, **{column: ENTRY_COLUMNS[column]})
    assert broken_at() == number
    edit(AuditEntry.objects.get(pk=row.pk), **{column: getattr(row, column)})
    assert broken_at() is None


@pytest.mark.parametrize("column", VALUE_COLUMNS)
@pytest.mark.parametrize("number", [1, 2])
def test_an_edited_column_of_a_value_is_found(column: str, number: int) -> None:
    chain()
    row = value(number, "words")
    new = entry(3).pk if column == "entry" else VALUE_COLUMNS[column]
    if column == "entry":
        edit(row, entry=new, name="moved")
    else:
        edit(row, **{column: new})
    assert broken_at() == number


@pytest.mark.parametrize("new", ["Refund 2 ", "refund 2", "", None, 2, ["Refund 2"], {"Refund": 2}])
def test_a_value_is_told_from_every_other(new: Any) -> None:
    chain()
    edit(value(2, "words"), value=new)
    assert broken_at() == 2


def test_values_that_were_swapped_are_found() -> None:
    chain()
    old, new = value(2, "old status"), value(2, "new status")
    edit(old, value=new.value, salt=new.salt)
    edit(new, value=old.value, salt=old.salt)
    assert broken_at() == 2


def test_a_removed_value_is_found() -> None:
    chain()
    value(2, "words").delete()
    assert broken_at() == 2


def test_an_added_value_is_found() -> None:
    chain()
    AuditValue.objects.create(entry=entry(2), name="more", value="x", salt="0" * 64)
    assert broken_at() == 2
    assert "was added" in str(audit.verify(SITE))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_missing_entry_is_found(number: int) -> None:
    chain()
    remove(entry(number))
    assert broken_at() == number


@pytest.mark.parametrize("number", [1, 3])
def test_entries_that_closed_the_gap_are_found(number: int) -> None:
    chain(5)
    remove(entry(number))
    for each in range(number + 1, 6):
        edit(entry(each), number=each - 1)
    assert broken_at() == number


def test_reordered_entries_are_found() -> None:
    chain()
    second, third = entry(2), entry(3)
    edit(second, number=1000)
    edit(third, number=2)
    edit(second, number=3)
    assert broken_at() == 2


def test_a_forged_number_at_the_end_is_found() -> None:
    chain()
    edit(entry(4), number=6)
    assert broken_at() == 4


def test_an_entry_of_another_site_is_found() -> None:
    chain(2)
    chain(3, site="other")
    edit(entry(3, "other"), site=SITE)
    assert broken_at() == 3


def test_an_entry_copied_to_the_end_is_found() -> None:
    chain()
    copy = entry(2)
    copy.pk, copy.number = None, 5
    copy.save()
    assert broken_at() == 5


@pytest.mark.parametrize("keys", ["plain"], indirect=True)
def test_an_entry_that_was_edited_and_hashed_anew_breaks_the_next() -> None:
    chain()
    row = entry(2)
    row.event = "executed"
    sealing.seal(row)
    row.save()
    assert broken_at() == 3


@pytest.mark.parametrize("keys", ["plain"], indirect=True)
def test_a_gap_that_was_hashed_over_is_found() -> None:
    chain(3)
    remove(entry(2))
    row = entry(3)
    row.previous = entry(1).digest
    sealing.seal(row)
    row.save()
    assert broken_at() == 2


@pytest.mark.parametrize("keys", ["signed"], indirect=True)
@pytest.mark.parametrize("to_the_end", [True, False])
def test_a_chain_hashed_anew_without_the_key_is_found(to_the_end: bool, settings: Any) -> None:
    chain()
    known = settings.COPILOT
    settings.COPILOT = {**known, "AUDIT_KEYS": {}}
    previous = entry(1).digest
    for number in range(2, 5 if to_the_end else 3):
        row = entry(number)
        row.code, row.previous = "", previous
        sealing.seal(row)
        row.save()
        previous = row.digest
    settings.COPILOT = known
    assert broken_at() == 2


@pytest.mark.parametrize("keys", ["signed"], indirect=True)
def test_entries_appended_without_the_key_are_found(settings: Any) -> None:
    chain()
    known = settings.COPILOT
    settings.COPILOT = {**known, "AUDIT_KEYS": {}}
    chain(1)
    settings.COPILOT = known
    assert broken_at() == 5


@pytest.mark.parametrize("keys", ["signed"], indirect=True)
def test_entries_signed_with_another_key_of_that_version_are_found(settings: Any) -> None:
    chain()
    known = settings.COPILOT
    settings.COPILOT = {**known, "AUDIT_KEYS": {"2": "somebody else's key, long enough, too"}}
    chain(1)
    settings.COPILOT = known
    assert broken_at() == 5


@pytest.mark.parametrize("keys", ["signed"], indirect=True)
def test_the_last_key_signs_and_older_ones_still_verify(settings: Any) -> None:
    def use(keys: dict[str, str]) -> None:
        settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": keys}

    use({"1": KEYS["1"]})
    chain(2)
    use(KEYS)
    chain(2)
    assert [entry(number).key_version for number in (1, 2, 3, 4)] == ["1", "1", "2", "2"]
    assert broken_at() is None
    use({"2": KEYS["2"]})
    problem = audit.verify(SITE)
    assert problem is not None
    assert (problem.number, "'1'" in problem.what) == (1, True)
    assert not any(key in str(problem) for key in KEYS.values())
    use({"1": KEYS["1"], "2": "x"})
    assert broken_at() == 3


@pytest.mark.parametrize("keys", ["plain"], indirect=True)
def test_a_chain_may_begin_without_a_key(settings: Any) -> None:
    chain(2)
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": KEYS}
    chain(2)
    assert broken_at() is None


def test_the_same_is_found_far_behind_the_first_chunk() -> None:
    chain(CHUNK + 20)
    edit(value(CHUNK + 10, "words"), value="x")
    edit(entry(CHUNK + 12), code="x")
    assert broken_at() == CHUNK + 10


def test_what_can_not_even_be_read_is_named() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("this database keeps no such text")
    chain()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_copilot_auditentry SET at = 'never' WHERE number = 3")
    assert broken_at() == 3
    edit(entry(2), code="x")
    assert broken_at() == 2


HUGE = {"about": {"n": [1e16, 1e23, -0.0, 5e-324, 10**30, 1.10, {"b": 1, "a": "\u202e😀"}]}}


def test_numbers_read_back_otherwise_are_the_same() -> None:
    audit.append(SITE, "", record(1, **HUGE))
    assert broken_at() is None


@pytest.mark.parametrize("change", ["cut", "replace", "shorten"])
def test_with_an_exported_head_a_cut_tail_or_another_chain_shows(change: str) -> None:
    chain()
    head = audit.head(SITE)
    assert audit.verify(SITE, head=head) is None
    chain(2)
    assert audit.verify(SITE, head=[head, audit.head(SITE)]) is None
    later = audit.head(SITE)
    remove(entry(6))
    expected = 6
    if change != "cut":
        for number in range(1, 6):
            remove(entry(number))
        expected = 1
    if change == "replace":
        chain(6)
        expected = 4
    assert audit.verify(SITE) is None
    problem = audit.verify(SITE, head=[head, later])
    assert problem is not None
    assert problem.number == expected


@pytest.mark.parametrize(
    "head",
    [{}, {"site": SITE, "number": "1", "digest": ""}, {"site": "other", "number": 1, "digest": ""}],
    ids=str,
)
def test_a_head_that_is_none_is_an_error(head: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="head"):
        audit.verify(SITE, head=head)


def test_a_salt_is_fresh_for_each_value() -> None:
    given: dict[str, Any] = {"site": SITE, "scope_key": "", "number": 1, "previous": "", "at": OTHER_TIME}
    entries = [rows_of(record(1), **given)[0] for _ in range(2)]
    assert entries[0].commitments["words"]["value"] != entries[1].commitments["words"]["value"]
    assert entries[0].commitments["words"]["origin"] == entries[1].commitments["words"]["origin"]


def _erase(**whose: str) -> Callable[[], int]:
    return lambda: audit.erase(**whose)


@pytest.mark.parametrize(
    ("erase", "names"),
    [
        (_erase(person="7"), {"words"}),
        (_erase(label="store.Order", object_pk="3"), {"old status", "new status"}),
    ],
    ids=["person", "record"],
)
class TestErased:
    """Values that were erased, and the same done by hand."""

    def test_erasing_leaves_the_chain_as_it_is(self, erase: Callable[[], int], names: set[str]) -> None:
        chain()
        chain(2, site="other")
        assert erase() == 6 * len(names)
        assert broken_at() is None
        assert audit.verify("other") is None
        gone = AuditValue.objects.exclude(erased_at=None)
        assert {each.name for each in gone} == names
        assert {(each.value, each.salt) for each in gone} == {(None, "")}
        assert AuditValue.objects.count() == 18
        assert "Refund" not in str(list(gone.values())) + str(list(AuditEntry.objects.values()))
        said = entry(5)
        assert (said.event, said.about["count"], said.at) == (
            "erased",
            4 * len(names),
            value(1, min(names)).erased_at,
        )
        assert said.about["values"]["2"] == sorted(names)
        chain(1)
        assert broken_at() is None
        assert erase() == len(names)

    def test_of_one_site_only(self, erase: Callable[[], int], names: set[str]) -> None:
        chain(1)
        chain(1, site="other")
        whose = {"person": "7"} if names == {"words"} else {"label": "store.order", "object_pk": "3"}
        assert audit.erase(**whose, site="other", by="5") == len(names)
        assert not AuditValue.objects.filter(entry__site=SITE).exclude(erased_at=None).exists()
        assert entry(2, "other").actor == "5"

    def test_erased_by_hand_without_an_entry_is_found(
        self, erase: Callable[[], int], names: set[str]
    ) -> None:
        chain(2)
        erase()
        chain(1)
        edit(value(4, min(names)), value=None, salt="", erased_at=value(1, min(names)).erased_at)
        assert broken_at() == 4

    def test_the_entry_of_an_erasing_justifies_no_later_value(
        self, erase: Callable[[], int], names: set[str]
    ) -> None:
        chain(1)
        erase()
        forged = record(1, event="erased", about={"values": {"4": sorted(names)}}, values=())
        audit.append(SITE, "", forged)
        chain(1)
        edit(value(4, min(names)), value=None, salt="", erased_at=entry(3).at)
        assert broken_at() == 4

    @pytest.mark.parametrize(
        "columns",
        [
            {"value": "x"},
            {"salt": "0" * 64},
            {"person": "9"},
            {"model": "a.b"},
            {"object_pk": "9"},
            {"field": "x"},
            {"name": "x"},
            {"erased_at": None},
            {"erased_at": OTHER_TIME},
        ],
        ids=str,
    )
    def test_an_erased_row_can_not_be_edited_either(
        self, erase: Callable[[], int], names: set[str], columns: dict[str, Any]
    ) -> None:
        chain(2)
        erase()
        edit(value(2, min(names)), **columns)
        assert broken_at() == 2

    def test_nor_removed(self, erase: Callable[[], int], names: set[str]) -> None:
        chain(2)
        erase()
        value(2, min(names)).delete()
        assert broken_at() == 2

    def test_a_value_put_back_is_found(self, erase: Callable[[], int], names: set[str]) -> None:
        chain(2)
        before = value(2, min(names))
        erase()
        edit(before, value=before.value, salt=before.salt, erased_at=None)
        assert broken_at() == 2

    def test_more_values_than_one_entry_tells_of(
        self, erase: Callable[[], int], names: set[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("django_copilot.audit.erasure.BATCH", 3)
        chain(3)
        chain(2, scope_key="k")
        assert erase() == 5 * len(names)
        said = AuditEntry.objects.filter(event="erased").order_by("number")
        assert [each.scope_key for each in said] == [""] * len(names) + ["k"] * (1 if len(names) == 1 else 2)
        assert broken_at() is None


@pytest.mark.parametrize(
    "whose",
    [
        {},
        {"site": SITE},
        {"person": "7", "label": "a.b", "object_pk": "1"},
        {"person": "7", "label": "a.b"},
        {"label": "a.b"},
        {"object_pk": "1"},
    ],
    ids=str,
)
def test_erasing_names_one_person_or_one_record(whose: dict[str, str]) -> None:
    chain(1)
    with pytest.raises(ValueError, match="Name a person, or a record"):
        audit.erase(**whose)
    assert not AuditValue.objects.exclude(erased_at=None).exists()


def test_an_erasing_that_happens_meanwhile_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not known when the way through the chain begins."""
    from django_copilot.audit import verification

    chain(3)
    read = verification._Walk._load

    def load(self: Any, numbers: list[int]) -> Any:
        audit.erase(person="7")
        return read(self, numbers)

    monkeypatch.setattr(verification._Walk, "_load", load)
    assert audit.verify(SITE) is None
    assert value(1, "words").erased_at is not None


def test_verifying_reads_in_chunks(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any) -> None:
    monkeypatch.setattr("django_copilot.audit.verification.CHUNK", 2)
    chain(5)
    with django_assert_num_queries(1 + 3 * 3 + 1):
        assert audit.verify(SITE) is None
