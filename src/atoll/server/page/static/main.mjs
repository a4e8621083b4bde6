/** The page around the pages: where to go, which module, and whether the service is heard. */
import { Asked, attempt, cautious, readOnly, setReadOnly } from "./lib/ask.mjs";
import { remove } from "./lib/api.mjs";
import { again, connection, follow, modules, version } from "./lib/live.mjs";
import { go, link, route } from "./lib/route.mjs";
import { locked, session } from "./lib/session.mjs";
import { html, render, signal, useEffect } from "./lib/ui.mjs";
import { PAGES } from "./pages/all.mjs";
import { Login } from "./pages/login.mjs";

const THEMES = ["auto", "light", "dark"];
const theme = signal(localStorage.getItem("atoll.theme") || "auto");

function setTheme(wanted) {
  theme.value = wanted;
  localStorage.setItem("atoll.theme", wanted);
  dress();
}

function dress() {
  if (theme.value === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme.value;
}

/** The module that the address names, or the first. */
function moduleOf(parts, found) {
  const names = Object.keys(found);
  if (parts[0] === "m" && parts[1]) return parts[1];
  return names.find((each) => !found[each].runtime) || names[0] || "";
}

function Page() {
  const { parts, query } = route.value;
  const found = modules.value;
  const at = parts[0] === "m" ? parts[2] : parts[0];
  const page = PAGES.find((each) => each.path === at) || PAGES[0];
  const module = found ? moduleOf(parts, found) : "";
  const more = parts.slice(parts[0] === "m" ? 3 : 1);
  useEffect(() => {
    document.title = `${page.title}${page.ofModule && module ? ` · ${module}` : ""} · Atoll`;
  }, [page, module]);
  if (locked()) return html`<${Login} /><${Asked} />`;
  return html`
    <a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <header>
      <a class="brand" href="#/overview"><${Ring} /> Atoll</a>
      ${found && html`<${Modules} found=${found} module=${module} page=${page} />`}
      <span class="space"></span>
      <${Heard} />
      <${Who} />
      <label class="check"><input type="checkbox" checked=${readOnly.value} disabled=${readOnly.value && !cautious.value} onChange=${(e) => setReadOnly(e.currentTarget.checked)} /> read only</label>
      <select aria-label="Theme" value=${theme.value} onChange=${(e) => setTheme(e.currentTarget.value)}>
        ${THEMES.map((each) => html`<option key=${each}>${each}</option>`)}
      </select>
    </header>
    <nav aria-label="Pages">
      ${PAGES.filter((each) => !each.hidden).map(
        (each) => html`<a key=${each.path} href=${each.ofModule && module ? link(["m", module, each.path]) : link([each.path])}
          aria-current=${each === page ? "page" : null}>${each.title}</a>`,
      )}
    </nav>
    <main id="content" tabindex="-1">
      ${found === null
        ? html`<p class="pad">${connection.value.tries ? "The service does not answer." : "Loading …"}</p>`
        : page.ofModule && !found[module]
          ? html`<p class="pad">${module ? `There is no module ${module} here.` : "No module runs here yet."}</p>`
          : html`<${page.view} key=${`${page.path} ${module}`} module=${module} status=${found[module]} more=${more} query=${query} />`}
    </main>
    <${Asked} />
  `;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function Modules({ found, module, page }) {
  const choose = (event) => go(["m", event.currentTarget.value, page.ofModule ? page.path : "topology"]);
  return html`<label class="module"><span class="dim">module</span>
    <select aria-label="Module" value=${module} onChange=${choose}>
      ${Object.keys(found).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
    </select></label>`;
}

function Heard() {
  const { open, wait, tries } = connection.value;
  const text = open ? "live" : tries ? `no connection, trying again in ${wait} s` : "connecting";
  return html`<span class=${`heard ${open ? "good" : "warn"}`} role="status" title=${`Atoll ${version.value}`}>${text}</span>`;
}

/** Who is logged in, where the service asks. */
function Who() {
  const who = session.value;
  if (!who || !who.authentication) return null;
  const leave = async () => {
    await attempt("logged out", () => remove("/v1/session"));
    modules.value = null;
    again();
  };
  return html`<span class="who">${who.name} <span class="dim">${who.role}</span>
    <button class="plain" onClick=${leave}>log out</button></span>`;
}

const Ring = () => html`<svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
  <circle cx="16" cy="16" r="10.5" fill="none" stroke="var(--accent)" stroke-width="5" stroke-dasharray="46 5 10 5" />
  <circle cx="16" cy="16" r="3" fill="var(--warm)" />
</svg>`;

dress();
follow();
const root = document.getElementById("page");
root.textContent = "";
render(html`<${Page} />`, root);
