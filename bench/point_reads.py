"""Point reads of one key at a time from Python, while a topology commits to the same state.

One process runs the module and keeps appending, so that microbatches commit all the time. The
readers are processes of their own, which open the root by ``atoll.connect`` and read random keys:
first for throughput, then each read with a clock around it for the percentiles.

    python bench/point_reads.py --json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from records import SCHEMA

MODULE = "point-reads"
LOAD_BATCH = 500_000
CHUNK = 1_000
TIMEOUT_SECONDS = 600


def declare() -> Any:
    """The module under test: a counter per key."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    events = module.depot("events", SCHEMA, partitions=2)
    mb = module.microbatch("mb")
    sums = mb.pstate("sums", Map(int, int))
    mb.source(events, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    return module


def load(app: Any, keys: int) -> None:
    """Give every key the value 1."""
    depot = app.depot("events")
    for start in range(0, keys, LOAD_BATCH):
        ids = np.arange(start, min(start + LOAD_BATCH, keys))
        depot.append(pa.table({"k": ids, "v": np.ones(len(ids), np.int64)}))
    app.topology("mb").wait_processed(keys, timeout_seconds=TIMEOUT_SECONDS)


def keep_committing(app: Any, keys: int, batch: int, stop: threading.Event) -> None:
    """Append batches of random keys until told to stop, each after the last one's commit."""
    generator = np.random.default_rng(7)
    processed = keys
    while not stop.is_set():
        ids = generator.integers(0, keys, batch)
        app.depot("events").append(pa.table({"k": ids, "v": np.ones(batch, np.int64)}))
        processed += batch
        app.topology("mb").wait_processed(processed, timeout_seconds=TIMEOUT_SECONDS)


def read(root: Path, keys: int, seconds: float) -> dict[str, Any]:
    """One reader's throughput and percentiles."""
    import atoll

    state = atoll.connect(root, MODULE).pstate("sums")
    generator = random.Random(os.getpid())
    wanted = [generator.randrange(keys) for _ in range(50 * CHUNK)]
    for key in wanted:  # the first read of a vnode opens it
        check(key, state.get(key))
    reads = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        begin = reads % len(wanted)
        for key in wanted[begin : begin + CHUNK]:
            state.get(key)
        reads += CHUNK
    return {"reads_per_second": round(reads / elapsed), **latencies(state, wanted, seconds)}


def latencies(state: Any, wanted: list[int], seconds: float) -> dict[str, float]:
    """The percentiles of single reads, in microseconds."""
    clock = time.perf_counter_ns
    taken: list[int] = []
    until = clock() + int(seconds * 1e9)
    now = clock()
    while now < until:
        for key in wanted[:CHUNK]:
            before = clock()
            value = state.get(key)
            now = clock()
            taken.append(now - before)
            check(key, value)
    marks = {"p50": 50, "p99": 99, "p99.9": 99.9, "max": 100}
    return {
        f"{name}_us": round(float(np.percentile(taken, mark)) / 1000, 1)
        for name, mark in marks.items()
    }


def check(key: int, value: Any) -> None:
    """Every key was loaded, and only grows."""
    if not isinstance(value, int) or value < 1:
        raise SystemExit(f"key {key} reads {value!r}")


def run(keys: int, seconds: float, readers: int, batch: int) -> dict[str, Any]:
    """Load, then read while committing."""
    import atoll

    with (
        tempfile.TemporaryDirectory(prefix=f"{MODULE}-") as root,
        atoll.LocalCluster(root) as cluster,
    ):
        app = cluster.deploy(declare())
        load(app, keys)
        stop = threading.Event()
        writer = threading.Thread(target=keep_committing, args=(app, keys, batch, stop))
        writer.start()
        try:
            before = app.topology("mb").status()["committed"]
            started = time.perf_counter()
            command = [__file__, "--reader", root, "--keys", str(keys), "--seconds", str(seconds)]
            running = [
                subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
                for _ in range(readers)
            ]
            reports = [json.loads(each.communicate()[0].splitlines()[-1]) for each in running]
            elapsed = time.perf_counter() - started
            commits = app.topology("mb").status()["committed"] - before
        finally:
            stop.set()
            writer.join()
    return {
        "keys": keys,
        "readers": reports,
        "commits_per_second": round(commits / elapsed, 2),
        "load_average": round(os.getloadavg()[0], 2),
    }


def main() -> None:
    """Print each reader's figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each of the two measures")
    parser.add_argument("--readers", type=int, default=1, help="processes that read")
    parser.add_argument("--batch", type=int, default=2_000, help="records of a microbatch")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--reader", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader is not None:
        print(json.dumps(read(arguments.reader, arguments.keys, arguments.seconds)))
        return
    result = run(arguments.keys, arguments.seconds, arguments.readers, arguments.batch)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{arguments.keys:,} keys, {result['commits_per_second']} commits/s meanwhile")
    for report in result["readers"]:
        print(
            f"  {report['reads_per_second']:>9,} reads/s, p50 {report['p50_us']} us, "
            f"p99 {report['p99_us']} us, p99.9 {report['p99.9_us']} us, max {report['max_us']} us"
        )


if __name__ == "__main__":
    main()
