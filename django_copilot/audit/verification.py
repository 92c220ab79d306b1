"""Whether a chain is what was appended: every entry there, in order, unchanged, and its values with it.

Entries are read in chunks by their numbers, so that a long chain costs no memory and no long transaction. What
is kept meanwhile are the names of erased values, which later entries justify.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import Error, models, router

from ..models import AuditEntry, AuditValue
from .erasure import EVENT, erased_in
from .sealing import commitment, digest_of, moment

CHUNK = 200  # entries read at once
UNREADABLE = (ValueError, TypeError, ArithmeticError, RecursionError, AttributeError, KeyError)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The first entry of a chain that is not as it was appended, and what is wrong with it."""

    site: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.site}: entry {self.number}: {self.what}"


@dataclass(kw_only=True)
class Findings:
    """What was found on the way through a chain."""

    site: str
    entries: int = 0  # that are as they were appended
    plain: int = 0  # of them, those without a key, that whoever writes to the database can forge
    problem: Problem | None = None


class _Broken(Exception):
    """An entry is not as it was appended."""


def verify(
    site: str, *, head: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None
) -> Problem | None:
    """Return the first problem of a site's chain, or None.

    ``head`` is what ``head()`` gave earlier, or several of those: a chain that does not go through each of
    them was cut off or replaced. Raises ValueError for a head of another site or form.
    """
    return examine(site, head=head).problem


def examine(site: str, *, head: Mapping[str, Any] | Iterable[Mapping[str, Any]] | None = None) -> Findings:
    """Go through a site's chain up to its first problem."""
    return _Walk(site, _heads(site, head)).go()


def _heads(site: str, given: Any) -> dict[int, str]:
    heads: dict[int, str] = {}
    for each in [given] if isinstance(given, Mapping) else given or ():
        number, digest = each.get("number"), each.get("digest")
        if type(number) is not int or number < 0 or not isinstance(digest, str):
            raise ValueError("A head has a whole 'number' and a 'digest'.")
        if each.get("site") != site:
            raise ValueError(f"That is a head of the site {each.get('site')!r}, not of {site!r}.")
        if heads.setdefault(number, digest) != digest:
            raise ValueError(f"There are two different heads of entry {number} of the site {site!r}.")
    return heads


@dataclass
class _Walk:
    """One way through a chain."""

    site: str
    heads: dict[int, str]
    findings: Findings = field(init=False)
    using: str = field(init=False)
    erased: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)  # → by which entry, when
    erased_up_to: int = 0
    number: int = 0
    digest: str = ""

    def __post_init__(self) -> None:
        self.using = router.db_for_read(AuditEntry)
        self.findings = Findings(site=self.site)

    def _rows(self) -> models.QuerySet[AuditEntry]:
        return AuditEntry.objects.using(self.using).filter(site=self.site).order_by("number")

    def go(self) -> Findings:
        self._learn_erased()
        try:
            for entry, values in self._read():
                try:
                    self._check(entry, values)
                except UNREADABLE:
                    raise _Broken("it can't be read.") from None
                self.number, self.digest = entry.number, entry.digest
                self.findings.entries += 1
                self.findings.plain += not entry.key_version
            last = max(self.heads, default=0)
            if last > self.number:
                self.number += 1
                raise _Broken(f"it is missing: the chain ended with entry {last} once.")
        except _Broken as broken:
            self.findings.problem = Problem(site=self.site, number=self.number, what=str(broken))
        return self.findings

    def _read(self) -> Iterator[tuple[AuditEntry, list[AuditValue]]]:
        """Give each entry with its values, in order. Leaves the number of the one that can't be read."""
        after = 0
        while True:
            numbers = list(self._rows().filter(number__gt=after).values_list("number", flat=True)[:CHUNK])
            if not numbers:
                return
            try:
                chunk = self._load(numbers)
            except (*UNREADABLE, Error):
                # One of them holds what is no time or no JSON; those before it are read one by one.
                chunk = (each for number in numbers for each in self._load_alone(number))
            yield from chunk
            after = numbers[-1]

    def _load(self, numbers: list[int]) -> Iterable[tuple[AuditEntry, list[AuditValue]]]:
        entries = list(self._rows().filter(number__in=numbers))
        values: dict[int, list[AuditValue]] = defaultdict(list)
        for value in AuditValue.objects.using(self.using).filter(entry__in=[each.pk for each in entries]):
            values[value.entry_id].append(value)
        return [(entry, values[entry.pk]) for entry in entries]

    def _load_alone(self, number: int) -> Iterable[tuple[AuditEntry, list[AuditValue]]]:
        try:
            return self._load([number])
        except (*UNREADABLE, Error):
            self.number += 1
            raise _Broken("it can't be read." if number == self.number else "it is missing.") from None

    def _check(self, entry: AuditEntry, values: list[AuditValue]) -> None:
        expected = self.number + 1
        if entry.number != expected:
            self.number = expected
            raise _Broken("it is missing.")
        self.number = expected
        digest = digest_of(entry)
        if digest is None:
            raise _Broken(
                f"it is signed with a key of version {entry.key_version!r}, which COPILOT['AUDIT_KEYS'] "
                "does not have."
            )
        if digest != entry.digest:
            raise _Broken("it was changed: its digest does not fit.")
        if entry.previous != self.digest:
            raise _Broken("it does not follow the entry before it.")
        if not entry.key_version and self.findings.plain < self.findings.entries:
            raise _Broken("it has no key, though entries before it have one.")
        if self.heads.get(entry.number, entry.digest) != entry.digest:
            raise _Broken("it is another one than the exported head.")
        self._check_values(entry, values)

    def _check_values(self, entry: AuditEntry, values: list[AuditValue]) -> None:
        kept = {value.name: value for value in values}
        for name in sorted({*kept} | {*entry.commitments}):
            if name not in kept:
                raise _Broken(f"its value {name!r} is missing.")
            if name not in entry.commitments:
                raise _Broken(f"a value {name!r} was added to it.")
            value, told = kept[name], entry.commitments[name]
            now = commitment(value)
            if now["origin"] != told["origin"]:
                raise _Broken(f"whose value {name!r} is, or of which record, was changed.")
            if self._is_erased(entry, value):
                if value.value is not None or value.salt:
                    raise _Broken(f"its value {name!r} says that it is erased, and is there.")
            elif now["value"] != told["value"]:
                raise _Broken(f"its value {name!r} was changed.")

    def _is_erased(self, entry: AuditEntry, value: AuditValue) -> bool:
        """Tell whether a value is gone and should be."""
        at = moment(value.erased_at) if value.erased_at is not None else ""
        if at and (entry.number, value.name) not in self.erased:
            self._learn_erased()  # it may have been erased since this began
        by, when = self.erased.get((entry.number, value.name), (0, ""))
        if by <= entry.number:
            when = ""
        if when == at:
            return bool(at)
        if not when:
            raise _Broken(f"its value {value.name!r} is erased, and no entry says so.")
        raise _Broken(f"its value {value.name!r} was erased by entry {by}, and now it looks otherwise.")

    def _learn_erased(self) -> None:
        """Read which values the entries after those known say were erased."""
        last = self.erased_up_to
        rows = self._rows().filter(event=EVENT, number__gt=last)
        while True:
            try:
                chunk = list(rows.filter(number__gt=self.erased_up_to)[:CHUNK])
            except (*UNREADABLE, Error):
                return  # the way through the chain will come to it
            if not chunk:
                return
            for entry in chunk:
                for key in erased_in(entry):
                    self.erased.setdefault(key, (entry.number, moment(entry.at)))
            self.erased_up_to = chunk[-1].number
