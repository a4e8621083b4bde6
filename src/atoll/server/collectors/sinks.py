"""What Prometheus is told of sinks: how far each is behind, and whether it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

_LABELS = ("module", "topology", "sink")


class SinkFamilies:
    """The metric families of one scrape."""

    def __init__(self) -> None:
        self.microbatches = GaugeMetricFamily(
            "atoll_sink_microbatches_waiting",
            "Microbatches whose rows are not yet written.",
            labels=_LABELS,
        )
        self.records = GaugeMetricFamily(
            "atoll_sink_records_waiting", "Rows that are not yet written.", labels=_LABELS
        )
        self.oldest = GaugeMetricFamily(
            "atoll_sink_oldest_timestamp_seconds",
            "When the first of what waits was committed; 0 for none.",
            labels=_LABELS,
        )
        self.written = GaugeMetricFamily(
            "atoll_sink_written_microbatch", "The last microbatch written.", labels=_LABELS
        )
        self.written_at = GaugeMetricFamily(
            "atoll_sink_written_timestamp_seconds", "When that was.", labels=_LABELS
        )
        self.failing = GaugeMetricFamily(
            "atoll_sink_failing", "1 while it cannot be written.", labels=_LABELS
        )
        self.failures = CounterMetricFamily(
            "atoll_sink_failures", "Tries that failed, since the module began.", labels=_LABELS
        )

    def add(self, module: str, topology: str, status: Mapping[str, Any]) -> None:
        """Take over the sinks of a topology's status."""
        for name, told in (status.get("sinks") or {}).items():
            labels, last = (module, topology, name), told["last_written"]
            self.microbatches.add_metric(labels, told["waiting_microbatches"])
            self.records.add_metric(labels, told["waiting_records"])
            self.oldest.add_metric(labels, told["oldest_ms"] / 1000)
            self.written.add_metric(labels, last["microbatch"])
            self.written_at.add_metric(labels, last["at_ms"] / 1000)
            self.failing.add_metric(labels, told["error"] is not None)
            self.failures.add_metric(labels, told["failures"])

    def all(self) -> list[Metric]:
        """All of them."""
        return [
            self.microbatches,
            self.records,
            self.oldest,
            self.written,
            self.written_at,
            self.failing,
            self.failures,
        ]
