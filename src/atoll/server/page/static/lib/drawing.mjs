/** A graph laid out from left to right, as SVG that can be walked with the keyboard. */
import * as dagre from "../vendor/dagre.mjs";
import { html, useMemo } from "./ui.mjs";

const LETTER_PX = 7.4;
const HEIGHT_PX = 42;

/**
 * @typedef {{id: string, kind: string, label: string, under?: string, heat?: number | null}} Box
 * @typedef {{from: string, to: string, label?: string}} Arrow
 * @param {Box[]} boxes
 * @param {Arrow[]} arrows
 */
function layout(boxes, arrows) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 64, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, label, under = "" } of boxes) {
    const width = Math.max(label.length, under.length * 0.86) * LETTER_PX + 24;
    graph.setNode(id, { width, height: HEIGHT_PX });
  }
  for (const { from, to } of arrows) graph.setEdge(from, to, {}, `${from} ${to}`);
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width,
    height,
    places: new Map(boxes.map(({ id }) => [id, graph.node(id)])),
    curves: arrows.map(({ from, to }) => graph.edge(from, to, `${from} ${to}`).points),
  };
}

const curve = (points) => {
  const [first, ...rest] = points;
  const last = rest[rest.length - 1];
  const middle = rest.slice(0, -1).map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`);
  return `M${first.x.toFixed(1)},${first.y.toFixed(1)} ${middle.length ? `L${middle.join(" L")}` : ""} L${last.x.toFixed(1)},${last.y.toFixed(1)}`;
};

/**
 * @param {{boxes: Box[], arrows: Arrow[], chosen: string, choose: (id: string) => void, label: string}} props
 *   `heat` of a box, from 0 to 1, colours it.
 */
export function Drawing({ boxes, arrows, chosen, choose, label }) {
  const shape = JSON.stringify([boxes.map(({ id, label: text, under }) => [id, text, (under || "").length]), arrows.map(({ from, to }) => [from, to])]);
  const { width, height, places, curves } = useMemo(() => layout(boxes, arrows), [shape]);
  const key = (event, id) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(id);
  };
  return html`<div class="drawing" tabindex="0" role="region" aria-label=${label}>
    <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${label}>
      <defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8" /></marker></defs>
      ${arrows.map((each, at) => {
        const points = curves[at];
        const middle = points[Math.floor(points.length / 2)];
        return html`<g key=${`${each.from} ${each.to}`} class="arrow">
          <path d=${curve(points)} marker-end="url(#tip)" />
          ${each.label && html`<text x=${middle.x} y=${middle.y - 5}>${each.label}</text>`}
        </g>`;
      })}
      ${boxes.map((each) => {
        const { x, y, width: wide, height: high } = places.get(each.id);
        return html`<g key=${each.id} class=${`box ${each.kind} ${each.id === chosen ? "chosen" : ""}`} tabindex="0" role="button"
          aria-pressed=${each.id === chosen} aria-label=${`${each.kind} ${each.label} ${each.under || ""}`}
          transform=${`translate(${(x - wide / 2).toFixed(1)},${(y - high / 2).toFixed(1)})`}
          onClick=${() => choose(each.id)} onKeyDown=${(event) => key(event, each.id)}>
          <rect width=${wide} height=${high} rx=${each.kind === "depot" ? high / 2 : 5} />
          ${each.heat != null && html`<rect class="heat" width=${wide} height=${high} rx=${each.kind === "depot" ? high / 2 : 5} style=${{ fillOpacity: (0.08 + 0.72 * each.heat).toFixed(3) }} />`}
          <text x=${wide / 2} y=${each.under ? 18 : 26}>${each.label}</text>
          ${each.under && html`<text class="under" x=${wide / 2} y="33">${each.under}</text>`}
        </g>`;
      })}
    </svg>
  </div>`;
}
