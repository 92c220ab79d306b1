/** What this tab remembers between pages: open or not, which conversation, words not sent yet. */

/** Make the memory of one admin site; storage that is blocked or broken counts as empty. */
export function makeMemory(site, storage) {
  const key = `copilot:${site}`;
  const read = () => {
    try {
      const found = JSON.parse(storage().getItem(key) ?? "{}");
      return found !== null && typeof found === "object" ? found : {};
    } catch {
      return {};
    }
  };
  return {
    read,
    write(changes) {
      try {
        storage().setItem(key, JSON.stringify({ ...read(), ...changes }));
      } catch {
        // Remembering is a comfort, not a need.
      }
    },
    forget() {
      try {
        storage().removeItem(key);
      } catch {
        // Nothing was kept, then.
      }
    },
  };
}
