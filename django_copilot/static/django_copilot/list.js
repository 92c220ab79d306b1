/**
 * Tick rows of the admin's own list and choose one of its actions, as a stored plan says; nothing is run here.
 *
 * Loaded when the address of a list brings a plan. The boxes, the action and the button are the admin's own.
 */

import { element } from "./dom.js";
import { gettext, interpolate, loadTexts } from "./texts.js";

async function ask(plan, { inbox }) {
  try {
    const options = { headers: { Accept: "application/json" }, credentials: "same-origin", redirect: "manual" };
    const response = await fetch(`${inbox}${plan}/`, options);
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

function changed(node) {
  node.dispatchEvent(new Event("change", { bubbles: true })); // the admin's own script counts
}

function setBoxes(form, ids) {
  const wanted = new Set(ids);
  let ticked = 0;
  for (const box of form.querySelectorAll("input.action-select")) {
    const tick = wanted.has(box.value);
    if (tick) ticked += 1;
    if (box.checked === tick) continue;
    box.checked = tick;
    changed(box);
  }
  return ticked;
}

/** Choose an action in each of the list's bars; tell whether it is there. */
function choose(form, action) {
  let found = false;
  for (const select of form.querySelectorAll("select[name=action]")) {
    if (![...select.options].some(({ value }) => value === action)) continue;
    select.value = action;
    changed(select);
    found = true;
  }
  return found;
}

function words(data, { ticked, chosen, button }) {
  const press = button && data.button ? data.press.replace(data.button, () => button) : data.press;
  if (ticked === data.count && chosen) return data.notice.replace(data.press, () => press);
  const text = gettext("Rows ticked: %(ticked)s of %(count)s. The others are not in this list.");
  const rows = interpolate(text, { ticked, count: data.count });
  if (ticked === 0) return rows;
  return [rows, ...(chosen ? [data.chosen, press] : [gettext("The action can't be chosen here.")])].join(" ").trim();
}

function say(form, text) {
  document.querySelector(".copilot-list-notice")?.remove();
  const notice = element("div", {
    class: "copilot-mark-banner copilot-list-notice",
    role: "status",
    tabindex: "-1",
  });
  (form ?? document.querySelector("#content-main") ?? document.querySelector("#content") ?? document.body).prepend(notice);
  notice.append(element("p", { text }));
  notice.focus();
}

/** Do what the plan says on the list that is open, and tell the person. */
export async function tickRows(plan, config) {
  const [data] = await Promise.all([ask(plan, config), loadTexts(`${config.conversations}jsi18n/`)]);
  // A theme may have given the form a name of its own.
  const form = document.querySelector("input.action-select")?.form ?? document.getElementById("changelist-form");
  if (!Array.isArray(data?.ids) || data.path !== location.pathname) {
    say(form, gettext("This proposal is not available. Nothing was ticked."));
    return;
  }
  if (data.ids.length === 0) {
    say(form, data.notice);
    return;
  }
  const ticked = form === null ? 0 : setBoxes(form, data.ids);
  const chosen = !data.action || (ticked > 0 && choose(form, data.action));
  const go = form?.querySelector("button[name=index], input[name=index]");
  say(form, words(data, { ticked, chosen, button: (go?.textContent || go?.value || "").trim() }));
  document.dispatchEvent(new CustomEvent("copilot:list", { detail: { plan, ticked, count: data.count } }));
}
