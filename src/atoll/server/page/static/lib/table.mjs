/** A table that keeps only the rows in the page that can be seen. */
import { html, useEffect, useRef, useState } from "./ui.mjs";

const ROW_PX = 33;
const WHOLE_MAX = 60;
const BEYOND = 10;

/**
 * @typedef {{head: any, cell: (row: any, at: number) => any, right?: boolean, wide?: boolean}} Column
 * @param {{columns: Column[], rows: any[], rowKey: (row: any) => any, chosen?: (row: any) => boolean, empty?: string, label?: string}} props
 */
export function Table({ columns, rows, rowKey, chosen, empty = "nothing yet", label }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const whole = rows.length <= WHOLE_MAX;
  useEffect(() => {
    if (!whole && box.current) setView({ top: box.current.scrollTop, height: box.current.clientHeight });
  }, [whole, rows.length]);
  const first = whole ? 0 : Math.max(0, Math.floor(view.top / ROW_PX) - BEYOND);
  const last = whole ? rows.length : Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + BEYOND);
  const scrolled = (event) =>
    setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight });
  const spacer = (count) =>
    count > 0 && html`<tr class="spacer" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${count * ROW_PX}px` }}></td></tr>`;
  return html`<div class=${whole ? "table" : "table windowed"} ref=${box} onScroll=${whole ? null : scrolled} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${rows.length + 1}>
      <thead><tr>${columns.map((each, at) => html`<th key=${at} scope="col" class=${each.right ? "right" : ""}>${each.head}</th>`)}</tr></thead>
      <tbody>
        ${spacer(first)}
        ${rows.slice(first, last).map(
          (row, at) => html`<tr key=${rowKey(row)} class=${chosen && chosen(row) ? "chosen" : ""}>
            ${columns.map((each, of) => html`<td key=${of} class=${`${each.right ? "right" : ""} ${each.wide ? "wide" : ""}`}>${each.cell(row, first + at)}</td>`)}
          </tr>`,
        )}
        ${spacer(rows.length - last)}
        ${rows.length === 0 && html`<tr><td class="dim" colspan=${columns.length}>${empty}</td></tr>`}
      </tbody>
    </table>
  </div>`;
}
