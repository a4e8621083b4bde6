"""How soon work goes on after a SIGKILL, and after the local folder is lost, on a large state.

A process loads the state. Then, again and again: a process is killed by SIGKILL in the middle of
its microbatches and a new one is started on the same root; measured is from its start to its
first new commit. Beside it, in the same minutes, stands what Spark alone takes: a process that
starts the same session and runs one trivial Python job. For the second figure the local folder is
removed, and the first microbatch that touches every vnode is timed: it rebuilds them all.

    python bench/recovery.py --restarts 50 --json
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from records import SCHEMA

MODULE = "recovery"
VNODES = 256
BATCH = 2_000
LOAD_BATCH = 250_000
TIMEOUT_SECONDS = 600
BEYOND_SPARK_SECONDS = 3.0
REBUILD_SECONDS = 10.0


def declare() -> Any:
    """The module under test: a sum per key."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module(MODULE)
    events = module.depot("events", SCHEMA, partitions=2)
    mb = module.microbatch(
        "mb", vnode_count=VNODES, options={"pstate.checkpoint.interval.commits": 20}
    )
    sums = mb.pstate("sums", Map(int, int))
    mb.source(events, start_from=start.beginning()).aggregate(sums["k"], agg.sum("v"))
    return module


# What the processes do ----------------------------------------------------------------------------


def tell(word: str, **values: Any) -> None:
    """One line to whoever measures."""
    print(json.dumps({"word": word, **values}), flush=True)


def wait_all(app: Any) -> None:
    """Until everything that was appended is processed."""
    total = sum(app.depot("events").end_offsets())
    app.topology("mb").wait_processed(total, timeout_seconds=TIMEOUT_SECONDS)


def append(app: Any, ids: Any) -> None:
    """One record of value 1 for each key."""
    app.depot("events").append(pa.table({"k": ids, "v": np.ones(len(ids), np.int64)}))


def load(root: str, keys: int) -> None:
    """Give every key the value 1, then change all vnodes often enough for checkpoints and logs."""
    import atoll

    generator = np.random.default_rng(7)
    with atoll.LocalCluster(root) as cluster:
        app = cluster.deploy(declare())
        for begin in range(0, keys, LOAD_BATCH):
            append(app, np.arange(begin, min(begin + LOAD_BATCH, keys)))
            wait_all(app)
        for _ in range(30):
            append(app, generator.integers(0, keys, BATCH))
            wait_all(app)
    tell("loaded")


def live(root: str, keys: int) -> None:
    """Go on from where the last process died, and commit until killed."""
    import atoll

    def observe(step: Any, microbatch: int) -> None:
        if step.name == "COMMIT":
            tell("commit", id=microbatch)

    generator = np.random.default_rng(os.getpid())
    with atoll.LocalCluster(root, observer=observe) as cluster:
        app = cluster.deploy(declare())
        tell("deployed")
        while True:
            append(app, generator.integers(0, keys, BATCH))
            wait_all(app)


def spark_alone() -> None:
    """The same session, and one job with a Python stage that does nothing."""
    from atoll.spark.session import local_session

    def same(batches: Any) -> Any:
        yield from batches

    session = local_session(2)
    tell("session")
    session.range(2).mapInArrow(same, "id long").collect()
    tell("commit", id=0)
    time.sleep(TIMEOUT_SECONDS)


def rebuild(root: str, keys: int) -> None:
    """Time a microbatch over all vnodes with the local folder there, and once more without it."""
    import atoll

    with atoll.LocalCluster(root) as cluster:
        app = cluster.deploy(declare())
        ids = np.random.default_rng(1).integers(0, keys, BATCH * 4)
        append(app, ids)
        wait_all(app)
        seconds = {}
        for name in ("kept", "lost"):
            app.topology("mb").pause()
            if name == "lost":
                shutil.rmtree(Path(root) / "local")
            append(app, ids)
            app.topology("mb").resume()
            began = time.perf_counter()
            wait_all(app)
            seconds[name] = time.perf_counter() - began
            status = app.topology("mb").status()
        assert status["opened"].get("absent") == VNODES, status["opened"]
    tell("rebuilt", **seconds, opened=status["opened"])


# What measures ------------------------------------------------------------------------------------


class Process:
    """This script as another process, in a session of its own."""

    def __init__(self, what: str, root: str, keys: int) -> None:
        """Start it; the clock runs."""
        self.began = time.perf_counter()
        self.marks: dict[str, float] = {}
        command = [sys.executable, __file__, "--do", what, "--root", root, "--keys", str(keys)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def until(self, word: str) -> dict[str, Any]:
        """The first line of that word; every word's first time is kept."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told: dict[str, Any] = json.loads(line)
            self.marks.setdefault(told["word"], time.perf_counter() - self.began)
            if told["word"] == word:
                return told
        raise SystemExit(f"a process ended without {word!r}")

    def kill(self) -> None:
        """SIGKILL of the driver alone: its Java ends by itself, as after a crash."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def restart(root: str, keys: int) -> dict[str, float]:
    """One life up to its first commit, and a kill a moment into the next microbatches."""
    process = Process("live", root, keys)
    process.until("commit")
    process.until("commit")
    time.sleep(0.05)
    process.kill()
    return process.marks


def start_up(root: str, keys: int) -> dict[str, float]:
    """What Spark alone takes."""
    process = Process("spark", root, keys)
    process.until("commit")
    process.kill()
    return process.marks


def measure(keys: int, restarts: int) -> dict[str, Any]:
    """All figures, in seconds."""
    with tempfile.TemporaryDirectory(prefix="atoll-recovery-", ignore_cleanup_errors=True) as root:
        loading = Process("load", root, keys)
        loading.until("loaded")
        loading.process.wait()
        lives, alone = [], []
        for _ in range(restarts):
            lives.append(restart(root, keys))
            alone.append(start_up(root, keys))
        rebuilding = Process("rebuild", root, keys)
        rebuilt = rebuilding.until("rebuilt")
        rebuilding.process.wait()
    spark = statistics.median(each["commit"] for each in alone)
    commits = [each["commit"] for each in lives]
    return {
        "keys": keys,
        "restarts": restarts,
        "first_commit": both(commits),
        "deployed": both([each["deployed"] for each in lives]),
        "spark_alone": both([each["commit"] for each in alone]),
        "beyond_spark": both([each - spark for each in commits]),
        "all_vnodes_kept": round(rebuilt["kept"], 2),
        "all_vnodes_rebuilt": round(rebuilt["lost"], 2),
        "opened": rebuilt["opened"],
        "load_average": round(os.getloadavg()[0], 2),
    }


def both(values: list[float]) -> dict[str, float]:
    """Median and worst."""
    return {"median": round(statistics.median(values), 2), "worst": round(max(values), 2)}


def show(result: dict[str, Any]) -> None:
    """A table for people."""
    print(f"{result['keys']:,} keys, {result['restarts']} restarts after SIGKILL; seconds")
    print(f"  {'':34} {'median':>7} {'worst':>7}")
    rows = {
        "start to first new commit": "first_commit",
        "  of it: until deployed": "deployed",
        "Spark alone: session and a job": "spark_alone",
        f"beyond Spark (goal {BEYOND_SPARK_SECONDS:g})": "beyond_spark",
    }
    for name, key in rows.items():
        print(f"  {name:34} {result[key]['median']:7.2f} {result[key]['worst']:7.2f}")
    print(f"  {'microbatch over all vnodes':34} {result['all_vnodes_kept']:7.2f}")
    lost = f"the same, local folder lost (goal {REBUILD_SECONDS:g})"
    print(f"  {lost:34} {result['all_vnodes_rebuilt']:7.2f}")


def main() -> None:
    """Measure, or be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--do", choices=["load", "live", "spark", "rebuild"], help=argparse.SUPPRESS
    )
    parser.add_argument("--root", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.do == "spark":
        spark_alone()
    elif arguments.do:
        {"load": load, "live": live, "rebuild": rebuild}[arguments.do](
            arguments.root, arguments.keys
        )
    else:
        result = measure(arguments.keys, arguments.restarts)
        if arguments.json:
            print(json.dumps(result))
        else:
            show(result)


if __name__ == "__main__":
    main()
