"""A sum per key: Atoll against Spark Structured Streaming, on the same records.

Both sides run alone, one after the other, each in a process of its own with a JVM of its own,
on two cores, with all their durability on. Records lie ready before the clock starts: as Parquet
files for the peer, in a depot for Atoll. A microbatch of both is one file's records. Atoll's
measure is what its topology reports for steps 1 to 5 of a microbatch, the peer's is its own
``triggerExecution``; medians after the warm-up, with the throughput by the wall clock and the
processor time of a microbatch beside (the steadier figure on a machine that has other work).

    python bench/keyed_sum.py --keys 100000 --json
    python bench/keyed_sum.py --keys 100000 --batch 2000 --batches 60 --warmup 20
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
import pyarrow.parquet as pq

from cpu import cpu_seconds
from records import SCHEMA, write_records
from sides import report_of

DEPOT_PARTITIONS = 2
CHECKED_KEYS = 2_000
TIMEOUT_SECONDS = 1_800


def declare(batch: int, columns: str | None = None) -> Any:
    """The module under test; ``columns`` says what runs the column steps, if it is to have any."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module("keyed-sum")
    events = module.depot("events", SCHEMA, partitions=DEPOT_PARTITIONS)
    options = {"depot.microbatch.max.records": batch // DEPOT_PARTITIONS}
    mb = module.microbatch("mb", options=options, columns=columns or "auto")
    sums = mb.pstate("sums", Map(int, int))
    rows = mb.source(events, start_from=start.beginning())
    if columns is not None:
        rows = rows.with_columns(w="v * 2 + 1").where("w % 3 = 0").select("k", "w AS v")
    rows.aggregate(sums["k"], agg.sum("v"))
    return module


def run_atoll(
    records: Path, batch: int, warmup: int, columns: str | None = None, engine: str = "spark"
) -> dict[str, Any]:
    """Append every file, then process them microbatch by microbatch."""
    import atoll

    files = sorted(records.glob("*.parquet"))
    with (
        tempfile.TemporaryDirectory(prefix="keyed-sum-") as root,
        atoll.LocalCluster(root, engine=engine) as cluster,
    ):
        app = cluster.deploy(declare(batch, columns))
        topology, depot = app.topology("mb"), app.depot("events")
        topology.pause()
        started = time.perf_counter()
        for file in files:
            depot.append(pq.read_table(file))
        append_seconds = time.perf_counter() - started
        topology.resume()
        topology.wait_processed(warmup * batch, timeout_seconds=TIMEOUT_SECONDS)
        warm, warm_cpu = time.perf_counter(), cpu_seconds()
        topology.wait_processed(len(files) * batch, timeout_seconds=TIMEOUT_SECONDS)
        seconds, cold_cpu = time.perf_counter() - warm, cpu_seconds()
        topology.pause()
        check(app.pstate("sums"), files, computed=columns is not None)
        measured = topology.recent_microbatches()[warmup:]
        return {
            "durations_ms": [each["total"] for each in measured],
            "phases_ms": measured,
            "records": [each["records"] for each in measured],
            "seconds": seconds,
            "cpu_seconds": None if warm_cpu is None or cold_cpu is None else cold_cpu - warm_cpu,
            "append_records_per_second": round(len(files) * batch / append_seconds),
        }


def check(sums: Any, files: list[Path], *, computed: bool = False) -> None:
    """Hold some thousand keys against a recount, so that what was measured is the whole work."""
    tables = [pq.read_table(file) for file in files]
    keys = np.concatenate([table["k"].to_numpy() for table in tables])
    values = np.concatenate([table["v"].to_numpy() for table in tables])
    if computed:
        values = values * 2 + 1
        keys, values = keys[values % 3 == 0], values[values % 3 == 0]
    totals = np.bincount(keys, weights=values).astype(np.int64)
    for key in np.unique(keys)[:: max(len(totals) // CHECKED_KEYS, 1)].tolist():
        if sums.get(key) != totals[key]:
            raise SystemExit(f"the sum of key {key} is {sums.get(key)}, not {totals[key]}")


def run_side(
    side: str, records: Path, batch: int, warmup: int, ours: list[str] | None = None
) -> dict[str, Any]:
    """One side in a process of its own; its report with the medians."""
    here = Path(__file__).parent
    if side == "peer":
        command = [str(here / "peer.py"), "--records", str(records), "--warmup", str(warmup)]
    else:
        command = [__file__, "--side", str(records), "--batch", str(batch), "--warmup", str(warmup)]
        command += ours or []
    report = report_of(side, command)
    wrong = [count for count in report["records"] if count != batch]
    if wrong or not report["records"]:
        raise SystemExit(f"{side} ran microbatches of {wrong or 'no'} records, not of {batch}")
    median = statistics.median(report["durations_ms"])
    first = report["phases_ms"][0]
    names = {name for name, value in first.items() if isinstance(value, int | float)}
    names -= {"id", "records", "version"}
    report["phases_ms"] = {
        name: round(statistics.median(each.get(name, 0) for each in report["phases_ms"]), 1)
        for name in sorted(names)
    }
    report["median_ms"] = round(median, 1)
    report["min_ms"] = round(min(report["durations_ms"]), 1)
    report["records_per_second"] = round(batch / median * 1000)
    report["wall_records_per_second"] = round(sum(report["records"]) / report["seconds"])
    if report["cpu_seconds"] is not None:
        used = report["cpu_seconds"] / len(report["records"])
        report["cpu_ms_per_microbatch"] = round(used * 1000, 1)
    report["load_average"] = round(os.getloadavg()[0], 2)
    return report


def main() -> None:
    """Run both sides and print how they compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000_000, help="records of a microbatch")
    parser.add_argument("--batches", type=int, default=10, help="microbatches after the warm-up")
    parser.add_argument("--warmup", type=int, default=20, help="microbatches that do not count")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["atoll", "peer"], help="run one side alone")
    parser.add_argument(
        "--columns",
        choices=["auto", "spark", "tasks"],
        help="column steps before the sum, and what runs them; for --only atoll",
    )
    parser.add_argument(
        "--engine", choices=["spark", "inline"], default="spark", help="what runs Atoll's tasks"
    )
    parser.add_argument("--side", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        settings = (arguments.batch, arguments.warmup, arguments.columns, arguments.engine)
        print(json.dumps(run_atoll(arguments.side, *settings)))
        return
    if arguments.columns and arguments.only != "atoll":
        parser.error("the peer has no column steps: --columns needs --only atoll")
    with tempfile.TemporaryDirectory(prefix="keyed-sum-records-") as folder:
        records = Path(folder)
        batches = arguments.warmup + arguments.batches
        write_records(records, arguments.keys, arguments.batch, batches)
        sides = [arguments.only] if arguments.only else ["atoll", "peer"]
        ours = ["--engine", arguments.engine]
        ours += ["--columns", arguments.columns] if arguments.columns else []
        result: dict[str, Any] = {
            "keys": arguments.keys,
            "batch": arguments.batch,
            **{
                side: run_side(side, records, arguments.batch, arguments.warmup, ours)
                for side in sides
            },
        }
    if not arguments.only:
        atoll, peer = result["atoll"], result["peer"]
        result["ratio"] = round(peer["median_ms"] / atoll["median_ms"], 2)
        if atoll["cpu_seconds"] and peer["cpu_seconds"]:
            result["cpu_ratio"] = round(peer["cpu_seconds"] / atoll["cpu_seconds"], 2)
    print(json.dumps(result) if arguments.json else table(result))


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [f"{result['keys']:,} keys, microbatches of {result['batch']:,} records"]
    for side in ("atoll", "peer"):
        if side in result:
            report = result[side]
            lines.append(
                f"  {side:6} median {report['median_ms']:>9,.1f} ms (best {report['min_ms']:,.1f})"
                f"  {report['records_per_second']:>11,} records/s"
                f"  (wall clock {report['wall_records_per_second']:,}/s,"
                f" {report.get('cpu_ms_per_microbatch', 0):,} ms on processors)"
            )
            lines.append(f"         {report['phases_ms']}")
    if "ratio" in result:
        lines.append(
            f"  Atoll is {result['ratio']} times as fast"
            f" ({result.get('cpu_ratio', 'unknown')} by processor time)"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
