"""The command: what it prints, and the exit status that a watch relies on."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from django_copilot import audit
from django_copilot.models import AuditEntry, AuditValue

from .chains import KEYS, SITE, chain, edit, entry, record, remove, value

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("copilot_audit", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def keys(settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": KEYS}


def test_a_whole_audit_verifies() -> None:
    assert run("verify") == "The audit is empty.\n"
    chain(3)
    chain(1, site="other")
    assert run("verify").splitlines() == [
        "admin: 3 entries, all as they were written.",
        "other: 1 entries, all as they were written.",
    ]
    assert run("verify", "--site", "other").splitlines() == ["other: 1 entries, all as they were written."]


def test_a_broken_one_is_an_error_that_names_the_entry_and_no_key() -> None:
    chain(3)
    chain(2, site="other")
    chain(1, site="third")
    edit(entry(2), code="x")
    edit(value(1, "words", "other"), value="x")
    with pytest.raises(CommandError) as caught:
        run("verify")
    assert caught.value.returncode == 1
    assert str(caught.value).splitlines() == [
        "admin: entry 2: it was changed: its digest does not fit.",
        "other: entry 1: its value 'words' was changed.",
    ]
    assert "1 entries" in run("verify", "--site", "third")


def test_entries_without_a_key_are_mentioned(settings: Any) -> None:
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": {}}
    chain(2)
    settings.COPILOT = {**settings.COPILOT, "AUDIT_KEYS": KEYS}
    chain(1)
    assert "admin: 2 of them were written without a key." in run("verify").splitlines()


def test_heads_are_lines_that_verify_takes(tmp_path: Path) -> None:
    chain(2)
    chain(1, site="other")
    file = tmp_path / "heads"
    lines = run("head")
    assert [json.loads(line) for line in lines.splitlines()] == [audit.head(SITE), audit.head("other")]
    file.write_text(lines)
    chain(1)
    file.write_text(lines + "\n" + run("head", "--site", SITE))  # collected over time
    assert "3 entries" in run("verify", "--head", str(file))
    remove(entry(3))
    assert "2 entries" in run("verify")
    with pytest.raises(
        CommandError, match="admin: entry 3: it is missing: the chain ended with entry 3 once"
    ):
        run("verify", "--head", str(file))


def test_a_chain_that_is_gone_is_missed_with_a_head(tmp_path: Path) -> None:
    chain(2, site="other")
    file = tmp_path / "heads"
    file.write_text(run("head"))
    remove(entry(1, "other"))
    remove(entry(2, "other"))
    assert run("verify") == "The audit is empty.\n"
    for more in ([], ["--site", "other"]):
        with pytest.raises(CommandError, match="other: entry 1: it is missing"):
            run("verify", "--head", str(file), *more)


def test_a_site_without_a_head_is_mentioned_or_an_error_if_it_was_asked_for(tmp_path: Path) -> None:
    chain(1)
    file = tmp_path / "heads"
    file.write_text(run("head"))
    chain(1, site="other")
    assert "other: " in run("verify", "--head", str(file)).splitlines()[-1]
    assert "holds no head of it" in run("verify", "--head", str(file))
    with pytest.raises(CommandError, match="holds no head of the site 'other'"):
        run("verify", "--head", str(file), "--site", "other")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no head"),
        (b"\n\n", "holds no head"),
        (b"\xff\xfe", "can't be read"),
        (b"nonsense", "line 1"),
        (b'{"site": "admin", "number": 1, "digest": "x"}\n[]', "line 2"),
        (b'{"site": "admin", "digest": "x"}', "line 1"),
        (b'{"site": "admin", "number": true, "digest": "x"}', "line 1"),
        (b'{"site": "admin", "number": -1, "digest": "x"}', "line 1"),
        (b'{"site": "admin", "number": 1, "digest": null}', "line 1"),
        (b'{"site": 1, "number": 1, "digest": "x"}', "line 1"),
        (
            b'{"site": "admin", "number": 1, "digest": "x"}\n{"site": "admin", "number": 1, "digest": "y"}',
            "two different heads",
        ),
    ],
    ids=str,
)
def test_a_file_that_holds_no_heads_is_an_error_that_says_so(
    tmp_path: Path, content: bytes, says: str
) -> None:
    chain(1)
    file = tmp_path / "heads"
    file.write_bytes(content)
    with pytest.raises(CommandError, match=says):
        run("verify", "--head", str(file))
    with pytest.raises(CommandError, match="can't be read"):
        run("verify", "--head", str(tmp_path / "not there"))


@pytest.mark.parametrize("action", [["verify"], ["head"], ["erase", "--person", "7", "--yes"]], ids=str)
def test_a_site_that_nobody_knows_is_an_error(action: list[str]) -> None:
    chain(1)
    with pytest.raises(CommandError, match=r"There is no site 'typo'\. The audit has: admin"):
        run(*action, "--site", "typo")
    assert not AuditValue.objects.exclude(erased_at=None).exists()


# -- erasing --------------------------------------------------------------------------------------------


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_persons_values_are_erased_by_name_or_key() -> None:
    ann = User.objects.create(username="ann")
    given = (audit.Value(name="words", value="x", person=str(ann.pk)),)
    audit.append(SITE, "", record(1, values=given))
    chain(1)
    assert run("erase", "--user", "ann", "--yes") == "1 values of the person ann were erased.\n"
    assert run("erase", "--person", "7", "--yes") == "1 values of the person 7 were erased.\n"
    assert run("erase", "--person", "7", "--yes") == "The audit holds no values of the person 7.\n"
    assert AuditEntry.objects.filter(event="erased").count() == 2
    assert "4 entries" in run("verify")
    assert value(2, "old status").erased_at is None


def test_a_records_values_are_erased() -> None:
    chain(2)
    chain(1, site="other")
    assert "2 values" in run("erase", "--record", "store.Order:3", "--site", "other", "--yes")
    assert "4 values" in run("erase", "--record", "store.order:3", "--yes")
    assert "3 entries" in run("verify")
    assert value(1, "words").erased_at is None


@pytest.mark.parametrize(
    ("text", "done"), [("y\n", True), ("Yes\n", True), ("\n", False), ("", False), ("no", False)]
)
def test_it_asks_first(monkeypatch: pytest.MonkeyPatch, text: str, done: bool) -> None:
    chain(1)
    answer(monkeypatch, text)
    if done:
        assert run("erase", "--person", "7").startswith(
            "Erase 1 values of the person 7 from the audit for good? [y/N] "
        )
    else:
        with pytest.raises(CommandError, match="Nothing was erased"):
            run("erase", "--person", "7")
    assert (value(1, "words").erased_at is not None) is done


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--user", "nobody"],
        ["--person", ""],
        ["--record", "store.order"],
        ["--record", "store.order:"],
        ["--record", "order:3"],
        ["--record", ":3"],
        ["--user", "nobody", "--person", "7"],
    ],
    ids=str,
)
def test_whose_values_must_be_said(arguments: list[str]) -> None:
    chain(1)
    with pytest.raises(CommandError):
        run("erase", *arguments, "--yes")
    assert not AuditValue.objects.exclude(erased_at=None).exists()
