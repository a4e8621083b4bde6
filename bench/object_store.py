"""What a root in an object store costs: requests, bytes and time of appends and microbatches.

Three places are compared: a folder; an object store (--root s3://..., as the environment says); and
an object store in memory that takes --milliseconds for each request, which is what the requests
themselves cost wherever the store is.

    python bench/object_store.py --root s3://bench/atoll --microbatches 50
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import atoll
from atoll import Map, agg
from atoll.storage.buckets.bucket import Bucket
from atoll.storage.buckets.opening import bucket_of, put_in_place
from atoll.storage.buckets.requests import COUNTS

KINDS = ("create", "put", "get", "head", "list", "delete")


class SlowBucket(Bucket):
    """A bucket that takes a while for each request, as one does that is far away."""

    def __init__(self, client: Any, seconds: float) -> None:
        super().__init__(client)
        self.seconds = seconds

    def __getattribute__(self, name: str) -> Any:
        """Wait before each request."""
        if name in {"put", "get", "beginning", "head", "token", "delete", "list", "folders"}:
            time.sleep(object.__getattribute__(self, "seconds"))
        return object.__getattribute__(self, name)


def module(pstates: int) -> atoll.Module:
    """Counts and sums by key, each in a PState of its own."""
    made = atoll.Module("measured")
    records = made.depot("records", "k long, v long", partition_by="k", partitions=2)
    mb = made.microbatch("mb")
    for number in range(pstates):
        state = mb.pstate(f"s{number}", Map(int, int))
        mb.source(records).aggregate(state["k"], agg.sum("v"))
    return made


def measure(root: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Appends and microbatches on one root, one after the other."""
    appends, microbatches = [], []
    rows = [{"k": number % 997, "v": 1} for number in range(arguments.records)]
    with atoll.LocalCluster(root, engine="inline", parallelism=arguments.units) as cluster:
        app = cluster.deploy(module(arguments.pstates))
        app.depot("records").append(rows)
        app.topology("mb").wait_processed(len(rows))
        before, counted = COUNTS.snapshot(), time.perf_counter()
        for number in range(2, arguments.microbatches + 2):
            began = time.perf_counter()
            app.depot("records").append(rows)
            appended = time.perf_counter()
            app.topology("mb").wait_processed(number * len(rows))
            appends.append(appended - began)
            microbatches.append(time.perf_counter() - appended)
        seconds, after = time.perf_counter() - counted, COUNTS.snapshot()
    each = {name: after.get(name, 0) - before.get(name, 0) for name in after}
    per = {name: round(each.get(name, 0) / arguments.microbatches, 2) for name in KINDS}
    return {
        "root": root.partition("://")[0] if "://" in root else "folder",
        "append_ms": _median_ms(appends),
        "microbatch_ms": _median_ms(microbatches),
        "seconds": round(seconds, 2),
        "requests_per_microbatch": {name: count for name, count in per.items() if count},
        "bytes_sent_per_microbatch": each.get("bytes_sent", 0) // arguments.microbatches,
    }


def _median_ms(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1000, 2)


def main() -> None:
    """Measure each place and print a line of JSON for it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", help="a prefix of a bucket to measure too; it is written to")
    parser.add_argument("--milliseconds", type=float, default=10.0, help="of a modelled request")
    parser.add_argument("--microbatches", type=int, default=50)
    parser.add_argument("--records", type=int, default=2_000, help="of each microbatch")
    parser.add_argument("--units", type=int, default=2)
    parser.add_argument("--pstates", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ATOLL_LOCAL", str(Path(folder) / "local"))
        modelled = f"memory://{uuid.uuid4().hex}"
        slow = SlowBucket(bucket_of(modelled).client, arguments.milliseconds / 1000)
        put_in_place(modelled, slow)
        roots = [str(Path(folder) / "root"), f"{modelled}/root"]
        if arguments.root:
            roots.append(f"{arguments.root}/{uuid.uuid4().hex}")
        for root in roots:
            sys.stdout.write(json.dumps(measure(root, arguments)) + "\n")


if __name__ == "__main__":
    main()
