/** The last microbatches of a topology: how long their numbered steps took, and what one did. */
import { of, useData } from "../lib/api.mjs";
import { line, millis, number, when } from "../lib/format.mjs";
import { Facts, Failed, Share } from "../lib/parts.mjs";
import { go, link } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html, useRef, useEffect } from "../lib/ui.mjs";

const STEPS = ["prime", "process", "commit", "publish", "tidy"];
const HIGH = 150;
const BAR = 9;

export function Microbatches({ module, status, more, query }) {
  const names = Object.keys(status.topologies);
  const topology = names.includes(more[0]) ? more[0] : names[0];
  const live = status.topologies[topology];
  const at = `${of(module)}/topologies/${topology}/microbatches`;
  const found = useData(topology ? at : null, live && live.committed);
  const chosen = Number(more[1]) || 0;
  const other = Number(query.get("with")) || 0;
  if (!topology) return html`<h1>Microbatches</h1><p>No topology of ${module} runs.</p>`;
  const open = (id) => go(["m", module, "microbatches", topology, id], { with: other });
  const list = found.data ? found.data.microbatches : [];
  return html`
    <h1>Microbatches of ${names.length < 2
      ? topology
      : html`<select aria-label="Topology" value=${topology} onChange=${(e) => go(["m", module, "microbatches", e.currentTarget.value])}>
          ${names.map((each) => html`<option key=${each}>${each}</option>`)}
        </select>`}</h1>
    <${Failed} error=${found.error} />
    ${found.data && html`<${Timeline} list=${list} chosen=${[chosen, other]} open=${open} />`}
    ${chosen > 0 && html`<${One} ...${{ at, chosen, other, list, module, topology }} />`}
    <${Listed} ...${{ list, chosen, other, module, topology }} />
  `;
}

/** Bars of the numbered steps; the list below tells the same to who cannot see them. */
function Timeline({ list, chosen, open }) {
  const box = useRef(null);
  const last = list.length ? list[list.length - 1].id : 0;
  useEffect(() => {
    if (box.current) box.current.scrollLeft = box.current.scrollWidth;
  }, [last]);
  if (!list.length) return html`<p class="note">No microbatch of it is known yet.</p>`;
  const most = Math.max(...list.map((each) => each.total || 0), 0.001);
  return html`<figure>
    <figcaption class="row"><span>Durations, ${millis(most)} at most</span>
      ${STEPS.map((step, at) => html`<span key=${step} class="key"><i class=${`fill${at}`}></i>${at + 1} ${step}</span>`)}
    </figcaption>
    <div class="timeline" ref=${box} tabindex="0" role="region" aria-label="Durations of microbatches">
      <svg width=${list.length * BAR} height=${HIGH} role="img" aria-label=${`Durations of ${list.length} microbatches, ${millis(most)} at most`}>
        ${list.map((each, at) => {
          let top = HIGH;
          const told = `microbatch ${each.id}: ${millis(each.total)}, ${number(each.records)} records${each.failed_attempts ? `, ${each.failed_attempts} attempts failed` : ""}`;
          return html`<g key=${each.id} class=${`bar ${chosen.includes(each.id) ? "chosen" : ""} ${each.failed_attempts ? "failed" : ""}`} onClick=${() => open(each.id)}>
            <title>${told}</title>
            <rect class="back" x=${at * BAR} y="0" width=${BAR} height=${HIGH} />
            ${STEPS.map((step, index) => {
              const high = ((each[step] || 0) / most) * (HIGH - 8);
              top -= high;
              return html`<rect key=${step} class=${`fill${index}`} x=${at * BAR + 1} y=${top} width=${BAR - 2} height=${high} />`;
            })}
            ${each.failed_attempts > 0 && html`<circle cx=${at * BAR + BAR / 2} cy="4" r="3" />`}
          </g>`;
        })}
      </svg>
    </div>
  </figure>`;
}

function One({ at, chosen, other, list, module, topology }) {
  const one = useData(`${at}/${chosen}`);
  const two = useData(other ? `${at}/${other}` : null);
  const choose = (event) => go(["m", module, "microbatches", topology, chosen], { with: event.currentTarget.value });
  return html`<section class="card">
    <div class="row"><h2>Microbatch ${number(chosen)}</h2>
      <label>compare with <select value=${other || ""} onChange=${choose}>
        <option value="">none</option>
        ${[...list].reverse().filter((each) => each.id !== chosen).map((each) => html`<option key=${each.id} value=${each.id}>${each.id}</option>`)}
      </select></label>
      <a href=${link(["m", module, "microbatches", topology])}>close</a></div>
    <${Failed} error=${one.error || two.error} />
    ${one.data && html`<${Told} one=${one.data} two=${two.data} />`}
  </section>`;
}

/** What one did, beside what another did if there is one. */
function Told({ one, two }) {
  const both = two ? [one, two] : [one];
  const heads = both.map((each) => ({ head: number(each.id), right: true }));
  const columns = (cell) => heads.map((each, at) => ({ ...each, cell: (row) => cell(row, both[at]) }));
  const change = two ? [{ head: "difference", right: true, cell: (row) => difference(row.of(one), row.of(two)) }] : [];
  const measures = [
    ...STEPS.map((step, at) => ({ name: `${at + 1} ${step}`, of: (each) => each[step], text: millis })),
    { name: "total", of: (each) => each.total, text: millis },
    { name: "records", of: (each) => each.records, text: number },
    { name: "skew of rows", of: (each) => each.skew?.rows, text: (value) => value ?? "–" },
    { name: "skew of time", of: (each) => each.skew?.time, text: (value) => value ?? "–" },
  ];
  return html`
    <${Facts} of=${both.flatMap((each) => [[`${each.id} committed`, when(each.committed_at_ms)], [`${each.id} version`, each.version]])} />
    <${Table} label="Durations and counts" rowKey=${(row) => row.name} rows=${measures}
      columns=${[{ head: "", cell: (row) => row.name }, ...columns((row, each) => row.text(row.of(each))), ...change]} />
    ${both.some((each) => each.total == null) && html`<p class="dim">Of a microbatch before this life of the topology the root knows what it read, and when; how long it took is not kept.</p>`}
    <h3>Rows by step</h3>
    <${Operators} both=${both} />
    <h3>Ranges read</h3>
    <${Ranges} both=${both} />
    ${both.map((each) => html`<${Changed} key=${each.id} each=${each} />`)}
  `;
}

const difference = (one, two) =>
  one == null || two == null || !two ? "–" : `${one >= two ? "+" : "−"}${Math.abs(((one - two) / two) * 100).toFixed(0)} %`;

function Operators({ both }) {
  const names = [...new Set(both.flatMap((each) => (each.operators || []).map((step) => step.step)))];
  const most = Math.max(1e-9, ...both.flatMap((each) => (each.operators || []).map((step) => step.ms)));
  const of_ = (each, name) => each.operators?.find((step) => step.step === name);
  const columns = both.flatMap((each) => [
    { head: `in ${each.id}`, right: true, cell: (name) => number(of_(each, name)?.rows) },
    { head: "out", right: true, cell: (name) => number(of_(each, name)?.out) },
    { head: "left out", right: true, cell: (name) => left(of_(each, name)) },
    { head: "time", right: true, cell: (name) => html`<${Share} share=${(of_(each, name)?.ms || 0) / most}>${millis(of_(each, name)?.ms)}<//>` },
  ]);
  return html`<${Table} label="Rows by step" rows=${names} rowKey=${(name) => name} empty="no step counted rows"
    columns=${[{ head: "Step", cell: (name) => html`<code>${name}</code>` }, ...columns]} />`;
}

const left = (step) =>
  !step || !(step.dropped + step.rejected)
    ? "–"
    : [step.dropped && `${number(step.dropped)} dropped`, step.rejected && `${number(step.rejected)} rejected`].filter(Boolean).join(", ");

function Ranges({ both }) {
  const rows = both.flatMap((each) =>
    Object.entries(each.ranges).flatMap(([depot, parts]) =>
      parts.map(([start, end], part) => ({ id: each.id, depot, part, start, end })).filter(({ start, end }) => end > start),
    ),
  );
  const columns = [
    { head: "Microbatch", right: true, cell: (row) => number(row.id) },
    { head: "Depot", cell: (row) => row.depot },
    { head: "Partition", right: true, cell: (row) => row.part },
    { head: "From", right: true, cell: (row) => number(row.start) },
    { head: "To", right: true, cell: (row) => number(row.end) },
    { head: "Records", right: true, cell: (row) => number(row.end - row.start) },
  ];
  return html`<${Table} label="Ranges read" columns=${columns} rows=${rows} rowKey=${(row) => `${row.id} ${row.depot} ${row.part}`} empty="it read nothing" />`;
}

function Changed({ each }) {
  const changed = Object.entries(each.vnodes || {}).map(([name, count]) => [`${name} in ${each.id}`, `${number(count)} vnodes changed`]);
  const appended = Object.entries(each.appended || {}).map(([name, count]) => [`${name} in ${each.id}`, `${number(count)} rows appended`]);
  return html`<${Facts} of=${[...changed, ...appended]} />
    ${(each.failed_attempts || []).map(
      (failed) => html`<p key=${failed.version} class="note bad"><span>${each.id}: attempt ${failed.version} failed ${when(failed.at_ms)}:
        ${failed.message} <code>${failed.code}</code>
        ${failed.hint && html`<br /><small>${failed.hint}</small>`}
        ${Object.keys(failed.context || {}).length > 0 && html`<br /><small class="dim">${line(failed.context, 400)}</small>`}</span></p>`,
    )}`;
}

function Listed({ list, chosen, other, module, topology }) {
  const columns = [
    { head: "Microbatch", right: true, cell: (row) => html`<a href=${link(["m", module, "microbatches", topology, row.id], { with: other && other !== row.id ? other : "" })}>${number(row.id)}</a>` },
    { head: "Committed", cell: (row) => when(row.committed_at_ms) },
    { head: "Records", right: true, cell: (row) => number(row.records) },
    ...STEPS.map((step, at) => ({ head: `${at + 1} ${step}`, right: true, cell: (row) => millis(row[step]) })),
    { head: "Total", right: true, cell: (row) => millis(row.total) },
    { head: "Attempts", right: true, cell: (row) => number(row.failed_attempts + 1) },
  ];
  return html`<h2>The last ${number(list.length)}</h2>
    <${Table} label="Microbatches" columns=${columns} rows=${[...list].reverse()} rowKey=${(row) => row.id} chosen=${(row) => row.id === chosen} />`;
}
