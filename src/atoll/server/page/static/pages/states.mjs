/** PStates: what they hold, page by page, and how evenly it lies on the vnodes. */
import { of, post, useData } from "../lib/api.mjs";
import { say } from "../lib/ask.mjs";
import { line, number, size } from "../lib/format.mjs";
import { Copy, Facts, Failed } from "../lib/parts.mjs";
import { keysToPath, schemaText } from "../lib/paths.mjs";
import { go, link } from "../lib/route.mjs";
import { Table } from "../lib/table.mjs";
import { html, useState } from "../lib/ui.mjs";

const PAGE = 50;

export function States({ module, status, more, query }) {
  const [pstate] = more;
  const all = useData(`${of(module)}/pstates`, status.state);
  const names = all.data ? all.data.pstates : [];
  const chosen = pstate || names[0];
  return html`
    <h1>State</h1>
    <${Failed} error=${all.error} />
    ${all.data && names.length === 0 && html`<p>${module} has no PStates.</p>`}
    <div class="row">${names.map((name) => html`<a key=${name} class="tab" href=${link(["m", module, "state", name])} aria-current=${name === chosen ? "page" : null}>${name}</a>`)}</div>
    ${chosen && html`<${One} key=${chosen} ...${{ module, status, query }} pstate=${chosen} />`}
  `;
}

function One({ module, status, query, pstate }) {
  const about = useData(`${of(module)}/pstates/${encodeURIComponent(pstate)}`);
  const [live, setLive] = useState(true);
  const asked = {
    path: query.get("path") || "[]",
    start: query.get("start"),
    beyond: query.get("beyond") === "yes",
    back: query.get("back") === "yes",
    asOf: query.get("as_of") || "",
  };
  const spec = about.data;
  const topology = spec && status.topologies[spec.topology];
  const moved = live && topology && !asked.asOf ? topology.committed : 0;
  const body = `{"path":${asked.path},"limit":${PAGE},"beyond":${asked.beyond},"backwards":${asked.back}${asked.start ? `,"start":[${asked.start}]` : ""}}`;
  const place = `${of(module)}/pstates/${encodeURIComponent(pstate)}`;
  const walked = useData(`${place}/walk${asked.asOf ? `?as_of=${asked.asOf}` : ""}`, moved, body);
  const at = (wanted) => go(["m", module, "state", pstate], { as_of: asked.asOf, ...wanted });
  const to = (path) => link(["m", module, "state", pstate], { path, as_of: asked.asOf });
  return html`
    <${Failed} error=${about.error} />
    ${spec && html`<${About} ...${{ spec, module, place, moved }} />`}
    <form class="row" onSubmit=${(event) => { event.preventDefault(); enter(event.currentTarget, spec, at); }}>
      <label class="wider">Keys or a path <input name="keys" class="wider" placeholder='a / b, or [["key","a"]]' /></label>
      <label>From key <input name="from" size="10" /></label>
      <label>As of microbatch <input name="as_of" type="number" min="0" key=${asked.asOf} defaultValue=${asked.asOf} /></label>
      <button type="submit">Go</button>
      <label class="check"><input type="checkbox" checked=${live} disabled=${!!asked.asOf} onChange=${(e) => setLive(e.currentTarget.checked)} /> follow</label>
    </form>
    <${Failed} error=${walked.error} />
    ${walked.data && html`<${Place} ...${{ module, pstate, walked: walked.data, asked, at, to }} />`}
  `;
}

/** Go where the form says. */
function enter(form, spec, at) {
  const { keys, from, as_of: asOf } = Object.fromEntries(new FormData(form));
  try {
    const path = keys.trim() ? keysToPath(keys.trim(), spec.schema) : new URLSearchParams(location.hash.split("?")[1]).get("path") || "[]";
    const start = from.trim() ? keysToPath(from.trim(), spec.schema, path, true) : "";
    at({ path: path === "[]" ? "" : path, start, as_of: asOf });
    form.elements.keys.value = form.elements.from.value = "";
  } catch (error) {
    say(error.message, "bad", error.hint || "");
  }
}

function About({ spec, module, place, moved }) {
  const vnodes = useData(`${place}/vnodes`, moved);
  const [count, setCount] = useState("");
  const bytes = vnodes.data ? vnodes.data.bytes : [];
  const all = bytes.reduce((sum, each) => sum + each, 0);
  const most = Math.max(0, ...bytes);
  const skew = all ? (most * bytes.length) / all : 0;
  const tell = async () => {
    setCount("counting …");
    const { values } = await post(`${place}/select`, { path: [["size"]] }).catch((error) => ({ values: [error.message] }));
    setCount(number(values[0]));
  };
  return html`<section class="card">
    <${Facts} of=${[
      ["schema", html`<code>${schemaText(spec.schema)}</code>`],
      ["written by", html`<a href=${link(["m", module, "topology", spec.topology])}>${spec.topology}</a>`],
      ["vnodes", number(spec.vnode_count)],
      ["on disk", vnodes.data && size(all)],
      ["fullest vnode over the mean", skew ? skew.toFixed(2) : null],
      ["entries", /^\{"(map|set)"/.test(JSON.stringify(spec.schema)) ? count || html`<button class="plain" onClick=${tell}>count them</button>` : null],
    ]} />
    <${Failed} error=${vnodes.error} />
    ${bytes.length > 1 && html`<details open=${bytes.length <= 64}><summary>Skew by vnode</summary><${Heat} bytes=${bytes} units=${vnodes.data.units} most=${most} /></details>`}
  </section>`;
}

/** A cell for each vnode, darker the more it holds. */
function Heat({ bytes, units, most }) {
  const told = `${bytes.length} vnodes, ${size(most)} at most, ${size(Math.min(...bytes))} at least`;
  return html`<div class="heatmap" role="img" aria-label=${told}>
    ${bytes.map((each, vnode) => html`<i key=${vnode} title=${`vnode ${vnode}: ${size(each)}${units.length ? `, unit ${units[vnode]}` : ""}`}
      style=${{ opacity: (0.07 + 0.93 * (each / (most || 1))).toFixed(3) }}></i>`)}
  </div><p class="dim">${told}</p>`;
}

function Place({ module, pstate, walked, asked, at, to }) {
  const crumbs = walked.steps.map((step, index) => ({ step, path: `[${walked.steps.slice(0, index + 1).join(",")}]` }));
  const path = `[${walked.steps.join(",")}]`;
  const { entries } = walked;
  const paged = ["map", "set", "list"].includes(walked.kind);
  const page = (entry, back) => at({ path: asked.path, start: entry.key, beyond: "yes", back: back ? "yes" : "" });
  const before = asked.back ? walked.more : asked.start !== null;
  const after = asked.back ? true : walked.more;
  const below = (entry) => (entry.step ? to(`[${[...walked.steps, entry.step].join(",")}]`) : null);
  const columns = [
    { head: walked.kind === "struct" ? "Field" : walked.kind === "set" ? "Element" : walked.kind === "list" ? "At" : "Key",
      cell: (entry) => (below(entry) ? html`<a href=${below(entry)}>${line(entry.label, 100)}</a>` : line(entry.label, 400)) },
    ...(walked.kind === "set" ? [] : [
      { head: "Value", cell: (entry) => (entry.value === null ? html`<span class="dim">look into it</span>` : html`<code>${line(entry.value, 160)}</code>`) },
      { head: "Schema", cell: (entry) => html`<code class="dim">${line(entry.node, 60)}</code>` },
    ]),
  ];
  return html`<section class="card" aria-label="What is there">
    <p class="row crumbs"><a href=${to("")}>${pstate}</a>
      ${crumbs.map((each) => html`<span key=${each.path}>› <a href=${to(each.path)}>${line(JSON.parse(each.step)[0] === "nth" ? `at ${JSON.parse(each.step)[1]}` : each.step.replace(/^\["\w+",|\]$/g, ""), 60)}</a></span>`)}
      <span class="space"></span><span class="dim">as of microbatch ${number(walked.as_of)}</span></p>
    <div class="row">
      <code>${line(walked.node, 120)}</code> ${walked.count != null && html`<span>${number(walked.count)} entries</span>`}
      <span class="space"></span>
      <${Copies} ...${{ module, pstate, path }} python=${walked.python} asOf=${asked.asOf} />
    </div>
    ${walked.kind === "nothing" && html`<p>There is nothing here.</p>`}
    ${walked.kind === "value" && html`<pre class="value">${pretty(walked.value)}</pre>`}
    ${(paged || walked.kind === "struct") && html`<${Table} label="Entries" columns=${columns} rows=${entries} rowKey=${(entry) => entry.key} empty="no entries" />`}
    ${paged && entries.length > 0 && html`<div class="row end">
      <button disabled=${!before} onClick=${() => page(entries[0], true)}>Before</button>
      <button disabled=${!after} onClick=${() => page(entries[entries.length - 1], false)}>After</button>
    </div>`}
  </section>`;
}

/** JSON with line breaks; as it came where a number would lose digits. */
function pretty(text) {
  if (/\d{16}/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function Copies({ module, pstate, path, python, asOf }) {
  const as = asOf ? `.as_of(${asOf})` : "";
  const python_ = `app.pstate(${JSON.stringify(pstate)})${as}.select(path.${python})`;
  const curl = `curl -s -H 'content-type: application/json' -d ${quoted(`{"path":${path}}`)} ${quoted(`${location.origin}${of(module)}/pstates/${pstate}/select${asOf ? `?as_of=${asOf}` : ""}`)}`;
  const cli = `atoll query ${module} ${pstate} --path ${quoted(path)}${asOf ? ` --as-of ${asOf}` : ""}${location.port === "7410" ? "" : ` --url ${location.origin}`}`;
  return html`<span>copy <${Copy} label="Python" text=${python_} /><${Copy} label="curl" text=${curl} /><${Copy} label="command line" text=${cli} /></span>`;
}
