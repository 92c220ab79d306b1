"""System checks of declarations and of the installation; docs/checks.md explains each id.

Nothing here touches the database but the one check that is tagged for it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.admin import ModelAdmin, sites
from django.contrib.admin.utils import flatten, flatten_fieldsets
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import checks
from django.db import models

from .backends import backend_class
from .conf import Settings, get_settings
from .declaration import (
    PRIVILEGES,
    SECRET,
    Declaration,
    admin_of,
    is_declared,
    model_field,
    never_fillable,
    never_readable,
)
from .exceptions import ConfigurationError
from .reading_checks import reading_messages
from .scope import own_scope
from .values import FILLABLE

# harness_silence takes these.
PER_FIELD = (
    *("copilot.W022", "copilot.W023", "copilot.W035", "copilot.W036", "copilot.W084", "copilot.W085"),
    *("copilot.W087", "copilot.W091", "copilot.W093", "copilot.W095"),
)
CLASHING = ("list", "persist")
ATTRIBUTES = {name for name in vars(Declaration) if name.startswith(("harness_", "get_harness_"))}
MAY_BE_ZERO = ("MODEL_RETRIES", "HISTORY_MESSAGES", "HISTORY_CHARS")


def check_all(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Run every check that needs no database."""
    found = [*_check_settings(), *(list(_check_order()) or _check_template())]
    if apps.is_installed("django.contrib.admin"):
        for site in sorted(sites.all_sites, key=lambda each: each.name):
            for model_admin in list(site._registry.values()):
                if isinstance(model_admin, Declaration):
                    found.extend(_check_admin(model_admin))
                else:
                    found.extend(_check_mixin(model_admin))
    return found


def _check_settings() -> Iterator[checks.CheckMessage]:
    for needed in ("rest_framework", "simple_history"):
        if not apps.is_installed(needed):
            yield checks.Error(
                f"django_copilot needs {needed!r} in INSTALLED_APPS.",
                hint=f"Add {needed!r}; it is installed along with the package.",
                id="copilot.E002",
            )
    try:
        settings = get_settings()
    except ConfigurationError as error:
        yield checks.Error(str(error), id="copilot.E001")
        return
    for name, default in vars(Settings()).items():
        problem = _problem(name, getattr(settings, name), default)
        if problem:
            yield checks.Error(f"COPILOT[{name!r}] must be {problem}.", id="copilot.E004")
    try:
        backend_class(str(settings.BACKEND))
    except ConfigurationError as error:
        yield checks.Error(str(error), id="copilot.E005")
    try:
        own_scope()
    except ConfigurationError as error:
        yield checks.Error(str(error), id="copilot.E006")


def _problem(name: str, value: Any, default: Any) -> str:
    """Return what a setting's value has to be, or "" when it is."""
    match default:
        case bool():
            return "" if isinstance(value, bool) else "True or False"
        case int() | float():
            kinds = (int,) if isinstance(default, int) else (int, float)
            if not isinstance(value, kinds) or isinstance(value, bool):
                return "a whole number" if kinds == (int,) else "a number"
            least = 0 if name in MAY_BE_ZERO else 1 if isinstance(default, int) else 0.001
            return "" if value >= least else f"at least {least}"
        case str():
            return "" if isinstance(value, str) else "text"
        case Mapping():
            return "" if isinstance(value, Mapping) else "a dict"
    return ""


def _check_order() -> Iterator[checks.CheckMessage]:
    names = [config.name for config in apps.get_app_configs()]
    ours = names.index("django_copilot")
    themes = {"unfold", "jazzmin", "grappelli", "django.contrib.admin"}
    before = [name for name in names[:ours] if name in themes]
    if before:
        yield checks.Error(
            f"django_copilot stands after {', '.join(before)} in INSTALLED_APPS, so the panel is not shown.",
            hint="Move 'django_copilot' before the admin's theme and 'django.contrib.admin'.",
            id="copilot.E003",
        )


def _check_template() -> Iterator[checks.CheckMessage]:
    """Follow ``admin/base.html`` from template to template, as rendering does, to the one of ours."""
    from django.template import TemplateDoesNotExist, TemplateSyntaxError, engines
    from django.template.backends.django import DjangoTemplates
    from django.template.loader_tags import ExtendsNode

    ours = Path(__file__).parent / "templates" / "admin" / "base.html"
    for backend in engines.all():
        if not isinstance(backend, DjangoTemplates):
            continue
        name = "admin/base.html"
        met: list[Any] = []
        while True:
            try:
                template, _origin = backend.engine.find_template(name, skip=met)
            except (TemplateDoesNotExist, TemplateSyntaxError):
                break  # the admin's own checks and pages tell of that
            if Path(template.origin.name) == ours:
                return
            node = next((each for each in template.nodelist if isinstance(each, ExtendsNode)), None)
            parent = getattr(node, "parent_name", None)
            if node is None or parent is None or parent.filters or not isinstance(parent.var, str):
                if node is None:
                    yield checks.Warning(
                        f"{template.origin.name} is found before django_copilot's admin/base.html, so the panel "
                        "is not shown.",
                        hint='Let it begin with {% extends "admin/base.html" %} and change only blocks, or load '
                        "{% copilot_panel %} from django_copilot in its head.",
                        id="copilot.W007",
                    )
                break
            met.append(template.origin)
            name = parent.var


def _check_admin(model_admin: Any) -> Iterator[checks.CheckMessage]:
    cls = type(model_admin)
    if model_admin.opts.app_label == "django_copilot":
        yield checks.Error("The copilot's own models can't be declared.", obj=cls, id="copilot.E010")
        return
    mro = cls.__mro__
    if mro.index(Declaration) > mro.index(ModelAdmin) or cls.get_form is ModelAdmin.get_form:
        yield checks.Error(
            "HarnessMixin stands after ModelAdmin among the bases, so it does nothing.",
            hint=f"Write class {cls.__name__}(HarnessMixin, …).",
            obj=cls,
            id="copilot.E011",
        )
        return
    clash = [name for name in CLASHING if name in vars(cls)]
    if clash:
        yield checks.Warning(
            f"{', '.join(clash)}: the attributes are called harness_list and harness_persist.",
            obj=cls,
            id="copilot.W012",
        )
    for name in _own_names(cls) - ATTRIBUTES:
        alike = difflib.get_close_matches(name, ATTRIBUTES, n=1, cutoff=0.5)
        yield checks.Warning(
            f"{name}: there is no such attribute.",
            hint=f"Did you mean {alike[0]}?" if alike else f"There are {', '.join(sorted(ATTRIBUTES))}.",
            obj=cls,
            id="copilot.W017",
        )
    if not is_declared(model_admin):
        yield from (message for _name, message in reading_messages(model_admin))
        return
    yield from _check_inherited(cls)
    silenced: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    try:
        silenced = _silenced(model_admin.harness_silence)
    except ValueError as error:
        yield checks.Error(f"harness_silence {error}", obj=cls, id="copilot.E015")
    for attribute in ("harness_list", "harness_persist"):
        names = getattr(model_admin, attribute)
        if (
            isinstance(names, str)
            or not isinstance(names, Sequence)
            or not all(isinstance(n, str) for n in names)
        ):
            yield checks.Error(
                f"{attribute} must be a list or tuple of field names.", obj=cls, id="copilot.E013"
            )
            continue
        for name in names:
            check = _check_read if attribute == "harness_list" else _check_fill
            for message in check(model_admin, name):
                if (message.id, name) in silenced:
                    used.add((str(message.id), name))
                else:
                    yield message
    for name, message in reading_messages(model_admin):
        if (message.id, name) in silenced:
            used.add((str(message.id), name))
        else:
            yield message
    if "harness_silence" in vars(cls):
        for ident, name in sorted(silenced - used):
            yield checks.Warning(
                f"harness_silence: there is no {ident} about {name!r} to silence.", obj=cls, id="copilot.W016"
            )


def _silenced(given: Any) -> set[tuple[str, str]]:
    """Return the pairs of id and field that ``harness_silence`` names. Raises ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError("must be a dict of warning ids with lists of field names.")
    pairs: set[tuple[str, str]] = set()
    for ident, names in given.items():
        if ident not in PER_FIELD:
            raise ValueError(f"can't silence {ident!r}. Per field it silences {', '.join(PER_FIELD)}.")
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ValueError("must be a dict of warning ids with lists of field names.")
        pairs.update((ident, str(name)) for name in names)
    return pairs


def _own_names(cls: type) -> set[str]:
    """Return the names of the class and its bases that are written as ours are."""
    return {
        name
        for base in cls.__mro__
        if base is not Declaration
        for name in vars(base)
        if name.startswith(("harness_", "get_harness_"))
    }


def _check_mixin(model_admin: Any) -> Iterator[checks.CheckMessage]:
    cls = type(model_admin)
    names = _own_names(cls)
    if names:
        yield checks.Warning(
            f"{', '.join(sorted(names))}: without HarnessMixin these declare nothing.",
            hint=f"Write class {cls.__name__}(HarnessMixin, …).",
            obj=cls,
            id="copilot.W018",
        )


def _check_inherited(cls: type) -> Iterator[checks.CheckMessage]:
    for attribute in (
        "harness_list",
        "harness_persist",
        "harness_show",
        "harness_inlines",
        "harness_computed",
    ):
        owner = next(base for base in cls.__mro__ if attribute in vars(base))
        if owner is not cls and owner is not Declaration and getattr(cls, attribute):
            yield checks.Warning(
                f"{attribute} is inherited from {owner.__name__}.",
                hint=f"Repeat it on {cls.__name__} if these fields are meant to be exposed here too.",
                obj=cls,
                id="copilot.W014",
            )


def _check_read(model_admin: Any, name: str) -> Iterator[checks.CheckMessage]:
    cls, model = type(model_admin), model_admin.model
    if "__" in name or model_field(model, name) is None:
        yield _unknown(cls, "harness_list", name)
        return
    if never_readable(model, name):
        yield checks.Error(
            f"harness_list: {name!r} can't be read by the assistant.", obj=cls, id="copilot.E021"
        )
        return
    if not _is_shown(model_admin, name):
        yield _not_shown(cls, "harness_list", name)
    if SECRET.search(name):
        yield checks.Warning(
            f"harness_list: {name!r} looks like a secret. What stands in harness_list is sent to the model's provider.",
            hint="Take it out, or name it in harness_silence if the name misleads.",
            obj=cls,
            id="copilot.W022",
        )


def _check_fill(model_admin: Any, name: str) -> Iterator[checks.CheckMessage]:
    cls, model = type(model_admin), model_admin.model
    field = model_field(model, name)
    if field is None:
        if name in getattr(model_admin.form, "declared_fields", {}):
            return
        yield _unknown(cls, "harness_persist", name)
        return
    if never_fillable(model, name):
        yield checks.Error(
            f"harness_persist: {name!r} is a file, binary or password field and can't be filled in.",
            obj=cls,
            id="copilot.E031",
        )
        return
    if (
        not field.editable
        or isinstance(field, models.AutoField)
        or getattr(field.remote_field, "parent_link", False)
    ):
        yield checks.Error(f"harness_persist: {name!r} can't be edited.", obj=cls, id="copilot.E032")
    elif field.many_to_many and not field.remote_field.through._meta.auto_created:
        yield checks.Error(
            f"harness_persist: {name!r} has a through model and no form field.", obj=cls, id="copilot.E033"
        )
    elif (
        field.remote_field is not None and admin_of(model_admin.admin_site, field.remote_field.model) is None
    ):
        yield checks.Error(
            f"harness_persist: {name!r} can't be filled in, because {field.remote_field.model._meta.label} is not "
            f"registered on the admin site {model_admin.admin_site.name!r}.",
            obj=cls,
            id="copilot.E033",
        )
    elif field.remote_field is None and not isinstance(field, FILLABLE):
        yield checks.Error(
            f"harness_persist: fields like {name!r} ({type(field).__name__}) can't be filled in by the assistant.",
            obj=cls,
            id="copilot.E034",
        )
    elif not _is_shown(model_admin, name, on_form=True):
        yield _not_shown(cls, "harness_persist", name)
    if name in PRIVILEGES and (name != "is_active" or issubclass(model, AbstractBaseUser)):
        yield checks.Warning(
            f"harness_persist: {name!r} gives privileges. A proposal is one careless click from being saved.",
            hint="Take it out, or name it in harness_silence if that is meant.",
            obj=cls,
            id="copilot.W035",
        )
    elif SECRET.search(name):
        yield checks.Warning(
            f"harness_persist: {name!r} looks like a secret.",
            hint="Take it out, or name it in harness_silence if the name misleads.",
            obj=cls,
            id="copilot.W036",
        )


def _unknown(cls: type, attribute: str, name: str) -> checks.Error:
    return checks.Error(
        f"{attribute}: {name!r} is no field of the model.",
        hint="Name the model's own fields. Lookups, methods and properties can't be declared.",
        obj=cls,
        id="copilot.E020" if attribute == "harness_list" else "copilot.E030",
    )


def _not_shown(cls: type, attribute: str, name: str) -> checks.Warning:
    return checks.Warning(
        f"{attribute}: no page of this admin shows {name!r}, so nobody can use it.",
        obj=cls,
        id="copilot.W023",
    )


def _is_shown(model_admin: Any, name: str, *, on_form: bool = False) -> bool:
    """Tell whether the class's static declarations show a field. With hooks of its own, it may."""
    cls = type(model_admin)
    hooks = (
        "get_fields",
        "get_fieldsets",
        "get_exclude",
        "get_form",
        "get_list_display",
        "get_readonly_fields",
    )
    for hook in hooks:
        owner = next(base for base in cls.__mro__ if hook in vars(base))
        if owner is not ModelAdmin and not owner.__module__.startswith(("django.", "django_copilot.")):
            return True
    if model_admin.form is not forms.ModelForm:
        return True  # its Meta has a say
    if model_admin.fieldsets or model_admin.fields:
        listed = (
            flatten_fieldsets(model_admin.fieldsets) if model_admin.fieldsets else flatten(model_admin.fields)
        )
        shown = {*listed}
    else:
        shown = {
            field.name
            for field in (*model_admin.opts.concrete_fields, *model_admin.opts.many_to_many)
            if field.editable and not isinstance(field, models.AutoField)
        } - {*(model_admin.exclude or ())}
        shown.update(model_admin.readonly_fields)
    if on_form:
        return name in shown - {*model_admin.readonly_fields} - {*(model_admin.exclude or ())}
    return name in shown or name in model_admin.list_display


def check_permission_given(
    app_configs: Any = None, databases: Any = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """Warn when no group has ``use_copilot``; runs with the database checks only."""
    if not databases:
        return []
    from django.contrib.auth.models import Permission
    from django.db import Error

    try:
        given = Permission.objects.filter(
            content_type__app_label="django_copilot", codename="use_copilot", group__isnull=False
        ).exists()
    except Error:
        return []  # not migrated yet
    if given:
        return []
    return [
        checks.Warning(
            "No group has the permission django_copilot.use_copilot, so only superusers see the assistant.",
            hint="Give 'Can use the copilot' to a group.",
            id="copilot.W040",
        )
    ]
