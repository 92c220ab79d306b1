import assert from "node:assert/strict";
import test from "node:test";

import {
  formatDate,
  formatDateTime,
  formatNumber,
  formatValue,
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
