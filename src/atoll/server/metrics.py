"""Metrics for Prometheus: the topologies' at the moment of asking, and the service's own.

Nothing is pushed and nothing is kept in step: a scrape asks each module for its status.

=======================================  =========  ==============================================
metric                                   type       labels
=======================================  =========  ==============================================
atoll_microbatch_id                      gauge      module, topology
atoll_microbatch_version                 gauge      module, topology
atoll_topology_state                     gauge      module, topology, state (1 for the present one)
atoll_topology_processed_records_total   counter    module, topology
atoll_topology_records_per_second        gauge      module, topology
atoll_watermark_timestamp_seconds        gauge      module, topology, watermark
atoll_clock_behind_seconds               gauge      module, topology
atoll_topology_warnings                  gauge      module, topology, code
atoll_window_dropped_rows_total          counter    module, topology, window
atoll_step_duration_seconds              histogram  module, topology, step
atoll_operator_rows_total                counter    module, topology, operator, rows
atoll_operator_seconds_total             counter    module, topology, operator
atoll_unit_rows_total                    counter    module, topology, unit
atoll_unit_seconds_total                 counter    module, topology, unit
atoll_skew_ratio                         gauge      module, topology, of
atoll_vnode_openings_total               counter    module, topology, found
atoll_logs_applied_total                 counter    module, topology
atoll_actor_runs_total                   counter    module, topology, worker
atoll_jobs_total                         counter    module, topology, way
atoll_attempts_failed_total              counter    module, topology, code
atoll_plans_cut_total                    counter    module, topology
atoll_cluster_revision                   gauge      module
atoll_actors                             gauge      module, topology, fragment
atoll_depot_lag_records                  gauge      module, topology, depot, depot_partition
atoll_filling_records_left               gauge      module, topology
atoll_depot_end_offset                   gauge      module, depot, depot_partition
atoll_parcel_records_waiting             gauge      module, topology, depot (of another module)
atoll_sink_microbatches_waiting          gauge      module, topology, sink
atoll_sink_records_waiting               gauge      module, topology, sink
atoll_sink_oldest_timestamp_seconds      gauge      module, topology, sink (first that waits)
atoll_sink_written_microbatch            gauge      module, topology, sink
atoll_sink_written_timestamp_seconds     gauge      module, topology, sink
atoll_sink_failing                       gauge      module, topology, sink (1 while it is)
atoll_sink_failures_total                counter    module, topology, sink
atoll_http_requests_total                counter    route, method, status
atoll_http_request_duration_seconds      histogram  route
=======================================  =========  ==============================================
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atoll.cluster.deploy.stopped import AppOrStopped
from atoll.errors import AtollError
from atoll.logs import get_logger
from atoll.placement.info import ClusterInfo
from atoll.server.collectors.sinks import SinkFamilies
from atoll.server.collectors.sources import SourceCollector

_log = get_logger(__name__)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """The registry of one application."""

    def __init__(self, apps: Mapping[str, AppOrStopped]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ModuleCollector(apps))
        self._registry.register(SourceCollector(apps))
        self.requests = Counter(
            "atoll_http_requests",
            "Requests answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            "atoll_http_request_duration_seconds",
            "From the head of the request to the end of the answer.",
            ("route",),
            registry=self._registry,
            buckets=_SECONDS,
        )

    def add(self, collector: Collector) -> None:
        """Ask this one too at each scrape."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class RequestMetrics:
    """ASGI middleware that counts and times requests by route, never by path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note its status when it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        started_at = time.perf_counter()

        async def noting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.perf_counter() - started_at
            self._metrics.requests.labels(route, _method(scope["method"]), str(status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)


def _method(method: str) -> str:
    """Known methods only: a label must not be what a client makes up."""
    return method if method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} else "other"


class _ModuleCollector(Collector):
    """Asks the modules for their status at each scrape."""

    def __init__(self, apps: Mapping[str, AppOrStopped]) -> None:
        self._apps = apps

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance, so that registering asks no module."""
        return []

    def collect(self) -> Iterable[Metric]:
        """One family per metric, with all modules in it."""
        families = _Families()
        for name, app in self._apps.items():
            if app.failure is not None:
                families.add_stopped(name, app.topologies())
                continue
            try:
                for topology in app.topologies():
                    status = app.topology(topology).status()
                    families.add_topology(name, topology, status)
                    families.add_parcels(name, topology, status)
                    families.sinks.add(name, topology, status)
                families.add_cluster(name, app.cluster.info())
                for depot in app.depots():
                    families.add_depot(name, depot, app.depot(depot).end_offsets())
            except AtollError as error:  # one broken module must not hide the others
                _log.warning("metrics-incomplete", module=name, error=str(error))
        return families.all()


class _Families:
    """The metric families of one scrape."""

    def __init__(self) -> None:
        topology = ("module", "topology")
        partition = ("module", "depot", "depot_partition")
        self.id = GaugeMetricFamily(
            "atoll_microbatch_id", "The last committed microbatch.", labels=topology
        )
        self.version = GaugeMetricFamily(
            "atoll_microbatch_version",
            "Attempts at the present microbatch.",
            labels=topology,
        )
        self.state = GaugeMetricFamily(
            "atoll_topology_state", "1 for the state it is in.", labels=(*topology, "state")
        )
        self.processed = CounterMetricFamily(
            "atoll_topology_processed_records", "Records committed.", labels=topology
        )
        self.watermark = GaugeMetricFamily(
            "atoll_watermark_timestamp_seconds",
            "How far event time is, by watermark.",
            labels=(*topology, "watermark"),
        )
        self.behind = GaugeMetricFamily(
            "atoll_clock_behind_seconds",
            "For how long processing time stands still because the clock was ahead.",
            labels=topology,
        )
        self.warnings = GaugeMetricFamily(
            "atoll_topology_warnings",
            "What is wrong with a topology though it runs, by code.",
            labels=(*topology, "code"),
        )
        self.dropped = CounterMetricFamily(
            "atoll_window_dropped_rows",
            "Rows dropped because they lie in no open window of event time.",
            labels=(*topology, "window"),
        )
        self.rate = GaugeMetricFamily(
            "atoll_topology_records_per_second", "Records committed lately.", labels=topology
        )
        self.seconds = HistogramMetricFamily(
            "atoll_step_duration_seconds",
            "How long each step of the microbatches took that committed.",
            labels=(*topology, "step"),
        )
        self.operator_rows = CounterMetricFamily(
            "atoll_operator_rows",
            "Rows that operators took, made of them, left out by their own doing, and rejected.",
            labels=(*topology, "operator", "rows"),
        )
        self.operator_seconds = CounterMetricFamily(
            "atoll_operator_seconds",
            "How long tasks were at each operator.",
            labels=(*topology, "operator"),
        )
        self.unit_rows = CounterMetricFamily(
            "atoll_unit_rows", "Rows that came to the unit's actors.", labels=(*topology, "unit")
        )
        self.unit_seconds = CounterMetricFamily(
            "atoll_unit_seconds", "How long the unit's actors ran.", labels=(*topology, "unit")
        )
        self.skew = GaugeMetricFamily(
            "atoll_skew_ratio",
            "Of the last microbatch the most that came to one unit, over the mean of all.",
            labels=(*topology, "of"),
        )
        self.openings = CounterMetricFamily(
            "atoll_vnode_openings",
            "Vnode stores opened by actors, by how they were found.",
            labels=(*topology, "found"),
        )
        self.logs = CounterMetricFamily(
            "atoll_logs_applied",
            "Incremental logs that stores which were behind or absent needed.",
            labels=topology,
        )
        self.runs = CounterMetricFamily(
            "atoll_actor_runs",
            "Actors run, on the same worker as the last time or on an other one.",
            labels=(*topology, "worker"),
        )
        self.jobs = CounterMetricFamily(
            "atoll_jobs",
            "Jobs of attempts that succeeded, by what ran them.",
            labels=(*topology, "way"),
        )
        self.failed = CounterMetricFamily(
            "atoll_attempts_failed",
            "Attempts that failed, by the code of the error: E-SPARK-LOST when the JVM died.",
            labels=(*topology, "code"),
        )
        self.cuts = CounterMetricFamily(
            "atoll_plans_cut",
            "Microbatches cut smaller because they did not run as they were planned.",
            labels=topology,
        )
        self.revision = GaugeMetricFamily(
            "atoll_cluster_revision", "The revision of the cluster.", labels=("module",)
        )
        self.actors = GaugeMetricFamily(
            "atoll_actors", "Parallel units that run the fragment.", labels=(*topology, "fragment")
        )
        self.filling = GaugeMetricFamily(
            "atoll_filling_records_left",
            "Records of the past that are still to be filled into new PStates.",
            labels=topology,
        )
        self.lag = GaugeMetricFamily(
            "atoll_depot_lag_records",
            "Records appended and not yet committed.",
            labels=(*topology, "depot", "depot_partition"),
        )
        self.parcels = GaugeMetricFamily(
            "atoll_parcel_records_waiting",
            "Rows sent to a depot of another module and not taken yet.",
            labels=(*topology, "depot"),
        )
        self.sinks = SinkFamilies()
        self.end = GaugeMetricFamily(
            "atoll_depot_end_offset", "The offset after the last record.", labels=partition
        )

    def add_topology(self, module: str, topology: str, status: Mapping[str, Any]) -> None:
        """Take over one topology's status."""
        labels = (module, topology)
        self.id.add_metric(labels, status.get("committed") or 0)
        self.version.add_metric(labels, status.get("version") or 0)
        self.state.add_metric((*labels, str(status.get("state"))), 1)
        self.processed.add_metric(labels, status.get("processed") or 0)
        filling = status.get("filling") or {}
        self.filling.add_metric(labels, filling.get("records_left", 0))
        self.rate.add_metric(labels, status.get("records_per_second") or 0.0)
        time_of = status.get("time") or {}
        for name, millis in (time_of.get("watermarks") or {}).items():
            self.watermark.add_metric((*labels, name), millis / 1000)
        self.behind.add_metric(labels, (time_of.get("clock_behind_ms") or 0) / 1000)
        codes = [str(each["code"]) for each in status.get("warnings") or ()]
        for code in sorted(set(codes)):
            self.warnings.add_metric((*labels, code), codes.count(code))
        for name, count in (time_of.get("dropped") or {}).items():
            self.dropped.add_metric((*labels, name), count)
        self._add_telemetry(labels, status)
        for found, count in (status.get("opened_total") or {}).items():
            self.openings.add_metric((*labels, found), count)
        self.logs.add_metric(labels, status.get("logs_applied_total") or 0)
        counted = (("actor_runs", self.runs), ("jobs", self.jobs), ("attempts_failed", self.failed))
        for name, family in counted:
            for kind, count in (status.get(f"{name}_total") or {}).items():
                family.add_metric((*labels, kind), count)
        self.cuts.add_metric(labels, status.get("cuts_total") or 0)
        for depot, lags in (status.get("lag") or {}).items():
            for partition, lag in enumerate(lags):
                self.lag.add_metric((*labels, depot, str(partition)), lag)

    def add_parcels(self, module: str, topology: str, status: Mapping[str, Any]) -> None:
        """Take over what a topology has sent to other modules, of its status."""
        for depot, each in (status.get("parcels") or {}).items():
            self.parcels.add_metric((module, topology, depot), each["waiting_records"])

    def _add_telemetry(self, labels: tuple[str, str], status: Mapping[str, Any]) -> None:
        for step, told in (status.get("step_seconds") or {}).items():
            upto = [(end, float(count)) for end, count in told["upto"].items()]
            self.seconds.add_metric((*labels, step), upto, told["seconds"])
        for each in status.get("operators_total") or ():
            for kind in ("rows", "out", "dropped", "rejected"):
                word = "in" if kind == "rows" else kind
                self.operator_rows.add_metric((*labels, each["step"], word), each[kind])
            self.operator_seconds.add_metric((*labels, each["step"]), each["ms"] / 1000)
        for each in status.get("units_total") or ():
            unit = (*labels, str(each["unit"]))
            self.unit_rows.add_metric(unit, each["rows"])
            self.unit_seconds.add_metric(unit, each["ms"] / 1000)
        for of, ratio in (status.get("skew") or {}).items():
            self.skew.add_metric((*labels, of), ratio)

    def add_stopped(self, module: str, topologies: Iterable[str]) -> None:
        """Take over that a module does not run."""
        for topology in topologies:
            self.state.add_metric((module, topology, "stopped"), 1)

    def add_cluster(self, module: str, info: ClusterInfo) -> None:
        """Take over what runs where."""
        self.revision.add_metric((module,), info.revision)
        for fragment in info.fragments:
            labels = (module, fragment.topology, fragment.name)
            self.actors.add_metric(labels, len(fragment.units))

    def add_depot(self, module: str, depot: str, end_offsets: Iterable[int]) -> None:
        """Take over one depot's end offsets."""
        for partition, offset in enumerate(end_offsets):
            self.end.add_metric((module, depot, str(partition)), offset)

    def all(self) -> list[Metric]:
        """The families in the order of the module's docstring."""
        return [
            self.id,
            self.version,
            self.state,
            self.processed,
            self.watermark,
            self.behind,
            self.warnings,
            self.dropped,
            self.rate,
            self.seconds,
            self.operator_rows,
            self.operator_seconds,
            self.unit_rows,
            self.unit_seconds,
            self.skew,
            self.openings,
            self.logs,
            self.runs,
            self.jobs,
            self.failed,
            self.cuts,
            self.revision,
            self.actors,
            self.filling,
            self.lag,
            self.end,
            self.parcels,
            *self.sinks.all(),
        ]
