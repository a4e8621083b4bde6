/** Questions before changes, and what became of them. */
import { session } from "./session.mjs";
import { computed, html, signal, useEffect, useRef } from "./ui.mjs";

const asked = signal(null);
const told = signal([]);
let next = 0;

/** Whether the user of this browser chose to change nothing. */
export const cautious = signal(localStorage.getItem("atoll.read-only") === "yes");
/** Whether the page offers no change: as its user chose, or as the service says. */
export const readOnly = computed(() => cautious.value || !!(session.value && session.value.read_only));

/** @param {boolean} yes */
export function setReadOnly(yes) {
  localStorage.setItem("atoll.read-only", yes ? "yes" : "no");
  cautious.value = yes;
}

/**
 * Ask before a change.
 *
 * @param {{title: string, verb: string, danger?: boolean, body?: any}} question The body is drawn.
 * @returns {Promise<boolean>}
 */
export function ask(question) {
  return new Promise((answer) => {
    asked.value = { ...question, answer };
  });
}

/** @param {string} text @param {"good" | "bad"} [kind] @param {string} [hint] */
export function say(text, kind = "good", hint = "") {
  const id = (next += 1);
  told.value = [...told.value, { id, text, kind, hint }];
  if (kind === "good") setTimeout(() => forget(id), 6000);
}

function forget(id) {
  told.value = told.value.filter((each) => each.id !== id);
}

/** Do it, and say how it went. @param {string} done @param {() => Promise<any>} change */
export async function attempt(done, change) {
  try {
    const found = await change();
    say(done);
    return found;
  } catch (error) {
    say(error.message, "bad", error.hint);
    return null;
  }
}

/** The question that is open, and what was said. */
export function Asked() {
  return html`
    ${asked.value && html`<${Question} key=${asked.value.title} ...${asked.value} />`}
    <div class="told" role="status" aria-live="polite">
      ${told.value.map(
        (each) => html`<p key=${each.id} class=${`note ${each.kind}`}>
          <span>${each.text}${each.hint && html`<br /><small>${each.hint}</small>`}</span>
          <button class="plain" aria-label="Close" onClick=${() => forget(each.id)}>×</button>
        </p>`,
      )}
    </div>
  `;
}

function Question({ title, verb, danger, body, answer }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const end = (yes) => {
    asked.value = null;
    answer(yes);
  };
  return html`<dialog ref=${dialog} aria-label=${title} onCancel=${() => end(false)}>
    <h2>${title}</h2>
    <div class="body">${body}</div>
    <div class="row end">
      <button onClick=${() => end(false)}>Cancel</button>
      <button class=${danger ? "danger" : "main"} onClick=${() => end(true)}>${verb}</button>
    </div>
  </dialog>`;
}
