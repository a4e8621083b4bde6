/** What needs somebody, most urgent first: a function of how the modules are, and of nothing else. */

const RANK = { bad: 0, warn: 1, idle: 2 };

/**
 * @typedef {{kind: "bad" | "warn" | "idle", module: string, topology: string, what: string, hint: string, code: string}} Need
 * @param {Record<string, any>} modules
 * @returns {Need[]}
 */
export function needs(modules) {
  const found = [];
  for (const [module, status] of Object.entries(modules)) {
    if (status.error) found.push(need("bad", module, "", "does not run", status.error));
    for (const [topology, each] of Object.entries(status.topologies)) {
      found.push(...ofTopology(module, topology, each));
    }
  }
  return found.sort((one, other) => RANK[one.kind] - RANK[other.kind]);
}

function ofTopology(module, topology, status) {
  const found = [];
  const add = (kind, told, why) => found.push(need(kind, module, topology, told, why));
  if (status.error && status.state !== "running") {
    add("bad", `${status.state} at microbatch ${status.id}`, status.error);
  } else if (status.attempts_failed) {
    const last = status.failed_attempts[status.failed_attempts.length - 1] || {};
    add("warn", `microbatch ${status.id} failed ${status.attempts_failed} times and is tried again`, last);
  }
  for (const each of status.warnings || []) add(each.code === "E-DAMAGE" ? "bad" : "warn", "", each);
  if (status.state === "paused") {
    add("idle", "is paused", { message: "", hint: "resume it on its topology page" });
  }
  return found;
}

function need(kind, module, topology, what, why) {
  const message = why.message || why.detail || "";
  return { kind, module, topology, what: [what, message].filter(Boolean).join(": "), hint: why.hint || "", code: why.code || "" };
}
