/** Turn a value of a result row into the text a person reads. Digits are never put through a float. */

import { gettext } from "./texts.js";

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/;
const TIME = /^(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?$/;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d/;
const OFFSET = /(Z|[+-]\d\d:?\d\d)$/;
// The two joiners belong to the spelling of many scripts and of emoji; after anything else they only hide.
const UNSEEN =
  /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]|(?<![^\p{ASCII}\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}])[\u200c\u200d]/gu;

/** Write invisible characters, and those that turn the direction of reading, as their codes. */
export function showUnseen(text) {
  return String(text).replace(UNSEEN, (one) => `\u27e8U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
}

function parts(lang, options) {
  try {
    return new Intl.NumberFormat(lang, options);
  } catch {
    return new Intl.NumberFormat("en", options);
  }
}

/** Write a number given as text or number the language's way, keeping every digit. */
export function formatNumber(value, { lang = "en" } = {}) {
  const match = DECIMAL.exec(String(value));
  if (match === null) return String(value);
  const [, sign, whole, fraction] = match;
  const format = parts(lang, { useGrouping: "min2" });
  let text = format.format(BigInt(whole));
  if (fraction !== undefined) {
    const comma = format.formatToParts(1.5).find((part) => part.type === "decimal")?.value ?? ".";
    const plain = parts(lang, { useGrouping: false });
    text += comma + [...fraction].map((digit) => plain.format(Number(digit))).join("");
  }
  const minus = sign && (format.formatToParts(-1).find((part) => part.type === "minusSign")?.value ?? "-");
  return minus + text;
}

function formatMoment(date, options, lang, fallback) {
  if (Number.isNaN(date.getTime())) return fallback;
  try {
    return new Intl.DateTimeFormat(lang, options).format(date);
  } catch {
    return fallback; // an unknown language or zone: the plain text is still right
  }
}

/** Write a date; a day has no time zone and never shifts. */
export function formatDate(value, { lang = "en" } = {}) {
  const match = DATE.exec(value);
  if (match === null) return String(value);
  const day = new Date(`${value}T00:00:00Z`);
  return formatMoment(day, { dateStyle: "medium", timeZone: "UTC" }, lang, String(value));
}

/** Write a date and time in the given zone; one without an offset is wall-clock time and stays as it is. */
export function formatDateTime(value, { lang = "en", zone = "UTC" } = {}) {
  const text = String(value);
  if (!MOMENT.test(text)) return text;
  const aware = OFFSET.test(text);
  const options = { dateStyle: "medium", timeStyle: "short", timeZone: aware ? zone : "UTC" };
  return formatMoment(new Date(aware ? text : `${text}Z`), options, lang, text);
}

function formatTime(value, { lang = "en" } = {}) {
  const match = TIME.exec(value);
  if (match === null) return String(value);
  const [, hours, minutes, seconds = "00"] = match;
  const style = seconds === "00" ? "short" : "medium";
  const moment = new Date(`1970-01-01T${hours}:${minutes}:${seconds}Z`);
  return formatMoment(moment, { timeStyle: style, timeZone: "UTC" }, lang, String(value));
}

function formatRelation(value) {
  return showUnseen(value?.label || `#${value?.id ?? value}`);
}

/** Write one cell. Nothing there gives an empty text; a value that is null gives a dash. */
export function formatValue(value, column, { lang = "en", zone = "UTC" } = {}) {
  if (value === undefined) return "";
  if (value === null) return "\u2013";
  if (typeof value === "string") value = showUnseen(value); // before the language adds marks of its own
  switch (column?.type) {
    case "number":
      return formatNumber(value, { lang });
    case "boolean":
      return value === true ? gettext("Yes") : value === false ? gettext("No") : String(value);
    case "date":
      return formatDate(value, { lang });
    case "datetime":
      return formatDateTime(value, { lang, zone });
    case "time":
      return formatTime(value, { lang });
    case "choice":
      return Object.hasOwn(column.choices ?? {}, String(value)) ? String(column.choices[value]) : String(value);
    case "relation":
      return formatRelation(value);
    case "relations":
      return Array.isArray(value) ? value.map(formatRelation).join(", ") : formatRelation(value);
    default:
      return typeof value === "object" ? showUnseen(JSON.stringify(value)) : String(value);
  }
}
