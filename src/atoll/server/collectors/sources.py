"""Metrics of sources, asked for at each scrape.

=============================  =======  ===================================================
metric                         type     labels
=============================  =======  ===================================================
atoll_source_state             gauge    module, depot, kind, state (1 for the present one)
atoll_source_records_total     counter  module, depot, kind
atoll_source_refused_total     counter  module, depot, kind
atoll_source_failures_total    counter  module, depot, kind
atoll_source_waiting           gauge    module, depot, kind, of (files, rows, versions)
=============================  =======  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from atoll.cluster.deploy.stopped import AppOrStopped

_LABELS = ("module", "depot", "kind")
_COUNTED = {
    "records": "Records that sources brought into depots.",
    "refused": "Records of sources that did not fit and were set aside.",
    "failures": "Turns of sources that failed.",
}


class SourceCollector(Collector):
    """Asks the sources of all modules how they are at each scrape."""

    def __init__(self, apps: Mapping[str, AppOrStopped]) -> None:
        self._apps = apps

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance, so that registering asks no module."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One family per metric, with all sources in it."""
        state = GaugeMetricFamily(
            "atoll_source_state", "1 for the state it is in.", labels=(*_LABELS, "state")
        )
        waiting = GaugeMetricFamily(
            "atoll_source_waiting",
            "What there was to be read at the last look.",
            labels=(*_LABELS, "of"),
        )
        counted = {
            name: CounterMetricFamily(f"atoll_source_{name}", text, labels=_LABELS)
            for name, text in _COUNTED.items()
        }
        for module, app in self._apps.items():
            if app.failure is not None:
                continue
            for depot, status in app.sources.status().items():
                labels = (module, depot, status["kind"])
                state.add_metric((*labels, status["state"]), 1)
                for name, family in counted.items():
                    family.add_metric(labels, status[name])
                lag = status["lag"] or {"waiting": None}
                if lag["waiting"] is not None:
                    waiting.add_metric((*labels, lag["of"]), lag["waiting"])
        return (state, *counted.values(), waiting)
