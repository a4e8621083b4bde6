/** Fields of a form made from types, and their texts as JSON. */
import { Problem } from "./api.mjs";
import { html } from "./ui.mjs";

const WHOLE = /^(tinyint|byte|smallint|short|int|integer|bigint|long)\b/i;
const REAL = /^(float|real|double)\b/i;
const TEXT = /^(string|str|varchar|char|date|timestamp|datetime|timestamp_ntz|decimal|binary|bytes|uuid)\b/i;

/** @param {string} type A type of Spark's DDL or of a schema. @returns {"whole" | "real" | "bool" | "text" | "json"} */
export function kindOf(type) {
  if (WHOLE.test(type)) return "whole";
  if (REAL.test(type)) return "real";
  if (/^bool/i.test(type)) return "bool";
  return TEXT.test(type) ? "text" : "json";
}

const HINTS = { whole: "a whole number", real: "a number", json: "JSON", text: "" };

/** @param {{name: string, type: string, nullable?: boolean}} props */
export function Field({ name, type, nullable = true }) {
  const kind = kindOf(type);
  const label = html`<span>${name} <code class="dim">${type}${nullable ? "" : " NOT NULL"}</code></span>`;
  if (kind === "bool") {
    return html`<label>${label}<select name=${name}>${nullable && html`<option value="">null</option>`}<option>true</option><option>false</option></select></label>`;
  }
  return html`<label>${label}<input name=${name} required=${!nullable && kind !== "text"} placeholder=${HINTS[kind] || (nullable ? "empty for null" : "")} inputmode=${kind === "whole" ? "numeric" : null} /></label>`;
}

/** @returns {string} What was typed as JSON: digits stay as they are. */
export function jsonOf(text, { name, type, nullable = true }) {
  const kind = kindOf(type);
  if (text === "" && nullable) return "null";
  if (kind === "text") return JSON.stringify(text);
  if (kind === "real" && ["NaN", "Infinity", "-Infinity"].includes(text.trim())) return JSON.stringify(text.trim());
  const trimmed = text.trim();
  try {
    JSON.parse(trimmed);
  } catch {
    throw new Problem({ detail: `${name}: ${trimmed || "nothing"} is no ${HINTS[kind] || kind}`, hint: kind === "json" ? 'write JSON, as {"a": [1, 2]}' : "write digits" });
  }
  if (kind === "whole" && !/^-?\d+$/.test(trimmed)) throw new Problem({ detail: `${name}: ${trimmed} is no whole number`, hint: "write digits" });
  return trimmed;
}

/** @param {HTMLFormElement} form @param {{name: string, type: string, nullable?: boolean}[]} fields @returns {string} An object as JSON. */
export function objectOf(form, fields) {
  const given = new FormData(form);
  return `{${fields.map((each) => `${JSON.stringify(each.name)}:${jsonOf(given.get(each.name) || "", each)}`).join(",")}}`;
}
