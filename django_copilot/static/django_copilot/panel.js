/**
 * Boot on an admin page: clean the address bar, put up the button, open the panel when asked.
 *
 * Everything else is loaded when the panel is first opened.
 */

import { cleanSearch } from "./address.js";
import { formState } from "./forms.js";
import { makeMemory } from "./memory.js";

// As in the styles: the panel is the whole screen, lies over the page, or has room made for it.
const NARROW = "(max-width: 640px)";
const WIDE = "(min-width: 1440px)";
const COUNT_MS = 60_000;

/** Find the plan that says what is to be ticked on a list of the admin, and take it out of the address bar. */
function planOfList() {
  const plan = /^#copilot-plan=([0-9a-f-]{36})$/.exec(location.hash)?.[1] ?? null;
  if (plan !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return plan;
}

/**
 * Take the assistant's parameters out of the address bar; give the address to load instead, or null.
 *
 * A page that is loaded again, or come back to, has lost them and with them the proposal: the browser would put what
 * was typed into a form that knows of none, and it could be saved a second time. So they are kept beside the address.
 */
function whatItBrought() {
  const { pathname, search, hash } = location;
  const clean = cleanSearch(search);
  if (clean !== search) {
    history.replaceState({ ...history.state, copilot: { pathname, search } }, "", pathname + clean + hash);
    return null;
  }
  const kept = history.state?.copilot;
  return kept?.pathname === pathname && kept.search ? pathname + kept.search + hash : null;
}

function start(script) {
  const config = { ...script.dataset };
  const memory = makeMemory(config.site, () => sessionStorage);
  let panel = null;
  let loading = null;
  let atLoad = null;

  const ofList = planOfList();
  const proposes =
    ofList !== null ||
    cleanSearch(location.search) !== location.search ||
    document.getElementById("copilot-draft") !== null;
  const brought = whatItBrought();
  if (brought !== null) {
    location.replace(brought);
    return;
  }

  const toggle = document.createElement("button");
  toggle.type = "button";
  toggle.className = "copilot-toggle";
  toggle.textContent = "Copilot";
  toggle.setAttribute("aria-expanded", "false");
  toggle.setAttribute("aria-controls", "copilot-panel");
  const badge = document.createElement("span");
  badge.className = "copilot-badge";
  badge.hidden = true;
  toggle.append(" ", badge);
  const host = document.createElement("div");
  host.className = "copilot copilot-root";
  host.append(toggle);
  document.body.append(host);

  const isOpen = () => toggle.getAttribute("aria-expanded") === "true";

  function close() {
    toggle.setAttribute("aria-expanded", "false");
    document.body.classList.remove("copilot-pushed");
    panel?.hide();
    memory.write({ open: false });
    toggle.focus();
    document.dispatchEvent(new CustomEvent("copilot:close"));
  }

  /** Show how many plans wait for this person; the server is asked once a minute, or `now`. */
  async function count(now = false) {
    if (!config.inbox) return;
    let { inbox } = memory.read();
    if (now || !(Math.abs(Date.now() - inbox?.at) < COUNT_MS)) {
      inbox = { at: Date.now(), waiting: 0 };
      try {
        const options = { headers: { Accept: "application/json" }, redirect: "manual" };
        const { waiting, text } = await (await fetch(config.inbox, options)).json();
        if (Number.isInteger(waiting)) Object.assign(inbox, { waiting, text });
      } catch {
        // It is a hint: the page of what waits says it in any case.
      }
      memory.write({ inbox });
    }
    badge.textContent = inbox.waiting;
    badge.hidden = !inbox.waiting;
    toggle.title = (inbox.waiting && inbox.text) || "";
    panel?.wait(inbox.waiting);
  }

  async function open({ focus }) {
    toggle.setAttribute("aria-expanded", "true");
    loading ??= import("./chat.js").then(({ makePanel }) =>
      makePanel({ host, config, memory, baseline: () => atLoad, onClose: close, onDecided: () => count(true) }),
    );
    try {
      panel = await loading;
    } catch (error) {
      loading = null; // the next click tries again
      toggle.setAttribute("aria-expanded", "false");
      throw error;
    }
    if (!isOpen()) {
      panel.hide();
      return;
    }
    document.body.classList.add("copilot-pushed");
    memory.write({ open: true });
    panel.wait(memory.read().inbox?.waiting);
    panel.show({ focus });
    document.dispatchEvent(new CustomEvent("copilot:open"));
  }

  const tick = async (plan) => plan && (await import("./list.js")).tickRows(plan, config);
  addEventListener("hashchange", () => tick(planOfList())); // the same list, asked for again

  toggle.addEventListener("click", () => (isOpen() ? close() : open({ focus: true })));

  // The admin's own scripts rebuild some inputs at load: only then is the form as the person first sees it.
  const settled = () =>
    setTimeout(() => {
      atLoad = formState();
      // A form that came back with errors holds typing that was never saved.
      if (atLoad !== null && document.querySelector(".errornote, .errorlist")) atLoad = "";
      // Registered last, so that a theme's own use of the key comes first.
      addEventListener("keydown", (event) => {
        const wanted = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "k";
        if (!wanted || event.defaultPrevented) return;
        event.preventDefault();
        if (isOpen()) close();
        else open({ focus: true });
      });
      count();
      tick(ofList);
    });
  if (document.readyState === "complete") settled();
  else addEventListener("load", settled, { once: true });

  // The next person at this computer starts with nothing of ours.
  document.addEventListener("submit", (event) => {
    if (/\/logout\/?$/.test(event.target.getAttribute("action") ?? "")) memory.forget();
  });

  // Without room for both the panel would cover the form it has just filled in.
  const fits = matchMedia(WIDE).matches || !(proposes || matchMedia(NARROW).matches);
  if (memory.read().open && fits) open({ focus: false });
}

const script = document.querySelector("script[data-copilot]");
if (script !== null && document.querySelector(".copilot-root") === null) start(script);
