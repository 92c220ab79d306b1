import assert from "node:assert/strict";
import test from "node:test";

import {
  answerText,
  initial,
  openQuestion,
  planToResume,
  reduce,
} from "../../django_copilot/static/django_copilot/state.js";

const run = (...events) => events.reduce(reduce, initial);
const send = { type: "send", text: "Show orders" };
const answer = { conversationId: "c1", reply: "Here they are.", results: [{ entity: "order", rows: [] }] };

test("a message is shown at once and settled by its answer", () => {
  const sent = run(send);
  assert.equal(sent.busy, true);
  assert.deepEqual(sent.messages, [{ role: "user", text: "Show orders", pending: true }]);
  const done = reduce(sent, { type: "answer", answer });
  assert.equal(done.busy, false);
  assert.equal(done.conversationId, "c1");
  assert.equal(done.messages[0].pending, false);
  assert.deepEqual(done.messages[1], { role: "assistant", text: "Here they are.", results: answer.results });
});

test("the state before is never changed", () => {
  const before = structuredClone(initial);
  run(send, { type: "answer", answer }, { type: "fresh" });
  assert.deepEqual(initial, before);
});

test("a refused message leaves the log and can be sent again", () => {
  for (const status of [0, 400, 401, 403, 409, 429]) {
    const state = run(send, { type: "problem", problem: { status, code: "x", detail: "No." } });
    assert.deepEqual(state.messages, [], String(status));
    assert.equal(state.problem.text, "Show orders");
    assert.equal(state.busy, false);
  }
});

test("a failed turn keeps the message, marked, and its conversation", () => {
  const problem = { status: 500, code: "model_timeout", detail: "Too slow.", conversationId: "c9" };
  const state = run(send, { type: "problem", problem });
  assert.deepEqual(state.messages, [{ role: "user", text: "Show orders", pending: false, failed: true }]);
  assert.equal(state.conversationId, "c9");
  assert.equal(state.problem.text, "Show orders");
  assert.equal(reduce(state, send).problem, null);
});

test("a stored conversation shows a running turn as running and a failed one as retryable", () => {
  const messages = [{ role: "user", text: "Hi" }];
  const running = run({ type: "opened", conversation: { conversationId: "c", messages, turn: { state: "running" } } });
  assert.equal(running.waiting, true);
  assert.equal(running.problem, null);
  const turn = { state: "failed", code: "failed", detail: "It broke." };
  const failed = run({ type: "opened", conversation: { conversationId: "c", messages, turn } });
  assert.equal(failed.waiting, false);
  assert.deepEqual(failed.problem, { status: 500, code: "failed", detail: "It broke.", text: "Hi" });
  const quiet = run({ type: "opened", conversation: { conversationId: "c", messages, turn: null } });
  assert.equal(quiet.problem, null);
});

test("only the last question is open, and not while an answer is under way", () => {
  const question = { text: "Which?", kind: "single", options: ["a", "b"] };
  const asked = run(send, { type: "answer", answer: { conversationId: "c", reply: "Which?", question } });
  assert.equal(openQuestion(asked), question);
  assert.equal(openQuestion(reduce(asked, { type: "send", text: "a" })), null);
  assert.equal(openQuestion(initial), null);
});

test("an action brings what was dropped", () => {
  const action = { path: "/admin/x/", queryParams: {}, prefill: {}, dropped: ["Cost"] };
  const state = run(send, { type: "answer", answer: { conversationId: "c", reply: "Opening.", action } });
  assert.deepEqual(state.messages[1].dropped, ["Cost"]);
  assert.equal(state.messages[1].action, action);
});

test("removing the open conversation starts anew, another one does not", () => {
  const list = { type: "list", conversations: [{ conversationId: "c1" }, { conversationId: "c2" }] };
  const state = run(send, { type: "answer", answer }, list);
  const other = reduce(state, { type: "removed", id: "c2" });
  assert.equal(other.messages.length, 2);
  assert.deepEqual(other.conversations, [{ conversationId: "c1" }]);
  const same = reduce(state, { type: "removed", id: "c1" });
  assert.deepEqual(same.messages, []);
  assert.equal(same.conversationId, null);
});

test("an unknown event is a mistake", () => {
  assert.throws(() => reduce(initial, { type: "toString" }), /unknown event/);
});

test("answers to a question become the next message", () => {
  assert.equal(answerText(["a", " b ", ""]), "a, b");
  assert.equal(answerText([" "]), "");
});

test("an answer brings its plan, and a waiting turn goes on without a message", () => {
  const plan = { id: "p1", state: "proposed" };
  const state = run(send, { type: "answer", answer: { conversationId: "c", reply: "Look.", plan } });
  assert.equal(state.messages[1].plan, plan);
  const on = reduce(state, { type: "resume" });
  assert.equal(on.busy, true);
  assert.equal(on.messages, state.messages);
  const after = reduce(on, { type: "answer", answer: { conversationId: "c", reply: "Done." } });
  assert.equal(after.busy, false);
  assert.equal(after.messages.length, 3);
});

test("words that have led to a plan are not offered to be sent again", () => {
  const messages = [{ role: "user", text: "Refund it" }, { role: "assistant", text: "Look.", plan: { id: "p1" } }];
  const turn = { state: "failed", code: "failed", detail: "It broke." };
  const opened = (more) => run({ type: "opened", conversation: { conversationId: "c", messages: [...messages, ...more], turn } });
  assert.equal(opened([]).problem.text, "");
  assert.equal(opened([{ role: "user", text: "And now?" }]).problem.text, "And now?");
});

test("only the latest plan, decided and not answered yet, is gone on with", () => {
  const said = { role: "user", text: "Hi" };
  const of = (plan) => ({ role: "assistant", text: "", plan });
  const decided = { id: "p1", state: "executed", canContinue: true };
  assert.equal(planToResume([said, of(decided)]), decided);
  assert.equal(planToResume([said, of(decided), said]), null);
  assert.equal(planToResume([said, of({ ...decided, canContinue: false })]), null);
  assert.equal(planToResume([said, of({ ...decided, state: "expired" })]), null);
  assert.equal(planToResume([said]), null);
  assert.equal(planToResume([]), null);
});
