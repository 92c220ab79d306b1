import assert from "node:assert/strict";
import test from "node:test";

import { planCard, stepsOf, timeLeft } from "../../django_copilot/static/django_copilot/card.js";

const plan = {
  id: "p1",
  state: "proposed",
  stateLabel: "proposed",
  summary: "Refund: SO-1",
  verb: "Refund payment",
  digest: "d1",
  secondsLeft: 600,
  can: ["confirm", "reject"],
  url: "/admin/plan/p1/",
  confirmUrl: "/admin/plan/p1/confirm/",
  rejectUrl: "/admin/plan/p1/reject/",
  approveUrl: "/admin/plan/p1/approve/",
  undoUrl: "/admin/plan/p1/undo/",
  againUrl: "/admin/plan/p1/again/",
  lookUpUrl: "/admin/plan/p1/look_up/",
};

test("the time left reads as a clock", () => {
  assert.equal(timeLeft(599), "9:59");
  assert.equal(timeLeft(60), "1:00");
  assert.equal(timeLeft(7.9), "0:07");
  assert.equal(timeLeft(86_399), "23:59:59");
  assert.equal(timeLeft(3600), "1:00:00");
});

test("only what this person can do now is offered, under the verb of the plan", () => {
  const names = (more, options) => stepsOf({ ...plan, ...more }, options).map(({ name }) => name);
  assert.deepEqual(names({}), ["confirm", "reject"]);
  assert.equal(stepsOf(plan)[0].label, "Refund payment");
  assert.deepEqual(names({ can: ["undo"] }), ["undo"]);
  assert.deepEqual(names({ can: ["toString", "grant"] }), []);
  assert.deepEqual(names({ can: undefined }), []);
  assert.deepEqual(names({}, { over: true }), ["again"]);
  assert.deepEqual(names({ isUndo: true }, { over: true }), []);
  assert.deepEqual(names({ state: "awaiting_approval", can: ["reject"] }, { over: true }), []);
});

test("what was shown is confirmed by its digest, at its own address", () => {
  for (const [can, url] of [
    ["confirm", plan.confirmUrl],
    ["retry", plan.confirmUrl],
    ["approve", plan.approveUrl],
  ]) {
    const [step] = stepsOf({ ...plan, can: [can] });
    assert.equal(step.url, url);
    assert.deepEqual(step.body, { digest: "d1" });
  }
  for (const can of ["undo", "again", "look_up", "reject"]) assert.deepEqual(stepsOf({ ...plan, can: [can] })[0].body, {});
});

/** As much of a document as a card needs. */
class Node {
  constructor(tag) {
    Object.assign(this, { tag, children: [], attributes: {}, listeners: {}, text: "", isConnected: true, value: "" });
    this.classList = { toggle() {} };
  }
  set textContent(text) {
    this.text = String(text);
    this.children = [];
  }
  get textContent() {
    return this.text + this.children.map((child) => child.textContent ?? child).join(" ");
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }
  append(...nodes) {
    this.children.push(...nodes);
  }
  replaceChildren(...nodes) {
    this.children = nodes;
  }
  after(node) {
    this.next = node;
  }
  remove() {}
  focus() {
    Node.focused = this;
  }
  all(tag) {
    return this.children.flatMap((one) => (one instanceof Node ? [...(one.tag === tag ? [one] : []), ...one.all(tag)] : []));
  }
  querySelectorAll() {
    return [...this.all("button"), ...this.all("input")];
  }
}

function cardFor(context, shown, ...answers) {
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout", "Date"] });
  globalThis.document = { createElement: (tag) => new Node(tag), hidden: false };
  const calls = [];
  const changes = [];
  const give = (kind) => (url, body) => {
    calls.push({ kind, url, body });
    return Promise.resolve(answers.shift() ?? { ok: false, problem: { detail: "nothing left" } });
  };
  const card = planCard(shown, {
    client: { decide: give("decide"), look: give("look") },
    place: { root: "/admin/", origin: "https://shop.test" },
    onChange: (next, told) => changes.push([next.id, next.state, told.decided]),
  });
  const [, outcome, body] = card.node.children;
  const press = (label) => body.all("button").find((one) => one.textContent === label).listeners.click?.({});
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const labels = () => body.all("button").map((one) => one.textContent);
  return { ...card, outcome, body, calls, changes, press, settle, labels };
}

const done = { ...plan, state: "executed", stateLabel: "carried out", can: ["undo"] };

test("pressing twice sends once, and the outcome is the server's", async (context) => {
  const card = cardFor(context, plan, { ok: true, data: { plan: done, reply: "Done." } });
  const [button] = card.body.all("button");
  button.listeners.click();
  button.listeners.click();
  await card.settle();
  assert.deepEqual(card.calls, [{ kind: "decide", url: plan.confirmUrl, body: { digest: "d1" } }]);
  assert.equal(card.outcome.textContent, "Done.");
  assert.equal(Node.focused, card.outcome);
  assert.deepEqual(card.labels(), ["Undo"]);
  assert.deepEqual(card.changes, [["p1", "executed", true]]);
});

test("a stale plan gives way to the fresh one, which is confirmed by its own digest", async (context) => {
  const fresh = { ...plan, id: "p2", digest: "d2", confirmUrl: "/admin/plan/p2/confirm/" };
  const problem = { status: 409, code: "stale", detail: "Look again.", plan: fresh };
  const card = cardFor(context, plan, { ok: false, problem }, { ok: true, data: { plan: done, reply: "Done." } });
  card.press("Refund payment");
  await card.settle();
  assert.equal(card.outcome.textContent, "Look again.");
  card.press("Refund payment"); // meant for the one before
  await card.settle();
  assert.equal(card.calls.length, 1);
  context.mock.timers.tick(1000);
  card.press("Refund payment");
  await card.settle();
  assert.deepEqual(card.calls[1], { kind: "decide", url: fresh.confirmUrl, body: { digest: "d2" } });
});

test("a lost answer leaves the card as it was", async (context) => {
  const card = cardFor(context, plan, { ok: false, problem: { status: 0, code: "network", detail: "No connection." } });
  card.press("Refund payment");
  await card.settle();
  assert.equal(card.outcome.textContent, "No connection.");
  assert.deepEqual(card.labels(), ["Refund payment", "Reject"]);
  assert.deepEqual(card.changes, []);
});

test("an address outside the admin gets no decision", async (context) => {
  for (const confirmUrl of ["//evil.test/admin/", "https://evil.test/admin/", "javascript:alert(1)", "/elsewhere/"]) {
    const card = cardFor(context, { ...plan, confirmUrl });
    card.press("Refund payment");
    await card.settle();
    assert.deepEqual(card.calls, [], confirmUrl);
    assert.match(card.outcome.textContent, /outside the admin/);
    context.mock.timers.reset();
  }
});

test("the seconds run down; then nothing can be confirmed and the server is asked", async (context) => {
  const over = { ...plan, state: "expired", stateLabel: "expired", can: ["again"], secondsLeft: 0 };
  const card = cardFor(context, { ...plan, secondsLeft: 2 }, { ok: true, data: over });
  assert.match(card.body.textContent, /0:02/);
  context.mock.timers.tick(1000);
  assert.match(card.body.textContent, /0:01/);
  assert.equal(card.outcome.textContent, "");
  context.mock.timers.tick(2000);
  assert.deepEqual(card.labels(), ["Make the preview again"]);
  assert.match(card.outcome.textContent, /time is over/);
  await card.settle();
  assert.deepEqual(card.calls, [{ kind: "look", url: plan.url, body: undefined }]);
  assert.deepEqual(card.changes, [["p1", "expired", false]]);
  assert.match(card.outcome.textContent, /time is over/);
});

test("a plan that waits for somebody else is looked at again now and then", async (context) => {
  const waits = { ...plan, state: "awaiting_approval", can: ["reject"], secondsLeft: 86_400 };
  const card = cardFor(context, waits, { ok: true, data: waits }, { ok: true, data: done });
  context.mock.timers.tick(20_000);
  await card.settle();
  assert.deepEqual(card.changes, []);
  context.mock.timers.tick(20_000);
  await card.settle();
  assert.deepEqual(card.changes, [["p1", "executed", false]]);
  context.mock.timers.tick(100_000);
  assert.equal(card.calls.length, 2);
});

test("to undo is a plan of its own below, and the first one is looked at when that is decided", async (context) => {
  const undo = { ...plan, id: "p2", isUndo: true };
  const undone = { ...done, state: "undone", can: [] };
  const card = cardFor(
    context,
    done,
    { ok: true, data: { plan: undo, reply: "Ready." } },
    { ok: true, data: { plan: { ...undo, state: "executed", can: [] }, reply: "Done." } },
    { ok: true, data: undone },
  );
  card.press("Undo");
  await card.settle();
  const below = card.node.next;
  assert.equal(below.children[1].textContent, "Ready.");
  assert.equal(Node.focused, below.children[1]);
  assert.equal(card.outcome.textContent, "");
  below.all("button")[0].listeners.click();
  await card.settle();
  assert.deepEqual(card.calls.map(({ kind }) => kind), ["decide", "decide", "look"]);
  assert.deepEqual(card.labels(), []);
});

test("what may not be shown is not drawn as empty, and the assistant's words are marked", (context) => {
  const changes = [
    { field: "cost", label: "Cost", old: null, oldHidden: true, new: "5" },
    { field: "city", label: "City", old: "", new: "Gdynia", origin: "model" },
  ];
  const card = cardFor(context, { ...plan, changes });
  const [first, second] = card.body.all("tr").slice(1).map((row) => row.children.map((cell) => cell.textContent));
  assert.equal(first[1], "not shown to you");
  assert.equal(second[1], "\u2013");
  assert.match(second[2], /Gdynia .*words/);
  assert.doesNotMatch(first[2], /words/);
});
