"""What one coordinator decides and writes per microbatch on a cluster far larger than this machine.

No record is processed: the coordinator, the accounts, placement and the objects of the root are
driven as they are, over manifests such as the actors of so many units would send. What the actors
themselves cost does not grow with the cluster, for each has vnodes and depot partitions of its
own; what they say to the driver does, and that is measured here.

    python bench/scale.py [--units 1000] [--vnodes 16384] [--partitions 10000] [--microbatches 120]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from atoll.engine.exchange.blobs import wrap
from atoll.engine.exchange.waybills import WAYBILLS
from atoll.microbatch import events as ev
from atoll.microbatch.accounts.audit import audit, rows_by_step
from atoll.microbatch.accounts.entries import (
    ActorAccounts,
    ChainChart,
    ChainRows,
    EndChart,
    JobChart,
    PackedRows,
    Parcel,
    RowsRead,
    TaskAccounts,
    Waybill,
)
from atoll.microbatch.commits.checkpoints import Checkpoints
from atoll.microbatch.commits.history import CommitHistory, commit_objects
from atoll.microbatch.commits.objects import (
    GENESIS,
    CheckpointFile,
    Commit,
    LogFile,
    Plan,
    decode_commit,
    encode,
)
from atoll.microbatch.commits.progress import known_checkpoints
from atoll.microbatch.control.options import Options
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import JobOutcome, Manifest, Outcome
from atoll.placement import workers as cluster
from atoll.placement.fragments import FragmentSpec, with_topology
from atoll.placement.info import ClusterInfo
from atoll.placement.placement import Placement
from atoll.placement.reschedule.change import Request, UnitChange
from atoll.placement.reschedule.plan import plan as plan_reschedule
from atoll.pstate.store.history import FileRef
from atoll.spark.standing import messages
from atoll.storage.local import LocalStore

DEPOT, PSTATE, TAG = "events", "counts", 1
UNITS_PER_WORKER = 8
RECORDS_PER_PARTITION = 100
STATE_BYTES = 10**12
CHARTS = [
    JobChart(
        0,
        {0: DEPOT},
        (ChainChart(0, "source events", reads=True, steps=(), ends=(TAG,)),),
        (EndChart(TAG, "aggregate counts", "each"),),
    )
]


class Clock:
    """How long each part took, in milliseconds, every time."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.found: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def over(self, what: str) -> Iterator[None]:
        """Time a block."""
        begun = time.perf_counter()
        yield
        self.found[what].append((time.perf_counter() - begun) * 1000)


class Actors:
    """What the actors of all units would say of a microbatch.

    Args:
        units: How many there are.
        vnodes: Of the PState.
        touched: How many vnodes a microbatch changes.
    """

    def __init__(self, units: int, vnodes: int, touched: int) -> None:
        """Vnodes lie with the units round robin."""
        self.units, self.vnodes, self.touched = units, vnodes, touched
        self.random = random.Random(7)

    def outcome(self, plan: Plan, version: int) -> Outcome:
        """Each reads its depot partitions, packs for all, and changes vnodes of its own."""
        changed = self.random.sample(range(self.vnodes), self.touched)
        by_unit: dict[int, list[int]] = defaultdict(list)
        for vnode in changed:
            by_unit[vnode % self.units].append(vnode)
        due = set(plan.checkpoint_vnodes.get(PSTATE, ()))
        told = {unit: self._packed(plan, unit) for unit in range(self.units)}
        came: dict[int, int] = defaultdict(int)
        for each in told.values():
            for unit, rows in each.packed[0].packed.items():
                came[unit] += rows
        tasks = list(range(self.units))
        return Outcome(
            [
                JobOutcome(
                    0,
                    [
                        self._manifest(plan, version, unit, by_unit[unit], due, told, came, tasks)
                        for unit in range(self.units)
                    ],
                )
            ]
        )

    def _packed(self, plan: Plan, unit: int) -> TaskAccounts:
        ranges = plan.ranges[DEPOT]
        reads = [
            RowsRead(0, str(part), *ranges[part]) for part in range(unit, len(ranges), self.units)
        ]
        rows = sum(each.end - each.start for each in reads)
        share, rest = divmod(rows, self.units)
        packed = {other: share + (other < rest) for other in range(self.units)}
        packed = {other: count for other, count in packed.items() if count}
        return TaskAccounts(
            unit, reads, [ChainRows(0, [rows], [])], [PackedRows(TAG, rows, 0, 0, rows, packed)]
        )

    def _manifest(  # noqa: PLR0913 - what an actor knows
        self,
        plan: Plan,
        version: int,
        unit: int,
        vnodes: list[int],
        due: set[int],
        told: dict[int, TaskAccounts],
        came: dict[int, int],
        tasks: list[int],
    ) -> Manifest:
        token = f"{plan.id:x}-{version}-{unit:x}-5f3a9c1e"
        rows = came[unit] if vnodes else 0
        accounts = ActorAccounts(
            alone=False,
            tasks=tasks,
            told=[told[unit]],
            received={TAG: came[unit]},
            executed={TAG: came[unit]},
            emitted={},
            changed={PSTATE: rows},
        )
        file = FileRef(f"m/t/logs/{plan.id:020}/{token}-{PSTATE}.arrow", rows * 40, 1, rows)
        logs = {PSTATE: LogFile(file, sorted(vnodes))} if vnodes else {}
        mine = sorted(vnode for vnode in due if vnode % self.units == unit)
        checkpoints = {}
        if mine:
            name = f"m/t/checkpoints/{plan.id:020}/{token}-{PSTATE}.arrow"
            written = FileRef(name, STATE_BYTES // self.vnodes * len(mine), 1, 10**6)
            checkpoints = {PSTATE: CheckpointFile(written, mine, [plan.id] * len(mine))}
        return Manifest(
            token, unit, logs, checkpoints, rows=rows, accounts=accounts, worker=f"host-{unit // 8}"
        )


class Driver:
    """A coordinator that is driven through microbatches, every part of it timed.

    Args:
        arguments: How large the cluster is.
        clock: Where times are kept.
    """

    def __init__(self, arguments: argparse.Namespace, clock: Clock) -> None:
        """Nothing is committed yet."""
        parts = arguments.partitions
        self.clock, self.parts = clock, parts
        self.units = tuple(range(arguments.units))
        self.actors = Actors(arguments.units, arguments.vnodes, arguments.touched)
        first = msgspec.structs.replace(GENESIS, ranges={DEPOT: [(0, 0)] * parts})
        state = ev.State(1, Options(), first, {PSTATE: arguments.vnodes}, Checkpoints({}))
        self.state = replace(state, placement=Placement(1, self.units))
        self.commits: list[Commit] = []
        self.sizes: dict[str, list[int]] = defaultdict(list)

    def microbatch(self, number: int) -> None:
        """One from its plan to its tidying; a second passes."""
        plan, version = self._planned(number)
        outcome = self.actors.outcome(plan, version)
        if number % 10 == 1:
            self._received(outcome)
        with self.clock.over("3 accounts: audit"):
            audit(CHARTS, plan.ranges, self.units, outcome.jobs)
        with self.clock.over("3 accounts: rows by step"):
            rows = rows_by_step(CHARTS, outcome.jobs)
        outcome = msgspec.structs.replace(outcome, rows=rows)
        done = ev.AttemptSucceeded(outcome, number, None, number * 1000)
        with self.clock.over("3 commit: build"):
            self.state, command = decide(self.state, done)
        assert isinstance(command, ev.CreateCommit), command
        with self.clock.over("3 commit: encode"):
            data = encode(command.commit)
        self.sizes["commit"].append(len(data))
        with self.clock.over("3 commit: decode, as readers do"):
            commit = decode_commit(data)
        self.commits.append(commit)
        self.state, _ = decide(self.state, ev.CommitCreated(commit))
        with self.clock.over("4 publish"):
            self.state, _ = decide(self.state, ev.Published(number * 1000))
        self.state, _ = decide(self.state, ev.Tidied())

    def _planned(self, number: int) -> tuple[Plan, int]:
        ends = {DEPOT: [number * RECORDS_PER_PARTITION] * self.parts}
        wake = ev.Wake({DEPOT: [0] * self.parts}, ends, number)
        with self.clock.over("1 plan: choose"):
            self.state, command = decide(self.state, wake)
        assert isinstance(command, ev.CreatePlan), command
        with self.clock.over("1 plan: encode"):
            data = encode(command.plan)
        self.sizes["plan"].append(len(data))
        self.state, command = decide(self.state, ev.PlanReady(command.plan))
        assert isinstance(command, ev.RunAttempt), command
        return command.plan, command.version

    def _received(self, outcome: Outcome) -> None:
        """All manifests, as they come over the wire."""
        packed = msgspec.msgpack.encode(outcome)
        self.sizes["all manifests"].append(len(packed))
        decoder = msgspec.msgpack.Decoder(Outcome)
        with self.clock.over("2 manifests: decode"):
            decoder.decode(packed)


def restart(arguments: argparse.Namespace, clock: Clock, commits: list[Commit]) -> int:
    """What a new life reads: how many commits; and what a unit asks of them for its vnodes."""
    last = commits[-1]
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        objects = commit_objects(store, "m", "t")
        for commit in commits[last.floor - 1 :]:
            objects.create(commit.id, encode(commit))
        with clock.over("restart: checkpoints"):
            known_checkpoints(store, "m", "t", last)
        history = CommitHistory(store, "m", "t", last)
        mine = range(0, arguments.vnodes, arguments.units)
        with clock.over("restart: how to rebuild the vnodes of one unit"):
            for vnode in mine:
                history.rebuild(PSTATE, vnode)
        with clock.over("restart: whether the vnodes of one unit are current"):
            for vnode in mine:
                history.last_touched(PSTATE, vnode)
                history.committed_steps(PSTATE, vnode, last.id)
    return last.id - last.floor + 1


def exchange(arguments: argparse.Namespace, clock: Clock) -> int:
    """What the driver does with blobs of a row each, from every packing task to every actor.

    One task's reply and one actor's request are timed; there is one of each for every unit.
    Returns how many bytes pass through the driver.
    """
    units = arguments.units
    waybill = Waybill(
        (1, 1, 1, 0), 1, alone=False, unit=1, parcels=[Parcel(1, TAG, 1, 1)], rows={TAG: 1}
    )
    batch = pa.record_batch({"k": pa.array([1]), "v": pa.array([1])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    rows = sink.getvalue()
    blobs = [wrap(TAG, 1, rows), wrap(WAYBILLS, 1, pa.py_buffer(msgspec.msgpack.encode(waybill)))]
    reply = messages.Reply(
        1,
        (1, 1, 1, 0),
        [messages.Result(0, [(unit, blob) for unit in range(units) for blob in blobs])],
    )
    sent = msgspec.msgpack.encode(reply)
    decoder = msgspec.msgpack.Decoder(messages.Reply)
    for _ in range(5):
        begun = time.perf_counter()
        by_unit: dict[int, list[bytes]] = defaultdict(list)
        for unit, blob in decoder.decode(sent).results[0].blobs:
            by_unit[unit].append(blob)
        request = messages.Request(
            1, messages.Work.ACT, "", None, b"", [messages.Part(1, blobs * units)]
        )
        msgspec.msgpack.encode(request)
        took_ms = (time.perf_counter() - begun) * 1000
        clock.found["2 exchange: blobs of a row, all tasks to all actors"].append(took_ms * units)
    return len(sent) * units


def reschedule(arguments: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """A tenth more units, and a tenth fewer; what is written of it."""
    info = ClusterInfo()
    workers = -(-arguments.units // UNITS_PER_WORKER)
    more = -(-workers // 10)
    with clock.over("workers join, all one after another"):
        for number in range(workers + more):
            info = cluster.join(info, f"w{number}", f"host-{number}", UNITS_PER_WORKER)
    used = tuple(range(workers * UNITS_PER_WORKER))
    new = tuple(range(len(used), len(used) + more * UNITS_PER_WORKER))
    parts = [FragmentSpec(PSTATE, (PSTATE,), arguments.vnodes)]
    with clock.over("deployment: place"):
        info = with_topology(info, "t", parts)
    (fragment,) = info.roots("t")
    spare = tuple(unit for unit in fragment.units if unit in new)
    sizes = {fragment.id: [STATE_BYTES // arguments.vnodes] * arguments.vnodes}
    shrink = Request({fragment.id: UnitChange(removed=spare)}, info.revision)
    with clock.over("reschedule: fewer units"):
        less = plan_reschedule(info, shrink, sizes=sizes)
    grow = Request({fragment.id: UnitChange(added=spare)}, less.info.revision)
    with clock.over("reschedule: more units"):
        grown = plan_reschedule(less.info, grow, sizes=sizes)
    return {
        "vnodes moved": len(grown.moves[fragment.id]),
        "bytes moved": grown.bytes_moved,
        "registry bytes": len(msgspec.msgpack.encode(grown.info)),
    }


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=1_000)
    parser.add_argument("--vnodes", type=int, default=16_384)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--microbatches", type=int, default=120)
    parser.add_argument("--touched", type=int, default=0, help="vnodes of a microbatch; 0 for all")
    arguments = parser.parse_args()
    arguments.touched = arguments.touched or arguments.vnodes
    clock = Clock()
    driver = Driver(arguments, clock)
    for number in range(1, arguments.microbatches + 1):
        driver.microbatch(number)
    kept = restart(arguments, clock, driver.commits)
    through = exchange(arguments, clock)
    moved = reschedule(arguments, clock)
    table = Table("part", "median ms", "most ms")
    for what, found in sorted(clock.found.items()):
        table.add_row(what, f"{statistics.median(found):,.1f}", f"{max(found):,.1f}")
    console = Console(width=100)
    console.print(table)
    for what, each in driver.sizes.items():
        console.print(f"{what}: {statistics.median(each):,.0f} bytes, at most {max(each):,}")
    console.print(f"blobs of a row through the driver: {through:,} bytes")
    console.print(f"commits kept: {kept}; {moved}")


if __name__ == "__main__":
    main()
