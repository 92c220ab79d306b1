/** Talk to the server. Every call resolves to {ok: true, data} or {ok: false, problem}; none rejects. */

import { gettext } from "./texts.js";

function explain(status, data) {
  const errors = Object.values(data?.errors ?? {}).flat().filter((text) => typeof text === "string");
  const detail = [data?.detail, ...errors].filter((text) => typeof text === "string" && text !== "");
  return [...new Set(detail)].join(" ") || gettext("The server could not answer. Try again in a moment.");
}

async function call(fetch, url, options, { mayRedirect = false } = {}) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", redirect: "manual", ...options });
  } catch {
    const detail = gettext("The server could not be reached. Check your connection and try again.");
    return { ok: false, problem: { status: 0, code: "network", detail } };
  }
  if (mayRedirect && response.type === "opaqueredirect") return { ok: true, data: {} };
  // Any other redirect leads to the log-in page.
  if (response.status === 401 || response.type === "opaqueredirect") {
    const detail = gettext("You are logged out. Log in again; what you wrote is kept.");
    return { ok: false, problem: { status: 401, code: "not_authenticated", detail } };
  }
  let data = null;
  try {
    data = response.status === 204 ? {} : await response.json();
  } catch {
    if (!response.ok) data = null;
  }
  if (response.ok && data !== null && typeof data === "object") return { ok: true, data };
  const status = response.ok ? 500 : response.status;
  const problem = { status, code: data?.code ?? "failed", detail: explain(status, data) };
  if (typeof data?.conversationId === "string") problem.conversationId = data.conversationId;
  if (data?.plan) problem.plan = data.plan;
  return { ok: false, problem };
}

/** Make the calls for one site; `chat` and `conversations` are addresses, `csrf` the page's token. */
export function makeClient({ chat, conversations, csrf, fetch = (...args) => globalThis.fetch(...args) }) {
  const read = { headers: { Accept: "application/json" } };
  const write = (body) => ({
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrf },
    body: JSON.stringify(body),
  });
  const one = (id) => `${conversations}${encodeURIComponent(id)}/`;
  return {
    send({ message, conversationId, page }) {
      const body = { message, page };
      if (conversationId) body.conversationId = conversationId;
      return call(fetch, chat, write(body));
    },
    resume: (conversationId, plan) => call(fetch, chat, write({ conversationId, continue: plan })),
    look: (url) => call(fetch, url, read),
    decide: (url, body) => call(fetch, url, write(body)),
    open: (id) => call(fetch, one(id), read),
    list: () => call(fetch, conversations, read),
    remove: (id) => call(fetch, `${one(id)}delete/`, write({}), { mayRedirect: true }),
  };
}
