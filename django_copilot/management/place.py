"""Where a command works and as whom: arguments that the commands share, and what becomes of them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite, sites
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError
from django.utils import timezone

from ..access import Access
from ..conf import get_settings
from ..declaration import has_entities
from ..exceptions import CallError, ConfigurationError, ScopeUnavailable
from ..scope import Scope, enter_scope


def add_place(
    parser: ArgumentParser, *, site: str = "admin", site_help: str = "", language: bool = False
) -> None:
    """Let a command take the site, the host, the project's own scope, and the language if it shows texts."""
    parser.add_argument(
        "--site", default=site, metavar="NAME", help=site_help or "name of the AdminSite (default: admin)"
    )
    parser.add_argument("--host", default="", help="host name that the project's code should see")
    if language:
        parser.add_argument("--language", default=settings.LANGUAGE_CODE, help="language of texts and dates")
    parser.add_argument(
        "--scope",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a key of the project's own scope, as COPILOT['SCOPE'] captures it; may be repeated",
    )


def site_named(name: str) -> AdminSite:
    """Return the site with entities of that name. Raises CommandError."""
    found = {each.name: each for each in sites.all_sites if has_entities(each)}
    if name not in found:
        raise CommandError(
            f"There is no AdminSite {name!r} with entities. There are: {', '.join(found) or 'none'}."
        )
    return found[name]


def account(username: str, *, active: bool = True) -> Any:
    """Return the account, an active one unless that does not matter. Raises CommandError."""
    user_model = get_user_model()
    user = user_model._default_manager.filter(**{user_model.USERNAME_FIELD: username}).first()
    if user is None or (active and not user.is_active):
        raise CommandError(f"There is no {'active ' if active else ''}account {username!r}.")
    return user


def scope_at(site: AdminSite, options: Mapping[str, Any], keys: Mapping[str, str]) -> Scope:
    """Return the scope that the options name on a site."""
    return Scope(
        site=site.name,
        host=options["host"] or next((h for h in settings.ALLOWED_HOSTS if h[:1] not in "*."), "localhost"),
        language=options.get("language") or settings.LANGUAGE_CODE,
        time_zone=timezone.get_default_timezone_name(),
        keys=dict(keys),
    )


def given_keys(given: Sequence[str]) -> dict[str, str]:
    """Return the keys of ``--scope``, whether or not the project has a scope. Raises CommandError."""
    keys = dict(each.split("=", 1) for each in given if "=" in each)
    if len(keys) != len(given):
        raise CommandError("--scope takes KEY=VALUE, each key once.")
    return keys


def scope_keys(given: Sequence[str]) -> dict[str, str]:
    """Return the keys of ``--scope``, there exactly if the project has a scope of its own. Raises CommandError."""
    keys = given_keys(given)
    if get_settings().SCOPE is not None and not keys:
        raise CommandError(
            "This project has a scope of its own (COPILOT['SCOPE']): name it with --scope KEY=VALUE."
        )
    if get_settings().SCOPE is None and keys:
        raise CommandError("This project has no scope of its own: COPILOT['SCOPE'] is not set.")
    return keys


def why_not(site: AdminSite, scope: Scope, user: Any) -> str:
    """Return the code of why the person can't use the assistant there, or "". Raises CommandError."""
    try:
        with enter_scope(scope, user.pk) as request:
            access = Access(site, request)
            access.check_person()
            return "" if next(access.usable(), None) is not None else "no_entities"
    except CallError as error:
        return error.code
    except (ScopeUnavailable, ConfigurationError) as error:
        raise CommandError(str(error)) from error
