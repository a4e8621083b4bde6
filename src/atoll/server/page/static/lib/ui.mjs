/** What every page draws with: elements as templates, hooks and signals. */
import { Fragment, h, render } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export { useEffect, useMemo, useRef, useState } from "../vendor/hooks.mjs";
export { computed, effect, signal } from "../vendor/signals.mjs";
export { Fragment, render };

export const html = htm.bind(h);
