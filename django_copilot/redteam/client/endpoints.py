"""The addresses of the copilot on one admin site, found in the urlconf, and how each may answer whom.

The table here is the yardstick for statuses; it is written from what is promised and asks nothing of the views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse

from ...models import AuditEntry
from ..people import Actor
from ..rights import Rights
from ..world import World

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
USE, APPROVE = "django_copilot.use_copilot", "django_copilot.approve_plan"
AUDIT, METRICS = "django_copilot.view_audit", "django_copilot.view_metrics"
SWITCH = "django_copilot.use_switch"
DECIDING = ("confirm", "reject", "approve", "undo", "again", "look_up", "settle")
CHAT_CODES = frozenset(
    {
        "history_unreadable",
        "model_not_configured",
        "model_unavailable",
        "model_timeout",
        "model_protocol",
        "too_many_rounds",
    }
)


@dataclass(frozen=True)
class Rule:
    """How an address answers. ``answers`` are the statuses by method for somebody's own things."""

    kind: str  # "json", "page" or "admin": who has no session is told so, or sent to the login page
    needs: tuple[str, ...]  # one of these permissions; none for every member of the staff
    answers: Mapping[str, frozenset[int]]
    of: str = ""  # "conversation" or "plan": what the id in the address names


def _read(*more: int) -> Mapping[str, frozenset[int]]:
    return {"GET": frozenset({200, *more}), "HEAD": frozenset({200, *more})}


_DECIDE = {"POST": frozenset({200, 303, 400, 403, 409})}
_ADMIN = {
    method: frozenset({200, 302, 400, 403, 404})
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
}
TABLE: Mapping[str, Rule] = {
    "chat": Rule("json", (USE,), {"POST": frozenset({200, 400, 404, 409, 429, 500})}),
    "jsi18n": Rule("admin", (), {**_read(), "OPTIONS": frozenset({200})}),
    "conversation_changelist": Rule("page", (USE,), _read()),
    "conversation_detail": Rule("page", (USE,), _read(), "conversation"),
    "conversation_delete": Rule("page", (USE,), {"POST": frozenset({200, 302})}, "conversation"),
    "plan_changelist": Rule("page", (USE, APPROVE), _read()),
    "plan_detail": Rule("page", (USE, APPROVE), _read(), "plan"),
    **{f"plan_{verb}": Rule("page", (USE, APPROVE), _DECIDE, "plan") for verb in DECIDING},
    # A proposal of the admin's own pages is made again by going to that page.
    "plan_again": Rule(
        "page", (USE, APPROVE), {"POST": frozenset({200, 302, 303, 400, 403, 404, 409})}, "plan"
    ),
    "switch": Rule("page", (SWITCH,), {**_read(), "POST": frozenset({200, 303, 400})}),
    "metrics": Rule("page", (METRICS,), _read()),
    "audit": Rule("admin", (AUDIT,), {**_ADMIN, "OPTIONS": _ADMIN["GET"]}),
}


@dataclass(frozen=True)
class Endpoint:
    """One address of a site. ``path`` gives it for an id."""

    name: str  # as in the urlconf
    site: str
    takes: tuple[str, ...]  # names of what stands in the address
    rule: Rule

    @property
    def verb(self) -> str:
        """Return what is decided there, or ""."""
        verb = self.name.removeprefix("django_copilot_plan_")
        return verb if verb in DECIDING else ""

    def path(self, ident: str = "") -> str:
        """Return the address. Raises NoReverseMatch for an id that no address can hold."""
        kwargs = dict.fromkeys(self.takes, ident)
        return reverse(f"admin:{self.name}", kwargs=kwargs, current_app=self.site)


def find_endpoints(site: AdminSite) -> list[Endpoint]:
    """Return the addresses of the copilot's own on a site, as the urlconf has them."""
    found = {}
    for pattern in _patterns(get_resolver().url_patterns, site.name, inside=False):
        name = pattern.name or ""
        if name.startswith("django_copilot"):
            rule = _rule(name)
            found[name] = Endpoint(name, site.name, tuple(pattern.pattern.converters), rule)
    return [found[name] for name in sorted(found)]


def _patterns(patterns: Any, namespace: str, *, inside: bool) -> Iterator[URLPattern]:
    for each in patterns:
        if isinstance(each, URLResolver):
            here = inside or (each.app_name == "admin" and each.namespace == namespace)
            if here or each.app_name != "admin":
                yield from _patterns(each.url_patterns, namespace, inside=here)
        elif inside:
            yield each


def _rule(name: str) -> Rule:
    short = name.removeprefix("django_copilot_")
    if short.startswith(AuditEntry._meta.model_name or "?"):
        return TABLE["audit"]
    return TABLE.get(short) or TABLE[short.removesuffix("_changelist")]


@dataclass(frozen=True)
class Standing:
    """What a person may do with the copilot on a site, asked of her account and of the site's own hooks."""

    is_staff: bool
    permissions: frozenset[str]
    has_entity: bool

    @classmethod
    def of(cls, world: World, actor: Actor, site: AdminSite) -> Standing:
        """Ask for it."""
        user = get_user_model()._default_manager.get(pk=actor.pk)
        with world.rights(actor, site) as rights:
            return cls(
                is_staff=bool(site.has_permission(rights.request)),
                permissions=frozenset(user.get_all_permissions()),
                has_entity=any(_can_anything(rights, model) for model in rights.declared),
            )

    def may(self, rule: Rule) -> bool:
        """Tell whether she may open an address at all."""
        if not self.is_staff or (rule.needs and not {*rule.needs} & self.permissions):
            return False
        return (
            self.has_entity
            or USE not in rule.needs
            or (APPROVE in rule.needs and APPROVE in self.permissions)
        )


def _can_anything(rights: Rights, model: Any) -> bool:
    each, request = rights.site._registry[model], rights.request
    return each.has_module_permission(request) and (
        each.has_view_or_change_permission(request)
        or each.has_add_permission(request)
        or each.has_delete_permission(request)
    )


def allowed(
    rule: Rule,
    method: str,
    *,
    standing: Standing | None,
    json: bool,
    token: bool = True,
    broken: bool = False,
    ident: str = "own",
    impersonated: bool = False,
    is_service: bool = False,
) -> frozenset[int]:
    """Return the statuses with which a request may be answered.

    ``standing`` is None for nobody; ``token`` is false for an unsafe method without the right CSRF token;
    ``ident`` is "own", "perhaps" (another person's that she may approve) or "none"; ``json`` is what the
    request prefers. A ``broken`` body may always be told so, after who it is has been asked.
    """
    told = {400} if broken and method not in SAFE else set()
    unsafe = method not in SAFE
    if standing is None:
        if rule.kind == "json":
            return frozenset({401})
        # On pages Django looks for the token in the body, before anybody asks who it is.
        first = told if unsafe and not token else set()
        if rule.kind == "admin":
            return frozenset({302, 403, *first} if unsafe and not token else {302})
        return frozenset({401 if json else 302, *first})
    if unsafe and not token:
        return frozenset({403, *told})
    if not standing.may(rule):
        return frozenset({302, 403, *told} if rule.kind == "admin" else {403, *told})
    if SWITCH in rule.needs and (impersonated or is_service):
        return frozenset({403, *told})
    if method not in rule.answers:
        return frozenset({405, *told})
    if rule.of and ident == "none":
        return frozenset({404, *told})
    answers = rule.answers[method] | told
    return frozenset(answers | ({404} if rule.of and ident == "perhaps" else set()))


def reversible(endpoint: Endpoint, ident: str) -> str:
    """Return the address for an id, or one whose id says nothing where no address can hold it."""
    try:
        return endpoint.path(ident)
    except NoReverseMatch:
        return endpoint.path("0")
