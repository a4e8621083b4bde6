"""A process that runs module ``two`` on a root, for tests; it does what each line of stdin says."""

from __future__ import annotations

import os
import sys
import time

import cluster_per_module as old

from atoll.cluster.local import LocalCluster
from atoll.cluster.scaling.over_modules import RootCluster
from atoll.errors import StateError
from atoll.placement.reschedule.change import UnitChange


def _failing(*_, **__):
    raise StateError("it cannot")


def _waiting(*_, **__):
    time.sleep(600)


def _dying(*_, **__):
    os._exit(1)


def main(root):
    """Run it until stdin ends."""
    with LocalCluster(root, engine="inline", parallelism=3) as cluster:
        app = cluster.deploy(old.module("two"))
        done = 0
        _say("runs")
        for line in sys.stdin:
            what, _, rest = line.strip().partition(" ")
            said = "done"
            match what:
                case "append":
                    old.append(app, done, int(rest))
                    done += int(rest)
                case "check":
                    old.check(app, int(rest))
                case "units":  # where the topology itself runs
                    mapping = app._loops["mb"].status.state.placement.mappings[rest]
                    said = ",".join(map(str, mapping.unit_ids()))
                case "states":
                    said = ",".join(f"{w.name}:{w.state}" for w in cluster.whole.info().workers)
                case "uncordon":
                    cluster.whole.uncordon([int(rest)])
                case "fail":
                    app._loops["mb"].place = _failing
                case "hang":
                    app._loops["mb"].place = _waiting
                case "ask-and-die":  # all have agreed, and nobody learns of it
                    RootCluster._stand = _dying
                    changes = {int(n): UnitChange((), (0,)) for n in rest.split(",")}
                    revision = cluster.whole.info().revision
                    cluster.whole.reschedule(changes, revision=revision, timeout_seconds=2)
            _say(said)


def _say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
