/** Which fragments run on which units, and changing that after a look at what it would move. */
import { of, post, useData } from "../lib/api.mjs";
import { ask, attempt, say } from "../lib/ask.mjs";
import { number, size, when } from "../lib/format.mjs";
import { Change, Facts, Failed, State } from "../lib/parts.mjs";
import { Table } from "../lib/table.mjs";
import { html, useState } from "../lib/ui.mjs";

export function Cluster({ module, status }) {
  const [turn, setTurn] = useState(0);
  const moved = `${turn} ${Object.values(status.topologies).map((each) => each.committed)}`;
  const found = useData(`${of(module)}/cluster`, moved);
  const events = useData(`${of(module)}/story`, `${turn} ${found.data && found.data.revision}`);
  const again = () => setTurn(turn + 1);
  const cluster = found.data;
  return html`
    <h1>Cluster of ${module}</h1>
    <${Failed} error=${found.error} />
    ${cluster && html`
      <${Facts} of=${[["revision", number(cluster.revision)], ["workers", number(cluster.workers.length)], ["parallel units", number(unitsOf(cluster).length)]]} />
      <section class="card"><h2>Fragments on units</h2><${Matrix} cluster=${cluster} /></section>
      <section class="card"><h2>Parallelism</h2>
        ${Object.keys(status.topologies).map((name) => html`<${Policy} key=${name} ...${{ module, again }} topology=${name} policy=${cluster.policies[name]} />`)}
      </section>
      <section class="card"><h2>Workers</h2><${Workers} ...${{ module, cluster, again }} /></section>
    `}
    <h2>Revisions</h2>
    <${Failed} error=${events.error} />
    ${events.data && html`<${Table} label="Revisions" empty="none is kept"
      columns=${[{ head: "When", cell: (each) => when(each.at_ms) }, { head: "What", wide: true, cell: (each) => each.text }]}
      rows=${events.data.events.filter((each) => each.kind === "revision")} rowKey=${(each) => each.revision} />`}
  `;
}

const unitsOf = (cluster) => cluster.workers.flatMap((each) => each.units.map((unit) => ({ unit, worker: each })));

/** A cell says how many vnodes of a fragment a unit owns, darker the more of its bytes. */
function Matrix({ cluster }) {
  const units = unitsOf(cluster);
  const columns = [
    { head: "Fragment", cell: (each) => html`<b>${each.id}</b> ${each.topology} <span class="dim">${each.name}</span>` },
    { head: "Kind", cell: (each) => (each.follows == null ? each.kind : `follows ${each.follows}`) },
    ...units.map(({ unit, worker }) => ({
      head: html`<span title=${`${worker.name} on ${worker.host}`}>unit ${unit}</span>`,
      right: true,
      cell: (each) => html`<${Cell} fragment=${each} unit=${unit} />`,
    })),
    { head: "Bytes", right: true, cell: (each) => size(each.bytes) },
  ];
  return html`<${Table} label="Fragments on units" columns=${columns} rows=${cluster.fragments} rowKey=${(each) => each.id} />`;
}

function Cell({ fragment, unit }) {
  const actor = fragment.actors.find((each) => each.unit === unit);
  if (!actor) return html`<span class="dim">–</span>`;
  const most = Math.max(1, ...fragment.actors.map((each) => each.vnodes));
  const share = fragment.kind === "source" ? 0 : actor.vnodes / most;
  return html`<span class="cell" title=${`${number(actor.vnodes)} vnodes, ${size(actor.bytes)}`}
    style=${{ backgroundColor: `color-mix(in srgb, var(--accent) ${Math.round(8 + 32 * share)}%, transparent)` }}>
    ${fragment.kind === "source" ? "reads" : number(actor.vnodes)}</span>`;
}

function Policy({ module, topology, policy, again }) {
  const [plan, setPlan] = useState(null);
  const at = `${of(module)}/topologies/${topology}/parallelism`;
  const show = async (event) => {
    event.preventDefault();
    const wanted = new FormData(event.currentTarget).get("policy").trim();
    try {
      setPlan({ wanted, ...(await post(at, { policy: wanted, dry_run: true })) });
    } catch (error) {
      setPlan(null);
      say(error.message, "bad", error.hint);
    }
  };
  const apply = async () => {
    const yes = await ask({ title: `Run ${topology} as ${plan.wanted}?`, verb: "Apply", body: html`<${Plan} plan=${plan} />` });
    if (!yes) return;
    await attempt(`${topology} runs as ${plan.wanted}`, () => post(at, { policy: plan.wanted }));
    setPlan(null);
    again();
  };
  return html`<form class="row" onSubmit=${show}>
      <b>${topology}</b> <span>now <code>${policy || "adaptive"}</code></span>
      <label>then <input name="policy" required placeholder="4, adaptive, bounded(4), ratio(0.5), load(1,8)" size="34" /></label>
      <${Change} type="submit">Show the plan<//>
    </form>
    ${plan && html`<div class="plan"><${Plan} plan=${plan} />
      <div class="row"><${Change} class="main" onClick=${apply}>Apply …<//><button onClick=${() => setPlan(null)}>Forget it</button></div></div>`}`;
}

/** What a change moves, fragment by fragment and unit by unit. */
export function Plan({ plan }) {
  const rows = Object.entries(plan.fragments).flatMap(([fragment, each]) =>
    Object.entries(each.vnodes).map(([unit, { before, after }]) => ({ fragment, unit, before, after })),
  );
  return html`
    <${Facts} of=${[["vnodes to move", number(plan.vnodes_moved)], ["bytes to move", size(plan.bytes_moved)], ["made from revision", number(plan.revision)]]} />
    ${plan.shortage && html`<p class="note warn"><span>There are too few units: ${plan.shortage.hint}</span></p>`}
    <${Table} label="The plan" empty="nothing changes" rows=${rows} rowKey=${(each) => `${each.fragment} ${each.unit}`}
      columns=${[
        { head: "Fragment", cell: (each) => each.fragment },
        { head: "Unit", right: true, cell: (each) => each.unit },
        { head: "Vnodes now", right: true, cell: (each) => number(each.before) },
        { head: "then", right: true, cell: (each) => number(each.after) },
      ]} />`;
}

function Workers({ module, cluster, again }) {
  const change = async (word, worker) => {
    const body = { cordon: "It gets no new actors, of any module; those that it has stay.", uncordon: "It gets actors again, of all modules." }[word];
    if (!(await ask({ title: `${word} worker ${worker.name}?`, verb: word, body: html`<p>${body}</p>` }))) return;
    await attempt(`done: ${word} ${worker.name}`, () => post(`${of(module)}/cluster/${word}`, { workers: [worker.id] }));
    again();
  };
  const columns = [
    { head: "Worker", cell: (each) => `${each.id} ${each.name}` },
    { head: "Host", cell: (each) => each.host },
    { head: "State", cell: (each) => html`<${State} state=${each.state} />` },
    { head: "Units", cell: (each) => each.units.join(", ") },
    { head: "Actors", right: true, cell: (each) => number(cluster.fragments.flatMap((f) => f.actors).filter((a) => a.worker === each.id).length) },
    { head: "", cell: (each) => html`<${Change} class="plain" onClick=${() => change(each.state === "cordoned" ? "uncordon" : "cordon", each)}>${each.state === "cordoned" ? "uncordon" : "cordon"}<//>` },
  ];
  return html`<${Table} label="Workers" columns=${columns} rows=${cluster.workers} rowKey=${(each) => each.id} />`;
}
