"""A declaration to start from: what an admin's class says that its list and its form show, as Python to review.

Nothing here asks a hook, a person or the database. What looks like a secret or gives privileges is left out, what
looks personal is a comment with its reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin, sites
from django.contrib.admin.options import InlineModelAdmin
from django.contrib.admin.utils import flatten, flatten_fieldsets
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import models

from .declaration import (
    PERSONAL,
    PRIVILEGES,
    SECRET,
    Declaration,
    admin_of,
    model_field,
    never_fillable,
    never_readable,
)
from .values import FILLABLE, has_choices

WIDTH = 100  # characters of a line, at most, where a list can be broken
RANGED = (models.DateField, models.TimeField, models.IntegerField, models.DecimalField, models.FloatField)


@dataclass(kw_only=True)
class Suggestion:
    """What could be declared for one admin, wherever it is registered."""

    admins: list[Any]  # of one class and model, on different sites
    read: list[str] = field(default_factory=list)
    personal: list[str] = field(default_factory=list)  # of those that could be read
    show: list[str] = field(default_factory=list)
    persist: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # names with the reason
    notes: list[tuple[str, str, str]] = field(default_factory=list)  # keyword, value as code, remark

    @property
    def model(self) -> type[models.Model]:
        """Return the model class."""
        model: type[models.Model] = self.admins[0].model
        return model

    @property
    def cls(self) -> type:
        """Return the class of the admin."""
        return type(self.admins[0])

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is left to declare."""
        return not (self.read or self.show or self.persist)


def suggestions(among: Iterable[AdminSite], *, only: Sequence[type[models.Model]] = ()) -> list[Suggestion]:
    """Return one for each admin on these sites that has no harness, or for each that serves one of the models."""
    found: dict[tuple[type, Any], list[Any]] = {}
    for site in among:
        for model_admin in site._registry.values():
            wanted = model_admin.model in only if only else not isinstance(model_admin, Declaration)
            if wanted and model_admin.opts.app_label != "django_copilot":
                found.setdefault((type(model_admin), model_admin.model), []).append(model_admin)
    return [suggest(admins) for admins in found.values()]


def suggest(admins: list[Any]) -> Suggestion:
    """Return what could be declared for an admin that is registered on these sites."""
    made = Suggestion(admins=admins)
    model_admin = admins[0]
    model = model_admin.model
    on_form = form_names(model_admin)
    listed = [each for each in model_admin.list_display if isinstance(each, str)]
    for name in dict.fromkeys((*listed, *on_form, *map(str, model_admin.readonly_fields))):
        column = model_field(model, name)
        if column is None or (column.primary_key and isinstance(column, models.AutoField)):
            continue
        reason = _why_left_out(model, name)
        if reason:
            made.left_out[name] = reason
            continue
        if PERSONAL.search(name):
            made.personal.append(name)
            if column.remote_field is None and not column.primary_key:
                made.show.append(name)
        made.read.append(name)
    made.persist = [
        name
        for name in on_form
        if name not in model_admin.readonly_fields
        and name not in made.left_out
        and all(_can_be_filled(each, name) for each in admins)
    ]
    made.read = [*made.read] if set(made.read) - set(made.personal) or made.show else []
    made.notes = list(_notes(made, listed))
    return made


def form_names(model_admin: Any) -> list[str]:
    """Return the model's fields that the class puts on its form, in order; a hook may say something else."""
    return _on_form(model_admin, model_admin.opts)


def _on_form(options: Any, meta: Any) -> list[str]:
    if options.fieldsets or options.fields:
        names = flatten_fieldsets(options.fieldsets) if options.fieldsets else flatten(options.fields)
    else:
        form = getattr(options.form, "_meta", None)
        named, dropped = getattr(form, "fields", None), getattr(form, "exclude", None) or ()
        names = [
            each.name
            for each in (*meta.concrete_fields, *meta.many_to_many)
            if each.editable
            and not isinstance(each, models.AutoField)
            and (not isinstance(named, list | tuple) or each.name in named)
            and each.name not in dropped
        ]
    return [
        name
        for name in dict.fromkeys(map(str, names))
        if name not in (options.exclude or ()) and model_field(meta.model, name) is not None
    ]


def _why_left_out(model: type[models.Model], name: str) -> str:
    if never_readable(model, name):
        return "never read"
    if SECRET.search(name):
        return "looking like a secret"
    if name in PRIVILEGES and (name != "is_active" or issubclass(model, AbstractBaseUser)):
        return "giving privileges"
    return ""


def _can_be_filled(model_admin: Any, name: str) -> bool:
    column = model_field(model_admin.model, name)
    if never_fillable(model_admin.model, name) or not column.editable:
        return False
    if isinstance(column, models.AutoField) or getattr(column.remote_field, "parent_link", False):
        return False
    if column.remote_field is None:
        return isinstance(column, FILLABLE)
    if column.many_to_many and not column.remote_field.through._meta.auto_created:
        return False
    return admin_of(model_admin.admin_site, column.remote_field.model) is not None


def _notes(made: Suggestion, listed: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    model_admin = made.admins[0]
    readable = set(made.read) - set(made.personal)
    if model_admin.search_fields:
        yield "search", "True", f"people search {', '.join(map(str, model_admin.search_fields))}"
    lookups = {}
    filters = [each[0] if isinstance(each, list | tuple) else each for each in model_admin.list_filter]
    for name in dict.fromkeys((*filters, model_admin.date_hierarchy)):
        if isinstance(name, str) and name in readable:
            kinds = _lookups(model_field(made.model, name))
            if kinds:
                lookups[name] = kinds
    if lookups:
        yield "lookups", _code(lookups), "people filter by these"
    computed = [name for name in listed if name.isidentifier() and model_field(made.model, name) is None]
    computed = [name for name in computed if not name.startswith("_")]
    if computed:
        yield "computed", _code(computed), "columns that are no fields: read as text"
    inlines = {name: fields for name, fields in map(_inline, _inlines(model_admin)) if fields}
    if inlines:
        yield "inlines", _code(inlines), "rows that are read along with a record"
    if hasattr(made.model._meta, "simple_history_manager_attribute"):
        yield "history", "True", "who changed what of a record, and when"
    actions = [getattr(each, "__name__", each) for each in model_admin.actions or ()]
    if actions:
        yield "actions", _code(actions), "may be chosen on the list, and run by people only"


def _inlines(model_admin: Any) -> Iterator[tuple[Any, Any]]:
    """Go through the inlines that a foreign key ties to the model, each with that key."""
    for inline in model_admin.inlines:
        if not issubclass(inline, InlineModelAdmin) or not hasattr(inline, "fk_name"):
            continue  # a generic one
        keys = [
            each
            for each in inline.model._meta.concrete_fields
            if isinstance(each, models.ForeignKey)
            and issubclass(model_admin.model, each.remote_field.model)
            and inline.fk_name in (None, each.name)
        ]
        if len(keys) == 1 and keys[0].remote_field.get_accessor_name():
            yield inline, keys[0]


def _inline(given: tuple[Any, Any]) -> tuple[str, list[str]]:
    """Return the name of an inline's rows and the fields of them that could be read."""
    inline, key = given
    on_form = [*_on_form(inline, inline.model._meta), *map(str, inline.readonly_fields)]
    names = [
        name
        for name in dict.fromkeys(on_form)
        if name != key.name
        and model_field(inline.model, name) is not None
        and not _why_left_out(inline.model, name)
        and not PERSONAL.search(name)
    ]
    return key.remote_field.get_accessor_name(), names


def _lookups(column: Any) -> list[str]:
    kinds = []
    if isinstance(column, RANGED) and not has_choices(column):
        kinds.append("range")
    elif not isinstance(column, models.BooleanField | models.JSONField | models.FileField):
        kinds.append("in")
    return [*kinds, "isnull"] if column.null else kinds


# -- as code --------------------------------------------------------------------------------------------


def module_text(made: Sequence[Suggestion]) -> str:
    """Return the suggestions as the text of a ``copilot.py``."""
    names = _Names()
    parts = [_text(each, names) for each in made]
    head = [
        '"""What the assistant may read and fill in. A suggestion: read each line before you keep it."""',
        "",
        *names.lines(),
    ]
    return "\n".join([*head, *(f"\n{each}" for each in parts)]) + "\n"


def attributes_text(made: Sequence[Suggestion]) -> str:
    """Return the suggestions as attributes to be copied into the admins' classes."""
    parts = []
    for each in made:
        lines = [
            f"# {each.cls.__module__}: HarnessMixin comes first among its bases",
            f"class {each.cls.__name__}:",
        ]
        body = _body(each, lambda name: f"harness_{name} = ", end="")
        parts.append("\n".join([*lines, *body, *(["    pass"] if each.is_empty else []), *_left_out(each)]))
    return "\n\n\n".join(parts) + "\n"


class _Names:
    """The names that a module imports, each once and for one thing."""

    def __init__(self) -> None:
        self._things: dict[str, Any] = {}
        self._imports: dict[str, set[str]] = {"django_copilot": {"harness"}}

    def of(self, thing: type, label: str) -> str:
        """Return the name of a class, one with its app's label in front where another class has it."""
        name = thing.__name__
        if self._things.setdefault(name, thing) is thing:
            self._imports.setdefault(thing.__module__, set()).add(name)
            return name
        other = f"{label.title().replace('_', '')}{name}"
        self._things[other] = thing
        self._imports.setdefault(thing.__module__, set()).add(f"{name} as {other}")
        return other

    def of_apps(self) -> str:
        """Return the name of the app registry."""
        self._imports.setdefault("django.apps", set()).add("apps")
        return "apps"

    def lines(self) -> list[str]:
        """Return the import statements."""
        return [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self._imports.items())
        ]


def _text(each: Suggestion, names: _Names) -> str:
    title = f"# {each.model._meta.label}"
    if any(isinstance(admin, Declaration) for admin in each.admins):
        compare = _body(each, lambda name: f"{name}=", end=",")
        return "\n".join(
            [f"{title} has a harness already. To compare:", *(f"#{line[3:]}" for line in compare)]
        )
    if each.is_empty:
        return "\n".join([f"{title}: nothing to suggest.", *(line.strip() for line in _left_out(each))])
    target, by_model = _target(each, names)
    lines = [title, "harness(", f"    {target},"]
    everywhere = [
        found
        for site in sites.all_sites
        for found in site._registry.values()
        if (found.model is each.model if by_model else type(found) is each.cls)
    ]
    if len(everywhere) > len(each.admins):
        lines += [f'    site="{admin.admin_site.name}",' for admin in each.admins[:1]]
    return "\n".join([*lines, *_body(each, lambda name: f"{name}=", end=","), *_left_out(each), ")"])


def _target(each: Suggestion, names: _Names) -> tuple[str, bool]:
    """Return how the admin is named, and whether that is by its model: where its class has no name of its own."""
    served = {
        found.model
        for site in sites.all_sites
        for found in site._registry.values()
        if type(found) is each.cls
    }
    label = each.model._meta.app_label
    if each.cls is not ModelAdmin and len(served) == 1 and _is_importable(each.cls):
        return names.of(each.cls, label), False
    if _is_importable(each.model):
        return names.of(each.model, label), True
    return f'{names.of_apps()}.get_model("{each.model._meta.label}")', True


def _is_importable(cls: type) -> bool:
    module = inspect.getmodule(cls)
    return module is not None and vars(module).get(cls.__name__) is cls


def _body(each: Suggestion, begin: Any, *, end: str) -> list[str]:
    lines: list[str] = []
    personal = "looks personal: what stands here is sent to the model's provider"
    if each.read:
        items = [(name, personal if name in each.personal else "") for name in each.read]
        lines += _list(begin("list"), items, end)
    if each.show:
        lines += ["    # people see these in their tables, the model gets a handle for each value"]
        lines += _list(begin("show"), [(name, "") for name in each.show], end)
    if each.persist:
        lines += _list(begin("persist"), [(name, "") for name in each.persist], end)
    lines += [f"    # {begin(keyword)}{value}{end}  # {remark}" for keyword, value, remark in each.notes]
    return lines


def _list(begin: str, items: Sequence[tuple[str, str]], end: str) -> list[str]:
    """Return the lines of a list of names; one with a remark is itself a comment."""
    line = f"    {begin}[{', '.join(_code(name) for name, _remark in items)}]{end}"
    if len(line) <= WIDTH and not any(remark for _name, remark in items):
        return [line]
    inner = [
        f"        # {_code(name)},  # {remark}" if remark else f"        {_code(name)},"
        for name, remark in items
    ]
    return [f"    {begin}[", *inner, f"    ]{end}"]


def _left_out(each: Suggestion) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in each.left_out.items():
        reasons.setdefault(reason, []).append(name)
    return [f"    # left out, {reason}: {', '.join(names)}" for reason, names in reasons.items()]


def _code(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_code(key)}: {_code(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_code, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
