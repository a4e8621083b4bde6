"""Metrics of runtimes, asked for at each scrape.

==================================  =======  ===================================================
metric                              type     labels
==================================  =======  ===================================================
atoll_runtime_events_total          counter  runtime, copy, actor, statistic
atoll_runtime_snapshot_steps_total  counter  runtime, actor, step (of the batch state calculator)
atoll_runtime_effects_waiting       gauge    runtime
==================================  =======  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.runtime.service.following import FollowedRuntimes
from atoll.runtime.service.registry import Registered
from atoll.runtime.service.runtimes import Runtimes

_log = get_logger(__name__)


class RuntimeCollector(Collector):
    """Asks the runtimes what they did at each scrape."""

    def __init__(self, runtimes: Runtimes | FollowedRuntimes) -> None:
        self._runtimes = runtimes

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance, so that registering asks no runtime."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One family per metric, with all runtimes in it."""
        events = CounterMetricFamily(
            "atoll_runtime_events",
            "What runtime actors did, by statistic.",
            labels=("runtime", "copy", "actor", "statistic"),
        )
        steps = CounterMetricFamily(
            "atoll_runtime_snapshot_steps",
            "How often each step of the batch state calculator was taken.",
            labels=("runtime", "actor", "step"),
        )
        waiting = GaugeMetricFamily(
            "atoll_runtime_effects_waiting",
            "Effects that were committed and not performed yet.",
            labels=("runtime",),
        )
        for each in self._runtimes:
            try:
                self._add(each, events, steps, waiting)
            except AtollError as error:  # it says why itself; the others are told all the same
                _log.warning("a runtime has no metrics", runtime=each.name, error=str(error))
        return (events, steps, waiting)

    def _add(
        self,
        runtime: Registered,
        events: CounterMetricFamily,
        steps: CounterMetricFamily,
        waiting: GaugeMetricFamily,
    ) -> None:
        name = runtime.unique_name
        for copy, actors in self._runtimes.seen(runtime).counters().items():
            for actor, counts in actors.items():
                for statistic, count in counts.items():
                    events.add_metric((name, str(copy), actor, statistic), count)
        for actor, shown in self._runtimes.snapshots(runtime)["actors"].items():
            for step, count in shown["steps"].items():
                steps.add_metric((name, actor, step), count)
        effects = self._runtimes.effects(runtime)
        if effects is not None:
            waiting.add_metric((name,), effects["waiting"])
