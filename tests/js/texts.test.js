import assert from "node:assert/strict";
import test from "node:test";

import { compilePlural } from "../../django_copilot/static/django_copilot/plural.js";
import {
  gettext,
  interpolate,
  loadTexts,
  makeCatalog,
} from "../../django_copilot/static/django_copilot/texts.js";

const POLISH =
  "(n==1 ? 0 : (n%10>=2 && n%10<=4) && (n%100<12 || n%100>14) ? 1 : n!=1 && (n%10>=0 && n%10<=1) || " +
  "(n%10>=5 && n%10<=9) || (n%100>=12 && n%100<=14) ? 2 : 3)";

test("compilePlural follows the plural rules of real languages", () => {
  const english = compilePlural("(n != 1)");
  assert.deepEqual([0, 1, 2].map(english), [1, 0, 1]);
  const polish = compilePlural(POLISH);
  assert.deepEqual([1, 2, 4, 5, 11, 12, 14, 21, 22, 25, 112, 122].map(polish), [0, 1, 1, 2, 2, 2, 2, 2, 1, 2, 2, 1]);
  const russian = compilePlural("n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2");
  assert.deepEqual([1, 2, 5, 11, 21, 22, 111].map(russian), [0, 1, 2, 2, 0, 1, 2]);
  assert.equal(compilePlural("0")(9), 0);
  assert.equal(compilePlural("!(n - 2 * 3)")(6), 1);
});

test("compilePlural refuses everything that is no plural expression", () => {
  for (const bad of ["", "alert(1)", "n; n", "n ? 1", "(n", "n n", "n =1", "n.constructor", "toString", "n ==", "?"]) {
    assert.throws(() => compilePlural(bad), SyntaxError, bad);
  }
});

test("a catalogue translates, counts, and falls back to the source", () => {
  const catalog = makeCatalog({
    catalog: { Send: "Wyślij", Empty: "", "%s row": ["%s wiersz", "%s wiersze", "%s wierszy", "%s wiersza"] },
    plural: POLISH,
  });
  assert.equal(catalog.gettext("Send"), "Wyślij");
  assert.equal(catalog.gettext("Empty"), "Empty");
  assert.equal(catalog.gettext("toString"), "toString");
  assert.equal(catalog.ngettext("%s row", "%s rows", 3), "%s wiersze");
  assert.equal(catalog.ngettext("%s row", "%s rows", 5), "%s wierszy");
  assert.equal(catalog.ngettext("%s cell", "%s cells", 5), "%s cells");
  assert.equal(catalog.ngettext("%s cell", "%s cells", 1), "%s cell");
});

test("a broken plural header leaves the texts usable", () => {
  const catalog = makeCatalog({ catalog: { a: ["x", "y"] }, plural: "process.exit()" });
  assert.equal(catalog.ngettext("a", "b", 2), "y");
});

test("interpolate puts values in once and leaves unknown names", () => {
  assert.equal(interpolate("%(a)s and %(b)s, %(c)s", { a: "%(b)s", b: "$&" }), "%(b)s and $&, %(c)s");
});

test("loadTexts survives a server without a catalogue", async () => {
  await loadTexts("/x/", { fetch: async () => Promise.reject(new TypeError("down")) });
  assert.equal(gettext("Send"), "Send");
  await loadTexts("/x/", { fetch: async () => new Response("<html>", { status: 200 }) });
  assert.equal(gettext("Send"), "Send");
  await loadTexts("/x/", { fetch: async () => Response.json({ catalog: { Send: "Wyślij" } }) });
  assert.equal(gettext("Send"), "Wyślij");
});
