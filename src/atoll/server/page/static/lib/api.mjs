/** Requests to the service, and its problems as errors. */
import { forget, proof } from "./session.mjs";
import { useEffect, useState } from "./ui.mjs";

/** An answer that is no success: what was wrong, and what to do. */
export class Problem extends Error {
  /** @param {{detail: string, hint?: string, code?: string, status?: number, context?: object}} told */
  constructor(told) {
    super(told.detail);
    this.hint = told.hint || "";
    this.code = told.code || "";
    this.status = told.status || 0;
    this.context = told.context || {};
  }
}

/** @param {string} module @returns {string} The address of a module. */
export const of = (module) => `/v1/modules/${encodeURIComponent(module)}`;

/** @param {string} path @param {RequestInit} [how] @returns {Promise<any>} The JSON of the answer. */
async function ask(path, how = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...how });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "the service does not answer", hint: "look whether it runs" });
  }
  const text = await answer.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem({ detail: `the answer to ${path} is no JSON`, status: answer.status });
  }
  if (answer.status === 401) forget();
  if (!answer.ok) throw new Problem(data || { detail: answer.statusText, status: answer.status });
  return data;
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => ask(path, { signal });

/** @param {string} path @param {any} [data] What is sent; a text is JSON already. @param {AbortSignal} [signal] */
export const post = (path, data = {}, signal) =>
  ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...proof() },
    body: typeof data === "string" ? data : JSON.stringify(data),
    signal,
  });

/** @param {string} path */
export const remove = (path) => ask(path, { method: "DELETE", headers: proof() });

/**
 * The answer to a question, asked again whenever what it depends on moved on.
 *
 * @param {string | null} path What to get; null for nothing.
 * @param {any} [moved] When this changes it is asked again; the last answer stays meanwhile.
 * @param {any} [data] Given, it is posted.
 * @returns {{data: any, error: Problem | null, again: () => void}}
 */
export function useData(path, moved, data) {
  const [state, set] = useState({ path: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  const sent = data === undefined || typeof data === "string" ? data : JSON.stringify(data);
  const key = `${path} ${sent}`;
  useEffect(() => {
    if (path === null) return undefined;
    const over = new AbortController();
    (sent === undefined ? get(path, over.signal) : post(path, sent, over.signal)).then(
      (found) => set({ key, data: found, error: null }),
      (error) => error.name === "AbortError" || set({ key, data: null, error }),
    );
    return () => over.abort();
  }, [path, sent, moved, turn]);
  const mine = state.key === key ? state : { data: null, error: null };
  return { ...mine, again: () => setTurn(turn + 1) };
}
