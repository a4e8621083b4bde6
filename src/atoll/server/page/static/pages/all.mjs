/** All pages, in the order in which the page offers them. */
import { Cluster } from "./cluster.mjs";
import { Depots } from "./depots.mjs";
import { Events } from "./events.mjs";
import { Microbatches } from "./microbatches.mjs";
import { Options } from "./options.mjs";
import { Overview } from "./overview.mjs";
import { Queries } from "./queries.mjs";
import { Runtimes } from "./runtimes.mjs";
import { States } from "./states.mjs";
import { Topology } from "./topology.mjs";

/** @type {{path: string, title: string, view: any, ofModule: boolean}[]} */
export const PAGES = [
  { path: "overview", title: "Overview", view: Overview, ofModule: false },
  { path: "topology", title: "Topology", view: Topology, ofModule: true },
  { path: "microbatches", title: "Microbatches", view: Microbatches, ofModule: true },
  { path: "state", title: "State", view: States, ofModule: true },
  { path: "cluster", title: "Cluster", view: Cluster, ofModule: true },
  { path: "depots", title: "Depots", view: Depots, ofModule: true },
  { path: "queries", title: "Queries", view: Queries, ofModule: true },
  { path: "runtimes", title: "Runtimes", view: Runtimes, ofModule: false },
  { path: "options", title: "Options", view: Options, ofModule: true },
  { path: "events", title: "Events", view: Events, ofModule: true },
];
