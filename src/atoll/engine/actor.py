"""One actor's part of a job: the rows of its vnodes in, state, logs and a manifest out.

Steps, in the order that every actor keeps: open all stores it will touch (which undoes whatever
an uncommitted attempt left there), look up, fold and process in the order of the declarations,
take the changes, write checkpoints that are due, commit each store's transaction (which leaves
its work pending), write the incremental logs and the rows for depots. Nothing of it is visible
before the commit object.
"""

from __future__ import annotations

import functools
import math
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from atoll.engine.exchange.blobs import Blob, fetch
from atoll.engine.exchange.careful import FIRST
from atoll.engine.exchange.feeding import mapping_of
from atoll.engine.exchange.packing import VNODE, unpack
from atoll.engine.exchange.provenance import locating
from atoll.engine.exchange.rejects import RejectWriter
from atoll.engine.exchange.staging import stage, staging_folder
from atoll.engine.exchange.waybills import Delivery, delivered
from atoll.engine.mirrors import MirrorViews
from atoll.engine.program import (
    AggregateTerminal,
    AskTerminal,
    ChangesTerminal,
    FoldTerminal,
    LookupTerminal,
    ProcessTerminal,
    Terminal,
)
from atoll.engine.sessions import Sessions
from atoll.microbatch.accounts.entries import REJECTS, ActorAccounts
from atoll.microbatch.accounts.faults import Fault, refuse
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.commits.objects import CheckpointFile, LogFile
from atoll.microbatch.outcome import Manifest, StagedFile
from atoll.pstate.store.changefile import Part, write_change_file
from atoll.pstate.store.stores import module_stores
from atoll.pstate.view import PStateView
from atoll.queries.reads import answered
from atoll.queries.run import Reading
from atoll.steps.aggregate import run as aggregate
from atoll.steps.append_to.run import AppendWriter
from atoll.steps.changes import run as changes
from atoll.steps.distinct_count.bind import FirstSeenTerminal, first_seen
from atoll.steps.fold import run as fold
from atoll.steps.incremental_join import run as incremental_join
from atoll.steps.incremental_join.terminals import JoinSideTerminal, JoinTerminal
from atoll.steps.lookup import run as lookup
from atoll.steps.materialize.run import SpreadTaker
from atoll.steps.observe.run import ObserveTaker
from atoll.steps.process import run as process
from atoll.steps.process.timers import Firing
from atoll.steps.windows import merging as sessions_merge
from atoll.steps.windows import run as windows
from atoll.steps.windows.terminals import LiveSessionsTerminal, WindowTerminal
from atoll.storage.local import LocalStore

if TYPE_CHECKING:
    from atoll.engine.program import JobProgram, JobSpec, Program

__all__ = ["run_actor"]


def run_actor(program: Program, spec: JobSpec, unit: int, blobs: Iterable[Blob]) -> Manifest:
    """Run the actor of one unit over the rows that the exchange brought it.

    Raises:
        AtollError: When the user's code, the state or a file is at fault.
        OSError: When a file cannot be written.
    """
    actor = _Actor(program, spec, unit)
    return actor.run(blobs)


class _Actor:
    def __init__(self, program: Program, spec: JobSpec, unit: int) -> None:
        self.program = program
        self.spec = spec
        self.unit = unit
        self.job: JobProgram = program.jobs[spec.job]
        self.token = uuid.uuid4().hex
        self.prefix = f"{spec.id:020d}-{spec.epoch}-{spec.version}-{spec.job}-{self.token}"
        self.store = LocalStore(program.root)
        self.mirrors = MirrorViews(program, spec, self.store)
        self.emitted: dict[int, pa.Table] = {}
        self.agenda: dict[str, dict[int, int]] = {}
        self.timings: dict[str, float] = {}
        self.received: Counter[int] = Counter()
        self.executed: Counter[int] = Counter()
        self.given: Counter[int] = Counter()
        self.aside: Counter[int] = Counter()
        self.vnodes: dict[int, set[int]] = {}
        """Of the rows that came, by tag."""
        self._clock = time.perf_counter()

    def run(self, blobs: Iterable[Blob]) -> Manifest:
        delivery = delivered(self.program, self.spec, self.unit, blobs)
        appending = AppendWriter(self.program, self.spec, self.token, self.store)
        self.rejecting = RejectWriter(self.program, self.spec, self.token, self.store)
        self.refused = (self.rejecting.own or FIRST) if self.spec.careful else None
        spreading = SpreadTaker(self.job)
        observing = ObserveTaker(self.job)
        blobs = self.rejecting.take(appending.take(delivery.blobs))
        tables = _tables(observing.take(spreading.take(blobs)))
        self._check_rows(tables, delivery)
        self._lap("receive")
        history = CommitHistory.open(
            self.store,
            self.program.module,
            self.program.topology,
            self.spec.committed,
            self.spec.timeline,
        )
        self._look_up_mirrors(tables)
        with Sessions(self.program, self.spec, history, self.token) as sessions:
            sessions.open_all(self._needed())
            self._lap("open")
            for terminal in self.job.terminals:
                if isinstance(terminal, LookupTerminal) and terminal.tag not in self.emitted:
                    self._execute(terminal, tables, sessions)
            for terminal in self.job.terminals:
                if not isinstance(terminal, LookupTerminal | ChangesTerminal):
                    self._execute(terminal, tables, sessions)
            for terminal in self.job.terminals:
                if isinstance(terminal, ChangesTerminal):
                    self._execute(terminal, tables, sessions)
            self._lap("apply")
            checkpoints = self._checkpoints(sessions)
            self._lap("checkpoint")
            changed = self._commit(sessions)
            self._lap("write")
            opened, logs_applied = sessions.opened, sessions.logs_applied
            migrated = sessions.migrated
            shared = self.program.folders.identity is not None
            vnode_bytes = sessions.vnode_bytes() if shared else {}
        logs = {name: self._log(name, parts) for name, parts in changed.items() if parts}
        self.received.update({tag: sum(map(len, each)) for tag, each in tables.items()})
        self.given.update({tag: rows.num_rows for tag, rows in self.emitted.items()})
        staged = [self._stage(tag, rows) for tag, rows in self.emitted.items() if rows.num_rows]
        staged += self._spread(spreading, history)
        appends = appending.write() + self.rejecting.write()
        self.received += observing.rows + appending.rows
        self.received[REJECTS] += self.rejecting.rows
        self.executed += appending.rows
        self._lap("log")
        return Manifest(
            token=self.token,
            unit=self.unit,
            logs=logs,
            checkpoints=checkpoints,
            staged=staged,
            appends=appends,
            opened=opened,
            logs_applied=logs_applied,
            migrated=migrated,
            worker=self.program.folders.worker,
            vnode_bytes=vnode_bytes,
            timings_ms=self.timings,
            watermarks=observing.watermarks(),
            dropped=observing.dropped(),
            agenda=self.agenda,
            rows=sum(rows for tag, rows in self.received.items() if tag not in observing.rows),
            accounts=ActorAccounts(
                delivery.alone,
                delivery.tasks,
                delivery.told,
                self.received,
                self.executed,
                self.given,
                self.aside,
                {name: sum(len(keys) for _, keys, _ in parts) for name, parts in changed.items()},
            ),
        )

    def _spread(self, spreading: SpreadTaker, history: CommitHistory) -> list[StagedFile]:
        """Stage the rows that any actor may take, each task's in a file of its own."""
        staged = []
        for tag, at, taken in spreading.tables():
            made = self._answered(tag, taken, history)
            self.received[tag] += taken.num_rows
            self.executed[tag] += taken.num_rows
            self.given[tag] += made.num_rows
            staged += [self._stage(tag, made, at)] if made.num_rows else []
        return staged

    def _check_rows(self, tables: dict[int, list[pa.Table]], delivery: Delivery) -> None:
        """Hold that all rows came out of the blobs, and that their vnodes are the actor's own.

        Raises:
            AccountsError: When a row was lost, or sent to the wrong actor.
        """
        for tag, parts in tables.items():
            terminal = self.job.terminal(tag)
            rows = sum(map(len, parts))
            units = mapping_of(self.program, terminal).units
            columns = [part.column(VNODE) for part in parts]
            self.vnodes[tag] = {v for each in columns for v in each.unique().to_pylist()}
            wrong = [v for v in self.vnodes[tag] if v >= len(units) or units[v] != self.unit]
            if rows != delivery.rows[tag]:
                fault = Fault("rows came out of the blobs", delivery.rows[tag], rows)
            elif wrong:
                strays = sum(pc.sum(pc.is_in(e, pa.array(wrong, e.type))).as_py() for e in columns)
                fault = Fault(f"rows of the vnodes {sorted(wrong)} of others came", 0, strays)
            else:
                continue
            refuse(self.spec.job, [fault._replace(step=terminal.label, unit=self.unit)])

    def _needed(self) -> dict[str, set[int]]:
        """The vnodes to open, by PState."""
        needed: dict[str, set[int]] = defaultdict(set)
        for terminal in self.job.terminals:
            vnodes = self.vnodes.get(terminal.tag, set())
            match terminal:
                case LookupTerminal(pstate=name) if name in self.program.mirrors:
                    pass
                case (
                    AggregateTerminal(pstate=name)
                    | LookupTerminal(pstate=name)
                    | JoinSideTerminal(pstate=name)
                ):
                    needed[name] |= vnodes
                case ProcessTerminal(pstates=names, timers=timers):
                    for name in names:
                        needed[name] |= vnodes if timers is None else vnodes | self._due(timers)
                case WindowTerminal(pstate=ends, pstates=names):
                    for name in names:
                        needed[name] |= vnodes | self._due(ends)
                case ChangesTerminal(pstate=name):
                    owned = set(self.program.owned(name, self.unit))
                    needed[name] |= owned & self.spec.prior_vnodes.get(name, frozenset())
        for name, due in (*self.spec.checkpoint_vnodes.items(), *self.spec.migrate_vnodes.items()):
            needed[name] |= set(self.program.owned(name, self.unit)) & set(due)
        return needed

    def _look_up_mirrors(self, tables: dict[int, list[pa.Table]]) -> None:
        """Before a store is open for writing.

        Two topologies that mirror each other must not wait for each other's stores.
        """
        for terminal in self.job.terminals:
            if isinstance(terminal, LookupTerminal) and terminal.pstate in self.program.mirrors:
                rows = tables.get(terminal.tag)
                if rows:
                    with locating(self.program, self.spec), terminal.blamed():
                        vnode_of = self.mirrors.view(terminal.pstate).vnode
                        self.emitted[terminal.tag] = lookup.look_up(terminal, rows, vnode_of)
                    self.executed[terminal.tag] += sum(map(len, rows))

    def _execute(
        self, terminal: Terminal, tables: dict[int, list[pa.Table]], sessions: Sessions
    ) -> None:
        rows = tables.get(terminal.tag, [])
        if isinstance(terminal, JoinSideTerminal) and not isinstance(terminal, JoinTerminal):
            return  # the join takes them
        known = 0 if self.rejecting.own is None else self.rejecting.own.counts.taken
        with locating(self.program, self.spec), terminal.blamed():
            if isinstance(terminal, JoinTerminal):
                others = tables.get(terminal.right.tag, [])
                self.executed[terminal.right.tag] += sum(map(len, others))
                self.emitted[terminal.tag] = incremental_join.run(
                    terminal,
                    rows,
                    others,
                    self.spec.id,
                    lambda vnode: sessions.get(terminal.pstate, vnode),
                )
            else:
                self._run(terminal, rows, sessions)
        if not isinstance(terminal, ProcessTerminal):  # which counts its calls
            self.executed[terminal.tag] += sum(map(len, rows))
        if self.rejecting.own is not None:
            self.aside[terminal.tag] += self.rejecting.own.counts.taken - known

    def _run(self, terminal: Terminal, rows: list[pa.Table], sessions: Sessions) -> None:
        match terminal:
            case ChangesTerminal(pstate=name):
                self.emitted[terminal.tag] = changes.changes(
                    terminal, sessions.of(name), functools.partial(sessions.converter, name)
                )
            case FoldTerminal(fires=True) if not rows and self._first():
                self.emitted[terminal.tag] = fold.no_rows(terminal)
            case LiveSessionsTerminal():
                if rows:
                    sessions_merge.merge(terminal, rows, sessions.get)
            case WindowTerminal(pstate=name):
                due = self._due(name)
                out, self.agenda[name] = windows.run(
                    terminal, rows, self.spec.times, due, sessions.get, self.refused
                )
                self.emitted[terminal.tag] = out
            case ProcessTerminal(timers=str(name)):
                firing = Firing(self.spec.times.of(terminal.clock), self._due(name))
                self._process(terminal, rows, sessions, firing)
                self.agenda[name] = firing.agenda
            case _ if rows:
                self._run_rows(terminal, rows, sessions)

    def _run_rows(self, terminal: Terminal, rows: list[pa.Table], sessions: Sessions) -> None:
        """A step that does nothing without rows."""
        match terminal:
            case FoldTerminal():
                self.emitted[terminal.tag] = fold.fold_rows(terminal, rows, self.refused)
            case LookupTerminal(pstate=name):
                self.emitted[terminal.tag] = lookup.look_up(
                    terminal, rows, lambda vnode: sessions.get(name, vnode)
                )
            case FirstSeenTerminal(pstate=name):
                self.emitted[terminal.tag] = first_seen(
                    terminal, rows, lambda vnode: sessions.get(name, vnode), self.refused
                )
            case AggregateTerminal(pstate=name):
                aggregate.fold(
                    terminal, rows, lambda vnode: sessions.get(name, vnode), self.refused
                )
            case ProcessTerminal():
                self._process(terminal, rows, sessions)

    def _process(
        self,
        terminal: ProcessTerminal,
        rows: list[pa.Table],
        sessions: Sessions,
        firing: Firing | None = None,
    ) -> None:
        out = process.process(
            terminal,
            rows,
            self.program,
            sessions.get,
            self.rejecting.own,
            self.spec.flush_entries_max,
            firing,
            self.executed,
        )
        if out is not None:
            self.emitted[terminal.tag] = out

    def _due(self, pstate: str) -> set[int]:
        """The vnodes of its own in which something is due."""
        due = self.spec.due.get(pstate)
        return set(due).intersection(self.program.owned(pstate, self.unit)) if due else set()

    def _answered(self, tag: int, rows: pa.Table, history: CommitHistory) -> pa.Table:
        """What a step makes of rows that any actor may take: themselves, or with answers.

        No store is open then, so that who reads what others write waits for none of them.
        """
        terminal = self.job.terminal(tag)
        if not isinstance(terminal, AskTerminal):
            return rows
        stores = module_stores(str(self.program.local), self.program.module)

        def view(pstate: str) -> PStateView:
            spec = self.program.pstates.get(pstate)
            if spec is None:
                return self.mirrors.view(pstate)
            return PStateView(stores, pstate, spec.vnode_count, history, spec)

        reading = Reading(terminal.queries, view, math.inf)
        with locating(self.program, self.spec), terminal.blamed():
            return answered(terminal, rows, reading)

    def _first(self) -> bool:
        """Whether what has no key belongs to this actor."""
        return self.unit == fold.group_mapping(self.program.units).units[0]

    def _checkpoints(self, sessions: Sessions) -> dict[str, CheckpointFile]:
        """Write the whole state of the vnodes that are due, as it will be after this job."""
        written = {}
        for name, due in self.spec.checkpoint_vnodes.items():
            vnodes = sorted(set(self.program.owned(name, self.unit)) & set(due))
            if vnodes:  # one vnode's entries after the other's, not all in memory at once
                parts = ((vnode, *sessions.get(name, vnode).dump()) for vnode in vnodes)
                file = write_change_file(self.store, self._file("checkpoints", name), parts)
                written[name] = CheckpointFile(file, vnodes, [self.spec.id] * len(vnodes))
        return written

    def _commit(self, sessions: Sessions) -> dict[str, list[Part]]:
        """Commit every store's transaction; what changed, by PState and vnode."""
        changed: dict[str, list[Part]] = {}
        for name in sessions.pstates():
            parts = changed.setdefault(name, [])
            for vnode, session in sessions.of(name).items():
                result = session.commit()
                if result.keys:
                    parts.append((vnode, result.keys, result.values))
        return changed

    def _log(self, name: str, parts: list[Part]) -> LogFile:
        file = write_change_file(self.store, self._file("logs", name), parts)
        return LogFile(file, [vnode for vnode, _, _ in parts])

    def _stage(self, tag: int, rows: pa.Table, sequence: int | None = None) -> StagedFile:
        folder = staging_folder(self.program.module, self.program.topology, self.spec.id)
        part = "" if sequence is None else f"-{sequence}"
        name = f"{folder}/{self.prefix}-{tag}{part}.arrow"
        return StagedFile(tag, stage(self.program.root, name, rows), sequence)

    def _file(self, folder: str, pstate: str) -> str:
        return (
            f"{self.program.module}/{self.program.topology}/{folder}/{pstate}/{self.prefix}.arrow"
        )

    def _lap(self, name: str) -> None:
        now = time.perf_counter()
        self.timings[name] = (now - self._clock) * 1000.0
        self._clock = now


def _tables(blobs: Iterable[Blob]) -> dict[int, list[pa.Table]]:
    """The rows by terminal, in the order of the tasks that packed them."""
    by_tag: dict[int, list[tuple[int, pa.Table]]] = defaultdict(list)
    for tag, sequence, payload in blobs:
        rows = fetch(payload) if isinstance(payload, str) else payload
        by_tag[tag].append((sequence, unpack(rows)))
    return {
        tag: [table for _, table in sorted(parts, key=lambda part: part[0])]
        for tag, parts in by_tag.items()
    }
