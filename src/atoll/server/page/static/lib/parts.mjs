/** Small things that several pages draw. */
import { html, useState } from "./ui.mjs";
import { readOnly } from "./ask.mjs";

const LOOK = { running: "good", paused: "idle", stopped: "bad", failed: "bad", fenced: "bad", retrying: "warn" };

/** @param {{state: string}} props */
export const State = ({ state }) => html`<span class=${`state ${LOOK[state] || "idle"}`}>${state}</span>`;

/** @param {{error: import("./api.mjs").Problem | null}} props */
export const Failed = ({ error }) =>
  error &&
  html`<p class="note bad" role="alert">
    <span>${error.message} ${error.code && html`<code>${error.code}</code>`}
      ${error.hint && html`<br /><small>${error.hint}</small>`}</span>
  </p>`;

/** A button of a change; absent while the page only reads. */
export const Change = ({ children, ...rest }) =>
  readOnly.value ? null : html`<button ...${rest}>${children}</button>`;

/** Names and values. @param {{of: [string, any][]}} props */
export const Facts = ({ of }) => html`<dl class="facts">
  ${of
    .filter(([, value]) => value != null && value !== "")
    .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
</dl>`;

/** A line of what was, drawn small. @param {{values: number[], label: string}} props */
export function Spark({ values, label }) {
  const most = Math.max(...values, 1e-9);
  const step = 100 / Math.max(values.length - 1, 1);
  const points = values.map((each, at) => `${(at * step).toFixed(1)},${(22 - (20 * each) / most).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} />
  </svg>`;
}

/** A share of a whole, as a bar behind a number. @param {{share: number, children: any}} props */
export const Share = ({ share, children }) => html`<span class="share">
  <i style=${{ width: `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%` }}></i><b>${children}</b>
</span>`;

/** A text to copy. @param {{text: string, label: string}} props */
export function Copy({ text, label }) {
  const [done, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<button class="plain" onClick=${copy} title=${text}>${done ? "copied" : label}</button>`;
}

/** One of several views. @param {{choices: [string, string][], value: string, set: (v: string) => void, label: string}} props */
export const Choice = ({ choices, value, set, label }) => html`<span class="choice" role="group" aria-label=${label}>
  ${choices.map(
    ([key, text]) => html`<button key=${key} aria-pressed=${key === value} onClick=${() => set(key)}>${text}</button>`,
  )}
</span>`;
