/** What may be read from, and gone to by, the address bar. Pure: no document, no window. */

const FRAGMENT = /^copilot-plan=[0-9a-f-]{36}$/;
const OURS = new Set(["aiAction", "aiId", "aiPlan", "aiPrefill", "aiPreview"]);

function nameOf(pair) {
  const name = pair.split("=", 1)[0].replace(/\+/g, " ");
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Take the assistant's parameters out of a query string; the others keep their exact spelling. */
export function cleanSearch(search) {
  const pairs = search.replace(/^\?/, "").split("&");
  const kept = pairs.filter((pair) => pair !== "" && !OURS.has(nameOf(pair)));
  return kept.length ? "?" + kept.join("&") : "";
}

/**
 * Check an address from the server against the site's root.
 *
 * Gives the address as path and query, or null for another origin, another scheme, or a path outside the root.
 */
export function safeAddress(path, { root, origin }) {
  if (typeof path !== "string" || !path.startsWith("/") || /^\/[/\\]/.test(path)) return null;
  // Browsers drop control characters and read a backslash as a slash: neither belongs in our addresses.
  // eslint-disable-next-line no-control-regex
  if (/[\u0000-\u0020\u007f\\]/.test(path)) return null;
  let url;
  try {
    url = new URL(path, origin);
  } catch {
    return null;
  }
  const base = root.endsWith("/") ? root : root + "/";
  if (url.origin !== origin || !url.pathname.startsWith(base)) return null;
  return url.pathname + url.search + url.hash;
}

/** Build the address of a browser action, or null when it may not be gone to. */
export function actionAddress(action, { root, origin }) {
  const path = safeAddress(action?.path, { root, origin });
  if (path === null) return null;
  const url = new URL(path, origin);
  for (const [name, value] of Object.entries(action.queryParams ?? {})) {
    if (value === null || value === undefined) continue;
    url.searchParams.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  const fragment = FRAGMENT.test(action.fragment ?? "") ? `#${action.fragment}` : "";
  return url.pathname + url.search + fragment;
}
