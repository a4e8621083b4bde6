"""A process that sends numbers to a runtime until it is killed; it says what was accepted."""

from __future__ import annotations

import logging
import sys

from metered import by_count, definition

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.runtimes import Runtimes


def main(root):
    """Send numbers one after the other, seven at a time, from where the intake ends."""
    logging.getLogger("atoll").addHandler(logging.NullHandler())
    cluster = LocalCluster(root, engine="inline")
    runtimes = Runtimes(cluster)
    runtimes.open()
    found = next(iter(runtimes), None) or runtimes.create(definition(by_count(10), copies=1))
    found = found if found.status == "running" else runtimes.start(found)
    running = runtimes.running(found)
    number = sum(1 for _ in numbers(running))
    while True:
        running.send("meter", [{"v": number + at} for at in range(7)])
        number += 7
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def numbers(running):
    """The numbers that the intake holds, in order."""
    import json

    depot = running.app.depot("intake")
    table = depot.read(0, depot.start_offsets()[0], depot.end_offsets()[0])
    rows = zip(table.column("kind").to_pylist(), table.column("body").to_pylist(), strict=True)
    return [json.loads(body)["v"] for kind, body in rows if kind == "trigger"]


if __name__ == "__main__":
    main(sys.argv[1])
