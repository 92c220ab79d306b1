/** Draw messages, result tables, questions and the list of conversations. */

import { safeAddress } from "./address.js";
import { button, element } from "./dom.js";
import { formatDateTime, formatValue, showUnseen } from "./format.js";
import { answerText } from "./state.js";
import { gettext, interpolate } from "./texts.js";

const TIGHT = new Set(["date", "datetime", "time"]);
const SHORT = 24;

function classOf({ type }) {
  if (type === "number") return "copilot-number";
  return TIGHT.has(type) ? "copilot-tight" : null;
}

// What an inline holds of a record: a row in a line.
function innerRows(rows, column, place) {
  const line = (row) =>
    (column.columns ?? []).map((one) => formatValue(row[one.name], one, place)).filter((text) => text !== "").join(", ");
  const items = rows.map((row) => element("li", { text: row.more === true ? "…" : line(row) }));
  return element("ul", { class: "copilot-inner" }, ...items);
}

function headOf(column) {
  const head = element("th", { scope: "col", text: column.label, class: classOf(column) });
  if (column.sent === false) {
    head.append(" ", element("small", { class: "copilot-unsent", text: gettext("not sent to the model") }));
  }
  return head;
}

function askedOf(result) {
  const asked = result.asked ?? [];
  if (asked.length === 0) return null;
  return element("ul", { class: "copilot-asked" }, ...asked.map((text) => element("li", { text: showUnseen(text) })));
}

function cellOf(row, column, at, place) {
  const value = row.values?.[column.name];
  if (column.type === "rows" && Array.isArray(value)) return element("td", {}, innerRows(value, column, place));
  const text = formatValue(value, column, place);
  const address = at === 0 && row.url ? safeAddress(row.url, place) : null;
  const short = address !== null && text.length <= SHORT; // an order's number stays in one line, a title need not
  const kind = classOf(column) ?? (short ? "copilot-tight" : null);
  if (address === null) return element("td", { text, class: kind });
  return element("td", { class: kind }, element("a", { href: address, text: text || showUnseen(`#${row.id}`) }));
}

/** Draw what one read gave as a table; where its rows are records, the first cell links to them. */
export function resultTable(result, place) {
  const label = result.label ?? result.entity ?? "";
  const columns = result.columns?.length ? result.columns : [{ name: "id", label: "ID", type: "text" }];
  const rows = (result.rows ?? []).map((row) => ({ ...row, values: { id: row.id, ...row.values } }));
  if (rows.length === 0) {
    const text = interpolate(gettext("%(label)s: nothing found."), { label });
    return element("div", { class: "copilot-result" }, askedOf(result), element("p", { class: "copilot-nothing", text }));
  }
  const head = columns.map(headOf);
  const table = element(
    "table",
    {},
    element("caption", { text: label }),
    element("thead", {}, element("tr", {}, ...head)),
    element(
      "tbody",
      {},
      ...rows.map((row) => element("tr", {}, ...columns.map((column, at) => cellOf(row, column, at, place)))),
    ),
  );
  const frame = element("div", { class: "copilot-table", role: "region", "aria-label": label, tabindex: "0" }, table);
  const more = result.hasMore ? element("p", { class: "copilot-more", text: gettext("There are more rows.") }) : null;
  return element("div", { class: "copilot-result" }, askedOf(result), frame, more);
}

function optionOf(option) {
  if (option !== null && typeof option === "object") {
    return { value: String(option.value ?? option.label), label: String(option.label ?? option.value) };
  }
  return { value: String(option), label: String(option) };
}

/** Draw a question as real controls; `onAnswer` gets the text of the answer. */
export function questionForm(question, onAnswer) {
  const choices = (question.options ?? []).map(optionOf);
  const kind = choices.length === 0 ? "text" : question.kind;
  const name = `copilot-question-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
  const field = element("fieldset", { class: "copilot-question" }, element("legend", { text: showUnseen(question.text) }));
  if (kind === "text") {
    field.append(element("input", { type: "text", name, "aria-label": question.text, autocomplete: "off" }));
  } else {
    const type = kind === "multiple" ? "checkbox" : "radio";
    for (const { value, label } of choices) {
      field.append(element("label", {}, element("input", { type, name, value }), element("span", { text: showUnseen(label) })));
    }
  }
  field.append(element("button", { type: "submit", class: "copilot-button", text: gettext("Answer") }));
  const submit = (event) => {
    event.preventDefault();
    const text = answerText(new FormData(form).getAll(name).map(String));
    if (text) onAnswer(text);
    else field.querySelector("input")?.focus();
  };
  const form = element("form", { on: { submit } }, field);
  return form;
}

function droppedNote(dropped) {
  if (!dropped?.length) return null;
  const text = interpolate(gettext("Not filled in: %(names)s."), { names: dropped.join(", ") });
  return element("p", { class: "copilot-note", text });
}

// How much of what was read left for the model, with the list of it behind.
function sentNote(sent) {
  const reads = sent?.reads ?? [];
  if (reads.length === 0) return null;
  const items = reads.map(({ label, rows, fields }) => {
    const text = interpolate(gettext("%(label)s, rows: %(rows)s."), { label, rows });
    return element("li", { text: `${text} ${fields.join(", ")}` });
  });
  const summary = element("summary", { text: sent.text });
  return element("details", { class: "copilot-sent" }, summary, element("ul", {}, ...items));
}

// What was looked up on the way to a page or a question is no answer of its own.
function resultsOf(message, place) {
  const onTheWay = Boolean(message.action || message.proposed || message.plan || message.question);
  const results = message.results ?? [];
  const found = onTheWay ? results.filter(({ rows }) => rows?.length) : results;
  const tables = found.map((result) => resultTable(result, place));
  if (!onTheWay || tables.length === 0) return tables;
  return [element("details", {}, element("summary", { text: gettext("What was looked up") }), ...tables)];
}

let cards = null; // the module that draws plans, once there is one to draw

/** Wait until what an answer or a conversation holds can be drawn. */
export async function ready(asked) {
  const answer = await asked;
  const messages = answer.data?.messages ?? [answer.data];
  if (messages.some((one) => one?.plan)) cards ??= await import("./card.js");
  return answer;
}

/** Draw one message. */
export function messageNode(message, { place, client, onAnswer, onGo, onPlan }) {
  const mine = message.role === "user";
  const author = mine ? gettext("You") : gettext("Assistant");
  const node = element(
    "article",
    { class: `copilot-message copilot-message-${mine ? "user" : "assistant"}` },
    element("span", { class: "copilot-hidden", text: `${author}: ` }),
  );
  if (message.withheld) {
    const text = message.text || gettext("This message is hidden, because your rights have changed since.");
    node.append(element("p", { class: "copilot-text copilot-note", text }));
    if (message.plan) node.append(cards.planCard(message.plan, { place, client, onChange: onPlan }).node);
    return node;
  }
  const asked = message.question?.text;
  if (message.text && message.text !== asked) {
    node.append(element("p", { class: "copilot-text", text: showUnseen(message.text) }));
  }
  node.append(...resultsOf(message, place));
  const sent = sentNote(message.sent);
  if (sent) node.append(sent);
  const dropped = droppedNote(message.dropped);
  if (dropped) node.append(dropped);
  if (message.action) {
    const go = button(gettext("Open the page"), { on: () => onGo(message.action), class: "copilot-button" });
    node.append(go);
  }
  if (message.plan) node.append(cards.planCard(message.plan, { place, client, onChange: onPlan }).node);
  if (message.question) node.append(questionForm(message.question, onAnswer));
  return node;
}

function sameMessage(a, b) {
  return a.role === b.role && a.text === b.text && a.results === b.results && a.action === b.action;
}

/**
 * Bring the log up to date with the messages.
 *
 * Nodes of unchanged messages stay, so that a screen reader hears only what is new.
 */
export function drawMessages(log, messages, options) {
  const shown = (log.copilotShown ??= []);
  let keep = 0;
  while (keep < shown.length && keep < messages.length && sameMessage(shown[keep].message, messages[keep])) keep += 1;
  for (const { node } of shown.splice(keep)) node.remove();
  for (const message of messages.slice(keep)) {
    const node = messageNode(message, options);
    shown.push({ message, node });
    log.append(node);
  }
  messages.forEach((message, at) => {
    const { node } = shown[at];
    node.classList.toggle("copilot-message-failed", Boolean(message.failed));
    const open = options.canAnswer && at === messages.length - 1;
    for (const field of node.querySelectorAll(".copilot-question")) field.disabled = !open;
  });
  return keep < messages.length;
}

/** Draw the person's own conversations. */
export function conversationList(state, { place, onOpen, onRemove }) {
  if (state.conversations === null) return element("p", { class: "copilot-note", text: gettext("Loading…") });
  if (state.conversations.length === 0) {
    return element("p", { class: "copilot-note", text: gettext("No conversations yet.") });
  }
  const rows = state.conversations.map((one) => {
    const title = showUnseen(one.title || gettext("Untitled conversation"));
    const current = one.conversationId === state.conversationId ? "true" : null;
    const open = element(
      "button",
      { type: "button", class: "copilot-open", "aria-current": current, on: { click: () => onOpen(one) } },
      element("span", { text: title }),
      element("small", { text: one.updatedAt ? formatDateTime(one.updatedAt, place) : "" }),
    );
    const label = interpolate(gettext("Delete “%(title)s”"), { title });
    return element("li", {}, open, button(label, { icon: "remove", on: () => onRemove(one), class: "copilot-plain" }));
  });
  return element("ul", { class: "copilot-list" }, ...rows);
}
