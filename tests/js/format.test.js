import assert from "node:assert/strict";
import test from "node:test";

import {
  formatDate,
  formatDateTime,
  formatNumber,
  formatValue,
  showUnseen,
} from "../../django_copilot/static/django_copilot/format.js";

// Languages separate with no-break spaces of two kinds; which one is not our business.
const plain = (text) => text.replace(/[\u00a0\u202f]/g, " ").replace(/\u2212/g, "-");

test("numbers keep every digit and follow the language", () => {
  assert.equal(formatNumber("12345678901234567890.10", { lang: "en" }), "12,345,678,901,234,567,890.10");
  assert.equal(plain(formatNumber("1234567.50", { lang: "pl" })), "1 234 567,50");
  assert.equal(formatNumber("2024", { lang: "en" }), "2024");
  assert.equal(plain(formatNumber("-0.05", { lang: "ru" })), "-0,05");
  assert.equal(formatNumber(12, { lang: "en" }), "12");
  assert.equal(formatNumber(0.1, { lang: "de" }), "0,1");
});

test("what is no plain number stays as it came", () => {
  for (const odd of ["1e21", "NaN", "", "12 000", "--1"]) assert.equal(formatNumber(odd, { lang: "en" }), odd);
  assert.equal(formatNumber("5.5", { lang: "not a language" }), "5.5");
});

test("a day never shifts with the zone, a moment does", () => {
  assert.equal(formatDate("2026-03-01", { lang: "en" }), "Mar 1, 2026");
  assert.equal(formatDate("soon", { lang: "en" }), "soon");
  const winter = "2026-01-15T23:30:00Z";
  assert.equal(plain(formatDateTime(winter, { lang: "en", zone: "Europe/Warsaw" })), "Jan 16, 2026, 12:30 AM");
  assert.equal(plain(formatDateTime(winter, { lang: "pl", zone: "America/New_York" })), "15 sty 2026, 18:30");
  assert.equal(plain(formatDateTime("2026-07-01T10:00:00.123456+02:00", { lang: "pl", zone: "UTC" })), "1 lip 2026, 08:00");
});

test("a moment without an offset is wall-clock time; an unknown zone leaves the text", () => {
  const naive = formatDateTime("2026-01-15T23:30:00", { lang: "pl", zone: "Asia/Tokyo" });
  assert.equal(plain(naive), "15 sty 2026, 23:30");
  assert.equal(formatDateTime("2026-01-15T23:30:00Z", { lang: "en", zone: "Mars/Base" }), "2026-01-15T23:30:00Z");
  assert.equal(formatDateTime("2026-99-99T99:99:00Z", { lang: "en", zone: "UTC" }), "2026-99-99T99:99:00Z");
});

test("each type of column reads as a person expects", () => {
  const place = { lang: "en", zone: "UTC" };
  const cell = (value, type, more = {}) => plain(formatValue(value, { name: "x", type, ...more }, place));
  assert.equal(cell(true, "boolean"), "Yes");
  assert.equal(cell(false, "boolean"), "No");
  assert.equal(cell(null, "boolean"), "\u2013");
  assert.equal(cell(undefined, "text"), "");
  assert.equal(cell("13:05:00", "time"), "1:05 PM");
  assert.equal(cell("13:05:09.5", "time"), "1:05:09 PM");
  assert.equal(cell("draft", "choice", { choices: { draft: "Draft" } }), "Draft");
  assert.equal(cell(1, "choice", { choices: { 1: "One" } }), "One");
  assert.equal(cell("toString", "choice", { choices: {} }), "toString");
  assert.equal(cell({ id: "7", label: "Anna" }, "relation"), "Anna");
  assert.equal(cell({ id: "7" }, "relation"), "#7");
  assert.equal(cell([{ id: "1", label: "a" }, { id: "2" }], "relations"), "a, #2");
  assert.equal(cell([], "relations"), "");
  assert.equal(cell({ a: [1] }, "json"), '{"a":[1]}');
  assert.equal(cell("<b>", "text"), "<b>");
  assert.equal(formatValue("x", undefined, place), "x");
});

test("what can't be seen, or turns the reading round, is shown as its code", () => {
  assert.equal(showUnseen("pay \u202e0001\u202c now"), "pay \u27e8U+202E\u27e90001\u27e8U+202C\u27e9 now");
  for (const code of [0x61c, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x202a, 0x202b, 0x202d, 0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0xfeff]) {
    const shown = `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
    for (const before of ["", "a", "\u0436", "7"]) {
      assert.equal(showUnseen(`${before}${String.fromCodePoint(code)}b`), `${before}${shown}b`);
    }
  }
  assert.equal(showUnseen("Za\u017c\u00f3\u0142\u0107 \u2013 \u05e9\u05dc\u05d5\u05dd\n\u00a0x"), "Za\u017c\u00f3\u0142\u0107 \u2013 \u05e9\u05dc\u05d5\u05dd\n\u00a0x");
});

test("a joiner that a script or an emoji is written with stays", () => {
  for (const word of ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0915\u094d\u200d\u0937", "\u{1f468}\u200d\u{1f469}"]) {
    assert.equal(showUnseen(word), word);
  }
});

test("no cell hides a character, and the marks of a language are its own", () => {
  const mark = "\u27e8U+202E\u27e9";
  for (const type of ["text", "number", "boolean", "date", "datetime", "time", "choice", "relation", undefined]) {
    assert.ok(formatValue("1\u202e2", { type }).includes(`1${mark}2`), String(type));
  }
  assert.equal(formatValue({ id: "1", label: "a\u202e" }, { type: "relation" }), `a${mark}`);
  assert.equal(formatValue([{ id: "1\u202e" }], { type: "relations" }), `#1${mark}`);
  assert.equal(formatValue({ a: "\u202e" }, { type: "json" }), `{"a":"${mark}"}`);
  assert.ok(!formatValue("-5", { type: "number" }, { lang: "he" }).includes("\u27e8"));
  assert.ok(!formatValue("2026-03-01", { type: "date" }, { lang: "ar" }).includes("\u27e8"));
});
