"""A topology in miniature: real depot, plans, commits, logs and checkpoints, nothing else.

One life of it opens what is there, appends and runs microbatches by the protocol of the real
engine, one call after the other. So the storage layer is driven through everything that it is
asked for, in milliseconds, and what each step promised is known exactly.

The state chains a checksum per key: a record lost, doubled, torn or out of order changes it.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec, HashBy, Retention
from atoll.depot.partitioner import Placer
from atoll.microbatch.commits.history import (
    CommitHistory,
    commit_objects,
    plan_objects,
    read_commit,
)
from atoll.microbatch.commits.objects import (
    GENESIS,
    CheckpointFile,
    Commit,
    LogFile,
    Plan,
    PStateCommit,
    decode_plan,
    encode,
    pack_ids,
)
from atoll.microbatch.commits.tidy import drop_below
from atoll.microbatch.epochs import claim_epoch
from atoll.microbatch.plans.planning import lost_records
from atoll.pstate.store.changefile import read_vnode, write_change_file
from atoll.storage import LocalStore, ObjectExistsError

__all__ = ["Ledger", "Life", "rows_of", "spec"]

MODULE, TOPOLOGY, PSTATE = "m", "t", "sums"
VNODES = 2
_CHECKPOINT_EVERY = 3
_STATE = struct.Struct("<QI")

Mark = Callable[[str, Any], None]


def spec() -> DepotSpec:
    """A depot whose segments hold a few appends."""
    made = DepotSpec(
        "d",
        parse_ddl("k string, append long, n long, count long"),
        2,
        HashBy("k"),
        retention=Retention(records_max=40),
    )
    object.__setattr__(made, "segment_bytes_max", 9000)  # less than may be declared
    return made


def rows_of(append: int, count: int) -> list[dict[str, Any]]:
    """The records of one append; each knows how many belong together."""
    return [{"k": f"key-{n % 5}", "append": append, "n": n, "count": count} for n in range(count)]


def _fold(state: dict[str, bytes], rows: Iterable[dict[str, Any]]) -> dict[str, bytes]:
    """The state after the rows: per key a count, and a checksum chained over all its records."""
    for row in rows:
        count, chain = _STATE.unpack(state.get(row["k"], bytes(_STATE.size)))
        text = f"{row['append']}/{row['n']}".encode()
        state[row["k"]] = _STATE.pack(count + 1, zlib.crc32(text, chain))
    return state


def _vnode(key: str) -> int:
    return zlib.crc32(key.encode()) % VNODES


class Life:
    """One life of the miniature, from recovery on.

    Args:
        root: The root folder.
        mark: Told what was promised: ``begun``, ``acked`` and ``published``.
    """

    def __init__(self, root: Path, mark: Mark = lambda *_: None) -> None:
        self.root = root
        self.mark = mark
        self.files = 0
        self.store = LocalStore(root)
        self.epoch = claim_epoch(self.store, MODULE)
        folder = root / MODULE / "d"
        self.depot = Depot(folder, spec(), self.epoch.number, self.epoch.check)
        self.plans = plan_objects(self.store, MODULE, TOPOLOGY)
        self.commits = commit_objects(self.store, MODULE, TOPOLOGY)
        self.last: Commit = GENESIS
        latest = self.commits.latest()
        if latest is not None:
            self.commits.settle(latest)
            self.last = read_commit(self.store, MODULE, TOPOLOGY, latest)
        lost = self.last.id and lost_records(
            self.last.ends(), {"d": list(self.depot.end_offsets())}
        )
        if lost:
            self.depot.close()
            raise lost
        self.state = self.stored_state()
        mark("published", self.last.id)

    def close(self) -> None:
        """End."""
        self.depot.close()

    def append(self, append: int, count: int, *, streamed: bool = False) -> None:
        """One append, acknowledged."""
        self.mark("begun", (append, count))
        rows = rows_of(append, count)
        if streamed:
            chunks = [rows[at : at + 50] for at in range(0, count, 50)]
            done = self.depot.append_stream(self.depot.codec.from_rows(each) for each in chunks)
        else:
            done = self.depot.append(rows)
        self.mark("acked", (append, count, done.offsets))

    def append_together(self, appends: Iterable[int], count: int) -> None:
        """Several appends at once: they share a group commit as they come."""
        threads = [threading.Thread(target=self.append, args=(each, count)) for each in appends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stored_state(self) -> dict[str, bytes]:
        """The state as of the last commit, from checkpoint and logs alone."""
        found: dict[str, bytes] = {}
        history = CommitHistory(self.store, MODULE, TOPOLOGY, self.last)
        for vnode in range(VNODES if self.last.id else 0):
            known = history.rebuild(PSTATE, vnode)
            files = [known.checkpoint] if known.checkpoint else []
            for ref in (*files, *(ref for _, ref in known.logs)):
                keys, values = read_vnode(history, ref, vnode)
                found |= {
                    key.decode(): value or b"" for key, value in zip(keys, values, strict=True)
                }
        return found

    def microbatch(self) -> None:
        """Plan, attempt, commit, publish, tidy."""
        number = self.last.id + 1
        plan = self._plan(number)
        state = dict(self.state)
        for partition, (start, end) in enumerate(plan.ranges["d"]):
            _fold(state, self.depot.read(partition, start, end).to_pylist())
        changed = {key: value for key, value in state.items() if self.state.get(key) != value}
        part = PStateCommit(
            pack_ids([number] * VNODES),
            [[LogFile(self._file(f"logs/{number:020d}", changed), list(range(VNODES)))]],
            self._checkpoints(number, state),
        )
        floor = number if part.checkpoints else self.last.floor
        commit = Commit(
            number, 1, self.epoch.number, 0, plan.ranges, plan.records,
            self.last.processed + plan.records, [], {PSTATE: part}, floor,
        )  # fmt: skip
        try:
            self.commits.create(number, encode(commit))
        except ObjectExistsError:  # made by a try that was refused after its link
            self.commits.settle(number)
            commit = read_commit(self.store, MODULE, TOPOLOGY, number)
        before, self.last, self.state = self.last, commit, state
        self.mark("published", number)
        drop_below(self.store, MODULE, TOPOLOGY, before.floor, commit)
        self.depot.trim([end for _, end in plan.ranges["d"]])

    def _plan(self, number: int) -> Plan:
        ends = self.last.ends().get("d", [0, 0])
        ranges = [list(pair) for pair in zip(ends, self.depot.end_offsets(), strict=True)]
        plan = Plan(number, self.epoch.number, 0, {"d": [(low, high) for low, high in ranges]}, {})
        with contextlib.suppress(ObjectExistsError):
            self.plans.create(number, encode(plan))
            return plan
        self.plans.settle(number)
        return decode_plan(self.plans.read(number))

    def _file(self, name: str, changed: dict[str, bytes]) -> Any:
        parts = []
        for vnode in range(VNODES):
            keys = sorted(key for key in changed if _vnode(key) == vnode)
            parts.append((vnode, [key.encode() for key in keys], [changed[key] for key in keys]))
        self.files += 1
        unique = f"{MODULE}/{TOPOLOGY}/{name}-{self.epoch.number}-{self.files}.arrow"
        return write_change_file(self.store, unique, parts)

    def _checkpoints(self, number: int, state: dict[str, bytes]) -> list[CheckpointFile]:
        if number % _CHECKPOINT_EVERY:
            return []
        file = self._file(f"checkpoints/{number:020d}", state)
        return [CheckpointFile(file, list(range(VNODES)), [number] * VNODES)]


class Ledger:
    """What was promised, and the check of a life against it.

    Args:
        begun: (append, count) of every append that was begun.
        acked: (append, count, offsets) of those acknowledged.
        published: The ids of the commits published.
    """

    def __init__(
        self, begun: Iterable[Any], acked: Iterable[Any], published: Iterable[Any]
    ) -> None:
        self.begun = list(begun)
        self.acked = list(acked)
        self.published = list(published)
        self.lossy = False

    def mark(self, what: str, value: Any) -> None:
        """Take in what a life promises."""
        getattr(self, what).append(value)

    def check(self, life: Life, *, lossy: bool = False) -> None:
        """Everything promised is there once and in order, nothing is torn, the state is right.

        With ``lossy`` promises may be broken (the disk lied), but all that is served must be
        right: whole appends, and the state that follows from the records.
        """
        self.lossy = lossy
        assert lossy or life.last.id >= max(self.published, default=0), "a commit is gone"
        numbers = life.commits.numbers(life.last.floor)
        assert numbers == list(range(max(1, life.last.floor), life.last.id + 1))
        found = self._records(life)
        state: dict[str, bytes] = {}
        for partition, end in enumerate(life.last.ends().get("d", [0, 0])):
            _fold(state, (found[partition][offset] for offset in range(end)))
        assert life.stored_state() == state, "the state is not the fold of the records"

    def _records(self, life: Life) -> list[dict[int, dict[str, Any]]]:
        """By partition and offset every record there ever was."""
        known: list[dict[int, dict[str, Any]]] = [{}, {}]
        acked = set() if self.lossy else {append for append, _, _ in self.acked}
        starts, ends = life.depot.start_offsets(), life.depot.end_offsets()
        others: dict[int, list[dict[str, Any]]] = defaultdict(list)
        places: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for partition in (0, 1):
            rows = life.depot.read(partition, starts[partition], ends[partition]).to_pylist()
            for offset, row in enumerate(rows, starts[partition]):
                known[partition][offset] = row
                places[row["append"]][partition].append(offset)
                if row["append"] not in acked:
                    others[row["append"]].append(row)
        for append, rows in others.items():
            if self.lossy and any(starts):
                continue  # a part of it may have been trimmed
            assert (append, len(rows)) in self.begun, f"append {append} is torn or doubled"
            assert sorted(row["n"] for row in rows) == list(range(len(rows)))
        for append, count, offsets in self.acked:
            if self.lossy:
                self._fill_in(append, count, offsets, known, starts)
                continue
            self._check_acked(append, count, offsets, known, starts)
            for partition, (low, high) in offsets.items():
                there = range(max(low, starts[partition]), high)
                assert places[append][partition] == list(there), f"append {append} is elsewhere"
        return known

    def _fill_in(
        self, append: int, count: int, offsets: Any, known: Any, starts: tuple[int, ...]
    ) -> None:
        """What was trimmed, as it was when it was acknowledged."""
        for partition, (low, _) in offsets.items():
            mine = [row for row in rows_of(append, count) if row["k"] in _KEYS[partition]]
            for offset, row in enumerate(mine, low):
                if offset < starts[partition]:
                    known[partition][offset] = row

    def _check_acked(
        self, append: int, count: int, offsets: Any, known: Any, starts: tuple[int, ...]
    ) -> None:
        """Acknowledged records stand where the answer said; trimmed ones are filled in."""
        for partition, (low, high) in offsets.items():
            mine = [row for row in rows_of(append, count) if row["k"] in _KEYS[partition]]
            assert len(mine) == high - low
            for offset, row in enumerate(mine, low):
                if offset < starts[partition]:
                    known[partition][offset] = row
                found = known[partition].get(offset)
                assert found == row, f"append {append} is gone or changed"


def _keys_of_partitions() -> dict[int, set[str]]:
    """Which keys a depot partition gets."""
    about = spec()
    batch = RecordCodec(about.schema).from_rows(rows_of(0, 5)).batch
    parts = Placer(about.partitioner, about.schema, 2, "d").divide(batch)
    return {partition: set(part.column("k").to_pylist()) for partition, part in parts}


_KEYS = _keys_of_partitions()
