"""One actor's part of a job: the rows of its vnodes in, state, logs and a manifest out.

Steps, in the order that every actor keeps: read mirrors, open all stores it will touch (which
undoes whatever an uncommitted attempt left there), look up, run the steps in the order of the
declarations, take the changes, write checkpoints that are due, commit each store's transaction
(which leaves its work pending), hand on rows, write the incremental logs. Nothing of it is
visible before the commit object.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from atoll.beats import present
from atoll.engine.exchange.appended import append_file, write_durably
from atoll.engine.exchange.blobs import Blob
from atoll.engine.exchange.careful import FIRST
from atoll.engine.exchange.feeding import packing_of
from atoll.engine.exchange.keyed import VNODE
from atoll.engine.exchange.packing import unpack
from atoll.engine.exchange.provenance import locating
from atoll.engine.exchange.rejects import RejectWriter
from atoll.engine.exchange.staging import stage, staging_folder
from atoll.engine.exchange.waybills import Delivery, delivered
from atoll.engine.mirrors import MirrorViews
from atoll.engine.step import Phase
from atoll.engine.stores import OpenStores
from atoll.microbatch.accounts.entries import REJECTS, ActorAccounts
from atoll.microbatch.accounts.faults import Fault, refuse
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.commits.objects import AppendedRows, CheckpointFile, LogFile
from atoll.microbatch.outcome import Manifest, StagedFile
from atoll.pstate.store.changefile import Part, write_change_file
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.storage.roots import open_store

if TYPE_CHECKING:
    from atoll.engine.program import JobProgram, JobSpec, Program
    from atoll.engine.step import BoundStep
    from atoll.pstate.converter import Converter
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.store.vnode_writer import VnodeWriter
    from atoll.topology.usercode import Rejects


ACTOR = "actor"
"""What an actor's task is called."""


def run_actor(program: Program, spec: JobSpec, unit: int, blobs: Iterable[Blob]) -> Manifest:
    """Run the actor of one unit over the rows that the exchange brought it.

    Raises:
        AtollError: When the user's code, the state or a file is at fault.
        OSError: When a file cannot be written.
    """
    actor = _Actor(program, spec, unit)
    return actor.run(blobs)


class _Actor:
    """What runs, and what it offers its steps: see :class:`~atoll.engine.step.Work`."""

    def __init__(self, program: Program, spec: JobSpec, unit: int) -> None:
        self.program = program
        self.spec = spec
        self.unit = unit
        self.job: JobProgram = program.jobs[spec.job]
        self.token = uuid.uuid4().hex
        self.prefix = f"{spec.id:020d}-{spec.epoch}-{spec.version}-{spec.job}-{self.token}"
        self.store = open_store(program.root)
        self.mirrors = MirrorViews(program, spec, self.store)
        self.rejecting = RejectWriter(program, spec, self.token, self.store)
        self.vnodes: dict[int, set[int]] = {}
        """Of the rows that came, by tag."""
        self.emitted: list[tuple[int, int | None, pa.Table]] = []
        self.appended: list[AppendedRows] = []
        self.timings: dict[str, float] = {}
        self.received: Counter[int] = Counter()
        self.executed: Counter[int] = Counter()
        self.aside: Counter[int] = Counter()
        self._parts: dict[int, list[tuple[int, pa.Table]]] = {}
        self._clock = time.perf_counter()
        self._task = present()
        self._task.part(ACTOR, unit)
        # What steps see.
        self.id = spec.id
        self.times = spec.times
        self.pstates: Mapping[str, PStateSpec] = program.pstates
        self.rejects: Rejects | None = self.rejecting.own
        self.refused: Rejects | None = (self.rejects or FIRST) if spec.careful else None
        self.flush_entries_max: Mapping[str, int] = spec.flush_entries_max
        self.agenda: dict[str, dict[int, int]] = {}
        self.watermarks: dict[str, dict[str, int]] = {}
        self.dropped: dict[str, int] = {}

    def run(self, blobs: Iterable[Blob]) -> Manifest:
        self._task.begin("receiving rows")
        delivery = delivered(self.program, self.spec, self.unit, blobs)
        self._take(delivery)
        self._lap("receive")
        names = (self.program.module, self.program.topology)
        self.history = CommitHistory.open(
            self.store, *names, self.spec.committed, self.spec.timeline
        )
        self.stores = OpenStores(self.program, self.spec, self.history, self.token)
        self._run(Phase.MIRRORS)
        with self.stores:
            self.stores.open_all(self._needed())
            self._lap("open")
            for phase in (Phase.LOOK_UP, Phase.RUN, Phase.CHANGES):
                self._run(phase)
            self._lap("apply")
            checkpoints = self._checkpoints()
            self._lap("checkpoint")
            changed = self._commit()
            self._lap("write")
            shared = self.program.folders.identity is not None
            vnode_bytes = self.stores.vnode_bytes() if shared else {}
        logs = self._logs({name: parts for name, parts in changed.items() if parts})
        self._run(Phase.HAND_ON)
        self._task.begin("handing rows on")
        staged = [self._stage(*each) for each in self.emitted if each[2].num_rows]
        appends = sorted(self.appended, key=lambda each: each.file.name) + self.rejecting.write()
        self._lap("log")
        return Manifest(
            token=self.token,
            unit=self.unit,
            logs=logs,
            checkpoints=checkpoints,
            staged=staged,
            appends=appends,
            opened=self.stores.opened,
            logs_applied=self.stores.logs_applied,
            migrated=self.stores.migrated,
            worker=self.program.folders.worker,
            vnode_bytes=vnode_bytes,
            timings_ms=self.timings,
            watermarks=self.watermarks,
            dropped=self.dropped,
            agenda=self.agenda,
            rows=sum(self.received.values()) - self._told(),
            accounts=self._accounts(delivery, changed),
        )

    def _take(self, delivery: Delivery) -> None:
        """Take the rows by step, and those that were rejected."""
        self._parts = _unpacked(self.rejecting.take(delivery.blobs))
        for tag in self._parts:
            self.received[tag] = sum(map(len, self.tables(tag)))
            self._check_rows(self.job.step(tag), delivery)
        self.received[REJECTS] += self.rejecting.rows

    def _check_rows(self, step: BoundStep, delivery: Delivery) -> None:
        """Hold that all rows came out of the blobs, and that their vnodes are the actor's own.

        Raises:
            AccountsError: When a row was lost, or sent to the wrong actor.
        """
        expected, rows = delivery.rows[step.tag], self.received[step.tag]
        fault = None
        if rows != expected:
            fault = Fault("rows came out of the blobs", expected, rows)
        elif step.keyed:
            units = step.mapping(packing_of(self.program, self.spec)).units
            columns = [part.column(VNODE) for part in self.tables(step.tag)]
            found = {v for each in columns for v in each.unique().to_pylist()}
            self.vnodes[step.tag] = found
            wrong = [v for v in found if v >= len(units) or units[v] != self.unit]
            if wrong:
                strays = sum(pc.sum(pc.is_in(e, pa.array(wrong, e.type))).as_py() for e in columns)
                fault = Fault(f"rows of the vnodes {sorted(wrong)} of others came", 0, strays)
        if fault is not None:
            refuse(self.spec.job, [fault._replace(step=step.label, unit=self.unit)])

    def _needed(self) -> dict[str, set[int]]:
        """The vnodes to open, by PState."""
        needed: dict[str, set[int]] = defaultdict(set)
        for step in self.job.steps:
            for name, vnodes in step.opens(self.vnodes.get(step.tag, set()), self).items():
                needed[name].update(vnodes)
        for name, due in (*self.spec.checkpoint_vnodes.items(), *self.spec.migrate_vnodes.items()):
            needed[name].update(set(self.owned(name)) & set(due))
        return needed

    def _run(self, phase: Phase) -> None:
        """Run the steps of a phase, in declared order."""
        for step in self.job.steps:
            rows = self.tables(step.tag)
            if step.when is phase and (rows or step.runs_without_rows):
                self._execute(step, rows)

    def _execute(self, step: BoundStep, rows: list[pa.Table]) -> None:
        known = 0 if self.rejecting.own is None else self.rejecting.own.counts.taken
        self._task.begin(step, step.tag)
        with locating(self.program, self.spec), step.blamed():
            step.run(self, rows)
        self._task.begin("between two steps")
        if not step.counts_itself:
            self.executed[step.tag] += sum(map(len, rows))
        if self.rejecting.own is not None:
            self.aside[step.tag] += self.rejecting.own.counts.taken - known

    # What steps ask -------------------------------------------------------------------------------

    def tables(self, tag: int) -> list[pa.Table]:
        return [rows for _, rows in self.parts(tag)]

    def parts(self, tag: int) -> Sequence[tuple[int, pa.Table]]:
        return self._parts.get(tag, ())

    def writer(self, pstate: str, vnode: int) -> VnodeWriter:
        self._task.beat()
        return self.stores.get(pstate, vnode)

    def writers(self, pstate: str) -> dict[int, VnodeWriter]:
        return self.stores.of(pstate)

    def converter(self, pstate: str, vnode: int) -> Converter | None:
        return self.stores.converter(pstate, vnode)

    def view(self, pstate: str) -> PStateView:
        spec = self.program.pstates.get(pstate)
        if spec is None:
            return self.mirrors.view(pstate)
        stores = module_stores(str(self.program.local), self.program.module)
        return PStateView(stores, pstate, spec.vnode_count, self.history, spec)

    def owned(self, pstate: str) -> Collection[int]:
        return self.program.owned(pstate, self.unit)

    def due(self, pstate: str) -> set[int]:
        due = self.spec.due.get(pstate)
        return set(due).intersection(self.owned(pstate)) if due else set()

    def changed(self, pstate: str) -> Collection[int]:
        return self.spec.prior_vnodes.get(pstate, frozenset())

    def is_first(self) -> bool:
        return self.unit == self.program.units[0]

    def is_tracked(self, tag: int) -> bool:
        return tag in self.program.tracked

    def count(self, tag: int, rows: int) -> None:
        self.executed[tag] += rows

    def emit(self, tag: int, rows: pa.Table, sequence: int | None = None) -> None:
        self.emitted.append((tag, sequence, rows))

    def append(
        self, tag: int, depot: str, rows: pa.Table, sequence: int, kind: str = "rows"
    ) -> None:
        name = append_file(self.program, self.spec, (tag, sequence), self.token)
        self.appended.append(AppendedRows(depot, write_durably(self.store, name, rows), kind))

    # What is left ---------------------------------------------------------------------------------

    def _checkpoints(self) -> dict[str, CheckpointFile]:
        """Write the whole state of the vnodes that are due, as it will be after this job."""
        written = {}
        for name, due in self.spec.checkpoint_vnodes.items():
            self._task.begin(("writing a checkpoint of", name))
            vnodes = sorted(set(self.owned(name)) & set(due))
            if vnodes:  # one vnode's entries after the other's, not all in memory at once
                parts = ((vnode, *self.writer(name, vnode).dump()) for vnode in vnodes)
                file = write_change_file(self.store, self._file("checkpoints", name), parts)
                written[name] = CheckpointFile(file, vnodes, [self.spec.id] * len(vnodes))
        return written

    def _commit(self) -> dict[str, list[Part]]:
        """Commit every store's transaction; what changed, by PState and vnode."""
        changed: dict[str, list[Part]] = {}
        for name in self.stores.pstates():
            parts = changed.setdefault(name, [])
            for vnode, writer in self.writers(name).items():
                self._task.begin(("committing the store of", name, "vnode", vnode))
                result = writer.commit()
                if result.keys:
                    parts.append((vnode, result.keys, result.values))
        return changed

    def _logs(self, changed: dict[str, list[Part]]) -> dict[str, LogFile]:
        """Write the logs of the PStates that changed, several at once where each is a request."""
        at_once = min(len(changed), self.store.at_once)
        if at_once < 2:  # noqa: PLR2004 - more than one
            return {name: self._log(name, parts) for name, parts in changed.items()}
        with ThreadPoolExecutor(at_once) as pool:
            written = pool.map(self._log, changed.keys(), changed.values())
            return dict(zip(changed, written, strict=True))

    def _log(self, name: str, parts: list[Part]) -> LogFile:
        self._task.begin(("writing the log of", name))
        file = write_change_file(self.store, self._file("logs", name), parts)
        return LogFile(file, [vnode for vnode, _, _ in parts])

    def _stage(self, tag: int, sequence: int | None, rows: pa.Table) -> StagedFile:
        folder = staging_folder(self.program.module, self.program.topology, self.spec.id)
        part = "" if sequence is None else f"-{sequence}"
        name = f"{folder}/{self.prefix}-{tag}{part}.arrow"
        return StagedFile(tag, stage(self.store, name, rows), sequence)

    def _file(self, folder: str, pstate: str) -> str:
        return (
            f"{self.program.module}/{self.program.topology}/{folder}/{pstate}/{self.prefix}.arrow"
        )

    def _told(self) -> int:
        """How many of what was received are no rows, but numbers that tell of them."""
        return sum(self.received[each.tag] for each in self.job.steps if each.packs == "told")

    def _accounts(self, delivery: Delivery, changed: dict[str, list[Part]]) -> ActorAccounts:
        given: Counter[int] = Counter()
        for tag, _, rows in self.emitted:
            given[tag] += rows.num_rows
        return ActorAccounts(
            delivery.alone,
            delivery.tasks,
            delivery.told,
            self.received,
            self.executed,
            given,
            self.aside,
            {name: sum(len(keys) for _, keys, _ in parts) for name, parts in changed.items()},
            _sums(delivery.step_ms, self._task.spent_ms()),
        )

    def _lap(self, name: str) -> None:
        now = time.perf_counter()
        self.timings[name] = (now - self._clock) * 1000.0
        self._clock = now


def _sums(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _unpacked(blobs: Iterable[Blob]) -> dict[int, list[tuple[int, pa.Table]]]:
    """The rows by step, each task's by its number, in the order of the tasks."""
    by_tag: dict[int, list[tuple[int, pa.Table]]] = defaultdict(list)
    for tag, sequence, payload in blobs:
        assert not isinstance(payload, str), "the files of parked blobs were fetched"
        by_tag[tag].append((sequence, unpack(payload)))
    return {tag: sorted(parts, key=lambda part: part[0]) for tag, parts in by_tag.items()}
