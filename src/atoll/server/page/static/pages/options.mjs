/** Options: what stands, where it comes from, and setting one while the module runs. */
import { of, post, useData } from "../lib/api.mjs";
import { ask, attempt } from "../lib/ask.mjs";
import { number } from "../lib/format.mjs";
import { Change, Failed } from "../lib/parts.mjs";
import { Table } from "../lib/table.mjs";
import { html, useState } from "../lib/ui.mjs";

export function Options({ module, status }) {
  const [turn, setTurn] = useState(0);
  const known = useData(`${of(module)}/options/known`);
  const found = useData(`${of(module)}/options`, `${status.state} ${turn}`);
  const names = found.data ? Object.keys(found.data.topologies) : [];
  const ready = known.data && found.data;
  return html`
    <h1>Options of ${module}</h1>
    <p>What is set here holds from the next microbatch on, and over restarts. What is set while it runs goes before what is declared, and a topology before the module.</p>
    <${Failed} error=${known.error || found.error} />
    ${ready && names.map((topology) => html`<section class="card" key=${topology}><h2>${topology}</h2>
      <${One} ...${{ module, topology }} known=${known.data} found=${found.data} again=${() => setTurn(turn + 1)} /></section>`)}
    ${ready && html`<${Narrow} found=${found.data} />`}
  `;
}

/** Where the value that stands comes from. */
function origin(found, topology, name, value, known) {
  const set = found.set;
  if (set.topology && set.topology[topology] && name in set.topology[topology]) return "set for the topology";
  const declared = found.declared[topology] || {};
  if (set.module && name in set.module && !(name in declared)) return "set for the module";
  if (name in declared) return "declared";
  return value === known[name].default ? "default" : "set";
}

function One({ module, topology, known, found, again }) {
  const rows = Object.entries(found.topologies[topology].options);
  const edit = async (name, value, taken) => {
    let wanted = value;
    const [least, most] = known[name].bounds;
    const body = taken
      ? html`<p>It has the value again that it would have had.</p>`
      : html`<label>${name}<input type="number" step="1" min=${least} max=${most} defaultValue=${value} onInput=${(e) => { wanted = Number(e.currentTarget.value); }} /></label>
          <p class="dim">From ${number(least)} to ${number(most)}; by default ${number(known[name].default)}.</p>`;
    if (!(await ask({ title: taken ? `Take ${name} back?` : `Set ${name} for ${topology}`, verb: taken ? "Take back" : "Set", body }))) return;
    await attempt(taken ? `${name} is taken back` : `${name} is ${wanted}`, () => post(`${of(module)}/options`, { option: name, value: taken ? null : wanted, topology }));
    again();
  };
  const can = (name) => known[name] && known[name].levels.includes("topology");
  const columns = [
    { head: "Option", cell: ([name]) => html`<code>${name}</code>` },
    { head: "Value", right: true, cell: ([, value]) => number(value) },
    { head: "From", cell: ([name, value]) => origin(found, topology, name, value, known) },
    { head: "Default", right: true, cell: ([name]) => number(known[name] && known[name].default) },
    { head: "", cell: ([name, value]) => can(name) && html`<${Change} class="plain" aria-label=${`Set ${name}`} onClick=${() => edit(name, value, false)}>set<//>
      ${origin(found, topology, name, value, known) === "set for the topology" && html`<${Change} class="plain" aria-label=${`Take ${name} back`} onClick=${() => edit(name, value, true)}>take back<//>`}` },
  ];
  return html`<${Table} label=${`Options of ${topology}`} columns=${columns} rows=${rows} rowKey=${([name]) => name} />`;
}

/** What is set for single depots and PStates. */
function Narrow({ found }) {
  const rows = ["depot", "pstate"].flatMap((level) =>
    Object.entries(found.set[level] || {}).flatMap(([name, options]) => Object.entries(options).map(([option, value]) => ({ level, name, option, value }))),
  );
  return (
    rows.length > 0 &&
    html`<section class="card"><h2>For single depots and PStates</h2>
      <${Table} label="Narrower options" rows=${rows} rowKey=${(each) => `${each.level} ${each.name} ${each.option}`} columns=${[
        { head: "Of", cell: (each) => `${each.level} ${each.name}` },
        { head: "Option", cell: (each) => html`<code>${each.option}</code>` },
        { head: "Value", right: true, cell: (each) => number(each.value) },
      ]} /></section>`
  );
}
