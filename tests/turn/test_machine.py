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
    Answered,
    CallModel,
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
)

FINAL = object()


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


def in_state(state: State) -> Turn:
    turn = Turn(limits=Limits())
    if state is not State.NEW:
        turn.start()
    if state is State.RUNNING:
        turn.send(said(call("a")))
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
    Interrupted(code="x"),
]
LEGAL = {
    State.NEW: (),
    State.ASKING: (ModelReplied, ModelFailed, Interrupted),
    State.RUNNING: (ToolReturned, Interrupted),
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


@pytest.mark.parametrize("state", [State.ASKING, State.RUNNING, State.DONE])
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
            final = FINAL if data.draw(st.integers(0, 9)) == 0 else None
            event = ToolReturned(content=None if final else data.draw(contents), final=final)
        effect = turn.send(event)
    assert turn.state is State.DONE
    assert turn.pending == []
    with pytest.raises(IllegalEvent):
        turn.send(Interrupted(code="x"))


def check_messages(messages: Any, limits: Limits) -> None:
    """Check that each assistant message has one result for each of its calls, in their order."""
    waiting: list[str] = []
    sent = 0
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
            if content.get("error", {}).get("code") != "too_much":
                sent += len(message.text.encode())
    assert waiting == []
    assert sent <= limits.max_bytes
