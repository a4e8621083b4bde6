/** What happened to a module, newest first. */
import { of, useData } from "../lib/api.mjs";
import { when } from "../lib/format.mjs";
import { Failed } from "../lib/parts.mjs";
import { go } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html } from "../lib/ui.mjs";

const KINDS = [["", "all"], ["attempt", "failed attempts"], ["rollback", "rollbacks"], ["revision", "cluster revisions"], ["option", "options"], ["life", "lives"]];

export function Events({ module, status, query }) {
  const moved = Object.values(status.topologies).map((each) => `${each.state} ${each.timeline} ${each.attempts_failed} ${each.failed_attempts.length}`);
  const found = useData(`${of(module)}/story`, moved.join());
  const kind = query.get("kind") || "";
  const rows = found.data ? found.data.events.filter((each) => !kind || each.kind === kind) : [];
  const columns = [
    { head: "When", cell: (each) => when(each.at_ms) },
    { head: "Kind", cell: (each) => html`<span class=${each.kind === "attempt" ? "bad" : each.kind === "rollback" ? "warn" : "dim"}>${each.kind}</span>` },
    { head: "What", wide: true, cell: (each) => html`${each.text} ${each.code && html`<code>${each.code}</code>`}${each.hint && html`<br /><small><b>What to do:</b> ${each.hint}</small>`}` },
  ];
  return html`
    <h1>Events of ${module}</h1>
    <div class="row"><label>Kind <select value=${kind} onChange=${(e) => go(["m", module, "events"], { kind: e.currentTarget.value })}>
      ${KINDS.map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}</select></label>
      <button onClick=${found.again}>Look again</button></div>
    <${Failed} error=${found.error} />
    ${found.data && html`<${Table} label="Events" columns=${columns} rows=${rows} rowKey=${(each) => `${each.at_ms} ${each.text}`} empty="nothing of that kind" />`}
  `;
}
