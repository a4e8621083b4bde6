/** A topology as a graph: what its steps did and how long they took; and moving it by hand. */
import { ask, attempt, say } from "../lib/ask.mjs";
import { of, post, useData } from "../lib/api.mjs";
import { Drawing } from "../lib/drawing.mjs";
import { millis, number, short, when } from "../lib/format.mjs";
import { lagOf } from "../lib/live.mjs";
import { Change, Choice, Facts, Failed, State } from "../lib/parts.mjs";
import { go, link } from "../lib/route.mjs";
import { html, useState } from "../lib/ui.mjs";

const BY = [["time", "by time"], ["rows", "by rows"], ["skew", "by skew"]];
const SPAN = [["last", "last microbatch"], ["all", "since it started"]];

export function Topology({ module, status, more, query }) {
  const names = Object.keys(status.topologies);
  const topology = names.includes(more[0]) ? more[0] : names[0];
  const live = status.topologies[topology];
  const graph = useData(`${of(module)}/graph`, status.state);
  const found = useData(topology ? `${of(module)}/topologies/${topology}` : null, live && `${live.committed} ${live.state}`);
  const cluster = useData(`${of(module)}/cluster`, live && live.committed);
  const change = (wanted) => go(["m", module, "topology", topology], { ...Object.fromEntries(query), ...wanted }, true);
  const by = query.get("by") || "time";
  const span = query.get("of") || "last";
  if (more[0] && !names.includes(more[0]) && names.length) {
    return html`<p class="pad">There is no topology ${more[0]} in ${module}; there is ${names.join(", ")}.</p>`;
  }
  return html`
    <h1>Topology ${topology ? html`<${Names} module=${module} names=${names} topology=${topology} />` : "– none runs"} ${live && html`<${State} state=${live.attempts_failed ? "retrying" : live.state} />`}</h1>
    <${Failed} error=${status.error ? Object.assign(new Error(status.error.message), status.error) : null} />
    ${live && html`<${Moving} module=${module} topology=${topology} live=${live} /><${Now} live=${live} found=${found.data} module=${module} topology=${topology} />`}
    <div class="row">
      <${Choice} label="Colour" choices=${BY} value=${by} set=${(each) => change({ by: each })} />
      <${Choice} label="Counts of" choices=${SPAN} value=${span} set=${(each) => change({ of: each })} />
    </div>
    <${Failed} error=${graph.error || found.error || cluster.error} />
    ${graph.data && html`<${Graph} ...${{ module, topology, by, span, live }} depots=${status.depots} graph=${graph.data} found=${found.data}
      cluster=${cluster.data} chosen=${query.get("node") || ""} choose=${(node) => change({ node })} />`}
  `;
}

const Names = ({ module, names, topology }) =>
  names.length < 2
    ? topology
    : html`<select aria-label="Topology" value=${topology} onChange=${(e) => go(["m", module, "topology", e.currentTarget.value])}>
        ${names.map((each) => html`<option key=${each}>${each}</option>`)}
      </select>`;

function Now({ live, found, module, topology }) {
  const watermarks = found ? Object.entries(found.time.watermarks) : [];
  const shown = live.committed && html`<a href=${link(["m", module, "microbatches", topology, live.committed])}>${number(live.committed)}</a>`;
  return html`<${Facts} of=${[
    ["committed", shown || "none"],
    ["step", live.step],
    ["lag", number(lagOf(live))],
    ["records/s", short(live.records_per_second)],
    ["took", millis(live.durations_ms.total)],
    ["processed", number(live.processed)],
    ["skew of rows", live.skew && live.skew.rows],
    ["can go back to", `${number(live.readable_from)} … ${number(live.committed)}`],
    ...watermarks.map(([name, at]) => [`watermark ${name}`, when(at)]),
  ]} />`;
}

function Moving({ module, topology, live }) {
  const [busy, setBusy] = useState(false);
  const at = `${of(module)}/topologies/${topology}`;
  const run = async (done, change) => {
    setBusy(true);
    await attempt(done, change);
    setBusy(false);
  };
  const pause = async () => {
    const body = html`<p>The running microbatch finishes, and no other begins. What is appended meanwhile waits in the depots.</p>`;
    if (await ask({ title: `Pause ${topology}?`, verb: "Pause", body })) run("paused", () => post(`${at}/pause`));
  };
  const checkpoint = async () => {
    const body = html`<p>All state that changed since its last checkpoint is written to one.</p>`;
    if (await ask({ title: `Write a checkpoint of ${topology}?`, verb: "Write", body })) run("the checkpoint is written", () => post(`${at}/checkpoint`));
  };
  const rests = live.state !== "running" && live.state !== "retrying";
  return html`<div class="row" aria-busy=${busy}>
    ${rests
      ? html`<${Change} class="main" disabled=${busy} onClick=${() => run("resumed", () => post(`${at}/resume`))}>Resume<//>`
      : html`<${Change} disabled=${busy} onClick=${pause}>Pause<//>`}
    <${Change} disabled=${busy || rests} onClick=${checkpoint}>Checkpoint<//>
    <${Change} disabled=${busy} onClick=${() => goBack(at, topology, live)}>Roll back …<//>
  </div>`;
}

/** Ask where to, show exactly what that would do, and do it. */
async function goBack(at, topology, live) {
  let wanted = Math.max(live.readable_from, live.committed - 1);
  const body = html`<label>Last microbatch that stays
    <input type="number" min=${live.readable_from} max=${live.committed} defaultValue=${wanted} onInput=${(e) => { wanted = Number(e.currentTarget.value); }} />
  </label><p class="dim">Possible are ${live.readable_from} to ${live.committed}. Nothing happens before the plan is shown.</p>`;
  if (!(await ask({ title: `Roll ${topology} back`, verb: "Show the plan", body }))) return;
  let plan;
  try {
    plan = await post(`${at}/rollback`, { to_microbatch: wanted, dry_run: true });
  } catch (error) {
    say(error.message, "bad", error.hint);
    return;
  }
  if (plan.refused) {
    say(plan.refused.message, "bad", plan.refused.hint);
    return;
  }
  const appended = Object.entries(plan.appended);
  const told = html`<${Facts} of=${[
      ["goes back to", `microbatch ${number(plan.to)}${plan.state_of_ms ? `, committed ${when(plan.state_of_ms)}` : ""}`],
      ["abandoned", `${number(plan.microbatches)} microbatches`],
      ["read again once resumed", `${number(plan.records)} records`],
    ]} />
    ${appended.length > 0 && html`<p class="note warn">They appended ${appended.map(([depot, rows]) => `${number(rows)} rows to ${depot}`).join(", ")}: these stay there, and the new microbatches append again.</p>`}
    <p>The topology is paused then.</p>`;
  if (!(await ask({ title: `Roll ${topology} back to ${plan.to}?`, verb: "Roll back", danger: true, body: told }))) return;
  await attempt(`rolled back to microbatch ${plan.to}; paused`, () =>
    post(`${at}/rollback`, { to_microbatch: wanted, keep_appended: appended.length > 0 }),
  );
}

/** The counts of each step by the name that it has in the status. */
const countsOf = (found, span) =>
  new Map((found ? (span === "all" ? found.operators_total : found.operators) : []).map((each) => [each.step, each]));

/** How uneven the bytes of a PState lie on the units: 1 where even. */
function skewOf(cluster, pstate) {
  const fragment = cluster && cluster.fragments.find((each) => each.pstates.includes(pstate));
  if (!fragment || !fragment.bytes || !fragment.actors.length) return null;
  return (Math.max(...fragment.actors.map((each) => each.bytes)) * fragment.actors.length) / fragment.bytes;
}

function Graph({ module, topology, graph, found, cluster, live, depots, by, span, chosen, choose }) {
  const counts = countsOf(found, span);
  const mine = shown(graph, topology);
  const of_ = (node) => counts.get(node.step);
  const most = Math.max(1e-9, ...mine.nodes.map((node) => measure(of_(node), by) || 0));
  const boxes = mine.nodes.map((node) => {
    const each = of_(node);
    const skew = node.kind === "pstate" ? skewOf(cluster, node.label) : null;
    const heat = by === "skew" ? skew && Math.min(1, skew - 1) : each && measure(each, by) / most;
    const under = node.kind === "step" ? each && `${short(each.rows)} rows, ${millis(each.ms)}` : node.kind === "depot" ? lagUnder(live, node) : skew && `skew ${skew.toFixed(2)}`;
    return { ...node, under: under || "", heat };
  });
  const byId = new Map(mine.nodes.map((node) => [node.id, node]));
  const arrows = mine.edges.map((edge) => ({ ...edge, label: rowsOf(edge, byId, of_) }));
  const node = byId.get(chosen);
  return html`
    <${Drawing} label=${`Graph of ${topology || module}`} boxes=${boxes} arrows=${arrows} chosen=${chosen} choose=${choose} />
    <div aria-live="polite">${node
      ? html`<${Node} ...${{ module, node, found, live, depots }} skew=${node.kind === "pstate" ? skewOf(cluster, node.label) : null} />`
      : html`<p class="dim">Choose a step, depot or PState for its counts.</p>`}</div>
  `;
}

const measure = (each, by) => (each ? (by === "rows" ? each.rows : by === "time" ? each.ms : null) : null);
const lagUnder = (live, node) => (live && node.label in live.lag ? `lag ${short(live.lag[node.label])}` : "");

/** What belongs to one topology, and the depots and PStates that it touches. */
function shown(graph, topology) {
  const mine = new Set(graph.nodes.filter((each) => !topology || each.topology === topology).map((each) => each.id));
  const edges = graph.edges.filter(({ from, to }) => mine.has(from) || mine.has(to));
  const touched = new Set([...mine, ...edges.flatMap(({ from, to }) => [from, to])]);
  return { nodes: graph.nodes.filter((each) => touched.has(each.id)), edges: edges.filter(({ from, to }) => touched.has(from) && touched.has(to)) };
}

/** How many rows went along an edge, where it is counted. */
function rowsOf({ from, to }, byId, of_) {
  const source = byId.get(from);
  const target = byId.get(to);
  const each = source.kind === "step" ? of_(source) : of_(target);
  if (!each) return "";
  return short(source.kind === "step" && target.kind === "step" ? each.out : each.rows);
}

function Node({ module, node, found, live, depots, skew }) {
  if (node.kind === "depot") {
    return html`<section class="card"><h2>Depot ${node.label}</h2>
      <${Facts} of=${[["lag", live && node.label in live.lag ? number(live.lag[node.label]) : null]]} />
      ${node.label in depots ? html`<a href=${link(["m", module, "depots", node.label])}>Look into it</a>` : html`<p class="dim">It is kept outside of this module.</p>`}</section>`;
  }
  if (node.kind === "pstate") {
    return html`<section class="card"><h2>PState ${node.label}</h2>
      <${Facts} of=${[["written by", node.topology], ["skew of bytes over units", skew && skew.toFixed(2)]]} />
      <a href=${link(["m", module, "state", node.label])}>Look into it</a></section>`;
  }
  const last = countsOf(found, "last").get(node.step);
  const all = countsOf(found, "all").get(node.step);
  const column = found && found.columns.find((each) => `${each.step} (${each.place})` === node.step);
  const watermark = node.watermark && found && found.time.watermarks[node.watermark];
  const facts = (each) => [
    ["rows in", number(each.rows)],
    ["rows out", number(each.out)],
    ["dropped", each.dropped ? number(each.dropped) : null],
    ["rejected", each.rejected ? number(each.rejected) : null],
    ["time of tasks", millis(each.ms)],
  ];
  return html`<section class="card"><h2>${node.detail} <code>${node.place}</code></h2>
    <${Facts} of=${[
      ["watermark", watermark ? when(watermark) : null],
      ["run by", column && (column.way === "tasks" ? "the tasks" : `Spark${column.why ? `: ${column.why}` : ""}`)],
    ]} />
    ${last ? html`<h3>Last microbatch with records</h3><${Facts} of=${facts(last)} />` : html`<p class="dim">It took no rows in the last microbatch, or Spark ran it, which counts none.</p>`}
    ${all && html`<h3>Since it started</h3><${Facts} of=${facts(all)} />`}
  </section>`;
}
