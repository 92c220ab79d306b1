"""``manage.py copilot_audit``: verify the audit, print where its chains end, erase somebody's values."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.contrib.admin import sites
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from ... import audit
from ...audit.erasure import values_of
from ...audit.verification import examine
from ...models import AuditEntry
from ...people import person_key


class Command(BaseCommand):
    """Verify, export the end of, or erase from the audit."""

    help = "Verify the audit, print where its chains end, or erase the values of a person or a record."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take one of verify, head and erase."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="verify|head|erase")
        verify = actions.add_parser("verify", help="name the first entry of a chain that was changed")
        verify.add_argument("--head", metavar="FILE", help="what 'head' printed before, one or more times")
        head = actions.add_parser("head", help="print where the chains end, one line of JSON each")
        erase = actions.add_parser("erase", help="erase values and their salts, for good")
        whose = erase.add_mutually_exclusive_group(required=True)
        whose.add_argument("--user", metavar="NAME", help="the words of this account")
        whose.add_argument("--person", metavar="KEY", help="the words of an account, by its primary key")
        whose.add_argument("--record", metavar="app.model:PK", help="the values of this record")
        erase.add_argument("--yes", action="store_true", help="do not ask")
        for each in (verify, head, erase):
            each.add_argument("--site", default="", metavar="NAME", help="only of this admin site")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it. Raises CommandError, and with it exit status 1, when a chain does not verify."""
        getattr(self, f"_{options['action']}")(options)

    def _verify(self, options: dict[str, Any]) -> None:
        heads = _read_heads(options["head"]) if options["head"] else None
        names = _sites(options["site"], heads or {})
        if options["site"] and heads is not None and options["site"] not in heads:
            raise CommandError(f"{options['head']} holds no head of the site {options['site']!r}.")
        problems = []
        for name in names:
            try:
                found = examine(name, head=(heads or {}).get(name))
            except ValueError as error:
                raise CommandError(f"{options['head']}: {error}") from error
            if found.problem is not None:
                problems.append(str(found.problem))
                continue
            self.stdout.write(f"{name}: {found.entries} entries, all as they were written.")
            if found.plain:
                self.stdout.write(f"{name}: {found.plain} of them were written without a key.")
            if heads is not None and name not in heads:
                self.stdout.write(f"{name}: {options['head']} holds no head of it; its end is not proven.")
        if problems:
            raise CommandError("\n".join(problems))
        if not names:
            self.stdout.write("The audit is empty.")

    def _head(self, options: dict[str, Any]) -> None:
        for name in _sites(options["site"], {}):
            self.stdout.write(json.dumps(audit.head(name)))

    def _erase(self, options: dict[str, Any]) -> None:
        whose, named = _whose(options)
        site = options["site"]
        if site:
            _sites(site, {})
        count = values_of(**whose, site=site).count()
        if not count:
            self.stdout.write(f"The audit holds no values of {named}.")
            return
        if not options["yes"]:
            question = f"Erase {count} values of {named} from the audit for good? [y/N] "
            self.stdout.write(question, ending="")
            self.stdout.flush()
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise CommandError("Nothing was erased.")
        self.stdout.write(f"{audit.erase(**whose, site=site)} values of {named} were erased.")


def _sites(name: str, heads: dict[str, Any]) -> list[str]:
    """Return the names of the sites that are asked for. Raises CommandError for one that nobody knows."""
    known = {*AuditEntry.objects.order_by().values_list("site", flat=True).distinct(), *heads}
    if not name:
        return sorted(known)
    if name not in known | {each.name for each in sites.all_sites}:
        raise CommandError(f"There is no site {name!r}. The audit has: {', '.join(sorted(known)) or 'none'}.")
    return [name]


def _read_heads(path: str) -> dict[str, list[dict[str, Any]]]:
    """Return the heads of a file by site. Raises CommandError, naming the line, for what is none."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} can't be read: {error}.") from error
    heads: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            head = json.loads(line)
            whole = type(head["number"]) is int and head["number"] >= 0
            if not whole or not isinstance(head["site"], str) or not isinstance(head["digest"], str):
                raise ValueError("it needs site, number and digest")
        except (ValueError, TypeError, KeyError) as error:
            raise CommandError(
                f"{path}, line {number} is no line that 'copilot_audit head' prints: {error!r}."
            ) from error
        heads.setdefault(head["site"], []).append(head)
    if not heads:
        raise CommandError(f"{path} holds no head.")
    return heads


def _whose(options: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Return whose values to erase, as keywords and in words. Raises CommandError."""
    if options["record"] is not None:
        label, colon, key = options["record"].partition(":")
        if not colon or not key or label.count(".") != 1:
            raise CommandError("--record takes app.model:PK, for instance store.customer:17.")
        return {"label": label.lower(), "object_pk": key}, f"the record {label.lower()} {key}"
    if options["person"] is not None:
        if not options["person"]:
            raise CommandError("--person takes the primary key of an account.")
        return {"person": options["person"]}, f"the person {options['person']}"
    user_model = get_user_model()
    user = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: options["user"]}).first()
    if user is None:
        raise CommandError(
            f"There is no account {options['user']!r}. Of one that is gone, give its primary key with --person."
        )
    return {"person": person_key(user)}, f"the person {options['user']}"
