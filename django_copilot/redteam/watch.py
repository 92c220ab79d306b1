"""What happens while a call runs: statements to the database, and what is written to the log."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

_WRITE = re.compile(
    r'\s*(?:INSERT\s+(?:OR \w+ )?INTO|UPDATE|DELETE\s+FROM|REPLACE\s+INTO)\s+["`]?(\w+)', re.IGNORECASE
)
_OTHER = re.compile(
    r"\s*(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK|BEGIN|COMMIT|PRAGMA|SET|SHOW|WITH)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Statement:
    """One statement as it was sent."""

    sql: str
    params: Any
    alias: str

    @property
    def writes_to(self) -> str:
        """Return the table that it writes to, "?" where its text does not tell, or "" when it writes nothing."""
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
        watched.statements.append(Statement(sql, params, context["connection"].alias))
        return execute(sql, params, many, context)

    handler = _Collecting(watched.records)
    loggers = [logging.getLogger(name) for name in ("django_copilot", "django.request", "django.security")]
    before = [(each.level, each.propagate) for each in loggers]
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(look))
        try:
            for each in loggers:
                each.addHandler(handler)
                each.setLevel(logging.DEBUG)
                each.propagate = False
            yield watched
        finally:
            for each, (level, propagate) in zip(loggers, before, strict=True):
                each.removeHandler(handler)
                each.setLevel(level)
                each.propagate = propagate
