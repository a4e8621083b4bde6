"""How soon one record counts: from before it is appended until its value was read back.

One record at a time, each after the one before was seen. On Atoll's side the clock runs from
before ``append`` (which fsyncs) until ``wait_committed`` has returned and the value was read. On
the peer's it runs from before a file of one record is written until Structured Streaming has
handed the value to its sink, which is this process (``foreachBatch``): so nobody asks a second
query for it, and the commit that follows is not waited for. Its trigger is the shortest,
``processingTime`` 0, it is set up as in ``peer.py``, and files that it has read are removed, so
that its look into the folder stays short.

Each side runs alone in a process of its own with a JVM of its own, one after the other in one
run, and every value is checked against a recount. Three modules: a sum per key on 1, 4 and 16
parallel units, a bank transfer (two jobs: a debit, whose row goes to the key of the credit), and
the sum behind a step of columns.

    python bench/latency.py --json
    python bench/latency.py --records 100 --warmup 20 --only sum-4,transfer,peer
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cpu import cpu_seconds
from records import SCHEMA, SEED
from sides import report_of

MODULE = "latency"
UNITS = 4
"""Of the sides that do not say it by their names."""
DEPOT_PARTITIONS = 2
OPENING = 1_000_000
"""What each account has at first, so that every transfer is covered."""
TIMEOUT_SECONDS = 120.0
MARKS = {"median": 50, "p90": 90, "p99": 99, "max": 100}

SIDES = {
    "sum-1": "sum per key, 1 unit",
    "sum-4": "sum per key, 4 units",
    "sum-16": "sum per key, 16 units",
    "transfer": f"bank transfer, {UNITS} units",
    "columns": f"sum behind a column step, {UNITS} units",
    "peer": "Structured Streaming, sum per key",
}

PLAIN, PEER = f"sum-{UNITS}", "peer"

Step = Callable[[], tuple[float, bool]]
"""One record: the seconds that it took, and whether what was read is right."""

# Atoll --------------------------------------------------------------------------------------------


def declare_sums(*, columns: bool) -> Any:
    """A sum per key, with a step of Spark's columns before it or without."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    events = module.depot("events", SCHEMA, partitions=DEPOT_PARTITIONS)
    mb = module.microbatch("mb")
    sums = mb.pstate("sums", Map(int, int))
    rows = mb.source(events, start_from=start.beginning())
    if columns:
        rows = rows.with_columns(v="v * 10 div 10")
    rows.aggregate(sums["k"], agg.sum("v"))
    return module


def declare_transfers() -> Any:
    """Money that moves from one account to another, if there is enough."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    fields = "src long, dst long, amount long"
    deposits = module.depot("deposits", "user long, amount long", partitions=DEPOT_PARTITIONS)
    transfers = module.depot("transfers", fields, partition_by="src", partitions=DEPOT_PARTITIONS)
    mb = module.microbatch("mb")
    funds = mb.pstate("funds", Map(int, int))

    def debit(row: Any, funds: Any) -> Any:
        if funds.get(row.src, 0) >= row.amount:
            funds[row.src] -= row.amount
            yield row.asdict()

    def credit(row: Any, funds: Any) -> None:
        funds[row.dst] = funds.get(row.dst, 0) + row.amount

    mb.source(deposits, start_from=start.beginning()).aggregate(funds["user"], agg.sum("amount"))
    moved = mb.source(transfers, start_from=start.beginning()).process(
        debit, key="src", states=[funds], emits=fields
    )
    moved.process(credit, key="dst", states=[funds])
    return module


def sum_step(app: Any, keys: int) -> Step:
    """Adds to a random key."""
    generator, expected = random.Random(SEED), Counter[int]()
    depot, sums = app.depot("events"), app.pstate("sums")

    def step() -> tuple[float, bool]:
        key, value = generator.randrange(keys), generator.randrange(1, 1000)
        expected[key] += value
        began = time.perf_counter()
        depot.append({"k": key, "v": value})
        app.wait_committed("events", timeout_seconds=TIMEOUT_SECONDS)
        found = sums.get(key)
        return time.perf_counter() - began, found == expected[key]

    return step


def transfer_step(app: Any, keys: int) -> Step:
    """Moves money between two random accounts."""
    generator, expected = random.Random(SEED), dict.fromkeys(range(keys), OPENING)
    app.depot("deposits").append([{"user": user, "amount": OPENING} for user in expected])
    app.wait_committed("deposits", timeout_seconds=TIMEOUT_SECONDS)
    depot, funds = app.depot("transfers"), app.pstate("funds")

    def step() -> tuple[float, bool]:
        src, dst = generator.sample(range(keys), 2)
        amount = generator.randrange(1, 1000)
        expected[src] -= amount
        expected[dst] += amount
        began = time.perf_counter()
        depot.append({"src": src, "dst": dst, "amount": amount})
        app.wait_committed("transfers", timeout_seconds=TIMEOUT_SECONDS)
        found = funds.get(src), funds.get(dst)
        return time.perf_counter() - began, found == (expected[src], expected[dst])

    return step


def run_atoll(side: str, keys: int, records: int, warmup: int) -> dict[str, Any]:
    """One of Atoll's sides, and which way its jobs went."""
    import atoll

    kind, _, units = side.partition("-")
    module = declare_transfers() if kind == "transfer" else declare_sums(columns=kind == "columns")
    with (
        tempfile.TemporaryDirectory(prefix=f"{MODULE}-") as root,
        atoll.LocalCluster(root, parallelism=int(units or UNITS)) as cluster,
    ):
        app = cluster.deploy(module)
        make = transfer_step if kind == "transfer" else sum_step
        step = make(app, keys)
        before: Counter[str] = Counter()

        def warmed_up() -> None:
            before.update(app.topology("mb").status()["jobs_total"])

        report = measure(step, records, warmup, warmed_up)
        ways = Counter(app.topology("mb").status()["jobs_total"]) - before
        return {**report, "jobs": dict(ways)}


# The peer -----------------------------------------------------------------------------------------


def run_peer(keys: int, records: int, warmup: int) -> dict[str, Any]:
    """Structured Streaming, as fast as it begins microbatches."""
    from peer import start_session

    with tempfile.TemporaryDirectory(prefix=f"{MODULE}-peer-") as name:
        folder = Path(name)
        source = folder / "source"
        source.mkdir()
        session = start_session(folder)
        sink: queue.SimpleQueue[dict[int, int]] = queue.SimpleQueue()

        def hand_over(frame: Any, _: int) -> None:
            sink.put(dict(frame.collect()))

        stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        query = (
            stream.json(str(source))
            .groupBy("k")
            .sum("v")
            .writeStream.foreachBatch(hand_over)
            .outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            return measure(peer_step(folder, source, sink, keys), records, warmup, lambda: None)
        finally:
            query.stop()
            session.stop()


def peer_step(
    folder: Path, source: Path, sink: queue.SimpleQueue[dict[int, int]], keys: int
) -> Step:
    """Adds to a random key: a file of one record, renamed into the folder that the query reads."""
    generator, expected = random.Random(SEED), Counter[int]()
    given: list[Path] = []

    def step() -> tuple[float, bool]:
        key, value = generator.randrange(keys), generator.randrange(1, 1000)
        expected[key] += value
        name = f"{len(given):06d}.json"
        began = time.perf_counter()
        with (folder / name).open("w") as file:
            file.write(json.dumps({"k": key, "v": value}))
            file.flush()
            os.fsync(file.fileno())
        (folder / name).rename(source / name)
        found = sink.get(timeout=TIMEOUT_SECONDS)
        seconds = time.perf_counter() - began
        given.append(source / name)
        if len(given) > 1:
            given[-2].unlink()  # committed: the query has read the one after it
        return seconds, found == {key: expected[key]}

    return step


# What measures ------------------------------------------------------------------------------------


def measure(step: Step, records: int, warmup: int, warmed_up: Callable[[], None]) -> dict[str, Any]:
    """The seconds of each record after the warm-up, and of processors for one."""
    for _ in range(warmup):
        checked(step)
    warmed_up()
    warm = cpu_seconds()
    seconds = [checked(step) for _ in range(records)]
    cold = cpu_seconds()
    used = None if warm is None or cold is None else (cold - warm) / records
    return {"seconds": seconds, "cpu_seconds": used, "load_average": round(os.getloadavg()[0], 2)}


def checked(step: Step) -> float:
    """The seconds of a record whose value was read back."""
    seconds, right = step()
    if not right:
        raise SystemExit("the value that was read is not that of a recount")
    return seconds


def run_side(side: str, keys: int, records: int, warmup: int) -> dict[str, Any]:
    """One side in a process of its own; its report with the percentiles."""
    command = [__file__, "--side", side, "--keys", str(keys)]
    command += ["--records", str(records), "--warmup", str(warmup)]
    report = report_of(side, command)
    milliseconds = np.array(report.pop("seconds")) * 1000
    for name, mark in MARKS.items():
        report[f"{name}_ms"] = round(float(np.percentile(milliseconds, mark)), 1)
    used = report.pop("cpu_seconds")
    report["cpu_ms"] = None if used is None else round(used * 1000, 1)
    return report


def main() -> None:
    """Run the sides and print how they compare, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=1_000, help="of each side")
    parser.add_argument("--warmup", type=int, default=100, help="records that do not count")
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", help=f"some sides alone, of {','.join(SIDES)}")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    asked = arguments.keys, arguments.records, arguments.warmup
    if arguments.side is not None:
        run = run_peer(*asked) if arguments.side == PEER else run_atoll(arguments.side, *asked)
        print(json.dumps(run))
        return
    sides = arguments.only.split(",") if arguments.only else list(SIDES)
    unknown = set(sides) - SIDES.keys()
    if unknown:
        parser.error(f"there is no side {', '.join(sorted(unknown))}: use {', '.join(SIDES)}")
    result = {
        "records": arguments.records,
        "keys": arguments.keys,
        "sides": {side: run_side(side, *asked) for side in sides},
    }
    compare(result["sides"])
    print(json.dumps(result) if arguments.json else table(result))


def compare(sides: dict[str, dict[str, Any]]) -> None:
    """Add how many times the plain sum's median each takes, and the peer's how many times its."""
    for report in sides.values():
        if PLAIN in sides:
            report["to_sum"] = round(report["median_ms"] / sides[PLAIN]["median_ms"], 2)
        if PEER in sides:
            report["peer_ratio"] = round(sides[PEER]["median_ms"] / report["median_ms"], 2)


def table(result: dict[str, Any]) -> str:
    """The result for people, and for a page."""
    heads = ["", "median, ms", "p90", "p99", "worst", "processors, ms", "to the sum on 4 units"]
    heads += ["Structured Streaming takes", "jobs", "load"]
    lines = [
        f"{result['records']:,} records one after the other, {result['keys']:,} keys\n",
        "| " + " | ".join(heads) + " |",
        "|---|" + "---:|" * 7 + "---|---:|",
    ]
    for side, report in result["sides"].items():
        jobs = ", ".join(
            f"{count:,} {way}" for way, count in sorted(report.get("jobs", {}).items())
        )
        ratio = report.get("peer_ratio")
        cells = [
            SIDES[side],
            *(f"{report[f'{name}_ms']:,}" for name in MARKS),
            report["cpu_ms"],
            report.get("to_sum", ""),
            "" if ratio is None else f"{ratio} times as long",
            jobs or "its own",
            report["load_average"],
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
