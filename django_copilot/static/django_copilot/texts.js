/** The interface's texts: Django's JSON catalogue, with the English source as the fallback. */

import { compilePlural } from "./plural.js";

const english = (n) => (n === 1 ? 0 : 1);

/** Build the look-ups for one catalogue, as Django's JSONCatalog view answers it. */
export function makeCatalog(data) {
  const catalog = data?.catalog ?? {};
  let plural = english;
  if (data?.plural) {
    try {
      plural = compilePlural(data.plural);
    } catch {
      plural = english; // a broken header must not take the panel away
    }
  }
  const find = (text) => (Object.hasOwn(catalog, text) ? catalog[text] : undefined);
  return {
    gettext(text) {
      const found = find(text);
      const value = Array.isArray(found) ? found[0] : found;
      return value || text;
    },
    ngettext(one, many, count) {
      const found = find(one);
      const value = Array.isArray(found) ? found[Number(plural(count))] : undefined;
      return value || (english(count) === 0 ? one : many);
    },
  };
}

let current = makeCatalog(null);

/** Translate one text. */
export function gettext(text) {
  return current.gettext(text);
}

/** Translate a text that depends on a count. */
export function ngettext(one, many, count) {
  return current.ngettext(one, many, count);
}

/** Put values into the %(name)s places of a text; unknown names stay as they are. */
export function interpolate(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
}

/** Load the catalogue once; without it the texts stay English. */
export async function loadTexts(url, { fetch = globalThis.fetch } = {}) {
  try {
    const response = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (response.ok) current = makeCatalog(await response.json());
  } catch {
    // The panel works without translations too.
  }
}
