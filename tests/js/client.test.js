import assert from "node:assert/strict";
import test from "node:test";

import { makeClient } from "../../django_copilot/static/django_copilot/client.js";
import { snapshot } from "../../django_copilot/static/django_copilot/forms.js";
import { makeMemory } from "../../django_copilot/static/django_copilot/memory.js";

function clientFor(response) {
  const calls = [];
  const fetch = async (url, options) => {
    calls.push({ url, ...options });
    if (response instanceof Error) throw response;
    return response;
  };
  const client = makeClient({ chat: "/admin/c/chat/", conversations: "/admin/c/", csrf: "TOKEN", fetch });
  return { client, calls };
}

test("a message is posted as JSON with the token, to our own origin only", async () => {
  const { client, calls } = clientFor(Response.json({ conversationId: "c", reply: "Hi" }));
  const answer = await client.send({ message: "Hi", conversationId: null, page: "/admin/" });
  assert.deepEqual(answer, { ok: true, data: { conversationId: "c", reply: "Hi" } });
  assert.equal(calls[0].url, "/admin/c/chat/");
  assert.equal(calls[0].credentials, "same-origin");
  assert.equal(calls[0].redirect, "manual");
  assert.equal(calls[0].headers["X-CSRFToken"], "TOKEN");
  assert.deepEqual(JSON.parse(calls[0].body), { message: "Hi", page: "/admin/" });
});

test("a conversation's id can't lead to another address", async () => {
  const { client, calls } = clientFor(Response.json({}));
  await client.open("../../x?y");
  assert.equal(calls[0].url, "/admin/c/..%2F..%2Fx%3Fy/");
});

test("the server's sentence is passed on, with the errors of the fields", async () => {
  const body = { code: "invalid", detail: "Check it.", errors: { message: ["Too long.", "Check it."] } };
  const { client } = clientFor(Response.json(body, { status: 400 }));
  const answer = await client.send({ message: "x", page: "/" });
  assert.deepEqual(answer, { ok: false, problem: { status: 400, code: "invalid", detail: "Check it. Too long." } });
});

test("a failed turn names its conversation", async () => {
  const body = { code: "model_timeout", detail: "Slow.", conversationId: "c4" };
  const { client } = clientFor(Response.json(body, { status: 500 }));
  assert.equal((await client.send({ message: "x", page: "/" })).problem.conversationId, "c4");
});

test("no connection, a log-out and an unreadable answer each say so", async () => {
  const down = await clientFor(new TypeError("down")).client.list();
  assert.equal(down.problem.code, "network");
  const out = await clientFor(Response.json({ code: "x" }, { status: 401 })).client.list();
  assert.equal(out.problem.code, "not_authenticated");
  const redirect = await clientFor({ type: "opaqueredirect", status: 0, ok: false }).client.list();
  assert.equal(redirect.problem.code, "not_authenticated");
  const page = await clientFor(new Response("<h1>Server Error</h1>", { status: 502 })).client.list();
  assert.equal(page.problem.status, 502);
  assert.equal(page.problem.code, "failed");
  assert.doesNotMatch(page.problem.detail, /</);
  const odd = await clientFor(new Response("<h1>Hello</h1>", { status: 200 })).client.list();
  assert.equal(odd.ok, false);
});

test("deleting accepts no content and a way back to the list", async () => {
  assert.equal((await clientFor(new Response(null, { status: 204 })).client.remove("c")).ok, true);
  assert.equal((await clientFor({ type: "opaqueredirect", status: 0, ok: false }).client.remove("c")).ok, true);
});

test("a form counts as changed by its values, not by its token or ticked rows", () => {
  const before = snapshot([["csrfmiddlewaretoken", "a"], ["title", "x"], ["photo", { name: "", size: 0 }]]);
  assert.equal(before, snapshot([["csrfmiddlewaretoken", "b"], ["title", "x"], ["photo", { name: "", size: 0 }], ["_selected_action", "3"]]));
  assert.notEqual(before, snapshot([["title", "y"], ["photo", { name: "", size: 0 }]]));
  assert.notEqual(before, snapshot([["title", "x"], ["photo", { name: "a.png", size: 9 }]]));
  assert.notEqual(snapshot([["t", "1"], ["t", "2"]]), snapshot([["t", "1"]]));
});

test("the tab's memory is kept per site and survives blocked storage", () => {
  const kept = new Map();
  const storage = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
  const memory = makeMemory("admin", () => storage);
  memory.write({ open: true });
  memory.write({ draft: "hello" });
  assert.deepEqual(memory.read(), { open: true, draft: "hello" });
  assert.deepEqual(makeMemory("other", () => storage).read(), {});
  kept.set("copilot:admin", "not json");
  assert.deepEqual(memory.read(), {});
  memory.forget();
  assert.equal(kept.size, 0);
  const blocked = makeMemory("admin", () => {
    throw new DOMException("blocked", "SecurityError");
  });
  blocked.write({ open: true });
  blocked.forget();
  assert.deepEqual(blocked.read(), {});
});

test("a decision is posted with the token, and a refused one brings the plan as it stands", async () => {
  const body = { code: "stale", detail: "Look again.", plan: { id: "p2" } };
  const { client, calls } = clientFor(Response.json(body, { status: 409 }));
  const answer = await client.decide("/admin/plan/p1/confirm/", { digest: "d1" });
  assert.deepEqual(answer, { ok: false, problem: { status: 409, code: "stale", detail: "Look again.", plan: { id: "p2" } } });
  assert.equal(calls[0].url, "/admin/plan/p1/confirm/");
  assert.equal(calls[0].method, "POST");
  assert.equal(calls[0].headers["X-CSRFToken"], "TOKEN");
  assert.equal(calls[0].headers.Accept, "application/json");
  assert.deepEqual(JSON.parse(calls[0].body), { digest: "d1" });
});

test("a turn goes on by naming the plan, with no message", async () => {
  const { client, calls } = clientFor(Response.json({ conversationId: "c", reply: "Done." }));
  await client.resume("c", "p1");
  assert.equal(calls[0].url, "/admin/c/chat/");
  assert.deepEqual(JSON.parse(calls[0].body), { conversationId: "c", continue: "p1" });
});
