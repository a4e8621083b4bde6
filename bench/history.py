"""What it costs to keep the state of the last seconds readable: processor time and disk.

A sum per key, as in ``keyed_sum.py``, with several values of ``pstate.history.seconds``, each in a
process of its own, one after the other and round by round. Disk is what lies there when the last
microbatch has committed: vnode stores (with the reverse logs) and the topology's files.

    python bench/history.py --keys 100000 --batch 1000000 --batches 40 --rounds 3
    python bench/history.py --keys 100000 --batch 2000 --batches 2000 --warmup 500
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

from cpu import cpu_seconds
from records import SEED
from sides import report_of

TIMEOUT_SECONDS = 1_800
_APPENDED = 1_000_000


def run_side(seconds: int, keys: int, batch: int, warmup: int, batches: int) -> dict[str, Any]:
    """Append everything, then process it, and look what it left."""
    import atoll
    from keyed_sum import declare

    count = (warmup + batches) * batch
    generator = np.random.default_rng(SEED)
    with (
        tempfile.TemporaryDirectory(prefix="history-") as root,
        atoll.LocalCluster(root) as cluster,
    ):
        app = cluster.deploy(declare(batch))
        app.options.set("pstate.history.seconds", seconds)
        topology, depot = app.topology("mb"), app.depot("events")
        topology.pause()
        total = 0
        for at in range(0, count, _APPENDED):
            size = min(_APPENDED, count - at)
            values = generator.integers(0, 1000, size)
            total += int(values.sum())
            depot.append(pa.table({"k": generator.integers(0, keys, size), "v": values}))
        topology.resume()
        topology.wait_processed(warmup * batch, timeout_seconds=TIMEOUT_SECONDS)
        warm, warm_cpu = time.perf_counter(), cpu_seconds()
        topology.wait_processed(count, timeout_seconds=TIMEOUT_SECONDS)
        took, used = time.perf_counter() - warm, cpu_seconds()
        topology.pause()
        status = topology.status()
        microbatches = status["committed"] - warmup
        found = sum(row["value"] for row in app.dataframe("sums").toLocalIterator())
        if found != total:
            raise SystemExit(f"the sums add up to {found}, not {total}")
        return {
            "microbatches": microbatches,
            "seconds": took,
            "cpu_ms": (used - warm_cpu) * 1000 / microbatches,
            "kept": status["committed"] - status["readable_from"],
            "stores_mb": _megabytes(Path(root) / "local"),
            "files_mb": _megabytes(Path(root) / "keyed-sum" / "mb"),
        }


def _megabytes(folder: Path) -> float:
    """What the files take on the disk; LMDB's are sparse."""
    return sum(each.stat().st_blocks * 512 for each in folder.rglob("*") if each.is_file()) / 1e6


def main() -> None:
    """Run every value in every round and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--history", type=int, nargs="+", default=[0, 10, 30])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = (chosen.keys, chosen.batch, chosen.warmup, chosen.batches)
    if chosen.side is not None:
        print(json.dumps(run_side(chosen.side, *sizes)))
        return
    shared = [
        f"--{name}={value}"
        for name, value in zip(("keys", "batch", "warmup", "batches"), sizes, strict=True)
    ]
    found: dict[int, list[dict[str, Any]]] = {seconds: [] for seconds in chosen.history}
    for number in range(chosen.rounds):
        order = chosen.history if number % 2 == 0 else chosen.history[::-1]
        for seconds in order:
            report = report_of(str(seconds), [__file__, "--side", str(seconds), *shared])
            found[seconds].append(report)
            print(seconds, {name: round(value, 1) for name, value in report.items()}, flush=True)
    for seconds, reports in found.items():
        medians = {name: statistics.median(each[name] for each in reports) for name in reports[0]}
        print("median", seconds, {name: round(value, 1) for name, value in medians.items()})


if __name__ == "__main__":
    main()
