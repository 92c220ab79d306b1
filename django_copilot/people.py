"""Who a person really is: no service account, and nobody else behind her session.

The marks of impersonation are those of django-hijack 3.7, django-loginas 0.3 and django-impersonate 1.9; none
of them is imported. ``COPILOT["REAL_ACTOR"]`` answers for others. Whatever can't be told counts against
deciding: an account of which nobody knows is a service account, a session of which nobody knows is somebody
else's.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.core import checks
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, TimestampSigner
from django.utils.module_loading import import_string

from .conf import Settings, get_settings
from .exceptions import ConfigurationError, Denied

logger = logging.getLogger("django_copilot")

KEY_LENGTH = 64  # characters, as long as the columns that hold a person's key


class Unknown:
    """Stands for somebody who acts as another person and can't be named."""

    pk = ""


def person_key(user: Any) -> str:
    """Return the key of an account as text of at most 64 characters, "" for none."""
    return "" if user is None or user.pk is None else str(user.pk)[:KEY_LENGTH]


def is_service_account(user: Any) -> bool:
    """Tell whether an account decides nothing, a superuser's too. What can't be told is a yes."""
    try:
        own = _own("IS_SERVICE_ACCOUNT")
        if own is None:
            return bool(user.groups.filter(name=get_settings().SERVICE_ACCOUNTS_GROUP).exists())
        answer = own(user)
    except Exception:
        logger.exception("Whether an account is a service account could not be told and is taken as a yes.")
        return True
    if isinstance(answer, bool):
        return answer
    logger.error(
        "COPILOT['IS_SERVICE_ACCOUNT'] gave %s, no bool; it is taken as a yes.", type(answer).__name__
    )
    return True


def real_actor(request: Any) -> Any | None:
    """Return who really acts when the person of a request is impersonated, else None.

    An ``Unknown`` stands for whoever can't be loaded, and for an answer that failed.
    """
    try:
        for mark in (_told, _hijacked, _logged_in_as, _impersonated):
            found = mark(request)
            if found is not None:
                return found
    except Exception:
        logger.exception("Who really acts could not be told; the person is taken as impersonated.")
        return Unknown()
    return None


def who_decides(request: Any) -> str:
    """Return the key of the person of a request. Raises Denied when she may not decide anything."""
    if real_actor(request) is not None:
        raise Denied("impersonated", status=403)
    key = person_key(request.user)
    if not key or is_service_account(request.user):
        raise Denied("service_account", status=403)
    return key


# -- the marks of impersonation --------------------------------------------------------------------------


def _told(request: Any) -> Any | None:
    """Ask the project. That she acts for herself is what it says with None or with her own account."""
    own = _own("REAL_ACTOR")
    given = own(request) if own is not None else None
    if given is None:
        return None
    if isinstance(given, bool) or inspect.isawaitable(given):
        logger.error("COPILOT['REAL_ACTOR'] gave %s, no account.", type(given).__name__)
        return Unknown()
    behind = _account(given)
    return None if behind.pk == request.user.pk else behind


def _hijacked(request: Any) -> Any | None:
    """Read the keys of everybody who hijacked on from one to the next; the first one is no other's."""
    history = request.session.get("hijack_history")
    if history:
        return _account(history[0]) if isinstance(history, list) else Unknown()
    return Unknown() if getattr(request.user, "is_hijacked", False) else None


def _logged_in_as(request: Any) -> Any | None:
    """Read the signed key of who logged in as another; when it is too old to go back, she still is another."""
    flag = getattr(django_settings, "LOGINAS_FROM_USER_SESSION_FLAG", "loginas_from_user")
    if flag not in request.session:
        return None
    try:
        return _account(TimestampSigner().unsign(request.session[flag]))
    except (BadSignature, TypeError):
        return Unknown()


def _impersonated(request: Any) -> Any | None:
    """Read what the middleware has made of its mark in the session: below excluded paths it ignores it."""
    behind = getattr(request, "impersonator", None) or getattr(request.user, "impersonator", None)
    if behind is not None:
        return _account(behind)
    acting = getattr(request.user, "is_impersonate", False)
    ignored = hasattr(request, "impersonator") and not acting
    return Unknown() if (acting or "_impersonate" in request.session) and not ignored else None


def _account(given: Any) -> Any:
    """Return an account, also by its key, active or not; an Unknown for what is none."""
    user_model = get_user_model()
    if isinstance(given, user_model):
        return given
    try:
        return user_model._base_manager.get(pk=getattr(given, "pk", given))
    except (user_model.DoesNotExist, ValidationError, ValueError, TypeError, OverflowError):
        return Unknown()


# -- the project's functions -------------------------------------------------------------------------------


def _own(name: str) -> Callable[[Any], Any] | None:
    """Return the function that a setting names, or None. Raises ConfigurationError."""
    given = getattr(get_settings(), name)
    if given is None:
        return None
    try:
        function = import_string(given) if isinstance(given, str) else given
    except ImportError as error:
        raise ConfigurationError(f"COPILOT[{name!r}] can't be imported: {error}.") from error
    if not callable(function):
        raise ConfigurationError(f"COPILOT[{name!r}] must be a function, or the dotted path of one.")
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"COPILOT[{name!r}] must be an ordinary function, no coroutine.")
    return function  # type: ignore[no-any-return]


def check_people(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check the functions that tell who a person is."""
    return list(_problems())


def _problems() -> Iterator[checks.CheckMessage]:
    try:
        get_settings()
    except ConfigurationError:
        return  # copilot.E001
    for name, number in (("IS_SERVICE_ACCOUNT", "copilot.E043"), ("REAL_ACTOR", "copilot.E044")):
        try:
            _own(name)
        except ConfigurationError as error:
            yield checks.Error(
                str(error), hint="Until it is right, nobody can confirm or approve anything.", id=number
            )


def check_service_accounts(
    app_configs: Any = None, databases: Any = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Warn when the group that the settings name does not exist; runs with the database checks only."""
    from django.contrib.auth.models import Group
    from django.db import Error

    try:
        settings = get_settings()
        name = settings.SERVICE_ACCOUNTS_GROUP
        if (
            not databases
            or settings.IS_SERVICE_ACCOUNT is not None
            or name == Settings.SERVICE_ACCOUNTS_GROUP
        ):
            return []
        there = Group.objects.filter(name=name).exists()
    except (ConfigurationError, Error):
        return []  # copilot.E001, or not migrated yet
    if there:
        return []
    return [
        checks.Warning(
            f"There is no group {name!r}, which COPILOT['SERVICE_ACCOUNTS_GROUP'] names.",
            hint="Create it and put the accounts of programs into it, or correct the name.",
            id="copilot.W043",
        )
    ]
