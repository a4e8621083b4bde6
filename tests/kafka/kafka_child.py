"""A process that brings numbers from one topic to another, until somebody kills it.

Arguments: the root, the brokers, the topic to read, the topic to write. It goes on where an earlier
run of it stopped, says ``running`` when it does, and ends when its input ends.
"""

from __future__ import annotations

import sys

import atoll
from atoll import Kafka, Map, Module, agg, start
from atoll.sinks import KafkaTopic


def build(brokers: str, source: str, target: str) -> Module:
    """Numbers by key, counted on the way, each passed on once."""
    module = Module("through")
    kafka = Kafka(brokers, source, key="k", malformed="stop")
    numbers = module.depot("numbers", "k string, n long NOT NULL", kafka=kafka)
    mb = module.microbatch("mb")
    counts = mb.pstate("counts", Map(str, int))
    rows = mb.source(numbers, start_from=start.beginning())
    rows.aggregate(counts["k"], agg.count())
    rows.write_to(KafkaTopic(brokers, target, key="k"), name="out")
    return module


def main() -> None:
    """Run until the input ends."""
    root, brokers, source, target = sys.argv[1:]
    with atoll.LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(build(brokers, source, target))
        print("running", flush=True)
        sys.stdin.read()
        counts = dict(app.pstate("counts").select(atoll.path.all()))
        print(sorted(counts.items()), flush=True)


if __name__ == "__main__":
    main()
