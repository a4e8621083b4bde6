/** Queries: what they take, and asking them. */
import { Problem, of, useData } from "../lib/api.mjs";
import { proof } from "../lib/session.mjs";
import { Field, objectOf } from "../lib/forms.mjs";
import { millis } from "../lib/format.mjs";
import { Facts, Failed } from "../lib/parts.mjs";
import { schemaText } from "../lib/paths.mjs";
import { link } from "../lib/route.mjs";
import { html, useState } from "../lib/ui.mjs";

export function Queries({ module, status, more }) {
  const all = useData(`${of(module)}/queries`, status.state);
  const names = all.data ? all.data.queries : [];
  const query = more[0] || names[0];
  return html`
    <h1>Queries</h1>
    <${Failed} error=${all.error} />
    ${all.data && names.length === 0 && html`<p>${module} declares no queries.</p>`}
    <div class="row">${names.map((name) => html`<a key=${name} class="tab" href=${link(["m", module, "queries", name])} aria-current=${name === query ? "page" : null}>${name}</a>`)}</div>
    ${query && html`<${One} key=${query} ...${{ module, query }} />`}
  `;
}

function One({ module, query }) {
  const place = `${of(module)}/queries/${encodeURIComponent(query)}`;
  const about = useData(place);
  const [answer, setAnswer] = useState(null);
  const fields = about.data ? Object.entries(about.data.parameters).map(([name, schema]) => ({ name, type: schemaText(schema), nullable: /\?$|None$/.test(schemaText(schema)) })) : [];
  const put = async (event) => {
    event.preventDefault();
    const began = performance.now();
    try {
      const asked = `{"arguments":${objectOf(event.currentTarget, fields)}}`;
      const got = await fetch(place, { method: "POST", headers: { "content-type": "application/json", ...proof() }, body: asked });
      const text = await got.text();
      if (!got.ok) throw new Problem(JSON.parse(text));
      setAnswer({ text: text.slice('{"answer":'.length, -1), took: performance.now() - began, error: null });
    } catch (error) {
      setAnswer({ text: "", took: 0, error });
    }
  };
  if (!about.data) return html`<${Failed} error=${about.error} />`;
  const { returns } = about.data;
  return html`<section class="card">
    <${Facts} of=${[["returns", returns.column ? `column ${returns.column}` : "rows"], ["rows", returns.rows]]} />
    <form onSubmit=${put}>
      <div class="form">${fields.map((each) => html`<${Field} key=${each.name} ...${each} />`)}</div>
      <button class="main">Ask</button>
    </form>
    ${answer && html`<div aria-live="polite"><${Failed} error=${answer.error} />
      ${!answer.error && html`<p class="dim">answered in ${millis(answer.took)}, as one moment of the state</p><pre class="value">${pretty(answer.text)}</pre>`}</div>`}
  </section>`;
}

/** With line breaks; as it came where a number would lose digits. */
const pretty = (text) => (/\d{16}/.test(text) ? text : JSON.stringify(JSON.parse(text), null, 2));
