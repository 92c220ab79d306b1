/**
 * Mark what was proposed on a filled-in admin form, with the old value beside it and a way back.
 *
 * The server has already put the proposed values into the form: nothing here fills anything in by itself.
 */

import { button, element } from "./dom.js";
import { mainForm } from "./forms.js";
import { inputsOf, readInput, setInput, watchInputs } from "./inputs.js";

const HOLDERS = ".form-row, .form-group, .field-row, .field-line, td";

function readDraft() {
  try {
    return JSON.parse(document.getElementById("copilot-draft")?.textContent ?? "null");
  } catch {
    return null;
  }
}

function wasText(was, old, empty) {
  const value = old === null || old === "" ? empty : old;
  return was.includes("%s") ? was.replace("%s", () => value) : `${was.replace(/:\s*$/, "")}: ${value}`;
}

function holderOf(form, field, inputs) {
  const first = inputs.find((one) => one.type !== "hidden") ?? inputs[0];
  const own = first?.closest(`.field-${CSS.escape(field.name)}`) ?? null;
  return own ?? first?.closest(HOLDERS) ?? first?.parentElement ?? null;
}

function place(mark, holder) {
  // In a row of several fields the field's own box lays its children side by side: the mark goes under it.
  if (holder.matches(".fieldBox")) holder.after(mark);
  else holder.append(mark);
}

// The record's name beside a raw id belongs to the value it was drawn for.
function rawLabels(inputs) {
  return inputs
    .filter((one) => one.classList.contains("vForeignKeyRawIdAdminField"))
    .map((one) => ({ input: one, value: one.value, label: one.parentElement?.querySelector("strong") }))
    .filter(({ label }) => label);
}

function markField(form, field, texts, showOld) {
  const old = field.oldInputs ?? [];
  const names = old.length ? old.map(([name]) => name) : [field.name];
  const found = inputsOf(form, names);
  const inputs = found.length ? found : [document.getElementById(`id_${field.name}`)].filter(Boolean);
  const holder = holderOf(form, field, inputs);
  if (holder === null) return;

  const proposed = names.map((name) => readInput(form, name));
  const raw = rawLabels(inputs);
  const id = `copilot-mark-${field.name}`;
  const badge = element("span", { class: "copilot-mark-badge", text: texts.proposed });
  const text = element("span", { class: "copilot-mark-text", id }, badge);
  // On an add form there is no old value worth a word.
  if (showOld) {
    const was = wasText(texts.was, field.old, texts.empty);
    text.append(" ", element("span", { class: "copilot-mark-old", text: was }));
  }
  let back = true; // what the button would do now
  let ours = false;

  const swap = button(texts.putBack, {
    class: "copilot-mark-button",
    "aria-label": `${texts.putBack}: ${field.label}`,
    on: () => {
      ours = true;
      for (const one of back ? old : proposed) setInput(form, one, { text: back ? field.old : null });
      show(!back, back);
      // Observers of the two boxes report only after this task.
      setTimeout(() => {
        ours = false;
      });
    },
  });
  const mark = element("div", { class: "copilot-mark", role: "group", "aria-label": field.label }, text);
  if (old.length) mark.append(swap);

  function show(isBack, quiet) {
    back = isBack;
    const label = back ? texts.putBack : texts.useProposal;
    swap.textContent = label;
    swap.setAttribute("aria-label", `${label}: ${field.label}`);
    badge.hidden = quiet;
    mark.classList.toggle("copilot-mark-quiet", quiet);
    holder.classList.toggle("copilot-mark-field", !quiet);
    for (const { input, value, label: shown } of raw) shown.hidden = input.value !== value;
  }

  place(mark, holder);
  for (const one of inputs) {
    one.setAttribute("aria-describedby", `${one.getAttribute("aria-describedby") ?? ""} ${id}`.trim());
  }
  show(true, false);
  watchInputs(inputs, () => {
    if (!ours) show(true, true); // her own words now, with the old value still one click away
  });
}

function start() {
  const draft = readDraft();
  const form = mainForm();
  if (draft === null || form === null || document.querySelector(".copilot-mark-banner")) return;
  const banner = element("div", { class: "copilot-mark-banner", role: "status" });
  form.before(banner);
  for (const text of [draft.title, ...(draft.notices ?? [])]) if (text) banner.append(element("p", { text }));
  if (banner.childElementCount === 0) banner.remove();
  for (const field of draft.fields ?? []) {
    if (field.marked) markField(form, field, draft.texts, draft.showOld !== false);
  }
}

// The admin's own scripts rebuild some inputs at load, and their listeners may be registered after ours.
if (document.readyState === "complete") start();
else addEventListener("load", () => setTimeout(start), { once: true });
