"""A life of a module with sinks, that may end before the n-th call of the disk's or the sink's.

Everything here runs in children. The calls of the disk are those below the root, to which the
folder sink's target belongs; those of the sink are the steps of writing to PostgreSQL, before and
after each, so that a life also ends between a commit there and its note here.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from interpose import Call, Interposer

import atoll
from atoll import LocalCluster, agg, start
from atoll.depot import Producer
from atoll.sinks import Folder, Postgres, postgres

__all__ = ["CHUNK", "KEYS", "live", "module"]

KEYS = 7
CHUNK = 250
_STEPS = ("write", "_stepped", "_copy", "_follow", "last_written")
_SECONDS = 150.0


def module(root: str, dsn: str) -> atoll.Module:
    """Numbers to a table and a folder, and a count of them to another table."""
    made = atoll.Module("count")
    numbers = made.depot("numbers", "v long, k long", partition_by="v", partitions=2)
    options = {"depot.microbatch.max.records": CHUNK, "pstate.history.seconds": 0}
    mb = made.microbatch("mb", vnode_count=4, options=options)
    counts = mb.pstate("counts", dict[int, int])
    rows = mb.source(numbers, start_from=start.beginning())
    rows.write_to(Postgres(dsn, "numbers"), name="table")
    rows.write_to(Folder(f"{root}/out"), name="folder")
    rows.aggregate(counts["k"], agg.count())
    counts.changes("k").write_to(Postgres(dsn, "counts", value="n"), name="counts")
    return made


def live(root: str, dsn: str, total: int, disk: int = 0, sink: int = 0) -> None:
    """Append what is missing and write it all; die before a call of that number, if it comes."""
    calls: list[Call] = []
    steps = _counted(sink)
    with Interposer(root) as interposer:
        interposer.on_call = calls.append
        if disk:
            interposer.kill_at(disk)
        with LocalCluster(f"{root}/root", engine="inline", parallelism=1) as cluster:
            app = cluster.deploy(module(root, dsn))
            depot = app.depot("numbers")
            done = depot.last_sequence("p") or 0
            for sequence in range(done + 1, total // CHUNK + 1):
                first = (sequence - 1) * CHUNK
                rows = [{"v": v, "k": v % KEYS} for v in range(first, first + CHUNK)]
                depot.append(rows, producer=Producer("p", sequence))
            app.topology("mb").wait_processed(total, timeout_seconds=_SECONDS)
            _until(lambda: not any(each["waiting_records"] for each in _sinks(app).values()))
    print("calls", len(calls), next(steps), flush=True)


def _sinks(app: Any) -> dict[str, Any]:
    found: dict[str, Any] = app.topology("mb").status()["sinks"]
    return found


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _SECONDS
    while not holds():
        if time.monotonic() > until:
            raise AssertionError("the sinks do not come to an end")
        time.sleep(0.01)


def _counted(dies_at: int) -> itertools.count[int]:
    """Count the steps of the sink in PostgreSQL, and die before one."""
    counter = itertools.count(1)

    def step() -> None:
        if next(counter) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            step()
            found = function(*arguments, **keywords)
            step()
            return found

        return call

    for name in _STEPS:
        setattr(postgres.PostgresWriter, name, wrapped(getattr(postgres.PostgresWriter, name)))
    postgres.values_of = wrapped(postgres.values_of)  # in the middle of a COPY
    return counter
