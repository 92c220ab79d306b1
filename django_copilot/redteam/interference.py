"""Oracle 4: the same calls on two databases that differ only in what the person may not see give the same answers.

The second database is the first with every hidden value changed, inside a transaction that is taken back. What is
hidden is asked of ``rights``: twice, once for what her admin does not show her, where answers to the model and to
her must agree, and once for what is not declared, where those to the model must. A field on which the project's own
rules depend (changing it changes what she may see, or a label) is left alone and listed as a residual channel.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.admin import AdminSite
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import DatabaseError, connections, models, router, transaction

from ..backends.base import ToolCall
from ..tools.write import all_tools
from .canaries import business_models
from .grammar import Grammar
from .model import known_of, one_call, told_by
from .people import Actor
from .rights import Rights
from .statements import Judge
from .watch import UNSCOPED
from .world import World

Level = Literal["person", "model"]
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32,64}\b"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
)


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
    levels: tuple[Level, ...] = ("person", "model")
    share = max(1, calls // (len(places) * len(levels)))
    for actor, site in places:
        known = known_of(world, site)
        for level in levels:
            key = actor.pk, site.name, level
            if key not in world.hidden:
                world.hidden[key] = hidden_cells(world, actor, site, level=level)
            hidden = world.hidden[key]
            made = [Grammar(known, rng).call() for _ in range(share)]
            compare(world, actor, site, made, hidden, level=level, number=number)
    world.report.count("calls compared on two databases", share * len(places) * len(levels))


def compare(
    world: World,
    actor: Actor,
    site: AdminSite,
    calls: list[ToolCall],
    hidden: Mapping[tuple[Any, str], list[Any]],
    *,
    level: Level,
    number: int,
) -> None:
    """Send the calls to the database as it is and to the changed one, and report each difference."""
    judge = Judge(world, actor, site)
    before = [_answer(world, actor, site, call, judge) for call in calls]
    with changed(hidden):
        world.forget()
        after = [_answer(world, actor, site, call, judge) for call in calls]
    world.forget()
    for at, (call, one, other) in enumerate(zip(calls, before, after, strict=True)):
        case = (
            f"interference {world.seed}:{number}:{at} {actor.name}@{site.name} {level} "
            f"{call.name[:80]} {call.arguments[:400]!r}"
        )
        world.report.count("tool calls", 2)
        if one.by_rule or other.by_rule:
            world.report.residual[call.name] = "what it says depends on rows that it reads by ctx.unscoped"
            continue
        if (one.kind, one.to_model) != (other.kind, other.to_model):
            world.report.found(4, f"the model is told {_difference(one.to_model, other.to_model)}", case=case)
        elif level == "person" and one.to_person != other.to_person:
            world.report.found(
                4, f"the person is shown {_difference(one.to_person, other.to_person)}", case=case
            )
        elif one.statements != other.statements:
            told = _difference("\n".join(one.statements), "\n".join(other.statements))
            world.report.found(4, f"the statements differ: {told}", case=case)


def _answer(world: World, actor: Actor, site: AdminSite, call: ToolCall, judge: Judge) -> _Answer:
    case = f"interference {call.name[:80]} {call.arguments[:300]!r}"
    outcome, watched = one_call(world, actor, site, call, judge, case=case)
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
            keys = list(model._base_manager.order_by("pk").values_list("pk", flat=True)[:2_000])
            seen = {pk: _seen(rights, model, pk, level) for pk in keys}
            for each in model._meta.concrete_fields:
                if each.primary_key or not _can_change(each):
                    continue
                pks = [pk for pk in keys if each.name not in seen[pk]]
                if pks:
                    found[model, each.name] = pks
    picture = _picture(world, actor, site, found, level)

    def decides(cells: list[tuple[Any, str]]) -> list[tuple[Any, str]]:
        """Return those of the fields on which what she may see depends, by halves."""
        with changed({each: found[each] for each in cells}):
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
                    (_seen(rights, model, pk, level), rights.labelled(model, pk))
                    for pk in list(rights.rows(model))[:25]
                ],
            )
            for model in sorted(site._registry, key=lambda each: each._meta.label)
            if model in {each for each, _name in hidden} or rights.may_use(model)
        }


class _TakenBack(Exception):
    pass


@contextmanager
def changed(hidden: Mapping[tuple[Any, str], list[Any]]) -> Iterator[None]:
    """Give other values to the hidden cells inside the block, and take all of that back at its end."""
    alias = router.db_for_write(next(iter(hidden))[0]) if hidden else "default"
    try:
        with transaction.atomic(using=alias):
            for (model, name), pks in hidden.items():
                try:
                    with transaction.atomic(using=alias):
                        _give_other_values(model, model._meta.get_field(name), pks, alias)
                except DatabaseError:
                    continue  # a constraint of the project's: this field keeps its values
            yield
            raise _TakenBack
    except _TakenBack:
        pass


def _give_other_values(model: Any, field: Any, pks: list[Any], alias: str) -> None:
    """Write the other values in one statement sent for each row: nothing of the project's hears of it."""
    connection, pk = connections[alias], model._meta.pk
    quote = connection.ops.quote_name
    held = dict(model._base_manager.using(alias).values_list("pk", field.attname))
    rows = [
        (
            field.get_db_prep_save(other_value(field, held[key]), connection),
            pk.get_db_prep_value(key, connection),
        )
        for key in pks
        if key in held
    ]
    table, column, key_column = map(quote, (model._meta.db_table, field.column, pk.column))
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {column} = %s WHERE {key_column} = %s", rows)  # noqa: S608


def _can_change(each: models.Field[Any, Any]) -> bool:
    return each.remote_field is None and not isinstance(each, models.BinaryField | models.FileField)


def other_value(each: Any, value: Any) -> Any:
    """Return another value that the column can hold; of the same value always the same."""
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
        case str() if value:
            last = "x" if value[-1] != "x" else "y"  # of the same length, and still unique where it was
            return (
                value[:-1] + last if not each.unique else value[:-2] + f"{(sum(map(ord, value)) % 90) + 10}"
            )
        case dict():
            return {**value, "copilot": json.dumps(value, sort_keys=True, default=str)[:20]}
        case _:
            return value
