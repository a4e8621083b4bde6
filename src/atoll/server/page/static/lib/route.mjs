/** Addresses within the page: `#/module/topology/mb?by=time`, so that each view has a link. */
import { signal } from "./ui.mjs";

/** @typedef {{parts: string[], query: URLSearchParams, text: string}} Route */

/** @returns {Route} */
function read() {
  const text = location.hash.replace(/^#\/?/, "");
  const [path, query = ""] = text.split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts, query: new URLSearchParams(query), text };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(read());
addEventListener("hashchange", () => {
  route.value = read();
});

/**
 * @param {(string | number)[]} parts
 * @param {Record<string, any>} [query] Members that are empty are left out.
 */
export function link(parts, query = {}) {
  const given = Object.entries(query).filter(([, each]) => each != null && each !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Go there; with `quietly` the place before is not one to come back to. */
export function go(parts, query, quietly = false) {
  const to = link(parts, query);
  if (!quietly) location.hash = to;
  else {
    history.replaceState(null, "", to);
    route.value = read();
  }
}
