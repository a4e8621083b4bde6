"""A driver whose JVM is killed: what goes on by itself, and what says that it cannot.

Prints one line per check that passed. It is a process of its own, for others share a session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from pyspark.sql import functions as fn
from pyspark.sql import types as ty

import atoll
from atoll import LocalCluster, Map, agg
from atoll.errors import SparkLostError
from atoll.spark.jvm.lives import lives

plus_one = fn.udf(lambda v: v + 1, ty.LongType())

module = atoll.Module("lives")
depot = module.depot("d", "k string, v long", partition_by="k")
summed = module.microbatch("summed")
sums = summed.pstate("sums", Map(str, int))
summed.source(depot).transform(lambda frame: frame.withColumn("v", plus_one("v"))).aggregate(
    sums["k"], agg.sum("v")
)
counted = module.microbatch("counted", columns="spark")
counts = counted.pstate("counts", Map(str, int))
counted.source(depot).where("v >= 0").aggregate(counts["k"], agg.count())


def _kill() -> None:
    listed = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,comm="],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (java,) = [line.split()[0] for line in listed.stdout.splitlines() if line.endswith("java")]
    os.kill(int(java), signal.SIGKILL)


def _append(app: atoll.App, first: int, count: int) -> None:
    app.depot("d").append([{"k": f"k{n % 5}", "v": n} for n in range(first, first + count)])
    for topology in ("summed", "counted"):
        app.topology(topology).wait_processed(first + count, timeout_seconds=240)


def main() -> None:
    """Kill it once, between two appends."""
    with LocalCluster() as cluster:
        app = cluster.deploy(module)
        _append(app, 0, 50)
        frame = app.dataframe("sums")
        _kill()
        _append(app, 50, 50)
        assert sum(app.pstate("sums").get().values()) == sum(range(1, 101))
        assert sum(app.pstate("counts").get().values()) == 100
        print("both topologies went on", flush=True)
        assert lives.restarts == 1
        assert app.topology("summed").status()["error"] is None
        print("one restart for both", flush=True)
        try:
            frame.collect()
        except SparkLostError:
            print("the old frame says why", flush=True)
        assert app.dataframe("sums").count() == 5
        print("a new frame reads", flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
