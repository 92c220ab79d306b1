"""``turn``: statements and server CPU of a text turn and of a turn with one query of 50 rows.

Through the chat endpoint with a session, on generated models of ten fields, as a person with rights on all
of them. The model answers at once, and its time is taken off. Statements of transactions (BEGIN, SAVEPOINT,
RELEASE, COMMIT) are not counted; the session, the freshly loaded person and everything stored are.
"""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import sys
from itertools import product
from typing import Any

from .report import PROFILE, Bound, Effort, Figures, median, run_child, say, scratch, whole

LIMITS = {"text": 20, "query": 28}
HISTORY = (2, 200)  # messages
ROWS = (1, 50)
MOST = 2.0  # times the CPU


def measure(effort: Effort) -> Figures:
    """Measure both kinds of turn with few and with many entities, taking turns."""
    few, many = effort.entities
    projects = {  # (models, entities among them)
        f"{few} entities": (few, few),
        f"{few} entities of {many} models": (many, few),
        f"{many} entities": (many, many),
    }
    small, _large, full = projects
    told: dict[str, list[dict[str, Any]]] = {name: [] for name in projects}
    rounds = (effort.rounds + 1) // 2
    with scratch() as folder:
        for number in range(rounds):
            for place, (name, (models, entities)) in enumerate(projects.items()):
                told[name].append(
                    run_child(
                        "bench.turn",
                        settings="bench.settings_turn",
                        database=folder / f"{place}-{number}.sqlite3",
                        models=models,
                        entities=entities,
                        repeats=effort.repeats,
                    )
                )
            say(f"  round {number + 1} of {rounds}")
    statements = {
        kind: {
            f"{name}, {case}": count
            for name in projects
            for each in told[name]
            for case, count in each["statements"][kind].items()
        }
        for kind in LIMITS
    }
    cpu = {
        kind: {name: [each["cpu_ms"][kind] for each in told[name]] for name in projects} for kind in LIMITS
    }
    ratios = {
        kind: {
            name: median([a / b for a, b in zip(each[full], each[name], strict=True)])
            for name in projects
            if name != full
        }
        for kind, each in cpu.items()
    }
    bounds = []
    for kind, limit in LIMITS.items():
        counts = statements[kind].values()
        bounds += [
            Bound(what=f"statements of a {kind} turn", value=max(counts), limit=limit),
            Bound(
                what=f"difference between statements of {kind} turns, whatever the entities, history and rows",
                value=max(counts) - min(counts),
                limit=0,
            ),
            Bound(
                what=f"CPU of a {kind} turn with {many} entities, times that with {few}",
                value=ratios[kind][small],
                limit=MOST,
            ),
        ]
    return Figures(
        name="turn",
        results={
            "statements": statements,
            "cpu_ms": {kind: {name: median(ms) for name, ms in each.items()} for kind, each in cpu.items()},
            f"cpu_with_{many}_entities_times_that_with": ratios,
            "turns_of_each": rounds * effort.repeats,
        },
        bounds=tuple(bounds),
    )


def child() -> None:
    """Measure in this process and print the figures."""
    from bench.generated.world import build

    person = build()
    from bench import answers
    from bench.generated.models import MADE
    from bench.serving import client_of
    from django_copilot.backends import ModelReply, ToolCall
    from django_copilot.models import Conversation, Message, Turn, TurnState

    client, worker = client_of(person)
    tool = f"query_{MADE[1]._meta.model_name}"
    message = f"Show the latest {MADE[1]._meta.verbose_name_plural}"
    scope: dict[str, Any] = {}

    def conversation(history: int) -> str:
        """Store a conversation of so many messages about the model that is asked for."""
        made = Conversation.objects.create(user=person, site="admin", scope_key="", scope=scope, title="x")
        turns = Turn.objects.bulk_create(
            Turn(
                conversation=made,
                user=person,
                state=TurnState.DONE,
                deadline=made.created_at,
            )
            for _ in range(history // 2)
        )
        Message.objects.bulk_create(
            Message(
                conversation=made,
                turn=turn,
                role=role,
                text=f"A sentence of a length as people and models write it, {role}.",
                mentions={MADE[1]._meta.label_lower: ["title", "price"]} if role == "assistant" else {},
            )
            for turn in turns
            for role in ("user", "assistant")
        )
        return str(made.pk)

    def turn(kind: str, rows: int, history: int) -> float:
        """Run one turn and return the milliseconds of CPU that were ours."""
        ident = conversation(history)
        if kind == "query":
            call = ToolCall(id="c", name=tool, arguments=json.dumps({"limit": rows}))
            answers.replies.append(ModelReply(calls=(call,)))
        answers.replies.append(ModelReply(text="This is what I found."))
        waited = answers.spent
        answer = client.post(
            "/admin/django_copilot/conversation/chat/",
            json.dumps(
                {
                    "conversationId": ident,
                    "message": message,
                    "page": f"/admin/generated/{MADE[1]._meta.model_name}/",
                }
            ),
            content_type="application/json",
        )
        body = answer.json()
        got = len(body["results"][0]["rows"]) if body.get("results") else 0
        assert answer.status_code == 200, body
        assert (got, answers.replies) == (rows if kind == "query" else 0, []), (got, len(answers.replies))
        return (worker.cpu_seconds - (answers.spent - waited)) * 1000

    cases = {
        "text": [(0, history) for history in HISTORY],
        "query": list(product(ROWS, HISTORY)),
    }
    statements: dict[str, dict[str, int]] = {}
    for kind, pairs in cases.items():
        statements[kind] = {}
        for rows, history in pairs:
            turn(kind, rows, history)
            case = f"{rows} rows, {history} messages" if kind == "query" else f"{history} messages"
            statements[kind][case] = len(worker.statements)
            if os.environ.get(PROFILE) == "sql":
                print(f"{kind}, {case}", *worker.statements, sep="\n  ", file=sys.stderr)
    spent: dict[str, list[float]] = {"text": [], "query": []}
    for _ in range(whole("repeats")):
        spent["text"].append(turn("text", 0, 2))
        spent["query"].append(turn("query", 50, 2))
    if os.environ.get(PROFILE) in cases:
        kind = os.environ[PROFILE]
        profile = cProfile.Profile()
        for _ in range(20):
            profile.runcall(turn, kind, 50 if kind == "query" else 0, 2)
        pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(70)
    print(
        json.dumps({"statements": statements, "cpu_ms": {kind: median(each) for kind, each in spent.items()}})
    )


if __name__ == "__main__":
    child()
