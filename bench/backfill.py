"""What it costs to fill a new PState from the past while its topology goes on under load.

A topology sums by key and has read so many records. Then records come at a steady rate, and an
update adds a PState (a count by key) that is filled from all of the past. Measured:

- *gap*: the time between two commits of the topology with records, as its observer sees them: the
  median and the longest before the update, while it is filled, and around the join, in one life.
  The update itself, which any new version costs, is told apart. The longest while filling is
  divided by the median before.
- *fill*: from the answer of the update to the commit with which the PState joins, and the records
  filled a second.
- *fresh*: how long a module that has both from its first deployment takes for as many records, with
  nothing else to do, and what the fill takes of that.

In the end both states are equal to a plain count of all records.

    python bench/backfill.py                                    # 5,000,000 records, on Spark
    python bench/backfill.py --records 200000 --engine inline --rate 2000
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

SEED = 20_261
LOAD_BATCH = 250_000
RATE_PARTS = 20
"""So many appends a second."""
TIMEOUT_SECONDS = 3_600


def declare(*, more: bool, batch: int) -> Any:
    """The module, without or with the PState that is filled."""
    import atoll
    from atoll import agg, start

    module = atoll.Module("backfill")
    events = module.depot("events", "k long, v long", partitions=2)
    options = {"depot.microbatch.max.records": batch // 2}
    mb = module.microbatch("mb", options=options)
    rows = mb.source(events, start_from=start.beginning())
    sums = mb.pstate("sums", dict[int, int])
    rows.aggregate(sums["k"], agg.sum("v"))
    if more:
        counts = mb.pstate("counts", dict[int, int], backfill=True)
        rows.aggregate(counts["k"], agg.count())
    return module


class Records:
    """Records drawn with a fixed seed, and how often each key came."""

    def __init__(self, keys: int) -> None:
        """None yet."""
        self._generator = np.random.default_rng(SEED)
        self._keys = keys
        self.counts: Counter[int] = Counter()
        self.made = 0

    def table(self, count: int) -> pa.Table:
        """The next ones."""
        keys = self._generator.integers(0, self._keys, count)
        found, times = np.unique(keys, return_counts=True)
        self.counts.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
        self.made += count
        return pa.table({"k": keys, "v": self._generator.integers(0, 1000, count)})


class Commits:
    """When each microbatch of the topology committed; those of what fills are another's."""

    def __init__(self) -> None:
        """None yet."""
        self.at: list[float] = []

    def gaps(self, first: float, last: float) -> list[float]:
        """The times between commits in a time, in milliseconds."""
        at = [each for each in self.at if first <= each <= last]
        return [1000.0 * (b - a) for a, b in itertools.pairwise(at)]


def load(app: Any, records: Records, count: int) -> None:
    """Append so many, and wait for them."""
    receipt = None
    for begin in range(0, count, LOAD_BATCH):
        receipt = app.depot("events").append(records.table(min(LOAD_BATCH, count - begin)))
    app.wait(receipt, timeout_seconds=TIMEOUT_SECONDS)
    app.topology("mb").wait_processed(count, TIMEOUT_SECONDS)


class Load:
    """Appends at a steady rate, to whichever version runs."""

    def __init__(self, cluster: Any, records: Records, rate: int) -> None:
        """Nothing is appended yet."""
        self._cluster, self._records, self._rate = cluster, records, rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from atoll.errors import AtollError

        part = max(1, self._rate // RATE_PARTS)
        while not self._stop.wait(1.0 / RATE_PARTS):
            table = self._records.table(part)
            while True:
                try:
                    self._cluster.apps["backfill"].depot("events").append(table)
                    break
                except (AtollError, KeyError):  # one version takes the place of another
                    time.sleep(0.002)


def watch(app: Any, commits: Commits, stop: threading.Event) -> threading.Thread:
    """Note each commit of the running topology that readers see."""

    def run() -> None:
        topology = app.topology("mb")
        known = topology.published
        while not stop.is_set():
            topology.wait_published(known, stop.is_set, 0.5)
            if topology.published is not known:
                known = topology.published
                commits.at.append(time.monotonic())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def told(gaps: list[float]) -> dict[str, float]:
    """Median and longest."""
    if not gaps:
        return {"count": 0, "median_ms": 0.0, "longest_ms": 0.0}
    return {
        "count": len(gaps),
        "median_ms": round(statistics.median(gaps), 1),
        "longest_ms": round(max(gaps), 1),
    }


def filled(arguments: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Load, update under load, wait for the join."""
    import atoll

    records = Records(arguments.keys)
    with atoll.LocalCluster(root, engine=arguments.engine) as cluster:
        app = cluster.deploy(declare(more=False, batch=arguments.batch))
        load(app, records, arguments.records)
        with Load(cluster, records, arguments.rate):
            before, stop = Commits(), threading.Event()
            watch(app, before, stop)
            began = time.monotonic()
            time.sleep(arguments.seconds)
            stop.set()
            asked = time.monotonic()
            app = cluster.update(declare(more=True, batch=arguments.batch))
            updated = time.monotonic()
            during, stop = Commits(), threading.Event()
            watch(app, during, stop)
            app.topology("mb").wait_filled(TIMEOUT_SECONDS)
            joined = time.monotonic()
            time.sleep(arguments.seconds)
            stop.set()
        app.topology("mb").wait_processed(records.made, TIMEOUT_SECONDS)
        check(app, records)
    around = during.gaps(joined - 0.5, joined + arguments.seconds)
    return {
        "update_seconds": round(updated - asked, 2),
        "gap_before": told(before.gaps(began, asked)),
        "gap_filling": told(during.gaps(updated, joined - 0.5)),
        "gap_around_join": told(around),
        "fill_seconds": round(joined - updated, 2),
        "records_per_second": round(arguments.records / (joined - updated)),
    }


def fresh(arguments: argparse.Namespace, root: Path) -> float:
    """How long a fresh module takes for the same."""
    import atoll

    records = Records(arguments.keys)
    with atoll.LocalCluster(root, engine=arguments.engine) as cluster:
        app = cluster.deploy(declare(more=True, batch=arguments.batch))
        app.pause()
        for begin in range(0, arguments.records, LOAD_BATCH):
            app.depot("events").append(records.table(min(LOAD_BATCH, arguments.records - begin)))
        began = time.monotonic()
        app.resume()
        app.topology("mb").wait_processed(arguments.records, TIMEOUT_SECONDS)
        seconds = time.monotonic() - began
        check(app, records)
    return seconds


def check(app: Any, records: Records) -> None:
    """Hold the state against what was appended."""
    from atoll import path

    if dict(app.pstate("counts").select(path.all())) != dict(records.counts):
        raise SystemExit("the counts are not those of the records")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second meanwhile")
    parser.add_argument("--seconds", type=float, default=10.0, help="before and after")
    parser.add_argument("--engine", choices=("spark", "inline"), default="spark")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atoll-backfill-") as folder:
        found = filled(arguments, Path(folder) / "filled")
        found["fresh_seconds"] = round(fresh(arguments, Path(folder) / "fresh"), 2)
    found["fill_to_fresh"] = round(found["fill_seconds"] / found["fresh_seconds"], 2)
    median = found["gap_before"]["median_ms"] or 1.0
    found["longest_gap_filling_to_median_before"] = round(
        found["gap_filling"]["longest_ms"] / median, 2
    )
    found["median_gap_filling_to_before"] = round(found["gap_filling"]["median_ms"] / median, 2)
    if arguments.json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, value in found.items():
        sys.stdout.write(f"{name:38} {value}\n")


if __name__ == "__main__":
    main()
