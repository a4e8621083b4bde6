"""A session of somebody else's with a single slot: whoever needs it gets it. Prints what it saw."""

from __future__ import annotations

import os
import sys
import time

import atoll
from atoll import Map, agg, path
from atoll.spark.datasource import AtollDataSource
from atoll.spark.jvm.java import find_java
from atoll.spark.standing.tasks import standing_tasks

ROWS = [{"k": n % 5, "v": n} for n in range(100)]
STAND_SECONDS_MAX = 60.0


def build(name, *, columns):
    """Sums of rows, with a column step or without."""
    module = atoll.Module(name)
    rows = module.depot("rows", "k long, v long", partition_by="k", partitions=2)
    mb = module.microbatch("mb", vnode_count=8, columns="spark")
    source = mb.source(rows)
    if columns:
        source = source.where("v >= 0").select("k", "v + 0 AS v")
    source.aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))
    return module


def one_round(app, rounds):
    """Append, wait and check; by what the job ran."""
    app.depot("rows").append(ROWS)
    app.topology("mb").wait_processed(rounds * len(ROWS), timeout_seconds=120)
    expected = {k: rounds * sum(row["v"] for row in ROWS if row["k"] == k) for k in range(5)}
    assert dict(app.pstate("sums").select(path.all())) == expected
    return app.topology("mb").status()["jobs"]


def main():
    """One topology stands; a DataFrame and then a column step want the slot."""
    os.environ.update(find_java().environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    session.dataSource.register(AtollDataSource)
    with atoll.LocalCluster(parallelism=2, session=session) as cluster:
        plain = cluster.deploy(build("plain", columns=False))
        standing = standing_tasks(session, seated=False)
        over = time.monotonic() + STAND_SECONDS_MAX
        while not standing.processes() and time.monotonic() < over:
            time.sleep(0.02)
        print("plain", *one_round(plain, 1))
        print("rows", plain.dataframe("sums").count())
        print("stand", len(standing.processes()))
        columns = cluster.deploy(build("columns", columns=True))
        for rounds in (1, 2):
            print("columns", *one_round(columns, rounds))
            print("plain", *one_round(plain, rounds + 1))
    session.stop()


if __name__ == "__main__":
    main()
