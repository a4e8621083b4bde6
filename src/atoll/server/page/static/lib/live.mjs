/** How all modules are, told by one stream that every page shares. */
import { locked, recognise } from "./session.mjs";
import { signal } from "./ui.mjs";

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
const SAMPLES = 90;

/** @type {import("./ui.mjs").Signal} The modules by name; null before the first word. */
export const modules = signal(null);
/** Whether the stream is open, and in how many seconds it is tried again if not. */
export const connection = signal({ open: false, wait: 0, tries: 0 });
/** By `module/topology` the last rates and lags, for small charts: `[rate, lag]` each. */
export const samples = new Map();
/** The version of Atoll that answers. */
export const version = signal("");

let stream = null;
let timer = 0;
let tries = 0;

function note(found) {
  for (const [name, module] of Object.entries(found)) {
    for (const [topology, status] of Object.entries(module.topologies)) {
      const key = `${name}/${topology}`;
      const list = samples.get(key) || [];
      list.push([status.records_per_second, lagOf(status)]);
      samples.set(key, list.slice(-SAMPLES));
    }
  }
}

/** @param {{lag: Record<string, number>}} status @returns {number} How many records it is behind. */
export const lagOf = (status) => Object.values(status.lag).reduce((sum, each) => sum + each, 0);

function close() {
  clearTimeout(timer);
  if (stream) stream.close();
  stream = null;
}

/** Who may not look is told so by the service, and asked to log in, before anything is followed. */
async function open() {
  close();
  try {
    await recognise();
  } catch {
    retry();
    return;
  }
  if (locked()) {
    connection.value = { open: false, wait: 0, tries: 0 };
    return;
  }
  close();
  stream = new EventSource("/v1/live");
  stream.onopen = () => {
    tries = 0;
    connection.value = { open: true, wait: 0, tries: 0 };
  };
  stream.addEventListener("modules", (event) => {
    const told = JSON.parse(event.data);
    note(told.modules);
    version.value = told.version;
    modules.value = told.modules;
  });
  stream.onerror = retry;
}

/** Try again later: after twice as long each time, and not all pages at once. */
function retry() {
  close();
  const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** tries) * (0.75 + Math.random() / 2);
  tries += 1;
  connection.value = { open: false, wait: Math.ceil(wait / 1000), tries };
  timer = setTimeout(open, wait);
}

/** Begin anew, as after a login. */
export const again = () => open();

/** Begin to follow; a page that nobody sees does not. */
export function follow() {
  const look = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", look);
  addEventListener("pageshow", (event) => event.persisted && look());
  window.addEventListener("pagehide", close);
  look();
}
