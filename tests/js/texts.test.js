import assert from "node:assert/strict";
import test from "node:test";

import { gettext, interpolate, loadTexts } from "../../django_copilot/static/django_copilot/texts.js";

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
  const catalog = { Empty: "", "%s row": ["%s wiersz", "%s wiersze"] };
  await loadTexts("/x/", { fetch: async () => Response.json({ catalog }) });
  assert.equal(gettext("Empty"), "Empty");
  assert.equal(gettext("%s row"), "%s wiersz");
  assert.equal(gettext("toString"), "toString");
});
