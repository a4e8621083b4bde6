/** Numbers, times and values as people read them. */

const NUMBER = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number | null | undefined} value */
export const number = (value) => (value == null ? "–" : NUMBER.format(value));

/** @param {number} value A count in at most about five characters. */
export const short = (value) => (value < 10_000 ? number(Math.round(value)) : SHORT.format(value));

/** @param {number | null | undefined} ms */
export function millis(ms) {
  if (ms == null) return "–";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 10_000 ? `${number(Math.round(ms))} ms` : `${number(Math.round(ms / 1000))} s`;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let left = bytes;
  for (; left >= 1024 && at < units.length - 1; at += 1) left /= 1024;
  return `${at && left < 100 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

/** @param {number | null | undefined} ms Since 1970. @returns {string} The local time of day, with the day if another. */
export function when(ms) {
  if (!ms) return "–";
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-CA")} ${time}`;
}

/** @param {any} value As one line of JSON. */
export function line(value, longest = 200) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}
