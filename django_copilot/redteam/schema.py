"""schemathesis against the OpenAPI schema of the chat endpoint: whatever fits the schema, and whatever does not.

Each request runs in this process through Django's WSGI application, with a session and a CSRF token. Needs
schemathesis and drf-spectacular; where one of them is missing, the part says so and is not run.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test.utils import override_settings
from django.urls import path, reverse

from ..declaration import entities_of
from .client.projects import surroundings
from .client.sender import token_header, token_of
from .client.stage import Puppet
from .people import Actor
from .world import NotRun, World

PART = "schema"
MISSING = "%s is not installed: pip install django-admin-copilot[redteam]"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
PEOPLE = 3  # who ask, besides nobody
CALLS = 15  # of the project's that the model makes in turn
DOCUMENTED = frozenset({"model_not_configured", "model_unavailable", "model_timeout", "model_protocol"})
_SPECTACULAR = "drf_spectacular.openapi.AutoSchema"
_PUPPET = f"{Puppet.__module__}.{Puppet.__name__}"


def run(world: World, *, number: int, calls: int) -> None:
    """Send about so many requests that schemathesis makes of the schema."""
    schemathesis = _needed("schemathesis")
    _needed("drf_spectacular")
    if not world.sites:
        raise NotRun("nothing is declared on any admin site")
    site = world.sites[number % len(world.sites)]
    with surroundings(BACKEND=_PUPPET):
        schema = schemathesis.openapi.from_dict(openapi_of(site))
        users = [each for each in world.actors if each.kind != "staff without the permission"]
        asking: Sequence[Actor | None] = [
            None,
            *world.rng(PART, number).sample(users, min(PEOPLE, len(users))),
        ]
        for actor in asking:
            Asking(world, site, actor, schema, number).ask(max(2, calls // len(asking)))
    world.check_ended(case=f"{PART}, seed {world.seed}, batch {number}")


def _needed(name: str) -> Any:
    """Import what this part needs. Raises NotRun."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says of itself while it is imported
            return importlib.import_module(name)
    except ImportError:
        raise NotRun(MISSING % name.replace("_", "-")) from None


def openapi_of(site: AdminSite) -> dict[str, Any]:
    """Return the OpenAPI schema of what the copilot serves on a site, as JSON values."""
    from drf_spectacular.drainage import GENERATOR_STATS
    from drf_spectacular.generators import SchemaGenerator

    importlib.import_module("django_copilot.contrib.spectacular")  # also where the app is not installed
    given = {**(getattr(settings, "REST_FRAMEWORK", None) or {}), "DEFAULT_SCHEMA_CLASS": _SPECTACULAR}
    root = reverse("admin:index", current_app=site.name).lstrip("/")
    with override_settings(REST_FRAMEWORK=given), GENERATOR_STATS.silence():
        generator = SchemaGenerator(patterns=[path(root, site.urls)])  # type: ignore[no-untyped-call]
        schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    ours = {
        address: operations
        for address, operations in schema["paths"].items()
        if any("copilot" in each.get("tags", ()) for each in operations.values())
    }
    told: dict[str, Any] = json.loads(json.dumps({**schema, "paths": ours}, default=str))
    return told


@dataclass
class Asking:
    """One person who sends what schemathesis makes."""

    world: World
    site: AdminSite
    actor: Actor | None
    schema: Any
    number: int
    sent: int = 0
    cookies: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)
    conversation: str = ""  # one of hers

    def __post_init__(self) -> None:
        client = self.world.client(self.actor, csrf=True)
        page = reverse("admin:index" if self.actor else "admin:login", current_app=self.site.name)
        # Without a token the answer would be the same for everything: 403.
        self.headers = {token_header(): token_of(client, page)}
        self.cookies = {name: morsel.value for name, morsel in client.cookies.items()}
        self.rng = self.world.rng(f"{PART} {self.who}", self.number)
        given = getattr(self.world.project, "calls", None)
        known = list(given()) if given is not None else []
        self.calls = [*self.rng.sample(known, min(CALLS, len(known))), *_reads(self.site)]
        self.schema.app = WSGIHandler()

    @property
    def who(self) -> str:
        """Return who asks."""
        return self.actor.name if self.actor is not None else "nobody"

    def ask(self, count: int) -> None:
        """Send ``count`` requests, half of them made not to fit the schema."""
        import hypothesis
        from schemathesis import GenerationMode

        options = hypothesis.settings(
            max_examples=max(1, count // 2),
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            strategy = self.schema.as_strategy(generation_mode=mode)

            @hypothesis.seed(f"{self.world.seed}:{self.number}:{self.who}:{mode}")
            @options
            @hypothesis.given(case=strategy)
            def send(case: Any) -> None:
                self.send(case, fits=mode is GenerationMode.POSITIVE)  # noqa: B023  # called below, and then no more

            send()

    def send(self, case: Any, *, fits: bool) -> None:
        """Send one request and report what is not as the schema says (oracle 7)."""
        self.sent += 1
        body, replaced = case.body, dict[str, Any]()
        if fits and isinstance(body, dict) and self.rng.random() < 0.8:
            body = self.meant(body)
            replaced = {"json": body}
        place = f"{PART}, seed {self.world.seed}, batch {self.number}, request {self.sent}: {self.who}: {body!r:.300}"
        Puppet.calls[:] = [self.rng.choice(self.calls)] if self.rng.random() < 0.8 else []
        watched = self.world.watched(self.actor, self.site, case=place, given=str(body))
        with watched, _open_connections():
            response = case.call(headers=dict(self.headers), cookies=dict(self.cookies), **replaced)
        Puppet.calls.clear()
        self.world.report.count("requests")
        self.world.check_output(
            self.actor, self.site, response.text, what="an answer", case=place, given=str(body)
        )
        self.conversation = _told(response).get("conversationId") or self.conversation
        for problem in self.problems(case, response):
            self.world.report.found(7, problem, case=place)

    def meant(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body that reaches the model: by chance there is no conversation of that name, nor such a plan."""
        kept = {name: value for name, value in body.items() if name not in ("continue", "conversationId")}
        kept["message"] = kept.get("message") or "hello"
        if self.conversation and self.rng.random() < 0.5:
            kept["conversationId"] = self.conversation
        return kept

    def problems(self, case: Any, response: Any) -> list[str]:
        """Return what the checks say, a coded failure of the model being none."""
        from schemathesis.checks import load_all_checks
        from schemathesis.core.failures import Failure, FailureGroup

        load_all_checks()
        chosen = _checks()
        if response.status_code == 500 and _told(response).get("code") in DOCUMENTED:
            chosen = [each for each in chosen if each.__name__ != "not_a_server_error"]
        try:
            case.validate_response(response, checks=chosen)
        except FailureGroup as group:
            return [f"{type(each).__name__}: {each}"[:900] for each in group.exceptions]
        except Failure as failure:
            return [f"{type(failure).__name__}: {failure}"[:900]]
        return []


def _told(response: Any) -> dict[str, Any]:
    try:
        told = response.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


@contextmanager
def _open_connections() -> Iterator[None]:
    """Keep the end of a request from closing the connections of this thread, as Django's own test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)


def _reads(site: AdminSite) -> list[tuple[str, Mapping[str, Any]]]:
    """Return calls whose answers hold tables, pages and questions."""
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("ask_user", {"text": "Which one?", "kind": "single", "options": ["this", "that"]})
    ]
    for name in entities_of(site):
        calls += [(f"query_{name}", {"limit": 5}), (f"open_{name}_form", {"fields": {}})]
        calls.append((f"confirm_delete_{name}", {"id": "1"}))
    return calls


def _checks() -> list[Any]:
    from schemathesis import checks

    return [getattr(checks, name) for name in CHECKS]
