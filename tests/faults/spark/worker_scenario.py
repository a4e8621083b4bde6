"""A topology whose functions stand still once: where a worker can be found in the act.

The first run that reaches the place named in the file ``where`` writes its process id and its
place to the file ``caught``, and waits for the file ``go``, or for ever. Every later run passes.
Where there is a file ``exit`` the process ends there and then, without a word.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import atoll
from atoll import Map, agg

PLACES = ("map", "process")
"""In a Python step before the exchange; and on the actor, with the write transactions open."""

RECORDS = 200
KEYS = 17


def build(folder: Path, **options: int) -> atoll.Module:
    """The module; ``folder`` holds the marker files."""

    def pass_by(place):
        where = folder / "where"
        if not where.exists() or where.read_text() != place:
            return
        with contextlib.suppress(FileNotFoundError):  # of two at once one is caught
            where.rename(folder / f"taken-{os.getpid()}")
            if (folder / "exit").exists():
                os._exit(7)
            (folder / "caught.part").write_text(str(os.getpid()))
            (folder / "caught.part").rename(folder / "caught")
            while not (folder / "go").exists():
                time.sleep(0.01)

    def mapped(row):
        pass_by("map")
        return {"k": row.k, "v": row.v + 1}

    def counted(row, counts):
        pass_by("process")
        counts[row.k] = counts.get(row.k, 0) + row.v

    module = atoll.Module("workers")
    events = module.depot("events", "k long, v long", partition_by="k", partitions=2)
    chosen = {name.replace("__", "."): value for name, value in options.items()}
    mb = module.microbatch("mb", vnode_count=16, options=chosen)
    counts = mb.pstate("counts", Map(int, int))
    sums = mb.pstate("sums", Map(int, int))
    source = mb.source(events).map(mapped, emits="k long, v long")
    source.process(counted, key="k", states=[counts])
    source.aggregate(sums["k"], agg.sum("v"))
    return module


def records(round_: int) -> list[dict[str, int]]:
    """What one round appends."""
    return [{"k": n % KEYS, "v": n + round_} for n in range(RECORDS)]


def expected(rounds: int) -> dict[int, int]:
    """Both states after so many rounds, by a plain fold."""
    state: dict[int, int] = {}
    for round_ in range(rounds):
        for record in records(round_):
            state[record["k"]] = state.get(record["k"], 0) + record["v"] + 1
    return state
