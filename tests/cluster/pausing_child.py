"""A process that runs a module of one topology without Spark, told what to do line by line.

``python pausing_child.py ROOT``. It says ``paused`` or ``running`` when it has begun; after each
line that it did, ``done``. So a test can kill it between any two, for real.
"""

from __future__ import annotations

import sys

import atoll
from atoll import LocalCluster, agg, start


def build(added: int = 0) -> atoll.Module:
    """Sums numbers, each with something added."""
    module = atoll.Module("resting")
    numbers = module.depot("numbers", "v long NOT NULL")
    mb = module.microbatch("mb", vnode_count=1)
    mb.source(numbers, start_from=start.beginning()).map(
        lambda row: {"v": row.v + added}, emits="v long"
    ).aggregate(mb.pstate("total", int, initial=0), agg.sum("v"))
    return module


def main(root: str) -> None:
    """Do as told."""
    with LocalCluster(root, engine="inline") as cluster:
        app = cluster.deploy(build())
        topology = app.topology("mb")
        print(topology.status()["state"], flush=True)
        for line in sys.stdin:
            match line.split():
                case ["append", value]:
                    app.depot("numbers").append([{"v": int(value)}])
                case ["wait", count]:
                    topology.wait_processed(int(count))
                case ["pause"]:
                    topology.pause()
                case ["resume"]:
                    topology.resume()
                case ["rollback", to]:
                    topology.rollback(int(to))
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
