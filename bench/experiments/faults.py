"""What fault tolerance costs: a sum per key with parts of it taken away, one after the other.

Nothing of it can be switched off in the product. So the bench puts *stand-ins* into its own
process, in which everything runs (``engine="inline"``): they do the same work without the part.
Each variant takes away one more than the one before:

- ``all``: everything as it is.
- ``no fsync``: files are written, and nobody waits for the disk.
- ``no logs``: no incremental logs and no checkpoints; a lost vnode store could not be rebuilt.
- ``no reverse logs``: vnode stores keep nothing to undo an attempt, or to read an earlier state.
- ``plain objects``: plans and commits are written in place, so two coordinators could make the
  same one, and half a one could be read.

Each variant runs in a process of its own, in turn over the rounds, on the same records out of a
backlog. Figures are medians: the time of a microbatch by the clock and by the processor. What is
left in the last variant is the work itself, and the transactions of the vnode stores, without
which there would be no state. The sums are held against a recount.

    python bench/experiments.py faults --out build/experiments
    python bench/experiments.py faults --sizes 2000 --rounds 1 --microbatches 10 --out build/small
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from experiments.common import TIMEOUT_SECONDS, inside, numbers, report_to, write_report
from records import SCHEMA, SEED

VARIANTS = ("all", "no fsync", "no logs", "no reverse logs", "plain objects")
PARTITIONS = 2
WARM = 5


def stand_in(variant: str) -> None:
    """Take away what the variant does without, and all that those before it do without."""
    taken = VARIANTS[1 : VARIANTS.index(variant) + 1]
    for name in taken:
        _TAKE[name]()


def _no_fsync() -> None:
    os.fsync = os.fdatasync = lambda _descriptor: None


def _no_logs() -> None:
    from atoll.engine import actor
    from atoll.pstate.store.history import FileRef

    def named(_sink: Any, name: str, parts: Any) -> FileRef:
        rows = sum(len(keys) for _, keys, _ in parts) if isinstance(parts, list) else 0
        return FileRef(name, 0, 0, rows)

    actor.write_change_file = named  # type: ignore[attr-defined]


def _no_reverse_logs() -> None:
    from atoll.pstate.store import vnode_writer

    vnode_writer.encode_reverse_log = lambda _keys, _olds: b""  # type: ignore[attr-defined]


def _plain_objects() -> None:
    from atoll.storage.local import LocalStore

    def create(store: LocalStore, name: str, data: bytes) -> None:
        path = store.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    LocalStore.create = create  # type: ignore[method-assign]


_TAKE = {
    "no fsync": _no_fsync,
    "no logs": _no_logs,
    "no reverse logs": _no_reverse_logs,
    "plain objects": _plain_objects,
}


def declare(batch: int) -> Any:
    """The module under test."""
    import atoll
    from atoll import Map, agg, start

    module = atoll.Module("faults")
    events = module.depot("events", SCHEMA, partitions=PARTITIONS)
    mb = module.microbatch("mb", options={"depot.microbatch.max.records": batch // PARTITIONS})
    rows = mb.source(events, start_from=start.beginning())
    rows.aggregate(mb.pstate("sums", Map(int, int))["k"], agg.sum("v"))
    return module


def run(variant: str, batch: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of a microbatch, by two clocks."""
    import atoll

    stand_in(variant)
    microbatches = max(3, min(arguments.microbatches, arguments.records_max // batch))
    random = np.random.default_rng(SEED)
    sums = np.zeros(arguments.keys, np.int64)
    with (
        tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as root,
        atoll.LocalCluster(root, engine="inline", parallelism=2) as cluster,
    ):
        app = cluster.deploy(declare(batch))
        topology = app.topology("mb")
        topology.pause()
        for _ in range(WARM + microbatches):
            keys = random.integers(0, arguments.keys, batch)
            values = random.integers(0, 1_000, batch)
            sums += np.bincount(keys, values, arguments.keys).astype(np.int64)
            app.depot("events").append(pa.table({"k": keys, "v": values}))
        topology.resume()
        topology.wait_processed(WARM * batch, timeout_seconds=TIMEOUT_SECONDS)
        began, used = time.perf_counter(), time.process_time()
        topology.wait_processed((WARM + microbatches) * batch, timeout_seconds=TIMEOUT_SECONDS)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        found = app.pstate("sums").get()
        if any(found.get(key, 0) != total for key, total in enumerate(sums.tolist())):
            raise SystemExit("the sums are not those of a recount")
    return {"ms": seconds * 1_000 / microbatches, "cpu_ms": cpu * 1_000 / microbatches}


def measure(batch: int, rounds: int) -> list[dict[str, Any]]:
    """All variants of one size of a microbatch."""
    found: dict[str, list[dict[str, float]]] = {variant: [] for variant in VARIANTS}
    for number in range(rounds):
        for variant in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
            found[variant].append(inside("faults", f"{variant}/{batch}"))
    rows = [
        {
            "records": batch,
            "variant": variant,
            **{
                name: round(statistics.median(each[name] for each in told), 2)
                for name in ("ms", "cpu_ms")
            },
            "rounds_ms": [round(each["ms"], 2) for each in told],
        }
        for variant, told in found.items()
    ]
    for row in rows:
        row["share"] = round(row["ms"] / rows[0]["ms"], 3)
    return rows


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=numbers, default=[2_000, 100_000, 1_000_000])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--microbatches", type=int, default=100, help="of a round, at most")
    parser.add_argument("--records-max", type=int, default=10_000_000, help="of a round, about")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"))
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        variant, _, batch = arguments.inside.partition("/")
        report_to(run(variant, int(batch), arguments))
        return
    rows = [row for batch in arguments.sizes for row in measure(batch, arguments.rounds)]
    write_report(arguments.out, "faults", {"keys": arguments.keys, "rows": rows})
