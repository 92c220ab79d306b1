"""Oracle 4: the same calls on two databases that differ only in what the person may not see give the same answers.

The second database is the first with every hidden value changed, inside a transaction that is taken back. What is
hidden is asked of ``rights``: once for what her admin does not show her, where answers to the model and to her must
agree, and once for what is not declared, where those to the model must. A third time the hidden records themselves
are gone, as far as no visible one refers to them: that there are any must not be told either. A field on which the
project's own rules depend (changing it changes what she may see, or a label) is left alone and listed as a residual
channel.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from django.contrib.admin import AdminSite
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import DatabaseError, connections, models, router, transaction

from ..backends.base import ToolCall
from ..references import References
from ..tools.write import all_tools
from .canaries import business_models
from .grammar import Grammar
from .knowledge import known_of, references_of
from .model import one_call, told_by
from .people import Actor
from .rights import Rights, tracked_by
from .statements import HANDLE, Judge
from .watch import UNSCOPED
from .world import World

Level = Literal["person", "model", "rows"]
Changing = Callable[[], AbstractContextManager[None]]
MOST_ROWS = 2_000  # of one model that are varied
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32,64}\b"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
)


_NONE_OR_MANY = re.compile(r'"code": "(?:not_found|too_many_records)"')


@dataclass(frozen=True)
class _Answer:
    kind: str
    to_model: str
    to_person: str
    statements: tuple[str, ...]
    by_rule: bool  # a write tool has read past its person's rows


def run(world: World, *, number: int, calls: int) -> None:
    """Compare so many calls, spread over people, sites and both levels."""
    rng = world.rng("interference", number)
    places = [(actor, site) for actor in world.actors for site in world.sites]
    levels: tuple[Level, ...] = ("person", "model", "rows")
    share = max(1, calls // (len(places) * len(levels)))
    for actor, site in places:
        known = known_of(world, site)
        for level in levels:
            key = actor.pk, site.name, level
            if key not in world.hidden:
                world.hidden[key] = (
                    hidden_rows(world, actor, site)
                    if level == "rows"
                    else hidden_cells(world, actor, site, level=level)
                )
            hidden = world.hidden[key]
            grammar = Grammar(known, rng)
            # Every second one is in order: most of the others are refused alike on both.
            made = [grammar.probing_call() if at % 2 else grammar.call() for at in range(share)]
            change = partial(without if level == "rows" else changed, hidden)
            compare(world, actor, site, made, change, level=level, number=number)
    world.report.count("calls compared on two databases", share * len(places) * len(levels))


def compare(
    world: World,
    actor: Actor,
    site: AdminSite,
    calls: list[ToolCall],
    change: Changing,
    *,
    level: Level,
    number: int,
) -> None:
    """Send the calls to the database as it is and to the changed one, and report each difference."""
    judge, shown = Judge(world, actor, site), references_of(world, actor, site)
    before = [_answer(world, actor, site, call, judge, shown) for call in calls]
    with change():
        world.forget()
        after = [_answer(world, actor, site, call, judge, shown) for call in calls]
    world.forget()
    for at, (call, one, other) in enumerate(zip(calls, before, after, strict=True)):
        case = (
            f"interference {world.seed}:{number}:{at} {actor.name}@{site.name} {level} "
            f"{call.name[:80]} {call.arguments[:400]!r}"
        )
        world.report.count("tool calls", 2)
        told_alike = (one.kind, one.to_model, one.to_person) == (other.kind, other.to_model, other.to_person)
        if not told_alike and (one.by_rule or other.by_rule):
            told = _difference(one.to_model, other.to_model)
            world.report.residual[call.name] = (
                f"what it says depends on rows that it reads by ctx.unscoped: {told}"
            )
            continue
        if level == "model" and not told_alike and _selects_by_handle(call, one, other):
            world.report.count("answers that differ by what a handle may decide")
            continue
        if (one.kind, one.to_model) != (other.kind, other.to_model):
            world.report.found(4, f"the model is told {_difference(one.to_model, other.to_model)}", case=case)
        elif level != "model" and one.to_person != other.to_person:
            world.report.found(
                4, f"the person is shown {_difference(one.to_person, other.to_person)}", case=case
            )
        elif level != "rows" and one.statements != other.statements:
            told = _difference("\n".join(one.statements), "\n".join(other.statements))
            world.report.found(4, f"the statements differ: {told}", case=case)


def _selects_by_handle(call: ToolCall, one: _Answer, other: _Answer) -> bool:
    """Tell whether two answers differ in what a handle may decide: which rows hold its value, if a write tool took it.

    These are the only things that may depend on a value that only the person sees.
    """
    if HANDLE.search(call.arguments) is None:
        return False
    if call.name in all_tools():
        return {one.kind, other.kind} == {"Planned", "Failed"}
    refused = [each.to_model for each in (one, other) if each.kind == "Failed"]
    return (
        call.name.startswith(("query_", "count_", "summarise_", "open_"))
        and "filters" in call.arguments
        and all(_NONE_OR_MANY.search(each) for each in refused)
    )


def _answer(
    world: World, actor: Actor, site: AdminSite, call: ToolCall, judge: Judge, references: References
) -> _Answer:
    case = f"interference {call.name[:80]} {call.arguments[:300]!r}"
    outcome, watched = one_call(world, actor, site, call, judge, case=case, references=references)
    to_model, to_person = (_RANDOM.sub("#", each) for each in told_by(outcome))
    own_rule = call.name in all_tools()  # what a write tool reads by itself is its developer's
    statements = (
        ()
        if own_rule
        else tuple(
            each.sql for each in watched.statements if not each.project and each.sql.startswith("SELECT")
        )
    )
    by_rule = any(each.project == UNSCOPED for each in watched.statements)
    return _Answer(type(outcome).__name__, to_model, to_person, statements, by_rule)


def _difference(one: str, other: str) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return f"{one[max(0, at - 40) : at + 80]!r} and {other[max(0, at - 40) : at + 80]!r}"


# -- what is hidden, and its other values --------------------------------------------------------------------


def hidden_cells(
    world: World, actor: Actor, site: AdminSite, *, level: Level
) -> dict[tuple[Any, str], list[Any]]:
    """Return the keys of the records on which a field is hidden from the person, by model and field.

    Fields on which the project's own rules depend are left out and reported as residual.
    """
    found: dict[tuple[Any, str], list[Any]] = {}
    with world.rights(actor, site) as rights:
        for model in business_models():
            if (
                issubclass(model, AbstractBaseUser)
                or model._meta.auto_created
                or model._meta.app_label == "auth"
            ):
                continue
            keys = list(model._base_manager.order_by("pk").values_list("pk", flat=True)[:MOST_ROWS])
            seen = {pk: _seen(rights, model, pk, level) for pk in keys}
            for many in model._meta.many_to_many:
                world.report.unmeasured[f"{model._meta.label_lower}.{many.name}"] = "not varied: many to many"
            parents = rights.inlines.parents(model)
            for each in model._meta.concrete_fields:
                if each.name in parents:
                    name = f"{model._meta.label_lower}.{each.name}"
                    world.report.unmeasured[name] = "not varied: it says with which record a row is shown"
                    continue
                if each.primary_key or not _can_change(each):
                    if not each.primary_key and not isinstance(
                        each, models.FileField
                    ):  # a file's name is marked
                        name = f"{model._meta.label_lower}.{each.name}"
                        world.report.unmeasured[name] = "not varied: binary data, or a relation of one to one"
                    continue
                pks = [pk for pk in keys if each.name not in seen[pk]]
                if pks:
                    found[model, each.name] = pks
    picture = _picture(world, actor, site, found, level)

    def decides(cells: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
        """Return those of the fields on which what she may see depends, by halves."""
        with changed({each: found[each] for each in cells}, unmeasured=world.report.unmeasured.__setitem__):
            world.forget()
            same = _picture(world, actor, site, found, level) == picture
        world.forget()
        if same or len(cells) == 1:
            return [] if same else cells
        half = len(cells) // 2
        return decides(cells[:half]) + decides(cells[half:])

    for model, name in decides(list(found)) if found else []:
        del found[model, name]
        world.report.residual[f"{model._meta.label_lower}.{name}"] = "what people may see depends on it"
    return found


def _seen(rights: Rights, model: Any, pk: Any, level: Level) -> frozenset[str]:
    seen = rights.readable(model, pk)
    return seen if level == "model" else seen | rights.shown(model, pk)


def _picture(world: World, actor: Actor, site: AdminSite, hidden: Mapping[Any, Any], level: Level) -> Any:
    """Return what the person may see: what must be the same on both databases.

    All her rows, and the fields and the label of some: a field that decides on others' is found as a difference.
    """
    with world.rights(actor, site) as rights:
        return {
            model: (
                sorted(map(str, rights.rows(model))),
                [
                    (_seen(rights, model, pk, level), rights.labelled(model, pk), rights.computed(model, pk))
                    for pk in list(rights.rows(model))[:25]
                ],
            )
            for model in sorted(site._registry, key=lambda each: each._meta.label)
            if model in {each for each, _name in hidden} or rights.may_use(model)
        }


class _TakenBack(Exception):
    pass


@contextmanager
def changed(
    hidden: Mapping[tuple[Any, str], list[Any]],
    *,
    unmeasured: Callable[[str, str], object] = lambda name, why: None,
) -> Iterator[None]:
    """Give other values to the hidden cells inside the block, and take all of that back at its end.

    ``unmeasured`` hears of each field that a constraint of the project's lets keep its values, and why.
    """
    alias = router.db_for_write(next(iter(hidden))[0]) if hidden else "default"
    try:
        with transaction.atomic(using=alias):
            for (model, name), pks in hidden.items():
                try:
                    with transaction.atomic(using=alias):
                        _give_other_values(model, model._meta.get_field(name), pks, alias)
                except DatabaseError as error:
                    unmeasured(
                        f"{model._meta.label_lower}.{name}", f"it can't be given other values: {error}"[:200]
                    )
            yield
            raise _TakenBack
    except _TakenBack:
        pass


def _give_other_values(model: Any, field: Any, pks: list[Any], alias: str) -> None:
    """Write the other values in one statement sent for each row: nothing of the project's hears of it."""
    connection, pk = connections[alias], model._meta.pk
    quote = connection.ops.quote_name
    held = dict(model._base_manager.using(alias).values_list("pk", field.attname))
    if field.remote_field is not None:
        others = list(
            field.remote_field.model._base_manager.order_by("pk").values_list(
                field.target_field.attname, flat=True
            )[:50]
        )

        def other(key: Any) -> Any:
            return next((each for each in others if each != held[key]), held[key])
    elif tracked_by(model) is not None:  # what was changed of it, in all versions, becomes no change at all
        alike = next((value for value in held.values() if value is not None), None)

        def other(key: Any) -> Any:
            return other_value(field, alike)
    else:

        def other(key: Any) -> Any:
            return other_value(field, held[key], key)

    rows = [
        (
            field.get_db_prep_save(other(key), connection),
            pk.get_db_prep_value(key, connection),
        )
        for key in pks
        if key in held
    ]
    table, column, key_column = map(quote, (model._meta.db_table, field.column, pk.column))
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {column} = %s WHERE {key_column} = %s", rows)  # noqa: S608


def _can_change(each: models.Field[Any, Any]) -> bool:
    return not isinstance(each, models.BinaryField | models.FileField) and not (
        each.remote_field is not None and each.unique
    )


def other_value(each: Any, value: Any, key: Any = "") -> Any:
    """Return another value that the column can hold; of the same value and key always the same."""
    if each.unique and isinstance(value, str):
        made = hashlib.sha256(f"{key} {value}".encode()).hexdigest()
        return made[: each.max_length or 64]
    if each.unique and type(value) is int:
        return value + 1_000_003
    if value is None:
        return _instead_of_nothing(each)
    if each.choices:
        others = [raw for raw, _label in each.flatchoices if raw != value]
        return others[0] if others else value
    match value:
        case bool():
            return not value
        case int():
            return value + 1 if value < 30_000 else value - 1
        case decimal.Decimal():
            return value + 1 if value < 10 ** (each.max_digits - each.decimal_places - 1) else value - 1
        case float():
            return value + 1
        case datetime.datetime() | datetime.date():
            return value + datetime.timedelta(days=1)
        case uuid.UUID():
            return uuid.UUID(int=value.int ^ 1)
        case str():
            return value[:-1] + ("x" if value[-1:] != "x" else "y")
        case list():
            return [*value, "copilot"]
        case dict():
            return {**value, "copilot": json.dumps(value, sort_keys=True, default=str)[:20]}
        case _:
            return value


def _instead_of_nothing(each: Any) -> Any:
    """Return a value for a column that holds none."""
    if each.choices:
        return each.flatchoices[0][0]
    match each:
        case models.BooleanField():
            return True
        case models.IntegerField() | models.DecimalField() | models.FloatField():
            return 1
        case models.DateTimeField():
            return datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        case models.DateField():
            return datetime.date(2020, 1, 1)
        case models.CharField() | models.TextField():
            return "x"
        case _:
            return None


# -- whether there is anything hidden ------------------------------------------------------------------------


def hidden_rows(world: World, actor: Actor, site: AdminSite) -> dict[Any, list[Any]]:
    """Return the keys, by model, of records that the person may not see and to which no visible one refers.

    Those on which the project's own rules depend are left out and reported as residual.
    """
    found: dict[Any, list[Any]] = {}
    with world.rights(actor, site) as rights:
        referred: dict[Any, set[Any]] = {}
        seen = {model: rights.rows(model) for model in site._registry if model in business_models()}
        for model, rows in seen.items():
            for each in model._meta.concrete_fields:
                if each.remote_field is not None:
                    held = {getattr(obj, each.attname) for obj in rows.values()}
                    referred.setdefault(each.remote_field.model, set()).update(held)
            for each in model._meta.many_to_many:
                through: Any = each.remote_field.through
                mine, other = each.m2m_field_name(), each.m2m_reverse_field_name()
                held = set(
                    through._base_manager.filter(**{f"{mine}__in": list(rows)}).values_list(other, flat=True)
                )
                referred.setdefault(each.remote_field.model, set()).update(held)
        for model, rows in seen.items():
            if issubclass(model, AbstractBaseUser) or model._meta.app_label == "auth":
                continue
            keys = model._base_manager.order_by("pk").values_list("pk", flat=True)[:MOST_ROWS]
            gone = [pk for pk in keys if pk not in rows and pk not in referred.get(model, ())]
            if gone:
                found[model] = gone
    cells = {(model, ""): keys for model, keys in found.items()}
    picture = _picture(world, actor, site, cells, "person")
    for model in list(found):
        with without({model: found[model]}):
            world.forget()
            same = _picture(world, actor, site, cells, "person") == picture
        world.forget()
        if not same:
            del found[model]
            world.report.residual[model._meta.label_lower] = "what people may see depends on which there are"
    return found


@contextmanager
def without(hidden: Mapping[Any, list[Any]]) -> Iterator[None]:
    """Take hidden records away inside the block, with nothing of the project's hearing of it, and put them back."""
    alias = router.db_for_write(next(iter(hidden))) if hidden else "default"
    connection = connections[alias]
    quote = connection.ops.quote_name
    try:
        with transaction.atomic(using=alias):
            for model, keys in hidden.items():
                pk = model._meta.pk
                table, column = quote(model._meta.db_table), quote(pk.column)
                with connection.cursor() as cursor:
                    cursor.executemany(
                        f"DELETE FROM {table} WHERE {column} = %s",  # noqa: S608
                        [(pk.get_db_prep_value(key, connection),) for key in keys],
                    )
            yield
            raise _TakenBack
    except _TakenBack:
        pass
