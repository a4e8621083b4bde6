"""A module whose state is told by plain arithmetic, for roots in object stores.

Run as a program it is a process that somebody kills: it appends numbers 1, 2, 3 ... to a root, each
under its own sequence number, and says on stdout what was acknowledged.
"""

from __future__ import annotations

import sys

import atoll
from atoll import Map, agg
from atoll.depot.producers.table import Producer


def counting(name: str = "counting") -> atoll.Module:
    """Counts and sums by key, over a key exchange, in one topology."""
    module = atoll.Module(name)
    numbers = module.depot("numbers", "k string, v long", partition_by="k", partitions=2)
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(str, int))
    total = mb.pstate("total", int, initial=0)
    mb.source(numbers).aggregate(counts["k"], agg.count())
    mb.source(numbers).aggregate(total, agg.sum("v"))
    return module


def rows(number: int) -> list[dict[str, object]]:
    """What append ``number`` holds."""
    return [{"k": f"k{number % 7}", "v": number}, {"k": "all", "v": 1}]


def expected(appended: int) -> tuple[int, dict[str, int]]:
    """The total and the counts after so many appends."""
    counts: dict[str, int] = {}
    total = 0
    for number in range(1, appended + 1):
        for row in rows(number):
            counts[str(row["k"])] = counts.get(str(row["k"]), 0) + 1
            total += int(str(row["v"]))
    return total, counts


def found(app: atoll.App) -> tuple[int, dict[str, int]]:
    """What the module holds."""
    counts = app.pstate("counts").get()
    return app.pstate("total").get(), dict(counts or {})


def append(app: atoll.App, number: int) -> None:
    """Append ``number``, as often as it takes, once."""
    producer = Producer("tests", sequence=number)
    app.depot("numbers").append(rows(number), producer=producer)


made = counting()

if __name__ == "__main__":
    with atoll.LocalCluster(sys.argv[1], engine="inline") as cluster:
        running = cluster.deploy(counting())
        last = running.depot("numbers").last_sequence("tests") or 0
        for at in range(last + 1, int(sys.argv[2]) + 1):
            append(running, at)
            sys.stdout.write(f"{at}\n")
            sys.stdout.flush()
        running.topology("mb").wait_processed(2 * int(sys.argv[2]), timeout_seconds=60)
        sys.stdout.write("done\n")
