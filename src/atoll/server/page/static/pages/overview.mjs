/** All modules and topologies, and first of all what needs somebody. */
import { needs } from "../lib/attention.mjs";
import { millis, number, short } from "../lib/format.mjs";
import { lagOf, modules, samples } from "../lib/live.mjs";
import { Spark, State } from "../lib/parts.mjs";
import { link } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html } from "../lib/ui.mjs";

export function Overview() {
  const found = modules.value;
  const wanted = needs(found);
  const names = Object.keys(found);
  return html`
    <h1>Overview</h1>
    <section aria-label="What needs attention">
      <h2>What needs attention</h2>
      ${wanted.length === 0
        ? html`<p class="note good">Nothing: all topologies go on, and nothing is lost.</p>`
        : wanted.map((each, at) => html`<${Need} key=${at} need=${each} />`)}
    </section>
    ${names.length === 0 && html`<p class="note">No module runs here yet: <code>atoll run FILE.py:module</code> deploys one.</p>`}
    ${names.map((name) => html`<${Module} key=${name} name=${name} module=${found[name]} />`)}
  `;
}

function Need({ need }) {
  const { kind, module, topology, what, hint, code } = need;
  const to = topology ? link(["m", module, "topology", topology]) : link(["m", module, "topology"]);
  return html`<p class=${`note ${kind}`}>
    <span><a href=${to}>${topology ? `${module}/${topology}` : module}</a> ${what} ${code && html`<code>${code}</code>`}
      ${hint && html`<br /><small><b>What to do:</b> ${hint}</small>`}</span>
  </p>`;
}

function Module({ name, module }) {
  const rows = Object.entries(module.topologies);
  const columns = [
    { head: "Topology", cell: ([topology]) => html`<a href=${link(["m", name, "topology", topology])}>${topology}</a>` },
    { head: "State", cell: ([, each]) => html`<${State} state=${each.attempts_failed ? "retrying" : each.state} />` },
    { head: "Lag", right: true, cell: ([, each]) => number(lagOf(each)) },
    { head: "Records/s", right: true, cell: ([, each]) => short(each.records_per_second) },
    { head: "Lately", cell: ([topology]) => html`<${Lately} of=${`${name}/${topology}`} />` },
    { head: "Microbatch", right: true, cell: ([topology, each]) => html`<${Last} module=${name} topology=${topology} status=${each} />` },
    { head: "Took", right: true, cell: ([, each]) => millis(each.durations_ms.total) },
    { head: "Processed", right: true, cell: ([, each]) => number(each.processed) },
  ];
  const depots = Object.entries(module.depots);
  return html`<section class="card">
    <h2>${name} <${State} state=${module.state} /> ${module.runtime && html`<span class="dim">a runtime</span>`}</h2>
    <${Table} label=${`Topologies of ${name}`} columns=${columns} rows=${rows} rowKey=${([topology]) => topology} empty="no topology runs" />
    ${depots.length > 0 &&
    html`<p class="dim">Depots: ${depots.map(([depot, count], at) => html`${at > 0 && ", "}<a href=${link(["m", name, "depots", depot])}>${depot}</a> ${number(count)}`)}</p>`}
  </section>`;
}

const Lately = ({ of }) => {
  const values = (samples.get(of) || []).map(([rate]) => rate);
  return html`<${Spark} values=${values} label=${`records per second lately, ${Math.round(Math.max(0, ...values))} at most`} />`;
};

const Last = ({ module, topology, status }) =>
  status.committed
    ? html`<a href=${link(["m", module, "microbatches", topology, status.committed])}>${number(status.committed)}</a>`
    : "none";
