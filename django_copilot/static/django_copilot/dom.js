/** Build elements. Text goes in as text only: nothing here ever parses markup. */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element; `text` becomes its text, `on` its listeners, null and false attributes are left out. */
export function element(tag, { text = null, on = {}, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  if (text !== null) node.textContent = text;
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const ICONS = {
  fresh: "M12 5v14M5 12h14",
  list: "M5 7h14M5 12h14M5 17h9",
  check: "M5 13l4 4L19 7",
  close: "M6 6l12 12M18 6L6 18",
  remove: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  send: "M12 19V6M6 11l6-6 6 6",
};

/** Draw one of the panel's icons; it says nothing to a screen reader. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" })) {
    svg.setAttribute(key, value);
  }
  svg.setAttribute("class", "copilot-icon");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** Make a button; with an icon its label is read out and shown as a hint. */
export function button(label, { icon: name = null, on, ...attributes } = {}) {
  if (name === null) return element("button", { type: "button", text: label, on: { click: on }, ...attributes });
  const named = { "aria-label": label, title: label, ...attributes };
  return element("button", { type: "button", on: { click: on }, ...named }, icon(name));
}

/**
 * Ask with a small dialog of our own; resolves to true for the first answer.
 *
 * The focus goes back to where it was.
 */
export function ask(host, { text, yes, no }) {
  return new Promise((resolve) => {
    const dialog = element("dialog", { class: "copilot-dialog", "aria-labelledby": "copilot-dialog-text" });
    const answer = (value) => () => dialog.close(value);
    dialog.append(
      element("p", { id: "copilot-dialog-text", text }),
      element(
        "div",
        { class: "copilot-buttons" },
        button(no, { on: answer("no"), class: "copilot-button", autofocus: true }),
        button(yes, { on: answer("yes"), class: "copilot-button copilot-button-main" }),
      ),
    );
    dialog.addEventListener("keydown", (event) => event.stopPropagation());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    host.append(dialog);
    dialog.showModal();
  });
}
