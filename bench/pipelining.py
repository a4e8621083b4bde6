"""A sum per key with and without reading ahead, by how many records a microbatch takes.

One deployment, one backlog, standing tasks. For each size of a microbatch the option is switched
off and on in turn, several times in the same run, and each time a few microbatches are processed
by either; so both see the same state, the same machine and the same minutes. Measured is the
wall clock from commit to commit, since what is read ahead is no part of a microbatch's own steps,
and the processor time of all processes. Figures are medians over the turns, the ratio that of the
medians; the state is held against a recount at the end.

    python bench/pipelining.py --json > build/pipelining.json
    python bench/pipelining.py --sizes 100,10000 --turns 3 --microbatches 10
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from cpu import cpu_seconds
from records import SCHEMA, SEED

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
PARTITIONS = 2
PIPELINE = "topology.microbatch.pipeline"
RECORDS_MAX = "depot.microbatch.max.records"
APPEND_ROWS = 1_000_000
APPEND_BLOCK = 100_000
TIMEOUT_SECONDS = 1_800
SPARE = 4
"""Microbatches of backlog beyond what a turn measures, so that each of them has a next one."""


def declare() -> Any:
    """The module under test."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module("pipelining")
    events = module.depot("events", SCHEMA, partitions=PARTITIONS)
    mb = module.microbatch("mb")
    sums = mb.pstate("sums", Map(int, int))
    mb.source(events, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    return module


class Turns:
    """One running topology, and what was appended to it.

    Args:
        app: The module.
        keys: How many keys there are.
    """

    def __init__(self, app: Any, keys: int) -> None:
        self.app = app
        self.topology = app.topology("mb")
        self.depot = app.depot("events")
        self.sums = np.zeros(keys, np.int64)
        self.random = np.random.default_rng(SEED)
        self.appended = 0

    def fill(self, waiting: int) -> None:
        """Append until so many records wait, spread evenly over the depot partitions."""
        done = self.topology.status()["processed"]
        while self.appended - done < waiting:
            count = min(APPEND_ROWS, max(APPEND_BLOCK, waiting))
            keys = self.random.integers(0, len(self.sums), count)
            values = self.random.integers(0, 1_000, count)
            self.sums += np.bincount(keys, values, len(self.sums)).astype(np.int64)
            self.depot.append(pa.table({"k": keys, "v": values}))
            self.appended += count

    def turn(self, size: int, microbatches: int, *, piped: bool) -> dict[str, float]:
        """Some microbatches with the option or without: milliseconds of each, by two clocks."""
        self.fill((microbatches + 2 * SPARE) * size)
        self.app.options.set(PIPELINE, int(piped))
        before = self.topology.status()
        self.topology.resume()
        begin = before["processed"] + SPARE * size  # the first of them read nothing ahead
        self.wait(begin)
        began, used = time.perf_counter(), cpu_seconds()
        self.wait(begin + microbatches * size)
        seconds, after = time.perf_counter() - began, cpu_seconds()
        self.topology.pause()
        ahead = self.topology.status()["read_ahead"]["used"] - before["read_ahead"]["used"]
        if piped and ahead < microbatches:
            raise SystemExit(f"only {ahead} of {microbatches} microbatches were read ahead")
        cpu = 0.0 if used is None or after is None else after - used
        return {
            "ms": seconds * 1_000 / microbatches,
            "cpu_ms": cpu * 1_000 / microbatches,
        }

    def wait(self, count: int) -> None:
        """Until so many records are processed."""
        self.topology.wait_processed(count, timeout_seconds=TIMEOUT_SECONDS)

    def check(self) -> None:
        """Process the rest, and hold the sums against a recount."""
        self.app.options.set(RECORDS_MAX, 1_000_000)
        self.topology.resume()
        self.wait(self.appended)
        found = self.app.pstate("sums").get()
        if sum(found.values()) != self.sums.sum():
            raise SystemExit("the sums are not those of a recount")
        wrong = [key for key, total in found.items() if total != self.sums[key]]
        if wrong:
            raise SystemExit(f"the sums of {len(wrong)} keys are not those of a recount")


def measured(turns: Turns, size: int, count: int, microbatches: int) -> dict[str, Any]:
    """A row of the table: one size, both ways in turn."""
    turns.topology.pause()
    turns.app.options.set(RECORDS_MAX, size // PARTITIONS)
    turns.turn(size, microbatches, piped=False)  # warm, for this size
    found: dict[str, list[dict[str, float]]] = {"plain": [], "piped": []}
    for number in range(2 * count):
        way = "piped" if number % 4 in (1, 2) else "plain"  # a drift of the machine hits both
        found[way].append(turns.turn(size, microbatches, piped=way == "piped"))

    def median(way: str, name: str) -> float:
        return statistics.median(each[name] for each in found[way])

    row: dict[str, Any] = {"records": size}
    for way, turned in found.items():
        row[f"{way}_ms"] = round(median(way, "ms"), 2)
        row[f"{way}_cpu_ms"] = round(median(way, "cpu_ms"), 2)
        row[f"{way}_records_per_second"] = round(size / median(way, "ms") * 1_000)
        row[f"{way}_turns_ms"] = [round(each["ms"], 2) for each in turned]
    row["ratio"] = round(median("plain", "ms") / median("piped", "ms"), 3)
    row["load_average"] = round(os.getloadavg()[0], 2)
    return row


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All sizes in one life of the module."""
    import atoll

    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="pipelining-", ignore_cleanup_errors=True) as root,
        atoll.LocalCluster(root, engine=arguments.engine, parallelism=2) as cluster,
    ):
        turns = Turns(cluster.deploy(declare()), arguments.keys)
        for size in arguments.sizes:
            microbatches = max(3, min(arguments.microbatches, arguments.records_max // size))
            rows.append(measured(turns, size, arguments.turns, microbatches))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        turns.check()
    return {"keys": arguments.keys, "engine": arguments.engine, "rows": rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument(
        "--sizes", type=lambda text: [int(each) for each in text.split(",")], default=list(SIZES)
    )
    parser.add_argument("--turns", type=int, default=5, help="turns of each of the two")
    parser.add_argument("--microbatches", type=int, default=60, help="of a turn, at most")
    parser.add_argument("--records-max", type=int, default=8_000_000, help="of a turn, about")
    parser.add_argument("--engine", choices=["spark", "inline"], default="spark")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        print(json.dumps(run(arguments)))
        return
    command = [sys.executable, __file__, "--inside", *sys.argv[1:]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    report = json.loads(done.stdout.splitlines()[-1])
    if arguments.json:
        print(json.dumps(report))
        return
    for row in report["rows"]:
        print(
            f"{row['records']:>9,} records: {row['plain_ms']:8.2f} ms, reading ahead "
            f"{row['piped_ms']:8.2f} ms: {row['ratio']:.2f} times as fast"
        )


if __name__ == "__main__":
    main()
