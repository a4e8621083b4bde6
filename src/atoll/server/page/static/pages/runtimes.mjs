/** Runtimes: their actors as a graph, their copies, and sending events. */
import { post, useData } from "../lib/api.mjs";
import { attempt, readOnly, say } from "../lib/ask.mjs";
import { Drawing } from "../lib/drawing.mjs";
import { line, number } from "../lib/format.mjs";
import { modules } from "../lib/live.mjs";
import { Facts, Failed, State } from "../lib/parts.mjs";
import { go, link } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html, useState } from "../lib/ui.mjs";

export function Runtimes({ more, query }) {
  const all = useData("/api/runtimes", Object.keys(modules.value || {}).join());
  const found = all.data || [];
  const chosen = found.find((each) => each.id === more[0] || each.uniqueName === more[0]) || found[0];
  return html`
    <h1>Runtimes</h1>
    <${Failed} error=${all.error} />
    ${all.data && found.length === 0 && html`<p>There is no runtime: <code>atoll runtime create DEFINITION.json</code> makes one.</p>`}
    <div class="row">${found.map((each) => html`<a key=${each.id} class="tab" href=${link(["runtimes", each.uniqueName])} aria-current=${each === chosen ? "page" : null}>${each.uniqueName}</a>`)}</div>
    ${chosen && html`<${One} key=${chosen.id} runtime=${chosen} query=${query} />`}
  `;
}

function One({ runtime, query }) {
  const at = `/api/runtimes/${encodeURIComponent(runtime.uniqueName)}`;
  const live = (modules.value || {})[runtime.module];
  const moved = live ? Object.values(live.topologies).map((each) => each.committed).join() : "";
  const one = useData(at, moved);
  const stats = useData(runtime.status === "running" ? `${at}/stats` : null, moved);
  const calculator = useData(runtime.status === "running" ? `${at}/snapshots` : null, moved);
  const chosen = query.get("actor") || "";
  const definition = (one.data && one.data.json) || { actors: [], links: [] };
  return html`
    <${Failed} error=${one.error || stats.error || calculator.error} />
    ${one.data && one.data.error && html`<p class="note bad"><span>${one.data.error.message}<br /><small>${one.data.error.hint}</small></span></p>`}
    ${one.data && html`<section class="card">
      <${Facts} of=${[
        ["status", html`<${State} state=${one.data.status} />`],
        ["owner", one.data.owner],
        ["copies", number(one.data.copies)],
        ["started", one.data.starttime],
        ["state", html`<a href=${link(["m", runtime.module, "state"])}>look into it</a>`],
      ]} /></section>
      <${Actors} ...${{ definition, chosen }} choose=${(actor) => go(["runtimes", runtime.uniqueName], { actor }, true)} />
      ${chosen && definition.actors.some((each) => each.name === chosen) && html`<${Actor} key=${chosen} ...${{ at, actor: chosen, moved }} running=${runtime.status === "running"} />`}`}
    ${stats.data && html`<${Copies} stats=${stats.data} />`}
    ${calculator.data && html`<${Counters} told=${calculator.data} />`}
  `;
}

function Actors({ definition, chosen, choose }) {
  const boxes = definition.actors.map((each) => ({ id: each.name, kind: "step", label: each.name, under: each.type }));
  const names = new Set(boxes.map((each) => each.id));
  const arrows = (definition.links || []).filter(({ from, to }) => names.has(from) && names.has(to));
  return html`<${Drawing} label="Actors" boxes=${boxes} arrows=${arrows} chosen=${chosen} choose=${choose} />`;
}

function Actor({ at, actor, moved, running }) {
  const place = `${at}/actors/${encodeURIComponent(actor)}`;
  const about = useData(place);
  const stats = useData(running ? `${place}/stats` : null, moved);
  const [text, setText] = useState("{}");
  const [answer, setAnswer] = useState(null);
  const parsed = () => {
    try {
      return JSON.parse(text);
    } catch {
      say("the event is no JSON", "bad", 'write an object: {"amount": 1}');
      return null;
    }
  };
  const send = async () => parsed() && attempt("sent; it lies on disk", () => post(place, text));
  const shunt = async () => {
    if (!parsed()) return;
    setAnswer(await attempt("answered", () => post(`${place}/shunt`, text)));
  };
  return html`<section class="card"><h2>Actor ${actor}</h2>
    <${Failed} error=${about.error || stats.error} />
    ${about.data && html`<details><summary>Definition</summary><pre class="value">${JSON.stringify(about.data.actor, null, 2)}</pre></details>`}
    ${stats.data && html`<details open><summary>What it did, and its state</summary><pre class="value">${JSON.stringify(stats.data, null, 2)}</pre></details>`}
    ${running && !readOnly.value && html`<h3>Send an event</h3>
      <label class="dim">An object as JSON<textarea value=${text} onInput=${(e) => setText(e.currentTarget.value)}></textarea></label>
      <div class="row"><button class="main" onClick=${send}>Send</button><button onClick=${shunt} title="answers what the actor gives, and emits nothing">Shunt</button></div>
      ${answer && html`<pre class="value">${JSON.stringify(answer, null, 2)}</pre>`}`}
  </section>`;
}

function Copies({ stats }) {
  const rows = Object.entries(stats.copies || {});
  const keys = [...new Set(rows.flatMap(([, each]) => Object.keys(each)))].filter((key) => typeof rows[0][1][key] === "number");
  return html`<section class="card"><h2>Copies</h2>
    <${Table} label="Copies" rows=${rows} rowKey=${([copy]) => copy} columns=${[
      { head: "Copy", right: true, cell: ([copy]) => copy },
      ...keys.map((key) => ({ head: key, right: true, cell: ([, each]) => number(each[key]) })),
    ]} /></section>`;
}

/** The batch state calculator: how often each of its seven steps was taken, actor by actor. */
function Counters({ told }) {
  const rows = Object.entries(told.actors);
  if (!rows.length) return null;
  const columns = [
    { head: "Actor", cell: ([actor]) => actor },
    { head: "Mode", cell: ([, each]) => each.mode },
    ...Object.keys(rows[0][1].steps).map((step) => ({ head: step, right: true, cell: ([, each]) => number(each.steps[step]) })),
    { head: "Last", cell: ([, each]) => line(each.last, 100) },
  ];
  return html`<section class="card"><h2>Batch state calculator</h2>
    <${Table} label="Batch state calculator" rows=${rows} rowKey=${([actor]) => actor} columns=${columns} /></section>`;
}
