/** All pages, in the order in which the page offers them. */
import { Microbatches } from "./microbatches.mjs";
import { Overview } from "./overview.mjs";
import { States } from "./states.mjs";
import { Topology } from "./topology.mjs";

/** @type {{path: string, title: string, view: any, ofModule: boolean}[]} */
export const PAGES = [
  { path: "overview", title: "Overview", view: Overview, ofModule: false },
  { path: "topology", title: "Topology", view: Topology, ofModule: true },
  { path: "microbatches", title: "Microbatches", view: Microbatches, ofModule: true },
  { path: "state", title: "State", view: States, ofModule: true },
];
