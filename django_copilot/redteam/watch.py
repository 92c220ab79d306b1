"""What happens while a call runs: statements to the database, and what is written to the log."""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import django
from django.db import connections

import django_copilot

from ..tools.context import _Unscoped

_OURS = str(Path(django_copilot.__file__).parent)
_CONTEXT = str(Path(_OURS) / "tools" / "context.py")
_DJANGO = str(Path(django.__file__).parent)
_WRITE = re.compile(
    r'\s*(?:INSERT\s+(?:OR \w+ )?INTO|UPDATE|DELETE\s+FROM|REPLACE\s+INTO)\s+(?:["`]?\w+["`]?\.)?["`]?(\w+)',
    re.IGNORECASE,
)
_WITH = re.compile(r"\s*WITH\b.*\b(?:INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE | re.DOTALL)
_SEEN = re.compile(r'UPDATE \S+ SET ["`]last_login["`] = \S+ WHERE', re.IGNORECASE)
_OTHER = re.compile(
    r"\s*(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK|BEGIN|COMMIT|PRAGMA|SET|SHOW|WITH)\b", re.IGNORECASE
)


def sent_by_project() -> str:
    """Return the module of the project's code that sends a statement at this moment, or "" when it is not."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _CONTEXT and issubclass(type(frame.f_locals.get("self")), _Unscoped):
            return UNSCOPED
        if file.startswith(_OURS) and "/redteam/" not in file:
            return ""
        if not file.startswith((_DJANGO, _OURS, "<")) and "-packages/" not in file:
            name = str(frame.f_globals.get("__name__", file))
            if name.split(".")[0] not in sys.stdlib_module_names:
                return name
        frame = frame.f_back
    return ""


@dataclass(frozen=True)
class Statement:
    """One statement as it was sent."""

    sql: str
    params: Any
    alias: str
    project: str = ""  # the module of the project's code that sent it

    @property
    def is_login(self) -> bool:
        """Tell whether it only writes down when an account was last seen."""
        return bool(_SEEN.match(self.sql))

    @property
    def writes_to(self) -> str:
        """Return the table that it writes to, "?" where its text does not tell, or "" when it writes nothing."""
        if _WITH.match(self.sql):
            return "?"
        match = _WRITE.match(self.sql)
        if match:
            return match[1]
        return "" if _OTHER.match(self.sql) else "?"


@dataclass
class Watched:
    """What one call did."""

    statements: list[Statement] = field(default_factory=list)
    records: list[logging.LogRecord] = field(default_factory=list)

    @property
    def log(self) -> str:
        """Return everything that was logged, tracebacks included, as one text."""
        return "\n".join(map(_written, self.records))

    @property
    def errors(self) -> list[str]:
        """Return what was logged as an error, with its traceback."""
        return [_written(each) for each in self.records if each.levelno >= logging.ERROR]


def _written(record: logging.LogRecord) -> str:
    text = f"{record.levelname} {record.name}: {record.getMessage()}"
    if record.exc_info and record.exc_info[1] is not None:
        text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
    return text


UNSCOPED = "a write tool, by ctx.unscoped"
LOGGERS = (
    "django_copilot",
    "django.request",
    "django.security",
)  # with all their levels; of others what is a warning


class _Collecting(logging.Handler):
    def __init__(self, into: list[logging.LogRecord]) -> None:
        super().__init__(logging.DEBUG)
        self.into = into

    def emit(self, record: logging.LogRecord) -> None:
        self.into.append(record)


@contextmanager
def watching() -> Iterator[Watched]:
    """Collect what this thread sends to its databases, and what any thread logs, inside the block."""
    watched = Watched()

    def look(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        watched.statements.append(Statement(sql, params, context["connection"].alias, sent_by_project()))
        return execute(sql, params, many, context)

    handler = _Collecting(watched.records)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    root = logging.getLogger()
    before = [(each.level, each.propagate) for each in loggers]
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(look))
        try:
            root.addHandler(handler)
            for each in loggers:
                each.addHandler(handler)
                if each.level != logging.DEBUG:  # setting it makes every logger forget what it knew
                    each.setLevel(logging.DEBUG)
                each.propagate = False
            yield watched
        finally:
            root.removeHandler(handler)
            for each, (level, propagate) in zip(loggers, before, strict=True):
                each.removeHandler(handler)
                if each.level != level:
                    each.setLevel(level)
                each.propagate = propagate
