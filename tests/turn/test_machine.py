"""The rules of one turn, as tables: nothing here needs Django, a database or a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_copilot.backends.base import ModelReply, ToolCall
from django_copilot.turn.machine import (
    DECISION_BYTES,
    Answered,
    CallModel,
    Decided,
    Ended,
    FailedTurn,
    IllegalEvent,
    Interrupted,
    Limits,
    ModelFailed,
    ModelReplied,
    RunTool,
    State,
    ToolReturned,
    Turn,
    Wait,
)

FINAL = object()
PLAN = object()


def call(ident: str, name: str = "query_order") -> ToolCall:
    return ToolCall(id=ident, name=name, arguments="{}")


def said(*calls: ToolCall, text: str = "") -> ModelReplied:
    return ModelReplied(reply=ModelReply(text=text, calls=calls))


def begin(**limits: int) -> Turn:
    turn = Turn(limits=Limits(**limits))
    assert turn.start() == CallModel(messages=())
    return turn


def answer(turn: Turn, *calls: ToolCall, results: Any = None, text: str = "") -> Any:
    """Let the model call and every call return; give the effect after the last, and the ids that were run."""
    effect, ran = turn.send(said(*calls, text=text)), []
    while isinstance(effect, RunTool):
        ran.append(effect.call.id)
        content = results[len(ran) - 1] if results is not None else {"rows": []}
        effect = turn.send(ToolReturned(content=content))
    return effect, ran


def tool_results(effect: CallModel) -> dict[str, Any]:
    return {each.call_id: json.loads(each.text) for each in effect.messages if each.role == "tool"}


def test_a_text_ends_the_turn() -> None:
    turn = begin()
    assert turn.send(said(text="There are three.")) == Answered(text="There are three.")
    assert turn.state is State.DONE


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_a_reply_that_says_and_calls_nothing_is_no_answer(text: str) -> None:
    assert begin().send(said(text=text)) == FailedTurn(code="model_protocol")


def test_calls_are_run_one_by_one_in_their_order_and_answered_together() -> None:
    turn = begin()
    effect, ran = answer(turn, call("a"), call("b"), call("c"), results=[{"n": 1}, {"n": 2}, {"n": 3}])
    assert ran == ["a", "b", "c"]
    assert isinstance(effect, CallModel)
    assert [each.role for each in effect.messages] == ["assistant", "tool", "tool", "tool"]
    assert tool_results(effect) == {"a": {"n": 1}, "b": {"n": 2}, "c": {"n": 3}}


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_the_round_after_the_last_one_ends_the_turn(rounds: int) -> None:
    """Rule 1: a round is one reply with calls, however many."""
    turn = begin(max_rounds=rounds)
    for number in range(rounds):
        effect, _ = answer(turn, call(f"a{number}"), call(f"b{number}"))
        assert isinstance(effect, CallModel)
    assert turn.send(said(call("last"))) == FailedTurn(code="too_many_rounds")


def test_after_the_last_round_a_text_is_still_an_answer() -> None:
    turn = begin(max_rounds=1)
    answer(turn, call("a"))
    assert turn.send(said(text="Done.")) == Answered(text="Done.")


def test_refused_calls_use_up_rounds_too() -> None:
    turn = begin(max_rounds=2)
    for number in range(2):
        answer(turn, call(str(number)), results=[{"error": {"code": "not_found"}}])
    assert turn.send(said(call("more"))) == FailedTurn(code="too_many_rounds")


def test_the_first_final_outcome_ends_the_turn_and_later_calls_are_not_run() -> None:
    """Rule 2: the text beside it is not kept either."""
    turn = begin()
    effect = turn.send(said(call("read"), call("form"), call("other"), text="I saved it!"))
    assert effect == RunTool(call=call("read"))
    assert turn.send(ToolReturned(content={"rows": []})) == RunTool(call=call("form"))
    assert turn.send(ToolReturned(content=None, final=FINAL)) == Ended(final=FINAL)
    assert (turn.state, turn.pending) == (State.DONE, [])


def test_after_an_action_that_failed_a_valid_one_ends_the_turn() -> None:
    turn = begin()
    turn.send(said(call("first"), call("second")))
    refused = {"error": {"code": "not_found"}}
    assert turn.send(ToolReturned(content=refused)) == RunTool(call=call("second"))
    assert turn.send(ToolReturned(content=None, final=FINAL)) == Ended(final=FINAL)


def test_an_id_counts_once_and_the_first_call_with_it_is_the_one() -> None:
    """Rule 3."""
    turn = begin()
    effect, ran = answer(turn, call("a", "query_order"), call("a", "open_order_form"), call("b"))
    assert ran == ["a", "b"]
    assert [each.name for each in effect.messages[0].calls] == ["query_order", "query_order"]


@pytest.mark.parametrize(
    "idents", [["", ""], ["", "call_0"], ["call_1", ""], ["", "call_0", "call_0_"], ["call_0", "", ""]]
)
def test_a_call_without_an_id_gets_one_that_no_other_call_has(idents: list[str]) -> None:
    """Rule 3: no call is lost for an id that was made up for another."""
    turn = begin()
    effect, ran = answer(turn, *map(call, idents))
    assert len(ran) == len(set(ran)) == len(idents)
    assert set(filter(None, idents)) <= set(ran)
    assert list(tool_results(effect)) == ran


def test_calls_over_the_limit_are_answered_and_not_run() -> None:
    """Rule 3."""
    turn = begin(max_calls=2)
    effect, ran = answer(turn, *[call(str(number)) for number in range(40)])
    assert ran == ["0", "1"]
    results = tool_results(effect)
    assert len(results) == 40
    assert {results[str(n)]["error"]["code"] for n in range(2, 40)} == {"too_many_calls"}
    _, ran = answer(turn, call("x"), call("y"))
    assert ran == ["x", "y"]  # of one reply, not of the turn


def test_results_that_do_not_fit_are_left_out_and_said() -> None:
    """Rule 4: bytes as sent, all results of the turn together; a smaller one after a large one still fits."""
    turn = begin(max_bytes=100)
    effect, _ = answer(
        turn, call("a"), call("b"), call("c"), results=[{"t": "ż" * 20}, {"t": "x" * 60}, {"t": "x" * 30}]
    )
    results = tool_results(effect)
    assert results["a"] == {"t": "ż" * 20}
    assert results["b"]["error"]["code"] == "too_much"
    assert results["c"] == {"t": "x" * 30}
    effect, _ = answer(turn, call("d"), results=[{"t": "x" * 30}])
    assert tool_results(effect)["d"]["error"]["code"] == "too_much"


@pytest.mark.parametrize("state", ["asking", "running"])
def test_an_interruption_ends_the_turn(state: str) -> None:
    turn = begin()
    if state == "running":
        turn.send(said(call("a"), call("b")))
    assert turn.send(Interrupted(code="model_timeout")) == FailedTurn(code="model_timeout")
    assert (turn.state, turn.pending) == (State.DONE, [])


def test_a_model_that_failed_ends_the_turn_with_its_code() -> None:
    assert begin().send(ModelFailed(code="model_unavailable")) == FailedTurn(code="model_unavailable")


# -- waiting for a person ------------------------------------------------------------------------------


def wait(turn: Turn, *calls: ToolCall) -> Turn:
    """Let the model make these calls and the first of them wait for a person."""
    turn.send(said(*calls))
    assert turn.send(ToolReturned(content=None, waits=PLAN)) == Wait(waits=PLAN)
    assert turn.state is State.WAITING
    return turn


def stored(turn: Turn) -> Turn:
    """Return the turn as another process would take it up."""
    return Turn.from_json(json.loads(json.dumps(turn.to_json())), limits=turn.limits)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_plan_makes_the_turn_wait_and_the_decision_is_its_result(restarted: bool) -> None:
    """Rule 6: the calls after it are not run, and every call has its answer, in order."""
    turn = begin()
    assert turn.send(said(call("read"), call("plan"), call("b"), call("c"))) == RunTool(call=call("read"))
    assert turn.send(ToolReturned(content={"rows": [1]})) == RunTool(call=call("plan"))
    assert turn.send(ToolReturned(content=None, waits=PLAN)) == Wait(waits=PLAN)
    turn = stored(turn) if restarted else turn
    effect = turn.send(Decided(content={"status": "rejected"}))
    assert isinstance(effect, CallModel)
    results = tool_results(effect)
    assert list(results) == ["read", "plan", "b", "c"]
    assert results["read"] == {"rows": [1]}
    assert results["plan"] == {"status": "rejected"}
    assert {results[each]["error"]["code"] for each in "bc"} == {"not_run"}
    assert (turn.state, turn.pending) == (State.ASKING, [])
    assert turn.send(said(text="Then not.")) == Answered(text="Then not.")


def test_a_final_outcome_counts_more_than_something_to_wait_for() -> None:
    turn = begin()
    turn.send(said(call("a")))
    assert turn.send(ToolReturned(content=None, final=FINAL, waits=PLAN)) == Ended(final=FINAL)


@pytest.mark.parametrize("restarted", [False, True])
def test_rounds_go_on_where_they_were_after_a_decision(restarted: bool) -> None:
    turn = begin(max_rounds=2)
    answer(turn, call("a"))
    wait(turn, call("b"))
    turn = stored(turn) if restarted else turn
    assert isinstance(turn.send(Decided(content={})), CallModel)
    assert turn.send(said(call("c"))) == FailedTurn(code="too_many_rounds")


def test_bytes_go_on_where_they_were_after_a_decision_which_is_always_told() -> None:
    limit = DECISION_BYTES + 100
    turn = begin(max_bytes=limit)
    answer(turn, call("a"), results=[{"t": "x" * (limit - 20)}])
    used = turn.used_bytes
    turn = stored(wait(turn, call("b")))
    assert turn.used_bytes == used
    effect = turn.send(Decided(content={"status": "executed", "now": {"t": "ż" * 1000}}))
    assert tool_results(effect)["b"]["status"] == "executed"
    effect, _ = answer(turn, call("c"), results=[{"t": "x" * (DECISION_BYTES)}])
    assert tool_results(effect)["c"]["error"]["code"] == "too_much"


def test_a_turn_can_wait_more_than_once() -> None:
    turn = begin(max_rounds=3)
    for name in "abc":
        turn = stored(wait(turn, call(name), call(f"{name}2")))
        effect = turn.send(Decided(content={"status": name}))
    assert [tool_results(effect)[each]["status"] for each in "abc"] == ["a", "b", "c"]
    assert turn.send(said(text="Done.")) == Answered(text="Done.")


def test_a_waiting_turn_can_be_interrupted() -> None:
    turn = wait(begin(), call("a"), call("b"))
    assert turn.send(Interrupted(code="failed")) == FailedTurn(code="failed")
    assert (turn.state, turn.pending) == (State.DONE, [])


@pytest.mark.parametrize(
    "broken",
    [{}, {"rounds": 1}, {"rounds": 1, "used_bytes": 0, "messages": [{}], "pending": []}, {"messages": None}],
    ids=str,
)
def test_what_was_not_stored_by_a_turn_is_none(broken: Any) -> None:
    with pytest.raises((KeyError, TypeError)):
        Turn.from_json(broken, limits=Limits())


def in_state(state: State) -> Turn:
    turn = Turn(limits=Limits())
    if state is not State.NEW:
        turn.start()
    if state in (State.RUNNING, State.WAITING):
        turn.send(said(call("a")))
    if state is State.WAITING:
        turn.send(ToolReturned(content=None, waits=PLAN))
    if state is State.DONE:
        turn.send(said(text="x"))
    assert turn.state is state
    return turn


EVENTS = [
    said(text="x"),
    said(call("a")),
    ModelFailed(code="x"),
    ToolReturned(content={}),
    ToolReturned(content=None, final=FINAL),
    ToolReturned(content=None, waits=PLAN),
    Decided(content={}),
    Interrupted(code="x"),
]
LEGAL = {
    State.NEW: (),
    State.ASKING: (ModelReplied, ModelFailed, Interrupted),
    State.RUNNING: (ToolReturned, Interrupted),
    State.WAITING: (Decided, Interrupted),
    State.DONE: (),
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS, ids=lambda each: type(each).__name__)
def test_events_that_can_not_come_are_refused_and_change_nothing(state: State, event: Any) -> None:
    turn = in_state(state)
    if isinstance(event, LEGAL[state]):
        turn.send(event)
        return
    before = (turn.state, turn.rounds, list(turn.messages), list(turn.pending))
    with pytest.raises(IllegalEvent):
        turn.send(event)
    assert (turn.state, turn.rounds, turn.messages, turn.pending) == before


@pytest.mark.parametrize("state", [State.ASKING, State.RUNNING, State.WAITING, State.DONE])
def test_a_turn_starts_once(state: State) -> None:
    with pytest.raises(IllegalEvent):
        in_state(state).start()


def test_an_effect_does_not_change_afterwards() -> None:
    turn = begin()
    effect, _ = answer(turn, call("a"))
    before = effect.messages
    answer(turn, call("b"))
    assert effect.messages == before
    assert isinstance(effect.messages, tuple)


def test_the_machine_needs_no_settings() -> None:
    program = "import sys, django_copilot.turn.machine; print('django.db' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        env={"PATH": ""},
        capture_output=True,
        text=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("False", "")


# -- any sequence --------------------------------------------------------------------------------------

idents = st.sampled_from(["", "a", "b", "c", "call_0", "call_1", "call_0_"])
calls = st.lists(st.builds(call, idents, st.sampled_from(["query_order", "gone", ""])), max_size=6)
replies = st.builds(ModelReply, text=st.sampled_from(["", " ", "words"]), calls=calls.map(tuple))
contents = st.sampled_from([{}, {"rows": []}, {"error": {"code": "x"}}, {"long": "ż" * 60}])
limits = st.builds(
    Limits,
    max_rounds=st.integers(0, 3),
    max_calls=st.integers(0, 4),
    max_bytes=st.integers(0, 200),
)


@given(limits, st.data())
def test_every_turn_ends_and_every_call_is_answered_once_in_order(
    limits: Limits, data: st.DataObject
) -> None:
    turn = Turn(limits=limits)
    effect, requests, runs = turn.start(), 0, 0
    while not isinstance(effect, (Answered, Ended, FailedTurn)):
        if isinstance(effect, CallModel):
            requests += 1
            assert requests <= limits.max_rounds + 1
            check_messages(effect.messages, limits)
            if data.draw(st.integers(0, 9)) == 0:
                event: Any = data.draw(st.sampled_from([ModelFailed(code="x"), Interrupted(code="x")]))
            else:
                event = ModelReplied(reply=data.draw(replies))
        else:
            runs += 1
            assert runs <= limits.max_rounds * limits.max_calls
            ending = data.draw(st.integers(0, 9))
            final, waits = FINAL if ending == 0 else None, PLAN if ending in (1, 2) else None
            event = ToolReturned(
                content=None if final or waits else data.draw(contents), final=final, waits=waits
            )
        effect = turn.send(event)
        if isinstance(effect, Wait):
            again = stored(turn)
            assert again == turn
            turn = again
            event = data.draw(st.sampled_from([Interrupted(code="x"), Decided(content={"status": "x"})]))
            effect = turn.send(event)
    assert turn.state is State.DONE
    assert turn.pending == []
    with pytest.raises(IllegalEvent):
        turn.send(Interrupted(code="x"))


def check_messages(messages: Any, limits: Limits) -> None:
    """Check that each assistant message has one result for each of its calls, in their order."""
    waiting: list[str] = []
    sent, most = 0, limits.max_bytes
    for message in messages:
        if message.role == "assistant":
            assert waiting == []
            waiting = [each.id for each in message.calls]
            assert all(waiting)
            assert len(set(waiting)) == len(waiting) > 0
        else:
            assert message.role == "tool"
            assert message.call_id == waiting.pop(0)
            content = json.loads(message.text)
            if "status" in content:  # of a decision, which is told whatever was told before
                most += DECISION_BYTES
            if content.get("error", {}).get("code") != "too_much":
                sent += len(message.text.encode())
    assert waiting == []
    assert sent <= most
