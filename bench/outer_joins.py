"""An outer join over microbatches: Atoll against Spark Structured Streaming, on the same records.

The left side has one row per key and is loaded first; then come right rows with random keys, so
many in each microbatch. What counts is a microbatch of these. Both sides run alone, one after the
other, each in a process of its own, on two cores, with all their durability on; records lie ready
before the clock starts. Atoll's measure is what its topology reports of a microbatch, the peer's
is its own ``triggerExecution``; medians.

What they do is not wholly the same. Atoll tells at once that a row without a partner is there, and
tells the change when it gets one; the peer tells such a row when time has passed in which none may
come any more, so it needs a bound of time (here one that is never reached), and never takes
anything back. What it does here is less, therefore: pairs, and what it keeps for later.
``changes_ms`` is a third figure, of Atoll alone, since the peer cannot do it: the right side is a
PState of the greatest value per key, so that values of rows change that came out before.

    python bench/outer_joins.py --json
    python bench/outer_joins.py --keys 100000 --batch 10000 --batches 5 --warmup 2
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sides import report_of

LEFT, RIGHT = "k long, v long, at timestamp", "k long, w long, seen timestamp"
DEPOT_PARTITIONS = 2
TIMEOUT_SECONDS = 1_800
SEED = 20_260
_BOUND = "INTERVAL 100 DAYS"


def write_records(folder: Path, keys: int, batch: int, batches: int) -> None:
    """The left rows, then the right ones, in files of one microbatch each."""
    dice = np.random.default_rng(SEED)
    ordered = dice.permutation(keys)
    for side, count in (("left", -(-keys // batch)), ("right", batches)):
        (folder / side).mkdir()
        for number in range(count):
            chosen = ordered[number * batch : (number + 1) * batch]
            if side == "right":
                chosen = dice.integers(0, keys, batch)
            value, time_column = ("v", "at") if side == "left" else ("w", "seen")
            micros = np.arange(len(chosen)) + 1_700_000_000_000_000
            table = pa.table(
                {
                    "k": chosen,
                    value: dice.integers(0, 1_000, len(chosen)),
                    time_column: pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
                }
            )
            file = folder / side / f"batch-{number:06d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def declare(batch: int, *, changes: bool) -> Any:
    """The module under test; with ``changes`` the values of the right side change."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module("outer-joins")
    left = module.depot("left", LEFT, partition_by="k", partitions=DEPOT_PARTITIONS)
    right = module.depot("right", RIGHT, partition_by="k", partitions=DEPOT_PARTITIONS)
    options = {"depot.microbatch.max.records": batch}
    mb = module.microbatch("mb", options=options)
    rows = mb.source(left, start_from=start.beginning()).select("k", "v")
    others = mb.source(right, start_from=start.beginning()).select("k", "w")
    if changes:
        greatest = mb.pstate("greatest", Map(int, int))
        others = others.aggregate(greatest["k"], agg.max("w")).changes()
    joined = rows.incremental_join(others, on="k", how="left")
    there = mb.pstate("there", int, initial=0)
    joined.aggregate(there, agg.sum("if(new IS NULL, 0, 1) - if(old IS NULL, 0, 1)"))
    return module


def run_atoll(records: Path, batch: int, warmup: int, *, changes: bool, engine: str) -> Any:
    """Load the left side, then take the right rows microbatch by microbatch."""
    import atoll

    files = sorted((records / "right").glob("*.parquet"))
    with (
        tempfile.TemporaryDirectory(prefix="outer-joins-") as root,
        atoll.LocalCluster(root, engine=engine) as cluster,
    ):
        app = cluster.deploy(declare(batch, changes=changes))
        topology = app.topology("mb")
        keys = 0
        for file in sorted((records / "left").glob("*.parquet")):
            keys += app.depot("left").append(pq.read_table(file)).count
        topology.wait_processed(keys, timeout_seconds=TIMEOUT_SECONDS)
        for number, file in enumerate(files, 1):
            app.depot("right").append(pq.read_table(file))
            topology.wait_processed(keys + number * batch, timeout_seconds=TIMEOUT_SECONDS)
        found = app.pstate("there").get()
        tables = [pq.read_table(file) for file in files]
        distinct = len(np.unique(np.concatenate([each["k"].to_numpy() for each in tables])))
        wanted = keys if changes else keys - distinct + batch * len(files)
        if found != wanted:
            raise SystemExit(f"the join has {found} rows, not {wanted}")
        measured = topology.recent_microbatches()[-len(files) :][warmup:]
    return {
        "durations_ms": [each["total"] for each in measured],
        "records": [each["records"] for each in measured],
    }


def run_peer(records: Path, warmup: int) -> Any:
    """The same by Structured Streaming: its files are given to it as it takes them."""
    from peer import start_session

    waiting = sorted((records / "right").glob("*.parquet"))
    with tempfile.TemporaryDirectory(prefix="outer-joins-peer-") as name:
        folder = Path(name)
        given = folder / "right"
        given.mkdir()
        session = start_session(folder)
        try:
            query = _peer_query(session, records / "left", given, folder / "checkpoint")
            query.processAllAvailable()
            for file in waiting:
                os.link(file, folder / file.name)
                (folder / file.name).rename(given / file.name)
                query.processAllAvailable()
            progress = [json.loads(each.json) for each in query.recentProgress]
            query.stop()
        finally:
            session.stop()
    done = [each for each in progress if each["sources"][1]["numInputRows"]]
    kept = done[-1]["stateOperators"][0]["numRowsTotal"]
    rows = sum(pq.read_metadata(file).num_rows for file in records.rglob("*.parquet"))
    if kept != rows:
        raise SystemExit(f"the peer keeps {kept} rows, not {rows}")
    measured = done[warmup:]
    return {
        "durations_ms": [each["durationMs"]["triggerExecution"] for each in measured],
        "records": [each["numInputRows"] for each in measured],
    }


def _peer_query(session: Any, left: Path, right: Path, checkpoint: Path) -> Any:
    """A left outer join of the two folders, bounded by a time that is never reached."""

    def read(schema: str, folder: Path, column: str, name: str) -> Any:
        files = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        rows = files.parquet(str(folder)).withWatermark(column, "1 hour")
        return rows.withColumnRenamed("k", f"{name}_k")

    from pyspark.sql import functions

    condition = f"left_k = right_k AND seen >= at - {_BOUND} AND seen <= at + {_BOUND}"
    rows, others = read(LEFT, left, "at", "left"), read(RIGHT, right, "seen", "right")
    joined = rows.join(others, functions.expr(condition), "left_outer")
    return (
        joined.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def report(side: str, records: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """One side in a process of its own; its report with the medians."""
    command = [__file__, "--side", side, "--records", str(records), "--engine", arguments.engine]
    command += ["--batch", str(arguments.batch), "--warmup", str(arguments.warmup)]
    found = report_of(side, command)
    if not found["records"] or set(found["records"]) != {arguments.batch}:
        raise SystemExit(f"{side} ran microbatches of {found['records'] or 'no'} records")
    found["median_ms"] = round(statistics.median(found["durations_ms"]), 1)
    found["ms_per_100000"] = round(found["median_ms"] * 100_000 / arguments.batch, 1)
    found["load_average"] = round(os.getloadavg()[0], 2)
    return found


def main() -> None:
    """Run the sides and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000, help="rows of the left side")
    parser.add_argument("--batch", type=int, default=100_000, help="records of a microbatch")
    parser.add_argument("--batches", type=int, default=10, help="microbatches that count")
    parser.add_argument("--warmup", type=int, default=5, help="microbatches that do not count")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["atoll", "changes", "peer"], help="run one side alone")
    parser.add_argument("--engine", choices=["spark", "inline"], default="spark")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--records", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        print(json.dumps(_measured(arguments)))
        return
    with tempfile.TemporaryDirectory(prefix="outer-joins-records-") as folder:
        records = Path(folder)
        count = arguments.warmup + arguments.batches
        write_records(records, arguments.keys, arguments.batch, count)
        sides = [arguments.only] if arguments.only else ["atoll", "changes", "peer"]
        result: dict[str, Any] = {"keys": arguments.keys, "batch": arguments.batch}
        began = time.perf_counter()
        result |= {side: report(side, records, arguments) for side in sides}
        result["seconds"] = round(time.perf_counter() - began, 1)
    if not arguments.only:
        result["ratio"] = round(result["peer"]["median_ms"] / result["atoll"]["median_ms"], 2)
    print(json.dumps(result) if arguments.json else table(result))


def _measured(arguments: argparse.Namespace) -> Any:
    settings = (arguments.records, arguments.batch, arguments.warmup)
    if arguments.side == "peer":
        return run_peer(arguments.records, arguments.warmup)
    changes = arguments.side == "changes"
    return run_atoll(*settings, changes=changes, engine=arguments.engine)


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"{result['keys']:,} keys, microbatches of {result['batch']:,} right rows"]
    names = {"atoll": "Atoll", "changes": "Atoll, right side of changes", "peer": "peer"}
    for side, name in names.items():
        if side in result:
            each = result[side]
            lines.append(
                f"  {name:29} median {each['median_ms']:>9,.1f} ms,"
                f" {each['ms_per_100000']:>9,.1f} ms per 100,000"
            )
    if "ratio" in result:
        lines.append(f"  Atoll is {result['ratio']} times as fast")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
