/** Depots: how full they are, what lies in them, and appending one record. */
import { of, post, useData } from "../lib/api.mjs";
import { attempt, readOnly, say } from "../lib/ask.mjs";
import { Field, objectOf } from "../lib/forms.mjs";
import { line, number, when } from "../lib/format.mjs";
import { Change, Facts, Failed } from "../lib/parts.mjs";
import { go, link } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html } from "../lib/ui.mjs";

export function Depots({ module, status, more, query }) {
  const names = Object.keys(status.depots);
  const depot = more[0] || names[0];
  return html`
    <h1>Depots</h1>
    <div class="row">${names.map((name) => html`<a key=${name} class="tab" href=${link(["m", module, "depots", name])} aria-current=${name === depot ? "page" : null}>${name} ${number(status.depots[name])}</a>`)}</div>
    ${depot ? html`<${One} key=${depot} ...${{ module, status, depot, query }} />` : html`<p>${module} has no depots.</p>`}
  `;
}

function One({ module, status, depot, query }) {
  const place = `${of(module)}/depots/${encodeURIComponent(depot)}`;
  const about = useData(`${place}/about`, status.depots[depot]);
  const found = about.data;
  return html`
    <${Failed} error=${about.error} />
    ${found && html`<${About} ...${{ found, status, depot }} />
      <${Peek} ...${{ place, found, query, module, depot }} count=${status.depots[depot]} />
      ${!status.runtime && html`<${Append} ...${{ place, found }} />`}`}
  `;
}

function About({ found, status, depot }) {
  const { retention } = found;
  const kept = [
    retention.records_max != null && `the newest ${number(retention.records_max)} records of each partition`,
    retention.age_seconds_max != null && `the last ${number(retention.age_seconds_max)} s`,
  ].filter(Boolean);
  const rows = found.end_offsets.map((end, part) => ({ part, start: found.start_offsets[part], end }));
  const lags = Object.entries(status.topologies).filter(([, each]) => depot in each.lag);
  return html`<section class="card">
    <${Facts} of=${[
      ["schema", html`<code>${found.fields.map((each) => `${each.name} ${each.type}${each.nullable ? "" : " NOT NULL"}`).join(", ")}</code>`],
      ["records are placed", found.placed],
      ["kept at least", kept.length ? kept.join(" and ") : "everything"],
      ...lags.map(([name, each]) => [`lag of ${name}`, number(each.lag[depot])]),
    ]} />
    <${Table} label="Partitions" rows=${rows} rowKey=${(each) => each.part} columns=${[
      { head: "Partition", right: true, cell: (each) => each.part },
      { head: "Oldest", right: true, cell: (each) => number(each.start) },
      { head: "End", right: true, cell: (each) => number(each.end) },
      { head: "Records", right: true, cell: (each) => number(each.end - each.start) },
    ]} />
    ${found.producers && found.producers.length > 0 && html`<details><summary>${number(found.producers.length)} producers with numbered appends</summary>
      <${Table} label="Producers" rows=${found.producers} rowKey=${(each) => each.id} columns=${[
        { head: "Producer", cell: (each) => line(each.id, 80) },
        { head: "Last number", right: true, cell: (each) => number(each.sequence) },
        { head: "Records of it", right: true, cell: (each) => number(each.records) },
        { head: "When", cell: (each) => when(each.at_ms) },
      ]} /></details>`}
  </section>`;
}

function Peek({ place, found, query, module, depot, count }) {
  const from = query.get("from") || "beginning";
  const part = query.get("partition") || "";
  const params = new URLSearchParams({ from, ...(part !== "" && { partition: part }) });
  const peeked = useData(`${place}/peek?${params}`, count);
  const look = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.currentTarget));
    go(["m", module, "depots", depot], { from: given.from.trim(), partition: given.partition });
  };
  const columns = [
    { head: "Partition", right: true, cell: (each) => each.partition },
    { head: "Offset", right: true, cell: (each) => number(each.offset) },
    ...found.fields.map((field) => ({ head: field.name, cell: (each) => html`<code>${line(each.record[field.name] ?? null, 120)}</code>` })),
  ];
  return html`<section class="card"><h2>Records</h2>
    <form class="row" onSubmit=${look}>
      <label>from <input name="from" key=${from} defaultValue=${from} size="22" title="beginning, an offset, or a time such as 2026-01-31T12:00:00Z" /></label>
      <label>partition <select name="partition" key=${part}><option value="">all</option>${found.end_offsets.map((_, at) => html`<option key=${at} selected=${part === String(at)}>${at}</option>`)}</select></label>
      <button>Look</button>
    </form>
    <${Failed} error=${peeked.error} />
    ${peeked.data && html`<${Table} label="Records" columns=${columns} rows=${peeked.data.records} rowKey=${(each) => `${each.partition} ${each.offset}`} empty="nothing from there on" />`}
  </section>`;
}

function Append({ place, found }) {
  const append = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    let record;
    try {
      record = objectOf(form, found.fields);
    } catch (error) {
      say(error.message, "bad", error.hint);
      return;
    }
    const told = await attempt("appended", () => post(`${place}/records`, record));
    if (told) {
      const [[part, [offset]]] = Object.entries(told.offsets);
      say(`it lies in partition ${part} at offset ${number(offset)}`);
    }
  };
  if (readOnly.value) return null;
  return html`<section class="card"><h2>Append a record</h2>
    <form onSubmit=${append}>
      <div class="form">${found.fields.map((each) => html`<${Field} key=${each.name} ...${each} />`)}</div>
      <${Change} class="main" type="submit">Append<//>
    </form></section>`;
}
