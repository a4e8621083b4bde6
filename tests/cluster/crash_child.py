"""A process that runs two modules' worth of work and kills itself after a given step.

Arguments: the root, the number of records in all, and ``STEP:ID`` or ``never``. It goes on where
an earlier run of it stopped, and prints the final state as JSON when it gets there.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from crash_module import build, record_of

from atoll import path
from atoll.cluster.local import LocalCluster
from atoll.microbatch.events import Step


def main() -> None:
    """Deploy, append what is missing, wait, print."""
    root, total, crash = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    commits_before_crash = 2
    seen: set[int] = set()

    def observer(step: Step, microbatch: int) -> None:
        seen.add(microbatch)
        if crash != "never" and len(seen) >= commits_before_crash and step.name.lower() == crash:
            say(f"crashing after {crash} of {microbatch}")
            os.kill(os.getpid(), signal.SIGKILL)

    with LocalCluster(root, engine="inline", observer=observer) as cluster:
        app = cluster.deploy(build())
        depot = app.depot("transfers")
        say(f"found {app.topology('bank').status()['processed']}")
        for number in range(sum(depot.end_offsets()), total):
            depot.append([record_of(number)])
        app.topology("bank").wait_processed(total, timeout_seconds=120)
        state = {
            "funds": app.pstate("funds").select(path.all()),
            "seen": app.pstate("seen").select(path.all()),
            "top": app.pstate("top").get(),
            "processed": app.topology("bank").status()["processed"],
            "committed": app.topology("bank").status()["committed"],
        }
        say("final " + json.dumps(state))


def say(line: str) -> None:
    """A line in one write: the microbatch loop's thread speaks at the same time."""
    print(f"{line}\n", end="", flush=True)


if __name__ == "__main__":
    main()
