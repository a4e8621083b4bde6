"""Coral's page "Scaling out": 25 instances whose statistics drift apart, and agree again.

Five copies of a runtime, each with five instances of one actor. With calc-local every one counts
its own events, so ``scaling.1`` and ``scaling.2`` differ. After a thousand events over all copies
the batch state calculator lets one instance compute the statistics of all of them, as a Spark job
over the event log, and offers them to every instance.

    python examples/runtimes/scaling_out.py
"""

import json
import time
from pathlib import Path
from typing import Any

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.running import RunningRuntime
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats

DEFINITION = Path(__file__).with_name("scaling_out.json")


def averages(running: RunningRuntime, copy: int) -> list[float]:
    """What the instances of one copy say is the average."""
    shown = actor_stats(running, "meter", copy)["instances"]
    return [each["state"]["avg"] for each in shown]


def main(cluster: LocalCluster) -> tuple[dict[int, list[float]], Any, Any, RunningRuntime]:
    """Run it; what every instance says before and after the snapshot."""
    runtimes = Runtimes(cluster)
    runtimes.open()
    try:
        runtime = runtimes.start(runtimes.create(json.loads(DEFINITION.read_text())))
        running = runtimes.running(runtime)
        running.send("input", [{"amount": number} for number in range(900)])
        running.wait_all()
        before = {copy: averages(running, copy) for copy in range(1, 6)}
        print("copy 1 says", before[1])
        print("copy 2 says", before[2])
        running.send("input", [{"amount": number} for number in range(900, 1000)])
        running.wait_all()
        while actor_stats(running, "meter", 5)["instances"][4]["snapshot"] < 1:
            time.sleep(0.05)
        after = actor_stats(running, "meter")["instances"]
        print("after the snapshot", len(after), "instances say", after[0]["state"])
        return before, after, runtimes.snapshots(runtime)["actors"]["meter"], running
    finally:
        runtimes.close()


if __name__ == "__main__":
    with LocalCluster() as here:
        main(here)
