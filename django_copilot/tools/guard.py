"""What a preview may do: read, through its context, and nothing else.

While a preview runs, every statement to a database is looked at: one that writes is refused, and so is one
that reads past the context, since nobody would know then what the preview depends on. Mails, connections,
processes and threads are refused as well. A refusal is raised where it happens and once more at the end, so
that a tool can't swallow it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any

from django.core.mail import EmailMessage
from django.db import connections
from django.db.backends.utils import CursorWrapper

from ..exceptions import CopilotError

_COMMENTS = re.compile(r"\A(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_READS = re.compile(r"(?:SELECT|VALUES|EXPLAIN|SAVEPOINT|RELEASE|ROLLBACK TO)\b", re.IGNORECASE)
_SAVEPOINTS = re.compile(r"(?:SAVEPOINT|RELEASE|ROLLBACK TO)\b", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|INTO|CREATE|DROP|ALTER|TRUNCATE)\b", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`")
_LOCKS = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+)?UPDATE\b", re.IGNORECASE)
_EVENTS = frozenset(
    {
        "socket.connect",
        "socket.sendto",
        "socket.sendmsg",
        "http.client.send",  # over a connection that was open before
        "smtplib.send",
        "urllib.Request",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "_thread.start_new_thread",
        "_thread.start_joinable_thread",
    }
)


class NotAPreview(CopilotError):
    """A preview did something else than reading through its context. For the developer and the log."""


class _Guard:
    def __init__(self, *, may_call: bool) -> None:
        self.may_call = may_call
        self.depth = 0  # of the context's own work, which may read as it needs
        self.violation: NotAPreview | None = None

    @property
    def keeps_in(self) -> bool:
        """Tell whether nothing may leave the process now."""
        return not self.may_call and not self.depth

    def refuse(self, what: str) -> None:
        self.violation = self.violation or NotAPreview(what)
        raise self.violation


_running: ContextVar[_Guard | None] = ContextVar("copilot_preview", default=None)


def is_read(sql: str) -> bool:
    """Tell whether a statement only reads, as far as its text tells."""
    text = _QUOTED.sub("''", sql)
    text = text[_COMMENTS.match(text).end() :]  # type: ignore[union-attr]  # it matches the empty text, too
    if ";" in text.rstrip().rstrip(";"):
        return False
    if _READS.match(text) or re.match(r"WITH\b", text, re.IGNORECASE):
        return not _WRITES.search(_LOCKS.sub("", text))
    return False


def _look_at(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    guard = _running.get()
    if guard is not None:
        if not is_read(sql):
            guard.refuse(f"A preview may not write to the database: {sql[:120]}")
        if not guard.depth and not _SAVEPOINTS.match(sql):
            guard.refuse(
                "A preview reads through its context only (ctx.get, ctx.related, ctx.list, ctx.unscoped), "
                f"this was read past it: {sql[:200]}"
            )
    return execute(sql, params, many, context)


@cache
def _watch_process() -> None:
    """Look at connections, processes, threads and mails from now on; without a preview nothing is refused."""

    def look(event: str, args: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            guard = _running.get()
            if guard is not None and guard.keeps_in:
                guard.refuse(f"A preview may not call out ({event}); a declared dry_run step may.")

    sys.addaudithook(look)
    _before(EmailMessage, "send", "A preview may not send mail.")
    _before(EmailMessage, "message", "A preview may not send mail.")  # what every backend asks it for
    _before(CursorWrapper, "callproc", "A preview may not call a stored procedure.")
    # Python 3.11 has no event for it.
    _before(threading.Thread, "start", "A preview may not start a thread.", is_call=True)


def _before(cls: type, name: str, what: str, *, is_call: bool = False) -> None:
    """Let a method of a class refuse to be called by a preview."""
    method = getattr(cls, name)

    @wraps(method)
    def looked_at(*args: Any, **kwargs: Any) -> Any:
        guard = _running.get()
        if guard is not None and (guard.keeps_in or not is_call):
            guard.refuse(what)
        return method(*args, **kwargs)

    setattr(cls, name, looked_at)


@contextmanager
def only_reading(*, may_call: bool = False) -> Iterator[None]:
    """Refuse everything but reading in this block. Raises NotAPreview, at the latest at its end.

    ``may_call`` lets a dry run ask another system.
    """
    _watch_process()
    guard = _Guard(may_call=may_call)
    waiting = {each.alias: len(each.run_on_commit) for each in connections.all(initialized_only=True)}
    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(_look_at))
        token = _running.set(guard)
        try:
            yield
        finally:
            _running.reset(token)
            for connection in connections.all(initialized_only=True):
                before = waiting.get(connection.alias, 0)
                if len(connection.run_on_commit) > before:
                    del connection.run_on_commit[before:]
                    guard.violation = guard.violation or NotAPreview(
                        "A preview may not put anything off until a transaction commits."
                    )
            if guard.violation is not None:
                raise guard.violation


@contextmanager
def through_context() -> Iterator[None]:
    """Mark what the context itself reads."""
    guard = _running.get()
    if guard is None:
        yield
        return
    guard.depth += 1
    try:
        yield
    finally:
        guard.depth -= 1
