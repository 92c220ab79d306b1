"""The one way in which the hostile client sends anything: noted in the ledger, and judged when it is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.signing import TimestampSigner
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ...models import Plan, PlanKind, Switch
from ..executions import CLAIMED, Ledger, check_moved, find_plan
from ..people import Actor
from ..watch import Watched, watching
from ..world import World, _tables
from . import rows
from .bodies import Body
from .endpoints import CHAT_CODES, Endpoint, Rule, Standing, allowed

TOKEN = re.compile(r"zp[a-z2-7]{10}")  # in what one person wrote; another one may not come to see it
MARKS = ("hijack", "loginas", "impersonate")  # of who acts as somebody else, as three packages leave them
JSON = "application/json"
NOTHING = Body(b"", "application/octet-stream")


@dataclass(frozen=True)
class Who:
    """Somebody who sends: an account or nobody, impersonated or herself, as a browser or without CSRF checks."""

    actor: Actor | None
    mark: str = ""
    csrf: bool = False

    def __str__(self) -> str:
        name = self.actor.name if self.actor is not None else "nobody"
        return (
            name
            + (f", impersonated ({self.mark})" if self.mark else "")
            + (", as a browser" if self.csrf else "")
        )


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str
    headers: Mapping[str, str]
    watched: Watched
    changes: tuple[rows.Change, ...] = ()

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON object, {} where it is none."""
        try:
            told = json.loads(self.text)
        except ValueError:
            return {}
        return told if isinstance(told, dict) else {}


@dataclass
class Sender:
    """Sends, with one client for each session, and counts."""

    world: World
    ledger: Ledger
    case: str  # part, seed and number
    sent: int = 0
    since: Any = field(default_factory=timezone.now)  # plans made before it are not looked at
    tokens: dict[str, str] = field(default_factory=dict)  # in what was written → key of who wrote it
    of_values: set[str] = field(default_factory=set)  # of them, those in values that a form would save
    _clients: dict[Who, Client] = field(default_factory=dict)
    _tokens: dict[tuple[Who, str], str] = field(default_factory=dict)
    _standings: dict[tuple[Any, str], Standing] = field(default_factory=dict)

    # -- sessions ------------------------------------------------------------------------------------------

    def client(self, who: Who) -> Client:
        """Return the client of a session, logged in once."""
        if who not in self._clients:
            client = self.world.client(who.actor, csrf=who.csrf)
            if who.mark and who.actor is not None:
                session = client.session
                session.update(_mark(who.mark, self._somebody_else(who.actor)))
                session.save()
            self._clients[who] = client
        return self._clients[who]

    def _somebody_else(self, actor: Actor) -> Actor:
        return next((each for each in reversed(self.world.actors) if each.pk != actor.pk), actor)

    def standing(self, actor: Actor | None, site: AdminSite) -> Standing | None:
        """Return what a person may do, None for nobody."""
        if actor is None:
            return None
        key = actor.pk, site.name
        if key not in self._standings:
            self._standings[key] = Standing.of(self.world, actor, site)
        return self._standings[key]

    def csrf_token(self, who: Who, site: AdminSite) -> str:
        """Return the token that the site's pages have given to a browser's session."""
        if (who, site.name) not in self._tokens:
            page = "index" if who.actor is not None else "login"
            self._tokens[who, site.name] = token_of(
                self.client(who), reverse(f"admin:{page}", current_app=site.name)
            )
        return self._tokens[who, site.name]

    # -- sending -------------------------------------------------------------------------------------------

    def send(
        self,
        who: Who,
        site: AdminSite,
        method: str,
        path: str,
        body: Body = NOTHING,
        *,
        headers: Mapping[str, str] | None = None,
        expected: frozenset[int] | None = None,
        what: str,
        decides: tuple[str, str, Any] | None = None,
        form: Any = None,
        seen: frozenset[Any] = frozenset(),
    ) -> Answer:
        """Send one request and judge the answer.

        ``decides`` is verb, plan and digest of a decision; ``form`` the ModelAdmin and key of a form that is
        submitted honestly, with rows of which only it may change; ``seen`` are cells that the same page shows
        without what is hostile here.
        """
        self.sent += 1
        case = f"{self.case}, request {self.sent}: {who}: {method} {path[:200]} ({what})"
        client = self.client(who)
        may_write = decides is not None or form is not None
        before = rows.rows_now() if may_write else {}
        states = self._states() if may_write else {}
        noting = (
            self.ledger.deciding(
                self.world,
                who.actor,
                site,
                verb=decides[0],
                plan=decides[1],
                sent=decides[2],
                herself=not who.mark,
                case=case,
            )
            if decides is not None
            else nullcontext()
        )
        with noting as decision, watching() as watched:
            response = client.generic(
                method,
                path,
                body.content,
                body.type,
                headers=dict(headers or {}),
                secure="Referer" in (headers or {}),  # which only secure requests are asked for
            )
            if decision is not None:
                decision.status = response.status_code
        text = b"".join(response) if response.streaming else response.content
        answer = Answer(
            response.status_code, text.decode("utf-8", "replace"), dict(response.headers), watched, ()
        )
        if who.actor is not None:
            self.ledger.show(str(who.actor.pk), answer.text)
        self.world.report.count("requests")
        self.world.report.count("statements", len(watched.statements))
        self._judge(
            who, site, answer, expected=expected, case=case, given=f"{path} {body.content!r}", seen=seen
        )
        if decision is not None:
            check_moved(self.world, decision)
        if may_write and _writes(watched):
            changes = self._account(before, states, form=form, case=case)
            answer = Answer(answer.status, answer.text, answer.headers, watched, tuple(changes))
        elif not may_write:
            for each in watched.statements:
                if each.writes_to in _tables() or each.writes_to == "?":
                    self.world.report.found(1, f"statement: {each.sql[:300]}", case=case)
        if "plan" in watched_tables(watched) and not may_write:
            self._check_nothing_claimed(watched, case=case)
        return answer

    def _account(
        self, before: rows.Rows, states: Mapping[str, str], *, form: Any, case: str
    ) -> list[rows.Change]:
        """Report the rows that changed in a request and belong to no plan that it carried out and to no form."""
        changes = rows.differences(before, rows.rows_now())
        moved = [each for each in map(find_plan, self._moved(states)) if each is not None]
        for change in rows.unaccounted(changes, plans=moved, form=form):
            self.world.report.found(1, str(change), case=case)
        for plan in moved:
            if plan.kind == PlanKind.TOOL and plan.state == "executed":
                for name in rows.wrong_values(plan):
                    self.world.report.found(
                        1, f"{name} of plan {plan.pk} holds something else than it showed", case=case
                    )
        self.world.forget()
        return changes

    def _states(self) -> dict[str, str]:
        plans = Plan.objects.filter(created_at__gte=self.since)
        return {str(pk): state for pk, state in plans.values_list("pk", "state")}

    def _moved(self, before: Mapping[str, str]) -> Iterator[str]:
        """Give the plans that were carried out, or about which something became known, since then."""
        for ident, state in self._states().items():
            if state != before.get(ident) and state in (*CLAIMED, "failed"):
                yield ident

    def _check_nothing_claimed(self, watched: Watched, *, case: str) -> None:
        for each in watched.statements:
            if each.writes_to == Plan._meta.db_table and {*CLAIMED} & {
                str(value) for value in each.params or ()
            }:
                self.world.report.found(5, f"a plan was claimed by no decision: {each.sql[:200]}", case=case)

    def _judge(
        self,
        who: Who,
        site: AdminSite,
        answer: Answer,
        *,
        expected: frozenset[int] | None,
        case: str,
        given: str,
        seen: frozenset[Any],
    ) -> None:
        report, status = self.world.report, answer.status
        code = answer.json.get("code", "") if status >= 400 else ""
        if status >= 500 and not (status == 500 and code in CHAT_CODES):
            report.found(7, f"answered {status} {code} {answer.text[:200]!r}", case=case)
        elif expected is not None and status not in expected:
            kind = 5 if status < 400 else 7
            report.found(kind, f"answered {status} {code}, and not {sorted(expected)}", case=case)
        for error in answer.watched.errors:
            # What Django itself says of a request that it has refused as such is no fault.
            if not (status == 400 and "django.security" in error.splitlines()[0]):
                report.found(7, f"logged: {error[-900:]}", case=case)
        told = answer.text + "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        cells = self.world.canaries.in_text(told)
        if cells - seen:
            self.world.check_output(
                who.actor, site, told, what="an answer", case=case, given=given + marks_of(self.world, seen)
            )
        if answer.watched.records:
            self.world.check_output(
                who.actor, site, answer.watched.log, what="the log", case=case, given=given
            )
        own = str(who.actor.pk) if who.actor is not None else ""
        for token in {*TOKEN.findall(told)} - {*TOKEN.findall(given)}:
            if token in self.of_values and "/auditentry/" in given:
                continue  # it stands there as the field's proposed value, for those who see the field
            if self.tokens.get(token, own) != own:
                report.found(3, f"words of person {self.tokens[token]} came out to {who}", case=case)
        if "Traceback (most recent" in told:
            report.found(7, "a traceback came out", case=case)

    def publish(self, text: str) -> None:
        """Forget whose words were saved into a record: they are for those now who see it."""
        for token in TOKEN.findall(text):
            self.tokens.pop(token, None)

    # -- addresses -----------------------------------------------------------------------------------------

    def expected(
        self,
        who: Who,
        site: AdminSite,
        rule: Rule,
        method: str,
        *,
        json: bool,
        token: bool = True,
        broken: bool = False,
        ident: str = "own",
    ) -> frozenset[int]:
        """Return the statuses that a request of this person may be answered with."""
        return allowed(
            rule,
            method,
            standing=self.standing(who.actor, site),
            json=json,
            token=token,
            broken=broken,
            ident=ident,
            impersonated=bool(who.mark),
            is_service=who.actor is not None and who.actor.kind == "service account",
        )

    def decide(
        self,
        who: Who,
        site: AdminSite,
        endpoint: Endpoint,
        plan: str,
        fields: Mapping[str, Any],
        *,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
        ident: str = "own",
        what: str,
    ) -> Answer:
        """Send a decision on a plan; ``body`` stands in for the honest one of ``fields``."""
        sending = body or Body(json.dumps(fields).encode(), JSON)
        given = {"Accept": JSON, **(headers or {})}
        wants = JSON in given["Accept"] and "text/html" not in given["Accept"]
        answer = self.send(
            who,
            site,
            "POST",
            endpoint.path(plan),
            sending,
            headers=given,
            expected=self.expected(
                who,
                site,
                endpoint.rule,
                "POST",
                json=wants,
                token=token,
                broken=sending.is_broken,
                ident=ident,
            ),
            what=what,
            decides=(endpoint.verb, plan, fields.get("digest")),
        )
        return answer

    @contextmanager
    def switched_on(self, site: AdminSite) -> Iterator[None]:
        """Turn the assistant on again after somebody who may has turned it off."""
        try:
            yield
        finally:
            Switch.objects.filter(site=site.name).delete()


def token_of(client: Client, path: str) -> str:
    """Return the CSRF token that stands in a page's form, whatever keeps it; "" where there is none."""
    with watching():
        page = client.get(path, headers={"Accept": "text/html"}).content.decode("utf-8", "replace")
    found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    return found[1] if found else ""


def token_header() -> str:
    """Return the name of the header that carries the token."""
    return settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-")


def watched_tables(watched: Watched) -> set[str]:
    """Return which of our own tables were written to, by short name."""
    return {"plan"} if any(each.writes_to == Plan._meta.db_table for each in watched.statements) else set()


def marks_of(world: World, cells: frozenset[Any]) -> str:
    """Return the marks of cells that were seen elsewhere, as one text."""
    return " ".join(mark for mark, cell in world.canaries.cells.items() if cell in cells) if cells else ""


def _writes(watched: Watched) -> bool:
    return any(each.writes_to in _tables() or each.writes_to == "?" for each in watched.statements)


def _mark(mark: str, behind: Actor) -> dict[str, Any]:
    if mark == "hijack":
        return {"hijack_history": [str(behind.pk)]}
    if mark == "loginas":
        return {"loginas_from_user": TimestampSigner().sign(str(behind.pk))}
    return {"_impersonate": str(behind.pk)}
