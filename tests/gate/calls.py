"""Calling the gate as a turn does, and reading what comes back."""

from __future__ import annotations

import json
import re
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_copilot import gate
from django_copilot.backends.base import ToolCall
from django_copilot.exceptions import ScopeUnavailable
from django_copilot.scope import Scope
from django_copilot.tools.base import Asked, Failed, Found, Outcome, Planned, Proposed, ReadDone, Told

HERE = Scope(site="admin", host="testserver", language="en", time_zone="Europe/Warsaw")
ENTITIES = ("category", "tag", "customer", "product", "order", "payment")


def raw(who: str, tool: str, arguments: str, *, scope: Scope = HERE) -> Outcome:
    """Run a call with this text as arguments for the account ``who``."""
    user = get_user_model().objects.only("pk").get(username=who)
    return gate.run(admin.site, scope, user.pk, ToolCall(id="1", name=tool, arguments=arguments))


def run(who: str, tool: str, args: Any = None, *, scope: Scope = HERE) -> Outcome:
    """Run a call with these arguments for the account ``who``."""
    return raw(who, tool, json.dumps({} if args is None else args), scope=scope)


def verdict(outcome: Outcome) -> str:
    """Return what a call came to: the number of rows, a page to open, or the code of the error."""
    match outcome:
        case ReadDone():
            return f"{len(outcome.content['rows'])} rows"
        case Proposed():
            return f"{outcome.kind} {outcome.object_pk or 'new'}"
        case Asked():
            return "question"
        case Found():
            return f"found {', '.join(outcome.names)}"
        case Told():
            return "told"
        case Planned():
            return f"plan {outcome.draft.object_pk}"
        case Failed():
            return str(outcome.content["error"]["code"])


def judge(who: str, tool: str, args: Any = None) -> str:
    """Run a call and return its verdict; "no scope" where even the request can't be built."""
    try:
        return verdict(run(who, tool, args))
    except ScopeUnavailable:
        return "no scope"


def sent(outcome: Outcome) -> str:
    """Return everything of an outcome that may reach a model, now or in a later turn, as text."""
    if isinstance(outcome, Planned):
        return ""  # the turn waits, and the model hears of the plan when it is decided
    if isinstance(outcome, Proposed):
        return outcome.reply
    if isinstance(outcome, Asked):
        return json.dumps([outcome.text, outcome.options], ensure_ascii=False)
    return json.dumps(outcome.content, ensure_ascii=False)


def statements(who: str, tool: str, args: Any) -> tuple[list[str], str]:
    """Run a call; return its statements without their values, and what it gave for the model."""
    with CaptureQueriesContext(connection) as captured:
        outcome = run(who, tool, args)
    return [shape(each["sql"]) for each in captured], sent(outcome)


def shape(sql: str) -> str:
    """Return a statement with every value replaced, and every list of values as one."""
    sql = re.sub(r"'(?:[^']|'')*'", "?", sql)
    sql = re.sub(r"(?<![\w.\"])-?\d+(\.\d+)?\b", "?", sql)
    sql = re.sub(r"\bs\d+_x\d+\b", "savepoint", sql)
    return re.sub(r"\(\?(, \?)*\)", "(?)", sql)
