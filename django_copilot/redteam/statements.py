"""Oracle 2: what a tool's statements compared, ordered by and read, against what the person may see.

A statement is ours unless code of the project sent it, which the stack tells at that moment; what the project's own
rules read is listed as a residual channel. Columns are judged where they decide something: joined, compared, ordered
or grouped by. The columns that a row is loaded with are not, since a project's hooks are given whole records; what
comes out of them is judged by its marks and by the answers of two databases. Where the database counts and sums,
no hook is asked for a single record any more: then each column and each row that goes into it must be hers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.core.exceptions import EmptyResultSet
from django.db import connections

from .canaries import NOT_BUSINESS
from .people import Actor
from .rights import tracked_by
from .tables import key_text
from .watch import Statement
from .world import World

_ALIAS = re.compile(r'(?:FROM|JOIN) ["`](\w+)["`](?: (?:AS )?["`]?([A-Z]\w*)["`]?(?= |\)|$))?')
_COLUMN = re.compile(r'["`]?(\w+)["`]?\.["`](\w+)["`]')
_AGGREGATE = re.compile(
    r"\b(?:COUNT|SUM|AVG|MIN|MAX|TOTAL|GROUP_CONCAT|STRING_AGG|ARRAY_AGG)\(", re.IGNORECASE
)
_END = re.compile(r" (?:GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|FETCH) ")
_WINDOW = re.compile(r"OVER \([^()]*\)")
_NESTED = re.compile(r" FROM \( ?(?=SELECT )")
HANDLE = re.compile(r"‹|\\u2039")
_KEYWORDS = frozenset({"WHERE", "INNER", "LEFT", "ORDER", "GROUP", "LIMIT", "ON", "UNION"})


class Judge:
    """Judges the statements of one person's calls on one site, with the rights of the moment it was made."""

    def __init__(self, world: World, actor: Actor, site: AdminSite) -> None:
        self.world, self.actor, self.site = world, actor, site
        self.models = {
            model._meta.db_table: model
            for model in apps.get_models(include_auto_created=True)
            if not model._meta.proxy
        }
        self._columns: dict[Any, frozenset[str]] = {}
        self._keys: dict[Any, frozenset[str]] = {}
        self._known: set[Any] = set()  # statements whose text was found in order

    def judge(
        self, statements: list[Statement], *, case: str, of_project: bool = False, given: str = ""
    ) -> None:
        """Report each statement that compared or read what the person may not see.

        ``of_project`` is a call of a write tool: by what it looks records up is its developer's decision.
        A field that is shown to her only may be compared where a handle stands for its value in ``given``, the call.
        """
        by_handle = HANDLE.search(given) is not None
        for each in statements:
            if not each.sql.lstrip().upper().startswith("SELECT"):
                continue
            if each.project:
                self.world.report.residual.setdefault(
                    f"statements of {each.project}", "sent by the project's own code while a call ran"
                )
                continue
            if (each.sql, by_handle) not in self._known and not of_project:
                problems = list(self._text_problems(each.sql, by_handle=by_handle))
                for problem in problems:
                    self.world.report.found(2, f"{problem}: {each.sql[:500]}", case=case)
                if not problems:
                    self._known.add((each.sql, by_handle))
            for problem in self._row_problems(each):
                self.world.report.found(
                    2, f"{problem}: {each.sql[:500]} with {str(each.params)[:200]}", case=case
                )

    # -- columns ---------------------------------------------------------------------------------------

    def _text_problems(self, sql: str, *, by_handle: bool) -> Iterator[str]:
        aliases = _aliases(sql)
        head, tail = _split(_inner(sql))
        for table in set(aliases.values()):
            model = self.models.get(table)
            if model is not None and self._is_judged(model) and not self._may_touch(model):
                yield f"reads {table}, which {self.actor.name} may not use"
        decides = tail + _windows(head) + (head if _counts(head) else "")
        for alias, column in set(_COLUMN.findall(decides)):
            table = aliases.get(alias, alias)
            model = self.models.get(table)
            if model is None or not self._is_judged(model) or column in self._compared(model):
                continue
            if by_handle and column in self._kept(model):
                continue
            what = "counts or sums" if (alias, column) not in _COLUMN.findall(tail) else "compares"
            yield f"{what} {table}.{column}, which {self.actor.name} may not read"

    def _is_judged(self, model: Any) -> bool:
        """Tell whether a model's rows are the project's: not accounts and rights, which decide who she is."""
        label = model._meta.app_label
        return label not in NOT_BUSINESS and model not in self._people

    @cached_property
    def _people(self) -> set[Any]:
        user = get_user_model()
        groups = [
            each for each in apps.get_models(include_auto_created=True) if each._meta.app_label == "auth"
        ]
        return {user, *(field.remote_field.through for field in user._meta.many_to_many), *groups}

    def _may_touch(self, model: Any) -> bool:
        if (
            model._meta.auto_created
        ):  # the rows of a many-to-many relation, as far as one of its ends may be used
            ends = [
                each.remote_field.model
                for each in model._meta.concrete_fields
                if each.remote_field is not None
            ]
            return any(self._may_touch(each) for each in ends)
        past = tracked_by(model)
        with self.world.rights(self.actor, self.site) as rights:
            if past is not None and any(rights.tells_past(past, pk) for pk in rights.rows(past)):
                return True
            if rights.may_use(model) or model in self._joined or model in self._inlines:
                return True
            return any(
                each.has_add_permission(rights.request) or each.has_delete_permission(rights.request)
                for each in rights.admins(model)
            )

    @cached_property
    def _joined(self) -> set[Any]:
        """Return the models that the project's own querysets join."""
        found = set()
        for sql in self._own_sql.values():
            found |= {self.models[table] for table in _aliases(sql).values() if table in self.models}
        return found

    @cached_property
    def _own_sql(self) -> dict[Any, str]:
        """Return the statement of each model's own list, as its admin makes it for the person."""
        made: dict[Any, str] = {}
        with self.world.rights(self.actor, self.site) as rights:
            for model, each in self.site._registry.items():
                try:
                    rows = each.get_queryset(rights.request)
                    related = each.get_list_select_related(rights.request)
                    if related is True:
                        rows = rows.select_related()
                    elif related:
                        rows = rows.select_related(*related)
                    made[model] = str(rows.query.sql_with_params()[0])
                except EmptyResultSet:
                    made[model] = ""
            for inline in self._inlines.values():
                made[type(inline)] = str(inline.get_queryset(rights.request).query.sql_with_params()[0])
        return made

    @cached_property
    def _inlines(self) -> dict[Any, Any]:
        """Return the inlines of her forms, by model: their rows are part of what a form shows."""
        with self.world.rights(self.actor, self.site) as rights:
            return {
                inline.model: inline
                for model, each in self.site._registry.items()
                if rights.may_use(model)
                for inline in each.get_inline_instances(rights.request)
            }

    def _compared(self, model: Any) -> frozenset[str]:
        """Return the columns of a model that may decide something: readable ones, keys, and the project's own."""
        if model not in self._columns:
            allowed = {model._meta.pk.column}
            for field in model._meta.concrete_fields:
                if field.remote_field is not None and (
                    model._meta.auto_created or field.remote_field.parent_link or model in self._inlines
                ):
                    allowed.add(field.column)
            past = tracked_by(model)
            with self.world.rights(self.actor, self.site) as rights:
                names = {name for pk in rights.rows(model) for name in rights.readable(model, pk)}
                names |= rights.inlines.all_declared(model)
            for field in model._meta.concrete_fields:
                if field.name in names:
                    allowed.add(field.column)
                if past is not None and (
                    field.name.startswith("history_") or field.name == past._meta.pk.name
                ):
                    allowed.add(field.column)  # when and which, and nothing that a version holds
            for own in self._own_sql.values():
                aliases = _aliases(own)
                allowed |= {
                    column
                    for alias, column in _COLUMN.findall(_split(own)[1])
                    if self.models.get(aliases.get(alias, alias)) is model
                }
            self._columns[model] = frozenset(allowed)
        return self._columns[model]

    def _kept(self, model: Any) -> frozenset[str]:
        """Return the columns of a model that are shown to the person and kept from models."""
        with self.world.rights(self.actor, self.site) as rights:
            names = {name for pk in rights.rows(model) for name in rights.kept(model, pk)}
        return frozenset(each.column for each in model._meta.concrete_fields if each.name in names)

    # -- rows ------------------------------------------------------------------------------------------

    def _row_problems(self, statement: Statement) -> Iterator[str]:
        """Run a statement that loads whole records once more, and look at whose rows they are."""
        inner = _inner(statement.sql)
        head, tail = _split(inner)
        aliases = _aliases(inner)
        first = re.match(r' FROM ["`](\w+)["`]', tail)
        if first is None:
            return
        table = first[1]
        model = self.models.get(table)
        columns = [(aliases.get(alias, alias), column) for alias, column in _COLUMN.findall(head)]
        if model is None or not self._is_judged(model):
            return
        with self.world.rights(self.actor, self.site) as rights:
            past = tracked_by(model)
            if past is None and not rights.admins(model):
                return
        if past is not None:
            yield from self._past_problems(
                statement, model, {column for each, column in columns if each == table}
            )
            return
        if _counts(head) or _counts(_split(statement.sql)[0]):
            hidden = self._keys_in(statement, model, model._meta.pk) - self._hers(model)
            if hidden:
                yield f"counts {len(hidden)} rows of {table} that are not {self.actor.name}'s to view"
            return
        own = [column for each, column in columns if each == table]
        key = table, model._meta.pk.column
        if key not in columns:  # single values, and no record that a hook could ask for
            for column in sorted({*own} - self._compared(model)):
                yield f"reads {table}.{column}, which {self.actor.name} may not read"
            return
        if own == [model._meta.pk.column]:
            return  # keys alone: a relation is named by them
        if inner != statement.sql:
            return  # rows beside others, as the rows of inlines are: they belong to records that are judged
        hidden = self._keys_in(statement, model, model._meta.pk) - self._base_keys(model)
        if hidden:
            yield f"reads {len(hidden)} rows of {table} that are not among {self.actor.name}'s"

    def _past_problems(self, statement: Statement, model: Any, columns: set[str]) -> Iterator[str]:
        """Judge what is read of earlier versions: of hers only, and of each no more than is readable today."""
        of, table = tracked_by(model), model._meta.db_table
        found = self._keys_in(statement, model, model._meta.get_field(of._meta.pk.name))
        hidden = found - self._hers(of)
        if hidden:
            yield f"reads the past of {len(hidden)} records in {table} that are not {self.actor.name}'s to view"
        with self.world.rights(self.actor, self.site) as rights:
            rows = rights.rows(of)
            told = [
                rights.readable(of, pk) | rights.kept(of, pk) for pk in rows if str(pk) in found or not found
            ]
        names = (frozenset.intersection if found else frozenset[str]().union)(*told) if told else frozenset()
        allowed = self._compared(model) | {
            each.column for each in model._meta.concrete_fields if each.name in names
        }
        for column in sorted(columns - allowed):
            yield f"reads {table}.{column}, which {self.actor.name} may not read"

    def _hers(self, model: Any) -> set[str]:
        with self.world.rights(self.actor, self.site) as rights:
            return {str(pk) for pk in rights.rows(model)}

    def _keys_in(self, statement: Statement, model: Any, field: Any) -> set[str]:
        """Return a column of all rows that go into what a statement gives, as texts of keys, by asking once more."""
        inner, column = _inner(statement.sql), f'"{model._meta.db_table}"."{field.column}"'
        tail = _split(inner)[1]
        counted = _counts(_split(inner)[0]) or inner != statement.sql
        end = _END.search(tail) if counted else None  # a page is no more than its rows
        rows = tail[: end.start()] if end is not None else tail
        begin = statement.sql[: statement.sql.index(inner) + len(inner) - len(tail)].count("%s")
        params = tuple(statement.params or ())[begin : begin + rows.count("%s")]
        connection = connections[statement.alias]
        asked = Statement(f"SELECT {column}{rows}", params, statement.alias)
        with connection.cursor() as cursor:
            cursor.cursor.execute(*_raw(cursor, asked))
            return {key_text(field, row[0]) for row in cursor.cursor.fetchall()}

    def _base_keys(self, model: Any) -> frozenset[str]:
        if model not in self._keys:
            with self.world.rights(self.actor, self.site) as rights:
                self._keys[model] = frozenset(
                    str(pk)
                    for each in rights.admins(model)
                    for pk in each.get_queryset(rights.request).order_by().values_list("pk", flat=True)
                )
        return self._keys[model]


def _raw(cursor: Any, statement: Statement) -> tuple[Any, ...]:
    """Return what the driver's cursor takes, so that the statement is not watched again."""
    return (statement.sql, statement.params) if statement.params else (statement.sql,)


def _aliases(sql: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for table, alias in _ALIAS.findall(sql):
        found[table] = table
        if alias and alias.upper() not in _KEYWORDS:
            found[alias] = table
    return found


def _counts(head: str) -> bool:
    """Tell whether what a statement gives is made of several rows."""
    return _AGGREGATE.search(_without_windows(head)) is not None


def _windows(head: str) -> str:
    """Return what the windows of a statement are cut and ordered by."""
    return "".join(_WINDOW.findall(head))


def _without_windows(head: str) -> str:
    return _WINDOW.sub("", head)


def _inner(sql: str) -> str:
    """Return the statement that another one only counts, or takes the first rows of, or the statement itself."""
    tail = _split(sql)[1]
    while (found := _NESTED.match(tail)) is not None:
        depth = 0
        for match in re.finditer(r"[()]", tail):
            depth += 1 if match[0] == "(" else -1
            if depth == 0:
                sql = tail[found.end() : match.start()].strip()
                break
        tail = _split(sql)[1]
    return sql


def _split(sql: str) -> tuple[str, str]:
    """Return a statement up to its first FROM that is in no parentheses, and the rest."""
    depth = 0
    for match in re.finditer(r"[()]| FROM ", sql):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
        elif depth == 0:
            return sql[: match.start()], sql[match.start() :]
    return sql, ""
