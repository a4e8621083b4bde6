/** Who looks, and what they may: as the service says, where it asks. */
import { signal } from "./ui.mjs";

/** What the service said; null before its first word. */
export const session = signal(null);

/** @returns {boolean} Whether somebody must log in first. */
export const locked = () => !!session.value && session.value.authentication && !session.value.name;

/** The headers that a change carries. */
export const proof = () => (session.value && session.value.csrf ? { "x-atoll-csrf": session.value.csrf } : {});

/** Ask the service who this is. */
export async function recognise() {
  const answer = await fetch("/v1/session", { credentials: "same-origin" });
  if (answer.ok) session.value = await answer.json();
  return session.value;
}

/** The service no longer knows who this is: the session ended. */
export function forget() {
  if (session.value && session.value.authentication && session.value.name) {
    session.value = { authentication: true, name: null, role: null, read_only: true };
  }
}
