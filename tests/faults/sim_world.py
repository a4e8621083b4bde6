"""A deterministic simulation: several coordinators, one faulty store, one seed.

Everything that decides is the real code: ``decide``, ``Actions``, plans and commits, checkpoints,
tidying, timelines, the opening of vnode stores. What is simulated is the world around it: which
process runs when, what the store does to an operation (refuses it, loses the reply, lets others
go on in between, kills the process before or after it), tasks that fail, run twice or run late,
local stores that vanish. All choices come from one random generator, and nothing runs at the same
time, so a seed always gives the same trace.

A process that is stopped in the middle of an operation, while others run, is simulated by letting
the others run inside that operation: so a coordinator may sleep through several commits of another
one between looking at the epoch and creating its own commit.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import struct
from pathlib import Path

from atoll.errors import AtollError, StorageError
from atoll.microbatch.commits.history import CommitHistory, latest_commit, read_commit
from atoll.microbatch.commits.progress import standing_commits
from atoll.microbatch.commits.tidy import files_of
from atoll.pstate.store.environment import EnvironmentCache
from atoll.pstate.store.stores import VnodeStores
from atoll.pstate.view import PStateView
from atoll.storage.local import LocalStore
from atoll.storage.numbered import number_name

MODULE, TOPOLOGY, PSTATE, DEPOT = "m", "t", "sums", "d"
VNODES, UNITS, PARTITIONS, KEYS = 3, 2, 2, 7
VALUE = struct.Struct("<qqq")
_NEST_MAX = 2
_START_CHANCE = 0.01
_OTHERS_MAX = 2


class Crash(BaseException):
    """The process dies here."""


class Violation(BaseException):
    """Something that must always hold does not."""


def record_bytes(amount):
    """How many bytes a record of an amount takes."""
    return 1 + abs(amount)


class Faults:
    """How likely each fault is; all zero in the quiet end."""

    def __init__(self, rng: random.Random) -> None:
        level = rng.choice([0.0, 0.5, 1.0, 2.0])
        self.refuse = 0.005 * level
        self.lose_reply = 0.02 * level
        self.crash = 0.003 * level
        self.nest = rng.choice([0.0, 0.02, 0.06])
        self.task = 0.05 * level
        self.twin = rng.choice([0.0, 0.1])
        self.late = rng.choice([0.0, 0.1])
        self.vanish = rng.choice([0.0, 0.05])

    def stop(self) -> None:
        """From now on the world is well."""
        for name in vars(self):
            setattr(self, name, 0.0)


class SimStore(LocalStore):
    """A store as one process sees it: each operation may fail, lose its reply, or be slept in."""

    def __init__(self, world: World, owner: str) -> None:
        super().__init__(world.root)
        self.world = world
        self.owner = owner

    def create(self, name, data):
        """Create if absent; the reply may be lost."""
        with self.world.around(self.owner, "create", name):
            super().create(name, data)

    def write(self, name, data):
        """Write a file of a unique name; the reply may be lost."""
        with self.world.around(self.owner, "write", name):
            super().write(name, data)

    def read(self, name):
        """Read, or be refused."""
        with self.world.around(self.owner, "read", name):
            return super().read(name)

    def exists(self, name):
        """Look, perhaps after a sleep."""
        self.world.asleep(self.owner)
        return super().exists(name)

    def delete(self, name):
        """Delete, or be refused."""
        with self.world.around(self.owner, "delete", name):
            super().delete(name)


class SimDepot:
    """A depot partition is a list of (key, amount)."""

    def __init__(self) -> None:
        self.records = [[] for _ in range(PARTITIONS)]

    def start_offsets(self):
        """Nothing is ever trimmed."""
        return (0,) * PARTITIONS

    def end_offsets(self):
        """What was appended so far."""
        return tuple(len(each) for each in self.records)

    def sizes(self, partition, start, end, enough):
        """Each record is a run of its own, of as many bytes as its amount."""
        amounts = (amount for _, amount in self.records[partition][start:end])
        return [(start + at, record_bytes(amount)) for at, amount in enumerate(amounts, 1)]


class World:
    """Everything outside the processes, and the one generator that decides."""

    def __init__(self, seed: int, root: Path) -> None:
        self.rng = random.Random(seed)
        self.root = root
        self.faults = Faults(self.rng)
        self.depot = SimDepot()
        self.processes = []
        self.late = []
        self.trace = hashlib.sha256()
        self.steps = 0
        self.now_ms = 0
        self.depth = 0
        self.tickets = 0
        self.quiet = False
        self.counts = dict.fromkeys(
            ("refused", "lost", "crashes", "slept", "twins", "late", "task", "vanished",
             "fenced", "adopted", "rollbacks", "placements", "commits", "lives", "checks",
             "too large", "cut", "cut commits", "read back", "read on", "dropped",
             "ahead", "ahead in vain"), 0
        )  # fmt: skip
        self.sizing = random.Random(f"sizes of {seed}")
        self.room = self.sizing.choice([None, 300, 150, 60])
        """How many bytes of records an attempt has memory for; one record always fits."""
        self.ranges = {}
        """By (timeline, id): by revision, the ranges of the first attempt; every other one at the
        revision must read those, and a later revision fewer."""
        self.committed = {}
        """By (timeline, id): (epoch, tokens) as first seen published."""
        self.delivered = {}
        """By (timeline, id): how many rows the target depot took, once."""
        self.begin_life = None
        """Starts another process; set by whoever runs the world."""
        self.environments = EnvironmentCache(open_max=64, map_bytes=1 << 20)
        self.stores = VnodeStores(root / "local" / "state" / MODULE, environments=self.environments)
        self.pipeline = random.Random(f"pipeline of {seed}").randrange(2)
        """Whether microbatches are read ahead."""
        self.keeping = random.Random(f"history of {seed}")
        self.ended = {}
        """By (timeline, id): when a commit of that timeline took the place of the one before."""
        self.slow = []
        """The histories of readers that began at the last commit and read on and on."""

    @property
    def steady_ms(self):
        """A clock that only goes forward; a microbatch takes a few steps of it."""
        return self.now_ms * 50

    # Faults of operations -----------------------------------------------------------------------

    @contextlib.contextmanager
    def around(self, owner, what, name):
        """One operation of the store: what may happen before and after it."""
        self.asleep(owner)
        self.chance_of_crash(owner)
        if self.rng.random() < self.faults.refuse:
            self.counts["refused"] += 1
            self.note(owner, "refused", what)
            raise StorageError("the disk refused: simulated", file=name)
        yield
        self.chance_of_crash(owner)
        if what in ("create", "write") and self.rng.random() < self.faults.lose_reply:
            self.counts["lost"] += 1
            self.note(owner, "reply lost", what)
            raise StorageError("the reply was lost: simulated", file=name)

    def asleep(self, owner):
        """Perhaps the process is stopped here while others go on for a while."""
        if self.depth >= _NEST_MAX or self.rng.random() >= self.faults.nest:
            return
        self.counts["slept"] += 1
        self.note(owner, "sleeps", "")
        self.depth += 1
        try:
            for _ in range(self.rng.choice([1, 3, 10, 30])):
                self._step_another(owner)
        finally:
            self.depth -= 1
        self.note(owner, "wakes", "")

    def _step_another(self, owner):
        """A step of a process that is not stopped; perhaps one that has just been started."""
        others = [each for each in self.processes if each.alive and not each.busy]
        if self.rng.random() < _START_CHANCE and len(others) < _OTHERS_MAX:
            others.append(self.begin_life())
        if not others:
            return
        other = self.rng.choice(others)
        if other.alive and other.owner != owner:
            other.step()

    def chance_of_crash(self, owner):
        """Perhaps the process dies here."""
        if self.rng.random() < self.faults.crash:
            self.note(owner, "crashes", "")
            raise Crash

    def ticket(self):
        """A number for a request, higher than all before."""
        self.tickets += 1
        return self.tickets

    def note(self, *what):
        """One line of the trace."""
        self.trace.update(repr((self.steps, *what)).encode())

    # What must hold -----------------------------------------------------------------------------

    def check_plan(self, timeline, plan):
        """Every attempt at a revision reads the same records, at a later one fewer of them."""
        known = self.ranges.setdefault((timeline, plan.id), {})
        first = known.setdefault(plan.revision, plan.ranges)
        _hold(first == plan.ranges, f"attempts at {plan.id} read {first} and {plan.ranges}")
        for revision, ranges in known.items():
            less, more = sorted([(revision, ranges), (plan.revision, plan.ranges)], reverse=True)
            fits = less == more or (_within(less[1], more[1]) and _rows(less[1]) < _rows(more[1]))
            _hold(fits, f"revision {less} of plan {plan.id} is no beginning of {more}")

    def check_ahead(self, before, guess):
        """What is read ahead begins where the attempt before it ended, and is there."""
        follows = (guess.timeline, guess.id) == (before.timeline, before.id + 1)
        _hold(follows, f"{guess.id} is read ahead after {before.id}")
        parts = zip(before.ranges[DEPOT], guess.ranges[DEPOT], self.depot.records, strict=True)
        for (_, done), (start, end), records in parts:
            _hold(done == start <= end <= len(records), f"{start} to {end} ahead after {done}")

    def check_published(self, commit, before):
        """A commit that a process publishes is the only one of its id, and follows the last."""
        newer = self.root / MODULE / TOPOLOGY / "timelines" / number_name(commit.timeline + 1)
        _hold(not newer.exists(), f"{commit.id} is published on a timeline that has ended")
        stored = read_commit(LocalStore(self.root), MODULE, TOPOLOGY, commit.id)
        _hold(stored == commit, f"what is published as {commit.id} is not the commit object")
        key = (commit.timeline, commit.id)
        first = self.committed.setdefault(key, (commit.epoch, tuple(commit.tokens)))
        _hold(first == (commit.epoch, tuple(commit.tokens)), f"two commits {key}")
        _hold(commit.id == before.id + 1, f"commit {commit.id} follows {before.id}")
        ran = self.ranges[key][commit.revision]
        _hold(ran == commit.ranges, f"commit {commit.id} names {commit.ranges}, but ran {ran}")
        self.counts["cut commits"] += commit.revision > 0
        if before.id:
            for (_, end), (start, _) in zip(
                before.ranges[DEPOT], commit.ranges[DEPOT], strict=True
            ):
                _hold(start == end, f"commit {commit.id} starts at {start}, not {end}")

    def check_kept(self, commit, before, span_ms):
        """What a commit gives up had not been the last one for as long as the options say."""
        self.ended.setdefault((commit.timeline, commit.id - 1), self.steady_ms)
        for number in range(before.readable_from, commit.horizon):
            self.counts["dropped"] += 1
            ended = [self.ended.get((t, number), 0) for t in range(commit.timeline + 1)]
            age = self.steady_ms - max(ended)
            _hold(age >= span_ms, f"{commit.id} gives up {number} after {age} of {span_ms} ms")

    def check_readable(self):
        """What the last commit says can be read is there: for readers who come, and who stay."""
        store = LocalStore(self.root)
        head = latest_commit(store, MODULE, TOPOLOGY)
        history = CommitHistory(store, MODULE, TOPOLOGY, head)
        for number in {head.readable_from, self.keeping.randint(head.readable_from, head.id)}:
            self.counts["read back"] += number < head.id
            self._check_read(history.as_of(number))
        self.slow = [each for each in self.slow if _still_readable(each, history)]
        if self.slow:
            reader = self.keeping.choice(self.slow)
            self.counts["read on"] += reader.commit.floor < head.floor
            self._check_read(reader)
        self.slow.append(CommitHistory(store, MODULE, TOPOLOGY, head))

    def check_state(self, store, commit):
        """What readers see as of a commit is the fold of its records, by another code."""
        self._check_read(CommitHistory(store, MODULE, TOPOLOGY, commit))

    def _check_read(self, history):
        self.counts["checks"] += 1
        expected, commit = {}, history.commit
        ranges = commit.ranges.get(DEPOT, [(0, 0)] * PARTITIONS)
        for records, (_, end) in zip(self.depot.records, ranges, strict=True):
            for key, amount in records[:end]:
                for target, delta in ((key, amount), ((key * 3 + 1) % KEYS, 1)):
                    total, count = expected.get(target, (0, 0))
                    expected[target] = (total + delta, count + 1)
        view = PStateView(self.stores, PSTATE, VNODES, history)
        try:
            entries = [each for vnode in range(VNODES) for each in view.scan(vnode)]
        except AtollError as error:
            message = f"{commit.id} cannot be read: {error!r}"
            raise Violation(message) from error
        found = {key[0]: VALUE.unpack(value)[:2] for key, value in entries}
        _hold(found == expected, f"as of commit {commit.id}: {found} instead of {expected}")

    def check_end(self, store, last):
        """Every commit's rows were delivered once; nothing of failed attempts is left over."""
        commits = standing_commits(store, MODULE, TOPOLOGY, last)
        for commit in commits:
            rows = sum(each.file.rows for each in commit.appends)
            found = self.delivered.get((commit.timeline, commit.id), 0)
            _hold(rows == found, f"commit {commit.id} delivered {found} of {rows} rows")
        named = {name for commit in commits for name in files_of(commit)}
        missing = [name for name in named if "/" in name[8:] and not store.exists(name)]
        _hold(not missing, f"{missing} are named by commits, but missing")

    def deliver(self, commit):
        """The target depot, as an idempotent consumer of (timeline, id)."""
        self.chance_of_crash("delivery")
        if self.rng.random() < self.faults.refuse:
            raise StorageError("the target depot refused: simulated")
        rows = sum(each.file.rows for each in commit.appends)
        self.delivered.setdefault((commit.timeline, commit.id), rows)
        self.chance_of_crash("delivery")
        return {}


def _still_readable(reader, head):
    """Whether the last commit says that the one of a reader can be read."""
    shared = head.branch_since(reader.timeline)
    return reader.commit_id >= head.horizon and (shared is None or shared >= reader.commit_id)


def _within(less, more):
    """Whether ranges are the beginnings of others."""
    pairs = zip(less[DEPOT], more[DEPOT], strict=True)
    return all(one[0] == other[0] and one[1] <= other[1] for one, other in pairs)


def _rows(ranges):
    return sum(end - start for start, end in ranges[DEPOT])


def _hold(condition, message):
    if not condition:
        raise Violation(message)


def cleared(root: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return root
