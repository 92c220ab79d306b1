"""``harness()``: the declaration of an admin from outside its class, for admins that a project does not own.

The registered ModelAdmin gives way, on its site, to a subclass of ``HarnessMixin`` and its own class that holds
what was declared; permissions, addresses and checks are those of the class as it was. What is named and not
found stays without effect, and a check says so.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin, sites
from django.core import checks
from django.db import models

from .declaration import Declaration, admin_of
from .exceptions import ConfigurationError
from .mixin import HarnessMixin

KEYWORDS = tuple(
    name.removeprefix("harness_") for name in vars(Declaration) if name.startswith("harness_")
)  # what a class writes with the prefix
OWN_NAMES = ("harness_", "get_harness_")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outside:
    """One call of ``harness``: what was named, where, and the admins that came of it."""

    target: type
    site: AdminSite | str | None
    attributes: Mapping[str, Any]
    module: str  # that called
    made: list[Any] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the call as it stands in messages."""
        where = f" on the site {_site_name(self.site)!r}" if self.site is not None else ""
        return f"harness({self.target.__name__}){where}"


_declared: list[Outside] = []


def harness(target: type, *, site: AdminSite | str | None = None, **declared: Any) -> None:
    """Declare for a registered admin what its class would with ``harness_…`` attributes.

    ``target`` is the class of a ModelAdmin as it is registered, or the model where that has no class of its own.
    Without ``site`` (an AdminSite or its name) it is declared wherever it is registered. The keywords are the
    attributes without their prefix: ``list``, ``persist`` and so on. Raises ConfigurationError.
    """
    unknown = declared.keys() - set(KEYWORDS)
    if unknown:
        raise ConfigurationError(
            f"harness() takes no {', '.join(sorted(unknown))}. It takes site, {', '.join(KEYWORDS)}."
        )
    _check_target(target)
    if site is not None and not isinstance(site, str | AdminSite):
        raise ConfigurationError(f"site={site!r}: harness() takes an AdminSite or the name of one.")
    if not declared:
        raise ConfigurationError(f"harness({target.__name__}) declares nothing: give it list=[…], at least.")
    made = Outside(
        target=target,
        site=site,
        attributes={f"harness_{name}": value for name, value in declared.items()},
        module=sys._getframe(1).f_globals.get("__name__", __name__),
    )
    _apply(made)
    _declared.append(made)


def apply_waiting() -> None:
    """Try again what named an admin that was not registered yet, or is registered anew. Raises ConfigurationError."""
    for each in _declared:
        if not any(admin_of(made.admin_site, made.model) is made for made in each.made):
            each.made.clear()
            _apply(each)


def _check_target(target: Any) -> None:
    if not isinstance(target, type) or not issubclass(target, ModelAdmin | models.Model):
        raise ConfigurationError(f"harness() takes the class of a ModelAdmin or of a model, not {target!r}.")
    if target is ModelAdmin:
        raise ConfigurationError("harness(ModelAdmin) would be every admin without a class: name the model.")
    if issubclass(target, Declaration):
        raise ConfigurationError(
            f"{target.__name__} has HarnessMixin already: write harness_… attributes there."
        )


def _apply(declared: Outside) -> None:
    found = list(_found(declared))
    if any(each.opts.app_label == "django_copilot" for each in found):
        raise ConfigurationError(f"{declared.text}: the copilot's own models can't be declared.")
    if _ambiguous(declared, found):
        return
    for model_admin in found:
        cls = type(model_admin)
        if _outside_of(model_admin) is not None:
            raise ConfigurationError(
                f"{declared.text} stands in {declared.module}, but {cls.__name__} was declared in "
                f"{cls.__module__} already: make it one call."
            )
        own = sorted(name for name in dir(cls) if name.startswith(OWN_NAMES))
        if own:
            what = "HarnessMixin" if isinstance(model_admin, Declaration) else own[0]
            raise ConfigurationError(
                f"{declared.text}: {cls.__name__} has {what} already: write harness_… attributes there."
            )
    classes: dict[type, Any] = {}
    for model_admin in found:
        cls = type(model_admin)
        site = model_admin.admin_site
        made = classes.setdefault(cls, _subclass(cls, declared))
        # In its place: the site's order is that of its entities.
        site._registry[model_admin.model] = made(model_admin.model, site)
        declared.made.append(site._registry[model_admin.model])


def _subclass(cls: type, declared: Outside) -> type:
    """Return the class to register. It has the name of the one it is made of, and the module that declares."""
    body = {"__module__": declared.module, "__doc__": cls.__doc__, "copilot_outside": declared}
    return types.new_class(
        cls.__name__, (HarnessMixin, cls), exec_body=lambda names: names.update(body, **declared.attributes)
    )


def _found(declared: Outside) -> Iterator[Any]:
    """Go through the registered admins that are meant, by the names of their sites."""
    for site in sorted(sites.all_sites, key=lambda each: each.name):
        if not _is_meant(declared.site, site):
            continue
        if issubclass(declared.target, models.Model):
            found = admin_of(site, declared.target)
            if found is not None:
                yield found
        else:
            yield from (each for each in site._registry.values() if _original(each) is declared.target)


def _is_meant(given: AdminSite | str | None, site: AdminSite) -> bool:
    if given is None or isinstance(given, str):
        return given is None or site.name == given
    return given._registry is site._registry  # the default site is a lazy object around its own


def _outside_of(model_admin: Any) -> Outside | None:
    found: Outside | None = getattr(type(model_admin), "copilot_outside", None)
    return found


def _original(model_admin: Any) -> type:
    cls = type(model_admin)
    return cls.__bases__[1] if "copilot_outside" in vars(cls) else cls


def _ambiguous(declared: Outside, found: list[Any]) -> str:
    """Return of what there are several where one was named, else ""."""
    kinds = {each.opts.label for each in found}
    if len(kinds) > 1:
        return f"for several models ({', '.join(sorted(kinds))}): name the model"
    names = {each.admin_site.name for each in found}
    if issubclass(declared.target, models.Model) and len(names) > 1:
        return f"on several sites ({', '.join(sorted(names))}): name the site"
    return ""


def _site_name(site: AdminSite | str | None) -> str:
    return site if isinstance(site, str) else site.name if site is not None else ""


# -- checks ---------------------------------------------------------------------------------------------


def check_declared(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that what ``harness`` was called for is in force."""
    return [message for each in _declared for message in _check(each)]


def _check(declared: Outside) -> Iterator[checks.CheckMessage]:
    if declared.made:
        for made in declared.made:
            now = admin_of(made.admin_site, made.model)
            if now is not made:
                yield checks.Error(
                    f"{declared.text}: {made.opts.label} was "
                    f"{'taken off the site' if now is None else 'registered anew'} after that, so nothing is declared.",
                    hint="Call harness() below what registers it last.",
                    obj=type(made),
                    id="copilot.E071",
                )
        return
    several = _ambiguous(declared, list(_found(declared)))
    if several:
        yield checks.Error(
            f"{declared.text} in {declared.module}: it is registered {several}.", id="copilot.E072"
        )
        return
    yield checks.Error(
        f"{declared.text} in {declared.module}: it was not registered, so nothing is declared.",
        hint=_other(declared)
        or "Import the module that registers it above the call, or call harness() below the registration.",
        id="copilot.E070",
    )


def _other(declared: Outside) -> str:
    """Return a hint at a registered admin that is made of the one that was named, or "" without one."""
    for site in sorted(sites.all_sites, key=lambda each: each.name):
        for each in site._registry.values():
            cls = type(each)
            if _is_meant(declared.site, site) and issubclass(cls, declared.target):
                return (
                    f"{cls.__module__}.{cls.__name__}, made of it, is registered for {each.opts.label}: name "
                    "that class, or the model."
                )
    return ""
