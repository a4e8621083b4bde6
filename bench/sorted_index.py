"""A sorted index over values that rise and fall: what it costs per 100,000 changes.

A balance per key moves by random amounts. Three sides, each in a process of its own: Atoll with the
map of balances ranked, Atoll with the same map unranked, and Spark Structured Streaming. That one
has no sorted state; what it can is complete mode, which sorts all balances in every microbatch and
gives the first ten. It gives neither ranks nor quantiles while it runs. All keys are loaded first.
After each side's microbatches the reads are timed that only the ranked map has.

    python bench/sorted_index.py --json
    python bench/sorted_index.py --keys 20000 --changes 2000 --batches 3 --warmup 1
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from records import SCHEMA, SEED
from sides import report_of

SIDES = ("ranked", "plain", "peer")
TIMEOUT_SECONDS = 3_600
MIDDLE = 500
"""Amounts are from 0 to 999; what is added is that much less."""


def write_changes(folder: Path, keys: int, changes: int, batches: int) -> None:
    """A file with every key, then files of changes of random ones."""
    generator = np.random.default_rng(SEED)
    drawn = [np.arange(keys), *(generator.integers(0, keys, changes) for _ in range(batches))]
    for number, ids in enumerate(drawn):
        table = pa.table({"k": ids, "v": generator.integers(0, 1_000, len(ids))})
        pq.write_table(table, folder / f"batch-{number:06d}.parquet")


def declare(*, ranked: bool) -> Any:
    """The module under test."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module("sorted-index")
    events = module.depot("events", SCHEMA, partitions=2)
    mb = module.microbatch("mb")
    node = Map(int, int, ranked="-value") if ranked else Map(int, int)
    moved = agg.sum(f"v - {MIDDLE}")
    mb.source(events, start_from=start.beginning()).aggregate(
        mb.pstate("balances", node)["k"], moved
    )
    return module


def run_atoll(records: Path, warmup: int, engine: str, *, ranked: bool) -> dict[str, Any]:
    """Each file is one microbatch."""
    import atoll

    files = sorted(records.glob("*.parquet"))
    done = 0
    with (
        tempfile.TemporaryDirectory(prefix="sorted-index-") as root,
        atoll.LocalCluster(root, engine=engine) as cluster,
    ):
        app = cluster.deploy(declare(ranked=ranked))
        topology, depot = app.topology("mb"), app.depot("events")
        for file in files:
            rows = pq.read_table(file)
            topology.pause()
            depot.append(rows)
            done += rows.num_rows
            topology.resume()
            topology.wait_processed(done, timeout_seconds=TIMEOUT_SECONDS)
        measured = [each["total"] for each in topology.recent_microbatches()][1 + warmup :]
        state = app.pstate("balances")
        reads = _reads(state, files) if ranked else {}
    return {"durations_ms": measured, "reads_ms": reads}


def _reads(state: Any, files: list[Path]) -> dict[str, float]:
    """The median milliseconds of each kind of read; what they give is checked against a recount."""
    from atoll import path

    tables = [pq.read_table(file) for file in files]
    ids = np.concatenate([table["k"].to_numpy() for table in tables])
    amounts = np.concatenate([table["v"].to_numpy() for table in tables]) - MIDDLE
    balances = np.bincount(ids, weights=amounts).astype(np.int64)
    order = np.lexsort((np.arange(len(balances)), -balances))
    middle = (len(order) + 1) // 2 - 1
    asked = {
        "top 10": (path.top(10), [(int(k), int(balances[k])) for k in order[:10]]),
        "rank of a key": (path.rank_of(int(order[middle])), [middle]),
        "median": (
            path.quantile(0.5),
            [(int(order[middle]), int(balances[order[middle]]))],
        ),
    }
    taken = {}
    for name, (wanted, expected) in asked.items():
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            found = state.select(wanted)
            times.append((time.perf_counter() - begun) * 1000)
            if found != expected:
                raise SystemExit(f"{name} is {found}, not {expected}")
        taken[name] = round(statistics.median(times), 2)
    return taken


def run_peer(records: Path, warmup: int) -> dict[str, Any]:
    """Sums by key, sorted anew in every microbatch."""
    from pyspark.sql import functions as sf

    from peer import start_session

    with tempfile.TemporaryDirectory(prefix="sorted-index-peer-") as folder:
        session = start_session(Path(folder))
        sums = (
            session.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(records))
            .groupBy("k")
            .agg(sf.sum(sf.col("v") - MIDDLE).alias("balance"))
            .orderBy(sf.desc("balance"), "k")
            .limit(10)
        )
        query = (
            sums.writeStream.format("noop")
            .outputMode("complete")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start()
        )
        query.processAllAvailable()
        progress = [json.loads(each.json) for each in query.recentProgress]
        query.stop()
        session.stop()
    took = [each["durationMs"]["triggerExecution"] for each in progress if each["numInputRows"]]
    return {"durations_ms": took[1 + warmup :], "reads_ms": {}}


def main() -> None:
    """Run the sides and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100_000, help="of a microbatch")
    parser.add_argument("--batches", type=int, default=7, help="microbatches that count")
    parser.add_argument("--warmup", type=int, default=5, help="microbatches that do not")
    parser.add_argument("--engine", choices=["spark", "inline"], default="spark")
    parser.add_argument("--only", choices=SIDES, help="run one side alone")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--records", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.side == "peer":
        print(json.dumps(run_peer(asked.records, asked.warmup)))
        return
    if asked.side is not None:
        ranked = asked.side == "ranked"
        print(json.dumps(run_atoll(asked.records, asked.warmup, asked.engine, ranked=ranked)))
        return
    result: dict[str, Any] = {"keys": asked.keys, "changes": asked.changes}
    with tempfile.TemporaryDirectory(prefix="sorted-index-records-") as folder:
        write_changes(Path(folder), asked.keys, asked.changes, asked.warmup + asked.batches)
        for side in [asked.only] if asked.only else SIDES:
            command = [__file__, "--side", side, "--records", folder]
            command += ["--warmup", str(asked.warmup), "--engine", asked.engine]
            report = report_of(side, command)
            report["median_ms"] = round(statistics.median(report.pop("durations_ms")), 1)
            result[side] = report
    if not asked.only:
        ours = result["ranked"]["median_ms"]
        result["ratio_to_plain"] = round(ours / result["plain"]["median_ms"], 2)
        result["ratio_of_peer"] = round(result["peer"]["median_ms"] / ours, 2)
    print(json.dumps(result) if asked.json else json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
