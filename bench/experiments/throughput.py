"""Throughput by parallelism: 1 to 16 parallel units, on work that computes and on work that waits.

*Computes* is the sum per key as it is: more units than cores share the standing tasks of the
cores. *Waits* is an emulation of a machine with as many cores as units: each record costs its
reading task a fixed time in which the processor rests, as a call to a service would, and there is
a standing task for each unit. What grows there is what the engine adds for each unit.

Of each kind one process and one deployment; the parallelism is changed live, up and down in turn,
and some microbatches of a backlog are timed by the clock each time. Medians of the turns. The sums
are held against a recount.

    python bench/experiments.py throughput --out build/experiments
    python bench/experiments.py throughput --units 1,2 --turns 1 --microbatches 3
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.common import TIMEOUT_SECONDS, inside, numbers, report_to, write_report
from records import SCHEMA, SEED

KINDS = ("computes", "waits")
PARTITIONS = 16
KEYS = 100_000
WARM = 2


def declare(wait_us: float, batch: int) -> Any:
    """A sum per key, behind a step that waits for each record if it is to."""
    import atoll
    from atoll import Map, agg, start

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            time.sleep(rows.num_rows * wait_us / 1e6)
            yield rows

    module = atoll.Module("throughput")
    events = module.depot("events", SCHEMA, partitions=PARTITIONS)
    options = {"depot.microbatch.max.records": max(1, batch // PARTITIONS)}
    mb = module.microbatch("mb", options=options)
    rows = mb.source(events, start_from=start.beginning())
    if wait_us:
        rows = rows.map_batches(wait, emits=SCHEMA)
    rows.aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))
    return module


class Backlog:
    """What was appended, and a recount of it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.topology = app.topology("mb")
        self.random = np.random.default_rng(SEED)
        self.sums = np.zeros(KEYS, np.int64)
        self.appended = 0

    def fill(self, count: int) -> None:
        """Append that many records, evenly over the depot partitions."""
        keys = self.random.integers(0, KEYS, count)
        values = self.random.integers(0, 1_000, count)
        self.sums += np.bincount(keys, values, KEYS).astype(np.int64)
        self.app.depot("events").append(pa.table({"k": keys, "v": values}))
        self.appended += count

    def turn(self, batch: int, microbatches: int) -> float:
        """Records a second, over some microbatches after two that do not count."""
        done = self.appended
        self.fill((microbatches + WARM) * batch)
        self.topology.resume()
        self.wait(done + WARM * batch)
        began = time.perf_counter()
        self.wait(self.appended)
        seconds = time.perf_counter() - began
        self.topology.pause()
        return microbatches * batch / seconds

    def wait(self, count: int) -> None:
        """Until so many records are processed."""
        self.topology.wait_processed(count, timeout_seconds=TIMEOUT_SECONDS)

    def check(self) -> None:
        """Hold the sums against the recount."""
        found = self.app.pstate("sums").get()
        if any(found.get(key, 0) != total for key, total in enumerate(self.sums.tolist())):
            raise SystemExit("the sums are not those of a recount")


def measure(kind: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Records a second by parallelism, of one kind."""
    import atoll
    from atoll.spark.session import cluster_session

    most = max(arguments.units)
    waits = kind == "waits"
    cores = len(os.sched_getaffinity(0))
    posts = most if waits else min(cores, most)
    session = cluster_session(f"local[{2 * most}]", {"spark.atoll.standing.posts": str(posts)})
    found: dict[int, list[float]] = {units: [] for units in arguments.units}
    with (
        tempfile.TemporaryDirectory(prefix="throughput-", ignore_cleanup_errors=True) as root,
        atoll.LocalCluster(root, parallelism=most, session=session) as cluster,
    ):
        wait_us = arguments.wait_us if waits else 0.0
        app = cluster.deploy(declare(wait_us, arguments.batch))
        backlog = Backlog(app)
        for turn in range(arguments.turns):
            for units in arguments.units if turn % 2 == 0 else reversed(arguments.units):
                app.cluster.set_parallelism("mb", str(units), timeout_seconds=TIMEOUT_SECONDS)
                found[units].append(backlog.turn(arguments.batch, arguments.microbatches))
        ways = app.topology("mb").status()["jobs_total"]
        backlog.check()
    one = statistics.median(found[arguments.units[0]])
    rows = [
        {
            "units": units,
            "records_per_second": round(statistics.median(each)),
            "microbatch_ms": round(arguments.batch / statistics.median(each) * 1_000, 1),
            "speed_up": round(statistics.median(each) / one, 2),
            "turns": [round(every) for every in each],
        }
        for units, each in found.items()
    ]
    return {"kind": kind, "posts": posts, "jobs": ways, "rows": rows}


def main() -> None:
    """Measure both kinds, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--batch", type=int, default=160_000, help="records of a microbatch")
    parser.add_argument("--microbatches", type=int, default=6, help="of a turn")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--wait-us", type=float, default=20.0, help="for each record")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"))
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        report_to(measure(arguments.inside, arguments))
        return
    kinds = [inside("throughput", kind) for kind in KINDS]
    given = {"batch": arguments.batch, "wait_us": arguments.wait_us, "cores": os.cpu_count()}
    write_report(arguments.out, "throughput", {**given, "kinds": kinds})
