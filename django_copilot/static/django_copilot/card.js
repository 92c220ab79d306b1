/** The card of a plan: what would be done, until when, and the buttons that decide. All of it is put in as text. */

import { safeAddress } from "./address.js";
import { button, element } from "./dom.js";
import { gettext, interpolate } from "./texts.js";

// How often a plan that somebody or something else is busy with is looked at again, in seconds.
const AGAIN_AFTER = { executing: 3, awaiting_approval: 20 };
const LOOKS = 100;
// A click that was meant for the plan before must not decide the one that has taken its place.
const UNSEEN_MS = 1000;

/** Write seconds as minutes and seconds, with hours where there are any. */
export function timeLeft(seconds) {
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  if (parts[0] === 0) parts.shift();
  return parts.map((part, at) => (at ? String(part).padStart(2, "0") : part)).join(":");
}

/**
 * List what this person can do with a plan now, as {name, label, url, body, main}.
 *
 * What was shown is confirmed by its digest. Once its time is `over` all that is left is to look again.
 */
export function stepsOf(plan, { over = false } = {}) {
  const { digest } = plan;
  const all = {
    confirm: [plan.verb || gettext("Confirm"), plan.confirmUrl, { digest }, true],
    approve: [gettext("Approve"), plan.approveUrl, { digest }, true],
    retry: [gettext("Try again"), plan.confirmUrl, { digest }, true],
    look_up: [gettext("Ask what became of it"), plan.lookUpUrl, {}],
    again: [gettext("Make the preview again"), plan.againUrl, {}, true],
    undo: [gettext("Undo"), plan.undoUrl, {}],
    reject: [gettext("Reject"), plan.rejectUrl, {}],
  };
  const can = !over ? (plan.can ?? []) : plan.can?.includes("confirm") && !plan.isUndo ? ["again"] : [];
  return Object.entries(all)
    .filter(([name]) => can.includes(name))
    .map(([name, [label, url, body, main = false]]) => ({ name, label, url, body, main }));
}

const dash = (value) => (value === null || value === undefined || value === "" ? "\u2013" : value);

function words(origin) {
  return origin === "model" ? element("small", { text: gettext("the assistant’s words") }) : null;
}

function changesTable(changes) {
  const head = [gettext("Field"), gettext("Old"), gettext("New")].map((text) => element("th", { scope: "col", text }));
  const rows = changes.map((change) => {
    const old = change.oldHidden
      ? element("td", { class: "copilot-note", text: gettext("not shown to you") })
      : element("td", { text: dash(change.old) });
    const fresh = element("td", {}, dash(change.new), " ", words(change.origin));
    return element("tr", {}, element("th", { scope: "row", text: change.label }), old, fresh);
  });
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  const label = gettext("What changes");
  return element("div", { class: "copilot-table", role: "region", "aria-label": label, tabindex: "0" }, table);
}

/** Draw [label, text or nodes] pairs; those without a value are left out. */
function facts(pairs) {
  const given = pairs.filter(([, value]) => value);
  const each = ([label, ...values]) => [element("dt", { text: label }), element("dd", {}, ...values.filter(Boolean))];
  return given.length ? element("dl", {}, ...given.flatMap(each)) : null;
}

function link(label, path, place) {
  const href = path ? safeAddress(path, place) : null;
  return href && element("a", { href, text: label });
}

/**
 * Make the card of a plan.
 *
 * client  has decide(url, body) and look(url); onChange(plan, {decided})  told of each newer state.
 */
export function planCard(plan, { client, place, onChange }) {
  const heading = element("h3");
  const outcome = element("p", { class: "copilot-outcome", "aria-live": "polite", tabindex: "-1" });
  const body = element("div");
  // Nothing but the outcome is read out by itself: not the seconds, not the whole card after each step.
  const node = element("section", { class: "copilot-plan", "aria-live": "off" }, heading, outcome, body);
  let timer = null; // the seconds left, on the page
  let ends = 0;
  let over = false;
  let busy = false;
  let undoing = null; // the card of the plan that would undo this one
  let looks = 0;
  let ticks = 0;
  let clock = null;

  function draw() {
    const steps = stepsOf(plan, { over });
    const reject = steps.find(({ name }) => name === "reject");
    const reason = element("input", {
      type: "text",
      name: "copilot-reason",
      maxlength: "500",
      autocomplete: "off",
      "aria-label": gettext("Reason for rejecting (optional)"),
      placeholder: gettext("Reason (optional)"),
    });
    const onReject = (event) => {
      event.preventDefault();
      decide(reject, { reason: reason.value.trim() });
    };
    const touched = { names: plan.touched?.join(", ") };
    const effects = [
      ...(plan.effects ?? []),
      ...(touched.names ? [interpolate(gettext("Saving may also change: %(names)s."), touched)] : []),
    ];
    const given = facts((plan.arguments ?? []).map(({ label, value, origin }) => [label, `${dash(value)} `, words(origin)]));
    timer = ends && !over ? element("span", { role: "timer" }) : null;
    const second = plan.needsApproval && ["proposed", "awaiting_approval"].includes(plan.state) ? gettext("Has to approve it before anything is done.") : null;
    const buttons = steps
      .filter((step) => step !== reject)
      .map((step) =>
        button(step.label, {
          on: () => decide(step),
          class: `copilot-button${step.main ? " copilot-button-main" : ""}`,
        }),
      );

    heading.textContent = plan.summary;
    node.setAttribute("aria-label", plan.summary);
    node.setAttribute("aria-busy", String(busy));
    body.replaceChildren(
      ...[
        facts((plan.resultRows ?? []).map(({ label, value }) => [label, String(dash(value))])),
        ...(plan.warnings ?? []).map((text) => element("p", { class: "copilot-problem", text })),
        plan.changes?.length ? changesTable(plan.changes) : null,
        effects.length ? element("ul", {}, ...effects.map((text) => element("li", { text }))) : null,
        given &&
          element(
            "details",
            { open: !plan.changes?.length },
            element("summary", { text: gettext("What it was asked with") }),
            given,
          ),
        facts([
          [gettext("State"), over ? gettext("expired") : plan.stateLabel],
          [gettext("Reason"), plan.reason],
          [gettext("Asked for by"), plan.requester],
          [gettext("In the name of"), plan.actingAs],
          [gettext("Can be undone"), plan.reversible ? gettext("Yes") : gettext("No")],
          [gettext("Second person"), second],
          [gettext("Time left"), timer],
        ]),
        buttons.length ? element("div", { class: "copilot-buttons" }, ...buttons) : null,
        reject &&
          element(
            "form",
            { class: "copilot-reject", on: { submit: onReject } },
            reason,
            element("button", { type: "submit", class: "copilot-button", text: reject.label }),
          ),
        element(
          "p",
          { class: "copilot-links" },
          ...[
            link(gettext("Open on a page of its own"), plan.url, place),
            link(gettext("Open the record"), plan.recordUrl, place),
          ].filter(Boolean),
        ),
      ].filter(Boolean),
    );
    tick();
  }

  function setBusy(value) {
    busy = value;
    node.setAttribute("aria-busy", String(value));
    for (const one of body.querySelectorAll("button, input")) one.disabled = value;
  }

  function say(text) {
    outcome.textContent = text;
  }

  function tell(text) {
    say(text);
    outcome.focus();
  }

  function show(next) {
    if (next.id !== plan.id) undoing = null;
    plan = next;
    const open = plan.state === "proposed" || plan.state === "awaiting_approval";
    over = false;
    // The seconds came rounded down: with one more it is over on the server, too, when it is over here.
    ends = open ? Date.now() + (plan.secondsLeft + 1) * 1000 : 0;
    clearInterval(clock);
    if (open || AGAIN_AFTER[plan.state]) clock = setInterval(tick, 1000, true);
    draw();
  }

  function tick(passed = false) {
    if (passed && !node.isConnected) {
      clearInterval(clock);
      return;
    }
    const left = ends - Date.now();
    if (timer) timer.textContent = timeLeft(Math.max(0, Math.ceil(left / 1000) - 1));
    if (timer && left <= 0 && !busy) {
      over = true;
      clearInterval(clock);
      say(gettext("Its time is over. Nothing was done."));
      draw();
      look();
      return;
    }
    const pace = AGAIN_AFTER[plan.state];
    if (!passed || !pace || document.hidden) return;
    ticks += 1;
    if (ticks % pace === 0 && looks < LOOKS) look();
  }

  /** Ask how the plan stands. Nothing is drawn unless that is news. */
  async function look() {
    const address = safeAddress(plan.url, place);
    if (busy || address === null) return;
    looks += 1;
    const asked = plan;
    const answer = await client.look(address);
    if (busy || !answer.ok || plan !== asked) return;
    const { data } = answer;
    if (data.state === plan.state) return;
    if (!over) say(data.stateLabel ?? "");
    show(data);
    onChange(data, { decided: false });
  }

  async function decide({ name, url, body: sent }, more = {}) {
    if (busy) return;
    const address = safeAddress(url, place);
    if (address === null) {
      say(gettext("This address is outside the admin and was not opened."));
      return;
    }
    setBusy(true);
    const answer = await client.decide(address, { ...sent, ...more });
    busy = false;
    const next = answer.ok ? answer.data.plan : answer.problem.plan;
    const told = (answer.ok ? answer.data.reply : answer.problem.detail) ?? "";
    outcome.classList.toggle("copilot-problem", !answer.ok);
    if (next && name === "undo" && next.id !== plan.id) {
      setBusy(false);
      follow(next).tell(told);
    } else {
      const other = next && next.id !== plan.id;
      if (next) show(next);
      setBusy(Boolean(other));
      if (other) setTimeout(setBusy, UNSEEN_MS, false);
      tell(told);
    }
    if (next) onChange(next, { decided: true });
  }

  // To undo is a plan of its own: it stands below this one, which is looked at again once it is decided.
  function follow(next) {
    undoing?.node.remove();
    const changed = (...told) => {
      onChange(...told);
      look();
    };
    undoing = planCard(next, { client, place, onChange: changed });
    node.after(undoing.node);
    say("");
    return undoing;
  }

  show(plan);
  return { node, tell };
}
