/** The panel itself: loaded when it is first opened. Keeps the state, talks to the server, draws. */

import { actionAddress } from "./address.js";
import { makeClient } from "./client.js";
import { ask, button, element, icon } from "./dom.js";
import { formState } from "./forms.js";
import { initial, openQuestion, planToResume, reduce } from "./state.js";
import { gettext, loadTexts } from "./texts.js";
import { conversationList, drawMessages, ready } from "./view.js";

const POLL_MS = 3000;
const POLLS = 60;

/**
 * Make the panel inside `host`.
 *
 * config  the script's data-* values; memory  what this tab remembers; baseline()  the form's state at load;
 * onClose()  called when the person closes it; onDecided()  when a plan was decided.
 * Gives {show({focus}), hide(), wait(count)}.
 */
export async function makePanel({ host, config, memory, baseline, onClose, onDecided }) {
  await loadTexts(`${config.conversations}jsi18n/`);
  const client = makeClient(config);
  const place = { lang: config.lang, zone: config.zone, root: config.root, origin: location.origin };
  let state = initial;
  const known = memory.read().conversation;
  let loading = Boolean(known); // an earlier conversation is on its way
  let asked = Boolean(config.unavailable); // for sentences to begin with
  let asking = false;
  const resumed = new Set(); // ids of plans
  let era = 0; // answers to questions of an earlier conversation are dropped

  const log = element("div", { class: "copilot-log", role: "log", "aria-label": gettext("Messages"), tabindex: "0" });
  const { unavailable } = config; // a sentence, when nobody would answer
  const examples = element("div", { class: "copilot-examples" });
  const hints = [
    element("p", { text: gettext("What would you like to see or prepare?") }),
    element("p", {
      text: gettext("I can show records, fill in forms and open delete pages. Only you can save or delete."),
    }),
    examples,
  ];
  const words = unavailable ? [element("p", { text: unavailable })] : hints;
  const greeting = element("div", { class: "copilot-greeting" }, ...words);
  const list = element("div", { class: "copilot-conversations", hidden: true });
  const status = element("p", { class: "copilot-status", role: "status" });
  const repair = element("div", { class: "copilot-repair" });
  const input = element("textarea", {
    rows: "2",
    maxlength: "8000",
    name: "copilot-message",
    autocomplete: "off",
    "aria-label": gettext("Message to the assistant"),
    placeholder: unavailable ? null : gettext("Write to the assistant"),
    disabled: Boolean(unavailable),
  });
  const send = button(gettext("Send"), { icon: "send", on: () => submit(), class: "copilot-send" });
  const listButton = button(gettext("Conversations"), {
    icon: "list",
    on: () => toggleList(),
    class: "copilot-plain",
    "aria-expanded": "false",
  });
  const badge = element("span", { class: "copilot-badge" });
  const waiting = config.inbox
    ? element("a", { href: config.inbox, class: "copilot-plain copilot-waiting" }, icon("check"), badge)
    : null;
  const bar = element(
    "header",
    { class: "copilot-bar" },
    element("h2", { text: gettext("Assistant") }),
    waiting,
    button(gettext("New conversation"), { icon: "fresh", on: () => startAnew(), class: "copilot-plain" }),
    listButton,
    button(gettext("Close"), { icon: "close", on: () => onClose(), class: "copilot-plain" }),
  );
  const label = config.label ? element("p", { class: "copilot-label", text: config.label }) : null;
  const foot = element("div", { class: "copilot-foot" }, input, send);
  const panel = element(
    "aside",
    { class: "copilot-panel", id: "copilot-panel", role: "complementary", "aria-label": gettext("Assistant") },
    bar,
    label,
    log,
    list,
    status,
    repair,
    foot,
  );
  log.append(greeting);
  input.value = memory.read().draft ?? "";
  host.append(panel);

  input.addEventListener("input", () => memory.write({ draft: input.value }));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    submit();
  });
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    onClose();
  });
  // Coming back with the browser's Back button: what was under way is over by now.
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    apply({ type: "idle" });
    if (state.conversationId) openConversation(state.conversationId);
  });

  function apply(event) {
    state = reduce(state, event);
    memory.write({ conversation: state.conversationId });
    draw();
  }

  function draw() {
    const working = state.busy || state.waiting;
    const inList = state.view === "list";
    greeting.hidden = state.messages.length > 0 || loading;
    if (!greeting.hidden && !asked) offer();
    log.setAttribute("aria-live", working ? "off" : "polite");
    log.setAttribute("aria-busy", String(working || loading || asking));
    const canAnswer = !unavailable && openQuestion(state) !== null;
    const { conversationId } = state;
    const onPlan = (plan, told) => decided(plan, { ...told, conversationId });
    const options = { place, client, onAnswer: sendText, onGo: go, onPlan, canAnswer };
    const grown = drawMessages(log, state.messages, options);
    log.hidden = inList;
    list.hidden = !inList;
    listButton.setAttribute("aria-expanded", String(inList));
    if (inList) {
      list.replaceChildren(
        element("h3", { text: gettext("Conversations") }),
        conversationList(state, { place, onOpen: (one) => openConversation(one.conversationId), onRemove: remove }),
      );
    }
    send.disabled = working || Boolean(unavailable);
    const quiet = unavailable && greeting.hidden ? unavailable : "";
    const text = working ? gettext("The assistant is working…") : (state.problem?.detail ?? quiet);
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("copilot-problem", !working && state.problem !== null);
    status.classList.toggle("copilot-working", working);
    repair.replaceChildren(...repairs(working));
    if (grown || state.problem !== null) scrollToLast();
  }

  // A long answer is read from its question on, or from what was said after a decision.
  function scrollToLast() {
    const from = ".copilot-message-user, .copilot-message:has(.copilot-plan) + .copilot-message";
    const asked = [...log.querySelectorAll(from)].at(-1);
    log.scrollTop = asked ? asked.offsetTop - 16 : log.scrollHeight;
  }

  function repairs(working) {
    if (working || state.problem === null) return [];
    if (state.problem.code === "not_authenticated") {
      return [element("a", { href: location.href, text: gettext("Load the page again"), class: "copilot-button" })];
    }
    if (!state.problem.text || state.problem.code === "model_not_configured") return [];
    return [button(gettext("Retry"), { on: () => retry(), class: "copilot-button" })];
  }

  function retry() {
    const { text } = state.problem;
    if (input.value.trim() === text) setDraft("");
    sendText(text);
  }

  function setDraft(text) {
    input.value = text;
    memory.write({ draft: text });
  }

  function submit() {
    const text = input.value.trim();
    if (text === "" || state.busy || state.waiting) return;
    input.value = ""; // the memory keeps the words until the server has them
    sendText(text);
  }

  async function sendText(text) {
    if (loading) await opening; // or the message would start a conversation of its own
    if (state.busy || state.waiting) {
      if (input.value.trim() === "") setDraft(text);
      return;
    }
    const mine = ++era;
    apply({ type: "send", text });
    const page = location.pathname + location.search;
    const answer = await ready(client.send({ message: text, conversationId: state.conversationId, page }));
    if (mine !== era) return;
    if (!answer.ok) {
      if (input.value.trim() === "") setDraft(text); // nothing that was written is lost
      apply({ type: "problem", problem: answer.problem });
      return;
    }
    memory.write({ draft: input.value });
    await take(answer.data);
  }

  async function take(data) {
    apply({ type: "answer", answer: data });
    document.dispatchEvent(new CustomEvent("copilot:answer", { detail: data }));
    if (data.plan) onDecided();
    if (data.action) await go(data.action);
  }

  function decided(plan, { decided, conversationId }) {
    document.dispatchEvent(new CustomEvent("copilot:plan", { detail: plan }));
    onDecided();
    if (conversationId === state.conversationId && (decided || plan.state !== "expired")) resume(plan);
  }

  // The turn that waited for a decision goes on. Whatever comes of it, the decision stands as it was answered.
  async function resume(plan) {
    if (!plan.canContinue || resumed.has(plan.id) || state.busy || state.waiting) return;
    resumed.add(plan.id);
    const mine = ++era;
    apply({ type: "resume" });
    const answer = await ready(client.resume(state.conversationId, plan.id));
    if (mine !== era) return;
    if (answer.ok) {
      await take(answer.data);
      return;
    }
    apply({ type: "idle" });
    if (!["nothing_to_continue", "not_decided"].includes(answer.problem.code)) {
      apply({ type: "notice", problem: answer.problem });
    }
  }

  async function go(action) {
    const address = actionAddress(action, place);
    if (address === null) {
      const detail = gettext("This address is outside the admin and was not opened.");
      apply({ type: "notice", problem: { status: 0, code: "address_refused", detail } });
      return;
    }
    const before = baseline();
    if (before !== null && formState() !== before) {
      const leave = await ask(host, {
        text: gettext("You have typed into this page and not saved it. Going on loses what you typed."),
        yes: gettext("Go on"),
        no: gettext("Stay here"),
      });
      if (!leave) return;
    }
    const event = new CustomEvent("copilot:go", { detail: { address }, cancelable: true });
    if (document.dispatchEvent(event)) location.assign(address);
  }

  async function openConversation(id, { quiet = false } = {}) {
    const mine = ++era;
    const answer = await ready(client.open(id));
    loading = false;
    if (mine !== era) return;
    if (answer.ok) {
      apply({ type: "opened", conversation: answer.data });
      if (state.waiting) poll(id, POLLS);
      const plan = planToResume(state.messages);
      if (plan) await resume(plan);
      return;
    }
    if (answer.problem.status === 404) {
      apply({ type: "fresh" });
      if (quiet) return;
    }
    apply({ type: "notice", problem: answer.problem });
  }

  function poll(id, left) {
    const mine = era;
    setTimeout(async () => {
      if (mine !== era || !state.waiting) return;
      const answer = await ready(client.open(id));
      if (mine !== era) return;
      if (answer.ok) apply({ type: "opened", conversation: answer.data });
      if (answer.ok && !state.waiting) return;
      if (left > 1) poll(id, left - 1);
      else apply({ type: "idle" });
    }, POLL_MS);
  }

  async function toggleList() {
    if (state.view === "list") {
      apply({ type: "show", view: "chat" });
      return;
    }
    apply({ type: "show", view: "list" });
    const answer = await client.list();
    if (answer.ok) apply({ type: "list", conversations: answer.data.conversations ?? [] });
    else {
      apply({ type: "show", view: "chat" });
      apply({ type: "notice", problem: answer.problem });
    }
  }

  async function remove(one) {
    const text = gettext("Delete this conversation? This can't be undone.");
    if (!(await ask(host, { text, yes: gettext("Delete"), no: gettext("Keep") }))) return;
    const answer = await client.remove(one.conversationId);
    if (answer.ok || answer.problem.status === 404) {
      if (state.conversationId === one.conversationId) era += 1;
      apply({ type: "removed", id: one.conversationId });
    } else apply({ type: "notice", problem: answer.problem });
    listButton.focus();
  }

  function startAnew() {
    era += 1;
    apply({ type: "fresh" });
    input.focus();
  }

  async function offer() {
    asked = asking = true;
    const answer = await client.list();
    asking = false;
    const given = answer.ok && Array.isArray(answer.data.examples) ? answer.data.examples : [];
    const take = (text) => {
      setDraft(text);
      input.focus();
    };
    examples.append(
      ...given.slice(0, 3).map((text) => button(text, { on: () => take(text), class: "copilot-button" })),
    );
    draw();
  }

  const opening = known ? openConversation(known, { quiet: true }) : null;
  draw();

  return {
    show({ focus }) {
      panel.hidden = false;
      scrollToLast();
      if (focus) (unavailable ? log : input).focus();
    },
    hide() {
      panel.hidden = true;
    },
    /** Say how many plans wait for this person. */
    wait(count) {
      if (waiting === null) return;
      const text = gettext("Waiting for a decision");
      const label = count ? `${text} (${count})` : text;
      badge.textContent = count || "";
      for (const name of ["aria-label", "title"]) waiting.setAttribute(name, label);
    },
  };
}
