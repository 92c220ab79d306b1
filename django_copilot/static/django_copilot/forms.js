/** The page's main form, and whether a person has typed into it. */

// Ticked rows, the chosen action and the token are not typing.
const IGNORED = new Set(["csrfmiddlewaretoken", "_selected_action", "action", "select_across", "index"]);

function plain(value) {
  return typeof value === "string" ? value : `${value?.name ?? ""}:${value?.size ?? 0}`;
}

/** Bring [name, value] pairs into one comparable text; files count by name and size. */
export function snapshot(pairs) {
  return JSON.stringify(
    [...pairs].filter(([name]) => !IGNORED.has(name)).map(([name, value]) => [name, plain(value)]),
  );
}

/** Find the admin form of this page: the one with a token that is no search, log-out or panel form. */
export function mainForm(root = document) {
  let best = null;
  let bestScore = -1;
  for (const form of root.querySelectorAll("form")) {
    if (!form.querySelector("input[name=csrfmiddlewaretoken]")) continue;
    if (form.closest(".copilot, header, nav, [role=search], #logout-form, #changelist-search")) continue;
    if (/\/(logout|setlang)\/?$/.test(form.getAttribute("action") ?? "")) continue;
    let score = Math.min(form.elements.length, 99);
    if (form.closest("#content-main")) score += 400;
    if (form.id.endsWith("_form")) score += 200;
    if (score > bestScore) [best, bestScore] = [form, score];
  }
  return best;
}

function pairsOf(form) {
  const pairs = [...new FormData(form)];
  // A two-box selector selects its options only on submit: its chosen list is what counts.
  for (const box of form.querySelectorAll("select[id$='_to'].filtered")) {
    for (const option of box.options) pairs.push([box.id, option.value]);
  }
  const boxes = new Set([...form.querySelectorAll("select.filtered")].map((box) => box.name));
  return pairs.filter(([name]) => !boxes.has(name));
}

/** Read the main form's state now; null when the page has none. */
export function formState(root = document) {
  const form = mainForm(root);
  return form === null ? null : snapshot(pairsOf(form));
}
