import assert from "node:assert/strict";
import test from "node:test";

import {
  actionAddress,
  cleanSearch,
  safeAddress,
} from "../../django_copilot/static/django_copilot/address.js";

const place = { root: "/admin/", origin: "https://shop.test" };

test("cleanSearch drops only the assistant's parameters and keeps the spelling of the others", () => {
  assert.equal(cleanSearch("?aiAction=edit&aiPlan=7&_changelist_filters=q%3Da%20b"), "?_changelist_filters=q%3Da%20b");
  assert.equal(cleanSearch("?a=1+2&aiPrefill=%7B%7D&b&aiId=3&aiPreview=x"), "?a=1+2&b");
  assert.equal(cleanSearch("?aiAction=create"), "");
  assert.equal(cleanSearch(""), "");
  assert.equal(cleanSearch("?%61iPlan=7&x=%E0%A4%A"), "?x=%E0%A4%A");
  assert.equal(cleanSearch("?aiActions=1&AIPLAN=2"), "?aiActions=1&AIPLAN=2");
});

test("safeAddress lets only paths under the site's root through", () => {
  assert.equal(safeAddress("/admin/store/order/1/change/", place), "/admin/store/order/1/change/");
  assert.equal(safeAddress("/admin/store/order/?q=a%20b#x", place), "/admin/store/order/?q=a%20b#x");
  for (const bad of [
    "//evil.test/admin/",
    "/\\evil.test/admin/",
    "\\\\evil.test/admin/",
    "https://evil.test/admin/",
    "https://shop.test/admin/",
    "javascript:alert(1)",
    "/administrators/",
    "/admin",
    "/admin/../logout/",
    "/admin/%2e%2e/logout/",
    "/\t/evil.test/admin/",
    "/admin/\nx",
    "/admin/a\\..\\..\\x",
    "admin/store/",
    "",
    null,
    7,
    { toString: () => "/admin/" },
  ]) {
    assert.equal(safeAddress(bad, place), null, String(bad));
  }
});

test("safeAddress reads a root without its last slash as a folder", () => {
  assert.equal(safeAddress("/adminx/", { ...place, root: "/admin" }), null);
  assert.equal(safeAddress("/admin/x/", { ...place, root: "/admin" }), "/admin/x/");
});

test("actionAddress adds the parameters and refuses what safeAddress refuses", () => {
  const action = { path: "/admin/store/product/add/", queryParams: { aiAction: "create", aiPlan: "a&b", empty: null } };
  assert.equal(actionAddress(action, place), "/admin/store/product/add/?aiAction=create&aiPlan=a%26b");
  assert.equal(actionAddress({ path: "/admin/x/", queryParams: { aiPrefill: { a: 1 } } }, place), "/admin/x/?aiPrefill=%7B%22a%22%3A1%7D");
  assert.equal(actionAddress({ path: "/admin/x/" }, place), "/admin/x/");
  assert.equal(actionAddress({ path: "//evil.test/" }, place), null);
  assert.equal(actionAddress(undefined, place), null);
});
