/** The interface's texts: Django's JSON catalogue, with the English source as the fallback. */

let catalog = {};

/** Translate one text. */
export function gettext(text) {
  const found = Object.hasOwn(catalog, text) ? catalog[text] : "";
  return (Array.isArray(found) ? found[0] : found) || text;
}

/** Put values into the %(name)s places of a text; unknown names stay as they are. */
export function interpolate(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (Object.hasOwn(values, name) ? String(values[name]) : whole));
}

/** Load the catalogue once, as Django's JSONCatalog view answers it; without it the texts stay English. */
export async function loadTexts(url, { fetch = globalThis.fetch } = {}) {
  try {
    const response = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" } });
    if (response.ok) catalog = (await response.json()).catalog ?? {};
  } catch {
    // The panel works without translations too.
  }
}
